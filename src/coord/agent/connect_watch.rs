//! Freeze-frames of a worker that connects for long.
//!
//! They are kept, and sent only if the worker fails or is told to stop before it is connected: a plugin may take seconds
//! in a healthy run, and once a plugin has failed, its sockets are closed. The agent takes them without an order of the
//! coordinator, because the network that loses segments may be the one to the coordinator.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};
use tcpx_run_model::counters::Frame;
use tcpx_run_model::phase::Phase;

/// The first frame is taken after this long, about when the kernel has sent a SYN again.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// The time between two frames doubles up to this.
const APART_MAX: Duration = Duration::from_secs(8);

/// Of one worker.
#[derive(Debug, Default)]
pub(super) struct ConnectWatch {
    /// Since when it connects, and when the next frame is due.
    times: Option<(Instant, Instant)>,
    newest: Option<Box<Frame>>,
    is_released: bool,
}

impl ConnectWatch {
    /// The worker is in this phase now.
    pub(super) fn enters(&mut self, phase: Phase, now: Instant) {
        let connects = matches!(phase, Phase::Bootstrapping | Phase::Connecting);
        match self.times {
            None if connects => self.times = Some((now, now + FIRST_AFTER)),
            Some(_) if !connects => *self = Self::default(),
            _ => {}
        }
    }

    /// Whether a frame is to be taken now.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let Some((since, next)) = self.times.as_mut().filter(|(_, next)| now >= *next) else {
            return false;
        };
        *next = now + now.duration_since(*since).min(APART_MAX);
        true
    }

    /// Keeps a frame until it is released; returns one that is wanted at once.
    pub(super) fn keep(&mut self, frame: Box<Frame>) -> Option<Box<Frame>> {
        if self.is_released {
            return Some(frame);
        }
        self.newest = self.times.map(|_| frame);
        None
    }

    /// The worker will not be connected: returns the newest frame, once.
    pub(super) fn release(&mut self) -> Option<Box<Frame>> {
        self.is_released |= self.times.take().is_some();
        self.newest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Box<Frame> {
        Box::new(Frame::take(u32::MAX - 1, &[], Vec::new(), None))
    }

    #[test]
    fn frames_are_taken_ever_more_rarely_while_a_worker_connects() {
        let (mut watch, start) = (ConnectWatch::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!watch.is_due(at(9)), "it does not connect");
        watch.enters(Phase::Bootstrapping, start);
        watch.enters(Phase::Connecting, at(1));
        let due: Vec<u64> = (0..32).filter(|second| watch.is_due(at(*second))).collect();
        assert_eq!(due, [1, 2, 4, 8, 16, 24]);
        watch.enters(Phase::Registering, at(33));
        assert!(!watch.is_due(at(60)));
    }

    #[test]
    fn the_newest_frame_is_sent_if_the_worker_is_not_connected() {
        let (mut watch, start) = (ConnectWatch::default(), Instant::now());
        watch.enters(Phase::Connecting, start);
        assert!(watch.keep(frame()).is_none() && watch.keep(frame()).is_none());
        assert!(watch.release().is_some() && watch.release().is_none());
        assert!(
            watch.keep(frame()).is_some(),
            "it was being taken meanwhile"
        );
    }

    #[test]
    fn a_worker_that_is_connected_leaves_no_frame() {
        let (mut watch, start) = (ConnectWatch::default(), Instant::now());
        watch.enters(Phase::Connecting, start);
        assert!(watch.keep(frame()).is_none());
        watch.enters(Phase::Registering, start);
        assert!(watch.keep(frame()).is_none(), "of before");
        assert!(watch.release().is_none());
    }
}
