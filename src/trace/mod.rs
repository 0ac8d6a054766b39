//! What recorders and run folders hold, as a timeline for other tools: every
//! request of every channel through its stages, and the counters over time.
//!
//! A recorder's ring has the newest events only, so a channel's timeline begins
//! where its ring does, and says how many events were overwritten. Times are
//! those of the first node's wall clock; another node's are moved by the offset
//! that the run measured between the two.

mod lanes;
mod perfetto;
mod requests;
mod rows;
mod source;
mod stream;
mod timeline;

pub use perfetto::write as write_perfetto;
pub use requests::{Request, each_request};
pub use rows::{write_csv, write_jsonl};
pub use source::{SourceError, open};
pub use stream::{Stream, read_stream};
pub use timeline::{Channel, Node, Timeline};
