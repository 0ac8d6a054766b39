//! The messages between coordinator, agents and workers.
//!
//! Coordinator and agent exchange one JSON document per line over the agent's stdin and stdout,
//! agent and worker the same over an inherited socket. Lines before the first message that are
//! not messages are the banner of a login shell and are passed on as text.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tcpx_engine::contract::ContractRow;
use tcpx_engine::gpu::CudaNode;
use tcpx_engine::plugin::{About, Device};
use tcpx_node::NodeFacts;
use tcpx_node::doctor::probe::Offer;
use tcpx_node::doctor::{DoctorFacts, ProbedRails};
use tcpx_node::plugin_files::{ChosenPlugin, FileFacts, LoadError};
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::counters::{ChannelNow, Frame};
use tcpx_run_model::event::Event;
use tcpx_run_model::ids::Lane;
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::live::{FoundRecorder, RecorderFilter};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::results::Iteration;
use tcpx_run_model::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
use tcpx_run_model::scenario::{CpuSet, PluginChoice, ProcessFault, Scenario};
use tcpx_words::error::NextStep;
use tcpx_words::log::{LogLine, LogSummary};

/// Version of everything in this file.
pub(crate) const PROTOCOL: u32 = 13;

/// How a line begins that says why a worker has no flight recorder.
pub(crate) const NO_RECORDER: &str = "no counters";

/// An order of the coordinator to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CoordinatorOrder {
    /// Resolve this plugin on the agent's node and answer with `Chosen`.
    Choose(PluginChoice),
    /// Start a worker; one per number at a time.
    Launch(Box<Launch>),
    /// Pass an order on to the worker.
    ToWorker(WorkerOrder),
    /// Stop the worker, and kill it if it has not ended after `grace_ms`.
    Stop {
        /// Milliseconds between the stop order and the kill.
        grace_ms: u64,
    },
    /// Answer with a `Sample` of every channel.
    Snapshot,
    /// Watch for a moment whether calls of the worker's plugin return, and answer with `Calls`.
    WatchCalls,
    /// Take a freeze-frame of the worker now and answer with `Frozen`.
    Freeze,
    /// From now on send the events of these recorders, twenty times a second. For recorders of
    /// workers, whose counters are sent anyway, send only the details of the channel.
    Watch {
        /// The recorders to read.
        which: RecorderFilter,
        /// The channel to send details of.
        #[serde(rename = "closely")]
        focused: Option<ChannelKey>,
    },
    /// Sent once a second, so that silence shows a lost coordinator; answered with `Echo`.
    Heartbeat {
        /// The coordinator's clock, microseconds since 1970.
        us: u64,
    },
}

/// A worker to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Environment in addition to the agent's own.
    pub env: BTreeMap<String, String>,
    /// The task to run.
    pub task: Task,
    /// Milliseconds without a state change that are a stall.
    pub stall_after_ms: u64,
    /// Looks at its counters per sample that is sent: [`super::limits::looks_per_sample`].
    pub looks_per_sample: usize,
    /// The process fault to inject.
    pub fault: Option<ProcessOrder>,
    /// Whether the recorder file of a worker that succeeded is sent too.
    pub sends_every_recording: bool,
}

/// A process fault to inject into a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessOrder {
    /// The kind of fault.
    pub kind: ProcessFault,
    /// Number of chunks done at which it is injected.
    pub after_chunk: u64,
}

/// A message of an agent to the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentMessage {
    /// First message.
    Hello {
        /// [`PROTOCOL`]
        protocol: u32,
        /// Version of the agent's tcpxctl.
        version: String,
        /// The linker's id of the agent's tcpxctl: two builds of one version have two.
        build: Option<String>,
        /// Process id of the agent.
        pid: u32,
        /// NICs, GPUs, NUMA, limits and environment of the node.
        facts: Box<NodeFacts>,
        /// The node's address of the ssh connection that started the agent, from sshd.
        reached_at: Option<IpAddr>,
    },
    /// Answer to `Choose`.
    Chosen(Result<ChosenPlugin, NoPlugin>),
    /// Answer to `Heartbeat`.
    Echo {
        /// The value that was sent.
        us: u64,
    },
    /// A message of the worker.
    Worker(WorkerMessage),
    /// Counters of every channel of the worker.
    Sample(Vec<ChannelNow>),
    /// Channels with requests in flight and no state change for `stall_after`.
    Stall(Vec<ChannelNow>),
    /// Channels moved again after a `Stall`.
    Recovered,
    /// What calls of the worker's plugin do; answer to `WatchCalls`.
    Calls {
        /// Whether one began or returned in that moment.
        do_return: bool,
        /// The call that the worker is inside of.
        inside: Option<String>,
    },
    /// Freeze-frame of the worker; answer to `Freeze`.
    Frozen(Box<Frame>),
    /// A line the plugin logged.
    PluginLine(LogLine),
    /// Text the worker or a login shell printed.
    Output {
        /// `stdout` or `stderr`.
        stream: String,
        /// One line.
        text: String,
    },
    /// A piece of the worker's recorder file, sent after the worker ended. Ranges without a piece
    /// are zero.
    Recording {
        /// Offset in the file, bytes.
        offset: u64,
        /// Contents from `offset` on.
        base64: String,
    },
    /// Recorders that were found for a `Watch`, before their events.
    Found(Vec<FoundRecorder>),
    /// Events of the recorders that a `Watch` asked for; the first ones, even if there are none.
    Watched(Vec<Event>),
    /// The worker process ended.
    Exited(Exit),
    /// The agent failed, and why.
    Broken(String),
    /// The agent kills its workers and ends, for this reason; its last message.
    Leaving(String),
    /// The worker waited for a CPU for this long since the last such message. Sent while the
    /// coordinator limits the phase; counters have `no_cpu_ms`.
    NoCpu {
        /// Milliseconds.
        ms: u64,
    },
    /// Sent once a second, so that silence shows a lost agent.
    Heartbeat,
}

/// A message with the time of the agent's node, microseconds since 1970, and the number of the
/// worker that it is about.
pub(crate) type StampedMessage = (u64, u32, AgentMessage);

/// An order with the number of the worker that it is for; orders to the agent itself have any
/// number.
pub(crate) type AddressedOrder = (u32, CoordinatorOrder);

/// Most workers that run at a time on one node: more than a node has GPUs.
pub const WORKERS_MAX: usize = 64;

/// Why a plugin cannot be found on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoPlugin {
    /// What is wrong.
    pub why: String,
    /// What the user should do.
    pub next_step: Option<String>,
}

impl From<LoadError> for NoPlugin {
    fn from(error: LoadError) -> Self {
        Self {
            why: error.to_string(),
            next_step: error.next_step(),
        }
    }
}

/// An order to a worker, from its agent or passed on by it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkerOrder {
    /// Run this task; the first order, sent once.
    Start(Box<Task>),
    /// Connect the bootstrap to the peer's worker at this address.
    PeerListens(SocketAddr),
    /// All workers that measure together have warmed up: measure.
    Measure,
    /// Drain if possible, then exit.
    Stop,
    /// Call exit, as a plugin may: an injected fault.
    Exit,
}

/// A task of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Load, init, list devices.
    Probe {
        /// Which plugin.
        plugin: ChosenPlugin,
    },
    /// List the GPUs as CUDA does; loads no plugin.
    Gpus,
    /// One row of the contract suite.
    Contract {
        /// Which plugin.
        plugin: ChosenPlugin,
        /// Row id.
        row: String,
    },
    /// One end of a pair.
    Pair(Box<PairTask>),
    /// Read all facts of the node that `doctor` checks; loads no plugin.
    Examine(Box<Examine>),
}

/// Parameters of [`Task::Examine`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Examine {
    /// Whether the node should run Google's plugin.
    pub tcpx: bool,
    /// The plugin file to inspect; `None` for every candidate.
    pub plugin: Option<PathBuf>,
    /// Listening sockets of the other node, to connect to from this one.
    pub offer: Option<Offer>,
}

/// Result of [`Task::Examine`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Examined {
    /// Facts of the node.
    pub facts: DoctorFacts,
    /// Result of connecting to the offered sockets.
    pub tried: Option<ProbedRails>,
}

/// One end of a pair: connect, then `work`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairTask {
    /// Which plugin.
    pub plugin: ChosenPlugin,
    /// The memories whose messages it moves, in the scenario's order. Each has a bootstrap
    /// connection and channels of its own.
    pub lanes: Vec<LaneTask>,
    /// CPUs that it runs on; none named is all.
    pub cpus: Option<CpuSet>,
    /// Of this run; in the recorder's label and the payload's seed.
    pub run_id: String,
    /// Resolved by the coordinator, the same on both ends.
    pub scenario: Scenario,
    /// Whether this end sends, receives, or both; and which it is in `scenario.env`.
    pub sends: bool,
    /// See `sends`.
    pub receives: bool,
    /// Name of this node, as in `env.node`.
    pub node: String,
    /// Address to listen on; `None` waits for `PeerListens` and connects.
    pub listen: Option<IpAddr>,
    /// Port to listen on; 0 is any.
    pub port: u16,
    /// Shared by the two workers of this run, hex.
    pub secret: String,
    /// What to do once connected.
    pub work: Work,
    /// Make the critical checks of this node first.
    #[serde(default)]
    pub preflight: bool,
    /// Other pairs measure at the same time: wait for `Measure` after warm-up.
    #[serde(default)]
    pub together: bool,
    /// Workers of this run on this machine, this one included; they share its cores.
    pub workers_here: u32,
    /// Whether the other end of this pair is on this machine too.
    #[serde(default)]
    pub peer_here: bool,
}

impl PairTask {
    /// Which channels are whose.
    pub fn channels(&self) -> LaneChannels {
        LaneChannels::new(self.lanes.iter().map(|lane| lane.connections))
    }
}

/// One end of one lane of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneTask {
    /// The same at both ends.
    pub lane: Lane,
    /// The GPU of this end; `None` for host memory.
    pub gpu: Option<u32>,
    /// The interfaces that its connections are dealt over; an empty list is every device of the
    /// plugin.
    pub nics: Vec<String>,
    /// Its connections.
    pub connections: u32,
}

/// What a connected pair does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Move verified bytes.
    Transfer,
    /// Connect and close, this often.
    Handshake {
        /// Times.
        repeat: u32,
    },
    /// Registration sweep on this end's comms.
    Mr,
}

/// A message of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerMessage {
    /// It entered this phase.
    Phase(Phase),
    /// Path of its recorder file.
    Recorder(std::path::PathBuf),
    /// The plugin is loaded and initialised.
    Loaded(Box<Loaded>),
    /// Address at which its bootstrap listens.
    Listening(SocketAddr),
    /// One iteration ended.
    Iteration(Iteration),
    /// One handshake of all connections ended.
    Handshake(Vec<ConnectionTimes>),
    /// Descriptors and threads before the first handshake and after the last one, complete or
    /// not.
    Held {
        /// With the plugin loaded and nothing connected.
        before: Held,
        /// With every comm closed.
        after: Held,
    },
    /// The registration sweep.
    Mr(Vec<MrRow>),
    /// The GPUs as CUDA lists them, or why it lists none.
    Gpus(Result<CudaNode, String>),
    /// Result of the critical checks of its node.
    Preflight(Preflight),
    /// Answer to [`Task::Examine`].
    Examined(Box<Examined>),
    /// How far a row of the contract suite has come, in words.
    RowSoFar(String),
    /// Result of a row of the contract suite.
    Contract(ContractRow),
    /// A transfer ended, complete or not.
    Transfer(Box<TransferResult>),
    /// The task could not be completed.
    Failed(Failure),
    /// The last message.
    Finished(LogSummary),
}

/// A plugin that is loaded and initialised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The file; `None` for the software plugin linked into this program.
    pub file: Option<FileFacts>,
    /// Symbol of the table in use.
    pub symbol: String,
    /// Every ncclNet symbol the file exports.
    pub exports: Vec<String>,
    /// Name and version of the table.
    pub about: About,
    /// The version it logged, if a version line was recognised.
    pub version: Option<String>,
    /// Its devices, by the plugin's index.
    pub devices: Vec<Device>,
    /// How the file was chosen.
    pub choice: ChosenPlugin,
    /// Milliseconds in dlopen.
    pub load_ms: f64,
    /// Milliseconds in init.
    pub init_ms: f64,
}
