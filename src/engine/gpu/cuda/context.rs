//! A GPU in use: its primary context, retained once and released once.
//!
//! The CUDA runtime, and so a plugin, uses the primary context too. A context is current per
//! thread, so it must be made current before calling the driver, or a plugin that uses the
//! thread's current GPU.
#![expect(unsafe_code, reason = "calls the driver")]

use super::devices::{self, CudaDevice, Wanted};
use super::driver::{Cuda, Driver};
use super::error::{CudaError, OUT_OF_MEMORY};
use super::runtime;
use cudarc::driver::sys::{CUcontext, CUdevice, CUpointer_attribute_enum as Attribute};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_MEMORYTYPE_DEVICE`
const ON_A_GPU: c_int = 2;

/// A GPU whose primary context this process holds.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    pub(super) device: CudaDevice,
    handle: CUdevice,
    raw: CUcontext,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks by itself.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a GPU.
    pub(super) fn open(wanted: &Wanted) -> Cuda<Arc<Self>> {
        let driver = Driver::get()?;
        let device = devices::choose(wanted)?;
        if device.mig {
            return Err(CudaError::Mig {
                ordinal: device.ordinal,
                name: device.name,
            });
        }
        let (mut handle, mut raw) = (0, null_mut());
        let ordinal = device.ordinal as c_int;
        // SAFETY: ours to write.
        driver.check("cuDeviceGet", unsafe {
            (driver.device_get)(&mut handle, ordinal)
        })?;
        // SAFETY: as above; released in `drop`.
        driver.check("cuDevicePrimaryCtxRetain", unsafe {
            (driver.primary_ctx_retain)(&mut raw, handle)
        })?;
        let context = Arc::new(Self {
            driver,
            device,
            handle,
            raw,
        });
        context.make_current()?;
        Ok(context)
    }

    /// Makes the context current in the calling thread, for driver calls.
    pub(super) fn make_current(&self) -> Cuda<()> {
        // SAFETY: retained until `drop`.
        self.driver.check("cuCtxSetCurrent", unsafe {
            (self.driver.ctx_set_current)(self.raw)
        })
    }

    /// As `make_current`, and also sets the current device of the CUDA runtimes that plugins
    /// have loaded, which track it separately.
    pub(super) fn make_current_for_plugin(&self) -> Cuda<()> {
        self.make_current()?;
        runtime::set_device(self.device.ordinal)
    }

    /// Free and total bytes of GPU memory.
    pub(super) fn memory(&self) -> Cuda<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        self.make_current()?;
        // SAFETY: ours to write.
        self.driver.check("cuMemGetInfo", unsafe {
            (self.driver.mem_get_info)(&mut free, &mut total)
        })?;
        Ok((free, total))
    }

    /// Allocates with `cuMemAlloc`, because memory of a pool cannot be registered.
    pub(super) fn allocate(&self, bytes: usize) -> Cuda<u64> {
        self.make_current()?;
        let mut at = 0;
        // SAFETY: ours to write.
        let code = unsafe { (self.driver.mem_alloc)(&mut at, bytes) };
        if code == OUT_OF_MEMORY {
            let (free, total) = self.memory()?;
            return Err(CudaError::OutOfMemory {
                ordinal: self.device.ordinal,
                wanted: bytes,
                free,
                total,
            });
        }
        self.driver.check("cuMemAlloc", code)?;
        Ok(at)
    }

    /// Start and length of the allocation that contains an address.
    pub(super) fn allocation_of(&self, at: u64) -> Cuda<(u64, usize)> {
        self.make_current()?;
        let (mut start, mut len) = (0, 0);
        // SAFETY: ours to write; any address may be asked about.
        let code = unsafe { (self.driver.mem_get_address_range)(&mut start, &mut len, at) };
        self.driver.check("cuMemGetAddressRange", code)?;
        Ok((start, len))
    }

    /// Whether `at` is memory of any GPU.
    pub(super) fn is_on_a_gpu(&self, at: u64) -> bool {
        matches!(self.memory_type(at), Ok(ON_A_GPU))
    }

    fn memory_type(&self, at: u64) -> Cuda<c_int> {
        self.attribute(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as c_int, at)
    }

    /// Checks that `at` is memory of this GPU.
    pub(super) fn check_owner(&self, what: &'static str, at: u64) -> Cuda<()> {
        let wrong = |problem: String| Err(CudaError::Address { what, at, problem });
        match self.memory_type(at) {
            Ok(ON_A_GPU) => {}
            Ok(_) => return wrong("is not in GPU memory".into()),
            Err(error) => return wrong(format!("is unknown to the driver: {error}")),
        }
        let ordinal =
            self.attribute(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_int, at)?;
        if ordinal == self.device.ordinal as c_int {
            Ok(())
        } else {
            wrong(format!(
                "is on GPU {ordinal}, and only memory of GPU {} can be used here",
                self.device.ordinal
            ))
        }
    }

    fn attribute(&self, attribute: c_int, at: u64) -> Cuda<c_int> {
        self.make_current()?;
        let mut value: c_int = 0;
        // SAFETY: both attributes asked for are ints; any address may be asked about.
        let code =
            unsafe { (self.driver.pointer_get_attribute)((&raw mut value).cast(), attribute, at) };
        self.driver
            .check("cuPointerGetAttribute", code)
            .map(|()| value)
    }

    /// The host address of the memory that the GPU sees at `at`, which must be host memory.
    pub(super) fn host_address(&self, what: &'static str, at: u64) -> Cuda<u64> {
        self.make_current()?;
        let mut address = 0u64;
        let attribute = Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER as c_int;
        // SAFETY: this attribute is a pointer; any address may be asked about.
        let code = unsafe {
            (self.driver.pointer_get_attribute)((&raw mut address).cast(), attribute, at)
        };
        let unreadable = |why: String| CudaError::Address {
            what,
            at,
            problem: format!("is not host memory: {why}"),
        };
        self.driver
            .check("cuPointerGetAttribute", code)
            .map_err(|error| unreadable(error.to_string()))?;
        if address == 0 {
            Err(unreadable("the driver gives no address".into()))
        } else {
            Ok(address)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`.
        let _ = unsafe { (self.driver.primary_ctx_release)(self.handle) };
    }
}
