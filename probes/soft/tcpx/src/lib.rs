//! `libnccl_net_tcpxsoft.so`: `tcpx_soft` behind the one table that TCPX exports, and the two of its
//! functions that old programs look up by their C++ names.
#![expect(unsafe_code, reason = "exports symbols under the ABI's names")]

use std::ffi::{c_int, c_void};
use tcpx_abi::ResultCode;
use tcpx_abi::result::INTERNAL_ERROR;
use tcpx_abi::v7::DeviceHandle;

/// The table by which NCCL and everyone else finds this plugin.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: tcpx_abi::v7::Net = tcpx_soft::TABLE;

/// `tcpxConnect_v5`, which is `connect` of the table.
///
/// # Safety
/// As for `connect` of the table.
#[unsafe(export_name = "_Z14tcpxConnect_v5iPvPS_PP24ncclNetDeviceHandle_v7_t")]
pub unsafe extern "C" fn connect_v5(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut DeviceHandle,
) -> ResultCode {
    match tcpx_soft::TABLE.connect {
        // SAFETY: as promised to this function.
        Some(connect) => unsafe { connect(dev, handle, comm, device) },
        None => INTERNAL_ERROR,
    }
}

/// `tcpxAccept_v5`, which is `accept` of the table.
///
/// # Safety
/// As for `accept` of the table.
#[unsafe(export_name = "_Z13tcpxAccept_v5PvPS_PP24ncclNetDeviceHandle_v7_t")]
pub unsafe extern "C" fn accept_v5(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    device: *mut *mut DeviceHandle,
) -> ResultCode {
    match tcpx_soft::TABLE.accept {
        // SAFETY: as promised to this function.
        Some(accept) => unsafe { accept(listener, comm, device) },
        None => INTERNAL_ERROR,
    }
}
