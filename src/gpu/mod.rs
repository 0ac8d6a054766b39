//! Memory that a transfer moves: `DeviceMemory` and what it hands out.
//!
//! `host.rs` is ordinary page-aligned memory, registered as host memory or, as
//! a stand-in for a GPU, as CUDA memory with a plugin that accepts it.

mod host;
mod region;

pub use host::HostMemory;
pub use region::{DeviceMemory, MemoryError, MemoryKind, Region, Span};
