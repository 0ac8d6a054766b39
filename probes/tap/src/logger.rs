//! Records the plugin's log lines and passes them to the program's logger. Each line is recorded
//! first, so that it is stored even if the plugin then ends the process.
//!
//! If the program passes no logger, the plugin gets none either, and no lines are recorded.
#![expect(unsafe_code, reason = "a callback from C, and one into the program")]

use crate::TAPS_MAX;
use crate::book::Book;
use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use tcpx_abi::{Logger, LoggerArg, VERSIONS};
use tcpx_recorder::LogLine;

/// Most tables that can be wrapped, over all versions.
const TABLES: usize = VERSIONS.len() * TAPS_MAX;
/// Number of logger functions in `logger.c`, at least one per table.
const LOGGERS: usize = 64;
const _: () = assert!(TABLES <= LOGGERS, "logger.c needs more functions");

/// Where a table's logger sends its lines.
struct Target {
    book: AtomicPtr<Book>,
    /// The program's logger.
    program: AtomicPtr<()>,
}

static TARGETS: [Target; TABLES] = [const {
    Target {
        book: AtomicPtr::new(ptr::null_mut()),
        program: AtomicPtr::new(ptr::null_mut()),
    }
}; TABLES];

type Sink = unsafe extern "C" fn(c_int, c_int, c_ulong, *const c_char, c_int, *const c_char, usize);

unsafe extern "C" {
    safe fn tcpx_tap_logger(table: c_int, to: Sink) -> LoggerArg;
}

/// Returns the logger to pass to the plugin in place of the program's.
pub(crate) fn interpose(table: usize, book: &'static Book, program: LoggerArg) -> LoggerArg {
    let (Some(logger), Some(target)) = (program, TARGETS.get(table)) else {
        return program;
    };
    target.book.store(ptr::from_ref(book).cast_mut(), Release);
    target.program.store(logger as *mut (), Release);
    tcpx_tap_logger(table as c_int, logged).or(program)
}

/// # Safety
/// `file` is null or ends in a zero; `text` ends in a zero behind `length` bytes.
unsafe extern "C" fn logged(
    table: c_int,
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    text: *const c_char,
    length: usize,
) {
    let Some(target) = usize::try_from(table)
        .ok()
        .and_then(|table| TARGETS.get(table))
    else {
        return;
    };
    // SAFETY: null, or a book that is never freed.
    if let Some(book) = unsafe { target.book.load(Acquire).as_ref() } {
        let function = match file.is_null() {
            true => b"",
            // SAFETY: as promised to this function.
            false => unsafe { CStr::from_ptr(file) }.to_bytes(),
        };
        // SAFETY: as promised to this function.
        let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        let line = LogLine {
            level,
            flags,
            function,
            line,
            text,
        };
        // A panic must not cross the C boundary; the line is dropped instead.
        let _ = catch_unwind(AssertUnwindSafe(|| book.log(&line)));
    }
    let program = target.program.load(Acquire);
    if !program.is_null() {
        // SAFETY: `interpose` stored a logger here, and nothing else does.
        let program = unsafe { std::mem::transmute::<*mut (), Logger>(program) };
        // SAFETY: the program's logger must accept calls from any thread; the format takes one
        // string.
        unsafe { program(level, flags, file, line, c"%s".as_ptr(), text) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_own_logger() {
        let all = (0..LOGGERS).map(|table| tcpx_tap_logger(table as c_int, logged));
        let functions: std::collections::BTreeSet<_> =
            all.flatten().map(|logger| logger as usize).collect();
        assert_eq!(functions.len(), LOGGERS);
        assert!(tcpx_tap_logger(LOGGERS as c_int, logged).is_none());
    }
}
