//! What `tcpxctl tap --on-stall` does: a report or a bundle of a program that stands still, while
//! it stands.
//!
//! The rules of `diagnose` judge the recordings twice per second. A stall is reported once, when
//! it begins to stand; the next one may come after the program has moved again. Recorder files are
//! only read, and a thread of `tap` writes the report, so the program does not notice.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::output::{print_warning, say};
use super::{Common, bundle, report};
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tcpx_diagnose::{Condition, Watcher};
use tcpx_recorder::ReadError;
use tcpx_run_model::adopt::{Adoptable, adopt};
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_run_model::live::{RecorderFilter, Recorders};
use tcpx_run_model::record::RunFiles;
use tcpx_run_model::state::RunState;
use tcpx_words::units::{now_us, stamp_utc};

/// Most stalls of one program that are reported.
const STALLS_MAX: usize = 4;
/// Name of the run folders.
const NAME: &str = "tap-stall";

/// What is made of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnStall {
    /// A run folder with report.html.
    Report,
    /// A run folder, and a bundle of it beside it.
    Bundle,
}

/// A stall that was reported.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReportedStall {
    condition: String,
    /// The run folder of the recordings.
    run: PathBuf,
    /// The report or the bundle.
    file: PathBuf,
}

/// Judges the recordings of a program while it runs.
pub(super) struct StallReporter {
    what: OnStall,
    reports: PathBuf,
    common: Common,
    paths: Vec<PathBuf>,
    recorders: Recorders,
    state: RunState,
    watcher: Watcher,
    standing: Standing,
    begun: usize,
    writing: Option<JoinHandle<Option<ReportedStall>>>,
    reported: Vec<ReportedStall>,
}

impl StallReporter {
    /// Nothing is read or written before the first recording.
    pub(super) fn new(what: OnStall, reports: &Path, common: &Common) -> Self {
        Self {
            what,
            reports: reports.to_owned(),
            // The document on stdout is that of `tap`.
            common: Common {
                json: false,
                ..common.clone()
            },
            paths: Vec::new(),
            recorders: Recorders::new(RecorderFilter::Files(Vec::new())),
            state: RunState::default(),
            watcher: Watcher::default(),
            standing: Standing::default(),
            begun: 0,
            writing: None,
            reported: Vec::new(),
        }
    }

    /// Judges the recordings, and begins a report if a stall does.
    pub(super) fn look(&mut self, paths: &[PathBuf]) {
        if paths != self.paths {
            self.paths = paths.to_vec();
            self.recorders = Recorders::new(RecorderFilter::Files(self.paths.clone()));
            (self.state, self.watcher) = (RunState::default(), Watcher::default());
        }
        // A recording that cannot be read yet is read at the next look.
        if self.sample().is_err() || self.is_writing() {
            return;
        }
        let Some(findings) = self.watcher.look(&self.state) else {
            return;
        };
        let Some(stall) = self.standing.begins(&findings) else {
            return;
        };
        if self.begun == STALLS_MAX {
            say(&format!(
                "# note : {STALLS_MAX} stalls have been reported; further ones are not\n"
            ));
        }
        self.begun += 1;
        if self.begun <= STALLS_MAX {
            self.write(stall);
        }
    }

    fn sample(&mut self) -> Result<(), ReadError> {
        let mut events = Vec::new();
        self.recorders.look(now_us() * 1000, &mut events)?;
        events.iter().for_each(|event| self.state.apply(event));
        if self.state.names.nodes.is_empty() {
            self.state.names.nodes = self.recorders.nodes();
        }
        Ok(())
    }

    /// Whether a report is being written; the findings of that time are judged later.
    fn is_writing(&mut self) -> bool {
        if self.writing.as_ref().is_some_and(|one| !one.is_finished()) {
            return true;
        }
        self.join();
        false
    }

    fn join(&mut self) {
        let ended = self.writing.take().map(JoinHandle::join);
        // A thread that panicked has said so on stderr.
        self.reported.extend(ended.and_then(Result::ok).flatten());
    }

    fn write(&mut self, stall: Finding) {
        let place = stall.place().unwrap_or("the program").to_owned();
        say(&format!("# stall : {} at {place}\n", stall.condition));
        let (what, reports, common) = (self.what, self.reports.clone(), self.common.clone());
        let paths = self.paths.clone();
        self.writing = Some(std::thread::spawn(move || {
            match written(what, &reports, &common, paths) {
                Ok((run, file)) => Some(ReportedStall {
                    condition: stall.condition,
                    run,
                    file,
                }),
                Err(failure) => {
                    let message = format!("the stall is not reported: {}", failure.message());
                    print_warning(&common, &message, None);
                    None
                }
            }
        }));
    }

    /// Waits for a report that is being written, and returns all.
    pub(super) fn finish(mut self) -> Vec<ReportedStall> {
        self.join();
        self.reported
    }
}

/// Makes a run folder of the recordings, and its report or bundle.
fn written(
    what: OnStall,
    reports: &Path,
    common: &Common,
    recordings: Vec<PathBuf>,
) -> Result<(PathBuf, PathBuf), Failure> {
    let files = Adoptable {
        recordings,
        ..Adoptable::default()
    };
    let (run, _) = adopt(reports, &stamp_utc(), NAME, &files, tcpx_logs::unpack)?;
    let files = RunFiles::open(&run)?;
    let file = match what {
        OnStall::Report => report::write_html(&files, &run)?,
        OnStall::Bundle => {
            let mut name = run.clone().into_os_string();
            name.push(".tar.gz");
            let out = PathBuf::from(name);
            bundle::write(
                common,
                &files,
                Some(&out),
                bundle::Leaves::KnownLines,
                bundle::Signals::AreForTheCaller,
                say,
            )?;
            out
        }
    };
    Ok((run, file))
}

/// Whether a stall stands, so that each one is reported once.
#[derive(Debug, Default)]
struct Standing(bool);

impl Standing {
    /// The finding of a stall that begins with these findings.
    fn begins(&mut self, findings: &[Finding]) -> Option<Finding> {
        let stops = |finding: &&Finding| {
            let condition = Condition::from_name(&finding.condition);
            finding.severity == Severity::Error
                && condition.is_some_and(|condition| condition.entry().stalls)
        };
        let stall = findings.iter().find(stops);
        let stood = std::mem::replace(&mut self.0, stall.is_some());
        stall.filter(|_| !stood).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(condition: &str, severity: Severity) -> Finding {
        Finding {
            condition: condition.to_owned(),
            severity,
            confidence: 1.0,
            subject: None,
            channel: None,
            because: Vec::new(),
            cannot_see: Vec::new(),
            next_step: None,
            reference: None,
        }
    }

    #[test]
    fn a_stall_begins_once_and_again_after_the_program_has_moved() {
        let stall = [finding("window-never-consumed", Severity::Error)];
        let other = [finding("polls-others-only", Severity::Error)];
        let mild = [finding("window-never-consumed", Severity::Warning)];
        let ended = [finding("plugin-exit", Severity::Error)];
        let mut standing = Standing::default();
        let mut begins = |findings: &[Finding]| standing.begins(findings).is_some();
        assert!(!begins(&[]) && !begins(&mild) && !begins(&ended));
        assert!(begins(&stall));
        assert!(!begins(&stall) && !begins(&other));
        assert!(!begins(&[]));
        assert!(begins(&other));
    }
}
