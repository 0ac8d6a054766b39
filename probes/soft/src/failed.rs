//! The error of a call: only the code, because the reason was logged before.
#![forbid(unsafe_code)]

use tcpx_abi::ResultCode;
use tcpx_abi::result::{INTERNAL_ERROR, SYSTEM_ERROR};

/// The code that the call returns. The log line with the reason has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed(pub ResultCode);

/// The plugin refused.
pub(crate) const REFUSED: Failed = Failed(INTERNAL_ERROR);
/// A system call failed, or the peer closed.
pub(crate) const BROKEN: Failed = Failed(SYSTEM_ERROR);
