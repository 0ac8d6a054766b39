//! Pages in registered memory: the cache that they are taken from, and the places that they land
//! in.
//!
//! Every page of a cache has a pattern of its own, which differs in every iteration. A page that
//! has landed is compared with it and then loses its stamps, so that bytes of an earlier operation
//! cannot be taken for those of the next one.
#![forbid(unsafe_code)]

use std::sync::Arc;
use tcpx_engine::gpu::{DeviceMemory, HostMemory, MemoryError, Region};
use tcpx_engine::transfer::Pattern;
use tcpx_p2p::{Blob, Endpoint, Error, Local, Rights};
use tcpx_words::payload::{Mismatch, StampId};

/// Bytes between two stamps of the pattern.
const BLOCK: usize = 2048;

/// Pages of one size in one registration.
pub(super) struct Pages {
    region: Arc<Region>,
    registration: u64,
    page: usize,
    count: usize,
    pattern: Option<Arc<Pattern>>,
    /// Its number in the stamps: that of the direction.
    channel: u64,
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
        kind: &PageKind,
        count: usize,
    ) -> Result<Self, PagesError> {
        let bytes = kind.bytes.saturating_mul(count);
        let region = HostMemory::host()
            .allocate(bytes)
            .map_err(PagesError::Memory)?;
        let registration = endpoint.register_region(&region);
        let pages = Self {
            registration: registration.map_err(PagesError::Endpoint)?,
            region,
            page: kind.bytes,
            count,
            pattern: kind.pattern.clone(),
            channel: kind.channel,
        };
        // Untouched memory is one shared page of zeros, which is faster to send than a cache.
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

    fn with<R>(&self, page: usize, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let span = self.region.span(page * self.page, self.page)?;
        self.region.with_bytes(span, f)
    }

    /// Writes the pattern of an iteration into every page. Nothing may be in flight.
    pub(super) fn fill(&self, iteration: u64) {
        let Some(pattern) = &self.pattern else {
            return;
        };
        for page in 0..self.count {
            let id = self.id(iteration, page as u64);
            let _ = self.with(page, |bytes| pattern.fill(id, bytes));
        }
    }

    /// Compares the bytes at `place` with the page of the other end's cache that must be there.
    /// `None` without a pattern, or if another thread is at these pages.
    pub(super) fn check(
        &self,
        place: usize,
        iteration: u64,
        page: u64,
    ) -> Option<Option<Mismatch>> {
        let pattern = self.pattern.as_ref()?;
        let id = self.id(iteration, page);
        self.with(place, |bytes| {
            let found = pattern.verify(id, bytes);
            for block in bytes.chunks_mut(BLOCK) {
                let stamp = block.len().min(8);
                block[..stamp].fill(0);
            }
            found
        })
    }

    fn id(&self, iteration: u64, page: u64) -> StampId {
        StampId {
            iteration,
            channel: self.channel,
            chunk: page,
        }
    }
}

/// Where a page begins in memory that another end has advertised.
pub(super) fn offset(page: usize, bytes: usize) -> u64 {
    (page * bytes) as u64
}
