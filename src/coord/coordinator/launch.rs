//! Agents, seen from the coordinator: starting them, sending orders, reading messages.
#![forbid(unsafe_code)]

use crate::protocol::limits::{HEARTBEAT, SILENCE_MAX};
use crate::protocol::message::{
    AgentMessage, CoordinatorOrder, NoPlugin, PROTOCOL, StampedMessage,
};
use crate::protocol::wire::{Received, Receiver, Sender};
use crate::reach::{Addresses, AgentLink, Hold, ReachError, Transport};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;
use tcpx_node::NodeFacts;
use tcpx_node::plugin_files::Choice;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// What comes from an agent.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    /// A message.
    Message(ReceivedMessage),
    /// Text before the first message, or a line that is none.
    Text(NodeId, String),
    /// Its stream ended.
    Gone(NodeId),
}

/// A message of an agent.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// Which agent's.
    pub(crate) node: NodeId,
    /// Its node's clock, microseconds since 1970.
    pub(crate) node_us: u64,
    /// The worker that it is about.
    pub(crate) worker: u32,
    /// What it is.
    pub(crate) message: AgentMessage,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Its node could not be reached, or it could not be started there.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// It ended or kept silent before its first message.
    #[error("{node}: the agent {}{}", silence(*ended), noise(said))]
    Silent {
        /// Where.
        node: String,
        /// Whether it is gone.
        ended: bool,
        /// What came instead.
        said: Vec<String>,
    },
    /// It speaks another version of our protocol.
    #[error("{node}: tcpxctl {version} there speaks protocol {theirs}, this one {PROTOCOL}")]
    Version {
        /// Where.
        node: String,
        /// Its version.
        version: String,
        /// Its protocol.
        theirs: u32,
    },
}

impl LaunchError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Reach(error) => error.outcome,
            Self::Version { .. } => Outcome::NotRun,
            Self::Silent { .. } => Outcome::PeerLost,
        }
    }
}

impl NextStep for LaunchError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Reach(error) => error.next_step(),
            Self::Version { .. } => {
                Some("install the same version there, or omit --remote-bin".into())
            }
            Self::Silent { .. } => {
                Some("check that `tcpxctl --version` works there in a non-login shell".into())
            }
        }
    }
}

fn silence(ended: bool) -> String {
    if ended {
        "ended before its first message".into()
    } else {
        format!("sent no message within {} s", SILENCE_MAX.as_secs())
    }
}

fn noise(said: &[String]) -> String {
    said.last()
        .map(|line| format!("; it printed: {line}"))
        .unwrap_or_default()
}

/// A running agent.
pub(crate) struct Agent {
    to_agent: Option<Sender<Box<dyn Write + Send>>>,
    hold: Box<dyn Hold>,
    /// What it said of itself and its node.
    pub(crate) greeting: Greeting,
}

/// What is known of a node before anything is decided.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// Of the agent's program.
    pub version: String,
    /// The agent's process.
    pub pid: u32,
    /// What the node is.
    pub facts: Box<NodeFacts>,
    /// The plugin that the scenario means there.
    pub plugin: Result<Choice, NoPlugin>,
    /// How this machine and the node reached each other.
    pub addresses: Addresses,
    /// The node's own word on that.
    pub reached_at: Option<IpAddr>,
}

impl Agent {
    /// Starts an agent and waits until it has said what its node is and which
    /// plugin `wanted` means there; everything after goes to `events`.
    ///
    /// # Errors
    /// In words that name the node.
    pub(crate) fn start(
        node: NodeId,
        transport: &dyn Transport,
        wanted: &PluginChoice,
        events: &mpsc::Sender<AgentEvent>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LaunchError> {
        let AgentLink {
            to_agent,
            from_agent,
            stderr,
            hold,
            addresses,
        } = transport.open(progress)?;
        let to_agent = Sender::new(to_agent);
        let (first, hello) = mpsc::channel();
        read_stderr(node, stderr, events, &first);
        let events = events.clone();
        std::thread::spawn(move || read_agent(node, from_agent, &first, &events));
        // An agent that is gone shows through its stream.
        let _ = to_agent.send(&(0, CoordinatorOrder::Choose(wanted.clone())));
        let greeting = greeting(transport.node(), &hello, addresses)?;
        let agent = Self {
            to_agent: Some(to_agent),
            hold,
            greeting,
        };
        agent.beat();
        Ok(agent)
    }

    /// All at once. Getting to one node may take minutes (an upload, a person who
    /// is asked for a passphrase), in which the agents of the others must not think
    /// themselves forgotten.
    ///
    /// # Errors
    /// The first of [`Agent::start`]'s, once all have come to something.
    pub(crate) fn start_all(
        transports: &[Box<dyn Transport>],
        wanted: &PluginChoice,
        events: &mpsc::Sender<AgentEvent>,
        progress: &mut dyn FnMut(&str, u64, u64),
    ) -> Result<Vec<Self>, LaunchError> {
        enum News {
            Upload(usize, u64, u64),
            Started(usize, Box<Result<Agent, LaunchError>>),
        }
        let (to_news, news) = mpsc::channel();
        let start = |place: usize, to_news: mpsc::Sender<News>| {
            // Somebody listens until all have started.
            let tell = |what| drop(to_news.send(what));
            let mut sent = |sent, all| tell(News::Upload(place, sent, all));
            let node = NodeId(u32::try_from(place).unwrap_or(u32::MAX));
            let agent = Self::start(node, &*transports[place], wanted, events, &mut sent);
            tell(News::Started(place, Box::new(agent)));
        };
        let mut agents: Vec<Option<Result<Self, LaunchError>>> =
            transports.iter().map(|_| None).collect();
        let mut beat_at = Instant::now();
        std::thread::scope(|scope| {
            for place in 0..transports.len() {
                let (to_news, start) = (to_news.clone(), &start);
                scope.spawn(move || start(place, to_news));
            }
            drop(to_news);
            loop {
                match news.recv_timeout(HEARTBEAT) {
                    Ok(News::Upload(place, sent, all)) => {
                        progress(transports[place].node(), sent, all)
                    }
                    Ok(News::Started(place, agent)) => agents[place] = Some(*agent),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
                if Instant::now() >= beat_at {
                    beat_at = Instant::now() + HEARTBEAT;
                    agents.iter().flatten().flatten().for_each(Self::beat);
                }
            }
        });
        agents
            .into_iter()
            .map(|agent| agent.expect("its thread sent it, or the scope panicked with it"))
            .collect()
    }

    /// Sends one message for one worker; an agent that is gone shows through its
    /// stream.
    pub(crate) fn tell(&self, worker: u32, message: &CoordinatorOrder) {
        if let Some(to_agent) = &self.to_agent {
            let _ = to_agent.send(&(worker, message));
        }
    }

    /// Says that the coordinator is there, and asks for the node's clock.
    pub(crate) fn beat(&self) {
        self.tell(0, &CoordinatorOrder::Heartbeat { us: now_us() });
    }

    /// Lets it go: it ends by itself when its stdin does, taking its worker with
    /// it. One that is lost is not waited for.
    pub(crate) fn finish(&mut self, is_lost: bool) {
        self.to_agent = None;
        self.hold
            .finish(if is_lost { Duration::ZERO } else { HEARTBEAT });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.finish(false);
    }
}

/// Before the first message, or a line that is none.
type First = Result<AgentMessage, String>;

fn greeting(
    node: &str,
    hello: &mpsc::Receiver<First>,
    addresses: Addresses,
) -> Result<Greeting, LaunchError> {
    let (mut said, mut known) = (Vec::new(), None);
    let until = Instant::now() + SILENCE_MAX;
    loop {
        match (
            hello.recv_timeout(until.saturating_duration_since(Instant::now())),
            &mut known,
        ) {
            (
                Ok(Ok(AgentMessage::Hello {
                    protocol: PROTOCOL,
                    version,
                    pid,
                    facts,
                    reached_at,
                })),
                _,
            ) => {
                known = Some((version, pid, facts, reached_at));
            }
            (
                Ok(Ok(AgentMessage::Hello {
                    protocol, version, ..
                })),
                _,
            ) => {
                return Err(LaunchError::Version {
                    node: node.into(),
                    version,
                    theirs: protocol,
                });
            }
            (Ok(Ok(AgentMessage::Chosen(plugin))), Some(_)) => {
                if let Some((version, pid, facts, reached_at)) = known {
                    return Ok(Greeting {
                        version,
                        pid,
                        facts,
                        plugin,
                        addresses,
                        reached_at,
                    });
                }
            }
            (Ok(Ok(_)), _) => {}
            (Ok(Err(text)), _) => match other_version(&text) {
                Some((version, theirs)) => {
                    return Err(LaunchError::Version {
                        node: node.into(),
                        version,
                        theirs,
                    });
                }
                None => said.push(text),
            },
            (Err(error), _) => {
                let ended = error == mpsc::RecvTimeoutError::Disconnected;
                return Err(LaunchError::Silent {
                    node: node.into(),
                    ended,
                    said,
                });
            }
        }
    }
}

/// Version and protocol of a greeting that this version cannot read: they have
/// been told in these words since the first.
fn other_version(text: &str) -> Option<(String, u32)> {
    let greeting = &text[text.find("\"hello\"")?..];
    let value = |key: &str| {
        Some(
            greeting
                .split_once(key)?
                .1
                .trim_start_matches([':', ' ', '"']),
        )
    };
    let protocol = value("\"protocol\"")?
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()?;
    let version = value("\"version\"")?.split('"').next()?;
    (protocol != PROTOCOL).then(|| (version.to_owned(), protocol))
}

/// Passes on the lines of stderr. Until the agent's first message, they may tell why none comes.
fn read_stderr(
    node: NodeId,
    stderr: Option<mpsc::Receiver<String>>,
    events: &mpsc::Sender<AgentEvent>,
    first: &mpsc::Sender<First>,
) {
    let Some(stderr) = stderr else { return };
    let (events, first) = (events.clone(), first.clone());
    std::thread::spawn(move || {
        for line in stderr {
            // Each fails if its receiver is gone.
            let _ = first.send(Err(line.clone()));
            let _ = events.send(AgentEvent::Text(node, line));
        }
    });
}

fn read_agent(
    node: NodeId,
    stdout: impl io::Read,
    first: &mpsc::Sender<First>,
    events: &mpsc::Sender<AgentEvent>,
) {
    let mut receiver = Receiver::new(stdout);
    let mut greeted = false;
    while let Ok(Some(received)) = receiver.next::<StampedMessage>() {
        match received {
            Received::Message((node_us, worker, message)) if greeted => {
                drop(events.send(AgentEvent::Message(ReceivedMessage {
                    node,
                    node_us,
                    worker,
                    message,
                })));
            }
            Received::Message((_, _, message)) => {
                greeted = matches!(message, AgentMessage::Chosen { .. });
                drop(first.send(Ok(message)));
            }
            Received::Text(text) if greeted => drop(events.send(AgentEvent::Text(node, text))),
            Received::Text(text) => drop(first.send(Err(text))),
        }
    }
    drop(events.send(AgentEvent::Gone(node)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_any_version_is_told_from_a_banner() {
        let first = r#"{"hello":{"protocol":1,"version":"0.0.9","pid":7,"facts":{"host":{"#;
        assert_eq!(other_version(first), Some(("0.0.9".into(), 1)));
        let later = r#"[17,0,{"hello":{"version":"9.0.0-rc.1", "protocol": 77, "more":[]}}]"#;
        assert_eq!(other_version(later), Some(("9.0.0-rc.1".into(), 77)));
        for text in [
            "hello",
            "\"hello\" says nobody",
            "",
            "{\"hello\":{\"protocol\":\"x\"}}",
        ] {
            assert_eq!(other_version(text), None, "{text}");
        }
    }
}
