//! Writes log lines to the logger passed to `init`, in the real plugin's form: level, subsystem
//! flags, function name instead of a file, line, text.
//!
//! Before `init` and without a logger nothing is written, because a library must not print into
//! a user's process unless asked.
#![expect(unsafe_code, reason = "calls the C-variadic logger callback")]

use std::ffi::{CStr, CString};
use std::fmt::Arguments;
use std::sync::OnceLock;
use tcpx_abi::{Logger, LoggerArg, level, subsystem};

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Sets the logger, unless one is already set.
pub(crate) fn set(logger: LoggerArg) {
    if let Some(logger) = logger {
        let _ = LOGGER.set(logger);
    }
}

/// Logs a warning, flagged with all subsystems as in the real plugin.
pub(crate) fn warn(function: &CStr, line: u32, text: Arguments<'_>) {
    write(level::WARN, subsystem::ALL, function, line, text);
}

/// Logs an informational line for the subsystems in `flags`.
pub(crate) fn info(flags: std::ffi::c_ulong, function: &CStr, line: u32, text: Arguments<'_>) {
    write(level::INFO, flags, function, line, text);
}

fn write(level: i32, flags: std::ffi::c_ulong, function: &CStr, line: u32, text: Arguments<'_>) {
    let Some(logger) = LOGGER.get() else {
        return remember(level, text);
    };
    let text = text.to_string().replace('\0', " ");
    remember(level, format_args!("{text}"));
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: `init` received the callback for the life of the process; the
    // format takes one string, and both strings outlive the call.
    unsafe {
        logger(
            level,
            flags,
            function.as_ptr(),
            line as i32,
            c"%s".as_ptr(),
            text.as_ptr(),
        )
    };
}

/// `warn!(c"function", "text {}", argument)`
macro_rules! warning {
    ($function:expr, $($text:tt)*) => { $crate::log::warn($function, line!(), format_args!($($text)*)) };
}

/// `note!(flags, c"function", "text {}", argument)`
macro_rules! note {
    ($flags:expr, $function:expr, $($text:tt)*) => {
        $crate::log::info($flags, $function, line!(), format_args!($($text)*))
    };
}

pub(crate) use {note, warning};

#[cfg(not(test))]
fn remember(_: i32, _: Arguments<'_>) {}

#[cfg(test)]
pub(crate) use captured::{remember, take};

/// Captures this thread's log lines for tests.
#[cfg(test)]
mod captured {
    use std::cell::RefCell;
    use std::fmt::Arguments;

    thread_local! { static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) } }

    pub(crate) fn remember(level: i32, text: Arguments<'_>) {
        let level = if level == tcpx_abi::level::WARN {
            "WARN"
        } else {
            "INFO"
        };
        LINES.with_borrow_mut(|lines| lines.push(format!("{level} {text}")));
    }

    /// Takes the lines since the last call.
    pub(crate) fn take() -> Vec<String> {
        LINES.with_borrow_mut(std::mem::take)
    }
}
