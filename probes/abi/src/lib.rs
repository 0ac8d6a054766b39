//! The C ABI of ncclNet plugins, transcribed field for field.
//!
//! Each table version is transcribed completely in its own file and never cast to another
//! version. Sizes and offsets are asserted at compile time against numbers printed by a C
//! program (`layout/layout.c`, which `tests/layout.rs` runs again).
//!
//! This crate is loaded into users' processes with `soft` and `tap`: it depends on libc only,
//! allocates nothing and starts nothing.
//!
//! Not here: checking result codes and making calls, which `tcpx_engine::plugin` does.

pub mod device_handle;
pub mod foreign;
pub mod logger;
pub mod uncaught;
pub mod unpack;
mod versions;

use std::ffi::{c_char, c_int, c_ulong, c_void};
pub use versions::*;

/// `ncclResult_t`. A plain integer, because a plugin may return values that the known headers do
/// not define.
pub type ResultCode = c_int;

/// Names for the result codes that NCCL's headers define.
pub mod result {
    use super::ResultCode;
    /// The call succeeded.
    pub const SUCCESS: ResultCode = 0;
    /// A CUDA call inside the plugin failed.
    pub const UNHANDLED_CUDA_ERROR: ResultCode = 1;
    /// A system call inside the plugin failed; from `test` of a receive it can
    /// also mean that the peer closed after all data had arrived.
    pub const SYSTEM_ERROR: ResultCode = 2;
    /// The plugin refused: wrong order, no slot, bad argument.
    pub const INTERNAL_ERROR: ResultCode = 3;
    /// Invalid argument.
    pub const INVALID_ARGUMENT: ResultCode = 4;
    /// Invalid usage.
    pub const INVALID_USAGE: ResultCode = 5;
    /// The peer failed.
    pub const REMOTE_ERROR: ResultCode = 6;
    /// Still in progress.
    pub const IN_PROGRESS: ResultCode = 7;
    /// A timeout; in the newest headers only.
    pub const TIMEOUT: ResultCode = 8;

    /// The header's name for a code, or `"unknown"`.
    pub fn name(code: ResultCode) -> &'static str {
        match code {
            SUCCESS => "ncclSuccess",
            UNHANDLED_CUDA_ERROR => "ncclUnhandledCudaError",
            SYSTEM_ERROR => "ncclSystemError",
            INTERNAL_ERROR => "ncclInternalError",
            INVALID_ARGUMENT => "ncclInvalidArgument",
            INVALID_USAGE => "ncclInvalidUsage",
            REMOTE_ERROR => "ncclRemoteError",
            IN_PROGRESS => "ncclInProgress",
            TIMEOUT => "ncclTimeout",
            _ => "unknown",
        }
    }
}

/// Pointer to ordinary memory.
pub const PTR_HOST: c_int = 0x1;
/// Pointer to CUDA device memory.
pub const PTR_CUDA: c_int = 0x2;
/// Memory described by a dma-buf.
pub const PTR_DMABUF: c_int = 0x4;

/// Bytes of the opaque connect handle (v5 and later).
pub const HANDLE_MAX: usize = 128;

/// `netDeviceType`: nothing is offloaded.
pub const NET_DEVICE_HOST: c_int = 0;
/// `netDeviceType`: receives land in bounce pages and must be unpacked.
pub const NET_DEVICE_UNPACK: c_int = 1;
/// The unpack layout that NCCL and TCPX share.
pub const NET_DEVICE_UNPACK_VERSION: c_int = 0x7;

/// Undefined `railId` or `planeId` (v12).
pub const ID_UNDEFINED: i16 = -1;
/// Undefined `trafficClass` (v10 and later).
pub const TRAFFIC_CLASS_UNDEFINED: c_int = -1;
/// Longest message in bytes that NCCL assumes for plugins older than v9.
pub const MESSAGE_MAX: usize = 1 << 30;
/// In-flight requests per comm that NCCL requires since 2.19.
pub const REQUESTS_MAX: usize = 32;

/// Log levels of the callback.
pub mod level {
    use std::ffi::c_int;
    /// `NCCL_LOG_NONE`
    pub const NONE: c_int = 0;
    /// `NCCL_LOG_VERSION`
    pub const VERSION: c_int = 1;
    /// `NCCL_LOG_WARN`
    pub const WARN: c_int = 2;
    /// `NCCL_LOG_INFO`
    pub const INFO: c_int = 3;
    /// `NCCL_LOG_ABORT`
    pub const ABORT: c_int = 4;
    /// `NCCL_LOG_TRACE`
    pub const TRACE: c_int = 5;
}

/// Subsystem bits of the callback's `flags`.
pub mod subsystem {
    use std::ffi::c_ulong;
    /// `NCCL_INIT`
    pub const INIT: c_ulong = 0x1;
    /// `NCCL_NET`
    pub const NET: c_ulong = 0x10;
    /// `NCCL_ENV`
    pub const ENV: c_ulong = 0x80;
    /// `NCCL_ALL`
    pub const ALL: c_ulong = !0;
}

/// `ncclDebugLogger_t`: level, subsystem flags, file (TCPX passes the pretty
/// function name), line, printf format, arguments. Called from any thread, and
/// before `init` has returned.
pub type Logger = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);

/// A logger pointer as the tables take it; null is possible from a caller.
pub type LoggerArg = Option<Logger>;

/// `ncclProfilerCallback_t` (v10 and later): event handle, type, handle of the
/// parent, plugin's id, event.
pub type Profiler =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> ResultCode;

/// A profiler callback as `init` takes it; NCCL passes one that does nothing
/// rather than null.
pub type ProfilerArg = Option<Profiler>;
