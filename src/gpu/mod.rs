//! Memory that a transfer moves: `DeviceMemory` and what it hands out.
//!
//! `scatter.rs` reads the scatter list of a receive and believes nothing in it.
//! `host.rs` is ordinary page-aligned memory, registered as host memory or, as
//! a stand-in for a GPU, as CUDA memory with a plugin that accepts it.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod host;
mod region;
mod scatter;

pub use host::HostMemory;
pub use region::{DeviceMemory, MemoryError, MemoryKind, Region, Span, Unpack};
pub use scatter::{Scatter, ScatterError, ScatterSource};
