//! The receive page pool of a process, which holds the payload of device receives until they are
//! unpacked.
//!
//! It corresponds to the GPU page pool that TCPX imports. Pages have 4 KiB, are handed out in an
//! order shuffled by a seed, and are freed only when a receive is consumed. While the pool is
//! empty nothing is received. A page is poisoned when it is freed, so a caller that consumes
//! before unpacking reads data that is provably wrong.
//!
//! With a GPU the pool is in GPU memory, followed by one page of poison, which the GPU copies to
//! freed pages. Sockets write to pinned host memory with the same layout, from which the GPU
//! fetches the received pages. Such a pool is shuffled in runs of pages, because copy engines are
//! faster than kernels, and work on rows of bytes. Messages that are not whole runs break runs up.
//!
//! The free list is a lock-free stack of page numbers, because comms of several threads share
//! the pool and neither posting nor testing may wait for a lock. The pages of a whole task are
//! taken, and those of a whole receive freed, by one change of the stack: one change per page is
//! four accesses per 4 KiB to a cache line that all threads want. Memory is touched only when it
//! is used.
#![expect(unsafe_code, reason = "maps memory and hands out raw pages of it")]

use crate::cuda::{Gpu, Stream};
use crate::failed::Failed;
use crate::fault::scatter;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Bytes of one page.
pub(crate) const PAGE: usize = 4096;
/// Value of every byte of a freed page.
pub(crate) const POISON: u8 = 0xDB;

/// Pages of a run of a pool in GPU memory.
const RUN: u32 = 64;

/// The end of the free list.
const NONE: u32 = u32::MAX;

/// The pool.
pub(crate) struct PagePool {
    base: NonNull<u8>,
    /// The GPU that has the pool, and the pool's address there.
    device: Option<(&'static Gpu, u64)>,
    /// `next[page]` is the page below `page` on the stack.
    next: Box<[AtomicU32]>,
    /// The top page in the low half, and a count of changes in the high half, which prevents the
    /// ABA problem.
    top: AtomicU64,
}

// SAFETY: the memory is shared on purpose; a page belongs to whoever took it.
unsafe impl Send for PagePool {}
// SAFETY: as above; the list itself is atomic.
unsafe impl Sync for PagePool {}

impl PagePool {
    /// A pool of `bytes` bytes, rounded down to whole pages, in an order that depends on `seed`.
    pub(crate) fn new(bytes: usize, seed: u64) -> io::Result<Self> {
        let pages = (bytes / PAGE).clamp(1, NONE as usize - 1);
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new anonymous mapping, placed by the kernel.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                pages * PAGE,
                protection,
                flags | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::over(base, None, pages, seed))
    }

    /// As `new`, in the memory of a GPU.
    pub(crate) fn on_gpu(gpu: &'static Gpu, bytes: usize, seed: u64) -> Result<Self, Failed> {
        // One page less, so that the poison page has a 32-bit offset, too.
        let pages = (bytes / PAGE).clamp(1, u32::MAX as usize / PAGE - 1);
        let base = gpu.pinned(pages * PAGE)?;
        let at = gpu.allocate((pages + 1) * PAGE)?;
        let poison = [POISON; PAGE];
        // SAFETY: the last page of the allocation.
        unsafe { Stream::new(gpu)?.copy_in(at + (pages * PAGE) as u64, poison.as_ptr(), PAGE) }?;
        Ok(Self::over(base, Some((gpu, at)), pages, seed))
    }

    fn over(
        base: NonNull<u8>,
        device: Option<(&'static Gpu, u64)>,
        pages: usize,
        seed: u64,
    ) -> Self {
        let next = (0..pages).map(|_| AtomicU32::new(NONE)).collect();
        let pool = Self {
            base,
            device,
            next,
            top: AtomicU64::new(u64::from(NONE)),
        };
        let run = if pool.device.is_some() { RUN } else { 1 };
        pool.push(&shuffled(pages as u32, run, seed));
        pool
    }

    /// The address to which `src_off` of scatter entries is relative, of the host or the GPU.
    pub(crate) fn published(&self) -> *mut u8 {
        self.device
            .map_or(self.base.as_ptr(), |(_, at)| at as *mut u8)
    }

    /// The host memory to which sockets write.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The GPU that has the pool, and the pool's address there.
    pub(crate) fn device(&self) -> Option<(&'static Gpu, u64)> {
        self.device
    }

    /// Offset of the poison page in a pool on a GPU.
    pub(crate) fn poison(&self) -> u32 {
        (self.next.len() * PAGE) as u32
    }

    /// Number of free pages.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        let top = self.top.load(Acquire) as u32;
        let below = |page: &u32| Some(self.next.get(*page as usize)?.load(Relaxed));
        std::iter::successors(Some(top), below).count() - 1
    }

    /// The first byte of `page`, or `None` if there is no such page.
    pub(crate) fn at(&self, page: u32) -> Option<NonNull<u8>> {
        let fits = (page as usize) < self.next.len();
        // SAFETY: the page lies in the mapping, whose length is all pages'.
        fits.then(|| unsafe { self.base.add(page as usize * PAGE) })
    }

    /// Takes as many pages as `pages` has places, or as many as there are. Returns their number.
    pub(crate) fn take(&self, pages: &mut [u32]) -> usize {
        let mut top = self.top.load(Acquire);
        loop {
            // Another thread may change the list meanwhile; `top` then differs, and counts.
            let (mut below, mut count) = (top as u32, 0);
            for place in &mut *pages {
                let Some(next) = self.next.get(below as usize) else {
                    break;
                };
                *place = below;
                below = next.load(Relaxed);
                count += 1;
            }
            if count == 0 {
                return 0;
            }
            match self
                .top
                .compare_exchange_weak(top, changed(top, below), AcqRel, Acquire)
            {
                Ok(_) => return count,
                Err(now) => top = now,
            }
        }
    }

    /// Poisons pages in host memory and frees them.
    pub(crate) fn give_back(&self, pages: &[u32]) {
        for start in pages.iter().filter_map(|page| self.at(*page)) {
            // SAFETY: the page is in the mapping, and its taker gives it up.
            unsafe { start.write_bytes(POISON, PAGE) };
        }
        self.push(pages);
    }

    /// Frees pages that are already poisoned. The first is taken next.
    pub(crate) fn push(&self, pages: &[u32]) {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
            return;
        };
        for pair in pages.windows(2) {
            self.next[pair[0] as usize].store(pair[1], Relaxed);
        }
        let mut top = self.top.load(Relaxed);
        loop {
            self.next[*last as usize].store(top as u32, Relaxed);
            match self
                .top
                .compare_exchange_weak(top, changed(top, *first), AcqRel, Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        if let Some((gpu, at)) = self.device {
            gpu.free_pinned(self.base);
            return gpu.free(at);
        }
        // SAFETY: the mapping made in `new`, with its length; pages die with it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.next.len() * PAGE) };
    }
}

/// The value of `top` after a change that makes `page` the top.
fn changed(top: u64, page: u32) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | u64::from(page)
}

/// Page numbers in runs of `run`, in an order that depends on `seed`.
fn shuffled(pages: u32, run: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pages.div_ceil(run)).collect();
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = scatter(state);
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    let run_of = |number| number * run..pages.min((number + 1) * run);
    order.into_iter().flat_map(run_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Takes one page.
    fn one(pool: &PagePool) -> Option<u32> {
        let mut page = [0];
        (pool.take(&mut page) == 1).then_some(page[0])
    }

    #[test]
    fn every_page_is_handed_out_once_and_the_order_follows_the_seed() {
        let order = |seed| {
            let pool = PagePool::new(64 * PAGE, seed).unwrap();
            std::iter::from_fn(|| one(&pool)).collect::<Vec<u32>>()
        };
        assert_eq!(order(1).len(), 64);
        assert_eq!(order(1).iter().collect::<HashSet<_>>().len(), 64);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert!(
            order(0)
                .windows(2)
                .filter(|pair| pair[1] == pair[0] + 1)
                .count()
                < 8,
            "pages lie in order"
        );
    }

    #[test]
    fn runs_of_pages_are_shuffled_whole_and_the_last_may_be_short() {
        let order = shuffled(4 * 16 + 3, 4, 1);
        let runs: Vec<&[u32]> = order.chunk_by(|page, next| page + 1 == *next).collect();
        assert!(runs.len() > 8, "{order:?}");
        assert!(runs.iter().all(|run| run[0].is_multiple_of(4)), "{order:?}");
        assert_eq!(order.iter().collect::<HashSet<_>>().len(), order.len());
        assert_eq!(order.iter().max(), Some(&66));
    }

    #[test]
    fn many_pages_are_taken_as_one_by_one_and_no_more_than_there_are() {
        let by_one = PagePool::new(8 * PAGE, 5).unwrap();
        let order: Vec<u32> = std::iter::from_fn(|| one(&by_one)).collect();
        let pool = PagePool::new(8 * PAGE, 5).unwrap();
        let mut pages = [0; 16];
        assert_eq!((pool.take(&mut pages[..3]), pool.free()), (3, 5));
        assert_eq!((pool.take(&mut pages[3..]), pool.free()), (5, 0));
        assert_eq!((pool.take(&mut pages[8..]), &pages[..8]), (0, &order[..]));
        pool.push(&pages[..8]);
        assert_eq!(pool.free(), 8);
        assert_eq!(one(&pool), Some(order[0]));
        pool.push(&[]);
        assert_eq!((pool.take(&mut []), pool.free()), (0, 7));
    }

    #[test]
    fn a_page_given_back_is_poisoned_and_can_be_taken_again() {
        let pool = PagePool::new(PAGE, 0).unwrap();
        let page = one(&pool).unwrap();
        assert_eq!((one(&pool), pool.free()), (None, 0));
        let start = pool.at(page).unwrap();
        // SAFETY: the page is ours until it goes back.
        unsafe { start.write(7) };
        pool.give_back(&[page]);
        // SAFETY: the mapping lives as long as the pool.
        assert_eq!(unsafe { start.read() }, POISON);
        assert_eq!(one(&pool), Some(page));
        assert_eq!(pool.at(1), None);
    }

    #[test]
    fn two_threads_never_hold_the_same_page() {
        let pool = PagePool::new(32 * PAGE, 3).unwrap();
        let owners: Vec<AtomicU32> = (0..32).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for me in 1..=2 {
                let (pool, owners) = (&pool, &owners);
                scope.spawn(move || {
                    let mut pages = [0; 20];
                    for round in 0..20_000 {
                        let taken = pool.take(&mut pages[..1 + round % 20]);
                        for page in &pages[..taken] {
                            assert_eq!(owners[*page as usize].swap(me, AcqRel), 0);
                        }
                        for page in &pages[..taken] {
                            assert_eq!(owners[*page as usize].swap(0, AcqRel), me);
                        }
                        pool.push(&pages[..taken]);
                    }
                });
            }
        });
        assert_eq!(pool.free(), 32);
    }
}
