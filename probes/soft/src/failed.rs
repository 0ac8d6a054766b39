//! Why a call fails, once the log has been told: nothing but the code.
#![forbid(unsafe_code)]

use tcpx_abi::ResultCode;
use tcpx_abi::result::{INTERNAL_ERROR, SYSTEM_ERROR};

/// The call returns this code. The line that says why is already written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed(pub ResultCode);

/// The plugin refused.
pub(crate) const REFUSED: Failed = Failed(INTERNAL_ERROR);
/// A system call failed, or the peer closed.
pub(crate) const BROKEN: Failed = Failed(SYSTEM_ERROR);
