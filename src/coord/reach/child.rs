//! Transport to this machine: the agent is a child process.
#![forbid(unsafe_code)]

use super::{Addresses, AgentLink, Hold, Opening, ReachError, Transport, Until, lines};
use crate::process::spawn::ourselves;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tcpx_words::error::Outcome;

/// Starts the agent from the same executable as this process.
pub struct Local;

impl Transport for Local {
    fn node(&self) -> &str {
        "this machine"
    }

    fn open(&self, _opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let failed = |error| {
            ReachError::new(
                self.node(),
                Outcome::NotRun,
                match Path::new("/proc/self").exists() {
                    true => format!("cannot start an agent: {error}"),
                    false => "cannot start an agent: /proc is not mounted here".to_owned(),
                },
            )
        };
        let mut command = Command::new(ourselves());
        command.arg("agent").stderr(Stdio::inherit());
        started(command).map_err(failed)
    }
}

/// Starts `command` with its stdin and stdout as the link.
pub(super) fn started(command: Command) -> std::io::Result<AgentLink> {
    started_as(command).map(|(link, _)| link)
}

/// As [`started`], with the number of the process.
pub(super) fn started_as(mut command: Command) -> std::io::Result<(AgentLink, Pid)> {
    // In its own process group, so that Ctrl-C reaches only the coordinator, which ends the agents
    // in order.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::Error::other("the child process has no pipes"));
    };
    let pid = Pid::from_child(&child);
    let link = AgentLink {
        to_agent: Box::new(stdin),
        from_agent: Box::new(stdout),
        stderr: child.stderr.take().map(lines),
        hold: Box::new(Process(child)),
        addresses: Addresses::default(),
    };
    Ok((link, pid))
}

/// A child process that leads a process group: `--rsh` may be a shell. If even SIGKILL does not end
/// it, because it is stuck in the kernel, it is left behind.
struct Process(Child);

impl Hold for Process {
    fn finish(&mut self, patience: Duration) {
        if !self.ends_within(patience) {
            // It has not been waited for, so the number is still that of its group. Fails only if
            // it has ended meanwhile.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            self.ends_within(patience);
        }
    }
}

impl Process {
    fn ends_within(&mut self, time: Duration) -> bool {
        let until = Until::after(time);
        while matches!(self.0.try_wait(), Ok(None)) {
            if until.is_past() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.finish(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;
    use std::io::{BufRead, BufReader};

    #[test]
    fn a_shell_that_does_not_end_is_ended_with_its_commands() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let mut link = started(command).expect("started");
        let mut line = String::new();
        BufReader::new(&mut link.from_agent)
            .read_line(&mut line)
            .expect("its number");
        let pid: i32 = line.trim().parse().expect("a number");
        let pid = Pid::from_raw(pid).expect("not zero");
        link.hold.finish(Duration::from_millis(50));
        let until = Until::after(Duration::from_secs(60));
        while test_kill_process(pid).is_ok() {
            assert!(!until.is_past(), "{pid:?} is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
