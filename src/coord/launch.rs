//! Agents, seen from the coordinator: started, spoken to, heard, lost.
#![forbid(unsafe_code)]

use super::agent::{HEARTBEAT, SILENCE_MAX};
use super::message::{FromAgent, PROTOCOL, ToAgent};
use super::wire::{Received, Receiver, Sender};
use crate::error::Outcome;
use crate::node::NodeFacts;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

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
    From(End, FromAgent),
    /// Text before the first message, or a line that is none.
    Noise(End, String),
    /// The agent's stream ended.
    Gone(End),
}

/// Why an agent could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The process could not be started.
    #[error("cannot start the agent of the {} end: {source}", end.name())]
    Start {
        /// Which.
        end: End,
        /// The system's words.
        source: io::Error,
    },
    /// It ended or kept silent before its first message.
    #[error("the agent of the {} end {}{}", end.name(), silence(*ended), noise(said))]
    Silent {
        /// Which.
        end: End,
        /// Whether it is gone.
        ended: bool,
        /// What came instead.
        said: Vec<String>,
    },
    /// It speaks another version of our protocol.
    #[error("the agent of the {} end speaks protocol {theirs}, this program {PROTOCOL}", end.name())]
    Version {
        /// Which.
        end: End,
        /// Its version.
        theirs: u32,
    },
}

impl LaunchError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Start { .. } | Self::Version { .. } => Outcome::NotRun,
            Self::Silent { .. } => Outcome::PeerLost,
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
    end: End,
    child: Child,
    stdin: Option<Sender<ChildStdin>>,
    /// What its node is; there once it has reported.
    pub facts: Option<Box<NodeFacts>>,
    heard_at: Instant,
}

impl Agent {
    /// Starts the agent of this machine as a child and waits for its first
    /// message; everything after goes to `events`.
    pub fn start_local(end: End, events: &mpsc::Sender<Event>) -> Result<Self, LaunchError> {
        let start = |source| LaunchError::Start { end, source };
        let program = std::env::current_exe().map_err(start)?;
        let mut command = Command::new(program);
        // A group of its own: Ctrl-C is for the coordinator, which ends the rest in order.
        command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).process_group(0);
        let mut child = command.spawn().map_err(start)?;
        let stdin = child.stdin.take().map(Sender::new);
        let Some(stdout) = child.stdout.take() else {
            return Err(LaunchError::Silent { end, ended: false, said: Vec::new() });
        };
        let (first, hello) = mpsc::channel();
        let events = events.clone();
        std::thread::spawn(move || read_agent(end, stdout, &first, &events));
        let mut agent = Self { end, child, stdin, facts: None, heard_at: Instant::now() };
        agent.await_hello(&hello)?;
        Ok(agent)
    }

    fn await_hello(&mut self, hello: &mpsc::Receiver<Result<FromAgent, String>>) -> Result<(), LaunchError> {
        let mut said = Vec::new();
        let until = Instant::now() + SILENCE_MAX;
        loop {
            match hello.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ok(FromAgent::Hello { protocol: PROTOCOL, facts, .. })) => {
                    self.facts = Some(facts);
                    self.heard();
                    return Ok(());
                }
                Ok(Ok(FromAgent::Hello { protocol, .. })) => {
                    return Err(LaunchError::Version { end: self.end, theirs: protocol });
                }
                Ok(Ok(_)) => {}
                Ok(Err(text)) => said.push(text),
                Err(error) => {
                    let ended = error == mpsc::RecvTimeoutError::Disconnected;
                    return Err(LaunchError::Silent { end: self.end, ended, said });
                }
            }
        }
    }

    /// Sends one message; an agent that is gone shows through its stream.
    pub fn tell(&self, message: &ToAgent) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.send(message);
        }
    }

    /// Notes that something came from it.
    pub fn heard(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Whether it has been silent for too long.
    pub fn is_lost(&self) -> bool {
        self.heard_at.elapsed() > SILENCE_MAX
    }

    /// Lets it go: it ends by itself when its stdin does, taking its worker with
    /// it; one that does not is killed. One that not even that ends, because it
    /// is stuck in the kernel, is left to it.
    pub fn finish(&mut self) {
        self.stdin = None;
        if !self.ends_within(HEARTBEAT) {
            let _ = self.child.kill();
            self.ends_within(HEARTBEAT);
        }
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.finish();
    }
}

fn read_agent(
    end: End,
    stdout: impl io::Read,
    first: &mpsc::Sender<Result<FromAgent, String>>,
    events: &mpsc::Sender<Event>,
) {
    let mut receiver = Receiver::new(stdout);
    let mut greeted = false;
    while let Ok(Some(received)) = receiver.next() {
        match received {
            Received::Message(message) if greeted => drop(events.send(Event::From(end, message))),
            Received::Message(message) => {
                greeted = matches!(message, FromAgent::Hello { .. });
                drop(first.send(Ok(message)));
            }
            Received::Text(text) if greeted => drop(events.send(Event::Noise(end, text))),
            Received::Text(text) => drop(first.send(Err(text))),
        }
    }
    drop(events.send(Event::Gone(end)));
}
