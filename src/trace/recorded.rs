//! A trace in memory: workers, their channels and events.
#![forbid(unsafe_code)]

use tcpx_recorder::format::Role;
use tcpx_recorder::{ChannelSample, Event, Events, LogEntry, ReadError, Reader};
use tcpx_run_model::counters::{Sample, name_with_endpoint};
use tcpx_run_model::ids::WorkerId;
use tcpx_words::side::Side;

/// Most log lines of one worker.
const LINES_MAX: usize = 100_000;
/// Most events of one ring: the capacity of the largest.
const EVENTS_MAX: usize = 1 << 20;

/// The recorders and the event stream of a run, or the recorders of a process.
#[derive(Debug, Default)]
pub struct Trace {
    /// One per recorder.
    pub workers: Vec<WorkerTrace>,
    /// Sampled counters by name of the worker; they reach further back than the rings.
    pub samples: Vec<(String, Vec<Sample>)>,
    /// Notes of the coordinator, with their times in nanoseconds since 1970.
    pub notes: Vec<(u64, String)>,
    /// Files of the run that cannot be read, or only in part, in words.
    pub damaged: Vec<String>,
    /// How many of them are recorder files of which nothing can be read.
    pub unreadable_recorders: usize,
}

/// One recorder.
#[derive(Debug)]
pub struct WorkerTrace {
    /// The worker, or the process of a program that tcpxctl did not start.
    pub id: WorkerId,
    /// `local`, `peer gpu 3`, `pid 4242`.
    pub name: String,
    /// Name of the plugin.
    pub plugin: String,
    /// Channels that send, channels that receive, then listeners.
    pub channels: Vec<ChannelTrace>,
    /// Events of calls that belong to no channel.
    pub setup: Events,
    /// Lines of the plugin's log.
    pub log: Vec<LogEntry>,
    /// Added to a time of the recorder, it gives nanoseconds since 1970.
    to_unix: i64,
}

/// One channel, or one listener.
#[derive(Debug)]
pub struct ChannelTrace {
    /// Printed name, such as `send 3`.
    pub name: String,
    /// Whether its comm sends, receives or listens.
    pub role: Role,
    /// The engine's index; without one, the position among the channels of its role.
    pub index: usize,
    /// Interface, or `device N` if its name is unknown.
    pub device: String,
    /// Last counters.
    pub sample: ChannelSample,
    /// The events in its ring.
    pub events: Events,
}

impl Trace {
    /// Number of events of all channels.
    pub fn events(&self) -> usize {
        self.workers
            .iter()
            .flat_map(|worker| &worker.channels)
            .map(|channel| channel.events.events.len())
            .sum()
    }

    /// Number of events of all channels that their rings should have, and that are cut off or not
    /// valid.
    pub fn unreadable(&self) -> u64 {
        let channels = self.workers.iter().flat_map(|worker| &worker.channels);
        channels.fold(0u64, |sum, channel| {
            sum.saturating_add(channel.events.damaged)
        })
    }

    /// Number of overwritten events of all channels.
    pub fn overwritten(&self) -> u64 {
        let channels = self.workers.iter().flat_map(|worker| &worker.channels);
        channels.fold(0u64, |sum, channel| {
            sum.saturating_add(channel.events.overwritten)
        })
    }
}

impl ChannelTrace {
    /// Which end of its connection it is; `None` for a listener.
    pub fn side(&self) -> Option<Side> {
        match self.role {
            Role::Listen => None,
            Role::Send => Some(Side::Send),
            Role::Recv => Some(Side::Recv),
        }
    }

    /// `send`, `recv` or `listen`.
    pub fn role_name(&self) -> &'static str {
        role_name(self.role)
    }
}

impl WorkerTrace {
    /// Reads a whole recorder.
    ///
    /// # Errors
    /// The file is not a recorder, or its contents are impossible.
    pub fn read(id: WorkerId, name: &str, reader: &mut Reader) -> Result<Self, ReadError> {
        let snapshot = reader.snapshot()?;
        let header = snapshot.header;
        let mut channels: Vec<ChannelTrace> = Vec::new();
        for sample in snapshot.channels {
            let events = reader.events(&sample, EVENTS_MAX)?;
            let role = sample.role;
            let before = channels
                .iter()
                .filter(|channel| channel.role == role)
                .count();
            let index = sample.channel.map_or(before, |number| number as usize);
            let facts = sample
                .device
                .and_then(|device| header.devices.get(usize::try_from(device).ok()?)?.as_ref());
            let device = match (facts, sample.device) {
                (Some(facts), _) => facts.name.clone(),
                (None, Some(number)) => format!("device {number}"),
                (None, None) => String::new(),
            };
            let name = format!("{} {index}", role_name(role));
            channels.push(ChannelTrace {
                name,
                role,
                index,
                device,
                sample,
                events,
            });
        }
        channels.sort_by_key(|channel| (order(channel.role), channel.index, channel.sample.slot));
        Ok(Self {
            id,
            name: name_with_endpoint(name, &header.role),
            plugin: header.plugin,
            channels,
            setup: reader.setup_events(EVENTS_MAX)?,
            log: reader.log(0, LINES_MAX)?.lines,
            to_unix: header
                .created_wall_ns
                .wrapping_sub(header.created_ns)
                .cast_signed(),
        })
    }

    /// Corrects times of a node whose clock is ahead of the coordinator's by `ahead_us`.
    pub fn move_clock(&mut self, ahead_us: i64) {
        self.to_unix = self.to_unix.wrapping_sub(ahead_us.wrapping_mul(1000));
    }

    /// A time of the recorder as nanoseconds since 1970, by the coordinator's clock.
    pub fn unix_ns(&self, at_ns: u64) -> u64 {
        at_ns.wrapping_add(self.to_unix.cast_unsigned())
    }

    /// Times of the first and the last event or line, nanoseconds since 1970.
    pub fn span(&self) -> Option<(u64, u64)> {
        let events = |events: &Events| {
            let time = |event: Option<&Event>| event.map(|event| event.at_ns);
            [time(events.events.first()), time(events.events.last())]
        };
        let channels = self
            .channels
            .iter()
            .flat_map(|channel| events(&channel.events));
        let lines = [self.log.first(), self.log.last()].map(|line| line.map(|line| line.at_ns));
        let times = channels
            .chain(events(&self.setup))
            .chain(lines)
            .flatten()
            .map(|at_ns| self.unix_ns(at_ns));
        times.fold(None, |span, at| {
            Some(span.map_or((at, at), |(first, last): (u64, u64)| {
                (first.min(at), last.max(at))
            }))
        })
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Listen => "listen",
        Role::Send => "send",
        Role::Recv => "recv",
    }
}

fn order(role: Role) -> u8 {
    match role {
        Role::Send => 0,
        Role::Recv => 1,
        Role::Listen => 2,
    }
}
