//! What the roles share: coordinator, agent and worker import each other's code only through
//! this module.
//!
//! `message.rs` has the messages, `wire.rs` their framing, `limits.rs` the timeouts that both ends
//! of a stream keep, `variables.rs` the environment variables that a worker reads. Private to this
//! crate: the coordinator's `edge.rs` converts messages to `Event`s of `tcpx-run-model`.

pub(crate) mod limits;
pub(crate) mod message;
pub(crate) mod variables;
pub(crate) mod wire;
