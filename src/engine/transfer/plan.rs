//! Divides a transfer into chunks and assigns them to channels.
//!
//! Chunks are assigned round-robin, so both ends agree without communication: the k-th
//! request of channel c is chunk `k * channels + c`. With several GPUs in one process, each
//! GPU has a group of channels, and all groups have the same plan.
#![forbid(unsafe_code)]

/// One iteration of one direction, cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    total: u64,
    chunk: u32,
    channels: u32,
    groups: u32,
}

/// The chunks of one channel. All divisions are done once here and not per request, where
/// they would cost a tenth of the time of small messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    turns: u64,
    /// Chunks of all groups before this channel's.
    before: u64,
    place: u64,
    channels: u64,
    chunk: u32,
    total: u64,
}

/// The part of an iteration that one request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Index over all channels of all groups.
    pub index: u64,
    /// Byte offset within its group.
    pub offset: u64,
    /// Bytes; only the last chunk is shorter than the others.
    pub len: u32,
}

impl Plan {
    /// A plan for one group; `None` if an argument is zero or the chunk exceeds a C int.
    pub fn new(total: u64, chunk: u64, channels: usize) -> Option<Self> {
        Self::of_groups(total, chunk, channels, 1)
    }

    /// A plan for `groups` groups, each of `total` bytes over `channels` channels.
    pub fn of_groups(total: u64, chunk: u64, channels: usize, groups: usize) -> Option<Self> {
        let groups = u32::try_from(groups).ok().filter(|groups| *groups > 0)?;
        let chunk = u32::try_from(chunk)
            .ok()
            .filter(|chunk| (1..=i32::MAX as u32).contains(chunk))?;
        let channels = u32::try_from(channels)
            .ok()
            .filter(|channels| *channels > 0)?;
        (total > 0).then_some(Self {
            total,
            chunk,
            channels,
            groups,
        })
    }

    /// Bytes of one iteration.
    pub fn total(self) -> u64 {
        self.total * u64::from(self.groups)
    }

    /// Chunks of one iteration over all channels.
    pub fn chunks(self) -> u64 {
        self.chunks_of_group() * u64::from(self.groups)
    }

    fn chunks_of_group(self) -> u64 {
        self.total.div_ceil(u64::from(self.chunk))
    }

    /// The chunks of one channel.
    pub fn share(self, channel: usize) -> Share {
        let (channel, channels, chunks) = (
            channel as u64,
            u64::from(self.channels),
            self.chunks_of_group(),
        );
        let (group, place) = (channel / channels, channel % channels);
        let turns = if group < u64::from(self.groups) {
            (chunks + channels - 1 - place) / channels
        } else {
            0
        };
        Share {
            turns,
            before: group * chunks,
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
        let plan = Plan::new(1_000_001, 1000, 3).expect("a plan");
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
        assert_eq!(Plan::new(0, 1, 1), None);
        assert_eq!(Plan::new(1, 0, 1), None);
        assert_eq!(Plan::new(1, 1, 0), None);
        assert_eq!(Plan::new(1, 1 << 31, 1), None);
    }

    #[test]
    fn every_group_moves_the_same_bytes_in_its_own_chunks() {
        let (one, two) = (
            Plan::new(9_001, 1000, 2).expect("a plan"),
            Plan::of_groups(9_001, 1000, 2, 2).expect("a plan"),
        );
        assert_eq!((two.total(), two.chunks()), (18_002, 20));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|channel| two.share(channel).turns()),
            [5, 5, 5, 5, 0]
        );
        assert_eq!(two.share(1).chunk(4), one.share(1).chunk(4));
        assert_eq!(
            two.share(3).chunk(4),
            Chunk {
                index: 19,
                ..one.share(1).chunk(4)
            }
        );
        assert_eq!(bytes_of(two, 2) + bytes_of(two, 3), 9_001);
    }

    proptest! {
        #[test]
        fn chunks_cover_every_byte_once(total in 1u64..100_000, chunk in 1u64..5000, channels in 1usize..9) {
            let plan = Plan::new(total, chunk, channels).expect("a plan");
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
