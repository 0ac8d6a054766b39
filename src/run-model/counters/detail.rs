//! One channel in detail: its requests, its last events, its sockets and its NIC.
#![forbid(unsafe_code)]

use crate::ids::WorkerId;
use serde::{Deserialize, Serialize};
use tcpx_words::side::Side;

/// Names a channel within a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChannelKey {
    /// The worker that drives it.
    pub worker: WorkerId,
    /// Which end of its connection.
    pub side: Side,
    /// Index within its direction.
    pub index: usize,
}

/// One channel, read on the node of its recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelDetail {
    /// The channel.
    pub channel: ChannelKey,
    /// Time of the reading, nanoseconds since 1970.
    pub at_ns: u64,
    /// Requests in flight, oldest first.
    pub requests: Vec<RequestDetail>,
    /// The newest events of its ring, oldest first.
    pub events: Vec<EventDetail>,
    /// Non-empty buckets of the post-to-done histogram: first nanosecond, first beyond, count.
    pub latency: Vec<(u64, u64, u64)>,
    /// TCP sockets of its comm, or why they cannot be found.
    pub sockets: Result<Vec<tcpx_node::TcpSocket>, String>,
    /// Counters of its NIC, by name.
    pub nic: Vec<(String, u64)>,
}

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestDetail {
    /// Sequence number of the request, from 0.
    pub number: u64,
    /// `p` posted, `d` done, `u` unpacked.
    pub stage: char,
    /// Size as posted.
    pub bytes: u64,
    /// Time since it was posted.
    pub age_us: u64,
}

/// One event of a channel's ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventDetail {
    /// Time since the event, microseconds.
    pub ago_us: u64,
    /// Kind of the event: `posted`, `done`, `consumed`, ...
    pub what: String,
    /// The plugin call.
    pub call: String,
    /// What the call returned.
    pub rc: i32,
    /// The request's number, its lowest 32 bits.
    pub request: u32,
    /// Bytes; for a call without a request, nanoseconds.
    pub value: u64,
}
