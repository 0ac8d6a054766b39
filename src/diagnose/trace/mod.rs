//! What recorders and run folders hold, as a file for timeline viewers: every
//! request of every channel through its stages, and the counters over time.
//!
//! A recorder's ring has the newest events only, so a channel's timeline begins
//! where its ring does, and says how many events were overwritten. Times are
//! those of the coordinator's wall clock; those of a node are moved by the offset
//! that the run measured between the two.

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
