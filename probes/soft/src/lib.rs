//! The software plugin: a real ncclNet plugin over plain TCP, in two flavours. `tcpx/` builds
//! `libnccl_net_tcpxsoft.so`, ABI version 7 only, which behaves like GPUDirect-TCPX 3.1.9 on any
//! Linux machine; the documentation here describes this flavour. `plain/` builds
//! `libnccl_net_plainsoft.so`, a host plugin of every version without TCPX's restrictions;
//! `plain` describes the differences.
//!
//! It is used in the tests, as the embedded default plugin, and as a baseline on real nodes. Its
//! observable behaviour is that of the real plugin: sixteen slots per comm, `test` in posting
//! order, progress only inside `test`, consume in order, scatter-list receives. Calls that make
//! the real plugin crash, free twice or overrun memory are refused with a log line and code 3.
//! Intentional differences are documented in the file concerned; the main ones are:
//!
//! * no warning at every poll of a host receive, no endless empty headers with a task chunk of
//!   0, no change to the caller's timer slack;
//! * a data socket has up to sixteen small task chunks instead of six, and sixteen headers wait
//!   instead of eight, so that a window of small messages is one system call on each socket;
//! * all pages are freed at close, and when a message has more task chunks than sockets (the
//!   real plugin leaks them);
//! * `NCCL_PTR_CUDA` needs `TCPXSOFT_CUDA=standin` and is host memory.
//!
//! It depends on libc only, starts no thread unless `TCPXSOFT_IO` asks for helpers, prints nothing,
//! does not touch signal handlers, and never unwinds into its caller.
//!
//! The layers, from the caller down:
//!
//! * `export`: the extern "C" table; `plain`: the tables of the other flavour; `calls`: the
//!   implementation of their entries; `block` and `mr`: checks of their pointers
//! * `plugin`: the state that `init` creates; `settings`, `integers`, `device`, `fault`: its parts
//! * `accept` and `connect`: connection setup, over `socket` and `words`
//! * `comm`: a comm; `send` and `recv`: its steps; `queue`: its sixteen slots
//! * `ctrl`: its control socket; `lane`: its data sockets and their tasks
//! * `io`: moves the bytes of tasks, in `test` or in a `helper` thread
//! * `unpack`: scatter lists and counts; `pages`: the pool of device receives
//! * `cuda`: a real GPU's memory; `stage`: sends out of it
//! * `wire`: the encoding of messages; `log` and `stall`: log lines

mod accept;
mod block;
mod calls;
mod comm;
mod connect;
mod ctrl;
mod cuda;
mod device;
mod export;
mod failed;
mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod group;
mod helper;
mod integers;
mod io;
mod landing;
mod lane;
mod log;
mod mr;
mod pages;
pub mod plain;
mod plugin;
mod queue;
mod recv;
mod send;
mod settings;
mod socket;
mod stage;
mod stall;
mod unpack;
mod wire;
mod words;

#[cfg(test)]
mod tests;

pub use export::TABLE;
pub use integers::strtoll;

/// The table, for programs that link the plugin instead of loading it.
pub fn table() -> &'static tcpx_abi::v7::Net {
    static LINKED: tcpx_abi::v7::Net = TABLE;
    &LINKED
}
