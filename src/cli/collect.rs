//! The doctor checks of both nodes for a report. `tcpxctl doctor` runs in a separate process, which
//! can be killed after a time limit.
#![forbid(unsafe_code)]

use super::nodes::Nodes;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tcpx_report::write_whole;
use tcpx_run_model::record::DOCTOR;

/// Time limit of `tcpxctl doctor`; after it, the report has no doctor checks.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of the document that `tcpxctl doctor` prints, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
const NO_DOCUMENT: &str = "`tcpxctl doctor` printed no valid document";

/// Checks both nodes and writes the result document into a run folder.
///
/// # Errors
/// The reason why there are no checks, in one sentence.
pub(super) fn examine(run: &Path, nodes: &Nodes) -> Result<(), String> {
    let document = doctor_document(nodes)?;
    write_whole(&run.join(DOCTOR), |to| to.write_all(&document)).map_err(|error| error.to_string())
}

/// The standard output of `tcpxctl doctor --json`, if it is a doctor document.
fn doctor_document(nodes: &Nodes) -> Result<Vec<u8>, String> {
    let mut child = Command::new("/proc/self/exe")
        .args(["doctor", "--json"])
        .args(nodes.as_arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let stdout = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes));
        // The receiver may have reached its time limit.
        let _ = sender.send((read, bytes));
    });
    let received = receiver.recv_timeout(TIME_LIMIT);
    // The child has ended, or its time limit is over.
    let _ = child.kill();
    let _ = child.wait();
    let (_, bytes) = received.map_err(|_| {
        format!(
            "`tcpxctl doctor` did not end within {} s",
            TIME_LIMIT.as_secs()
        )
    })?;
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
