//! The file format, byte by byte, and the types that writer and readers share.
//!
//! Every number is little-endian and aligned to its size. Times are nanoseconds of
//! `CLOCK_MONOTONIC` unless marked as wall clock. Reserved bytes are zero.
//!
//! ```text
//! 0         header, 4096 bytes
//! channels  channel_capacity slots of channel_slot_bytes each
//! rings     ring_count rings of ring_events events of 32 bytes each; the last is the setup ring
//! log       log_entries lines of log_entry_bytes each
//! ```
//!
//! The file is sparse: a ring takes memory once its slot is used by a send or receive comm, a
//! log line once it is written. If ring_events is 0 there are no rings, if log_entries is 0
//! there is no log.
//!
//! A reader must use the section offsets and the slot size of the header, not its own
//! constants: a later writer of the same version may append fields to the header and to the
//! slot, and sections to the file. The version changes only if an existing field moves or
//! changes its meaning.
//!
//! # Header
//!
//! Constant once `magic` is set, which is written last:
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 8 | magic, `TCPXREC` and a zero |
//! | 8 | 4 | version, 2 |
//! | 12 | 4 | header_bytes, 4096 |
//! | 16 | 4 | pid of the writer, in its own pid namespace |
//! | 20 | 4 | flags: bit 0 keep (a sweep leaves the file alone) |
//! | 24 | 8 | start_ticks, field 22 of the writer's `/proc/self/stat` |
//! | 32 | 8 | boot_id_hash, FNV-1a 64 of the text of the kernel's boot id |
//! | 40 | 8 | created, wall clock |
//! | 48 | 8 | created |
//! | 56 | 8 | file_bytes |
//! | 64 | 8 | channels_offset |
//! | 72 | 4 | channel_slot_bytes |
//! | 76 | 4 | channel_capacity, slots in the section |
//! | 80 | 8 | rings_offset |
//! | 88 | 4 | ring_events, events of a ring: a power of two, or 0 |
//! | 92 | 4 | ring_count, channel_capacity + 1 |
//! | 96 | 8 | pid_namespace, inode of `/proc/self/ns/pid`, 0 where unknown |
//! | 104 | 8 | log_offset |
//! | 112 | 4 | log_entry_bytes, 512 |
//! | 116 | 4 | log_entries |
//! | 120 | 4 | log_kept, the first lines, which are never overwritten |
//! | 124 | 4 | reserved |
//!
//! May change at any time:
//!
//! | at | width | field |
//! |---|---|---|
//! | 128 | 64 | role label, UTF-8, zero-padded |
//! | 192 | 256 | plugin label, UTF-8, zero-padded |
//! | 512 | 8 | channel_count, slots claimed so far; at most the capacity |
//! | 520 | 8 | channels_reused, times a closed slot was given to another comm |
//! | 528 | 8 | channels_refused, comms that got no slot |
//! | 536 | 8 | setup_at_ns, when a call that belongs to no channel was last entered or returned; 0 in files of older writers |
//! | 544 | 8 | requests_unknown, calls of `test` for a request that no open channel has pending |
//! | 552 | 8 | requests_untracked, posts that could not be tracked; in no channel's counters |
//! | 560 | 8 | setup_calls_entered, calls that belong to no channel (`init`, `connect`, ...) |
//! | 568 | 8 | setup_calls_left |
//! | 576 | 8 | setup_call, the one entered last, [`Call`] |
//! | 584 | 8 | setup_errors, set-up calls that did not return 0 |
//! | 592 | 8 | setup_last_error: code in the low half, [`Call`] in the high half |
//! | 600 | 8 | setup_events, events written to the setup ring so far |
//! | 608 | 8 | log_lines, lines written to the log so far |
//! | 616 | 8 | ended, when the writer ended; 0 unless its parent wrote it afterwards |
//! | 624 | 8 | ended_how: in bits 32..34 0 unknown, 1 exited, 2 killed; code or signal in the low half |
//! | 632 | 8 | seen, when its parent last saw the writer running; 0 if it does not look |
//! | 640 | 8 | connect_state: in bits 0..2 0 free, 1 the fields below are of a `connect` that has given no comm yet, 2 they are being written; in 2..8 threads inside; in 8..40 calls so far; in 40..64 its number |
//! | 648 | 8 | connect_since, when it was called first |
//! | 656 | 8 | connect_last, when it was last entered or returned |
//! | 672 | 32 | connect_peer, the address of its listener |
//! | 704 | 8 | rings_refused, comms that got a slot and no memory for their ring; 0 in files of older writers |
//! | 1024 | 2048 | devices, 32 entries of 64 bytes: device n at 1024 + 64 n, zero while unknown |
//!
//! A device holds the properties from `getProperties`:
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 32 | name, UTF-8, zero-padded |
//! | 32 | 16 | the last part of pciPath, UTF-8, zero-padded |
//! | 48 | 4 | speed, Mbit/s |
//! | 52 | 4 | ptrSupport |
//! | 56 | 4 | netDeviceType |
//! | 60 | 4 | 1 |
//!
//! # Channel slot
//!
//! 3392 bytes: an odd number of cache lines, so that the hot first lines of many channels do
//! not map to the same few cache sets. Written by one thread at a time, the one that drives
//! the comm.
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 8 | life: state in bits 0..2 (0 free, 1 open, 2 closed, 3 being rewritten), bit 2 a receive retires when consumed (else when done), generation from bit 8 |
//! | 8 | 8 | in_call: [`Call`] in bits 0..8, from bit 8 a sequence that is odd while inside |
//! | 16 | 8 | tests; on a listen comm, accepts |
//! | 24 | 8 | tests_not_done |
//! | 32 | 8 | pending: bit n mod 64 is set while request n, counting from 0, is posted and not done |
//! | 40 | 8 | consumed |
//! | 48 | 8 | done |
//! | 56 | 8 | posted |
//! | 64 | 8 | unpacked, meaningful when flags bit 0 is set |
//! | 72 | 8 | in_flight_high_water |
//! | 80 | 8 | bytes_done |
//! | 88 | 8 | bytes_posted |
//! | 96 | 8 | last_change, time of the last open, post, done, unpack, consume or close; errors do not count |
//! | 104 | 8 | events, number of events written to the slot's ring over all its lives |
//! | 112 | 8 | latency_max |
//! | 120 | 8 | flags: bit 0 unpacked is valid |
//! | 128 | 8 | comm, the plugin's pointer |
//! | 136 | 4 | device, -1 where unknown |
//! | 140 | 4 | role, [`Role`] |
//! | 144 | 4 | channel, the engine's number for it, `u32::MAX` where none |
//! | 148 | 4 | thread of the last noted polls, before any of the first change: its kernel id in bits 0..24, a tag of it in 24..32; 0 unknown |
//! | 152 | 8 | opened |
//! | 160 | 8 | closed, 0 while open |
//! | 168 | 8 | null_requests, posts that returned 0 and null: "call again" |
//! | 176 | 8 | flushes, requests made by `iflush` |
//! | 184 | 8 | first_event, value of events when this life began |
//! | 192 | 80 | errors, ten counts: return codes 0 to 8 by index (0 is never counted), all others in the last |
//! | 272 | 8 | last_error: code in the low half, [`Call`] in the high half |
//! | 280 | 8 | last_error_at |
//! | 288 | 8 | polls_from: the first note of a stretch of polls, see below |
//! | 296 | 8 | polls_from_tests, value of tests at that time |
//! | 304 | 8 | polls_until: the last note, 0 while there is none |
//! | 312 | 8 | polls_until_tests, value of tests at that time |
//! | 320 | 512 | post_ns, 64 times: entry n mod 64 is when request n was posted |
//! | 832 | 512 | post_bytes, 64 sizes: entry n mod 64 is the bytes of request n |
//! | 1344 | 1936 | latency, 242 buckets: counts of posted-to-done times, see `bucket_of` |
//! | 3280 | 32 | local, an address of this end of the comm's connections |
//! | 3312 | 32 | peer, an address of the other end |
//! | 3344 | 32 | ctrl, the address that the ctrl connection connects to; on a send comm the peer's, else the local one |
//! | 3376 | 8 | connection of an endpoint that the comm is part of, 0 where none |
//! | 3384 | 8 | operation whose message was posted last: number from bit 8, [`OperationKind`] below, 0 where none |
//!
//! Addresses are known if the plugin's connect handle begins with a socket address, as with
//! TCPX, its stand-in and NCCL's socket transport. It is the listener's address, so its port
//! identifies one comm.
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 2 | family: 0 unknown, 4, 6 |
//! | 2 | 2 | port |
//! | 4 | 4 | IPv6 scope |
//! | 8 | 16 | address in network order; IPv4 in the first four bytes |
//! | 24 | 8 | reserved |
//!
//! Of tests that are not done only every 256th reads the clock and is noted. A stretch of polls
//! begins with the first note after a change, so a file whose writer is gone tells how often a
//! channel was tested while it stood still.
//!
//! `life` is the first field and is written last when a slot is opened, so a copy made in
//! ascending order that shows an open slot also shows its identity. For the same reason the
//! counters are in the order consumed, done, posted: such a copy never shows more done than
//! posted.
//!
//! # Ring
//!
//! Event n of a ring, counting from 0, is entry n mod ring_events. If `events` is e, the ring
//! holds events e - ring_events + 1 to e - 1. The entry of event e may be half-written at any
//! time, also because the writer was killed. A slot's ring has one writer, the slot's, which
//! writes an event first and then counts it. A reader that reads `events`, then the ring, then
//! `events` again may use the events that both counts allow. The setup ring has many writers,
//! which count first and then write, so only the sequence number tells which event an entry
//! holds.
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 8 | sequence, n + 1; in a slot's ring an additional check |
//! | 8 | 8 | time; for a call, when it returned |
//! | 16 | 4 | request number, lowest 32 bits; for an unpack or consume, how many there were before |
//! | 20 | 4 | code that the call returned |
//! | 24 | 8 | value in bits 0..40, [`EventKind`] in 40..48, [`Call`] in 48..56, in 56..64 a tag of the thread |
//!
//! The value is bytes or, for [`EventKind::Called`], the call's duration in nanoseconds; larger
//! values are clamped. The thread tag distinguishes threads as far as eight bits can.
//!
//! # Log
//!
//! Line n is entry n if n < log_kept, otherwise entry
//! log_kept + (n - log_kept) mod (log_entries - log_kept). So the first lines, with the
//! plugin's settings, are kept, and the last ones. Many writers, as with the setup ring.
//!
//! | at | width | field |
//! |---|---|---|
//! | 0 | 8 | sequence, n + 1 |
//! | 8 | 8 | time |
//! | 16 | 8 | flags of the plugin's log call |
//! | 24 | 4 | level |
//! | 28 | 4 | line number |
//! | 32 | 4 | thread id |
//! | 36 | 2 | bytes of the function name that are stored |
//! | 38 | 2 | bytes of the text that are stored, after the function name |
//! | 40 | 4 | bytes of the whole text |
//! | 44 | 4 | reserved |
//! | 48 | 464 | function, then text |
#![forbid(unsafe_code)]

/// First eight bytes of every file.
pub const MAGIC: [u8; 8] = *b"TCPXREC\0";
/// The format version described here.
pub const VERSION: u32 = 2;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a channel slot as this version writes it.
pub const SLOT_BYTES: usize = 3392;
/// Most channel slots of one file.
pub const CAPACITY_MAX: u32 = 16_384;
/// Requests of one channel that can be pending at once; TCPX allows 16, NCCL
/// asks for at most 32.
pub const POSTS: usize = 64;
/// Tests of a channel that are not done, of which one is noted with its time.
pub const TESTS_PER_NOTE: u64 = 256;
/// Bytes of an event.
pub(crate) const EVENT_BYTES: usize = 32;
/// Most events of one ring.
pub const RING_EVENTS_MAX: u32 = 1 << 20;
/// Default number of events of one ring: 32 KiB per channel.
pub const RING_EVENTS: u32 = 1024;
/// Bytes of a log line.
pub const LOG_ENTRY_BYTES: usize = 512;
/// Default number of log lines: 512 KiB.
pub const LOG_ENTRIES: u32 = 1024;
/// Log lines at the start that are never overwritten.
pub(crate) const LOG_KEPT: u32 = 256;
/// Most lines of the log.
pub const LOG_ENTRIES_MAX: u32 = 1 << 16;
/// Most devices in the header; TCPX has at most 16.
pub const DEVICES: usize = 32;
/// Number of return code counts.
pub(crate) const ERROR_KINDS: usize = 10;
/// Value of `channel` if no engine numbered the slot.
pub(crate) const NO_CHANNEL: u32 = u32::MAX;
/// Bits of a slot's `thread` that hold the id: Linux gives out none above 2^22.
pub(crate) const THREAD_ID_BITS: u32 = 24;
/// Bytes of the header about a `connect` that has given no comm.
pub(crate) const CONNECT_BYTES: usize = 64;
/// Suffix of recorder file names, `NAME-PID-START.tcpxrec`.
pub const FILE_SUFFIX: &str = ".tcpxrec";

/// Byte offsets in the header.
#[allow(missing_docs, reason = "the tables above describe each")]
pub mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const HEADER_BYTES: usize = 12;
    pub const PID: usize = 16;
    pub(crate) const FLAGS: usize = 20;
    pub(crate) const START_TICKS: usize = 24;
    pub(crate) const BOOT_ID_HASH: usize = 32;
    pub(crate) const CREATED_WALL_NS: usize = 40;
    pub(crate) const CREATED_NS: usize = 48;
    pub(crate) const FILE_BYTES: usize = 56;
    pub const CHANNELS_OFFSET: usize = 64;
    pub const CHANNEL_SLOT_BYTES: usize = 72;
    pub const CHANNEL_CAPACITY: usize = 76;
    pub(crate) const RINGS_OFFSET: usize = 80;
    pub const RING_EVENTS: usize = 88;
    pub(crate) const RING_COUNT: usize = 92;
    pub(crate) const PID_NAMESPACE: usize = 96;
    pub const LOG_OFFSET: usize = 104;
    pub const LOG_ENTRY_BYTES: usize = 112;
    pub const LOG_ENTRIES: usize = 116;
    pub(crate) const LOG_KEPT: usize = 120;
    pub const ROLE_LABEL: usize = 128;
    pub const PLUGIN_LABEL: usize = 192;
    pub(crate) const CHANNEL_COUNT: usize = 512;
    pub(crate) const CHANNELS_REUSED: usize = 520;
    pub(crate) const CHANNELS_REFUSED: usize = 528;
    pub(crate) const SETUP_AT_NS: usize = 536;
    pub(crate) const REQUESTS_UNKNOWN: usize = 544;
    pub(crate) const REQUESTS_UNTRACKED: usize = 552;
    pub(crate) const SETUP_CALLS_ENTERED: usize = 560;
    pub(crate) const SETUP_CALLS_LEFT: usize = 568;
    pub(crate) const SETUP_CALL: usize = 576;
    pub(crate) const SETUP_ERRORS: usize = 584;
    pub(crate) const SETUP_LAST_ERROR: usize = 592;
    pub(crate) const SETUP_EVENTS: usize = 600;
    pub(crate) const LOG_LINES: usize = 608;
    pub(crate) const ENDED_NS: usize = 616;
    pub(crate) const ENDED_HOW: usize = 624;
    pub(crate) const SEEN_NS: usize = 632;
    pub(crate) const CONNECT_STATE: usize = 640;
    pub(crate) const CONNECT_SINCE: usize = 648;
    pub(crate) const CONNECT_LAST: usize = 656;
    pub(crate) const CONNECT_PEER: usize = 672;
    pub(crate) const RINGS_REFUSED: usize = 704;
    pub const DEVICES: usize = 1024;

    /// Bytes of the role label.
    pub const ROLE_LABEL_BYTES: usize = 64;
    /// Bytes of the plugin label.
    pub const PLUGIN_LABEL_BYTES: usize = 256;
    /// Bit of FLAGS: a sweep leaves the file alone.
    pub const KEEP: u32 = 1;
}

/// Byte offsets in a device.
#[allow(missing_docs, reason = "the tables above describe each")]
pub mod device {
    pub const NAME: usize = 0;
    pub const PCI: usize = 32;
    pub(crate) const SPEED: usize = 48;
    pub(crate) const PTR_SUPPORT: usize = 52;
    pub const TYPE: usize = 56;
    pub const KNOWN: usize = 60;

    /// Bytes of one device.
    pub const BYTES: usize = 64;
    /// Bytes of the name.
    pub const NAME_BYTES: usize = 32;
    /// Bytes of the PCI address.
    pub(crate) const PCI_BYTES: usize = 16;
}

/// Byte offsets in an event.
#[allow(missing_docs, reason = "the tables above describe each")]
pub mod event {
    pub(crate) const SEQUENCE: usize = 0;
    pub(crate) const AT_NS: usize = 8;
    pub(crate) const REQUEST: usize = 16;
    pub const CODE: usize = 20;
    pub const REST: usize = 24;

    /// Largest value of an event.
    pub(crate) const VALUE_MAX: u64 = (1 << 40) - 1;
}

/// Byte offsets in a line of the log.
#[allow(missing_docs, reason = "the tables above describe each")]
pub mod log {
    pub(crate) const SEQUENCE: usize = 0;
    pub(crate) const AT_NS: usize = 8;
    pub(crate) const FLAGS: usize = 16;
    pub(crate) const LEVEL: usize = 24;
    pub const LINE: usize = 28;
    pub(crate) const THREAD: usize = 32;
    pub const FUNCTION_BYTES: usize = 36;
    pub const TEXT_BYTES: usize = 38;
    pub(crate) const TEXT_WAS: usize = 40;
    pub const WORDS: usize = 48;
}

/// Byte offsets in a channel slot.
#[allow(missing_docs, reason = "the tables above describe each")]
pub mod channel {
    pub(crate) const LIFE: usize = 0;
    pub(crate) const IN_CALL: usize = 8;
    pub(crate) const TESTS: usize = 16;
    pub(crate) const TESTS_NOT_DONE: usize = 24;
    pub const PENDING: usize = 32;
    pub(crate) const CONSUMED: usize = 40;
    pub(crate) const DONE: usize = 48;
    pub const POSTED: usize = 56;
    pub(crate) const UNPACKED: usize = 64;
    pub(crate) const IN_FLIGHT_HIGH_WATER: usize = 72;
    pub(crate) const BYTES_DONE: usize = 80;
    pub(crate) const BYTES_POSTED: usize = 88;
    pub(crate) const LAST_CHANGE_NS: usize = 96;
    pub const EVENTS: usize = 104;
    pub(crate) const LATENCY_MAX_NS: usize = 112;
    pub(crate) const FLAGS: usize = 120;
    pub(crate) const COMM: usize = 128;
    pub const DEVICE: usize = 136;
    pub const ROLE: usize = 140;
    pub(crate) const CHANNEL: usize = 144;
    pub(crate) const THREAD: usize = 148;
    pub(crate) const OPENED_NS: usize = 152;
    pub(crate) const CLOSED_NS: usize = 160;
    pub(crate) const NULL_REQUESTS: usize = 168;
    pub const FLUSHES: usize = 176;
    pub(crate) const FIRST_EVENT: usize = 184;
    pub(crate) const ERRORS: usize = 192;
    pub(crate) const LAST_ERROR: usize = 272;
    pub(crate) const LAST_ERROR_NS: usize = 280;
    pub(crate) const POLLS_FROM_NS: usize = 288;
    pub(crate) const POLLS_FROM_TESTS: usize = 296;
    pub(crate) const POLLS_UNTIL_NS: usize = 304;
    pub(crate) const POLLS_UNTIL_TESTS: usize = 312;
    pub(crate) const POST_NS: usize = 320;
    pub(crate) const POST_BYTES: usize = 832;
    pub(crate) const LATENCY: usize = 1344;
    pub const LOCAL: usize = 3280;
    pub const PEER: usize = 3312;
    pub const CTRL: usize = 3344;
    pub(crate) const CONNECTION: usize = 3376;
    pub(crate) const OPERATION: usize = 3384;

    /// Bytes of an address.
    pub const ADDRESS_BYTES: usize = 32;
}

/// Bits of `life`.
pub mod life {
    /// Mask of the state.
    pub const STATE: u64 = 0b11;
    /// The comm is open.
    pub const OPEN: u64 = 1;
    /// The comm was closed. Its counters are kept until the slot is reused.
    pub const CLOSED: u64 = 2;
    /// The slot is being cleared for another comm.
    pub(crate) const REWRITTEN: u64 = 3;
    /// A receive of this channel retires when consumed, not when done.
    pub(crate) const RETIRES_CONSUMED: u64 = 0b100;
    /// Lowest bit of the generation.
    pub(crate) const GENERATION_SHIFT: u32 = 8;
}

/// Bit of a slot's flags: `unpacked` is valid.
pub(crate) const UNPACKED_KNOWN: u64 = 1;

/// What a channel's comm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Role {
    /// A listen comm; its slot counts `accept`.
    Listen = 1,
    /// A send comm.
    Send = 2,
    /// A receive comm.
    Recv = 3,
}

impl Role {
    /// The role with this number in the file.
    pub fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            1 => Some(Self::Listen),
            2 => Some(Self::Send),
            3 => Some(Self::Recv),
            _ => None,
        }
    }
}

/// What the messages of an endpoint's operation carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// What this end reads.
    Read = 1,
    /// What this end writes or sends.
    Sent = 2,
    /// What the peer reads.
    PeerRead = 3,
    /// What the peer writes or sends.
    PeerSent = 4,
}

impl OperationKind {
    /// The kind with this number in the file.
    pub fn from_raw(raw: u64) -> Option<Self> {
        [Self::Read, Self::Sent, Self::PeerRead, Self::PeerSent]
            .into_iter()
            .find(|kind| *kind as u64 == raw)
    }
}

macro_rules! calls {
    ($($number:literal $variant:ident $name:literal,)*) => {
        /// The calls of a net table, numbered for the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`")] $variant = $number,)*
        }

        impl Call {
            /// The call with this number in the file.
            pub fn from_raw(raw: u64) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in NCCL's header.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

calls! {
    1 Init "init",
    2 Devices "devices",
    3 GetProperties "getProperties",
    4 Listen "listen",
    5 Connect "connect",
    6 Accept "accept",
    7 RegMr "regMr",
    8 RegMrDmaBuf "regMrDmaBuf",
    9 DeregMr "deregMr",
    10 Isend "isend",
    11 Irecv "irecv",
    12 Iflush "iflush",
    13 Test "test",
    14 CloseSend "closeSend",
    15 CloseRecv "closeRecv",
    16 CloseListen "closeListen",
    17 GetDeviceMr "getDeviceMr",
    18 IrecvConsumed "irecvConsumed",
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// The comm was opened; the value is its slot's generation.
    Opened = 1,
    /// A send or receive was accepted.
    Posted = 2,
    /// `test` reported a request done; the value is its bytes.
    Done = 3,
    /// The engine unpacked a finished receive.
    Unpacked = 4,
    /// A finished receive was consumed.
    Consumed = 5,
    /// `iflush` returned a request.
    Flushed = 6,
    /// A call did not return 0. Immediate repetitions of the same failure are counted in the
    /// slot and not recorded as events.
    Failed = 7,
    /// A call that changes no request returned 0; the value is its duration in nanoseconds.
    Called = 8,
    /// The comm was closed.
    Closed = 9,
}

impl EventKind {
    /// The kind with this number in the file.
    pub fn from_raw(raw: u64) -> Option<Self> {
        [
            Self::Opened,
            Self::Posted,
            Self::Done,
            Self::Unpacked,
            Self::Consumed,
            Self::Flushed,
            Self::Failed,
            Self::Called,
            Self::Closed,
        ]
        .into_iter()
        .find(|kind| *kind as u64 == raw)
    }

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Posted => "posted",
            Self::Done => "done",
            Self::Unpacked => "unpacked",
            Self::Consumed => "consumed",
            Self::Flushed => "flushed",
            Self::Failed => "failed",
            Self::Called => "called",
            Self::Closed => "closed",
        }
    }
}

/// The entry of line `n` in a log; `None` if the log has no entries.
pub(crate) fn log_place(n: u64, entries: u32, kept: u32) -> Option<u64> {
    let (entries, kept) = (u64::from(entries), u64::from(kept.min(entries)));
    if n < kept {
        return Some(n);
    }
    let rest = entries - kept;
    (rest > 0).then(|| kept + (n - kept) % rest)
}

/// The index of a return code's count.
pub(crate) fn error_kind(code: i32) -> usize {
    match code {
        0..=8 => code as usize,
        _ => ERROR_KINDS - 1,
    }
}

/// Buckets of the latency histogram.
pub const BUCKETS: usize = 2 + (OCTAVE_END - OCTAVE_FIRST) as usize * SUB_BUCKETS;
const SUB_BUCKETS: usize = 8;
/// 2^6 = 64 ns: shorter times share the first bucket.
const OCTAVE_FIRST: u32 = 6;
/// 2^36 ns = 68.7 s: times from here on share the last bucket.
const OCTAVE_END: u32 = 36;

/// The bucket of a time in nanoseconds: the first holds 0..64, the last holds
/// 2^36 and more, and between them every power of two is cut into eight equal
/// buckets.
#[inline]
pub(crate) fn bucket_of(ns: u64) -> usize {
    if ns < 1 << OCTAVE_FIRST {
        return 0;
    }
    if ns >= 1 << OCTAVE_END {
        return BUCKETS - 1;
    }
    let octave = 63 - ns.leading_zeros();
    let sub = (ns >> (octave - 3)) as usize & (SUB_BUCKETS - 1);
    1 + (octave - OCTAVE_FIRST) as usize * SUB_BUCKETS + sub
}

/// The range of a bucket in nanoseconds: the first value, and the first value after it. The
/// last bucket has no end.
pub(crate) fn bucket_range(bucket: usize) -> (u64, u64) {
    if bucket == 0 {
        return (0, 1 << OCTAVE_FIRST);
    }
    if bucket >= BUCKETS - 1 {
        return (1 << OCTAVE_END, u64::MAX);
    }
    let octave = OCTAVE_FIRST + ((bucket - 1) / SUB_BUCKETS) as u32;
    let sub = ((bucket - 1) % SUB_BUCKETS) as u64;
    let width = 1u64 << (octave - 3);
    let first = (1u64 << octave) + sub * width;
    (first, first + width)
}

const _: () = assert!(SLOT_BYTES.is_multiple_of(64) && (SLOT_BYTES / 64) % 2 == 1);
const _: () = assert!(channel::LATENCY + BUCKETS * 8 <= channel::LOCAL);
const _: () = assert!(channel::CTRL + channel::ADDRESS_BYTES <= SLOT_BYTES);
const _: () = assert!(header::DEVICES + DEVICES * device::BYTES <= HEADER_BYTES);
const _: () = assert!(RING_EVENTS.is_power_of_two() && RING_EVENTS_MAX.is_power_of_two());
const _: () =
    assert!(CAPACITY_MAX as u64 * RING_EVENTS_MAX as u64 * (EVENT_BYTES as u64) < 1 << 40);
const _: () = assert!(BUCKETS == 242);
const _: () = assert!(CAPACITY_MAX <= u16::MAX as u32);
#[cfg(target_endian = "big")]
compile_error!("the recorder stores native words, and the file is little-endian");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_time_line() {
        assert_eq!(bucket_range(0).0, 0);
        for bucket in 1..BUCKETS {
            assert_eq!(
                bucket_range(bucket - 1).1,
                bucket_range(bucket).0,
                "bucket {bucket}"
            );
        }
        assert_eq!(bucket_range(BUCKETS - 1).1, u64::MAX);
    }

    #[test]
    fn a_time_is_inside_its_bucket() {
        for shift in 0..64 {
            for ns in [
                (1u64 << shift) - 1,
                1 << shift,
                (1u64 << shift) + (1u64 << shift) / 3,
            ] {
                let (first, end) = bucket_range(bucket_of(ns));
                assert!(
                    first <= ns && (ns < end || end == u64::MAX),
                    "{ns} in {first}..{end}"
                );
            }
        }
    }

    #[test]
    fn numbers_of_the_file_convert_back_to_the_same_variants() {
        for raw in 0..=255u64 {
            if let Some(call) = Call::from_raw(raw) {
                assert_eq!(call as u64, raw);
            }
            if let Some(kind) = EventKind::from_raw(raw) {
                assert_eq!(kind as u64, raw);
            }
        }
        assert_eq!(Call::from_raw(13).map(Call::name), Some("test"));
        assert_eq!(Role::from_raw(Role::Recv as u32), Some(Role::Recv));
        assert_eq!(Role::from_raw(0), None);
    }

    #[test]
    fn the_first_lines_are_kept_and_the_others_wrap_around() {
        let places = (0..12).map(|n| log_place(n, 6, 2)).collect::<Vec<_>>();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3].map(Some));
        assert_eq!(
            (log_place(2, 2, 2), log_place(2, 2, 9), log_place(0, 0, 0)),
            (None, None, None)
        );
    }

    #[test]
    fn unknown_return_codes_share_a_count() {
        assert_eq!([-1, 9, i32::MAX].map(error_kind), [9, 9, 9]);
        assert_eq!(
            (0..=8).map(error_kind).collect::<Vec<_>>(),
            (0..=8).collect::<Vec<_>>()
        );
    }
}
