//! Page-aligned anonymous memory from `mmap`.
#![expect(unsafe_code, reason = "maps and unmaps anonymous memory")]

use super::{DeviceMemory, MemoryError, MemoryKind, Region, Scatter, Span, Unpack};
use std::num::NonZero;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Host memory, registered as such or as a stand-in for GPU memory.
#[derive(Debug, Clone, Copy)]
pub struct HostMemory {
    kind: MemoryKind,
}

impl HostMemory {
    /// Regions registered as `NCCL_PTR_HOST`.
    pub const fn host() -> Self {
        Self {
            kind: MemoryKind::Host,
        }
    }

    /// Regions registered as `NCCL_PTR_CUDA`, for a plugin that accepts host memory as such.
    pub const fn device_stand_in() -> Self {
        Self {
            kind: MemoryKind::Device,
        }
    }
}

struct Mapping {
    start: NonNull<u8>,
    len: NonZero<usize>,
}

// SAFETY: the mapping is plain memory without thread affinity; nothing is read
// or written through this handle.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len.get()) };
    }
}

impl DeviceMemory for HostMemory {
    fn kind(&self) -> MemoryKind {
        self.kind
    }

    fn allocate(&self, len: usize) -> Result<Arc<Region>, MemoryError> {
        let failed = |why: String| MemoryError::Allocate {
            bytes: len,
            kind: self.kind,
            why,
        };
        let rounded = len
            .checked_next_multiple_of(4096)
            .unwrap_or(usize::MAX & !4095)
            .max(4096);
        let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::NORESERVE;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), rounded, access, flags) }
            .map_err(|errno| failed(errno.to_string()))?;
        let start = NonNull::new(mapped.cast::<u8>())
            .ok_or_else(|| failed("mapped at address zero".into()))?;
        let len_nonzero = NonZero::new(rounded).ok_or_else(|| failed("no bytes".into()))?;
        let owner = Mapping {
            start,
            len: len_nonzero,
        };
        Ok(Region::new(
            start.as_ptr().expose_provenance(),
            len,
            self.kind,
            Box::new(owner),
        ))
    }

    fn gather(&self, how: Unpack, list: &Scatter<'_>, region: &Region, span: Span) -> bool {
        let gathered = region.with_bytes(span, |into| match how {
            // For host memory, one gather and one copy per fragment are the same loop; on a
            // GPU they are one launch and many.
            Unpack::Kernel | Unpack::D2d => list.copy_into(into),
            Unpack::Host => {
                // This policy exists for comparison, so the allocation does not matter.
                let mut staging = vec![0; into.len()];
                list.copy_into(&mut staging);
                into.copy_from_slice(&staging);
            }
            Unpack::None => {}
        });
        gathered.is_some()
    }

    fn describe(&self) -> String {
        if self.kind == MemoryKind::Host {
            "host"
        } else {
            "device stand-in"
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_start_on_a_page_and_spans_stay_inside() {
        let region = HostMemory::host().allocate(5000).expect("memory");
        assert_eq!(region.as_ptr().addr() % 4096, 0);
        assert!(region.span(0, 5000).is_some());
        assert!(region.span(4999, 2).is_none());
        assert!(region.span(usize::MAX, 2).is_none());
    }
}
