//! A real GPU's memory for `TCPXSOFT_CUDA=device`, through the driver, opened with `dlopen`.
//!
//! As in the real plugin, the GPU of a comm is the current one of the thread that calls `listen`
//! or `connect`; its primary context is retained permanently. Every call restores the thread's
//! current context. Each comm has a stream of its own, so comms do not wait for each other's
//! copies. The GPU writes the number of the work that is done to pinned memory: a comm polls with
//! a load, because a call of the driver takes a lock that all threads share. Uploads use this
//! project's gather kernel, one launch per scatter list.
//!
//! Not here: which bytes are copied where, see `pages`, `unpack` and `stage`.
#![expect(
    unsafe_code,
    reason = "looks up and calls entries of the driver library"
)]

use crate::failed::{BROKEN, Failed, REFUSED};
use crate::log::warning;
use crate::settings::PRODUCT;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The gather kernel; see `src/engine/gpu/kernels` of the workspace.
const PTX: &str = include_str!("../../../src/engine/gpu/kernels/kernels.ptx");
/// `CUDA_ERROR_NOT_READY`
const NOT_READY: c_int = 600;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
const PORTABLE_AND_MAPPED: c_uint = 1 | 2;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and `CU_MEMORYTYPE_DEVICE`
const MEMORY_TYPE: c_int = 2;
const ON_DEVICE: c_int = 2;
/// Threads of a block: eight warps, one piece each.
const THREADS: u32 = 256;
const WARP: u32 = 32;
/// One of as many polls asks the driver, which tells whether the GPU failed.
const POLLS: u32 = 16;
/// Longest wait for a copy of a few pages.
const PATIENCE: Duration = Duration::from_secs(20);

type Handle = *mut c_void;

macro_rules! entries {
    ($($name:ident = $symbol:literal ($($type:ty),*);)*) => {
        struct Driver { $($name: unsafe extern "C" fn($($type),*) -> c_int,)* }

        impl Driver {
            fn look_up(library: Handle) -> Option<Self> {
                $(
                    // SAFETY: an open library and a terminated name.
                    let found = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                    if found.is_null() {
                        warning!(c"softCuda", "{PRODUCT} : libcuda.so.1 has no {}", $symbol.to_string_lossy());
                        return None;
                    }
                    // SAFETY: the type is that of cuda.h for this entry.
                    let $name = unsafe { std::mem::transmute::<Handle, unsafe extern "C" fn($($type),*) -> c_int>(found) };
                )*
                Some(Self { $($name,)* })
            }
        }
    };
}

entries! {
    init = c"cuInit"(c_uint);
    error_name = c"cuGetErrorName"(c_int, *mut *const c_char);
    count = c"cuDeviceGetCount"(*mut c_int);
    current_device = c"cuCtxGetDevice"(*mut c_int);
    retain = c"cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    current = c"cuCtxGetCurrent"(*mut Handle);
    set_current = c"cuCtxSetCurrent"(Handle);
    allocate = c"cuMemAlloc_v2"(*mut u64, usize);
    free = c"cuMemFree_v2"(u64);
    allocate_host = c"cuMemHostAlloc"(*mut Handle, usize, c_uint);
    free_host = c"cuMemFreeHost"(Handle);
    address_range = c"cuMemGetAddressRange_v2"(*mut u64, *mut usize, u64);
    attribute = c"cuPointerGetAttribute"(Handle, c_int, u64);
    copy_in = c"cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Handle);
    copy_out = c"cuMemcpyDtoHAsync_v2"(Handle, u64, usize, Handle);
    make_stream = c"cuStreamCreate"(*mut Handle, c_uint);
    finish = c"cuStreamSynchronize"(Handle);
    end_stream = c"cuStreamDestroy_v2"(Handle);
    query = c"cuStreamQuery"(Handle);
    write = c"cuStreamWriteValue32_v2"(Handle, u64, u32, c_uint);
    load = c"cuModuleLoadData"(*mut Handle, *const c_void);
    function = c"cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    launch = c"cuLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut Handle, *mut Handle
    );
}

impl Driver {
    /// The driver of this process; `None` after logging why there is none.
    fn get() -> Option<&'static Self> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref()
    }

    fn open() -> Option<Self> {
        // SAFETY: loads the vendor's library, or the one already loaded.
        let library =
            unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            warning!(
                c"softCuda",
                "{PRODUCT} : TCPXSOFT_CUDA is `device`, and libcuda.so.1 does not load"
            );
            return None;
        }
        let driver = Self::look_up(library)?;
        let mut count = 0;
        // SAFETY: the flags must be 0.
        driver.check("cuInit", unsafe { (driver.init)(0) }).ok()?;
        // SAFETY: ours to write.
        let code = unsafe { (driver.count)(&mut count) };
        driver.check("cuDeviceGetCount", code).ok()?;
        if count == 0 {
            warning!(c"softCuda", "{PRODUCT} : the driver lists no GPU");
        }
        (count > 0).then_some(driver)
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), Failed> {
        if code == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: ours to write.
        let known = unsafe { (self.error_name)(code, &mut name) } == 0 && !name.is_null();
        let name = if known {
            // SAFETY: the driver gives a static, terminated string.
            unsafe { CStr::from_ptr(name) }.to_string_lossy()
        } else {
            "no name".into()
        };
        warning!(c"softCuda", "CU failure {name} ({code}) in {call}");
        Err(BROKEN)
    }
}

/// Whether the driver can be loaded and lists a GPU.
pub(crate) fn is_there() -> bool {
    Driver::get().is_some()
}

/// One piece of a gather.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Source, as an offset from the base.
    pub from: u32,
    /// Bytes, at most a page.
    pub len: u32,
    /// Destination address.
    pub to: u64,
}

/// A GPU that a comm uses.
pub(crate) struct Gpu {
    driver: &'static Driver,
    /// CUDA's device handle.
    pub device: c_int,
    context: Handle,
    gather: Handle,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// A stream of one comm. Its work is executed in order, and the GPU counts it in host memory.
pub(crate) struct Stream {
    gpu: &'static Gpu,
    raw: Handle,
    /// Pinned; the number of the last work that is done.
    done: NonNull<u32>,
    /// The number of the last work that was started.
    started: u32,
    polls: Cell<u32>,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Stream {}

/// A piece of work on a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u32);

/// Restores the thread's previous context when dropped, if it was another.
struct Entered<'a>(&'a Driver, Option<Handle>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.1 {
            // SAFETY: what was current before.
            let _ = unsafe { (self.0.set_current)(before) };
        }
    }
}

impl Gpu {
    /// The current GPU of the calling thread.
    pub(crate) fn current() -> Result<&'static Self, Failed> {
        static KNOWN: Mutex<BTreeMap<c_int, &'static Gpu>> = Mutex::new(BTreeMap::new());
        let driver = Driver::get().ok_or(REFUSED)?;
        let mut device = -1;
        // SAFETY: ours to write.
        if unsafe { (driver.current_device)(&mut device) } != 0 {
            warning!(c"softCuda", "{PRODUCT} : no GPU is current in this thread");
            return Err(REFUSED);
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = known.get(&device) {
            return Ok(*gpu);
        }
        let gpu: &'static Gpu = Box::leak(Box::new(Self::open(driver, device)?));
        known.insert(device, gpu);
        Ok(gpu)
    }

    fn open(driver: &'static Driver, device: c_int) -> Result<Self, Failed> {
        let none = ptr::null_mut();
        let mut gpu = Self {
            driver,
            device,
            context: none,
            gather: none,
        };
        // SAFETY: ours to write; kept for the life of the process.
        driver.check("cuDevicePrimaryCtxRetain", unsafe {
            (driver.retain)(&mut gpu.context, device)
        })?;
        let (mut module, mut gather) = (none, none);
        {
            let _entered = gpu.enter()?;
            let text = CString::new(PTX).unwrap_or_default();
            // SAFETY: terminated text; ours to write.
            let code = unsafe { (driver.load)(&mut module, text.as_ptr().cast()) };
            driver.check("cuModuleLoadData", code)?;
            // SAFETY: a loaded module; ours to write.
            let code = unsafe { (driver.function)(&mut gather, module, c"unpack".as_ptr()) };
            driver.check("cuModuleGetFunction", code)?;
        }
        gpu.gather = gather;
        Ok(gpu)
    }

    fn enter(&self) -> Result<Entered<'_>, Failed> {
        let mut before = ptr::null_mut();
        // SAFETY: ours to write.
        self.driver.check("cuCtxGetCurrent", unsafe {
            (self.driver.current)(&mut before)
        })?;
        if before == self.context {
            return Ok(Entered(self.driver, None));
        }
        // SAFETY: retained for the life of the process.
        self.driver.check("cuCtxSetCurrent", unsafe {
            (self.driver.set_current)(self.context)
        })?;
        Ok(Entered(self.driver, Some(before)))
    }

    /// Allocates device memory.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Failed> {
        let _entered = self.enter()?;
        let mut at = 0;
        // SAFETY: ours to write.
        self.driver.check("cuMemAlloc", unsafe {
            (self.driver.allocate)(&mut at, bytes)
        })?;
        Ok(at)
    }

    /// Frees memory from `allocate`.
    pub(crate) fn free(&self, at: u64) {
        let Ok(_entered) = self.enter() else { return };
        // SAFETY: the caller gives it up; a wrong address is refused.
        let _ = unsafe { (self.driver.free)(at) };
    }

    /// Allocates zeroed page-locked host memory that the GPU accesses by the same address.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<NonNull<u8>, Failed> {
        let _entered = self.enter()?;
        let mut at = ptr::null_mut();
        // SAFETY: ours to write.
        let code = unsafe { (self.driver.allocate_host)(&mut at, bytes, PORTABLE_AND_MAPPED) };
        self.driver.check("cuMemHostAlloc", code)?;
        let at = NonNull::new(at.cast::<u8>()).ok_or(BROKEN)?;
        // SAFETY: just allocated, this long.
        unsafe { at.write_bytes(0, bytes) };
        Ok(at)
    }

    /// Frees memory from `pinned`, on which no work is under way.
    pub(crate) fn free_pinned(&self, at: NonNull<u8>) {
        let Ok(_entered) = self.enter() else { return };
        // SAFETY: the caller gives it up.
        let _ = unsafe { (self.driver.free_host)(at.as_ptr().cast()) };
    }

    /// Whether `length` bytes at `start` are GPU memory of one allocation.
    pub(crate) fn owns(&self, start: u64, length: usize) -> bool {
        let Ok(_entered) = self.enter() else {
            return false;
        };
        let mut kind: c_int = 0;
        // SAFETY: this attribute is an int; any address may be asked about.
        let known =
            unsafe { (self.driver.attribute)((&raw mut kind).cast(), MEMORY_TYPE, start) } == 0;
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: ours to write; any address may be asked about.
        let found = unsafe { (self.driver.address_range)(&mut base, &mut bytes, start) } == 0;
        known && kind == ON_DEVICE && found && start + length as u64 <= base + bytes as u64
    }
}

impl Stream {
    /// A stream without work.
    pub(crate) fn new(gpu: &'static Gpu) -> Result<Self, Failed> {
        let done = gpu.pinned(size_of::<u32>())?.cast();
        let mut made = Self {
            gpu,
            raw: ptr::null_mut(),
            done,
            started: 0,
            polls: Cell::new(0),
        };
        let _entered = gpu.enter()?;
        // SAFETY: ours to write.
        let code = unsafe { (gpu.driver.make_stream)(&mut made.raw, NON_BLOCKING) };
        gpu.driver.check("cuStreamCreate", code)?;
        Ok(made)
    }

    /// The GPU of the stream.
    pub(crate) fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// Copies to device memory and waits.
    ///
    /// # Safety
    /// `length` bytes can be read at `from`; those at `to` are an allocation's.
    pub(crate) unsafe fn copy_in(
        &mut self,
        to: u64,
        from: *const u8,
        length: usize,
    ) -> Result<(), Failed> {
        let entered = self.gpu.enter()?;
        // SAFETY: by the contract above.
        let code = unsafe { (self.gpu.driver.copy_in)(to, from.cast(), length, self.raw) };
        self.gpu.driver.check("cuMemcpyHtoDAsync", code)?;
        drop(entered);
        self.finish()
    }

    /// Starts a copy from device memory.
    ///
    /// # Safety
    /// `to` is pinned memory of `length` bytes that nothing else accesses until the mark has
    /// passed.
    pub(crate) unsafe fn copy_out(
        &mut self,
        to: *mut u8,
        from: u64,
        length: usize,
    ) -> Result<Mark, Failed> {
        let _entered = self.gpu.enter()?;
        // SAFETY: by the contract above; what the caller posted is its own promise.
        let code = unsafe { (self.gpu.driver.copy_out)(to.cast(), from, length, self.raw) };
        self.gpu.driver.check("cuMemcpyDtoHAsync", code)?;
        self.mark()
    }

    /// Starts to copy bytes in a row from pinned memory: (source, destination, length).
    ///
    /// # Safety
    /// Sources and destinations are allocations that stay until the mark has passed.
    pub(crate) unsafe fn copy_runs(
        &mut self,
        runs: impl Iterator<Item = (*const u8, u64, usize)>,
    ) -> Result<Mark, Failed> {
        let driver = self.gpu.driver;
        let _entered = self.gpu.enter()?;
        for (from, to, length) in runs {
            // SAFETY: by the contract above.
            let code = unsafe { (driver.copy_in)(to, from.cast(), length, self.raw) };
            driver.check("cuMemcpyHtoDAsync", code)?;
        }
        self.mark()
    }

    /// Starts to copy pieces from memory at `base`, pinned or on the GPU.
    ///
    /// # Safety
    /// The list is pinned, and stays with sources and destinations until the mark has passed.
    pub(crate) unsafe fn gather(
        &mut self,
        base: u64,
        list: *const Piece,
        count: u32,
    ) -> Result<Mark, Failed> {
        let driver = self.gpu.driver;
        let _entered = self.gpu.enter()?;
        let mut arguments: [Handle; 3] = [
            (&raw const base).cast_mut().cast(),
            (&raw const list).cast_mut().cast(),
            (&raw const count).cast_mut().cast(),
        ];
        let blocks = (count * WARP).div_ceil(THREADS).max(1);
        let (kernel, stream) = (self.gpu.gather, self.raw);
        let (first, none) = (arguments.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the kernel takes two pointers and a count; the driver copies them.
        let code =
            unsafe { (driver.launch)(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, first, none) };
        driver.check("cuLaunchKernel", code)?;
        self.mark()
    }

    /// Has the GPU count the work started last. The context is current.
    fn mark(&mut self) -> Result<Mark, Failed> {
        self.started = self.started.wrapping_add(1);
        let (word, number) = (self.done.as_ptr() as u64, self.started);
        // SAFETY: a pinned word that lives as long as the stream.
        let code = unsafe { (self.gpu.driver.write)(self.raw, word, number, 0) };
        self.gpu.driver.check("cuStreamWriteValue32", code)?;
        Ok(Mark(number))
    }

    /// Whether the work is done, and all that was started before it.
    pub(crate) fn has_passed(&self, mark: Mark) -> Result<bool, Failed> {
        if self.is_past(mark) {
            return Ok(true);
        }
        self.polls.set(self.polls.get().wrapping_add(1));
        if !self.polls.get().is_multiple_of(POLLS) {
            return Ok(false);
        }
        let _entered = self.gpu.enter()?;
        // SAFETY: alive.
        match unsafe { (self.gpu.driver.query)(self.raw) } {
            NOT_READY => Ok(false),
            code => {
                self.gpu.driver.check("cuStreamQuery", code)?;
                Ok(self.is_past(mark))
            }
        }
    }

    /// Waits for the work, and all that was started before it.
    pub(crate) fn wait(&self, mark: Mark) -> Result<(), Failed> {
        let started = Instant::now();
        let mut polls = 0_u32;
        while !self.has_passed(mark)? {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) && started.elapsed() > PATIENCE {
                warning!(c"softCuda", "{PRODUCT} : the GPU does not finish a copy");
                return Err(BROKEN);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn is_past(&self, Mark(number): Mark) -> bool {
        // SAFETY: aligned, and shared with the GPU, which writes it at once.
        let done = unsafe { AtomicU32::from_ptr(self.done.as_ptr()) }.load(Acquire);
        // Both numbers wrap, and no mark is kept over half of their range.
        done.wrapping_sub(number) as i32 >= 0
    }

    /// Waits for all work.
    pub(crate) fn finish(&self) -> Result<(), Failed> {
        let _entered = self.gpu.enter()?;
        // SAFETY: our stream.
        self.gpu.driver.check("cuStreamSynchronize", unsafe {
            (self.gpu.driver.finish)(self.raw)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.finish();
        if let Ok(_entered) = self.gpu.enter() {
            // SAFETY: made in `new`, ended once; a null stream is refused.
            let _ = unsafe { (self.gpu.driver.end_stream)(self.raw) };
        }
        self.gpu.free_pinned(self.done.cast());
    }
}
