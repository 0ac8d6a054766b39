//! Streams, events, pinned host memory and device allocations, each released when dropped.
#![expect(unsafe_code, reason = "calls the driver")]

use super::context::Context;
use super::driver::Cuda;
use super::error::{CudaError, NOT_READY};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `CU_STREAM_NON_BLOCKING`: not synchronised with a plugin's work on the default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const NO_TIMING: u32 = 2;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
const PORTABLE_AND_MAPPED: u32 = 1 | 2;
/// Longest wait for GPU work that is not timed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream: its work is executed in order.
pub(super) struct Stream {
    pub(super) raw: CUstream,
    pub(super) context: Arc<Context>,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Cuda<Self> {
        context.make_current()?;
        let mut raw = null_mut();
        // SAFETY: ours to write; destroyed in `drop`.
        let code = unsafe { (context.driver.stream_create)(&mut raw, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", code)?;
        Ok(Self {
            raw,
            context: Arc::clone(context),
        })
    }

    /// Waits until all work on the stream is done, within a deadline.
    pub(super) fn finish(&self) -> Cuda<()> {
        let event = Event::new(&self.context, false)?;
        event.record(self)?;
        let started = Instant::now();
        while !event.has_passed()? {
            if started.elapsed() > PATIENCE {
                return Err(CudaError::Hangs {
                    what: "work on the GPU",
                    seconds: PATIENCE.as_secs(),
                });
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Starts a copy from device to device.
    ///
    /// # Safety
    /// Both ranges are device memory that lives until the copy is done.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memcpy_dtod)(to, from, bytes, self.raw) };
        self.context.driver.check("cuMemcpyDtoDAsync", code)
    }

    /// Starts a copy from device to host.
    ///
    /// # Safety
    /// As for `copy`; `to` is writable and nothing else accesses it until then.
    pub(super) unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memcpy_dtoh)(to.cast(), from, bytes, self.raw) };
        self.context.driver.check("cuMemcpyDtoHAsync", code)
    }

    /// Starts a copy from host to device.
    ///
    /// # Safety
    /// As for `copy`; nothing writes to `from` until then.
    pub(super) unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memcpy_htod)(to, from.cast(), bytes, self.raw) };
        self.context.driver.check("cuMemcpyHtoDAsync", code)
    }

    /// # Safety
    /// The range is device memory that lives until the work is done.
    pub(super) unsafe fn set(&self, at: u64, byte: u8, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memset)(at, byte, bytes, self.raw) };
        self.context.driver.check("cuMemsetD8Async", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // Wait, because the caller frees the memory of the stream's work next. A failed GPU
        // returns at once.
        // SAFETY: made in `new`.
        let _ = unsafe { (self.context.driver.stream_synchronize)(self.raw) };
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { (self.context.driver.stream_destroy)(self.raw) };
    }
}

/// An event: a mark on a stream that tells when the work before it is done.
pub(super) struct Event {
    raw: CUevent,
    context: Arc<Context>,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    pub(super) fn new(context: &Arc<Context>, timing: bool) -> Cuda<Self> {
        let mut raw = null_mut();
        context.make_current()?;
        // SAFETY: ours to write; destroyed in `drop`.
        let code =
            unsafe { (context.driver.event_create)(&mut raw, if timing { 0 } else { NO_TIMING }) };
        context.driver.check("cuEventCreate", code)?;
        Ok(Self {
            raw,
            context: Arc::clone(context),
        })
    }

    pub(super) fn record(&self, stream: &Stream) -> Cuda<()> {
        // SAFETY: both are alive and of the same context.
        let code = unsafe { (self.context.driver.event_record)(self.raw, stream.raw) };
        self.context.driver.check("cuEventRecord", code)
    }

    /// Whether all work before the last `record` is done. Does not wait.
    pub(super) fn has_passed(&self) -> Cuda<bool> {
        // SAFETY: alive.
        match unsafe { (self.context.driver.event_query)(self.raw) } {
            NOT_READY => Ok(false),
            code => self
                .context
                .driver
                .check("cuEventQuery", code)
                .map(|()| true),
        }
    }

    /// Time between two recorded events that have both passed.
    pub(super) fn since(&self, earlier: &Self) -> Cuda<Duration> {
        let mut milliseconds = 0.0;
        // SAFETY: ours to write; both are alive.
        let code = unsafe {
            (self.context.driver.event_elapsed_time)(&mut milliseconds, earlier.raw, self.raw)
        };
        self.context.driver.check("cuEventElapsedTime", code)?;
        Ok(Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { (self.context.driver.event_destroy)(self.raw) };
    }
}

/// Elements in page-locked host memory that the GPU accesses by the same address.
pub(super) struct Pinned<T> {
    start: NonNull<T>,
    len: usize,
    context: Arc<Context>,
}

// SAFETY: plain memory of this process.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Copy + Default> Pinned<T> {
    pub(super) fn new(context: &Arc<Context>, len: usize) -> Cuda<Self> {
        context.make_current()?;
        let mut raw = null_mut();
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: ours to write; freed in `drop`.
        let code = unsafe { (context.driver.mem_host_alloc)(&mut raw, bytes, PORTABLE_AND_MAPPED) };
        context.driver.check("cuMemHostAlloc", code)?;
        let nowhere = CudaError::Address {
            what: "pinned memory",
            at: 0,
            problem: "was not given".into(),
        };
        let start = NonNull::new(raw.cast::<T>()).ok_or(nowhere)?;
        let mut made = Self {
            start,
            len,
            context: Arc::clone(context),
        };
        for at in 0..len {
            made.put(at, T::default());
        }
        Ok(made)
    }

    /// The GPU's address of the first element.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    pub(super) fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes one element; `false` if `at` is out of range. No GPU work on the element may be
    /// in progress.
    pub(super) fn put(&mut self, at: usize, value: T) -> bool {
        if at >= self.len {
            return false;
        }
        // SAFETY: inside the allocation.
        let place = unsafe { self.start.add(at) };
        // SAFETY: as above; volatile, since a GPU shares it.
        unsafe { place.write_volatile(value) };
        true
    }

    /// Reads one element; `None` if `at` is out of range. Otherwise as `put`.
    pub(super) fn get(&self, at: usize) -> Option<T> {
        if at >= self.len {
            return None;
        }
        // SAFETY: inside the allocation.
        let place = unsafe { self.start.add(at) };
        // SAFETY: as above; volatile, since a GPU shares it.
        Some(unsafe { place.read_volatile() })
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: made in `new`, freed once.
        let _ = unsafe { (self.context.driver.mem_free_host)(self.start.as_ptr().cast()) };
    }
}

/// An allocation of device memory.
pub(super) struct Allocation {
    pub(super) at: u64,
    pub(super) bytes: usize,
    pub(super) context: Arc<Context>,
}

/// Alignment that registrations require.
const PAGE: u64 = 4096;
/// Allocations are rounded up to this size, so that no two share a block of the driver and
/// exporting whole pages never exports a neighbour.
const BLOCK: usize = 2 << 20;

impl Allocation {
    /// Allocates at least `bytes` zeroed bytes. Checks alignment, GPU and size of the result.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Cuda<Self> {
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(BLOCK)
            .unwrap_or(usize::MAX);
        let at = context.allocate(rounded)?;
        let made = Self {
            at,
            bytes: rounded,
            context: Arc::clone(context),
        };
        let wrong = |problem: String| CudaError::Address {
            what: "the driver's allocation",
            at,
            problem,
        };
        if at == 0 || at % PAGE != 0 {
            return Err(wrong(format!("is not on a {PAGE}-byte boundary")));
        }
        context.check_owner("the driver's allocation", at)?;
        let (start, len) = context.allocation_of(at)?;
        if start > at || start + (len as u64) < at + rounded as u64 {
            return Err(wrong(format!(
                "is {len} bytes from {start:#x}, requested were {rounded}"
            )));
        }
        let stream = Stream::new(context)?;
        // SAFETY: ours, and waited for.
        unsafe { stream.set(at, 0, rounded) }?;
        stream.finish()?;
        Ok(made)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: made in `new`, freed once.
        let _ = unsafe { (self.context.driver.mem_free)(self.at) };
    }
}
