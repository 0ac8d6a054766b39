//! The table of a tap without a plugin. Its `init` fails and logs the reason, as a plugin that
//! cannot start does.
#![expect(unsafe_code, reason = "calls the program's logger")]

use std::ffi::CString;
use std::sync::OnceLock;
use tcpx_abi::result::SYSTEM_ERROR;
use tcpx_abi::{LoggerArg, ResultCode, level, subsystem};

static WHY: OnceLock<CString> = OnceLock::new();

/// Sets the reason, unless one is already set.
pub(crate) fn because(why: &str) {
    // The reason ends at its first NUL.
    let text = why.split('\0').next().unwrap_or_default();
    let _ = WHY.set(CString::new(text).unwrap_or_default());
}

/// Logs the reason and returns the code for `init`.
pub(crate) fn say(logger: LoggerArg) -> ResultCode {
    if let (Some(logger), Some(why)) = (logger, WHY.get()) {
        let (flags, format) = (subsystem::INIT | subsystem::NET, c"NET/tcpxtap : %s");
        // SAFETY: the program's logger, a format with one string, and a string that stays.
        unsafe {
            logger(
                level::WARN,
                flags,
                c"tcpxtap".as_ptr(),
                0,
                format.as_ptr(),
                why.as_ptr(),
            )
        };
    }
    SYSTEM_ERROR
}

macro_rules! refused_init {
    (logger) => {
        pub(super) unsafe extern "C" fn init(logger: LoggerArg) -> ResultCode {
            $crate::refuse::say(logger)
        }
    };
    (profiled) => {
        pub(super) unsafe extern "C" fn init(
            logger: LoggerArg,
            _: tcpx_abi::ProfilerArg,
        ) -> ResultCode {
            $crate::refuse::say(logger)
        }
    };
    (context) => {
        pub(super) unsafe extern "C" fn init(
            _: Out,
            _: u64,
            _: *mut abi::CommConfig,
            logger: LoggerArg,
            _: tcpx_abi::ProfilerArg,
        ) -> ResultCode {
            $crate::refuse::say(logger)
        }
    };
}
pub(crate) use refused_init;

macro_rules! refused_receive {
    ($size:ty, single) => {
        pub(super) unsafe extern "C" fn irecv(_: *mut c_void, _: *mut c_void, _: $size, _: *mut c_void, _: Out) -> ResultCode {
            INTERNAL_ERROR
        }
        pub(super) unsafe extern "C" fn iflush(_: *mut c_void, _: *mut c_void, _: c_int, _: *mut c_void, _: Out) -> ResultCode {
            INTERNAL_ERROR
        }
    };
    ($size:ty, grouped $($phandles:ident)?) => {
        pub(super) unsafe extern "C" fn irecv(
            _: *mut c_void,
            _: c_int,
            _: Out,
            _: *mut $size,
            _: *mut c_int,
            _: Out,
            $($phandles: Out,)?
            _: Out,
        ) -> ResultCode {
            $(let _ = $phandles;)?
            INTERNAL_ERROR
        }
        pub(super) unsafe extern "C" fn iflush(
            _: *mut c_void,
            _: c_int,
            _: Out,
            _: *mut c_int,
            _: Out,
            _: Out,
        ) -> ResultCode {
            INTERNAL_ERROR
        }
    };
}
pub(crate) use refused_receive;

/// The functions of a refusing table. After a failed `init` programs call no other function.
macro_rules! calls {
    ($v:ident widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     finalize($($finalize:ident)?)) => {
        mod refused {
            use std::ffi::{c_int, c_void};
            use tcpx_abi::{$v as abi, LoggerArg, ResultCode, result::INTERNAL_ERROR};

            type Out = *mut *mut c_void;

            $crate::refuse::refused_init!($init);
            $crate::refuse::refused_receive!($size, $($receive)+);

            pub(super) unsafe extern "C" fn devices(_: *mut c_int) -> ResultCode {
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn get_properties(_: c_int, _: *mut abi::Properties) -> ResultCode {
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn listen(
                $($context: *mut c_void,)?
                _: c_int,
                _: *mut c_void,
                _: Out,
            ) -> ResultCode {
                $(let _ = $context;)?
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn connect(
                $($context: *mut c_void,)?
                _: c_int,
                $($config: *mut abi::CommConfig,)?
                _: *mut c_void,
                _: Out,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                $(let _ = $context;)?
                $(let _ = $config;)?
                $(let _ = $device;)?
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn accept(
                _: *mut c_void,
                _: Out,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                $(let _ = $device;)?
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn reg_mr(_: *mut c_void, _: *mut c_void, _: $reg, _: c_int, _: Out) -> ResultCode {
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn dereg_mr(_: *mut c_void, _: *mut c_void) -> ResultCode {
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn isend(
                _: *mut c_void,
                _: *mut c_void,
                _: $size,
                $($tag: c_int,)?
                _: *mut c_void,
                $($phandle: *mut c_void,)?
                _: Out,
            ) -> ResultCode {
                $(let _ = $tag;)?
                $(let _ = $phandle;)?
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn test(_: *mut c_void, _: *mut c_int, _: *mut c_int) -> ResultCode {
                INTERNAL_ERROR
            }
            pub(super) unsafe extern "C" fn close(_: *mut c_void) -> ResultCode {
                INTERNAL_ERROR
            }
            $(
                pub(super) unsafe extern "C" fn $finalize(_: *mut c_void) -> ResultCode {
                    INTERNAL_ERROR
                }
            )?
        }
    };
}
pub(crate) use calls;
