//! SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends at once. SIGXFSZ
//! ends nothing.
#![forbid(unsafe_code)]

use super::failure::Failure;
use anyhow::Context;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The flag that the first signal sets; the same for every caller.
pub(crate) fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    let mut known = FLAG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(flag) = &*known {
        return Ok(Arc::clone(flag));
    }
    let flag = register().context("cannot catch signals")?;
    tcpx_words::input::end_waits_with(Arc::clone(&flag));
    *known = Some(Arc::clone(&flag));
    Ok(flag)
}

/// Sets the flag when `parent`, which started this process, ends: a command that is killed cannot
/// end its runs.
pub(crate) fn end_with(parent: u32, flag: &Arc<AtomicBool>) -> Result<(), Failure> {
    // It may come once for each thread of the parent, so it is none of those of which the second ends at once.
    signal_hook::flag::register(SIGUSR1, Arc::clone(flag))
        .and_then(|_| Ok(set_parent_process_death_signal(Some(Signal::USR1))?))
        .context("cannot be told of the end of the process that started this one")?;
    // It may have ended before.
    let known = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    if known != Some(parent) {
        flag.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Makes a write beyond `ulimit -f` return an error, which is reported, instead of ending this
/// process without a word. A program that is started keeps the default.
pub(crate) fn survive_file_size_limit() {
    // If the signal cannot be caught, it ends this process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

fn register() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let caught = [SIGINT, SIGTERM, SIGHUP];
    for signal in caught {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    let mut signals = Signals::new(caught)?;
    // A thread, because a handler may not restore the terminal.
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if signals.forever().nth(1).is_some() {
                tcpx_tui::restore();
                mark_runs();
                // Agents and workers end because their control streams close.
                signal_hook::low_level::exit(130);
            }
        })?;
    Ok(flag)
}

/// Marks the runs as interrupted. A file system that does not answer keeps nobody waiting.
fn mark_runs() {
    let (done, marked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tcpx_run_model::record::leave_interrupted();
        let _ = done.send(());
    });
    let _ = marked.recv_timeout(MARK_MAX);
}

/// Longest time that the second signal waits for the marks.
const MARK_MAX: std::time::Duration = std::time::Duration::from_secs(1);
