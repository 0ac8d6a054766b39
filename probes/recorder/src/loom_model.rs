//! Tests the writer's protocol under the memory orders that loom finds, in three minutes:
//!
//! ```console
//! $ RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p tcpx-recorder --lib loom_model -- --nocapture
//! ```
//!
//! `slot.rs` and `ring.rs` are compiled with loom's atomics. One thread writes a slot and its
//! ring as a program does; another one reads them with the real reader. A `pread` loads every word
//! relaxed, which is weaker than what kernels do, between two acquire fences: it is a system call.
//!
//! `model.rs` tries more stores with a weaker model; this one has fewer stores, and the memory model
//! of the language.
#![forbid(unsafe_code)]

use crate::address::Address;
use crate::atomic::{Ordering::*, fence};
use crate::connecting::{self, Held};
use crate::events::read_events;
use crate::format::{Call, EventKind, HEADER_BYTES, Role, SLOT_BYTES, header};
use crate::fuzzing::makes_sense;
use crate::in_file::InFile;
use crate::map::Shape;
use crate::read::{Source, read_header, take};
use crate::ring::{Note, Place};
use crate::slot::{Addresses, Opening, Slot};
use crate::{Options, Recorder};
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

const RING_EVENTS: usize = 2;

/// A recorder's file with one slot. Of its header, only what tells of a `connect` changes.
struct Shared {
    header: Vec<u8>,
    connecting: connecting::Place,
    rings_at: usize,
    slot: Slot,
    ring: [Place; RING_EVENTS],
}

impl Source for Shared {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        fence(Acquire);
        let from = offset as usize;
        buffer.fill(0);
        if from < HEADER_BYTES {
            let length = buffer.len().min(HEADER_BYTES - from);
            buffer[..length].copy_from_slice(&self.header[from..from + length]);
            // Of a whole header only the first word is looked at.
            let looked_at = match from {
                0 => buffer.len().min(header::CONNECT_STATE + 8),
                _ => buffer.len(),
            };
            self.connecting
                .copy(header::CONNECT_STATE, from, &mut buffer[..looked_at]);
        } else if from < HEADER_BYTES + SLOT_BYTES {
            self.slot.copy(HEADER_BYTES, from, buffer);
        } else {
            self.ring.copy(self.rings_at, from, buffer);
        }
        fence(Acquire);
        Ok(buffer.len())
    }
}

/// A header as the recorder writes it. The recorder has loom's atomics, so it needs a model.
fn new_header() -> (Vec<u8>, usize) {
    let shape = Shape {
        capacity: 1,
        ring_events: RING_EVENTS as u32,
        log_entries: 0,
    };
    let made = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let filled = made.clone();
    Builder::new().check(move || {
        let filled = filled.clone();
        with_stack(move || {
            let parent = tempfile::tempdir().expect("a folder");
            let options = Options {
                capacity: shape.capacity,
                ring_events: shape.ring_events,
                log_entries: shape.log_entries,
                ..Options::new("model")
            };
            let recorder = Recorder::create_in(parent.path(), &options).expect("a recorder");
            *filled.lock().expect("whole") = std::fs::read(recorder.path()).expect("readable");
        });
    });
    let mut header = std::mem::take(&mut *made.lock().expect("whole"));
    header.truncate(HEADER_BYTES);
    header[header::CHANNEL_COUNT] = 1;
    (header, shape.rings_offset() as usize)
}

const OPENING: Opening = Opening {
    role: Role::Recv,
    device: 1,
    comm: 0x77,
    retires_consumed: true,
    addresses: Addresses {
        local: None,
        peer: None,
        ctrl: None,
    },
};

/// The kind and the time of event `number` of a life as `write` makes it.
fn expected(number: u64) -> (EventKind, u64) {
    let kinds = [EventKind::Posted, EventKind::Done, EventKind::Consumed];
    (kinds[number as usize % 3], 1_000 + number)
}

fn record(shared: &Shared, number: u64) {
    let (kind, at_ns) = expected(number);
    let place = &shared.ring[number as usize % RING_EVENTS];
    let note = Note::request(kind, Call::Test, number, 100);
    shared.slot.record(place, at_ns, &note);
}

/// A read of a file that is written at the same time is valid.
fn check(shared: &Shared) {
    let snapshot = take(shared, &mut Vec::new()).expect("a picture");
    let header = read_header(shared).expect("a header");
    for sample in snapshot.channels {
        assert!(makes_sense(&sample), "{sample:?}");
        let read = read_events(shared, &header, &sample, 100, &mut Vec::new()).expect("events");
        assert_eq!(read.damaged, 0, "{read:?}");
        for event in read.events {
            assert_eq!(
                (event.kind, event.at_ns),
                expected(event.number),
                "{event:?}"
            );
        }
    }
}

/// Bytes of a thread's stack; loom's own are too small for a slot of its atomics.
const STACK: usize = 1 << 20;

fn spawn(run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let builder = thread::Builder::new().stack_size(STACK);
    builder.spawn(run).expect("a thread")
}

fn with_stack(run: impl FnOnce() + Send + 'static) {
    spawn(run).join().expect("no panic");
}

/// Runs `written` beside a reader in every order with at most two preemptions.
fn explore(name: &str, begun: fn(&Shared), written: fn(&Shared)) {
    explore_all(name, begun, [check], written, check);
}

/// Runs `written` beside `others`, and then `at_end`.
fn explore_all<const N: usize>(
    name: &str,
    begun: fn(&Shared),
    others: [fn(&Shared); N],
    written: fn(&Shared),
    at_end: fn(&Shared),
) {
    let (header, rings_at) = new_header();
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = runs.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 1_000_000;
    builder.max_duration = Some(Duration::from_secs(60));
    // The time is looked at once in as many executions.
    builder.checkpoint_interval = 500;
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let header = header.clone();
        with_stack(move || {
            let shared = Shared {
                header,
                connecting: connecting::Place::empty(),
                rings_at,
                slot: Slot::zeroed(),
                ring: InFile::zeroed(),
            };
            begun(&shared);
            let shared = Arc::new(shared);
            let threads = others.map(|run| {
                let shared = shared.clone();
                spawn(move || run(&shared))
            });
            written(&shared);
            for thread in threads {
                thread.join().expect("no panic");
            }
            at_end(&shared);
        });
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    println!("{name}: {runs} executions");
}

#[test]
fn events_that_are_overwritten_while_they_are_read_are_whole() {
    explore(
        "overwritten",
        |shared| {
            shared.slot.begin(&OPENING, 1, 1_000);
            (0..2).for_each(|number| record(shared, number));
        },
        |shared| (2..4).for_each(|number| record(shared, number)),
    );
}

#[test]
fn counters_that_change_while_they_are_read_make_sense() {
    explore(
        "counters",
        |shared| {
            shared.slot.begin(&OPENING, 1, 1_000);
        },
        |shared| {
            shared.slot.post(100, 1_001);
            shared.slot.finish(0, None, 1_002);
            shared.slot.unpack(1_003);
            shared.slot.consume(1_004);
        },
    );
}

#[test]
fn a_slot_that_is_opened_while_it_is_read_is_absent_or_whole() {
    explore(
        "opened",
        |_| {},
        |shared| shared.slot.begin(&OPENING, 1, 1_000),
    );
}

/// Listeners differ in both words of their addresses.
fn listener(number: u16) -> Option<Address> {
    Some(Address {
        ip: Ipv4Addr::new(10, 0, 0, number as u8).into(),
        port: number,
        scope: 0,
    })
}

/// Until the next listener is called: those before are abandoned by then, unless a thread is inside.
const APART_NS: u64 = 10_000_000_000;

/// When `connect` to a listener is called first.
fn called_ns(number: u16) -> u64 {
    u64::from(number) * APART_NS
}

fn enter(shared: &Shared, number: u16) -> Option<Held> {
    let place = &shared.connecting;
    place.enter(listener(number), called_ns(number))
}

fn leave(shared: &Shared, held: Option<Held>, is_over: bool, now_ns: u64) {
    if let Some(held) = held {
        shared.connecting.leave(held, is_over, now_ns);
    }
}

/// The listener of the `connect` that is told: the one that was called then.
fn told(shared: &Shared) -> Option<u16> {
    let told = read_header(shared).expect("a header").connecting?;
    let number = (told.since_ns / APART_NS) as u16;
    assert_eq!(told.since_ns, called_ns(number), "{told:?}");
    assert_eq!(told.peer, listener(number), "{told:?}");
    assert!(told.calls > 0 && told.last_ns >= told.since_ns, "{told:?}");
    Some(number)
}

#[test]
fn a_connect_that_gives_way_to_another_is_never_told_with_its_listener() {
    explore_all(
        "replaced",
        |_| {},
        [|shared| _ = told(shared)],
        |shared| {
            let first = enter(shared, 1);
            leave(shared, first, true, called_ns(1) + 1);
            assert!(enter(shared, 2).is_some());
        },
        |shared| _ = told(shared),
    );
}

/// Whether the place tells of the one that it holds, if any.
fn is_told(shared: &Shared, number: u16, is_held: bool) {
    if is_held {
        assert_eq!(told(shared), Some(number));
    }
}

#[test]
fn of_two_threads_that_connect_one_is_told_until_it_is_over() {
    explore_all(
        "two threads",
        |_| {},
        [
            |shared| _ = told(shared),
            |shared| {
                let held = enter(shared, 1);
                is_told(shared, 1, held.is_some());
                leave(shared, held, true, called_ns(1) + 1);
                assert_ne!(told(shared), Some(1));
            },
        ],
        |shared| {
            let held = enter(shared, 2);
            let is_held = held.is_some();
            is_told(shared, 2, is_held);
            leave(shared, held, false, called_ns(2) + 1);
            is_told(shared, 2, is_held);
        },
        |shared| _ = told(shared),
    );
}

#[test]
fn a_connect_that_is_called_again_while_another_takes_its_place_is_one_of_both() {
    explore_all(
        "called again",
        |shared| {
            let held = enter(shared, 1);
            leave(shared, held, false, called_ns(1) + 1);
        },
        [|shared| {
            let held = enter(shared, 1);
            leave(shared, held, true, called_ns(1) + 2);
        }],
        |shared| {
            let held = enter(shared, 2);
            is_told(shared, 2, held.is_some());
        },
        |shared| _ = told(shared),
    );
}
