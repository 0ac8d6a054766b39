//! GPU code without a GPU: the whole path over a fake driver, and the kernels compared with the
//! host, on the CPU and, if the machine has one, on a GPU.

mod absent;
#[path = "../support/built.rs"]
mod built;
mod kernels;
mod runs;
mod support;
