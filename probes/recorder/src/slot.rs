//! One channel's slot as the writer holds it, and everything that may happen
//! to it while the comm is open.
//!
//! One thread at a time drives a comm, so one thread at a time writes a slot:
//! every counter is a plain load and store, and a caller that breaks the
//! plugin's rule loses counts, never memory. No call here waits, allocates,
//! enters the kernel or can panic. What a reader must see in order is stored
//! with release ordering, which costs nothing on x86-64.
//!
//! Not here: reading a clock. The caller does, once per state change, and not
//! at all for a `test` that is not done.
#![forbid(unsafe_code)]

use crate::format::{self, BUCKETS, Call, ERROR_KINDS, POSTS, bucket_of, channel, error_kind, life};
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};

/// The counters of one comm, in the file. Laid out as [`crate::format`] says.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    pub(crate) life: AtomicU64,
    in_call: AtomicU64,
    tests: AtomicU64,
    tests_not_done: AtomicU64,
    pending: AtomicU64,
    consumed: AtomicU64,
    done: AtomicU64,
    posted: AtomicU64,

    unpacked: AtomicU64,
    in_flight_high_water: AtomicU64,
    bytes_done: AtomicU64,
    bytes_posted: AtomicU64,
    last_change_ns: AtomicU64,
    flushes: AtomicU64,
    latency_max_ns: AtomicU64,
    flags: AtomicU64,

    pub(crate) comm: AtomicU64,
    pub(crate) device: AtomicI32,
    pub(crate) role: AtomicU32,
    pub(crate) channel: AtomicU32,
    reserved_identity: AtomicU32,
    pub(crate) opened_ns: AtomicU64,
    pub(crate) closed_ns: AtomicU64,
    null_requests: AtomicU64,
    reserved_line: [AtomicU64; 2],

    errors: [AtomicU64; ERROR_KINDS],
    last_error: AtomicU64,
    last_error_ns: AtomicU64,
    reserved_errors: [AtomicU64; 4],

    post_ns: [AtomicU64; POSTS],
    post_bytes: [AtomicU64; POSTS],
    latency: [AtomicU64; BUCKETS],
    reserved_end: [AtomicU64; 14],
}

/// Proof that a call was entered; give it to [`Slot::leave`].
#[derive(Debug)]
#[must_use]
pub struct CallToken(u64);

impl Slot {
    /// Marks the slot as inside `call`. One store.
    #[inline]
    pub fn enter(&self, call: Call) -> CallToken {
        // Odd after any number of entries and exits, lost ones included.
        let sequence = ((self.in_call.load(Relaxed) >> 8).wrapping_add(1)) | 1;
        let word = sequence << 8 | call as u64;
        self.in_call.store(word, Relaxed);
        CallToken(word)
    }

    /// Marks the call as left; which call it was stays readable. One store.
    #[inline]
    pub fn leave(&self, token: CallToken) {
        self.in_call.store(token.0.wrapping_add(1 << 8), Relaxed);
    }

    /// A `test` of a request of this channel was called.
    #[inline]
    pub fn tested(&self) {
        add(&self.tests, 1);
    }

    /// It said "not done".
    #[inline]
    pub fn not_done(&self) {
        add(&self.tests_not_done, 1);
    }

    /// The number that the next request will have, from 0; `None` while the one
    /// [`POSTS`] before it is still pending, as they share a place.
    #[inline]
    pub fn next_request(&self) -> Option<u64> {
        let number = self.posted.load(Relaxed);
        (self.pending.load(Relaxed) & bit(number) == 0).then_some(number)
    }

    /// Whether the request with these lowest bits of its number is posted and
    /// not done. `bits` says how many there are; at least 7.
    #[inline]
    pub fn is_pending(&self, number: u64, bits: u32) -> bool {
        let age = self.posted.load(Relaxed).wrapping_sub(number) & ((1 << bits) - 1);
        age.wrapping_sub(1) < POSTS as u64 && self.pending.load(Relaxed) & bit(number) != 0
    }

    /// A send or receive of `bytes` was accepted at `now_ns`; its number is what
    /// [`Slot::next_request`] said.
    #[inline]
    pub fn post(&self, bytes: u64, now_ns: u64) {
        let number = self.posted.load(Relaxed);
        let place = number as usize % POSTS;
        self.post_ns[place].store(self.changed(now_ns), Relaxed);
        self.post_bytes[place].store(bytes, Relaxed);
        self.pending.store(self.pending.load(Relaxed) | bit(number), Relaxed);
        self.posted.store(number.wrapping_add(1), Release);
        add(&self.bytes_posted, bytes);
        let in_flight = number.wrapping_add(1).wrapping_sub(self.retired());
        if in_flight > self.in_flight_high_water.load(Relaxed) {
            self.in_flight_high_water.store(in_flight, Relaxed);
        }
    }

    /// A request that [`Slot::is_pending`] was reported done at `now_ns`; of its
    /// number only the lowest bits matter. `received` is what the plugin wrote
    /// into `sizes`: believed if it is more than zero and not more than was posted.
    #[inline]
    pub fn finish(&self, number: u64, received: Option<u64>, now_ns: u64) {
        let now_ns = self.changed(now_ns);
        let place = number as usize % POSTS;
        let posted = self.post_bytes[place].load(Relaxed);
        add(&self.bytes_done, received.filter(|bytes| (1..=posted).contains(bytes)).unwrap_or(posted));
        self.took(now_ns.saturating_sub(self.post_ns[place].load(Relaxed)));
        self.pending.store(self.pending.load(Relaxed) & !bit(number), Relaxed);
        self.done.store(self.done.load(Relaxed).wrapping_add(1), Release);
    }

    #[inline]
    fn took(&self, ns: u64) {
        if let Some(count) = self.latency.get(bucket_of(ns)) {
            add(count, 1);
        }
        if ns > self.latency_max_ns.load(Relaxed) {
            self.latency_max_ns.store(ns, Relaxed);
        }
    }

    /// A finished receive was handed back to the plugin. From the first of them
    /// on, receives of this channel count as in flight until consumed.
    #[inline]
    pub fn consume(&self, now_ns: u64) {
        let consumed = self.consumed.load(Relaxed);
        if consumed >= self.done.load(Relaxed) {
            return;
        }
        self.changed(now_ns);
        self.consumed.store(consumed.wrapping_add(1), Release);
        let life = self.life.load(Relaxed);
        if life & life::RETIRES_CONSUMED == 0 {
            self.life.store(life | life::RETIRES_CONSUMED, Release);
        }
    }

    /// The engine has moved a finished receive's payload to its place.
    #[inline]
    pub fn unpack(&self, now_ns: u64) {
        self.changed(now_ns);
        self.flags.store(self.flags.load(Relaxed) | format::UNPACKED_KNOWN, Relaxed);
        self.unpacked.store(self.unpacked.load(Relaxed).wrapping_add(1), Release);
    }

    /// A call returned 0 with nothing: "call again".
    #[inline]
    pub fn null_request(&self) {
        add(&self.null_requests, 1);
    }

    /// `iflush` made a request.
    #[inline]
    pub fn flush(&self, now_ns: u64) {
        self.changed(now_ns);
        add(&self.flushes, 1);
    }

    /// A call returned `code`, not 0. Not a state change: a comm that only
    /// refuses is a comm that stands still.
    #[cold]
    pub fn error(&self, call: Call, code: i32, now_ns: u64) {
        if let Some(count) = self.errors.get(error_kind(code)) {
            add(count, 1);
        }
        self.last_error_ns.store(now_ns, Relaxed);
        self.last_error.store(pack_error(call, code), Relaxed);
    }

    /// Whether the comm that got this slot as its `generation`th (low 16 bits)
    /// is still open.
    #[inline]
    pub(crate) fn is_open_as(&self, generation: u16) -> bool {
        let wanted = u64::from(generation) << life::GENERATION_SHIFT | life::OPEN;
        let looked_at = u64::from(u16::MAX) << life::GENERATION_SHIFT | life::STATE;
        (self.life.load(Relaxed) ^ wanted) & looked_at == 0
    }

    /// The plugin device of the comm; -1 where unknown.
    pub fn device(&self) -> i32 {
        self.device.load(Relaxed)
    }

    /// Whether this is a receive comm.
    #[inline]
    pub fn is_recv(&self) -> bool {
        self.role.load(Relaxed) == format::Role::Recv as u32
    }

    /// Whether receives stay in flight until consumed.
    #[inline]
    pub fn retires_consumed(&self) -> bool {
        self.life.load(Relaxed) & life::RETIRES_CONSUMED != 0
    }

    #[inline]
    fn retired(&self) -> u64 {
        if self.retires_consumed() { self.consumed.load(Relaxed) } else { self.done.load(Relaxed) }
    }

    /// Takes `now_ns` as the time of the last change, unless that would go back.
    #[inline]
    fn changed(&self, now_ns: u64) -> u64 {
        let now_ns = now_ns.max(self.last_change_ns.load(Relaxed));
        self.last_change_ns.store(now_ns, Relaxed);
        now_ns
    }

    pub(crate) fn open_at(&self, now_ns: u64) {
        self.last_change_ns.store(now_ns, Relaxed);
        self.opened_ns.store(now_ns, Relaxed);
    }

    pub(crate) fn close_at(&self, now_ns: u64) {
        let now_ns = self.changed(now_ns);
        self.closed_ns.store(now_ns, Relaxed);
    }

    /// Zeroes everything but `life`, for a second life.
    pub(crate) fn clear(&self) {
        let words = [
            &self.in_call,
            &self.tests,
            &self.tests_not_done,
            &self.pending,
            &self.last_change_ns,
            &self.consumed,
            &self.done,
            &self.posted,
            &self.unpacked,
            &self.in_flight_high_water,
            &self.bytes_done,
            &self.bytes_posted,
            &self.null_requests,
            &self.flushes,
            &self.latency_max_ns,
            &self.flags,
            &self.comm,
            &self.opened_ns,
            &self.closed_ns,
            &self.last_error,
            &self.last_error_ns,
        ];
        let arrays = [&self.errors[..], &self.post_ns, &self.post_bytes, &self.latency];
        for word in words.into_iter().chain(arrays.into_iter().flatten()) {
            word.store(0, Relaxed);
        }
        self.device.store(0, Relaxed);
        self.role.store(0, Relaxed);
        self.channel.store(0, Relaxed);
    }
}

/// The bit of a request in `pending`.
#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % POSTS as u64)
}

/// A plain load and store: single writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// A failing call as one word, so that code and call always belong together.
pub(crate) fn pack_error(call: Call, code: i32) -> u64 {
    (call as u64) << 32 | u64::from(code as u32)
}

const _: () = assert!(size_of::<Slot>() == format::SLOT_BYTES);
const _: () = assert!(offset_of!(Slot, life) == channel::LIFE);
const _: () = assert!(offset_of!(Slot, in_call) == channel::IN_CALL);
const _: () = assert!(offset_of!(Slot, tests) == channel::TESTS);
const _: () = assert!(offset_of!(Slot, tests_not_done) == channel::TESTS_NOT_DONE);
const _: () = assert!(offset_of!(Slot, last_change_ns) == channel::LAST_CHANGE_NS);
const _: () = assert!(offset_of!(Slot, pending) == channel::PENDING);
const _: () = assert!(offset_of!(Slot, consumed) == channel::CONSUMED);
const _: () = assert!(offset_of!(Slot, done) == channel::DONE);
const _: () = assert!(offset_of!(Slot, posted) == channel::POSTED);
const _: () = assert!(offset_of!(Slot, unpacked) == channel::UNPACKED);
const _: () = assert!(offset_of!(Slot, in_flight_high_water) == channel::IN_FLIGHT_HIGH_WATER);
const _: () = assert!(offset_of!(Slot, bytes_done) == channel::BYTES_DONE);
const _: () = assert!(offset_of!(Slot, bytes_posted) == channel::BYTES_POSTED);
const _: () = assert!(offset_of!(Slot, null_requests) == channel::NULL_REQUESTS);
const _: () = assert!(offset_of!(Slot, flushes) == channel::FLUSHES);
const _: () = assert!(offset_of!(Slot, latency_max_ns) == channel::LATENCY_MAX_NS);
const _: () = assert!(offset_of!(Slot, flags) == channel::FLAGS);
const _: () = assert!(offset_of!(Slot, comm) == channel::COMM);
const _: () = assert!(offset_of!(Slot, device) == channel::DEVICE);
const _: () = assert!(offset_of!(Slot, role) == channel::ROLE);
const _: () = assert!(offset_of!(Slot, channel) == channel::CHANNEL);
const _: () = assert!(offset_of!(Slot, opened_ns) == channel::OPENED_NS);
const _: () = assert!(offset_of!(Slot, closed_ns) == channel::CLOSED_NS);
const _: () = assert!(offset_of!(Slot, errors) == channel::ERRORS);
const _: () = assert!(offset_of!(Slot, last_error) == channel::LAST_ERROR);
const _: () = assert!(offset_of!(Slot, last_error_ns) == channel::LAST_ERROR_NS);
const _: () = assert!(offset_of!(Slot, post_ns) == channel::POST_NS);
const _: () = assert!(offset_of!(Slot, post_bytes) == channel::POST_BYTES);
const _: () = assert!(offset_of!(Slot, latency) == channel::LATENCY);
