//! The memory of comms: blocks that are reused but never freed.
//!
//! A caller's comm pointer is the address of a block, and request pointers point into it. So a
//! stale pointer leads to a magic word that marks the block as unused instead of to freed
//! memory. Calls that may be slow look the pointer up in the registry of live comms before they
//! dereference it; `isend`, `irecv`, `test` and `irecvConsumed` only check the magic word. They
//! cannot handle a pointer to memory that never was a comm, as the real plugin cannot.
#![expect(unsafe_code, reason = "turns the caller's pointers into comms")]

use crate::comm::Comm;
use crate::landing::FLUSHES;
use crate::queue::SLOTS_MAX;
use std::cell::UnsafeCell;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, PoisonError};
use tcpx_abi::unpack::Request;

const LIVE: u64 = u64::from_le_bytes(*b"tcpxsoft");
const NOBODY: u64 = 0;

/// Requests of one comm: its slots, and those of `iflush`.
pub(crate) const REQUESTS: usize = SLOTS_MAX + FLUSHES;

/// The memory of one comm. The alignment of 128 bytes makes most wild pointers detectable by
/// their low bits.
#[repr(C, align(128))]
pub(crate) struct Block {
    magic: AtomicU64,
    requests: UnsafeCell<[Request; REQUESTS]>,
    comm: UnsafeCell<Option<Comm>>,
}

struct Registry {
    live: BTreeSet<usize>,
    /// Longest unused first, so that stale pointers are detected for as long as possible.
    spare: VecDeque<usize>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    live: BTreeSet::new(),
    spare: VecDeque::new(),
});

/// Creates a comm in a block. `make` gets the block's address and its requests, which are zero
/// except for their comm.
pub(crate) fn publish(make: impl FnOnce(usize, *mut Request) -> Comm) -> *mut c_void {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let address = registry
        .spare
        .pop_front()
        .unwrap_or_else(|| Box::into_raw(Box::new(Block::empty())) as usize);
    let block = address as *mut Block;
    // SAFETY: the block is on no list and known to nobody else.
    let place = unsafe { &*block };
    let requests = place.requests.get();
    let blank = blank_request(block.cast());
    // SAFETY: as above.
    unsafe { *requests = [blank; REQUESTS] };
    let comm = make(address, requests.cast());
    // SAFETY: as above.
    unsafe { *place.comm.get() = Some(comm) };
    place.magic.store(LIVE, Release);
    registry.live.insert(address);
    block.cast()
}

/// Removes a comm from its block. `None` if the pointer is not a live comm.
pub(crate) fn retire(pointer: *mut c_void) -> Option<Comm> {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let address = pointer as usize;
    if !registry.live.remove(&address) {
        return None;
    }
    // SAFETY: it was live, so it is one of our blocks; nobody else may call with it now.
    let place = unsafe { &*(address as *const Block) };
    place.magic.store(NOBODY, Release);
    // SAFETY: as above.
    let comm = unsafe { (*place.comm.get()).take() };
    registry.spare.push_back(address);
    comm
}

/// How many comms there are.
pub(crate) fn count() -> usize {
    REGISTRY
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .live
        .len()
}

/// Whether the pointer is a live comm. Does not dereference it.
pub(crate) fn is_live(pointer: *mut c_void) -> bool {
    REGISTRY
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .live
        .contains(&(pointer as usize))
}

/// The comm at `pointer`.
///
/// # Safety
/// A pointer that is neither null nor a comm's, now or in the past, must at
/// least be readable. Calls for one comm come one at a time, as ncclNet says.
pub(crate) unsafe fn comm<'a>(pointer: *mut c_void) -> Option<&'a mut Comm> {
    if pointer.is_null() || !(pointer as usize).is_multiple_of(align_of::<Block>()) {
        return None;
    }
    // SAFETY: by the contract above.
    let place = unsafe { &*pointer.cast::<Block>() };
    if place.magic.load(Acquire) != LIVE {
        return None;
    }
    // SAFETY: live, and only one call at a time.
    unsafe { (*place.comm.get()).as_mut() }
}

/// The comm of a request, and the request's index. Indices after the slots are flushes.
///
/// # Safety
/// As for [`comm`], of `request` and of the comm it names.
pub(crate) unsafe fn owner<'a>(request: *mut c_void) -> Option<(&'a mut Comm, usize)> {
    if request.is_null() || !(request as usize).is_multiple_of(align_of::<Request>()) {
        return None;
    }
    // SAFETY: by the contract above.
    let pointer = unsafe { (*request.cast::<Request>()).comm };
    // SAFETY: by the contract above.
    let comm = unsafe { comm(pointer) }?;
    let offset = (request as usize).checked_sub(comm.requests() as usize)?;
    let (slot, rest) = (offset / size_of::<Request>(), offset % size_of::<Request>());
    (slot < REQUESTS && rest == 0).then_some((comm, slot))
}

impl Block {
    fn empty() -> Self {
        let blank = blank_request(std::ptr::null_mut());
        Self {
            magic: AtomicU64::new(NOBODY),
            requests: UnsafeCell::new([blank; REQUESTS]),
            comm: UnsafeCell::new(None),
        }
    }
}

fn blank_request(comm: *mut c_void) -> Request {
    // SAFETY: numbers and pointers, for which zero is a value.
    let zero: Request = unsafe { std::mem::zeroed() };
    Request { comm, ..zero }
}
