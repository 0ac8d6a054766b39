//! Which channels of a worker belong to which lane: those of lane 0 first, then those of lane 1.
#![forbid(unsafe_code)]

use std::ops::Range;

/// The channels of each lane of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneChannels {
    /// The channel after the last one of each lane.
    ends: Vec<usize>,
}

impl LaneChannels {
    /// Of lanes with so many connections.
    pub fn new(connections: impl IntoIterator<Item = u32>) -> Self {
        let mut end = 0;
        let add = |connections: u32| {
            end += connections as usize;
            end
        };
        Self {
            ends: connections.into_iter().map(add).collect(),
        }
    }

    /// The lane of a channel, and the channel's place in it; `None` for a channel of no lane.
    pub fn place(&self, channel: usize) -> Option<(usize, usize)> {
        let lane = self.ends.partition_point(|end| *end <= channel);
        (lane < self.ends.len()).then(|| (lane, channel - self.channels(lane).start))
    }

    /// The channels of a lane; none for an unknown lane.
    pub fn channels(&self, lane: usize) -> Range<usize> {
        let end_of = |lane: usize| self.ends.get(lane).copied();
        let start = lane.checked_sub(1).and_then(end_of).unwrap_or(0);
        start..end_of(lane).unwrap_or(start)
    }

    /// How many channels all lanes have.
    pub fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many channels each lane has.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        (0..self.ends.len()).map(|lane| self.channels(lane).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channels_of_a_lane_follow_those_of_the_lane_before() {
        let lanes = LaneChannels::new([2, 3, 1]);
        assert_eq!(
            [0, 1, 2].map(|lane| lanes.channels(lane)),
            [0..2, 2..5, 5..6]
        );
        assert_eq!(lanes.place(1), Some((0, 1)));
        assert_eq!(lanes.place(4), Some((1, 2)));
        assert_eq!(lanes.place(5), Some((2, 0)));
        assert_eq!(lanes.place(6), None);
        assert_eq!(lanes.count(), 6);
        assert_eq!(lanes.counts().collect::<Vec<_>>(), [2, 3, 1]);
        assert_eq!(lanes.channels(9), 0..0);
        assert_eq!(LaneChannels::default().place(0), None);
    }
}
