//! Streams, events, pinned host memory and device allocations, each given back
//! when dropped.
#![expect(unsafe_code, reason = "calls the driver")]

use super::context::Context;
use super::driver::Cuda;
use super::error::{CudaError, NOT_READY};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `CU_STREAM_NON_BLOCKING`: not ordered with whatever a plugin does on the
/// default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const NO_TIMING: u32 = 2;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
const PORTABLE_AND_MAPPED: u32 = 1 | 2;
/// Longest that anything which is not timed is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Work in order.
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

    /// Waits until everything on it is done, within a deadline.
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

    /// Device to device.
    ///
    /// # Safety
    /// Both ranges are device memory that lives until the copy is done.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memcpy_dtod)(to, from, bytes, self.raw) };
        self.context.driver.check("cuMemcpyDtoDAsync", code)
    }

    /// Device to host.
    ///
    /// # Safety
    /// As for `copy`; `to` is writable and nobody else's until then.
    pub(super) unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize) -> Cuda<()> {
        // SAFETY: by the contract above.
        let code = unsafe { (self.context.driver.memcpy_dtoh)(to.cast(), from, bytes, self.raw) };
        self.context.driver.check("cuMemcpyDtoHAsync", code)
    }

    /// Host to device.
    ///
    /// # Safety
    /// As for `copy`; nobody writes `from` until then.
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
        // Whoever drops a stream drops the memory its work is on, too. A failed
        // GPU answers at once.
        // SAFETY: made in `new`.
        let _ = unsafe { (self.context.driver.stream_synchronize)(self.raw) };
        // SAFETY: made in `new`, destroyed once.
        let _ = unsafe { (self.context.driver.stream_destroy)(self.raw) };
    }
}

/// A place on a stream that work passes.
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

    /// Whether all work before the last `record` is done. Asks, never waits.
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

    /// Between two recorded events that have passed.
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

/// Elements in page-locked memory of the host that a GPU reads by the same address.
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

    /// As the GPU counts.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    pub(super) fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes one element; `false` behind the end. Only while no work that reads
    /// or writes it is under way.
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

    /// One element; as `put`.
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

/// Device memory.
pub(super) struct Allocation {
    pub(super) at: u64,
    pub(super) bytes: usize,
    pub(super) context: Arc<Context>,
}

/// What registrations must start on.
const PAGE: u64 = 4096;
/// What allocations are rounded up to, so that no two share a block of the driver's
/// and an export of whole pages never takes a neighbour along.
const BLOCK: usize = 2 << 20;

impl Allocation {
    /// `bytes` or more, zeroed, on a page boundary, on this context's GPU: checked.
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
                "is {len} bytes from {start:#x}, {rounded} were asked for"
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
