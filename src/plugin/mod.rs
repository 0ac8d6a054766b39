//! One safe face over any ncclNet plugin.
//!
//! `find.rs` decides which file, `load.rs` makes it a table, `shim/` makes the
//! table a [`Net`], `tapped.rs` records every call, `log.rs` takes what it prints. Loading and calling happen in
//! a worker process only: a plugin may exit, crash or spin inside any call.

mod candidates;
mod error;
mod find;
mod load;
mod log;
mod net;
mod shim;
mod tapped;

pub use candidates::{PluginFile, dynamic_of, must_have_table, plugin_files};
pub use error::{LoadError, PluginError};
pub use find::{
    ABI_VARIABLE, Choice, PassedOver, Source, TCPX_PLACES, TCPX_VARIABLES, choose, library_places, search_folders,
    soft_library, version_in,
};
pub use load::{FileFacts, Plugin, inspect};
pub use log::{Line as LogLine, LogSummary, capture, summary as log_summary};
pub(crate) use log::{forget_said, take_said};
pub use net::{
    About, Comm, ConnectHandle, Connecting, Device, DeviceHandle, ListenComm, MHandle, Net, PluginResult, RawTable,
    RecvComm, Request, SendComm, Tested,
};
pub use shim::{Answer, Calls, Facts, GROUP_MAX, Out, wrap};
pub use tapped::tapped;
