//! One safe interface to any ncclNet plugin.
//!
//! `load.rs` loads a table from a file, `shim/` wraps it as a [`Net`], `tapped.rs` records
//! every call, `log.rs` receives the plugin's log lines. Plugins are loaded and called in a
//! worker process only, because a plugin may exit, crash or spin inside any call.

mod error;
mod load;
mod log;
mod net;
mod shim;
mod tapped;

pub use error::PluginError;
pub use load::Plugin;
pub use log::{capture, summary as log_summary};
pub(crate) use log::{forget_said, take_said};
pub use net::{
    About, Comm, ConnectHandle, Connecting, Device, DeviceHandle, ListenComm, MHandle, Net,
    PluginResult, RawTable, RecvComm, Request, SendComm, Tested,
};
pub use shim::{AbiLimits, Answer, Calls, GROUP_MAX, Out, wrap};
pub use tapped::tapped;
