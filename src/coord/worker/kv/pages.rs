//! Pages in registered memory: the cache that they are taken from, and the places that they land
//! in.
//!
//! Every page of a cache has a pattern of its own, which differs in every iteration. A page that
//! has landed is compared with it and then loses its stamps, so that bytes of an earlier operation
//! cannot be taken for those of the next one. A GPU fills and compares pages in its own memory.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tcpx_engine::gpu::{
    DeviceMemory, Lane, LaneSetup, MemoryError, Passed, Region, Span, Unpack, Work,
};
use tcpx_engine::transfer::Pattern;
use tcpx_p2p::{Blob, Endpoint, Error, Local, Rights};
use tcpx_words::payload::{Mismatch, MismatchKind, StampId};

/// Bytes between two stamps of the pattern.
const BLOCK: usize = 2048;

/// Jobs that a GPU does at once.
const JOBS_MAX: usize = 1024;
/// The channel of the pattern that a compared page in GPU memory is filled with: that of no direction.
const WIPED: u64 = 1023;

/// Pages of one size in one registration.
pub(super) struct Pages {
    memory: Arc<dyn DeviceMemory>,
    region: Arc<Region>,
    registration: u64,
    page: usize,
    count: usize,
    pattern: Option<Arc<Pattern>>,
    /// Fills and compares pages that only a GPU can access.
    lane: Option<Mutex<Box<dyn Lane>>>,
    /// Its number in the stamps: that of the direction.
    channel: u64,
}

/// What the comparison of a batch has shown.
#[derive(Default)]
pub(super) struct Found {
    /// Pages that were compared.
    pub(super) compared: u64,
    pub(super) wrong_bytes: u64,
    pub(super) first: Option<Mismatch>,
}

impl Found {
    fn add(&mut self, mismatch: Option<Mismatch>) {
        self.compared += 1;
        if let Some(mismatch) = mismatch {
            self.wrong_bytes += mismatch.wrong_bytes;
            self.first.get_or_insert(mismatch);
        }
    }
}

/// Why there are no pages.
pub(super) enum PagesError {
    /// No memory.
    Memory(MemoryError),
    /// The endpoint refused it.
    Endpoint(Error),
}

/// What the pages of both ends of a direction have in common.
#[derive(Clone)]
pub(super) struct PageKind {
    pub(super) bytes: usize,
    pub(super) pattern: Option<Arc<Pattern>>,
    pub(super) channel: u64,
}

impl Pages {
    /// Memory for `count` pages, registered with the endpoint.
    pub(super) fn new(
        endpoint: &Endpoint,
        memory: &Arc<dyn DeviceMemory>,
        kind: &PageKind,
        count: usize,
    ) -> Result<Self, PagesError> {
        let bytes = kind.bytes.saturating_mul(count);
        let region = memory.allocate(bytes).map_err(PagesError::Memory)?;
        let registration = endpoint.register_region(&region);
        let lane = match &kind.pattern {
            None => None,
            Some(pattern) => memory
                .lane(&LaneSetup {
                    jobs: count.min(JOBS_MAX),
                    chunk: kind.bytes,
                    // The endpoint unpacks.
                    unpack: Unpack::None,
                    pattern: Some(&pattern.key()),
                })
                .map_err(PagesError::Memory)?,
        };
        let pages = Self {
            memory: Arc::clone(memory),
            registration: registration.map_err(PagesError::Endpoint)?,
            region,
            page: kind.bytes,
            count,
            pattern: kind.pattern.clone(),
            lane: lane.map(Mutex::new),
            channel: kind.channel,
        };
        // Untouched host memory is one shared page of zeros, which is faster to send than a cache.
        for page in 0..count {
            let _ = pages.with(page, |bytes| bytes.fill(0));
        }
        Ok(pages)
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.region.len() as u64
    }

    /// The blob that gives the peer these rights to all pages.
    pub(super) fn advertise(&self, endpoint: &Endpoint, rights: Rights) -> Result<Blob, Error> {
        let all = Local {
            registration: self.registration,
            address: self.region.as_ptr().addr(),
            len: self.region.len(),
        };
        endpoint.advertise(all, rights)
    }

    /// A page as a buffer of this end.
    pub(super) fn local(&self, page: usize) -> Local {
        Local {
            registration: self.registration,
            address: self.region.as_ptr().addr() + page * self.page,
            len: self.page,
        }
    }

    fn span(&self, page: usize) -> Result<Span, MemoryError> {
        let span = self.region.span(page * self.page, self.page);
        span.ok_or(MemoryError::Outside)
    }

    fn with<R>(&self, page: usize, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.region.with_bytes(self.span(page).ok()?, f)
    }

    /// Writes the pattern of an iteration into every page. Nothing may be in flight.
    pub(super) fn fill(&self, iteration: u64) -> Result<(), MemoryError> {
        let Some(pattern) = &self.pattern else {
            return Ok(());
        };
        let ids = (0..self.count).map(|page| (page, self.id(iteration, page as u64)));
        if let Some(lane) = &self.lane {
            return self.fill_on_gpu(&mut **locked(lane), pattern, &ids.collect::<Vec<_>>());
        }
        for (page, id) in ids {
            let _ = self.with(page, |bytes| pattern.fill(id, bytes));
        }
        Ok(())
    }

    /// Compares the places from `first` on with the pages of the other end's cache that must be
    /// there. Compares fewer if another thread is at these places, and none without a pattern.
    pub(super) fn check(
        &self,
        first: usize,
        iteration: u64,
        batch: &[u64],
    ) -> Result<Found, MemoryError> {
        let mut found = Found::default();
        let Some(pattern) = &self.pattern else {
            return Ok(found);
        };
        let ids = (first..).zip(batch.iter().map(|page| self.id(iteration, *page)));
        if let Some(lane) = &self.lane {
            self.check_on_gpu(
                &mut **locked(lane),
                pattern,
                &ids.collect::<Vec<_>>(),
                &mut found,
            )?;
            return Ok(found);
        }
        for (place, id) in ids {
            let compared = self.with(place, |bytes| {
                let mismatch = pattern.verify(id, bytes);
                for block in bytes.chunks_mut(BLOCK) {
                    let stamp = block.len().min(8);
                    block[..stamp].fill(0);
                }
                mismatch
            });
            if let Some(mismatch) = compared {
                found.add(mismatch);
            }
        }
        Ok(found)
    }

    /// As `check`, where the GPU compares, and fills what it has compared with a pattern of its own.
    fn check_on_gpu(
        &self,
        lane: &mut dyn Lane,
        pattern: &Pattern,
        places: &[(usize, StampId)],
        found: &mut Found,
    ) -> Result<(), MemoryError> {
        for some in places.chunks(JOBS_MAX) {
            for (place, id) in some {
                lane.queue(&Work::Take {
                    list: None,
                    span: self.span(*place)?,
                    verify: Some(pattern.stamp_of(*id)),
                    guard: 0,
                })?;
            }
            lane.settle()?;
            for (place, id) in some {
                match lane.passed()? {
                    Some(Passed::Right) => found.add(None),
                    Some(_) => found.add(Some(self.explain(pattern, *place, *id)?)),
                    None => {}
                }
            }
        }
        let wiped = |(place, id): &(usize, StampId)| {
            let channel = WIPED;
            (*place, StampId { channel, ..*id })
        };
        self.fill_on_gpu(lane, pattern, &places.iter().map(wiped).collect::<Vec<_>>())
    }

    fn fill_on_gpu(
        &self,
        lane: &mut dyn Lane,
        pattern: &Pattern,
        pages: &[(usize, StampId)],
    ) -> Result<(), MemoryError> {
        for some in pages.chunks(JOBS_MAX) {
            for (page, id) in some {
                lane.queue(&Work::Fill {
                    span: self.span(*page)?,
                    stamp: pattern.stamp_of(*id),
                })?;
            }
            lane.settle()?;
            while lane.passed()?.is_some() {}
        }
        Ok(())
    }

    /// Describes a mismatch that the GPU has found. Where the bytes are right by now, it is still one.
    #[cold]
    fn explain(
        &self,
        pattern: &Pattern,
        place: usize,
        id: StampId,
    ) -> Result<Mismatch, MemoryError> {
        let mut bytes = vec![0; self.page];
        self.memory
            .read(&self.region, self.span(place)?, &mut bytes)?;
        let late = || Mismatch {
            id,
            offset: 0,
            wrong_bytes: self.page as u64,
            expected: bytes[0],
            got: bytes[0],
            kind: MismatchKind::Stale,
            from: None,
        };
        Ok(pattern.verify(id, &bytes).unwrap_or_else(late))
    }

    fn id(&self, iteration: u64, page: u64) -> StampId {
        StampId {
            iteration,
            channel: self.channel,
            chunk: page,
        }
    }
}

fn locked(lane: &Mutex<Box<dyn Lane>>) -> MutexGuard<'_, Box<dyn Lane>> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a page begins in memory that another end has advertised.
pub(super) fn offset(page: usize, bytes: usize) -> u64 {
    (page * bytes) as u64
}
