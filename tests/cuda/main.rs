//! GPUs without one: the whole path over a driver stand-in, and the kernels
//! against the host, here on the CPU and on a GPU where there is one.

mod absent;
mod kernels;
mod runs;
mod support;
