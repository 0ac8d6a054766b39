//! `Net`: the safe interface to one loaded plugin, and the tokens that its calls take.
//!
//! A token stands for an object inside the plugin. Comms and connect buffers are not `Clone`
//! and closing takes them by value, so a closed comm cannot be used again. A listener accepts
//! once and a buffer connects once, because the real plugin frees its state after either.
//!
//! Not here: the order of requests. `test` takes any request of a comm and returns the
//! plugin's answer; `transfer::window` restricts callers to the oldest request.
#![expect(unsafe_code, reason = "declares that comms may move between threads")]

use super::PluginError;
use super::shim::Calls;
use crate::gpu::{Region, Span};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use tcpx_abi::{HANDLE_MAX, newest};
use tcpx_words::plugin_family::PluginFamily;

/// The result of a call into a plugin.
pub type PluginResult<T> = Result<T, PluginError>;

/// Name and ABI version of a plugin, from its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The table's name, e.g. `GPUDirectTCPX_v7`.
    pub name: String,
    /// ncclNet version of the table in use, 4 to 12.
    pub abi: u32,
    /// Whether the table has `irecvConsumed`.
    pub consumes: bool,
}

impl About {
    /// The family of the plugin, by its name.
    pub fn family(&self) -> PluginFamily {
        PluginFamily::of_table_name(&self.name)
    }
}

/// One device, as `getProperties` describes it, with copies of its strings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Index that `listen` and `connect` take.
    pub index: usize,
    /// Interface name; `device N` if the plugin gives none.
    pub name: String,
    /// What the plugin gives instead of a name that NCCL can read: `NULL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<String>,
    /// sysfs path, if the plugin reports one.
    pub pci_path: Option<String>,
    /// What the plugin gives instead of a path that NCCL can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpathed: Option<String>,
    /// Unique id.
    pub guid: u64,
    /// `NCCL_PTR_*` bits.
    pub ptr_support: i32,
    /// Reported speed in Mbit/s.
    pub speed_mbps: i32,
    /// Port number.
    pub port: i32,
    /// Reported latency in microseconds. NaN is `null` in JSON.
    #[serde(deserialize_with = "number_or_none")]
    pub latency_us: f32,
    /// Most comms of the device.
    pub max_comms: i32,
    /// Most buffers of one receive.
    pub max_recvs: i32,
    /// `netDeviceType`: 0 host, 1 unpack.
    pub net_device_type: i32,
    /// `netDeviceVersion`: version of the unpack layout.
    pub net_device_version: i32,
    /// A registration is valid for every comm (v8 and later).
    #[serde(default)]
    pub reg_is_global: bool,
    /// Receives in device memory must be flushed (v9 and later).
    #[serde(default)]
    pub force_flush: bool,
    /// Longest message in bytes; before v9 1 GiB, which NCCL assumes.
    #[serde(default)]
    pub max_p2p_bytes: u64,
}

fn number_or_none<'a, D: serde::Deserializer<'a>>(from: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f32::NAN))
}

impl Device {
    /// Whether the device accepts GPU memory.
    pub fn takes_cuda(&self) -> bool {
        self.ptr_support & tcpx_abi::PTR_CUDA != 0
    }

    /// Whether receives land in bounce pages that must be unpacked and consumed.
    pub fn is_unpack(&self) -> bool {
        self.net_device_type == tcpx_abi::NET_DEVICE_UNPACK
    }
}

/// The connect handle: 128 bytes from a listener for its one connector.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConnectHandle(pub [u8; HANDLE_MAX]);

impl std::fmt::Debug for ConnectHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectHandle(128 bytes)")
    }
}

#[repr(C, align(16))]
struct HandleBuffer([u8; HANDLE_MAX]);

/// A connect in progress. It owns a copy of the handle, because the plugin keeps its state
/// in those bytes between calls.
pub struct Connecting {
    buffer: Box<HandleBuffer>,
    /// Set once the plugin has returned a comm or an error. The buffer then holds a pointer
    /// to freed state and must never be passed again.
    pub(super) finished: bool,
}

impl Connecting {
    /// Starts a connect with the listener's handle.
    pub fn to(handle: ConnectHandle) -> Self {
        Self {
            buffer: Box::new(HandleBuffer(handle.0)),
            finished: false,
        }
    }

    pub(super) fn as_ptr(&mut self) -> *mut c_void {
        self.buffer.0.as_mut_ptr().cast()
    }
}

/// A listen comm. It accepts once.
#[derive(Debug)]
pub struct ListenComm {
    pub(super) raw: NonNull<c_void>,
    /// Set once `accept` has returned a comm or an error.
    pub(super) accepted: bool,
    /// The struct that `accept` fills in; it must exist before the first call.
    pub(super) device_handle: Option<Box<DeviceHandle>>,
}

impl ListenComm {
    /// The plugin's pointer, for calls on the raw table.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.raw.as_ptr()
    }
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct SendComm {
    pub(super) raw: NonNull<c_void>,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct RecvComm {
    pub(super) raw: NonNull<c_void>,
    /// Filled in by `accept`; valid as long as the comm.
    pub(super) device_handle: Option<Box<DeviceHandle>>,
    /// A finished receive keeps its slot until it is consumed.
    pub(super) hands_back: bool,
}

impl Comm<'_> {
    /// The plugin's pointer, by which the recorder knows the comm.
    pub fn as_ptr(self) -> *mut c_void {
        self.raw().as_ptr()
    }
}

impl RecvComm {
    /// Whether finished receives must be consumed, as those of unpacking plugins must.
    pub fn hands_back(&self) -> bool {
        self.hands_back
    }

    /// The device handle that `accept` filled in; `None` if it did not.
    pub fn device_handle(&self) -> Option<&DeviceHandle> {
        self.device_handle.as_deref()
    }
}

/// The device handle; all versions from v7 on have the same.
pub type DeviceHandle = newest::DeviceHandle;

// SAFETY: a comm has no thread affinity in ncclNet; calls on one comm must be
// serialised, which owning the token does.
unsafe impl Send for ListenComm {}
// SAFETY: as above.
unsafe impl Send for SendComm {}
// SAFETY: as above; the device handle is plain data.
unsafe impl Send for RecvComm {}

/// A connected comm, for calls that take either kind.
#[derive(Debug, Clone, Copy)]
pub enum Comm<'a> {
    /// Sending end.
    Send(&'a SendComm),
    /// Receiving end.
    Recv(&'a RecvComm),
}

impl Comm<'_> {
    pub(super) fn raw(self) -> NonNull<c_void> {
        match self {
            Self::Send(comm) => comm.raw,
            Self::Recv(comm) => comm.raw,
        }
    }
}

/// One registration. It holds the region, so the memory outlives every request on it.
/// Dropping it without `dereg_mr` leaks the region, because the plugin may still write to
/// the memory.
#[derive(Debug)]
pub struct MHandle {
    pub(super) raw: *mut c_void,
    pub(super) region: Option<Arc<Region>>,
    pub(super) start: usize,
    pub(super) end: usize,
}

// SAFETY: an opaque token used only in calls that ownership serialises.
unsafe impl Send for MHandle {}

impl MHandle {
    /// Whether `span` lies inside the registered bytes.
    pub fn covers(&self, span: Span) -> bool {
        let start = span.as_ptr().addr();
        start >= self.start && start + span.len() <= self.end
    }

    /// The plugin's pointer, for calls on the raw table.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.raw
    }
}

impl Drop for MHandle {
    fn drop(&mut self) {
        // The memory is still registered and the plugin may hold its address.
        std::mem::forget(self.region.take());
    }
}

/// One `isend` or `irecv` inside the plugin, until its slot is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request(pub(super) NonNull<c_void>);

// SAFETY: an opaque token; see `SendComm`.
unsafe impl Send for Request {}

impl Request {
    /// A made-up token, for tests that only compare tokens.
    #[cfg(test)]
    pub(crate) fn for_tests(address: usize) -> Self {
        Self(NonNull::new(std::ptr::without_provenance_mut(address)).expect("not zero"))
    }

    /// The plugin's pointer.
    pub fn as_ptr(self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// The token of a request from a call on the raw table; `None` for null.
    pub(crate) fn from_ptr(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }
}

/// The result of `test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tested {
    /// Whether the request is finished.
    pub done: bool,
    /// What the plugin wrote into `sizes`, or `Tested::UNREPORTED` if it wrote nothing, as
    /// TCPX does. Unchecked: callers must compare it with what they know.
    pub reported: i32,
}

impl Tested {
    /// Initial value of the size, which no plugin reports.
    pub const UNREPORTED: i32 = -1;
}

macro_rules! raw_table {
    ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
        /// The table behind a `Net`, by its ABI version.
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "each is the version that its name says")]
        pub enum RawTable {
            $($variant(&'static tcpx_abi::$v::Net),)+
        }
    };
}
tcpx_abi::with_versions!(raw_table);

/// One loaded plugin. The calls are those of ncclNet.
pub trait Net: Send + Sync {
    /// Name and version. May change in `init`, because some plugins fill their table there.
    fn about(&self) -> About;
    /// The plugin's table.
    fn table(&self) -> RawTable;
    /// The raw calls, for callers that must make illegal calls on purpose.
    fn calls(&self) -> &dyn Calls;
    /// Calls `init` with the installed logger. Once per process.
    fn init(&self) -> PluginResult<()>;
    /// Ends the context that `init` created; does nothing before v11. Call after closing every
    /// comm.
    fn finalize(&self) -> PluginResult<()>;
    /// Number of devices. A negative number from the plugin is an error.
    fn devices(&self) -> PluginResult<usize>;
    /// Properties of one device.
    fn properties(&self, device: usize) -> PluginResult<Device>;
    /// Creates a listener and the handle for its one connector.
    fn listen(&self, device: usize) -> PluginResult<(ListenComm, ConnectHandle)>;
    /// Connects. `None`: not connected yet, call again with the same `Connecting`.
    fn connect(&self, device: usize, connecting: &mut Connecting)
    -> PluginResult<Option<SendComm>>;
    /// Accepts. `None`: no peer yet, call again with the same listener.
    fn accept(&self, listen: &mut ListenComm) -> PluginResult<Option<RecvComm>>;
    /// Registers bytes `offset..offset + len` of a region with one comm.
    fn reg_mr(
        &self,
        comm: Comm<'_>,
        region: &Arc<Region>,
        offset: usize,
        len: usize,
    ) -> PluginResult<MHandle>;
    /// Ends a registration. If the plugin refuses, the region is leaked.
    fn dereg_mr(&self, comm: Comm<'_>, mhandle: MHandle) -> PluginResult<()>;
    /// Posts a send. `None`: the plugin posted nothing, try again.
    fn isend(
        &self,
        comm: &SendComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Posts a receive. `None`: the plugin posted nothing, try again.
    fn irecv(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Starts to make received bytes visible in device memory. `None`: they already are.
    fn iflush(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Drives the request's comm and returns the state of the request.
    fn test(&self, request: Request) -> PluginResult<Tested>;
    /// Consumes a finished receive; does nothing if the comm's receives need not be consumed.
    fn irecv_consumed(&self, comm: &RecvComm, request: Request) -> PluginResult<()>;
    /// Closes a sending end; outstanding requests are dropped.
    fn close_send(&self, comm: SendComm) -> PluginResult<()>;
    /// Closes a receiving end; outstanding requests are dropped.
    fn close_recv(&self, comm: RecvComm) -> PluginResult<()>;
    /// Closes a listener; the accepted comm stays open.
    fn close_listen(&self, comm: ListenComm) -> PluginResult<()>;
}
