//! The function table as C sees it. Every entry is one shape: a fault may speak
//! first, then the arguments are judged, then a safe call does the work, and no
//! panic leaves.
//!
//! Null arguments are refused with a line and code 3 everywhere, also where the
//! real plugin crashes. `test` never writes `sizes`.
#![expect(unsafe_code, reason = "takes pointers from C and writes through them")]

use crate::accept::Listener;
use crate::block;
use crate::comm::{Comm, Parts};
use crate::connect;
use crate::failed::{Failed, REFUSED};
use crate::fault::{self, Call, Side};
use crate::log::{self, note, warning};
use crate::mr::{self, Region};
use crate::plugin::{self, Plugin};
use crate::settings::PRODUCT;
use crate::wire::{HANDLE_BYTES, TOKEN};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use tcpx_abi::result::{INTERNAL_ERROR, SUCCESS};
use tcpx_abi::subsystem::{INIT, NET};
use tcpx_abi::unpack::UnpackHandle;
use tcpx_abi::v7::{DeviceHandle, Net, Properties};
use tcpx_abi::{LoggerArg, NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_CUDA, PTR_HOST, ResultCode};

const NAME: &std::ffi::CStr = c"TCPXSoft_v7";
/// What a device pointer must be a multiple of.
const ALIGNMENT: usize = 4096;

/// The table by which NCCL and everyone else finds this plugin.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: Net = Net {
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

/// Listen comms by the pointers that callers hold.
static LISTENERS: Mutex<BTreeMap<usize, Arc<Mutex<Listener>>>> = Mutex::new(BTreeMap::new());

/// The frame around every call.
#[inline]
fn enter(call: Call, work: impl FnOnce() -> Result<(), Failed>) -> ResultCode {
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

/// Writes a result where the caller wants it, unless that is nowhere.
fn give<T>(place: *mut T, value: T) -> Result<(), Failed> {
    if place.is_null() {
        warning!(c"softCall", "{PRODUCT} : called with a null result pointer");
        return Err(REFUSED);
    }
    // SAFETY: not null, and the ABI makes it the caller's to be written.
    unsafe { place.write(value) };
    Ok(())
}

fn started() -> Result<&'static Plugin, Failed> {
    plugin::get().ok_or_else(|| {
        warning!(c"softCall", "{PRODUCT} : called before a successful init");
        REFUSED
    })
}

unsafe extern "C" fn init(logger: LoggerArg) -> ResultCode {
    log::set(logger);
    enter(Call::Init, plugin::init)
}

unsafe extern "C" fn devices(count: *mut c_int) -> ResultCode {
    enter(Call::Devices, || give(count, plugin::get().map_or(-1, |plugin| plugin.devices.len() as c_int)))
}

unsafe extern "C" fn get_properties(device: c_int, properties: *mut Properties) -> ResultCode {
    enter(Call::GetProperties, || give(properties, started()?.properties(device)?))
}

unsafe extern "C" fn listen(device: c_int, handle: *mut c_void, comm: *mut *mut c_void) -> ResultCode {
    enter(Call::Listen, || {
        // SAFETY: the caller's 128 bytes, or null.
        let pointer = unsafe { listen_on(started()?, device, handle) }?;
        give(comm, pointer)
    })
}

/// # Safety
/// `handle` is null or 128 bytes to write to.
pub(crate) unsafe fn listen_on(
    plugin: &'static Plugin,
    device: c_int,
    handle: *mut c_void,
) -> Result<*mut c_void, Failed> {
    if handle.is_null() {
        warning!(c"softListen", "{PRODUCT} : listen with a null handle");
        return Err(REFUSED);
    }
    let (listener, made) = Listener::new(plugin, device)?;
    // SAFETY: the caller's handle has 128 bytes; these are the first of them.
    unsafe { handle.cast::<[u8; HANDLE_BYTES]>().write(made.encode()) };
    let listener = Arc::new(Mutex::new(listener));
    let key = Arc::as_ptr(&listener) as usize;
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, listener);
    Ok(key as *mut c_void)
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
        give(comm, unsafe { connect_from(started()?, device, handle) }?)
    })
}

/// # Safety
/// `handle` is null or 128 bytes to read and write.
pub(crate) unsafe fn connect_from(
    plugin: &'static Plugin,
    device: c_int,
    handle: *mut c_void,
) -> Result<*mut c_void, Failed> {
    if handle.is_null() {
        warning!(c"softConnect", "{PRODUCT} : connect with a null handle");
        return Err(REFUSED);
    }
    // SAFETY: the caller's handle has 128 bytes; these are the first of them.
    let bytes = unsafe { handle.cast::<[u8; HANDLE_BYTES]>().read() };
    let mut token = [0; 8];
    token.copy_from_slice(&bytes[TOKEN]);
    let call = connect::connect(plugin, device, &bytes, u64::from_ne_bytes(token));
    if let Some(token) = call.token {
        // SAFETY: inside the handle.
        let place = unsafe { handle.cast::<u8>().add(TOKEN.start) };
        // SAFETY: eight bytes inside the handle, of any alignment.
        unsafe { place.cast::<[u8; 8]>().write(token.to_ne_bytes()) };
    }
    let Some(parts) = call.outcome? else { return Ok(ptr::null_mut()) };
    let comm = settle(parts);
    note!(NET, c"softConnect", "sendComm {comm:p}");
    Ok(comm)
}

unsafe extern "C" fn accept(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    handle: *mut *mut DeviceHandle,
) -> ResultCode {
    enter(Call::Accept, || {
        give(comm, ptr::null_mut())?;
        // SAFETY: null, or a pointer to null or to a device handle.
        give(comm, unsafe { accept_on(listener, handle) }?)
    })
}

/// # Safety
/// `handle` is null, or points to null or to a device handle to write to.
pub(crate) unsafe fn accept_on(listener: *mut c_void, handle: *mut *mut DeviceHandle) -> Result<*mut c_void, Failed> {
    let found = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).get(&(listener as usize)).cloned();
    let Some(found) = found else {
        warning!(c"softAccept", "{PRODUCT} : accept on {listener:p}, which is no listen comm");
        return Err(REFUSED);
    };
    let accepted = found.lock().unwrap_or_else(PoisonError::into_inner).accept()?;
    let Some(parts) = accepted else { return Ok(ptr::null_mut()) };
    let comm = settle(parts);
    // SAFETY: by the contract above.
    let handle = unsafe { handle.as_mut() }.and_then(|handle| {
        // SAFETY: by the contract above.
        unsafe { handle.as_mut() }
    });
    // SAFETY: just made.
    match (handle, unsafe { block::comm(comm) }) {
        (Some(handle), Some(made)) => describe(handle, made, comm),
        _ => warning!(
            c"softAccept",
            "{PRODUCT} : accept without a device handle: NET/GPUDirectTCPX crashes at the first receive"
        ),
    }
    note!(NET, c"softAccept", "recvComm {comm:p}");
    Ok(comm)
}

/// Fills the device handle in as the real plugin does.
fn describe(handle: &mut DeviceHandle, comm: &Comm, pointer: *mut c_void) {
    note!(INIT, c"softGetDeviceHandle", "comm {pointer:p}, GetDeviceHandle, passive 1");
    *handle = DeviceHandle {
        net_device_type: NET_DEVICE_UNPACK,
        net_device_version: NET_DEVICE_UNPACK_VERSION,
        handle: comm.unpack.as_ref().map_or(ptr::null_mut(), |unpack| unpack.handle()),
        size: size_of::<UnpackHandle>(),
        needs_proxy_progress: 1,
    };
    note!(INIT, c"softGetDeviceHandle", "comm {pointer:p}, GetDeviceHandle {:p}", handle.handle);
}

fn settle(parts: Parts) -> *mut c_void {
    block::publish(|address, requests| Comm::new(parts, address, requests))
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> ResultCode {
    enter(Call::RegMr, || give(mhandle, register(comm, data, size, kind)?))
}

/// `regMr`. `data` is only looked at as a number.
pub(crate) fn register(comm: *mut c_void, data: *mut c_void, size: c_int, kind: c_int) -> Result<*mut c_void, Failed> {
    let function = c"softRegMr";
    if comm.is_null() {
        warning!(function, "{PRODUCT}: regMr called with NULL communicator.");
        return Err(REFUSED);
    }
    if !block::is_live(comm) {
        warning!(function, "{PRODUCT}: regMr called with {comm:p}, which is no comm");
        return Err(REFUSED);
    }
    if kind != PTR_HOST && kind != PTR_CUDA {
        warning!(function, "unknown mem type {kind}");
        return Err(REFUSED);
    }
    if kind == PTR_CUDA {
        check_device_memory(comm, data, size)?;
    }
    let length = usize::try_from(size).unwrap_or(0);
    Ok(mr::register(Region { base: data as usize, length, kind }))
}

fn check_device_memory(comm: *mut c_void, data: *mut c_void, size: c_int) -> Result<(), Failed> {
    let function = c"softRegMr";
    if !(data as usize).is_multiple_of(ALIGNMENT) {
        // The real plugin prints 4096 in decimal behind a hexadecimal prefix.
        warning!(function, "data not aligned: {data:p} vs 0x{ALIGNMENT:012}");
        return Err(REFUSED);
    }
    // SAFETY: live, as the caller has asked the registry.
    let stand_in = unsafe { block::comm(comm) }.is_some_and(|comm| comm.plugin.settings.stand_in);
    if !stand_in || data.is_null() || size <= 0 {
        // What the real plugin says when the driver does not know the pointer.
        warning!(function, "gpu_tx_reg_mr failed -5");
        return Err(REFUSED);
    }
    Ok(())
}

unsafe extern "C" fn dereg_mr(_: *mut c_void, mhandle: *mut c_void) -> ResultCode {
    enter(Call::DeregMr, || {
        if mhandle.is_null() || mr::deregister(mhandle) {
            return Ok(());
        }
        warning!(c"softDeregMr", "{PRODUCT} : deregMr of {mhandle:p}, which is not registered");
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
        give(request, unsafe { post(Side::Send, comm, data, size, mhandle) }?)
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
        let data = unsafe { first(data) }?;
        // SAFETY: as above.
        let size = unsafe { first(sizes) }?;
        // SAFETY: as above.
        let mhandle = unsafe { first(mhandles) }?;
        // SAFETY: comm and mhandle are the caller's, as `post` asks.
        give(request, unsafe { post(Side::Recv, comm, data, size, mhandle) }?)
    })
}

/// The only element of an array that the caller passed.
///
/// # Safety
/// `array` is null or has an element.
unsafe fn first<T: Copy>(array: *const T) -> Result<T, Failed> {
    // SAFETY: by the contract above.
    unsafe { array.as_ref() }.copied().ok_or_else(|| {
        warning!(c"softCall", "{PRODUCT} : called with a null array");
        REFUSED
    })
}

/// # Safety
/// `comm` and `mhandle` are as `block::comm` and `mr::region` ask.
pub(crate) unsafe fn post(
    side: Side,
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    mhandle: *mut c_void,
) -> Result<*mut c_void, Failed> {
    // SAFETY: by the contract above.
    let Some(comm) = (unsafe { block::comm(comm) }) else {
        warning!(c"softPost", "{PRODUCT} : {side:?} request on {comm:p}, which is no comm");
        return Err(REFUSED);
    };
    if mhandle.is_null() {
        warning!(c"softPost", "{PRODUCT} : mhandle is null");
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    let Some(region) = (unsafe { mr::region(mhandle) }) else {
        warning!(c"softPost", "{PRODUCT} : mhandle {mhandle:p} is not registered");
        return Err(REFUSED);
    };
    comm.post(side, data, size, region)
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
        let request = unsafe { first(request) }?;
        // SAFETY: null or one of our requests, as `block::owner` asks.
        let Some((comm, slot)) = (unsafe { block::owner(request) }) else {
            warning!(c"softIflush", "{PRODUCT} : iflush of {request:p}, which is no request");
            return Err(REFUSED);
        };
        give(sizes, comm.size_of(slot))
    })
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, _: *mut c_int) -> ResultCode {
    enter(Call::Test, || {
        give(done, 0)?;
        // SAFETY: null or one of our requests, as `tested` asks.
        if unsafe { tested(request) }? {
            give(done, 1)?;
        }
        Ok(())
    })
}

/// # Safety
/// `request` is as `block::owner` asks.
pub(crate) unsafe fn tested(request: *mut c_void) -> Result<bool, Failed> {
    if request.is_null() {
        warning!(c"softTest", "{PRODUCT} : test called with NULL request");
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    let Some((comm, slot)) = (unsafe { block::owner(request) }) else {
        warning!(c"softTest", "{PRODUCT} : test of {request:p}, which is no request");
        return Err(REFUSED);
    };
    comm.test(slot)
}

unsafe extern "C" fn close_send(comm: *mut c_void) -> ResultCode {
    enter(Call::CloseSend, || close(comm))
}

unsafe extern "C" fn close_recv(comm: *mut c_void) -> ResultCode {
    enter(Call::CloseRecv, || close(comm))
}

/// `closeSend` and `closeRecv`: one and the same, as in the real plugin.
pub(crate) fn close(comm: *mut c_void) -> Result<(), Failed> {
    if comm.is_null() {
        return Ok(());
    }
    let Some(found) = block::retire(comm) else {
        warning!(c"softClose", "{PRODUCT} : close of {comm:p}, which is no comm");
        return Err(REFUSED);
    };
    found.close();
    Ok(())
}

unsafe extern "C" fn close_listen(listener: *mut c_void) -> ResultCode {
    enter(Call::CloseListen, || unlisten(listener))
}

/// `closeListen`.
pub(crate) fn unlisten(listener: *mut c_void) -> Result<(), Failed> {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if listener.is_null() || listeners.remove(&(listener as usize)).is_some() {
        return Ok(());
    }
    warning!(c"softCloseListen", "{PRODUCT} : close of {listener:p}, which is no listen comm");
    Err(REFUSED)
}

unsafe extern "C" fn get_device_mr(_: *mut c_void, _: *mut c_void, _: *mut *mut c_void) -> ResultCode {
    enter(Call::GetDeviceMr, || Ok(()))
}

unsafe extern "C" fn irecv_consumed(_: *mut c_void, count: c_int, request: *mut c_void) -> ResultCode {
    enter(Call::IrecvConsumed, || {
        // SAFETY: null or one of our requests, as `consumed` asks.
        unsafe { consumed(count, request) }
    })
}

/// # Safety
/// `request` is as `block::owner` asks.
pub(crate) unsafe fn consumed(count: c_int, request: *mut c_void) -> Result<(), Failed> {
    let function = c"softIrecvConsumed";
    if request.is_null() {
        warning!(function, "{PRODUCT} : irecvConsumed with null request");
        return Err(REFUSED);
    }
    if count != 1 {
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    let Some((comm, slot)) = (unsafe { block::owner(request) }) else {
        warning!(function, "{PRODUCT} : irecvConsumed of {request:p}, which is no request");
        return Err(REFUSED);
    };
    if comm.side == Side::Send {
        warning!(function, "{PRODUCT} : irecvConsumed called for send request {request:p}");
        return Ok(());
    }
    comm.consumed(slot)
}
