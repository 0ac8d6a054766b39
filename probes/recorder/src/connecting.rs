//! A `connect` that has given no comm yet: one call that does not return, or many that return no
//! comm. The header holds one, the first that was called: programs that connect to several listeners
//! in turn are told of the next one when that is done.
#![forbid(unsafe_code)]

use crate::address::{ADDRESS_WORDS, Address};
use crate::atomic::{AtomicU64, Ordering::*};
use crate::format::header;
use crate::words::Words;
#[cfg(not(all(test, loom)))]
use std::mem::offset_of;

/// A `connect` that has not been called for so long makes room for another one.
const ABANDONED_NS: u64 = 5_000_000_000;
const FREE: u64 = 0;
const TAKEN: u64 = 1;
const WRITING: u64 = 2;

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
    pub(crate) fn decode(page: &Words<'_>) -> Option<Self> {
        let since_ns = page.u64(header::CONNECT_SINCE);
        let peer = [0, 1, 2, 3].map(|at| page.u64(header::CONNECT_PEER + 8 * at));
        (since_ns > 0).then(|| Self {
            since_ns,
            last_ns: page.u64(header::CONNECT_LAST),
            calls: page.u64(header::CONNECT_CALLS),
            peer: Address::from_words(peer),
        })
    }
}

/// The place for it in the header of a file, laid out as [`crate::format`] describes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    taken: AtomicU64,
    since_ns: AtomicU64,
    last_ns: AtomicU64,
    calls: AtomicU64,
    peer: [AtomicU64; ADDRESS_WORDS],
}

impl Place {
    /// Notes a call to this listener. Returns whether the place holds it.
    pub(crate) fn enter(&self, listener: Option<Address>, now_ns: u64) -> bool {
        let peer = listener.map_or([0; ADDRESS_WORDS], Address::to_words);
        if self.taken.load(Acquire) == TAKEN {
            if self.is_of(peer) {
                self.calls.fetch_add(1, Relaxed);
                self.last_ns.store(now_ns, Relaxed);
                return true;
            }
            let last_ns = self.last_ns.load(Relaxed);
            if now_ns.saturating_sub(last_ns) < ABANDONED_NS {
                return false;
            }
        }
        let before = self.taken.load(Acquire);
        let is_own = before != WRITING
            && self
                .taken
                .compare_exchange(before, WRITING, AcqRel, Relaxed)
                .is_ok();
        if is_own {
            self.since_ns.store(0, Relaxed);
            for (word, value) in self.peer.iter().zip(peer) {
                word.store(value, Relaxed);
            }
            self.calls.store(1, Relaxed);
            self.last_ns.store(now_ns, Relaxed);
            // Readers look at it first.
            self.since_ns.store(now_ns, Release);
            self.taken.store(TAKEN, Release);
        }
        is_own
    }

    /// Holds nothing.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            taken: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            peer: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn is_of(&self, peer: [u64; ADDRESS_WORDS]) -> bool {
        let words = self.peer.iter().map(|word| word.load(Relaxed));
        words.eq(peer)
    }

    /// Notes that a call which the place holds returned; with `is_over`, it gave a comm or failed.
    pub(crate) fn leave(&self, is_over: bool, now_ns: u64) {
        self.last_ns.store(now_ns, Relaxed);
        if is_over {
            self.since_ns.store(0, Relaxed);
            self.taken.store(FREE, Release);
        }
    }
}

/// Where the fields are in the file. A reader of memory copies them; the atomics of loom are larger.
#[cfg(not(all(test, loom)))]
const _: () = {
    assert!(offset_of!(Place, taken) == 0);
    assert!(offset_of!(Place, since_ns) == header::CONNECT_SINCE - header::CONNECT_TAKEN);
    assert!(offset_of!(Place, last_ns) == header::CONNECT_LAST - header::CONNECT_TAKEN);
    assert!(offset_of!(Place, calls) == header::CONNECT_CALLS - header::CONNECT_TAKEN);
    assert!(offset_of!(Place, peer) == header::CONNECT_PEER - header::CONNECT_TAKEN);
};

#[cfg(all(test, any(loom, miri)))]
impl crate::in_file::InFile for Place {
    const BYTES: usize = 64;

    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::empty()
    }

    fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
        let at = at - header::CONNECT_TAKEN;
        self.taken.copy(at + header::CONNECT_TAKEN, from, to);
        self.since_ns.copy(at + header::CONNECT_SINCE, from, to);
        self.last_ns.copy(at + header::CONNECT_LAST, from, to);
        self.calls.copy(at + header::CONNECT_CALLS, from, to);
        self.peer.copy(at + header::CONNECT_PEER, from, to);
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

    #[test]
    fn a_connect_that_is_called_no_more_makes_room_for_another_one() {
        let place = Place::empty();
        assert!(place.enter(listener(1), 10));
        place.leave(false, 20);
        assert!(!place.enter(listener(2), ABANDONED_NS));
        assert!(place.enter(listener(2), ABANDONED_NS + 20));
        assert!(!place.enter(listener(1), ABANDONED_NS + 30));
    }
}
