//! tcpxctl: proves, measures and explains transfers over GPUDirect-TCPX and
//! other ncclNet plugins.
//!
//! Imports point downwards through these layers:
//!
//! ```text
//! cli  tui                                         talk to people
//! report  coord  contract  diagnose  doctor  interpose  logs  trace  watch
//!                                                  talk about runs, nodes and other people's programs
//! transfer  bootstrap  scenario  record            make a run and its record
//! plugin  gpu  node                                touch a plugin, a GPU, a machine
//! units  error  redact                             words everyone shares
//! probes/abi  recorder  soft  tap                  loaded into other people's processes
//! ```

pub mod cli;
pub mod interpose;
mod rehearse;
mod shrink;
