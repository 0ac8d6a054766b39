//! Refuses a `RUST_MIN_STACK` that leaves this program's threads too little stack.
//!
//! The standard library gives each thread that much, and a thread that runs out of it ends the
//! whole process with "stack overflow".
#![forbid(unsafe_code)]

use super::failure::Failure;
use std::ffi::OsStr;
use tcpx_words::error::Outcome;

const VARIABLE: &str = "RUST_MIN_STACK";
/// A release build's threads overflow 32 KiB and pass with 64 KiB; a debug build's need more.
const LEAST_BYTES: usize = 512 << 10;

/// Checks the environment before the first thread is started.
pub(super) fn check() -> Result<(), Failure> {
    check_value(std::env::var_os(VARIABLE).as_deref())
}

/// Checks the variable's value. One that is no number is ignored, as the standard library does.
fn check_value(value: Option<&OsStr>) -> Result<(), Failure> {
    let bytes = value.and_then(|value| value.to_str()?.parse::<usize>().ok());
    match bytes {
        Some(bytes) if bytes < LEAST_BYTES => {
            let message = format!(
                "{VARIABLE}={bytes} leaves the threads of tcpxctl {bytes} bytes of stack each; \
                 they need {LEAST_BYTES}"
            );
            Err(Failure::new(Outcome::Usage, message)
                .next(format!("unset {VARIABLE}; Rust's own default is 2097152")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_below_the_need_is_refused() {
        for refused in ["0", "1", "65536", "524287"] {
            assert!(check_value(Some(OsStr::new(refused))).is_err(), "{refused}");
        }
        for taken in ["524288", "2097152", "", "1k", "-1"] {
            assert!(check_value(Some(OsStr::new(taken))).is_ok(), "{taken}");
        }
        assert!(check_value(None).is_ok());
    }
}
