//! Polls the recorder files of this machine.
//!
//! Lists the folders once a second to find new files. Files in other folders are found by what a
//! process has mapped: those of a named process each time, those of all others at the first poll,
//! because reading the maps of thousands of processes takes long. When a writer has ended, its last counters
//! stay, and their ages no longer grow. A file whose writer had ended before is read as of its
//! last moment, by the wall clock of its machine.
#![forbid(unsafe_code)]

use super::{detail, past};
use crate::counters::sample::{role_index, watched_channels};
use crate::counters::{
    CallWatch, ChannelDetail, ChannelKey, ChannelNow, ConnectingFacts, CpuWatch, Frame,
    ProcessFacts, SetupCalls,
};
use crate::event::{Event, EventKind};
use crate::ids::{NodeId, NodeIntro, Unit, Who, WorkerId};
use crate::phase::how_ended;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_node::{Root, Thread};
use tcpx_recorder::format::{Call, FILE_SUFFIX, Role};
use tcpx_recorder::{
    EndedHow, Header, Identity, Liveness, ReadError, Reader, SHARED_MEMORY, Snapshot, list,
    monotonic_ns,
};
use tcpx_words::log::LogLine;
use tcpx_words::units::{counted, printable, utc_of_us};

/// Time between two listings of the folders, and between two checks whether writers are alive.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// Time between two detailed readings of the wanted channel.
const DETAIL_EVERY: Duration = Duration::from_millis(200);
/// A process that has entered and left no set-up call for so long has its calls told. Not
/// earlier: a process that polls connect would be told anew with each poll.
const SETUP_QUIET_NS: u64 = 1_000_000_000;
/// Two times that differ by less are of one call.
const SAME_MOMENT_NS: u64 = 10_000_000;
/// A program that has called connect within this time calls it again.
const CONNECT_AGAIN_NS: u64 = 5_000_000_000;
/// Log lines read from one file per poll.
const LINES_MAX: usize = 256;
/// Most files that are polled.
pub const FILES_MAX: usize = 64;

/// Which recorder files to poll.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecorderFilter {
    /// The files of every running process.
    All,
    /// The files of one process.
    Pid(u32),
    /// These files, of this machine or others.
    Files(Vec<PathBuf>),
    /// The files of these workers of a run.
    Workers(Vec<(WorkerId, PathBuf)>),
}

/// Identifies one recorder among those of all machines.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct RecorderId {
    /// Hash of the boot id of its machine.
    pub boot: u64,
    /// Inode of the pid namespace of its process.
    pub pid_namespace: u64,
    /// Process id, in that namespace.
    pub pid: u32,
    /// When the process started, clock ticks since boot.
    pub start_ticks: u64,
    /// When the recorder was created, nanoseconds since 1970.
    pub created_ns: u64,
}

/// A recorder file that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FoundRecorder {
    /// The id that its events carry.
    pub worker: WorkerId,
    /// The identity of the recorder, which is the same for each node that finds it.
    pub recorder: RecorderId,
    /// Whether its process is in the network namespace of the one that found it.
    pub is_of_own_network: bool,
}

/// The recorder files that are polled.
pub struct Recorders {
    which: RecorderFilter,
    files: Vec<Watched>,
    /// Boots of the machines that the files are of, by node.
    boots: Vec<u64>,
    listed_at: Option<Instant>,
    detailed_at: Option<Instant>,
    wanted: Option<ChannelKey>,
    looks: usize,
    /// Files that `newly_found` has told of.
    told: usize,
    /// Time of the first poll, or the creation of the oldest file whose writer had ended by
    /// then. Nanoseconds since 1970.
    began_ns: Option<u64>,
}

/// With more channels than this, only every second poll reads counters: at 20 polls per second,
/// there are still 10 samples.
const CHANNELS_PER_LOOK: usize = 256;

/// A call that has not returned for so long is told with its time.
const INSIDE_LONG_NS: u64 = 500_000_000;

/// A channel that stands still, or is inside a call, for so long is worth a freeze-frame.
const FRAME_AFTER_MS: u64 = 1000;
/// A process that is not seen here, as it is in another container, is taken for gone if its file has had
/// no sign of it for so long: programs that wait test their requests.
const UNSEEN_AFTER_NS: u64 = 10_000_000_000;

struct Watched {
    path: PathBuf,
    worker: WorkerId,
    reader: Reader,
    /// The facts last sent.
    facts: Option<ProcessFacts>,
    lines_from: u64,
    ended: bool,
    /// When the writer was last seen running, nanoseconds of `CLOCK_MONOTONIC`.
    alive_ns: u64,
    last: Option<Snapshot>,
    cpu: CpuWatch,
    calls: CallWatch,
    /// Its writer is not seen here, and did nothing for long, or writes another file of which this is a copy: whether
    /// what it shows goes on is not known.
    is_unseen: bool,
    /// Whether it is such a copy, once that was looked for.
    is_copy: Option<bool>,
    /// Whether all threads of the writer were stopped when it was last looked at.
    is_stopped: bool,
    /// Whether a channel stood still then.
    has_stood: bool,
}

impl Recorders {
    /// Opens no file yet; the first `look` does.
    pub fn new(which: RecorderFilter) -> Self {
        Self {
            which,
            files: Vec::new(),
            boots: Vec::new(),
            listed_at: None,
            detailed_at: None,
            wanted: None,
            looks: 0,
            told: 0,
            began_ns: None,
        }
    }

    /// Polls files that are open already, of workers of a run.
    pub fn opened(files: Vec<(WorkerId, Reader)>) -> Self {
        let mut recorders = Self::new(RecorderFilter::Workers(Vec::new()));
        for (number, (worker, reader)) in files.into_iter().enumerate() {
            recorders.add(PathBuf::from(number.to_string()), reader, worker);
        }
        recorders
    }

    /// The filter that selects the files.
    pub fn which(&self) -> &RecorderFilter {
        &self.which
    }

    /// Sets the channel to read in detail.
    pub fn want(&mut self, channel: Option<ChannelKey>) {
        if self.wanted != channel {
            self.wanted = channel;
            self.detailed_at = None;
        }
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Polls every file once and appends events. `at_ns` is the current time since 1970; events
    /// carry it as `node_us`, and their milliseconds count from the first poll.
    ///
    /// # Errors
    /// A file of `RecorderFilter::Files` cannot be read.
    pub fn look(&mut self, at_ns: u64, events: &mut Vec<Event>) -> Result<(), ReadError> {
        let now = Instant::now();
        let is_due = self
            .listed_at
            .is_none_or(|at| now.duration_since(at) >= LIST_EVERY);
        if is_due {
            self.listed_at = Some(now);
            self.find()?;
        }
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            let created = self
                .files
                .iter_mut()
                .filter_map(Watched::created_before_its_end);
            created.min().map_or(at_ns, |created| created.min(at_ns))
        });
        let channels: usize = self
            .files
            .iter()
            .filter_map(|file| Some(file.last.as_ref()?.channels.len()))
            .sum();
        self.looks += 1;
        if is_due || channels <= CHANNELS_PER_LOOK || self.looks.is_multiple_of(2) {
            for file in &mut self.files {
                file.look(&Clock { at_ns, began_ns }, is_due, events);
            }
        }
        if self
            .detailed_at
            .is_none_or(|at| now.duration_since(at) >= DETAIL_EVERY)
        {
            self.detailed_at = Some(now);
            let wanted = self.wanted.as_ref();
            let detail = wanted.and_then(|wanted| {
                self.files
                    .iter_mut()
                    .find_map(|file| file.detail(wanted, at_ns))
            });
            if let (Some(detail), Some(wanted)) = (detail, wanted) {
                events.push(event(
                    at_ns,
                    began_ns,
                    wanted.worker,
                    EventKind::Detail(Box::new(detail)),
                ));
            }
        }
        Ok(())
    }

    fn find(&mut self) -> Result<(), ReadError> {
        match self.which.clone() {
            RecorderFilter::Files(paths) if self.files.is_empty() => {
                for path in paths {
                    let mut reader = Reader::open(&path)?;
                    let header = reader.header()?;
                    let worker = self.process(&header.writer);
                    self.add(path, reader, worker);
                }
            }
            RecorderFilter::Files(_) => {}
            RecorderFilter::Workers(files) => {
                for (worker, path) in files {
                    if !self.has(&path)
                        && let Ok(reader) = Reader::open(&path)
                    {
                        self.add(path, reader, worker);
                    }
                }
            }
            RecorderFilter::All => {
                let is_first = self.began_ns.is_none();
                let mapping = if is_first {
                    own_processes()
                } else {
                    Vec::new()
                };
                self.find_processes(None, &mapping);
            }
            RecorderFilter::Pid(pid) => self.find_processes(Some(pid), &[pid]),
        }
        Ok(())
    }

    fn find_processes(&mut self, wanted: Option<u32>, mapping: &[u32]) {
        for (path, writer) in running(wanted, mapping) {
            if !self.has(&path)
                && let Ok(reader) = Reader::open(&path)
            {
                let worker = self.process(&writer);
                self.add(path, reader, worker);
            }
        }
    }

    fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    /// The id of a process. A second recorder of the same process gets its own id. Files of
    /// another boot, which is another machine, are those of another node.
    fn process(&mut self, writer: &Identity) -> WorkerId {
        let boot = writer.boot_id_hash;
        let known = self.boots.iter().position(|one| *one == boot);
        let node = known.unwrap_or_else(|| {
            self.boots.push(boot);
            self.boots.len() - 1
        });
        let (node, pid) = (NodeId(node as u32), writer.pid);
        let is_of = |file: &&Watched| {
            let is_pid =
                matches!(file.worker.unit, Unit::Process { pid: theirs, .. } if theirs == pid);
            is_pid && file.worker.node == node
        };
        let recorder = self.files.iter().filter(is_of).count() as u32;
        WorkerId {
            node,
            unit: Unit::Process { pid, recorder },
        }
    }

    /// Names of the nodes that the files are of: of a single node none, of several the name of
    /// the first file of each.
    pub fn nodes(&self) -> Vec<NodeIntro> {
        let name = |node: usize| {
            let of_node = |file: &&Watched| file.worker.node.index() == node;
            let file = self.files.iter().find(of_node)?;
            Some(printable(&file.path.file_stem()?.to_string_lossy()))
        };
        let many = self.boots.len() > 1;
        (0..self.boots.len().max(1))
            .map(|node| NodeIntro {
                name: name(node).filter(|_| many).unwrap_or_default(),
                address: String::new(),
            })
            .collect()
    }

    /// The moment that the events count from, nanoseconds since 1970; `None` before the first
    /// poll.
    pub fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    /// Every file with its process.
    pub fn files(&self) -> impl Iterator<Item = (WorkerId, &Path)> {
        self.files
            .iter()
            .map(|file| (file.worker, file.path.as_path()))
    }

    /// The files that were found since the last call.
    pub fn newly_found(&mut self) -> Vec<FoundRecorder> {
        let new = self.files.iter_mut().skip(self.told);
        let found = new.filter_map(|file| {
            let header = file.reader.header().ok()?;
            Some(found(file.worker, &header))
        });
        let found = found.collect();
        self.told = self.files.len();
        found
    }

    /// Whether no file changes any more: every writer has ended, or the file is a copy.
    pub fn have_ended(&self) -> bool {
        self.files
            .iter()
            .all(|file| file.ended || file.is_copy == Some(true))
    }

    fn add(&mut self, path: PathBuf, reader: Reader, worker: WorkerId) {
        if self.files.len() < FILES_MAX {
            self.files.push(Watched {
                path,
                worker,
                reader,
                facts: None,
                lines_from: 0,
                ended: false,
                alive_ns: 0,
                last: None,
                cpu: CpuWatch::default(),
                calls: CallWatch::default(),
                is_unseen: false,
                is_copy: None,
                is_stopped: false,
                has_stood: false,
            });
        }
    }
}

/// The recorder files of running processes of this user, or of one of them: in the folders for
/// recorders, and in other folders those that the processes `mapping` have mapped.
fn running(wanted: Option<u32>, mapping: &[u32]) -> Vec<(PathBuf, Identity)> {
    let folders = [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()];
    // A folder that cannot be listed or is not trusted has no recorders.
    let listed = folders
        .iter()
        .flat_map(|folder| list(folder).unwrap_or_default())
        .filter_map(|one| Some((one.path, one.header.ok()?.writer)));
    let mapped = mapping.iter().flat_map(|pid| mapped_by(*pid));
    let mapped = mapped.filter_map(|path| {
        let header = Reader::open(&path).ok()?.header().ok()?;
        Some((path, header.writer))
    });
    let mut found: Vec<(PathBuf, Identity)> = Vec::new();
    for (path, writer) in listed.chain(mapped) {
        // A process of a container has another id here.
        let is_wanted =
            wanted.is_none_or(|wanted| wanted == writer.pid_here().unwrap_or(writer.pid));
        let is_new = found.iter().all(|(other, _)| *other != path);
        if is_wanted && is_new && writer.liveness() != Liveness::Dead {
            found.push((path, writer));
        }
    }
    found
}

fn found(worker: WorkerId, header: &Header) -> FoundRecorder {
    let writer = &header.writer;
    let network = |process: &str| std::fs::metadata(format!("/proc/{process}/ns/net")).ok();
    let theirs = writer.pid_here().and_then(|pid| network(&pid.to_string()));
    let theirs = theirs.map(|network| network.ino());
    FoundRecorder {
        worker,
        recorder: RecorderId {
            boot: writer.boot_id_hash,
            pid_namespace: writer.pid_namespace,
            pid: writer.pid,
            start_ticks: writer.start_ticks,
            created_ns: header.created_wall_ns,
        },
        is_of_own_network: theirs.is_some() && theirs == network("self").map(|own| own.ino()),
    }
}

/// The processes of this user.
fn own_processes() -> Vec<u32> {
    let owner = |path: &Path| std::fs::metadata(path).map(|file| file.uid()).ok();
    let own = owner(Path::new("/proc/self"));
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_user = entries.filter(|entry| owner(&entry.path()) == own);
    of_user
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Paths of the recorder files that a process of this machine has mapped.
fn mapped_by(pid: u32) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let path = |line: &str| {
        let path = line.get(line.find('/')?..)?;
        path.ends_with(FILE_SUFFIX).then(|| PathBuf::from(path))
    };
    let mut paths: Vec<PathBuf> = maps.lines().filter_map(path).collect();
    paths.dedup();
    paths
}

/// The recorder files of a running process of this user.
pub fn recorders_of(pid: u32) -> Vec<PathBuf> {
    running(Some(pid), &[pid])
        .into_iter()
        .map(|(path, _)| path)
        .collect()
}

/// Why no recorder of this process was found, and what to do: a process of another user may have
/// one.
pub fn why_unrecorded(pid: u32) -> (String, &'static str) {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        let next = "name a process of this machine and container, or its recorder file";
        return (format!("no process {pid} is seen here"), next);
    }
    if std::fs::read(process.join("maps")).is_err() {
        let why =
            format!("what process {pid} has mapped cannot be read, so its recorder is not found");
        return (
            why,
            "run this as the user of that process, or name its recorder file",
        );
    }
    let next = "start it with `tcpxctl tap -- COMMAND`, or name a recorder file";
    (format!("process {pid} writes no recorder"), next)
}

/// What is missing of a recording that was copied in part, in words.
pub fn torn(name: &str, reader: &mut Reader) -> Option<String> {
    let is_torn = reader.snapshot().is_ok_and(|snapshot| snapshot.truncated);
    is_torn.then(|| {
        format!(
            "{} is torn: it ends before data that it counts, so its last channels, events or log lines are missing",
            printable(name)
        )
    })
}

/// What a recording never had, for want of room, in words.
pub fn without_room(name: &str, header: &Header) -> Vec<String> {
    let lacks = |comms: u64, what: &str, why: &str| {
        let of = counted(comms as usize, "comm");
        (comms > 0).then(|| format!("{} has {what} {of}: {why}", printable(name)))
    };
    let refused = lacks(
        header.channels_refused,
        "nothing of",
        "no slot or no memory was left for them",
    );
    let ringless = lacks(
        header.rings_refused,
        "no events of",
        "no memory was left for them, so there are counters only",
    );
    refused.into_iter().chain(ringless).collect()
}

/// Times of this poll and of the first one, nanoseconds since 1970.
struct Clock {
    at_ns: u64,
    began_ns: u64,
}

fn event(at_ns: u64, began_ns: u64, worker: WorkerId, kind: EventKind) -> Event {
    // A log line may be older than the first poll.
    let ms = at_ns.wrapping_sub(began_ns).cast_signed() as f64 / 1e6;
    Event {
        // Not the time at which it is read: that is later if the writer is gone.
        at: utc_of_us(at_ns / 1000),
        node_us: Some(at_ns / 1000),
        ..Event::new(ms, Who::Worker(worker), kind)
    }
}

/// Whether the writer has ended: as far as is seen here, or by a mark that `tap` left.
fn is_over(header: &Header) -> bool {
    header.ended.is_some() || header.writer.liveness() == Liveness::Dead
}

/// Whether the writer runs and writes other recorder files, as far as they are seen, but not this one.
fn is_copy(file: &File, writer: &Identity) -> bool {
    let Some(pid) = writer.pid_here() else {
        return false;
    };
    let place = |file: &std::fs::Metadata| (file.dev(), file.ino());
    let Ok(own) = file.metadata().map(|file| place(&file)) else {
        return false;
    };
    // The writer may be in a mount namespace of its own.
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let mapped = mapped_by(pid).into_iter().filter_map(|path| {
        let inside = root.join(path.strip_prefix("/").unwrap_or(&path));
        std::fs::metadata(inside).map(|file| place(&file)).ok()
    });
    let mapped: Vec<(u64, u64)> = mapped.collect();
    !mapped.is_empty() && !mapped.contains(&own)
}

fn is_unseen(snapshot: &Snapshot) -> bool {
    let quiet_ns = monotonic_ns().saturating_sub(snapshot.last_sign_ns());
    snapshot.header.writer.liveness() == Liveness::Unknown && quiet_ns >= UNSEEN_AFTER_NS
}

impl Watched {
    /// When the file was made, nanoseconds since 1970; `None` while its writer runs.
    fn created_before_its_end(&mut self) -> Option<u64> {
        let header = self.reader.header().ok()?;
        is_over(&header).then_some(header.created_wall_ns)
    }

    fn look(&mut self, clock: &Clock, ask_liveness: bool, events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        // The writer may be creating or closing the file: the next poll tries again.
        let Ok(snapshot) = self.reader.snapshot() else {
            return;
        };
        if ask_liveness {
            self.ended = is_over(&snapshot.header);
            let is_copy = self
                .is_copy
                .get_or_insert_with(|| is_copy(self.reader.file(), &snapshot.header.writer));
            self.is_unseen = !self.ended && (*is_copy || is_unseen(&snapshot));
        }
        let is_gone = self.ended || self.is_unseen;
        let was_gone = is_gone && self.last.is_none();
        let now_ns = if is_gone {
            snapshot.last_sign_ns().max(self.alive_ns)
        } else {
            monotonic_ns()
        };
        self.alive_ns = now_ns;
        // The clock of the machine that the file is of.
        let unix_ns = |ns: u64| match was_gone {
            true => wall_ns(&snapshot, ns),
            false => clock.at_ns.saturating_sub(now_ns.saturating_sub(ns)),
        };
        let mut tell =
            |at_ns: u64, kind| events.push(event(at_ns, clock.began_ns, self.worker, kind));
        let noted = snapshot.header.ended.map(|ended| ended.how);
        let ended = noted.or((self.ended && !was_gone).then_some(EndedHow::Unknown));
        let setup = setup(&snapshot, is_gone, now_ns).map(|calls| SetupCalls {
            at_ns: calls.at_ns.map(unix_ns),
            ..calls
        });
        let connecting = connecting(&snapshot.header, now_ns).map(|one| {
            let told = self
                .facts
                .as_ref()
                .and_then(|facts| facts.connecting.as_ref());
            let since_ns = unix_ns(one.since_ns);
            // The two clocks are not read at once; facts that do not change are not told anew.
            let same = told.filter(|told| told.since_ns.abs_diff(since_ns) < SAME_MOMENT_NS);
            ConnectingFacts {
                since_ns: same.map_or(since_ns, |told| told.since_ns),
                ..one
            }
        });
        match is_gone {
            true => self.calls = CallWatch::default(),
            false => self.calls.note(&snapshot, now_ns),
        }
        let inside = inside(&snapshot, &self.calls, is_gone, now_ns).map(|(call, since_ns)| {
            let told = self.facts.as_ref().and_then(|facts| facts.inside_since_ns);
            let since_ns = unix_ns(since_ns);
            let same = told.filter(|told| told.abs_diff(since_ns) < SAME_MOMENT_NS);
            (call, same.unwrap_or(since_ns))
        });
        let is_copy = !self.ended && self.is_copy == Some(true);
        let is_seen_here = !self.is_unseen && snapshot.header.writer.is_of_this_boot();
        let facts = ProcessFacts {
            connecting,
            is_copy,
            is_elsewhere: is_gone && !is_copy && noted.is_none() && !is_seen_here,
            ..facts(&snapshot, is_gone, ended, setup)
        };
        let facts = match inside {
            Some((call, since_ns)) => ProcessFacts {
                inside: Some(call.name().to_owned()),
                inside_since_ns: Some(since_ns),
                ..facts
            },
            None => facts,
        };
        if self.facts.as_ref() != Some(&facts) {
            self.facts = Some(facts.clone());
            tell(unix_ns(now_ns), EventKind::Process(facts));
        }
        if was_gone && let Some((then_ns, then)) = past::before_the_end(&snapshot, now_ns) {
            tell(unix_ns(then_ns), EventKind::Sample(then));
        }
        let mut all = watched_channels(&snapshot, now_ns, &self.calls);
        if !is_gone {
            self.cpu
                .note(&snapshot.header.writer, &mut all, Instant::now());
        }
        let frame = match ask_liveness && !is_gone {
            true => self.frame_if_due(&snapshot.header.writer, &all),
            false => None,
        };
        let mut tell =
            |at_ns: u64, kind| events.push(event(at_ns, clock.began_ns, self.worker, kind));
        tell(unix_ns(now_ns), EventKind::Sample(all));
        if let Some(frame) = frame {
            tell(unix_ns(now_ns), EventKind::Frame(frame));
        }
        let mut has_more = snapshot.header.log_lines > self.lines_from;
        while has_more && let Ok(page) = self.reader.log(self.lines_from, LINES_MAX) {
            // The file of a writer that is gone is read to its end.
            has_more =
                was_gone && (self.lines_from + 1..snapshot.header.log_lines).contains(&page.next);
            self.lines_from = page.next;
            for line in page.lines {
                let at_ns = unix_ns(line.at_ns);
                let (function, text) = (printable(&line.function), printable(&line.text));
                let said = LogLine {
                    level: line.level,
                    function,
                    line: line.line,
                    text,
                    count: 1,
                };
                tell(at_ns, EventKind::PluginLine(said));
            }
        }
        self.last = Some(snapshot);
    }

    /// A freeze-frame of a process that a signal has stopped, or that goes on, since it was last looked
    /// at, and one of each time that a channel stands still. Its counters do not tell: they stand still
    /// too while it has nothing to do. Workers of a run have an agent for that.
    fn frame_if_due(&mut self, writer: &Identity, channels: &[ChannelNow]) -> Option<Box<Frame>> {
        if !matches!(self.worker.unit, Unit::Process { .. }) {
            return None;
        }
        let pid = writer.pid_here()?;
        let threads = Thread::read_all(&Root::live(), pid);
        let threads = threads.known().filter(|threads| !threads.is_empty())?;
        let is_stopped = threads.iter().all(Thread::is_stopped);
        let has_changed = std::mem::replace(&mut self.is_stopped, is_stopped) != is_stopped;
        let stands = channels.iter().any(|now| {
            let waits = now.posted > now.consumed && now.quiet_ms >= FRAME_AFTER_MS;
            !now.closed && (waits || now.in_call_ms >= FRAME_AFTER_MS)
        });
        let stands_anew = stands && !self.has_stood;
        self.has_stood = stands;
        if !has_changed && !stands_anew {
            return None;
        }
        let nics = self.facts.iter().flat_map(|facts| facts.nics.values());
        let nics: BTreeSet<String> = nics.cloned().collect();
        let nics: Vec<String> = nics.into_iter().collect();
        let frame = Frame::take(pid, &nics, channels.to_vec(), None);
        Some(Box::new(frame))
    }

    fn detail(&mut self, wanted: &ChannelKey, at_ns: u64) -> Option<ChannelDetail> {
        if self.worker != wanted.worker {
            return None;
        }
        let snapshot = self.last.as_ref()?;
        let sample = role_index(snapshot)
            .find(|(_, side, index)| *side == wanted.side && *index == wanted.index)?
            .0;
        let nic = self
            .facts
            .as_ref()
            .and_then(|facts| facts.nics.get(&i64::from(sample.device?)));
        let nic = nic.cloned();
        Some(detail::detail(
            &mut self.reader,
            sample,
            wanted.clone(),
            at_ns,
            nic.as_deref(),
            !self.ended && !self.is_unseen,
        ))
    }
}

/// A time of the writer's monotonic clock as nanoseconds since 1970, by its machine's clock when
/// it made the file.
fn wall_ns(snapshot: &Snapshot, ns: u64) -> u64 {
    let header = &snapshot.header;
    let since = i128::from(ns) - i128::from(header.created_ns);
    u64::try_from(i128::from(header.created_wall_ns) + since).unwrap_or(header.created_wall_ns)
}

/// The set-up calls of a process that is gone, or that has entered and left none for a while,
/// with the time of its own clock.
fn setup(snapshot: &Snapshot, is_gone: bool, now_ns: u64) -> Option<SetupCalls> {
    let header = &snapshot.header;
    // Without its channels, the calls would look as if they had made none.
    let lacks_channels =
        snapshot.truncated && snapshot.channels.len() < header.channel_count as usize;
    let is_quiet = || {
        header
            .setup_at_ns
            .is_some_and(|at_ns| now_ns.saturating_sub(at_ns) >= SETUP_QUIET_NS)
    };
    header
        .setup_call
        .filter(|_| !lacks_channels && (is_gone || is_quiet()))
        .map(|last| SetupCalls {
            last: last.name().to_owned(),
            count: header.setup_calls,
            failed: header.setup_errors,
            last_error: header
                .setup_last_error
                .map(|(call, code)| Box::new((call.name().to_owned(), code))),
            at_ns: header.setup_at_ns,
        })
}

/// A `connect` that has given no comm for a while, with the time of the process's own clock.
fn connecting(header: &Header, now_ns: u64) -> Option<ConnectingFacts> {
    let one = header.connecting?;
    let is_inside = header.setup_calls_inside > 0 && header.setup_call == Some(Call::Connect);
    let is_polled = one.calls > 1 && now_ns.saturating_sub(one.last_ns) < CONNECT_AGAIN_NS;
    (now_ns.saturating_sub(one.since_ns) >= SETUP_QUIET_NS).then(|| ConnectingFacts {
        peer: one.peer.map(|peer| peer.to_string()),
        since_ns: one.since_ns,
        calls: one.calls.checked_ilog2().map_or(0, |log| 1 << log),
        goes_on: is_inside || is_polled,
    })
}

/// The call of a running process that belongs to no channel and has not returned for a while, and since when,
/// by the process's own clock. A call on a listener counts from when it was seen first. Of a process that is gone, the
/// call on a listener in which it ended.
fn inside(
    snapshot: &Snapshot,
    calls: &CallWatch,
    is_gone: bool,
    now_ns: u64,
) -> Option<(Call, u64)> {
    let header = &snapshot.header;
    let is_inside = |_: &Call| header.setup_calls_inside > 0;
    let in_setup = header.setup_call.filter(is_inside).zip(header.setup_at_ns);
    let listeners = snapshot
        .channels
        .iter()
        .filter(|one| one.role == Role::Listen);
    let mut in_calls = listeners.clone().filter_map(|one| one.in_call);
    if is_gone {
        return in_calls.next().map(|one| (one.call, now_ns));
    }
    let on_listeners = listeners.filter_map(|one| Some((one.in_call?.call, calls.since_ns(one)?)));
    let is_long = |(_, since_ns): &(Call, u64)| now_ns.saturating_sub(*since_ns) >= INSIDE_LONG_NS;
    in_setup
        .into_iter()
        .chain(on_listeners)
        .filter(is_long)
        .min_by_key(|(_, since_ns)| *since_ns)
}

fn facts(
    snapshot: &Snapshot,
    is_gone: bool,
    ended: Option<EndedHow>,
    setup: Option<SetupCalls>,
) -> ProcessFacts {
    let header = &snapshot.header;
    let (code, signal) = match ended {
        Some(EndedHow::Exited(code)) => (Some(code), None),
        Some(EndedHow::Killed(signal)) => (None, Some(signal)),
        Some(EndedHow::Unknown) | None => (None, None),
    };
    let nics = header
        .devices
        .iter()
        .zip(0..)
        .filter_map(|(facts, device)| Some((device, facts.as_ref()?.name.clone())));
    ProcessFacts {
        role: header.role.clone(),
        plugin: header.plugin.clone(),
        nics: nics.collect(),
        is_gone,
        is_copy: false,
        is_elsewhere: false,
        ended: ended.map(|_| how_ended(code, signal)),
        signal,
        setup,
        inside: header
            .setup_call
            .filter(|_| header.setup_calls_inside > 0)
            .map(|call| call.name().to_owned()),
        inside_since_ns: None,
        connecting: None,
        unrecorded: header.channels_refused,
    }
    .printable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use tcpx_recorder::{Addresses, Device, Opening, Options, Recorder};
    use tcpx_words::side::Side;

    #[test]
    fn a_copy_is_told_from_the_file_that_a_running_process_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::create_in(folder.path(), &Options::new("copied")).expect("made");
        let copy = folder.path().join("copy.tcpxrec");
        std::fs::copy(recorder.path(), &copy).expect("copied");
        let is_copied = |path: &Path| {
            let mut reader = Reader::open(path).expect("a recorder");
            let writer = reader.header().expect("a header").writer;
            is_copy(reader.file(), &writer)
        };
        assert!(is_copied(&copy));
        assert!(!is_copied(&recorder.path()));
        let told = |path: &Path| {
            let mut recorders = Recorders::new(RecorderFilter::Files(vec![path.to_owned()]));
            let mut events = Vec::new();
            recorders.look(1, &mut events).expect("read");
            let facts = events.into_iter().find_map(|event| match event.kind {
                EventKind::Process(facts) => Some(facts),
                _ => None,
            });
            (facts.expect("facts").is_copy, recorders.have_ended())
        };
        assert_eq!(told(&copy), (true, true));
        assert_eq!(told(&recorder.path()), (false, false));
    }

    #[test]
    fn a_recorder_of_another_boot_tells_no_end_unless_it_has_a_mark_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::create_in(folder.path(), &Options::new("boot")).expect("made");
        let path = folder.path().join("other.tcpxrec");
        let told = |words: &[(usize, u64)]| {
            std::fs::copy(recorder.path(), &path).expect("copied");
            let file = File::options().write(true).open(&path).expect("opened");
            for (offset, word) in words {
                let bytes = word.to_le_bytes();
                file.write_all_at(&bytes, *offset as u64).expect("written");
            }
            let mut recorders = Recorders::new(RecorderFilter::Files(vec![path.clone()]));
            let mut events = Vec::new();
            recorders.look(1, &mut events).expect("read");
            let facts = events.into_iter().find_map(|event| match event.kind {
                EventKind::Process(facts) => Some(facts),
                _ => None,
            });
            let facts = facts.expect("facts");
            (facts.is_gone, facts.is_elsewhere, facts.ended)
        };
        // Places in the header: the hash of the boot's id, the time of the end, how it ended.
        let (boot, ended_ns, ended_how) = (32, 616, 624);
        assert_eq!(told(&[(boot, 1)]), (true, true, None));
        let killed = [(boot, 1), (ended_ns, 1), (ended_how, 2 << 32 | 9)];
        let how = "was killed by signal 9 (SIGKILL)".to_owned();
        assert_eq!(told(&killed), (true, false, Some(how)));
    }

    #[test]
    fn comms_without_room_are_told_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::create_in(folder.path(), &Options::new("full")).expect("made");
        let header = Reader::open(&recorder.path()).and_then(|mut reader| reader.header());
        let whole = header.expect("a header");
        assert_eq!(without_room("x", &whole), Vec::<String>::new());
        let mut full = whole;
        (full.channels_refused, full.rings_refused) = (1, 2);
        assert_eq!(
            without_room("x", &full),
            [
                "x has nothing of 1 comm: no slot or no memory was left for them",
                "x has no events of 2 comms: no memory was left for them, so there are counters only"
            ]
        );
    }

    #[test]
    fn an_event_has_the_time_of_what_it_tells() {
        let id = Unit::Process {
            pid: 7,
            recorder: 0,
        };
        let worker = WorkerId {
            node: NodeId(0),
            unit: id,
        };
        let at_ns = 1_795_000_000_123_000_000;
        let told = event(
            at_ns,
            at_ns - 5_000_000,
            worker,
            EventKind::Sample(Vec::new()),
        );
        assert_eq!((told.at_ns(), told.ms), (Some(at_ns), 5.0));
    }

    fn recorder(parent: &Path) -> Recorder {
        let recorder = Recorder::create_in(
            parent,
            &Options {
                role: "harness",
                ..Options::new("watch")
            },
        );
        let recorder = recorder.expect("a recorder");
        let device = Device {
            name: "eth1",
            pci: "",
            speed_mbit: 1,
            ptr_support: 1,
            device_type: 1,
        };
        recorder.set_device(0, &device).expect("set");
        recorder.set_plugin("Plugin v7").expect("set");
        recorder
    }

    #[test]
    fn a_file_gives_its_process_once_its_samples_every_time_and_its_lines_once() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder = recorder(parent.path());
        let opening = Opening {
            role: Role::Recv,
            device: 0,
            comm: 1,
            retires_consumed: true,
            addresses: Addresses::default(),
        };
        let slot = recorder
            .open(&opening)
            .and_then(|key| recorder.slot(key))
            .expect("a slot");
        slot.post(64, recorder.now_ns());
        recorder.log(&tcpx_recorder::LogLine {
            level: 2,
            flags: 1,
            function: b"f",
            line: 7,
            text: b"socket \x1b[2Jclosed",
        });
        let mut recorders = Recorders::new(RecorderFilter::Files(vec![recorder.path()]));
        let unit = Unit::Process {
            pid: std::process::id(),
            recorder: 0,
        };
        let channel = ChannelKey {
            worker: WorkerId {
                node: NodeId(0),
                unit,
            },
            side: Side::Recv,
            index: 0,
        };
        recorders.want(Some(channel.clone()));
        let mut events = Vec::new();
        recorders
            .look(9_000_000_000_000, &mut events)
            .expect("read");
        let kinds: Vec<&EventKind> = events.iter().map(|event| &event.kind).collect();
        let [
            EventKind::Process(facts),
            EventKind::Sample(channels),
            EventKind::PluginLine(line),
            EventKind::Detail(detail),
        ] = &kinds[..]
        else {
            panic!("{kinds:?}")
        };
        assert!(
            events
                .iter()
                .all(|event| event.worker() == Some(channel.worker))
        );
        assert_eq!(
            (facts.role.as_str(), facts.plugin.as_str(), &facts.nics[&0]),
            ("harness", "Plugin v7", &"eth1".into())
        );
        assert_eq!(
            (
                channels.len(),
                channels[0].posted,
                channels[0].requests.as_str()
            ),
            (1, 1, "p")
        );
        assert!(
            events[0].ms == 0.0 && events[2].ms < 0.0,
            "the line is older than the first poll"
        );
        assert!(
            (line.level, line.line) == (2, 7)
                && line.function == "f"
                && !line.text.contains('\x1b')
        );
        assert!(
            detail.channel == channel && detail.requests[0].bytes == 64 && detail.sockets.is_err()
        );
        events.clear();
        recorders
            .look(9_100_000_000_000, &mut events)
            .expect("read");
        assert!(
            matches!(&events[..], [Event { kind: EventKind::Sample(_), ms, .. }] if *ms == 100_000.0),
            "{events:?}"
        );
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error_and_a_missing_workers_file_is_not() {
        let parent = tempfile::tempdir().expect("a folder");
        assert!(
            Recorders::new(RecorderFilter::Files(vec![parent.path().join("x")]))
                .look(0, &mut Vec::new())
                .is_err()
        );
        let worker = WorkerId::of_pair(NodeId(1), crate::ids::PairId(0));
        let named = RecorderFilter::Workers(vec![(worker, parent.path().join("x"))]);
        let mut recorders = Recorders::new(named);
        assert!(recorders.look(0, &mut Vec::new()).is_ok() && recorders.is_empty());
    }
}
