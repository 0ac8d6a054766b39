//! This machine: the agent is a child process.
#![forbid(unsafe_code)]

use super::{Addresses, AgentLink, Hold, ReachError, Transport, Until, lines};
use crate::process::spawn::ourselves;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tcpx_words::error::Outcome;

/// A child of this process, from the same file.
pub struct Local;

impl Transport for Local {
    fn node(&self) -> &str {
        "this machine"
    }

    fn open(&self, _progress: &mut dyn FnMut(u64, u64)) -> Result<AgentLink, ReachError> {
        let failed = |error| {
            ReachError::new(
                self.node(),
                Outcome::NotRun,
                format!("cannot start an agent: {error}"),
            )
        };
        let mut command = Command::new(ourselves());
        command.arg("agent").stderr(Stdio::inherit());
        started(command).map_err(failed)
    }
}

/// Starts `command` with its stdin and stdout as the link.
pub(super) fn started(mut command: Command) -> std::io::Result<AgentLink> {
    // A group of its own: Ctrl-C is for the coordinator, which ends the rest in order.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::Error::other("no pipes to it"));
    };
    Ok(AgentLink {
        to_agent: Box::new(stdin),
        from_agent: Box::new(stdout),
        beside: child.stderr.take().map(lines),
        hold: Box::new(Process(child)),
        addresses: Addresses::default(),
    })
}

/// A child; one that not even SIGKILL ends, because it is stuck in the kernel,
/// is left to it.
struct Process(Child);

impl Hold for Process {
    fn finish(&mut self, patience: Duration) {
        if !self.ends_within(patience) {
            let _ = self.0.kill();
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
