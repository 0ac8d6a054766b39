//! What workers report: checks, handshakes, registrations, transfers.
#![forbid(unsafe_code)]

use crate::record::{ChannelNow, Iteration, LatencyUs};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tcpx_words::payload::Tally;
use tcpx_words::side::Side;

/// What was looked at before anything was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// Critical checks that passed.
    pub passed: usize,
    /// Names of those that failed.
    pub failed: Vec<String>,
    /// Names of those that could not be made.
    pub open: Vec<String>,
    /// What it took.
    pub ms: f64,
}

/// What a transfer came to, seen from one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// Measured and warm-up, in order.
    pub iterations: Vec<Iteration>,
    /// Per channel.
    pub channels: Vec<ChannelResult>,
    /// Round trips of the end that leads a ping-pong.
    pub round_trip_us: Option<LatencyUs>,
    /// Where its messages lie: `host`, `device stand-in`, `GPU 0 (…)`.
    #[serde(default)]
    pub memory: String,
    /// Bytes registered.
    pub registered_bytes: u64,
    /// Resident memory at the end, from /proc.
    pub resident_bytes: Option<u64>,
}

/// One channel of one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelResult {
    /// Send or receive.
    pub side: Side,
    /// Index within its direction.
    pub index: usize,
    /// Plugin device.
    pub device: usize,
    /// Interface name.
    pub nic: String,
    /// What it did.
    pub tally: Tally,
    /// Counters of the recorder.
    pub counters: Option<ChannelNow>,
}

/// One connection of a handshake, seen from one end, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionTimes {
    /// Index.
    pub index: usize,
    /// Whether this end sends on it.
    pub sends: bool,
    /// Interface name.
    pub nic: String,
    /// In `listen`; receiving end.
    pub listen_ms: Option<f64>,
    /// Handles over the bootstrap.
    pub bootstrap_ms: f64,
    /// First `connect` to the comm; sending end.
    pub connect_ms: Option<f64>,
    /// First `accept` to the comm; receiving end.
    pub accept_ms: Option<f64>,
    /// Calls of connect or accept that said "not yet".
    pub retries: u64,
    /// TCP connections that belong to it: local and peer address.
    pub flows: Vec<(SocketAddr, SocketAddr)>,
}

/// What a process holds of the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

/// One row of the registration sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MrRow {
    /// `send` or `recv` comm.
    pub side: Side,
    /// `host` or `device`.
    pub memory: String,
    /// What was tried.
    pub what: String,
    /// Bytes.
    pub size: u64,
    /// Offset from a page boundary.
    pub offset: u64,
    /// Whether the plugin took it.
    pub accepted: bool,
    /// The plugin's own words, or ours.
    pub said: String,
    /// Registrations made for this row.
    pub count: u64,
    /// regMr, microseconds: p50 and p99.
    pub reg_us: Option<(f64, f64)>,
    /// deregMr, microseconds: p50 and p99.
    pub dereg_us: Option<(f64, f64)>,
}
