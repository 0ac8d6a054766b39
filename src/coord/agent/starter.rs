//! The process that started the agent: of a launcher's task, the launcher's daemon on the node, such as
//! slurmstepd or orted.
//!
//! A task belongs to its launcher: without the daemon, the scheduler counts the node as free, or cannot end
//! the task any more. An agent over ssh or `kubectl exec` ends with its stdin instead.
#![forbid(unsafe_code)]

use rustix::process::{Pid, getppid};

pub(super) struct Starter {
    /// `None` in another process namespace.
    pid: Option<Pid>,
    name: String,
}

impl Starter {
    /// That of this process, while it is there.
    pub(super) fn of_this_process() -> Self {
        let pid = getppid();
        let name = pid.and_then(|pid| {
            let comm =
                std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
            Some(comm.trim().to_owned()).filter(|name| !name.is_empty())
        });
        Self {
            pid,
            name: name.unwrap_or_else(|| "the process".to_owned()),
        }
    }

    /// Why the agent should end: a process whose parent has ended gets another one.
    pub(super) fn is_gone(&self) -> Option<String> {
        let is_gone = getppid() != self.pid;
        is_gone.then(|| format!("{}, which had started it, is gone", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_starter_is_there_while_the_parent_is() {
        let starter = Starter::of_this_process();
        assert_eq!(starter.is_gone(), None);
        let gone = Starter {
            pid: Pid::from_raw(i32::MAX),
            name: "slurmstepd".into(),
        };
        let why = "slurmstepd, which had started it, is gone";
        assert_eq!(gone.is_gone().as_deref(), Some(why));
    }
}
