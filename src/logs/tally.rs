//! Counts what a log contains: number, first and last line of each kind.
//!
//! Every collection is bounded, because a log may have any size and content. What exceeds
//! a bound is counted under a common name or in `too_many`.
#![forbid(unsafe_code)]

use super::calls::Calls;
use super::claims::Claims;
use super::ends::Ends;
use super::fields::{self, CommRank, FlowText, Polls};
use super::filter::LogFilter;
use super::front::Fronts;
use super::networks::Proof;
use super::seen::{CountedLine, Place, SeenLines, SeenShape, VALUE_BYTES, add_value, cut};
use super::shape::Record;
use super::stated::StatedLines;
use super::time::Years;
use super::torchrun::Commands;
use super::word::{find, has};
use foldhash::fast::RandomState;
use indexmap::IndexSet;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::net::Ipv4Addr;

/// A fast hash: every line with a hit looks up several maps.
type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

const SPEAKERS_MAX: usize = 4096;
/// Most bytes of the lines of signatures by process. Each of two threads that scan has as many, and
/// each of more threads a share of what two have, so that memory does not grow with the threads.
const SEEN_BYTES_MAX: usize = 5 << 20;
/// The part of them in which lines beside others are kept.
const NEAR_SHARE: usize = 4;
const SHAPES_MAX: usize = 256;
/// With its index, 2 MiB at most for each thread.
const FLOWS_MAX: usize = 10_752;
const SETTINGS_MAX: usize = 16_384;
/// Networks that one process names.
const NETWORKS_MAX: usize = 32;
/// Most communicators and process groups of all speakers.
const GROUPS_MAX: usize = 16_384;
/// Processes of launchers whose first wait is kept.
const WAITING_PROCESSES_MAX: usize = 1024;
/// Size of the cache of recent speakers.
const RECENT: usize = 32;
const SHAPE_BYTES: usize = 160;

/// The origin of a record, as far as the record names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Speaker {
    /// From NCCL's header, or from `events.jsonl`, which has no process id.
    Process { host: Box<[u8]>, pid: Option<u32> },
    /// From a launcher's prefix, in one file.
    Rank { file: u32, rank: u32 },
    /// Neither: only the file is known.
    File(u32),
    /// All speakers beyond the limit.
    Others,
}

/// An address as logged. IPv4 addresses need no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Address {
    V4(Ipv4Addr),
    Text(Box<[u8]>),
}

impl Address {
    pub(super) fn new(text: &[u8]) -> Self {
        let v4 = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok());
        v4.map_or_else(|| Self::Text(text.into()), Self::V4)
    }
}

/// One connection as one end logs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub speaker: u32,
    pub local: (Address, u32),
    pub remote: (Address, u32),
    pub sends: bool,
}

/// What the lines say about a flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FlowSeen {
    pub nic: Option<Box<[u8]>>,
    pub is_control: bool,
    pub made: u64,
    pub slow: u64,
}

/// A group of ranks, as one of them names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// The address of NCCL's communicator in this process.
    Comm(u64),
    /// The name of PyTorch's process group.
    Torch(Box<[u8]>),
}

/// A collective that a rank waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    pub group: Vec<u8>,
    pub sequence: u64,
    pub operation: Vec<u8>,
    /// How many elements go in and come out, as PyTorch writes it; empty if the line does not say.
    pub size: Vec<u8>,
}

/// A NIC's name and address.
pub(super) type Device = (Vec<u8>, Vec<u8>);

/// Everything that is counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub lines: u64,
    pub matched_lines: u64,
    /// Records with a signature that the filter left out.
    pub filtered_records: u64,
    /// The most nodes of a communicator by the records that the filter left out.
    pub filtered_nodes: Option<u32>,
    /// Whether a channel of NCCL goes by peer access between GPUs of a node.
    pub has_peer_channels: bool,
    /// The most ranks that a communicator has by a line of such a channel, as older releases write it.
    pub channel_ranks: Option<u64>,
    /// Whether NCCL's channels go over NVLink between nodes, as in racks whose GPUs are all connected by it.
    pub has_node_nvlink: bool,
    /// Whether a channel of NCCL goes through shared memory.
    pub has_shared_channels: bool,
    /// The commands of torchrun at the front of files.
    pub commands: Commands,
    /// What else the fronts of files say.
    pub fronts: Fronts,
    /// The most ranks of a communicator that was initialized.
    pub most_ranks: Option<u64>,
    /// By their number.
    pub speakers: IndexSet<Speaker, RandomState>,
    /// Numbers of recent speakers, by a hash of process id and host.
    recent: [u32; RECENT],
    pub seen: HashMap<(u32, u32), SeenLines>,
    /// The bytes of `seen`.
    seen_bytes: usize,
    /// Threads that scan one stream, each with a tally of its own.
    threads: usize,
    pub shapes: HashMap<Vec<u8>, SeenShape>,
    /// Lines that state an error in words.
    pub stated: StatedLines,
    /// How files end.
    pub ends: Ends,
    /// The entries of `last` of all shapes.
    pub(super) lasts: usize,
    pub settings: BTreeMap<(u32, Vec<u8>), BTreeSet<Vec<u8>>>,
    pub transports: BTreeMap<u32, BTreeMap<Vec<u8>, (Proof, Place)>>,
    /// For each speaker: the most nodes of its communicators.
    pub nodes: BTreeMap<u32, u32>,
    /// For each speaker: its last initialized communicator.
    pub init_complete: BTreeMap<u32, Place>,
    /// For each speaker: the first collective that it waits for, and the line that says so.
    pub collectives: BTreeMap<u32, (Place, Wait)>,
    /// The same for each process that a launcher names: of several runs in one log, one rank has several.
    pub process_waits: BTreeMap<(u32, Vec<u8>), (Place, Wait)>,
    /// For each speaker and number of a collective that failed: the first line that names its group, and the name.
    pub failed_groups: BTreeMap<(u32, u64), (Place, Vec<u8>)>,
    /// For each speaker and group: its last line and the last collective that it started.
    pub progress: BTreeMap<(u32, Group), (Place, u64)>,
    /// Speakers and the ranks with which they completed a communicator, also where its line has no id.
    pub ready_ranks: BTreeSet<(u32, u32)>,
    /// For each speaker and address of a communicator: its last init, its id and the rank.
    pub members: BTreeMap<(u32, u64), (Place, CommRank)>,
    /// What processes say that they are.
    pub claims: Claims,
    /// The last collective of each rank, with its arguments.
    pub calls: Calls,
    pub versions: BTreeMap<u32, BTreeSet<Vec<u8>>>,
    /// For each speaker: its last list of NICs.
    pub devices: BTreeMap<u32, (Place, Vec<Device>)>,
    pub flows: HashMap<FlowKey, FlowSeen>,
    pub bytes_sent: BTreeMap<u32, (u64, u64)>,
    /// What exceeded a bound, by kind.
    pub too_many: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// The tally of one of several threads.
    pub(super) fn of_one_of(threads: usize) -> Self {
        Self {
            threads,
            ..Self::default()
        }
    }

    /// What this tally may keep of something of which two threads may keep twice `max`.
    fn share(&self, max: usize) -> usize {
        2 * max / self.threads.max(2)
    }

    /// The number of the speaker of a record.
    pub(super) fn speaker(&mut self, record: &Record<'_>, file: u32) -> u32 {
        let last = record
            .host
            .and_then(<[u8]>::last)
            .copied()
            .unwrap_or_default();
        let (pid, rank) = (record.pid(), record.rank());
        let number = pid.or(rank).unwrap_or_default();
        let place = number.wrapping_add(u32::from(last)) as usize % RECENT;
        let recent = self.recent[place];
        if self
            .speakers
            .get_index(recent as usize)
            .is_some_and(|speaker| is_same(speaker, record, file))
        {
            return recent;
        }
        let number = self.number(match (record.host, pid, rank) {
            (Some(host), pid, _) => Speaker::Process {
                host: host.into(),
                pid,
            },
            (_, _, Some(rank)) => Speaker::Rank { file, rank },
            _ => Speaker::File(file),
        });
        self.recent[place] = number;
        number
    }

    /// Looks for a channel by peer access or shared memory. Such lines are many, so that they have no signature.
    pub(super) fn see_local_channels(&mut self, block: &[u8]) {
        if let Some(first) = find!(block, b" via P2P/") {
            self.has_peer_channels = true;
            let line = block[first..].split(|byte| *byte == b'\n').next();
            self.channel_ranks = self.channel_ranks.max(line.and_then(super::fields::ranks));
            self.has_node_nvlink = self.has_node_nvlink || has!(&block[first..], b" via P2P/MNNVL");
        }
        self.has_shared_channels = self.has_shared_channels
            || has!(block, b" via SHM/")
            || has!(block, b" via direct shared memory");
    }

    pub(super) fn number(&mut self, speaker: Speaker) -> u32 {
        // At most SPEAKERS_MAX and one more.
        if let Some(number) = self.speakers.get_index_of(&speaker) {
            return number as u32;
        }
        if self.speakers.len() >= SPEAKERS_MAX && speaker != Speaker::Others {
            *self.too_many.entry("processes").or_default() += 1;
            return self.number(Speaker::Others);
        }
        self.speakers.insert_full(speaker).0 as u32
    }

    /// Gives the speakers of parts that will be merged numbers that do not depend on which part
    /// each is in.
    pub(super) fn number_speakers<'a>(&mut self, parts: impl Iterator<Item = &'a Self>) {
        let all: BTreeSet<&Speaker> = parts.flat_map(|part| &part.speakers).collect();
        for speaker in all {
            self.number(speaker.clone());
        }
    }

    /// Counts a line of a signature.
    pub(super) fn see(
        &mut self,
        signature: u32,
        speaker: u32,
        polls: Option<Polls>,
        line: CountedLine<'_>,
    ) {
        let seen_max = self.share(SEEN_BYTES_MAX);
        if let Some(seen) = self.seen.get_mut(&(signature, speaker)) {
            // A function takes memory.
            let site = line.site.filter(|_| self.seen_bytes < seen_max);
            self.seen_bytes += seen.again(CountedLine { site, ..line }, polls);
            return;
        }
        self.add_seen((signature, speaker), SeenLines::new(line, polls));
    }

    pub(super) fn add_seen(&mut self, key: (u32, u32), mut seen: SeenLines) {
        if self.seen_bytes >= self.share(SEEN_BYTES_MAX) {
            seen.sites.clear();
        }
        if self.seen_bytes >= self.share(SEEN_BYTES_MAX) / NEAR_SHARE {
            seen.near = None;
        }
        if let Some(other) = self.seen.get_mut(&key) {
            self.seen_bytes += other.merge(seen);
            return;
        }
        if self.seen_bytes + seen.bytes() <= self.share(SEEN_BYTES_MAX) {
            self.seen_bytes += seen.bytes();
            self.seen.insert(key, seen);
            return;
        }
        *self
            .too_many
            .entry("kinds of lines per process")
            .or_default() += 1;
        let others = self.number(Speaker::Others);
        // One per signature, whose number is bounded.
        self.seen
            .entry((key.0, others))
            .and_modify(|other| {
                other.merge(seen.clone());
            })
            .or_insert(seen);
    }

    /// Counts a WARN without a signature.
    pub(super) fn see_unknown(
        &mut self,
        speaker: u32,
        message: &[u8],
        is_notice: bool,
        line: CountedLine<'_>,
    ) {
        let shape = fields::message_shape(message.trim_ascii(), SHAPE_BYTES);
        if let Some(known) = self.shapes.get_mut(&shape) {
            known.lines.again(line, None);
            known.is_notice &= is_notice;
            return known.said_by(speaker, line.place, &mut self.lasts);
        }
        let context = line.around.lines();
        let mut new = SeenShape::new(SeenLines::new(line, None), context, is_notice);
        new.said_by(speaker, line.place, &mut self.lasts);
        self.add_shape(shape, new);
    }

    /// Adds a shape whose entries of `last` are counted.
    pub(super) fn add_shape(&mut self, shape: Vec<u8>, new: SeenShape) {
        let fits = self.shapes.len() < SHAPES_MAX || self.shapes.contains_key(&shape);
        let shape = if fits { shape } else { b"(others)".to_vec() };
        match self.shapes.entry(shape) {
            Entry::Vacant(entry) => {
                entry.insert(new);
            }
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                if new.lines.first < known.lines.first {
                    known.context = new.context;
                }
                known.lines.merge(new.lines);
                known.lacks_speakers |= new.lacks_speakers;
                known.is_notice &= new.is_notice;
                self.lasts -= new.last.len();
                for (speaker, place) in new.last {
                    known.said_by(speaker, place, &mut self.lasts);
                }
            }
        }
    }

    /// Adds a setting of a speaker.
    pub(super) fn set(&mut self, speaker: u32, key: &[u8], value: &[u8]) {
        self.add_setting((speaker, cut(key, VALUE_BYTES)), cut(value, VALUE_BYTES));
    }

    pub(super) fn add_setting(&mut self, key: (u32, Vec<u8>), value: Vec<u8>) {
        if self.settings.len() >= SETTINGS_MAX && !self.settings.contains_key(&key) {
            *self.too_many.entry("settings").or_default() += 1;
            return;
        }
        add_value(self.settings.entry(key).or_default(), value);
    }

    /// Adds a network of a speaker, with what the line shows about it.
    pub(super) fn transport(&mut self, speaker: u32, name: &[u8], proof: Proof, place: Place) {
        self.add_transport(speaker, &name[..name.len().min(VALUE_BYTES)], proof, place);
    }

    pub(super) fn add_transport(&mut self, speaker: u32, name: &[u8], proof: Proof, place: Place) {
        let of_speaker = self.transports.entry(speaker).or_default();
        if let Some((known, first)) = of_speaker.get_mut(name) {
            *known = proof.max(*known);
            *first = place.min(*first);
            return;
        }
        of_speaker.insert(name.to_vec(), (proof, place));
        if of_speaker.len() > NETWORKS_MAX {
            // The earliest stay, in whichever order threads saw them.
            let last = of_speaker.iter().max_by_key(|(_, (_, first))| *first);
            let last = last.map(|(name, _)| name.clone());
            last.map(|name| of_speaker.remove(&name));
        }
    }

    /// Adds the nodes of a speaker's communicator.
    pub(super) fn nodes(&mut self, speaker: u32, nodes: u32) {
        let most = self.nodes.entry(speaker).or_default();
        *most = nodes.max(*most);
    }

    /// Notes that a speaker initialized a communicator.
    pub(super) fn init_complete(&mut self, speaker: u32, place: Place) {
        let last = self.init_complete.entry(speaker).or_insert(place);
        *last = place.max(*last);
    }

    /// Adds a rank with which a speaker completed a communicator.
    pub(super) fn ready_rank(&mut self, speaker: u32, rank: u32) {
        if self.ready_ranks.len() < GROUPS_MAX {
            self.ready_ranks.insert((speaker, rank));
        }
    }

    /// Adds the collective that a speaker waits for; the first one counts.
    pub(super) fn collective(&mut self, speaker: u32, place: Place, wait: Wait) {
        match self.collectives.entry(speaker) {
            btree_map::Entry::Occupied(known) if place >= known.get().0 => {}
            btree_map::Entry::Occupied(mut known) => {
                known.insert((place, wait));
            }
            btree_map::Entry::Vacant(new) => {
                new.insert((place, wait));
            }
        }
    }

    /// The same of a process that a launcher names.
    pub(super) fn process_wait(&mut self, of: (u32, Vec<u8>), place: Place, wait: Wait) {
        let is_full = self.process_waits.len() >= WAITING_PROCESSES_MAX;
        match self.process_waits.entry(of) {
            btree_map::Entry::Occupied(mut known) if place < known.get().0 => {
                known.insert((place, wait));
            }
            btree_map::Entry::Vacant(new) if !is_full => _ = new.insert((place, wait)),
            btree_map::Entry::Occupied(_) | btree_map::Entry::Vacant(_) => {}
        }
    }

    /// Names the group in which a collective of a speaker failed; the first line that names it counts.
    pub(super) fn name_group(&mut self, speaker: u32, sequence: u64, place: Place, group: &[u8]) {
        if group.is_empty() {
            return;
        }
        let is_full = self.failed_groups.len() >= GROUPS_MAX;
        match self.failed_groups.entry((speaker, sequence)) {
            btree_map::Entry::Occupied(known) if place >= known.get().0 => {}
            btree_map::Entry::Occupied(mut known) => {
                known.insert((place, group.to_vec()));
            }
            btree_map::Entry::Vacant(new) if !is_full => {
                new.insert((place, group.to_vec()));
            }
            btree_map::Entry::Vacant(_) => {
                *self.too_many.entry("groups of ranks").or_default() += 1
            }
        }
    }

    /// Adds the last collective that a speaker started in a group.
    pub(super) fn progress(&mut self, speaker: u32, group: Group, place: Place, started: u64) {
        let is_full = self.progress.len() >= GROUPS_MAX;
        match self.progress.entry((speaker, group)) {
            btree_map::Entry::Occupied(known) => {
                let known = known.into_mut();
                *known = (*known).max((place, started));
            }
            btree_map::Entry::Vacant(new) if !is_full => {
                new.insert((place, started));
            }
            btree_map::Entry::Vacant(_) => {
                *self.too_many.entry("groups of ranks").or_default() += 1
            }
        }
    }

    /// Adds the rank that a speaker has in a communicator.
    pub(super) fn member(&mut self, speaker: u32, comm: u64, place: Place, rank: CommRank) {
        let is_full = self.members.len() >= GROUPS_MAX;
        match self.members.entry((speaker, comm)) {
            btree_map::Entry::Occupied(known) if place >= known.get().0 => {
                *known.into_mut() = (place, rank);
            }
            btree_map::Entry::Occupied(_) => {}
            btree_map::Entry::Vacant(new) if !is_full => {
                new.insert((place, rank));
            }
            btree_map::Entry::Vacant(_) => {
                *self.too_many.entry("groups of ranks").or_default() += 1
            }
        }
    }

    /// Adds the version of a speaker's plugin.
    pub(super) fn version(&mut self, speaker: u32, version: &[u8]) {
        let version = version.strip_suffix(b".").unwrap_or(version);
        add_value(
            self.versions.entry(speaker).or_default(),
            cut(version, VALUE_BYTES),
        );
    }

    /// Sets the data NICs of a speaker; the last list wins.
    pub(super) fn devices(&mut self, speaker: u32, place: Place, message: &[u8]) {
        let devices = fields::devices(message).into_iter();
        let devices = devices.map(|(name, ip)| (cut(name, 32), cut(ip, 64)));
        self.add_devices(speaker, place, devices.collect());
    }

    pub(super) fn add_devices(&mut self, speaker: u32, place: Place, devices: Vec<Device>) {
        let (last, known) = self.devices.entry(speaker).or_default();
        if place >= *last {
            (*last, *known) = (place, devices);
        }
    }

    /// Adds the bytes that one comm sent.
    pub(super) fn volume(&mut self, speaker: u32, bytes: u64) {
        let (comms, sum) = self.bytes_sent.entry(speaker).or_default();
        *comms += 1;
        *sum = sum.saturating_add(bytes);
    }

    /// Updates a flow.
    pub(super) fn flow(
        &mut self,
        speaker: u32,
        flow: FlowText<'_>,
        change: impl FnOnce(&mut FlowSeen),
    ) {
        let end = |end: fields::End<'_>| (Address::new(end.ip), end.port());
        let key = FlowKey {
            speaker,
            local: end(flow.local),
            remote: end(flow.remote),
            sends: flow.sends,
        };
        if let Some(seen) = self.flow_of(key) {
            change(seen);
        }
    }

    pub(super) fn flow_of(&mut self, key: FlowKey) -> Option<&mut FlowSeen> {
        if self.flows.len() < self.share(FLOWS_MAX) {
            return Some(self.flows.entry(key).or_default());
        }
        let known = self.flows.get_mut(&key);
        if known.is_none() {
            *self.too_many.entry("flows").or_default() += 1;
        }
        known
    }

    /// Reads the last lines of a stream of which `before` lines were read earlier.
    pub(super) fn read_end(
        &mut self,
        (filter, years): (&LogFilter, Years),
        file: u32,
        tail: &[u8],
        before: u64,
    ) {
        let mut ends = std::mem::take(&mut self.ends);
        ends.read(file, tail, before + self.lines, years, |record| {
            filter
                .takes(record, years)
                .then(|| self.speaker(record, file))
        });
        self.ends = ends;
    }
}

fn is_same(speaker: &Speaker, record: &Record<'_>, file: u32) -> bool {
    match (speaker, record.host, record.pid(), record.rank()) {
        (Speaker::Process { host, pid }, Some(other), number, _) => {
            **host == *other && *pid == number
        }
        (Speaker::Rank { file: of, rank }, None, _, Some(number)) => *of == file && *rank == number,
        (Speaker::File(of), None, _, None) => *of == file,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::{Around, LASTS_MAX, SAMPLE_BYTES};
    use super::*;

    fn tally(shapes: u8, speakers: u32) -> Tally {
        let mut tally = Tally::default();
        for shape in 0..shapes {
            let message = [b'a' + shape % 26, b'a' + shape / 26];
            for speaker in 0..speakers {
                let line = CountedLine {
                    place: Place { file: 0, line: 1 },
                    time_us: None,
                    site: None,
                    text: &message,
                    at: 0,
                    around: Around::default(),
                    has_below: false,
                    has_frames: false,
                    names_gpu: false,
                    names_rank: true,
                    sample_max: SAMPLE_BYTES,
                    keeps_near: false,
                };
                tally.see_unknown(speaker, &message, false, line);
            }
        }
        tally
    }

    fn kept(tally: &Tally) -> usize {
        tally.shapes.values().map(|shape| shape.last.len()).sum()
    }

    #[test]
    fn the_last_lines_of_unknown_warnings_are_bounded() {
        let mut full = tally(200, 1000);
        assert_eq!((kept(&full), full.lasts), (LASTS_MAX, LASTS_MAX));
        // One entry is two numbers and a place, in a tree that is at least half full.
        assert!(2 * LASTS_MAX * size_of::<(u32, Place)>() <= 2 << 20);
        let lacking = full.shapes.values().filter(|shape| shape.lacks_speakers);
        assert_eq!(lacking.count(), 200 - LASTS_MAX / 1000);
        full.speakers = IndexSet::from_iter([Speaker::Others]);
        let mut merged = tally(200, 10);
        merged.merge(full);
        assert_eq!(kept(&merged), merged.lasts);
        let counts = merged.shapes.values().map(|shape| shape.lines.count);
        assert_eq!(counts.sum::<u64>(), 200 * 1010);
    }

    #[test]
    fn the_lines_of_signatures_are_bounded_by_their_bytes() {
        let mut parts = [Tally::default(), Tally::default()];
        let sample = [b'x'; 2 * SAMPLE_BYTES];
        for number in 0..30_000 {
            let function = format!("function_{}", number % 7);
            let line = CountedLine {
                place: Place {
                    file: 0,
                    line: number.into(),
                },
                time_us: None,
                site: Some((function.as_bytes(), number)),
                text: &sample,
                at: 0,
                around: Around::default(),
                has_below: false,
                has_frames: false,
                names_gpu: false,
                names_rank: true,
                sample_max: SAMPLE_BYTES,
                keeps_near: false,
            };
            let part = &mut parts[number as usize % 2];
            part.see(0, number % 20_000, None, line);
        }
        let [mut one, other] = parts;
        one.merge(other);
        let kept: usize = one.seen.values().map(SeenLines::bytes).sum();
        let others = one
            .seen
            .values()
            .map(SeenLines::bytes)
            .max()
            .unwrap_or_default();
        assert!(kept <= SEEN_BYTES_MAX + others, "{kept}");
        assert!(one.seen.len() > 5000, "{}", one.seen.len());
        let counts = one.seen.values().map(|seen| seen.count);
        assert_eq!(counts.sum::<u64>(), 30_000);
    }

    #[test]
    fn many_threads_together_keep_as_much_as_two() {
        let kept = |threads| threads * Tally::of_one_of(threads).share(SEEN_BYTES_MAX);
        assert_eq!([kept(1), kept(2)], [SEEN_BYTES_MAX, 2 * SEEN_BYTES_MAX]);
        assert_eq!([kept(4), kept(8)], [2 * SEEN_BYTES_MAX; 2]);
    }

    #[test]
    fn a_few_processes_are_all_kept() {
        let tally = tally(20, 100);
        assert_eq!(kept(&tally), 2000);
        assert!(tally.shapes.values().all(|shape| !shape.lacks_speakers));
    }
}
