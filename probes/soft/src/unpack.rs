//! The receive side's slots: scatter lists, published counts, the device
//! handle, and which pages each receive holds.
//!
//! Layouts are those of `tcpx_abi::unpack`. A slot is taken by the first header
//! of a receive and given back when it is consumed, both in order, so the slot
//! of the k-th receive is k mod 16. Entries are appended as task chunks finish,
//! which with several sockets is not their order in the message.
//!
//! A slot can never be missing here: a receive keeps its request for at least
//! as long as its slot, and there are sixteen of each. TCPX's line about it
//! (`no more socket direct task queue slot`) therefore never appears.
#![expect(unsafe_code, reason = "scatter lists are read by the caller while we hold them")]

use crate::lane::{Memory, Task};
use crate::pages::{PAGE, PagePool};
use crate::queue::SLOTS;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Release};
use tcpx_abi::unpack::{ENTRIES, LoadMeta, Slot, UnpackHandle, UnpackMeta};

/// No page: reserved, but nothing has arrived for it.
const NO_PAGE: u32 = u32::MAX;

/// All slots of one receive comm.
pub struct Unpack {
    meta: NonNull<UnpackMeta>,
    handle: NonNull<UnpackHandle>,
    /// Page numbers, `ENTRIES` per slot.
    pages: NonNull<u32>,
    /// How many of them are reserved, per slot.
    reserved: [usize; SLOTS],
    pool: Option<&'static PagePool>,
    head: u64,
    tail: u64,
}

// SAFETY: owns its memory; readers outside are told when by `cnt`.
unsafe impl Send for Unpack {}

impl Unpack {
    /// Empty slots over `pool`. The large tables are touched only when used.
    pub fn new(pool: Option<&'static PagePool>) -> Self {
        // SAFETY: numbers only, for which zero is a value.
        let meta = unsafe { Box::<UnpackMeta>::new_zeroed().assume_init() };
        // SAFETY: as above.
        let pages = unsafe { Box::<[u32; SLOTS * ENTRIES]>::new_zeroed().assume_init() };
        let meta = NonNull::from(Box::leak(meta));
        let bounce_buf = pool.map_or(ptr::null_mut(), |pool| pool.base().as_ptr().cast());
        let handle = Box::new(UnpackHandle { meta: meta.as_ptr(), bounce_buf, head: !0 });
        let (handle, pages) = (NonNull::from(Box::leak(handle)), NonNull::from(Box::leak(pages)).cast());
        Self { meta, handle, pages, reserved: [0; SLOTS], pool, head: 0, tail: 0 }
    }

    /// What the caller's device handle points to.
    pub fn handle(&self) -> *mut c_void {
        self.handle.as_ptr().cast()
    }

    /// Consumed and allocated slots so far.
    pub fn head_and_tail(&self) -> (u64, u64) {
        (self.head, self.tail)
    }

    /// Gives the next slot to a receive.
    pub fn open(&mut self, slot: &mut Slot) {
        let index = (self.tail % SLOTS as u64) as usize;
        self.tail += 1;
        self.reserved[index] = 0;
        let meta = self.meta.as_ptr();
        slot.active = 1;
        slot.idx = index as u64;
        // SAFETY: an element of the table we own.
        slot.mem = unsafe { &raw mut (*meta).mem[index][0] };
        // SAFETY: as above.
        slot.cnt = unsafe { &raw mut (*meta).cnt[index] };
        slot.cnt_cache = 0;
        // Whoever reads too early finds nothing rather than an old count.
        self.store_count(index, 0);
    }

    /// Room for the page numbers of one task of `length` bytes, or the number
    /// of pages that the receive would have needed.
    pub fn reserve(&mut self, slot: &Slot, length: usize) -> Result<*mut u32, usize> {
        let index = slot.idx as usize % SLOTS;
        let first = self.reserved[index];
        let count = length.div_ceil(PAGE);
        if first + count > ENTRIES {
            return Err(first + count);
        }
        self.reserved[index] = first + count;
        // SAFETY: inside the table: `index < SLOTS`, `first + count <= ENTRIES`.
        let start = unsafe { self.pages.add(index * ENTRIES + first) };
        for offset in 0..count {
            // SAFETY: as above.
            let entry = unsafe { start.add(offset) };
            // SAFETY: as above; no mover has these entries yet.
            unsafe { entry.write(NO_PAGE) };
        }
        Ok(start.as_ptr())
    }

    /// Appends the pages of a finished task to its receive's scatter list.
    pub fn append(&mut self, slot: &mut Slot, task: &Task) {
        let Memory::Pages(pages) = task.memory else { return };
        for offset in 0..task.length.div_ceil(PAGE) {
            // SAFETY: `reserve` made room for every page of the task.
            let entry = unsafe { pages.add(offset) };
            // SAFETY: as above; the mover has handed the task back.
            let page = unsafe { entry.read() };
            let piece = LoadMeta {
                src_off: page * PAGE as u32,
                len: (task.length - offset * PAGE).min(PAGE) as u32,
                dst_off: (task.offset + offset * PAGE) as u64,
            };
            // SAFETY: entries never outnumber the reserved pages of the slot.
            let place = unsafe { slot.mem.add(slot.cnt_cache as usize) };
            // SAFETY: as above; the count that covers it is not published yet.
            unsafe { place.write(piece) };
            slot.cnt_cache += 1;
        }
    }

    /// The first byte of the `offset`-th byte of a task in pages.
    pub fn byte_of(&self, pages: *mut u32, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller asks within the task, for which room was reserved.
        let entry = unsafe { pages.add(offset / PAGE) };
        // SAFETY: as above.
        let start = self.pool?.at(unsafe { entry.read() })?;
        // SAFETY: stays inside the page.
        Some(unsafe { start.add(offset % PAGE) })
    }

    /// Lets readers see a finished receive's scatter list.
    pub fn publish(&self, slot: &Slot) {
        self.store_count(slot.idx as usize % SLOTS, slot.cnt_cache);
    }

    /// Gives back the oldest slot and its pages.
    pub fn close(&mut self, slot: &mut Slot) {
        self.return_pages(slot.idx as usize % SLOTS);
        slot.active = 0;
        self.head += 1;
    }

    fn store_count(&self, index: usize, count: u64) {
        // SAFETY: an element of the table we own.
        let place = unsafe { &raw mut (*self.meta.as_ptr()).cnt[index] };
        // SAFETY: aligned, and everyone who shares it reads it atomically.
        unsafe { AtomicU64::from_ptr(place) }.store(count, Release);
    }

    fn return_pages(&mut self, index: usize) {
        let Some(pool) = self.pool else { return };
        for offset in 0..std::mem::take(&mut self.reserved[index]) {
            // SAFETY: inside the table, as in `reserve`.
            let entry = unsafe { self.pages.add(index * ENTRIES + offset) };
            // SAFETY: as above; written by `reserve` or by the mover.
            let page = unsafe { entry.read() };
            if page != NO_PAGE {
                pool.give_back(page);
            }
        }
    }
}

impl Drop for Unpack {
    fn drop(&mut self) {
        for index in 0..SLOTS {
            self.return_pages(index);
        }
        // SAFETY: made by `Box::leak` in `new`, freed once.
        drop(unsafe { Box::from_raw(self.meta.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.handle.as_ptr()) });
        // SAFETY: as above, with the type it was made with.
        drop(unsafe { Box::from_raw(self.pages.cast::<[u32; SLOTS * ENTRIES]>().as_ptr()) });
    }
}
