//! The model of a run: its scenario, its events, its state, and its folder.
//!
//! `scenario` is the input of a run. `ids` identify and name nodes, pairs and workers. `event` is
//! the stream of a run; `phase`, `results` and `finding` are types in it. `state` folds the events,
//! `timeline` also keeps the history for a view. `counters` are what a recorder holds, `live` reads
//! those of running processes. `kv_plan` is what KV-cache traffic moves and when, `latencies` are times
//! that are merged, `lanes` says which channels are whose. `record` is the files of a run, `replay` folds them.
//!
//! Every crate above the engine uses these types. Nothing here loads a plugin, starts a process
//! or opens a connection.

pub mod adopt;
pub mod chinese;
pub mod counters;
pub mod event;
pub mod finding;
pub mod ids;
pub mod kv_plan;
pub mod lanes;
pub mod latencies;
pub mod live;
pub mod phase;
pub mod record;
pub mod repeats;
pub mod replay;
pub mod results;
pub mod scenario;
pub mod state;
pub mod timeline;
