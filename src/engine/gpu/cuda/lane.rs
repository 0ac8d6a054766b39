//! One channel's work on a GPU: batches of jobs on the channel's own stream.
//!
//! A batch's event, its piece list and flags in pinned memory, and its staging buffer, if the
//! policy needs one, are created once. A batch holds the jobs queued since the last launch.
//! Four batches are used in turn: while three are in progress, jobs are added to the fourth.
//! Nothing waits for a launch; its event is polled.
//!
//! The policies differ in `gather` only. `kernel` is one launch for the whole
//! batch, `d2d` one copy per fragment, `host` one copy per fragment to the host
//! and one back; all of them are work on the stream.
#![expect(
    unsafe_code,
    reason = "puts work on memory of registered regions on a stream"
)]

use super::driver::Cuda;
use super::error::CudaError;
use super::kernels::{Chunk, Kernels, PatternAt, Piece};
use super::objects::{Allocation, Event, Pinned, Stream};
use crate::gpu::{Lane, LaneSetup, MemoryError, Passed, Scatter, Span, Stamp, Unpack, Work};
use std::collections::VecDeque;
use std::sync::Arc;
use tcpx_abi::unpack::ENTRIES;

/// Number of batches that a lane uses in turn.
const BATCHES: usize = 4;
/// Most bytes of a piece; longer fragments are split.
const PIECE: usize = 4096;

/// A pattern's table in GPU memory.
pub(super) struct Table {
    pub(super) allocation: Allocation,
    pub(super) key: u64,
}

/// The lane of one channel on a GPU.
pub(super) struct CudaLane {
    stream: Stream,
    kernels: Arc<Kernels>,
    table: Option<Arc<Table>>,
    unpack: Unpack,
    jobs: usize,
    chunk: usize,
    batches: Vec<Batch>,
    /// Index of the batch to which jobs are added.
    open: usize,
    /// Indices of the launched batches, oldest first.
    under_way: VecDeque<usize>,
    /// Jobs queued and not yet reported.
    outstanding: usize,
    /// Jobs of the oldest batch, which is finished, that were reported.
    told: usize,
}

struct Batch {
    event: Event,
    pieces: Pinned<Piece>,
    flags: Pinned<u32>,
    staging: Option<Pinned<u8>>,
    piece_count: usize,
    /// Copies of the policies without a kernel: source, destination, bytes.
    copies: Vec<(u64, u64, usize)>,
    bounce: u64,
    fills: Vec<Chunk>,
    /// One per job; a job with length 0 is not compared.
    checks: Vec<Chunk>,
    jobs: usize,
    passed: bool,
}

impl CudaLane {
    pub(super) fn new(
        kernels: &Arc<Kernels>,
        table: Option<Arc<Table>>,
        setup: &LaneSetup<'_>,
    ) -> Cuda<Self> {
        let context = &kernels.context;
        let jobs = setup.jobs.max(1);
        // The host policy copies each fragment twice.
        let copies = if setup.unpack == Unpack::Kernel {
            0
        } else {
            jobs * (ENTRIES + 1)
        };
        let pieces = if setup.unpack == Unpack::Kernel {
            jobs * (ENTRIES + setup.chunk.div_ceil(PIECE))
        } else {
            0
        };
        let batch = || -> Cuda<Batch> {
            let staging = setup.unpack == Unpack::Host;
            Ok(Batch {
                event: Event::new(context, false)?,
                pieces: Pinned::new(context, pieces)?,
                flags: Pinned::new(context, jobs)?,
                staging: staging
                    .then(|| Pinned::new(context, jobs * setup.chunk))
                    .transpose()?,
                piece_count: 0,
                copies: Vec::with_capacity(copies),
                bounce: 0,
                fills: Vec::with_capacity(jobs),
                checks: Vec::with_capacity(jobs),
                jobs: 0,
                passed: false,
            })
        };
        Ok(Self {
            stream: Stream::new(context)?,
            kernels: Arc::clone(kernels),
            table,
            unpack: setup.unpack,
            jobs,
            chunk: setup.chunk,
            batches: (0..BATCHES).map(|_| batch()).collect::<Cuda<_>>()?,
            open: 0,
            under_way: VecDeque::with_capacity(BATCHES),
            outstanding: 0,
            told: 0,
        })
    }

    fn too_much(&self) -> MemoryError {
        MemoryError::Lane {
            jobs: self.jobs,
            chunk: self.chunk,
        }
    }

    fn described(&self, span: Span, stamp: Stamp, guard: usize) -> Result<Chunk, MemoryError> {
        let at = span.address();
        if !at.is_multiple_of(16) {
            let problem = "is not on a 16-byte boundary".to_owned();
            return Err(CudaError::Address {
                what: "a message to fill or verify",
                at,
                problem,
            }
            .into());
        }
        Ok(Chunk {
            at,
            body: stamp.body,
            first: stamp.first,
            len: span.len() as u32,
            guard: guard as u32,
        })
    }

    /// Adds a checked scatter list to the open batch, as pieces or copies.
    fn gather(&mut self, list: &Scatter<'_>, span: Span) -> Result<(), MemoryError> {
        let batch = &mut self.batches[self.open];
        if batch.bounce != 0 && batch.bounce != list.bounce() {
            // A comm has the same pool for its whole life.
            let problem = format!("differs from the comm's pool at {:#x}", batch.bounce);
            return Err(CudaError::Address {
                what: "the bounce buffer",
                at: list.bounce(),
                problem,
            }
            .into());
        }
        batch.bounce = list.bounce();
        let whole = match self.unpack {
            Unpack::Kernel => batch.add_pieces(list, span),
            Unpack::D2d => {
                let copies = list.entries().iter().map(|one| {
                    (
                        list.bounce() + u64::from(one.src_off),
                        span.address() + one.dst_off,
                        one.len as usize,
                    )
                });
                batch.add_copies(copies)
            }
            Unpack::Host => {
                let base = batch.staging.as_ref().map_or(0, Pinned::address)
                    + (batch.jobs * self.chunk) as u64;
                let out = list.entries().iter().map(|one| {
                    (
                        list.bounce() + u64::from(one.src_off),
                        base + one.dst_off,
                        one.len as usize,
                    )
                });
                batch.add_copies(out)
                    && batch.add_copies(std::iter::once((base, span.address(), span.len())))
            }
            Unpack::None => true,
        };
        if whole { Ok(()) } else { Err(self.too_much()) }
    }

    fn start(&mut self) -> Cuda<()> {
        let batch = &mut self.batches[self.open];
        self.kernels.context.make_current()?;
        if batch.piece_count > 0 {
            // SAFETY: the list was checked against its message and, where its size
            // is known, its pool; both live as long as the channel that drives this.
            unsafe {
                self.kernels.unpack(
                    &self.stream,
                    batch.bounce,
                    &batch.pieces,
                    0,
                    batch.piece_count,
                )
            }?;
        }
        let staged = batch
            .staging
            .as_ref()
            .map(|staging| staging.address()..staging.address() + staging.len() as u64);
        for (from, to, bytes) in batch.copies.iter().copied() {
            let within = |at: u64| staged.as_ref().is_some_and(|range| range.contains(&at));
            let host = |at: u64| std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
            if within(to) {
                // SAFETY: as above, into our own staging buffer.
                unsafe { self.stream.copy_out(host(to), from, bytes) }?;
            } else if within(from) {
                // SAFETY: as above, out of our own staging buffer.
                unsafe { self.stream.copy_in(to, host(from), bytes) }?;
            } else {
                // SAFETY: as above.
                unsafe { self.stream.copy(to, from, bytes) }?;
            }
        }
        if let Some(table) = &self.table {
            let pattern = PatternAt {
                table: table.allocation.at,
                key: table.key,
            };
            if !batch.fills.is_empty() {
                // SAFETY: spans of regions that the channel keeps.
                unsafe { self.kernels.fill(&self.stream, pattern, &batch.fills) }?;
            }
            if batch.checks.iter().any(|chunk| chunk.at != 0) {
                // SAFETY: as above; a flag for every job.
                unsafe {
                    self.kernels
                        .verify(&self.stream, pattern, &batch.checks, batch.flags.address())
                }?;
            }
        }
        batch.event.record(&self.stream)
    }
}

impl Batch {
    fn add_pieces(&mut self, list: &Scatter<'_>, span: Span) -> bool {
        for one in list.entries() {
            let (mut done, len) = (0, one.len as usize);
            while done < len {
                let now = PIECE.min(len - done);
                let dst = span.address() + one.dst_off + done as u64;
                let piece = Piece {
                    src_off: one.src_off + done as u32,
                    len: now as u32,
                    dst,
                };
                if !self.pieces.put(self.piece_count, piece) {
                    return false;
                }
                self.piece_count += 1;
                done += now;
            }
        }
        true
    }

    fn add_copies(&mut self, copies: impl Iterator<Item = (u64, u64, usize)>) -> bool {
        self.copies
            .extend(copies.filter(|(_, _, bytes)| *bytes > 0));
        true
    }

    fn clear(&mut self) {
        self.piece_count = 0;
        self.copies.clear();
        self.bounce = 0;
        self.fills.clear();
        self.checks.clear();
        self.jobs = 0;
        self.passed = false;
    }
}

impl Lane for CudaLane {
    fn queue(&mut self, work: &Work<'_>) -> Result<(), MemoryError> {
        let (Work::Fill { span, .. } | Work::Take { span, .. }) = work;
        if self.outstanding == self.jobs || span.len() > self.chunk {
            return Err(self.too_much());
        }
        let check = match work {
            Work::Fill { span, stamp } => {
                let fill = self.described(*span, *stamp, 0)?;
                self.batches[self.open].fills.push(fill);
                Chunk::default()
            }
            Work::Take {
                list,
                span,
                verify,
                guard,
            } => {
                if let Some(list) = list {
                    self.gather(list, *span)?;
                }
                verify
                    .map(|stamp| self.described(*span, stamp, *guard))
                    .transpose()?
                    .unwrap_or_default()
            }
        };
        let batch = &mut self.batches[self.open];
        batch.flags.put(batch.jobs, 0);
        batch.checks.push(check);
        batch.jobs += 1;
        self.outstanding += 1;
        Ok(())
    }

    fn launch(&mut self) -> Result<(), MemoryError> {
        if self.batches[self.open].jobs == 0 || self.under_way.len() + 1 == BATCHES {
            return Ok(());
        }
        self.start()?;
        self.under_way.push_back(self.open);
        self.open = (self.open + 1) % BATCHES;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), MemoryError> {
        self.launch()?;
        Ok(self.stream.finish()?)
    }

    fn passed(&mut self) -> Result<Option<Passed>, MemoryError> {
        let Some(oldest) = self.under_way.front().copied() else {
            return Ok(None);
        };
        let batch = &mut self.batches[oldest];
        if !batch.passed {
            batch.passed = batch.event.has_passed()?;
        }
        if !batch.passed {
            return Ok(None);
        }
        let flag = batch.flags.get(self.told).unwrap_or_default();
        self.told += 1;
        self.outstanding -= 1;
        if self.told == batch.jobs {
            batch.clear();
            self.under_way.pop_front();
            self.told = 0;
        }
        Ok(Some(match flag {
            0 => Passed::Right,
            1 => Passed::Wrong,
            _ => Passed::Overrun,
        }))
    }
}
