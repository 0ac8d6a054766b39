//! Whether this process is a fork of the one that made an endpoint: such a copy has none of the
//! endpoint's threads, so that no operation would end, and closing it would wait for threads that do not exist.
#![expect(unsafe_code, reason = "registers a function that runs in forks")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the first process with an endpoint and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that an endpoint was made in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    /// This process. Asking for its id instead would be a system call per operation.
    pub(crate) fn here() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // Without the function, a fork waits as before.
            // SAFETY: the function takes no argument, takes no lock and does not panic.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is a fork of it.
    pub(crate) fn is_elsewhere(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
