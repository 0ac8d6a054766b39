//! What unpacking costs on one GPU, beside a plain copy of the same bytes.
//!
//! For each shape (bytes of a chunk, bytes of a fragment, chunks per batch) the
//! pool is filled so that a right gather yields the pattern; fragments lie
//! shuffled, each in pages of its own. Batches are launched back to back on one
//! stream from lists that were made before, and timed by events; the copy is one
//! call for all bytes, in the same round. Every policy's result is verified.
//! Latency is another matter: one chunk through a lane, from launch to seen, by
//! the clock of the host.
#![expect(unsafe_code, reason = "launches work on allocations of its own")]

use super::kernels::{Chunk, PatternAt, Piece};
use super::lane::Table;
use super::memory::CudaMemory;
use super::objects::{Allocation, Event, Pinned, Stream};
use crate::gpu::{DeviceMemory, LaneSetup, MemoryError, PatternKey, Scatter, Span, TABLE_WORDS, Unpack, Work};
use serde::{Deserialize, Serialize};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcpx_abi::unpack::{ENTRIES, LoadMeta};

type Result<T> = std::result::Result<T, MemoryError>;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Bytes of a chunk, below 2 GiB.
    pub chunks: Vec<usize>,
    /// Bytes of a fragment.
    pub fragments: Vec<usize>,
    /// Chunks per batch.
    pub batches: Vec<usize>,
    /// Bytes of one round.
    pub total: usize,
    /// Rounds; medians are reported.
    pub rounds: usize,
}

/// One shape under one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How it was unpacked.
    pub policy: Unpack,
    /// Bytes.
    pub chunk: usize,
    /// Bytes.
    pub fragment: usize,
    /// Fragments of one chunk.
    pub fragments: usize,
    /// Chunks per batch.
    pub batch: usize,
    /// Bytes of one round.
    pub bytes: usize,
    /// Median over the rounds, on the GPU's clock.
    pub nanoseconds: u64,
    /// One plain copy of the same bytes, likewise.
    pub copy_nanoseconds: u64,
    /// Every byte was right afterwards.
    pub verified: bool,
}

impl Row {
    /// 10^9 bytes per second.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.nanoseconds as f64
    }

    /// Share of the plain copy's rate.
    pub fn of_copy(&self) -> f64 {
        self.copy_nanoseconds as f64 / self.nanoseconds as f64
    }
}

/// Filling and verifying, beside a copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// Bytes of one chunk.
    pub chunk: usize,
    /// Bytes of one round.
    pub bytes: usize,
    /// Medians, on the GPU's clock.
    pub fill_nanoseconds: u64,
    /// See `fill_nanoseconds`.
    pub verify_nanoseconds: u64,
    /// See `fill_nanoseconds`.
    pub copy_nanoseconds: u64,
}

impl Payload {
    /// Filling and verifying a byte, as a share of the rate of copying it.
    pub fn of_copy(&self) -> f64 {
        self.copy_nanoseconds as f64 / (self.fill_nanoseconds + self.verify_nanoseconds) as f64
    }
}

/// One chunk at a time through a lane, microseconds on the host's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How it was unpacked.
    pub policy: Unpack,
    /// Bytes of the chunk.
    pub chunk: usize,
    /// Fragments of the chunk.
    pub fragments: usize,
    /// Checking the list and noting it down.
    pub queue_us_p50: f64,
    /// In the launching calls.
    pub launch_us_p50: f64,
    /// From launch to the event being seen.
    pub seen_us_p50: f64,
    /// See `seen_us_p50`.
    pub seen_us_p99: f64,
}

/// Chunks of one latency row.
const TRIES: usize = 500;
/// Copies of one round by policies that make one per fragment.
const COPIES_MAX: usize = 8192;

/// A pattern for nothing but this.
pub fn pattern() -> PatternKey {
    let mut word = 0x243f_6a88_85a3_08d3u64;
    let mut next = || {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        word ^ word >> 29
    };
    let mut table = Box::new([0; TABLE_WORDS]);
    table.iter_mut().for_each(|word| *word = next());
    PatternKey { table, key: next() }
}

/// Every shape under every policy.
pub fn rows(memory: &CudaMemory, setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (chunk, fragment) in setup.chunks.iter().flat_map(|chunk| setup.fragments.iter().map(|one| (*chunk, *one))) {
        let fits = fragment <= chunk && chunk.div_ceil(fragment) <= ENTRIES;
        if !fits {
            continue;
        }
        let bench = Bench::new(memory, chunk, fragment, setup.total)?;
        for batch in &setup.batches {
            for policy in [Unpack::Kernel, Unpack::D2d, Unpack::Host] {
                // Only a kernel knows of batches.
                if policy == Unpack::Kernel || *batch == setup.batches[0] {
                    rows.push(bench.row(policy, *batch, setup.rounds)?);
                }
            }
        }
    }
    Ok(rows)
}

/// Filling and verifying.
pub fn payload(memory: &CudaMemory, chunk: usize, total: usize, rounds: usize) -> Result<Payload> {
    let bench = Bench::new(memory, chunk, chunk.min(4096), total)?;
    let (mut fills, mut verifies, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        fills.push(bench.timed(|bench| bench.fill())?);
        verifies.push(bench.timed(|bench| bench.verify())?);
        copies.push(bench.copy(bench.bytes())?);
    }
    Ok(Payload {
        chunk,
        bytes: bench.bytes(),
        fill_nanoseconds: median(fills),
        verify_nanoseconds: median(verifies),
        copy_nanoseconds: median(copies),
    })
}

/// One chunk at a time.
pub fn latency(memory: &CudaMemory, policy: Unpack, chunk: usize, fragment: usize) -> Result<Latency> {
    let bench = Bench::new(memory, chunk, fragment, chunk)?;
    let setup = LaneSetup { jobs: 16, chunk, unpack: policy, pattern: None };
    let mut lane = memory.lane(&setup)?.ok_or(MemoryError::Outside)?;
    let region = memory.allocate(chunk)?;
    let span: Span = region.span(0, chunk).ok_or(MemoryError::Outside)?;
    let list = &bench.entries[..bench.per_chunk];
    let pool =
        NonNull::new(std::ptr::with_exposed_provenance_mut(bench.pool.at as usize)).ok_or(MemoryError::Outside)?;
    let (mut queued, mut launched, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TRIES + 20 {
        let started = Instant::now();
        let list = Scatter::of_pool(list, pool);
        lane.queue(&Work::Take { list: Some(&list), span, verify: None, guard: 0 })?;
        queued.push(started.elapsed());
        let started = Instant::now();
        lane.launch()?;
        launched.push(started.elapsed());
        while lane.passed()?.is_none() {
            std::hint::spin_loop();
        }
        seen.push(started.elapsed());
    }
    // The first ones warm up.
    let at = |times: &[Duration], share: usize| {
        let mut sorted = times[20..].to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * share / 100).min(sorted.len() - 1)].as_secs_f64() * 1e6
    };
    Ok(Latency {
        policy,
        chunk,
        fragments: bench.per_chunk,
        queue_us_p50: at(&queued, 50),
        launch_us_p50: at(&launched, 50),
        seen_us_p50: at(&seen, 50),
        seen_us_p99: at(&seen, 99),
    })
}

/// One shape: a pool, a list for every byte of a round, and where it goes.
struct Bench<'a> {
    memory: &'a CudaMemory,
    stream: Stream,
    marks: [Event; 2],
    table: Arc<Table>,
    chunk: usize,
    fragment: usize,
    per_chunk: usize,
    chunks: Vec<Chunk>,
    /// As a plugin would publish them, chunk by chunk.
    entries: Vec<LoadMeta>,
    pieces: Pinned<Piece>,
    pieces_per_chunk: usize,
    flags: Pinned<u32>,
    staging: Pinned<u8>,
    pool: Allocation,
    target: Allocation,
}

impl<'a> Bench<'a> {
    fn new(memory: &'a CudaMemory, chunk: usize, fragment: usize, total: usize) -> Result<Self> {
        let context = memory.context();
        let per_chunk = chunk.div_ceil(fragment);
        let room = fragment.next_multiple_of(4096);
        // Lists name the pool's bytes by 32 bits.
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
            entries.push(LoadMeta { src_off: (place * room) as u32, len, dst_off: at as u64 });
        }
        let pieces_per_chunk = entries[..per_chunk].iter().map(|one| one.len.div_ceil(4096) as usize).sum();
        let mut pieces = Pinned::new(context, count * pieces_per_chunk)?;
        let mut place = 0;
        for (number, one) in entries.iter().enumerate() {
            let start = target.at + (number / per_chunk * stride) as u64 + one.dst_off;
            for done in (0..one.len).step_by(4096) {
                let len = (one.len - done).min(4096);
                pieces.put(place, Piece { src_off: one.src_off + done, len, dst: start + u64::from(done) });
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
        let bench = Self {
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
        bench.fill_pool()?;
        Ok(bench)
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * self.chunk
    }

    fn pattern_at(&self) -> PatternAt {
        PatternAt { table: self.table.allocation.at, key: self.table.key }
    }

    /// The pattern, cut up and put where the lists will look for it.
    fn fill_pool(&self) -> Result<()> {
        self.fill()?;
        for (number, one) in self.entries.iter().enumerate() {
            let from = self.chunks[number / self.per_chunk].at + one.dst_off;
            // SAFETY: both allocations are ours.
            unsafe { self.stream.copy(self.pool.at + u64::from(one.src_off), from, one.len as usize) }?;
        }
        Ok(self.stream.finish()?)
    }

    fn fill(&self) -> Result<()> {
        // SAFETY: the chunks are our own allocation's.
        Ok(unsafe { self.memory.kernels().fill(&self.stream, self.pattern_at(), &self.chunks) }?)
    }

    fn verify(&self) -> Result<()> {
        let flags = self.flags.address();
        // SAFETY: as above; there is a flag for every chunk.
        Ok(unsafe { self.memory.kernels().verify(&self.stream, self.pattern_at(), &self.chunks, flags) }?)
    }

    /// What the GPU's clock says about some work.
    fn timed(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Duration> {
        self.memory.context().make_current()?;
        self.marks[0].record(&self.stream)?;
        work(self)?;
        self.marks[1].record(&self.stream)?;
        self.stream.finish()?;
        Ok(self.marks[1].since(&self.marks[0])?)
    }

    fn copy(&self, bytes: usize) -> Result<Duration> {
        // SAFETY: both allocations are ours and at least this long.
        self.timed(|bench| Ok(unsafe { bench.stream.copy(bench.target.at, bench.pool.at, bytes) }?))
    }

    fn row(&self, policy: Unpack, batch: usize, rounds: usize) -> Result<Row> {
        let most = if policy == Unpack::Kernel { usize::MAX } else { (COPIES_MAX / self.per_chunk).max(1) };
        let count = self.chunks.len().min(most);
        let (mut times, mut copies) = (Vec::new(), Vec::new());
        // One more than is counted, to warm up.
        for _ in 0..=rounds {
            times.push(self.timed(|bench| bench.unpack(policy, batch, count))?);
            copies.push(self.copy(count * self.chunk)?);
        }
        Ok(Row {
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
            Unpack::D2d | Unpack::Host => {
                (0..count).try_for_each(|number| self.unpack_by_copies(number, policy == Unpack::Host))
            }
            Unpack::None => Ok(()),
        }
    }

    fn unpack_by_kernel(&self, batch: usize, count: usize) -> Result<()> {
        for first in (0..count).step_by(batch.max(1)) {
            let (at, pieces) = (first * self.pieces_per_chunk, batch.min(count - first) * self.pieces_per_chunk);
            // SAFETY: the lists were made over our own allocations.
            unsafe { self.memory.kernels().unpack(&self.stream, self.pool.at, &self.pieces, at, pieces) }?;
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
            unsafe { self.stream.copy_in(target, self.staging.as_ptr(), self.chunk) }?;
        }
        Ok(())
    }

    /// Unpacks once more into blanked memory and looks at every byte.
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

/// Numbers in an order that looks like none.
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

/// Of all but the first.
fn median(mut times: Vec<Duration>) -> u64 {
    let counted = &mut times[1..];
    counted.sort_unstable();
    counted.get(counted.len() / 2).map_or(0, |time| time.as_nanos() as u64)
}
