//! What can go wrong between us and a plugin.
#![forbid(unsafe_code)]

use tcpx_abi::{ResultCode, result};
use tcpx_words::error::NextStep;

/// A call into a plugin that did not do what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The plugin returned a result code other than success.
    #[error("{call} returned {code} ({}){}", result::name(*code), quoted(said))]
    Refused {
        /// The table's member.
        call: &'static str,
        /// What it returned.
        code: ResultCode,
        /// The plugin's own last WARN lines on this thread.
        said: Vec<String>,
    },
    /// The table has no such member.
    #[error("the plugin has no {call}")]
    Missing {
        /// The table's member.
        call: &'static str,
    },
    /// A length that the call's argument cannot carry.
    #[error("{call} cannot take {len} bytes: the argument is a C int")]
    TooLarge {
        /// The table's member.
        call: &'static str,
        /// The length asked for.
        len: usize,
    },
    /// The bytes do not lie inside the registration.
    #[error("{call}: the data lies outside its registration")]
    OutsideRegistration {
        /// The table's member.
        call: &'static str,
    },
    /// A success that breaks its own contract.
    #[error("{call} reported success but {what}")]
    BrokenPromise {
        /// The table's member.
        call: &'static str,
        /// What was missing.
        what: String,
    },
    /// A listener or connect buffer that already gave its one answer.
    #[error("{call} already gave its one answer for this {what}")]
    UsedUp {
        /// The table's member.
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
    /// The plugin's result code, when it was the plugin that refused.
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
            // The rules know more than we do here.
            _ => None,
        }
    }
}
