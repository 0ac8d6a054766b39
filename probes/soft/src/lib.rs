//! The software plugin: a real ncclNet plugin over plain TCP, in two flavours.
//! `tcpx/` makes it `libnccl_net_tcpxsoft.so`, version 7 only, which behaves as
//! GPUDirect-TCPX 3.1.9 does, on any Linux machine; that is what these pages
//! describe. `plain/` makes it `libnccl_net_plainsoft.so`, a host plugin of every
//! version without TCPX's restrictions: what differs is in `plain`.
//!
//! It is the stand-in under every test, the embedded default, and a baseline on
//! real nodes. What a caller can observe is the real plugin's: sixteen slots per
//! comm, first-in-first-out `test`, progress only inside it, consume in order,
//! scatter-list receives. Where the real one crashes, frees twice or overruns
//! memory, this one refuses with a line in the log and code 3. Where they
//! differ on purpose, the header of the file concerned says so; in short:
//!
//! * no warning at every poll of a host receive, no endless empty headers with
//!   a task chunk of 0, no change to the caller's timer slack;
//! * pages are given back whole at close, and when a message has more task
//!   chunks than sockets (the real one leaks them);
//! * `NCCL_PTR_CUDA` needs `TCPXSOFT_CUDA=standin` and is ordinary memory.
//!
//! It depends on libc only, starts no thread unless `TCPXSOFT_IO=helper`, prints
//! nothing, touches no signal handler and unwinds into nobody.
//!
//! The layers, from the caller down:
//!
//! * `export` the extern "C" table, `plain` the tables of the other flavour, `calls` what its entries do; `block` and `mr`
//!   judge their pointers
//! * `plugin` what `init` found; `settings`, `integers`, `device`, `fault` its parts
//! * `accept` and `connect` set a comm up, over `socket` and `words`
//! * `comm` is one, `send` and `recv` its steps, `queue` its sixteen slots
//! * `ctrl` its control socket, `lane` its data sockets with their tasks
//! * `io` moves their bytes, in `test` or in a `helper` thread
//! * `unpack` scatter lists and counts, `pages` where device receives land
//! * `cuda` a real GPU's memory, `stage` what is sent out of it
//! * `wire` everything that travels, `log` and `stall` what is said about it

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

/// The table, for a program that links the plugin instead of loading it.
pub fn table() -> &'static tcpx_abi::v7::Net {
    static LINKED: tcpx_abi::v7::Net = TABLE;
    &LINKED
}
