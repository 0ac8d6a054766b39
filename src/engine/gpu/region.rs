//! A region: one allocation that can be registered, cut into spans, and that
//! outlives every request on it because whoever registers it holds an `Arc`.
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

/// What a registration tells the plugin about the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// `NCCL_PTR_HOST`
    Host,
    /// `NCCL_PTR_CUDA`; over ordinary memory when the plugin is a stand-in.
    Device,
}

/// Why memory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system or the driver refused.
    #[error("cannot allocate {bytes} bytes of {kind:?} memory: {why}")]
    Allocate {
        /// Bytes asked for.
        bytes: usize,
        /// Kind asked for.
        kind: MemoryKind,
        /// The system's words.
        why: String,
    },
    /// A GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// More work than a lane was made for: a bug of ours.
    #[error("a lane for {jobs} messages of {chunk} bytes was given more")]
    Lane {
        /// Of the lane.
        jobs: usize,
        /// Of the lane.
        chunk: usize,
    },
    /// A span of another region, or one that is lent already: a bug of ours.
    #[error("bytes were asked for that are not of their region")]
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

/// How a received scatter list becomes a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unpack {
    /// One gather over the whole list.
    Kernel,
    /// One copy per fragment.
    D2d,
    /// Through a staging buffer.
    Host,
    /// Not at all: pages are handed back unread.
    None,
}

/// Where regions come from, and how bytes get from bounce pages into place.
pub trait DeviceMemory: Send + Sync {
    /// The kind that its regions are registered as.
    fn kind(&self) -> MemoryKind;
    /// A zeroed region of at least `len` bytes that starts on a 4 KiB boundary.
    fn allocate(&self, len: usize) -> Result<Arc<Region>, MemoryError>;
    /// Gathers a checked scatter list into `span`; `false` when the span is not
    /// of this region, or is not this process's to write.
    fn gather(&self, how: Unpack, list: &Scatter<'_>, region: &Region, span: Span) -> bool;

    /// Makes the memory's GPU the calling thread's, for a plugin that binds to
    /// whichever is current: before every listen, connect, accept and regMr.
    fn make_current(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Where a comm publishes its scatter lists.
    fn scatter_source(&self, handle: &DeviceHandle) -> Result<ScatterSource, ScatterError> {
        ScatterSource::from_host_handle(handle)
    }

    /// One channel's work, for memory that this process cannot reach by itself.
    fn lane(&self, _setup: &LaneSetup<'_>) -> Result<Option<Box<dyn Lane>>, MemoryError> {
        Ok(None)
    }

    /// Copies `span` out; waits. For what is not timed.
    fn read(&self, region: &Region, span: Span, into: &mut [u8]) -> Result<(), MemoryError> {
        let read = region.with_bytes(span, |bytes| into.copy_from_slice(&bytes[..into.len()]));
        read.ok_or(MemoryError::Outside)
    }

    /// Copies into `span`; waits. For what is not timed.
    fn write(&self, region: &Region, span: Span, from: &[u8]) -> Result<(), MemoryError> {
        let written = region.with_bytes(span, |bytes| bytes[..from.len()].copy_from_slice(from));
        written.ok_or(MemoryError::Outside)
    }

    /// `host`, `device stand-in`, `GPU 0 (0000:04:00.0)`.
    fn describe(&self) -> String;
}

/// One allocation. Plugins write into it behind the compiler's back, so it is
/// only ever read and written through raw pointers.
pub struct Region {
    start: usize,
    len: usize,
    kind: MemoryKind,
    /// Whether this process can read and write it.
    reachable: bool,
    borrowed: AtomicBool,
    // Frees the memory when the last `Arc` goes.
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

    /// As `new`, of memory that only a GPU can reach.
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

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How it is registered.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Lends `span`'s bytes to `f`; `None` when the span is not of this region or
    /// its bytes are lent already. Only for memory that this process can read,
    /// and only while no request on the span is outstanding: the plugin's writes
    /// are invisible to the compiler.
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

    /// Whether a span is of this region.
    pub fn holds(&self, span: Span) -> bool {
        span.start >= self.start && span.start + span.len <= self.start + self.len
    }

    /// A part of it, or `None` when it would leave the region.
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

/// A checked part of a region. A plain value: whoever posts it keeps the
/// region's `Arc` in the registration.
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

    /// First byte, as a GPU counts.
    pub fn address(self) -> u64 {
        self.start as u64
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}
