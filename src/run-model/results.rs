//! What workers report: plugin, checks, handshakes, registrations, transfers.
#![forbid(unsafe_code)]

use crate::counters::{ChannelNow, LatencyUs, NetworkUse};
use crate::latencies::Latencies;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use tcpx_words::payload::Tally;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;

/// The plugin that a worker loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// Path without symbolic links, or `builtin`.
    pub path: String,
    /// SHA-256 of the file; of tcpxctl itself for `builtin`.
    pub sha256: String,
    /// ncclNet version in use.
    pub abi: u32,
    /// Name in the plugin's table.
    pub name: String,
    /// Family, decided when the plugin was loaded.
    #[serde(default = "unknown_family")]
    pub family: PluginFamily,
    /// Version line that the plugin logged.
    pub version: Option<String>,
    /// Why this plugin was chosen.
    pub why: String,
    /// Candidates that were not chosen, with the reasons.
    pub passed_over: Vec<tcpx_node::plugin_files::PassedOver>,
}

fn unknown_family() -> PluginFamily {
    PluginFamily::Other
}

/// Result of the critical checks that a worker makes before it loads the plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// Number of checks that passed.
    pub passed: usize,
    /// Names of the checks that failed.
    pub failed: Vec<String>,
    /// Names of the checks that could not be made.
    pub open: Vec<String>,
    /// Time that all checks took, milliseconds.
    pub ms: f64,
}

/// One measured or warm-up iteration of one end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Counted from 0, warm-up included.
    pub index: u32,
    /// Whether it is a warm-up iteration, which is not measured.
    pub warmup: bool,
    /// Time between its two barriers, by this end's clock.
    pub nanoseconds: u64,
    /// Bytes this end sent and received.
    pub bytes: u64,
    /// Bytes that this end has compared with the pattern since measuring began.
    #[serde(default)]
    pub verified_bytes: u64,
    /// Bytes that differed from the pattern, warm-up included.
    #[serde(default)]
    pub wrong_bytes: u64,
}

/// Result of a transfer at one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// Warm-up and measured iterations, in order.
    pub iterations: Vec<Iteration>,
    /// If the worker has several lanes: for each lane, the nanoseconds of each of `iterations`,
    /// from its first barrier until the lane's last byte had been received, or, at an end that
    /// only sends, sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Vec<u64>>,
    /// Results by channel.
    pub channels: Vec<ChannelResult>,
    /// Round-trip times; only at the end that sends first in a ping-pong.
    pub round_trip_us: Option<LatencyUs>,
    /// The memory that holds the payload: `host`, `device stand-in`, `GPU 0 (…)`.
    #[serde(default)]
    pub memory: String,
    /// The windows that are narrower than the scenario asks for, and why: `8 of 12 send, 8 of 16
    /// recv: a plugin of ncclNet v6 may have 8 request slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Bytes registered with the plugin.
    pub registered_bytes: u64,
    /// Resident memory of the worker at the end, from /proc.
    pub resident_bytes: Option<u64>,
    /// The threads that drove the channels; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driving: Option<Driving>,
    /// TCP connections and interfaces at the end of the transfer; absent in records of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    /// Of KV-cache traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<Box<KvResult>>,
}

impl TransferResult {
    /// The tallies of what was compared: of each channel, or of all KV-cache traffic that arrived.
    pub fn tallies(&self) -> impl Iterator<Item = &Tally> {
        let kv = self.kv.iter().map(|kv| &kv.arrived);
        self.channels.iter().map(|one| &one.tally).chain(kv)
    }
}

/// Result of KV-cache traffic at one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KvResult {
    /// The requests that this end started; `None` if the peer starts them all.
    pub started: Option<KvTimes>,
    /// What arrived here. Any lane carries any page, so the channels have no counts of their own.
    pub arrived: Tally,
}

/// The requests of the measured iterations that one end started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KvTimes {
    /// From a request's arrival until its last byte was in place.
    pub requests: Latencies,
    /// From the call that starts a vector read or write until its last byte was in place.
    pub batches: Latencies,
    /// In the call that starts a vector read or write.
    pub posts: Latencies,
    /// To list the pages of a vector.
    pub preparations: Latencies,
    /// Bytes of the requests that ended with every byte right.
    pub good_bytes: u64,
}

/// The threads of a worker that drove its channels in the measured iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Driving {
    /// Why there were this many.
    pub why: String,
    /// CPU seconds of each thread while it drove.
    pub cpu_seconds: Vec<f64>,
    /// CPU seconds of all other threads of the worker, nearly all of them the plugin's.
    pub other_cpu_seconds: f64,
    /// Bytes that the worker sent and received in that time.
    pub bytes: u64,
    /// Context switches of all threads of the worker in that time: those in which a thread
    /// waited, and those in which another took its CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<[u64; 2]>,
    /// Seconds in which threads of the worker could have run in that time and had no CPU, of all threads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cpu_seconds: Option<f64>,
    /// Calls of `test` for each request that was done, warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_per_chunk: Option<f64>,
    /// Seconds in which the driving threads wrote and compared patterns, estimated by one call in
    /// sixteen. None if nothing was verified, or by a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_seconds: Option<f64>,
}

impl Driving {
    /// CPU seconds of the driving and of the other threads for each 10^9 bytes; `None` without
    /// bytes.
    pub fn cpu_per_gb(&self) -> Option<(f64, f64)> {
        let gb = self.bytes as f64 / 1e9;
        let driving: f64 = self.cpu_seconds.iter().sum();
        (gb > 0.0).then(|| (driving / gb, self.other_cpu_seconds / gb))
    }

    /// Of the time in which the worker's threads could have run, the share in which they waited for a CPU.
    pub fn share_without_cpu(&self) -> Option<f64> {
        let waited = self.no_cpu_seconds?;
        let ran = self.cpu_seconds.iter().sum::<f64>() + self.other_cpu_seconds;
        let share = waited / (waited + ran);
        share.is_finite().then_some(share)
    }

    /// Of the driving threads' CPU seconds for each 10^9 bytes, those spent on patterns.
    pub fn verify_per_gb(&self) -> Option<f64> {
        let gb = self.bytes as f64 / 1e9;
        self.verify_seconds
            .filter(|_| gb > 0.0)
            .map(|spent| spent / gb)
    }
}

/// Share of the time without a CPU from which on it is told.
const WITHOUT_CPU_TOLD: f64 = 0.1;

/// `4 threads (4 channels, 16 CPUs), 0.211 CPU s/GB (verify 0.084), other threads 0.002, 3.1 tests a
/// chunk, 12 + 3 context switches a GB`: those in which a thread waited, and those in which it lost its CPU.
impl fmt::Display for Driving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = match self.cpu_seconds.len() {
            1 => "1 thread".to_owned(),
            count => format!("{count} threads"),
        };
        write!(f, "{threads} ({})", self.why)?;
        if let Some((driving, other)) = self.cpu_per_gb() {
            write!(f, ", {driving:.3} CPU s/GB")?;
            if let Some(verify) = self.verify_per_gb() {
                write!(f, " (verify {verify:.3})")?;
            }
            write!(f, ", other threads {other:.3}")?;
        }
        if let Some(tests) = self.tests_per_chunk {
            write!(f, ", {tests:.1} tests a chunk")?;
        }
        if let Some([waited, preempted]) = self.context_switches
            && self.bytes > 0
        {
            let per_gb = |count: u64| count as f64 / (self.bytes as f64 / 1e9);
            let (waited, preempted) = (per_gb(waited), per_gb(preempted));
            write!(f, ", {waited:.0} + {preempted:.0} context switches a GB")?;
        }
        if let Some(share) = self
            .share_without_cpu()
            .filter(|share| *share >= WITHOUT_CPU_TOLD)
        {
            let percent = share * 100.0;
            write!(
                f,
                ", waited for a CPU for {percent:.0}% of the time in which it could have run"
            )?;
        }
        Ok(())
    }
}

/// Result of one channel at one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelResult {
    /// Whether this end sends or receives on it.
    pub side: Side,
    /// Index within its direction.
    pub index: usize,
    /// The plugin's device number.
    pub device: usize,
    /// Interface name of the device.
    pub nic: String,
    /// Chunks, bytes and mismatches, counted by the engine.
    pub tally: Tally,
    /// Counters from the recorder, if the worker has one.
    pub counters: Option<ChannelNow>,
}

/// Times of one connection of a handshake at one end, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionTimes {
    /// Index within its direction.
    pub index: usize,
    /// Whether this end sends on it.
    pub sends: bool,
    /// Interface name of its device.
    pub nic: String,
    /// Time in `listen`; receiving end only.
    pub listen_ms: Option<f64>,
    /// Time to exchange connect handles over the bootstrap.
    pub bootstrap_ms: f64,
    /// Time from the first `connect` to the comm; sending end only.
    pub connect_ms: Option<f64>,
    /// Time from the first `accept` to the comm; receiving end only.
    pub accept_ms: Option<f64>,
    /// Calls of connect or accept that returned success without a comm.
    pub retries: u64,
    /// Its TCP connections: local and peer address.
    pub flows: Vec<(SocketAddr, SocketAddr)>,
}

/// Resources that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Number of open descriptors.
    pub descriptors: usize,
    /// Number of threads.
    pub threads: usize,
}

/// One row of the registration sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MrRow {
    /// Whether the comm sends or receives.
    pub side: Side,
    /// The memory that was registered: `host`, `device stand-in`, `GPU 0 (…)`.
    pub memory: String,
    /// The experiment: `size`, `offset`, `count` or `storm`.
    pub what: String,
    /// Bytes of one registration.
    pub size: u64,
    /// Offset from a page boundary, bytes.
    pub offset: u64,
    /// Whether the plugin accepted it.
    pub accepted: bool,
    /// The plugin's log lines or error, or a note of the sweep.
    pub said: String,
    /// Registrations made for this row.
    pub count: u64,
    /// Time of regMr, microseconds: p50 and p99.
    pub reg_us: Option<(f64, f64)>,
    /// Time of deregMr, microseconds: p50 and p99.
    pub dereg_us: Option<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_driving_cost_is_told_by_kind_of_work() {
        let mut driving = Driving {
            why: "4 channels, 16 CPUs".into(),
            cpu_seconds: vec![1.0, 0.5],
            other_cpu_seconds: 0.25,
            bytes: 10_000_000_000,
            context_switches: Some([120, 30]),
            no_cpu_seconds: Some(0.1),
            tests_per_chunk: Some(3.1),
            verify_seconds: Some(0.6),
        };
        assert_eq!(
            driving.to_string(),
            "2 threads (4 channels, 16 CPUs), 0.150 CPU s/GB (verify 0.060), other threads 0.025, \
             3.1 tests a chunk, 12 + 3 context switches a GB"
        );
        driving.no_cpu_seconds = Some(5.25);
        let told = ", waited for a CPU for 75% of the time in which it could have run";
        assert!(driving.to_string().ends_with(told), "{driving}");
        driving.no_cpu_seconds = None;
        driving.verify_seconds = None;
        assert!(!driving.to_string().contains("verify"));
        driving.bytes = 0;
        let words = "2 threads (4 channels, 16 CPUs), 3.1 tests a chunk";
        assert_eq!(driving.to_string(), words);
    }
}
