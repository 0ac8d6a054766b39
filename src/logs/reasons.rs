//! What the system's own words for an error mean: `Connection refused`, `No space left on device`.
//!
//! A line that no signature explains mostly ends with such words, and they tell what to look at,
//! whatever the program is.
#![forbid(unsafe_code)]

use super::report::{STATED_ERROR, SignatureFinding, UNKNOWN_WARNING};
use super::signature::Signature;
use regex::RegexSet;
use std::sync::LazyLock;

/// An error of the system.
struct Reason {
    /// Its words, as a regex; case does not decide.
    words: &'static str,
    /// The likeliest first.
    causes: &'static [&'static str],
    next: &'static str,
}

/// The first whose words are in a line counts: what names an object is before what names a call.
const REASONS: [Reason; 19] = [
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
        words: r"connection (?:was )?(?:reset|aborted|closed by)|\bbroken pipe|connection abort|\bECONNRESET\b|remote end closed connection|socket closed",
        causes: &[
            "the program at the other end of the connection ended or was ended: its own log has the reason",
        ],
        next: "read the last lines of the program at the other end, before this time",
    },
    Reason {
        words: r"address already in use|\bEADDRINUSE\b",
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

static WORDS: LazyLock<RegexSet> = LazyLock::new(|| {
    let words = REASONS.iter().map(|reason| format!("(?i){}", reason.words));
    RegexSet::new(words).expect("sound regexes")
});

/// Gives findings on lines that no signature explains the causes of the system's words in them.
pub(super) fn explain(findings: &mut [SignatureFinding], signatures: &[Signature]) {
    let is_general = |name: &str| {
        let mut all = signatures.iter();
        all.any(|one| one.name == name && one.fallback)
    };
    for finding in findings {
        let name = finding.signature.as_str();
        let is_unexplained = matches!(name, UNKNOWN_WARNING | STATED_ERROR) || is_general(name);
        let reason = is_unexplained.then(|| of(&finding.sample)).flatten();
        if let Some(reason) = reason {
            let causes = reason.causes.iter();
            finding.causes = causes.map(|cause| (*cause).to_owned()).collect();
            finding.next_step = Some(reason.next.to_owned());
        }
    }
}

fn of(line: &str) -> Option<&'static Reason> {
    REASONS.get(WORDS.matches(line).iter().next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFilter, LogReader, SignatureCatalogue};
    use tcpx_run_model::chinese::chinese;

    #[test]
    fn the_words_of_the_system_are_found_in_lines_of_any_program() {
        let check = |line: &str, part: Option<&str>| {
            let cause = of(line).map(|reason| reason.causes[0]);
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
        check("a step timed out after 30 s", None);
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
        let texts = REASONS
            .iter()
            .flat_map(|one| one.causes.iter().chain([&one.next]));
        let missing: Vec<&&str> = texts.filter(|text| chinese(text).is_none()).collect();
        assert!(missing.is_empty(), "add to chinese-logs.toml: {missing:#?}");
    }
}
