//! Writing events: the content of an event and its encoding in four words.
//!
//! A slot's ring is written by the slot's one writer through the mapping, with
//! plain stores; the setup ring by whichever thread made the call, one `pwrite`
//! per event. Both have the layout of [`super::format`].
//!
//! Not here: where a ring is in the file and whether it has memory, which is in `map.rs`.
#![forbid(unsafe_code)]

use super::atomic::{AtomicU64, Ordering::*};
use super::format::{Call, EVENT_BYTES, EventKind, event};
#[cfg(not(all(test, loom)))]
use std::mem::{offset_of, size_of};

/// An event without its time and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// Kind of the event.
    pub kind: EventKind,
    /// The call in which it happened.
    pub call: Call,
    /// The call's return code.
    pub code: i32,
    /// The request's number; only the lowest 32 bits are stored.
    pub request: u64,
    /// Bytes, or nanoseconds that the call took.
    pub value: u64,
}

impl Note {
    /// A request advanced; `value` is its bytes.
    #[inline]
    pub fn request(kind: EventKind, call: Call, request: u64, value: u64) -> Self {
        Self {
            kind,
            call,
            code: 0,
            request,
            value,
        }
    }

    /// A call did not return 0.
    pub fn failed(call: Call, code: i32, request: u64) -> Self {
        Self {
            kind: EventKind::Failed,
            call,
            code,
            request,
            value: 0,
        }
    }

    /// A call returned 0 after this many nanoseconds.
    pub fn called(call: Call, took_ns: u64) -> Self {
        Self {
            kind: EventKind::Called,
            call,
            code: 0,
            request: 0,
            value: took_ns,
        }
    }

    #[inline]
    fn words(&self) -> [u64; 2] {
        let value = self.value.min(event::VALUE_MAX);
        [
            self.request & u64::from(u32::MAX) | u64::from(self.code as u32) << 32,
            value
                | (self.kind as u64) << 40
                | (self.call as u64) << 48
                | u64::from(thread_tag()) << 56,
        ]
    }

    /// The event as stored in the file.
    pub(crate) fn to_bytes(self, number: u64, at_ns: u64) -> [u8; EVENT_BYTES] {
        let [middle, rest] = self.words();
        let mut bytes = [0; EVENT_BYTES];
        for (place, word) in
            bytes
                .chunks_exact_mut(8)
                .zip([number.wrapping_add(1), at_ns, middle, rest])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// One entry of a ring.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    sequence: AtomicU64,
    at_ns: AtomicU64,
    request_and_code: AtomicU64,
    rest: AtomicU64,
}

impl Place {
    /// Overwrites the entry with event `number`.
    #[inline]
    pub(crate) fn write(&self, number: u64, at_ns: u64, note: &Note) {
        let [middle, rest] = note.words();
        self.sequence.store(number.wrapping_add(1), Relaxed);
        self.at_ns.store(at_ns, Relaxed);
        self.request_and_code.store(middle, Relaxed);
        self.rest.store(rest, Relaxed);
    }

    /// Whether the entry already holds this failure, in any thread.
    pub(crate) fn holds_failure(&self, note: &Note) -> bool {
        let without_thread = (1 << 56) - 1;
        let [middle, rest] = note.words();
        let code = self.request_and_code.load(Relaxed) >> 32;
        code == middle >> 32 && self.rest.load(Relaxed) & without_thread == rest & without_thread
    }
}

/// Where the fields are in the file. A reader of memory copies them; the atomics of loom are larger.
#[cfg(not(all(test, loom)))]
const _: () = {
    assert!(size_of::<Place>() == EVENT_BYTES);
    assert!(offset_of!(Place, sequence) == event::SEQUENCE);
    assert!(offset_of!(Place, at_ns) == event::AT_NS);
    assert!(offset_of!(Place, request_and_code) == event::REQUEST);
    assert!(offset_of!(Place, rest) == event::REST);
};

#[cfg(all(test, any(loom, miri)))]
impl crate::in_file::InFile for Place {
    const BYTES: usize = EVENT_BYTES;

    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
            request_and_code: AtomicU64::new(0),
            rest: AtomicU64::new(0),
        }
    }

    fn copy(&self, at: usize, from: usize, to: &mut [u8]) {
        self.sequence.copy(at + event::SEQUENCE, from, to);
        self.at_ns.copy(at + event::AT_NS, from, to);
        self.request_and_code.copy(at + event::REQUEST, from, to);
        self.rest.copy(at + event::REST, from, to);
    }
}

/// Eight bits that usually differ between two threads: a hash of the thread pointer, which is
/// at least a page away from any other thread's.
#[inline]
pub(crate) fn thread_tag() -> u8 {
    let pointer = super::thread::pointer() as u64;
    ((pointer >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
