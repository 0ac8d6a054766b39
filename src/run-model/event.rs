//! Everything that happens in a run, stamped with who and when.
//!
//! One stream. The coordinator writes it to `events.jsonl`, a line each; the
//! progress line, the live view, the rules and every report read it, live or later.
//! What coordinator, agents and workers say to each other is another matter: it is
//! `tcpx-coord`'s own, and converted to these events at its edge.
//!
//! `v1.rs` reads the lines of runs before `tcpxctl.run/2`, `sample.rs` the counters
//! that most of a stream is.
#![forbid(unsafe_code)]

mod sample;
mod v1;

use crate::finding::Finding;
use crate::ids::{NodeId, NodeIntro, PairId, PairIntro, Unit, Who, WorkerId};
use crate::phase::{Exit, Failure, Phase};
use crate::record::live::{Detail, ProcessFacts};
use crate::record::{ChannelNow, Frame, Iteration, PluginRecord};
use crate::results::{ConnectionTimes, Held, MrRow, Preflight, TransferResult};
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
    /// RFC 3339, UTC, when the coordinator learnt of it.
    pub at: String,
    /// Milliseconds since the command started, monotonic.
    pub ms: f64,
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The pair it is about; with a node, that pair's worker there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairId>,
    /// The process it is about, where no run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Which recorder of that process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recorder_number: u32,
    /// The node's own clock when it said so, microseconds since 1970; `clock` of
    /// the node in run.json has the offset to the coordinator's.
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
    /// Who takes part. Comes before anything is said of a node.
    Nodes(Vec<NodeIntro>),
    /// Which workers there will be.
    Pairs(Vec<PairIntro>),
    /// The program travels to a node; never written down.
    Upload {
        /// As its user calls the node.
        to: String,
        /// Bytes so far.
        sent: u64,
        /// Bytes in all.
        all: u64,
    },
    /// A node's agent is there.
    Agent {
        /// Of its program.
        version: String,
        /// Of the agent.
        pid: u32,
        /// What the node is.
        facts: Box<NodeFacts>,
    },
    /// A node's agent cannot go on.
    AgentBroken(String),
    /// The critical checks of a worker's node.
    Preflight(Preflight),
    /// A worker goes on to its next phase.
    Phase(Phase),
    /// Where a worker's recorder is.
    Recorder(PathBuf),
    /// A worker's plugin is loaded and initialised.
    Plugin(Box<PluginReady>),
    /// A worker's bootstrap waits for the other worker here.
    Listening(SocketAddr),
    /// All connections of a worker were made once.
    Handshake(Vec<ConnectionTimes>),
    /// What a worker held before its first handshake and after its last.
    Held {
        /// With the plugin loaded and nothing connected.
        before: Held,
        /// With everything given back.
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
    /// A worker has said all it had to say.
    Finished(LogSummary),
    /// Counters of every channel of a worker.
    Sample(Vec<ChannelNow>),
    /// Channels with requests in flight and no state change for `limits.stall_after`:
    /// counters of all channels of the worker that noticed it.
    Stall(Vec<ChannelNow>),
    /// Channels moved again after a stall.
    Recovered,
    /// Everything around a worker at the moment of a stall; a file of its own.
    Frame(Box<Frame>),
    /// A piece of a worker's recorder, once it has ended; a file of its own.
    RecorderPiece {
        /// Where in the file it belongs.
        offset: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A line that a worker's plugin logged.
    PluginLine(LogLine),
    /// Text that a worker or a login shell printed.
    Output {
        /// `stdout` or `stderr`.
        stream: String,
        /// One line.
        text: String,
    },
    /// A worker is gone.
    Exited(Exit),
    /// The coordinator decided or noticed something.
    Note(String),
    /// What the rules say by now; replaces what they said before.
    Findings(Vec<Finding>),
    /// What a process that was found says of itself.
    Process(ProcessFacts),
    /// One channel closely, for a view; never written down.
    Detail(Box<Detail>),
}

/// A plugin that is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginReady {
    /// Which one.
    #[serde(flatten)]
    pub plugin: PluginRecord,
    /// Its devices, in its order.
    pub devices: Vec<PluginDevice>,
    /// Milliseconds in dlopen.
    pub load_ms: f64,
    /// Milliseconds in init.
    pub init_ms: f64,
}

/// One device of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginDevice {
    /// As channels name it.
    pub index: usize,
    /// Interface.
    pub name: String,
}

impl PluginReady {
    /// `TCPXSoft_v7 v7 0.1.0`, fit for a terminal.
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

    /// Whom it is about.
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

    /// Whether it has a line in `events.jsonl`: files of their own and what only a
    /// view wants have none.
    pub fn is_written(&self) -> bool {
        !matches!(
            self.kind,
            EventKind::Upload { .. }
                | EventKind::Frame(_)
                | EventKind::RecorderPiece { .. }
                | EventKind::Detail(_)
        )
    }

    /// When the coordinator learnt of it, nanoseconds since 1970.
    pub fn at_ns(&self) -> Option<u64> {
        tcpx_words::units::parse_utc_ns(&self.at)
    }

    /// Reads one line of `events.jsonl`, of this version or the one before. `None`
    /// for a line that is neither, or whose news this version has no word for.
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
    fn an_event_is_about_the_same_one_after_it_was_written_and_read() {
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
    fn what_has_maps_in_it_is_read_as_it_was_written() {
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
    fn a_sample_says_so_in_its_first_bytes() {
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
