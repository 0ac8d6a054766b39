//! Memory that a transfer moves: `DeviceMemory` and what it hands out.
//!
//! `scatter.rs` reads the scatter list of a receive and believes nothing in it.
//! `host.rs` is ordinary page-aligned memory, registered as host memory or, as
//! a stand-in for a GPU, as CUDA memory with a plugin that accepts it.
//! `cuda/` is the memory of a real GPU, by a driver that is looked for at run
//! time; `lane.rs` is what a channel asks of memory that it cannot reach itself.

mod cuda;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod host;
mod lane;
mod region;
mod scatter;

pub use cuda::{
    BadGpu, CudaDevice, CudaError, CudaMemory, CudaNode, CudaVersion, Wanted, bench, cuda_node,
    loaded_runtimes,
};
pub use host::HostMemory;
pub use lane::{Lane, LaneSetup, Passed, PatternKey, Stamp, TABLE_WORDS, Work};
pub use region::{DeviceMemory, MemoryError, MemoryKind, Region, Span, Unpack};
pub use scatter::{Scatter, ScatterError, ScatterSource};
