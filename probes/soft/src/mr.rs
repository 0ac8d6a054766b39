//! Memory registrations, to which mhandles point.
//!
//! A host registration checks and pins nothing and is valid for any comm, as in TCPX 3.1.9.
//! Device registrations need the device stand-in and an address aligned to 4 KiB. Like comms,
//! registrations are in memory that is reused but never freed, so a stale mhandle is detected
//! and refused.
#![expect(unsafe_code, reason = "follows the caller's mhandles")]

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, PoisonError};

const LIVE: u64 = u64::from_le_bytes(*b"tcpx mr\0");

/// A registered memory range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    /// First byte.
    pub base: usize,
    /// Bytes.
    pub length: usize,
    /// [`tcpx_abi::PTR_HOST`] or [`tcpx_abi::PTR_CUDA`].
    pub kind: c_int,
}

impl Region {
    /// Whether `length` bytes at `start` are inside the region.
    pub(crate) fn contains(&self, start: usize, length: usize) -> bool {
        let end = self.base.saturating_add(self.length);
        start >= self.base && start.checked_add(length).is_some_and(|last| last <= end)
    }
}

#[repr(C, align(64))]
struct Registration {
    magic: AtomicU64,
    region: Region,
}

struct Table {
    live: BTreeSet<usize>,
    spare: Vec<usize>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    live: BTreeSet::new(),
    spare: Vec::new(),
});

/// Registers `region` and returns its mhandle.
pub(crate) fn register(region: Region) -> *mut c_void {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = Registration {
        magic: AtomicU64::new(LIVE),
        region,
    };
    let address = match table.spare.pop() {
        None => Box::into_raw(Box::new(fresh)) as usize,
        Some(address) => {
            // SAFETY: a spare place is ours and nobody reads it.
            unsafe { (address as *mut Registration).write(fresh) };
            address
        }
    };
    table.live.insert(address);
    address as *mut c_void
}

/// Ends a registration. `false` if the mhandle is not registered.
pub(crate) fn deregister(mhandle: *mut c_void) -> bool {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let address = mhandle as usize;
    if !table.live.remove(&address) {
        return false;
    }
    // SAFETY: it was live, so it is a place of ours.
    unsafe { &*(address as *const Registration) }
        .magic
        .store(0, Release);
    table.spare.push(address);
    true
}

/// The region of an mhandle; `None` if it is not registered.
///
/// # Safety
/// A pointer that is neither null nor an mhandle, now or in the past, must at
/// least be readable.
pub(crate) unsafe fn region(mhandle: *mut c_void) -> Option<Region> {
    if mhandle.is_null() || !(mhandle as usize).is_multiple_of(align_of::<Registration>()) {
        return None;
    }
    // SAFETY: by the contract above.
    let registration = unsafe { &*mhandle.cast::<Registration>() };
    (registration.magic.load(Acquire) == LIVE).then_some(registration.region)
}

/// Whether the mhandle is registered.
#[cfg(test)]
pub(crate) fn is_live(mhandle: *mut c_void) -> bool {
    TABLE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .live
        .contains(&(mhandle as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_known_until_it_ends_and_ends_once() {
        let region_of = |mhandle| {
            // SAFETY: mhandles made in this test.
            unsafe { region(mhandle) }
        };
        let made = Region {
            base: 4096,
            length: 8192,
            kind: 1,
        };
        let mhandle = register(made);
        assert_eq!(region_of(mhandle), Some(made));
        assert!(is_live(mhandle));
        assert!(deregister(mhandle));
        assert!(!deregister(mhandle));
        assert_eq!(region_of(std::ptr::null_mut()), None);
        assert!(!deregister(17 as *mut c_void));
    }

    #[test]
    fn a_region_contains_what_lies_inside_it() {
        let region = Region {
            base: 4096,
            length: 100,
            kind: 2,
        };
        assert!(region.contains(4096, 100) && region.contains(4196, 0));
        assert!(
            !region.contains(4095, 1)
                && !region.contains(4097, 100)
                && !region.contains(usize::MAX, 2)
        );
    }
}
