//! A region: one allocation that can be registered and cut into spans. It outlives every
//! request on it, because the registration holds an `Arc` of it.
#![expect(
    unsafe_code,
    reason = "gives the bytes of a mapping to one closure at a time"
)]

use super::{CudaError, Lane, LaneSetup, Scatter, ScatterError, ScatterSource};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpx_abi::v7::DeviceHandle;
use tcpx_words::error::NextStep;

/// The memory type that a registration passes to the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// `NCCL_PTR_HOST`
    Host,
    /// `NCCL_PTR_CUDA`. Host memory if the plugin is a stand-in.
    Device,
}

/// Errors of allocating memory and of working on it.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system or the driver refused the allocation.
    #[error("cannot allocate {bytes} bytes of {kind:?} memory: {why}")]
    Allocate {
        /// Requested bytes.
        bytes: usize,
        /// Requested kind.
        kind: MemoryKind,
        /// The error of the system or driver.
        why: String,
    },
    /// An error of a GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A bug in the engine: more jobs or longer messages than the lane was created for.
    #[error("engine bug: a lane for {jobs} messages of {chunk} bytes got more")]
    Lane {
        /// Most jobs of the lane.
        jobs: usize,
        /// Longest message of the lane in bytes.
        chunk: usize,
    },
    /// A bug in the engine: a span of another region, or bytes that are already lent.
    #[error("engine bug: access to bytes outside a region")]
    Outside,
}

impl NextStep for MemoryError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Cuda(error) => error.next_step(),
            Self::Allocate { .. } | Self::Lane { .. } | Self::Outside => None,
        }
    }
}

/// How the fragments of a receive are copied into its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unpack {
    /// One gather over the whole list.
    Kernel,
    /// One copy per fragment.
    D2d,
    /// One copy per fragment to a staging buffer on the host, and one back.
    Host,
    /// Not at all: the receive is consumed without reading its pages.
    None,
}

/// A kind of memory: allocates regions and unpacks receives into them.
pub trait DeviceMemory: Send + Sync {
    /// The kind with which its regions are registered.
    fn kind(&self) -> MemoryKind;
    /// Allocates a zeroed region of at least `len` bytes, aligned to 4 KiB.
    fn allocate(&self, len: usize) -> Result<Arc<Region>, MemoryError>;
    /// Copies the fragments of a checked scatter list into `span`. `false` if the span is not
    /// in `region` or this process cannot write it.
    fn gather(&self, how: Unpack, list: &Scatter<'_>, region: &Region, span: Span) -> bool;

    /// Makes the memory's GPU current in the calling thread. Call before every listen,
    /// connect, accept and regMr, because plugins use the current GPU.
    fn make_current(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// The scatter lists of a comm, from its device handle.
    fn scatter_source(&self, handle: &DeviceHandle) -> Result<ScatterSource, ScatterError> {
        ScatterSource::from_host_handle(handle)
    }

    /// Creates the lane of one channel; `None` for memory that this process can access.
    fn lane(&self, _setup: &LaneSetup<'_>) -> Result<Option<Box<dyn Lane>>, MemoryError> {
        Ok(None)
    }

    /// Copies `span` into `into` and waits. Not for the timed part.
    fn read(&self, region: &Region, span: Span, into: &mut [u8]) -> Result<(), MemoryError> {
        let read = region.with_bytes(span, |bytes| into.copy_from_slice(&bytes[..into.len()]));
        read.ok_or(MemoryError::Outside)
    }

    /// Copies `from` into `span` and waits. Not for the timed part.
    fn write(&self, region: &Region, span: Span, from: &[u8]) -> Result<(), MemoryError> {
        let written = region.with_bytes(span, |bytes| bytes[..from.len()].copy_from_slice(from));
        written.ok_or(MemoryError::Outside)
    }

    /// `host`, `device stand-in`, `GPU 0 (0000:04:00.0)`.
    fn describe(&self) -> String;
}

/// One allocation. Plugins write into it without the compiler's knowledge, so it is accessed
/// through raw pointers only.
pub struct Region {
    start: usize,
    len: usize,
    kind: MemoryKind,
    /// Whether this process can read and write it.
    reachable: bool,
    borrowed: AtomicBool,
    // Frees the memory when the last `Arc` is dropped.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Region {
    /// `start..start + len` must stay valid for as long as `owner` lives.
    pub(super) fn new(
        start: usize,
        len: usize,
        kind: MemoryKind,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self {
            start,
            len,
            kind,
            reachable: true,
            borrowed: AtomicBool::new(false),
            _owner: owner,
        })
    }

    /// As `new`, for memory that only a GPU can access.
    pub(super) fn of_gpu(start: usize, len: usize, owner: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        let kind = MemoryKind::Device;
        Arc::new(Self {
            start,
            len,
            kind,
            reachable: false,
            borrowed: AtomicBool::new(false),
            _owner: owner,
        })
    }

    /// Memory that belongs to somebody else: a buffer of the program that the engine is part of.
    /// Only the plugin accesses it; `with_bytes` refuses.
    ///
    /// # Safety
    /// `start..start + len` stays mapped and writable for as long as the region or a
    /// registration of it lives.
    pub unsafe fn foreign(start: *mut u8, len: usize, kind: MemoryKind) -> Arc<Self> {
        Arc::new(Self {
            start: start.expose_provenance(),
            len,
            kind,
            reachable: false,
            borrowed: AtomicBool::new(false),
            _owner: Box::new(()),
        })
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The kind with which it is registered.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Lends `span`'s bytes to `f`. `None` if the span is not in this region, its bytes are
    /// already lent, or only a GPU can access them. No request on the span may be outstanding,
    /// because the plugin's writes are invisible to the compiler.
    pub fn with_bytes<R>(&self, span: Span, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !self.reachable || !self.holds(span) {
            return None;
        }
        if self.borrowed.swap(true, Ordering::Acquire) {
            return None;
        }
        struct GiveBack<'a>(&'a AtomicBool);
        impl Drop for GiveBack<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        let _lent = GiveBack(&self.borrowed);
        // SAFETY: the bytes lie inside the mapping, which `self` keeps alive, were
        // zeroed when mapped, and `borrowed` makes this the only reference to them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(span.as_ptr(), span.len) };
        Some(f(bytes))
    }

    /// Whether a span is inside this region.
    pub fn holds(&self, span: Span) -> bool {
        span.start >= self.start && span.start + span.len <= self.start + self.len
    }

    /// A part of the region, or `None` if it would exceed the region.
    pub fn span(self: &Arc<Self>, offset: usize, len: usize) -> Option<Span> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| Span {
            start: self.start + offset,
            len,
        })
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({:?}, {} bytes)", self.kind, self.len)
    }
}

/// A checked part of a region. It does not keep the region alive; the registration that it is
/// posted with does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: usize,
    len: usize,
}

impl Span {
    /// First byte.
    pub fn as_ptr(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// The GPU's address of the first byte.
    pub fn address(self) -> u64 {
        self.start as u64
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the buffer outlives the region")]
    fn foreign_memory_is_cut_into_spans_and_never_lent() {
        let mut buffer = [7u8; 100];
        // SAFETY: `buffer` lives until the end of the test.
        let region = unsafe { Region::foreign(buffer.as_mut_ptr(), 100, MemoryKind::Host) };
        let span = region.span(10, 90).expect("inside");
        assert_eq!(span.as_ptr().addr(), buffer.as_ptr().addr() + 10);
        assert!(region.span(10, 91).is_none());
        assert!(region.with_bytes(span, |_| ()).is_none());
    }
}
