//! The thread pointer. Reading it takes one instruction, while a thread-local variable of a
//! shared object costs a call.
#![expect(unsafe_code, reason = "reads the thread pointer")]

#[cfg(not(miri))]
use std::arch::asm;

/// The thread pointer: the address of this thread's thread-local storage.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: the ABI keeps the thread pointer's own address in its first word.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags, pure))
    };
    pointer
}

/// The thread pointer: the address of this thread's thread-local storage.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register that every process may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags, pure))
    };
    pointer
}

/// Miri has no assembly: the address of a variable of this thread.
#[cfg(miri)]
pub(crate) fn pointer() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Kernel thread id of this thread.
#[cfg(not(miri))]
pub(crate) fn id() -> u32 {
    // SAFETY: always succeeds, touches no memory.
    unsafe { libc::gettid() as u32 }
}

/// Miri's kernel has only the process.
#[cfg(miri)]
pub(crate) fn id() -> u32 {
    std::process::id()
}
