//! Commands of torchrun at the front of a log: whether they start the whole job on one host.
//!
//! Not here: a signature of such lines. A command line may hold any name, so it does not leave with a log, and the
//! verdict of a log without it may be `unknown` again.
#![forbid(unsafe_code)]

use super::front::FRONT;
use super::loggers::regex;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// A command, which may go on behind a backslash at the end of its line.
static COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\b(?:torchrun|torch\.distributed\.(?:run|launch))\b(?:[^\n\\]|\\\r?\n|\\)*")
});
static NODES: LazyLock<Regex> = LazyLock::new(|| regex(r"--nnodes[= ]\s*(?P<nodes>[^\s\\]+)"));
static STANDALONE: LazyLock<Regex> = LazyLock::new(|| regex(r"\s--standalone(?:\s|\\|$)"));
static RANKS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"--nproc[-_]per[-_]node[= ]\s*(?P<ranks>\d{1,5})\b"));

/// What the commands tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Commands {
    /// The most ranks of a command that starts all of its job on one host.
    ranks: u32,
    /// Whether a command does not, or does not say how many ranks it starts.
    has_others: bool,
}

impl Commands {
    /// Reads the front of a file.
    pub(super) fn read(&mut self, block: &[u8]) {
        for command in COMMAND.find_iter(&block[..block.len().min(FRONT)]) {
            let command = command.as_bytes();
            // Words about torchrun, as in a traceback, are no command.
            if memchr::memmem::find(command, b" --").is_none() {
                continue;
            }
            self.merge(match ranks_on_one_host(command) {
                Some(ranks) => Self {
                    ranks,
                    has_others: false,
                },
                None => Self {
                    ranks: 0,
                    has_others: true,
                },
            });
        }
    }

    /// Whether a command does not start all of its job on one host, or does not say so.
    pub(super) fn has_other_jobs(self) -> bool {
        self.has_others
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.ranks = self.ranks.max(other.ranks);
        self.has_others |= other.has_others;
    }

    /// How many ranks the commands start at most, if each starts all of its job on one host.
    pub(super) fn ranks_on_one_host(self) -> Option<u32> {
        (self.ranks > 0 && !self.has_others).then_some(self.ranks)
    }
}

fn ranks_on_one_host(command: &[u8]) -> Option<u32> {
    let nodes = NODES.captures(command);
    let is_one = match &nodes {
        Some(found) => &found["nodes"] == b"1" || &found["nodes"] == b"1:1",
        None => STANDALONE.is_match(command),
    };
    let ranks = RANKS.captures(command).filter(|_| is_one)?;
    std::str::from_utf8(&ranks["ranks"]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(log: &str) -> Option<u32> {
        let mut commands = Commands::default();
        commands.read(log.as_bytes());
        commands.ranks_on_one_host()
    }

    #[test]
    fn a_command_tells_that_its_job_is_of_one_host() {
        let check = |log: &str, expected: Option<u32>| assert_eq!(ranks(log), expected, "{log}");
        check(
            "$ torchrun --standalone --nproc_per_node=8 train.py",
            Some(8),
        );
        check(
            "+ python -m torch.distributed.run --nnodes=1 --nproc-per-node 4 a.py\n",
            Some(4),
        );
        check(
            "torchrun \\\n  --nproc_per_node 2 \\\n  --standalone train.py\n",
            Some(2),
        );
        check(
            "torchrun --nproc_per_node=8 train.py --standalone-eval",
            None,
        );
        check("torchrun --nnodes=2 --nproc_per_node=8 train.py", None);
        check("torchrun --nnodes=1:4 --nproc_per_node=8 train.py", None);
        check("torchrun --standalone --nproc_per_node=gpu train.py", None);
        check("File \"/usr/bin/torchrun\", line 7, in <module>", None);
        let both = "torchrun --standalone --nproc_per_node=8 a.py\ntorchrun --nnodes=2 --nproc_per_node=8 a.py\n";
        check(both, None);
    }

    #[test]
    fn data_of_a_job_of_one_host_stay_within_it() {
        let transport = |log: &str| crate::tests::report_of(&[("x.log", log)]).transport;
        let command = "$ torchrun --standalone --nproc_per_node=8 train.py\n";
        let of_one = transport(command);
        assert_eq!(of_one.verdict, "within-node");
        let why = "torchrun starts all 8 ranks of the job on this host";
        assert!(of_one.because.contains(why), "{}", of_one.because);
        let hosts = "node-a:7:7 [0] NCCL INFO Using network Socket\nnode-b:7:7 [0] NCCL INFO Using network Socket\n";
        assert_eq!(transport(&format!("{command}{hosts}")).verdict, "socket");
        assert_eq!(
            transport("$ torchrun --standalone --nproc_per_node=1 a.py\n").verdict,
            "unknown"
        );
    }
}
