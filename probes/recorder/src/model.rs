//! Tests the writer's protocol with every order of stores that a reader may observe.
//!
//! `slot.rs` and `ring.rs` are compiled here a second time, with atomics that record every
//! store. A short life of a slot is run once; the states that a reader may find are then
//! constructed from the list of stores:
//!
//! * a killed writer leaves any prefix of the stores;
//! * a machine with weak memory ordering shows some later stores before earlier ones, as far
//!   as releases and fences allow;
//! * a reader that copies the file of a running writer, in ascending order as the kernel does,
//!   reads every word later than the one before it.
//!
//! The real reader must produce a valid sample from each of them, and only events that were
//! written completely.
#![expect(unsafe_code, reason = "a slot out of zeroes, and its address")]

use crate::events::{Event, read_events};
use crate::format::{
    Call, EVENT_BYTES, EventKind, HEADER_BYTES, Role, SLOT_BYTES, channel, header,
};
use crate::fuzzing::makes_sense;
use crate::read::{Source, read_header, take};
use crate::{ChannelSample, Options, Recorder, State, address, format, thread};
use ring::{Note, Place};
use slot::{Addresses, Opening, Slot};
use std::cell::{Cell, RefCell};
use std::io;

#[path = "ring.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "compiled a second time, for the parts that the model uses"
)]
mod ring;
#[path = "slot.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "compiled a second time, for the parts that the model uses"
)]
mod slot;

mod atomic {
    //! Single-threaded atomics that record every store in order.

    use super::{LOG, Store};
    use std::cell::Cell;
    pub(crate) use std::sync::atomic::Ordering;

    macro_rules! atomics {
        ($($name:ident $number:ty,)*) => {
            $(#[repr(transparent)]
            #[derive(Debug)]
            pub(crate) struct $name(Cell<$number>);

            impl $name {
                pub(crate) fn load(&self, _: Ordering) -> $number {
                    self.0.get()
                }

                pub(crate) fn store(&self, value: $number, order: Ordering) {
                    self.0.set(value);
                    let released = order == Ordering::Release;
                    let bytes = value.to_le_bytes().to_vec();
                    LOG.with_borrow_mut(|log| log.push(Store { at: self.0.as_ptr().addr(), bytes, released }));
                }
            })*
        };
    }
    atomics! { AtomicU64 u64, AtomicU32 u32, AtomicI32 i32, }

    /// A fence: no later store is visible before all earlier ones.
    pub(crate) fn fence(_: Ordering) {
        LOG.with_borrow_mut(|log| {
            log.push(Store {
                at: 0,
                bytes: Vec::new(),
                released: true,
            })
        });
    }
}

/// One store. `at` is first an address, later a file offset. A store without bytes is a
/// fence.
#[derive(Debug, Clone)]
struct Store {
    at: usize,
    bytes: Vec<u8>,
    released: bool,
}

thread_local!(static LOG: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) });

const RING_EVENTS: usize = 4;

/// A new file, the stores made to it, and the events that were written.
struct Life {
    empty: Vec<u8>,
    stores: Vec<Store>,
    events: Vec<(EventKind, u64, u64)>,
}

/// Runs the life of a receive channel: posts, tests, and every request to its end, then a
/// second life. With `ringed`, also writes the events.
fn play(ringed: bool) -> Life {
    let parent = tempfile::tempdir().expect("a folder");
    let options = Options {
        capacity: 1,
        ring_events: RING_EVENTS as u32,
        log_entries: 0,
        ..Options::new("model")
    };
    let recorder = Recorder::create_in(parent.path(), &options).expect("a recorder");
    let mut empty = std::fs::read(recorder.path()).expect("readable");
    empty[header::CHANNEL_COUNT] = 1;

    // SAFETY: zeroes are valid words of a slot.
    let slot: Box<Slot> = unsafe { Box::new_zeroed().assume_init() };
    // SAFETY: as above.
    let ring: Box<[Place; RING_EVENTS]> = unsafe { Box::new_zeroed().assume_init() };
    let mut events = Vec::new();
    LOG.with_borrow_mut(Vec::clear);
    let mut now_ns = 1_000_000;
    let mut tick = || {
        now_ns += 1_000;
        now_ns
    };
    let mut note = |kind, call, at_ns, request, value| {
        if !ringed {
            return;
        }
        events.push((kind, at_ns, request));
        slot.record(
            &ring[slot.next_event() as usize % RING_EVENTS],
            at_ns,
            &Note::request(kind, call, request, value),
        );
    };
    let opening = Opening {
        role: Role::Recv,
        device: 1,
        comm: 0x77,
        retires_consumed: true,
        addresses: Addresses::default(),
    };
    slot.begin(&opening, 1, tick());
    note(EventKind::Opened, Call::Accept, 0, 0, 1);
    for number in 0..2 {
        let token = slot.enter(Call::Irecv);
        slot.leave(token);
        note(
            EventKind::Posted,
            Call::Irecv,
            slot.post(100, tick()),
            number,
            100,
        );
    }
    for number in 0..2 {
        let token = slot.enter(Call::Test);
        slot.tested();
        slot.leave(token);
        slot.not_done(&mut tick);
        let (at_ns, bytes) = slot.finish(number, None, tick());
        note(EventKind::Done, Call::Test, at_ns, number, bytes);
        let (at_ns, unpacked) = slot.unpack(tick());
        note(EventKind::Unpacked, Call::Test, at_ns, unpacked, 0);
        let (at_ns, consumed) = slot.consume(tick()).expect("one is done");
        note(EventKind::Consumed, Call::IrecvConsumed, at_ns, consumed, 0);
    }
    slot.end(tick(), |at_ns| {
        note(EventKind::Closed, Call::CloseRecv, at_ns, 0, 0)
    });
    let generation = slot.rewrite();
    slot.begin(&opening, generation, tick());
    note(EventKind::Opened, Call::Accept, 0, 0, generation.into());

    let mut stores = LOG.with_borrow_mut(std::mem::take);
    let (slot_at, ring_at) = ((&raw const *slot).addr(), (&raw const *ring).addr());
    let rings_offset = crate::map::Shape {
        capacity: 1,
        ring_events: 4,
        log_entries: 0,
    }
    .rings_offset() as usize;
    for store in stores.iter_mut().filter(|store| !store.bytes.is_empty()) {
        store.at = match store
            .at
            .checked_sub(slot_at)
            .filter(|offset| *offset < SLOT_BYTES)
        {
            Some(offset) => HEADER_BYTES + offset,
            None => rings_offset + (store.at - ring_at),
        };
    }
    Life {
        empty,
        stores,
        events,
    }
}

impl Store {
    fn apply(&self, image: &mut [u8]) {
        image[self.at..self.at + self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

impl Life {
    /// Checks the invariants that hold for every state of the file.
    fn check(&self, source: &impl Source) -> Option<ChannelSample> {
        let mut snapshot = take(source, &mut Vec::new()).expect("a picture");
        assert!(snapshot.channels.len() <= 1);
        let sample = snapshot.channels.pop()?;
        assert!(makes_sense(&sample), "{sample:?}");
        let header = read_header(source).expect("a header");
        let read = read_events(source, &header, &sample, 100, &mut Vec::new()).expect("events");
        assert_eq!(read.damaged, 0, "{read:?}");
        assert!(
            read.events
                .windows(2)
                .all(|pair| pair[0].number + 1 == pair[1].number),
            "{read:?}"
        );
        read.events.iter().for_each(|event| self.check_event(event));
        Some(sample)
    }

    /// As `check`, for a file that does not change while it is read: only effects of weak
    /// ordering may be clamped, and a closed slot must be complete.
    fn check_still(&self, image: &[u8]) -> Option<ChannelSample> {
        let sample = self.check(&image)?;
        let word = |at: usize| {
            u64::from_le_bytes(
                image[HEADER_BYTES + at..][..8]
                    .try_into()
                    .expect("eight bytes"),
            )
        };
        assert_eq!(
            (sample.comm, sample.device, sample.role),
            (0x77, Some(1), Role::Recv)
        );
        assert!(
            word(channel::CONSUMED) <= word(channel::DONE)
                && word(channel::DONE) <= word(channel::POSTED)
        );
        if sample.state == State::Closed {
            assert_eq!(
                (sample.posted, sample.done, sample.consumed, sample.unpacked),
                (2, 2, 2, Some(2))
            );
        }
        Some(sample)
    }

    fn check_event(&self, event: &Event) {
        let (kind, at_ns, request) = self.events[event.number as usize];
        assert_eq!(
            (event.kind, event.at_ns, u64::from(event.request)),
            (kind, at_ns, request)
        );
    }

    /// The number of stores that must be visible if store `last` is.
    fn before(&self, last: usize) -> usize {
        if self.stores[last].released {
            return last;
        }
        self.stores[..last]
            .iter()
            .rposition(|store| store.bytes.is_empty())
            .unwrap_or(0)
    }
}

#[test]
fn a_writer_killed_at_any_store_leaves_a_valid_file() {
    for life in [play(true), play(false)] {
        let mut image = life.empty.clone();
        for store in &life.stores {
            store.apply(&mut image);
            assert!(life.check_still(&image).is_none_or(|sample| !sample.torn));
        }
        assert!(life.stores.len() > 100, "{} stores", life.stores.len());
    }
}

/// How many stores ahead one store, or two stores, may become visible early.
const AHEAD: (usize, usize) = (64, 12);

#[test]
fn stores_in_any_allowed_order_leave_a_valid_file() {
    for life in [play(true), play(false)] {
        let mut image = life.empty.clone();
        for (done, store) in life.stores.iter().enumerate() {
            // One or two of the next stores become visible before this one.
            let next = done + 1..(done + 1 + AHEAD.0).min(life.stores.len());
            let early: Vec<usize> = next.filter(|early| life.before(*early) <= done).collect();
            for (at, first) in early.iter().enumerate() {
                let others = early[at..]
                    .iter()
                    .take_while(|other| **other == *first || **other <= done + AHEAD.1);
                for second in others {
                    let mut shown = image.clone();
                    life.stores[*first].apply(&mut shown);
                    life.stores[*second].apply(&mut shown);
                    life.check_still(&shown);
                }
            }
            store.apply(&mut image);
        }
    }
}

/// A file whose writer continues while it is read, so that every word is read later.
struct Living<'a> {
    life: &'a Life,
    image: RefCell<Vec<u8>>,
    time: Cell<usize>,
    random: RefCell<Random>,
    /// Most stores between reading two words.
    pace: u64,
}

impl Source for Living<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = buffer
            .len()
            .min(self.life.empty.len().saturating_sub(offset as usize));
        for (word, from) in buffer[..length]
            .chunks_mut(8)
            .zip((offset as usize..).step_by(8))
        {
            // Let time pass only for words that change at all.
            if from >= HEADER_BYTES {
                self.wait();
            }
            word.copy_from_slice(&self.image.borrow()[from..from + word.len()]);
        }
        Ok(length)
    }
}

impl Living<'_> {
    fn wait(&self) {
        let mut random = self.random.borrow_mut();
        // Usually no store happens between reading two words.
        let steps = if random.next().is_multiple_of(16) {
            random.next() % (self.pace + 1)
        } else {
            0
        };
        let (from, end) = (
            self.time.get(),
            (self.time.get() + steps as usize).min(self.life.stores.len()),
        );
        self.life.stores[from..end]
            .iter()
            .for_each(|store| store.apply(&mut self.image.borrow_mut()));
        self.time.set(end);
    }
}

#[test]
fn a_copy_of_a_file_that_is_being_written_is_valid() {
    let seed = std::process::id().into();
    println!("seed {seed}");
    let life = play(true);
    let mut random = Random(seed);
    for round in 0..3_000u64 {
        let start = (random.next() % life.stores.len() as u64) as usize;
        let mut image = life.empty.clone();
        life.stores[..start]
            .iter()
            .for_each(|store| store.apply(&mut image));
        let living = Living {
            life: &life,
            image: RefCell::new(image),
            time: Cell::new(start),
            random: RefCell::new(Random(random.next())),
            pace: 1 + round % 30,
        };
        life.check(&living);
    }
}

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

const _: () = assert!(size_of::<Place>() == EVENT_BYTES);
