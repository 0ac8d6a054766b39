//! Errors of calls into a plugin.
#![forbid(unsafe_code)]

use tcpx_abi::{ResultCode, result};
use tcpx_words::error::NextStep;

/// A call into a plugin that failed, or that the engine refused to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The plugin returned a result code other than success.
    #[error("{call} returned {code} ({}){}", result::name(*code), quoted(said))]
    Refused {
        /// Name of the call.
        call: &'static str,
        /// The result code, not 0.
        code: ResultCode,
        /// The plugin's last WARN lines on this thread.
        said: Vec<String>,
    },
    /// The table's member is null, or this ABI version has none.
    #[error("the plugin has no {call}")]
    Missing {
        /// Name of the call.
        call: &'static str,
    },
    /// The length exceeds the call's argument type, a C int.
    #[error("{call} cannot take {len} bytes: the argument is a C int")]
    TooLarge {
        /// Name of the call.
        call: &'static str,
        /// The requested length.
        len: usize,
    },
    /// The bytes are not all inside the registration.
    #[error("{call}: the data is outside its registration")]
    OutsideRegistration {
        /// Name of the call.
        call: &'static str,
    },
    /// The call returned 0 without doing what success requires.
    #[error("{call} reported success but {what}")]
    BrokenPromise {
        /// Name of the call.
        call: &'static str,
        /// What is wrong, as a verb phrase: `gave no comm`.
        what: String,
    },
    /// The listener or handle has already returned its comm or error and cannot be used again.
    #[error("{call} was already completed for this {what}")]
    UsedUp {
        /// Name of the call.
        call: &'static str,
        /// `listener` or `handle`.
        what: &'static str,
    },
}

fn quoted(lines: &[String]) -> String {
    if lines.is_empty() {
        String::new()
    } else {
        format!("; it said: {}", lines.join(" / "))
    }
}

impl PluginError {
    /// The plugin's result code, if the plugin refused the call.
    pub fn code(&self) -> Option<ResultCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl NextStep for PluginError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::TooLarge { .. } => Some("use a size below 2 GiB".into()),
            // The diagnosis rules suggest what to do about a plugin's refusal.
            _ => None,
        }
    }
}
