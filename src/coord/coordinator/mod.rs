//! The coordinator: decides what every node is told, hears everything, and says how
//! a run ended. It loads no plugin.
//!
//! `drive` is its loop, the only place with a socket and a clock; `run` and `pair` are
//! state machines, `assign` what each end is told. `launch` is its view of an agent,
//! `pulse` whether it is heard; `edge` makes events of messages. How a run ends is
//! decided in small pieces: `require` before it starts, `deadline` for calls that do
//! not return, `standstill` where nothing moves, `verdict` among several endings,
//! `conclude` for the record. `ask` is one task in one worker, for what needs no pair;
//! `watching` what goes on on nodes now.

pub(crate) mod ask;
pub(crate) mod assign;
pub(crate) mod conclude;
mod deadline;
pub(crate) mod drive;
mod edge;
mod end;
pub(crate) mod launch;
pub(crate) mod pair;
mod pulse;
mod require;
mod run;
mod standstill;
#[cfg(test)]
mod tests;
mod verdict;
pub(crate) mod watching;
