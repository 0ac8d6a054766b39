//! Reads a snapshot of a recorder file, while the writer runs or after it has ended.
//!
//! The file is read with `pread`, not mapped, so a file that is truncated meanwhile causes a
//! short read and not a signal. Every count, offset and size is checked before use. Counters
//! that the writer was changing are clamped, so that posted ≥ done ≥ unpacked and consumed
//! hold in every sample; `torn` tells if clamping was necessary. Memory use stays below 48 MiB
//! for any file.
#![forbid(unsafe_code)]

use crate::clock::monotonic_ns;
use crate::connecting::Connecting;
use crate::ended::Ended;
use crate::events::{Events, read_events, read_setup_events};
use crate::format::{
    CAPACITY_MAX, Call, DEVICES, EVENT_BYTES, HEADER_BYTES, LOG_ENTRIES_MAX, LOG_ENTRY_BYTES,
    MAGIC, RING_EVENTS_MAX, SLOT_BYTES, VERSION, device, header,
};
use crate::log::{LogLines, read_log};
use crate::process::Identity;
use crate::sample::ChannelSample;
use crate::words::Words;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Largest supported slot size, for slots of later writers.
const SLOT_BYTES_MAX: usize = 16 * 1024;
/// Slots copied by one `pread`.
const BATCH: usize = 64;
/// Attempts before a snapshot is accepted in which a slot was reused.
const ATTEMPTS: usize = 3;

/// An open recorder file. Its buffer is reused for every snapshot.
#[derive(Debug)]
pub struct Reader {
    file: File,
    buffer: Vec<u8>,
    /// The header as read last. The section offsets in it never change.
    header: Option<Header>,
}

/// A snapshot of a file.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The file's header, with the counters that belong to no channel.
    pub header: Header,
    /// Every open or closed slot, in the order of the file.
    pub channels: Vec<ChannelSample>,
    /// When the snapshot was complete, in nanoseconds of `CLOCK_MONOTONIC`.
    pub taken_ns: u64,
    /// The file ends before something that its counters say was written: it was copied in part.
    /// `channels` has those before the end.
    pub truncated: bool,
    /// False if slots were reused during every attempt: a sample may mix two comms.
    pub settled: bool,
}

/// The header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The writing process; see [`Identity::liveness`].
    pub writer: Identity,
    /// Sweeps keep the file.
    pub keep: bool,
    /// Wall clock at creation, nanoseconds since 1970.
    pub created_wall_ns: u64,
    /// `CLOCK_MONOTONIC` at creation, nanoseconds.
    pub created_ns: u64,
    /// The writer's role; control characters replaced.
    pub role: String,
    /// The plugin it drives; control characters replaced.
    pub plugin: String,
    /// Slots in the file.
    pub capacity: u32,
    /// Slots used so far, at most the capacity.
    pub channel_count: u32,
    /// Times a closed slot was given to another comm and its counters were lost.
    pub channels_reused: u64,
    /// Comms that got no slot and are not recorded.
    pub channels_refused: u64,
    /// Comms that have counters and no events, because no memory was left for their ring.
    pub rings_refused: u64,
    /// Calls of `test` for requests that no open channel has pending.
    pub requests_unknown: u64,
    /// Posts that could not be tracked; in no channel's counters.
    pub requests_untracked: u64,
    /// The call without a channel (`init`, `connect`, ...) entered last.
    pub setup_call: Option<Call>,
    /// Such calls so far.
    pub setup_calls: u64,
    /// Threads that are inside such a call.
    pub setup_calls_inside: u64,
    /// When such a call was last entered or returned; `None` if none was, or if the writer is older than this field.
    pub setup_at_ns: Option<u64>,
    /// A `connect` that has given no comm yet.
    pub connecting: Option<Connecting>,
    /// Such calls that did not return 0.
    pub setup_errors: u64,
    /// The last call that failed, and its code.
    pub setup_last_error: Option<(Call, i32)>,
    /// Events written to the setup ring so far.
    pub setup_events: u64,
    /// Lines that the plugin has logged so far.
    pub log_lines: u64,
    /// When and how the writer ended, if the process that started it wrote that.
    pub ended: Option<Ended>,
    /// When the process that started the writer last saw it running; `None` if that process does not look.
    pub seen_ns: Option<u64>,
    /// Device properties by index; `None` if `getProperties` was not called for the device.
    pub devices: Vec<Option<DeviceFacts>>,
    /// Events per ring; 0 without rings.
    pub ring_events: u32,
    /// Lines that the log holds, and how many first lines of them are never overwritten.
    pub log_entries: (u32, u32),
    pub(crate) sections: Sections,
}

/// Properties of a plugin device, from `getProperties`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Interface name; control characters replaced.
    pub name: String,
    /// PCI address, or empty; control characters replaced.
    pub pci: String,
    /// Mbit/s.
    pub speed_mbit: i32,
    /// Supported memory types, `NCCL_PTR_*` bits.
    pub ptr_support: i32,
    /// `netDeviceType`: 1 if receives must be unpacked.
    pub device_type: i32,
}

/// Checked offsets and sizes of the sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sections {
    pub slots: u64,
    pub slot_bytes: usize,
    pub rings: u64,
    pub log: u64,
}

impl Snapshot {
    /// When the writer gave its last sign: its end if that is known, or else the last change,
    /// noted test, error or open of any channel, its last set-up call, or when its parent last saw it running.
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub fn last_sign_ns(&self) -> u64 {
        let of_channels = self.channels.iter().flat_map(|channel| {
            [
                Some(channel.last_change_ns),
                channel.polls.map(|polls| polls.until_ns),
                channel.last_error.map(|error| error.at_ns),
            ]
        });
        let seen = of_channels.flatten().max().unwrap_or(0);
        let seen = seen
            .max(self.header.created_ns)
            .max(self.header.seen_ns.unwrap_or(0))
            .max(self.header.setup_at_ns.unwrap_or(0));
        self.header
            .ended
            .map_or(seen, |ended| ended.at_ns.max(seen))
    }
}

impl Reader {
    /// Opens a file. Does not follow links and does not block.
    ///
    /// # Errors
    /// The file cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
        Self::from_file(
            OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(path)?,
        )
    }

    /// Takes a file that is already open.
    ///
    /// # Errors
    /// The file is not a regular file.
    pub fn from_file(file: File) -> Result<Self, ReadError> {
        if !file.metadata()?.is_file() {
            return Err(ReadError::NotARecorder);
        }
        Ok(Self {
            file,
            buffer: Vec::new(),
            header: None,
        })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads the header only.
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn header(&mut self) -> Result<Header, ReadError> {
        read_header(&self.file)
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// The file cannot be read, is not a recorder file, has no complete header yet, has another
    /// version, or has invalid header fields.
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        let snapshot = take(&self.file, &mut self.buffer)?;
        self.header = Some(snapshot.header.clone());
        Ok(snapshot)
    }

    /// A channel's newest events, at most `max`, oldest first, restricted to the comm of
    /// `sample`. They are read after the sample and may include later events.
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn events(&mut self, sample: &ChannelSample, max: usize) -> Result<Events, ReadError> {
        let header = match &self.header {
            Some(header) => header,
            None => self.header.insert(read_header(&self.file)?),
        };
        read_events(&self.file, header, sample, max, &mut self.buffer)
    }

    /// The newest events of calls that belong to no channel (`init`, `connect`,
    /// ...), at most `max`, oldest first.
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn setup_events(&mut self, max: usize) -> Result<Events, ReadError> {
        read_setup_events(&self.file, &read_header(&self.file)?, max, &mut self.buffer)
    }

    /// The plugin's log lines from line `from` on, at most `max`. Continue with
    /// [`LogLines::next`].
    ///
    /// # Errors
    /// As [`Reader::snapshot`].
    pub fn log(&mut self, from: u64, max: usize) -> Result<LogLines, ReadError> {
        read_log(&self.file, &read_header(&self.file)?, from, max)
    }
}

/// A source to read at an offset: a file, or a slice in tests.
pub(crate) trait Source {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

#[cfg(any(test, fuzzing))]
impl Source for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = self
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let length = from.len().min(buffer.len());
        buffer[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }
}

/// Reads until the buffer is full or the source ends. Returns the number of bytes.
pub(crate) fn read_full(source: &impl Source, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read_at(&mut buffer[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub(crate) fn take(source: &impl Source, buffer: &mut Vec<u8>) -> Result<Snapshot, ReadError> {
    let mut attempt = 1;
    loop {
        let before = read_header(source)?;
        let (channels, lacks_channels) = read_channels(source, &before, buffer)?;
        let truncated = lacks_channels || lacks(source, last_written(&before, &channels))?;
        let after = read_header(source)?;
        let settled = before.channels_reused == after.channels_reused;
        if settled || attempt == ATTEMPTS {
            return Ok(Snapshot {
                header: after,
                channels,
                taken_ns: monotonic_ns(),
                truncated,
                settled,
            });
        }
        attempt += 1;
    }
}

pub(crate) fn read_header(source: &impl Source) -> Result<Header, ReadError> {
    let mut page = [0; HEADER_BYTES];
    let there = read_full(source, &mut page, 0)?;
    if page[..8] == [0; 8] || (there < HEADER_BYTES && page[..8] == MAGIC) {
        return Err(ReadError::Unfinished);
    }
    if page[..8] != MAGIC {
        return Err(ReadError::NotARecorder);
    }
    let page = Words(&page);
    match page.u32(header::VERSION) {
        VERSION => Ok(Header {
            connecting: Connecting::read(source, page)?,
            ..Header::decode(page)?
        }),
        other => Err(ReadError::OtherVersion(other)),
    }
}

fn read_channels(
    source: &impl Source,
    header: &Header,
    buffer: &mut Vec<u8>,
) -> Result<(Vec<ChannelSample>, bool), ReadError> {
    let Sections {
        slots: offset,
        slot_bytes: bytes,
        ..
    } = header.sections;
    let count = header.channel_count as usize;
    let mut channels = Vec::new();
    let mut slot = 0;
    while slot < count {
        let batch = (count - slot).min(BATCH);
        buffer.resize(batch * bytes, 0);
        let there = read_full(source, buffer, offset.saturating_add((slot * bytes) as u64))?;
        let whole = there / bytes;
        let slots = buffer.chunks_exact(bytes).take(whole).zip(slot..);
        channels.extend(slots.filter_map(|(slot, index)| {
            ChannelSample::decode(Words(slot), index as u16, header.ring_events)
        }));
        if whole < batch {
            return Ok((channels, true));
        }
        slot += batch;
    }
    Ok((channels, false))
}

/// Where the last event or log line begins that the counters say was written; 0 without any. A
/// copy may end behind the last byte that is not zero, so only its beginning must be there.
fn last_written(header: &Header, channels: &[ChannelSample]) -> u64 {
    let places = u64::from(header.ring_events);
    let event = |ring: u64, count: u64| {
        let number = ring
            .saturating_mul(places)
            .saturating_add(count.min(places) - 1);
        let offset = number.saturating_mul(EVENT_BYTES as u64);
        header.sections.rings.saturating_add(offset)
    };
    let of_channels = channels
        .iter()
        .map(|one| (u64::from(one.slot), one.events.1));
    let rings = of_channels.chain([(header.capacity.into(), header.setup_events)]);
    let events = rings
        .filter(|(_, count)| *count > 0 && places > 0)
        .map(|(ring, count)| event(ring, count));
    let (entries, _) = header.log_entries;
    let lines = header.log_lines.min(entries.into()).checked_sub(1);
    let line = lines.map(|last| {
        let offset = last.saturating_mul(LOG_ENTRY_BYTES as u64);
        header.sections.log.saturating_add(offset)
    });
    events.chain(line).max().unwrap_or_default()
}

/// Whether a source ends at or before an offset.
fn lacks(source: &impl Source, offset: u64) -> io::Result<bool> {
    Ok(read_full(source, &mut [0], offset)? == 0)
}

/// A snapshot of a file in memory.
#[cfg(any(test, fuzzing))]
pub(crate) fn picture(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    take(&bytes, &mut Vec::new())
}

impl Header {
    fn decode(page: Words<'_>) -> Result<Self, ReadError> {
        let header_bytes = u64::from(page.u32(header::HEADER_BYTES));
        let capacity = page.u32(header::CHANNEL_CAPACITY);
        let sections = Sections {
            slots: page.u64(header::CHANNELS_OFFSET),
            slot_bytes: page.u32(header::CHANNEL_SLOT_BYTES) as usize,
            rings: page.u64(header::RINGS_OFFSET),
            log: page.u64(header::LOG_OFFSET),
        };
        let ring_events = page.u32(header::RING_EVENTS);
        let log_entries = page.u32(header::LOG_ENTRIES);
        if header_bytes < HEADER_BYTES as u64 {
            return Err(ReadError::Damaged("header_bytes", header_bytes));
        }
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(ReadError::Damaged("channel_capacity", capacity.into()));
        }
        if !(SLOT_BYTES..=SLOT_BYTES_MAX).contains(&sections.slot_bytes)
            || !sections.slot_bytes.is_multiple_of(8)
        {
            return Err(ReadError::Damaged(
                "channel_slot_bytes",
                sections.slot_bytes as u64,
            ));
        }
        if ring_events > RING_EVENTS_MAX || !(ring_events == 0 || ring_events.is_power_of_two()) {
            return Err(ReadError::Damaged("ring_events", ring_events.into()));
        }
        if log_entries > LOG_ENTRIES_MAX {
            return Err(ReadError::Damaged("log_entries", log_entries.into()));
        }
        let log_entry_bytes = page.u32(header::LOG_ENTRY_BYTES);
        if log_entry_bytes as usize != LOG_ENTRY_BYTES {
            return Err(ReadError::Damaged(
                "log_entry_bytes",
                log_entry_bytes.into(),
            ));
        }
        let offsets = [
            ("channels_offset", sections.slots),
            ("rings_offset", sections.rings),
            ("log_offset", sections.log),
        ];
        for (field, offset) in offsets {
            if offset < header_bytes || offset > i64::MAX as u64 / 2 {
                return Err(ReadError::Damaged(field, offset));
            }
        }
        // In this order a call in progress may be missed, but none is invented.
        let left = page.u64(header::SETUP_CALLS_LEFT);
        Ok(Self {
            writer: Identity {
                pid: page.u32(header::PID),
                start_ticks: page.u64(header::START_TICKS),
                boot_id_hash: page.u64(header::BOOT_ID_HASH),
                pid_namespace: page.u64(header::PID_NAMESPACE),
            },
            keep: page.u32(header::FLAGS) & header::KEEP != 0,
            created_wall_ns: page.u64(header::CREATED_WALL_NS),
            created_ns: page.u64(header::CREATED_NS),
            role: page.text(header::ROLE_LABEL, header::ROLE_LABEL_BYTES),
            plugin: page.text(header::PLUGIN_LABEL, header::PLUGIN_LABEL_BYTES),
            capacity,
            channel_count: page.u64(header::CHANNEL_COUNT).min(capacity.into()) as u32,
            channels_reused: page.u64(header::CHANNELS_REUSED),
            rings_refused: page.u64(header::RINGS_REFUSED),
            channels_refused: page.u64(header::CHANNELS_REFUSED),
            requests_unknown: page.u64(header::REQUESTS_UNKNOWN),
            requests_untracked: page.u64(header::REQUESTS_UNTRACKED),
            setup_call: Call::from_raw(page.u64(header::SETUP_CALL)),
            setup_calls: page.u64(header::SETUP_CALLS_ENTERED),
            setup_calls_inside: page.u64(header::SETUP_CALLS_ENTERED).saturating_sub(left),
            setup_at_ns: Some(page.u64(header::SETUP_AT_NS)).filter(|ns| *ns != 0),
            connecting: None,
            setup_errors: page.u64(header::SETUP_ERRORS),
            setup_last_error: page.failed_call(header::SETUP_LAST_ERROR),
            setup_events: page.u64(header::SETUP_EVENTS),
            log_lines: page.u64(header::LOG_LINES),
            ended: Ended::decode(&page),
            seen_ns: Some(page.u64(header::SEEN_NS)).filter(|ns| *ns != 0),
            devices: devices(page),
            ring_events,
            log_entries: (log_entries, page.u32(header::LOG_KEPT).min(log_entries)),
            sections,
        })
    }
}

/// The devices up to the last known one.
fn devices(page: Words<'_>) -> Vec<Option<DeviceFacts>> {
    let one = |index: usize| {
        let at = header::DEVICES + index * device::BYTES;
        (page.u32(at + device::KNOWN) == 1).then(|| DeviceFacts {
            name: page.text(at + device::NAME, device::NAME_BYTES),
            pci: page.text(at + device::PCI, device::PCI_BYTES),
            speed_mbit: page.u32(at + device::SPEED) as i32,
            ptr_support: page.u32(at + device::PTR_SUPPORT) as i32,
            device_type: page.u32(at + device::TYPE) as i32,
        })
    };
    let mut all: Vec<_> = (0..DEVICES).map(one).collect();
    all.truncate(
        all.iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1),
    );
    all
}

/// Why a file cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// Opening or reading failed.
    Io(io::Error),
    /// The file is not a recorder file.
    NotARecorder,
    /// The header is incomplete: the writer is creating it, or ended while doing so.
    Unfinished,
    /// Written by a program that uses another version of the format.
    OtherVersion(u32),
    /// A header field has an invalid value: its name and value.
    Damaged(&'static str, u64),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the recorder file: {error}"),
            Self::NotARecorder => f.write_str("not a recorder file"),
            Self::Unfinished => f.write_str("the recorder file has no complete header"),
            Self::OtherVersion(version) => {
                write!(
                    f,
                    "the recorder file has format version {version}; this program reads {VERSION}"
                )
            }
            Self::Damaged(field, value) => {
                write!(f, "the recorder file is damaged: {field} is {value}")
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::OperationKind;
    use crate::format::{Role, channel};
    use crate::fuzzing::makes_sense;
    use crate::{Addresses, Opening, Options, Recorder};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// A source that loses bytes from its end with every read.
    struct Shrinking<'a>(&'a [u8], Cell<usize>, usize);

    impl Source for Shrinking<'_> {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let length = self.1.get();
            self.1.set(length.saturating_sub(self.2));
            Source::read_at(&&self.0[..length], buffer, offset)
        }
    }

    /// The bytes of a file with a send and a receive channel in mid-flight.
    fn valid() -> Vec<u8> {
        let parent = tempfile::tempdir().unwrap();
        let options = Options {
            capacity: 3,
            role: "send worker",
            plugin: "a\u{1b}[31mplugin",
            ring_events: 4,
            log_entries: 4,
            ..Options::new("read")
        };
        let recorder = Recorder::create_in(parent.path(), &options).unwrap();
        for role in [Role::Send, Role::Recv] {
            let opening = Opening {
                role,
                device: 1,
                comm: 0x1000,
                retires_consumed: role == Role::Recv,
                addresses: Addresses::default(),
            };
            let key = recorder.open(&opening).unwrap();
            let slot = recorder.slot(key).unwrap();
            for number in 0..5 {
                slot.post(100, 1_000 * (number + 1) + u64::MAX / 4);
            }
            slot.finish(0, None, u64::MAX / 4 + 9_000);
            slot.finish(1, Some(60), u64::MAX / 4 + 9_500);
            slot.consume(u64::MAX / 4 + 9_600);
            if role == Role::Recv {
                recorder.set_connection(key, 7);
                recorder.set_operation(key, OperationKind::Read, 17);
            }
        }
        std::fs::read(recorder.path()).unwrap()
    }

    fn with(bytes: &[u8], at: usize, value: &[u8]) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        changed[at..at + value.len()].copy_from_slice(value);
        changed
    }

    #[test]
    fn what_was_written_is_read() {
        let snapshot = picture(&valid()).unwrap();
        assert_eq!(
            (snapshot.header.role.as_str(), snapshot.channels.len()),
            ("send worker", 2)
        );
        assert!(snapshot.settled && !snapshot.truncated);
        let [send, recv] = &snapshot.channels[..] else {
            panic!()
        };
        assert_eq!(
            (
                send.posted,
                send.done,
                send.in_flight(),
                send.in_flight_high_water
            ),
            (5, 2, 3, 5)
        );
        assert_eq!(
            (recv.posted, recv.done, recv.consumed, recv.in_flight()),
            (5, 2, 1, 4)
        );
        assert_eq!(
            (recv.bytes_posted, recv.bytes_done, recv.unpacked),
            (500, 160, None)
        );
        // One consumed, two done: the head is request 1, the oldest unfinished is request 2.
        assert_eq!(recv.head_posted_ns, Some(u64::MAX / 4 + 2_000));
        assert_eq!(recv.not_done_posted_ns, Some(u64::MAX / 4 + 3_000));
        assert_eq!(recv.latency.count(), 2);
        assert_eq!(recv.latency.max_ns(), Some(8_000));
        assert!(!recv.torn && makes_sense(recv));
        assert_eq!((send.connection, send.operation), (None, None));
        let operation = Some((OperationKind::Read, 17));
        assert_eq!((recv.connection, recv.operation), (Some(7), operation));
    }

    #[test]
    fn foreign_text_carries_no_escape_sequences() {
        assert_eq!(
            picture(&valid()).unwrap().header.plugin,
            "a\u{FFFD}[31mplugin"
        );
    }

    #[test]
    fn other_files_and_other_versions_are_distinguished() {
        let bytes = valid();
        assert!(matches!(picture(b""), Err(ReadError::Unfinished)));
        assert!(matches!(
            picture(&bytes[..4095]),
            Err(ReadError::Unfinished)
        ));
        assert!(matches!(
            picture(&with(&bytes, 0, &[0; 8])),
            Err(ReadError::Unfinished)
        ));
        assert!(matches!(
            picture(b"# a text file, not a recorder"),
            Err(ReadError::NotARecorder)
        ));
        assert!(matches!(
            picture(&with(&bytes, 8, &[1, 0, 0, 0])),
            Err(ReadError::OtherVersion(1))
        ));
    }

    #[test]
    fn invalid_header_fields_are_named() {
        let bytes = valid();
        for (field, at, value) in [
            ("header_bytes", header::HEADER_BYTES, 64u32),
            ("channel_slot_bytes", header::CHANNEL_SLOT_BYTES, 64),
            ("channel_slot_bytes", header::CHANNEL_SLOT_BYTES, u32::MAX),
            (
                "channel_slot_bytes",
                header::CHANNEL_SLOT_BYTES,
                SLOT_BYTES as u32 + 1,
            ),
            ("channel_capacity", header::CHANNEL_CAPACITY, 0),
            ("channel_capacity", header::CHANNEL_CAPACITY, u32::MAX),
            ("channels_offset", header::CHANNELS_OFFSET, 8),
            ("channels_offset", header::CHANNELS_OFFSET + 4, u32::MAX),
            ("ring_events", header::RING_EVENTS, 3),
            ("ring_events", header::RING_EVENTS, 1 << 31),
            ("rings_offset", header::RINGS_OFFSET, 0),
            ("log_entries", header::LOG_ENTRIES, u32::MAX),
            ("log_entry_bytes", header::LOG_ENTRY_BYTES, 0),
        ] {
            match picture(&with(&bytes, at, &value.to_le_bytes())) {
                Err(ReadError::Damaged(named, _)) => assert_eq!(named, field),
                other => panic!("{field} {value}: {other:?}"),
            }
        }
    }

    #[test]
    fn channels_beyond_the_end_of_the_file_are_truncated() {
        let bytes = with(&valid(), header::CHANNEL_COUNT, &u64::MAX.to_le_bytes());
        let whole = picture(&bytes).unwrap();
        assert_eq!(
            (
                whole.header.channel_count,
                whole.channels.len(),
                whole.truncated
            ),
            (3, 2, false)
        );
        let cut = picture(&bytes[..HEADER_BYTES + SLOT_BYTES + 100]).unwrap();
        assert_eq!((cut.channels.len(), cut.truncated), (1, true));
    }

    #[test]
    fn a_file_without_its_last_events_is_truncated_and_one_without_its_empty_end_is_not() {
        let bytes = valid();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        assert!(!picture(&bytes[..used]).unwrap().truncated);
        let slots = HEADER_BYTES + 3 * SLOT_BYTES;
        for size in [slots, slots + EVENT_BYTES, used - EVENT_BYTES] {
            let cut = picture(&bytes[..size]).unwrap();
            assert_eq!((cut.channels.len(), cut.truncated), (2, true), "{size}");
        }
    }

    #[test]
    fn inconsistent_counters_are_clamped_and_marked_torn() {
        let at = HEADER_BYTES + channel::CONSUMED;
        let sample = &picture(&with(&valid(), at, &u64::MAX.to_le_bytes()))
            .unwrap()
            .channels[0];
        assert!(sample.torn && makes_sense(sample));
        assert_eq!(sample.consumed, 2);
    }

    #[test]
    fn longer_slots_of_a_later_writer_are_read() {
        let bytes = valid();
        let mut longer = with(
            &bytes,
            header::CHANNEL_SLOT_BYTES,
            &(SLOT_BYTES as u32 + 64).to_le_bytes(),
        );
        longer.truncate(HEADER_BYTES);
        for slot in bytes[HEADER_BYTES..].chunks(SLOT_BYTES) {
            longer.extend_from_slice(slot);
            longer.extend_from_slice(&[0xee; 64]);
        }
        let snapshot = picture(&longer).unwrap();
        assert_eq!(
            snapshot
                .channels
                .iter()
                .map(|sample| sample.posted)
                .collect::<Vec<_>>(),
            [5, 5]
        );
    }

    proptest! {
        #[test]
        fn random_bytes_are_handled(tail in prop::collection::vec(any::<u8>(), 0..6000), ours in any::<bool>()) {
            let mut bytes = if ours { MAGIC.to_vec() } else { vec![] };
            bytes.extend(tail);
            crate::fuzzing::file(&bytes);
        }

        #[test]
        fn damage_anywhere_is_handled_and_samples_are_valid(
            places in prop::collection::vec((0usize..16 * 1024, any::<[u8; 8]>()), 1..20),
            keep in 0usize..=24 * 1024,
        ) {
            thread_local!(static VALID: Vec<u8> = valid());
            let mut bytes = VALID.with(Clone::clone);
            for (at, value) in places {
                bytes[at..at + 8].copy_from_slice(&value);
            }
            bytes.truncate(keep);
            crate::fuzzing::file(&bytes);
        }

        #[test]
        fn a_file_that_shrinks_meanwhile_is_handled(step in 0usize..9000) {
            thread_local!(static VALID: Vec<u8> = valid());
            VALID.with(|bytes| {
                let source = Shrinking(bytes, Cell::new(bytes.len()), step);
                let _ = take(&source, &mut Vec::new());
            });
        }
    }
}
