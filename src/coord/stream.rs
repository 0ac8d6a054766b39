//! Batches a stream of many small messages, because handling each at once costs a wake-up per
//! message. A few messages in a row are handled without delay.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Number of messages in the current span.
pub(super) struct Stream {
    since: Instant,
    count: usize,
}

impl Stream {
    /// More messages than this within `SPAN` are a stream.
    const MANY: usize = 50;
    const SPAN: Duration = Duration::from_millis(100);
    const REST: Duration = Duration::from_millis(5);

    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            count: 0,
        }
    }

    /// Counts messages, and sleeps for a short time if they are part of a stream.
    pub(super) fn rest(&mut self, count: usize) {
        self.count += count;
        let is_over = self.since.elapsed() > Self::SPAN;
        if self.count > Self::MANY {
            std::thread::sleep(Self::REST);
        }
        if is_over {
            // A stream continues until a span has few messages.
            self.count = if self.count > Self::MANY {
                Self::MANY
            } else {
                0
            };
            self.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_is_slowed_down() {
        let (mut stream, began) = (Stream::new(), Instant::now());
        (0..Stream::MANY).for_each(|_| stream.rest(1));
        let few = began.elapsed();
        (0..10).for_each(|_| stream.rest(1));
        assert!(began.elapsed() - few >= 10 * Stream::REST);
        assert!(few < 10 * Stream::REST || few > Stream::SPAN, "{few:?}");
    }
}
