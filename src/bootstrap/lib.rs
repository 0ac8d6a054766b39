//! Connects the two workers of a pair before the first byte and synchronises them afterwards. A
//! coordinator and `tcpxctl serve` meet in the same way, and so do two endpoints (`tcpx-p2p`).
//!
//! The receiver's worker listens and the sender's worker connects. One TCP
//! connection per pair carries the connect handles, the comparison of the two
//! configurations, and the barriers around every timed part.
//!
//! ```text
//! connects                                  listens
//!    Hello(greeting)         ->              checked, else Refusal
//!                            <-              Hello(greeting)
//!    ------------------ from here on encrypted ------------------
//!    Proof                   ->              decrypted: not a recorded Hello
//!                            <-              Proof
//!    Config, Ready          <->              Config, Ready     compared by both
//!    Handles, Barrier..., Bye  <->
//! ```
//!
//! Relies on a per-run secret that both workers received over a private channel. An attacker on the
//! path without it can end the connection and see lengths and times, and can neither read nor
//! change a message. Deliberately absent: threads, an async runtime, heartbeats (the agents have
//! them), and anything about the plugin: a connect handle is 128 opaque bytes here.
//!
//! | file | one idea |
//! |---|---|
//! | `message` | the messages, encoded as bytes |
//! | `secret` | the secret |
//! | `secret_file` | a secret in a file |
//! | `noise` | the encrypted session of two ends with one secret, without a socket |
//! | `crypto` | the primitives of `noise` |
//! | `config` | what the two ends must agree on, and the first key that differs |
//! | `handshake` | the order of Hello and Proof, without a socket |
//! | `wait` | a deadline with a name, and the flag that stops every wait |
//! | `wire` | frames over one non-blocking socket |
//! | `strangers` | connections of one port that have not proved themselves |
//! | `listen`, `connect` | from nothing to a proven peer |
//! | `join` | a coordinator and a node, either of which connects: the seat, then a stream of bytes |
//! | `stream` | bytes over a proven connection, for two threads |
//! | `duplex` | bytes over a proven connection, for one thread that never waits |
//! | `exchange` | handles and barriers between proven peers |
//! | `error` | the errors of all of these |

mod config;
mod connect;
mod crypto;
mod duplex;
mod error;
mod exchange;
mod families;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handshake;
mod join;
mod listen;
mod message;
mod noise;
mod secret;
pub mod secret_file;
mod strangers;
mod stream;
#[cfg(test)]
mod tests;
mod wait;
mod wire;

pub use config::{Config, PAIR};
pub use connect::connect;
pub use duplex::Duplex;
pub use error::{BootstrapError, Cause};
pub use exchange::PeerLink;
pub use families::{listen_at, of_its_family};
pub use join::{call, join};
pub use listen::Listener;
pub use message::{Handle, PROTOCOL_VERSION};
pub use noise::Purpose;
pub use secret::{BadSecret, Secret};
pub use strangers::{PendingLimits, Proven, Strangers};
pub use stream::{Reader, Writer};
pub use wait::Deadline;
