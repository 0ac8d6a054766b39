//! Keeps a forked child from writing into its parent's recorders. The hot path cannot afford to
//! check for a fork, so the child's copy of each mapping is replaced by private empty memory
//! while `fork` is still inside the C library. In it every slot is free, so no call of the child
//! finds its channel. The child's first set-up call gives it its own file
//! ([`crate::Recorder::settle`]).
//!
//! Children of the bare system call or of `vfork` are not covered; they call `exec`.
#![expect(unsafe_code, reason = "pthread_atfork, and mmap in the child")]

use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

/// Most mappings of one process at a time.
const MAPPINGS_MAX: usize = 64;

struct Entry {
    base: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

static ENTRIES: [Entry; MAPPINGS_MAX] = [const {
    Entry {
        base: AtomicPtr::new(ptr::null_mut()),
        bytes: AtomicUsize::new(0),
    }
}; MAPPINGS_MAX];

/// A mapping that forked children do not inherit, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration(usize);

/// Makes forked children see empty memory in place of this mapping.
pub(crate) fn empty_in_children(base: *mut u8, bytes: usize) -> io::Result<Registration> {
    static ONCE: Once = Once::new();
    // Miri has no fork.
    if !cfg!(miri) {
        ONCE.call_once(|| {
            // If registering fails for lack of memory, children are not protected.
            // SAFETY: the handler is a function of ours and makes system calls only.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
    for (index, entry) in ENTRIES.iter().enumerate() {
        if entry
            .base
            .compare_exchange(ptr::null_mut(), base, AcqRel, Relaxed)
            .is_ok()
        {
            entry.bytes.store(bytes, Release);
            return Ok(Registration(index));
        }
    }
    Err(io::Error::other(format!(
        "this process already has {MAPPINGS_MAX} recorders"
    )))
}

impl Drop for Registration {
    fn drop(&mut self) {
        ENTRIES[self.0].bytes.store(0, Release);
        ENTRIES[self.0].base.store(ptr::null_mut(), Release);
    }
}

unsafe extern "C" fn in_child() {
    for entry in &ENTRIES {
        let (base, bytes) = (entry.base.load(Acquire), entry.bytes.load(Acquire));
        if base.is_null() || bytes == 0 {
            continue;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: replaces a mapping of ours, of the same size, while this is the
        // only thread; whoever has references to it finds zeroes, valid atomics.
        unsafe {
            libc::mmap(
                base.cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
    }
}
