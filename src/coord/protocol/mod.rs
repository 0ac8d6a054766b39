//! What coordinator, agents and workers say to each other, and nothing else that
//! they share: no role imports another but through here.
//!
//! `message.rs` is the messages as data, `wire.rs` how they travel, `limits.rs` the
//! times that both ends of a stream keep, `variables.rs` what a worker is told by
//! its environment. Private to this crate: what happens in a run is an `Event` of
//! `tcpx-run-model`, made of these messages by the coordinator's `edge.rs`.

pub(crate) mod limits;
pub(crate) mod message;
pub(crate) mod variables;
pub(crate) mod wire;
