//! The memory that a transfer moves: `DeviceMemory`, regions, spans and scatter lists.
//!
//! `scatter.rs` reads and checks the scatter list of a receive. `host.rs` provides host memory,
//! registered as such or, for a plugin that accepts it, as CUDA memory. `cuda/` provides the
//! memory of a real GPU, through a driver that is loaded at run time. `lane.rs` is the
//! interface for work on memory that only a GPU can access, and `unpacker.rs` uses it for the buffers
//! of other programs.

mod cuda;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod host;
mod lane;
mod region;
mod scatter;
mod unpacker;

pub use cuda::{
    BadGpu, CudaDevice, CudaError, CudaMemory, CudaNode, CudaVersion, Wanted, bench, cuda_node,
    loaded_runtimes,
};
pub use host::HostMemory;
pub use lane::{Lane, LaneSetup, Passed, PatternKey, Stamp, TABLE_WORDS, Work};
pub use region::{DeviceMemory, MemoryError, MemoryKind, Region, Span, Unpack};
pub use scatter::{Scatter, ScatterError, ScatterSource};
pub use unpacker::{UnpackError, Unpacker};
