//! The function table for C. Every entry has the same form: an injected fault may answer the
//! call, the arguments are checked, a safe function does the work, and panics are caught.
//!
//! Null arguments are refused with a log line and code 3, also if the real plugin crashes.
//! `test` never writes `sizes`.
#![expect(unsafe_code, reason = "takes pointers from C and writes through them")]

use crate::block;
use crate::calls;
use crate::failed::{Failed, REFUSED};
use crate::fault::{self, Call, Side};
use crate::log::{self, warning};
use crate::mr;
use crate::plugin::{self, Plugin};
use crate::settings::{Flavour, PRODUCT};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};
use tcpx_abi::v7::{DeviceHandle, Net, Properties};
use tcpx_abi::{LoggerArg, ResultCode};

const NAME: &std::ffi::CStr = c"TCPXSoft_v7";

/// The table that the shared object exports and that programs can link.
pub const TABLE: Net = Net {
    name: NAME.as_ptr().cast::<c_char>(),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect),
    accept: Some(accept),
    reg_mr: Some(reg_mr),
    reg_mr_dma_buf: None,
    dereg_mr: Some(dereg_mr),
    isend: Some(isend),
    irecv: Some(irecv),
    iflush: Some(iflush),
    test: Some(test),
    close_send: Some(close_send),
    close_recv: Some(close_recv),
    close_listen: Some(close_listen),
    get_device_mr: Some(get_device_mr),
    irecv_consumed: Some(irecv_consumed),
};

/// Runs a call: injects faults, catches panics, and converts the result to a code.
#[inline]
pub(crate) fn enter(call: Call, work: impl FnOnce() -> Result<(), Failed>) -> ResultCode {
    if let Some(code) = fault::on_call(call) {
        return code;
    }
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(Failed(code))) => code,
        Err(_) => {
            warning!(c"softCall", "{PRODUCT} : internal error in {call:?}");
            INTERNAL_ERROR
        }
    }
}

/// Writes a result to the caller's out-parameter; refuses null.
pub(crate) fn give<T>(place: *mut T, value: T) -> Result<(), Failed> {
    if place.is_null() {
        warning!(c"softCall", "{PRODUCT} : called with a null result pointer");
        return Err(REFUSED);
    }
    // SAFETY: not null, and the ABI makes it the caller's to be written.
    unsafe { place.write(value) };
    Ok(())
}

pub(crate) fn started() -> Result<&'static Plugin, Failed> {
    plugin::get().ok_or_else(|| {
        warning!(c"softCall", "{PRODUCT} : called before a successful init");
        REFUSED
    })
}

unsafe extern "C" fn init(logger: LoggerArg) -> ResultCode {
    log::set(logger);
    enter(Call::Init, || plugin::init(Flavour::Tcpx))
}

unsafe extern "C" fn devices(count: *mut c_int) -> ResultCode {
    enter(Call::Devices, || {
        give(
            count,
            plugin::get().map_or(-1, |plugin| plugin.devices.len() as c_int),
        )
    })
}

unsafe extern "C" fn get_properties(device: c_int, properties: *mut Properties) -> ResultCode {
    enter(Call::GetProperties, || {
        give(properties, started()?.properties(device)?)
    })
}

unsafe extern "C" fn listen(
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> ResultCode {
    enter(Call::Listen, || {
        // SAFETY: the caller's 128 bytes, or null.
        let pointer = unsafe { calls::listen_on(started()?, device, handle) }?;
        give(comm, pointer)
    })
}

unsafe extern "C" fn connect(
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _: *mut *mut DeviceHandle,
) -> ResultCode {
    enter(Call::Connect, || {
        give(comm, ptr::null_mut())?;
        // SAFETY: the caller's 128 bytes, or null.
        give(comm, unsafe {
            calls::connect_from(started()?, device, handle)
        }?)
    })
}

unsafe extern "C" fn accept(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    handle: *mut *mut DeviceHandle,
) -> ResultCode {
    enter(Call::Accept, || {
        give(comm, ptr::null_mut())?;
        // SAFETY: null, or a pointer to null or to a device handle.
        give(comm, unsafe { calls::accept_on(listener, handle) }?)
    })
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> ResultCode {
    enter(Call::RegMr, || {
        give(
            mhandle,
            calls::register(comm, data, usize::try_from(size).unwrap_or(0), kind)?,
        )
    })
}

unsafe extern "C" fn dereg_mr(_: *mut c_void, mhandle: *mut c_void) -> ResultCode {
    enter(Call::DeregMr, || {
        if mhandle.is_null() || mr::deregister(mhandle) {
            return Ok(());
        }
        warning!(
            c"softDeregMr",
            "{PRODUCT} : deregMr of {mhandle:p}, which is not registered"
        );
        Err(REFUSED)
    })
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    _: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> ResultCode {
    enter(Call::Isend, || {
        // SAFETY: comm and mhandle are the caller's, as `post` asks.
        give(request, unsafe {
            calls::post(
                Side::Send,
                comm,
                calls::Given {
                    data,
                    size,
                    tag: 0,
                    mhandle,
                },
            )
        }?)
    })
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    _: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> ResultCode {
    enter(Call::Irecv, || {
        if count != 1 {
            return Err(REFUSED);
        }
        // SAFETY: arrays of `count` elements, or null.
        let data = unsafe { nth(data, 0) }?;
        // SAFETY: as above.
        let size = unsafe { nth(sizes, 0) }?;
        // SAFETY: as above.
        let mhandle = unsafe { nth(mhandles, 0) }?;
        // SAFETY: comm and mhandle are the caller's, as `post` asks.
        give(request, unsafe {
            calls::post(
                Side::Recv,
                comm,
                calls::Given {
                    data,
                    size,
                    tag: 0,
                    mhandle,
                },
            )
        }?)
    })
}

/// An element of the caller's array; refuses null.
///
/// # Safety
/// `array` is null or has as many elements and one more.
pub(crate) unsafe fn nth<T: Copy>(array: *const T, at: usize) -> Result<T, Failed> {
    if array.is_null() {
        warning!(c"softCall", "{PRODUCT} : called with a null array");
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    let place = unsafe { array.add(at) };
    // SAFETY: as above.
    Ok(unsafe { place.read() })
}

unsafe extern "C" fn iflush(
    _: *mut c_void,
    count: c_int,
    _: *mut *mut c_void,
    sizes: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> ResultCode {
    enter(Call::Iflush, || {
        if count != 1 {
            return Err(REFUSED);
        }
        // SAFETY: null or the caller's request pointer.
        let request = unsafe { nth(request, 0) }?;
        // SAFETY: null or one of our requests, as `block::owner` asks.
        let Some((comm, slot)) = (unsafe { block::owner(request) }) else {
            warning!(
                c"softIflush",
                "{PRODUCT} : iflush of {request:p}, which is no request"
            );
            return Err(REFUSED);
        };
        give(sizes, comm.size_of(slot))
    })
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, _: *mut c_int) -> ResultCode {
    enter(Call::Test, || {
        give(done, 0)?;
        // SAFETY: null or one of our requests, as `test` asks.
        if unsafe { calls::test(request) }? {
            give(done, 1)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn close_send(comm: *mut c_void) -> ResultCode {
    enter(Call::CloseSend, || calls::close(comm))
}

unsafe extern "C" fn close_recv(comm: *mut c_void) -> ResultCode {
    enter(Call::CloseRecv, || calls::close(comm))
}

unsafe extern "C" fn close_listen(listener: *mut c_void) -> ResultCode {
    enter(Call::CloseListen, || calls::unlisten(listener))
}

unsafe extern "C" fn get_device_mr(
    _: *mut c_void,
    _: *mut c_void,
    _: *mut *mut c_void,
) -> ResultCode {
    enter(Call::GetDeviceMr, || Ok(()))
}

unsafe extern "C" fn irecv_consumed(
    _: *mut c_void,
    count: c_int,
    request: *mut c_void,
) -> ResultCode {
    enter(Call::IrecvConsumed, || {
        // SAFETY: null or one of our requests, as `consumed` asks.
        unsafe { calls::consumed(count, request) }
    })
}
