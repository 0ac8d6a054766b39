//! Calls a plugin's function so that an exception that leaves it ends the process as in a C++ program:
//! with its type and text on stderr.
//!
//! `__cxa_throw` looks for a handler before it unwinds anything, and calls `std::terminate`, which prints
//! both, where the search ends. A Rust function with the C ABI has such a handler, to abort with words of its own: the
//! exception is never told. So the plugin is called through a function without unwind tables, at which
//! the search ends. Debuggers find the caller of that function by its frame pointer.
//!
//! It costs 2 ns, so the calls that move messages are made directly: an exception that leaves one of those
//! is told without its text.
#![expect(unsafe_code, reason = "a function in assembly")]

use std::ffi::c_void;

/// What is called with the plugin's arguments in it, and what that returned.
struct Task<F, R> {
    call: Option<F>,
    answer: Option<R>,
}

/// Calls `call`. An exception, or a panic, that leaves it ends the process.
#[inline]
pub fn ends_here<R>(call: impl FnOnce() -> R) -> R {
    let mut task = Task {
        call: Some(call),
        answer: None,
    };
    run_without_tables(&mut task);
    match task.answer {
        Some(answer) => answer,
        // `run` has set it.
        None => std::process::abort(),
    }
}

fn run_without_tables<F: FnOnce() -> R, R>(task: &mut Task<F, R>) {
    // It may unwind, or the search would end in it, with Rust's words.
    unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(task: *mut c_void) {
        // SAFETY: the task of `run_without_tables`, which uses it only after this call.
        let task = unsafe { &mut *task.cast::<Task<F, R>>() };
        task.answer = task.call.take().map(|call| call());
    }
    let place = std::ptr::from_mut(task).cast::<c_void>();
    // SAFETY: `run` takes a task of this type.
    unsafe { without_tables(place, run::<F, R>) };
}

type Run = unsafe extern "C-unwind" fn(*mut c_void);

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[unsafe(naked)]
unsafe extern "C" fn without_tables(_task: *mut c_void, _run: Run) {
    std::arch::naked_asm!("push rbp", "mov rbp, rsp", "call rsi", "pop rbp", "ret")
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[unsafe(naked)]
unsafe extern "C" fn without_tables(_task: *mut c_void, _run: Run) {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "blr x1",
        "ldp x29, x30, [sp], #16",
        "ret"
    )
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn without_tables(task: *mut c_void, run: Run) {
    // SAFETY: as promised to this function.
    unsafe { run(task) }
}

#[cfg(test)]
mod tests {
    use super::ends_here;

    #[test]
    fn arguments_and_answers_pass() {
        let mut seen = Vec::new();
        let text = String::from("owned");
        let answer = ends_here(|| {
            seen.push(text);
            [1_u64, 2, 3]
        });
        assert_eq!((answer, &*seen[0]), ([1, 2, 3], "owned"));
        assert_eq!(ends_here(|| ends_here(|| 7)), 7);
    }
}
