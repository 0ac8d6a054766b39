//! The structs that a receiver of an UNPACK plugin reads: scatter lists, their counts, and the
//! private part of a TCPX request.
//!
//! Layouts are from NCCL's `net_device_unpack_defs.h` and TCPX 3.1.9; the request layout was also
//! used with the 3.1.6 binary. Values read through these structs are untrusted: check them
//! against the posted receive before use.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of};

/// Receive slots of one comm.
pub const SLOTS: usize = 16;
/// Scatter entries of one slot.
pub const ENTRIES: usize = 2048;

/// One contiguous piece of a received message (`loadMeta`).
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadMeta {
    /// Byte offset in the bounce buffer.
    pub src_off: u32,
    /// Bytes of this piece.
    pub len: u32,
    /// Byte offset from the start of the posted receive buffer.
    pub dst_off: u64,
}

/// `netUnpackMeta`: every slot's scatter list, then every slot's count.
#[repr(C)]
pub struct UnpackMeta {
    /// Scatter entries, slot by slot.
    pub mem: [[LoadMeta; ENTRIES]; SLOTS],
    /// Valid entries of each slot, published when `test` reports done.
    pub cnt: [u64; SLOTS],
}

/// The struct in device memory to which the device handle points.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct UnpackHandle {
    /// Device-visible address of the [`UnpackMeta`].
    pub meta: *mut UnpackMeta,
    /// Device address of the page pool; null when its import was skipped.
    pub bounce_buf: *mut c_void,
    /// NCCL's own counter of unpacked receives; starts at all ones.
    pub head: u64,
}

/// The private request of TCPX 3.1.9, 128 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The comm it belongs to.
    pub comm: *mut c_void,
    /// The posted buffer.
    pub data: *mut c_void,
    /// 0 send, 1 receive.
    pub op: c_int,
    /// [`crate::PTR_HOST`] or [`crate::PTR_CUDA`].
    pub mem_type: c_int,
    /// Data socket of the next task chunk.
    pub next_sock_id: c_int,
    /// Size of the next task chunk.
    pub next_size: c_int,
    /// Bytes assigned to tasks so far.
    pub offset: c_int,
    /// Message bytes; a receive adopts the sender's total.
    pub size: c_int,
    /// Bytes not yet moved; -1 on a receive until the first header.
    pub size_pending: c_int,
    /// Registration's descriptor.
    pub gpu_mem_fd: c_int,
    /// Offset of `data` in its registration.
    pub gpu_mem_off: c_int,
    /// The unpack slot of a receive.
    pub slot: Slot,
}

/// The unpack slot inside a [`Request`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// Whether the receive owns a slot.
    pub active: u8,
    /// 0..16.
    pub idx: u64,
    /// This slot's scatter entries, host-readable.
    pub mem: *mut LoadMeta,
    /// This slot's published count, host-readable.
    pub cnt: *mut u64,
    /// Entries written so far.
    pub cnt_cache: u64,
    /// Private: sockets with tokens.
    pub fds_cnt: *mut c_void,
    /// Private: token counts.
    pub pgtok_cnts: *mut c_void,
    /// Private: descriptors.
    pub fds: *mut c_void,
    /// Private: page tokens.
    pub pgtoks: *mut c_void,
}

const _: () = assert!(size_of::<LoadMeta>() == 16);
const _: () = assert!(size_of::<UnpackMeta>() == 524_416);
const _: () = assert!(offset_of!(UnpackMeta, cnt) == 524_288);
const _: () = assert!(size_of::<UnpackHandle>() == 24);
const _: () = assert!(size_of::<Slot>() == 72);
const _: () = assert!(size_of::<Request>() == 128);
const _: () = assert!(offset_of!(Request, op) == 16);
const _: () = assert!(offset_of!(Request, size) == 36);
const _: () = assert!(offset_of!(Request, size_pending) == 40);
const _: () = assert!(offset_of!(Request, slot) == 56);
const _: () = assert!(offset_of!(Request, slot) + offset_of!(Slot, idx) == 64);
const _: () = assert!(offset_of!(Request, slot) + offset_of!(Slot, mem) == 72);
const _: () = assert!(offset_of!(Request, slot) + offset_of!(Slot, cnt) == 80);
const _: () = assert!(offset_of!(Request, slot) + offset_of!(Slot, cnt_cache) == 88);
