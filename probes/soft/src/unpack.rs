//! The scatter slots of a receive comm: scatter lists, published counts, the device handle, and
//! the pages that each receive holds.
//!
//! Layouts are those of `tcpx_abi::unpack`. The first header of a receive takes a slot and its
//! consume frees the slot, both in order, so the slot of the k-th receive is k mod 16. Entries
//! are appended as task chunks finish, which with several sockets is not their order in the
//! message.
//!
//! With the pool on a GPU, lists and counts are in pinned memory and the handle is in GPU memory,
//! as in the real plugin. The GPU fetches pages as soon as their task chunks have finished, and a
//! receive is published once it has fetched all of them. It poisons the pages of consumed
//! receives while the caller goes on; they are free again once it has. One poisoning is under way
//! at a time, and those that are consumed meanwhile are poisoned together after it.
//!
//! There is always a free slot: a receive keeps its request for at least as long as its slot, and
//! there are sixteen of each. So TCPX's line `no more socket direct task queue slot` never
//! appears.
#![expect(
    unsafe_code,
    reason = "scatter lists are read by the caller while we hold them"
)]

use crate::cuda::{Gpu, Mark, Piece, Stream};
use crate::failed::Failed;
use crate::lane::{Memory, Task};
use crate::pages::{PAGE, PagePool};
use crate::queue::SLOTS;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use tcpx_abi::unpack::{ENTRIES, LoadMeta, Slot, UnpackHandle, UnpackMeta};

/// A reserved page number for which nothing has arrived.
const NO_PAGE: u32 = u32::MAX;

/// The scatter slots of one receive comm.
pub(crate) struct Unpack {
    meta: NonNull<UnpackMeta>,
    handle: NonNull<UnpackHandle>,
    gpu: Option<OnGpu>,
    /// Page numbers, `ENTRIES` per slot.
    pages: NonNull<u32>,
    /// Number of reserved page numbers, per slot.
    reserved: [usize; SLOTS],
    pool: Option<&'static PagePool>,
    head: u64,
    tail: u64,
}

// SAFETY: owns its memory; readers outside are told when by `cnt`.
unsafe impl Send for Unpack {}

/// The GPU resources of a comm.
struct OnGpu {
    /// Fetches the pages of receives.
    stream: Stream,
    /// Poisons pages, without waiting for the fetches of later receives.
    poisons: Stream,
    /// The batch under way, and the one to which consumed receives are added.
    batches: [Batch; 2],
    /// Index of the batch under way.
    under_way: usize,
    /// Device address of the pool.
    pool: u64,
    /// Device address of the unpack handle.
    handle: u64,
    /// `ENTRIES` pieces per slot, pinned: what the GPU fetches.
    lists: NonNull<Piece>,
    fetches: [Fetch; SLOTS],
}

/// Pages that the GPU poisons together.
struct Batch {
    pages: Vec<u32>,
    /// `BATCH` pieces, pinned.
    list: NonNull<Piece>,
    /// The poisoning, if it was started.
    mark: Option<Mark>,
}

/// Pages of a run, on average, from which copy engines fetch a receive and not a kernel, which takes one
/// call of the driver.
const RUN_PAGES: usize = 32;

/// Most pages of a batch: those of all slots.
const BATCH: usize = SLOTS * ENTRIES;

/// How much of a receive the GPU was told to fetch.
#[derive(Clone, Copy, Default)]
struct Fetch {
    /// Entries of the scatter list.
    entries: usize,
    /// The last of the fetches.
    last: Option<Mark>,
}

impl Unpack {
    /// Empty slots over `pool`. The large tables are touched only when they are used.
    pub(crate) fn new(pool: Option<&'static PagePool>) -> Self {
        // SAFETY: numbers only, for which zero is a value.
        let meta = unsafe { Box::<UnpackMeta>::new_zeroed().assume_init() };
        // SAFETY: as above.
        let pages = unsafe { Box::<[u32; SLOTS * ENTRIES]>::new_zeroed().assume_init() };
        let meta = NonNull::from(Box::leak(meta));
        let bounce_buf = pool.map_or(ptr::null_mut(), |pool| pool.published().cast());
        let handle = Box::new(UnpackHandle {
            meta: meta.as_ptr(),
            bounce_buf,
            head: !0,
        });
        let (handle, pages) = (
            NonNull::from(Box::leak(handle)),
            NonNull::from(Box::leak(pages)).cast(),
        );
        Self {
            meta,
            handle,
            gpu: None,
            pages,
            reserved: [0; SLOTS],
            pool,
            head: 0,
            tail: 0,
        }
    }

    /// Empty slots over a pool in GPU memory.
    pub(crate) fn on_gpu(pool: &'static PagePool) -> Result<Self, Failed> {
        let mut made = Self::new(Some(pool));
        let Some((gpu, at)) = pool.device() else {
            return Ok(made);
        };
        let (mut stream, poisons) = (Stream::new(gpu)?, Stream::new(gpu)?);
        let lists = gpu.pinned(SLOTS * ENTRIES * size_of::<Piece>())?.cast();
        let handle = gpu.allocate(size_of::<UnpackHandle>())?;
        let meta = gpu.pinned(size_of::<UnpackMeta>())?.cast();
        // SAFETY: made by `Box::leak` in `new`, and nobody knows of it yet.
        drop(unsafe { Box::from_raw(made.meta.as_ptr()) });
        made.meta = meta;
        // SAFETY: ours; see above.
        unsafe { made.handle.as_mut() }.meta = meta.as_ptr();
        let from = made.handle.as_ptr().cast();
        // SAFETY: 24 bytes there and here.
        let copied = unsafe { stream.copy_in(handle, from, size_of::<UnpackHandle>()) };
        made.gpu = Some(OnGpu {
            stream,
            poisons,
            batches: [Batch::new(gpu)?, Batch::new(gpu)?],
            under_way: 0,
            pool: at,
            handle,
            lists,
            fetches: [Fetch::default(); SLOTS],
        });
        copied.map(|()| made)
    }

    /// The address for the caller's device handle.
    pub(crate) fn handle(&self) -> *mut c_void {
        self.gpu
            .as_ref()
            .map_or(self.handle.as_ptr().cast(), |on| on.handle as *mut c_void)
    }

    /// Number of consumed and of allocated slots so far.
    pub(crate) fn head_and_tail(&self) -> (u64, u64) {
        (self.head, self.tail)
    }

    /// Assigns the next slot to a receive.
    pub(crate) fn open(&mut self, slot: &mut Slot) -> Result<(), Failed> {
        let index = (self.tail % SLOTS as u64) as usize;
        self.tail += 1;
        if let Some(on) = &mut self.gpu {
            on.fetches[index] = Fetch::default();
        }
        self.reserved[index] = 0;
        let meta = self.meta.as_ptr();
        slot.active = 1;
        slot.idx = index as u64;
        // SAFETY: an element of the table we own.
        slot.mem = unsafe { &raw mut (*meta).mem[index][0] };
        // SAFETY: as above.
        slot.cnt = unsafe { &raw mut (*meta).cnt[index] };
        slot.cnt_cache = 0;
        // A caller that reads too early finds 0 instead of an old count.
        self.store_count(index, 0);
        Ok(())
    }

    /// Reserves room for the page numbers of a task of `length` bytes. The error is the number of
    /// pages that the receive would need.
    pub(crate) fn reserve(&mut self, slot: &Slot, length: usize) -> Result<*mut u32, usize> {
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
    pub(crate) fn append(&mut self, slot: &mut Slot, task: &Task) {
        let Memory::Pages(pages) = task.memory else {
            return;
        };
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

    /// The address of byte `offset` of a task in pages.
    pub(crate) fn byte_of(&self, pages: *mut u32, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller asks within the task, for which room was reserved.
        let entry = unsafe { pages.add(offset / PAGE) };
        // SAFETY: as above.
        let start = self.pool?.at(unsafe { entry.read() })?;
        // SAFETY: stays inside the page.
        Some(unsafe { start.add(offset % PAGE) })
    }

    /// Has the GPU fetch the pages of a receive that were appended since the last call.
    pub(crate) fn fetch(&mut self, slot: &Slot) -> Result<(), Failed> {
        let (Some(on), Some(pool)) = (&mut self.gpu, self.pool) else {
            return Ok(());
        };
        let index = slot.idx as usize % SLOTS;
        let (first, count) = (on.fetches[index].entries, slot.cnt_cache as usize);
        if first >= count {
            return Ok(());
        }
        // SAFETY: an entry of the slot.
        let start = unsafe { slot.mem.add(first) };
        // SAFETY: entries of the slot that were written; they are not written again until it is consumed.
        let list = unsafe { slice::from_raw_parts(start, count - first) };
        let (base, on_gpu) = (pool.base().as_ptr().cast_const(), on.pool);
        let runs = || {
            list.chunk_by(|one, next| one.src_off + one.len == next.src_off)
                .map(|run| {
                    let from = run[0].src_off as usize;
                    let bytes = run.iter().map(|piece| piece.len as usize).sum::<usize>();
                    (base.wrapping_add(from), on_gpu + from as u64, bytes)
                })
        };
        let last = if runs().count() * RUN_PAGES <= list.len().next_multiple_of(RUN_PAGES) {
            // SAFETY: the pages are the slot's until it is consumed.
            unsafe { on.stream.copy_runs(runs()) }?
        } else {
            for (entry, piece) in (first..count).zip(list) {
                let to = on_gpu + u64::from(piece.src_off);
                on.put(
                    index,
                    entry,
                    Piece {
                        from: piece.src_off,
                        len: piece.len,
                        to,
                    },
                );
            }
            // SAFETY: the list is pinned; the pages are the slot's until it is consumed.
            unsafe {
                on.stream
                    .gather(base as u64, on.list(index, first), list.len() as u32)
            }?
        };
        on.fetches[index] = Fetch {
            entries: count,
            last: Some(last),
        };
        Ok(())
    }

    /// Whether the GPU has fetched all pages of a receive.
    pub(crate) fn is_fetched(&self, slot: &Slot) -> Result<bool, Failed> {
        let Some(on) = &self.gpu else {
            return Ok(true);
        };
        match on.fetches[slot.idx as usize % SLOTS].last {
            Some(last) => on.stream.has_passed(last),
            None => Ok(true),
        }
    }

    /// Publishes a finished receive's scatter list.
    pub(crate) fn publish(&self, slot: &Slot) {
        self.store_count(slot.idx as usize % SLOTS, slot.cnt_cache);
    }

    /// Compares a finished receive's pages with its destination, which starts at `to`. Returns how
    /// many bytes differ, and the first of them in the message.
    pub(crate) fn differences(
        &mut self,
        slot: &Slot,
        to: *mut c_void,
        size: usize,
    ) -> Result<Option<(usize, usize)>, Failed> {
        let Some(pool) = self.pool else {
            return Ok(None);
        };
        let copy = match &mut self.gpu {
            Some(on) => Some(Pinned::of(&mut on.stream, to as u64, size)?),
            None => None,
        };
        let start = copy.as_ref().map_or(to.cast(), |copy| copy.at.as_ptr());
        let (mut wrong, mut first) = (0, usize::MAX);
        for entry in 0..slot.cnt_cache as usize {
            // SAFETY: an entry of the slot that was written.
            let at = unsafe { slot.mem.add(entry) };
            // SAFETY: as above.
            let piece = unsafe { at.read() };
            let (offset, length) = (piece.dst_off as usize, piece.len as usize);
            // SAFETY: `piece` is a page of the pool that the receive holds.
            let page = unsafe { pool.base().add(piece.src_off as usize) };
            // SAFETY: as above.
            let sent = unsafe { slice::from_raw_parts(page.as_ptr(), length) };
            // SAFETY: the pieces of a message lie inside its size, and the posted buffer is as long.
            let place = unsafe { start.add(offset) };
            // SAFETY: as above; the caller gives the receive back, so nothing writes there.
            let there = unsafe { slice::from_raw_parts(place, length) };
            if sent == there {
                continue;
            }
            for (byte, _) in sent
                .iter()
                .zip(there)
                .enumerate()
                .filter(|(_, (a, b))| a != b)
            {
                wrong += 1;
                first = first.min(offset + byte);
            }
        }
        Ok((wrong > 0).then_some((wrong, first)))
    }

    /// Frees the oldest slot, and its pages once they are poisoned.
    pub(crate) fn close(&mut self, slot: &mut Slot) -> Result<(), Failed> {
        let index = slot.idx as usize % SLOTS;
        if self.gpu.is_some() {
            self.poison(index)?;
        } else {
            self.free(index);
        }
        slot.active = 0;
        self.head += 1;
        Ok(())
    }

    /// Frees the pages that the GPU has poisoned, and has it poison those consumed meanwhile.
    pub(crate) fn reclaim(&mut self) -> Result<(), Failed> {
        let (Some(on), Some(pool)) = (&mut self.gpu, self.pool) else {
            return Ok(());
        };
        let Some(mark) = on.batches[on.under_way].mark else {
            return Ok(());
        };
        if on.poisons.has_passed(mark)? {
            on.batches[on.under_way].free(pool);
            on.start_poisoning()?;
        }
        Ok(())
    }

    fn store_count(&self, index: usize, count: u64) {
        // SAFETY: an element of the table we own.
        let place = unsafe { &raw mut (*self.meta.as_ptr()).cnt[index] };
        // SAFETY: aligned, and everyone who shares it reads it atomically.
        unsafe { AtomicU64::from_ptr(place) }.store(count, Release);
    }

    /// Waits for all work of the GPU.
    fn finish(&self) -> Result<(), Failed> {
        let Some(on) = &self.gpu else {
            return Ok(());
        };
        on.stream.finish()?;
        on.poisons.finish()
    }

    /// Has the GPU poison the pages of a slot, after those under way.
    fn poison(&mut self, index: usize) -> Result<(), Failed> {
        let (Some(on), Some(pool)) = (&mut self.gpu, self.pool) else {
            return Ok(());
        };
        let count = std::mem::take(&mut self.reserved[index]);
        // SAFETY: inside the table, as in `reserve`.
        let start = unsafe { self.pages.add(index * ENTRIES) };
        // SAFETY: written by `reserve` or by the mover, which no longer has them.
        let pages = unsafe { slice::from_raw_parts(start.as_ptr(), count) };
        if on.batches[1 - on.under_way].pages.len() + count > BATCH
            && let Some(mark) = on.batches[on.under_way].mark
        {
            on.poisons.wait(mark)?;
            on.batches[on.under_way].free(pool);
            on.start_poisoning()?;
        }
        let (base, poison) = (on.pool, pool.poison());
        let batch = &mut on.batches[1 - on.under_way];
        for page in pages.iter().filter(|page| **page != NO_PAGE) {
            batch.add(*page, base, poison);
        }
        on.start_poisoning()
    }

    /// Gives the pages of a slot back to the pool.
    fn free(&mut self, index: usize) {
        let Some(pool) = self.pool else { return };
        let reserved = std::mem::take(&mut self.reserved[index]);
        // SAFETY: inside the table, as in `reserve`.
        let start = unsafe { self.pages.add(index * ENTRIES) };
        // SAFETY: written by `reserve` or by the mover, which no longer has them.
        let pages = unsafe { slice::from_raw_parts_mut(start.as_ptr(), reserved) };
        let mut count = 0;
        for entry in 0..reserved {
            if pages[entry] != NO_PAGE {
                pages[count] = pages[entry];
                count += 1;
            }
        }
        pool.give_back(&pages[..count]);
    }
}

/// A copy of GPU memory in pinned memory.
struct Pinned {
    gpu: &'static Gpu,
    at: NonNull<u8>,
}

impl Pinned {
    fn of(stream: &mut Stream, from: u64, bytes: usize) -> Result<Self, Failed> {
        let gpu = stream.gpu();
        let copy = Self {
            gpu,
            at: gpu.pinned(bytes)?,
        };
        // SAFETY: as long as `bytes`, and ours alone.
        unsafe { stream.copy_out(copy.at.as_ptr(), from, bytes) }?;
        stream.finish()?;
        Ok(copy)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.gpu.free_pinned(self.at);
    }
}

impl OnGpu {
    fn put(&self, slot: usize, entry: usize, piece: Piece) {
        // SAFETY: `ENTRIES` per slot, and no slot has more pages than that.
        let place = unsafe { self.lists.add(slot * ENTRIES + entry) };
        // SAFETY: as above; what was launched with this part of the list is done.
        unsafe { place.write(piece) };
    }

    /// A slot's list, from an entry on.
    fn list(&self, slot: usize, entry: usize) -> *const Piece {
        // SAFETY: as above.
        unsafe { self.lists.add(slot * ENTRIES + entry) }.as_ptr()
    }

    /// Has the GPU poison the pages of the batch to which receives are added, unless the other
    /// batch is under way.
    fn start_poisoning(&mut self) -> Result<(), Failed> {
        let next = 1 - self.under_way;
        let count = self.batches[next].pages.len() as u32;
        if count == 0 || self.batches[self.under_way].mark.is_some() {
            return Ok(());
        }
        let list = self.batches[next].list.as_ptr();
        // SAFETY: the list is pinned; it and the pages are the batch's until the mark has passed.
        let mark = unsafe { self.poisons.gather(self.pool, list, count) }?;
        self.batches[next].mark = Some(mark);
        self.under_way = next;
        Ok(())
    }
}

impl Batch {
    fn new(gpu: &'static Gpu) -> Result<Self, Failed> {
        Ok(Self {
            pages: Vec::with_capacity(BATCH),
            list: gpu.pinned(BATCH * size_of::<Piece>())?.cast(),
            mark: None,
        })
    }

    /// Adds a page of the pool at `base`, whose poison is at offset `poison`.
    fn add(&mut self, page: u32, base: u64, poison: u32) {
        let piece = Piece {
            from: poison,
            len: PAGE as u32,
            to: base + u64::from(page) * PAGE as u64,
        };
        // SAFETY: the caller has made sure of the room.
        let place = unsafe { self.list.add(self.pages.len()) };
        // SAFETY: as above; what was launched with this list is done.
        unsafe { place.write(piece) };
        self.pages.push(page);
    }

    /// Frees the pages, which are poisoned.
    fn free(&mut self, pool: &PagePool) {
        pool.push(&self.pages);
        self.pages.clear();
        self.mark = None;
    }
}

impl Drop for Unpack {
    fn drop(&mut self) {
        // A driver that fails here was logged; nothing is under way on a failed GPU.
        let _ = self.finish();
        for index in 0..SLOTS {
            let _ = self.poison(index);
        }
        // At most two batches.
        for _ in 0..2 {
            let _ = self.finish().and_then(|()| self.reclaim());
        }
        (0..SLOTS).for_each(|index| self.free(index));
        if let Some(on) = self.gpu.take() {
            let gpu = on.stream.gpu();
            gpu.free_pinned(self.meta.cast());
            gpu.free_pinned(on.lists.cast());
            on.batches
                .iter()
                .for_each(|batch| gpu.free_pinned(batch.list.cast()));
            gpu.free(on.handle);
        } else {
            // SAFETY: made by `Box::leak` in `new`, freed once.
            drop(unsafe { Box::from_raw(self.meta.as_ptr()) });
        }
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.handle.as_ptr()) });
        // SAFETY: as above, with the type it was made with.
        drop(unsafe { Box::from_raw(self.pages.cast::<[u32; SLOTS * ENTRIES]>().as_ptr()) });
    }
}
