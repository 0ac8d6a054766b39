//! The loops by which a thread drives its channels through an iteration, one per policy.
//!
//! Progress happens only inside `test`, and only for the comm of the tested request, so a
//! policy is a rule about which channel is tested when.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::{Channel, ChannelError};
use crate::plugin::Net;
use tcpx_words::progress::Policy;
use tcpx_words::side::Side;

/// Why an iteration ended before its last chunk.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A channel failed; its comm cannot be used any more.
    #[error("{side:?} channel {channel}: {error}")]
    Channel {
        /// Index within its direction.
        channel: usize,
        /// Its direction.
        side: Side,
        /// The channel's error.
        #[source]
        error: Box<ChannelError>,
    },
    /// [`Pace::stopped`] became true.
    #[error("stopped before the transfer was complete")]
    Stopped,
    /// A driving thread panicked, and its channels are lost.
    #[error("driving thread {thread} panicked")]
    Panicked {
        /// Its number, from 0.
        thread: usize,
    },
    /// A driving thread cannot be started.
    #[error("cannot start a driving thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Returns a function that adds the channel's name to its error.
pub(super) fn error_on(channel: &Channel) -> impl FnOnce(ChannelError) -> TransferError + use<> {
    let (index, side) = (channel.index(), channel.side());
    move |error| TransferError::Channel {
        channel: index,
        side,
        error: Box::new(error),
    }
}

/// Drives the channels of one thread until every chunk of the iteration is consumed.
pub(super) fn run_share(
    net: &dyn Net,
    channels: &mut [Channel],
    policy: Policy,
    pace: &mut dyn Pace,
) -> Result<(), TransferError> {
    match policy {
        // What distinguishes them is how many channels a thread has.
        Policy::Opportunistic | Policy::DedicatedThread => opportunistic(net, channels, pace),
        Policy::WindowFullOnly => window_full_only(net, channels, pace),
    }
}

fn opportunistic(
    net: &dyn Net,
    channels: &mut [Channel],
    pace: &mut dyn Pace,
) -> Result<(), TransferError> {
    let mut empty_sweeps = 0;
    loop {
        let (mut moved, mut finished) = (false, true);
        for channel in channels.iter_mut() {
            if channel.is_finished() {
                continue;
            }
            moved |= turn(net, channel, pace).map_err(error_on(channel))?;
            channel.note_finish(pace);
            finished &= channel.is_finished();
        }
        if finished {
            return Ok(());
        }
        empty_sweeps = if moved { 0 } else { empty_sweeps + 1 };
        rest(empty_sweeps, pace)?;
    }
}

/// Fills the channel's window, then drains it. A plugin can only batch requests that are
/// posted, so nothing is tested before the window is full. Returns whether a request
/// advanced.
pub(super) fn turn(
    net: &dyn Net,
    channel: &mut Channel,
    pace: &dyn Pace,
) -> Result<bool, ChannelError> {
    let mut moved = false;
    while channel.post(net)? {
        moved = true;
    }
    Ok(channel.drain(net, pace)? > 0 || moved)
}

/// Waits after sweeps without progress, unless the engine must stop.
pub(super) fn rest(empty_sweeps: u32, pace: &mut dyn Pace) -> Result<(), TransferError> {
    if empty_sweeps == 0 {
        return Ok(());
    }
    if pace.stopped() {
        return Err(TransferError::Stopped);
    }
    pace.idle(empty_sweeps);
    Ok(())
}

fn window_full_only(
    net: &dyn Net,
    channels: &mut [Channel],
    pace: &mut dyn Pace,
) -> Result<(), TransferError> {
    while channels.iter().any(|channel| !channel.has_posted_all()) {
        for channel in channels
            .iter_mut()
            .filter(|channel| !channel.has_posted_all())
        {
            let mut empty_sweeps = 0;
            while channel.is_full() {
                let moved = channel.drain_one(net, pace).map_err(error_on(channel))?;
                empty_sweeps = if moved { 0 } else { empty_sweeps + 1 };
                rest(empty_sweeps, pace)?;
            }
            if !channel.post(net).map_err(error_on(channel))? {
                rest(1, pace)?;
            }
        }
    }
    for channel in channels.iter_mut() {
        let mut empty_sweeps = 0;
        while !channel.is_finished() {
            let moved = channel.drain_one(net, pace).map_err(error_on(channel))?;
            empty_sweeps = if moved { 0 } else { empty_sweeps + 1 };
            rest(empty_sweeps, pace)?;
        }
        channel.note_finish(pace);
    }
    Ok(())
}
