//! One message there, one message back: the round trip, without a window.
//!
//! The end that leads sends a chunk and waits for one; the other waits and
//! answers. Both test whatever they wait for, since nothing moves otherwise.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::Channel;
use super::progress::{TransferError, of, rest};
use crate::plugin::Net;
use std::time::Duration;
use tcpx_words::side::Side;

/// Most round trips that are kept; later ones are made and not timed.
const KEPT_MAX: usize = 1 << 22;

/// Round trips of one end that leads, in nanoseconds.
#[derive(Debug, Default)]
pub struct RoundTrips(Vec<u32>);

impl RoundTrips {
    /// Room for so many more, so that keeping one never allocates.
    pub fn reserve(&mut self, more: u64) {
        let room = KEPT_MAX.saturating_sub(self.0.len());
        self.0
            .reserve(usize::try_from(more).unwrap_or(usize::MAX).min(room));
    }

    fn keep(&mut self, time: Duration) {
        if self.0.len() < self.0.capacity() {
            self.0
                .push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
        }
    }

    /// Forgets what was kept, as after warm-up.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The shares of an ordered list at 0.5, 0.99, 0.999 and 1, in microseconds.
    pub fn quantiles_us(&self) -> Option<[f64; 4]> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let at = |thousandths: usize| {
            f64::from(sorted[(sorted.len() * thousandths / 1000).min(last)]) / 1e3
        };
        Some([at(500), at(990), at(999), at(1000)])
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Makes every round trip of the iteration that `Channel::begin` set up: the
/// k-th sending channel and the k-th receiving one are a pair, pair after pair.
pub fn ping_pong(
    net: &dyn Net,
    channels: &mut [Channel],
    leads: bool,
    pace: &mut dyn Pace,
    times: &mut RoundTrips,
) -> Result<(), TransferError> {
    let split = channels
        .iter()
        .position(|channel| channel.side() == Side::Recv)
        .unwrap_or(channels.len());
    let (sends, recvs) = channels.split_at_mut(split);
    for (send, recv) in sends.iter_mut().zip(recvs) {
        while !(send.is_finished() && recv.is_finished()) {
            // Posted before the answer can be on its way.
            post(net, recv, pace)?;
            if leads {
                let started = pace.now();
                post(net, send, pace)?;
                drain(net, send, pace)?;
                drain(net, recv, pace)?;
                times.keep(pace.now().saturating_sub(started));
            } else {
                drain(net, recv, pace)?;
                post(net, send, pace)?;
                drain(net, send, pace)?;
            }
        }
    }
    Ok(())
}

/// Posts one chunk; a plugin may say "try again".
fn post(net: &dyn Net, channel: &mut Channel, pace: &mut dyn Pace) -> Result<(), TransferError> {
    let mut empty = 0;
    while !channel.post(net).map_err(of(channel))? {
        empty += 1;
        rest(empty, pace)?;
    }
    Ok(())
}

fn drain(net: &dyn Net, channel: &mut Channel, pace: &mut dyn Pace) -> Result<(), TransferError> {
    let mut empty = 0;
    while !channel.window().is_drained() {
        let moved = channel.drain_one(net, pace).map_err(of(channel))?;
        empty = if moved { 0 } else { empty + 1 };
        rest(empty, pace)?;
    }
    Ok(())
}
