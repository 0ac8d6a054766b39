//! One channel's slot as the writer sees it, with the operations on it while the comm is open.
//!
//! One thread at a time drives a comm, so one thread at a time writes a slot. Every counter is
//! updated with a plain load and store; a caller that breaks the plugin's threading rule loses
//! counts but is memory-safe. No function here waits, allocates or panics, and none enters the kernel
//! but for the id of the thread that drives the comm: at its first change, and where another thread
//! notes its polls, of which every 256th is one.
//! Stores that readers must see in order use release ordering, which is free on x86-64.
//!
//! Not here: reading a clock. The caller reads it once per state change, and for one of 256
//! tests that are not done.
#![forbid(unsafe_code)]

// Imported from `super`, so that `model.rs` can substitute atomics that record every store.
use super::address::{ADDRESS_WORDS, Address};
use super::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*, fence};
use super::format::{
    self, BUCKETS, Call, ERROR_KINDS, NO_CHANNEL, OperationKind, POSTS, Role, bucket_of, channel,
    error_kind, life,
};
use super::ring::{Note, Place, thread_tag};
use super::thread;
#[cfg(not(all(test, loom)))]
use std::mem::{offset_of, size_of};

/// The slot of one comm in the file, laid out as [`crate::format`] describes.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    life: AtomicU64,
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
    events: AtomicU64,
    latency_max_ns: AtomicU64,
    flags: AtomicU64,

    comm: AtomicU64,
    device: AtomicI32,
    role: AtomicU32,
    channel: AtomicU32,
    thread: AtomicU32,
    opened_ns: AtomicU64,
    closed_ns: AtomicU64,
    null_requests: AtomicU64,
    flushes: AtomicU64,
    first_event: AtomicU64,

    errors: [AtomicU64; ERROR_KINDS],
    last_error: AtomicU64,
    last_error_ns: AtomicU64,
    polls_from_ns: AtomicU64,
    polls_from_tests: AtomicU64,
    polls_until_ns: AtomicU64,
    polls_until_tests: AtomicU64,

    post_ns: [AtomicU64; POSTS],
    post_bytes: [AtomicU64; POSTS],
    latency: [AtomicU64; BUCKETS],
    local: [AtomicU64; ADDRESS_WORDS],
    peer: [AtomicU64; ADDRESS_WORDS],
    ctrl: [AtomicU64; ADDRESS_WORDS],
    connection: AtomicU64,
    operation: AtomicU64,
}

/// Known addresses of a comm's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// An address of this end.
    pub local: Option<Address>,
    /// An address of the other end.
    pub peer: Option<Address>,
    /// The address that the ctrl connection connects to.
    pub ctrl: Option<Address>,
}

/// A new comm that needs a slot.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// What the comm is for.
    pub role: Role,
    /// Plugin device index; -1 if unknown.
    pub device: i32,
    /// The plugin's comm pointer.
    pub comm: usize,
    /// Whether a receive is in flight until consumed (device type UNPACK).
    pub retires_consumed: bool,
    /// Known addresses of the comm's connections.
    pub addresses: Addresses,
}

/// A call that was entered, for [`Slot::leave`].
#[derive(Debug)]
#[must_use]
pub struct CallToken(u64);

impl Slot {
    /// Records that `call` was entered. One store.
    #[inline]
    pub fn enter(&self, call: Call) -> CallToken {
        // Odd after any number of entries and exits, even if some were lost.
        let sequence = ((self.in_call.load(Relaxed) >> 8).wrapping_add(1)) | 1;
        let word = sequence << 8 | call as u64;
        self.in_call.store(word, Relaxed);
        CallToken(word)
    }

    /// Records that the call returned; the slot still tells which call it was. One store.
    #[inline]
    pub fn leave(&self, token: CallToken) {
        self.in_call.store(token.0.wrapping_add(1 << 8), Relaxed);
    }

    /// Counts a call of `test`.
    #[inline]
    pub fn tested(&self) {
        add(&self.tests, 1);
    }

    /// Counts a `test` that was not done. Calls `now_ns` for one in [`format::TESTS_PER_NOTE`].
    #[inline]
    pub fn not_done(&self, now_ns: impl FnOnce() -> u64) {
        let count = self.tests_not_done.load(Relaxed).wrapping_add(1);
        self.tests_not_done.store(count, Relaxed);
        if count.is_multiple_of(format::TESTS_PER_NOTE) {
            self.note_polls(now_ns());
        }
    }

    #[cold]
    fn note_polls(&self, now_ns: u64) {
        self.note_thread();
        let tests = self.tests.load(Relaxed);
        if self.polls_from_ns.load(Relaxed) <= self.last_change_ns.load(Relaxed) {
            self.polls_from_tests.store(tests, Relaxed);
            self.polls_from_ns.store(now_ns, Relaxed);
        }
        self.polls_until_tests.store(tests, Relaxed);
        self.polls_until_ns.store(now_ns, Release);
    }

    /// The number of the next request, from 0. `None` while the request [`POSTS`] before it is
    /// pending, because they share an entry.
    #[inline]
    pub fn next_request(&self) -> Option<u64> {
        let number = self.posted.load(Relaxed);
        (self.pending.load(Relaxed) & bit(number) == 0).then_some(number)
    }

    /// Whether a request is posted and not done. `number` has only the lowest `bits` bits of
    /// the request's number, at least 7.
    #[inline]
    pub fn is_pending(&self, number: u64, bits: u32) -> bool {
        let age = self.posted.load(Relaxed).wrapping_sub(number) & ((1 << bits) - 1);
        age.wrapping_sub(1) < POSTS as u64 && self.pending.load(Relaxed) & bit(number) != 0
    }

    /// Records that a request of `bytes` was posted at `now_ns`. Its number is that of
    /// [`Slot::next_request`]. Like all state changes, returns the recorded time, which is never
    /// before that of the last change.
    #[inline]
    pub fn post(&self, bytes: u64, now_ns: u64) -> u64 {
        let number = self.posted.load(Relaxed);
        let place = number as usize % POSTS;
        let now_ns = self.changed(now_ns);
        self.post_ns[place].store(now_ns, Relaxed);
        self.post_bytes[place].store(bytes, Relaxed);
        self.pending
            .store(self.pending.load(Relaxed) | bit(number), Relaxed);
        self.posted.store(number.wrapping_add(1), Release);
        add(&self.bytes_posted, bytes);
        let in_flight = number.wrapping_add(1).wrapping_sub(self.retired());
        if in_flight > self.in_flight_high_water.load(Relaxed) {
            self.in_flight_high_water.store(in_flight, Relaxed);
        }
        now_ns
    }

    /// Records that a request, which [`Slot::is_pending`], was reported done at `now_ns`. Only
    /// the lowest bits of `number` are used. `received` is the size that the plugin wrote; it is
    /// used if it is above zero and at most the bytes posted. Returns the time and the bytes.
    #[inline]
    pub fn finish(&self, number: u64, received: Option<u64>, now_ns: u64) -> (u64, u64) {
        let now_ns = self.changed(now_ns);
        let place = number as usize % POSTS;
        let posted = self.post_bytes[place].load(Relaxed);
        let bytes = received
            .filter(|bytes| (1..=posted).contains(bytes))
            .unwrap_or(posted);
        add(&self.bytes_done, bytes);
        self.took(now_ns.saturating_sub(self.post_ns[place].load(Relaxed)));
        self.pending
            .store(self.pending.load(Relaxed) & !bit(number), Relaxed);
        self.done
            .store(self.done.load(Relaxed).wrapping_add(1), Release);
        (now_ns, bytes)
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

    /// Records that a finished receive was consumed. From the first consume on, receives of this
    /// channel count as in flight until consumed. Returns the time and the number of earlier
    /// consumes; `None` if no finished receive is unconsumed.
    #[inline]
    pub fn consume(&self, now_ns: u64) -> Option<(u64, u64)> {
        let consumed = self.consumed.load(Relaxed);
        if consumed >= self.done.load(Relaxed) {
            return None;
        }
        let now_ns = self.changed(now_ns);
        self.consumed.store(consumed.wrapping_add(1), Release);
        let life = self.life.load(Relaxed);
        if life & life::RETIRES_CONSUMED == 0 {
            self.life.store(life | life::RETIRES_CONSUMED, Release);
        }
        Some((now_ns, consumed))
    }

    /// Records that the engine unpacked or verified a finished receive. Returns the time and the
    /// number of earlier unpacks.
    #[inline]
    pub fn unpack(&self, now_ns: u64) -> (u64, u64) {
        let now_ns = self.changed(now_ns);
        (now_ns, self.in_place())
    }

    /// Counts a finished receive that needs no unpacking as unpacked. Returns the number of
    /// earlier unpacks.
    #[inline]
    pub fn in_place(&self) -> u64 {
        let unpacked = self.unpacked.load(Relaxed);
        self.flags
            .store(self.flags.load(Relaxed) | format::UNPACKED_KNOWN, Relaxed);
        self.unpacked.store(unpacked.wrapping_add(1), Release);
        unpacked
    }

    /// Counts a post that returned 0 and a null request, "call again".
    #[inline]
    pub fn null_request(&self) {
        add(&self.null_requests, 1);
    }

    /// Records that `iflush` returned a request. Returns the time.
    #[inline]
    pub fn flush(&self, now_ns: u64) -> u64 {
        add(&self.flushes, 1);
        self.changed(now_ns)
    }

    /// Records that a call returned `code`, not 0. This is not a state change: a comm that only
    /// returns errors makes no progress.
    #[cold]
    pub fn error(&self, call: Call, code: i32, now_ns: u64) {
        if let Some(count) = self.errors.get(error_kind(code)) {
            add(count, 1);
        }
        self.last_error_ns.store(now_ns, Relaxed);
        self.last_error.store(pack_error(call, code), Relaxed);
    }

    /// The number of the ring's next event.
    #[inline]
    pub(crate) fn next_event(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// Writes the ring's next event into its entry, then counts it.
    #[inline]
    pub(crate) fn record(&self, place: &Place, at_ns: u64, note: &Note) {
        let number = self.events.load(Relaxed);
        // After counting the last event, because a reader may rely on this entry being old.
        fence(Release);
        place.write(number, at_ns, note);
        self.events.store(number.wrapping_add(1), Release);
    }

    /// Known addresses of the comm's connections.
    pub fn addresses(&self) -> Addresses {
        let read = |words: &[AtomicU64; ADDRESS_WORDS]| {
            Address::from_words(words.each_ref().map(|word| word.load(Relaxed)))
        };
        Addresses {
            local: read(&self.local),
            peer: read(&self.peer),
            ctrl: read(&self.ctrl),
        }
    }

    fn set_addresses(&self, addresses: &Addresses) {
        let pairs = [
            (&self.local, addresses.local),
            (&self.peer, addresses.peer),
            (&self.ctrl, addresses.ctrl),
        ];
        for (words, address) in pairs {
            for (word, value) in words
                .iter()
                .zip(address.map_or([0; ADDRESS_WORDS], Address::to_words))
            {
                word.store(value, Relaxed);
            }
        }
    }

    /// Whether the slot is open with this generation (low 16 bits).
    #[inline]
    pub(crate) fn is_open_as(&self, generation: u16) -> bool {
        let wanted = u64::from(generation) << life::GENERATION_SHIFT | life::OPEN;
        let looked_at = u64::from(u16::MAX) << life::GENERATION_SHIFT | life::STATE;
        (self.life.load(Relaxed) ^ wanted) & looked_at == 0
    }

    /// Plugin device index of the comm; -1 if unknown.
    pub fn device(&self) -> i32 {
        self.device.load(Relaxed)
    }

    /// Whether this is a receive comm.
    #[inline]
    pub fn is_recv(&self) -> bool {
        self.role.load(Relaxed) == Role::Recv as u32
    }

    /// Whether receives are in flight until consumed.
    #[inline]
    pub fn retires_consumed(&self) -> bool {
        self.life.load(Relaxed) & life::RETIRES_CONSUMED != 0
    }

    #[inline]
    fn retired(&self) -> u64 {
        if self.retires_consumed() {
            self.consumed.load(Relaxed)
        } else {
            self.done.load(Relaxed)
        }
    }

    /// Sets the time of the last change to `now_ns`, unless that is earlier. Returns it.
    #[inline]
    fn changed(&self, now_ns: u64) -> u64 {
        let now_ns = now_ns.max(self.last_change_ns.load(Relaxed));
        self.last_change_ns.store(now_ns, Relaxed);
        if self.thread.load(Relaxed) == 0 {
            self.note_thread();
        }
        now_ns
    }

    /// Notes the calling thread, whose id the kernel is asked for if its tag is another than the noted one.
    #[cold]
    fn note_thread(&self) {
        let tag = u32::from(thread_tag()) << format::THREAD_ID_BITS;
        let noted = self.thread.load(Relaxed);
        if noted == 0 || noted >> format::THREAD_ID_BITS != tag >> format::THREAD_ID_BITS {
            self.thread.store(tag | thread::id(), Relaxed);
        }
    }

    /// Opens the slot for a comm. It must be free, or cleared by `rewrite`.
    pub(crate) fn begin(&self, opening: &Opening, generation: u32, now_ns: u64) {
        self.comm.store(opening.comm as u64, Relaxed);
        self.device.store(opening.device, Relaxed);
        self.role.store(opening.role as u32, Relaxed);
        self.channel.store(NO_CHANNEL, Relaxed);
        self.set_addresses(&opening.addresses);
        self.first_event.store(self.events.load(Relaxed), Relaxed);
        self.last_change_ns.store(now_ns, Relaxed);
        self.opened_ns.store(now_ns, Relaxed);
        let retires = if opening.retires_consumed {
            life::RETIRES_CONSUMED
        } else {
            0
        };
        self.life.store(
            u64::from(generation) << life::GENERATION_SHIFT | retires | life::OPEN,
            Release,
        );
    }

    /// Closes the slot, after calling `event` with the time.
    pub(crate) fn end(&self, now_ns: u64, event: impl FnOnce(u64)) {
        let now_ns = self.changed(now_ns);
        self.closed_ns.store(now_ns, Relaxed);
        event(now_ns);
        let life = self.life.load(Relaxed);
        self.life.store(life & !life::STATE | life::CLOSED, Release);
    }

    /// Whether the comm of the slot was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.life.load(Acquire) & life::STATE == life::CLOSED
    }

    /// Clears a closed slot for another comm. Returns its generation.
    pub(crate) fn rewrite(&self) -> u32 {
        let before = self.life.load(Acquire);
        self.life
            .store(before & !life::STATE | life::REWRITTEN, Release);
        // A copy of the cleared slot must not be mistaken for the old comm's.
        fence(Release);
        self.clear();
        ((before >> life::GENERATION_SHIFT) as u32).wrapping_add(1)
    }

    /// Sets the engine's channel number.
    pub(crate) fn set_channel(&self, channel: u32) {
        self.channel.store(channel, Relaxed);
    }

    /// Sets the connection of an endpoint that the comm is part of.
    pub(crate) fn set_connection(&self, connection: u64) {
        self.connection.store(connection, Relaxed);
    }

    /// Sets the operation whose message is posted next.
    #[inline]
    pub(crate) fn set_operation(&self, kind: OperationKind, number: u64) {
        self.operation.store(number << 8 | kind as u64, Relaxed);
    }

    /// Zeroes everything except `life` and `events`.
    fn clear(&self) {
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
            &self.polls_from_ns,
            &self.polls_from_tests,
            &self.polls_until_ns,
            &self.polls_until_tests,
            &self.connection,
            &self.operation,
        ];
        let arrays = [
            &self.errors[..],
            &self.post_ns,
            &self.post_bytes,
            &self.latency,
            &self.local,
            &self.peer,
            &self.ctrl,
        ];
        for word in words.into_iter().chain(arrays.into_iter().flatten()) {
            word.store(0, Relaxed);
        }
        self.device.store(0, Relaxed);
        self.role.store(0, Relaxed);
        self.channel.store(0, Relaxed);
        self.thread.store(0, Relaxed);
    }
}

/// The bit of a request in `pending`.
#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % POSTS as u64)
}

/// Adds with a plain load and store, because there is a single writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Packs a failed call into one word, so that readers see a matching code and call.
pub(crate) fn pack_error(call: Call, code: i32) -> u64 {
    (call as u64) << 32 | u64::from(code as u32)
}

/// Where the fields are in the file. A reader of memory copies them; the atomics of loom are larger.
macro_rules! stands_at {
    ($($field:ident $at:ident,)*) => {
        #[cfg(not(all(test, loom)))]
        const _: () = {
            assert!(size_of::<Slot>() == format::SLOT_BYTES);
            $(assert!(offset_of!(Slot, $field) == channel::$at);)*
            // Every field is listed, which only loom's model needs.
            let _: fn(&Slot) = |Slot { $($field: _,)* }| {};
        };

        #[cfg(all(test, any(loom, miri)))]
        impl crate::in_file::InFile for Slot {
            const BYTES: usize = format::SLOT_BYTES;

            #[cfg(loom)]
            fn zeroed() -> Self {
                Self {
                    $($field: crate::in_file::InFile::zeroed(),)*
                }
            }

            fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
                $(self.$field.copy(at + channel::$at, from, to);)*
            }
        }
    };
}

stands_at! {
    life LIFE,
    in_call IN_CALL,
    tests TESTS,
    tests_not_done TESTS_NOT_DONE,
    pending PENDING,
    consumed CONSUMED,
    done DONE,
    posted POSTED,
    unpacked UNPACKED,
    in_flight_high_water IN_FLIGHT_HIGH_WATER,
    bytes_done BYTES_DONE,
    bytes_posted BYTES_POSTED,
    last_change_ns LAST_CHANGE_NS,
    events EVENTS,
    latency_max_ns LATENCY_MAX_NS,
    flags FLAGS,
    comm COMM,
    device DEVICE,
    role ROLE,
    channel CHANNEL,
    thread THREAD,
    opened_ns OPENED_NS,
    closed_ns CLOSED_NS,
    null_requests NULL_REQUESTS,
    flushes FLUSHES,
    first_event FIRST_EVENT,
    errors ERRORS,
    last_error LAST_ERROR,
    last_error_ns LAST_ERROR_NS,
    polls_from_ns POLLS_FROM_NS,
    polls_from_tests POLLS_FROM_TESTS,
    polls_until_ns POLLS_UNTIL_NS,
    polls_until_tests POLLS_UNTIL_TESTS,
    post_ns POST_NS,
    post_bytes POST_BYTES,
    latency LATENCY,
    local LOCAL,
    peer PEER,
    ctrl CTRL,
    connection CONNECTION,
    operation OPERATION,
}
