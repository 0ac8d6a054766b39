//! What a person did to a program that did not go on: interrupted a benchmark between two sizes, or took the stack of
//! a process.
//!
//! Neither is an error, and no line states one. They tell all the same that the program had been waited for.
#![forbid(unsafe_code)]

use super::benchmarks;
use super::loggers::regex;
use super::native_stack;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Signatures of the findings.
pub(super) const INTERRUPTED: &str = "benchmark-interrupted";
pub(super) const STACK: &str = "debugger-stack";

/// Sizes, each at least twice the one before, by which rows without a head are told from other numbers.
const SIZES_MIN: usize = 4;
/// Most lines between the last row and the interruption, and between the mark of a hang and its stack.
const NEAR: u64 = 3;
/// Fewest frames of a stack.
const FRAMES_MIN: usize = 4;
const TEXT_MAX: usize = 400;

/// What a terminal or a launcher shows of Ctrl-C.
static STOPS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\^C|^mpirun: (?:killing job|Forwarding signal)|^srun: (?:interrupt|sending Ctrl-C)|\bprocess interrupted \(SIGINT\)|\] Sending Ctrl-C to processes",
    )
});
/// A frame of gdb or pstack.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s*#(?P<number>\d{1,3}) +(?:0x[0-9a-f]+ in )?(?P<function>[A-Za-z_][\w:~]*|\?\?)(?:<[^()]{0,80}>)?(?:::[\w~]+)? ?\(",
    )
});
/// A frame with its place in a source: `#0  0x00007f33a2f5a33c in pathDistance (links=...) at graph/topo.cc:618`.
static SOURCE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s*#\d+ +(?:0x[0-9a-f]+ in )?(?P<function>[A-Za-z_][\w:~]*).* at (?P<source>[\w./+-]+:\d+)\s*$",
    )
});
static MARK: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\bhangs?\b|\bhung\b|\bstuck\b|\bno further output\b"));
/// Signs that a process has crashed, so that its stack is of that.
static CRASH: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\bSIG(?:SEGV|ABRT|BUS|FPE|ILL|TERM)\b|signal handler called|Segmentation fault|core dumped|^\s*#\d+ +(?:0x[0-9a-f]+ in )?(?:raise|abort|__pthread_kill\w*|__GI_(?:raise|abort)|__assert_fail\w*) ",
    )
});

/// The thread that a signal ended, and the one whose stack follows.
static CRASHED: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^Thread (?P<thread>\d+) .*received signal SIG"#));
static THREAD: LazyLock<Regex> = LazyLock::new(|| regex(r"^Thread (?P<thread>\d+) \(Thread 0x"));
/// The innermost frame where a null pointer to a function was called.
static NULL: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*#0 +0x0+ in "));
/// Innermost frames of which one may tell its place in a source.
const INNER_MAX: usize = 3;

/// Whether a line begins the stack of a thread, as gdb writes it.
pub(super) fn begins_thread(line: &[u8]) -> bool {
    THREAD.is_match(line)
}

/// Whether a line shows that a program was stopped, or is a frame of a debugger.
pub(super) fn is_sign(line: &[u8]) -> bool {
    STOPS.is_match(line) || FRAME.is_match(line)
}

/// A line with its number.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub number: u64,
    pub text: Vec<u8>,
}

impl Line {
    fn new(number: u64, text: &[u8]) -> Self {
        let text = text[..text.len().min(TEXT_MAX)].to_vec();
        Self { number, text }
    }
}

/// What was done by hand in a part of a file.
#[derive(Debug, Default, Clone)]
pub(super) struct ByHand {
    /// The head that was read last, and the last sizes of its rows.
    benchmark: &'static str,
    sizes: Vec<u64>,
    last_row: u64,
    mark: Option<Line>,
    has_crashed: bool,
    /// The thread that crashed, and the one of the frames.
    crashed: Option<Vec<u8>>,
    thread: Option<Vec<u8>>,
    frames: Vec<(u64, Vec<u8>)>,
    /// The line with which a benchmark was interrupted, and the size of its last row.
    pub interrupted: Option<(Line, u64)>,
    /// The innermost frame of the stack of a crash that tells its place in a source.
    pub crash: Option<String>,
    /// Whether that was called from there: a null pointer to a function.
    pub calls_null: bool,
    /// The line that shows a stack, and the functions of its frames.
    pub stack: Option<(Line, Vec<String>)>,
}

impl ByHand {
    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        self.row(number, line);
        self.frame(number, line);
    }

    fn row(&mut self, number: u64, line: &[u8]) {
        if let Some(benchmark) = benchmarks::benchmark_of_head(line) {
            (self.benchmark, self.interrupted) = (benchmark, None);
            self.sizes.clear();
        } else if let Some(size) = benchmarks::size_of_row(line) {
            self.last_row = number;
            match self.sizes.last() {
                Some(last) if *last == size => {}
                Some(last) if *last > 0 && size < last.saturating_mul(2) => self.sizes = vec![size],
                _ => self.sizes.push(size),
            }
            if self.sizes.len() >= SIZES_MIN {
                self.interrupted = None;
            }
        } else if benchmarks::is_answer("", line) {
            // A line below the last row: the table is complete.
            self.sizes.clear();
            self.interrupted = None;
        } else if STOPS.is_match(line) && number - self.last_row <= NEAR {
            let last = self.sizes.last().copied().unwrap_or_default();
            let is_table = self.sizes.len() >= SIZES_MIN;
            if is_table && last < benchmarks::last_size(self.benchmark) {
                self.interrupted = Some((Line::new(number, line), last));
            }
            self.sizes.clear();
        }
    }

    fn frame(&mut self, number: u64, line: &[u8]) {
        self.has_crashed |= CRASH.is_match(line);
        let frame = memchr::memchr(b'#', line).and_then(|_| FRAME.captures(line));
        let Some(frame) = frame else {
            self.end_of_stack();
            if let Some(crashed) = CRASHED.captures(line) {
                self.crashed = Some(crashed["thread"].to_vec());
            } else if let Some(thread) = THREAD.captures(line) {
                self.thread = Some(thread["thread"].to_vec());
            }
            if MARK.is_match(line) {
                self.mark = Some(Line::new(number, line));
            }
            return;
        };
        let at = std::str::from_utf8(&frame["number"]).ok();
        let at = at.and_then(|at| at.parse::<usize>().ok());
        if at == Some(0) {
            self.end_of_stack();
        }
        if at == Some(self.frames.len()) {
            self.frames.push((number, line.to_vec()));
        }
    }

    /// Keeps the frames that were read last, if they are the first stack that tells where a process waits.
    pub(super) fn end_of_stack(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        let is_of_other =
            self.thread.is_some() && self.crashed.is_some() && self.thread != self.crashed;
        if self.has_crashed && self.crash.is_none() && !is_of_other {
            let mut inner = frames.iter().take(INNER_MAX);
            let told = inner.find_map(|(_, frame)| SOURCE.captures(frame));
            let first = frames.first().map_or(&b""[..], |(_, frame)| frame);
            self.calls_null = told.is_some() && NULL.is_match(first);
            self.crash = told.map(|told| {
                super::compose::shown(&[&told["function"], b" (", &told["source"], b")"].concat())
            });
        }
        if frames.len() < FRAMES_MIN || self.has_crashed || self.stack.is_some() {
            return;
        }
        let functions = frames.iter().filter_map(|(_, frame)| {
            let function = FRAME.captures(frame)?.name("function")?.as_bytes();
            Some(super::compose::shown(function))
        });
        let told = native_stack::waits_in(&functions.collect::<Vec<_>>());
        let (number, first) = &frames[0];
        let mark = self.mark.take();
        let mark = mark.filter(|mark| number - mark.number <= NEAR);
        let line = mark.unwrap_or_else(|| Line::new(*number, first));
        if !told.is_empty() {
            self.stack = Some((line, told));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ByHand {
        let mut by_hand = ByHand::default();
        for (number, line) in (1..).zip(text.lines()) {
            by_hand.line(number, line.as_bytes());
        }
        by_hand.end_of_stack();
        by_hand
    }

    #[test]
    fn a_table_that_is_going_on_is_interrupted() {
        let check = |text: &str, expected: Option<(u64, u64)>| {
            let found = read(text).interrupted;
            assert_eq!(
                found.map(|(line, size)| (line.number, size)),
                expected,
                "{text}"
            );
        };
        check("8\n8\n16\n16\n32\n64\n64\n^C\n", Some((8, 64)));
        let row = |size: u64| {
            format!(
                "{size:12} {:10}     float     sum      -1    38.54    0.00\n",
                size / 4
            )
        };
        let rows: String = [8, 16, 32, 64].map(row).concat();
        check(&format!("{rows}mpirun: killing job...\n"), Some((5, 64)));
        check(&format!("{rows}# Avg bus bandwidth    : 2.8\n^C\n"), None);
        check(
            &format!("{rows}^C\n$ again\n{rows}# Avg bus bandwidth    : 2.8\n"),
            None,
        );
        check(&format!("{rows}a line\na line\na line\na line\n^C\n"), None);
        check("1 2.31\n2 2.30\n3 2.28\n4 2.2\n^C\n", None);
        let osu =
            "# Size      Bandwidth (MB/s)\n524288 9.1\n1048576 9.2\n2097152 9.2\n4194304 9.2\n^C\n";
        check(osu, None);
    }

    #[test]
    fn the_frame_of_a_crash_is_of_the_thread_that_crashed() {
        let stack = |thread: u32, first: &str| {
            format!(
                "Thread {thread} (Thread 0x7ffd (LWP 6{thread})):\n{first}#1  0x7f in f (a=1) at b/f{thread}.cc:7\n\n"
            )
        };
        let null = "#0  0x0000000000000000 in ?? ()\n";
        let head = "Thread 9 \"a\" received signal SIGSEGV, Segmentation fault.\n";
        let other = stack(10, "#0  wait () at c.S:56\n");
        let found = read(&format!("{head}{other}{}{other}", stack(9, null)));
        assert_eq!(found.crash.as_deref(), Some("f (b/f9.cc:7)"));
        assert!(found.calls_null);
        let found = read(&format!("{head}{other}"));
        assert_eq!(found.crash, None);
    }

    #[test]
    fn a_stack_without_a_crash_tells_where_a_process_waits() {
        let frames = "#0  syscall ()\n#1  ucm_mremap (a=1) at e.c:2\n#2  realloc () from libc.so.6\n#3  uct_md_query (md=0x1) at b.c:1\n#4  0x00007f12 in ucp_init_version (a=1)\n#5  nixlAgent::createBackend (\"UCX\", ...) at a.so\n";
        let found = read(&format!("a\n# <--- hangs here --->\n{frames}")).stack;
        let (line, told) = found.expect("a stack");
        assert_eq!(line.number, 2);
        let expected = [
            "uct_md_query (UCX)",
            "ucp_init_version (UCX)",
            "nixlAgent::createBackend (NIXL)",
        ];
        assert_eq!(told, expected);
        assert!(
            read(&format!("Program received signal SIGSEGV\n{frames}"))
                .stack
                .is_none()
        );
        assert!(
            read("#0 building with \"default\"\n#1 load\n#1 DONE\n#2 a\n")
                .stack
                .is_none()
        );
    }
}
