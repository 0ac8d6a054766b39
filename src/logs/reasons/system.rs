//! The words of the system: what they mean in a line of any program.
#![forbid(unsafe_code)]

use super::Reason;

/// The words of the system. The first whose words are in a line counts: what names an object is
/// before what names a call.
pub(super) const OF_SYSTEM: &[Reason] = &[
    Reason {
        words: r"unable to allocate resources|requested node configuration|invalid (?:account|partition|qos)|more processors requested",
        cause: "Slurm cannot give what the job asks for: a partition, an account, nodes, GPUs or a limit",
        next: "compare the job's #SBATCH lines with `sinfo` and `scontrol show partition`",
    },
    Reason {
        words: r"nvidia-container-cli|nvml error: driver|nvidia driver is not loaded|communicate with the nvidia driver|could not select device driver",
        cause: "the container cannot use the GPU driver of this node: it is not loaded, not found, or of another release",
        next: "`nvidia-smi` on the node itself, outside of any container; then the container toolkit's log and configuration",
    },
    Reason {
        words: r"\bidentifier removed|\bEIDRM\b|shmat|shm_open|shared memory (?:error|segment)",
        cause: "a segment of shared memory is gone or cannot be attached: its owner ended, or the containers of the node do not share it",
        next: "`df -h /dev/shm` and `ipcs -m` in both containers; containers of one node need one IPC namespace",
    },
    Reason {
        words: r"name or service not known|name resolution|could not resolve host|no such host|nodename nor servname|gaierror",
        cause: "the name of a host has no address on this node: it is misspelt, of another domain, or DNS does not answer",
        next: "`getent hosts NAME` on this node, with the name in the line",
    },
    Reason {
        words: r"\bconnection refused|\bECONNREFUSED\b",
        cause: "nothing listens at the address: its program did not start, has ended, or listens on another port",
        next: "read the log of the program that should listen there; `ss -ltnp` on its node shows what does",
    },
    Reason {
        words: r"\bconnection timed out|\bconnect\(\) timed out|\boperation timed out|\bETIMEDOUT\b|timed out .*\bconnect",
        cause: "no answer came from the address: a firewall, another network, or a node that is down",
        next: "`nc -vz HOST PORT` from this node, with the address in the line or above it",
    },
    Reason {
        words: r"no route to host|network is unreachable|host is unreachable|\bEHOSTUNREACH\b|network is down|\bENETDOWN\b",
        cause: "this node has no route to the address: another network, an interface that is down, or a firewall",
        next: "`ip route get ADDRESS` on this node, with the address in the line or above it",
    },
    Reason {
        words: r"connection (?:was )?(?:reset|aborted|closed by)|connection to \S+ closed by|\bbroken pipe(?:$|[^ ]| [^ ])|connection abort|\bECONNRESET\b|remote end closed connection|socket closed|\bend of file\b|\bEOF\b|\beoferror\b|closed (?:the )?connection|connection closed|\bHUP on\b|software caused connection abort|remote_disconnect|disconnected",
        cause: "the program at the other end of the connection ended or was ended: its own log has the reason",
        next: "read the last lines of the program at the other end, before this time",
    },
    Reason {
        words: r"address already in use|only one usage of each socket address|failed to bind|check failed: bind\(|\bEADDRINUSE\b",
        cause: "another process has the port, often one of an earlier job",
        next: "`ss -ltnp` on this node shows which process has the port",
    },
    Reason {
        words: r"cannot assign requested address|\bEADDRNOTAVAIL\b",
        cause: "the address is not one of this node",
        next: "compare the address with `ip -br addr` on this node",
    },
    Reason {
        words: r"\bno space left on device|\bENOSPC\b|disk quota exceeded|\bEDQUOT\b|\bover \d+ ?% full|\bdisk (?:is )?full|\b(?:ran|running|run) out of (?:disk|space)",
        cause: "a file system is full: the disk, /tmp, or /dev/shm of the container",
        next: "`df -h` and `df -i` on this node, in the container",
    },
    Reason {
        words: r"\btoo many open files|\bEMFILE\b",
        cause: "the process has as many open files as its limit allows",
        next: "`ulimit -n` where the program starts; raise it",
    },
    Reason {
        words: r"\bstd::bad_(?:array_new_length|alloc)\b|\bMemoryError\b",
        cause: "an allocation in the host's memory failed: the node or the container has no more, or the size that was asked for is not meant, as of a message or a file that is damaged",
        next: "`free -g` and the memory limit of the container on this node; `ulimit -v` where the program starts",
    },
    Reason {
        words: r"cannot allocate memory|\bENOMEM\b|\bout of memory\b",
        cause: "memory is used up: of the GPU, of the node, of the container, or of what a process may lock",
        next: "`nvidia-smi`, `free -g`, `ulimit -l` and the memory limit of the container on this node",
    },
    Reason {
        // A call of accept that found no peer within its time is no limit.
        words: r"accept failed:? resource temporarily unavailable",
        cause: "no peer came to the socket before it was closed: this process is being aborted, or another rank of the node ended",
        next: "read the first failure of the other ranks of this node",
    },
    Reason {
        words: r"can't start new thread|\b(?:threads?|fork|vfork|clone\d?|pthread_\w+|process(?:es)?|spawn|exec)\b.*resource temporarily unavailable",
        cause: "a limit on processes or threads is reached",
        next: "`ulimit -u` and the pids limit of the container",
    },
    Reason {
        words: r"resource temporarily unavailable|\bEAGAIN\b",
        cause: "a call would have to wait: a queue of the network is full, or its peer has not answered yet",
        next: "read the lines of the same process before it, and the log of its peers; with libfabric, FI_LOG_LEVEL=warn shows what its provider says",
    },
    Reason {
        words: r"read-only file system|\bEROFS\b",
        cause: "the file system is mounted read-only",
        next: "`findmnt -T PATH` on this node, with the path in the line",
    },
    Reason {
        words: r"\bpermission denied|operation not permitted|\bEACCES\b|\bEPERM\b|insufficient permission",
        cause: "the user of the process lacks a right: a mode of a file, a key of ssh, or a capability or device of the container",
        next: "compare the user, the groups and the capabilities of the process with what the line asks for",
    },
    Reason {
        words: r"\b40[13] (?:client error|unauthorized|forbidden)|\bunauthorized\b|gated ?repo|invalid token|authentication failed",
        cause: "the credentials are missing, expired, or lack the right",
        next: "check the token or the key that this process has, and what it may do",
    },
    Reason {
        words: r"certificate (?:verify failed|has expired)|\bx509:",
        cause: "the certificate is not trusted here, has expired, or the clock of this node is wrong",
        next: "`date` on this node, and the list of trusted certificates of the image",
    },
    Reason {
        words: r"no such file or directory|executable file not found|command not found|: not found$|\bENOENT\b|cannot open shared object file",
        cause: "the path does not exist on this node or in this image, or its search path lacks the folder",
        next: "look for the path on this node, in the container; for a program or a library, compare PATH and LD_LIBRARY_PATH",
    },
    Reason {
        words: r"exec format error",
        cause: "the program was built for another kind of processor",
        next: "compare `file PROGRAM` with `uname -m` on this node",
    },
    Reason {
        words: r"device or resource busy|\bEBUSY\b",
        cause: "the device or the file is still in use: by another process, or by one that is being ended",
        next: "`fuser -v` on the device or the file; `nvidia-smi` and `ps` for processes of an earlier job",
    },
    Reason {
        words: r"\bno such device|\bENODEV\b",
        cause: "the device is missing on this node or in this container",
        next: "`nvidia-smi -L`, `ibv_devices` and `ls /dev` in the container",
    },
    Reason {
        words: r"input/output error|remote i/o error|stale file handle|transport endpoint is not connected",
        cause: "a device, its network or a network file system failed",
        next: "`dmesg -T | tail` on this node, from the time of the line on",
    },
    Reason {
        words: r"bad file descriptor|\bEBADF\b",
        cause: "the program used a socket or a file that it had already closed: an earlier failure or an end closed it",
        next: "read the earlier lines of this process, and the first failure of the others",
    },
    Reason {
        words: r"function not implemented|\bENOSYS\b",
        cause: "the kernel lacks this system call, or the container's seccomp profile forbids it",
        next: "compare `uname -r` with what the program needs; try a container without its seccomp profile",
    },
    Reason {
        words: r"address family not supported|protocol not supported|\bEAFNOSUPPORT\b|\bEPROTONOSUPPORT\b",
        cause: "this node or container lacks the kind of network that the program asks for, mostly IPv6",
        next: "`ip -br addr` and `sysctl net.ipv6.conf.all.disable_ipv6` in the container",
    },
    Reason {
        words: r"message too long|\bEMSGSIZE\b",
        cause: "a packet is larger than the network allows: the MTUs of the path differ",
        next: "`ping -M do -s 8972 HOST` to the peer; compare the MTU of all interfaces of the path",
    },
    Reason {
        words: r"no buffer space available|\bENOBUFS\b",
        cause: "the kernel has no memory left for sockets, or a queue of the NIC is full",
        next: "`sysctl net.core.rmem_max net.core.wmem_max net.ipv4.tcp_mem`; `ip -s link`",
    },
    Reason {
        words: r"\bno such process|\bESRCH\b|no child processes|\bECHILD\b",
        cause: "the process that it asks for has already ended",
        next: "read the last lines of the process that the line names",
    },
    Reason {
        words: r"\bfile exists|\bEEXIST\b|not a directory|is a directory|directory not empty|file name too long",
        cause: "the path is not what the program expects: left by an earlier run, or given wrongly",
        next: "`ls -ld PATH` on this node, with the path in the line",
    },
    Reason {
        words: r"\bbad address|\bEFAULT\b",
        cause: "a call was given memory that is not mapped, or that the device cannot reach",
        next: "`lsmod | grep -e nvidia_peermem -e gdrdrv` where the memory is a GPU's; otherwise look for memory that was freed",
    },
    Reason {
        words: r"operation canceled|\bECANCELED\b",
        cause: "a request was canceled because its connection or its program was being closed",
        next: "read the first failure before this line",
    },
    Reason {
        words: r"argument list too long|\bE2BIG\b",
        cause: "the command line and the environment together are too large",
        next: "`env | wc -c` where the program starts; pass long lists in a file",
    },
];
