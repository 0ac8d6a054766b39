//! The doctor checks of both nodes for a report. `tcpxctl doctor` runs in a separate process, which
//! can be killed after a time limit, and is told of a signal, so that it ends what it has started.
#![forbid(unsafe_code)]

use super::nodes::Nodes;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tcpx_report::write_whole;
use tcpx_run_model::record::DOCTOR;

/// Time limit of `tcpxctl doctor`; after it, the report has no doctor checks.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks at whether a signal has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time that it has to end by itself after Ctrl-C in a terminal, which reaches it too: a second signal
/// would end it before it has ended what it started.
const BY_ITSELF: Duration = Duration::from_secs(1);
/// Time that it has after the signal of this process.
const TOLD: Duration = Duration::from_secs(5);
/// Maximum size of the document that `tcpxctl doctor` prints, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
const NO_DOCUMENT: &str = "`tcpxctl doctor` printed no valid document";

/// Why there are no checks.
pub(super) enum NoChecks {
    /// A signal arrived.
    Interrupted,
    /// In one sentence.
    Failed(String),
}

/// Checks both nodes and writes the result document into a run folder. A signal, which sets `stop`, ends that.
pub(super) fn examine(run: &Path, nodes: &Nodes, stop: &AtomicBool) -> Result<(), NoChecks> {
    let document = doctor_document(nodes, stop)?;
    write_whole(&run.join(DOCTOR), |to| to.write_all(&document))
        .map_err(|error| NoChecks::Failed(error.to_string()))
}

/// The standard output of `tcpxctl doctor --json`, if it is a doctor document.
fn doctor_document(nodes: &Nodes, stop: &AtomicBool) -> Result<Vec<u8>, NoChecks> {
    let mut child = Command::new("/proc/self/exe")
        .args(["doctor", "--json"])
        .args(nodes.as_arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| NoChecks::Failed(error.to_string()))?;
    let stdout = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes));
        // The receiver may have reached its time limit.
        let _ = sender.send((read, bytes));
    });
    let until = Instant::now() + TIME_LIMIT;
    let received = loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                end(child);
                return Err(NoChecks::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            received => break received,
        }
    };
    let Ok((_, bytes)) = received else {
        end(child);
        let limit = TIME_LIMIT.as_secs();
        let why = format!("`tcpxctl doctor` did not end within {limit} s");
        return Err(NoChecks::Failed(why));
    };
    // It has closed its standard output: it has ended, or is about to.
    ends_within(&mut child, TOLD);
    let _ = child.kill();
    let _ = child.wait();
    if stop.load(Ordering::Relaxed) {
        return Err(NoChecks::Interrupted);
    }
    document(bytes).map_err(NoChecks::Failed)
}

/// Ends `tcpxctl doctor`: with a signal, so that it ends what it has started, and only then at once.
fn end(mut child: Child) {
    if !ends_within(&mut child, BY_ITSELF) {
        // Fails only if it has ended meanwhile.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        ends_within(&mut child, TOLD);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

fn document(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(document)
            if document["schema"]
                .as_str()
                .is_some_and(|schema| schema.starts_with("tcpxctl.doctor")) =>
        {
            Ok(bytes)
        }
        Ok(other) => Err(other["message"].as_str().unwrap_or(NO_DOCUMENT).to_owned()),
        Err(_) => Err(NO_DOCUMENT.to_owned()),
    }
}
