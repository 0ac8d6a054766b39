//! One safe face over any ncclNet plugin.
//!
//! `load.rs` makes a file a table, `shim/` makes the
//! table a [`Net`], `tapped.rs` records every call, `log.rs` takes what it prints. Loading and calling happen in
//! a worker process only: a plugin may exit, crash or spin inside any call.

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
pub use shim::{Answer, Calls, Facts, GROUP_MAX, Out, wrap};
pub use tapped::tapped;
