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

/// The results: number and text.
const RESULTS: [(c_int, &CStr); 9] = [
    (0, c"done"),
    (-1, c"an argument is wrong, nothing was started"),
    (
        -2,
        c"the plugin or the GPU cannot be used or refuses a call",
    ),
    (-3, c"the peer refused, nothing was moved"),
    (-4, c"no connection could be made, or it is lost"),
    (-5, c"not done within the time"),
    (-6, c"the endpoint is closed"),
    (-7, c"a limit of the endpoint is reached"),
    (-8, c"a bug in the library"),
];

impl Failure {
    pub(crate) fn usage(words: String) -> Self {
        Self { code: -1, words }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Usage(_) => -1,
            Error::Plugin(_) => -2,
            Error::Refused { .. } => -3,
            Error::Connection { .. } => -4,
            Error::TimedOut { .. } => -5,
            Error::Closed => -6,
            Error::TooMany { .. } => -7,
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
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure {
            code: -8,
            words: "the library panicked".into(),
        },
    };
    let words = CString::new(failure.words.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending keeps no words.
    let _ = LAST.try_with(|last| last.replace(words));
    failure.code
}

#[unsafe(no_mangle)]
extern "C" fn tcpxp2p_last_error() -> *const c_char {
    let last = LAST.try_with(|last| last.borrow().as_ptr());
    last.unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn tcpxp2p_result_text(result: c_int) -> *const c_char {
    let found = RESULTS.iter().find(|(number, _)| *number == result);
    found
        .map_or(c"no result of this library", |(_, text)| text)
        .as_ptr()
}
