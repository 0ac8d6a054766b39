//! Measures the cost of unpacking on one GPU, compared with a plain copy of the same bytes.
//!
//! For each shape (bytes per chunk, bytes per fragment, chunks per batch) the pool is filled
//! so that a correct gather yields the pattern; fragments are shuffled, each in its own pages.
//! Batches are launched back to back on one stream from prepared lists and timed by events;
//! the copy is one call for all bytes in the same round. Every policy's result is verified.
//! Latency is measured separately: one chunk through a lane, from launch until the host sees
//! the event, by the host's clock.
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
pub struct BenchSetup {
    /// Bytes per chunk, each below 2 GiB.
    pub chunks: Vec<usize>,
    /// Bytes per fragment.
    pub fragments: Vec<usize>,
    /// Chunks per batch.
    pub batches: Vec<usize>,
    /// Bytes per round.
    pub total: usize,
    /// Rounds; the results are medians over them.
    pub rounds: usize,
}

/// The result of one shape with one unpack policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnpackRow {
    /// Unpack policy.
    pub policy: Unpack,
    /// Bytes per chunk.
    pub chunk: usize,
    /// Bytes per fragment.
    pub fragment: usize,
    /// Fragments per chunk.
    pub fragments: usize,
    /// Chunks per batch.
    pub batch: usize,
    /// Bytes per round.
    pub bytes: usize,
    /// Median time of a round, by the GPU's clock.
    pub nanoseconds: u64,
    /// Median time of one plain copy of the same bytes, likewise.
    pub copy_nanoseconds: u64,
    /// Whether every byte was correct afterwards.
    pub verified: bool,
}

impl UnpackRow {
    /// Unpack rate in 10^9 bytes per second.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.nanoseconds as f64
    }

    /// Unpack rate as a share of the plain copy's.
    pub fn of_copy(&self) -> f64 {
        self.copy_nanoseconds as f64 / self.nanoseconds as f64
    }
}

/// The cost of filling and verifying, compared with a copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PayloadRow {
    /// Bytes per chunk.
    pub chunk: usize,
    /// Bytes per round.
    pub bytes: usize,
    /// Median time to fill a round, by the GPU's clock.
    pub fill_nanoseconds: u64,
    /// Median time to verify a round.
    pub verify_nanoseconds: u64,
    /// Median time to copy a round.
    pub copy_nanoseconds: u64,
}

impl PayloadRow {
    /// Rate of filling and verifying as a share of the copy rate.
    pub fn of_copy(&self) -> f64 {
        self.copy_nanoseconds as f64 / (self.fill_nanoseconds + self.verify_nanoseconds) as f64
    }
}

/// Latency of one chunk at a time through a lane, in microseconds of the host's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Unpack policy.
    pub policy: Unpack,
    /// Bytes of the chunk.
    pub chunk: usize,
    /// Fragments of the chunk.
    pub fragments: usize,
    /// Median time to check the scatter list and queue the job.
    pub queue_us_p50: f64,
    /// Median time in the launch calls.
    pub launch_us_p50: f64,
    /// Median time from launch until the event is seen.
    pub seen_us_p50: f64,
    /// 99th percentile of the same.
    pub seen_us_p99: f64,
}

/// Chunks measured for one latency row.
const TRIES: usize = 500;
/// Most copies per round, for policies that copy each fragment.
pub(super) const COPIES_MAX: usize = 8192;

/// A random pattern for the benchmark.
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

/// Measures every shape with every policy.
pub fn rows(memory: &CudaMemory, setup: &BenchSetup) -> Result<Vec<UnpackRow>> {
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
                // Only the kernel policy has batches.
                if policy == Unpack::Kernel || *batch == setup.batches[0] {
                    rows.push(shape.row(policy, *batch, setup.rounds)?);
                }
            }
        }
    }
    Ok(rows)
}

/// Measures filling and verifying.
pub fn payload(
    memory: &CudaMemory,
    chunk: usize,
    total: usize,
    rounds: usize,
) -> Result<PayloadRow> {
    let shape = Shape::new(memory, chunk, chunk.min(4096), total)?;
    let (mut fills, mut verifies, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        fills.push(shape.timed(|shape| shape.fill())?);
        verifies.push(shape.timed(|shape| shape.verify())?);
        copies.push(shape.copy(shape.bytes())?);
    }
    Ok(PayloadRow {
        chunk,
        bytes: shape.bytes(),
        fill_nanoseconds: median(fills),
        verify_nanoseconds: median(verifies),
        copy_nanoseconds: median(copies),
    })
}

/// Measures the latency of one chunk at a time.
pub fn latency(
    memory: &CudaMemory,
    policy: Unpack,
    chunk: usize,
    fragment: usize,
) -> Result<LatencyRow> {
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
        let list = Scatter::over_pool(list, pool);
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
    // The first chunks are warm-up.
    let at = |times: &[Duration], share: usize| {
        let mut sorted = times[20..].to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * share / 100).min(sorted.len() - 1)].as_secs_f64() * 1e6
    };
    Ok(LatencyRow {
        policy,
        chunk,
        fragments: shape.per_chunk,
        queue_us_p50: at(&queued, 50),
        launch_us_p50: at(&launched, 50),
        seen_us_p50: at(&seen, 50),
        seen_us_p99: at(&seen, 99),
    })
}

/// The median in nanoseconds of all times except the first, which is warm-up.
pub(super) fn median(mut times: Vec<Duration>) -> u64 {
    let counted = &mut times[1..];
    counted.sort_unstable();
    counted
        .get(counted.len() / 2)
        .map_or(0, |time| time.as_nanos() as u64)
}
