//! One program that starts a task on every node, such as `srun`: each task becomes an agent that calls in.
//!
//! The program is started once, by the first node that is opened, and gets the secret of the calls over a
//! channel of its own (stdin, or a variable), never on its command line. A task whose node lacks this
//! program says so: the program is then copied as over ssh, by one more process of the launcher, after the
//! launcher's own broadcast if every node lacks it.
//!
//! Clean-up: an agent ends with its connection or when the coordinator is silent, so also when the launcher
//! or the coordinator was killed. The launcher ends after its tasks; what does not is killed.
#![forbid(unsafe_code)]

use super::call_in::{Call, Roll, own_addresses, take_calls};
use super::install::{ANSWER_PREFIX, Boot, refused};
use super::last_words::LastWords;
use super::rsh::Rsh;
use super::{AgentLink, Opening, ReachError, Transport, Unheard, Until, lines};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tcpx_bootstrap::{Secret, listen_at};
use tcpx_words::error::Outcome;

/// The variable that carries the secret to a task, where the launcher passes variables on.
pub const SECRET_VARIABLE: &str = "TCPXCTL_CALL_SECRET";
/// How long the launcher may take to end once its agents have.
const ENDS_MAX: Duration = Duration::from_millis(1500);
/// How long it may take after SIGTERM.
const ENDS_AFTER_TERM_MAX: Duration = Duration::from_secs(1);
/// How long the first node that lacks the program waits for what the others say.
const ANSWERS_MAX: Duration = Duration::from_secs(2);
/// Longest time of a broadcast; then each node gets its own copy.
const BROADCAST_MAX: Duration = Duration::from_secs(60);

/// A program that starts tasks on the nodes of an allocation.
pub trait Launcher: Send + Sync {
    /// Its name: `srun`.
    fn name(&self) -> &'static str;

    /// The command that runs a shell line once on each node, with the node's name as the shell word that
    /// [`Launcher::node_word`] returns.
    fn all(&self, nodes: &[String], line: &str) -> Command;

    /// The shell word for the name of a task's node.
    fn node_word(&self) -> &'static str;

    /// Whether each task reads what the launcher reads from stdin. If not, the secret travels in
    /// [`SECRET_VARIABLE`], which `all` passes on.
    fn has_stdin(&self) -> bool;

    /// The words before `sh -c LINE` that run a line on one node, which `{}` stands for.
    fn one(&self) -> String;

    /// What to do after it ended too early with these last words, if they tell.
    fn remedy(&self, _last_words: &str) -> Option<String> {
        None
    }

    /// The command that copies a file of this machine to a path on every node.
    fn broadcast(&self, from: &Path, to: &Path) -> Option<Command>;
}

/// The tasks of one run.
pub struct Tasks {
    launcher: Box<dyn Launcher>,
    nodes: Vec<String>,
    boot: Boot,
    /// Where to listen for calls.
    at: SocketAddr,
    /// How long a node may take to call in.
    call_max: Duration,
    started: OnceLock<Result<Started, ReachError>>,
    /// Whether the broadcast was made or is not needed.
    brought: Mutex<bool>,
}

struct Started {
    roll: Arc<Roll>,
    process: Mutex<Child>,
    until: Until,
}

/// One node of [`Tasks`].
pub struct TaskOfNode {
    node: String,
    tasks: Arc<Tasks>,
}

impl Tasks {
    /// A transport for each of `nodes`.
    pub fn transports(
        launcher: Box<dyn Launcher>,
        nodes: Vec<String>,
        boot: Boot,
        at: Option<SocketAddr>,
        call_max: Duration,
    ) -> Vec<Box<dyn Transport>> {
        let tasks = Arc::new(Self {
            launcher,
            nodes: nodes.clone(),
            boot,
            at: at.unwrap_or_else(|| (Ipv6Addr::UNSPECIFIED, 0).into()),
            call_max,
            started: OnceLock::new(),
            brought: Mutex::new(false),
        });
        let of_node = |node| {
            let tasks = Arc::clone(&tasks);
            Box::new(TaskOfNode { node, tasks }) as Box<dyn Transport>
        };
        nodes.into_iter().map(of_node).collect()
    }

    fn started(&self) -> Result<&Started, ReachError> {
        let started = self.started.get_or_init(|| self.start());
        started.as_ref().map_err(ReachError::clone)
    }

    fn start(&self) -> Result<Started, ReachError> {
        let name = self.launcher.name();
        let cannot = |what: String| ReachError::new(name, Outcome::NotRun, what);
        let secret = Secret::generate()
            .map_err(|error| cannot(format!("cannot generate a secret: {error}")))?;
        let roll = Arc::new(Roll::default());
        let listening = listen_at(self.at);
        let port = listening.and_then(|listener| take_calls(listener, secret.clone(), &roll));
        let port = port.map_err(|error| {
            cannot(format!(
                "cannot listen for the agents on {}: {error}",
                self.at
            ))
            .next("give another --listen ADDRESS:PORT")
        })?;
        let mut command = self.launcher.all(&self.nodes, &self.line(port));
        command.env_remove(SECRET_VARIABLE);
        if !self.launcher.has_stdin() {
            command.env(SECRET_VARIABLE, secret.to_hex());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // In its own process group, so that Ctrl-C reaches only the coordinator.
        command.stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| {
            let what = format!("cannot start `{name}`: {error}");
            cannot(what).next("run this inside an allocation, or name the nodes for --launcher ssh")
        })?;
        if let Some(mut stdin) = child.stdin.take()
            && self.launcher.has_stdin()
        {
            // If the launcher has ended already, its last line says why.
            let _ = writeln!(stdin, "{}", secret.to_hex());
        }
        let stderr = child.stderr.take().map(lines);
        if let Some(stdout) = child.stdout.take() {
            let (stdout, roll) = (lines(stdout), Arc::clone(&roll));
            thread::spawn(move || follow(&stdout, stderr, &roll));
        }
        Ok(Started {
            roll,
            process: Mutex::new(child),
            until: Until::after(self.call_max),
        })
    }

    /// The shell line of a task.
    fn line(&self, port: u16) -> String {
        let addresses = match self.at.ip() {
            any if any.is_unspecified() => own_addresses(),
            one => vec![one],
        };
        let calls = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
        let calls: Vec<String> = calls.map(|at| format!("--call {at}")).collect();
        self.boot
            .task_line(self.launcher.node_word(), &calls.join(" "))
    }

    /// Brings the program to all nodes at once, if most of them lack it: once.
    fn bring(&self, started: &Started, opening: &Opening<'_>) {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *brought, true) {
            return;
        }
        let most = self.nodes.len() / 2 + 1;
        let until = Until::after(ANSWERS_MAX);
        let most_lack_it = started.roll.wait(until, opening.interrupted, |calls| {
            let lacking = calls.answers.values().filter(|answer| *answer == NEEDS);
            (lacking.count() >= most).then_some(())
        });
        let (Ok(()), Some(to)) = (most_lack_it, self.boot.brought()) else {
            return;
        };
        // Not /proc/self, which is another program for another process.
        let from = format!("/proc/{}/exe", std::process::id());
        if let Some(mut command) = self.launcher.broadcast(Path::new(&from), &to) {
            command.stdin(Stdio::null()).stdout(Stdio::null());
            // If it fails, each node gets its own copy.
            if let Ok(mut child) = command.stderr(Stdio::null()).process_group(0).spawn()
                && !ends_within(&mut child, BROADCAST_MAX)
            {
                // With what it has started. Fails only if it has ended meanwhile.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
            }
            // This machine has the program.
            let _ = std::fs::remove_file(to);
        }
    }
}

/// The answer of a task whose node lacks the program.
const NEEDS: &str = "need";

/// Lines of a launcher that are kept: there may be one per task.
const SAID_MAX: usize = 1000;

/// Reads what the launcher prints to its end: answers of shell lines, and the first lines of anything else.
fn follow(
    stdout: &mpsc::Receiver<String>,
    stderr: Option<mpsc::Receiver<String>>,
    roll: &Arc<Roll>,
) {
    let for_stderr = Arc::clone(roll);
    let stderr = thread::spawn(move || {
        let mut words = LastWords::default();
        for line in stderr.into_iter().flatten() {
            keep(line, &mut words, &for_stderr);
        }
        words.into_words()
    });
    let mut words = LastWords::default();
    for line in stdout {
        let answer = line.strip_prefix(ANSWER_PREFIX).map(str::trim);
        match answer.and_then(|answer| answer.split_once(' ')) {
            Some((node, answer)) => roll.change(|calls| {
                calls.answers.insert(node.to_owned(), answer.to_owned());
            }),
            None => keep(line, &mut words, roll),
        }
    }
    // stdout has ended, so the launcher has: what it says about that is on stderr.
    let last = stderr.join().ok().flatten().or(words.into_words());
    let last = last.map(|words| format!("; its last words are: {words}"));
    roll.change(|calls| calls.ended = Some(last.unwrap_or_default()));
}

/// Keeps a line, unless it is empty or the frame of other lines.
fn keep(line: String, words: &mut LastWords, roll: &Roll) {
    if words.hear(&line) {
        roll.change(|calls| {
            if calls.said.len() < SAID_MAX {
                calls.said.push(line);
            }
        });
    }
}

/// What the roll says of a node.
enum Heard {
    Called(Call),
    Needs,
    Refused(String),
    LauncherEnded(String),
}

impl Transport for TaskOfNode {
    fn node(&self) -> &str {
        &self.node
    }

    fn is_login(&self) -> bool {
        false
    }

    fn launcher_said(&self) -> Option<Vec<String>> {
        let Some(Ok(started)) = self.tasks.started.get() else {
            return None;
        };
        let mut process = started
            .process
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = process.try_wait().ok().flatten();
        let mut said = Vec::new();
        started
            .roll
            .change(|calls| said.extend(calls.said.iter().cloned()));
        // Without an agent it ends, and with success.
        if let Some(status) = ended.filter(|status| !status.success()) {
            let name = self.tasks.launcher.name();
            said.push(format!("{name} ended before the run ({status})"));
        }
        Some(said)
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let name = self.tasks.launcher.name();
        let started = self.tasks.started()?;
        let lost = |what: String| ReachError::new(&self.node, Outcome::PeerLost, what);
        let heard = started
            .roll
            .wait(started.until, opening.interrupted, |calls| {
                if let Some(call) = calls.called.remove(&self.node) {
                    return Some(Heard::Called(call));
                }
                match calls.answers.get(&self.node).map(String::as_str) {
                    Some(NEEDS) => return Some(Heard::Needs),
                    Some(why) => return Some(Heard::Refused(why.to_owned())),
                    None => {}
                }
                calls.ended.clone().map(Heard::LauncherEnded)
            });
        match heard {
            Ok(Heard::Called(call)) => call.link().map_err(|error| lost(error.to_string())),
            Ok(Heard::Needs) => {
                self.tasks.bring(started, opening);
                let boot = self.tasks.boot.clone();
                Rsh::new(&self.node, &self.tasks.launcher.one(), boot)?.open(opening)
            }
            Ok(Heard::Refused(why)) => {
                let why = why.strip_prefix("failed ").unwrap_or(&why);
                Err(refused(&self.node, why))
            }
            Ok(Heard::LauncherEnded(last)) => {
                let check = || format!("check that `{name}` can start a command on this node, such as `true`");
                let remedy = self.tasks.launcher.remedy(&last).unwrap_or_else(check);
                let what = format!("{name} ended before the agent of this node called in{last}");
                Err(lost(what).next(remedy))
            }
            Err(Unheard::Interrupted) => Err(ReachError::interrupted(&self.node)),
            Err(Unheard::Late | Unheard::Ended) => Err(lost(format!(
                "its agent did not call in within {} s",
                self.tasks.call_max.as_secs()
            ))
            .next("check that the node is up and can connect to this machine, or give it more time with --wait")),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        end(&mut process);
    }
}

/// Waits until a launcher has ended, and kills it and its helpers if it does not.
fn end(child: &mut Child) {
    if ends_within(child, ENDS_MAX) {
        return;
    }
    let group = Pid::from_child(child);
    // A launcher tells its daemons to end the tasks, which a SIGKILL would leave to the agents.
    let _ = kill_process_group(group, Signal::TERM);
    if !ends_within(child, ENDS_AFTER_TERM_MAX) {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
}

fn ends_within(child: &mut Child, time: Duration) -> bool {
    let until = Until::after(time);
    loop {
        match child.try_wait() {
            Ok(None) if until.is_past() => return false,
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}
