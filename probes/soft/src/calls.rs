//! The implementation of the table's calls. Pointers are checked here and converted to comms,
//! registrations and slots; the layers below are safe.
//!
//! A null or unknown pointer is refused with a log line and code 3, also if the real plugin
//! crashes.
#![expect(
    unsafe_code,
    reason = "reads and writes what the caller's pointers point to"
)]

use crate::accept::Listener;
use crate::block;
use crate::comm::{Buffer, Comm, DeviceSide, Parts};
use crate::connect;
use crate::failed::{Failed, REFUSED};
use crate::fault::Side;
use crate::group::GROUP_MAX;
use crate::log::{note, warning};
use crate::mr::{self, Region};
use crate::plugin::Plugin;
use crate::settings::{Cuda, PRODUCT};
use crate::wire::{HANDLE_BYTES, TOKEN};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Display;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use tcpx_abi::subsystem::{INIT, NET};
use tcpx_abi::unpack::UnpackHandle;
use tcpx_abi::v7::DeviceHandle;
use tcpx_abi::{NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_CUDA, PTR_HOST};

/// Alignment of device pointers.
const ALIGNMENT: usize = 4096;

/// Listen comms by the pointers that callers hold.
static LISTENERS: Mutex<BTreeMap<usize, Arc<Mutex<Listener>>>> = Mutex::new(BTreeMap::new());

/// `listen`: creates two listening sockets and the handle with their addresses.
///
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
    LISTENERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key, listener);
    Ok(key as *mut c_void)
}

/// One call of `connect`. Returns the comm, or null for "call again".
///
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
    let Some(parts) = call.outcome? else {
        return Ok(ptr::null_mut());
    };
    let comm = settle(parts)?;
    note!(NET, c"softConnect", "sendComm {comm:p}");
    Ok(comm)
}

/// One call of `accept`. Returns the comm, or null for "call again".
///
/// # Safety
/// `handle` is null, or points to null or to a device handle to write to.
pub(crate) unsafe fn accept_on(
    listener: *mut c_void,
    handle: *mut *mut DeviceHandle,
) -> Result<*mut c_void, Failed> {
    let found = LISTENERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&(listener as usize))
        .cloned();
    let Some(found) = found else {
        warning!(
            c"softAccept",
            "{PRODUCT} : accept on {listener:p}, which is no listen comm"
        );
        return Err(REFUSED);
    };
    let accepted = found
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .accept()?;
    let Some(parts) = accepted else {
        return Ok(ptr::null_mut());
    };
    let comm = settle(parts)?;
    // SAFETY: by the contract above.
    let handle = unsafe { handle.as_mut() }.and_then(|handle| {
        // SAFETY: by the contract above.
        unsafe { handle.as_mut() }
    });
    // SAFETY: just made.
    match (handle, unsafe { block::comm(comm) }) {
        (_, Some(made)) if made.plugin.settings.is_plain() => {}
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
    note!(
        INIT,
        c"softGetDeviceHandle",
        "comm {pointer:p}, GetDeviceHandle, passive 1"
    );
    *handle = DeviceHandle {
        net_device_type: NET_DEVICE_UNPACK,
        net_device_version: NET_DEVICE_UNPACK_VERSION,
        handle: comm
            .unpack
            .as_ref()
            .map_or(ptr::null_mut(), |unpack| unpack.handle()),
        size: size_of::<UnpackHandle>(),
        needs_proxy_progress: 1,
    };
    note!(
        INIT,
        c"softGetDeviceHandle",
        "comm {pointer:p}, GetDeviceHandle {:p}",
        handle.handle
    );
}

fn settle(parts: Parts) -> Result<*mut c_void, Failed> {
    let memory = DeviceSide::for_parts(&parts)?;
    Ok(block::publish(|address, requests| {
        Comm::new(parts, memory, address, requests)
    }))
}

/// `regMr`. `data` is not dereferenced.
pub(crate) fn register(
    comm: *mut c_void,
    data: *mut c_void,
    length: usize,
    kind: c_int,
) -> Result<*mut c_void, Failed> {
    let function = c"softRegMr";
    if comm.is_null() {
        warning!(function, "{PRODUCT}: regMr called with NULL communicator.");
        return Err(REFUSED);
    }
    if !block::is_live(comm) {
        warning!(
            function,
            "{PRODUCT}: regMr called with {comm:p}, which is no comm"
        );
        return Err(REFUSED);
    }
    if kind != PTR_HOST && kind != PTR_CUDA {
        warning!(function, "unknown mem type {kind}");
        return Err(REFUSED);
    }
    if kind == PTR_CUDA {
        check_device_memory(comm, data, length)?;
    }
    Ok(mr::register(Region {
        base: data as usize,
        length,
        kind,
    }))
}

fn check_device_memory(comm: *mut c_void, data: *mut c_void, length: usize) -> Result<(), Failed> {
    let function = c"softRegMr";
    if !(data as usize).is_multiple_of(ALIGNMENT) {
        // The real plugin prints 4096 in decimal behind a hexadecimal prefix.
        warning!(function, "data not aligned: {data:p} vs 0x{ALIGNMENT:012}");
        return Err(REFUSED);
    }
    // SAFETY: live, as the caller has asked the registry.
    let known = unsafe { block::comm(comm) }.is_some_and(|comm| match comm.gpu {
        Some(gpu) => gpu.owns(data as u64, length),
        None => comm.plugin.settings.cuda == Cuda::StandIn,
    });
    if !known || data.is_null() || length == 0 {
        // The real plugin's line if the driver does not know the pointer.
        warning!(function, "gpu_tx_reg_mr failed -5");
        return Err(REFUSED);
    }
    Ok(())
}

/// The arguments of a post.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    /// First byte.
    pub data: *mut c_void,
    /// Bytes.
    pub size: c_int,
    /// Tag; 0 in versions without tags.
    pub tag: c_int,
    /// The registration of the bytes.
    pub mhandle: *mut c_void,
}

/// `isend` and `irecv`. Null if a comm of the plain flavour has no free slot.
///
/// # Safety
/// `comm` and `mhandle` are as `block::comm` and `mr::region` ask.
pub(crate) unsafe fn post(
    side: Side,
    comm: *mut c_void,
    given: Given,
) -> Result<*mut c_void, Failed> {
    // SAFETY: by the contract above.
    let comm = unsafe { called_on(comm, c"softPost", &format_args!("{side:?} request")) }?;
    // SAFETY: by the contract above.
    comm.post(side, &unsafe { buffer(given) }?)
}

/// `irecv` of several buffers, in the plain flavour.
///
/// # Safety
/// As for [`post`].
pub(crate) unsafe fn post_group(comm: *mut c_void, given: &[Given]) -> Result<*mut c_void, Failed> {
    // SAFETY: by the contract above.
    let comm = unsafe { called_on(comm, c"softPost", &format_args!("{:?} request", Side::Recv)) }?;
    let mut buffers = [Buffer::NONE; GROUP_MAX];
    let Some(buffers) = buffers.get_mut(..given.len()) else {
        return Err(REFUSED);
    };
    for (place, given) in buffers.iter_mut().zip(given) {
        // SAFETY: by the contract above.
        *place = unsafe { buffer(*given) }?;
    }
    comm.post_group(buffers)
}

/// # Safety
/// `comm` is as `block::comm` asks.
unsafe fn called_on<'a>(
    comm: *mut c_void,
    function: &CStr,
    what: &dyn Display,
) -> Result<&'a mut Comm, Failed> {
    // SAFETY: by the contract above.
    unsafe { block::comm(comm) }.ok_or_else(|| {
        warning!(function, "{PRODUCT} : {what} on {comm:p}, which is no comm");
        REFUSED
    })
}

/// # Safety
/// `mhandle` is as `mr::region` asks.
unsafe fn buffer(given: Given) -> Result<Buffer, Failed> {
    let Given {
        data,
        size,
        tag,
        mhandle,
    } = given;
    if mhandle.is_null() {
        warning!(c"softPost", "{PRODUCT} : mhandle is null");
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    let Some(region) = (unsafe { mr::region(mhandle) }) else {
        warning!(
            c"softPost",
            "{PRODUCT} : mhandle {mhandle:p} is not registered"
        );
        return Err(REFUSED);
    };
    Ok(Buffer {
        data,
        size,
        region,
        tag,
    })
}

/// `iflush` of the plain flavour. Null if there is nothing to flush.
///
/// # Safety
/// `comm` is as `block::comm` asks.
pub(crate) unsafe fn flush(
    comm: *mut c_void,
    places: &[*mut c_void],
) -> Result<*mut c_void, Failed> {
    // SAFETY: by the contract above.
    unsafe { called_on(comm, c"softIflush", &"iflush") }?.flush(places)
}

/// `test`. Returns whether the request is done.
///
/// # Safety
/// `request` is as `block::owner` asks.
pub(crate) unsafe fn test(request: *mut c_void) -> Result<bool, Failed> {
    // SAFETY: by the contract above.
    let (comm, slot) = unsafe { tested(request) }?;
    comm.test(slot)
}

/// `test` of the plain flavour. If the request is done, calls `tell` with the bytes of each of
/// its buffers.
///
/// # Safety
/// As for [`test`].
pub(crate) unsafe fn test_any(
    request: *mut c_void,
    tell: impl FnMut(usize, c_int),
) -> Result<bool, Failed> {
    // SAFETY: by the contract above.
    let (comm, slot) = unsafe { tested(request) }?;
    let done = comm.test_any(slot)?;
    if done {
        comm.sizes(slot, tell);
    }
    Ok(done)
}

/// # Safety
/// `request` is as `block::owner` asks.
unsafe fn tested<'a>(request: *mut c_void) -> Result<(&'a mut Comm, usize), Failed> {
    if request.is_null() {
        warning!(c"softTest", "{PRODUCT} : test called with NULL request");
        return Err(REFUSED);
    }
    // SAFETY: by the contract above.
    unsafe { block::owner(request) }.ok_or_else(|| {
        warning!(
            c"softTest",
            "{PRODUCT} : test of {request:p}, which is no request"
        );
        REFUSED
    })
}

/// `irecvConsumed`.
///
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
        warning!(
            function,
            "{PRODUCT} : irecvConsumed of {request:p}, which is no request"
        );
        return Err(REFUSED);
    };
    if comm.side == Side::Send {
        warning!(
            function,
            "{PRODUCT} : irecvConsumed called for send request {request:p}"
        );
        return Ok(());
    }
    comm.consumed(slot)
}

/// `closeSend` and `closeRecv`, which are the same, as in the real plugin.
pub(crate) fn close(comm: *mut c_void) -> Result<(), Failed> {
    if comm.is_null() {
        return Ok(());
    }
    let Some(found) = block::retire(comm) else {
        warning!(
            c"softClose",
            "{PRODUCT} : close of {comm:p}, which is no comm"
        );
        return Err(REFUSED);
    };
    found.close();
    Ok(())
}

/// `closeListen`.
pub(crate) fn unlisten(listener: *mut c_void) -> Result<(), Failed> {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if listener.is_null() || listeners.remove(&(listener as usize)).is_some() {
        return Ok(());
    }
    warning!(
        c"softCloseListen",
        "{PRODUCT} : close of {listener:p}, which is no listen comm"
    );
    Err(REFUSED)
}
