//! The shared mapping of a recorder's file, and the sections in it.
//!
//! Touching a page of the mapping for which there is no memory kills the process. So callers
//! of [`Map::slot`] must have written the slot's bytes to the file before, and a ring is used
//! only after [`Map::show_ring`], which requires the same; see `write.rs`.
#![expect(
    unsafe_code,
    reason = "maps a file and shares its words with other processes"
)]

use crate::connecting::Place as Connecting;
use crate::fork::{Registration, empty_in_children};
use crate::format::{EVENT_BYTES, HEADER_BYTES, SLOT_BYTES, header};
use crate::ring::Place;
use crate::slot::Slot;
use std::fs::File;
use std::io;
#[cfg(not(miri))]
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Sizes of a file's sections, as the writer chose them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub capacity: u32,
    /// A power of two, or 0.
    pub ring_events: u32,
    pub log_entries: u32,
}

impl Shape {
    pub(crate) fn slot_offset(self, index: u64) -> u64 {
        HEADER_BYTES as u64 + index * SLOT_BYTES as u64
    }

    pub(crate) fn rings_offset(self) -> u64 {
        self.slot_offset(self.capacity.into())
            .next_multiple_of(4096)
    }

    pub(crate) fn ring_bytes(self) -> u64 {
        u64::from(self.ring_events) * EVENT_BYTES as u64
    }

    /// Offset of ring `index`. The setup ring is after the last slot's ring.
    pub(crate) fn ring_offset(self, index: u64) -> u64 {
        self.rings_offset() + index * self.ring_bytes()
    }

    pub(crate) fn log_offset(self) -> u64 {
        self.ring_offset(u64::from(self.capacity) + 1)
    }

    pub(crate) fn file_bytes(self) -> u64 {
        self.log_offset() + u64::from(self.log_entries) * crate::format::LOG_ENTRY_BYTES as u64
    }
}

#[derive(Debug)]
pub(crate) struct Map {
    base: *mut u8,
    bytes: usize,
    /// Per slot, its ring or null.
    rings: Box<[AtomicPtr<Place>]>,
    /// Events of a ring, minus one.
    ring_mask: usize,
    rings_offset: usize,
    /// Dropped before the mapping is unmapped.
    registration: Option<Registration>,
}

// SAFETY: everything behind the pointer is reached as atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(crate) fn new(file: &File, shape: Shape) -> io::Result<Self> {
        let bytes = usize::try_from(shape.file_bytes()).map_err(io::Error::other)?;
        let rings_offset = usize::try_from(shape.rings_offset()).map_err(io::Error::other)?;
        let base = map(ptr::null_mut(), bytes, 0, file)?;
        let registration = empty_in_children(base, bytes).inspect_err(|_| unmap(base, bytes))?;
        let ring_mask = (shape.ring_events as usize).saturating_sub(1);
        let rings = (0..shape.capacity).map(|_| AtomicPtr::default()).collect();
        Ok(Self {
            base,
            bytes,
            rings,
            ring_mask,
            rings_offset,
            registration: Some(registration),
        })
    }

    /// Maps another file of the same shape at the same addresses, without rings.
    pub(crate) fn replace(&self, file: &File) -> io::Result<()> {
        self.rings
            .iter()
            .for_each(|ring| ring.store(ptr::null_mut(), Release));
        map(self.base, self.bytes, libc::MAP_FIXED, file).map(drop)
    }

    pub(crate) fn header(&self) -> &[AtomicU64; HEADER_BYTES / 8] {
        // SAFETY: the mapping begins on a page and is longer than the header;
        // any bytes are valid atomics, whoever else writes them.
        unsafe { &*self.base.cast() }
    }

    /// The place of a `connect` that has given no comm.
    pub(crate) fn connecting(&self) -> &Connecting {
        // SAFETY: the mapping is longer than the header.
        let place = unsafe { self.base.add(header::CONNECT_STATE) };
        // SAFETY: the offset in the page is a multiple of 8, and the place ends before the next
        // field; any bytes are valid atomics, whoever else writes them.
        unsafe { &*place.cast::<Connecting>() }
    }

    /// A slot. `index` is below the number of slots handed out, and so within the mapping.
    #[inline]
    pub(crate) fn slot(&self, index: u16) -> &Slot {
        let offset = HEADER_BYTES + usize::from(index) * SLOT_BYTES;
        // SAFETY: `offset + SLOT_BYTES` is within the mapping, see above.
        let slot = unsafe { self.base.add(offset) };
        // SAFETY: header and slot sizes are multiples of 64, the alignment of a
        // slot; any bytes are valid atomics, whoever else writes them.
        unsafe { &*slot.cast::<Slot>() }
    }

    /// Whether the slot has a ring.
    pub(crate) fn has_ring(&self, index: u16) -> bool {
        self.rings
            .get(usize::from(index))
            .is_some_and(|ring| !ring.load(Relaxed).is_null())
    }

    /// Enables the slot's ring, whose bytes must have been written to the file.
    pub(crate) fn show_ring(&self, index: u16) {
        let Some(ring) = self.rings.get(usize::from(index)) else {
            return;
        };
        let offset = self.rings_offset + usize::from(index) * (self.ring_mask + 1) * EVENT_BYTES;
        // SAFETY: the rings lie within the mapping, one for each slot.
        let base = unsafe { self.base.add(offset) };
        ring.store(base.cast(), Release);
    }

    /// The entry of event `number` in a slot's ring, if it has a ring.
    #[inline]
    pub(crate) fn event(&self, index: u16, number: u64) -> Option<&Place> {
        let ring = self.rings.get(usize::from(index))?.load(Relaxed);
        if ring.is_null() {
            return None;
        }
        // SAFETY: a ring has one event more than the mask says, which keeps the
        // number within it.
        let place = unsafe { ring.add(number as usize & self.ring_mask) };
        // SAFETY: the rings begin on a page and a place is 32 bytes; any bytes are
        // valid atomics, whoever else writes them.
        Some(unsafe { &*place })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        drop(self.registration.take());
        unmap(self.base, self.bytes);
    }
}

/// Maps the file at an address chosen by the kernel, or with `MAP_FIXED` at `at`.
#[cfg(not(miri))]
fn map(at: *mut u8, bytes: usize, fixed: i32, file: &File) -> io::Result<*mut u8> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | fixed);
    // SAFETY: overlaps nothing, or exactly a mapping of ours that has the same size.
    let base = unsafe { libc::mmap(at.cast(), bytes, access, flags, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(base.cast())
    }
}

/// Miri has no mappings of files: empty memory of this process.
#[cfg(miri)]
fn map(_: *mut u8, bytes: usize, _: i32, _: &File) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory at an address that is free.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(base.cast())
    }
}

fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: made by `mmap` with this size; all references borrow the map.
    unsafe { libc::munmap(base.cast(), bytes) };
}
