//! What the recorders of a run that has ended lack: `watch`, `trace` and `diagnose` cannot show it.
#![forbid(unsafe_code)]

use std::path::Path;
use tcpx_coord::RunOutcome;
use tcpx_recorder::Reader;
use tcpx_run_model::live::without_room;
use tcpx_run_model::record::{RunFiles, WorkerFile};

/// Workers without a recorder, and those whose recorder had no room for all comms; one sentence
/// each.
pub(super) fn unrecorded(outcome: &RunOutcome, run: &Path) -> Vec<String> {
    let names = &outcome.state.names;
    let mut lacks = outcome.unrecorded();
    let Ok(files) = RunFiles::open(run) else {
        return lacks;
    };
    for (worker, file) in files.of_workers(WorkerFile::Recorder, names) {
        let header = files
            .file(&file)
            .ok()
            .and_then(|file| Reader::from_file(file).ok()?.header().ok());
        if let Some(header) = header {
            let name = format!("the recorder of {}", names.worker(worker));
            lacks.extend(without_room(&name, &header));
        }
    }
    lacks
}
