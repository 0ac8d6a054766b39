//! A tap that found no plugin: the program learns it as it would learn of a
//! plugin that cannot start, from `init`, with the reason in its log.
#![expect(unsafe_code, reason = "calls the program's logger")]

use std::ffi::CString;
use std::sync::OnceLock;
use tcpx_abi::result::SYSTEM_ERROR;
use tcpx_abi::{LoggerArg, ResultCode, level, subsystem};

static WHY: OnceLock<CString> = OnceLock::new();

/// Keeps the first reason.
pub fn because(why: &str) {
    // A reason with a zero in it is cut there.
    let text = why.split('\0').next().unwrap_or_default();
    let _ = WHY.set(CString::new(text).unwrap_or_default());
}

/// Says why, and fails.
pub unsafe extern "C" fn init(logger: LoggerArg) -> ResultCode {
    if let (Some(logger), Some(why)) = (logger, WHY.get()) {
        let (flags, format) = (subsystem::INIT | subsystem::NET, c"NET/tcpxtap : %s");
        // SAFETY: the program's logger, a format with one string, and a string that stays.
        unsafe { logger(level::WARN, flags, c"tcpxtap".as_ptr(), 0, format.as_ptr(), why.as_ptr()) };
    }
    SYSTEM_ERROR
}

/// The other functions of a refusing table; nobody calls them after such an `init`.
macro_rules! calls {
    ($abi:ident, $size:ty) => {
        mod refused {
            use super::$abi::{DeviceHandle, Properties};
            use std::ffi::{c_int, c_void};
            use tcpx_abi::{ResultCode, result::INTERNAL_ERROR};

            type Out = *mut *mut c_void;

            pub unsafe extern "C" fn devices(_: *mut c_int) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn get_properties(_: c_int, _: *mut Properties) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn listen(_: c_int, _: *mut c_void, _: Out) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn connect(
                _: c_int,
                _: *mut c_void,
                _: Out,
                _: *mut *mut DeviceHandle,
            ) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn accept(_: *mut c_void, _: Out, _: *mut *mut DeviceHandle) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn reg_mr(_: *mut c_void, _: *mut c_void, _: $size, _: c_int, _: Out) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn dereg_mr(_: *mut c_void, _: *mut c_void) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn isend(
                _: *mut c_void,
                _: *mut c_void,
                _: c_int,
                _: c_int,
                _: *mut c_void,
                _: Out,
            ) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn irecv(
                _: *mut c_void,
                _: c_int,
                _: Out,
                _: *mut c_int,
                _: *mut c_int,
                _: Out,
                _: Out,
            ) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn iflush(
                _: *mut c_void,
                _: c_int,
                _: Out,
                _: *mut c_int,
                _: Out,
                _: Out,
            ) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn test(_: *mut c_void, _: *mut c_int, _: *mut c_int) -> ResultCode {
                INTERNAL_ERROR
            }
            pub unsafe extern "C" fn close(_: *mut c_void) -> ResultCode {
                INTERNAL_ERROR
            }
        }
    };
}
pub(crate) use calls;
