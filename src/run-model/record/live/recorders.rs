//! Recorder files of this machine, looked at again and again.
//!
//! Files come and go: the folders are listed once a second. A writer that has
//! ended leaves its last counters; its time stands still then.
#![forbid(unsafe_code)]

use super::{ChannelKey, Line, LineKind, NodeNow, Update, detail};
use crate::record::sample::{channels, role_index};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_recorder::{Liveness, ReadError, Reader, SHARED_MEMORY, Snapshot, list, monotonic_ns};
use tcpx_words::units::printable;

/// Between two looks at who is there.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// Between two close looks at one channel.
const DETAIL_EVERY: Duration = Duration::from_millis(200);
/// Log lines of one file that are taken in one look.
const LINES_MAX: usize = 256;
/// Files that are looked at.
const FILES_MAX: usize = 64;

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// Of every process that runs.
    All,
    /// Of one process.
    Pid(u32),
    /// This one.
    File(PathBuf),
    /// These, with the names of their nodes, as a run tells them.
    Named(BTreeMap<String, PathBuf>),
}

/// The files that are looked at.
pub struct Recorders {
    which: Which,
    files: Vec<Watched>,
    listed_at: Option<Instant>,
    detailed_at: Option<Instant>,
    wanted: Option<ChannelKey>,
    looks: usize,
}

/// Channels up to which every look takes counters; with more it is every second
/// one, so at twenty looks a second there are still ten samples.
const CHANNELS_PER_LOOK: usize = 256;

struct Watched {
    path: PathBuf,
    node: String,
    reader: Reader,
    told: Option<NodeNow>,
    lines_from: u64,
    ended: bool,
    last: Option<Snapshot>,
}

impl Recorders {
    /// Nothing is opened yet.
    pub fn new(which: Which) -> Self {
        Self { which, files: Vec::new(), listed_at: None, detailed_at: None, wanted: None, looks: 0 }
    }

    /// Files that somebody opened, with the names of their nodes.
    pub fn opened(files: Vec<(String, Reader)>) -> Self {
        let mut recorders = Self::new(Which::Named(BTreeMap::new()));
        files.into_iter().for_each(|(node, reader)| recorders.add(PathBuf::from(&node), reader, node));
        recorders
    }

    /// Which files these are.
    pub fn which(&self) -> &Which {
        &self.which
    }

    /// The channel to look at closely.
    pub fn want(&mut self, channel: Option<ChannelKey>) {
        if self.wanted != channel {
            self.wanted = channel;
            self.detailed_at = None;
        }
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes one look at everything; `at_ns` is now, since 1970.
    ///
    /// # Errors
    /// The one file that was named cannot be read.
    pub fn look(&mut self, at_ns: u64, updates: &mut Vec<Update>) -> Result<(), ReadError> {
        let now = Instant::now();
        let is_due = self.listed_at.is_none_or(|at| now.duration_since(at) >= LIST_EVERY);
        if is_due {
            self.listed_at = Some(now);
            self.find()?;
        }
        let channels: usize = self.files.iter().filter_map(|file| Some(file.last.as_ref()?.channels.len())).sum();
        self.looks += 1;
        if is_due || channels <= CHANNELS_PER_LOOK || self.looks.is_multiple_of(2) {
            for file in &mut self.files {
                file.look(at_ns, is_due, updates);
            }
        }
        if self.detailed_at.is_none_or(|at| now.duration_since(at) >= DETAIL_EVERY) {
            self.detailed_at = Some(now);
            let wanted = self.wanted.as_ref();
            let detail = wanted.and_then(|wanted| self.files.iter_mut().find_map(|file| file.detail(wanted, at_ns)));
            updates.extend(detail.map(|detail| Update::Detail(Box::new(detail))));
        }
        Ok(())
    }

    fn find(&mut self) -> Result<(), ReadError> {
        match self.which.clone() {
            Which::File(path) if self.files.is_empty() => {
                let mut reader = Reader::open(&path)?;
                let header = reader.header()?;
                self.add(path, reader, format!("pid {}", header.writer.pid));
            }
            Which::File(_) => {}
            Which::Named(files) => {
                for (node, path) in files {
                    if !self.has(&path)
                        && let Ok(reader) = Reader::open(&path)
                    {
                        self.add(path, reader, node);
                    }
                }
            }
            Which::All => self.find_processes(None),
            Which::Pid(pid) => self.find_processes(Some(pid)),
        }
        Ok(())
    }

    fn find_processes(&mut self, wanted: Option<u32>) {
        let folders = [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()];
        // A folder that cannot be trusted has nothing for us.
        for one in folders.iter().flat_map(|folder| list(folder).unwrap_or_default()) {
            let Ok(header) = one.header else { continue };
            let pid = header.writer.pid;
            let is_meant = wanted.is_none_or(|wanted| wanted == pid) && one.writer != Liveness::Dead;
            if is_meant
                && !self.has(&one.path)
                && let Ok(reader) = Reader::open(&one.path)
            {
                self.add(one.path, reader, format!("pid {pid}"));
            }
        }
    }

    fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    fn add(&mut self, path: PathBuf, reader: Reader, name: String) {
        if self.files.len() >= FILES_MAX {
            return;
        }
        let same = self.files.iter().filter(|file| file.node.split(" #").next() == Some(&name)).count();
        let node = if same == 0 { name } else { format!("{name} #{}", same + 1) };
        self.files.push(Watched { path, node, reader, told: None, lines_from: 0, ended: false, last: None });
    }
}

impl Watched {
    fn look(&mut self, at_ns: u64, ask_liveness: bool, updates: &mut Vec<Update>) {
        if self.ended {
            return;
        }
        // Half-way made or just being given up: the next look knows more.
        let Ok(snapshot) = self.reader.snapshot() else { return };
        if ask_liveness {
            self.ended = snapshot.header.writer.liveness() == Liveness::Dead;
        }
        let now_ns = if self.ended { last_sign(&snapshot) } else { monotonic_ns() };
        let facts = facts(&snapshot, self.ended);
        if self.told.as_ref() != Some(&facts) {
            self.told = Some(facts.clone());
            updates.push(Update::Node { node: self.node.clone(), facts });
        }
        let channels = channels(&snapshot, now_ns);
        updates.push(Update::Sample { node: self.node.clone(), at_ns, channels });
        self.lines(&snapshot, at_ns, now_ns, updates);
        self.last = Some(snapshot);
    }

    fn lines(&mut self, snapshot: &Snapshot, at_ns: u64, now_ns: u64, updates: &mut Vec<Update>) {
        if snapshot.header.log_lines <= self.lines_from {
            return;
        }
        let Ok(page) = self.reader.log(self.lines_from, LINES_MAX) else { return };
        self.lines_from = page.next;
        updates.extend(page.lines.into_iter().map(|line| {
            Update::Line(Line {
                node: self.node.clone(),
                at_ns: at_ns.saturating_sub(now_ns.saturating_sub(line.at_ns)),
                kind: if line.level == tcpx_abi::level::WARN { LineKind::Warning } else { LineKind::Plugin },
                text: format!("{}:{} {}", printable(&line.function), line.line, printable(&line.text)),
            })
        }));
    }

    fn detail(&mut self, wanted: &ChannelKey, at_ns: u64) -> Option<super::Detail> {
        if self.node != wanted.node {
            return None;
        }
        let snapshot = self.last.as_ref()?;
        let sample = role_index(snapshot).find(|(_, side, index)| *side == wanted.side && *index == wanted.index)?.0;
        let nic = self.told.as_ref().and_then(|told| told.nics.get(&i64::from(sample.device?)));
        let nic = nic.cloned();
        Some(detail::detail(&mut self.reader, sample, wanted.clone(), at_ns, nic.as_deref(), !self.ended))
    }
}

/// The newest moment that a file knows of: its writer's end, as far as that can be told.
fn last_sign(snapshot: &Snapshot) -> u64 {
    snapshot.channels.iter().map(|channel| channel.last_change_ns).max().unwrap_or(snapshot.header.created_ns)
}

fn facts(snapshot: &Snapshot, ended: bool) -> NodeNow {
    let header = &snapshot.header;
    let nics =
        header.devices.iter().zip(0..).filter_map(|(facts, device)| Some((device, facts.as_ref()?.name.clone())));
    NodeNow {
        host: header.role.clone(),
        plugin: header.plugin.clone(),
        nics: nics.collect(),
        ended: ended.then(|| "its process is gone".to_owned()),
        inside: header.setup_call.filter(|_| header.setup_calls_inside > 0).map(|call| call.name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_recorder::format::Role;
    use tcpx_recorder::{Addresses, Device, LogLine, Opening, Options, Recorder};

    fn recorder(parent: &Path) -> Recorder {
        let recorder = Recorder::create_in(parent, &Options { role: "harness", ..Options::new("watch") });
        let recorder = recorder.expect("a recorder");
        let device = Device { name: "eth1", pci: "", speed_mbit: 1, ptr_support: 1, device_type: 1 };
        recorder.set_device(0, &device).expect("set");
        recorder.set_plugin("Plugin v7").expect("set");
        recorder
    }

    #[test]
    fn a_file_tells_its_process_its_channels_and_its_lines_once() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder = recorder(parent.path());
        let opening =
            Opening { role: Role::Recv, device: 0, comm: 1, retires_consumed: true, addresses: Addresses::default() };
        let slot = recorder.open(&opening).and_then(|key| recorder.slot(key)).expect("a slot");
        slot.post(64, recorder.now_ns());
        recorder.log(&LogLine { level: 2, flags: 1, function: b"f", line: 7, text: b"socket \x1b[2Jclosed" });
        let mut recorders = Recorders::new(Which::File(recorder.path()));
        let node = format!("pid {}", std::process::id());
        let channel = ChannelKey { node: node.clone(), side: "recv".into(), index: 0 };
        recorders.want(Some(channel.clone()));
        let mut updates = Vec::new();
        recorders.look(9_000_000_000_000, &mut updates).expect("read");
        let [Update::Node { facts, .. }, Update::Sample { channels, .. }, Update::Line(line), Update::Detail(detail)] =
            &updates[..]
        else {
            panic!("{updates:?}")
        };
        assert_eq!(
            (facts.host.as_str(), facts.plugin.as_str(), &facts.nics[&0]),
            ("harness", "Plugin v7", &"eth1".into())
        );
        assert_eq!((channels.len(), channels[0].posted, channels[0].requests.as_str()), (1, 1, "p"));
        assert!(line.kind == LineKind::Warning && line.text.starts_with("f:7 socket") && !line.text.contains('\x1b'));
        assert!(detail.channel == channel && detail.requests[0].bytes == 64 && detail.sockets.is_err());
        updates.clear();
        recorders.look(9_100_000_000_000, &mut updates).expect("read");
        assert!(matches!(&updates[..], [Update::Sample { .. }]), "{updates:?}");
    }

    #[test]
    fn a_file_that_is_none_is_an_error_and_one_that_is_not_there_yet_is_waited_for() {
        let parent = tempfile::tempdir().expect("a folder");
        assert!(Recorders::new(Which::File(parent.path().join("x"))).look(0, &mut Vec::new()).is_err());
        let named = Which::Named([("peer".to_owned(), parent.path().join("x"))].into());
        let mut recorders = Recorders::new(named);
        assert!(recorders.look(0, &mut Vec::new()).is_ok() && recorders.is_empty());
    }
}
