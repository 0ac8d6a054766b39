//! SIGINT, SIGTERM, SIGHUP and SIGQUIT: the first asks for an orderly end, the second ends at once. SIGXFSZ
//! ends nothing. A command that only computes and writes files ends soon after the first.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::output::{path_text, say};
use anyhow::Context;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// As [`interrupted`], for a command that computes for long and has nothing to end: it ends by itself within a moment, or
/// is ended, and leaves no part of a file.
pub(crate) fn end_soon() -> Result<Arc<AtomicBool>, Failure> {
    ENDS_SOON.store(true, Ordering::Relaxed);
    interrupted()
}

/// Whether the first signal ends this process.
static ENDS_SOON: AtomicBool = AtomicBool::new(false);
/// How long such a command may take to end by itself.
const END_MAX: Duration = Duration::from_millis(300);

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
    let caught = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
    for signal in caught {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    let mut signals = Signals::new(caught)?;
    // A thread, because a handler may not restore the terminal.
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut signals = signals.forever();
            if signals.next().is_none() {
                return;
            }
            let is_next = match ENDS_SOON.load(Ordering::Relaxed) {
                true => {
                    std::thread::sleep(END_MAX);
                    true
                }
                false => signals.next().is_some(),
            };
            if is_next {
                end_now();
            }
        })?;
    Ok(flag)
}

/// Ends this process, and says what it leaves.
fn end_now() -> ! {
    tcpx_tui::restore();
    match left() {
        Some((unfinished, runs)) => {
            if unfinished.is_empty() && runs.is_empty() {
                say("# interrupted : ended at once\n");
            }
            for path in unfinished {
                let path = path_text(&path);
                say(&format!(
                    "# interrupted : {path} is not written; any existing file is unchanged\n"
                ));
            }
            for run in runs {
                let run = path_text(&run);
                say(&format!(
                    "# interrupted : {run} has no run.json and is marked as interrupted; agents and workers end by themselves\n"
                ));
            }
        }
        None => say("# interrupted : ended at once; the file system does not answer\n"),
    }
    // Agents and workers end because their control streams close.
    signal_hook::low_level::exit(130)
}

/// Removes files that are not complete and marks runs as interrupted, and gives both. A file system that does not answer
/// is not waited for longer than this.
fn left() -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (done, left) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let unfinished = tcpx_report::remove_unfinished();
        let _ = done.send((unfinished, tcpx_run_model::record::leave_interrupted()));
    });
    left.recv_timeout(LEFT_MAX).ok()
}

/// Longest time that the end waits for these.
const LEFT_MAX: Duration = Duration::from_secs(1);
