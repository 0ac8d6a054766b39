//! One end of KV-cache traffic: its endpoint, its pages, and what it knows of the other end's.
//!
//! The thread of `serve` reads the endpoint's notifications: it compares batches that the peer has
//! written here, and hands out the peer's answers to batches that were written there.
#![forbid(unsafe_code)]

use super::notes::{Landed, Note};
use super::pages::{Found, Pages};
use super::words;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tcpx_engine::gpu::MemoryError;
use tcpx_p2p::{Blob, Endpoint, Error};
use tcpx_run_model::kv_plan::KvPlan;
use tcpx_run_model::scenario::{KvOperation, Traffic};
use tcpx_words::payload::Tally;

/// Longest wait before the stop flag is looked at again.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// Why an iteration ended early.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was told to, or another client failed.
    Stopped,
    /// An operation failed.
    Failed(Error),
    /// The GPU could not compare pages.
    Memory(MemoryError),
    /// The peer said something that cannot be.
    Peer(String),
}

impl From<MemoryError> for Ended {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// One end, shared by its threads.
pub(super) struct Session<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) connection: u64,
    pub(super) plan: &'a KvPlan,
    pub(super) kv: &'a Traffic,
    pub(super) verify: bool,
    /// Set by the stop order.
    pub(super) stop: &'a AtomicBool,
    /// Set by the first thread that fails.
    pub(super) failed: AtomicBool,
    /// What this end sends from.
    pub(super) cache: Option<&'a Pages>,
    /// Where it receives: one region per client that pulls, or one for all that the peer pushes.
    pub(super) places: &'a [Pages],
    /// What the peer sends from, if this end pulls.
    pub(super) peer_cache: Option<Blob>,
    /// Where the peer receives, if this end pushes.
    pub(super) peer_places: Option<Blob>,
    pub(super) arrived: Mutex<Tally>,
    pub(super) answers: Answers,
}

/// The peer's answers, by the number of the places.
#[derive(Default)]
pub(super) struct Answers {
    of_place: Mutex<Vec<Option<bool>>>,
    more: Condvar,
}

impl Answers {
    pub(super) fn new(places: usize) -> Self {
        Self {
            of_place: Mutex::new(vec![None; places]),
            more: Condvar::new(),
        }
    }

    fn put(&self, place: u32, wrong: bool) -> bool {
        let mut all = self.of_place.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get_mut(place as usize).map(|at| *at = Some(wrong));
        self.more.notify_all();
        known.is_some()
    }

    /// Waits for the answer about these places: whether bytes are wrong.
    pub(super) fn take(&self, place: usize, ended: impl Fn() -> bool) -> Result<bool, Ended> {
        let mut all = self.of_place.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(wrong) = all.get_mut(place).and_then(Option::take) {
                return Ok(wrong);
            }
            if ended() {
                return Err(Ended::Stopped);
            }
            let waited = self.more.wait_timeout(all, SLICE);
            all = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Session<'_> {
    /// Whether every wait must end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// What has arrived here.
    pub(super) fn arrived(&self) -> MutexGuard<'_, Tally> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Places of one batch.
    pub(super) fn batch_places(&self) -> usize {
        self.kv.batch as usize
    }

    /// Counts a batch that has landed in `pages`, from `first` on, and compares it. Returns whether
    /// bytes are wrong.
    pub(super) fn book(
        &self,
        pages: &Pages,
        first: usize,
        iteration: u32,
        batch: impl Iterator<Item = u64>,
    ) -> Result<bool, MemoryError> {
        let batch: Vec<u64> = batch.collect();
        let bytes = self.plan.page_bytes() * batch.len() as u64;
        let found = match self.verify {
            true => pages.check(first, iteration.into(), &batch)?,
            false => Found::default(),
        };
        let verified = self.plan.page_bytes() * found.compared;
        let mut arrived = self.arrived();
        arrived.bytes += bytes;
        arrived.verified_bytes += verified;
        arrived.wrong_bytes += found.wrong_bytes;
        if let Some(mismatch) = found.first {
            arrived.first_mismatch.get_or_insert(mismatch);
        }
        Ok(found.wrong_bytes > 0 || (self.verify && verified < bytes))
    }

    /// Reads notifications until `over` is set, or something fails.
    pub(super) fn serve(&self, over: &AtomicBool) -> Result<(), Ended> {
        while !over.load(Ordering::Relaxed) && !self.is_over() {
            let Some((_, bytes)) = self.endpoint.notification(SLICE) else {
                continue;
            };
            match Note::decode(&bytes) {
                Some(Note::Check(landed)) => {
                    let answer = Note::Checked {
                        place: landed.place,
                        wrong: self.check(landed)?,
                    };
                    // Its end is not waited for: an error also ends the connection.
                    self.endpoint.notify(self.connection, &answer.encode())?;
                }
                Some(Note::Checked { place, wrong }) if self.answers.put(place, wrong) => {}
                _ => return Err(words::unexpected(&bytes)),
            }
        }
        Ok(())
    }

    /// Compares a batch that the peer has written.
    fn check(&self, landed: Landed) -> Result<bool, Ended> {
        let Landed {
            iteration,
            request,
            batch,
            place,
        } = landed;
        let all = (self.kv.concurrency * self.kv.depth) as usize;
        let (request, place) = (request as usize, place as usize);
        let pages = self.places.first().filter(|_| {
            self.kv.op == KvOperation::Push && place < all && request < self.plan.requests()
        });
        let Some(pages) = pages else {
            return Err(words::no_such_place(batch, request, place));
        };
        let moved = self.plan.pages(iteration, request, batch.into());
        Ok(self.book(pages, place * self.batch_places(), iteration, moved)?)
    }
}
