//! Endpoints: programs read, write, send and receive each other's memory over an ncclNet plugin.
//!
//! An endpoint registers buffers, advertises ranges of them as blobs of 64 bytes, and connects to
//! other endpoints by their metadata. Whoever holds a blob and a connection to its endpoint can
//! read or write the range, as far as the blob allows.
//!
//! *Done means*: every byte is in place and visible. A read is done when its bytes are in the
//! local buffer; a write and a send are done when the other endpoint has said that they are in
//! its buffer.
//!
//! | file | one idea |
//! |---|---|
//! | `blob` | an advertised range in 64 bytes, which only its endpoint can make |
//! | `message` | what two endpoints tell each other, and the order of a read and a write |
//! | `metadata` | what one endpoint must know to connect to another |
//!
//! Not here: ssh, agents, runs, or output. The program around an endpoint owns stdout and stderr.

mod blob;
#[cfg_attr(not(test), expect(dead_code, reason = "the connection comes next"))]
mod message;
mod metadata;

pub use blob::{BLOB_LEN, BadBlob, Blob, Claim, Right, Rights, Seal};
pub use metadata::{BadMetadata, METADATA_VERSION, Metadata};
