//! Follows the recorders on other nodes through their agents, as events with this machine's
//! times.
//!
//! No worker is started and nothing is changed on the nodes. The agents end with this process.
#![forbid(unsafe_code)]

use super::edge::seen_from_here;
use super::launch::{Agent, AgentEvent, LaunchError, ReceivedMessage};
use super::owners::Owners;
use super::pulse::Pulse;
use crate::protocol::limits::HEARTBEAT;
use crate::protocol::message::{AgentMessage, CoordinatorOrder};
use crate::reach::Transport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tcpx_run_model::counters::ChannelKey;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{NodeId, NodeIntro, Who, shown_names};
use tcpx_run_model::live::RecorderFilter;
use tcpx_run_model::scenario::PluginChoice;
use tcpx_words::units::now_us;

/// Most messages handled in one call of `look`.
const EVENTS_MAX: usize = 10_000;

/// Longest wait until every node has told once what it has.
const ANSWERED_MAX: Duration = Duration::from_secs(3);
const ANSWERED_EVERY: Duration = Duration::from_millis(20);

/// Nodes that are watched.
pub struct Watching {
    agents: Vec<(Agent, Pulse)>,
    events: mpsc::Receiver<AgentEvent>,
    nodes: Vec<NodeIntro>,
    began: Instant,
    began_us: u64,
    beat_at: Instant,
    wanted: Option<ChannelKey>,
    is_introduced: bool,
    /// Whether a node has told what it has, by number.
    answered: Vec<bool>,
    /// Events from before the first call of `look`, and why there are no more.
    early: Vec<Event>,
    lost: Option<String>,
    /// The node of a recorder that several nodes see.
    owners: Owners,
}

impl Watching {
    /// Starts an agent on each node and asks for the events of all recorders there. Returns once
    /// every node has told what it has, or after a few seconds. A recorder that several nodes see is
    /// shown at one of them: at that of `named`, if its process is there.
    ///
    /// # Errors
    /// A node cannot be reached, or its agent does not start.
    pub fn start(
        transports: &[Box<dyn Transport>],
        named: Vec<(NodeId, u32)>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&str, u64, u64),
    ) -> Result<Self, LaunchError> {
        let (to_events, events) = mpsc::channel();
        let agents = Agent::start_all(
            transports,
            &PluginChoice::default(),
            &to_events,
            interrupted,
            progress,
        )
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<&str> = transports
            .iter()
            .map(|transport| transport.node())
            .collect();
        let names = shown_names(&addresses).into_iter().zip(&addresses);
        let mut watching = Self {
            answered: vec![false; addresses.len()],
            agents: agents
                .into_iter()
                .map(|agent| (agent, Pulse::new(Duration::ZERO)))
                .collect(),
            events,
            nodes: names
                .map(|(name, address)| NodeIntro {
                    name,
                    address: (*address).to_owned(),
                })
                .collect(),
            began: Instant::now(),
            began_us: now_us(),
            beat_at: Instant::now() + HEARTBEAT,
            wanted: None,
            is_introduced: false,
            early: Vec::new(),
            lost: None,
            owners: Owners::new(named),
        };
        watching.ask();
        watching.wait(interrupted);
        Ok(watching)
    }

    /// Waits until every node has told what it has.
    fn wait(&mut self, interrupted: &AtomicBool) {
        let mut early = Vec::new();
        while self.answered.contains(&false)
            && self.began.elapsed() < ANSWERED_MAX
            && !interrupted.load(Ordering::Relaxed)
        {
            if let Err(why) = self.receive(&mut early) {
                self.lost = Some(why);
                break;
            }
            std::thread::sleep(ANSWERED_EVERY);
        }
        // Not as each node tells what it has: which one tells first is chance.
        self.keep_owned(&mut early);
        self.early = early;
    }

    /// Removes the events of recorders that are shown at another node.
    fn keep_owned(&mut self, events: &mut Vec<Event>) {
        self.owners.decide();
        let is_repeat = |event: &Event| {
            let worker = event.worker();
            worker.is_some_and(|worker| self.owners.is_repeat(worker))
        };
        events.retain(|event| !is_repeat(event));
    }

    /// Whether what a process writes on this node is shown at another that sees it too.
    pub fn is_elsewhere(&self, process: (NodeId, u32)) -> bool {
        self.owners.is_elsewhere(process)
    }

    /// The nodes with their names.
    pub fn nodes(&self) -> &[NodeIntro] {
        &self.nodes
    }

    fn ask(&self) {
        for (node, (agent, _)) in (0..).map(NodeId).zip(&self.agents) {
            // An agent numbers its own node 0.
            let theirs = self
                .wanted
                .as_ref()
                .filter(|wanted| wanted.worker.node == node)
                .cloned();
            let focused = theirs.map(|mut channel| {
                channel.worker.node = NodeId(0);
                channel
            });
            agent.tell(
                0,
                &CoordinatorOrder::Watch {
                    which: RecorderFilter::All,
                    focused,
                },
            );
        }
    }

    /// Selects the channel to show in detail.
    pub fn want(&mut self, channel: Option<ChannelKey>) {
        if self.wanted != channel {
            self.wanted = channel;
            self.ask();
        }
    }

    /// Appends the events since the last call.
    ///
    /// # Errors
    /// The name of a node whose agent is gone or is not heard any more, in a sentence.
    pub fn look(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        events.append(&mut self.early);
        if let Some(why) = self.lost.take() {
            return Err(why);
        }
        let mut new = Vec::new();
        let received = self.receive(&mut new);
        self.keep_owned(&mut new);
        events.append(&mut new);
        received
    }

    fn receive(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        if !std::mem::replace(&mut self.is_introduced, true) {
            events.push(Event::new(
                0.0,
                Who::Run,
                EventKind::Nodes(self.nodes.clone()),
            ));
        }
        let now = self.began.elapsed();
        for event in self.events.try_iter().take(EVENTS_MAX) {
            match event {
                AgentEvent::Message(ReceivedMessage {
                    node,
                    node_us,
                    message,
                    ..
                }) => {
                    let Some((_, pulse)) = self.agents.get_mut(node.index()) else {
                        continue;
                    };
                    pulse.heard(now);
                    match message {
                        AgentMessage::Echo { us } => pulse.echoed(us, node_us, now_us()),
                        AgentMessage::Found(found) => self.owners.note(node, found),
                        AgentMessage::Watched(theirs) => {
                            self.answered[node.index()] = true;
                            events.extend(theirs.into_iter().filter_map(|event| {
                                let us = event
                                    .node_us
                                    .map_or_else(now_us, |us| pulse.by_our_clock(us));
                                let ms = us.wrapping_sub(self.began_us).cast_signed() as f64 / 1e3;
                                seen_from_here(event, node, ms)
                            }))
                        }
                        _ => {}
                    }
                }
                AgentEvent::Text(node, text) => {
                    let kind = EventKind::Output {
                        stream: "login".into(),
                        text,
                    };
                    events.push(Event::new(now.as_secs_f64() * 1e3, Who::Node(node), kind));
                }
                AgentEvent::Gone(node) => {
                    return Err(format!("the agent of {} is gone", self.name(node)));
                }
            }
        }
        if Instant::now() >= self.beat_at {
            self.beat_at = Instant::now() + HEARTBEAT;
            self.agents.iter().for_each(|(agent, _)| agent.beat());
        }
        let lost = self.agents.iter().position(|(_, pulse)| pulse.is_lost(now));
        match lost.and_then(|index| self.nodes.get(index)) {
            Some(node) => Err(format!("the agent of {} is not heard any more", node.name)),
            None => Ok(()),
        }
    }

    fn name(&self, node: NodeId) -> &str {
        self.nodes
            .get(node.index())
            .map_or("a node", |node| node.name.as_str())
    }
}
