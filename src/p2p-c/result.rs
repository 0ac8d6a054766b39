//! Results as numbers, with the words of the last failure of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tcpx_p2p::Error;
use tcpx_words::error::NextStep;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A call that failed.
pub(crate) struct Failure {
    code: c_int,
    words: String,
}

/// Done.
pub const TCPXP2P_DONE: c_int = 0;
/// An argument is wrong, nothing was started.
pub const TCPXP2P_USAGE: c_int = -1;
/// The plugin or the GPU cannot be used or refuses a call.
pub const TCPXP2P_PLUGIN: c_int = -2;
/// The peer refused, nothing was moved.
pub const TCPXP2P_REFUSED: c_int = -3;
/// No connection could be made, or it is lost.
pub const TCPXP2P_CONNECTION: c_int = -4;
/// Not done within the time.
pub const TCPXP2P_TIMED_OUT: c_int = -5;
/// The endpoint is closed.
pub const TCPXP2P_CLOSED: c_int = -6;
/// A limit of the endpoint is reached.
pub const TCPXP2P_TOO_MANY: c_int = -7;
/// A bug in the library.
pub const TCPXP2P_INTERNAL: c_int = -8;

/// The results: number and text.
const RESULTS: [(c_int, &CStr); 9] = [
    (TCPXP2P_DONE, c"done"),
    (TCPXP2P_USAGE, c"an argument is wrong, nothing was started"),
    (
        TCPXP2P_PLUGIN,
        c"the plugin or the GPU cannot be used or refuses a call",
    ),
    (TCPXP2P_REFUSED, c"the peer refused, nothing was moved"),
    (
        TCPXP2P_CONNECTION,
        c"no connection could be made, or it is lost",
    ),
    (TCPXP2P_TIMED_OUT, c"not done within the time"),
    (TCPXP2P_CLOSED, c"the endpoint is closed"),
    (TCPXP2P_TOO_MANY, c"a limit of the endpoint is reached"),
    (TCPXP2P_INTERNAL, c"a bug in the library"),
];

impl Failure {
    pub(crate) fn usage(words: String) -> Self {
        Self {
            code: TCPXP2P_USAGE,
            words,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Usage(_) => TCPXP2P_USAGE,
            Error::Plugin(_) => TCPXP2P_PLUGIN,
            Error::Refused { .. } => TCPXP2P_REFUSED,
            Error::Connection { .. } => TCPXP2P_CONNECTION,
            Error::TimedOut { .. } => TCPXP2P_TIMED_OUT,
            Error::Closed => TCPXP2P_CLOSED,
            Error::TooMany { .. } => TCPXP2P_TOO_MANY,
        };
        let words = match error.next_step() {
            Some(next) => format!("{error}; {next}"),
            None => error.to_string(),
        };
        Self { code, words }
    }
}

/// Runs a call: its failure becomes a number, and its words those of the thread. No panic passes.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return TCPXP2P_DONE,
        Ok(Err(failure)) => failure,
        Err(_) => Failure {
            code: TCPXP2P_INTERNAL,
            words: "the library panicked".into(),
        },
    };
    let words = CString::new(failure.words.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending keeps no words.
    let _ = LAST.try_with(|last| last.replace(words));
    failure.code
}

/// The words of this thread's last failure; valid until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_last_error() -> *const c_char {
    let last = LAST.try_with(|last| last.borrow().as_ptr());
    last.unwrap_or(c"".as_ptr())
}

/// What a result means.
#[unsafe(no_mangle)]
pub extern "C" fn tcpxp2p_result_text(result: c_int) -> *const c_char {
    let found = RESULTS.iter().find(|(number, _)| *number == result);
    found
        .map_or(c"no result of this library", |(_, text)| text)
        .as_ptr()
}
