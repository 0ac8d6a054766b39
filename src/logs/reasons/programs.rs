//! Words that programs use alike.
#![forbid(unsafe_code)]

use super::Reason;

/// Words that programs use alike; they tell less than a signature. The first counts.
pub(super) const OF_PROGRAMS: &[Reason] = &[
    Reason {
        words: r"undefined symbol|read past end of buffer|symbol lookup error|version .?(?:glibc|cxxabi)|cannot import name|no module named|(?:failed|unable|could not|cannot) (?:to )?import|\bimporterror\b|(?:not|n.t) (?:appear to be |seem to be |been )?installed|please install|requires? (?:the )?[\w.-]{1,40} (?:library|package|module)|\b\w+ is not available\b|has no attribute|unexpected keyword argument|incompatible (?:version|release)|version mismatch",
        cause: "a program and a library that it loads are of releases that do not fit, or the library is not installed",
        next: "compare the versions in the image and on every node: `pip list`, `ldd`, LD_LIBRARY_PATH, PYTHONPATH",
    },
    Reason {
        words: r"unrecognized (?:argument|option)|invalid choice|(?:arguments|options) are required|(?:unknown|no such) option|unexpected argument",
        cause: "the command line does not fit this release of the program",
        next: "compare the options with `--help` of the same release",
    },
    Reason {
        words: r"\bnameerror|is not defined\b|syntaxerror|indentationerror|unboundlocalerror",
        cause: "a mistake in the program's own code, at the place above the line",
        next: "read the code at the place above the line",
    },
    Reason {
        words: r"environment variable .{0,80}(?:not set|not found|missing|required|expected)|expected, but not set",
        cause: "a variable that the launcher should set is missing",
        next: "compare `env` of every rank: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
    },
    Reason {
        words: r"err_?image_?pull|image_?pull_?back_?off|pull access denied|manifest unknown|failed to pull image",
        cause: "the image cannot be fetched: its name, its tag, or the right to read it",
        next: "pull the same image by hand on the node, with the same credentials",
    },
    Reason {
        words: r"checksum|corrupt|invalid magic|bad magic|header ?too ?large|invalid header|jsondecodeerror|unpickling|is truncated",
        cause: "a file or a message is damaged, incomplete, or of another format",
        next: "compare the size and the checksum of the file with its source",
    },
    Reason {
        words: r"\bmpi_err_\w+|\bmpi error\b|\bmpi_(?:init|comm|abort)\w*\b.{0,60}(?:fail|error)|\bpmi\w*\b.{0,40}(?:error|fail)|not enough slots|opal error|orte_error_log",
        cause: "a call of MPI failed: the processes were not started by one launcher, are fewer than the program needs, or MPI's releases differ",
        next: "start `hostname` with the same launcher and hosts; compare the number of processes with what the program was built for",
    },
    Reason {
        words: r"\bnans?\b|non-?finite|\binf(?:inity)?\b.{0,24}\b(?:grad|loss|norm)|(?:grad|loss|norm)\w*.{0,24}\binf(?:inity)?\b|loss (?:has )?diverged|minimum loss scale|loss scale .{0,30}minimum",
        cause: "the numbers of the training left their range",
        next: "look at loss and gradient norm of the steps before; compare the ranks: one alone points at its GPU or its data",
    },
    Reason {
        words: r"finished reduction in the prior iteration|marked (?:as )?ready (?:twice|only once)|find_unused_parameters",
        cause: "a rank used other parameters than the others in this step, so their collectives do not match",
        next: "run with TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the parameters",
    },
    Reason {
        words: r"\btypeerror\b|missing \d+ required|positional argument|unsupported operand|object is not (?:callable|iterable|subscriptable)|'nonetype' object",
        cause: "a call passes what the called function does not take: a mistake in the code, or packages of releases that do not fit",
        next: "read the traceback above the line; compare `pip list` with what the program asks for",
    },
    Reason {
        words: r"can.?t pickle|cannot pickle|picklingerror|not (?:json |yaml )?serializable",
        cause: "an object cannot be sent to another process",
        next: "read the traceback above the line: pass its data, and not the object",
    },
    Reason {
        words: r"index ?error|list index|index out of (?:range|bounds)|list assignment index",
        cause: "a list is shorter than the program expects: less data, or fewer nodes, ranks or GPUs",
        next: "read the traceback above the line; compare the numbers of nodes, ranks and GPUs with the configuration",
    },
    Reason {
        words: r"(?:dataset|list|sequence|tensor|directory|folder|file|checkpoint) is empty|empty (?:dataset|list|sequence|tensor|file|directory)|no (?:data|samples|files|checkpoints?|examples)\b.{0,20}\b(?:found|available|left|in)\b|num_samples=0|stopiteration",
        cause: "there is no data where the program looks for it",
        next: "`ls -l` the path on this node, in the container; compare it with the configuration",
    },
    Reason {
        words: r"\b(?:yaml|toml|ini|hydra|omegaconf)\b.{0,60}(?:error|invalid|fail)|scannererror|parsererror|configattribute|not in struct|validation ?error|config(?:uration)? (?:error|is invalid)|(?:invalid|bad|unsupported) config",
        cause: "the configuration does not have the form that this release of the program reads",
        next: "compare the key or the line that is named with the documentation of the same release",
    },
    Reason {
        words: r"not (?:been |yet )?(?:initiali[sz]ed|set up|started|ready)\b|before .{0,40}\binit|must .{0,40}\binit\w* .{0,20}first|must be called (?:before|after)|called (?:before|after|out of order)|wrong order",
        cause: "a part of the program is used that was not started, or whose start failed earlier",
        next: "read the earlier lines of this process for the first failure of that part",
    },
    Reason {
        words: r"\bdue to (?:time ?limit|preemption)|time ?limit|wall ?time|preempt",
        cause: "the scheduler ended the job: its time was over, or another job took its nodes",
        next: "`sacct -j JOB -o jobid,state,timelimit,elapsed`, or the events of the pods",
    },
    Reason {
        words: r"failedscheduling|unschedulable|no nodes? (?:is |are )?available|didn.t match|untolerated taint|\bevicted\b|insufficient (?:nvidia|cpu|memory|ephemeral)",
        cause: "the scheduler has no node that fits, or took the pod away: what it lacks is in the line",
        next: "`kubectl describe pod POD` and `kubectl describe node NODE`",
    },
    Reason {
        words: r"heartbeat|marked (?:as )?dead|node .{0,80}\b(?:died|dead|failed|removed|crashed)\b|\bnode fail(?:ure|ed)\b",
        cause: "a process or a node stopped sending heartbeats: it ended, is overloaded, or the network to it is cut",
        next: "read the last lines of the process or node in the line, and `dmesg -T` there",
    },
    Reason {
        words: r"(?:failed|unable|cannot|could not|couldn't|can't|not able) to (?:re)?connect|unable to complete .{0,20}connection|connect\w* (?:to \S+ )?failed|connection (?:failed|error|lost)|lost connection|unreachable|handshake|\brpc\b.{0,30}(?:error|fail)|fail.{0,40}\brpc\b",
        cause: "the other program was not reached: it is not up, listens on another address, or a firewall is between",
        next: "read the other program's log; `nc -vz HOST PORT` from this node, with the address in the line or above it",
    },
    Reason {
        words: r"tim(?:ed?|es) ?-?out|deadline[ _]exceeded|may be stuck|not all of them arrived|gave up waiting|errors? while waiting for|faulty rank|did not (?:respond|answer|arrive|join|reply)|no response",
        cause: "another process did not come, answer or finish in time: it did not start, ended, is slow, or waits itself",
        next: "find the process that the line waits for: one without this line, or whose log ends first",
    },
];

/// Words that programs use alike, and that tell of what kind an error is: the line itself tells more.
pub(super) const BROAD: &[Reason] = &[
    Reason {
        words: r"divisible|must be (?:equal|greater|less|at least|positive|the same|set)|should be (?:equal|the same)|(?:must|does not|do not|doesn't|should) match|mismatch|expected .{1,80}\b(?:got|found|received)\b|inconsistent|different values",
        cause: "two values that must fit do not: sizes, ranks, devices or settings in the line",
        next: "compare the two values in the line on every rank, and where the configuration sets them",
    },
    Reason {
        words: r"insufficient|not enough|exceeds|exceeded|out of range|too (?:large|big|small|long|many|few)|larger than|greater than",
        cause: "a limit is exceeded: the program asks for more than there is, or a value is out of its range",
        next: "compare what the program asks for with what there is, as the line or those above it say; lower the one or raise the other",
    },
    Reason {
        words: r"not supported|unsupported|not implemented|notimplementederror|not compiled|not built|compiled without|without .{1,30}support",
        cause: "this build, device or driver lacks what the program asks for",
        next: "compare the release and the build of the program in the line with its documentation",
    },
    Reason {
        words: r"already (?:exists|initialized|registered|bound|running|in use)|duplicate",
        cause: "an earlier run or another process still has the name or the thing",
        next: "look for processes and files of an earlier run on this node",
    },
    Reason {
        words: r"\bkeyerror|missing (?:key|required|field)|required (?:key|field|parameter)|is missing\b",
        cause: "a key that the program looks up is missing: in its data, configuration, environment or checkpoint",
        next: "read the traceback's innermost lines: they show in what the key is looked up; compare it with the keys that are there",
    },
    Reason {
        words: r"\binvalid\b|\bis not (?:a )?valid\b|malformed|\bEINVAL\b",
        cause: "a call refused a value: a wrong setting, or a library and a driver of releases that do not fit",
        next: "compare the settings of the call in the line with its documentation, and the releases of library and driver",
    },
    Reason {
        words: r"assert(?:ion|ed|ionerror)?\b|check failed|internal (?:error|server error)|\bbug\b",
        cause: "a check within the program failed: a bug, a wrong setting, or what an earlier error left",
        next: "read the earlier lines of this process; search the program's issues for the line",
    },
    Reason {
        words: r"too many requests|rate limit|quota|\b429\b|service unavailable|bad gateway|(?:http|status|response)(?:[ _]?code)?[^\d.]{0,20}\b5\d\d\b|\b50[0234] server error|statuscode\.unavailable|\bresource_exhausted\b",
        cause: "a service that the program asks refuses for now: it is overloaded, limits its users, or is down",
        next: "look at the state of the service in the line; try the same request by hand",
    },
    Reason {
        words: r"(?:http|status|response)(?:[ _]?code)?[^\d.]{0,20}\b(?:404|410)\b|\b404 (?:client error|not found)|statuscode\.not_found",
        cause: "what the program asks a service for is not there: its name, its revision or its key is wrong, was not registered, or is gone",
        next: "ask for the same address with `curl -v`, and look at what the service has",
    },
    Reason {
        words: r"(?:http|status|response)(?:[ _]?code)?[^\d.]{0,20}\b4\d\d\b|\b4\d\d client error|client error \(4\d\d|bad request|unprocessable",
        cause: "a service refused the request as wrong: program and service are of releases that do not fit, or a value in it is wrong",
        next: "repeat the request with `curl -v`; compare the releases of program and service",
    },
];
