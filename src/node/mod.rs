//! Facts of a machine, from files under any root: `/`, or a folder that holds a
//! captured `/sys` and `/proc` of another machine.
//!
//! Every fact is a [`Fact`]: the value as the machine gave it, or the reason why
//! there is none. Nothing is loaded or started: GPUs are known without CUDA.
//!
//! Not here: asking a plugin for its devices, or judging a fact good or bad.

mod addresses;
mod ask;
pub mod cpu;
pub mod elf;
pub mod environment;
pub mod ethtool;
mod ethtool_netlink;
mod fact;
mod facts;
#[cfg(test)]
pub(crate) mod fixture;
pub mod gpu;
mod inet_diag;
pub mod interrupts;
pub mod libraries;
pub mod limits;
pub mod manager;
mod nearest;
pub mod nic;
pub mod nvml;
pub mod pci;
pub mod processes;
pub mod recording;
mod root;
pub mod sockets;
pub mod system;

pub use addresses::{InterfaceAddress, Route, addresses, route_to};
pub use ask::ASKED;
pub(crate) use ask::cleaned;
pub use fact::Fact;
pub use facts::{Host, NodeFacts};
pub use gpu::{Gpu, Gpus};
pub use inet_diag::{TcpSocket, nic_counters, tcp_sockets};
pub use nearest::{Closeness, closeness, nearest};
pub use nic::{Nic, Speed};
pub use pci::PciAddress;
pub use recording::Recording;
pub use root::Root;
pub(crate) use root::printable;
