//! Agents, seen from the coordinator: starting them, sending orders, reading messages.
#![forbid(unsafe_code)]

use crate::protocol::limits::{HEARTBEAT, SILENCE_MAX};
use crate::protocol::message::{
    AgentMessage, CoordinatorOrder, NoPlugin, PROTOCOL, StampedMessage,
};
use crate::protocol::wire::{Received, Receiver, Sender};
use crate::reach::{
    Addresses, AgentLink, Hold, LOSSY, Opening, ReachError, Transport, Unheard, Until, hear, loss,
    resent_to,
};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;
use tcpx_node::NodeFacts;
use tcpx_node::plugin_files::ChosenPlugin;
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// An event of an agent's streams.
#[derive(Debug)]
pub(crate) enum AgentEvent {
    /// A message.
    Message(ReceivedMessage),
    /// A line that is not a message.
    Text(NodeId, String),
    /// The agent's stdout ended.
    Gone(NodeId),
}

/// A message of an agent.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// The agent's node.
    pub(crate) node: NodeId,
    /// Time of the message by the node's clock, microseconds since 1970.
    pub(crate) node_us: u64,
    /// Number of the worker that the message is about.
    pub(crate) worker: u32,
    /// The message.
    pub(crate) message: AgentMessage,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The node could not be reached, or the shell line could not start the agent.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The agent ended, or sent no message in time.
    #[error("{node}: the agent {}{}{}", silence(*ended), last_line(output), loss(*resent))]
    Silent {
        /// The node, as the user named it.
        node: String,
        /// Whether the agent ended.
        ended: bool,
        /// Lines that the agent printed instead.
        output: Vec<String>,
        /// Segments to the node that were sent again, if the network loses packets.
        resent: Option<u32>,
    },
    /// The agent speaks another version of the protocol.
    #[error(
        "{node}: tcpxctl {version} on the node speaks protocol {theirs}, this tcpxctl {PROTOCOL}"
    )]
    Version {
        /// The node, as the user named it.
        node: String,
        /// The agent's tcpxctl version.
        version: String,
        /// The agent's protocol version.
        theirs: u32,
    },
}

impl LaunchError {
    /// Outcome of the command, which decides its exit code.
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
                Some("install the same version on the node, or omit --remote-bin".into())
            }
            Self::Silent {
                resent: Some(_), ..
            } => Some(LOSSY.into()),
            Self::Silent { .. } => {
                Some("check that `tcpxctl --version` works on the node in a non-login shell".into())
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

fn last_line(output: &[String]) -> String {
    output
        .last()
        .map(|line| format!("; the last line of output is: {line}"))
        .unwrap_or_default()
}

/// Most nodes that are logged in to at the same time: sshd and login nodes refuse more.
const LOGINS_MAX: usize = 32;

/// A running agent.
pub(crate) struct Agent {
    to_agent: Option<Sender<Box<dyn Write + Send>>>,
    hold: Box<dyn Hold>,
    /// Facts about the agent and its node.
    pub(crate) greeting: Greeting,
}

/// Facts about an agent and its node, from its first messages.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// The agent's tcpxctl version.
    pub version: String,
    /// The linker's id of the agent's tcpxctl.
    pub build: Option<String>,
    /// The agent's process id.
    pub pid: u32,
    /// Hardware and software of the node.
    pub facts: Box<NodeFacts>,
    /// The plugin file that the scenario's plugin resolves to on the node.
    pub plugin: Result<ChosenPlugin, NoPlugin>,
    /// Addresses at which this machine and the node reached each other.
    pub addresses: Addresses,
    /// The node's address in that connection, as the node sees it.
    pub reached_at: Option<IpAddr>,
}

impl Agent {
    /// Starts an agent and waits for the facts of its node and for the plugin file that `wanted`
    /// resolves to; later messages go to `events`.
    ///
    /// # Errors
    /// The agent does not start, or speaks another version; the error names the node.
    pub(crate) fn start(
        node: NodeId,
        transport: &dyn Transport,
        wanted: &PluginChoice,
        events: &mpsc::Sender<AgentEvent>,
        opening: &mut Opening<'_>,
    ) -> Result<Self, LaunchError> {
        let AgentLink {
            to_agent,
            from_agent,
            stderr,
            hold,
            addresses,
        } = transport.open(opening)?;
        let to_agent = Sender::new(to_agent);
        let (first, hello) = mpsc::channel();
        read_stderr(node, stderr, events, &first);
        let events = events.clone();
        std::thread::spawn(move || read_agent(node, from_agent, &first, &events));
        // If the agent is gone, its stream ends, which is handled there.
        let _ = to_agent.send(&(0, CoordinatorOrder::Choose(wanted.clone())));
        let greeting = greeting(transport.node(), &hello, addresses, opening.interrupted)?;
        let agent = Self {
            to_agent: Some(to_agent),
            hold,
            greeting,
        };
        agent.beat();
        Ok(agent)
    }

    /// Starts all agents, [`LOGINS_MAX`] at a time; returns each agent or why it did not start, in
    /// the order of `transports`, after every start has succeeded or failed. Reaching one node may
    /// take minutes (an upload, a user who is asked for a passphrase); meanwhile, the agents that
    /// have started get heartbeats.
    pub(crate) fn start_all(
        transports: &[Box<dyn Transport>],
        wanted: &PluginChoice,
        events: &mpsc::Sender<AgentEvent>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&str, u64, u64),
    ) -> Vec<Result<Self, LaunchError>> {
        enum News {
            Upload(usize, u64, u64),
            Started(usize, Box<Result<Agent, LaunchError>>),
        }
        let (to_news, news) = mpsc::channel();
        let start = |place: usize, to_news: mpsc::Sender<News>| {
            // The receiver exists until all have started.
            let tell = |what| drop(to_news.send(what));
            let mut opening = Opening {
                interrupted,
                progress: &mut |sent, all| tell(News::Upload(place, sent, all)),
            };
            let node = NodeId(u32::try_from(place).unwrap_or(u32::MAX));
            let agent = Self::start(node, &*transports[place], wanted, events, &mut opening);
            tell(News::Started(place, Box::new(agent)));
        };
        let mut agents: Vec<Option<Result<Self, LaunchError>>> =
            transports.iter().map(|_| None).collect();
        let mut beat_at = Instant::now();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let at_once = match transports.iter().any(|transport| transport.is_login()) {
                true => LOGINS_MAX,
                // Each only waits for a call, and one that never comes must not delay the others.
                false => transports.len(),
            };
            for _ in 0..transports.len().min(at_once) {
                let (to_news, start, next) = (to_news.clone(), &start, &next);
                scope.spawn(move || {
                    loop {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        if place >= transports.len() {
                            return;
                        }
                        start(place, to_news.clone());
                    }
                });
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

    /// Sends an order about one worker. If the agent is gone, its stream ends, which is handled
    /// there.
    pub(crate) fn tell(&self, worker: u32, message: &CoordinatorOrder) {
        if let Some(to_agent) = &self.to_agent {
            let _ = to_agent.send(&(worker, message));
        }
    }

    /// Sends a heartbeat, which also asks for the node's clock.
    pub(crate) fn beat(&self) {
        self.tell(0, &CoordinatorOrder::Heartbeat { us: now_us() });
    }

    /// Closes the agent's stdin, upon which the agent kills its workers and ends.
    pub(crate) fn close(&mut self) {
        self.to_agent = None;
    }

    /// Closes the agent's stdin and waits for its end, unless it is lost.
    pub(crate) fn finish(&mut self, is_lost: bool) {
        self.close();
        self.hold
            .finish(if is_lost { Duration::ZERO } else { HEARTBEAT });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.finish(false);
    }
}

/// A message, or a line that is not one, before the agent has started.
type First = Result<AgentMessage, String>;

fn greeting(
    node: &str,
    hello: &mpsc::Receiver<First>,
    addresses: Addresses,
    interrupted: &AtomicBool,
) -> Result<Greeting, LaunchError> {
    let (mut output, mut known) = (Vec::new(), None);
    let until = Until::after(SILENCE_MAX);
    loop {
        match (hear(hello, until, interrupted), &mut known) {
            (
                Ok(Ok(AgentMessage::Hello {
                    protocol: PROTOCOL,
                    version,
                    build,
                    pid,
                    facts,
                    reached_at,
                })),
                _,
            ) => {
                known = Some((version, build, pid, facts, reached_at));
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
                if let Some((version, build, pid, facts, reached_at)) = known {
                    return Ok(Greeting {
                        version,
                        build,
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
                None => output.push(text),
            },
            (Err(Unheard::Interrupted), _) => return Err(ReachError::interrupted(node).into()),
            (Err(why), _) => {
                let ended = why == Unheard::Ended;
                return Err(LaunchError::Silent {
                    node: node.into(),
                    ended,
                    output,
                    resent: addresses.there.and_then(resent_to),
                });
            }
        }
    }
}

/// Version and protocol of a greeting that this version cannot parse. These two keys have been the
/// same in every version.
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
    fn an_agent_that_is_lost_behind_a_lossy_network_is_not_said_to_be_a_wrong_program() {
        let silent = |resent| LaunchError::Silent {
            node: "node1".into(),
            ended: true,
            output: Vec::new(),
            resent,
        };
        let words = |resent| {
            (
                silent(resent).to_string(),
                silent(resent).next_step().unwrap_or_default(),
            )
        };
        let (what, next) = words(None);
        assert_eq!(what, "node1: the agent ended before its first message");
        assert!(next.contains("--version"), "{next}");
        let (what, next) = words(Some(17));
        assert!(
            what.ends_with("message; 17 segments to the node were sent again"),
            "{what}"
        );
        assert!(next.contains("loses packets"), "{next}");
    }

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
