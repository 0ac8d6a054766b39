//! What programs that run now show of themselves, as events.
//!
//! `recorders.rs` reads recorder files of this machine again and again, `detail.rs`
//! looks at one channel closely. Not here: keeping what they say; `state` does.
#![forbid(unsafe_code)]

mod detail;
mod recorders;

pub use recorders::{RecorderFilter, Recorders};

use crate::ids::WorkerId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tcpx_words::side::Side;
use tcpx_words::units::printable;

/// What a process that was found says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// What it calls itself: `NCCL rank 3`, a scenario's label.
    pub role: String,
    /// What drives its channels: `TCPXSoft_v7 v7 0.1.0`.
    pub plugin: String,
    /// Interface of each plugin device; in JSON a list of pairs, as a number cannot be
    /// a key where serde flattens.
    #[serde(with = "device_names")]
    pub nics: BTreeMap<i64, String>,
    /// It is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
    /// The call that belongs to no channel (`init`, `connect`, ...) it is inside of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
}

mod device_names {
    use super::BTreeMap;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        nics: &BTreeMap<i64, String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(nics)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<i64, String>, D::Error> {
        Vec::deserialize(from).map(|nics| nics.into_iter().collect())
    }
}

impl ProcessFacts {
    /// The same with every text fit for a terminal.
    pub fn printable(self) -> Self {
        Self {
            role: printable(&self.role),
            plugin: printable(&self.plugin),
            nics: self
                .nics
                .into_iter()
                .map(|(device, name)| (device, printable(&name)))
                .collect(),
            is_gone: self.is_gone,
            inside: self.inside.map(|call| printable(&call)),
        }
    }
}

/// Which channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChannelKey {
    /// What drives it.
    pub worker: WorkerId,
    /// Which end of its connection.
    pub side: Side,
    /// Index within its direction.
    pub index: usize,
}

/// One channel, as closely as it can be seen from where its recorder lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Which.
    pub channel: ChannelKey,
    /// When it was looked at.
    pub at_ns: u64,
    /// Requests in flight, oldest first.
    pub requests: Vec<RequestDetail>,
    /// The last calls that changed something, oldest first.
    pub events: Vec<EventDetail>,
    /// Non-empty buckets of post-to-done times: first nanosecond, first beyond, count.
    pub latency: Vec<(u64, u64, u64)>,
    /// Sockets behind it, or why they cannot be told.
    pub sockets: Result<Vec<tcpx_node::TcpSocket>, String>,
    /// Counters of its NIC by name.
    pub nic: Vec<(String, u64)>,
}

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestDetail {
    /// Counted from 0.
    pub number: u64,
    /// `p` posted, `d` done, `u` unpacked.
    pub stage: char,
    /// As posted.
    pub bytes: u64,
    /// Since it was posted.
    pub age_us: u64,
}

/// A call that changed something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventDetail {
    /// How long ago.
    pub ago_us: u64,
    /// `posted`, `done`, ...
    pub what: String,
    /// In which call.
    pub call: String,
    /// What the call returned.
    pub rc: i32,
    /// The request's number, as far as it is told apart.
    pub request: u32,
    /// Bytes, or for a call without a request nanoseconds.
    pub value: u64,
}
