//! Lines that state in words that something failed, in no logger's form: `ssh: connect to host
//! node-b port 22: Connection refused`.
//!
//! Healthy jobs write such lines too, so they are no findings. A report shows the first and the
//! last of them if no other line tells what failed.
//!
//! Not here: lines with a level (`loggers`), and lines that a signature knows.
#![forbid(unsafe_code)]

use super::loggers::regex;
use super::seen::Place;
use memchr::memmem::Finder;
use regex::bytes::Regex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::LazyLock;

/// Pieces of the words; a line without one is not looked at.
pub(super) const PIECES: [&[u8]; 30] = [
    b"rror",
    b"ailed",
    b"ailure",
    b"xception",
    b"annot ",
    b"nable to",
    b"ould not ",
    b"efused",
    b"imed out",
    b" lost ",
    b"enied",
    b"fallen off",
    b"xpired",
    b"illed",
    b"not found",
    b"No such file",
    b"_ERR",
    b"marked dead",
    b"crashed",
    b"FAIL",
    b"imeout",
    b"closed by ",
    b"mismatch for ",
    b"nrecognized ",
    b"losed conn",
    b"OutOfResources",
    b"Missing",
    b" detected",
    b"_ARGUMENT: ",
    b"_PRECONDITION: ",
];
/// Lines that are kept from the start and from the end.
const KEPT: usize = 16;
/// Shapes of which the lines are counted.
const SHAPES_MAX: usize = 128;
/// Longest text of a line that is kept, in bytes.
const TEXT_MAX: usize = 512;
/// The text is searched up to here.
const FRONT: usize = 1024;

static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[^\w./=-])(?:[Ff]ail(?:ed|ure|s)|[Tt]imeout (?:has )?occurred|FAILED|FAILURE|[Ee]rrors?|ERROR|[Ee]xception|[Cc]annot|[Cc]ould not|[Uu]nable to|[Rr]efused|[Tt]imed out|has lost|mismatch for|closed (?:the )?connection|closed by (?:the )?(?:remote|peer|foreign)|\w*(?:eiver|ender|arder|ation|ction|quest|read|write|ceive|beat|shake|RPC|rpc|dispatch) timeout|[Ll]ost (?:connection|communication|contact)|[Dd]enied|[Ff]allen off|[Ee]xpired|[Kk]illed|[Uu]nrecognized (?:option|argument)s?:?|[Nn]ot found|No such file|marked dead|crashed|[A-Z]{2,}_ERR(?:OR)?_[A-Z_]+|No (?:[\w-]+ ){0,2}(?:GPU|NIC|HCA|[Dd]evice|[Aa]ccelerator|[Ii]nterface)s? (?:was |were )?detected|(?:INVALID_ARGUMENT|FAILED_PRECONDITION):)(?:$|[^\w/=(-])|^\s*\[FAIL\]",
    )
});
/// Lines of stack traces and tables, and what a logger says below a warning.
static OTHER_LINES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"^(?:\s*\d+: ?|\[[\w,]+\](?:<\w+>)?: ?)?\s*#|^\s*(?:[>|]|File "|at |frame #|raise |\{'\w+': \{)|\]:? {2,}File "|^\s{4,}.*[=(]|\]:? {3,}(?:\S.*[=(]|[~^]|return )|\^\^\^|^\[?[ID](?:\d{4})?\d{3,4} |^(?:\S+ ){0,3}(?:\S*[:\]>])?\[?[ID](?:\d{4})?\d{3,4} \d\d:\d\d:|^[-\d]+ [\d:.]+: [ID] \S+:\d+\] |(?:^|[\s\[(|<"])(?:INFO|TRACE|info)\b|:INFO:"#,
    )
});
/// The level of what a program logs for its developers.
static DEBUG: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?:^|[\s\[(|<"])(?:DEBUG|debug)\b|:DEBUG:"#));
/// A heading of what follows: `Command error:`, or the titles of five columns or more.
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^\s*(?:[A-Z]\w+ )?(?:[Ee]rrors?|[Ee]rror output|[Ff]ailures?|[Ee]xceptions?):?\s*$",
        r"|^\s*(?:[A-Za-z#][A-Za-z#_/%()]* {2,}){4,}[A-Za-z#][A-Za-z#_/%()]*\s*$",
    ))
});
/// Sentences that advise, or that say that all is well.
static OTHER_SENTENCES: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:no|No|without|any|ignoring) (?:\w+ )?(?:errors?|failures?|exceptions?)|(?:^|[^.\w])\d+ (?:errors|failures|failed|FAILED)",
        r"|(?:errors?|Errors?|failures?|timeouts?)\b\s*[:=]?\s*(?:[+-]\s*)?\.?\d",
        // What failed with a negative number has that of an error: `cxil_map() failed: -22`.
        r"|(?:failed|Failed|FAILED)\b\s*[:=]?\s*(?:\+\s*|-\s+)?\.?\d",
        // A figure that is measured: `word error rate 0.112`, `Failed requests: 0`.
        r"|(?:[Ee]rror|[Ff]ailed|[Ff]ailure) (?:rate|ratio|count|requests|jobs|tasks|steps|samples|files|batches|attempts|tests|transfers|packets|messages)\s*[:=|]?\s*\d[\d.,%eE+-]*(?:$|[\s|;)])",
        r"|\b(?:may|might|if|If|when|When|can|could be|would|please|Please|see|usually|Warning|warning)\b",
        // A setting of srun, and Open MPI's count of texts that it shows once.
        r"|\berror handling\s*[:=]|\bmore process(?:es)? ha(?:s|ve) sent help message|\bto see all help / error messages",
        r"|\(or |timeout (?:is|set|of|to|in|value|seconds|ms)\b|(?:[Ss]et|[Uu]sing|with|[Dd]efault) (?:\w+ )?timeout",
    ))
});

/// Something that is not there, and what the program does instead: `Snapshot not found. Training model from scratch`.
static INSTEAD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:not found|no such file(?: or directory)?|(?:could not|cannot|unable to) (?:find|locate|load)\b[^.,;:!]*)(?: (?:in|at|under|for) [^\s,;]*[^\s.,;])?['\x22)]*(?:[.,;:!]+ *| -+ | and | so )(?:so |we |then |now |it |will |are |is )*(?:be )?(?:(?:train|start|initializ|us|creat|continu|skipp|ignor|download|generat|build|default|fall|fetch)ing|(?:use|start|create|continue|skip|ignore|download|generate|build|default|fall|fetch)[sd]?)\b",
    )
});

/// What failed, and what the same line says is tried in its place: `Failed to dlopen libnvidia-ml.so.  Trying
/// libnvidia-ml.so.1`. To try again is another matter.
static OTHERWISE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:failed|(?:could |can)not|unable) to [^;:!]*?['\x22)]*(?:[.,;:!]+ +| -+ | and | so )(?:so |we |then |now |will |is )*try(?:ing)? (?:the|an|another|other|next|default|instead|with|without|\S*\w[./_-]\S*\w)(?:\s|[.,;:!]|$)",
    )
});

/// A line that a logger calls a warning: healthy jobs log such failures, so they are only told.
static WARNING: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        // Python's `warnings` write their place, a class and a text.
        r#"^\[?W(?:\d{4})?\d{3,4} |^\[[-\d]+ [\d:,.]+ W \d|won't affect|Setup Custom allreduce failed|(?:^|[\s\[(|<"])(?:WARNING|WARN)\b|:WARNING:|[\w>)]:\d+: (?:[A-Za-z_]\w*\.)*\w*Warning: "#,
    )
});

/// The level of a program that writes its letter in brackets.
static LETTER: LazyLock<Regex> = LazyLock::new(|| regex(r"\[[EWIF]\]"));

/// The name of a process of Open MPI: `[[546,1],2]`.
static PROCESS: LazyLock<Regex> = LazyLock::new(|| regex(r"\[\[\d+,\d+\],\d+\]"));

/// What tells the process that wrote a line, if each writes its name.
fn writer(line: &[u8]) -> &[u8] {
    let front = &line[..line.len().min(FRONT)];
    match PROCESS.find(front) {
        Some(name) => name.as_bytes(),
        None => super::traceback::writer(line),
    }
}

/// An exception by its class, whatever else the sentence supposes.
static RAISED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bwith exception \w+|^(?:\[\w+\]: )?(?:[a-z_]\w*\.)+[A-Z]\w+: "));

static SENTENCE_END: LazyLock<Finder> = LazyLock::new(|| Finder::new(". "));

/// What a line states, if one of its sentences says that something failed. Digits do not decide it.
pub(super) fn stated(line: &[u8]) -> Option<&[u8]> {
    stated_at_any(line).filter(|line| !is_debug(line))
}

/// Whether a line has the level of what a program logs for its developers.
pub(super) fn is_debug(line: &[u8]) -> bool {
    DEBUG.is_match(&line[..line.len().min(FRONT)])
}

/// The same of a line at the level DEBUG too.
pub(super) fn stated_at_any(line: &[u8]) -> Option<&[u8]> {
    let front = &line[..line.len().min(FRONT)];
    let states = |sentence: &[u8]| WORDS.is_match(sentence) && !OTHER_SENTENCES.is_match(sentence);
    let ends = SENTENCE_END.find_iter(front).map(|end| end + 2);
    let mut start = 0;
    let mut sentences = ends.chain([front.len()]).map(|end| {
        let sentence = &front[start..end];
        start = end;
        sentence
    });
    let is_stated = (sentences.any(states) || RAISED.is_match(front))
        && !goes_without(front)
        && !super::got_over::ignores(front)
        && !OTHER_LINES.is_match(front)
        && !HEADING.is_match(front);
    is_stated.then(|| line.trim_ascii())
}

/// Whether a line tells that something is not there or failed, what its program does instead, and of no other failure.
pub(super) fn goes_without(line: &[u8]) -> bool {
    let found = INSTEAD.find(line).or_else(|| OTHERWISE.find(line));
    found.is_some_and(|found| {
        let (before, behind) = (&line[..found.start()], &line[found.end()..]);
        ![before, behind].iter().any(|part| WORDS.is_match(part))
    })
}

/// Whether a stated failure is no more than a warning.
pub(super) fn is_warning(line: &str) -> bool {
    WARNING.is_match(line.as_bytes())
}

/// The first and the last lines, those that differ in their numbers once.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct StatedLines {
    first: BTreeMap<Place, Stated>,
    last: BTreeMap<Place, Stated>,
    /// By writer and shape, those at the level DEBUG too.
    counted: BTreeMap<Vec<u8>, Counted>,
}

/// The lines of one shape that a process wrote.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    pub count: u64,
    pub first: Place,
    pub last: Place,
    /// Text of the first one.
    pub text: Vec<u8>,
}

impl Counted {
    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.last = self.last.max(other.last);
        if other.first < self.first {
            (self.first, self.text) = (other.first, other.text);
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
struct Stated {
    /// The line with every number as `#`.
    shape: Vec<u8>,
    text: Vec<u8>,
}

/// What is kept of a line: its start and, of a long one whose words of a failure are all behind that, the last of them
/// with what is around it.
fn kept_text(line: &[u8]) -> Vec<u8> {
    let start = &line[..line.len().min(TEXT_MAX)];
    let front = &line[..line.len().min(FRONT)];
    let last = WORDS.find_iter(front).last();
    let Some(last) = last.filter(|last| last.end() > TEXT_MAX) else {
        return start.to_vec();
    };
    let half = TEXT_MAX / 2;
    let from = last.start().saturating_sub(half / 4).max(half);
    let part = &line[from..line.len().min(from + half - BETWEEN.len())];
    [&line[..half], BETWEEN, part].concat()
}

/// What stands for the text that is left out.
const BETWEEN: &[u8] = b" ... ";

impl StatedLines {
    /// Adds a line, or a text of several lines that begins at `place`.
    pub(super) fn add(&mut self, place: Place, line: &[u8]) {
        let one = Stated {
            shape: super::fields::message_shape(line, TEXT_MAX),
            text: kept_text(line),
        };
        if !LETTER.is_match(&line[..line.len().min(FRONT)]) {
            self.count_line(place, [writer(line), &one.shape].concat(), &one.text);
        }
        if is_debug(line) {
            return;
        }
        keep(&mut self.first, place, one.clone(), End::First);
        keep(&mut self.last, place, one, End::Last);
    }

    fn count_line(&mut self, place: Place, shape: Vec<u8>, text: &[u8]) {
        // A log repeats its lines, and only the text of the first one is kept.
        if let Some(known) = self
            .counted
            .get_mut(&shape)
            .filter(|one| one.first <= place)
        {
            known.count += 1;
            known.last = known.last.max(place);
            return;
        }
        let counted = Counted {
            count: 1,
            first: place,
            last: place,
            text: text.to_vec(),
        };
        self.count(shape, counted);
    }

    fn count(&mut self, shape: Vec<u8>, counted: Counted) {
        let is_full = self.counted.len() >= SHAPES_MAX;
        match self.counted.entry(shape) {
            Entry::Occupied(mut known) => known.get_mut().merge(counted),
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(free) => _ = free.insert(counted),
        }
    }

    /// The lines of each shape, as far as they are counted.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Counted> {
        self.counted.values()
    }

    /// Adds the lines of another thread or file.
    pub(super) fn merge(&mut self, other: Self) {
        let counted = other.counted.into_iter();
        counted.for_each(|(shape, one)| self.count(shape, one));
        let (first, last) = (other.first.into_iter(), other.last.into_iter());
        first.for_each(|(place, one)| keep(&mut self.first, place, one, End::First));
        last.for_each(|(place, one)| keep(&mut self.last, place, one, End::Last));
    }

    /// Turns line numbers within blocks into line numbers of the file.
    pub(super) fn resolve(&mut self, resolved: impl Fn(Place) -> Place) {
        for lines in [&mut self.first, &mut self.last] {
            let all = std::mem::take(lines).into_iter();
            *lines = all.map(|(place, one)| (resolved(place), one)).collect();
        }
        for one in self.counted.values_mut() {
            (one.first, one.last) = (resolved(one.first), resolved(one.last));
        }
    }

    /// The first lines, and then those of the last lines that are later.
    pub(super) fn lines(&self) -> impl Iterator<Item = (Place, &[u8])> {
        let end = self.first.keys().next_back().copied();
        let shown = |shape: &[u8]| self.first.values().any(|one| one.shape == shape);
        let last = self.last.iter();
        let later = last.filter(move |(place, one)| Some(**place) > end && !shown(&one.shape));
        let all = self.first.iter().chain(later);
        all.map(|(place, one)| (*place, one.text.as_slice()))
    }
}

/// Which end of a log is kept.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// Keeps the outermost lines, and of those with one shape the outermost.
fn keep(lines: &mut BTreeMap<Place, Stated>, place: Place, one: Stated, end: End) {
    let is_known = |(_, other): &(&Place, &Stated)| other.shape == one.shape;
    let known = lines.iter().find(is_known).map(|(place, _)| *place);
    if let Some(known) = known {
        let is_outside = match end {
            End::First => place < known,
            End::Last => place > known,
        };
        if !is_outside {
            return;
        }
        lines.remove(&known);
    }
    lines.insert(place, one);
    if lines.len() > KEPT {
        match end {
            End::First => lines.pop_last(),
            End::Last => lines.pop_first(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_python_warns_of_is_a_warning() {
        for class in [
            "Warning",
            "UserWarning",
            "DeprecationWarning",
            "PendingDeprecationWarning",
            "SyntaxWarning",
            "RuntimeWarning",
            "FutureWarning",
            "ImportWarning",
            "UnicodeWarning",
            "BytesWarning",
            "ResourceWarning",
            "EncodingWarning",
            "urllib3.exceptions.InsecureRequestWarning",
        ] {
            for front in [
                "/opt/env/vllm/connections.py:8: ",
                "[rank1]: <frozen importlib._bootstrap>:241: ",
                "(Worker pid=71) <string>:1: ",
            ] {
                let line = format!("{front}{class}: Failed to read commit hash:");
                assert!(is_warning(&line), "{line}");
            }
            let raised = format!("{class}: Failed to read commit hash:");
            assert!(!is_warning(&raised), "{raised}");
        }
        assert!(!is_warning(
            "connections.py:8: RuntimeError: Failed to read"
        ));
    }

    #[test]
    fn a_line_states_an_error_in_words() {
        let check = |line: &str, is_stated: bool| {
            assert_eq!(stated(line.as_bytes()).is_some(), is_stated, "{line}");
        };
        check(
            "ssh: connect to host node-b port 22: Connection refused",
            true,
        );
        check(
            "               NVRM: fallen off the bus and is not responding to commands.",
            true,
        );
        check(
            "mlx5_0/1: QP 51291 error: local length error (0x8e 0x0 0x0)",
            true,
        );
        check(
            "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error",
            true,
        );
        check("the daemon has lost its node", true);
        check("srun: unrecognized option '--container-image'", true);
        check(
            "/etc/mpi/kubexec.sh: 11: /opt/kube/kubectl: not found",
            true,
        );
        check(
            "#       size         count      type   redop     time   algbw   busbw  error",
            false,
        );
        let legend =
            "# Errors with asterisks indicate errors that have exceeded the maximum threshold.";
        check(legend, false);
        check(&format!(" 0: {legend}"), false);
        check(&format!("[1,0]<stdout>:{legend}"), false);
        check("0: the probe of 10.0.1.25 failed", true);
        check("NCCL_ASYNC_ERROR_HANDLING=1", false);
        check("--on-error stop --fail-on-error", false);
        check("finished with 0 errors, 0 failed", false);
        check("the probe of 10.0.1.25 failed", true);
        check("step 12: train error: 0.25", false);
        check("val error 0.25", false);
        check(
            "word error rate 0.112 | timeouts 0 | failed requests 0",
            false,
        );
        check("Failed requests:                         0", false);
        check("| failed requests | 0 |", false);
        check("validation error rate: 1.2e-3", false);
        check("failed requests 7: the server refused them", true);
        check("the error rate is too high, training failed", true);
        check("  File \"failed.py\", line 3, in error", false);
        check("    raise RuntimeError(\"it failed \")", false);
        check("I1120 08:14:04.531 70 a.cc:7] retry: it failed", false);
        check(
            "0: I1120 08:14:04.531 70 a.py:7] A variable not found",
            false,
        );
        check("(A pid=7) I1120 08:14:04.531 70 a.py:7] not found", false);
        check("2026-11-20 08:14:04.531: I a.cc:7] not found", false);
        check("2026-11-20 08:14:04.531: E a.cc:7] not found", true);
        check(
            "  size   count   type   time   error    time   error",
            false,
        );
        check("  node-a   gpu-3   the link has failed", true);
        check(
            "2026-11-20 08:14:04 - train - INFO - download failed, trying the mirror",
            false,
        );
        check(
            "ERROR 11-20 [core.py:134]     return self.call(method, timeout, \"failed\")",
            false,
        );
        check("ERROR 11-20 [core.py:134]            ^^^^^^^ failed", false);
        check("if it failed, read the manual", false);
        check("This may indicate that a node failed", false);
        check("ran /opt/error/failed.sh", false);
        check("all well", false);
        check("a.b.OutOfResources: shared memory, Required: 7", true);
        check("    ❌ No ROCm GPU detected by PyTorch.", true);
        check("No errors detected", false);
        check(
            "NET/FasTrak a: INVALID_ARGUMENT: it has no descriptor",
            true,
        );
        check(
            "a.b.MissingMandatoryValue: Missing mandatory value: c",
            true,
        );
        check(
            "a plugin failed to be registered: RegisterPlugin error -- it did not answer",
            true,
        );
        check("train error - 0.25", false);
        check("all_reduce test FAILED", true);
        check("tests FAILED: 0", false);
        check("8 passed, 0 FAILED", false);
        check("it ended with exception KVError(7): it might be dead", true);
        check(
            "the registration failed. This may be due to a firewall. Please check",
            true,
        );
        check(
            "This may be due to a firewall. If it failed, read the manual",
            false,
        );
        check(
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in cuMemCreate(",
            true,
        );
        check(
            "(raylet) the node has been marked dead because it is silent",
            true,
        );
        check(" [FAIL] 3. GPU networks  0 of 8", true);
        check("dispatch NVL receiver timeout, channel: 9, RDMA: 1", true);
        check("Connection to node-b closed by remote host.", true);
        check(
            "agent[71]: request to the switch failed with error:WARNING Nothing to do",
            true,
        );
        check("connection timeout: 30 s", false);
        check("srun: error handling: none", false);
        check(
            "[node-a:71] 1 more process has sent help message help-mpi-btl-openib.txt / error in device init",
            false,
        );
        check(
            "[node-a:71] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error messages",
            false,
        );
        check("with a timeout of 30 s", false);
        check(
            "\tsize mismatch for layer.0.weight: a parameter of [5, 16]",
            true,
        );
        check("train:INFO:download failed, trying the mirror", false);
        check("2026-11-20 [WARNING] import failed", true);
        check("no active ports (or it was unable to use them)", false);
        for went_on in [
            "0: Snapshot not found. Training model from scratch",
            "tokenizer.json not found, downloading it",
            "cache.bin: No such file or directory, so it will be created",
            "config.yaml not found in /app - using defaults",
            "Could not find a checkpoint in /ckpt; starting from iteration 0",
            "Failed to dlopen libnvidia-ml.so.  Trying libnvidia-ml.so.1",
            "unable to reach the mirror at 10.0.1.25, now trying another one",
        ] {
            check(went_on, false);
        }
        check(
            "Exception ignored in: <function Pool.__del__ at 0x7f>",
            false,
        );
        check("Snapshot not found. Exiting", true);
        check("Failed to connect to node-b, trying again", true);
        check("Failed to open liba.so. Trying liba.so.1 failed", true);
        check("model.bin not found, aborting", true);
        check("libnccl.so not found. Using the bundled one failed", true);
        check("Failed to start: a.json not found, using defaults", true);
    }

    #[test]
    fn the_words_of_a_failure_in_a_long_line_are_kept() {
        let rest = "x".repeat(TEXT_MAX);
        let kept = kept_text(format!("E1 a.cc:4] {rest} bind: Cannot assign it\"}}").as_bytes());
        assert!(kept.len() <= TEXT_MAX && kept.starts_with(b"E1 a.cc:4] "));
        assert!(kept.ends_with(b" bind: Cannot assign it\"}"));
        let text = format!("it failed: {rest}");
        assert_eq!(kept_text(text.as_bytes()), &text.as_bytes()[..TEXT_MAX]);
    }

    fn add(lines: &mut StatedLines, number: u64, text: &str) {
        let place = Place {
            file: 0,
            line: number,
        };
        lines.add(place, text.as_bytes());
    }

    #[test]
    fn a_failure_may_be_no_more_than_a_warning() {
        assert!(is_warning("2026-11-20 [WARNING] import failed"));
        assert!(is_warning(
            "cache WARNING: the remote end closed the connection"
        ));
        assert!(!is_warning("the import failed"));
    }

    #[test]
    fn the_first_and_the_last_lines_are_kept() {
        let mut lines = StatedLines::default();
        for number in 0..100 {
            let letters = [b'a' + (number / 26) as u8, b'a' + (number % 26) as u8];
            add(
                &mut lines,
                number,
                &format!("failed {}", String::from_utf8_lossy(&letters)),
            );
        }
        add(&mut lines, 100, "failed aa");
        let places: Vec<u64> = lines.lines().map(|(place, _)| place.line).collect();
        assert_eq!((places[0], places[15], places[16]), (0, 15, 85));
        assert_eq!(places.last(), Some(&99));
    }

    proptest! {
        #[test]
        fn what_is_kept_does_not_depend_on_the_order_of_parts(
            texts in prop::collection::vec(0u8..26, 1..120),
            cut in 0usize..120,
        ) {
            let cut = cut.min(texts.len());
            let mut parts = [StatedLines::default(), StatedLines::default()];
            let mut whole = StatedLines::default();
            for (number, text) in texts.iter().enumerate() {
                let text = format!("failed {}", char::from(b'a' + text));
                add(&mut parts[usize::from(number % 3 == 0 || number > cut)], number as u64, &text);
                add(&mut whole, number as u64, &text);
            }
            let [mut one, mut other] = parts;
            let first = one.clone();
            one.merge(other.clone());
            other.merge(first);
            prop_assert_eq!(&one, &whole);
            prop_assert_eq!(&other, &whole);
        }

        #[test]
        fn digits_do_not_decide(line in "(error|failed| |:|[0-9]|-|no |E|I|\\]|lost ){0,20}") {
            let zeros: Vec<u8> = line.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).collect();
            prop_assert_eq!(stated(line.as_bytes()).is_some(), stated(&zeros).is_some());
        }
    }
}
