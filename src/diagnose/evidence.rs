//! What is known of a transfer at one moment, from both ends, as one document.
//!
//! Rules read it and nothing else, so whatever was recorded can be judged again.
//! What is not there is `None`, or is told by [`Evidence::missing`]: that nothing
//! was seen is never taken for nothing being there.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_logs::Severity as LineSeverity;
use tcpx_node::Host;
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Lane, NodeId, PairId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::record::{ChannelNow, Frame};
use tcpx_run_model::scenario::Scenario;
pub(crate) use tcpx_run_model::state::At;
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;

/// Everything that rules look at. Times are milliseconds since it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was to be done; a program of somebody else's has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scenario: Option<Scenario>,
    /// No change for so long is a stall.
    pub(crate) stall_after_ms: u64,
    /// The newest moment that is known of.
    pub now_ms: f64,
    /// Whether a stall was declared, and whether it moved again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stall: Option<Stall>,
    /// How it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    /// Every worker of the run, or the processes that were looked at.
    pub(crate) nodes: Vec<Node>,
    /// What moved, as it was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) moved: Vec<Moved>,
}

/// A stall that was declared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stall {
    /// When.
    pub(crate) at_ms: f64,
    /// It moved again.
    pub(crate) recovered: bool,
}

/// One direction's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The pair that moved it.
    pub(crate) pair: PairId,
    /// Sending node.
    pub(crate) from: NodeId,
    /// Receiving node.
    pub(crate) to: NodeId,
    /// Of the measured iterations.
    pub(crate) bytes: u64,
    /// Of the measured iterations.
    pub(crate) seconds: f64,
}

/// One end: a worker, or a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Which one, and how it is called.
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// What its pair moves bytes for; of a process nothing is known of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lanes: Vec<Lane>,
    /// Where its worker is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
    /// When it got there.
    #[serde(default)]
    pub(crate) phase_ms: f64,
    /// When its counters were taken last; `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampled_ms: Option<f64>,
    /// Its channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) channels: Vec<Channel>,
    /// A call that belongs to no channel and that it is inside of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inside: Option<String>,
    /// Its plugin's lines, by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<Line>,
    /// Lines that its plugin logged, of any kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) logged: Option<u64>,
    /// The plugin's name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// Whose plugin it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) family: Option<PluginFamily>,
    /// Settings by name: as its environment has them, or as the plugin printed them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) settings: BTreeMap<String, String>,
    /// GPUs that its listen comms took, as the plugin printed them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) listened_on_gpus: BTreeSet<u32>,
    /// How its process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<At<Exit>>,
    /// Why it could not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<At<Failure>>,
    /// Bytes compared, and those that were wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<(u64, u64)>,
    /// The first wrong stretch, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mismatch: Option<String>,
    /// The machine below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
    /// Everything around it at the moment of the stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) frame: Option<Box<Frame>>,
}

/// One channel of one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Channel {
    /// Its counters.
    #[serde(flatten)]
    pub(crate) now: ChannelNow,
    /// Interface, where it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) nic: String,
    /// What was seen of it while it stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watched: Option<Watched>,
}

/// A stretch of time in which no request of a channel changed state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// How long it was watched.
    pub(crate) ms: f64,
    /// Tests that returned meanwhile.
    pub(crate) tests: u64,
    /// Posts that returned success and no request meanwhile: "try again".
    #[serde(default, skip_serializing_if = "is_none_of_it")]
    pub(crate) null_requests: u64,
    /// It was inside a call at its begin and at its end, and none returned.
    #[serde(default)]
    pub(crate) in_one_call: bool,
}

/// One kind of line of a plugin's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Its signature in `probes/logs`; a WARN that none knows has none.
    pub(crate) signature: Option<String>,
    /// The signature's.
    pub(crate) severity: LineSeverity,
    /// The first one.
    pub(crate) text: String,
    /// How many.
    pub(crate) count: u64,
    /// When the first came.
    pub(crate) first_ms: f64,
    /// When the last came.
    pub(crate) last_ms: f64,
    /// Where its process was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
}

/// What of a machine decides where bytes go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Which one, and which network stack of it.
    pub(crate) host: Option<Host>,
    /// Its interfaces.
    pub(crate) nics: Vec<Nic>,
    /// PCI root of each GPU, by index.
    pub(crate) gpu_roots: Vec<Option<String>>,
}

/// One interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nic {
    /// Name.
    pub(crate) name: String,
    /// Whether it can carry traffic.
    pub(crate) up: bool,
    /// 10^6 bit per second; `None` where the driver tells none.
    pub(crate) mbit_per_s: Option<u32>,
    /// `pciDDDD:BB`.
    pub(crate) pci_root: Option<String>,
}

fn is_none_of_it(count: &u64) -> bool {
    *count == 0
}

impl Evidence {
    /// Channels with requests in flight and no change for as long as a stall takes.
    pub(crate) fn standing(&self) -> impl Iterator<Item = Spot<'_>> {
        self.spots().filter(|spot| spot.stands())
    }

    /// Every channel with its node.
    pub(crate) fn spots(&self) -> impl Iterator<Item = Spot<'_>> {
        let of = move |node| {
            move |channel| Spot {
                evidence: self,
                node,
                channel,
            }
        };
        self.nodes
            .iter()
            .flat_map(move |node| node.channels.iter().map(of(node)))
    }

    /// Whether something is wrong, or it is not known to be right: what passed
    /// has no channel that stands still.
    pub(crate) fn is_bad(&self) -> bool {
        self.outcome != Some(Outcome::Passed)
    }

    /// The other nodes.
    pub(crate) fn others<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .iter()
            .filter(|other| other.subject != node.subject)
    }

    /// The worker at the other end of a worker's pair.
    pub(crate) fn opposite(&self, node: &Node) -> Option<&Node> {
        let pair = node.subject.pair?;
        let is_other = |other: &&Node| {
            other.subject.pair == Some(pair) && other.subject.node != node.subject.node
        };
        self.nodes.iter().find(is_other)
    }

    /// Both workers of each pair of which both are known.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Node, &Node)> {
        let first = |(node, other): &(&Node, &Node)| node.subject.node < other.subject.node;
        self.nodes
            .iter()
            .filter_map(|node| Some((node, self.opposite(node)?)))
            .filter(first)
    }

    /// The names of the workers or processes.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(Node::name)
    }

    /// How many channels they have.
    pub fn channel_count(&self) -> usize {
        self.spots().count()
    }

    /// What a rule would have liked to see, in words.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.nodes.len() < 2 {
            missing.push("the other end: only one process was looked at".to_owned());
        }
        for node in &self.nodes {
            if node.sampled_ms.is_none() {
                missing.push(format!(
                    "counters of {}: it never wrote a recorder that could be read",
                    node.name()
                ));
            }
            if node.frame.is_none() && self.stall.is_some() {
                missing.push(format!(
                    "sockets, threads and kernel log of {} at the stall",
                    node.name()
                ));
            }
        }
        missing
    }
}

impl Node {
    /// Of which nothing is known but how it is called.
    pub(crate) fn new(subject: Subject) -> Self {
        Self {
            subject,
            lanes: Vec::new(),
            phase: None,
            phase_ms: 0.0,
            sampled_ms: None,
            channels: Vec::new(),
            inside: None,
            lines: Vec::new(),
            logged: None,
            plugin: None,
            family: None,
            settings: BTreeMap::new(),
            listened_on_gpus: BTreeSet::new(),
            exit: None,
            failure: None,
            verified: None,
            mismatch: None,
            machine: None,
            frame: None,
        }
    }

    /// `local`, `peer gpu 3`, `pid 4242`.
    pub(crate) fn name(&self) -> &str {
        &self.subject.name
    }

    /// The one GPU that its pair moves bytes for.
    pub(crate) fn gpu(&self) -> Option<u32> {
        if let [lane] = self.lanes[..] {
            lane.gpu()
        } else {
            None
        }
    }

    /// Lines of a signature.
    pub(crate) fn line(&self, signature: &str) -> Option<&Line> {
        self.lines
            .iter()
            .find(|line| line.signature.as_deref() == Some(signature))
    }

    /// The first line of any of them.
    pub(crate) fn any_line<'a>(&'a self, signatures: &[&str]) -> Option<&'a Line> {
        let is = |line: &&Line| {
            line.signature
                .as_deref()
                .is_some_and(|name| signatures.contains(&name))
        };
        self.lines
            .iter()
            .filter(is)
            .min_by(|a, b| a.first_ms.total_cmp(&b.first_ms))
    }

    /// Its process ended, and nobody had asked for that.
    pub(crate) fn died(&self) -> Option<&At<Exit>> {
        let unasked = |exit: &&At<Exit>| !exit.what.killed && self.failure.is_none();
        self.exit
            .as_ref()
            .filter(unasked)
            .filter(|exit| exit.what.phase != Phase::Finished)
    }
}

impl Channel {
    /// Posted and not yet handed back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.now.posted.saturating_sub(self.now.consumed)
    }

    /// Done and not yet handed back.
    pub(crate) fn done_unconsumed(&self) -> u64 {
        self.now.done.saturating_sub(self.now.consumed)
    }

    /// Whether it sends.
    pub(crate) fn sends(&self) -> bool {
        self.now.side == Side::Send
    }

    /// Tests per second while it stood still; `None`: it was not watched for long enough.
    pub(crate) fn polls_per_s(&self) -> Option<f64> {
        let watched = self
            .watched
            .as_ref()
            .filter(|watched| watched.ms >= WATCHED_MIN_MS)?;
        Some(watched.tests as f64 * 1e3 / watched.ms)
    }

    /// Nothing is in flight because the plugin has no request for what is posted:
    /// it answers "try again", and has all the time that it was watched.
    pub(crate) fn is_put_off(&self) -> bool {
        let meanwhile = self.watched.map_or(0, |watched| watched.null_requests);
        self.in_flight() == 0
            && (meanwhile > 0 || (self.now.posted == 0 && self.now.null_requests > 0))
    }

    /// The one call that it has been inside of all the time.
    pub(crate) fn stuck_in(&self) -> Option<&str> {
        let stuck = self
            .watched
            .is_some_and(|watched| watched.in_one_call && watched.tests == 0);
        self.now.in_call.as_deref().filter(|_| stuck)
    }

    /// The last call that failed had this name and code.
    pub(crate) fn failed_with(&self, calls: &[&str], code: i32) -> bool {
        self.now
            .last_error
            .as_ref()
            .is_some_and(|(call, rc)| calls.contains(&call.as_str()) && *rc == code)
    }
}

/// A rate needs some time to be one.
const WATCHED_MIN_MS: f64 = 150.0;

/// A channel where it is.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    evidence: &'a Evidence,
    /// Its node.
    pub(crate) node: &'a Node,
    /// The channel.
    pub(crate) channel: &'a Channel,
}

impl<'a> Spot<'a> {
    /// Requests are in flight, and nothing has changed for as long as a stall takes.
    pub(crate) fn stands(&self) -> bool {
        let one = &self.channel.now;
        let long =
            one.quiet_ms >= self.evidence.stall_after_ms || self.channel.stuck_in().is_some();
        self.evidence.is_bad() && !one.closed && self.channel.in_flight() > 0 && long
    }

    /// The channel at the other end of its connection: by their addresses, or by
    /// their number in one pair of a run.
    pub(crate) fn other_end(&self) -> Option<Spot<'a>> {
        let opposite = self.evidence.opposite(self.node).map(|node| &node.subject);
        let meet =
            |from: &ChannelNow, to: &ChannelNow| from.peer.is_some() && from.peer == to.local;
        let (this, evidence) = (&self.channel.now, self.evidence);
        let is = |other: &Spot<'_>| {
            let that = &other.channel.now;
            let same_pair = opposite == Some(&other.node.subject) && that.index == this.index;
            that.side != this.side
                && other.node.subject != self.node.subject
                && (meet(this, that) || meet(that, this) || same_pair)
        };
        evidence.spots().find(is)
    }

    /// The other channels of its process.
    pub(crate) fn siblings(&self) -> impl Iterator<Item = &'a Channel> {
        let this = self.channel;
        self.node
            .channels
            .iter()
            .filter(move |other| !std::ptr::eq(*other, this))
    }

    /// Whether another channel of its process got further: it moves, or it is
    /// through with what this one is not.
    pub(crate) fn is_behind(&self, other: &Channel) -> bool {
        let stands = Spot {
            channel: other,
            ..*self
        }
        .stands();
        !stands && other.now.done > self.channel.now.done && other.now.side == self.channel.now.side
    }

    /// `peer recv 1 on eth2`.
    pub(crate) fn name(&self) -> String {
        let nic = if self.channel.nic.is_empty() {
            String::new()
        } else {
            format!(" on {}", self.channel.nic)
        };
        format!(
            "{} {} {}{nic}",
            self.node.name(),
            self.channel.now.side,
            self.channel.now.index
        )
    }

    /// Its counters in words.
    pub(crate) fn counters(&self) -> String {
        let one = &self.channel.now;
        let handed_back = if self.channel.sends() {
            String::new()
        } else {
            format!(", consumed {}", one.consumed)
        };
        let polled = match self.channel.polls_per_s() {
            Some(rate) => format!(", tested {rate:.0} times/s"),
            None => String::new(),
        };
        format!(
            "{}: posted {}, done {}{handed_back}, quiet for {:.1} s{polled}",
            self.name(),
            one.posted,
            one.done,
            one.quiet_ms as f64 / 1e3
        )
    }
}
