//! Slurm: one step over the nodes of the allocation, one task per node, started by `srun`.
//!
//! The step has every resource of its nodes and shares them with other steps (`--overlap`). Its tasks read
//! the secret from srun's stdin, which Slurm copies to each of them, and have the environment of the
//! coordinator, as users of srun expect. `sbcast` brings the program. No ssh is needed.
#![forbid(unsafe_code)]

use super::tasks::Launcher;
use std::path::Path;
use std::process::Command;

/// `srun` inside an allocation.
pub struct Srun {
    options: Vec<String>,
}

/// Of every step: the tasks of other nodes go on if one fails, and MPI is not set up.
const OPTIONS: [&str; 6] = [
    "--overlap",
    "--ntasks-per-node=1",
    "--mpi=none",
    "--kill-on-bad-exit=0",
    // Where the allocation outlives a node that fails, so does the step.
    "--no-kill",
    "--wait=0",
];

impl Srun {
    /// With further options of srun.
    pub fn new(options: Vec<String>) -> Self {
        Self { options }
    }
}

impl Launcher for Srun {
    fn name(&self) -> &'static str {
        "srun"
    }

    fn all(&self, nodes: &[String], line: &str) -> Command {
        let mut command = Command::new("srun");
        command.args(OPTIONS).args(&self.options);
        command.arg(format!("--nodes={}", nodes.len()));
        command.arg(format!("--ntasks={}", nodes.len()));
        command.arg(format!("--nodelist={}", nodes.join(",")));
        command.args(["sh", "-c", line]);
        command
    }

    fn node_word(&self) -> &'static str {
        "\"$SLURMD_NODENAME\""
    }

    fn has_stdin(&self) -> bool {
        true
    }

    fn one(&self) -> String {
        let words = OPTIONS.iter().copied();
        let words = words.chain(self.options.iter().map(String::as_str));
        let words = shlex::try_join(words).unwrap_or_default();
        format!("srun {words} --nodes=1 --ntasks=1 --nodelist={{}} --")
    }

    fn broadcast(&self, from: &Path, to: &Path) -> Option<Command> {
        let mut command = Command::new("sbcast");
        command.arg("--force").arg(from).arg(to);
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_runs_a_task_on_each_node_and_another_one_node() {
        let srun = Srun::new(vec!["--export=ALL,A=b c".into()]);
        let all = srun.all(&["a3-0".into(), "a3-1".into()], "exec x");
        let words: Vec<_> = all.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[..6], OPTIONS);
        let rest = "--export=ALL,A=b c|--nodes=2|--ntasks=2|--nodelist=a3-0,a3-1|sh|-c|exec x";
        assert_eq!(words[6..].join("|"), rest);
        let one = shlex::split(&srun.one()).expect("words");
        assert_eq!(one[1..7], OPTIONS);
        let rest = "--export=ALL,A=b c|--nodes=1|--ntasks=1|--nodelist={}|--";
        assert_eq!(one[7..].join("|"), rest);
    }
}
