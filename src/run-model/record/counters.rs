//! Numbers that a run leaves behind: a channel's counters, an iteration's time.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use tcpx_words::side::Side;

/// One measured or warm-up iteration of one end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Counted from 0, warm-up included.
    pub index: u32,
    /// Does not count.
    pub warmup: bool,
    /// Between the two barriers, on this end's clock.
    pub nanoseconds: u64,
    /// Bytes of both directions in which this end took part.
    pub bytes: u64,
    /// Bytes that this end has compared with the pattern since measuring began.
    #[serde(default)]
    pub verified_bytes: u64,
    /// Of all that it compared, warm-up included, those that were wrong.
    #[serde(default)]
    pub wrong_bytes: u64,
}

/// Counters of one channel at one moment, from the recorder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelNow {
    /// Which end of its connection.
    pub side: Side,
    /// Index within its direction, in the order in which comms were made.
    pub index: usize,
    /// Plugin device.
    pub device: i64,
    /// Requests posted since the comm was made.
    pub posted: u64,
    /// Done.
    pub done: u64,
    /// Handed back; for a send the same as done.
    pub consumed: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Bytes of all requests posted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_posted: u64,
    /// Most requests in flight.
    pub in_flight_high_water: u64,
    /// Calls of `test`.
    pub tests: u64,
    /// Of them not done.
    pub tests_not_done: u64,
    /// Results other than success.
    pub rc_errors: u64,
    /// Milliseconds since any request changed state.
    pub quiet_ms: u64,
    /// Milliseconds since the oldest request in flight was posted.
    pub head_age_ms: Option<u64>,
    /// The plugin call it is inside of.
    pub in_call: Option<String>,
    /// Post to done, microseconds.
    pub latency_us: Option<LatencyUs>,
    /// Requests in flight, oldest first, a letter each: `p` posted, `d` done, `u` unpacked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requests: String,
    /// Unpacked, where somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<u64>,
    /// Posts that were answered with "call again".
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
    /// The comm was closed; these are its last counters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How long something took: post to done, or there and back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    /// Half are faster.
    pub p50: f64,
    /// 99 in 100 are faster.
    pub p99: f64,
    /// 999 in 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}
