//! Many small things that arrive one by one: taken in handfuls, because one at a
//! time costs a wake-up each. A few in a row are answered at once.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// How many came lately.
pub(super) struct Stream {
    since: Instant,
    count: usize,
}

impl Stream {
    /// More than so many within `SPAN` are a stream.
    const MANY: usize = 50;
    const SPAN: Duration = Duration::from_millis(100);
    const REST: Duration = Duration::from_millis(5);

    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            count: 0,
        }
    }

    /// So many came: sleeps a little when they are part of a stream.
    pub(super) fn rest(&mut self, count: usize) {
        self.count += count;
        let is_over = self.since.elapsed() > Self::SPAN;
        if self.count > Self::MANY {
            std::thread::sleep(Self::REST);
        }
        if is_over {
            // A stream goes on until a span has few.
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
