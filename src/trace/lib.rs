//! Exports recorders and run folders for timeline viewers: every request of every channel
//! with its stages, and counters over time.
//!
//! A recorder's ring holds only the newest events, so the timeline of a channel starts at
//! the oldest event in its ring and says how many events were overwritten. Times are by the
//! coordinator's wall clock; times of a node are corrected by the clock offset that the run
//! measured.
#![forbid(unsafe_code)]

mod lanes;
mod perfetto;
mod recorded;
mod requests;
mod rows;
mod source;

pub use perfetto::write as write_perfetto;
pub use recorded::{ChannelTrace, Trace, WorkerTrace};
pub use requests::{Request, each_request};
pub use rows::{write_csv, write_jsonl};
pub use source::{SourceError, open};
