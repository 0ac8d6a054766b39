//! What is known of a transfer at one moment, from both ends, as one document.
//!
//! Rules read evidence and nothing else, so a recorded run can be judged again. What is
//! unknown is `None` or listed by [`Evidence::missing`]: a rule never takes missing data
//! for a zero.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_logs::Severity as LineSeverity;
use tcpx_node::{Host, NicDown};
use tcpx_run_model::counters::{ChannelNow, ConnectingFacts, Frame, NetworkUse, SetupCalls};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Lane, NodeId, PairId};
use tcpx_run_model::phase::{Exit, Failure, Phase, asks_to_end};
use tcpx_run_model::scenario::Scenario;
use tcpx_run_model::state::STALL_AFTER_MS;
pub(crate) use tcpx_run_model::state::Timed;
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::side::Side;
use tcpx_words::units::counted;

/// Everything that rules look at. Times are milliseconds since the command started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The scenario of the run; `None` for a program that tcpxctl did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scenario: Option<Scenario>,
    /// Milliseconds without a change that are a stall.
    pub(crate) stall_after_ms: u64,
    /// The newest moment that is known.
    pub now_ms: f64,
    /// The last stall that was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stall: Option<EvidenceStall>,
    /// How the run ended; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    /// Every worker of the run, or every process that was inspected.
    pub(crate) nodes: Vec<EvidenceNode>,
    /// The agents of a run in which an agent ended early or was stopped, or whose launcher printed something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<EvidenceAgent>,
    /// What the program that started the agents printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) launcher_said: Vec<Said>,
    /// Measured transfers, one per direction of a pair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) moved: Vec<Moved>,
    /// Files of the run that are there and cannot be read, or only in part, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// The agent of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceAgent {
    /// The node.
    pub(crate) node: NodeId,
    /// Its name.
    pub(crate) name: String,
    /// When it ended, and why, as it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Said>,
    /// When it ended without a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gone_ms: Option<f64>,
    /// When it was found stopped, and its process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<StoppedAgent>,
}

/// An agent whose process is stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoppedAgent {
    /// When that was seen.
    pub(crate) at_ms: f64,
    /// Its process id.
    pub(crate) pid: u32,
}

/// Words with their time. A `Timed` has no place of its own for a text when it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// Milliseconds since the command started.
    pub(crate) at_ms: f64,
    /// The words.
    pub(crate) text: String,
}

impl From<&Timed<String>> for Said {
    fn from(said: &Timed<String>) -> Self {
        Self {
            at_ms: said.at_ms,
            text: said.what.clone(),
        }
    }
}

impl EvidenceAgent {
    /// When it ended, and why.
    pub(crate) fn ended(&self) -> Option<(f64, &str)> {
        let left = self.left.as_ref();
        let left = left.map(|why| (why.at_ms, why.text.as_str()));
        left.or(self.gone_ms.map(|at_ms| (at_ms, "it said nothing")))
    }
}

/// A stall that was declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceStall {
    /// When.
    pub(crate) at_ms: f64,
    /// Requests changed state again afterwards.
    pub(crate) recovered: bool,
    /// A worker that waited for a CPU for nearly all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) starved: Option<Starved>,
}

/// A worker that waited for a CPU while its channels stood still.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Starved {
    /// `local`, `peer gpu 3`.
    pub(crate) name: String,
    /// For how long its channels stood still.
    pub(crate) quiet_ms: u64,
    /// For how long of that a thread of its process waited for a CPU.
    pub(crate) no_cpu_ms: u64,
}

/// The measured bytes of one direction of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The pair that moved it.
    pub(crate) pair: PairId,
    /// Sending node.
    pub(crate) from: NodeId,
    /// Receiving node.
    pub(crate) to: NodeId,
    /// Bytes of the measured iterations.
    pub(crate) bytes: u64,
    /// Seconds of the measured iterations.
    pub(crate) seconds: f64,
}

/// One end: a worker, or a process that tcpxctl did not start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceNode {
    /// Its ids and its printed name.
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// Host memory or GPUs that its pair moves bytes for; empty for a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lanes: Vec<Lane>,
    /// The phase of its worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
    /// When the phase began.
    #[serde(default)]
    pub(crate) phase_ms: f64,
    /// When its counters were last taken; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampled_ms: Option<f64>,
    /// Its channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) channels: Vec<EvidenceChannel>,
    /// It is a process that is gone; with how it ended, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gone: Option<Gone>,
    /// Its set-up calls, if it is a process that is gone or that has entered and left none for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) setup: Option<SetupCalls>,
    /// When one of them was last entered or returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) setup_ms: Option<f64>,
    /// The call it is inside of, if that call belongs to no channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inside: Option<String>,
    /// When that call was entered, or was seen first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inside_since_ms: Option<f64>,
    /// A `connect` that has given no comm for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connecting: Option<ConnectingFacts>,
    /// When it was called first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connecting_ms: Option<f64>,
    /// Lines of its plugin's log, by signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<SignatureLines>,
    /// The last line that its process printed, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_printed: Option<String>,
    /// Of the time in which its threads could have run while the transfer was measured, the share in which they waited
    /// for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) without_cpu: Option<f64>,
    /// Number of lines that its plugin logged below WARN, which NCCL_DEBUG=WARN would leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) logged: Option<u64>,
    /// The plugin's name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// Interfaces that the plugin uses, by its own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) devices: Vec<String>,
    /// Which family the plugin belongs to.
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
    pub(crate) exit: Option<Timed<Exit>>,
    /// The failure that its worker reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Timed<Failure>>,
    /// Bytes compared, and those that were wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<(u64, u64)>,
    /// The first wrong stretch, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mismatch: Option<String>,
    /// Interfaces and GPUs of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<EvidenceMachine>,
    /// The freeze-frame of the stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) frame: Option<Box<Frame>>,
    /// Freeze-frames before the last movement, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier_frames: Vec<Frame>,
    /// Its connections and interfaces at the end of its transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<NetworkUse>,
}

/// A process that is gone, of which a recording is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// How it ended; `None` if the recording does not tell when, so that nothing is known of the
    /// time after the last change.
    pub(crate) how: Option<String>,
    /// Number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
}

/// One channel of one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceChannel {
    /// Its counters.
    #[serde(flatten)]
    pub(crate) now: ChannelNow,
    /// Interface; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) nic: String,
    /// What happened since a request last changed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watched: Option<Watched>,
}

/// A stretch of time in which no request of a channel changed state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// Length of the stretch in milliseconds.
    pub(crate) ms: f64,
    /// Calls of `test` that returned in it.
    pub(crate) tests: u64,
    /// How many of these may have returned before it: a recording notes the time of few.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) tests_in_doubt: u64,
    /// Of its looks, how many saw more tests than the one before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) turns: u64,
    /// Of its looks, how many saw more calls on any channel of the process than the one before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) process_turns: u64,
    /// Milliseconds of it in which a thread of the process waited for a CPU.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) no_cpu_ms: u64,
    /// They are those of the thread that drives the channel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_of_its_thread: bool,
    /// How often that thread was given a CPU in it and gave it back by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) thread_turns: u64,
    /// Posts in it that returned success and no request: "try again".
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) null_requests: u64,
    /// The channel was inside a call at its start and its end, and no call returned.
    #[serde(default)]
    pub(crate) in_one_call: bool,
}

impl Watched {
    /// Whether its process came back to the channel, or to others, again and again meanwhile.
    pub(crate) fn is_driven(&self) -> bool {
        self.turns >= TURNS_MIN || self.process_turns >= PROCESS_TURNS_MIN
    }

    /// Milliseconds of it in which the process, or the thread that drives the channel, ran or slept.
    fn could_run_ms(&self) -> f64 {
        self.ms - self.no_cpu_ms as f64
    }

    /// Whether it was one call that waited for a CPU nearly all the time, whatever happened before.
    fn lacked_cpu(&self) -> bool {
        self.in_one_call
            && self.ms >= STUCK_MIN_MS
            && waited_nearly_all(self.ms as u64, self.no_cpu_ms)
    }

    /// Whether the thread that drives the channel ran or slept for long enough, or came to the end of
    /// its rounds again and again, and made no call on any channel: it does something else, however
    /// long it waits for a CPU.
    pub(crate) fn leaves_it_alone(&self) -> bool {
        let has_called = self.tests > 0 || self.process_turns > 0 || self.in_one_call;
        let had_its_chance =
            self.could_run_ms() >= ITS_THREAD_RAN_MS || self.thread_turns >= THREAD_TURNS_MIN;
        self.is_of_its_thread && !has_called && had_its_chance
    }
}

/// All lines of a plugin's log with one signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SignatureLines {
    /// Name of the signature in `probes/logs`; `None` for a WARN that has none.
    pub(crate) signature: Option<String>,
    /// Severity of the signature.
    pub(crate) severity: LineSeverity,
    /// The first line.
    pub(crate) text: String,
    /// Number of lines.
    pub(crate) count: u64,
    /// When the first line was logged.
    pub(crate) first_ms: f64,
    /// When the last line was logged.
    pub(crate) last_ms: f64,
    /// Phase of the worker at the first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
}

/// The part of a machine's facts that decides where bytes go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceMachine {
    /// The machine and its network namespace.
    pub(crate) host: Option<Host>,
    /// Its interfaces.
    pub(crate) nics: Vec<EvidenceNic>,
    /// PCI root of each GPU, by index.
    pub(crate) gpu_roots: Vec<Option<String>>,
}

/// One interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceNic {
    /// Name.
    pub(crate) name: String,
    /// Whether it can carry traffic.
    pub(crate) up: bool,
    /// Why it is known to carry nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) down: Option<NicDown>,
    /// Speed in 10^6 bit per second; `None` if the driver reports none.
    pub(crate) mbit_per_s: Option<u32>,
    /// `pciDDDD:BB`.
    pub(crate) pci_root: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Evidence {
    /// Whether the agent of a node has ended.
    pub(crate) fn has_ended(&self, node: NodeId) -> bool {
        let mut agents = self.agents.iter();
        agents.any(|agent| agent.node == node && agent.ended().is_some())
    }

    /// Whether the agent of a node has said that it ends.
    pub(crate) fn has_left(&self, node: NodeId) -> bool {
        let mut agents = self.agents.iter();
        agents.any(|agent| agent.node == node && agent.left.is_some())
    }

    /// How the agent of a node was found stopped.
    pub(crate) fn stopped_agent(&self, node: NodeId) -> Option<&StoppedAgent> {
        let mut agents = self.agents.iter();
        agents.find(|agent| agent.node == node)?.stopped.as_ref()
    }

    /// The name of the node of a worker.
    pub(crate) fn agent_name<'a>(&'a self, worker: &'a EvidenceNode) -> &'a str {
        let mut agents = self.agents.iter();
        let agent = agents.find(|agent| agent.node == worker.subject.node);
        agent.map_or(worker.name(), |agent| agent.name.as_str())
    }

    /// Channels that stand still: requests in flight and no change for `stall_after_ms`.
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

    /// Milliseconds without a change after which a channel stands still. A run that was interrupted
    /// before a longer limit of its own had passed is judged by the usual one.
    pub(crate) fn stands_after_ms(&self) -> u64 {
        match self.outcome {
            Some(Outcome::Interrupted) => self.stall_after_ms.min(STALL_AFTER_MS),
            _ => self.stall_after_ms,
        }
    }

    /// How the run ended, if it neither passed nor was interrupted.
    pub fn failure(&self) -> Option<Outcome> {
        let ended_well = [Outcome::Passed, Outcome::Interrupted];
        self.outcome.filter(|outcome| !ended_well.contains(outcome))
    }

    /// When the stall was declared that the run was given up for: what is closed later is closed for
    /// that. A call that fails before fails the run instead.
    pub(crate) fn given_up_ms(&self) -> Option<f64> {
        let stall = self.stall.as_ref().filter(|stall| !stall.recovered)?;
        (self.outcome == Some(Outcome::Stalled)).then_some(stall.at_ms)
    }

    /// Whether the run has not passed. No channel of a run that passed stands still.
    pub(crate) fn is_bad(&self) -> bool {
        self.outcome != Some(Outcome::Passed)
    }

    /// The other nodes.
    pub(crate) fn others<'a>(
        &'a self,
        node: &'a EvidenceNode,
    ) -> impl Iterator<Item = &'a EvidenceNode> {
        self.nodes
            .iter()
            .filter(|other| other.subject != node.subject)
    }

    /// The worker at the other end of a worker's pair.
    pub(crate) fn opposite(&self, node: &EvidenceNode) -> Option<&EvidenceNode> {
        let pair = node.subject.pair?;
        let is_other = |other: &&EvidenceNode| {
            other.subject.pair == Some(pair) && other.subject.node != node.subject.node
        };
        self.nodes.iter().find(is_other)
    }

    /// Both workers of each pair, for pairs of which both workers are known.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&EvidenceNode, &EvidenceNode)> {
        let first =
            |(node, other): &(&EvidenceNode, &EvidenceNode)| node.subject.node < other.subject.node;
        self.nodes
            .iter()
            .filter_map(|node| Some((node, self.opposite(node)?)))
            .filter(first)
    }

    /// Whether all these settings are in force: variables on this node, or on every node, and keys
    /// of the scenario.
    pub(crate) fn has_settings(&self, node: Option<&Subject>, wanted: &[(&str, &str)]) -> bool {
        let scenario = serde_json::to_value(&self.scenario).unwrap_or_default();
        let has = |(name, value): &(&str, &str)| match name.split_once('.') {
            Some((table, key)) => match &scenario[table][key] {
                serde_json::Value::String(text) => text == value,
                other => value
                    .parse()
                    .is_ok_and(|value: serde_json::Value| value == *other),
            },
            None => {
                let mut nodes = self
                    .nodes
                    .iter()
                    .filter(|one| node.is_none_or(|node| one.subject == *node))
                    .peekable();
                nodes.peek().is_some()
                    && nodes.all(|one| one.settings.get(*name).is_some_and(|text| text == value))
            }
        };
        wanted.iter().all(has)
    }

    /// The names of the workers or processes.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(EvidenceNode::name)
    }

    /// How many channels they have.
    pub fn channel_count(&self) -> usize {
        self.spots().count()
    }

    /// Whether a recording has requests in flight and no end: it may be a copy of a program that
    /// stood still, or of one that moved.
    pub fn is_undecided(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.without_an_end().is_some())
    }

    /// Whether it is of no process, and does not tell how a run ended.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.outcome.is_none()
    }

    /// Says so if running programs have posted nothing for as long as a stall and are inside no call: the plugin owes
    /// them nothing, and no rule sees what they wait for.
    pub fn idle(&self) -> Option<String> {
        let runs = self.scenario.is_none() && self.nodes.iter().all(|node| node.gone.is_none());
        let open = || self.spots().filter(|spot| !spot.channel.now.closed);
        let is_idle = |spot: Spot<'_>| spot.channel.in_flight() == 0 && spot.channel.now.posted > 0;
        let idle_ms = open().map(|spot| spot.channel.now.quiet_ms).min()?;
        let is_inside = self.nodes.iter().any(|node| node.inside.is_some())
            || open().any(|spot| spot.channel.now.in_call.is_some());
        let is_told = runs && !is_inside && open().all(is_idle) && idle_ms >= self.stall_after_ms;
        is_told.then(|| {
            format!(
                "nothing is in flight on any channel for {:.1} s: the plugin waits for the program to post; if bytes \
                 should move, look at what the program waits for, and at the other end",
                idle_ms as f64 / 1e3
            )
        })
    }

    /// Says so if recorded programs ended by themselves with requests in flight: whether those were still needed, only
    /// the programs know.
    pub fn left_in_flight(&self) -> Option<String> {
        let left = |node: &EvidenceNode| {
            let gone = node.gone.as_ref().filter(|gone| gone.signal.is_none())?;
            let (how, in_flight) = (gone.how.as_ref()?, node.in_flight());
            let requests = counted(usize::try_from(in_flight).unwrap_or(usize::MAX), "request");
            (in_flight > 0).then(|| format!("{} {how} with {requests} in flight", node.name()))
        };
        let left: Vec<String> = self.nodes.iter().filter_map(left).collect();
        (!left.is_empty()).then(|| {
            format!(
                "{}: their bytes may not have arrived; if the transfer should be complete, look at why the program ended, and \
                 judge both ends together",
                left.join(", ")
            )
        })
    }

    /// Says so if recorded programs with nothing in flight were asked to end: that is how programs are ended that have
    /// done their work.
    pub fn asked_to_end(&self) -> Option<String> {
        let asked = |node: &EvidenceNode| {
            let gone = node.gone.as_ref()?;
            let is_asked = gone.signal.is_some_and(asks_to_end) && node.in_flight() == 0;
            is_asked.then(|| {
                format!(
                    "{} {}",
                    node.name(),
                    gone.how.as_deref().unwrap_or_default()
                )
            })
        };
        let asked: Vec<String> = self.nodes.iter().filter_map(asked).collect();
        (!asked.is_empty()).then(|| {
            format!(
                "{} with nothing in flight: if it should have gone on, look at who sent the signal",
                asked.join(", ")
            )
        })
    }

    fn has_every_other_end(&self) -> bool {
        self.channel_count() > 0 && self.spots().all(|spot| spot.other_end().is_some())
    }

    /// What a rule would have liked to see, in words.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        match self.nodes.len() {
            0 => missing.push("both ends: no event is of a process".to_owned()),
            1 if self.has_every_other_end() => {}
            1 => missing.push("the other end: only one process was inspected".to_owned()),
            _ => {}
        }
        for node in &self.nodes {
            if node.sampled_ms.is_none() {
                missing.push(match node.subject.pid {
                    Some(_) => format!("counters of {}: no comm of it is recorded", node.name()),
                    None => format!("counters of {}: there is no sample of them", node.name()),
                });
            }
            if let Some(in_flight) = node.without_an_end() {
                missing.push(format!(
                    "for how long {} stood still with {in_flight} requests in flight: its recording does \
                     not tell when it ended",
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

impl EvidenceNode {
    /// The requests in flight of a process that is gone and of which it is not known when it ended;
    /// `None` if there are none.
    fn without_an_end(&self) -> Option<u64> {
        Some(self.in_flight()).filter(|in_flight| self.ended_unseen() && *in_flight > 0)
    }

    /// Whether it is a process that is gone and of which it is not known when it ended.
    pub(crate) fn ended_unseen(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.how.is_none())
    }

    /// Requests that are posted on its open channels and not yet handed back.
    pub(crate) fn in_flight(&self) -> u64 {
        let open = self.channels.iter().filter(|channel| !channel.now.closed);
        open.map(EvidenceChannel::in_flight)
            .fold(0, u64::saturating_add)
    }

    /// A node of which only the name is known.
    pub(crate) fn new(subject: Subject) -> Self {
        Self {
            subject,
            lanes: Vec::new(),
            phase: None,
            phase_ms: 0.0,
            sampled_ms: None,
            channels: Vec::new(),
            gone: None,
            setup: None,
            setup_ms: None,
            inside: None,
            inside_since_ms: None,
            connecting: None,
            connecting_ms: None,
            lines: Vec::new(),
            last_printed: None,
            without_cpu: None,
            logged: None,
            plugin: None,
            devices: Vec::new(),
            family: None,
            settings: BTreeMap::new(),
            listened_on_gpus: BTreeSet::new(),
            exit: None,
            failure: None,
            verified: None,
            mismatch: None,
            machine: None,
            frame: None,
            earlier_frames: Vec::new(),
            network: None,
        }
    }

    /// `local`, `peer gpu 3`, `pid 4242`.
    pub(crate) fn name(&self) -> &str {
        &self.subject.name
    }

    /// The one GPU that its pair moves bytes for.
    pub(crate) fn gpu(&self) -> Option<u32> {
        if let [lane] = self.lanes[..] {
            lane.gpus().map(|[own, _]| own)
        } else {
            None
        }
    }

    /// The lines with this signature.
    pub(crate) fn line(&self, signature: &str) -> Option<&SignatureLines> {
        self.lines
            .iter()
            .find(|line| line.signature.as_deref() == Some(signature))
    }

    /// The earliest line with one of these signatures.
    pub(crate) fn any_line<'a>(&'a self, signatures: &[&str]) -> Option<&'a SignatureLines> {
        let is = |line: &&SignatureLines| {
            line.signature
                .as_deref()
                .is_some_and(|name| signatures.contains(&name))
        };
        self.lines
            .iter()
            .filter(is)
            .min_by(|a, b| a.first_ms.total_cmp(&b.first_ms))
    }

    /// Its freeze-frames, the newest first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        let newest = self.frame.as_deref().into_iter();
        newest.chain(self.earlier_frames.iter().rev())
    }

    /// The exit of its process, if nothing asked it to end.
    pub(crate) fn died(&self) -> Option<&Timed<Exit>> {
        let unasked = |exit: &&Timed<Exit>| !exit.what.killed && self.failure.is_none();
        self.exit
            .as_ref()
            .filter(unasked)
            .filter(|exit| exit.what.phase != Phase::Finished)
    }
}

impl EvidenceChannel {
    /// Requests that are posted and not yet handed back.
    pub(crate) fn in_flight(&self) -> u64 {
        self.now.posted.saturating_sub(self.now.consumed)
    }

    /// Requests that are done and not yet handed back.
    pub(crate) fn done_unconsumed(&self) -> u64 {
        self.now.done.saturating_sub(self.now.consumed)
    }

    /// Whether it sends.
    pub(crate) fn sends(&self) -> bool {
        self.now.side == Side::Send
    }

    /// Calls of `test` since the last change, per second in which its process did not wait for a CPU;
    /// `None` if that was too short. Of a process that is gone, the least that it may have been.
    pub(crate) fn polls_per_s(&self) -> Option<f64> {
        self.rate_of(|watched| watched.tests.saturating_sub(watched.tests_in_doubt))
    }

    /// The most that `polls_per_s` may have been.
    pub(crate) fn most_polls_per_s(&self) -> Option<f64> {
        self.rate_of(|watched| watched.tests)
    }

    fn rate_of(&self, tests: impl Fn(&Watched) -> u64) -> Option<f64> {
        let watched = self.decided()?;
        let tests = tests(watched) as f64;
        let could_run_ms = watched.could_run_ms();
        // A loop that had no CPU tests nothing; one that made calls had one for moments.
        let is_told = tests > 0.0 || watched.process_turns >= PROCESS_TURNS_MIN;
        (is_told || watched.leaves_it_alone() || could_run_ms >= WATCHED_MIN_MS)
            .then(|| tests * 1e3 / could_run_ms.max(COULD_RUN_MIN_MS))
    }

    /// The most calls of `test` per second since the last change; `None` if it was watched too shortly.
    pub(crate) fn tests_per_s(&self) -> Option<f64> {
        let watched = self.decided()?;
        Some(watched.tests as f64 * 1e3 / watched.ms)
    }

    /// The stretch without a change, if it is long enough to say what the process does.
    fn decided(&self) -> Option<&Watched> {
        let watched = self.watched.as_ref();
        let watched = watched.filter(|watched| watched.ms >= WATCHED_MIN_MS)?;
        // Of a thread that was inside one call meanwhile, it is not known what it does.
        let is_decided = self.stuck_ms().is_none_or(|ms| ms >= STUCK_MIN_MS);
        Some(watched).filter(|_| is_decided)
    }

    /// Whether nothing is in flight because the plugin answers every post with "try again":
    /// success and no request.
    pub(crate) fn is_put_off(&self) -> bool {
        let meanwhile = self.watched.map_or(0, |watched| watched.null_requests);
        self.in_flight() == 0
            && (meanwhile > 0 || (self.now.posted == 0 && self.now.null_requests > 0))
    }

    /// Milliseconds of the stretch without a change, if it was inside one call meanwhile.
    fn stuck_ms(&self) -> Option<f64> {
        let watched = self.watched.as_ref();
        let stuck = watched.filter(|watched| watched.in_one_call && watched.tests == 0);
        stuck.map(|watched| watched.ms)
    }

    /// Milliseconds for which it has been inside one call at least.
    pub(crate) fn inside_ms(&self) -> f64 {
        let seen_ms = self.now.in_call_ms as f64;
        seen_ms.max(self.stuck_ms().unwrap_or_default())
    }

    /// Whether the last failed call is one of these and returned this code.
    pub(crate) fn failed_with(&self, calls: &[&str], code: i32) -> bool {
        self.now
            .last_error
            .as_ref()
            .is_some_and(|(call, rc)| calls.contains(&call.as_str()) && *rc == code)
    }
}

/// A thread that ran for so long had its chance: a loop makes a million turns in it.
const RAN_ENOUGH_MS: u64 = 1000;
/// The same of a thread of which it is known that it drives the channel. On a CPU that forty processes
/// want, it gets as much in some two seconds; what a program does between two calls takes less.
const ITS_THREAD_RAN_MS: f64 = 50.0;
/// The same of one that gave its CPU back so often: its loop slept or yielded between two rounds.
const THREAD_TURNS_MIN: u64 = 5;
/// A thread may lose its CPU inside a call for some hundred milliseconds.
const STUCK_MIN_MS: f64 = 1000.0;
/// A test that moves bytes takes less.
const TEST_MAX_MS: f64 = 1.0;
/// Shortest stretch that a test rate is computed over.
pub(crate) const WATCHED_MIN_MS: f64 = 150.0;

/// Shortest time that a process that tested could run for.
const COULD_RUN_MIN_MS: f64 = 1.0;
/// Looks with more tests than before that show a loop: it came back to its channel each time, and the plugin
/// could move what had arrived meanwhile. Tests of one turn on a CPU are all of the same moment.
const TURNS_MIN: u64 = 3;
/// The same for looks with more calls on any channel. Channels may have threads of their own, of which some
/// have a turn before others.
const PROCESS_TURNS_MIN: u64 = 5;

/// Whether a channel's process waited for a CPU for nearly all the time in which nothing changed.
pub(crate) fn lacked_cpu(now: &ChannelNow) -> bool {
    waited_nearly_all(now.quiet_ms, now.no_cpu_ms)
}

fn waited_nearly_all(ms: u64, no_cpu_ms: u64) -> bool {
    let ran_ms = ms.saturating_sub(no_cpu_ms);
    no_cpu_ms > 0 && ran_ms < RAN_ENOUGH_MS && ran_ms < ms / 5
}

/// A channel with its node and the evidence it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    evidence: &'a Evidence,
    /// The worker or process that the channel belongs to.
    pub(crate) node: &'a EvidenceNode,
    pub(crate) channel: &'a EvidenceChannel,
}

impl<'a> Spot<'a> {
    /// Whether requests are in flight and none has changed state for `stall_after_ms`.
    pub(crate) fn stands(&self) -> bool {
        let one = &self.channel.now;
        let is_long = one.quiet_ms >= self.evidence.stands_after_ms() || self.hangs();
        self.evidence.is_bad() && !one.closed && self.channel.in_flight() > 0 && is_long
    }

    /// Whether it stood still when a recorded process ended, its own or that of its other end: that end
    /// is not why.
    pub(crate) fn stood_before(&self, ended: &EvidenceNode) -> bool {
        if ended.gone.is_none() || !self.stands() {
            return false;
        }
        // A channel inside a call may hang for less time than a stall.
        if ended.subject == self.node.subject {
            return true;
        }
        let quiet_since = self
            .node
            .sampled_ms
            .map(|now| now - self.channel.now.quiet_ms as f64);
        let quiet_ms = ended
            .sampled_ms
            .zip(quiet_since)
            .map(|(end, since)| end - since);
        quiet_ms.is_some_and(|ms| ms >= self.evidence.stands_after_ms() as f64)
    }

    /// The call that the channel has been inside of for so long that no healthy call takes it. A look
    /// that finds a channel inside a call shows little: a loop is inside `test` most of the time.
    pub(crate) fn stuck_in(&self) -> Option<&'a str> {
        let half_a_stall = self.evidence.stands_after_ms() as f64 / 2.0;
        let inside_ms = self.inside_ms();
        let is_stuck = inside_ms >= STUCK_MIN_MS.min(half_a_stall);
        let call = self.channel.now.in_call.as_deref();
        call.filter(|_| is_stuck && inside_ms > 0.0)
    }

    fn inside_ms(&self) -> f64 {
        let ended_inside_ms = self.ended_inside_test().map(|watched| watched.ms);
        self.channel
            .inside_ms()
            .max(ended_inside_ms.unwrap_or_default())
    }

    /// The last stretch without a change of a process that ended inside `test` although its tests can have
    /// filled little of that stretch: a loop that tests so seldom is hardly ever found inside one, so it
    /// was inside the last one for most of it. When it was entered is not recorded.
    pub(crate) fn ended_inside_test(&self) -> Option<Watched> {
        let (ended, channel) = (self.node.gone.is_some(), self.channel);
        let watched = channel.watched?;
        let tested_ms = watched.tests as f64 * TEST_MAX_MS;
        let is_rare = tested_ms < watched.ms / 10.0;
        let is_inside = channel.now.in_call.as_deref() == Some("test");
        (ended && is_inside && is_rare && watched.tests > 0).then_some(watched)
    }

    /// Whether it is inside a call that has not returned for as long as a stall, or for as long as is
    /// known of a channel that stands still: its process is gone, or a stall was declared.
    pub(crate) fn hangs(&self) -> bool {
        let (evidence, channel) = (self.evidence, self.channel);
        let is_stall = |ms: f64| ms >= evidence.stands_after_ms() as f64;
        let is_stalled = evidence.outcome.is_some()
            || evidence
                .stall
                .as_ref()
                .is_some_and(|stall| !stall.recovered)
            || is_stall(channel.now.quiet_ms as f64);
        // A call on a channel that stands still may have been entered some time after the last change.
        let inside_ms = self.inside_ms();
        let is_most = inside_ms >= channel.now.quiet_ms as f64 / 2.0;
        let is_all_that_is_known = self.node.gone.is_some() || (is_stalled && is_most);
        let is_open = evidence.is_bad() && !channel.now.closed;
        let is_long = is_stall(inside_ms) || is_all_that_is_known;
        self.stuck_in().is_some() && is_open && is_long
    }

    /// Whether its process waited for a CPU for nearly all the time in which nothing changed, so
    /// rarely drove the channel that its counters prove nothing about its program or its plugin. What
    /// a process is to post, it may have to compute first: its calls do not show that a quota held back
    /// nothing of that.
    pub(crate) fn lacks_cpu(&self) -> bool {
        let watched = self.channel.watched.as_ref();
        let lacked = lacked_cpu(&self.channel.now) || watched.is_some_and(Watched::lacked_cpu);
        let is_free = self.is_driven() || self.leaves_it_alone();
        (lacked && !is_free) || (self.channel.in_flight() == 0 && self.is_throttled())
    }

    /// Whether a CPU quota held its process back for most of the time in which nothing changed, and left it less than
    /// the time of a stall.
    fn is_throttled(&self) -> bool {
        let (quiet_ms, held_back) = (self.channel.now.quiet_ms, self.channel.now.throttled_ms);
        let ran_ms = quiet_ms.saturating_sub(held_back);
        held_back / 3 >= quiet_ms / 5 && held_back > 0 && ran_ms < self.evidence.stands_after_ms()
    }

    /// Whether its process came back to it, or to other channels, again and again while nothing changed.
    fn is_driven(&self) -> bool {
        let watched = self.channel.watched.as_ref();
        watched.is_some_and(Watched::is_driven)
    }

    /// Whether its thread had a CPU for long enough, or slept, and did something else.
    fn leaves_it_alone(&self) -> bool {
        let watched = self.channel.watched.as_ref();
        watched.is_some_and(Watched::leaves_it_alone)
    }

    /// Whether its process waited for a CPU for nearly all the time in which nothing changed, and
    /// made its calls all the same: that it stands still has another cause.
    pub(crate) fn is_driven_without_cpu(&self) -> bool {
        lacked_cpu(&self.channel.now) && self.is_driven() && !self.lacks_cpu()
    }

    /// Of the time in which nothing changed, how long its process waited for a CPU, in words.
    pub(crate) fn no_cpu_words(&self) -> String {
        let now = &self.channel.now;
        let quiet_s = now.quiet_ms as f64 / 1e3;
        match self.is_throttled() {
            true => format!(
                "of these {quiet_s:.1} s, a CPU quota held this process back for about {:.1} s",
                now.throttled_ms as f64 / 1e3
            ),
            false => format!(
                "of these {quiet_s:.1} s, a thread of this process waited for a CPU for {:.1} s",
                now.no_cpu_ms as f64 / 1e3
            ),
        }
    }

    /// The channel at the other end of its connection: by their addresses, which may be in the
    /// same process, or by the same index in the other worker of the pair.
    pub(crate) fn other_end(&self) -> Option<Spot<'a>> {
        let opposite = self.evidence.opposite(self.node).map(|node| &node.subject);
        let meet =
            |from: &ChannelNow, to: &ChannelNow| from.peer.is_some() && from.peer == to.local;
        let (this, evidence) = (&self.channel.now, self.evidence);
        let is = |other: &Spot<'_>| {
            let that = &other.channel.now;
            let same_pair = opposite == Some(&other.node.subject) && that.index == this.index;
            that.side != this.side && (meet(this, that) || meet(that, this) || same_pair)
        };
        evidence.spots().find(is)
    }

    /// The processes that are at the other end of its connection, or may be: where its address leads to
    /// none of them, those with a channel of which it is not known where it leads either.
    pub(crate) fn other_nodes(&self) -> impl Iterator<Item = &'a EvidenceNode> {
        let known = self.other_end().map(|other| other.node);
        let this = *self;
        let may_be = move |node: &&'a EvidenceNode| match known {
            Some(known) => std::ptr::eq(*node, known),
            None => this.may_lead_to(node),
        };
        self.evidence.nodes.iter().filter(may_be)
    }

    /// Whether no address tells that none of a process's channels is the other end of its connection.
    fn may_lead_to(&self, node: &'a EvidenceNode) -> bool {
        let untold = |from: &ChannelNow, to: &ChannelNow| from.peer.is_none() || to.local.is_none();
        let is_free = |channel: &'a EvidenceChannel| {
            let (this, that) = (&self.channel.now, &channel.now);
            let there = Spot {
                node,
                channel,
                ..*self
            };
            that.side != this.side
                && untold(this, that)
                && untold(that, this)
                && there.other_end().is_none()
        };
        let are_processes = self.node.subject.pair.is_none() && node.subject.pair.is_none();
        are_processes && node.subject != self.node.subject && node.channels.iter().any(is_free)
    }

    /// The other channels of its process.
    pub(crate) fn siblings(&self) -> impl Iterator<Item = &'a EvidenceChannel> {
        let this = self.channel;
        self.node
            .channels
            .iter()
            .filter(move |other| !std::ptr::eq(*other, this))
    }

    /// Another channel of its process.
    pub(crate) fn with_channel(&self, channel: &'a EvidenceChannel) -> Self {
        Spot { channel, ..*self }
    }

    /// Whether another channel of the same process and direction has completed more requests
    /// and does not stand still.
    pub(crate) fn is_behind(&self, other: &'a EvidenceChannel) -> bool {
        !self.with_channel(other).stands()
            && other.now.done > self.channel.now.done
            && other.now.side == self.channel.now.side
    }

    /// `peer recv 1 on eth2`.
    pub(crate) fn name(&self) -> String {
        let nic = if self.channel.nic.is_empty() {
            String::new()
        } else {
            format!(" on {}", self.channel.nic)
        };
        format!("{}{nic}", self.short_name())
    }

    /// `peer recv 1`, with the connection and the operation of an endpoint.
    pub(crate) fn short_name(&self) -> String {
        let now = &self.channel.now;
        let name = format!("{} {} {}", self.node.name(), now.side, now.index);
        match &now.part_of {
            Some(part_of) => format!("{name} ({part_of})"),
            None => name,
        }
    }

    /// Its counters in words.
    pub(crate) fn counters(&self) -> String {
        let one = &self.channel.now;
        let handed_back = if self.channel.sends() {
            String::new()
        } else {
            format!(", consumed {}", one.consumed)
        };
        let polled = match self.channel.tests_per_s() {
            // Of a process that is gone, only an upper bound is known.
            Some(rate) if self.node.gone.is_some() => {
                format!(", tested at most {:.0} times/s", rate.ceil())
            }
            Some(rate) => format!(", tested {rate:.0} times/s"),
            None => String::new(),
        };
        let counts = format!(
            "{}: posted {}, done {}{handed_back}",
            self.name(),
            one.posted,
            one.done
        );
        let quiet_s = one.quiet_ms as f64 / 1e3;
        match self.node.ended_unseen() {
            // Nothing is known of the time after its last sign.
            true if one.quiet_ms == 0 => counts,
            true => format!("{counts}, quiet for at least {quiet_s:.1} s{polled}"),
            false => format!("{counts}, quiet for {quiet_s:.1} s{polled}"),
        }
    }
}
