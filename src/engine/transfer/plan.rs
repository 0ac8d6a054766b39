//! Divides a transfer into chunks and assigns them to channels.
//!
//! Chunks are assigned round-robin, so both ends agree without communication: the k-th
//! request of channel c is chunk `k * channels + c`. Each lane of a worker has a plan of its own
//! over channels of its own.
#![forbid(unsafe_code)]

/// One iteration of one lane in one direction, cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    total: u64,
    chunk: u32,
    channels: u32,
    /// Channels of the lanes before this one.
    first_channel: u64,
    /// Chunks of the lanes before this one.
    first_chunk: u64,
}

/// The chunks of one channel. All divisions are done once here and not per request, where
/// they would cost a tenth of the time of small messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    turns: u64,
    /// Chunks of all lanes before this channel's.
    before: u64,
    place: u64,
    channels: u64,
    chunk: u32,
    total: u64,
}

/// The part of an iteration that one request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Index over all channels of all lanes.
    pub index: u64,
    /// Byte offset within its lane.
    pub offset: u64,
    /// Bytes; only the last chunk is shorter than the others.
    pub len: u32,
}

impl Plan {
    /// The plan of each lane, of `total` bytes over so many channels; `None` if an argument is
    /// zero or the chunk exceeds a C int.
    pub fn of_lanes(
        total: u64,
        chunk: u64,
        channels: impl IntoIterator<Item = usize>,
    ) -> Option<Vec<Self>> {
        let chunk = u32::try_from(chunk)
            .ok()
            .filter(|chunk| (1..=i32::MAX as u32).contains(chunk))?;
        let (mut first_channel, mut first_chunk) = (0, 0);
        let lane = |channels: usize| {
            let channels = u32::try_from(channels)
                .ok()
                .filter(|channels| *channels > 0)?;
            let plan = Self {
                total,
                chunk,
                channels,
                first_channel,
                first_chunk,
            };
            first_channel += u64::from(channels);
            first_chunk += plan.chunks();
            Some(plan)
        };
        let plans: Option<Vec<Self>> = channels.into_iter().map(lane).collect();
        plans.filter(|plans| total > 0 && !plans.is_empty())
    }

    /// Bytes of one iteration.
    pub fn total(self) -> u64 {
        self.total
    }

    /// Chunks of one iteration over all channels of the lane.
    pub fn chunks(self) -> u64 {
        self.total.div_ceil(u64::from(self.chunk))
    }

    /// The chunks of one channel; none for a channel of another lane.
    pub fn share(self, channel: usize) -> Share {
        let (channels, chunks) = (u64::from(self.channels), self.chunks());
        let place = (channel as u64).checked_sub(self.first_channel);
        let Some(place) = place.filter(|place| *place < channels) else {
            return Share::default();
        };
        Share {
            turns: (chunks + channels - 1 - place) / channels,
            before: self.first_chunk,
            place,
            channels,
            chunk: self.chunk,
            total: self.total,
        }
    }
}

impl Share {
    /// Number of chunks of the channel.
    #[inline]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// The chunk of a turn, which must be below [`Share::turns`].
    #[inline]
    pub fn chunk(&self, turn: u64) -> Chunk {
        let index = turn * self.channels + self.place;
        let offset = index * u64::from(self.chunk);
        let left = self.total.saturating_sub(offset);
        Chunk {
            index: self.before + index,
            offset,
            len: u32::try_from(left).unwrap_or(u32::MAX).min(self.chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_lane(total: u64, chunk: u64, channels: usize) -> Option<Plan> {
        Some(Plan::of_lanes(total, chunk, [channels])?[0])
    }

    fn chunks_of(plan: Plan, channel: usize) -> Vec<Chunk> {
        let share = plan.share(channel);
        (0..share.turns()).map(|turn| share.chunk(turn)).collect()
    }

    fn bytes_of(plan: Plan, channel: usize) -> u64 {
        let chunks = chunks_of(plan, channel);
        chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    #[test]
    fn the_last_chunk_may_be_short() {
        let plan = one_lane(1_000_001, 1000, 3).expect("a plan");
        assert_eq!(plan.chunks(), 1001);
        assert_eq!(
            [0, 1, 2].map(|channel| plan.share(channel).turns()),
            [334, 334, 333]
        );
        assert_eq!(
            plan.share(1).chunk(333),
            Chunk {
                index: 1000,
                offset: 1_000_000,
                len: 1
            }
        );
    }

    #[test]
    fn a_plan_needs_bytes_chunks_and_channels() {
        assert_eq!(one_lane(0, 1, 1), None);
        assert_eq!(one_lane(1, 0, 1), None);
        assert_eq!(one_lane(1, 1, 0), None);
        assert_eq!(one_lane(1, 1 << 31, 1), None);
        assert_eq!(Plan::of_lanes(1, 1, []), None);
        assert_eq!(Plan::of_lanes(1, 1, [1, 0]), None);
    }

    #[test]
    fn every_lane_moves_the_same_bytes_in_its_own_chunks_over_its_own_channels() {
        let lanes = Plan::of_lanes(9_001, 1000, [2, 3]).expect("plans");
        let turns =
            |lane: usize| [0, 1, 2, 3, 4, 5].map(|channel| lanes[lane].share(channel).turns());
        assert_eq!(turns(0), [5, 5, 0, 0, 0, 0]);
        assert_eq!(turns(1), [0, 0, 4, 3, 3, 0]);
        let first = one_lane(9_001, 1000, 3).expect("a plan");
        assert_eq!(
            lanes[1].share(3).chunk(2),
            Chunk {
                index: 17,
                ..first.share(1).chunk(2)
            }
        );
        let bytes = |lane: usize, channels: std::ops::Range<usize>| -> u64 {
            channels.map(|channel| bytes_of(lanes[lane], channel)).sum()
        };
        assert_eq!([bytes(0, 0..2), bytes(1, 2..5)], [9_001, 9_001]);
    }

    proptest! {
        #[test]
        fn chunks_cover_every_byte_once(total in 1u64..100_000, chunk in 1u64..5000, channels in 1usize..9) {
            let plan = one_lane(total, chunk, channels).expect("a plan");
            let mut all: Vec<Chunk> = (0..channels).flat_map(|channel| chunks_of(plan, channel)).collect();
            all.sort_by_key(|chunk| chunk.offset);
            let mut next = 0;
            for chunk in all {
                prop_assert_eq!(chunk.offset, next);
                next += u64::from(chunk.len);
            }
            prop_assert_eq!(next, total);
        }
    }
}
