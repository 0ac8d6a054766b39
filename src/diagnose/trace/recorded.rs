//! Everything that is known, read into memory: workers, their channels and events.
#![forbid(unsafe_code)]

use tcpx_recorder::format::Role;
use tcpx_recorder::{ChannelSample, Event, Events, LogEntry, ReadError, Reader};
use tcpx_run_model::ids::WorkerId;
use tcpx_run_model::record::Sample;
use tcpx_words::side::Side;

/// Log lines of one worker that are shown.
const LINES_MAX: usize = 100_000;
/// Events of one ring that are read: all that a ring can hold.
const EVENTS_MAX: usize = 1 << 20;

/// A run, or a process, as its recorders and its event stream tell it.
#[derive(Debug, Default)]
pub struct Trace {
    /// One for each recorder.
    pub workers: Vec<WorkerTrace>,
    /// Counters over time by the name of the worker: what rings have long overwritten.
    pub samples: Vec<(String, Vec<Sample>)>,
    /// What the coordinator noted, nanoseconds since 1970.
    pub notes: Vec<(u64, String)>,
}

/// One recorder.
#[derive(Debug)]
pub struct WorkerTrace {
    /// Whose it is; a recorder of somebody else's program is of a process.
    pub id: WorkerId,
    /// `local`, `peer gpu 3`, `pid 4242`.
    pub name: String,
    /// What it drove.
    pub plugin: String,
    /// Channels that move data, then listeners.
    pub channels: Vec<ChannelTrace>,
    /// Calls that belong to no channel.
    pub setup: Events,
    /// What the plugin logged.
    pub log: Vec<LogEntry>,
    /// What to add to a time of the recorder to get nanoseconds since 1970.
    to_unix: i64,
}

/// One channel, or one listener.
#[derive(Debug)]
pub struct ChannelTrace {
    /// `send 3`, as people call it.
    pub name: String,
    /// What its comm is there for.
    pub role: Role,
    /// The engine's number, else its turn among those of its side.
    pub index: usize,
    /// Interface, or the plugin's number for it.
    pub device: String,
    /// Counters at the end.
    pub sample: ChannelSample,
    /// Its history, as far as it is kept.
    pub events: Events,
}

impl Trace {
    /// Events of all channels.
    pub fn events(&self) -> usize {
        self.workers
            .iter()
            .flat_map(|worker| &worker.channels)
            .map(|channel| channel.events.events.len())
            .sum()
    }

    /// Events of all channels that are gone.
    pub fn overwritten(&self) -> u64 {
        let channels = self.workers.iter().flat_map(|worker| &worker.channels);
        channels.fold(0u64, |sum, channel| {
            sum.saturating_add(channel.events.overwritten)
        })
    }
}

impl ChannelTrace {
    /// Which end of its connection it is; a listener is none.
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
    /// Reads a recorder, whole.
    ///
    /// # Errors
    /// It is none, or claims what cannot be.
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
            name: name.to_owned(),
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

    /// This node's clock is so much ahead of the coordinator's.
    pub fn move_clock(&mut self, ahead_us: i64) {
        self.to_unix = self.to_unix.wrapping_sub(ahead_us.wrapping_mul(1000));
    }

    /// A time of the recorder as nanoseconds since 1970, by the coordinator's clock.
    pub fn unix_ns(&self, at_ns: u64) -> u64 {
        at_ns.wrapping_add(self.to_unix.cast_unsigned())
    }

    /// The first and the last thing that is known, nanoseconds since 1970.
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
