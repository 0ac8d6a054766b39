//! Maps the plugin's comm and request pointers to channels, without a lock and never to the
//! wrong channel.
//!
//! A hash table with open addressing over a fixed array. A pointer is stored in an entry within
//! a short window after its hash and is never moved. The entry's second word is the pointer's
//! meaning: the slot, the slot's generation, and the request's number. The meaning is *live*
//! while that comm is open and that request pending, so nothing needs to be written when a
//! request is done or a comm is closed.
//!
//! An entry belongs to the comm in its meaning. While that comm is open, only the comm's thread
//! may change the entry, with a plain store if the plugin reuses the pointer, as TCPX does for
//! every sixteenth request. All other changes use compare-and-swap: taking an entry that is
//! empty, that a closed comm left, or whose pointer the plugin has given to another comm. To
//! keep plugins that never reuse pointers from filling the table, a comm keeps the entries of
//! its last [`POSTS`] requests and empties older ones.
//!
//! A reader reads the meaning, then the pointer, then checks that the meaning is live. The
//! pointer of a live meaning was stored before the meaning.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use tcpx_recorder::format::POSTS;
use tcpx_recorder::{Key, Recorder, Slot};

/// Entries searched for a pointer: four cache lines.
const WINDOW: usize = 16;

/// Meaning of an entry that never had a pointer.
const EMPTY: u64 = 0;
/// Meaning of an entry that is taken and not yet published.
const BUSY: u64 = 1;
/// Lowest two bits of every other meaning.
const VALID: u64 = 2;

/// Bits of a request's number.
const NUMBER_BITS: u32 = 24;
/// Most buffers of a grouped receive; NCCL has at most 8.
const GROUPED_MAX: u8 = 15;

/// The kind of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A comm.
    Comm,
    /// A request from `isend`.
    Send,
    /// A request from `irecv`.
    Recv,
    /// A request from `iflush`; it is not counted among the channel's requests.
    Flush,
}

/// The meaning of a pointer, packed into one word so that it is read and written atomically:
/// number 24, index 16, generation 16, buffers 4, kind 2, tag 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning(u64);

impl Meaning {
    /// A comm, or a request from `iflush`, with this key.
    #[inline]
    pub(crate) fn of_comm(key: Key, kind: Kind) -> Self {
        Self::request(key, kind, 0, 0)
    }

    /// Request `number` of the comm with this key, with `grouped` buffers.
    #[inline]
    pub(crate) fn request(key: Key, kind: Kind, number: u64, grouped: u8) -> Self {
        Self(
            number << 40
                | u64::from(key.index) << 24
                | u64::from(key.generation) << 8
                | u64::from(grouped.min(GROUPED_MAX)) << 4
                | (kind as u64) << 2
                | VALID,
        )
    }

    #[inline]
    fn from_word(word: u64) -> Option<Self> {
        (word & 3 == VALID).then_some(Self(word))
    }

    /// The comm's key.
    #[inline]
    pub(crate) fn key(self) -> Key {
        Key {
            index: (self.0 >> 24) as u16,
            generation: (self.0 >> 8) as u16,
        }
    }

    /// The kind of the pointer.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 >> 2 & 3 {
            0 => Kind::Comm,
            1 => Kind::Send,
            2 => Kind::Recv,
            _ => Kind::Flush,
        }
    }

    /// The lowest 24 bits of the request's number.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0 >> 40
    }

    /// Buffers of a receive.
    #[inline]
    pub(crate) fn grouped(self) -> u8 {
        (self.0 >> 4) as u8 & GROUPED_MAX
    }

    /// The slot, if its comm is open and, for a send or receive, the request is pending. Comms
    /// and flushes have no request number and are live while the comm is open.
    #[inline]
    fn live(self, recorder: &Recorder) -> Option<&Slot> {
        let slot = recorder.slot(self.key())?;
        let has_number = !matches!(self.kind(), Kind::Comm | Kind::Flush);
        (!has_number || slot.is_pending(self.number(), NUMBER_BITS)).then_some(slot)
    }
}

#[derive(Debug, Default)]
#[repr(C, align(16))]
struct Place {
    word: AtomicU64,
    pointer: AtomicUsize,
}

/// A table with a fixed number of entries for pointers.
#[derive(Debug)]
pub(crate) struct Pointers {
    places: Box<[Place]>,
    shift: u32,
    /// Per slot and request number, the last entry of the request's pointer.
    kept: Box<[AtomicU32]>,
}

/// A pointer that was found and is live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// The meaning of the pointer.
    pub meaning: Meaning,
    /// The channel's slot.
    pub slot: &'a Slot,
    place: &'a Place,
}

impl Found<'_> {
    /// Empties the entry, unless its meaning has changed.
    pub(crate) fn forget(self) {
        self.place.empty(self.meaning);
    }
}

/// An entry taken for a pointer, before its meaning is published.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reserved<'a> {
    place: &'a Place,
    at: usize,
}

impl Reserved<'_> {
    /// Sets the meaning of the pointer, which must already be live.
    #[inline]
    pub(crate) fn publish(self, meaning: Meaning) {
        self.place.word.store(meaning.0, Release);
    }
}

impl Place {
    #[inline]
    fn meaning(&self, pointer: usize) -> Option<Meaning> {
        let word = self.word.load(Acquire);
        if self.pointer.load(Acquire) == pointer {
            Meaning::from_word(word)
        } else {
            None
        }
    }

    /// Tries to take the entry for `owner` and this pointer.
    #[inline]
    fn take(&self, pointer: usize, owner: Key, recorder: &Recorder) -> bool {
        let word = self.word.load(Acquire);
        let same = self.pointer.load(Relaxed) == pointer;
        let free = match Meaning::from_word(word) {
            Some(mine) if same && mine.key() == owner => return true,
            Some(old) => same || recorder.slot(old.key()).is_none(),
            None => word == EMPTY,
        };
        if !free
            || self
                .word
                .compare_exchange(word, BUSY, AcqRel, Relaxed)
                .is_err()
        {
            return false;
        }
        self.pointer.store(pointer, Release);
        true
    }

    #[cold]
    fn empty(&self, meaning: Meaning) {
        // If the exchange fails, the entry already has another meaning.
        let _ = self
            .word
            .compare_exchange(meaning.0, EMPTY, Release, Relaxed);
    }
}

impl Pointers {
    /// A table for `per_slot` pointers of each of `slots` comms, at most half full.
    pub(crate) fn new(slots: usize, per_slot: usize) -> Self {
        let places = slots
            .saturating_mul(per_slot)
            .saturating_mul(2)
            .next_power_of_two()
            .max(64);
        Self {
            places: (0..places).map(|_| Place::default()).collect(),
            shift: 64 - places.trailing_zeros(),
            kept: (0..slots.saturating_mul(POSTS))
                .map(|_| AtomicU32::new(0))
                .collect(),
        }
    }

    /// Empties the table. No other thread may be using a live entry.
    pub(crate) fn clear(&self) {
        self.places
            .iter()
            .for_each(|place| place.word.store(EMPTY, Release));
    }

    /// Fibonacci hashing, because the plugins' pointers are a power of two apart.
    #[inline]
    fn home(&self, pointer: usize) -> usize {
        ((pointer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The entries of the window that starts at `home`.
    fn behind(&self, home: usize) -> impl Iterator<Item = (usize, &Place)> {
        let mask = self.places.len().wrapping_sub(1);
        (1..WINDOW).filter_map(move |step| {
            let at = home.wrapping_add(step) & mask;
            Some((at, self.places.get(at)?))
        })
    }

    /// Finds the live meaning of a pointer.
    #[inline(always)] // as a call, the result goes through memory: +8 ns per test
    pub(crate) fn find<'a>(&'a self, pointer: usize, recorder: &'a Recorder) -> Option<Found<'a>> {
        let home = self.home(pointer);
        let mut place = self.places.get(home)?;
        let meaning = match place.meaning(pointer) {
            Some(meaning) => meaning,
            None => {
                place = self.search(home, pointer, recorder)?;
                place.meaning(pointer)?
            }
        };
        Some(Found {
            meaning,
            slot: meaning.live(recorder)?,
            place,
        })
    }

    #[cold]
    fn search(&self, home: usize, pointer: usize, recorder: &Recorder) -> Option<&Place> {
        let live = |place: &Place| {
            place
                .meaning(pointer)
                .is_some_and(|meaning| meaning.live(recorder).is_some())
        };
        self.behind(home)
            .map(|(_, place)| place)
            .find(|place| live(place))
    }

    /// Takes an entry for a pointer of `owner`, replacing any earlier meaning. `None` if the
    /// window is full.
    #[inline]
    pub(crate) fn reserve(
        &self,
        pointer: usize,
        owner: Key,
        recorder: &Recorder,
    ) -> Option<Reserved<'_>> {
        let at = self.home(pointer);
        let place = self.places.get(at)?;
        if place.take(pointer, owner, recorder) {
            return Some(Reserved { place, at });
        }
        self.reserve_behind(at, pointer, owner, recorder)
    }

    #[cold]
    fn reserve_behind(
        &self,
        home: usize,
        pointer: usize,
        owner: Key,
        recorder: &Recorder,
    ) -> Option<Reserved<'_>> {
        let (at, place) = self
            .behind(home)
            .find(|(_, place)| place.take(pointer, owner, recorder))?;
        Some(Reserved { place, at })
    }

    /// Records `reserved` as the entry of request `number`, and empties the entry of the request
    /// [`POSTS`] before it, unless that entry is in use again.
    #[inline]
    pub(crate) fn keep(&self, reserved: &Reserved<'_>, owner: Key, number: u64) {
        let turn = number as usize % POSTS;
        let Some(kept) = self.kept.get(usize::from(owner.index) * POSTS + turn) else {
            return;
        };
        let before = kept.load(Relaxed) as usize;
        if before == reserved.at {
            return;
        }
        kept.store(reserved.at as u32, Relaxed);
        if let Some(place) = self.places.get(before)
            && let Some(meaning) = Meaning::from_word(place.word.load(Relaxed))
            && meaning.key() == owner
            && meaning.number() as usize % POSTS == turn
            && matches!(meaning.kind(), Kind::Send | Kind::Recv)
        {
            place.empty(meaning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use tcpx_recorder::format::{Call, Role};
    use tcpx_recorder::{Addresses, Opening, Options};
    use tempfile::TempDir;

    fn recorder(capacity: u32) -> (TempDir, Recorder) {
        let parent = tempfile::tempdir().unwrap();
        let options = Options {
            capacity,
            ..Options::new("pointers")
        };
        let recorder = Recorder::create_in(parent.path(), &options).unwrap();
        (parent, recorder)
    }

    fn open(recorder: &Recorder) -> Key {
        let addresses = Addresses::default();
        recorder
            .open(&Opening {
                role: Role::Send,
                device: 0,
                comm: 0,
                retires_consumed: false,
                addresses,
            })
            .unwrap()
    }

    /// Stores the meaning of a pointer; `false` if its window is full.
    fn insert(pointers: &Pointers, pointer: usize, meaning: Meaning, recorder: &Recorder) -> bool {
        let reserved = pointers.reserve(pointer, meaning.key(), recorder);
        reserved.map(|reserved| reserved.publish(meaning)).is_some()
    }

    /// Posts a request and returns the meaning of its pointer.
    fn posted(recorder: &Recorder, key: Key) -> Meaning {
        let slot = recorder.slot(key).unwrap();
        let number = slot.next_request().unwrap();
        slot.post(0, 0);
        Meaning::request(key, Kind::Recv, number, 1)
    }

    fn finish(recorder: &Recorder, meaning: Meaning) {
        recorder
            .slot(meaning.key())
            .unwrap()
            .finish(meaning.number(), None, 0);
    }

    #[test]
    fn a_meaning_is_packed_and_unpacked() {
        for index in [0, 1, 16_383, u16::MAX] {
            for (number, grouped) in [(0, 0), (1, GROUPED_MAX), ((1 << NUMBER_BITS) - 1, 8)] {
                for kind in [Kind::Comm, Kind::Send, Kind::Recv, Kind::Flush] {
                    let key = Key {
                        index,
                        generation: !index,
                    };
                    let meaning = Meaning::request(key, kind, number, grouped);
                    assert_eq!(Meaning::from_word(meaning.0), Some(meaning));
                    assert_eq!(
                        (
                            meaning.key(),
                            meaning.kind(),
                            meaning.number(),
                            meaning.grouped()
                        ),
                        (key, kind, number, grouped)
                    );
                }
            }
        }
        assert_eq!(Meaning::from_word(EMPTY), None);
        assert_eq!(Meaning::from_word(BUSY), None);
        assert_eq!(
            Meaning::request(
                Key {
                    index: 0,
                    generation: 1
                },
                Kind::Recv,
                0,
                255
            )
            .grouped(),
            GROUPED_MAX
        );
    }

    #[test]
    fn the_latest_meaning_counts_until_its_request_is_done() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(2, 8);
        assert!(pointers.find(0x1000, &recorder).is_none());
        let (old, new) = (posted(&recorder, one), posted(&recorder, two));
        assert!(insert(&pointers, 0x1000, old, &recorder));
        assert_eq!(pointers.find(0x1000, &recorder).unwrap().meaning, old);
        assert!(insert(&pointers, 0x1000, new, &recorder));
        assert_eq!(pointers.find(0x1000, &recorder).unwrap().meaning, new);
        finish(&recorder, new);
        assert!(pointers.find(0x1000, &recorder).is_none());
    }

    #[test]
    fn a_done_request_is_not_mistaken_for_the_one_that_reuses_its_pointer() {
        let (_parent, recorder) = recorder(1);
        let key = open(&recorder);
        let pointers = Pointers::new(2, 8);
        let first = posted(&recorder, key);
        insert(&pointers, 0x1000, first, &recorder);
        finish(&recorder, first);
        for _ in 1..64 {
            finish(&recorder, posted(&recorder, key));
        }
        let same_place = posted(&recorder, key);
        assert_eq!(same_place.number(), 64);
        assert!(pointers.find(0x1000, &recorder).is_none());
    }

    #[test]
    fn forgetting_late_keeps_newer_meanings() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(2, 8);
        insert(&pointers, 0x1000, posted(&recorder, one), &recorder);
        let late = pointers.find(0x1000, &recorder).unwrap();
        let newer = posted(&recorder, two);
        insert(&pointers, 0x1000, newer, &recorder);
        late.forget();
        assert_eq!(pointers.find(0x1000, &recorder).unwrap().meaning, newer);
        pointers.find(0x1000, &recorder).unwrap().forget();
        assert!(pointers.find(0x1000, &recorder).is_none());
    }

    #[test]
    fn a_full_window_refuses_pointers_until_a_comm_is_closed() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(1, 1);
        let meaning = Meaning::of_comm(one, Kind::Comm);
        let taken = (1..=1000)
            .filter(|pointer| insert(&pointers, pointer * 128, meaning, &recorder))
            .count();
        assert!((WINDOW..=64).contains(&taken), "{taken} in 64 places");
        let refused = (1..=1000)
            .map(|n| n * 128)
            .find(|pointer| pointers.find(*pointer, &recorder).is_none())
            .unwrap();
        let newer = Meaning::of_comm(two, Kind::Comm);
        assert!(!insert(&pointers, refused, newer, &recorder));
        recorder.close(one, Call::CloseSend);
        assert!(insert(&pointers, refused, newer, &recorder));
        assert_eq!(pointers.find(refused, &recorder).unwrap().meaning, newer);
    }

    #[test]
    fn a_plugin_that_never_reuses_pointers_does_not_fill_the_table() {
        let (_parent, recorder) = recorder(2);
        let pointers = Pointers::new(2, 2 * POSTS);
        let keys = [open(&recorder), open(&recorder)];
        for round in 0..10_000 {
            for (at, key) in keys.into_iter().enumerate() {
                let pointer = 0x10_0000 + (round * 2 + at) * 48;
                let reserved = pointers.reserve(pointer, key, &recorder).expect("room");
                let meaning = posted(&recorder, key);
                pointers.keep(&reserved, key, meaning.number());
                reserved.publish(meaning);
                assert_eq!(pointers.find(pointer, &recorder).unwrap().meaning, meaning);
                finish(&recorder, meaning);
            }
        }
        let used = pointers
            .places
            .iter()
            .filter(|place| place.word.load(Relaxed) != EMPTY)
            .count();
        assert!(used <= keys.len() * POSTS, "{used}");
    }

    /// All threads use the same few pointers, passed from thread to thread as by a plugin's
    /// pool, and each must find the meaning that it stored last.
    #[test]
    fn threads_that_share_a_pool_never_see_each_others_meaning() {
        let (_parent, recorder) = recorder(4);
        let pointers = Pointers::new(4, 2);
        let pool: Vec<AtomicBool> = (0..24).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for thread in 0..3usize {
                let (recorder, pointers, pool) = (&recorder, &pointers, &pool);
                let key = open(recorder);
                scope.spawn(move || {
                    for round in 0..20_000usize {
                        let at = (round * 7 + thread * 5) % pool.len();
                        if pool[at].swap(true, Acquire) {
                            continue;
                        }
                        let pointer = 0x7000 + at * 128;
                        let reserved = pointers.reserve(pointer, key, recorder).unwrap();
                        let meaning = posted(recorder, key);
                        pointers.keep(&reserved, key, meaning.number());
                        reserved.publish(meaning);
                        assert_eq!(pointers.find(pointer, recorder).unwrap().meaning, meaning);
                        // As in a plugin, the pool gets the pointer back before the tap records
                        // that.
                        pool[at].store(false, Release);
                        finish(recorder, meaning);
                    }
                });
            }
        });
    }
}
