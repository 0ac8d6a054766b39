//! What unpacking costs on one GPU, beside a plain copy of the same bytes.
//!
//! For each shape (bytes of a chunk, bytes of a fragment, chunks per batch) the
//! pool is filled so that a right gather yields the pattern; fragments lie
//! shuffled, each in pages of its own. Batches are launched back to back on one
//! stream from lists that were made before, and timed by events; the copy is one
//! call for all bytes, in the same round. Every policy's result is verified.
//! Latency is another matter: one chunk through a lane, from launch to seen, by
//! the clock of the host.
#![forbid(unsafe_code)]

use super::memory::CudaMemory;
use super::shape::Shape;
use crate::gpu::{
    DeviceMemory, LaneSetup, MemoryError, PatternKey, Scatter, Span, TABLE_WORDS, Unpack, Work,
};
use serde::{Deserialize, Serialize};
use std::ptr::NonNull;
use std::time::{Duration, Instant};
use tcpx_abi::unpack::ENTRIES;

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
pub(super) const COPIES_MAX: usize = 8192;

/// A pattern for nothing but this.
pub fn pattern() -> PatternKey {
    let mut word = 0x243f_6a88_85a3_08d3u64;
    let mut next = || {
        word = word
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        word ^ word >> 29
    };
    let mut table = Box::new([0; TABLE_WORDS]);
    table.iter_mut().for_each(|word| *word = next());
    PatternKey { table, key: next() }
}

/// Every shape under every policy.
pub fn rows(memory: &CudaMemory, setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (chunk, fragment) in setup
        .chunks
        .iter()
        .flat_map(|chunk| setup.fragments.iter().map(|one| (*chunk, *one)))
    {
        let fits = fragment <= chunk && chunk.div_ceil(fragment) <= ENTRIES;
        if !fits {
            continue;
        }
        let shape = Shape::new(memory, chunk, fragment, setup.total)?;
        for batch in &setup.batches {
            for policy in [Unpack::Kernel, Unpack::D2d, Unpack::Host] {
                // Only a kernel knows of batches.
                if policy == Unpack::Kernel || *batch == setup.batches[0] {
                    rows.push(shape.row(policy, *batch, setup.rounds)?);
                }
            }
        }
    }
    Ok(rows)
}

/// Filling and verifying.
pub fn payload(memory: &CudaMemory, chunk: usize, total: usize, rounds: usize) -> Result<Payload> {
    let shape = Shape::new(memory, chunk, chunk.min(4096), total)?;
    let (mut fills, mut verifies, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        fills.push(shape.timed(|shape| shape.fill())?);
        verifies.push(shape.timed(|shape| shape.verify())?);
        copies.push(shape.copy(shape.bytes())?);
    }
    Ok(Payload {
        chunk,
        bytes: shape.bytes(),
        fill_nanoseconds: median(fills),
        verify_nanoseconds: median(verifies),
        copy_nanoseconds: median(copies),
    })
}

/// One chunk at a time.
pub fn latency(
    memory: &CudaMemory,
    policy: Unpack,
    chunk: usize,
    fragment: usize,
) -> Result<Latency> {
    let shape = Shape::new(memory, chunk, fragment, chunk)?;
    let setup = LaneSetup {
        jobs: 16,
        chunk,
        unpack: policy,
        pattern: None,
    };
    let mut lane = memory.lane(&setup)?.ok_or(MemoryError::Outside)?;
    let region = memory.allocate(chunk)?;
    let span: Span = region.span(0, chunk).ok_or(MemoryError::Outside)?;
    let list = &shape.entries[..shape.per_chunk];
    let pool = NonNull::new(std::ptr::with_exposed_provenance_mut(
        shape.pool.at as usize,
    ))
    .ok_or(MemoryError::Outside)?;
    let (mut queued, mut launched, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TRIES + 20 {
        let started = Instant::now();
        let list = Scatter::of_pool(list, pool);
        lane.queue(&Work::Take {
            list: Some(&list),
            span,
            verify: None,
            guard: 0,
        })?;
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
        fragments: shape.per_chunk,
        queue_us_p50: at(&queued, 50),
        launch_us_p50: at(&launched, 50),
        seen_us_p50: at(&seen, 50),
        seen_us_p99: at(&seen, 99),
    })
}

/// Of all but the first.
pub(super) fn median(mut times: Vec<Duration>) -> u64 {
    let counted = &mut times[1..];
    counted.sort_unstable();
    counted
        .get(counted.len() / 2)
        .map_or(0, |time| time.as_nanos() as u64)
}
