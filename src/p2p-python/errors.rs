//! Errors of endpoints as the exceptions of `tcpxctl.p2p.errors`.
#![forbid(unsafe_code)]

use pyo3::prelude::*;
use tcpx_p2p::Error;
use tcpx_words::error::NextStep;

/// The exception of an error, with its words and the next step.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Usage(_) => "UsageError",
        Error::Plugin(_) => "PluginError",
        Error::Refused { .. } => "RefusedError",
        Error::Connection { .. } => "ConnectionLost",
        Error::TimedOut { .. } => "TimedOut",
        Error::Closed => "ClosedError",
        Error::TooMany { .. } => "LimitError",
    };
    let words = match error.next_step() {
        Some(next) => format!("{error}; {next}"),
        None => error.to_string(),
    };
    let made = py
        .import("tcpxctl.p2p.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((words,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An argument that is wrong.
pub(crate) fn usage(py: Python<'_>, words: impl Into<String>) -> PyErr {
    raised(py, &Error::Usage(words.into()))
}
