//! Facts of a machine, read from files under a root: `/`, or a folder that holds a captured
//! `/sys` and `/proc` of another machine. `doctor` checks them, `redact` removes names.
//!
//! Every fact is a [`Fact`]: the value as the machine reports it, or the reason why it is
//! unknown. GPUs are read without CUDA. The only library that is loaded is NVML, for the
//! free memory of GPUs.
//!
//! Not here: asking a plugin for its devices, or starting a process.

mod addresses;
mod ask;
mod cloud;
mod cpu;
mod cpu_quota;
mod cpu_wait;
pub mod doctor;
mod elf;
pub mod environment;
mod ethtool;
mod ethtool_netlink;
mod fact;
mod facts;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
mod gpu;
mod inet_diag;
mod interrupts;
mod libraries;
mod limits;
mod manager;
mod nearest;
mod nic;
mod nic_now;
mod nvml;
pub mod one_arena;
pub mod pci;
pub mod plugin_files;
mod processes;
mod recording;
pub mod redact;
mod root;
mod sent_again;
mod sockets;
mod system;
mod threads;

pub use addresses::{Route, address_of, local_addresses, route_to};
pub(crate) use ask::read_cleaned;
pub use cloud::physical_host;
pub use cpu::memory_available;
pub use cpu_wait::{CpuWait, ThreadTimes, waited_by_all, waited_so_far};
pub use fact::Fact;
pub use facts::{Host, NodeFacts};
pub use gpu::{Gpu, cuda_order};
pub use inet_diag::{TcpFlow, TcpSocket, nic_counters, sockets_of, tcp_sockets};
pub use manager::log_tail as manager_log_tail;
pub(crate) use nearest::{Closeness, closeness, nearest};
pub use nic::{Nic, NicDown, Speed, nic_cpus};
pub use nic_now::NicNow;
pub use pci::PciAddress;
pub(crate) use recording::Recording;
pub use root::Root;
pub(crate) use root::printable;
pub use sent_again::SentAgain;
pub use system::kernel_log_tail;
pub use threads::{Thread, WithoutCpu, context_switches};
