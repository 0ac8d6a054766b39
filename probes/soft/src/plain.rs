//! The plain flavour: a host plugin with a table of every ABI version.
//!
//! It uses the same comms, sockets and wire format as the other flavour, without TCPX's
//! restrictions for callers: 32 requests per comm and "try again" for one more, `test` of any
//! request in any order, sizes reported, no consume, `init` any number of times. A receive has
//! one to eight buffers, and every message goes to the oldest buffer of its tag or waits for
//! one. With `TCPXSOFT_CUDA` it accepts device memory, whose receives must be flushed.
//!
//! v4 has no "call again", so its `connect` and `accept` wait, for at most a minute.
#![expect(unsafe_code, reason = "takes pointers from C and writes through them")]

use crate::calls::{self, Given};
use crate::export::{enter, give, nth, started};
use crate::failed::{BROKEN, Failed, REFUSED};
use crate::fault::Call;
use crate::group::GROUP_MAX;
use crate::log::{self, warning};
use crate::mr;
use crate::plugin;
use crate::settings::{Flavour, PRODUCT};
use crate::wire::{HANDLE_BYTES, Handle, SHORT_BYTES};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};
use tcpx_abi::newest::{Properties, VDeviceProps};
use tcpx_abi::{ID_UNDEFINED, LoggerArg, MESSAGE_MAX, NET_DEVICE_HOST, PTR_CUDA, ResultCode};

type Out = *mut *mut c_void;

const NAME: &CStr = c"PlainSoft";

/// Longest wait of v4's `connect` and `accept`.
const PATIENCE: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_micros(100);

fn begin(logger: LoggerArg) -> ResultCode {
    log::set(logger);
    enter(Call::Init, || plugin::init(Flavour::Plain))
}

fn begin_context(context: Out, logger: LoggerArg) -> ResultCode {
    let code = begin(logger);
    if code != 0 || context.is_null() {
        return code;
    }
    // There is one plugin per process, for all communicators.
    // SAFETY: the ABI makes it the caller's to be written.
    unsafe { context.write(NAME.as_ptr().cast_mut().cast()) };
    code
}

fn properties(device: c_int) -> Result<Properties, Failed> {
    let tcpx = started()?.properties(device)?;
    let mut v_props = VDeviceProps {
        ndevs: 1,
        ..Properties::ZERO.v_props
    };
    v_props.devs[0] = device;
    Ok(Properties {
        name: tcpx.name,
        pci_path: tcpx.pci_path,
        guid: tcpx.guid,
        ptr_support: tcpx.ptr_support,
        reg_is_global: 1,
        force_flush: c_int::from(tcpx.ptr_support & PTR_CUDA != 0),
        speed: tcpx.speed,
        port: tcpx.port,
        latency: 0.0,
        max_comms: tcpx.max_comms,
        max_recvs: GROUP_MAX as c_int,
        net_device_type: NET_DEVICE_HOST,
        net_device_version: 0,
        v_props,
        max_p2p_bytes: MESSAGE_MAX,
        max_coll_bytes: MESSAGE_MAX,
        max_multi_request_size: 1,
        rail_id: ID_UNDEFINED,
        plane_id: ID_UNDEFINED,
    })
}

/// The arguments of a post, with the size converted from the version's type; refuses sizes that
/// exceed an `int`.
fn given(
    data: *mut c_void,
    size: impl TryInto<c_int>,
    tag: c_int,
    mhandle: *mut c_void,
) -> Result<Given, Failed> {
    let size = size.try_into().map_err(|_| {
        warning!(
            c"softPost",
            "{PRODUCT} : message longer than an int can say"
        );
        REFUSED
    })?;
    Ok(Given {
        data,
        size,
        tag,
        mhandle,
    })
}

/// A receive of several buffers.
///
/// # Safety
/// The arrays have `count` elements each, or are null.
unsafe fn receive_group<S: Copy + TryInto<c_int>>(
    comm: *mut c_void,
    count: c_int,
    [data, mhandles]: [Out; 2],
    sizes: *mut S,
    tags: *mut c_int,
) -> Result<*mut c_void, Failed> {
    let count = buffers("irecv", count)?;
    let none = ptr::null_mut();
    let mut buffers = [Given {
        data: none,
        size: 0,
        tag: 0,
        mhandle: none,
    }; GROUP_MAX];
    for (at, buffer) in buffers.iter_mut().enumerate().take(count) {
        // SAFETY: by the contract above.
        let data = unsafe { nth(data, at) }?;
        // SAFETY: by the contract above.
        let size = unsafe { nth(sizes, at) }?;
        // SAFETY: by the contract above.
        let tag = unsafe { nth(tags, at) }?;
        // SAFETY: by the contract above.
        *buffer = given(data, size, tag, unsafe { nth(mhandles, at) }?)?;
    }
    // SAFETY: comm and mhandles are the caller's, as `calls::post_group` asks.
    unsafe { calls::post_group(comm, &buffers[..count]) }
}

/// # Safety
/// `data` has `count` elements, or is null.
unsafe fn flush_group(comm: *mut c_void, count: c_int, data: Out) -> Result<*mut c_void, Failed> {
    let count = buffers("iflush", count)?;
    let mut places = [ptr::null_mut(); GROUP_MAX];
    for (at, place) in places.iter_mut().enumerate().take(count) {
        // SAFETY: by the contract above.
        *place = unsafe { nth(data, at) }?;
    }
    // SAFETY: the comm is the caller's, as `calls::flush` asks.
    unsafe { calls::flush(comm, &places[..count]) }
}

/// Checks the number of buffers of a call.
fn buffers(call: &str, count: c_int) -> Result<usize, Failed> {
    usize::try_from(count)
        .ok()
        .filter(|count| (1..=GROUP_MAX).contains(count))
        .ok_or_else(|| {
            warning!(
                c"softCall",
                "{PRODUCT} : {call} of {count} buffers, of 1 to {GROUP_MAX}"
            );
            REFUSED
        })
}

unsafe extern "C" fn devices(count: *mut c_int) -> ResultCode {
    enter(Call::Devices, || {
        give(count, started()?.devices.len() as c_int)
    })
}

unsafe extern "C" fn dereg_mr(_: *mut c_void, mhandle: *mut c_void) -> ResultCode {
    enter(Call::DeregMr, || {
        if mhandle.is_null() || mr::deregister(mhandle) {
            Ok(())
        } else {
            Err(REFUSED)
        }
    })
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> ResultCode {
    enter(Call::Test, || {
        give(done, 0)?;
        let tell = |place: usize, size: c_int| {
            if !sizes.is_null() {
                // SAFETY: where a caller wants sizes, it has room for each buffer's.
                let place = unsafe { sizes.add(place) };
                // SAFETY: as above.
                unsafe { place.write(size) };
            }
        };
        // SAFETY: null or one of our requests, as `test_any` asks.
        let is_done = unsafe { calls::test_any(request, tell) }?;
        give(done, c_int::from(is_done))
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

/// # Safety
/// `handle` is null or as long as the version says.
unsafe fn listen_long(device: c_int, handle: *mut c_void) -> Result<*mut c_void, Failed> {
    // SAFETY: as promised to this function.
    unsafe { calls::listen_on(started()?, device, handle) }
}

/// # Safety
/// As for [`listen_long`].
unsafe fn listen_short(device: c_int, handle: *mut c_void) -> Result<*mut c_void, Failed> {
    let mut long = [0; HANDLE_BYTES];
    // SAFETY: a buffer of ours that is long enough.
    let comm = unsafe { calls::listen_on(started()?, device, long.as_mut_ptr().cast()) }?;
    let made = Handle::decode(&long).map_err(|_| REFUSED)?;
    if handle.is_null() {
        return Err(REFUSED);
    }
    // SAFETY: as promised to this function.
    unsafe {
        handle
            .cast::<[u8; SHORT_BYTES]>()
            .write(made.encode_short())
    };
    Ok(comm)
}

/// # Safety
/// As for [`listen_long`].
unsafe fn connect_long(device: c_int, handle: *mut c_void) -> Result<*mut c_void, Failed> {
    // SAFETY: as promised to this function.
    unsafe { calls::connect_from(started()?, device, handle) }
}

/// # Safety
/// As for [`listen_long`].
unsafe fn connect_short(device: c_int, handle: *mut c_void) -> Result<*mut c_void, Failed> {
    if handle.is_null() {
        return Err(REFUSED);
    }
    // SAFETY: as promised to this function.
    let short = unsafe { handle.cast::<[u8; SHORT_BYTES]>().read() };
    let mut long = Handle::lengthen(&short).map_err(|error| {
        warning!(c"softConnect", "{PRODUCT} : bad handle: {error}");
        REFUSED
    })?;
    let plugin = started()?;
    // SAFETY: a buffer of ours that is long enough, the same each time.
    wait(|| unsafe { calls::connect_from(plugin, device, long.as_mut_ptr().cast()) })
}

/// # Safety
/// No requirements: a pointer that is not a listener is refused.
unsafe fn accept_long(listener: *mut c_void) -> Result<*mut c_void, Failed> {
    // SAFETY: no device handle to write to.
    unsafe { calls::accept_on(listener, ptr::null_mut()) }
}

/// # Safety
/// As for [`accept_long`].
unsafe fn accept_short(listener: *mut c_void) -> Result<*mut c_void, Failed> {
    // SAFETY: as promised to this function.
    wait(|| unsafe { accept_long(listener) })
}

fn wait(mut step: impl FnMut() -> Result<*mut c_void, Failed>) -> Result<*mut c_void, Failed> {
    let started = Instant::now();
    loop {
        let comm = step()?;
        if !comm.is_null() {
            return Ok(comm);
        }
        if started.elapsed() > PATIENCE {
            warning!(
                c"softWait",
                "{PRODUCT} : no peer within {} s",
                PATIENCE.as_secs()
            );
            return Err(BROKEN);
        }
        std::thread::sleep(REST);
    }
}

macro_rules! plain_init {
    (logger) => {
        unsafe extern "C" fn init(logger: LoggerArg) -> ResultCode {
            super::begin(logger)
        }
    };
    (profiled) => {
        unsafe extern "C" fn init(logger: LoggerArg, _: tcpx_abi::ProfilerArg) -> ResultCode {
            super::begin(logger)
        }
    };
    (context) => {
        unsafe extern "C" fn init(
            context: Out,
            _: u64,
            _: *mut abi::CommConfig,
            logger: LoggerArg,
            _: tcpx_abi::ProfilerArg,
        ) -> ResultCode {
            super::begin_context(context, logger)
        }
    };
}

macro_rules! plain_receive {
    ($size:ty, single) => {
        use super::{accept_short as accept_on, connect_short as connect_from, listen_short as listen_on};

        unsafe extern "C" fn irecv(
            comm: *mut c_void,
            data: *mut c_void,
            size: $size,
            mhandle: *mut c_void,
            request: Out,
        ) -> ResultCode {
            enter(Call::Irecv, || {
                // SAFETY: comm and mhandle are the caller's, as `calls::post` asks.
                give(request, unsafe { calls::post(Side::Recv, comm, given(data, size, 0, mhandle)?) }?)
            })
        }

        unsafe extern "C" fn iflush(
            comm: *mut c_void,
            data: *mut c_void,
            _: c_int,
            _: *mut c_void,
            request: Out,
        ) -> ResultCode {
            // SAFETY: the comm is the caller's, as `calls::flush` asks.
            enter(Call::Iflush, || give(request, unsafe { calls::flush(comm, &[data]) }?))
        }
    };
    ($size:ty, grouped $($phandles:ident)?) => {
        use super::{accept_long as accept_on, connect_long as connect_from, listen_long as listen_on};

        unsafe extern "C" fn irecv(
            comm: *mut c_void,
            count: c_int,
            data: Out,
            sizes: *mut $size,
            tags: *mut c_int,
            mhandles: Out,
            $($phandles: Out,)?
            request: Out,
        ) -> ResultCode {
            $(let _ = $phandles;)?
            enter(Call::Irecv, || {
                // SAFETY: arrays of `count` elements, or null.
                give(request, unsafe { super::receive_group(comm, count, [data, mhandles], sizes, tags) }?)
            })
        }

        unsafe extern "C" fn iflush(
            comm: *mut c_void,
            count: c_int,
            data: Out,
            _: *mut c_int,
            _: Out,
            request: Out,
        ) -> ResultCode {
            // SAFETY: an array of `count` elements, or null.
            enter(Call::Iflush, || give(request, unsafe { super::flush_group(comm, count, data) }?))
        }
    };
}

/// A property in the version's type.
macro_rules! plain_property {
    ($from:ident v_props $abi:ident) => {{
        let mut own = $abi::VDeviceProps {
            ndevs: $from.v_props.ndevs,
            ..$abi::Properties::ZERO.v_props
        };
        own.devs
            .iter_mut()
            .zip($from.v_props.devs)
            .for_each(|(place, device)| *place = device);
        own
    }};
    ($from:ident $property:ident $abi:ident) => {
        $from.$property
    };
}

macro_rules! plain_version {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     members(($($dma:ident)?) ($($device_mr:ident)?) ($($consumed:ident)?) ($($merge:ident)?)
     ($($finalize:ident)?) ($($attributes:ident)?))) => {
        /// The table of this ABI version.
        pub mod $v {
            use super::{Out, close_listen, close_recv, close_send, dereg_mr, devices, enter, give, given, test};
            use crate::calls;
            use crate::fault::{Call, Side};
            use std::ffi::{c_int, c_void};
            use tcpx_abi::{$v as abi, LoggerArg, ResultCode};

            /// The table of the plain flavour.
            pub const TABLE: abi::Net = abi::Net {
                name: super::NAME.as_ptr(),
                init: Some(init),
                devices: Some(devices),
                get_properties: Some(get_properties),
                listen: Some(listen),
                connect: Some(connect),
                accept: Some(accept),
                reg_mr: Some(reg_mr),
                $($dma: None,)?
                dereg_mr: Some(dereg_mr),
                isend: Some(isend),
                irecv: Some(irecv),
                iflush: Some(iflush),
                test: Some(test),
                close_send: Some(close_send),
                close_recv: Some(close_recv),
                close_listen: Some(close_listen),
                $($device_mr: None,)?
                $($consumed: None,)?
                $($merge: None,)?
                $($finalize: Some($finalize),)?
                $($attributes: None,)?
            };

            plain_init!($init);
            plain_receive!($size, $($receive)+);

            unsafe extern "C" fn get_properties(device: c_int, properties: *mut abi::Properties) -> ResultCode {
                enter(Call::GetProperties, || {
                    let from = super::properties(device)?;
                    let own = abi::Properties {
                        name: from.name,
                        pci_path: from.pci_path,
                        guid: from.guid,
                        ptr_support: from.ptr_support,
                        speed: from.speed,
                        port: from.port,
                        max_comms: from.max_comms,
                        $($property: plain_property!(from $property abi),)*
                    };
                    give(properties, own)
                })
            }

            unsafe extern "C" fn listen(
                $($context: *mut c_void,)?
                device: c_int,
                handle: *mut c_void,
                comm: Out,
            ) -> ResultCode {
                $(let _ = $context;)?
                enter(Call::Listen, || {
                    // SAFETY: the caller's handle, as long as this version says, or null.
                    let pointer = unsafe { listen_on(device, handle) }?;
                    give(comm, pointer)
                })
            }

            unsafe extern "C" fn connect(
                $($context: *mut c_void,)?
                device: c_int,
                $($config: *mut abi::CommConfig,)?
                handle: *mut c_void,
                comm: Out,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                $(let _ = $context;)?
                $(let _ = $config;)?
                $(let _ = $device;)?
                enter(Call::Connect, || {
                    give(comm, std::ptr::null_mut())?;
                    // SAFETY: the caller's handle, as long as this version says, or null.
                    give(comm, unsafe { connect_from(device, handle) }?)
                })
            }

            unsafe extern "C" fn accept(
                listener: *mut c_void,
                comm: Out,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                $(let _ = $device;)?
                enter(Call::Accept, || {
                    give(comm, std::ptr::null_mut())?;
                    // SAFETY: nothing to promise.
                    give(comm, unsafe { accept_on(listener) }?)
                })
            }

            unsafe extern "C" fn reg_mr(
                comm: *mut c_void,
                data: *mut c_void,
                size: $reg,
                kind: c_int,
                mhandle: Out,
            ) -> ResultCode {
                enter(Call::RegMr, || {
                    give(mhandle, calls::register(comm, data, usize::try_from(size).unwrap_or(0), kind)?)
                })
            }

            unsafe extern "C" fn isend(
                comm: *mut c_void,
                data: *mut c_void,
                size: $size,
                $($tag: c_int,)?
                mhandle: *mut c_void,
                $($phandle: *mut c_void,)?
                request: Out,
            ) -> ResultCode {
                let tag = 0;
                $(let tag = { let _ = tag; $tag };)?
                $(let _ = $phandle;)?
                enter(Call::Isend, || {
                    // SAFETY: comm and mhandle are the caller's, as `calls::post` asks.
                    give(request, unsafe { calls::post(Side::Send, comm, given(data, size, tag, mhandle)?) }?)
                })
            }

            $(
                unsafe extern "C" fn $finalize(_: *mut c_void) -> ResultCode {
                    tcpx_abi::result::SUCCESS
                }
            )?
        }
    };
}

tcpx_abi::for_each_version!(plain_version);
