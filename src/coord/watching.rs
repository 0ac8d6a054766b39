//! Both nodes watched through their agents: whatever writes a recorder there now,
//! as one stream of updates on this machine's clock.
//!
//! No worker is started and nothing is changed there; the agents end with us.
#![forbid(unsafe_code)]

use super::agent::HEARTBEAT;
use super::launch::{Agent, End, Event, LaunchError, Said};
use super::message::{FromAgent, ToAgent};
use super::reach::Transport;
use std::sync::mpsc;
use std::time::Instant;
use tcpx_run_model::record::live::{ChannelKey, Line, LineKind, Update, Which};
use tcpx_run_model::scenario::PluginChoice;

/// Messages taken in one look.
const EVENTS_MAX: usize = 10_000;

/// Two nodes that are watched.
pub struct Watching {
    agents: [Agent; 2],
    events: mpsc::Receiver<Event>,
    beat_at: Instant,
    wanted: Option<ChannelKey>,
}

impl Watching {
    /// Starts both agents and asks for everything that goes on there.
    ///
    /// # Errors
    /// A node cannot be reached, or no agent can be had there.
    pub fn start(
        ways: &[Box<dyn Transport>; 2],
        progress: &mut dyn FnMut(&str, u64, u64),
    ) -> Result<Self, LaunchError> {
        let (to_events, events) = mpsc::channel();
        let agents = Agent::start_both(ways, &PluginChoice::default(), &to_events, progress)?;
        let watching = Self { agents, events, beat_at: Instant::now() + HEARTBEAT, wanted: None };
        watching.ask();
        Ok(watching)
    }

    fn ask(&self) {
        for end in End::ALL {
            let theirs = self.wanted.as_ref().and_then(|wanted| wanted.seen_from_there(end.name()));
            self.agents[end as usize].tell(0, &ToAgent::Watch { which: Which::All, closely: theirs });
        }
    }

    /// The channel to look at closely.
    pub fn want(&mut self, channel: Option<ChannelKey>) {
        if self.wanted != channel {
            self.wanted = channel;
            self.ask();
        }
    }

    /// What has come since the last look.
    ///
    /// # Errors
    /// An agent is gone, in words.
    pub fn look(&mut self, updates: &mut Vec<Update>) -> Result<(), String> {
        for event in self.events.try_iter().take(EVENTS_MAX) {
            match event {
                Event::From(Said { end, node_us, message, .. }) => {
                    self.agents[end as usize].heard();
                    match message {
                        FromAgent::Echo { us } => self.agents[end as usize].echoed(us, node_us),
                        FromAgent::Watched(theirs) => {
                            updates.extend(self.agents[end as usize].seen_from_here(end, theirs));
                        }
                        _ => {}
                    }
                }
                Event::Noise(end, text) => updates.push(Update::Line(Line {
                    node: end.name().to_owned(),
                    at_ns: tcpx_words::units::now_us() * 1000,
                    kind: LineKind::Output,
                    text,
                })),
                Event::Gone(end) => return Err(format!("the agent of the {} end is gone", end.name())),
            }
        }
        if Instant::now() >= self.beat_at {
            self.beat_at = Instant::now() + HEARTBEAT;
            self.agents.iter().for_each(Agent::beat);
        }
        let silent = End::ALL.into_iter().find(|end| self.agents[*end as usize].is_lost());
        silent.map_or(Ok(()), |end| Err(format!("the agent of the {} end fell silent", end.name())))
    }
}
