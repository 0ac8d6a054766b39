//! Measures round trips: one message there, one message back, no window.
//!
//! The leading end sends a chunk and waits for one; the other end waits and answers. Both
//! keep testing the request they wait for, because nothing progresses otherwise.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::Channel;
use super::progress::{TransferError, error_on, rest};
use crate::plugin::Net;
use std::time::Duration;
use tcpx_words::side::Side;

/// Most round trips whose time is kept; later ones are not timed.
const KEPT_MAX: usize = 1 << 22;

/// Round-trip times of a leading end, in nanoseconds.
#[derive(Debug, Default)]
pub struct RoundTrips(Vec<u32>);

impl RoundTrips {
    /// Allocates room for `more` round trips, so that keeping one does not allocate.
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

    /// Drops the times kept so far, after warm-up.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The quantiles 0.5, 0.99, 0.999 and 1 in microseconds; `None` without a round trip.
    pub fn quantiles_us(&self) -> Option<[f64; 4]> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let at = |thousandths: usize| {
            f64::from(sorted[(sorted.len() * thousandths / 1000).min(last)]) / 1e3
        };
        Some([at(500), at(990), at(999), at(1000)])
    }

    /// Number of round trips kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no round trip was kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Makes every round trip of the iteration that `Channel::begin` prepared. The k-th sending
/// and the k-th receiving channel form a pair; pairs take turns one after the other.
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
            // Post the receive before the answer can be sent.
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

/// Posts one chunk, again while the plugin says "try again".
fn post(net: &dyn Net, channel: &mut Channel, pace: &mut dyn Pace) -> Result<(), TransferError> {
    let mut empty = 0;
    while !channel.post(net).map_err(error_on(channel))? {
        empty += 1;
        rest(empty, pace)?;
    }
    Ok(())
}

fn drain(net: &dyn Net, channel: &mut Channel, pace: &mut dyn Pace) -> Result<(), TransferError> {
    let mut empty = 0;
    while !channel.window().is_drained() {
        let moved = channel.drain_one(net, pace).map_err(error_on(channel))?;
        empty = if moved { 0 } else { empty + 1 };
        rest(empty, pace)?;
    }
    Ok(())
}
