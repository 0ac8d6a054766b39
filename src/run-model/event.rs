//! The events of a run, each with its time and the node, pair or worker it is about.
//!
//! The coordinator writes them to `events.jsonl`, one per line. The progress line, the live
//! view, the rules and every report read that one stream, live or later. The messages between
//! coordinator, agents and workers are private to `tcpx-coord`, whose `edge.rs` converts them
//! to these events.
//!
//! `v1.rs` reads event lines of `tcpxctl.run/1`. `sample.rs` reads counter samples, which make
//! up most of a stream.
#![forbid(unsafe_code)]

mod sample;
mod v1;

use crate::counters::{ChannelDetail, ProcessFacts};
use crate::counters::{ChannelNow, Frame};
use crate::finding::Finding;
use crate::ids::{NodeId, NodeIntro, PairId, PairIntro, Unit, Who, WorkerId};
use crate::phase::{Exit, Failure, Phase};
use crate::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
use crate::results::{Iteration, PluginRecord};
pub use sample::{SampleLine, is_sample};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use tcpx_node::NodeFacts;
use tcpx_words::log::{LogLine, LogSummary};
pub(crate) use v1::node_of as node_of_v1;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When the coordinator received it: RFC 3339, UTC.
    pub at: String,
    /// Milliseconds since the command started, monotonic.
    pub ms: f64,
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The pair it is about; together with `node`, that pair's worker on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairId>,
    /// The process it is about, if no run started that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of the recorder within that process, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recorder_number: u32,
    /// The node's own clock when its agent sent the event, microseconds since 1970. `clock`
    /// of the node in run.json has the offset to the coordinator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_us: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The nodes of the run. Precedes every other event about a node.
    Nodes(Vec<NodeIntro>),
    /// The pairs of workers that the run starts.
    Pairs(Vec<PairIntro>),
    /// Progress of copying the program to a node; not written to `events.jsonl`.
    Upload {
        /// The node, as the user named it.
        to: String,
        /// Bytes sent so far.
        sent: u64,
        /// Bytes to send in total.
        all: u64,
    },
    /// A node's agent has started and reported.
    Agent {
        /// Version of the agent's tcpxctl.
        version: String,
        /// Process id of the agent.
        pid: u32,
        /// Facts of the node: NICs, GPUs, NUMA, limits, environment.
        facts: Box<NodeFacts>,
    },
    /// A node's agent failed, and why.
    AgentBroken(String),
    /// The stream of a node's agent ended while the agent was needed, and the agent said nothing of it.
    AgentGone,
    /// A node's agent has stopped answering: its process, on this machine, is stopped.
    AgentStopped {
        /// Process id of the agent.
        pid: u32,
    },
    /// Result of the critical checks on a worker's node.
    Preflight(Preflight),
    /// A worker entered this phase.
    Phase(Phase),
    /// Path of a worker's recorder file on its node.
    Recorder(PathBuf),
    /// A worker's plugin is loaded and initialised.
    Plugin(Box<PluginReady>),
    /// A worker listens here for the other worker's bootstrap connection.
    Listening(SocketAddr),
    /// A worker connected all its channels once.
    Handshake(Vec<ConnectionTimes>),
    /// Descriptors and threads of a worker before its first handshake and after its last.
    Held {
        /// With the plugin loaded and nothing connected.
        before: Held,
        /// With every comm closed.
        after: Held,
    },
    /// A worker's registration sweep.
    Registrations(Vec<MrRow>),
    /// An iteration of a worker ended.
    Iteration(Iteration),
    /// A worker's transfer ended, complete or not.
    Transfer(Box<TransferResult>),
    /// A worker could not complete its task.
    Failed(Failure),
    /// A worker's last message, with the totals of its plugin's log.
    Finished(LogSummary),
    /// Counters of every channel of a worker.
    Sample(Vec<ChannelNow>),
    /// Channels with requests in flight and no state change for `limits.stall_after`:
    /// counters of all channels of the worker whose agent declared the stall.
    Stall(Vec<ChannelNow>),
    /// Channels moved again after a stall.
    Recovered,
    /// Freeze-frame of a worker at a stall; written to a file of its own.
    Frame(Box<Frame>),
    /// Part of a worker's recorder file, sent after the worker ended; written to a file of
    /// its own.
    RecorderPiece {
        /// Offset in the recorder file, bytes.
        offset: u64,
        /// Contents from `offset` on.
        bytes: Vec<u8>,
    },
    /// A line that a worker's plugin logged.
    PluginLine(LogLine),
    /// Text that a worker or a login shell printed, or, of the run, the program that started the agents.
    Output {
        /// `stdout`, `stderr`, `login`, or `launcher`.
        stream: String,
        /// One line.
        text: String,
    },
    /// A worker process ended.
    Exited(Exit),
    /// A decision or an observation of the coordinator.
    Note(String),
    /// All current findings; they replace the previous ones.
    Findings(Vec<Finding>),
    /// Role, plugin and NICs of a process that was found by its recorder.
    Process(ProcessFacts),
    /// Requests, events and sockets of one channel, for a view; not written to
    /// `events.jsonl`.
    Detail(Box<ChannelDetail>),
}

/// A plugin that is loaded and initialised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginReady {
    /// File, name, version and why it was chosen.
    #[serde(flatten)]
    pub plugin: PluginRecord,
    /// The plugin's devices, by the plugin's index.
    pub devices: Vec<PluginDevice>,
    /// Milliseconds in dlopen.
    pub load_ms: f64,
    /// Milliseconds in init.
    pub init_ms: f64,
}

/// One device of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginDevice {
    /// The plugin's device number, which `ChannelNow::device` refers to.
    pub index: usize,
    /// Interface name.
    pub name: String,
}

impl PluginReady {
    /// `TCPXSoft_v7 v7 0.1.0`, without control characters.
    pub fn title(&self) -> String {
        let version = self.plugin.version.as_deref().unwrap_or_default();
        let title = format!("{} v{} {version}", self.plugin.name, self.plugin.abi);
        tcpx_words::units::printable(title.trim_end())
    }
}

impl Event {
    /// What happened to `who`, `ms` milliseconds after the command started.
    pub fn new(ms: f64, who: Who, kind: EventKind) -> Self {
        let (node, unit) = match who {
            Who::Run => (None, None),
            Who::Pair(pair) => (None, Some(Unit::Pair(pair))),
            Who::Node(node) => (Some(node), None),
            Who::Worker(worker) => (Some(worker.node), Some(worker.unit)),
        };
        let (pair, pid, recorder_number) = match unit {
            Some(Unit::Pair(pair)) => (Some(pair), None, 0),
            Some(Unit::Process { pid, recorder }) => (None, Some(pid), recorder),
            None => (None, None, 0),
        };
        Self {
            at: tcpx_words::units::now_utc(),
            ms,
            node,
            pair,
            pid,
            recorder_number,
            node_us: None,
            kind,
        }
    }

    /// The run, pair, node or worker it is about.
    pub fn who(&self) -> Who {
        let unit = match (self.pair, self.pid) {
            (Some(pair), _) => Some(Unit::Pair(pair)),
            (None, Some(pid)) => Some(Unit::Process {
                pid,
                recorder: self.recorder_number,
            }),
            (None, None) => None,
        };
        match (self.node, unit) {
            (Some(node), Some(unit)) => Who::Worker(WorkerId { node, unit }),
            (Some(node), None) => Who::Node(node),
            (None, Some(Unit::Pair(pair))) => Who::Pair(pair),
            (None, _) => Who::Run,
        }
    }

    /// The worker it is about, if it is about one.
    pub fn worker(&self) -> Option<WorkerId> {
        match self.who() {
            Who::Worker(worker) => Some(worker),
            Who::Run | Who::Pair(_) | Who::Node(_) => None,
        }
    }

    /// Whether it is written to `events.jsonl`: not what has a file of its own, nor what only a
    /// live view uses.
    pub fn is_written(&self) -> bool {
        !matches!(
            self.kind,
            EventKind::Upload { .. }
                | EventKind::Frame(_)
                | EventKind::RecorderPiece { .. }
                | EventKind::Detail(_)
        )
    }

    /// When the coordinator received it, nanoseconds since 1970.
    pub fn at_ns(&self) -> Option<u64> {
        tcpx_words::units::parse_utc_ns(&self.at)
    }

    /// Reads one line of `events.jsonl`, of this version or version 1. `None` for a line that is
    /// neither, or of a kind that this build does not know.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let sample = if is_sample(line) {
            sample::parse(line)
        } else {
            None
        };
        sample
            .or_else(|| serde_json::from_slice(line).ok())
            .or_else(|| v1::parse(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_written_and_read_back_is_about_the_same_worker() {
        let process = WorkerId {
            node: NodeId(0),
            unit: Unit::Process {
                pid: 7,
                recorder: 2,
            },
        };
        let worker = WorkerId::of_pair(NodeId(1), PairId(3));
        for who in [
            Who::Run,
            Who::Pair(PairId(2)),
            Who::Node(NodeId(1)),
            Who::Worker(worker),
            Who::Worker(process),
        ] {
            let event = Event::new(1.5, who, EventKind::Recovered);
            let line = serde_json::to_vec(&event).expect("JSON");
            let read = Event::parse(&line).expect("an event");
            assert_eq!(
                (read.who(), &read),
                (who, &event),
                "{}",
                String::from_utf8_lossy(&line)
            );
        }
    }

    #[test]
    fn events_with_maps_survive_writing_and_reading() {
        let facts = ProcessFacts {
            nics: [(0, "eth1".into()), (-1, "?".into())].into(),
            ..ProcessFacts::default()
        };
        let node = Box::new(NodeFacts::read(&tcpx_node::fixture::a3_high().root));
        let agent = EventKind::Agent {
            version: "1".into(),
            pid: 7,
            facts: node,
        };
        for kind in [EventKind::Process(facts), agent] {
            let event = Event::new(1.0, Who::Node(NodeId(0)), kind);
            let line = serde_json::to_vec(&event).expect("JSON");
            assert_eq!(
                Event::parse(&line).as_ref(),
                Some(&event),
                "{}",
                String::from_utf8_lossy(&line)
            );
        }
    }

    #[test]
    fn a_sample_is_recognised_by_its_first_bytes() {
        let event = Event {
            node_us: Some(7),
            ..Event::new(
                1.0,
                Who::Worker(WorkerId::of_pair(NodeId(1), PairId(0))),
                EventKind::Sample(vec![]),
            )
        };
        let line = serde_json::to_string(&event).expect("JSON");
        assert!(
            line.contains(r#""node":1,"pair":0,"node_us":7,"sample":["#),
            "{line}"
        );
    }
}
