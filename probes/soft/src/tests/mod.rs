//! End-to-end tests over loopback with two comms in one process: both I/O modes, both receive
//! paths, and every refusal.
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
