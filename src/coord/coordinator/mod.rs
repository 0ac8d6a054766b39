//! The coordinator: assigns work to every node, receives every message, and decides how a run
//! ended. It loads no plugin.
//!
//! `drive` receives messages from the agents and reads the clock; it passes both to `run` and
//! `pair`, which are state machines without either, and carries out the effects they return.
//! `assign` computes the task of each end. `launch` starts an agent and reads its messages,
//! `pulse` tracks when it was last heard, `edge` converts messages to events.
//!
//! The outcome is decided in small pieces: `require` before a run starts, `deadline` for plugin
//! calls that do not return, `standstill` when nothing moves, `verdict` among several failures,
//! `conclude` for the record. `ask` runs one task in one worker, without a pair. `watching`
//! follows the recorders on other nodes, `owners` decides at which one a recorder is shown that several see.

pub(crate) mod ask;
pub(crate) mod assign;
pub(crate) mod conclude;
mod deadline;
mod differences;
pub(crate) mod drive;
mod edge;
mod end;
pub(crate) mod launch;
mod launcher_lines;
mod owners;
pub(crate) mod pair;
mod pulse;
mod require;
pub(crate) mod run;
mod standstill;
#[cfg(test)]
mod tests;
mod verdict;
pub(crate) mod watching;
