//! ChildRuns a scenario by another `tcpxctl run`, and reads its record and its events.
#![forbid(unsafe_code)]

use super::failure::Failure;
use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tcpx_run_model::event::Event;
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::replay::for_each_event;
use tcpx_run_model::scenario::Scenario;

/// Time that a run may take beyond its `limits.total`.
const BEYOND_TOTAL: Duration = Duration::from_secs(60);
/// Time that a run has to end after an interrupt before it is killed.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// The runs of one command, in a folder of their own.
pub(crate) struct ChildRuns<'a> {
    folder: PathBuf,
    extra: &'a [String],
    interrupted: &'a AtomicBool,
    count: u32,
}

impl<'a> ChildRuns<'a> {
    /// Makes `<reports>/<stamp>-<what>`; `extra` are arguments of every run.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn new(
        reports: &Path,
        what: &str,
        extra: &'a [String],
        interrupted: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let folder = reports.join(format!(
            "{}-{what}-{}",
            tcpx_words::units::stamp_utc(),
            std::process::id()
        ));
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .create(reports)
            .and_then(|()| std::fs::DirBuilder::new().mode(0o700).create(&folder));
        made.with_context(|| format!("cannot make a folder in {}", reports.display()))
            .map_err(|error| {
                Failure::from(error).next("choose another folder with --reports DIR")
            })?;
        Ok(Self {
            folder,
            extra,
            interrupted,
            count: 0,
        })
    }

    /// The folder of the runs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the user interrupted the command.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a scenario to its end.
    ///
    /// # Errors
    /// The run left no record; the error is its reason in one sentence.
    pub(crate) fn run(&mut self, scenario: &Scenario) -> anyhow::Result<ChildRun> {
        self.count += 1;
        let file = self
            .folder
            .join(format!("{:03}-{}.toml", self.count, scenario.slug()));
        let text = toml::to_string_pretty(scenario)?;
        write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg(&file)
            .args(["--json", "--ends-with", &std::process::id().to_string()])
            .arg("--reports")
            .arg(&self.folder)
            .args(self.extra);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().context("cannot start tcpxctl run")?;
        let (document, said) =
            self.wait(child, Duration::from(scenario.limits.total) + BEYOND_TOTAL)?;
        let record =
            RunRecord::parse(document.as_bytes()).map_err(|_| anyhow!(last_line(&said)))?;
        Ok(ChildRun {
            events: self.folder.join(&record.id).join("events.jsonl"),
            record,
        })
    }

    /// What it printed on stdout and stderr.
    fn wait(&self, mut child: Child, limit: Duration) -> anyhow::Result<(String, String)> {
        let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let mut until = Instant::now() + limit;
        let mut was_told = false;
        loop {
            let ended = child.try_wait().context("cannot wait for tcpxctl run")?;
            if ended.is_some() {
                break;
            }
            if self.is_interrupted() && !was_told {
                was_told = true;
                until = Instant::now() + INTERRUPT_PATIENCE;
                // Ctrl-C in a terminal reaches the run too; a signal to this process alone does not.
                let _ = kill_process(Pid::from_child(&child), Signal::INT);
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                bail!("tcpxctl run did not end within {limit:?}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
        Ok((text(stdout), text(stderr)))
    }
}

/// One run that left a record.
pub(crate) struct ChildRun {
    /// Its `run.json`.
    pub record: RunRecord,
    events: PathBuf,
}

impl ChildRun {
    /// Its events in order, as far as they were kept.
    pub(crate) fn events(&self, mut each: impl FnMut(&Event)) {
        let Ok(file) = File::open(&self.events) else {
            return;
        };
        // A damaged stream ends at its first unreadable event.
        let _ = for_each_event(BufReader::new(file.take(DOCUMENT_BYTES_MAX)), |event| {
            each(&event)
        });
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

fn drain(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // The text ends at the first read error.
            let _ = from.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The run's own reason for leaving no record: its first error line, else its last line.
fn last_line(said: &str) -> String {
    let line = said
        .lines()
        .find(|line| line.contains("error"))
        .or_else(|| said.lines().last());
    line.unwrap_or("tcpxctl run printed nothing")
        .trim_start_matches("error: ")
        .to_owned()
}
