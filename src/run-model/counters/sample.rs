//! Reads the counters of every channel from a worker's flight recorder.
#![forbid(unsafe_code)]

use super::{CallWatch, ChannelNow, CpuWatch, LatencyUs};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tcpx_recorder::format::{OperationKind, Role};
use tcpx_recorder::{ChannelSample, EndedHow, Reader, Snapshot, State, monotonic_ns, note_life};
use tcpx_words::side::Side;

/// Size of one piece of a recorder file sent to the coordinator.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces kept of one recorder: 64 MiB, the events of some 2000 channels.
const PIECES_MAX: usize = 1024;
/// Bytes of a recorder file that are searched for data.
const SPAN_MAX: u64 = 4 << 30;

/// Time between two looks at whether a call has returned.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Samples one recorder file repeatedly.
pub struct Sampler {
    path: PathBuf,
    reader: Option<Reader>,
    cpu: CpuWatch,
    calls: CallWatch,
}

/// The calls that a recorder has counted, of set-up and by channel: its slot, its generation, its tests and the
/// sequence of the call that it is inside of.
#[derive(Debug, PartialEq, Eq)]
pub struct CallsSoFar {
    setup: (u64, u64),
    channels: Vec<(u16, u32, u64, Option<u64>)>,
}

impl Sampler {
    /// Opens the file now, because the writer removes it when it ends. If the file does not exist
    /// yet, each sample tries again.
    pub fn new(path: PathBuf) -> Self {
        Self {
            reader: Reader::open(&path).ok(),
            path,
            cpu: CpuWatch::default(),
            calls: CallWatch::default(),
        }
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        if self.reader.is_none() {
            self.reader = Reader::open(&self.path).ok();
        }
        self.reader.as_mut()?.snapshot().ok()
    }

    /// Counters of every send and receive channel, sends first; empty if the file cannot be read.
    pub fn now(&mut self) -> Vec<ChannelNow> {
        let Some(snapshot) = self.snapshot() else {
            return Vec::new();
        };
        let now_ns = monotonic_ns();
        self.calls.note(&snapshot, now_ns);
        let mut all = watched_channels(&snapshot, now_ns, &self.calls);
        self.cpu
            .note(&snapshot.header.writer, &mut all, Instant::now());
        all
    }

    /// Adds the waits for a CPU to counters that the writer has just taken of itself.
    pub fn note_waits<'a>(&mut self, channels: impl IntoIterator<Item = &'a mut ChannelNow>) {
        if let Some(snapshot) = self.snapshot() {
            self.cpu
                .note(&snapshot.header.writer, channels, Instant::now());
        }
    }

    /// What differs if a call began or returned in between.
    pub fn calls_so_far(&mut self) -> Option<CallsSoFar> {
        let snapshot = self.snapshot()?;
        let of_channel = |one: &ChannelSample| {
            let inside = one.in_call.map(|inside| inside.sequence);
            (one.slot, one.generation, one.tests, inside)
        };
        Some(CallsSoFar {
            setup: (
                snapshot.header.setup_calls,
                snapshot.header.setup_calls_inside,
            ),
            channels: snapshot.channels.iter().map(of_channel).collect(),
        })
    }

    /// Whether a call begins or returns within `limit`; looks every 20 ms.
    pub fn calls_return_within(&mut self, limit: Duration) -> bool {
        let before = self.calls_so_far();
        let until = Instant::now() + limit;
        while before.is_some() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
            if self.calls_so_far() != before {
                return true;
            }
        }
        false
    }

    /// Another reader of the same file.
    pub fn again(&self) -> Self {
        Self::new(self.path.clone())
    }

    /// The plugin call that has not returned, on a channel or during setup.
    pub fn in_call(&mut self) -> Option<String> {
        let snapshot = self.snapshot()?;
        let on_channel = snapshot.channels.iter().find_map(|channel| {
            let call = channel.in_call?.call.name();
            Some(match (channel.role, channel.channel) {
                (Role::Send | Role::Recv, Some(number)) => {
                    format!("{call} on {} channel {number}", side(channel))
                }
                _ => call.to_owned(),
            })
        });
        on_channel.or_else(|| {
            let inside = snapshot.header.setup_calls_inside > 0;
            inside
                .then(|| {
                    snapshot
                        .header
                        .setup_call
                        .map(|call| call.name().to_owned())
                })
                .flatten()
        })
    }

    /// The file's pieces in order with their offsets, without pieces of zeroes, which are most of
    /// the file; at most `PIECES_MAX`.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, Vec<u8>)> + '_ {
        let file = self.reader.as_ref().map(Reader::file);
        let length = file
            .and_then(|file| file.metadata().ok())
            .map_or(0, |meta| meta.len().min(SPAN_MAX));
        let offsets = (0..length).step_by(PIECE_BYTES);
        let piece = move |offset: u64| {
            let mut bytes = vec![0; PIECE_BYTES];
            let length = file?.read_at(&mut bytes, offset).ok()?;
            bytes.truncate(length);
            bytes
                .iter()
                .any(|byte| *byte != 0)
                .then_some((offset, bytes))
        };
        offsets.filter_map(piece).take(PIECES_MAX)
    }

    /// Writes into the file how its writer ended, which one that was killed could not.
    pub fn note_end(&self, how: EndedHow) {
        // Without it, the file does not tell for how long channels stood still.
        let _ = note_life(&self.path, how);
    }

    /// Removes the file of a writer that was killed.
    pub fn remove(self) {
        // Fails if the writer removed the file itself.
        let _ = std::fs::remove_file(self.path);
    }
}

/// Every send and receive channel of a snapshot with its side and its index within the side.
pub(crate) fn role_index(
    snapshot: &Snapshot,
) -> impl Iterator<Item = (&ChannelSample, Side, usize)> {
    let mut before = [0; 2];
    let moving = snapshot
        .channels
        .iter()
        .filter(|sample| matches!(sample.role, Role::Send | Role::Recv));
    moving.map(move |sample| {
        let count = &mut before[usize::from(sample.role == Role::Recv)];
        let index = sample.channel.map_or(*count, |number| number as usize);
        *count += 1;
        (sample, side(sample), index)
    })
}

fn side(sample: &ChannelSample) -> Side {
    if sample.role == Role::Send {
        Side::Send
    } else {
        Side::Recv
    }
}

/// Counters of every send and receive comm, sends first.
pub fn channels(snapshot: &Snapshot, now_ns: u64) -> Vec<ChannelNow> {
    watched_channels(snapshot, now_ns, &CallWatch::default())
}

/// The same, with how long each has been inside one call.
pub(crate) fn watched_channels(
    snapshot: &Snapshot,
    now_ns: u64,
    calls: &CallWatch,
) -> Vec<ChannelNow> {
    let mut all: Vec<ChannelNow> = role_index(snapshot)
        .map(|(sample, _, index)| {
            let inside_ns = calls.since_ns(sample).map(|ns| now_ns.saturating_sub(ns));
            ChannelNow {
                in_call_ms: inside_ns.unwrap_or_default() / 1_000_000,
                ..channel(sample, index, now_ns)
            }
        })
        .collect();
    all.sort_by(|a, b| a.side.cmp(&b.side).then(a.index.cmp(&b.index)));
    all
}

fn channel(sample: &ChannelSample, index: usize, now_ns: u64) -> ChannelNow {
    let milliseconds = |ns: u64| ns / 1_000_000;
    ChannelNow {
        side: side(sample),
        index,
        part_of: part_of(sample),
        device: sample.device.map_or(-1, i64::from),
        posted: sample.posted,
        done: sample.done,
        consumed: sample.retired(),
        bytes: sample.bytes_done,
        bytes_posted: sample.bytes_posted,
        in_flight_high_water: sample.in_flight_high_water,
        tests: sample.tests,
        tests_not_done: sample.tests_not_done,
        rc_errors: sample.rc_errors(),
        quiet_ms: milliseconds(now_ns.saturating_sub(sample.last_change_ns)),
        no_cpu_ms: 0,
        throttled_ms: 0,
        thread: sample.thread,
        turns: 0,
        head_age_ms: sample.head_age_ns(now_ns).map(milliseconds),
        in_call: sample.in_call.map(|inside| inside.call.name().to_owned()),
        in_call_ms: 0,
        latency_us: latency(sample),
        requests: sample
            .requests
            .iter()
            .map(|request| request.stage.letter())
            .collect(),
        unpacked: sample.unpacked,
        null_requests: sample.null_requests,
        last_error: sample
            .last_error
            .map(|last| (last.call.name().to_owned(), last.code)),
        local: sample.addresses.local.map(|address| address.to_string()),
        peer: sample.addresses.peer.map(|address| address.to_string()),
        closed: sample.state == State::Closed,
    }
}

/// What the comm of an endpoint works on. The operation is over if nothing is in flight.
fn part_of(sample: &ChannelSample) -> Option<String> {
    let connection = sample.connection?;
    let in_flight = sample
        .operation
        .filter(|_| sample.posted > sample.retired());
    let operation = in_flight.map(|(kind, number)| match kind {
        OperationKind::Read => format!(", read {number}"),
        OperationKind::Sent => format!(", write or send {number}"),
        OperationKind::PeerRead => format!(", the peer's read {number}"),
        OperationKind::PeerSent => format!(", the peer's write or send {number}"),
    });
    Some(format!(
        "connection {connection}{}",
        operation.unwrap_or_default()
    ))
}

fn latency(sample: &ChannelSample) -> Option<LatencyUs> {
    let [p50, p99, p999] = sample
        .latency
        .quantiles_ns([0.5, 0.99, 0.999])?
        .map(|ns| ns as f64 / 1e3);
    Some(LatencyUs {
        p50,
        p99,
        p999,
        max: sample.latency.max_ns()? as f64 / 1e3,
    })
}
