//! A `connect` that has given no comm yet: one call that does not return, or many that return no
//! comm. The header holds one, the first that was called: programs that connect to several listeners
//! in turn are told of the next one when that is done.
//!
//! Any thread may write it. Its first word says which connect the others are of, and whether they
//! are whole. Readers look at that word before and after the others, and try again if it is of
//! another one by then.
#![forbid(unsafe_code)]

use crate::address::{ADDRESS_WORDS, Address};
use crate::atomic::{AtomicU64, Ordering::*, fence};
use crate::format::{CONNECT_BYTES, header};
use crate::read::{Source, read_full};
use crate::words::Words;
use std::io;
#[cfg(not(all(test, loom)))]
use std::mem::{offset_of, size_of};

/// A `connect` that has not been called for so long makes room for another one.
const ABANDONED_NS: u64 = 5_000_000_000;
/// Attempts to read one that is replaced meanwhile.
const ATTEMPTS: usize = 3;

/// What a file tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connecting {
    /// When it was called first, nanoseconds of `CLOCK_MONOTONIC`.
    pub since_ns: u64,
    /// When it was last entered or returned.
    pub last_ns: u64,
    /// How often it was called.
    pub calls: u64,
    /// Its listener, if the connect handle begins with an address.
    pub peer: Option<Address>,
}

impl Connecting {
    /// Reads it from a file whose header, which was read before, is `page`.
    pub(crate) fn read(source: &impl Source, page: Words<'_>) -> io::Result<Option<Self>> {
        let mut before = State(page.u64(header::CONNECT_STATE));
        for _ in 0..ATTEMPTS {
            if before.kind() != TAKEN {
                return Ok(None);
            }
            let (mut part, mut state) = ([0; CONNECT_BYTES], [0; 8]);
            read_full(source, &mut part, header::CONNECT_STATE as u64)?;
            read_full(source, &mut state, header::CONNECT_STATE as u64)?;
            let after = State(u64::from_le_bytes(state));
            if before.is_same(after) {
                return Ok(Some(Self::decode(Words(&part))));
            }
            before = after;
        }
        Ok(None)
    }

    fn decode(part: Words<'_>) -> Self {
        let word = |at| part.u64(at - header::CONNECT_STATE);
        Self {
            since_ns: word(header::CONNECT_SINCE),
            last_ns: word(header::CONNECT_LAST),
            calls: State(part.u64(0)).calls(),
            peer: Address::from_words(part.array(header::CONNECT_PEER - header::CONNECT_STATE)),
        }
    }
}

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const WRITING: u64 = 2;

/// The first word: from the lowest bit 2 bits of the kind, 6 of the threads that are inside, 32 of
/// the calls, and 24 of the number of connects that have had the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State(u64);

impl State {
    const INSIDE_SHIFT: u32 = 2;
    const CALLS_SHIFT: u32 = 8;
    const NUMBER_SHIFT: u32 = 40;
    const INSIDE_MAX: u64 = (1 << 6) - 1;
    const CALLS_MAX: u64 = u32::MAX as u64;

    fn kind(self) -> u64 {
        self.0 & 3
    }

    fn inside(self) -> u64 {
        self.0 >> Self::INSIDE_SHIFT & Self::INSIDE_MAX
    }

    fn calls(self) -> u64 {
        self.0 >> Self::CALLS_SHIFT & Self::CALLS_MAX
    }

    fn number(self) -> u64 {
        self.0 >> Self::NUMBER_SHIFT
    }

    /// Whether the place holds the same connect.
    fn is_same(self, other: Self) -> bool {
        self.kind() == other.kind() && self.number() == other.number()
    }

    /// Another connect is written.
    fn next(self) -> Self {
        Self((self.number() + 1) << Self::NUMBER_SHIFT | WRITING)
    }

    /// It was called for the first time.
    fn taken(self) -> Self {
        Self(self.number() << Self::NUMBER_SHIFT | TAKEN).entered()
    }

    fn entered(self) -> Self {
        let call = u64::from(self.calls() < Self::CALLS_MAX);
        Self(self.0 + (1 << Self::INSIDE_SHIFT) + (call << Self::CALLS_SHIFT))
    }

    fn left(self, is_over: bool) -> Self {
        match is_over {
            true => Self(self.number() << Self::NUMBER_SHIFT | FREE),
            false => Self(self.0 - (u64::from(self.inside() > 0) << Self::INSIDE_SHIFT)),
        }
    }
}

/// A call that the place holds.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held(State);

/// The place for it in the header of a file, laid out as [`crate::format`] describes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    state: AtomicU64,
    since_ns: AtomicU64,
    last_ns: AtomicU64,
    reserved: AtomicU64,
    peer: [AtomicU64; ADDRESS_WORDS],
}

impl Place {
    /// Notes a call to this listener. `None` if the place holds another one, or is just changed.
    pub(crate) fn enter(&self, listener: Option<Address>, now_ns: u64) -> Option<Held> {
        let peer = listener.map_or([0; ADDRESS_WORDS], Address::to_words);
        let before = State(self.state.load(Acquire));
        match before.kind() {
            TAKEN if self.is_of(peer) => self.again(before, now_ns),
            TAKEN if before.inside() == 0 && self.is_abandoned(now_ns) => {
                self.take(before, peer, now_ns)
            }
            FREE => self.take(before, peer, now_ns),
            _ => None,
        }
    }

    fn is_of(&self, peer: [u64; ADDRESS_WORDS]) -> bool {
        let words = self.peer.iter().map(|word| word.load(Relaxed));
        words.eq(peer)
    }

    fn is_abandoned(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns.load(Relaxed)) >= ABANDONED_NS
    }

    /// The listener that was compared is that of `held` if the place holds it still: whoever takes
    /// the place then does so after this change, and so after the comparison.
    fn again(&self, held: State, now_ns: u64) -> Option<Held> {
        let has_room = |now: &State| now.is_same(held) && now.inside() < State::INSIDE_MAX;
        self.change(|now| Some(now).filter(has_room).map(State::entered))
            .then(|| self.last_ns.fetch_max(now_ns, Relaxed))
            .map(|_| Held(held))
    }

    fn take(&self, before: State, peer: [u64; ADDRESS_WORDS], now_ns: u64) -> Option<Held> {
        let own = before.next();
        self.state
            .compare_exchange(before.0, own.0, AcqRel, Relaxed)
            .ok()?;
        // Who sees one of these words sees that the place is written.
        fence(Release);
        self.since_ns.store(now_ns, Relaxed);
        self.last_ns.store(now_ns, Relaxed);
        for (word, value) in self.peer.iter().zip(peer) {
            word.store(value, Relaxed);
        }
        self.state.store(own.taken().0, Release);
        Some(Held(own.taken()))
    }

    /// Notes that a call returned; with `is_over`, it gave a comm or failed.
    pub(crate) fn leave(&self, held: Held, is_over: bool, now_ns: u64) {
        let Held(held) = held;
        if State(self.state.load(Relaxed)).is_same(held) {
            self.last_ns.fetch_max(now_ns, Relaxed);
            self.change(|now| now.is_same(held).then(|| now.left(is_over)));
        }
    }

    /// Changes the state unless `change` returns `None`. Tries again only after another thread changed it.
    fn change(&self, change: impl Fn(State) -> Option<State>) -> bool {
        let word = |word| change(State(word)).map(|state| state.0);
        self.state.fetch_update(AcqRel, Acquire, word).is_ok()
    }

    /// Holds nothing.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            state: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            peer: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// Where the fields are in the file. A reader of memory copies them; the atomics of loom are larger.
#[cfg(not(all(test, loom)))]
const _: () = {
    assert!(size_of::<Place>() == CONNECT_BYTES);
    assert!(offset_of!(Place, state) == 0);
    assert!(offset_of!(Place, since_ns) == header::CONNECT_SINCE - header::CONNECT_STATE);
    assert!(offset_of!(Place, last_ns) == header::CONNECT_LAST - header::CONNECT_STATE);
    assert!(offset_of!(Place, peer) == header::CONNECT_PEER - header::CONNECT_STATE);
};

#[cfg(all(test, any(loom, miri)))]
impl crate::in_file::InFile for Place {
    const BYTES: usize = CONNECT_BYTES;

    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::empty()
    }

    fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
        let field = |offset| at + offset - header::CONNECT_STATE;
        self.state.copy(at, from, to);
        self.since_ns.copy(field(header::CONNECT_SINCE), from, to);
        self.last_ns.copy(field(header::CONNECT_LAST), from, to);
        self.peer.copy(field(header::CONNECT_PEER), from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Reader, Recorder};
    use std::net::Ipv4Addr;

    fn listener(port: u16) -> Option<Address> {
        Some(Address {
            ip: Ipv4Addr::LOCALHOST.into(),
            port,
            scope: 0,
        })
    }

    #[test]
    fn a_connect_without_a_comm_is_told_with_its_listener_until_it_is_over() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::create_in(parent.path(), &Options::new("connect"));
        let recorder = recorder.expect("a recorder");
        let told = || {
            let header = Reader::open(&recorder.path()).and_then(|mut file| file.header());
            header.expect("read").connecting
        };
        assert_eq!(told(), None);
        for calls in 1..=3 {
            let token = recorder.enter_connect(listener(4000));
            let inside = told().expect("it is inside");
            assert_eq!((inside.calls, inside.peer), (calls, listener(4000)));
            recorder.leave_connect(token, 0, false);
        }
        // Another listener meanwhile is not told.
        let other = recorder.enter_connect(listener(5000));
        recorder.leave_connect(other, 0, true);
        let told_then = told().expect("it goes on");
        assert_eq!((told_then.calls, told_then.peer), (3, listener(4000)));
        assert!(told_then.since_ns <= told_then.last_ns);
        let token = recorder.enter_connect(listener(4000));
        recorder.leave_connect(token, 0, true);
        assert_eq!(told(), None);
        let token = recorder.enter_connect(None);
        assert_eq!(told().map(|one| (one.calls, one.peer)), Some((1, None)));
        recorder.leave_connect(token, 2, false);
        assert_eq!(told(), None);
    }

    /// A connect to this listener that returned without a comm.
    fn called(place: &Place, port: u16, now_ns: u64) -> bool {
        let held = place.enter(listener(port), now_ns);
        held.map(|held| place.leave(held, false, now_ns)).is_some()
    }

    #[test]
    fn a_connect_that_is_called_no_more_makes_room_for_another_one() {
        let place = Place::empty();
        assert!(called(&place, 1, 20));
        assert!(!called(&place, 2, ABANDONED_NS));
        assert!(called(&place, 2, ABANDONED_NS + 20));
        assert!(!called(&place, 1, ABANDONED_NS + 30));
    }

    #[test]
    fn a_connect_that_does_not_return_makes_no_room() {
        let place = Place::empty();
        let inside = place.enter(listener(1), 10).expect("there is room");
        assert!(!called(&place, 2, ABANDONED_NS + 10));
        place.leave(inside, false, ABANDONED_NS + 20);
        assert!(!called(&place, 2, ABANDONED_NS + 30));
        assert!(called(&place, 2, 2 * ABANDONED_NS + 20));
    }

    #[test]
    fn the_end_of_a_connect_that_gave_way_does_not_end_another_one() {
        let place = Place::empty();
        let [first, again] = [10, 20].map(|at_ns| place.enter(listener(1), at_ns));
        place.leave(first.expect("there is room"), true, 30);
        let other = place.enter(listener(2), 40).expect("there is room");
        place.leave(again.expect("the same one"), true, 50);
        assert!(!called(&place, 1, 60), "the other one has the place");
        place.leave(other, true, 70);
        assert!(called(&place, 1, 80));
    }

    #[test]
    fn counts_have_bounds() {
        let place = Place::empty();
        let calls = || place.enter(listener(1), 10);
        let mut inside: Vec<_> = std::iter::from_fn(calls).take(1_000).collect();
        assert_eq!(inside.len() as u64, State::INSIDE_MAX);
        place.leave(inside.pop().expect("one"), false, 20);
        assert!(calls().is_some());
        let most = State(TAKEN | State::CALLS_MAX << State::CALLS_SHIFT).entered();
        let (calls, number) = (most.calls(), most.number());
        assert_eq!((calls, number), (State::CALLS_MAX, 0));
        assert_eq!(State(u64::MAX).next(), State(WRITING), "it begins again");
    }
}
