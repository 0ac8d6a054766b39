//! One shape of the benchmark: pool, scatter lists and destination of a round, and the
//! policies that unpack it.
#![expect(unsafe_code, reason = "launches work on allocations of its own")]

use super::bench::{COPIES_MAX, UnpackRow, median, pattern};
use super::kernels::{Chunk, PatternAt, Piece};
use super::lane::Table;
use super::memory::CudaMemory;
use super::objects::{Allocation, Event, Pinned, Stream};
use crate::gpu::{MemoryError, Unpack};
use std::sync::Arc;
use std::time::Duration;
use tcpx_abi::unpack::LoadMeta;

type Result<T> = std::result::Result<T, MemoryError>;

/// One shape: pool, scatter lists and destination of one round.
pub(super) struct Shape<'a> {
    memory: &'a CudaMemory,
    stream: Stream,
    marks: [Event; 2],
    table: Arc<Table>,
    chunk: usize,
    fragment: usize,
    pub(super) per_chunk: usize,
    chunks: Vec<Chunk>,
    /// The scatter lists as a plugin would publish them, chunk by chunk.
    pub(super) entries: Vec<LoadMeta>,
    pieces: Pinned<Piece>,
    pieces_per_chunk: usize,
    flags: Pinned<u32>,
    staging: Pinned<u8>,
    pub(super) pool: Allocation,
    target: Allocation,
}

impl<'a> Shape<'a> {
    pub(super) fn new(
        memory: &'a CudaMemory,
        chunk: usize,
        fragment: usize,
        total: usize,
    ) -> Result<Self> {
        let context = memory.context();
        let per_chunk = chunk.div_ceil(fragment);
        let room = fragment.next_multiple_of(4096);
        // Scatter lists have 32-bit offsets into the pool.
        let most = u32::MAX as usize / (per_chunk * room);
        let count = (total / chunk).clamp(1, most.max(1));
        let stride = chunk.next_multiple_of(4096);
        let pool = Allocation::new(context, count * per_chunk * room)?;
        let target = Allocation::new(context, count * stride)?;
        let order = shuffled(count * per_chunk);
        let mut entries = Vec::with_capacity(order.len());
        for (number, place) in order.into_iter().enumerate() {
            let at = number % per_chunk * fragment;
            let len = fragment.min(chunk - at) as u32;
            entries.push(LoadMeta {
                src_off: (place * room) as u32,
                len,
                dst_off: at as u64,
            });
        }
        let pieces_per_chunk = entries[..per_chunk]
            .iter()
            .map(|one| one.len.div_ceil(4096) as usize)
            .sum();
        let mut pieces = Pinned::new(context, count * pieces_per_chunk)?;
        let mut place = 0;
        for (number, one) in entries.iter().enumerate() {
            let start = target.at + (number / per_chunk * stride) as u64 + one.dst_off;
            for done in (0..one.len).step_by(4096) {
                let len = (one.len - done).min(4096);
                pieces.put(
                    place,
                    Piece {
                        src_off: one.src_off + done,
                        len,
                        dst: start + u64::from(done),
                    },
                );
                place += 1;
            }
        }
        let chunks = (0..count as u64).map(|number| Chunk {
            at: target.at + number * stride as u64,
            body: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            first: number << 22,
            len: chunk as u32,
            guard: 0,
        });
        let shape = Self {
            memory,
            stream: Stream::new(context)?,
            marks: [Event::new(context, true)?, Event::new(context, true)?],
            table: memory.table(&pattern())?,
            chunk,
            fragment,
            per_chunk,
            chunks: chunks.collect(),
            entries,
            pieces,
            pieces_per_chunk,
            flags: Pinned::new(context, count)?,
            staging: Pinned::new(context, chunk)?,
            pool,
            target,
        };
        shape.fill_pool()?;
        Ok(shape)
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * self.chunk
    }

    fn pattern_at(&self) -> PatternAt {
        PatternAt {
            table: self.table.allocation.at,
            key: self.table.key,
        }
    }

    /// Writes the pattern into the pool, fragment by fragment, where the lists point.
    fn fill_pool(&self) -> Result<()> {
        self.fill()?;
        for (number, one) in self.entries.iter().enumerate() {
            let from = self.chunks[number / self.per_chunk].at + one.dst_off;
            // SAFETY: both allocations are ours.
            unsafe {
                self.stream.copy(
                    self.pool.at + u64::from(one.src_off),
                    from,
                    one.len as usize,
                )
            }?;
        }
        Ok(self.stream.finish()?)
    }

    pub(super) fn fill(&self) -> Result<()> {
        // SAFETY: the chunks are our own allocation's.
        Ok(unsafe {
            self.memory
                .kernels()
                .fill(&self.stream, self.pattern_at(), &self.chunks)
        }?)
    }

    pub(super) fn verify(&self) -> Result<()> {
        let flags = self.flags.address();
        // SAFETY: as above; there is a flag for every chunk.
        Ok(unsafe {
            self.memory
                .kernels()
                .verify(&self.stream, self.pattern_at(), &self.chunks, flags)
        }?)
    }

    /// The duration of some work, by the GPU's clock.
    pub(super) fn timed(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Duration> {
        self.memory.context().make_current()?;
        self.marks[0].record(&self.stream)?;
        work(self)?;
        self.marks[1].record(&self.stream)?;
        self.stream.finish()?;
        Ok(self.marks[1].since(&self.marks[0])?)
    }

    pub(super) fn copy(&self, bytes: usize) -> Result<Duration> {
        // SAFETY: both allocations are ours and at least this long.
        self.timed(|shape| Ok(unsafe { shape.stream.copy(shape.target.at, shape.pool.at, bytes) }?))
    }

    pub(super) fn row(&self, policy: Unpack, batch: usize, rounds: usize) -> Result<UnpackRow> {
        let most = if policy == Unpack::Kernel {
            usize::MAX
        } else {
            (COPIES_MAX / self.per_chunk).max(1)
        };
        let count = self.chunks.len().min(most);
        let (mut times, mut copies) = (Vec::new(), Vec::new());
        // One extra round for warm-up.
        for _ in 0..=rounds {
            times.push(self.timed(|shape| shape.unpack(policy, batch, count))?);
            copies.push(self.copy(count * self.chunk)?);
        }
        Ok(UnpackRow {
            policy,
            chunk: self.chunk,
            fragment: self.fragment,
            fragments: self.per_chunk,
            batch: if policy == Unpack::Kernel { batch } else { 1 },
            bytes: count * self.chunk,
            nanoseconds: median(times),
            copy_nanoseconds: median(copies),
            verified: self.is_right(policy, batch, count)?,
        })
    }

    fn unpack(&self, policy: Unpack, batch: usize, count: usize) -> Result<()> {
        match policy {
            Unpack::Kernel => self.unpack_by_kernel(batch, count),
            Unpack::D2d | Unpack::Host => (0..count)
                .try_for_each(|number| self.unpack_by_copies(number, policy == Unpack::Host)),
            Unpack::None => Ok(()),
        }
    }

    fn unpack_by_kernel(&self, batch: usize, count: usize) -> Result<()> {
        for first in (0..count).step_by(batch.max(1)) {
            let (at, pieces) = (
                first * self.pieces_per_chunk,
                batch.min(count - first) * self.pieces_per_chunk,
            );
            // SAFETY: the lists were made over our own allocations.
            unsafe {
                self.memory
                    .kernels()
                    .unpack(&self.stream, self.pool.at, &self.pieces, at, pieces)
            }?;
        }
        Ok(())
    }

    fn unpack_by_copies(&self, number: usize, by_host: bool) -> Result<()> {
        let target = self.chunks[number].at;
        for one in &self.entries[number * self.per_chunk..][..self.per_chunk] {
            let (from, bytes) = (self.pool.at + u64::from(one.src_off), one.len as usize);
            if by_host {
                let to = self.staging.as_ptr().wrapping_add(one.dst_off as usize);
                // SAFETY: the staging buffer holds a chunk; the stream keeps the order.
                unsafe { self.stream.copy_out(to, from, bytes) }?;
            } else {
                // SAFETY: both allocations are ours.
                unsafe { self.stream.copy(target + one.dst_off, from, bytes) }?;
            }
        }
        if by_host {
            // SAFETY: as above.
            unsafe {
                self.stream
                    .copy_in(target, self.staging.as_ptr(), self.chunk)
            }?;
        }
        Ok(())
    }

    /// Unpacks once more into blanked memory and verifies every byte.
    fn is_right(&self, policy: Unpack, batch: usize, count: usize) -> Result<bool> {
        // SAFETY: our own allocation.
        unsafe { self.stream.set(self.target.at, 0xc5, self.target.bytes) }?;
        self.unpack(policy, batch, count)?;
        self.stream.finish()?;
        // SAFETY: as many flags as chunks, and nothing is under way.
        unsafe { self.flags.as_ptr().write_bytes(0, self.chunks.len()) };
        self.verify()?;
        self.stream.finish()?;
        Ok((0..count).all(|number| self.flags.get(number) == Some(0)))
    }
}

/// The numbers below `count` in a shuffled, fixed order.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for last in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}
