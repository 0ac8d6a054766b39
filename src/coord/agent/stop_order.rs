//! When a worker is told to stop: after the freeze-frames that are being taken of it.
//!
//! A worker that stops closes its connections. In a freeze-frame, these would look like the cause of
//! the stall.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// A freeze-frame that takes longer does not keep a worker from being stopped: reading a file under
/// `/proc` may block.
const FRAME_TAKES_MAX: Duration = Duration::from_secs(1);

/// The order to stop one worker.
#[derive(Debug, Default)]
pub(super) struct StopOrder {
    frames: usize,
    /// At the latest; `None` while there is no order.
    at: Option<Instant>,
}

impl StopOrder {
    /// A freeze-frame is being taken.
    pub(super) fn frame_begins(&mut self) {
        self.frames += 1;
    }

    /// A freeze-frame was taken. It may be of an earlier worker with the same number.
    pub(super) fn frame_ends(&mut self) {
        self.frames = self.frames.saturating_sub(1);
    }

    /// The worker is to stop.
    pub(super) fn give(&mut self, now: Instant) {
        self.at = Some(now + FRAME_TAKES_MAX);
    }

    /// Whether to tell the worker now; once per order.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let frames = self.frames;
        self.at.take_if(|at| frames == 0 || now >= *at).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_told_once_after_its_frames_or_when_they_take_too_long() {
        let (mut order, start) = (StopOrder::default(), Instant::now());
        assert!(!order.is_due(start), "there is no order");
        order.give(start);
        assert!(order.is_due(start) && !order.is_due(start));
        order.frame_begins();
        order.frame_begins();
        order.give(start);
        order.frame_ends();
        assert!(!order.is_due(start));
        order.frame_ends();
        order.frame_ends();
        assert!(order.is_due(start) && !order.is_due(start));
        order.frame_begins();
        order.give(start);
        let later = start + FRAME_TAKES_MAX;
        assert!(!order.is_due(later - Duration::from_millis(1)));
        assert!(order.is_due(later) && !order.is_due(later));
    }
}
