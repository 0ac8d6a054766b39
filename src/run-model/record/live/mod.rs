//! What a live view is told, wherever it comes from: recorder files of this
//! machine, the event stream of a run, an agent on another node.
//!
//! Updates are data, so they travel over the control stream as they are. Times
//! are nanoseconds since 1970 by the clock of whoever passes them on.
//!
//! `recorders.rs` makes them of recorder files, `detail.rs` looks at one channel
//! closely. Not here: keeping them; `watch` does.
#![forbid(unsafe_code)]

mod detail;
mod recorders;

pub use recorders::{Recorders, Which};

use super::{ChannelNow, Finding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tcpx_words::units::printable;

/// One thing that a view learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// What is looked at.
    Title(Title),
    /// A node, in full; replaces what was said of it.
    Node {
        /// `local`, `peer gpu 3`, `pid 4242`: told apart by it.
        node: String,
        /// What it is.
        facts: NodeNow,
    },
    /// Counters of every channel of a node.
    Sample {
        /// Whose.
        node: String,
        /// When they were taken.
        at_ns: u64,
        /// Sends first.
        channels: Vec<ChannelNow>,
    },
    /// A line for the log.
    Line(Line),
    /// A node's worker goes on to another phase.
    Phase {
        /// Whose.
        node: String,
        /// When.
        at_ns: u64,
        /// In words.
        phase: String,
    },
    /// Iterations of a node that have ended.
    Iterations {
        /// Whose.
        node: String,
        /// Warm-up included.
        done: u32,
    },
    /// Bytes that a node compared with what they should be.
    Verified {
        /// Whose.
        node: String,
        /// Compared.
        bytes: u64,
        /// Of them wrong.
        wrong: u64,
    },
    /// One channel, closely.
    Detail(Box<Detail>),
    /// What the rules say by now; replaces what they said before.
    Findings(Vec<Finding>),
    /// Nothing more comes.
    Ended {
        /// When.
        at_ns: u64,
        /// How, in a word: `passed`, `stalled`, ...
        outcome: String,
        /// Why, where it is not a pass.
        reason: Option<String>,
    },
}

impl Update {
    /// What the agent of an end said of its node, as this machine has it: the
    /// end's name in front, times by this machine's clock, which the node's is
    /// `ahead_us` ahead of, and text made safe. `None` for what no agent says.
    pub fn seen_from_here(self, end: &str, ahead_us: i64) -> Option<Self> {
        let named = |node: String| format!("{end} {}", printable(&node)).trim_end().to_owned();
        let moved = |at_ns: u64| at_ns.saturating_add_signed(ahead_us.saturating_neg().saturating_mul(1000));
        Some(match self {
            Self::Node { node, facts } => Self::Node { node: named(node), facts: facts.cleaned() },
            Self::Sample { node, at_ns, channels } => {
                let channels = channels.into_iter().take(CHANNELS_MAX).collect();
                Self::Sample { node: named(node), at_ns: moved(at_ns), channels }
            }
            Self::Line(line) => Self::Line(Line {
                node: named(line.node),
                at_ns: moved(line.at_ns),
                kind: line.kind,
                text: printable(&line.text),
            }),
            Self::Detail(mut detail) => {
                detail.channel.node = named(detail.channel.node);
                detail.at_ns = moved(detail.at_ns);
                Self::Detail(detail)
            }
            _ => return None,
        })
    }
}

/// Channels of one node that are taken from elsewhere.
const CHANNELS_MAX: usize = 65_536;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Title {
    /// The scenario's name, the program's, or where the recorders are.
    pub name: String,
    /// When it began.
    pub started_ns: u64,
    /// Iterations that are meant, warm-up included; 0 where there are none.
    pub iterations: u32,
    /// No state change for so long is a stall.
    pub stall_after_ms: u64,
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeNow {
    /// The machine's name, or the user's word for it.
    pub host: String,
    /// What drives the channels: `TCPXSoft_v7 v7 0.1.0`.
    pub plugin: String,
    /// Interface of each plugin device.
    pub nics: BTreeMap<i64, String>,
    /// How it ended, once it has.
    pub ended: Option<String>,
    /// The call that belongs to no channel (`init`, `connect`, ...) it is inside of.
    #[serde(default)]
    pub inside: Option<String>,
}

impl NodeNow {
    fn cleaned(self) -> Self {
        Self {
            host: printable(&self.host),
            plugin: printable(&self.plugin),
            nics: self.nics.into_iter().map(|(device, name)| (device, printable(&name))).collect(),
            ended: self.ended.map(|how| printable(&how)),
            inside: self.inside.map(|call| printable(&call)),
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Who said it.
    pub node: String,
    /// When.
    pub at_ns: u64,
    /// How much it matters.
    pub kind: LineKind,
    /// Clean text.
    pub text: String,
}

/// Where a line comes from, and how much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// The plugin warns.
    Warning,
    /// The plugin tells.
    Plugin,
    /// A process printed it.
    Output,
    /// The coordinator or the agent noticed something.
    Note,
}

/// Which channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChannelKey {
    /// Its node.
    pub node: String,
    /// `send` or `recv`.
    pub side: String,
    /// Index within its direction.
    pub index: usize,
}

impl ChannelKey {
    /// As the agent of an end knows it: the reverse of [`Update::seen_from_here`].
    /// `None` for a channel of the other end.
    pub fn seen_from_there(&self, end: &str) -> Option<Self> {
        let rest = self.node.strip_prefix(end)?;
        let node = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
        Some(Self { node: node.to_owned(), ..self.clone() })
    }
}

/// One channel, as closely as it can be seen from where its recorder lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Which.
    pub channel: ChannelKey,
    /// When it was looked at.
    pub at_ns: u64,
    /// Requests in flight, oldest first.
    pub requests: Vec<RequestDetail>,
    /// The last calls that changed something, oldest first.
    pub events: Vec<EventDetail>,
    /// Non-empty buckets of post-to-done times: first nanosecond, first beyond, count.
    pub latency: Vec<(u64, u64, u64)>,
    /// Sockets behind it, or why they cannot be told.
    pub sockets: Result<Vec<tcpx_node::TcpSocket>, String>,
    /// Counters of its NIC by name.
    pub nic: Vec<(String, u64)>,
}

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestDetail {
    /// Counted from 0.
    pub number: u64,
    /// `p` posted, `d` done, `u` unpacked.
    pub stage: char,
    /// As posted.
    pub bytes: u64,
    /// Since it was posted.
    pub age_us: u64,
}

/// A call that changed something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventDetail {
    /// How long ago.
    pub ago_us: u64,
    /// `posted`, `done`, ...
    pub what: String,
    /// In which call.
    pub call: String,
    /// What the call returned.
    pub rc: i32,
    /// The request's number, as far as it is told apart.
    pub request: u32,
    /// Bytes, or for a call without a request nanoseconds.
    pub value: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_says_is_named_moved_to_our_clock_and_made_safe() {
        let line = Line { node: "pid 7".into(), at_ns: 5_000_000, kind: LineKind::Plugin, text: "a\x1b[2Jb".into() };
        let Some(Update::Line(line)) = Update::Line(line).seen_from_here("peer", 2000) else { panic!("no line") };
        assert_eq!((line.node.as_str(), line.at_ns, line.text.as_str()), ("peer pid 7", 3_000_000, "a[2Jb"));
        let facts = NodeNow { plugin: "x\x07".into(), ..NodeNow::default() };
        let node = Update::Node { node: "pid 7".into(), facts }.seen_from_here("peer", 0);
        assert!(matches!(node, Some(Update::Node { facts, .. }) if facts.plugin == "x"));
        let channel = ChannelKey { node: String::new(), side: "recv".into(), index: 0 };
        let (requests, events, latency, sockets, nic) =
            (Vec::new(), Vec::new(), Vec::new(), Ok(Vec::new()), Vec::new());
        let detail = Box::new(Detail { channel, at_ns: 5_000_000, requests, events, latency, sockets, nic });
        let detail = Update::Detail(detail).seen_from_here("peer", 2000);
        assert!(matches!(detail, Some(Update::Detail(one)) if one.channel.node == "peer" && one.at_ns == 3_000_000));
        let ended = Update::Ended { at_ns: 1, outcome: "passed".into(), reason: None };
        assert_eq!(ended.seen_from_here("peer", 0), None);
    }

    #[test]
    fn a_channel_is_known_to_its_own_end_by_what_that_calls_it() {
        let key = |node: &str| ChannelKey { node: node.into(), side: "recv".into(), index: 3 };
        for (here, there) in [("peer", ""), ("peer gpu 3", "gpu 3"), ("peer pid 7", "pid 7")] {
            assert_eq!(key(here).seen_from_there("peer"), Some(key(there)), "{here}");
            assert_eq!(key(here).seen_from_there("local"), None);
        }
        assert_eq!(key("peers").seen_from_there("peer"), None);
    }
}
