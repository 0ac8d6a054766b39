//! Facts of a machine, from files under any root: `/`, or a folder that holds a
//! captured `/sys` and `/proc` of another machine.
//!
//! Every fact is a [`Fact`]: the value as the machine gave it, or the reason why
//! there is none. Nothing is loaded or started: GPUs are known without CUDA.
//!
//! Not here: asking a plugin for its devices, or judging a fact good or bad.

mod addresses;
pub mod cpu;
pub mod environment;
mod fact;
mod facts;
#[cfg(test)]
pub(crate) mod fixture;
pub mod gpu;
pub mod limits;
mod nearest;
pub mod nic;
pub mod pci;
mod root;

pub use addresses::{InterfaceAddress, Route, addresses, route_to};
pub use fact::Fact;
pub use facts::{Host, NodeFacts};
pub use gpu::{Gpu, Gpus};
pub use nearest::{Closeness, closeness, nearest};
pub use nic::{Nic, Speed};
pub use pci::PciAddress;
pub use root::Root;
