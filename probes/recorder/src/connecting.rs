//! A `connect` that has given no comm yet: one call that does not return, or many that return no
//! comm. The header holds one, the first that was called: programs that connect to several listeners
//! in turn are told of the next one when that is done.
#![forbid(unsafe_code)]

use crate::address::{ADDRESS_WORDS, Address};
use crate::format::header;
use crate::words::Words;
use std::sync::atomic::{AtomicU64, Ordering::*};

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

/// The place for it in the header of a file that is written.
pub(crate) struct Place<'a>(pub(crate) &'a [AtomicU64]);

impl Place<'_> {
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.0[offset / 8]
    }

    fn peer(&self, at: usize) -> &AtomicU64 {
        self.word(header::CONNECT_PEER + 8 * at)
    }

    /// Notes a call to this listener. Returns whether the place holds it.
    pub(crate) fn enter(&self, listener: Option<Address>, now_ns: u64) -> bool {
        let peer = listener.map_or([0; ADDRESS_WORDS], Address::to_words);
        let taken = self.word(header::CONNECT_TAKEN);
        if taken.load(Acquire) == TAKEN {
            if (0..ADDRESS_WORDS).all(|at| self.peer(at).load(Relaxed) == peer[at]) {
                self.word(header::CONNECT_CALLS).fetch_add(1, Relaxed);
                self.word(header::CONNECT_LAST).store(now_ns, Relaxed);
                return true;
            }
            let last_ns = self.word(header::CONNECT_LAST).load(Relaxed);
            if now_ns.saturating_sub(last_ns) < ABANDONED_NS {
                return false;
            }
        }
        let before = taken.load(Acquire);
        let is_own = before != WRITING
            && taken
                .compare_exchange(before, WRITING, AcqRel, Relaxed)
                .is_ok();
        if is_own {
            self.word(header::CONNECT_SINCE).store(0, Relaxed);
            for (at, word) in peer.into_iter().enumerate() {
                self.peer(at).store(word, Relaxed);
            }
            self.word(header::CONNECT_CALLS).store(1, Relaxed);
            self.word(header::CONNECT_LAST).store(now_ns, Relaxed);
            // Readers look at it first.
            self.word(header::CONNECT_SINCE).store(now_ns, Release);
            taken.store(TAKEN, Release);
        }
        is_own
    }

    /// Notes that a call which the place holds returned; with `is_over`, it gave a comm or failed.
    pub(crate) fn leave(&self, is_over: bool, now_ns: u64) {
        self.word(header::CONNECT_LAST).store(now_ns, Relaxed);
        if is_over {
            self.word(header::CONNECT_SINCE).store(0, Relaxed);
            self.word(header::CONNECT_TAKEN).store(FREE, Release);
        }
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
        let words: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
        let place = Place(&words);
        assert!(place.enter(listener(1), 10));
        place.leave(false, 20);
        assert!(!place.enter(listener(2), ABANDONED_NS));
        assert!(place.enter(listener(2), ABANDONED_NS + 20));
        assert!(!place.enter(listener(1), ABANDONED_NS + 30));
    }
}
