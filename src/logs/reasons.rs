//! What the words of an error mean, whatever the program is that writes them.
//!
//! A line that no signature explains mostly has words of the system, such as `Connection refused`, or
//! words that all programs use alike, such as `heartbeat` or `must be divisible by`. They tell what to
//! look at. The system's words also tell more than a signature of lines that name no cause.
#![forbid(unsafe_code)]

use super::report::{STATED_ERROR, SignatureFinding, UNKNOWN_WARNING};
use super::signature::{Role, Signature};
use regex::{RegexSet, RegexSetBuilder};
use std::sync::LazyLock;

/// An error of the system.
struct Reason {
    /// Its words, as a regex; case does not decide.
    words: &'static str,
    /// The likeliest first.
    causes: &'static [&'static str],
    next: &'static str,
}

/// The words of the system. The first whose words are in a line counts: what names an object is
/// before what names a call.
const OF_SYSTEM: [Reason; 23] = [
    Reason {
        words: r"nvidia-container-cli|nvml error: driver|nvidia driver is not loaded|communicate with the nvidia driver|could not select device driver",
        causes: &[
            "the container cannot use the GPU driver of this node: it is not loaded, not found, or of another release",
        ],
        next: "`nvidia-smi` on the node itself, outside of any container; then the container toolkit's log and configuration",
    },
    Reason {
        words: r"\bSIGKILL\b|\bsignal 9\b|exit(?:ed|s)?(?: with)?(?: (?:exit|return))?[ _]?(?:code|status)?[ :=]*(?:137|-9)\b|oom[-_ ]?kill|tasks? \S+: killed|\d\s+killed\b|^killed$",
        causes: &[
            "the process was killed from outside, mostly because the node or its container was out of memory",
        ],
        next: "`dmesg -T | grep -i -e oom -e killed` on its node, and the memory limit of the container",
    },
    Reason {
        words: r"\bidentifier removed|\bEIDRM\b|shmat|shm_open|shared memory (?:error|segment)",
        causes: &[
            "a segment of shared memory is gone or cannot be attached: its owner ended, or the containers of the node do not share it",
        ],
        next: "`df -h /dev/shm` and `ipcs -m` in both containers; containers of one node need one IPC namespace",
    },
    Reason {
        words: r"name or service not known|name resolution|could not resolve host|no such host|nodename nor servname|gaierror",
        causes: &[
            "the name of a host has no address on this node: it is misspelt, of another domain, or DNS does not answer",
        ],
        next: "`getent hosts NAME` on this node, with the name in the line",
    },
    Reason {
        words: r"\bconnection refused|\bECONNREFUSED\b",
        causes: &[
            "nothing listens at the address: its program did not start, has ended, or listens on another port",
        ],
        next: "read the log of the program that should listen there; `ss -ltnp` on its node shows what does",
    },
    Reason {
        words: r"\bconnection timed out|\bconnect\(\) timed out|\boperation timed out|\bETIMEDOUT\b|timed out .*\bconnect",
        causes: &[
            "no answer came from the address: a firewall, another network, or a node that is down",
        ],
        next: "`nc -vz HOST PORT` from this node, with the address in the line or above it",
    },
    Reason {
        words: r"no route to host|network is unreachable|host is unreachable|\bEHOSTUNREACH\b",
        causes: &[
            "this node has no route to the address: another network, an interface that is down, or a firewall",
        ],
        next: "`ip route get ADDRESS` on this node, with the address in the line or above it",
    },
    Reason {
        words: r"connection (?:was )?(?:reset|aborted|closed by)|connection to \S+ closed by|\bbroken pipe(?:$|[^ ]| [^ ])|connection abort|\bECONNRESET\b|remote end closed connection|socket closed|\bend of file\b|\bEOF\b|remote_disconnect|disconnected",
        causes: &[
            "the program at the other end of the connection ended or was ended: its own log has the reason",
        ],
        next: "read the last lines of the program at the other end, before this time",
    },
    Reason {
        words: r"address already in use|failed to bind|check failed: bind\(|\bEADDRINUSE\b",
        causes: &["another process has the port, often one of an earlier job"],
        next: "`ss -ltnp` on this node shows which process has the port",
    },
    Reason {
        words: r"cannot assign requested address|\bEADDRNOTAVAIL\b",
        causes: &["the address is not one of this node"],
        next: "compare the address with `ip -br addr` on this node",
    },
    Reason {
        words: r"\bno space left on device|\bENOSPC\b",
        causes: &["a file system is full: the disk, /tmp, or /dev/shm of the container"],
        next: "`df -h` and `df -i` on this node, in the container",
    },
    Reason {
        words: r"\btoo many open files|\bEMFILE\b",
        causes: &["the process has as many open files as its limit allows"],
        next: "`ulimit -n` where the program starts; raise it",
    },
    Reason {
        words: r"cannot allocate memory|\bENOMEM\b|std::bad_alloc|\bMemoryError\b|\bout of memory\b",
        causes: &[
            "memory is used up: of the GPU, of the node, of the container, or of what a process may lock",
        ],
        next: "`nvidia-smi`, `free -g`, `ulimit -l` and the memory limit of the container on this node",
    },
    Reason {
        // A call of accept that found no peer within its time is no limit.
        words: r"accept failed:? resource temporarily unavailable",
        causes: &[
            "no peer came to the socket before it was closed: this process is being aborted, or another rank of the node ended",
        ],
        next: "read the first failure of the other ranks of this node",
    },
    Reason {
        words: r"resource temporarily unavailable|can't start new thread|\bEAGAIN\b",
        causes: &["a limit on processes or threads is reached"],
        next: "`ulimit -u` and the pids limit of the container",
    },
    Reason {
        words: r"read-only file system|\bEROFS\b",
        causes: &["the file system is mounted read-only"],
        next: "`findmnt -T PATH` on this node, with the path in the line",
    },
    Reason {
        words: r"\bpermission denied|operation not permitted|\bEACCES\b|\bEPERM\b|insufficient permission",
        causes: &[
            "the user of the process lacks a right: a mode of a file, a key of ssh, or a capability or device of the container",
        ],
        next: "compare the user, the groups and the capabilities of the process with what the line asks for",
    },
    Reason {
        words: r"\b40[13] (?:client error|unauthorized|forbidden)|\bunauthorized\b|gated ?repo|invalid token|authentication failed",
        causes: &["the credentials are missing, expired, or lack the right"],
        next: "check the token or the key that this process has, and what it may do",
    },
    Reason {
        words: r"certificate (?:verify failed|has expired)|\bx509:",
        causes: &[
            "the certificate is not trusted here, has expired, or the clock of this node is wrong",
        ],
        next: "`date` on this node, and the list of trusted certificates of the image",
    },
    Reason {
        words: r"no such file or directory|executable file not found|command not found|: not found$|\bENOENT\b|cannot open shared object file",
        causes: &[
            "the path does not exist on this node or in this image, or its search path lacks the folder",
        ],
        next: "look for the path on this node, in the container; compare PATH and LD_LIBRARY_PATH",
    },
    Reason {
        words: r"exec format error",
        causes: &["the program was built for another kind of processor"],
        next: "compare `file PROGRAM` with `uname -m` on this node",
    },
    Reason {
        words: r"\bno such device|\bENODEV\b|device or resource busy",
        causes: &[
            "the device is missing on this node or in this container, or another process has it",
        ],
        next: "`nvidia-smi -L`, `ibv_devices` and `ls /dev` in the container",
    },
    Reason {
        words: r"input/output error|remote i/o error|stale file handle|transport endpoint is not connected",
        causes: &["a device or a network file system failed"],
        next: "`dmesg -T | tail` on this node, from the time of the line on",
    },
];

/// The source files of NCCL whose warnings are about one part of it.
const OF_NCCL: [Reason; 8] = [
    Reason {
        words: r"transport/nvls\.cc:",
        causes: &[
            "multicast over NVLink (NVLS) was not set up: the fabric manager does not run or lost its state, or the container hides GPUs",
        ],
        next: "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node; NCCL_NVLS_ENABLE=0 goes without it",
    },
    Reason {
        words: r"(?:include/shm\.h|shmutils\.cc|transport/shm\.(?:cc|cu)):",
        causes: &[
            "shared memory between processes of one node was not set up: /dev/shm is too small, or the containers do not share it",
        ],
        next: "`df -h /dev/shm` in the container; NCCL_SHM_DISABLE=1 goes without it",
    },
    Reason {
        words: r"transport/p2p\.(?:cc|cu):",
        causes: &[
            "GPUs of one node cannot access each other's memory: separate containers, an IOMMU or ACS, or hidden devices",
        ],
        next: "`nvidia-smi topo -p2p r` in the container; NCCL_P2P_DISABLE=1 goes without it",
    },
    Reason {
        words: r"(?:misc/ibv\w+|transport/net_ib\w*(?:/\w+)?)\.(?:cc|cu|h):",
        causes: &[
            "an InfiniBand or RoCE NIC refused a call: its port is down, its GID does not fit, or the container lacks its device or locked memory",
        ],
        next: "`ibv_devinfo`, `show_gids` and `ulimit -l` in the container",
    },
    Reason {
        words: r"graph/\w+\.(?:cc|cu|h):",
        causes: &[
            "NCCL does not understand the machine's topology: a virtual machine, a container, or a file of NCCL_TOPO_FILE",
        ],
        next: "`nvidia-smi topo -m` on the host and in the container; unset NCCL_TOPO_FILE",
    },
    Reason {
        words: r"proxy\.(?:cc|cu):",
        causes: &[
            "NCCL's proxy thread got what it did not expect: another rank had ended, or a program that is not NCCL connected to its port",
        ],
        next: "read the first failure of the other ranks of this node; look for port scanners",
    },
    Reason {
        words: r"(?:bootstrap|misc/socket|include/socket)\.(?:cc|cu|h):",
        causes: &[
            "the connections between ranks failed: a rank ended, or they use another network",
        ],
        next: "read the first failure of the other ranks; set NCCL_SOCKET_IFNAME to the interface that all nodes share",
    },
    Reason {
        words: r"(?:misc/argcheck|enqueue|group)\.(?:cc|cu):",
        causes: &["the program called NCCL with wrong arguments or in a wrong order"],
        next: "compare the calls of all ranks: operation, count, type, communicator",
    },
];

/// What an RDMA device says of a request that failed, in the words of libibverbs and of what uses it.
const OF_RDMA: [Reason; 6] = [
    Reason {
        words: r"transport retry counter exceeded|retry exceeded error",
        causes: &[
            "the peer's NIC does not answer: packets are lost on the path, the rails, GIDs or MTUs differ, or the peer has ended",
        ],
        next: "`ib_write_bw` between the two NICs; the counters of both ports; the peer's log of the same time",
    },
    Reason {
        words: r"local catastrophic error",
        causes: &["the NIC, its firmware or its driver failed"],
        next: "`dmesg -T | grep mlx5` on this node; restart or replace the NIC",
    },
    Reason {
        words: r"rnr retry counter exceeded",
        causes: &["the peer posted no receive in time: it is slow, stuck or has ended"],
        next: "read the peer's log of the same time",
    },
    Reason {
        words: r"local protection error|local access (?:violation|error)",
        causes: &[
            "the memory of the request is not registered with this NIC, or was deregistered or freed before the request ended",
        ],
        next: "compare the address and the length in the line with the program's registrations on this NIC",
    },
    Reason {
        words: r"remote access error|remote invalid request|remote protection error",
        causes: &[
            "the peer does not allow access to this memory: another key, a range beyond its registration, or it was deregistered",
        ],
        next: "compare the key and the address in the line with the peer's registrations",
    },
    Reason {
        words: r"work request flushed|wr flushed|flushed error",
        causes: &[
            "the queue pair was closed before this request: an earlier error of the connection, or the peer has ended",
        ],
        next: "read the first error of the same connection, and the peer's log before this time",
    },
];

/// The words of NCCL's results, of which programs log nothing else where NCCL_DEBUG is unset.
const OF_RESULTS: [Reason; 6] = [
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}invalid usage",
        causes: &[
            "the program used NCCL wrongly: two ranks on one GPU, ranks that disagree on a communicator, or a GPU that is not visible",
        ],
        next: "compare CUDA_VISIBLE_DEVICES and the GPU of each rank; NCCL_DEBUG=WARN names the rule that was broken",
    },
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}invalid argument",
        causes: &[
            "the program passed NCCL an argument that it refuses: a rank, a count, a GPU, or memory of another GPU",
        ],
        next: "compare the world size and the GPU of each rank; NCCL_DEBUG=WARN names the argument",
    },
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}unhandled cuda error",
        causes: &[
            "a CUDA call inside NCCL failed: memory is full, GPUs cannot access each other, the driver does not fit, or an earlier kernel failed",
        ],
        next: "set NCCL_DEBUG=WARN on all ranks and run again; the first WARN names the CUDA error",
    },
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}unhandled system error",
        causes: &[
            "a call of the system inside NCCL failed: a socket, an RDMA device, or shared memory",
        ],
        next: "set NCCL_DEBUG=WARN on all ranks and run again; the first WARN names the call",
    },
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}internal error",
        causes: &[
            "NCCL found a state that should not be: ranks with different settings or versions, or a topology that it does not understand",
        ],
        next: "set NCCL_DEBUG=WARN on all ranks and run again; compare NCCL's version on all nodes",
    },
    Reason {
        words: r"(?:nccl error|nccl operation|nccl\w+ failed).{0,200}remote process exited",
        causes: &[
            "another rank ended first, or the network to it failed: its own log has the reason",
        ],
        next: "read the first failure of the rank that ended first",
    },
];

/// Words that programs use alike; they tell less than a signature. The first counts.
const OF_PROGRAMS: [Reason; 18] = [
    Reason {
        words: r"undefined symbol|read past end of buffer|symbol lookup error|version .?(?:glibc|cxxabi)|cannot import name|no module named|has no attribute|unexpected keyword argument|incompatible (?:version|release)|version mismatch",
        causes: &[
            "a program and a library that it loads are of releases that do not fit, or the library is not installed",
        ],
        next: "compare the versions in the image and on every node: `pip list`, `ldd`, LD_LIBRARY_PATH, PYTHONPATH",
    },
    Reason {
        words: r"unrecognized (?:argument|option)|invalid choice|(?:arguments|options) are required|(?:unknown|no such) option|unexpected argument",
        causes: &["the command line does not fit this release of the program"],
        next: "compare the options with `--help` of the same release",
    },
    Reason {
        words: r"\bnameerror|is not defined\b|syntaxerror|indentationerror|unboundlocalerror",
        causes: &["a mistake in the program's own code, at the place above the line"],
        next: "read the code at the place above the line",
    },
    Reason {
        words: r"environment variable .{0,80}(?:not set|not found|missing|required|expected)|expected, but not set",
        causes: &["a variable that the launcher should set is missing"],
        next: "compare `env` of every rank: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
    },
    Reason {
        words: r"unable to allocate resources|requested node configuration|invalid (?:account|partition|qos)|more processors requested",
        causes: &[
            "Slurm cannot give what the job asks for: a partition, an account, nodes, GPUs or a limit",
        ],
        next: "compare the job's #SBATCH lines with `sinfo` and `scontrol show partition`",
    },
    Reason {
        words: r"err_?image_?pull|image_?pull_?back_?off|pull access denied|manifest unknown|failed to pull image",
        causes: &["the image cannot be fetched: its name, its tag, or the right to read it"],
        next: "pull the same image by hand on the node, with the same credentials",
    },
    Reason {
        words: r"too many requests|rate limit|quota|\b429\b|service unavailable|bad gateway|\b50[0234] server error",
        causes: &[
            "a service that the program asks refuses for now: it is overloaded, limits its users, or is down",
        ],
        next: "look at the state of the service in the line; try the same request by hand",
    },
    Reason {
        words: r"checksum|corrupt|invalid magic|bad magic|header ?too ?large|invalid header|jsondecodeerror|unpickling|is truncated",
        causes: &["a file or a message is damaged, incomplete, or of another format"],
        next: "compare the size and the checksum of the file with its source",
    },
    Reason {
        words: r"divisible|must be (?:equal|greater|less|at least|positive|the same|set)|should be (?:equal|the same)|(?:must|does not|do not|doesn't|should) match|mismatch|expected .{1,80}\b(?:got|found|received)\b|inconsistent|different values",
        causes: &["two values that must fit do not: sizes, ranks, devices or settings in the line"],
        next: "compare the two values in the line on every rank, and where the configuration sets them",
    },
    Reason {
        words: r"heartbeat|marked (?:as )?dead|node .{0,80}\b(?:died|dead|failed|removed)\b",
        causes: &[
            "a process or a node stopped sending heartbeats: it ended, is overloaded, or the network to it is cut",
        ],
        next: "read the last lines of the process or node in the line, and `dmesg -T` there",
    },
    Reason {
        words: r"(?:failed|unable|cannot|could not|couldn't|can't|not able) to (?:re)?connect|unable to complete .{0,20}connection|connect\w* (?:to \S+ )?failed|connection (?:failed|error|lost)|lost connection|unreachable|handshake|\brpc\b.{0,30}(?:error|fail)|fail.{0,40}\brpc\b",
        causes: &[
            "the other program was not reached: it is not up, listens on another address, or a firewall is between",
        ],
        next: "read the other program's log; `nc -vz HOST PORT` from this node, with the address in the line or above it",
    },
    Reason {
        words: r"timed? ?-?out|deadline exceeded|may be stuck|not all of them arrived|gave up waiting|errors? while waiting for|faulty rank|did not (?:respond|answer|arrive|join|reply)|no response",
        causes: &[
            "another process did not come, answer or finish in time: it did not start, ended, is slow, or waits itself",
        ],
        next: "find the process that the line waits for: one without this line, or whose log ends first",
    },
    Reason {
        words: r"insufficient|not enough|exceeds|exceeded|out of range|too (?:large|big|small|long|many|few)|larger than|greater than",
        causes: &["the program asks for more than there is: the line names what is short"],
        next: "compare the two numbers in the line or above it; lower what the program asks for",
    },
    Reason {
        words: r"not supported|unsupported|not implemented|notimplementederror|not compiled|not built|compiled without|without .{1,30}support",
        causes: &["this build, device or driver lacks what the program asks for"],
        next: "compare the release and the build of the program in the line with its documentation",
    },
    Reason {
        words: r"already (?:exists|initialized|registered|bound|running|in use)|duplicate",
        causes: &["an earlier run or another process still has the name or the thing"],
        next: "look for processes and files of an earlier run on this node",
    },
    Reason {
        words: r"\bkeyerror|missing (?:key|required|field)|required (?:key|field|parameter)|is missing\b",
        causes: &[
            "a value that the program looks up is missing in its configuration, environment or checkpoint",
        ],
        next: "look for the name in the line in the configuration that this run reads",
    },
    Reason {
        words: r"invalid (?:argument|usage|parameter|value|configuration)|\bEINVAL\b",
        causes: &[
            "a call refused a value: a wrong setting, or a library and a driver of releases that do not fit",
        ],
        next: "compare the settings of the call in the line with its documentation, and the releases of library and driver",
    },
    Reason {
        words: r"assert(?:ion|ed|ionerror)?\b|check failed|internal (?:error|server error)|\bbug\b",
        causes: &[
            "a check within the program failed: a bug, a wrong setting, or what an earlier error left",
        ],
        next: "read the earlier lines of this process; search the program's issues for the line",
    },
];

/// Bytes of the cache of the search for words.
const CACHE_MAX: usize = 256 << 10;

static WORDS: LazyLock<RegexSet> = LazyLock::new(|| {
    let words = all().map(|(reason, kind)| match kind {
        Kind::Source => format!("{}\\d+ NCCL WARN ", reason.words),
        _ => format!("(?i){}", reason.words),
    });
    let set = RegexSetBuilder::new(words)
        .dfa_size_limit(CACHE_MAX)
        .build();
    set.expect("sound regexes")
});

/// All reasons, in the order in which they count.
fn all() -> impl Iterator<Item = (&'static Reason, Kind)> {
    fn of(reasons: &'static [Reason], kind: Kind) -> impl Iterator<Item = (&'static Reason, Kind)> {
        reasons.iter().map(move |reason| (reason, kind))
    }
    of(&OF_RDMA, Kind::Rdma)
        .chain(of(&OF_SYSTEM, Kind::System))
        .chain(of(&OF_NCCL, Kind::Source))
        .chain(of(&OF_RESULTS, Kind::Result))
        .chain(of(&OF_PROGRAMS, Kind::Other))
}

/// Gives findings on lines that no signature explains the causes of the words in them. Where a
/// signature names no cause, those of the system's words are before its own.
pub(super) fn explain(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    for finding in findings {
        let name = finding.signature.as_str();
        let signature = signatures.iter().find(|one| one.name == name);
        let is_unexplained = matches!(name, UNKNOWN_WARNING | STATED_ERROR)
            || signature.is_some_and(|one| one.fallback);
        let names_no_cause = signature.is_some_and(|one| one.role != Role::Cause);
        let Some((reason, kind)) = of(&finding.sample) else {
            continue;
        };
        let causes = reason.causes.iter().map(|cause| (*cause).to_owned());
        let is_first = finding.role == Role::General;
        if is_unexplained {
            finding.causes = causes.collect();
            finding.next_step = Some(reason.next.to_owned());
            continue;
        }
        // A signature that quotes a program's error knows less than the words of the error.
        let has = |place: &str| signature.is_some_and(|one| one.meaning.contains(place));
        let quotes = has("{error}") || has("{event}");
        let is_told_by_words = match kind {
            Kind::Rdma => names_no_cause || quotes,
            Kind::System => names_no_cause,
            Kind::Result => names_no_cause && is_first,
            Kind::Source | Kind::Other => false,
        };
        if is_told_by_words {
            finding.causes.splice(0..0, causes);
        }
    }
}

/// Whose words they are.
#[derive(Clone, Copy)]
enum Kind {
    Rdma,
    System,
    /// A source file of NCCL.
    Source,
    /// A result of NCCL.
    Result,
    Other,
}

/// The reason in a line, and whose words tell it.
fn of(line: &str) -> Option<(&'static Reason, Kind)> {
    let number = WORDS.matches(line).iter().next()?;
    all().nth(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFilter, LogReader, SignatureCatalogue};
    use tcpx_run_model::chinese::chinese;

    #[test]
    fn the_words_of_the_system_are_found_in_lines_of_any_program() {
        let check = |line: &str, part: Option<&str>| {
            let cause = of(line).map(|(reason, _)| reason.causes[0]);
            let is_right = match part {
                Some(part) => cause.is_some_and(|cause| cause.contains(part)),
                None => cause.is_none(),
            };
            assert!(is_right, "{line}: {cause:?}");
        };
        check(
            "dial tcp 10.0.1.25:8080: connect: connection refused",
            Some("nothing listens"),
        );
        check(
            "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
            Some("no answer"),
        );
        check(
            "store->get('0') got error: Connection reset by peer",
            Some("other end"),
        );
        check(
            "dial tcp: lookup node-b on 10.0.0.2:53: no such host",
            Some("name of a host"),
        );
        check("/etc/start.sh: 11: /opt/kubectl: not found", Some("path"));
        check("OSError: [Errno 28] No space left on device", Some("full"));
        check(
            "[Errno 13] Permission denied: '/dev/infiniband/uverbs0'",
            Some("right"),
        );
        check("the page was not found in the cache", None);
        check("a step timed out after 30 s", Some("in time"));
        check(
            "nvidia-container-cli: initialization error: driver error: failed to process request: unknown.",
            Some("GPU driver"),
        );
        check(
            "command terminated with exit code 137",
            Some("out of memory"),
        );
        check("read body failed, error msg:End of file", Some("other end"));
        check(
            "shmat(shmid=1073709056) failed: Identifier removed",
            Some("shared memory"),
        );
        check("NameError: name 'modle' is not defined", Some("own code"));
        check(
            "This thread has been waiting for the clique and may be stuck",
            Some("in time"),
        );
        check("This node has been marked as dead", Some("heartbeats"));
        check(
            "the batch size must be divisible by the number of ranks",
            Some("must fit"),
        );
        check(
            "Failed to mount the segment due to rpc error",
            Some("not reached"),
        );
        check("AssertionError", Some("a check within"));
        check("KeyError: 'lm_head.weight'", Some("looks up"));
        check(
            "NCCL WARN Cuda failure 1 'invalid argument'",
            Some("a call refused a value"),
        );
        check(
            "NET/IB : mlx5_0:1 Got async event : local catastrophic error",
            Some("firmware"),
        );
        check(
            "Process failed for slice (local_nic: mlx5_0): local protection error",
            Some("not registered"),
        );
        check(
            "10-shadow.sh: line 70: 71 Broken pipe             yes",
            None,
        );
        check(
            "RuntimeError: NCCL error in: a.hpp:82, invalid argument, NCCL version 2.4.8",
            Some("an argument that it refuses"),
        );
        check(
            "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
            Some("two ranks on one GPU"),
        );
        check("all ranks joined", None);
        check(
            "node-a:7:7 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the state'",
            Some("multicast"),
        );
        check(
            "node-a:7:7 [1] proxy.cc:1111 NCCL WARN [Service thread] Unknown command 7",
            Some("proxy thread"),
        );
        check("node-a:7:7 [1] NCCL INFO transport/nvls.cc:409 -> 1", None);
    }

    #[test]
    fn an_exception_with_such_words_is_told_by_them() {
        let catalogue = SignatureCatalogue::embedded().unwrap();
        let filter = LogFilter::default();
        let mut reader = LogReader::new(&catalogue, &filter);
        let text = "RuntimeError: store->get('0') got error: Connection reset by peer\n";
        reader.source("a", text.as_bytes(), text.as_bytes());
        let report = reader.report();
        let finding = &report.findings[0];
        assert_eq!(finding.signature, "python-exception");
        assert!(finding.causes[0].contains("other end"), "{finding:?}");
        let next = finding.next_step.as_deref().unwrap();
        assert!(next.contains("other end"), "{next}");
    }

    #[test]
    fn each_has_chinese() {
        let texts = all().flat_map(|(one, _)| one.causes.iter().chain([&one.next]));
        let missing: Vec<&&str> = texts.filter(|text| chinese(text).is_none()).collect();
        assert!(missing.is_empty(), "add to chinese-logs.toml: {missing:#?}");
    }
}
