//! The counters of a channel, and the distribution of a latency.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use tcpx_words::side::Side;

/// Counters of one channel at one moment, from the recorder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelNow {
    /// Whether it sends or receives.
    pub side: Side,
    /// Index within its direction, in the order in which comms were made.
    pub index: usize,
    /// The connection of an endpoint that it is part of, and the operation that it works on:
    /// `connection 2, read 17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// The plugin's device number; -1 if unknown.
    pub device: i64,
    /// Requests posted since the comm was made.
    pub posted: u64,
    /// Requests done.
    pub done: u64,
    /// Requests consumed; for a send the same as done.
    pub consumed: u64,
    /// Bytes of all requests done.
    pub bytes: u64,
    /// Bytes of all requests posted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_posted: u64,
    /// Most requests in flight.
    pub in_flight_high_water: u64,
    /// Calls of `test`.
    pub tests: u64,
    /// Calls of `test` that returned "not done".
    pub tests_not_done: u64,
    /// Calls that returned an error.
    pub rc_errors: u64,
    /// Milliseconds since a request last changed state.
    pub quiet_ms: u64,
    /// Of `quiet_ms`, milliseconds in which a thread of its process waited for a CPU: the one that drives
    /// the channel, where it is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub no_cpu_ms: u64,
    /// Of `quiet_ms`, milliseconds in which a CPU quota of its cgroup held it back, by the share of the time for which it
    /// was looked at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_ms: u64,
    /// Kernel id of the thread that drives it, as far as the recorder knows, if `no_cpu_ms` is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// How often that thread was given a CPU in `quiet_ms` and gave it back by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u64,
    /// Milliseconds since the oldest request in flight was posted.
    pub head_age_ms: Option<u64>,
    /// The plugin call that has not returned.
    pub in_call: Option<String>,
    /// Milliseconds for which it is known not to have returned: since it was seen first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_call_ms: u64,
    /// Time from post to done, microseconds.
    pub latency_us: Option<LatencyUs>,
    /// Requests in flight, oldest first, a letter each: `p` posted, `d` done, `u` unpacked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requests: String,
    /// Requests unpacked, if the program reports unpacking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<u64>,
    /// Posts that returned success without a request: try again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub null_requests: u64,
    /// The last call that failed, and its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<(String, i32)>,
    /// An address of this end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// An address of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Whether the comm is closed, so that these are its last counters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Distribution of a latency, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}
