//! `Net`: the safe face of one loaded plugin, and the tokens its calls deal in.
//!
//! A token names something that lives inside the plugin. Comms and connect
//! buffers are not `Clone` and closing takes them by value, so a closed comm
//! cannot be used again; one listener accepts once and one buffer connects
//! once, because the real plugin frees its state after either.
//!
//! Not here: order between requests. `test` may be asked about any request of a
//! comm and answers as the plugin does; `transfer::window` is what only ever
//! asks about the oldest.
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

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The table's name, e.g. `GPUDirectTCPX_v7`.
    pub name: String,
    /// ncclNet version of the table in use.
    pub abi: u32,
    /// Whether finished receives must be handed back with `irecvConsumed`.
    pub consumes: bool,
}

impl About {
    /// Whose plugin it is.
    pub fn family(&self) -> PluginFamily {
        PluginFamily::of_table_name(&self.name)
    }
}

/// One device, as `getProperties` describes it. Strings are copied out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Index to `listen` and `connect`.
    pub index: usize,
    /// Interface name.
    pub name: String,
    /// sysfs path, where the plugin gave one.
    pub pci_path: Option<String>,
    /// Unique id.
    pub guid: u64,
    /// `NCCL_PTR_*` bits.
    pub ptr_support: i32,
    /// Mbit/s as claimed.
    pub speed_mbps: i32,
    /// Port.
    pub port: i32,
    /// Microseconds as claimed; JSON has no word for what is no number.
    #[serde(deserialize_with = "number_or_none")]
    pub latency_us: f32,
    /// Most comms.
    pub max_comms: i32,
    /// Most grouped receives.
    pub max_recvs: i32,
    /// 0 host, 1 unpack.
    pub net_device_type: i32,
    /// Unpack layout version.
    pub net_device_version: i32,
    /// A registration is good for every comm (v8 and later).
    #[serde(default)]
    pub reg_is_global: bool,
    /// Receives in device memory must be flushed (v9 and later).
    #[serde(default)]
    pub force_flush: bool,
    /// Longest message; what NCCL takes it to be where the version does not say.
    #[serde(default)]
    pub max_p2p_bytes: u64,
}

fn number_or_none<'a, D: serde::Deserializer<'a>>(from: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f32::NAN))
}

impl Device {
    /// Whether messages may lie in a GPU's memory.
    pub fn takes_cuda(&self) -> bool {
        self.ptr_support & tcpx_abi::PTR_CUDA != 0
    }

    /// Whether receives land in bounce pages that must be unpacked and given back.
    pub fn is_unpack(&self) -> bool {
        self.net_device_type == tcpx_abi::NET_DEVICE_UNPACK
    }
}

/// The 128 bytes a listener hands to its one connector.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConnectHandle(pub [u8; HANDLE_MAX]);

impl std::fmt::Debug for ConnectHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectHandle(128 bytes)")
    }
}

#[repr(C, align(16))]
struct HandleBuffer([u8; HANDLE_MAX]);

/// A connect in progress: a private copy of the handle, because the plugin
/// keeps its own state in the bytes between calls.
pub struct Connecting {
    buffer: Box<HandleBuffer>,
    /// Set once the plugin delivered a comm or an error; the buffer then holds
    /// a pointer to freed state and must never be passed again.
    pub(super) finished: bool,
}

impl Connecting {
    /// Starts with the bytes that the listener's side sent.
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

/// A listener. Accepts once.
#[derive(Debug)]
pub struct ListenComm {
    pub(super) raw: NonNull<c_void>,
    /// Set once accept delivered a comm or an error.
    pub(super) accepted: bool,
    /// The struct that `accept` fills; must exist before the first call.
    pub(super) device_handle: Option<Box<DeviceHandle>>,
}

impl ListenComm {
    /// The plugin's own pointer, for calls that no token allows.
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
    /// Filled by `accept`; lives as long as the comm.
    pub(super) device_handle: Option<Box<DeviceHandle>>,
    /// A finished receive stays the plugin's until it is handed back.
    pub(super) hands_back: bool,
}

impl Comm<'_> {
    /// The plugin's own pointer, for the recorder.
    pub fn as_ptr(self) -> *mut c_void {
        self.raw().as_ptr()
    }
}

impl RecvComm {
    /// Whether finished receives are handed back, which those that unpack want.
    pub(crate) fn hands_back(&self) -> bool {
        self.hands_back
    }

    /// What `accept` put into the device handle.
    pub fn device_handle(&self) -> Option<&DeviceHandle> {
        self.device_handle.as_deref()
    }
}

/// The same in every version from v7 on.
pub type DeviceHandle = newest::DeviceHandle;

// SAFETY: a comm has no thread affinity in ncclNet; calls on one comm must be
// serialised, which owning the token does.
unsafe impl Send for ListenComm {}
// SAFETY: as above.
unsafe impl Send for SendComm {}
// SAFETY: as above; the device handle is plain data.
unsafe impl Send for RecvComm {}

/// Either kind of connected comm, where a call takes both.
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

/// One registration. Holds the region, so the memory outlives every request on
/// it; one that is dropped without `dereg_mr` leaks the region rather than free
/// memory that the plugin may still write to.
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

    /// The plugin's own pointer, for calls that no token allows.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.raw
    }
}

impl Drop for MHandle {
    fn drop(&mut self) {
        // Still registered: the plugin may hold the address.
        std::mem::forget(self.region.take());
    }
}

/// One isend or irecv inside the plugin, until its slot is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request(pub(super) NonNull<c_void>);

// SAFETY: an opaque token; see `SendComm`.
unsafe impl Send for Request {}

impl Request {
    /// A token that no plugin gave, for tests of code that only orders tokens.
    #[cfg(test)]
    pub(crate) fn for_tests(address: usize) -> Self {
        Self(NonNull::new(std::ptr::without_provenance_mut(address)).expect("not zero"))
    }

    /// The plugin's own pointer, for reading a receive's scatter list.
    pub fn as_ptr(self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// From a call that was made on the raw table; `None` for null.
    pub(crate) fn from_ptr(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }
}

/// What `test` answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tested {
    /// The request is finished.
    pub done: bool,
    /// What the plugin wrote into `sizes`, or `Tested::UNREPORTED`: TCPX writes
    /// nothing. A claim, never a fact.
    pub reported: i32,
}

impl Tested {
    /// No plugin has received so few bytes.
    pub(crate) const UNREPORTED: i32 = -1;
}

macro_rules! raw_table {
    ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
        /// The table behind a `Net`, by its version.
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "each is the version that its name says")]
        pub enum RawTable {
            $($variant(&'static tcpx_abi::$v::Net),)+
        }
    };
}
tcpx_abi::with_versions!(raw_table);

/// One loaded plugin.
pub trait Net: Send + Sync {
    /// Who it is, as its table says now: some tables are filled by `init`.
    fn about(&self) -> About;
    /// Its table.
    fn table(&self) -> RawTable;
    /// The calls themselves, for those who must misbehave on purpose.
    fn calls(&self) -> &dyn Calls;
    /// `init` with our logger; once per process.
    fn init(&self) -> PluginResult<()>;
    /// Ends what `init` made; nothing before v11. For when every comm is closed.
    fn finalize(&self) -> PluginResult<()>;
    /// Number of devices; negative answers are errors.
    fn devices(&self) -> PluginResult<usize>;
    /// One device.
    fn properties(&self, device: usize) -> PluginResult<Device>;
    /// A listener and the bytes for its one connector.
    fn listen(&self, device: usize) -> PluginResult<(ListenComm, ConnectHandle)>;
    /// `None`: not connected yet, call again with the same `Connecting`.
    fn connect(&self, device: usize, connecting: &mut Connecting)
    -> PluginResult<Option<SendComm>>;
    /// `None`: no peer yet, call again with the same listener.
    fn accept(&self, listen: &mut ListenComm) -> PluginResult<Option<RecvComm>>;
    /// Registers `offset..offset + len` of a region with one comm.
    fn reg_mr(
        &self,
        comm: Comm<'_>,
        region: &Arc<Region>,
        offset: usize,
        len: usize,
    ) -> PluginResult<MHandle>;
    /// Ends a registration; the region is kept if the plugin refuses.
    fn dereg_mr(&self, comm: Comm<'_>, mhandle: MHandle) -> PluginResult<()>;
    /// Posts a send. `None`: nothing was posted, try again.
    fn isend(
        &self,
        comm: &SendComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Posts a receive. `None`: nothing was posted, try again.
    fn irecv(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Makes what was received in device memory visible there. `None`: it is already.
    fn iflush(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>>;
    /// Drives the comm and asks about one of its requests.
    fn test(&self, request: Request) -> PluginResult<Tested>;
    /// Hands a finished receive back, where the plugin unpacks and wants it.
    fn irecv_consumed(&self, comm: &RecvComm, request: Request) -> PluginResult<()>;
    /// Closes a sending end; outstanding requests are dropped.
    fn close_send(&self, comm: SendComm) -> PluginResult<()>;
    /// Closes a receiving end; outstanding requests are dropped.
    fn close_recv(&self, comm: RecvComm) -> PluginResult<()>;
    /// Closes a listener; the accepted comm lives on.
    fn close_listen(&self, comm: ListenComm) -> PluginResult<()>;
}
