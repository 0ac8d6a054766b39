//! Misbehaving on purpose: what the field's programs did wrong, on demand.
//!
//! The engine cannot break the plugin's order, because `Window` offers one
//! request per step. This module reaches past the window to the plugin, for one
//! channel, from one chunk on; everything before is the engine's own loop.
//! Nothing else may use `Channel::pieces`.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::{Channel, ChannelError};
use super::progress::{TransferError, of, turn};
use super::window::{SLOTS_MAX, Step};
use crate::plugin::{Comm, Net};
use tcpx_words::progress::DriverFault;
use tcpx_words::side::Side;

/// One driver fault: who, from when on, what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rogue {
    /// What to do wrong.
    pub kind: DriverFault,
    /// On channels of this side.
    pub side: Side,
    /// On which of them.
    pub channel: usize,
    /// After how many of its chunks were posted.
    pub after_chunk: u64,
}

impl Rogue {
    /// As `run_iteration` with the opportunistic policy, and with the fault.
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
                let rogue = chosen && channel.turn() >= self.after_chunk;
                let step = if rogue {
                    self.misbehave(net, channel, pace)
                } else {
                    turn(net, channel, pace)
                };
                moved |= step.map_err(of(channel))?;
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
                // One after the other, or the order would be what is refused.
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

/// A post that the window knows nothing of.
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
