//! `DeviceMemory` for the memory of one GPU.
#![expect(
    unsafe_code,
    reason = "copies between the host and checked spans of the GPU"
)]

use super::context::Context;
use super::devices::{CudaDevice, Wanted};
use super::driver::Cuda;
use super::error::CudaError;
use super::kernels::Kernels;
use super::lane::{CudaLane, Table};
use super::objects::{Allocation, Pinned, Stream};
use crate::gpu::scatter::queue_of;
use crate::gpu::{
    DeviceMemory, Lane, LaneSetup, MemoryError, MemoryKind, PatternKey, Region, Scatter,
    ScatterError, ScatterSource, Span, TABLE_WORDS, Unpack,
};
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use tcpx_abi::unpack::UnpackHandle;
use tcpx_abi::v7::DeviceHandle;

/// Most bytes per copy between host and GPU.
const STAGE: usize = 1 << 20;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`
const DMA_BUF: i32 = 1;

/// Memory of one GPU, registered as `NCCL_PTR_CUDA`.
pub struct CudaMemory {
    context: Arc<Context>,
    kernels: Arc<Kernels>,
    /// The table of the run's pattern.
    table: Mutex<Option<Arc<Table>>>,
    /// Stream and buffer for the synchronous copies of `read` and `write`.
    stage: Mutex<Stage>,
}

struct Stage {
    stream: Stream,
    bytes: Pinned<u8>,
}

impl CudaMemory {
    /// Retains the GPU's primary context and loads the kernels.
    pub fn open(wanted: &Wanted) -> Result<Self, CudaError> {
        let context = Context::open(wanted)?;
        let kernels = Kernels::load(&context)?;
        let stage = Mutex::new(Stage {
            stream: Stream::new(&context)?,
            bytes: Pinned::new(&context, STAGE)?,
        });
        Ok(Self {
            context,
            kernels,
            table: Mutex::new(None),
            stage,
        })
    }

    /// The GPU.
    pub fn device(&self) -> &CudaDevice {
        &self.context.device
    }

    /// Checks that memory of this GPU can be exported as a dma-buf, as TCPX's registration
    /// requires; otherwise returns the driver's error.
    pub fn dma_buf_export(&self) -> Result<(), CudaError> {
        let driver = self.context.driver;
        let Some(entry) = driver.mem_get_handle else {
            return Err(CudaError::Lacks {
                missing: vec!["cuMemGetHandleForAddressRange"],
            });
        };
        let page = Allocation::new(&self.context, 1)?;
        let mut descriptor = -1;
        // SAFETY: an int is ours to write; whole pages of an allocation of ours.
        let code = unsafe {
            entry(
                (&raw mut descriptor).cast(),
                page.at,
                page.bytes,
                DMA_BUF,
                0,
            )
        };
        driver.check("cuMemGetHandleForAddressRange", code)?;
        if descriptor >= 0 {
            // SAFETY: made for us just now.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        Ok(())
    }

    /// The whole pages, as far as they are of the same allocation, that hold a range of this GPU's
    /// memory: what a plugin can register. `None` for memory of no GPU.
    ///
    /// # Errors
    /// It is memory of another GPU, or is longer than its allocation.
    pub fn pages(&self, at: u64, len: usize) -> Result<Option<Range<u64>>, CudaError> {
        const WHAT: &str = "the buffer";
        const PAGE: u64 = 4096;
        if !self.context.is_on_a_gpu(at) {
            return Ok(None);
        }
        self.context.check_owner(WHAT, at)?;
        let (start, size) = self.context.allocation_of(at)?;
        let end = start + size as u64;
        let left = end.saturating_sub(at);
        if len as u64 > left {
            let what = WHAT;
            let problem = format!("has {len} bytes, and its allocation ends after {left}");
            return Err(CudaError::Address { what, at, problem });
        }
        let first = (at - at % PAGE).max(start);
        let last = (at + len as u64).next_multiple_of(PAGE).min(end);
        Ok(Some(first..last))
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn kernels(&self) -> &Arc<Kernels> {
        &self.kernels
    }

    /// The pattern's table in GPU memory, uploaded at first use.
    pub(super) fn table(&self, pattern: &PatternKey) -> Result<Arc<Table>, MemoryError> {
        let mut held = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = held.as_ref().filter(|table| table.key == pattern.key) {
            return Ok(Arc::clone(table));
        }
        let allocation = Allocation::new(&self.context, TABLE_WORDS * 8)?;
        let bytes: Vec<u8> = pattern
            .table
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.copy_in(allocation.at, &bytes)?;
        let table = Arc::new(Table {
            allocation,
            key: pattern.key,
        });
        *held = Some(Arc::clone(&table));
        Ok(table)
    }

    fn copy_in(&self, mut at: u64, bytes: &[u8]) -> Cuda<()> {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.make_current()?;
        for part in bytes.chunks(STAGE) {
            // SAFETY: the stage holds `STAGE` bytes and the last copy is done.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), stage.bytes.as_ptr(), part.len())
            };
            // SAFETY: callers name memory of this GPU; waited for below.
            unsafe { stage.stream.copy_in(at, stage.bytes.as_ptr(), part.len()) }?;
            stage.stream.finish()?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn copy_out(&self, mut at: u64, bytes: &mut [u8]) -> Cuda<()> {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.make_current()?;
        for part in bytes.chunks_mut(STAGE) {
            // SAFETY: callers name memory of this GPU; waited for below.
            unsafe { stage.stream.copy_out(stage.bytes.as_ptr(), at, part.len()) }?;
            stage.stream.finish()?;
            // SAFETY: the stage holds `STAGE` bytes and the copy is done.
            unsafe {
                std::ptr::copy_nonoverlapping(stage.bytes.as_ptr(), part.as_mut_ptr(), part.len())
            };
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Copies the 24-byte unpack queue that a device handle points to out of GPU memory.
    fn queue(&self, handle: &DeviceHandle) -> Result<UnpackHandle, ScatterError> {
        let at = queue_of(handle)?.addr() as u64;
        let unusable = |error: CudaError| ScatterError::Unusable {
            why: error.to_string(),
        };
        self.context
            .check_owner("the device handle", at)
            .map_err(unusable)?;
        let mut bytes = [0; size_of::<UnpackHandle>()];
        self.copy_out(at, &mut bytes).map_err(unusable)?;
        // SAFETY: two pointers, which are only numbers until checked, and a number.
        Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }
}

impl std::fmt::Debug for CudaMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaMemory({})", self.describe())
    }
}

impl DeviceMemory for CudaMemory {
    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }

    fn allocate(&self, len: usize) -> Result<Arc<Region>, MemoryError> {
        let allocation = Allocation::new(&self.context, len)?;
        Ok(Region::of_gpu(
            allocation.at as usize,
            len,
            Box::new(allocation),
        ))
    }

    fn gather(&self, _how: Unpack, _list: &Scatter<'_>, _region: &Region, _span: Span) -> bool {
        false
    }

    fn make_current(&self) -> Result<(), MemoryError> {
        Ok(self.context.make_current_for_plugin()?)
    }

    fn scatter_source(&self, handle: &DeviceHandle) -> Result<ScatterSource, ScatterError> {
        let queue = self.queue(handle)?;
        let unusable = |error: CudaError| ScatterError::Unusable {
            why: error.to_string(),
        };
        let meta = queue.meta.addr() as u64;
        let meta = self
            .context
            .host_address("the scatter lists", meta)
            .map_err(unusable)?;
        let bounce = queue.bounce_buf.addr() as u64;
        if bounce == 0 {
            return Err(ScatterError::NoBounceBuffer);
        }
        self.context
            .check_owner("the bounce buffer", bounce)
            .map_err(unusable)?;
        // The driver may not know the range of a pool that another process exported.
        let pool = self.context.allocation_of(bounce).ok();
        let pool = pool.map(|(start, len)| (start + len as u64).saturating_sub(bounce));
        let (meta, bounce) = (
            std::ptr::with_exposed_provenance_mut(meta as usize),
            std::ptr::with_exposed_provenance_mut(bounce as usize),
        );
        ScatterSource::from_queue(handle, meta, bounce, pool)
    }

    fn lane(&self, setup: &LaneSetup<'_>) -> Result<Option<Box<dyn Lane>>, MemoryError> {
        let table = setup
            .pattern
            .map(|pattern| self.table(pattern))
            .transpose()?;
        Ok(Some(Box::new(CudaLane::new(&self.kernels, table, setup)?)))
    }

    fn read(&self, region: &Region, span: Span, into: &mut [u8]) -> Result<(), MemoryError> {
        if !region.holds(span) || into.len() > span.len() {
            return Err(MemoryError::Outside);
        }
        Ok(self.copy_out(span.address(), into)?)
    }

    fn write(&self, region: &Region, span: Span, from: &[u8]) -> Result<(), MemoryError> {
        if !region.holds(span) || from.len() > span.len() {
            return Err(MemoryError::Outside);
        }
        Ok(self.copy_in(span.address(), from)?)
    }

    fn describe(&self) -> String {
        format!(
            "GPU {} ({})",
            self.context.device.ordinal, self.context.device.pci_address
        )
    }
}
