//! Agents, seen from the coordinator: started, spoken to, heard, lost.
#![forbid(unsafe_code)]

use super::agent::{HEARTBEAT, SILENCE_MAX};
use super::message::{FromAgent, NoPlugin, PROTOCOL, Stamped, ToAgent};
use super::reach::{Addresses, Hold, Link, ReachError, Transport};
use super::wire::{Received, Receiver, Sender};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tcpx_node::NodeFacts;
use tcpx_node::plugin_files::Choice;
use tcpx_run_model::record::Clock;
use tcpx_run_model::record::live::Update;
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::now_us;

/// Which of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Where the command was typed, or `--from`.
    Local,
    /// The other one.
    Peer,
}

impl End {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Local, Self::Peer];

    /// As reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "peer",
        }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Local => Self::Peer,
            Self::Peer => Self::Local,
        }
    }
}

/// What the coordinator waits for.
#[derive(Debug)]
pub enum Event {
    /// A message of an agent.
    From(Said),
    /// Text before the first message, or a line that is none.
    Noise(End, String),
    /// The agent's stream ended.
    Gone(End),
}

/// A message of an agent.
#[derive(Debug)]
pub struct Said {
    /// Which agent's.
    pub end: End,
    /// Its node's clock, microseconds since 1970.
    pub node_us: u64,
    /// The worker that it is about.
    pub worker: u32,
    /// What it is.
    pub message: FromAgent,
}

/// Why an agent could not be had.
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
    #[error("{node}: its tcpxctl {version} speaks protocol {theirs}, this one {PROTOCOL}")]
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
            Self::Version { .. } => Some("install the same version there, or leave --remote-bin away".into()),
            Self::Silent { .. } => {
                Some("does `tcpxctl --version` work there, in a shell that is no login shell?".into())
            }
        }
    }
}

fn silence(ended: bool) -> String {
    if ended {
        "is gone before it reported".into()
    } else {
        format!("did not report within {} s", SILENCE_MAX.as_secs())
    }
}

fn noise(said: &[String]) -> String {
    said.last().map(|line| format!("; it printed: {line}")).unwrap_or_default()
}

/// A running agent.
pub struct Agent {
    to_agent: Option<Sender<Box<dyn Write + Send>>>,
    hold: Box<dyn Hold>,
    heard_at: Instant,
    /// What it said of itself and its node.
    pub greeting: Greeting,
    /// The best measurement so far.
    pub clock: Option<Clock>,
}

/// What is known of a node before anything is decided.
#[derive(Debug)]
pub struct Greeting {
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
    pub fn start(
        end: End,
        way: &dyn Transport,
        wanted: &PluginChoice,
        events: &mpsc::Sender<Event>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LaunchError> {
        let Link { to_agent, from_agent, beside, hold, addresses } = way.open(progress)?;
        let to_agent = Sender::new(to_agent);
        let (first, hello) = mpsc::channel();
        for_each_line(end, beside, events, &first);
        let events = events.clone();
        std::thread::spawn(move || read_agent(end, from_agent, &first, &events));
        // An agent that is gone shows through its stream.
        let _ = to_agent.send(&(0, ToAgent::Choose(wanted.clone())));
        let greeting = greeting(way.node(), &hello, addresses)?;
        let agent = Self { to_agent: Some(to_agent), hold, heard_at: Instant::now(), greeting, clock: None };
        agent.beat();
        Ok(agent)
    }

    /// Both at once. Getting to one node may take minutes (an upload, a person who
    /// is asked for a passphrase), in which the agent of the other must not think
    /// itself forgotten.
    ///
    /// # Errors
    /// The first of [`Agent::start`]'s, once both have come to something.
    pub fn start_both(
        ways: &[Box<dyn Transport>; 2],
        wanted: &PluginChoice,
        events: &mpsc::Sender<Event>,
        progress: &mut dyn FnMut(&str, u64, u64),
    ) -> Result<[Self; 2], LaunchError> {
        enum News {
            Upload(End, u64, u64),
            Started(End, Box<Result<Agent, LaunchError>>),
        }
        let (to_news, news) = mpsc::channel();
        let start = |end: End, to_news: mpsc::Sender<News>| {
            // Somebody listens until both have started.
            let tell = |what| drop(to_news.send(what));
            let mut sent = |sent, all| tell(News::Upload(end, sent, all));
            let agent = Self::start(end, &*ways[end as usize], wanted, events, &mut sent);
            tell(News::Started(end, Box::new(agent)));
        };
        let (mut agents, mut beat_at) = ([None, None], Instant::now());
        std::thread::scope(|scope| {
            for end in End::ALL {
                let (to_news, start) = (to_news.clone(), &start);
                scope.spawn(move || start(end, to_news));
            }
            drop(to_news);
            loop {
                match news.recv_timeout(HEARTBEAT) {
                    Ok(News::Upload(end, sent, all)) => progress(ways[end as usize].node(), sent, all),
                    Ok(News::Started(end, agent)) => agents[end as usize] = Some(*agent),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
                if Instant::now() >= beat_at {
                    beat_at = Instant::now() + HEARTBEAT;
                    agents.iter().flatten().flatten().for_each(Agent::beat);
                }
            }
        });
        let [local, peer] = agents.map(|agent| agent.expect("its thread sent it, or the scope panicked with it"));
        Ok([local?, peer?])
    }

    /// Sends one message for one worker; an agent that is gone shows through its
    /// stream.
    pub fn tell(&self, worker: u32, message: &ToAgent) {
        if let Some(to_agent) = &self.to_agent {
            let _ = to_agent.send(&(worker, message));
        }
    }

    /// Says that the coordinator is there, and asks for the node's clock.
    pub fn beat(&self) {
        self.tell(0, &ToAgent::Heartbeat { us: now_us() });
    }

    /// Notes that something came from it.
    pub fn heard(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Takes the answer to a heartbeat: the quickest one tells the clock best.
    pub fn echoed(&mut self, sent_us: u64, node_us: u64) {
        let now = now_us();
        let Some(round_trip_us) = now.checked_sub(sent_us) else { return };
        if self.clock.is_none_or(|clock| round_trip_us < clock.round_trip_us) {
            let middle = sent_us + round_trip_us / 2;
            let offset_us = node_us.cast_signed().saturating_sub(middle.cast_signed());
            self.clock = Some(Clock { offset_us, round_trip_us });
        }
    }

    /// What it shows of its node, the given end, with names and times of this machine.
    pub fn seen_from_here(&self, end: End, theirs: Vec<Update>) -> impl Iterator<Item = Update> + use<> {
        let ahead_us = self.clock.map_or(0, |clock| clock.offset_us);
        theirs.into_iter().filter_map(move |one| one.seen_from_here(end.name(), ahead_us))
    }

    /// How long nothing has come from it.
    pub fn silence(&self) -> Duration {
        self.heard_at.elapsed()
    }

    /// Whether it has been silent for too long.
    pub fn is_lost(&self) -> bool {
        self.silence() > SILENCE_MAX
    }

    /// Lets it go: it ends by itself when its stdin does, taking its worker with
    /// it. One that has been silent is not waited for.
    pub fn finish(&mut self) {
        self.to_agent = None;
        self.hold.finish(if self.is_lost() { Duration::ZERO } else { HEARTBEAT });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Before the first message, or a line that is none.
type First = Result<FromAgent, String>;

fn greeting(node: &str, hello: &mpsc::Receiver<First>, addresses: Addresses) -> Result<Greeting, LaunchError> {
    let (mut said, mut known) = (Vec::new(), None);
    let until = Instant::now() + SILENCE_MAX;
    loop {
        match (hello.recv_timeout(until.saturating_duration_since(Instant::now())), &mut known) {
            (Ok(Ok(FromAgent::Hello { protocol: PROTOCOL, facts, reached_at, .. })), _) => {
                known = Some((facts, reached_at));
            }
            (Ok(Ok(FromAgent::Hello { protocol, version, .. })), _) => {
                return Err(LaunchError::Version { node: node.into(), version, theirs: protocol });
            }
            (Ok(Ok(FromAgent::Chosen(plugin))), Some(_)) => {
                if let Some((facts, reached_at)) = known {
                    return Ok(Greeting { facts, plugin, addresses, reached_at });
                }
            }
            (Ok(Ok(_)), _) => {}
            (Ok(Err(text)), _) => match other_version(&text) {
                Some((version, theirs)) => return Err(LaunchError::Version { node: node.into(), version, theirs }),
                None => said.push(text),
            },
            (Err(error), _) => {
                let ended = error == mpsc::RecvTimeoutError::Disconnected;
                return Err(LaunchError::Silent { node: node.into(), ended, said });
            }
        }
    }
}

/// Version and protocol of a greeting that this version cannot read: they have
/// been told in these words since the first.
fn other_version(text: &str) -> Option<(String, u32)> {
    let greeting = &text[text.find("\"hello\"")?..];
    let value = |key: &str| Some(greeting.split_once(key)?.1.trim_start_matches([':', ' ', '"']));
    let protocol = value("\"protocol\"")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let version = value("\"version\"")?.split('"').next()?;
    (protocol != PROTOCOL).then(|| (version.to_owned(), protocol))
}

/// Lines beside the stream are noise; the first ones may be the reason why
/// nothing else comes.
fn for_each_line(
    end: End,
    beside: Option<mpsc::Receiver<String>>,
    events: &mpsc::Sender<Event>,
    first: &mpsc::Sender<First>,
) {
    let Some(beside) = beside else { return };
    let (events, first) = (events.clone(), first.clone());
    std::thread::spawn(move || {
        for line in beside {
            // Whoever has gone does not want it.
            let _ = first.send(Err(line.clone()));
            let _ = events.send(Event::Noise(end, line));
        }
    });
}

fn read_agent(end: End, stdout: impl io::Read, first: &mpsc::Sender<First>, events: &mpsc::Sender<Event>) {
    let mut receiver = Receiver::new(stdout);
    let mut greeted = false;
    while let Ok(Some(received)) = receiver.next::<Stamped>() {
        match received {
            Received::Message((node_us, worker, message)) if greeted => {
                drop(events.send(Event::From(Said { end, node_us, worker, message })));
            }
            Received::Message((_, _, message)) => {
                greeted = matches!(message, FromAgent::Chosen { .. });
                drop(first.send(Ok(message)));
            }
            Received::Text(text) if greeted => drop(events.send(Event::Noise(end, text))),
            Received::Text(text) => drop(first.send(Err(text))),
        }
    }
    drop(events.send(Event::Gone(end)));
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
        for text in ["hello", "\"hello\" says nobody", "", "{\"hello\":{\"protocol\":\"x\"}}"] {
            assert_eq!(other_version(text), None, "{text}");
        }
    }

    #[test]
    fn the_quickest_echo_tells_the_clock() {
        struct Nothing;
        impl Hold for Nothing {
            fn finish(&mut self, _patience: Duration) {}
        }
        let greeting = Greeting {
            facts: Box::new(NodeFacts::read(&tcpx_node::Root::live())),
            plugin: Err(NoPlugin { why: String::new(), next_step: None }),
            addresses: Addresses::default(),
            reached_at: None,
        };
        let mut agent =
            Agent { to_agent: None, hold: Box::new(Nothing), heard_at: Instant::now(), greeting, clock: None };
        let now = now_us();
        agent.echoed(now - 9_000_000, now + 5_000_000);
        let slow = agent.clock.expect("measured");
        assert!(slow.round_trip_us >= 9_000_000);
        agent.echoed(now - 1000, now + 7_000_000);
        let quick = agent.clock.expect("measured");
        assert!(quick.round_trip_us < slow.round_trip_us && (6_000_000..=7_001_000).contains(&quick.offset_us));
        agent.echoed(now - 9_000_000, 0);
        assert_eq!(agent.clock, Some(quick));
    }
}
