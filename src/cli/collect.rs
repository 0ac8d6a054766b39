//! The doctor's table of both nodes for a report. It is made by `tcpxctl doctor` in a separate
//! process, which can be stopped after a time limit.
#![forbid(unsafe_code)]

use super::nodes::Nodes;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tcpx_report::write_whole;
use tcpx_run_model::record::DOCTOR;

/// Time limit of the doctor; the report then has no table.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of the doctor's answer.
const ANSWER_MAX: u64 = 16 << 20;

/// Checks both nodes and writes the table into a run folder.
///
/// # Errors
/// Why there is no table, in one sentence.
pub(super) fn examine(run: &Path, nodes: &Nodes) -> Result<(), String> {
    let table = ask(nodes)?;
    write_whole(&run.join(DOCTOR), |to| to.write_all(&table)).map_err(|error| error.to_string())
}

fn ask(nodes: &Nodes) -> Result<Vec<u8>, String> {
    let mut child = Command::new("/proc/self/exe")
        .args(["doctor", "--json"])
        .args(nodes.as_arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let stdout = child.stdout.take();
    let (to_us, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(ANSWER_MAX).read_to_end(&mut bytes));
        // The receiver may have reached its time limit.
        let _ = to_us.send((read, bytes));
    });
    let answered = answer.recv_timeout(PATIENCE);
    // The doctor has ended or is too late.
    let _ = child.kill();
    let _ = child.wait();
    let (_, bytes) = answered
        .map_err(|_| format!("the doctor did not answer within {} s", PATIENCE.as_secs()))?;
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(table)
            if table["schema"]
                .as_str()
                .is_some_and(|schema| schema.starts_with("tcpxctl.doctor")) =>
        {
            Ok(bytes)
        }
        Ok(refusal) => Err(refusal["message"]
            .as_str()
            .unwrap_or("the doctor gave no table")
            .to_owned()),
        Err(_) => Err("the doctor gave no table".to_owned()),
    }
}
