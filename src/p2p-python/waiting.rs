//! Waits without the GIL that Ctrl-C ends.
#![forbid(unsafe_code)]

use crate::errors::{raised, usage};
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use tcpx_p2p::Error;

/// Longest wait before Python's signal handlers run.
const SLICE: Duration = Duration::from_millis(100);

/// Seconds of a caller; `None` is no limit.
pub(crate) fn limit(py: Python<'_>, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let duration = |seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|error| usage(py, format!("a time of {seconds} s: {error}")))
    };
    seconds.map(duration).transpose()
}

/// Repeats a wait of the endpoint until it ends otherwise than by its time.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    allowed: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let started = Instant::now();
    loop {
        let left = allowed.map_or(SLICE, |allowed| allowed.saturating_sub(started.elapsed()));
        match py.detach(|| wait(left.min(SLICE))) {
            Err(Error::TimedOut { .. }) if left > SLICE || allowed.is_none() => {
                py.check_signals()?;
            }
            Err(Error::TimedOut { what, .. }) => {
                let allowed = allowed.unwrap_or_default();
                return Err(raised(py, &Error::TimedOut { what, allowed }));
            }
            result => return result.map_err(|error| raised(py, &error)),
        }
    }
}

/// Makes a call that has a deadline of its own in another thread. After Ctrl-C the call goes on
/// there until its deadline.
pub(crate) fn in_a_thread<T: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (reply, answer) = sync_channel(1);
    let run = move || {
        // Fails where the caller was interrupted, which needs no result.
        let _ = reply.send(call());
    };
    let started = std::thread::Builder::new()
        .name("tcpxp2p-call".into())
        .spawn(run);
    started.map_err(|error| raised(py, &Error::Plugin(format!("no thread: {error}"))))?;
    // A receiver is not shared between threads, and a closure without the GIL is one.
    let answer = std::sync::Mutex::new(answer);
    loop {
        let received = py.detach(|| match answer.lock() {
            Ok(answer) => answer.recv_timeout(SLICE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(result) => return result.map_err(|error| raised(py, &error)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(raised(py, &Error::Closed)),
        }
    }
}
