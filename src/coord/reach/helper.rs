//! Programs that help to reach a node: `ssh -G`, `kubectl get`, the proxy of an ssh connection.
//!
//! They belong to the user's configuration, so any of them may wait without end. Each is ended when
//! its answer is late, when it is no longer needed, and when the caller has given up.
#![forbid(unsafe_code)]

use super::Until;
use crate::process::tree::kill_tree;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;
use tcpx_words::units::printable;

/// Bytes read of what a helper prints.
const ANSWER_MAX: u64 = 1 << 20;
/// Time between two looks whether a helper has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The helpers that were started for one node.
#[derive(Clone, Default)]
pub(super) struct Helpers(Arc<Mutex<Started>>);

#[derive(Default)]
struct Started {
    is_given_up: bool,
    running: Vec<Weak<Mutex<Process>>>,
}

/// A helper; dropping it ends it.
pub(super) struct Helper(Arc<Mutex<Process>>);

struct Process {
    child: Child,
    leads_group: bool,
}

/// What a helper printed before it ended.
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    stderr: String,
}

impl Answer {
    /// Why it failed: its last line on stderr, or how it ended.
    pub(super) fn why(&self) -> String {
        match self.stderr.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => printable(line),
            None => format!("it printed no reason and ended with {}", self.status),
        }
    }
}

impl Helpers {
    /// Starts a helper in this process group, so that it may ask the user on the terminal.
    ///
    /// # Errors
    /// It cannot be started, or [`Helpers::give_up`] was called.
    #[cfg(any(feature = "ssh", test))]
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Helper> {
        self.started(command, false)
    }

    /// Runs a helper to its end with an empty stdin, in a process group of its own: it is ended together with
    /// what it has started.
    ///
    /// # Errors
    /// It cannot be started, has not ended in time (`TimedOut`), or the user interrupts or [`Helpers::give_up`] was
    /// called (`Interrupted`).
    pub(super) fn ask(
        &self,
        command: &mut Command,
        until: Until,
        interrupted: &AtomicBool,
    ) -> io::Result<Answer> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let helper = self.started(command, true)?;
        let (stdout, stderr) = {
            let mut process = helper.process();
            (process.child.stdout.take(), process.child.stderr.take())
        };
        let (stdout, stderr) = (printed(stdout), printed(stderr));
        let status = loop {
            if let Some(status) = helper.process().child.try_wait()? {
                break status;
            }
            if interrupted.load(Ordering::Relaxed) || self.lock().is_given_up {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if until.is_past() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK_EVERY);
        };
        // Something that it left running may hold the pipes open.
        let text = |from: mpsc::Receiver<String>| {
            let left = until.left().max(Duration::from_millis(100));
            from.recv_timeout(left)
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))
        };
        Ok(Answer {
            status,
            stdout: text(stdout)?,
            stderr: text(stderr)?,
        })
    }

    fn started(&self, command: &mut Command, leads_group: bool) -> io::Result<Helper> {
        let mut started = self.lock();
        if started.is_given_up {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let child = command.spawn()?;
        let process = Arc::new(Mutex::new(Process { child, leads_group }));
        started.running.push(Arc::downgrade(&process));
        Ok(Helper(process))
    }

    /// Ends all helpers and starts no more.
    pub(super) fn give_up(&self) {
        let mut started = self.lock();
        started.is_given_up = true;
        for process in started.running.drain(..).filter_map(|one| one.upgrade()) {
            lock(&process).kill();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Started> {
        lock(&self.0)
    }
}

impl Helper {
    #[cfg(feature = "ssh")]
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.process().child.try_wait(), Ok(None))
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        lock(&self.0)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let mut process = self.process();
        process.kill();
        // Fails only if it was already waited for.
        let _ = process.child.wait();
    }
}

impl Process {
    /// Sends SIGKILL to it and what it has started, unless it has been waited for: its number may then
    /// belong to another process.
    fn kill(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let pid = Pid::from_child(&self.child);
        if self.leads_group {
            // Fails only if it has ended meanwhile.
            let _ = kill_process_group(pid, Signal::KILL);
        } else {
            kill_tree(pid);
        }
    }
}

/// The beginning of what comes from `pipe`, read to its end in a thread.
fn printed(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (to, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            let _ = pipe.by_ref().take(ANSWER_MAX).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // Fails only if the caller has given up.
        let _ = to.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn soon() -> Until {
        Until::after(Duration::from_secs(60))
    }

    /// Waits until the process that wrote its number to `file` has ended.
    fn is_gone(file: &std::path::Path) -> bool {
        let pid: i32 = std::fs::read_to_string(file)
            .expect("written before")
            .trim()
            .parse()
            .expect("a number");
        let pid = Pid::from_raw(pid).expect("not zero");
        let until = soon();
        while !until.is_past() {
            if test_kill_process(pid).is_err() {
                return true;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        false
    }

    #[test]
    fn an_answer_has_what_was_printed_and_why_it_failed() {
        let ask = |line| {
            Helpers::default()
                .ask(&mut shell(line), soon(), &NEVER)
                .expect("runs")
        };
        let answer = ask("echo out; echo first >&2; echo 'bad option' >&2; exit 3");
        assert_eq!(
            (answer.stdout.as_str(), answer.why().as_str()),
            ("out\n", "bad option")
        );
        assert!(!answer.status.success());
        let killed = ask("kill -TERM $$");
        assert!(killed.why().contains("signal: 15"), "{}", killed.why());
    }

    #[test]
    fn a_late_helper_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let line = format!(
            "sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        // The deadline passes only after the program has written the number of its child.
        let helpers = Helpers::default();
        let asking = std::thread::spawn({
            let helpers = helpers.clone();
            move || helpers.ask(&mut shell(&line), soon(), &NEVER).map(|_| ())
        });
        while !file.exists() {
            std::thread::sleep(LOOK_EVERY);
        }
        helpers.give_up();
        assert!(is_gone(&file));
        let ended = asking.join().expect("no panic");
        assert!(
            ended.is_ok() || ended.is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
        );
        let refused = helpers
            .ask(&mut shell("true"), soon(), &NEVER)
            .err()
            .map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::Interrupted));
    }

    #[test]
    fn a_proxy_that_is_a_shell_is_ended_with_its_commands() {
        let folder = tempfile::tempdir().expect("a folder");
        // The shell starts the second command once the first has ended.
        let first = folder.path().join("first");
        let second = folder.path().join("second");
        let line = format!(
            "sh -c 'sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait'; touch {1}; sleep 600",
            first.display(),
            second.display()
        );
        let helper = Helpers::default().start(&mut shell(&line)).expect("runs");
        while !first.exists() {
            std::thread::sleep(LOOK_EVERY);
        }
        drop(helper);
        assert!(is_gone(&first));
        assert!(!second.exists());
    }

    #[test]
    fn a_helper_that_does_not_answer_is_late() {
        let until = Until::after(Duration::from_millis(20));
        let late = Helpers::default().ask(&mut shell("exec sleep 600"), until, &NEVER);
        assert_eq!(
            late.err().map(|error| error.kind()),
            Some(io::ErrorKind::TimedOut)
        );
    }

    #[test]
    fn a_pipe_that_is_left_open_is_not_waited_for() {
        let until = Until::after(Duration::from_millis(300));
        let late = Helpers::default().ask(&mut shell("sleep 5 & exit 0"), until, &NEVER);
        assert_eq!(
            late.err().map(|error| error.kind()),
            Some(io::ErrorKind::TimedOut)
        );
    }
}
