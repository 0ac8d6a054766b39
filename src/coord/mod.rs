//! Runs as processes: the coordinator, an agent per node, a worker per plugin.
//!
//! `pair` is the coordinator's loop, `launch` its view of an agent, `assign` what
//! each end is told; `agent` is the far side, `supervise` its view of a worker;
//! `worker` is the process that loads the plugin. `message` is what they say to
//! each other, `wire` how; `reach` is the ways to a node, `ask` what needs no pair,
//! `watching` what goes on there now.
//!
//! `one_gpu` narrows what a worker sees where its plugin cannot be told.
//!
//! How a run ends is decided in small pieces: `require` before it starts,
//! `deadline` for calls that do not return, `standstill` where nothing moves,
//! `verdict` among several endings, `conclude` for the record.

pub mod agent;
mod ask;
mod assign;
mod conclude;
mod deadline;
mod drive;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod launch;
pub mod message;
mod one_gpu;
mod pair;
pub mod reach;
mod require;
mod spawn;
mod standstill;
mod stream;
pub mod supervise;
mod verdict;
mod watching;
mod wire;
pub mod worker;

pub use ask::{Node, Problem};
pub use assign::{choose, environment};
pub use conclude::conclude;
pub use drive::{Closely, RunRequest, decisive, run};
pub use launch::{End, LaunchError};
pub use pair::{EndRecord, PairOutcome, Stall};
pub use watching::Watching;
