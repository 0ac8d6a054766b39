//! Writes and verifies the pattern of a chunk.
//!
//! A chunk is a sequence of 2 KiB blocks. Each block starts with a *stamp*, an invertible
//! scramble of (iteration, channel, chunk, block), from which the origin of a wrong block is
//! recovered; the rest is *body*, a word table drawn from the run's seed and shifted by
//! iteration, channel and page. Every byte is compared. Bytes of another iteration, channel
//! or offset differ in every word. Bytes of another chunk at the same offset differ in the
//! stamps, so 2 KiB or more of them are detected; the smallest unit a plugin moves is a page.
//!
//! The body depends on iteration and channel only, so it is written to a slot
//! once per iteration, outside the timed part; only the stamps (one word in 256)
//! are written when a slot is reused for another chunk.
#![expect(
    unsafe_code,
    reason = "calls the wide builds of the comparison where the CPU has the registers"
)]

use crate::gpu::{PatternKey, Stamp, TABLE_WORDS};
use tcpx_words::payload::{Mismatch, MismatchKind, StampId};

/// Words of one block, the stamp included.
const BLOCK: usize = 256;
/// Words after which the body table repeats, shifted: a page.
const TABLE: usize = TABLE_WORDS;
/// Blocks of one page.
const PAGE_BLOCKS: usize = TABLE / BLOCK;
/// Words of the widest vector register; the first of a block are compared apart.
const LANES: usize = 8;
/// Odd, so multiplication by it can be undone.
const SCRAMBLE: u64 = 0x9e37_79b9_7f4a_7c15;
const PAGE_SHIFT: u64 = 0x0101_4c95_7f2d_0001;

const ITERATIONS: u64 = 1 << 10;
const CHANNELS: u64 = 1 << 10;
const CHUNKS: u64 = 1 << 22;
const BLOCKS: u64 = 1 << 22;

/// On a cache line, so that vector loads never straddle two.
#[repr(align(64))]
struct Table([u64; TABLE]);

/// The pattern of one run.
pub struct Pattern {
    table: Table,
    key: u64,
}

impl Pattern {
    /// The pattern of a seed; both ends use the same.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let key = splitmix(&mut state);
        let mut table = [0; TABLE];
        for word in &mut table {
            *word = splitmix(&mut state);
        }
        Self {
            table: Table(table),
            key,
        }
    }

    fn body_key(&self, id: StampId) -> u64 {
        let mut state = self.key ^ (id.iteration % ITERATIONS) << 32 ^ (id.channel % CHANNELS);
        splitmix(&mut state)
    }

    fn stamp(&self, id: StampId, block: u64) -> u64 {
        ((packed(id) + block % BLOCKS) ^ self.key).wrapping_mul(SCRAMBLE)
    }

    /// The parameters with which a GPU writes and compares the same bytes.
    pub fn key(&self) -> PatternKey {
        PatternKey {
            table: Box::new(self.table.0),
            key: self.key,
        }
    }

    /// The GPU's parameters for one message.
    pub fn stamp_of(&self, id: StampId) -> Stamp {
        Stamp {
            body: self.body_key(id),
            first: packed(id),
        }
    }

    fn read_stamp(&self, stamp: u64) -> (StampId, u64) {
        let packed = stamp.wrapping_mul(inverse(SCRAMBLE)) ^ self.key;
        let id = StampId {
            iteration: packed / BLOCKS / CHUNKS / CHANNELS,
            channel: packed / BLOCKS / CHUNKS % CHANNELS,
            chunk: packed / BLOCKS % CHUNKS,
        };
        (id, packed % BLOCKS)
    }

    /// Writes a whole chunk: body and stamps.
    pub fn fill(&self, id: StampId, bytes: &mut [u8]) {
        let key = self.body_key(id);
        let (words, tail) = bytes.as_chunks_mut::<8>();
        let count = words.len();
        for (page, words) in words.chunks_mut(TABLE).enumerate() {
            let shift = page_shift(key, page);
            for (word, body) in words.iter_mut().zip(&self.table.0) {
                *word = body.wrapping_add(shift).to_le_bytes();
            }
        }
        let last = self.word(key, count).to_le_bytes();
        let tail_len = tail.len();
        tail.copy_from_slice(&last[..tail_len]);
        self.stamp_blocks(id, bytes);
    }

    /// Writes the stamps only; the body must be this iteration's and channel's.
    pub(crate) fn stamp_blocks(&self, id: StampId, bytes: &mut [u8]) {
        for (block, bytes) in bytes.chunks_mut(BLOCK * 8).enumerate() {
            if let Some(stamp) = bytes.first_chunk_mut::<8>() {
                *stamp = self.stamp(id, block as u64).to_le_bytes();
            } else {
                // Too short for a stamp; the bytes may still hold one of an earlier chunk.
                let body = self.word(self.body_key(id), block * BLOCK).to_le_bytes();
                let len = bytes.len();
                bytes.copy_from_slice(&body[..len]);
            }
        }
    }

    /// Compares every byte; `None` when all are right.
    pub fn verify(&self, id: StampId, bytes: &[u8]) -> Option<Mismatch> {
        if self.matches(id, bytes) {
            None
        } else {
            Some(self.explain(id, bytes))
        }
    }

    /// The fast path: one pass that only determines whether any byte differs. The bytes were
    /// just written and are in the second-level cache, so wide registers pay off.
    fn matches(&self, id: StampId, bytes: &[u8]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512.
            return unsafe { self.matches_avx512(id, bytes) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { self.matches_avx2(id, bytes) };
        }
        self.matches_anywhere(id, bytes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn matches_avx512(&self, id: StampId, bytes: &[u8]) -> bool {
        self.matches_anywhere(id, bytes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn matches_avx2(&self, id: StampId, bytes: &[u8]) -> bool {
        self.matches_anywhere(id, bytes)
    }

    #[inline(always)]
    fn matches_anywhere(&self, id: StampId, bytes: &[u8]) -> bool {
        let key = self.body_key(id);
        let (blocks, rest) = bytes.as_chunks::<{ BLOCK * 8 }>();
        let mut differs = 0;
        for (number, block) in blocks.iter().enumerate() {
            let table = &self.table.0[number % PAGE_BLOCKS * BLOCK..][..BLOCK];
            let shift = page_shift(key, number / PAGE_BLOCKS);
            let words = block.as_chunks::<8>().0;
            // The words next to the stamp separately, so that the rest fills whole registers.
            differs |= u64::from_le_bytes(words[0]) ^ self.stamp(id, number as u64);
            differs |= differences(&words[1..LANES], &table[1..LANES], shift);
            differs |= differences(&words[LANES..], &table[LANES..], shift);
        }
        let start = blocks.len() * BLOCK * 8;
        let rest_matches = rest
            .iter()
            .enumerate()
            .all(|(at, got)| *got == self.expected_byte(id, key, start + at, bytes.len()));
        differs == 0 && rest_matches
    }

    /// The body word with index `at`. A last block of fewer than eight bytes has no stamp,
    /// only body.
    fn word(&self, key: u64, at: usize) -> u64 {
        self.table.0[at % TABLE].wrapping_add(page_shift(key, at / TABLE))
    }

    fn expected_byte(&self, id: StampId, key: u64, at: usize, len: usize) -> u8 {
        let word = at / 8;
        let whole = (word + 1) * 8 <= len;
        let value = if word.is_multiple_of(BLOCK) && whole {
            self.stamp(id, (word / BLOCK) as u64)
        } else {
            self.word(key, word)
        };
        value.to_le_bytes()[at % 8]
    }

    /// The slow path: finds the first wrong byte, counts the wrong bytes and classifies them.
    #[cold]
    fn explain(&self, id: StampId, bytes: &[u8]) -> Mismatch {
        let key = self.body_key(id);
        let (mut first, mut wrong_bytes) = (None, 0);
        for (at, got) in bytes.iter().enumerate() {
            let expected = self.expected_byte(id, key, at, bytes.len());
            if *got != expected {
                wrong_bytes += 1;
                first = first.or(Some((at, expected, *got)));
            }
        }
        let (at, expected, got) = first.unwrap_or((0, 0, 0));
        let start = at / (BLOCK * 8) * (BLOCK * 8);
        let block = &bytes[start..bytes.len().min(start + BLOCK * 8)];
        let (kind, from) = self.recognise(id, (start / (BLOCK * 8)) as u64, block);
        Mismatch {
            id,
            offset: at as u64,
            wrong_bytes,
            expected,
            got,
            kind,
            from,
        }
    }

    fn recognise(&self, id: StampId, number: u64, block: &[u8]) -> (MismatchKind, Option<StampId>) {
        if block.iter().all(|byte| *byte == 0) {
            return (MismatchKind::Zero, None);
        }
        let Some(stamp) = block.first_chunk::<8>() else {
            return (MismatchKind::Corrupt, None);
        };
        let (from, from_number) = self.read_stamp(u64::from_le_bytes(*stamp));
        // A stamp counts only if the body after it agrees.
        let key = self.body_key(from);
        let first_word = from_number as usize % (BLOCKS as usize) * BLOCK;
        let agrees = block[8..]
            .chunks_exact(8)
            .enumerate()
            .all(|(at, got)| *got == self.word(key, first_word + at + 1).to_le_bytes());
        if !agrees || block.len() < 16 {
            return (MismatchKind::Corrupt, None);
        }
        let here = StampId {
            iteration: id.iteration % ITERATIONS,
            channel: id.channel % CHANNELS,
            chunk: id.chunk % CHUNKS,
        };
        let kind = if from.iteration != here.iteration {
            MismatchKind::Stale
        } else if from != here {
            MismatchKind::Swapped
        } else if from_number != number {
            MismatchKind::Shifted
        } else {
            MismatchKind::Corrupt
        };
        (kind, (kind != MismatchKind::Corrupt).then_some(from))
    }
}

/// The bits in which the words differ from the shifted body.
#[inline(always)]
fn differences(words: &[[u8; 8]], body: &[u64], shift: u64) -> u64 {
    words.iter().zip(body).fold(0, |differs, (word, body)| {
        differs | (u64::from_le_bytes(*word) ^ body.wrapping_add(shift))
    })
}

/// Packs iteration, channel and chunk into one number, leaving the low bits for the block.
fn packed(id: StampId) -> u64 {
    (((id.iteration % ITERATIONS) * CHANNELS + id.channel % CHANNELS) * CHUNKS + id.chunk % CHUNKS)
        * BLOCKS
}

fn page_shift(key: u64, page: usize) -> u64 {
    key.wrapping_add((page as u64).wrapping_mul(PAGE_SHIFT))
}

/// Inverse of an odd number modulo 2^64, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut round = 0;
    while round < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: StampId = StampId {
        iteration: 3,
        channel: 1,
        chunk: 9,
    };

    fn filled(id: StampId, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pattern::new(7).fill(id, &mut bytes);
        bytes
    }

    fn kind(bytes: &[u8]) -> Option<(MismatchKind, u64)> {
        Pattern::new(7)
            .verify(ID, bytes)
            .map(|mismatch| (mismatch.kind, mismatch.offset))
    }

    #[test]
    fn wrong_bytes_are_classified() {
        let len = 20_000;
        assert_eq!(kind(&filled(ID, len)), None);
        assert_eq!(kind(&vec![0; len]), Some((MismatchKind::Zero, 0)));
        assert_eq!(
            kind(&filled(StampId { iteration: 2, ..ID }, len)).map(|k| k.0),
            Some(MismatchKind::Stale)
        );
        assert_eq!(
            kind(&filled(StampId { chunk: 8, ..ID }, len)).map(|k| k.0),
            Some(MismatchKind::Swapped)
        );
        assert_eq!(
            kind(&filled(StampId { channel: 2, ..ID }, len)).map(|k| k.0),
            Some(MismatchKind::Swapped)
        );
        let mut shifted = filled(ID, len);
        shifted.copy_within(2048..4096, 4096);
        assert_eq!(kind(&shifted).map(|k| k.0), Some(MismatchKind::Shifted));
        let mut flipped = filled(ID, len);
        flipped[12_345] ^= 1;
        assert_eq!(kind(&flipped), Some((MismatchKind::Corrupt, 12_345)));
    }

    #[test]
    fn a_partly_stale_chunk_names_the_first_stale_byte() {
        let mut bytes = filled(ID, 8192);
        bytes[4096..6144]
            .copy_from_slice(&filled(StampId { iteration: 2, ..ID }, 8192)[4096..6144]);
        let mismatch = Pattern::new(7).verify(ID, &bytes).expect("differs");
        assert_eq!(
            (mismatch.kind, mismatch.offset / 2048),
            (MismatchKind::Stale, 2)
        );
        assert_eq!(mismatch.from, Some(StampId { iteration: 2, ..ID }));
    }

    #[test]
    fn restamping_a_slot_is_the_same_as_filling_it() {
        let mut reused = filled(StampId { chunk: 1, ..ID }, 10_001);
        Pattern::new(7).stamp_blocks(ID, &mut reused);
        assert_eq!(reused, filled(ID, 10_001));
    }

    #[test]
    fn a_short_chunk_after_a_long_one_carries_no_old_stamp() {
        for len in [1, 7, 2049, 2055, 4100] {
            let mut reused = filled(StampId { chunk: 1, ..ID }, 10_001);
            Pattern::new(7).stamp_blocks(ID, &mut reused[..len]);
            assert_eq!(reused[..len], filled(ID, len), "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_of_any_length_is_found(len in 1usize..9000, at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = filled(ID, len);
            prop_assert_eq!(kind(&bytes), None);
            let at = at.index(len);
            bytes[at] ^= 1 << bit;
            let mismatch = Pattern::new(7).verify(ID, &bytes).expect("differs");
            prop_assert_eq!((mismatch.offset, mismatch.wrong_bytes), (at as u64, 1));
            // Also without the wide registers.
            prop_assert!(!Pattern::new(7).matches_anywhere(ID, &bytes));
        }
    }
}
