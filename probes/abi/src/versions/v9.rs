//! `ncclNet_v9_t`, field for field (NCCL 2.24). Against v8, the sizes of `isend` and
//! `irecv` are `size_t` (`iflush` and `test` keep `int`), the properties gain
//! `forceFlush`, the devices behind a virtual one and the longest messages, and
//! the table gains `makeVDevice`.
#![expect(
    unsafe_code,
    reason = "a table of C function pointers is shared between threads"
)]

pub use crate::device_handle::DeviceHandle;
use crate::{LoggerArg, ResultCode};
use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

/// The exported symbol.
pub const SYMBOL: &str = "ncclNetPlugin_v9";

/// The devices behind a virtual one (`ncclNetVDeviceProps_v9_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct VDeviceProps {
    /// Number of valid entries in `devs`.
    pub ndevs: c_int,
    /// Device indices.
    pub devs: [c_int; 4],
}

const _: () = assert!(size_of::<VDeviceProps>() == 20);
const _: () = assert!(offset_of!(VDeviceProps, devs) == 4);

/// Properties of one device (`ncclNetProperties_v9_t`). Zero it before the call:
/// plugins leave fields untouched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    /// Interface name, in the plugin's memory.
    pub name: *mut c_char,
    /// sysfs path of the device, or null.
    pub pci_path: *mut c_char,
    /// Unique id; TCPX uses the device index.
    pub guid: u64,
    /// Bits of [`crate::PTR_HOST`], [`crate::PTR_CUDA`], [`crate::PTR_DMABUF`].
    pub ptr_support: c_int,
    /// Whether a registration is valid for every comm.
    pub reg_is_global: c_int,
    /// Whether a receive in device memory must be flushed even where NCCL would not.
    pub force_flush: c_int,
    /// Mbit/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    /// Most comms of the device.
    pub max_comms: c_int,
    /// Most buffers of one receive.
    pub max_recvs: c_int,
    /// [`crate::NET_DEVICE_HOST`] or [`crate::NET_DEVICE_UNPACK`].
    pub net_device_type: c_int,
    /// Unpack layout version.
    pub net_device_version: c_int,
    /// The physical devices of a virtual device; a physical device lists itself.
    pub v_props: VDeviceProps,
    /// Longest message of a send or receive.
    pub max_p2p_bytes: usize,
    /// Longest message of a collective.
    pub max_coll_bytes: usize,
}

impl Properties {
    /// The struct to pass in, with every field zero.
    pub const ZERO: Self = Self {
        name: std::ptr::null_mut(),
        pci_path: std::ptr::null_mut(),
        guid: 0,
        ptr_support: 0,
        reg_is_global: 0,
        force_flush: 0,
        speed: 0,
        port: 0,
        latency: 0.0,
        max_comms: 0,
        max_recvs: 0,
        net_device_type: 0,
        net_device_version: 0,
        v_props: VDeviceProps {
            ndevs: 0,
            devs: [0; 4],
        },
        max_p2p_bytes: 0,
        max_coll_bytes: 0,
    };
}

const _: () = assert!(size_of::<Properties>() == 104);
const _: () = assert!(offset_of!(Properties, name) == 0);
const _: () = assert!(offset_of!(Properties, pci_path) == 8);
const _: () = assert!(offset_of!(Properties, guid) == 16);
const _: () = assert!(offset_of!(Properties, ptr_support) == 24);
const _: () = assert!(offset_of!(Properties, reg_is_global) == 28);
const _: () = assert!(offset_of!(Properties, force_flush) == 32);
const _: () = assert!(offset_of!(Properties, speed) == 36);
const _: () = assert!(offset_of!(Properties, port) == 40);
const _: () = assert!(offset_of!(Properties, latency) == 44);
const _: () = assert!(offset_of!(Properties, max_comms) == 48);
const _: () = assert!(offset_of!(Properties, max_recvs) == 52);
const _: () = assert!(offset_of!(Properties, net_device_type) == 56);
const _: () = assert!(offset_of!(Properties, net_device_version) == 60);
const _: () = assert!(offset_of!(Properties, v_props) == 64);
const _: () = assert!(offset_of!(Properties, max_p2p_bytes) == 88);
const _: () = assert!(offset_of!(Properties, max_coll_bytes) == 96);

/// `ncclNet_v9_t`. The exported symbol is the table itself, not a pointer to it.
/// An `Option` is a member that a valid table may leave null.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Net {
    /// Name by which `NCCL_NET` selects the plugin.
    pub name: *const c_char,
    /// Once per process; the environment is read here.
    pub init: Option<unsafe extern "C" fn(LoggerArg) -> ResultCode>,
    /// Number of devices.
    pub devices: Option<unsafe extern "C" fn(*mut c_int) -> ResultCode>,
    /// Properties of one device; strings stay the plugin's.
    pub get_properties: Option<unsafe extern "C" fn(c_int, *mut Properties) -> ResultCode>,
    /// `dev, handle[128], &listenComm`
    pub listen: Option<unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> ResultCode>,
    /// `dev, handle[128], &sendComm, &deviceHandle`; success with a null comm means call
    /// again with the same handle buffer.
    pub connect: Option<
        unsafe extern "C" fn(
            c_int,
            *mut c_void,
            *mut *mut c_void,
            *mut *mut DeviceHandle,
        ) -> ResultCode,
    >,
    /// `listenComm, &recvComm, &deviceHandle`; success with a null comm means call again.
    pub accept: Option<
        unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut *mut DeviceHandle) -> ResultCode,
    >,
    /// `comm, data, size, type, &mhandle`
    pub reg_mr: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            usize,
            c_int,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `comm, data, size, type, offset, fd, &mhandle`
    pub reg_mr_dma_buf: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            usize,
            c_int,
            u64,
            c_int,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `comm, mhandle`
    pub dereg_mr: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> ResultCode>,
    /// `sendComm, data, size, tag, mhandle, &request`
    pub isend: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            usize,
            c_int,
            *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `recvComm, n, data[], sizes[], tags[], mhandles[], &request`
    pub irecv: Option<
        unsafe extern "C" fn(
            *mut c_void,
            c_int,
            *mut *mut c_void,
            *mut usize,
            *mut c_int,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `recvComm, n, data[], sizes[], mhandles[], &request`
    pub iflush: Option<
        unsafe extern "C" fn(
            *mut c_void,
            c_int,
            *mut *mut c_void,
            *mut c_int,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `request, &done, sizes[]`
    pub test: Option<unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> ResultCode>,
    /// `sendComm`
    pub close_send: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
    /// `recvComm`
    pub close_recv: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
    /// `listenComm`
    pub close_listen: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
    /// `comm, mhandle, &deviceMhandle`
    pub get_device_mr:
        Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> ResultCode>,
    /// `recvComm, n, request`: frees the pages and the slot of a finished receive.
    pub irecv_consumed: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> ResultCode>,
    /// `&dev, devices`: creates a virtual device from several.
    pub make_v_device: Option<unsafe extern "C" fn(*mut c_int, *mut VDeviceProps) -> ResultCode>,
}

// SAFETY: a table is immutable once published; the name points to storage of the
// plugin that lives as long as the plugin, which is never unloaded.
unsafe impl Sync for Net {}

const _: () = assert!(size_of::<Net>() == 160);
const _: () = assert!(offset_of!(Net, init) == 8);
const _: () = assert!(offset_of!(Net, devices) == 16);
const _: () = assert!(offset_of!(Net, get_properties) == 24);
const _: () = assert!(offset_of!(Net, listen) == 32);
const _: () = assert!(offset_of!(Net, connect) == 40);
const _: () = assert!(offset_of!(Net, accept) == 48);
const _: () = assert!(offset_of!(Net, reg_mr) == 56);
const _: () = assert!(offset_of!(Net, reg_mr_dma_buf) == 64);
const _: () = assert!(offset_of!(Net, dereg_mr) == 72);
const _: () = assert!(offset_of!(Net, isend) == 80);
const _: () = assert!(offset_of!(Net, irecv) == 88);
const _: () = assert!(offset_of!(Net, iflush) == 96);
const _: () = assert!(offset_of!(Net, test) == 104);
const _: () = assert!(offset_of!(Net, close_send) == 112);
const _: () = assert!(offset_of!(Net, close_recv) == 120);
const _: () = assert!(offset_of!(Net, close_listen) == 128);
const _: () = assert!(offset_of!(Net, get_device_mr) == 136);
const _: () = assert!(offset_of!(Net, irecv_consumed) == 144);
const _: () = assert!(offset_of!(Net, make_v_device) == 152);
