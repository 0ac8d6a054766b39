//! The device handle that `connect` and `accept` fill in. It is the same in all versions since
//! v7.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of};

/// Device handle of `connect` and `accept` (`ncclNetDeviceHandle_v7_t`; v7 to v12 are
/// one and the same type).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DeviceHandle {
    /// [`crate::NET_DEVICE_HOST`] or [`crate::NET_DEVICE_UNPACK`].
    pub net_device_type: c_int,
    /// Unpack layout version.
    pub net_device_version: c_int,
    /// Device pointer for UNPACK.
    pub handle: *mut c_void,
    /// Bytes behind `handle`.
    pub size: usize,
    /// Whether the proxy must keep calling `test`.
    pub needs_proxy_progress: c_int,
}

const _: () = assert!(size_of::<DeviceHandle>() == 32);
const _: () = assert!(offset_of!(DeviceHandle, handle) == 8);
const _: () = assert!(offset_of!(DeviceHandle, size) == 16);
const _: () = assert!(offset_of!(DeviceHandle, needs_proxy_progress) == 24);
