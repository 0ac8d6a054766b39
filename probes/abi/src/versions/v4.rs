//! `ncclNet_v4_t`, field for field (NCCL 2.8): the oldest table that plugins still
//! export. Connect handles have 64 bytes, `connect` and `accept` may block, there
//! are no tags, and one receive is one buffer.
#![expect(
    unsafe_code,
    reason = "a table of C function pointers is shared between threads"
)]

use crate::{LoggerArg, ResultCode};
use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

/// The exported symbol.
pub const SYMBOL: &str = "ncclNetPlugin_v4";

/// Bytes of the opaque connect handle; later versions have twice as many.
pub const HANDLE_MAX: usize = 64;

/// Properties of one device (`ncclNetProperties_v4_t`). Zero it before the call:
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
    /// Mbit/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Most comms of the device.
    pub max_comms: c_int,
}

impl Properties {
    /// The struct to pass in, with every field zero.
    pub const ZERO: Self = Self {
        name: std::ptr::null_mut(),
        pci_path: std::ptr::null_mut(),
        guid: 0,
        ptr_support: 0,
        speed: 0,
        port: 0,
        max_comms: 0,
    };
}

const _: () = assert!(size_of::<Properties>() == 40);
const _: () = assert!(offset_of!(Properties, name) == 0);
const _: () = assert!(offset_of!(Properties, pci_path) == 8);
const _: () = assert!(offset_of!(Properties, guid) == 16);
const _: () = assert!(offset_of!(Properties, ptr_support) == 24);
const _: () = assert!(offset_of!(Properties, speed) == 28);
const _: () = assert!(offset_of!(Properties, port) == 32);
const _: () = assert!(offset_of!(Properties, max_comms) == 36);

/// `ncclNet_v4_t`. The exported symbol is the table itself, not a pointer to it.
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
    /// `dev, handle[64], &listenComm`
    pub listen: Option<unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> ResultCode>,
    /// `dev, handle[64], &sendComm`
    pub connect: Option<unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> ResultCode>,
    /// `listenComm, &recvComm`
    pub accept: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> ResultCode>,
    /// `comm, data, size, type, &mhandle`
    pub reg_mr: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            c_int,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `comm, mhandle`
    pub dereg_mr: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> ResultCode>,
    /// `sendComm, data, size, mhandle, &request`
    pub isend: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `recvComm, data, size, mhandle, &request`
    pub irecv: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `recvComm, data, size, mhandle, &request`
    pub iflush: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            *mut c_void,
            *mut *mut c_void,
        ) -> ResultCode,
    >,
    /// `request, &done, &size`
    pub test: Option<unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> ResultCode>,
    /// `sendComm`
    pub close_send: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
    /// `recvComm`
    pub close_recv: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
    /// `listenComm`
    pub close_listen: Option<unsafe extern "C" fn(*mut c_void) -> ResultCode>,
}

// SAFETY: a table is immutable once published; the name points to storage of the
// plugin that lives as long as the plugin, which is never unloaded.
unsafe impl Sync for Net {}

const _: () = assert!(size_of::<Net>() == 128);
const _: () = assert!(offset_of!(Net, init) == 8);
const _: () = assert!(offset_of!(Net, devices) == 16);
const _: () = assert!(offset_of!(Net, get_properties) == 24);
const _: () = assert!(offset_of!(Net, listen) == 32);
const _: () = assert!(offset_of!(Net, connect) == 40);
const _: () = assert!(offset_of!(Net, accept) == 48);
const _: () = assert!(offset_of!(Net, reg_mr) == 56);
const _: () = assert!(offset_of!(Net, dereg_mr) == 64);
const _: () = assert!(offset_of!(Net, isend) == 72);
const _: () = assert!(offset_of!(Net, irecv) == 80);
const _: () = assert!(offset_of!(Net, iflush) == 88);
const _: () = assert!(offset_of!(Net, test) == 96);
const _: () = assert!(offset_of!(Net, close_send) == 104);
const _: () = assert!(offset_of!(Net, close_recv) == 112);
const _: () = assert!(offset_of!(Net, close_listen) == 120);
