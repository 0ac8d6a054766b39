//! The NVIDIA driver library, found at run time, with its entries looked up by name.
//!
//! cudarc loads the library and provides the types. Its calls are not used, because they
//! panic if an entry is missing and return an enum that lacks the codes of newer drivers.
//! Here every entry returns a plain int.
#![expect(
    unsafe_code,
    reason = "looks up and calls entries of the driver library"
)]

use super::error::{CudaError, CudaVersion, NO_DEVICE};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The oldest driver that exports every required entry.
const NEEDED: CudaVersion = CudaVersion(11_000);

/// The result of a driver call.
pub(super) type Cuda<T> = Result<T, CudaError>;

macro_rules! entries {
    (
        required { $($name:ident = $symbol:literal ($($type:ty),*);)* }
        optional { $($maybe:ident = $maybe_symbol:literal ($($maybe_type:ty),*);)* }
    ) => {
        /// The entries of the loaded library, which is never unloaded.
        pub(super) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> c_int,)*
            $(pub(super) $maybe: Option<unsafe extern "C" fn($($maybe_type),*) -> c_int>,)*
        }

        impl Driver {
            fn look_up() -> Cuda<Self> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the types are those of cuda.h for this entry.
                    let $name = unsafe { entry::<unsafe extern "C" fn($($type),*) -> c_int>($symbol) };
                    if $name.is_none() {
                        missing.push($symbol);
                    }
                )*
                match ($($name,)*) {
                    ($(Some($name),)*) => Ok(Self {
                        $($name,)*
                        $(
                            // SAFETY: as above.
                            $maybe: unsafe { entry::<unsafe extern "C" fn($($maybe_type),*) -> c_int>($maybe_symbol) },
                        )*
                    }),
                    _ => Err(CudaError::Lacks { missing }),
                }
            }
        }
    };
}

entries! {
    required {
        init = "cuInit"(c_uint);
        driver_get_version = "cuDriverGetVersion"(*mut c_int);
        get_error_name = "cuGetErrorName"(c_int, *mut *const c_char);
        device_get_count = "cuDeviceGetCount"(*mut c_int);
        device_get = "cuDeviceGet"(*mut CUdevice, c_int);
        device_get_name = "cuDeviceGetName"(*mut c_char, c_int, CUdevice);
        device_get_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, CUdevice);
        device_total_mem = "cuDeviceTotalMem_v2"(*mut usize, CUdevice);
        primary_ctx_retain = "cuDevicePrimaryCtxRetain"(*mut CUcontext, CUdevice);
        primary_ctx_release = "cuDevicePrimaryCtxRelease_v2"(CUdevice);
        ctx_set_current = "cuCtxSetCurrent"(CUcontext);
        mem_get_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
        mem_alloc = "cuMemAlloc_v2"(*mut CUdeviceptr, usize);
        mem_free = "cuMemFree_v2"(CUdeviceptr);
        mem_host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
        mem_free_host = "cuMemFreeHost"(*mut c_void);
        mem_get_address_range = "cuMemGetAddressRange_v2"(*mut CUdeviceptr, *mut usize, CUdeviceptr);
        pointer_get_attribute = "cuPointerGetAttribute"(*mut c_void, c_int, CUdeviceptr);
        memcpy_htod = "cuMemcpyHtoDAsync_v2"(CUdeviceptr, *const c_void, usize, CUstream);
        memcpy_dtoh = "cuMemcpyDtoHAsync_v2"(*mut c_void, CUdeviceptr, usize, CUstream);
        memcpy_dtod = "cuMemcpyDtoDAsync_v2"(CUdeviceptr, CUdeviceptr, usize, CUstream);
        memset = "cuMemsetD8Async"(CUdeviceptr, u8, usize, CUstream);
        stream_create = "cuStreamCreate"(*mut CUstream, c_uint);
        stream_destroy = "cuStreamDestroy_v2"(CUstream);
        stream_synchronize = "cuStreamSynchronize"(CUstream);
        event_create = "cuEventCreate"(*mut CUevent, c_uint);
        event_destroy = "cuEventDestroy_v2"(CUevent);
        event_record = "cuEventRecord"(CUevent, CUstream);
        event_query = "cuEventQuery"(CUevent);
        event_elapsed_time = "cuEventElapsedTime"(*mut f32, CUevent, CUevent);
        module_load_data = "cuModuleLoadData"(*mut CUmodule, *const c_void);
        module_unload = "cuModuleUnload"(CUmodule);
        module_get_function = "cuModuleGetFunction"(*mut CUfunction, CUmodule, *const c_char);
        launch_kernel = "cuLaunchKernel"(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
            *mut *mut c_void
        );
    }
    optional {
        // Since CUDA 11.7. Without it, memory cannot be exported as a dma-buf.
        mem_get_handle = "cuMemGetHandleForAddressRange"(*mut c_void, CUdeviceptr, usize, c_int, u64);
    }
}

/// # Safety
/// `T` is the function pointer type of the entry.
unsafe fn entry<T: Copy>(symbol: &str) -> Option<T> {
    // SAFETY: only called once the library is known to be present.
    let library = unsafe { sys::culib() };
    // SAFETY: by the contract above.
    let found = unsafe { library.get::<T>(symbol.as_bytes()) };
    found.ok().map(|entry| *entry)
}

impl Driver {
    /// The driver of this process, initialised at first use. A failure is permanent, as in
    /// CUDA.
    pub(super) fn get() -> Cuda<&'static Self> {
        static DRIVER: OnceLock<Cuda<Driver>> = OnceLock::new();
        DRIVER
            .get_or_init(Self::load)
            .as_ref()
            .map_err(Clone::clone)
    }

    fn load() -> Cuda<Self> {
        // SAFETY: loads the vendor's library, whose constructors we have to trust.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let driver = Self::look_up()?;
        let has = driver.version()?;
        if has < NEEDED {
            return Err(CudaError::TooOld { has, needs: NEEDED });
        }
        // SAFETY: the flags must be 0.
        let code = unsafe { (driver.init)(0) };
        match driver.check("cuInit", code) {
            Err(CudaError::Call {
                code: NO_DEVICE, ..
            }) => Err(CudaError::NoDevice {
                visible: visible_devices(),
            }),
            other => other.map(|()| driver),
        }
    }

    /// The newest CUDA that the driver supports.
    pub(super) fn version(&self) -> Cuda<CudaVersion> {
        let mut version = 0;
        // SAFETY: ours to write.
        self.check("cuDriverGetVersion", unsafe {
            (self.driver_get_version)(&mut version)
        })?;
        Ok(CudaVersion(version))
    }

    /// Converts a result code; an error carries the driver's name for the code.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Cuda<()> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.refusal(call, code))
        }
    }

    #[cold]
    fn refusal(&self, call: &'static str, code: c_int) -> CudaError {
        let mut name = std::ptr::null();
        // SAFETY: ours to write.
        let known = unsafe { (self.get_error_name)(code, &mut name) } == 0 && !name.is_null();
        let name = if known {
            // SAFETY: the driver gives a static, terminated string.
            unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned()
        } else {
            "unknown code".to_owned()
        };
        CudaError::Call { call, code, name }
    }
}

/// `CUDA_VISIBLE_DEVICES`, if set.
pub(super) fn visible_devices() -> Option<String> {
    std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned())
}
