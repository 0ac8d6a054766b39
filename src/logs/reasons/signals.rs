//! What ended a process: a signal, or the exit code of a shell or a launcher.
//!
//! Lines of launchers, schedulers and container runtimes all tell it so, whatever else they say. It decides what to
//! do next more than the program that reports it.
#![forbid(unsafe_code)]

use super::Reason;
use crate::native_stack::{self, CUDA_DRIVER};
use crate::report::SignatureFinding;

/// What stands before an exit code: `exited with code`, `exit status`.
macro_rules! exit_code {
    () => {
        r"exit(?:ed|s)?(?: with)?(?: an?)?(?: non-?zero)?(?: (?:exit|return|error))?[ _]?(?:code|status)?"
    };
}

/// A process that ended by a signal: its name, its number, or the exit code that tells it, as a
/// shell (128 and the number) or a launcher (negative) writes it.
macro_rules! ended_by {
    ($name:literal, $number:literal, $codes:literal) => {
        concat!(
            r"\b",
            $name,
            r"\b|\bsignal:? ",
            $number,
            r"\b|(?:",
            exit_code!(),
            r"|return ?code)[ :=(]*(?:0:",
            $number,
            r"|",
            $codes,
            r")\b|\bcode=(?:killed|dumped), status=",
            $number,
            r"/"
        )
    };
}

/// The first whose words are in a line counts.
pub(super) const OF_ENDS: &[Reason] = &[
    Reason {
        words: concat!(
            ended_by!("SIGKILL", "9", "137|247|-9"),
            r"|oom[-_ ]?kill|tasks? \S+: killed|\d\s+killed\b|^killed$"
        ),
        cause: "the process was killed from outside, mostly because the node or its container was out of memory",
        next: "`dmesg -T | grep -i -e oom -e killed` on its node, and the memory limit of the container",
    },
    Reason {
        words: ended_by!("SIGTERM", "15", "143|241|-15"),
        cause: "the process was told to end (SIGTERM): by its launcher or scheduler after another process had failed, for a time limit or a preemption, or by a person",
        next: "read the launcher's and the scheduler's lines of the same second, and the first failure of any other process",
    },
    Reason {
        words: concat!(
            ended_by!("SIGSEGV", "11", "139|245|-11"),
            r"|segmentation fault|\bsegfault\b"
        ),
        cause: "the process crashed in native code: a bug, or libraries of releases that do not fit",
        next: "run with PYTHONFAULTHANDLER=1 or under gdb to see the call; compare the releases of the libraries that it loads",
    },
    Reason {
        words: concat!(ended_by!("SIGBUS", "7", "135|249|-7"), r"|\bbus error\b"),
        cause: "memory behind a mapped file could not be had: mostly /dev/shm of the container is full",
        next: "`df -h /dev/shm` in the container; start it with a larger --shm-size, or with the host's IPC",
    },
    Reason {
        words: concat!(
            ended_by!("SIGILL", "4", "132|-4"),
            r"|illegal instruction \(core"
        ),
        cause: "the program was built for another processor than that of this node",
        next: "compare `lscpu` of this node with the one that the program was built on",
    },
    Reason {
        words: concat!(
            ended_by!("SIGINT", "2", "130|-2"),
            r"|\bkeyboardinterrupt\b"
        ),
        cause: "a person or a launcher interrupted the process (SIGINT)",
        next: "read what the process did before: if it hung, its last lines show where",
    },
    Reason {
        words: ended_by!("SIGHUP", "1", "129"),
        cause: "the terminal or the ssh session of the process ended (SIGHUP)",
        next: "start it with nohup, tmux or a scheduler",
    },
    Reason {
        words: ended_by!("SIGABRT", "6", "134|250|-6"),
        cause: "the process aborted itself: an assertion, an exception of C++ that nothing caught, or a watchdog",
        next: "read the last lines of that process before this one: `what():`, an assertion, or the watchdog's line",
    },
    Reason {
        words: ended_by!("SIGFPE", "8", "136|-8"),
        cause: "the process divided by zero in native code",
        next: "run with PYTHONFAULTHANDLER=1 or under gdb to see the call; look for a size of 0 in the configuration",
    },
    Reason {
        words: ended_by!("SIGPIPE", "13", "141|-13"),
        cause: "the process wrote to a pipe or a socket whose other end was closed",
        next: "read the last lines of the program at the other end: the launcher, or a command behind `|`",
    },
    Reason {
        words: ended_by!("SIGUSR[12]", "1[02]", "138|140|-10|-12"),
        cause: "a scheduler or a person sent the process a signal of the user's (SIGUSR1, SIGUSR2), mostly shortly before its time ends",
        next: "compare the time of the line with the job's time limit; look for `--signal` in the job's script",
    },
    Reason {
        words: ended_by!("SIGXCPU", "24", "152|-24"),
        cause: "the process used the time of the processor that its limit allows",
        next: "`ulimit -t` where the program starts; the job's limits",
    },
    Reason {
        words: concat!(exit_code!(), r"[ :=(]*127\b"),
        cause: "the command was not found: it is not in the image, or PATH lacks its folder",
        next: "`command -v NAME` in the same container and as the same user",
    },
    Reason {
        words: concat!(exit_code!(), r"[ :=(]*126\b"),
        cause: "the command was found and cannot be run: it lacks the mode of a program, or is a folder or a script without an interpreter",
        next: "`ls -l` and `file` of the command in the same container",
    },
    Reason {
        words: concat!(exit_code!(), r"[ :=(]*125\b"),
        cause: "the container was not started: its runtime refused an option, an image or a device",
        next: "start the same image by hand on the node; read the log of its container runtime",
    },
];

/// How the advice begins that the stack makes needless.
const SEE_CALL: &str = "run with PYTHONFAULTHANDLER=1";
/// What to do where the log has the stack.
pub(super) const HAS_STACK: &str = "the log has the stack: compare the releases of the libraries in it; a debugger on the core file shows what the calls were given";
/// Why a call of CUDA's driver crashes.
pub(super) const IN_CUDA: &str = "what a call of CUDA was given, such as an event, a stream or a context, was destroyed or is of another process, or its driver library does not fit";

/// Why a call of Omni-Path's library crashes, and what to do then.
const PSM2: &str = "libpsm2";
pub(super) const IN_PSM2: &str = "if the message is in memory of a GPU, PSM2 read it on the CPU: this libpsm2 may not be CUDA-aware, or PSM2_CUDA=1 is not set";
pub(super) const TRY_HOST_MEMORY: &str = "repeat the call with buffers in host memory: where that works, use a libpsm2 that is built with CUDA, and set PSM2_CUDA=1 on all ranks";

/// Why a program of MPI crashes within MPI's own code, and what to do then.
const MPI: [&str; 4] = ["libmpi", "libopen-pal", "libmca_common", "mca_"];
pub(super) const IN_MPI: &str = "if the message is in memory of a GPU, MPI read it on the CPU: this call (a reduction, a collective that does not block) does not take such memory, or the MPI is not built or started for this kind of GPU";
pub(super) const TRY_OTHER_MPI: &str = "the log has the stack: if the message is in memory of a GPU, repeat the call with buffers in host memory; where that works, the MPI is not built, or not started, for this kind of GPU (`ompi_info -c | grep -i cuda`, MPICH_GPU_SUPPORT_ENABLED=1)";

/// Functions of UCX and Open MPI that read memory which another process of the node shares, and why one ends there.
const OF_SHARED: [&str; 5] = ["uct_mm_", "uct_sm_", "xpmem", "btl_vader", "btl_sm_"];
const BUS_ERROR: &str = "bus-error";
pub(super) const PEER_GONE: &str = "the memory is that of another process of this node, which shares it (XPMEM or shared memory): that process has ended, or took it away, while this one still used it, mostly as MPI ends";
pub(super) const KEEP_PEERS: &str = "look at which process of the node ended first; a barrier before MPI_Finalize, or UCX_TLS=^xpmem (Open MPI: --mca btl_vader_single_copy_mechanism none), shows whether it is that";

/// Where the frames of a crash are told, what they tell is the cause, and they need not be asked for.
pub(super) fn explain_stack(finding: &mut SignatureFinding) {
    let is_in = |part: &&str| finding.meaning.contains(*part);
    if finding.signature == BUS_ERROR && OF_SHARED.iter().any(is_in) {
        finding.causes = vec![PEER_GONE.to_owned()];
        finding.next_step = Some(KEEP_PEERS.to_owned());
        return;
    }
    let asks = |next: &String| next.starts_with(SEE_CALL);
    let Some(next) = finding.next_step.as_mut().filter(|next| asks(next)) else {
        return;
    };
    let Some(library) = native_stack::innermost(&finding.meaning) else {
        return;
    };
    *next = HAS_STACK.to_owned();
    if library == CUDA_DRIVER {
        finding.causes.insert(0, IN_CUDA.to_owned());
    } else if library.starts_with(PSM2) {
        *next = TRY_HOST_MEMORY.to_owned();
        finding.causes.insert(0, IN_PSM2.to_owned());
    } else if MPI.iter().any(|part| library.starts_with(part)) {
        *next = TRY_OTHER_MPI.to_owned();
        finding.causes.insert(0, IN_MPI.to_owned());
    }
}
