//! Injects driver faults: mistakes that real programs made.
//!
//! The engine itself cannot break the plugin's order, because `Window` offers one request per
//! step. This module calls the plugin without the window, on one channel from one chunk on;
//! until then the channel is driven as usual. No other module may use `Channel::pieces`.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::{Channel, ChannelError};
use super::progress::{TransferError, error_on, turn};
use super::window::{SLOTS_MAX, Step};
use crate::plugin::{Comm, Net};
use tcpx_words::progress::DriverFault;
use tcpx_words::side::Side;

/// A driver fault: which, on which channel, from which chunk on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rogue {
    /// The fault.
    pub kind: DriverFault,
    /// Direction of the faulty channel.
    pub side: Side,
    /// Index of the faulty channel within its direction.
    pub channel: usize,
    /// Chunks of that channel that are posted before the fault begins.
    pub after_chunk: u64,
}

impl Rogue {
    /// Runs an iteration with the opportunistic policy and the fault.
    pub fn run_iteration(
        self,
        net: &dyn Net,
        channels: &mut [Channel],
        pace: &mut dyn Pace,
    ) -> Result<(), TransferError> {
        let mut empty_sweeps = 0;
        while channels.iter().any(|channel| !channel.is_finished()) {
            let mut moved = false;
            for channel in channels.iter_mut() {
                let chosen = channel.side() == self.side && channel.index() == self.channel;
                let step = if !chosen {
                    turn(net, channel, pace)
                } else if channel.turn() >= self.after_chunk {
                    self.misbehave(net, channel, pace)
                } else {
                    one_by_one(net, channel, pace)
                };
                moved |= step.map_err(error_on(channel))?;
            }
            empty_sweeps = if moved { 0 } else { empty_sweeps + 1 };
            if pace.stopped() {
                return Err(TransferError::Stopped);
            }
            if empty_sweeps > 0 {
                pace.idle(empty_sweeps);
            }
        }
        Ok(())
    }

    fn misbehave(
        self,
        net: &dyn Net,
        channel: &mut Channel,
        pace: &dyn Pace,
    ) -> Result<bool, ChannelError> {
        let posted = self.kind != DriverFault::NotPosting && channel.post(net)?;
        match self.kind {
            DriverFault::NotPosting => channel.drain_one(net, pace),
            DriverFault::NotPolling => Ok(posted),
            DriverFault::NeverConsumed => Ok(finish_only(net, channel)? || posted),
            DriverFault::YoungerTestedFirst => {
                let pieces = channel.pieces();
                match pieces.window.second_oldest() {
                    Some(younger) => net
                        .test(younger.request)
                        .map(|_| posted)
                        .map_err(ChannelError::from),
                    // A message that is there already would be done before a second is posted.
                    None if channel.can_post() => Ok(posted),
                    None => Ok(channel.drain_one(net, pace)? || posted),
                }
            }
            DriverFault::SeventeenthPost => {
                for _ in 0..=SLOTS_MAX {
                    one_more(net, channel)?;
                }
                Ok(posted)
            }
            DriverFault::ConsumedEarly => {
                // Consume the others first, or the plugin would refuse the order.
                channel.catch_up(net)?;
                let pieces = channel.pieces();
                if let (Comm::Recv(comm), Some(head)) = (pieces.end, pieces.window.to_test())
                    && net.test(head.request)?.done
                {
                    net.irecv_consumed(comm, head.request)?;
                    channel.take_too_late()?;
                    return Ok(true);
                }
                Ok(posted)
            }
        }
    }
}

/// Posts one chunk and finishes one: a whole turn may end the iteration before the fault begins.
fn one_by_one(net: &dyn Net, channel: &mut Channel, pace: &dyn Pace) -> Result<bool, ChannelError> {
    let posted = channel.post(net)?;
    Ok(channel.drain_one(net, pace)? || posted)
}

fn finish_only(net: &dyn Net, channel: &mut Channel) -> Result<bool, ChannelError> {
    let pieces = channel.pieces();
    let Some(head) = pieces.window.to_test() else {
        return Ok(false);
    };
    let done = net.test(head.request)?.done;
    if done {
        pieces.window.step(Step::Finish)?;
    }
    Ok(done)
}

/// Posts a request that the window does not track.
fn one_more(net: &dyn Net, channel: &mut Channel) -> Result<(), ChannelError> {
    let Some(span) = channel.any_span() else {
        return Ok(());
    };
    let pieces = channel.pieces();
    match pieces.end {
        Comm::Send(comm) => net.isend(comm, span, pieces.mhandle)?,
        Comm::Recv(comm) => net.irecv(comm, span, pieces.mhandle)?,
    };
    Ok(())
}
