//! The memory of a real GPU, through the CUDA driver API only.
//!
//! `driver.rs` loads the driver at run time, so building needs no CUDA; without a driver every
//! call returns an error. `devices.rs` lists and selects GPUs, `context.rs` holds a GPU in
//! use, `objects.rs` has streams, events and pinned memory, `kernels.rs` the compiled kernels,
//! `lane.rs` one channel's work, `memory.rs` implements `DeviceMemory` with them, and
//! `bench.rs` measures them, one `shape.rs` after the other. `runtime.rs` sets the current
//! device of CUDA runtimes that plugins have loaded.

pub mod bench;
mod context;
mod devices;
mod driver;
mod error;
mod kernels;
mod lane;
mod memory;
mod objects;
mod runtime;
mod shape;

pub use devices::{BadGpu, CudaDevice, CudaNode, Wanted, cuda_node};
pub use error::{CudaError, CudaVersion};
pub use memory::CudaMemory;
pub use runtime::loaded_runtimes;
