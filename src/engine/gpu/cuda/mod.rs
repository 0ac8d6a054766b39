//! The memory of a real GPU, by the driver alone.
//!
//! `driver.rs` looks the driver up at run time, so nothing of CUDA is needed to
//! build; without one everything here is an error in words. `devices.rs` lists
//! and chooses GPUs, `context.rs` holds one in use, `objects.rs` has streams,
//! events and pinned memory, `kernels.rs` the compiled kernels, `lane.rs` one
//! channel's work, `memory.rs` puts them behind `DeviceMemory`, and `bench.rs`
//! measures them, one `shape.rs` after the other. `runtime.rs` knows about other
//! people's CUDA runtime.

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
