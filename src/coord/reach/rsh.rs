//! Transport through any program that runs a command on a node and forwards its stdin and stdout,
//! like rsync's `-e`: `--rsh 'ssh -J bastion'`, `--rsh 'kubectl exec -i {} --'`.
//!
//! `{}` is replaced by the node; without `{}`, the node is appended. The agent's shell line
//! follows: as one argument for programs such as ssh, which pass it to a shell on the node, or as
//! the three arguments `sh -c LINE` if CMD ends in `--`, for programs that start a command without
//! a shell.
#![forbid(unsafe_code)]

use super::install::{Boot, bring};
use super::{Addresses, AgentLink, Opening, REACH_MAX, ReachError, Transport, child};
use std::net::ToSocketAddrs;
use std::process::{Command, Stdio};
use tcpx_words::error::Outcome;

/// A node that is reached through a command.
pub struct Rsh {
    node: String,
    words: Vec<String>,
    boot: Boot,
}

impl Rsh {
    /// `command` is the value of `--rsh`.
    ///
    /// # Errors
    /// The command is empty or has an unclosed quote, or the node begins with `-`.
    pub fn new(node: &str, command: &str, boot: Boot) -> Result<Self, ReachError> {
        let wrong = |what: &str| ReachError::new(node, Outcome::Usage, what);
        let words = shlex::split(command).ok_or_else(|| wrong("--rsh: a quote is not closed"))?;
        if words.is_empty() {
            return Err(
                wrong("--rsh: the command is empty").next("give a command, such as --rsh ssh")
            );
        }
        if node.starts_with('-') {
            return Err(wrong("a node cannot begin with `-`"));
        }
        Ok(Self {
            node: node.to_owned(),
            words,
            boot,
        })
    }

    /// The command and arguments that run `line` on the node.
    fn arguments(&self, line: &str) -> Vec<String> {
        let mut arguments = self.to_node();
        if self.has_no_shell() {
            arguments.extend(["sh".to_owned(), "-c".to_owned()]);
            arguments.push(line.to_owned());
        } else {
            arguments.push(format!("sh -c {}", tcpx_words::units::shell_word(line)));
        }
        arguments
    }

    /// Whether the command's arguments are those of a process on the node.
    fn has_no_shell(&self) -> bool {
        self.words.last().is_some_and(|word| word == "--")
    }

    /// The command without what it runs on the node.
    fn to_node(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self
            .words
            .iter()
            .map(|word| word.replace("{}", &self.node))
            .collect();
        if arguments == self.words {
            arguments.push(self.node.clone());
        }
        arguments
    }
}

/// The command of `--rsh` that runs a shell line on a node, without tcpxctl there.
///
/// # Errors
/// As [`Rsh::new`].
pub fn command_on(node: &str, command: &str, line: &str) -> Result<Command, ReachError> {
    let nothing_to_start = Boot::at_path("");
    let arguments = Rsh::new(node, command, nothing_to_start)?.arguments(line);
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]);
    Ok(command)
}

impl Transport for Rsh {
    fn node(&self) -> &str {
        &self.node
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let node = self.node.clone();
        let found = match opening.in_thread(&self.node, REACH_MAX, move |_| addresses(&node)) {
            Err(error) if error.outcome == Outcome::Interrupted => return Err(error),
            // A run does without them.
            found => found.unwrap_or_default(),
        };
        // An image may have no shell.
        let installed = match &self.boot {
            Boot::AtPath(path) if self.has_no_shell() => Some(path),
            _ => None,
        };
        let arguments = match installed {
            Some(path) => [self.to_node(), vec![path.clone(), "agent".to_owned()]].concat(),
            None => self.arguments(&self.boot.line()),
        };
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).stderr(Stdio::piped());
        let mut link = child::started(command).map_err(|error| {
            ReachError::new(
                &self.node,
                Outcome::NotRun,
                format!("cannot start `{}`: {error}", arguments[0]),
            )
        })?;
        link.addresses = found;
        if installed.is_some() {
            return Ok(link);
        }
        bring(&self.node, link, &self.boot, opening)
    }
}

/// The addresses of the node and of this machine towards it, if the node's name resolves; it may be
/// a name that only the command understands.
fn addresses(node: &str) -> Addresses {
    let host = node.rsplit('@').next().unwrap_or(node);
    let there = (host, 22)
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next())
        .map(|address| address.ip());
    Addresses {
        here: there.and_then(super::source_towards),
        there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(command: &str) -> Vec<String> {
        Rsh::new("node1", command, Boot::at_path("/opt/tcpxctl"))
            .expect("a command")
            .arguments("exec it's")
    }

    #[test]
    fn the_node_is_inserted_and_the_line_is_passed_on_unchanged() {
        let ssh = ["ssh", "-J", "a b", "node1", r"sh -c 'exec it'\''s'"];
        assert_eq!(arguments("ssh  -J 'a b'"), ssh);
        assert_eq!(
            arguments("srun -w {} --"),
            ["srun", "-w", "node1", "--", "sh", "-c", "exec it's"]
        );
        let kubectl = [
            "kubectl",
            "exec",
            "-i",
            "pod-node1",
            "--",
            "sh",
            "-c",
            "exec it's",
        ];
        assert_eq!(arguments("kubectl exec -i pod-{} --"), kubectl);
    }

    #[test]
    fn an_invalid_command_or_node_is_refused() {
        for command in ["", "  ", "ssh 'a"] {
            assert!(
                Rsh::new("node1", command, Boot::at_path("/x")).is_err(),
                "{command:?}"
            );
        }
        assert!(Rsh::new("-oProxyCommand=x", "ssh", Boot::at_path("/x")).is_err());
    }
}
