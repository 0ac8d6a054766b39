//! A region: one allocation that can be registered, cut into spans, and that
//! outlives every request on it because whoever registers it holds an `Arc`.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

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
}

/// Where regions come from, and how bytes get from bounce pages into place.
pub trait DeviceMemory: Send + Sync {
    /// The kind that its regions are registered as.
    fn kind(&self) -> MemoryKind;
    /// A zeroed region of at least `len` bytes that starts on a 4 KiB boundary.
    fn allocate(&self, len: usize) -> Result<Arc<Region>, MemoryError>;
}

/// One allocation. Plugins write into it behind the compiler's back, so it is
/// only ever read and written through raw pointers.
pub struct Region {
    start: usize,
    len: usize,
    kind: MemoryKind,
    // Frees the memory when the last `Arc` goes.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Region {
    /// `start..start + len` must stay valid for as long as `owner` lives.
    pub(super) fn new(start: usize, len: usize, kind: MemoryKind, owner: Box<dyn Any + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { start, len, kind, _owner: owner })
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

    /// A part of it, or `None` when it would leave the region.
    pub fn span(self: &Arc<Self>, offset: usize, len: usize) -> Option<Span> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| Span { start: self.start + offset, len })
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

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}
