//! Runs the real binary as a user would, in its own folder and with a deadline, and checks what
//! it leaves behind.
//!
//! Every process of a run inherits a variable that is unique to the run, so its processes are
//! found in /proc even after their parent has changed.

pub(crate) mod schema;

use serde_json::Value;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of a command, far above what any command needs; a longer one has hung.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the last process of a run may outlive the command.
const AFTERLIFE: Duration = Duration::from_secs(10);
const MARKER: &str = "RUN_OF_TEST";

/// A command that is not started yet.
pub(crate) struct Tool {
    command: Command,
    folder: Arc<TempDir>,
    marker: String,
}

impl Tool {
    /// `tcpxctl` with these arguments, in a fresh folder and a bare environment.
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpxctl"));
        command.args(arguments).current_dir(folder.path());
        Self::of(command, folder)
    }

    /// A command that starts `tcpxctl`, and the folder that `tcpxctl` runs in.
    pub(crate) fn of(mut command: Command, folder: TempDir) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let marker = format!(
            "t{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(MARKER, &marker);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            command,
            folder: Arc::new(folder),
            marker,
        }
    }

    /// `tcpxctl run` of a small scenario with these keys on top.
    pub(crate) fn run(settings: &[&str]) -> Self {
        let tool = Self::new(&["run", "small.toml"]);
        tool.write("small.toml", SMALL);
        tool.set(settings)
    }

    /// `tcpxctl run` of a shipped scenario with these keys on top.
    pub(crate) fn shipped(name: &str, settings: &[&str]) -> Self {
        Self::new(&[
            "run",
            &format!("{}/scenarios/{name}", env!("CARGO_MANIFEST_DIR")),
        ])
        .set(settings)
    }

    /// More `--set KEY=VALUE`.
    pub(crate) fn set(self, settings: &[&str]) -> Self {
        settings
            .iter()
            .fold(self, |tool, setting| tool.arg("--set").arg(setting))
    }

    pub(crate) fn arg(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The strict C plugin with these hazards in both workers.
    pub(crate) fn strict(self, hazards: &str) -> Self {
        self.arg("--plugin")
            .arg(crate::strict::library().to_str().unwrap())
            .env("STRICT_HAZARD", hazards)
    }

    /// A file in the folder that the command runs in.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// A program in that folder.
    pub(crate) fn write_program(&self, name: &str, text: &str) {
        self.write(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.folder().join(name), mode).unwrap();
    }

    /// `./rsh`, a remote shell whose every node is this machine.
    pub(crate) fn write_rsh(&self) {
        self.write_program("rsh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The run's unique marker, which is part of the names of its recorder files.
    pub(crate) fn marker(&self) -> &str {
        &self.marker
    }

    /// A file of the command's folder as its standard input.
    pub(crate) fn stdin_of(mut self, name: &str) -> Self {
        let file = std::fs::File::open(self.folder.path().join(name)).unwrap();
        self.command.stdin(file);
        self
    }

    /// The same command as the last arguments of another program.
    pub(crate) fn through(mut self, program: &str, arguments: &[&str]) -> Self {
        let inner = std::mem::replace(&mut self.command, Command::new(program));
        self.command
            .args(arguments)
            .arg(inner.get_program())
            .args(inner.get_args())
            .env_clear();
        let kept = inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        self.command.envs(kept).current_dir(self.folder.path());
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
        Running {
            child,
            stdout,
            stderr,
            started: Instant::now(),
            folder: self.folder,
            marker: self.marker,
        }
    }

    /// Runs the command to its end, with the checks of `Running::ended`.
    pub(crate) fn ended(self) -> Ended {
        self.start().ended()
    }

    /// Runs the command, which must exit with `code`.
    pub(crate) fn ends_with(self, code: i32) -> Ended {
        let ended = self.ended();
        assert_eq!(ended.status.code(), Some(code), "{ended}");
        ended
    }
}

/// Settings small enough for a debug build, with limits long enough for a machine that is busy
/// for seconds.
pub(crate) const SMALL: &str = r#"
name = "small"
[transfer]
connections = 2
chunk = "64KiB"
total = "1MiB"
iterations = 2
warmup = 1
[limits]
stall_after = "30s"
total = "40s"
"#;

fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe ends the text.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A running command.
pub(crate) struct Running {
    pub child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    started: Instant,
    folder: Arc<TempDir>,
    marker: String,
}

impl Running {
    /// The processes of the run that are alive.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes(&self.marker)
    }

    /// Waits until the condition `what` is true; the run must not end before.
    pub(crate) fn until(&mut self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        while !is_true(self) {
            assert!(self.started.elapsed() < LIMIT, "waited in vain for: {what}");
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the command ended before: {what}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the event stream contains `text`.
    pub(crate) fn until_event(&mut self, text: &str) {
        self.until(text, |run| run.events().contains(text));
    }

    /// The folder in which the command runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The event stream so far.
    pub(crate) fn events(&self) -> String {
        events_text(self.folder.path())
    }

    /// Sends a signal to the command itself.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the command's end, and checks that its output has no panic and that no process of
    /// the run is left.
    pub(crate) fn ended(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > LIMIT {
                let left = self.processes();
                left.iter().for_each(Process::kill);
                let (out, err) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
                panic!("it hung, with {left:?}\nstdout:\n{out}\nstderr:\n{err}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.started.elapsed();
        let gone = Instant::now();
        let mut left = processes(&self.marker);
        while !left.is_empty() && gone.elapsed() < AFTERLIFE {
            std::thread::sleep(Duration::from_millis(20));
            left = processes(&self.marker);
        }
        left.iter().for_each(Process::kill);
        let (out, err) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        let ended = Ended {
            status,
            out,
            err,
            took,
            folder: self.folder,
        };
        assert!(left.is_empty(), "left behind: {left:?}\n{ended}");
        for text in [&ended.out, &ended.err] {
            for word in ["panicked at", "RUST_BACKTRACE", "stack backtrace"] {
                assert!(!text.contains(word), "a panic showed\n{ended}");
            }
        }
        ended
    }
}

/// How a command ended.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
    folder: Arc<TempDir>,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (status, signal) = (self.status, self.status.signal());
        write!(
            f,
            "{status} {signal:?} after {:?}\nstdout:\n{}\nstderr:\n{}",
            self.took, self.out, self.err
        )
    }
}

impl Ended {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Both output streams as one text.
    pub(crate) fn said(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }

    /// Checks that each of `words` was printed on one of the streams.
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        let said = self.said();
        for word in words {
            assert!(said.contains(word), "`{word}` was not printed\n{self}");
        }
        self
    }

    /// stdout as the one JSON document it must be, valid for its schema.
    pub(crate) fn json(&self) -> Value {
        let document = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("not one JSON document: {error}\n{self}"));
        schema::check(&document);
        document
    }

    /// The run folders, oldest first.
    pub(crate) fn run_folders(&self) -> Vec<PathBuf> {
        run_folders(self.folder())
    }

    /// `run.json` of the only run.
    pub(crate) fn record(&self) -> Value {
        let folders = self.run_folders();
        assert_eq!(folders.len(), 1, "run folders: {folders:?}\n{self}");
        let text = std::fs::read_to_string(folders[0].join("run.json"))
            .unwrap_or_else(|error| panic!("no run.json: {error}\n{self}"));
        let record = serde_json::from_str(&text).unwrap();
        schema::check(&record);
        record
    }

    /// Checks that the record has this outcome and the command's exit code; returns the record.
    pub(crate) fn recorded(&self, outcome: &str) -> Value {
        let record = self.record();
        assert_eq!(record["outcome"], outcome, "{}\n{self}", record["reason"]);
        assert_eq!(
            record["exit_code"].as_i64(),
            self.status.code().map(i64::from),
            "{self}"
        );
        record
    }
}

fn run_folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder.join("reports")) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn events_text(folder: &Path) -> String {
    run_folders(folder)
        .iter()
        .filter_map(|run| std::fs::read_to_string(run.join("events.jsonl")).ok())
        .collect()
}

/// One process of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: i32,
    /// The first argument: `run`, `agent`, `worker`, ...
    pub role: String,
    /// State and kernel wait channel, for the report of a hanging process.
    doing: String,
    started: u64,
}

impl Process {
    /// Reads a process from `/proc`; `None` if it has ended.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let role = cmdline.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        let role = String::from_utf8_lossy(role).into_owned();
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let state = read("status")
            .lines()
            .find(|line| line.starts_with("State"))
            .unwrap_or_default()
            .to_owned();
        let doing = format!("{state} {} {}", read("wchan"), read("syscall").trim());
        Some(Self {
            pid,
            role,
            doing,
            started: started(pid)?,
        })
    }

    /// Ends the process, unless it has ended and another process has its id.
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid).unwrap();
        let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        else {
            return;
        };
        if started(self.pid) == Some(self.started) {
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
    }
}

/// Start time, field 22 of `/proc/PID/stat`; `None` for a process that has ended or is a zombie.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        None
    } else {
        fields.nth(18)?.parse().ok()
    }
}

/// Every live process whose environment contains the marker.
pub(crate) fn processes(marker: &str) -> Vec<Process> {
    let wanted = format!("{MARKER}={marker}");
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        environ
            .split(|byte| *byte == 0)
            .find(|entry| *entry == wanted.as_bytes())?;
        Process::read(pid)
    })
    .collect()
}

/// Recorder files whose name contains `marker`.
pub(crate) fn recorder_files(marker: &str) -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let Ok(folder) = std::fs::read_dir(format!("/dev/shm/tcpxctl-{uid}")) else {
        return Vec::new();
    };
    let paths = folder.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().contains(marker))
        .collect()
}

/// Compiles this C source to a shared object with the machine's `cc`.
pub(crate) fn shared_object(source: &str, folder: &Path, name: &str) -> PathBuf {
    let (text, library) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&text, source).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &text])
        .status();
    assert!(
        status.expect("a C compiler named cc").success(),
        "cc {name}"
    );
    library
}
