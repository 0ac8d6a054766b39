//! Commands of torchrun and of nccl-tests at the front of a log: whether they start the whole job on one host.
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

/// A command of nccl-tests, with what is in front of it in its line, and the GPUs and threads of its process.
static TESTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?m)^(?:[^\n\\]|\\\r?\n|\\)*?\b(?:all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|reduce|gather|scatter|hypercube)_perf +-(?:[^\n\\]|\\\r?\n|\\)*",
    )
});
static GPUS: LazyLock<Regex> = LazyLock::new(|| regex(r"\s(?:-g|--ngpus) *(?P<gpus>\d{1,3})\b"));
static LAUNCHER: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\b(?:mpirun|mpiexec\w*|orterun|prterun|srun|flux|jsrun|aprun|pdsh|ssh|kubectl)\b")
});

/// A command that starts ranks on the hosts that it lists, and these.
static LAUNCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\b(?:horovodrun|mpirun|mpiexec(?:\.hydra)?) +-(?:[^\n\\]|\\\r?\n|\\)*")
});
static HOSTS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\s(?:-H|--?hosts?)[ =]+(?P<hosts>[\w.:,-]+)"));
static STARTED: LazyLock<Regex> = LazyLock::new(|| regex(r"\s-{1,2}np? +(?P<ranks>\d{1,5})\b"));
const LOCAL: [&[u8]; 2] = [b"localhost", b"127.0.0.1"];

/// What the commands tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Commands {
    /// The most ranks of a command that starts all of its job on one host.
    ranks: u32,
    /// The most GPUs of a process of nccl-tests that no launcher started.
    gpus: u32,
    /// Whether a command does not, or does not say how many ranks it starts.
    has_others: bool,
    /// Whether a command counts other nodes, or may have them.
    has_several_nodes: bool,
    /// The most ranks of a command that starts all on this host, and whether one lists other hosts.
    local: u32,
    /// Whether MPI's launcher starts one process, and whether another command of it starts more, or an unknown number.
    has_one_process: bool,
    has_more_processes: bool,
    lists_hosts: bool,
    /// The most ranks of a command that counts no nodes, which is of one unless an environment says otherwise.
    without_nodes: u32,
}

impl Commands {
    /// Reads the front of a file.
    pub(super) fn read(&mut self, block: &[u8]) {
        for command in TESTS.find_iter(&block[..block.len().min(FRONT)]) {
            let gpus = gpus_of_tests(command.as_bytes());
            self.merge(Self {
                gpus: gpus.unwrap_or_default(),
                has_others: gpus.is_none(),
                ..Self::default()
            });
        }
        for command in LAUNCH.find_iter(&block[..block.len().min(FRONT)]) {
            let hosts = HOSTS.captures(command.as_bytes());
            let ranks = STARTED.captures(command.as_bytes());
            let is_one = ranks.as_ref().is_some_and(|one| &one["ranks"] == b"1")
                && memchr::memmem::find(command.as_bytes(), b" : ").is_none()
                && block[..command.start()]
                    .rsplit(|byte| *byte == b'\n')
                    .next()
                    .is_some_and(is_prompt);
            self.merge(Self {
                has_one_process: is_one,
                has_more_processes: !is_one,
                ..Self::default()
            });
            let (Some(hosts), Some(ranks)) = (hosts, ranks) else {
                continue;
            };
            let ranks = std::str::from_utf8(&ranks["ranks"]);
            let ranks = ranks.ok().and_then(|ranks| ranks.parse().ok());
            let mut hosts = hosts["hosts"].split(|byte| *byte == b',');
            let is_local = hosts.all(|host| {
                let name = host.split(|byte| *byte == b':').next();
                name.is_some_and(|name| LOCAL.contains(&name))
            });
            self.merge(Self {
                local: ranks.filter(|_| is_local).unwrap_or_default(),
                lists_hosts: !is_local,
                ..Self::default()
            });
        }
        for command in COMMAND.find_iter(&block[..block.len().min(FRONT)]) {
            let command = command.as_bytes();
            // Words about torchrun, as in a traceback, are no command.
            if memchr::memmem::find(command, b" --").is_none() {
                continue;
            }
            self.merge(match ranks_on_one_host(command) {
                Some(ranks) => Self {
                    ranks,
                    ..Self::default()
                },
                None => Self {
                    has_others: true,
                    has_several_nodes: NODES.captures(command).is_some_and(|one| !is_one(&one)),
                    without_nodes: ranks_of(command)
                        .filter(|_| !NODES.is_match(command))
                        .unwrap_or_default(),
                    ..Self::default()
                },
            });
        }
    }

    /// Whether a command does not start all of its job on one host, or does not say so.
    pub(super) fn has_other_jobs(self) -> bool {
        self.has_others
    }

    /// How many ranks a command starts that counts no nodes.
    pub(super) fn ranks_without_nodes(self) -> Option<u32> {
        (self.without_nodes > 1 && !self.has_several_nodes).then_some(self.without_nodes)
    }

    /// How many ranks a command starts at most, if each that lists hosts has this one alone.
    pub(super) fn ranks_on_localhost(self) -> Option<u32> {
        (self.local > 1 && !self.lists_hosts).then_some(self.local)
    }

    /// Whether a command counts other nodes, or may have them.
    pub(super) fn has_several_nodes(self) -> bool {
        self.has_several_nodes
    }

    /// Whether MPI's launcher starts one process, and no other launcher any.
    pub(super) fn has_one_process(self) -> bool {
        self.has_one_process
            && !self.has_more_processes
            && !self.has_others
            && !self.has_several_nodes
            && self.ranks.max(self.without_nodes).max(self.gpus) == 0
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.ranks = self.ranks.max(other.ranks);
        self.gpus = self.gpus.max(other.gpus);
        self.has_others |= other.has_others;
        self.local = self.local.max(other.local);
        self.lists_hosts |= other.lists_hosts;
        self.has_one_process |= other.has_one_process;
        self.has_more_processes |= other.has_more_processes;
        self.has_several_nodes |= other.has_several_nodes;
        self.without_nodes = self.without_nodes.max(other.without_nodes);
    }

    /// How many GPUs a process of nccl-tests has at most, if no command starts a job on other hosts.
    pub(super) fn gpus_of_tests(self) -> Option<u32> {
        (self.gpus > 0 && !self.has_others).then_some(self.gpus)
    }

    /// How many ranks the commands start at most, if each starts all of its job on one host.
    pub(super) fn ranks_on_one_host(self) -> Option<u32> {
        (self.ranks > 0 && !self.has_others).then_some(self.ranks)
    }
}

/// Whether what is before a command in its line is the prompt of a shell, and a folder: advice quotes commands.
fn is_prompt(before: &[u8]) -> bool {
    let folder = before
        .iter()
        .rev()
        .take_while(|byte| !byte.is_ascii_whitespace());
    let before = before[..before.len() - folder.count()].trim_ascii_end();
    before.is_empty() || before.ends_with(b"$") || before.ends_with(b"#") || before.ends_with(b"+")
}

/// How many GPUs a process of nccl-tests has, unless a launcher starts several.
fn gpus_of_tests(command: &[u8]) -> Option<u32> {
    let gpus = GPUS
        .captures(command)
        .filter(|_| !LAUNCHER.is_match(command))?;
    std::str::from_utf8(&gpus["gpus"]).ok()?.parse().ok()
}

fn ranks_on_one_host(command: &[u8]) -> Option<u32> {
    let nodes = NODES.captures(command);
    let is_one = match &nodes {
        Some(found) => is_one(found),
        None => STANDALONE.is_match(command),
    };
    ranks_of(command).filter(|_| is_one)
}

fn ranks_of(command: &[u8]) -> Option<u32> {
    let ranks = RANKS.captures(command)?;
    std::str::from_utf8(&ranks["ranks"]).ok()?.parse().ok()
}

fn is_one(nodes: &regex::bytes::Captures<'_>) -> bool {
    matches!(&nodes["nodes"], b"1" | b"1:1")
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
    fn a_process_of_nccl_tests_has_its_gpus_on_one_host() {
        let check = |log: &str, expected: Option<u32>| {
            let mut commands = Commands::default();
            commands.read(log.as_bytes());
            assert_eq!(commands.gpus_of_tests(), expected, "{log}");
        };
        check("all_reduce_perf -g 4-b 8 -e 16\n", Some(4));
        check("$ ./build/all_gather_perf -b 8 -e 1G -f 2 -g 8\n", Some(8));
        check("mpirun -np 2 ./build/all_reduce_perf -b 8 -g 8\n", None);
        check(
            "mpirun -np 2 \\\n  ./build/all_reduce_perf -b 8 -g 8\n",
            None,
        );
        check("./build/all_reduce_perf -b 8\n", None);
        check("the results of all_reduce_perf are below\n", None);
        let log = "all_reduce_perf -g 4-b 8 -e 16\n[node-a:71] *** Process received signal ***\n";
        let transport = crate::tests::report_of(&[("x.log", log)]).transport;
        assert_eq!(transport.verdict, "within-node");
        let why = "one process of nccl-tests has all 4 GPUs";
        assert!(transport.because.contains(why), "{}", transport.because);
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
