//! Counts what a log contains: number, first and last line of each kind.
//!
//! Every collection is bounded, because a log may have any size and content. What exceeds
//! a bound is counted under a common name or in `too_many`.
#![forbid(unsafe_code)]

use super::ends::Ends;
use super::fields::{self, CommRank, FlowText, Polls};
use super::filter::LogFilter;
use super::networks::Proof;
use super::shape::Record;
use super::stated::StatedLines;
use super::time::Years;
use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::net::Ipv4Addr;

/// A fast hash: every line with a hit looks up several maps.
type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

const SPEAKERS_MAX: usize = 4096;
/// Most bytes of the lines of signatures by process. Each of two threads that scan has as many, and
/// each of more threads a share of what two have, so that memory does not grow with the threads.
const SEEN_BYTES_MAX: usize = 6 << 20;
const SHAPES_MAX: usize = 256;
/// With its index, 4 MiB at most for each thread.
const FLOWS_MAX: usize = 16_384;
const SETTINGS_MAX: usize = 16_384;
/// Most communicators and process groups of all speakers.
const GROUPS_MAX: usize = 16_384;
/// Most pairs of a shape and a speaker whose last line is kept; 2 MiB at most.
const LASTS_MAX: usize = 32_768;
/// Most functions per signature and speaker.
const SITES_MAX: usize = 4;
/// Size of the cache of recent speakers.
const RECENT: usize = 32;
/// Most values of one kind per speaker.
const VALUES_MAX: usize = 8;
const SAMPLE_BYTES: usize = 400;
/// Bytes of a sample before the text that was found, if the line is too long to be whole.
const SAMPLE_BEFORE: usize = 120;
/// Bytes of a sample from the text that was found on, at least.
const SAMPLE_AFTER: usize = 120;
const SHAPE_BYTES: usize = 160;
/// Lines that are kept before an unknown error, and bytes of each; they are searched within so many bytes.
const CONTEXT_BEFORE: usize = 3;
const CONTEXT_BYTES: usize = 200;
const CONTEXT_WITHIN: usize = 4096;
const VALUE_BYTES: usize = 200;

/// The place of a line: index of the file, and line number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    pub file: u32,
    pub line: u64,
}

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

/// A line that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedLine<'a> {
    pub place: Place,
    pub time_us: Option<i64>,
    /// Function and source line of a WARN.
    pub site: Option<(&'a [u8], u32)>,
    pub text: &'a [u8],
    /// The offset in `text` that a sample must show.
    pub at: usize,
    pub around: Around<'a>,
}

/// Where a line is in its block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around<'a> {
    pub block: &'a [u8],
    pub start: usize,
    pub end: usize,
}

impl Around<'_> {
    /// The lines before it, and the one behind it, as far as the block has them.
    fn lines(&self) -> Context {
        let cut = |line: &[u8]| cut(line.trim_ascii_end(), CONTEXT_BYTES);
        let has_text = |line: &&[u8]| !line.trim_ascii().is_empty();
        let before = self.block.get(..self.start).unwrap_or_default();
        let before =
            before[before.len().saturating_sub(CONTEXT_WITHIN)..].rsplit(|byte| *byte == b'\n');
        let mut before: Vec<Vec<u8>> = before
            .filter(has_text)
            .take(CONTEXT_BEFORE)
            .map(cut)
            .collect();
        before.reverse();
        let after = self.block.get(self.end..).unwrap_or_default();
        let after = after[..after.len().min(CONTEXT_WITHIN)].split(|byte| *byte == b'\n');
        Context {
            before,
            after: after.into_iter().find(has_text).map(cut),
        }
    }
}

/// The lines around the first line of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Context {
    pub before: Vec<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

/// The lines of one signature or shape.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenLines {
    pub count: u64,
    pub first: Place,
    pub last: Place,
    pub first_us: Option<i64>,
    pub last_us: Option<i64>,
    /// The time of the first line, which orders lines of several ranks.
    pub first_line_us: Option<i64>,
    /// Text of the first line.
    pub sample: Vec<u8>,
    /// The lowest poll rate, and the longest wait.
    pub slowest: Option<Polls>,
    pub longest: Option<Polls>,
    /// Functions that logged them, with their source lines.
    pub sites: Vec<(Vec<u8>, BTreeSet<u32>)>,
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
}

/// A NIC's name and address.
pub(super) type Device = (Vec<u8>, Vec<u8>);

/// The WARN lines of one shape, which no signature knows.
#[derive(Debug)]
pub(super) struct SeenShape {
    pub lines: SeenLines,
    /// The lines around the first one.
    pub context: Context,
    /// The last line of each speaker.
    pub last: BTreeMap<u32, Place>,
    /// Whether `last` lacks a speaker.
    pub lacks_speakers: bool,
    /// Whether all lines are warnings of a program that warns in healthy jobs too.
    pub is_notice: bool,
}

impl SeenShape {
    fn new(lines: SeenLines, context: Context, is_notice: bool) -> Self {
        Self {
            lines,
            context,
            last: BTreeMap::new(),
            lacks_speakers: false,
            is_notice,
        }
    }

    /// Keeps the last line of a speaker; `kept` counts the entries of all shapes.
    fn said_by(&mut self, speaker: u32, place: Place, kept: &mut usize) {
        if let Some(known) = self.last.get_mut(&speaker) {
            *known = place.max(*known);
        } else if *kept < LASTS_MAX {
            *kept += 1;
            self.last.insert(speaker, place);
        } else {
            self.lacks_speakers = true;
        }
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub lines: u64,
    pub matched_lines: u64,
    /// Records with a signature that the filter left out.
    pub filtered_records: u64,
    pub speakers: Vec<Speaker>,
    numbers: HashMap<Speaker, u32>,
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
    lasts: usize,
    pub settings: BTreeMap<(u32, Vec<u8>), BTreeSet<Vec<u8>>>,
    pub transports: BTreeMap<u32, BTreeMap<Vec<u8>, (Proof, Place)>>,
    /// For each speaker: the most nodes of its communicators.
    pub nodes: BTreeMap<u32, u32>,
    /// For each speaker: its last initialized communicator.
    pub init_complete: BTreeMap<u32, Place>,
    /// For each speaker: the first collective that it waits for, and the line that says so.
    pub collectives: BTreeMap<u32, (Place, Wait)>,
    /// For each speaker and group: its last line and the last collective that it started.
    pub progress: BTreeMap<(u32, Group), (Place, u64)>,
    /// For each speaker and address of a communicator: its last init, its id and the rank.
    pub members: BTreeMap<(u32, u64), (Place, CommRank)>,
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
            .get(recent as usize)
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

    fn number(&mut self, speaker: Speaker) -> u32 {
        if let Some(&number) = self.numbers.get(&speaker) {
            return number;
        }
        if self.speakers.len() >= SPEAKERS_MAX && speaker != Speaker::Others {
            *self.too_many.entry("processes").or_default() += 1;
            return self.number(Speaker::Others);
        }
        // At most SPEAKERS_MAX and one more.
        let number = self.speakers.len() as u32;
        self.speakers.push(speaker.clone());
        self.numbers.insert(speaker, number);
        number
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

    fn add_seen(&mut self, key: (u32, u32), mut seen: SeenLines) {
        if self.seen_bytes >= self.share(SEEN_BYTES_MAX) {
            seen.sites.clear();
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
    fn add_shape(&mut self, shape: Vec<u8>, new: SeenShape) {
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

    fn add_setting(&mut self, key: (u32, Vec<u8>), value: Vec<u8>) {
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

    fn add_transport(&mut self, speaker: u32, name: &[u8], proof: Proof, place: Place) {
        let of_speaker = self.transports.entry(speaker).or_default();
        if let Some((known, first)) = of_speaker.get_mut(name) {
            *known = proof.max(*known);
            *first = place.min(*first);
        } else if of_speaker.len() < VALUES_MAX {
            of_speaker.insert(name.to_vec(), (proof, place));
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

    fn add_devices(&mut self, speaker: u32, place: Place, devices: Vec<Device>) {
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

    fn flow_of(&mut self, key: FlowKey) -> Option<&mut FlowSeen> {
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

    /// Adds the tally of another thread or file.
    pub(super) fn merge(&mut self, other: Self) {
        let numbers: Vec<u32> = other
            .speakers
            .into_iter()
            .map(|speaker| self.number(speaker))
            .collect();
        let number = |speaker: u32| numbers.get(speaker as usize).copied().unwrap_or_default();
        self.lines += other.lines;
        self.matched_lines += other.matched_lines;
        self.filtered_records += other.filtered_records;
        other
            .seen
            .into_iter()
            .for_each(|((signature, speaker), seen)| {
                self.add_seen((signature, number(speaker)), seen)
            });
        for (shape, seen) in other.shapes {
            let mut new = SeenShape::new(seen.lines, seen.context, seen.is_notice);
            new.lacks_speakers = seen.lacks_speakers;
            for (speaker, place) in seen.last {
                new.said_by(number(speaker), place, &mut self.lasts);
            }
            self.add_shape(shape, new);
        }
        self.stated.merge(other.stated);
        self.ends.merge(other.ends, number);
        for ((speaker, key), values) in other.settings {
            values
                .into_iter()
                .for_each(|value| self.add_setting((number(speaker), key.clone()), value));
        }
        for (speaker, values) in other.versions {
            let into = self.versions.entry(number(speaker)).or_default();
            values.into_iter().for_each(|value| add_value(into, value));
        }
        for (speaker, names) in other.transports {
            for (name, (proof, place)) in names {
                self.add_transport(number(speaker), &name, proof, place);
            }
        }
        for (speaker, nodes) in other.nodes {
            self.nodes(number(speaker), nodes);
        }
        for (speaker, place) in other.init_complete {
            self.init_complete(number(speaker), place);
        }
        for (speaker, (place, wait)) in other.collectives {
            self.collective(number(speaker), place, wait);
        }
        for ((speaker, group), (place, started)) in other.progress {
            self.progress(number(speaker), group, place, started);
        }
        for ((speaker, comm), (place, rank)) in other.members {
            self.member(number(speaker), comm, place, rank);
        }
        for (speaker, (place, devices)) in other.devices {
            self.add_devices(number(speaker), place, devices);
        }
        for (speaker, (comms, bytes)) in other.bytes_sent {
            let (all, sum) = self.bytes_sent.entry(number(speaker)).or_default();
            (*all, *sum) = (*all + comms, sum.saturating_add(bytes));
        }
        for (key, flow) in other.flows {
            self.merge_flow(
                FlowKey {
                    speaker: number(key.speaker),
                    ..key
                },
                flow,
            );
        }
        other
            .too_many
            .into_iter()
            .for_each(|(kind, count)| *self.too_many.entry(kind).or_default() += count);
    }

    fn merge_flow(&mut self, key: FlowKey, flow: FlowSeen) {
        let Some(into) = self.flow_of(key) else {
            return;
        };
        into.nic = into.nic.take().or(flow.nic);
        into.is_control |= flow.is_control;
        into.made += flow.made;
        into.slow += flow.slow;
    }

    /// Turns line numbers within blocks into line numbers of the file.
    pub(super) fn resolve(&mut self, resolved: impl Fn(Place) -> Place) {
        self.stated.resolve(&resolved);
        let shapes = self.shapes.values_mut().map(|shape| &mut shape.lines);
        for seen in self.seen.values_mut().chain(shapes) {
            (seen.first, seen.last) = (resolved(seen.first), resolved(seen.last));
        }
        let last = self
            .shapes
            .values_mut()
            .flat_map(|shape| shape.last.values_mut());
        let networks = self.transports.values_mut().flat_map(BTreeMap::values_mut);
        let groups = self.progress.values_mut().map(|(place, _)| place);
        let members = self.members.values_mut().map(|(place, _)| place);
        let places = last
            .chain(groups)
            .chain(members)
            .chain(self.init_complete.values_mut())
            .chain(self.collectives.values_mut().map(|(place, _)| place))
            .chain(self.devices.values_mut().map(|(place, _)| place))
            .chain(networks.map(|(_, place)| place));
        for place in places {
            *place = resolved(*place);
        }
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

/// Keeps the least values, so that the order in which they come does not matter.
fn add_value<T: Ord>(values: &mut BTreeSet<T>, value: T) {
    if values.len() < VALUES_MAX {
        values.insert(value);
    } else if values.last().is_some_and(|last| value < *last) && values.insert(value) {
        values.pop_last();
    }
}

fn cut(text: &[u8], size: usize) -> Vec<u8> {
    text[..text.len().min(size)].to_vec()
}

/// The part of a line around offset `at`: the whole line if it is short.
fn sample(line: &[u8], at: usize) -> Vec<u8> {
    let from = if at + SAMPLE_AFTER <= SAMPLE_BYTES || line.len() <= SAMPLE_BYTES {
        0
    } else {
        let from = at.saturating_sub(SAMPLE_BEFORE).min(line.len());
        let blank = line[from..].iter().position(|byte| *byte == b' ');
        from + blank.map_or(0, |blank| blank + 1)
    };
    cut(line[from.min(line.len())..].trim_ascii(), SAMPLE_BYTES)
}

impl SeenLines {
    fn new(line: CountedLine<'_>, polls: Option<Polls>) -> Self {
        let (place, time_us, sample) = (line.place, line.time_us, sample(line.text, line.at));
        let mut new = Self {
            count: 1,
            first: place,
            last: place,
            first_us: time_us,
            last_us: time_us,
            first_line_us: time_us,
            sample,
            slowest: polls,
            longest: polls,
            sites: Vec::new(),
        };
        new.site(line.site);
        new
    }

    /// Bytes that it takes, with its place in a map that is half full.
    fn bytes(&self) -> usize {
        let sites = self.sites.iter().map(|(function, _)| site_bytes(function));
        2 * size_of::<((u32, u32), Self)>() + self.sample.capacity() + sites.sum::<usize>()
    }

    /// Counts another line. Returns the bytes that it takes more.
    fn again(&mut self, line: CountedLine<'_>, polls: Option<Polls>) -> usize {
        self.count += 1;
        // A thread reads its blocks, and their lines, in order.
        self.last = line.place;
        self.times(line.time_us, line.time_us);
        self.polls(polls, polls);
        self.site(line.site)
    }

    /// Adds the place of a WARN. Returns the bytes that it takes more.
    fn site(&mut self, site: Option<(&[u8], u32)>) -> usize {
        let Some((function, line)) = site else {
            return 0;
        };
        let function = &function[..function.len().min(VALUE_BYTES)];
        if let Some((_, lines)) = self.sites.iter_mut().find(|(known, _)| known == function) {
            add_value(lines, line);
        } else if self.sites.len() < SITES_MAX {
            // Most have one, and a vector grows to four.
            self.sites.reserve_exact(1);
            self.sites.push((function.to_vec(), BTreeSet::from([line])));
            return site_bytes(function);
        } else if let Some(last) = self
            .sites
            .iter_mut()
            .max()
            .filter(|last| *function < *last.0)
        {
            *last = (function.to_vec(), BTreeSet::from([line]));
        }
        0
    }

    fn times(&mut self, first: Option<i64>, last: Option<i64>) {
        self.first_us = [self.first_us, first].into_iter().flatten().min();
        self.last_us = [self.last_us, last].into_iter().flatten().max();
    }

    fn polls(&mut self, slowest: Option<Polls>, longest: Option<Polls>) {
        if let Some(other) = slowest
            && self
                .slowest
                .is_none_or(|slowest| other.per_second() < slowest.per_second())
        {
            self.slowest = Some(other);
        }
        if let Some(other) = longest
            && self
                .longest
                .is_none_or(|longest| other.nanoseconds > longest.nanoseconds)
        {
            self.longest = Some(other);
        }
    }

    /// Adds the lines of another thread or file. Returns the bytes that it takes more.
    fn merge(&mut self, other: Self) -> usize {
        self.count += other.count;
        if other.first < self.first {
            (self.first, self.sample) = (other.first, other.sample);
            self.first_line_us = other.first_line_us;
        }
        self.last = self.last.max(other.last);
        self.times(other.first_us, other.last_us);
        self.polls(other.slowest, other.longest);
        let sites = other.sites.iter();
        let lines =
            sites.flat_map(|(function, lines)| lines.iter().map(move |line| (function, *line)));
        lines
            .map(|(function, line)| self.site(Some((function, line))))
            .sum()
    }
}

/// Bytes of a function that logged a WARN, with the source lines.
fn site_bytes(function: &[u8]) -> usize {
    // A set of a few numbers is one node, of eleven numbers and a head.
    size_of::<(Vec<u8>, BTreeSet<u32>)>() + function.len() + 64
}

#[cfg(test)]
mod tests {
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
        full.speakers = vec![Speaker::Others; 1];
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
