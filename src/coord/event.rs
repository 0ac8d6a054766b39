//! Everything that happens in a run, stamped with node and time.
//!
//! One stream: the coordinator merges it, and the progress line, the record and
//! whatever reads the record later only read it.
#![forbid(unsafe_code)]

use super::message::FromAgent;
use serde::{Deserialize, Serialize};
use tcpx_run_model::record::Finding;
use tcpx_run_model::record::live::Update;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// RFC 3339, UTC, when the coordinator learnt of it.
    pub at: String,
    /// Milliseconds since the command started, monotonic.
    pub ms: f64,
    /// `local`, `peer`, or `coordinator`.
    pub node: String,
    /// Which pair of the run, when there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// The node's own clock when it said so, microseconds since 1970; `clock` of
    /// the node in run.json has the offset to the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_us: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// An agent or its worker said so.
    Said(Box<FromAgent>),
    /// The coordinator decided or noticed something.
    Note(String),
    /// One channel closely, for whoever looks; never written down.
    Closely(Vec<Update>),
    /// What the rules say by now; replaces what they said before.
    Found(Vec<Finding>),
    /// The program travels to a node.
    Upload {
        /// As its user calls it.
        to: String,
        /// Bytes so far.
        sent: u64,
        /// Bytes in all.
        all: u64,
    },
}
