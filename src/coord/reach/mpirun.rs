//! Open MPI: one `mpirun` over a list of hosts, one process per host, as where MPI is the habit.
//!
//! Each host is an application context of its own, so that its process knows the name that the user gave.
//! The secret travels in a variable that mpirun passes on with the process: its `--stdin all` does not
//! reach the process on mpirun's own host (4.1.4). Processes are not bound to a core, and one that is lost
//! does not end the others. There is no broadcast: a host that lacks the program gets its own copy.
#![forbid(unsafe_code)]

use super::tasks::{Launcher, SECRET_VARIABLE};
use std::path::Path;
use std::process::Command;

/// Open MPI's `mpirun`.
pub struct Mpirun {
    options: Vec<String>,
}

/// The variable with the shell line, so that it is on the command line once at most.
const LINE_VARIABLE: &str = "TCPXCTL_CALL_LINE";
const OPTIONS: [&str; 6] = [
    "--enable-recovery",
    "--bind-to",
    "none",
    "--mca",
    "orte_abort_on_non_zero_status",
    "0",
];

impl Mpirun {
    /// With further options of mpirun.
    pub fn new(options: Vec<String>) -> Self {
        Self { options }
    }
}

impl Launcher for Mpirun {
    fn name(&self) -> &'static str {
        "mpirun"
    }

    fn all(&self, nodes: &[String], line: &str) -> Command {
        let mut command = Command::new("mpirun");
        command.args(OPTIONS).args(&self.options);
        command.env(LINE_VARIABLE, line);
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                command.arg(":");
            }
            command.args(["-x", LINE_VARIABLE, "-x", SECRET_VARIABLE]);
            command.args(["--host", node, "-n", "1"]);
            let line = format!("eval \"${LINE_VARIABLE}\"");
            command.args(["sh", "-c", &line, "tcpxctl", node]);
        }
        command
    }

    fn node_word(&self) -> &'static str {
        "\"$1\""
    }

    fn has_stdin(&self) -> bool {
        false
    }

    fn one(&self) -> String {
        let words = OPTIONS.iter().copied();
        let words = words.chain(self.options.iter().map(String::as_str));
        let words = shlex::try_join(words).unwrap_or_default();
        // mpirun takes no `--`: a word that is no option begins the program.
        format!("mpirun {words} --host {{}} -n 1 env --")
    }

    fn remedy(&self, last_words: &str) -> Option<String> {
        let is_root = last_words.contains("run as root");
        is_root.then(|| {
            "add `--launcher-options --allow-run-as-root`, or run it as another user".into()
        })
    }

    fn broadcast(&self, _from: &Path, _to: &Path) -> Option<Command> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_process_that_knows_its_name() {
        let mpirun = Mpirun::new(Vec::new());
        let all = mpirun.all(&["a3-0".into(), "a3-1".into()], "exec x");
        let words: Vec<_> = all.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[..6], OPTIONS);
        let host = |name: &str| {
            format!(
                "-x TCPXCTL_CALL_LINE -x TCPXCTL_CALL_SECRET --host {name} -n 1 \
                 sh -c eval \"$TCPXCTL_CALL_LINE\" tcpxctl {name}"
            )
        };
        assert_eq!(
            words[6..].join(" "),
            [host("a3-0"), host("a3-1")].join(" : ")
        );
    }
}
