//! Which channel a pointer of the plugin belongs to: comms and requests, found
//! without a lock and never attributed to the wrong channel.
//!
//! Open addressing over a fixed array. A pointer lives within a short window
//! behind its hash and is never moved. What it means is one word beside it: the
//! slot, the slot's generation, and the request's number. A word is *live* as
//! long as that comm is open and that request pending, so nothing has to be
//! written when a request is done or a comm closed; a place whose word is not
//! live is free for the next pointer.
//!
//! A place changes hands by compare-and-swap on its word, once per post, and
//! between the two only a word says what the pointer beside it means: a reader
//! takes the word, then the pointer, then sees that the word is still the same.
//! A thread that was suspended in the middle of a swap while 2^24 requests went
//! through the same place could still take it wrongly; nothing else can.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use tcpx_recorder::{Key, Recorder, Slot};

/// Places searched for a pointer: four cache lines.
const WINDOW: usize = 16;

/// A word of a place that never had a pointer.
const EMPTY: u64 = 0;
/// Somebody is between taking a place and saying what for.
const BUSY: u64 = 1;
/// Lowest two bits of a word that means something.
const VALID: u64 = 2;

/// Bits of a request's number.
const NUMBER_BITS: u32 = 24;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
/// Most buffers of a grouped receive; NCCL has at most 8.
const GROUPED_MAX: u8 = 15;

/// What a pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A comm.
    Comm,
    /// A request from `isend`.
    Send,
    /// A request from `irecv`.
    Recv,
    /// A request from `iflush`; not one of the channel's requests.
    Flush,
}

/// What a pointer means, in one word, so that it is always whole: index 16,
/// generation 16, number 24, buffers 4, kind 2, tag 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning(u64);

impl Meaning {
    /// A comm, or a request of `iflush`, of this life of a slot.
    #[inline]
    pub fn of_comm(key: Key, kind: Kind) -> Self {
        Self::request(key, kind, 0, 0)
    }

    /// Request `number` of this life of a slot, with `grouped` buffers.
    #[inline]
    pub fn request(key: Key, kind: Kind, number: u64, grouped: u8) -> Self {
        Self(
            u64::from(key.index) << 48
                | u64::from(key.generation) << 32
                | (number & NUMBER) << 8
                | u64::from(grouped.min(GROUPED_MAX)) << 4
                | (kind as u64) << 2
                | VALID,
        )
    }

    #[inline]
    fn from_word(word: u64) -> Option<Self> {
        (word & 3 == VALID).then_some(Self(word))
    }

    /// Whose it is.
    #[inline]
    pub fn key(self) -> Key {
        Key { index: (self.0 >> 48) as u16, generation: (self.0 >> 32) as u16 }
    }

    /// What it is.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 >> 2 & 3 {
            0 => Kind::Comm,
            1 => Kind::Send,
            2 => Kind::Recv,
            _ => Kind::Flush,
        }
    }

    /// The lowest 24 bits of the request's number.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 8 & NUMBER
    }

    /// Buffers of a receive.
    #[inline]
    pub fn grouped(self) -> u8 {
        (self.0 >> 4) as u8 & GROUPED_MAX
    }

    /// The slot, if its comm is open and, for a send or receive, the request pending.
    #[inline]
    fn live(self, recorder: &Recorder) -> Option<&Slot> {
        let slot = recorder.slot(self.key())?;
        let is_post = matches!(self.kind(), Kind::Send | Kind::Recv);
        (!is_post || slot.is_pending(self.number(), NUMBER_BITS)).then_some(slot)
    }
}

#[derive(Debug, Default)]
#[repr(C, align(16))]
struct Place {
    word: AtomicU64,
    pointer: AtomicUsize,
}

/// A fixed number of places for pointers.
#[derive(Debug)]
pub struct Pointers {
    places: Box<[Place]>,
    shift: u32,
}

/// A pointer that was found, and that is live.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// What it means.
    pub meaning: Meaning,
    /// Its channel.
    pub slot: &'a Slot,
    place: &'a Place,
}

impl Found<'_> {
    /// Makes the pointer mean nothing, unless it came to mean something else meanwhile.
    pub fn forget(self) {
        // Failing says just that; there is nothing to do then.
        let _ = self.place.word.compare_exchange(self.meaning.0, EMPTY, Release, Relaxed);
    }
}

impl Place {
    #[inline]
    fn meaning(&self, pointer: usize) -> Option<Meaning> {
        let word = self.word.load(Acquire);
        let same = self.pointer.load(Acquire) == pointer && self.word.load(Relaxed) == word;
        Meaning::from_word(word).filter(|_| same)
    }

    #[inline]
    fn take(&self, pointer: usize, recorder: &Recorder) -> Option<Reserved<'_>> {
        let word = self.word.load(Acquire);
        let free = match Meaning::from_word(word) {
            None => word == EMPTY,
            Some(old) => self.pointer.load(Relaxed) == pointer || old.live(recorder).is_none(),
        };
        if !free || self.word.compare_exchange(word, BUSY, AcqRel, Relaxed).is_err() {
            return None;
        }
        self.pointer.store(pointer, Release);
        Some(Reserved(self))
    }
}

/// A place that nobody else takes, and that means nothing yet.
#[derive(Debug)]
#[must_use]
pub struct Reserved<'a>(&'a Place);

impl Reserved<'_> {
    /// Says what it means. That must be live already, or the place is anybody's.
    #[inline]
    pub fn publish(self, meaning: Meaning) {
        self.0.word.store(meaning.0, Release);
    }
}

impl Pointers {
    /// Room for `pointers` live pointers, with as many places again.
    pub fn new(pointers: usize) -> Self {
        let places = pointers.saturating_mul(2).next_power_of_two().max(64);
        Self { places: (0..places).map(|_| Place::default()).collect(), shift: 64 - places.trailing_zeros() }
    }

    /// Fibonacci hashing: plugins hand out pointers that are a power of two apart.
    #[inline]
    fn home(&self, pointer: usize) -> usize {
        ((pointer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The window behind a pointer's first place.
    fn behind(&self, home: usize) -> impl Iterator<Item = &Place> {
        let mask = self.places.len().wrapping_sub(1);
        (1..WINDOW).filter_map(move |step| self.places.get(home.wrapping_add(step) & mask))
    }

    /// What a pointer means, if anything.
    #[inline(always)] // as a call, what was found goes through memory: +8 ns per test
    pub fn find<'a>(&'a self, pointer: usize, recorder: &'a Recorder) -> Option<Found<'a>> {
        let home = self.home(pointer);
        let mut place = self.places.get(home)?;
        let meaning = match place.meaning(pointer) {
            Some(meaning) => meaning,
            None => {
                place = self.search(home, pointer, recorder)?;
                place.meaning(pointer)?
            }
        };
        Some(Found { meaning, slot: meaning.live(recorder)?, place })
    }

    #[cold]
    fn search(&self, home: usize, pointer: usize, recorder: &Recorder) -> Option<&Place> {
        self.behind(home).find(|place| place.meaning(pointer).is_some_and(|meaning| meaning.live(recorder).is_some()))
    }

    /// A place for a pointer that is about to mean something, whatever it meant
    /// before. `None` when its window is full.
    #[inline]
    pub fn reserve(&self, pointer: usize, recorder: &Recorder) -> Option<Reserved<'_>> {
        let home = self.home(pointer);
        match self.places.get(home).and_then(|place| place.take(pointer, recorder)) {
            None => self.reserve_behind(home, pointer, recorder),
            reserved => reserved,
        }
    }

    #[inline(never)]
    fn reserve_behind(&self, home: usize, pointer: usize, recorder: &Recorder) -> Option<Reserved<'_>> {
        self.behind(home).find_map(|place| place.take(pointer, recorder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use tcpx_recorder::format::Role;
    use tcpx_recorder::{Opening, Options};
    use tempfile::TempDir;

    fn recorder(capacity: u32) -> (TempDir, Recorder) {
        let parent = tempfile::tempdir().unwrap();
        let options = Options { name: "pointers", capacity, role: "", plugin: "", fallback: None, keep: false };
        let recorder = Recorder::create_in(parent.path(), &options).unwrap();
        (parent, recorder)
    }

    fn open(recorder: &Recorder) -> Key {
        recorder.open(&Opening { role: Role::Send, device: 0, comm: 0, retires_consumed: false }).unwrap()
    }

    /// Says what a pointer means; false when there was no place.
    fn insert(pointers: &Pointers, pointer: usize, meaning: Meaning, recorder: &Recorder) -> bool {
        let reserved = pointers.reserve(pointer, recorder);
        reserved.map(|reserved| reserved.publish(meaning)).is_some()
    }

    /// A post, and what its request pointer means.
    fn posted(recorder: &Recorder, key: Key) -> Meaning {
        let slot = recorder.slot(key).unwrap();
        let number = slot.next_request().unwrap();
        slot.post(0, 0);
        Meaning::request(key, Kind::Recv, number, 1)
    }

    fn finish(recorder: &Recorder, meaning: Meaning) {
        recorder.slot(meaning.key()).unwrap().finish(meaning.number(), None, 0);
    }

    #[test]
    fn a_meaning_survives_its_word() {
        for index in [0, 1, 16_383, u16::MAX] {
            for (number, grouped) in [(0, 0), (1, GROUPED_MAX), (NUMBER, 8)] {
                for kind in [Kind::Comm, Kind::Send, Kind::Recv, Kind::Flush] {
                    let key = Key { index, generation: !index };
                    let meaning = Meaning::request(key, kind, number, grouped);
                    assert_eq!(Meaning::from_word(meaning.0), Some(meaning));
                    assert_eq!(
                        (meaning.key(), meaning.kind(), meaning.number(), meaning.grouped()),
                        (key, kind, number, grouped)
                    );
                }
            }
        }
        assert_eq!(Meaning::from_word(EMPTY), None);
        assert_eq!(Meaning::from_word(BUSY), None);
        assert_eq!(Meaning::request(Key { index: 0, generation: 1 }, Kind::Recv, 0, 255).grouped(), GROUPED_MAX);
    }

    #[test]
    fn the_latest_meaning_counts_until_its_request_is_done() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(16);
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
    fn a_done_request_is_not_taken_for_the_one_in_its_place() {
        let (_parent, recorder) = recorder(1);
        let key = open(&recorder);
        let pointers = Pointers::new(16);
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
    fn forgetting_late_forgets_nothing_newer() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(16);
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
    fn a_full_window_says_no_until_a_comm_is_closed() {
        let (_parent, recorder) = recorder(2);
        let (one, two) = (open(&recorder), open(&recorder));
        let pointers = Pointers::new(1);
        let meaning = Meaning::of_comm(one, Kind::Comm);
        let taken = (1..=1000).filter(|pointer| insert(&pointers, pointer * 128, meaning, &recorder)).count();
        assert!((WINDOW..=64).contains(&taken), "{taken} in 64 places");
        let refused = (1..=1000).map(|n| n * 128).find(|pointer| pointers.find(*pointer, &recorder).is_none()).unwrap();
        let newer = Meaning::of_comm(two, Kind::Comm);
        assert!(!insert(&pointers, refused, newer, &recorder));
        recorder.close(one);
        assert!(insert(&pointers, refused, newer, &recorder));
        assert_eq!(pointers.find(refused, &recorder).unwrap().meaning, newer);
    }

    /// Every thread uses the same few pointers, handed from thread to thread as
    /// a plugin's pool would, and must always find what it said last.
    #[test]
    fn threads_that_share_a_pool_never_see_each_others_meaning() {
        let (_parent, recorder) = recorder(4);
        let pointers = Pointers::new(8);
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
                        let reserved = pointers.reserve(pointer, recorder).unwrap();
                        let meaning = posted(recorder, key);
                        reserved.publish(meaning);
                        assert_eq!(pointers.find(pointer, recorder).unwrap().meaning, meaning);
                        // As in a plugin, the pool has it back before the tap has written that down.
                        pool[at].store(false, Release);
                        finish(recorder, meaning);
                    }
                });
            }
        });
    }
}
