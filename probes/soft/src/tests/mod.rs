//! End to end, in process, over loopback: two comms of one process, both I/O
//! modes, both receive paths, and everything that can be refused.
#![expect(unsafe_code, reason = "calls the plugin as C would")]

mod pair;

mod device;
mod faults;
mod model;
mod peer;
mod plain;
mod refuse;
mod setup;
mod transfer;
