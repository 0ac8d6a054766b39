//! Runs the unsafe code of the mapping, and the writer beside readers, under Miri:
//!
//! ```console
//! $ MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..16" CARGO_TARGET_DIR=target/miri \
//!       cargo +nightly miri test -p tcpx-recorder --lib miri_model
//! ```
//!
//! Miri finds accesses outside the mapping, wrong alignment, aliasing and data races, and shows
//! relaxed loads old values. It has no mappings of files, so the mapping is memory of the process,
//! which the real reader reads word by word.
#![forbid(unsafe_code)]

use crate::address::Address;
use crate::atomic::{AtomicU64, Ordering::*, fence};
use crate::events::read_events;
use crate::format::{Call, EVENT_BYTES, EventKind, HEADER_BYTES, Role, SLOT_BYTES, header};
use crate::fuzzing::makes_sense;
use crate::in_file::InFile;
use crate::map::{Map, Shape};
use crate::read::{Source, read_header, take};
use crate::ring::Note;
use crate::slot::{Addresses, Opening};
use crate::{ChannelSample, State};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::thread;

/// As in the seed whose header is read.
const SHAPE: Shape = Shape {
    capacity: 2,
    ring_events: 4,
    log_entries: 4,
};
const MESSAGES: u64 = 2;

/// A recorder's file with two slots and their rings. Of its header, only the words change.
struct Memory {
    header: Vec<u8>,
    map: Map,
}

/// The words of the header that change.
const WORDS: Range<usize> = header::CHANNEL_COUNT / 8..header::RINGS_REFUSED / 8 + 1;

impl Memory {
    fn new() -> Self {
        let seed =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/recorder/valid");
        let mut header = std::fs::read(seed).expect("a seed");
        header.truncate(HEADER_BYTES);
        let nothing = File::open("/dev/null").expect("readable");
        let map = Map::new(&nothing, SHAPE).expect("memory");
        let (words, _) = header.as_chunks();
        for (word, bytes) in map.header().iter().zip(words).take(WORDS.end) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        (0..2).for_each(|index| map.show_ring(index));
        Self { header, map }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.map.header()[offset / 8]
    }

    /// The life of a receive comm, twice, as the thread that drives it writes it.
    fn write(&self, index: u16) {
        let slot = self.map.slot(index);
        let opening = Opening {
            role: Role::Recv,
            device: index.into(),
            comm: 0x77,
            retires_consumed: true,
            addresses: Addresses::default(),
        };
        let note = |kind, at_ns, request| {
            let place = self
                .map
                .event(index, slot.next_event())
                .expect("it has a ring");
            slot.record(place, at_ns, &Note::request(kind, Call::Test, request, 100));
        };
        let mut generation = 1;
        for life in 0..2 {
            let at_ns = 1_000 * (life + 1);
            slot.begin(&opening, generation, at_ns);
            for number in 0..MESSAGES {
                note(EventKind::Posted, slot.post(100, at_ns + 1), number);
                let token = slot.enter(Call::Test);
                slot.tested();
                slot.leave(token);
                note(
                    EventKind::Done,
                    slot.finish(number, None, at_ns + 2).0,
                    number,
                );
                slot.unpack(at_ns + 3);
                let (at_ns, consumed) = slot.consume(at_ns + 4).expect("one is done");
                note(EventKind::Consumed, at_ns, consumed);
            }
            slot.end(at_ns + 5, |at_ns| note(EventKind::Closed, at_ns, 0));
            if life == 0 {
                generation = slot.rewrite();
            }
        }
    }

    /// Reads what is there while it is written. Every sample is valid and every event whole.
    fn check(&self) -> Vec<ChannelSample> {
        let snapshot = take(self, &mut Vec::new()).expect("a picture");
        let header = read_header(self).expect("a header");
        for sample in &snapshot.channels {
            assert!(makes_sense(sample), "{sample:?}");
            let read = read_events(self, &header, sample, 100, &mut Vec::new()).expect("events");
            assert_eq!(read.damaged, 0, "{read:?}");
        }
        snapshot.channels
    }
}

impl Source for Memory {
    /// As `pread`: words are read in any state, between two acquire fences.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        fence(Acquire);
        let from = offset as usize;
        buffer.fill(0);
        if from < HEADER_BYTES {
            let length = buffer.len().min(HEADER_BYTES - from);
            buffer[..length].copy_from_slice(&self.header[from..from + length]);
            for at in WORDS {
                self.map.header()[at].copy(at * 8, from, buffer);
            }
        }
        let end = from + buffer.len();
        let is_read = |at: usize, bytes: usize| at + bytes > from && at < end;
        for index in 0..2 {
            let slot_at = HEADER_BYTES + usize::from(index) * SLOT_BYTES;
            if is_read(slot_at, SLOT_BYTES) {
                self.map.slot(index).copy(slot_at, from, buffer);
            }
            for number in 0..u64::from(SHAPE.ring_events) {
                let at = SHAPE.ring_offset(index.into()) as usize + number as usize * EVENT_BYTES;
                if is_read(at, EVENT_BYTES) {
                    let place = self.map.event(index, number).expect("it has a ring");
                    place.copy(at, from, buffer);
                }
            }
        }
        fence(Acquire);
        Ok(buffer.len())
    }
}

#[test]
fn two_comms_are_written_by_two_threads_while_a_third_reads() {
    let memory = Memory::new();
    thread::scope(|scope| {
        (0..2).for_each(|index| {
            drop(scope.spawn({
                let memory = &memory;
                move || memory.write(index)
            }))
        });
        (0..2).for_each(|_| drop(memory.check()));
    });
    let ended = memory.check();
    assert_eq!(ended.len(), 2);
    for sample in ended {
        assert_eq!(sample.state, State::Closed, "{sample:?}");
        assert_eq!(
            (sample.posted, sample.done, sample.consumed),
            (MESSAGES, MESSAGES, MESSAGES)
        );
    }
}

const CONNECTS: u16 = 6;

fn listener(number: u16) -> Option<Address> {
    Some(Address {
        ip: Ipv4Addr::new(10, 0, 0, number as u8).into(),
        port: number,
        scope: 0,
    })
}

/// Connects to one listener after the other, each called twice, at times by which it is known.
fn connect(memory: &Memory, listeners: impl Iterator<Item = u16>) {
    let place = memory.map.connecting();
    for number in listeners {
        let at_ns = u64::from(number) * 1_000;
        for is_over in [false, true] {
            if let Some(held) = place.enter(listener(number), at_ns) {
                place.leave(held, is_over, at_ns + 1);
            }
        }
    }
}

#[test]
fn words_of_the_header_are_written_by_several_threads_while_another_reads() {
    let memory = Memory::new();
    thread::scope(|scope| {
        let memory = &memory;
        scope.spawn(move || connect(memory, (1..CONNECTS).step_by(2)));
        scope.spawn(move || connect(memory, (2..=CONNECTS).step_by(2)));
        scope.spawn(move || {
            for seen_ns in 1..4 {
                memory.word(header::SEEN_NS).store(seen_ns, Relaxed);
                memory.word(header::RINGS_REFUSED).fetch_add(1, Relaxed);
            }
        });
        let mut before = (None, 0);
        for _ in 0..4 {
            let header = read_header(memory).expect("a header");
            if let Some(told) = header.connecting {
                let number = (told.since_ns / 1_000) as u16;
                assert_eq!(told.peer, listener(number), "{told:?}");
                assert!(told.calls > 0 && told.last_ns >= told.since_ns, "{told:?}");
            }
            let now = (header.seen_ns, header.rings_refused);
            assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} {now:?}");
            before = now;
        }
    });
    let header = read_header(&memory).expect("a header");
    assert_eq!(header.connecting, None);
    assert_eq!((header.seen_ns, header.rings_refused), (Some(3), 3));
}
