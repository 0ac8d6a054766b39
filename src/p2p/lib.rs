//! Endpoints: programs read, write, send and receive each other's memory over an ncclNet plugin.
//!
//! An endpoint registers buffers, advertises ranges of them as blobs of 64 bytes, and connects to
//! other endpoints by their metadata. A program with a blob and a connection to its endpoint
//! can read or write the range, as far as the blob allows.
//!
//! *Done means*: every byte is in place and visible. A read is done when its bytes are in the
//! local buffer, and in GPU memory once every later work on that GPU sees them; a write and a send
//! are done when the other endpoint has said that they are in its buffer.
//!
//! | file | one idea |
//! |---|---|
//! | `endpoint`, `operations` | what the program calls; callers never touch the plugin |
//! | `settings`, `error` | what an endpoint is made with, and why a call failed |
//! | `driver` | the thread of an endpoint that does |
//! | `helper` | threads that drive lanes beside it |
//! | `pause` | how these threads wait |
//! | `shared` | what callers and that thread share: commands, replies, bounded queues |
//! | `accept` | the thread that waits for peers, and the steps to a connection |
//! | `joining` | the plugin's listens, connects and accepts of a connection's lanes |
//! | `connection` | the operations of one connection that were started here |
//! | `pending` | operations that are not over |
//! | `pieces` | parts of registered memory, and the messages that carry them |
//! | `answers` | what the peer says: its reads, writes, sends and answers |
//! | `together` | small reads and writes that travel as one |
//! | `lane` | one comm and the messages on it |
//! | `shared_lane` | a lane that a helper may drive |
//! | `message` | what two endpoints tell each other, and the order of a read and a write |
//! | `blob` | an advertised range in 64 bytes, which only its endpoint can make |
//! | `memory` | registered buffers, and who uses them |
//! | `metadata` | what one endpoint must know to connect to another |
//! | `fork` | whether this process is a fork of the one that made an endpoint |
//! | `gpu` | whose memory an endpoint moves: the host's, a GPU's, or both |
//! | `loaded` | the plugin, loaded once per process, or by the program itself |
//! | `shown` | names and numbers of endpoints and connections in the flight recorder |
//! | `hash_table` | a hash table for what is looked up for every message |
//! | `transfer` | an operation, as its caller sees it |
//!
//! Requests and answers are encrypted. The data is not: it travels through the plugin.
//!
//! Not here: ssh, agents, runs, or output. The program around an endpoint owns stdout and stderr.

mod accept;
mod answers;
mod blob;
mod connection;
mod driver;
mod endpoint;
mod error;
mod fork;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gpu;
mod hash_table;
mod helper;
mod joining;
mod lane;
mod loaded;
mod memory;
mod message;
mod metadata;
mod operations;
mod pause;
mod pending;
mod pieces;
mod settings;
mod shared;
mod shared_lane;
mod shown;
mod together;
mod transfer;

pub use blob::{BLOB_LEN, BadBlob, Blob, Claim, Right, Rights};
pub use connection::Peer;
pub use endpoint::Endpoint;
pub use error::Error;
pub use gpu::MemoryOf;
pub use loaded::Loaded;
pub use message::{NOTE_MAX, PIECES_MAX};
pub use metadata::{BadMetadata, METADATA_VERSION, Metadata};
pub use operations::{Local, Remote};
pub use settings::{
    SECRET_FILE_VARIABLE, SECRET_VARIABLE, Settings, THREADS_VARIABLE, read_secret,
};
pub use shared::Accepted;
pub use tcpx_bootstrap::Secret;
pub use tcpx_engine::gpu::Wanted as Gpu;
pub use transfer::Transfer;
