//! One table's calls with the arguments of the newest ABI version. Arguments that an older
//! version lacks are dropped.
//!
//! Every call reads its member again, because a plugin may fill its table as late as in
//! `init`. `None` means that the member is null or that the version lacks it. Lengths must
//! fit [`AbiLimits`]; longer ones are truncated as in C.
//!
//! Not here: checking results. [`super::net_of`] does that; `contract` makes these calls with
//! deliberately illegal arguments.
#![expect(
    unsafe_code,
    reason = "declares calls through the plugin's function table"
)]
#![expect(clippy::missing_safety_doc, reason = "said once, of the trait")]

use crate::plugin::net::DeviceHandle;
use std::ffi::{c_char, c_int, c_void};
use tcpx_abi::{LoggerArg, ProfilerArg, ResultCode, newest};

/// The result code of a call; `None` if the table lacks the call.
pub type Answer = Option<ResultCode>;

/// An out-parameter to which the plugin writes a pointer.
pub type Out = *mut *mut c_void;

/// What an ABI version can express.
#[derive(Debug, Clone, Copy)]
pub struct AbiLimits {
    /// ncclNet version.
    pub version: u32,
    /// The exported symbol.
    pub symbol: &'static str,
    /// Longest message in bytes that the size of `isend` and `irecv` can express.
    pub message_max: usize,
    /// Longest registration in bytes that the size of `regMr` can express.
    pub registration_max: usize,
    /// Whether a receive can have several buffers.
    pub groups: bool,
    /// Whether `connect` and `accept` return instead of waiting for the peer.
    pub asks_again: bool,
    /// Whether `init` creates a context that `finalize` ends.
    pub has_context: bool,
}

/// The calls of one table.
///
/// # Safety
/// Every call passes the caller's arguments to the plugin's function. They must be what
/// ncclNet requires, or the caller must know how the plugin handles them.
#[expect(clippy::too_many_arguments, reason = "the ABI's own")]
pub trait Calls: Send + Sync {
    /// The limits of the table's ABI version.
    fn limits(&self) -> AbiLimits;
    /// The plugin's name, a C string in the plugin.
    fn name(&self) -> *const c_char;
    /// The first mandatory member that is null in this table.
    fn missing(&self) -> Option<&'static str>;
    /// Whether the table has `irecvConsumed`.
    fn consumes(&self) -> bool;
    /// `init`; before v11 it creates no context.
    unsafe fn init(&self, context: Out, logger: LoggerArg, profiler: ProfilerArg) -> Answer;
    /// `devices`
    unsafe fn devices(&self, count: *mut c_int) -> Answer;
    /// `getProperties`, converted to the newest layout.
    unsafe fn properties(&self, device: c_int, properties: &mut newest::Properties) -> Answer;
    /// `listen`
    unsafe fn listen(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: *mut c_void,
        comm: Out,
    ) -> Answer;
    /// `connect`
    unsafe fn connect(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: *mut c_void,
        comm: Out,
        device_handle: *mut *mut DeviceHandle,
    ) -> Answer;
    /// `accept`
    unsafe fn accept(
        &self,
        listener: *mut c_void,
        comm: Out,
        device_handle: *mut *mut DeviceHandle,
    ) -> Answer;
    /// `regMr`
    unsafe fn reg_mr(
        &self,
        comm: *mut c_void,
        data: *mut c_void,
        size: usize,
        kind: c_int,
        mhandle: Out,
    ) -> Answer;
    /// `deregMr`
    unsafe fn dereg_mr(&self, comm: *mut c_void, mhandle: *mut c_void) -> Answer;
    /// `isend`
    unsafe fn isend(
        &self,
        comm: *mut c_void,
        data: *mut c_void,
        size: usize,
        tag: c_int,
        mhandle: *mut c_void,
        request: Out,
    ) -> Answer;
    /// `irecv` of one buffer; `tag` may be null.
    unsafe fn irecv(
        &self,
        comm: *mut c_void,
        data: *mut c_void,
        size: usize,
        tag: *mut c_int,
        mhandle: *mut c_void,
        request: Out,
    ) -> Answer;
    /// `irecv` of `n` buffers; `None` before v5. No array is longer than
    /// [`GROUP_MAX`], whatever `n` says.
    unsafe fn irecv_grouped(
        &self,
        comm: *mut c_void,
        n: c_int,
        data: Out,
        sizes: &[usize; GROUP_MAX],
        tags: *mut c_int,
        mhandles: Out,
        request: Out,
    ) -> Answer;
    /// `iflush` of `n` buffers; of one buffer before v5.
    unsafe fn iflush(
        &self,
        comm: *mut c_void,
        n: c_int,
        data: Out,
        sizes: *mut c_int,
        mhandles: Out,
        request: Out,
    ) -> Answer;
    /// `test`
    unsafe fn test(&self, request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> Answer;
    /// `irecvConsumed`
    unsafe fn irecv_consumed(&self, comm: *mut c_void, n: c_int, request: *mut c_void) -> Answer;
    /// `closeSend`
    unsafe fn close_send(&self, comm: *mut c_void) -> Answer;
    /// `closeRecv`
    unsafe fn close_recv(&self, comm: *mut c_void) -> Answer;
    /// `closeListen`
    unsafe fn close_listen(&self, comm: *mut c_void) -> Answer;
    /// `finalize`; `None` before v11.
    unsafe fn finalize(&self, context: *mut c_void) -> Answer;
}

/// Most buffers of one grouped receive, as in NCCL.
pub const GROUP_MAX: usize = 8;

/// [`Calls`] of an ABI version known at compile time.
pub(super) trait Version: Calls {
    /// The version's limits.
    const LIMITS: AbiLimits;
}
