//! One table's calls with the arguments of the newest version: what an older one
//! has no place for is left out on the way.
//!
//! Members are read anew at each call, because a plugin may fill its table as
//! late as inside `init`. `None` says that the member is null, or that the
//! version has none of that name. Lengths must fit [`Facts`]; what does not is
//! cut, as C would.
//!
//! Not here: judging an answer. [`super::net_of`] does that for everyone who means
//! well; `contract` calls these on purpose with what no plugin should be given.
#![expect(
    unsafe_code,
    reason = "declares calls through the plugin's function table"
)]
#![expect(clippy::missing_safety_doc, reason = "said once, of the trait")]

use crate::plugin::net::DeviceHandle;
use std::ffi::{c_char, c_int, c_void};
use tcpx_abi::{LoggerArg, ProfilerArg, ResultCode, newest};

/// What a call returned, if there is such a call.
pub type Answer = Option<ResultCode>;

/// A pointer that the plugin writes.
pub type Out = *mut *mut c_void;

/// What a version can express.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// ncclNet version.
    pub version: u32,
    /// The exported symbol.
    pub symbol: &'static str,
    /// Longest message that `isend` and `irecv` can be told of.
    pub message_max: usize,
    /// Longest registration that `regMr` can be told of.
    pub registration_max: usize,
    /// Whether one receive may have several buffers.
    pub groups: bool,
    /// Whether `connect` and `accept` may be asked again.
    pub asks_again: bool,
    /// Whether `init` makes a context that `finalize` ends.
    pub has_context: bool,
}

/// The calls of one table.
///
/// # Safety
/// Every call goes to the table's own function with the caller's arguments, which
/// must be what ncclNet says they are, or whatever the caller dares.
#[expect(clippy::too_many_arguments, reason = "the ABI's own")]
pub trait Calls: Send + Sync {
    /// What the version can express.
    fn facts(&self) -> Facts;
    /// Where the name is.
    fn name(&self) -> *const c_char;
    /// The first member that every plugin owes and this table has not.
    fn missing(&self) -> Option<&'static str>;
    /// Whether `irecvConsumed` is there.
    fn consumes(&self) -> bool;
    /// `init`; before v11 it makes no context.
    unsafe fn init(&self, context: Out, logger: LoggerArg, profiler: ProfilerArg) -> Answer;
    /// `devices`
    unsafe fn devices(&self, count: *mut c_int) -> Answer;
    /// `getProperties`, in the newest layout; what the version does not say is zero.
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
    /// `iflush` of `n` buffers, of one before v5.
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

/// Most buffers of one grouped receive; NCCL has no more.
pub const GROUP_MAX: usize = 8;

/// [`Calls`] of a version that is known when this program is built.
pub(super) trait Version: Calls {
    /// What it can express.
    const FACTS: Facts;
}
