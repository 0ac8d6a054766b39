//! What coordinator, agent and worker say to each other, as data.
//!
//! Coordinator and agent: one JSON document per line over the agent's stdin and
//! stdout. Agent and worker: the same over an inherited socket. A line that is
//! no message before the first message is a banner of some login shell, and is
//! passed on as text.
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
use tcpx_node::doctor::{Facts, ProbedRails};
use tcpx_node::plugin_files::{Choice, FileFacts, LoadError};
use tcpx_run_model::event::Event;
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::record::live::{ChannelKey, RecorderFilter};
use tcpx_run_model::record::{ChannelNow, Frame, Iteration};
use tcpx_run_model::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
use tcpx_run_model::scenario::{CpuSet, PluginChoice, ProcessFault, Scenario};
use tcpx_words::error::NextStep;
use tcpx_words::log::{LogLine, LogSummary};

/// Version of everything in this file.
pub(crate) const PROTOCOL: u32 = 7;

/// To an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// Say which plugin this means on your node, and where else you looked.
    Choose(PluginChoice),
    /// Start a worker; one per number at a time.
    Launch(Box<Launch>),
    /// Pass on to the worker.
    ToWorker(ToWorker),
    /// End the worker: ask, and kill what has not ended after `grace_ms`.
    Stop {
        /// Milliseconds between asking and killing.
        grace_ms: u64,
    },
    /// Answer with a `Sample` of every channel now.
    Snapshot,
    /// Answer with a `Frozen`, soon: everything around the worker at this moment.
    Freeze,
    /// From now on tell what recorders of this node show, twenty times a second.
    /// Of files that are named, whose counters come anyway, only the close look.
    Watch {
        /// Which recorders.
        which: RecorderFilter,
        /// This channel closely.
        closely: Option<ChannelKey>,
    },
    /// Once a second, so that silence means something; it is echoed.
    Heartbeat {
        /// The coordinator's clock, microseconds since 1970.
        us: u64,
    },
}

/// A worker to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Environment on top of the agent's own.
    pub env: BTreeMap<String, String>,
    /// Work for it.
    pub task: Task,
    /// No state change for this long is a stall.
    pub stall_after_ms: u64,
    /// What is to happen to it.
    pub fault: Option<ProcessOrder>,
}

/// Something that is to happen to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessOrder {
    /// What.
    pub kind: ProcessFault,
    /// Once it has so many chunks done.
    pub after_chunk: u64,
}

/// From an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// First message.
    Hello {
        /// [`PROTOCOL`]
        protocol: u32,
        /// Of the agent's program.
        version: String,
        /// Of the agent.
        pid: u32,
        /// What the node is.
        facts: Box<NodeFacts>,
        /// The node's own address of the ssh connection that brought us here,
        /// as its sshd tells.
        reached_at: Option<IpAddr>,
    },
    /// Answer to `Choose`.
    Chosen(Result<Choice, NoPlugin>),
    /// Answer to `Heartbeat`.
    Echo {
        /// As it was sent.
        us: u64,
    },
    /// From the worker.
    Worker(FromWorker),
    /// Counters of every channel of the worker.
    Sample(Vec<ChannelNow>),
    /// Channels with requests in flight and no state change for `stall_after`.
    Stall(Vec<ChannelNow>),
    /// Channels moved again after a `Stall`.
    Recovered,
    /// Everything around the worker; answer to `Freeze`.
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
    /// A piece of the worker's recorder file, once the worker has ended. What no
    /// piece covers is zero.
    Recording {
        /// Where in the file it belongs.
        offset: u64,
        /// Its bytes.
        base64: String,
    },
    /// What recorders of this node show, since a `Watch`.
    Watched(Vec<Event>),
    /// The worker is gone.
    Exited(Exit),
    /// The agent cannot go on.
    Broken(String),
    /// Once a second.
    Heartbeat,
}

/// A message with the clock of the agent's node, microseconds since 1970, and
/// the number of the worker that it is about.
pub(crate) type Stamped = (u64, u32, FromAgent);

/// A message with the number of the worker that it is for; what is for the agent
/// itself has any.
pub(crate) type Addressed = (u32, ToAgent);

/// Workers of one agent: GPUs of one node, with room.
pub(crate) const WORKERS_MAX: u32 = 64;

/// No plugin of that name on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoPlugin {
    /// What is wrong.
    pub why: String,
    /// What to do.
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

/// To a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToWorker {
    /// Its work; first message, once.
    Start(Box<Task>),
    /// Where the peer's worker listens.
    PeerListens(SocketAddr),
    /// Everyone who measures at the same time has warmed up: measure.
    Measure,
    /// Drain if possible, then end.
    Stop,
    /// Call exit, as a plugin may: a fault that was asked for.
    Exit,
}

/// What a worker can be asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Load, init, list devices.
    Probe {
        /// Which plugin.
        plugin: Choice,
    },
    /// List the GPUs as CUDA does; loads no plugin.
    Gpus,
    /// One row of the contract suite.
    Contract {
        /// Which plugin.
        plugin: Choice,
        /// Row id.
        row: String,
    },
    /// One end of a pair.
    Pair(Box<PairTask>),
    /// Read everything of the node that `doctor` judges; loads no plugin.
    Examine(Box<Examine>),
}

/// What to look at on another node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Examine {
    /// Whether it is to run Google's plugin.
    pub tcpx: bool,
    /// The plugin in question; without it every file that could be meant.
    pub plugin: Option<PathBuf>,
    /// Sockets that the other node opened, to be tried from here.
    pub offer: Option<Offer>,
}

/// What another node was found to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Examined {
    /// Its facts.
    pub facts: Facts,
    /// What came of the offer.
    pub tried: Option<ProbedRails>,
}

/// One end of a pair: connect, then `work`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairTask {
    /// Which plugin.
    pub plugin: Choice,
    /// The GPUs whose messages it moves, in the scenario's order; `None` alone is
    /// a pair of hosts. Each has a bootstrap connection and channels of its own.
    pub gpus: Vec<Option<u32>>,
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

/// From a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromWorker {
    /// It goes on to the next phase.
    Phase(Phase),
    /// Where its recorder is.
    Recorder(std::path::PathBuf),
    /// The plugin is loaded and initialised.
    Loaded(Box<Loaded>),
    /// Its bootstrap listens here.
    Listening(SocketAddr),
    /// One iteration ended.
    Iteration(Iteration),
    /// One handshake of all connections ended.
    Handshake(Vec<ConnectionTimes>),
    /// What the process held before the first handshake and after the last,
    /// complete or not.
    Held {
        /// With the plugin loaded and nothing connected.
        before: Held,
        /// With everything given back.
        after: Held,
    },
    /// The registration sweep.
    Mr(Vec<MrRow>),
    /// The GPUs as CUDA lists them, or why it lists none.
    Gpus(Result<CudaNode, String>),
    /// The critical checks of its node.
    Preflight(Preflight),
    /// Its node, examined.
    Examined(Box<Examined>),
    /// A row of the contract suite.
    Contract(ContractRow),
    /// A transfer ended, complete or not.
    Transfer(Box<TransferResult>),
    /// The task could not be completed.
    Failed(Failure),
    /// Nothing more comes.
    Finished(LogSummary),
}

/// A plugin that is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The file; `None` for the one linked in.
    pub file: Option<FileFacts>,
    /// The table's symbol.
    pub symbol: String,
    /// Every ncclNet symbol it exports.
    pub exports: Vec<String>,
    /// What the table says.
    pub about: About,
    /// The version line it logged, as far as one was recognised.
    pub version: Option<String>,
    /// In the plugin's order.
    pub devices: Vec<Device>,
    /// How it was found.
    pub choice: Choice,
    /// Milliseconds in dlopen and in init.
    pub load_ms: f64,
    /// See `load_ms`.
    pub init_ms: f64,
}
