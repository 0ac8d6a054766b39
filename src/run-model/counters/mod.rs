//! Counters of channels, read from a worker's recorder, at one moment and over time.
//!
//! `channel.rs` has the numbers, `sample.rs` reads them from a recorder file, `cpu.rs` adds
//! the time without a CPU and `calls.rs` that inside one call, `series.rs` keeps them over time. `frame.rs` is the freeze-frame of a
//! stall, `network.rs` the connections at the end of a transfer; `process.rs` and `detail.rs`
//! describe a process and a single channel for the view.

mod calls;
mod channel;
mod cpu;
mod detail;
mod frame;
mod network;
mod process;
pub mod sample;
mod series;

pub(crate) use calls::CallWatch;
pub use channel::{ChannelNow, LatencyUs};
pub(crate) use cpu::CpuWatch;
pub use detail::{ChannelDetail, ChannelKey, EventDetail, RequestDetail};
pub use frame::Frame;
pub use network::{NetworkBefore, NetworkUse, PathUse};
pub use process::{ConnectingFacts, ProcessFacts, SetupCalls, name_with_endpoint};
pub use series::{SAMPLES_MAX, Sample, Series};
