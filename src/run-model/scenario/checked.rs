//! A resolved scenario: every key with its value, defaults filled in.
//!
//! A file is read into these types, `--dry-run` prints them, agents and workers receive them as
//! JSON, and the JSON Schema is generated from them, so each key is described once. Field names
//! are key names. Reading checks only the types; [`Scenario::check`] (in `rules`) checks the
//! ranges, for a file and for JSON from a peer alike.
//!
//! Not here: where a value came from (`resolve`), and what only the plugin or
//! the machine can decide (`auto` stays `auto`).
#![forbid(unsafe_code)]

use super::fault::Fault;
use super::mesh::Mesh;
use super::topology::{Bindings, Topology};
use super::traffic::Traffic;
use super::variables::{EnvTable, Variables};
use crate::kv_plan::KvPlan;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::error::Outcome;
use tcpx_words::progress::{Idle, Policy, Threads};
use tcpx_words::side::Side;
use tcpx_words::units::{ByteCount, TimeSpan};
use tcpx_words::word_set;

/// What to run, and what must come out of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Names the run folder and the reports.
    pub name: String,
    /// What must be there; where it is missing the scenario is skipped and says so.
    pub requires: Vec<Requirement>,
    /// What moves, and how it is cut up.
    pub transfer: Transfer,
    /// What moves in place of one stream of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// Which GPUs and NICs take part.
    pub topology: Topology,
    /// Which nodes of a run of many transfer with which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh: Option<Mesh>,
    /// Who drives the plugin, and what it does when nothing moves.
    pub progress: Progress,
    /// Which plugin, by `name` or `path`, and which version of its table.
    pub plugin: PluginChoice,
    /// Environment of the workers: for both ends, by role, by node.
    pub env: Variables,
    /// CPU sets of the workers: by role, node or NIC.
    pub bindings: Bindings,
    /// Every deadline, by name.
    pub limits: Limits,
    /// What is broken on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The gates.
    pub expect: Expect,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            requires: Vec::new(),
            transfer: Transfer::default(),
            traffic: None,
            topology: Topology::default(),
            mesh: None,
            progress: Progress::default(),
            plugin: PluginChoice::default(),
            env: Variables::default(),
            bindings: Bindings::default(),
            limits: Limits::default(),
            fault: None,
            expect: Expect::default(),
        }
    }
}

impl Scenario {
    /// The environment of the worker on `node` with role `side`, including the plugin's fault if
    /// the fault applies to that side.
    pub fn worker_env(&self, side: Side, node: &str) -> EnvTable {
        let mut env = self.env.worker(side, node);
        if let Some(spec) = self.fault.as_ref().and_then(|fault| fault.of_plugin(side)) {
            env.insert("TCPXSOFT_FAULT".to_owned(), spec);
        }
        env
    }

    /// Bytes of one iteration and direction.
    pub fn iteration_bytes(&self) -> u64 {
        match &self.traffic {
            Some(traffic) => KvPlan::new(traffic).bytes(),
            None => self.transfer.total.0,
        }
    }

    /// The name of the recorded evidence to judge, if the fault cannot be injected.
    pub fn evidence_only(&self) -> Option<&str> {
        match &self.fault {
            Some(Fault::Evidence { kind, .. }) => Some(kind),
            _ => None,
        }
    }

    /// The name as a part of a file name: letters, digits, `.`, `_` and `-`.
    pub fn slug(&self) -> String {
        let kept = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        };
        let slug: String = self.name.chars().map(kept).take(64).collect();
        let slug = slug.trim_matches(['.', '-']);
        if slug.is_empty() {
            "scenario".to_owned()
        } else {
            slug.to_owned()
        }
    }
}

word_set! {
    /// Something a scenario cannot do without.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Requirement {
        /// A GPU on each node.
        Gpu = "gpu",
        /// Google's plugin on each node.
        Tcpx = "tcpx",
        /// Two machines.
        Peer = "peer",
    }
}

/// What moves, and how it is cut up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Transfer {
    /// Connections per GPU pair (or host pair); one channel each.
    #[cfg_attr(test, schemars(range(min = 1, max = 1024)))]
    pub connections: u32,
    /// What one request carries; at most 4 MiB with a plugin of the TCPX family.
    pub chunk: ByteCount,
    /// Bytes per iteration and direction; the last chunk may be short.
    pub total: ByteCount,
    /// Measured iterations.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub iterations: u32,
    /// Iterations before the measured ones.
    #[cfg_attr(test, schemars(range(min = 0, max = 1_000_000)))]
    pub warmup: u32,
    /// Receives in flight per channel; a comm has 16 request slots.
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    pub recv_window: u32,
    /// Sends in flight per channel; a comm has 16 request slots.
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    pub send_window: u32,
    /// Who sends.
    pub direction: Direction,
    /// Where the payload lives.
    pub memory: Memory,
    /// How a device receive is gathered from its scatter list.
    pub unpack: Unpack,
    /// Compare every byte that arrives.
    pub verify: bool,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            connections: 4,
            chunk: ByteCount(512 << 10),
            total: ByteCount(64 << 20),
            iterations: 20,
            warmup: 2,
            recv_window: 16,
            send_window: 12,
            direction: Direction::Forward,
            memory: Memory::Auto,
            unpack: Unpack::Auto,
            verify: true,
        }
    }
}

word_set! {
    /// Who sends. The receiver listens.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Direction {
        /// The local end sends.
        Forward = "forward",
        /// The peer sends.
        Reverse = "reverse",
        /// Both at once, each over connections of its own.
        Both = "both",
        /// The local end sends one chunk and waits for one: round trips.
        PingPong = "ping-pong",
    }
}

word_set! {
    /// Where the payload lives.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Memory {
        /// Device memory when the plugin is TCPX and a GPU is there, else host.
        Auto = "auto",
        /// Host memory.
        Host = "host",
        /// GPU memory, or its stand-in.
        Device = "device",
    }
}

word_set! {
    /// How a device receive is gathered from its scatter list.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Unpack {
        /// What the memory asks for.
        Auto = "auto",
        /// A kernel on the GPU.
        Kernel = "kernel",
        /// One device-to-device copy per scatter entry.
        D2d = "d2d",
        /// Through host memory.
        Host = "host",
        /// Not at all: the bytes stay in the bounce pages.
        None = "none",
    }
}

/// Who drives the plugin, and what it does when nothing moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Progress {
    /// When requests are tested.
    pub policy: Policy,
    /// How many threads of each worker drive its channels, each a share of them.
    pub threads: Threads,
    /// What the driving thread does after a sweep that moved nothing.
    pub idle: Idle,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            policy: Policy::Opportunistic,
            threads: Threads::Auto,
            idle: Idle::Adaptive,
        }
    }
}

/// Which plugin, and which version of its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PluginTable", into = "PluginTable")]
pub struct PluginChoice {
    /// The library.
    pub library: PluginLibrary,
    /// The version of its table; without one the newest that both sides know.
    pub abi: Option<AbiVersion>,
}

/// How a plugin's library is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginLibrary {
    /// `auto`, `soft`, `builtin`, or the name of a library to look for.
    Name(String),
    /// A library file; a relative one starts where the command runs.
    Path(String),
}

impl PluginChoice {
    /// The newest version of the plugin of this name.
    pub fn named(name: &str) -> Self {
        Self {
            library: PluginLibrary::Name(name.to_owned()),
            abi: None,
        }
    }
}

impl Default for PluginChoice {
    fn default() -> Self {
        Self::named("auto")
    }
}

/// The `[plugin]` table as it is written.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(test, schemars(extend("not" = { "required": ["name", "path"] })))]
pub(super) struct PluginTable {
    /// `auto`, `soft`, `builtin`, or the name of a library to look for.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// A library file; a relative one starts where the command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The version of its table; without one the newest that it and tcpxctl know.
    #[serde(skip_serializing_if = "Option::is_none")]
    abi: Option<AbiVersion>,
}

impl TryFrom<PluginTable> for PluginChoice {
    type Error = &'static str;
    fn try_from(table: PluginTable) -> Result<Self, &'static str> {
        let library = match (table.name, table.path) {
            (Some(_), Some(_)) => return Err("`plugin` holds both `name` and `path`"),
            (_, Some(path)) => PluginLibrary::Path(path),
            (Some(name), None) => PluginLibrary::Name(name),
            (None, None) => Self::default().library,
        };
        Ok(Self {
            library,
            abi: table.abi,
        })
    }
}

impl From<PluginChoice> for PluginTable {
    fn from(choice: PluginChoice) -> Self {
        let (name, path) = match choice.library {
            PluginLibrary::Name(name) => (Some(name), None),
            PluginLibrary::Path(path) => (None, Some(path)),
        };
        Self {
            name,
            path,
            abi: choice.abi,
        }
    }
}

/// Every deadline, by name. None of them is a bare timeout: each says what it
/// waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// No state change on any channel for this long is a stall.
    pub stall_after: TimeSpan,
    /// How long a stalled run may still recover.
    pub give_up_after: TimeSpan,
    /// One connection, from the first attempt to both comms.
    pub connect: TimeSpan,
    /// The whole run.
    pub total: TimeSpan,
    /// How long rc 2 on the head of a receive comm is retried after the peer closed.
    pub close_grace: TimeSpan,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall_after: TimeSpan::from_secs(3),
            give_up_after: TimeSpan::from_secs(10),
            connect: TimeSpan::from_secs(30),
            total: TimeSpan::from_secs(600),
            close_grace: TimeSpan::from_millis(100),
        }
    }
}

/// The gates. All met is a pass; an absent gate is always met.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// How the run must end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The condition a finding must name, such as `window-never-consumed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// What the plugin must call itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The rate to reach, in 10^9 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gb_per_s: Option<GbPerS>,
    /// Wrong bytes that are still a pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wrong_bytes: Option<u64>,
}

/// A rate in 10^9 bytes per second, rounded to six decimals: a number of at most twelve digits
/// survives JSON exactly, so both ends hash the same scenario.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(from = "f64", into = "f64")]
pub struct GbPerS(f64);

impl GbPerS {
    /// The rate in 10^9 bytes per second.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for GbPerS {
    fn from(rate: f64) -> Self {
        Self((rate * 1e6).round() / 1e6)
    }
}

impl From<GbPerS> for f64 {
    fn from(rate: GbPerS) -> Self {
        rate.0
    }
}
