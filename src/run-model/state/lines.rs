//! Log and output lines of one worker: each kind of line once, with its count.
#![forbid(unsafe_code)]

use crate::phase::Phase;
use tcpx_words::log::LogLine;

/// Most kinds of lines of one worker.
const KINDS_MAX: usize = 512;
/// Characters kept of one line.
const TEXT_CHARS_MAX: usize = 1000;

/// Where a line came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineSource {
    /// The plugin's logger.
    Plugin {
        /// NCCL log level: 2 is WARN, 3 is INFO.
        level: i32,
        /// Function or file that the plugin gave.
        function: String,
        /// Source line that the plugin gave.
        line: i32,
        /// Lines logged at that place, including those that sampling dropped.
        count: u64,
    },
    /// Output of the process, by stream: `stdout`, `stderr`.
    Output(String),
}

/// One kind of line: the same text from the same place.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptLine {
    /// Where the line came from.
    pub source: LineSource,
    /// The text, at most 1000 characters.
    pub text: String,
    /// Lines of this kind that arrived.
    pub count: u64,
    /// When the first one arrived, milliseconds since the command started.
    pub first_ms: f64,
    /// When the last one arrived, milliseconds since the command started.
    pub last_ms: f64,
    /// The worker's phase at the first one.
    pub phase: Option<Phase>,
}

impl KeptLine {
    /// Times that it was logged, as far as is known: of many lines from one place, not each is passed on, but each
    /// has its number.
    pub fn times(&self) -> u64 {
        match self.source {
            LineSource::Plugin { count, .. } if self.count > 1 => self.count.max(count),
            _ => self.count,
        }
    }

    /// Whether the plugin logged it as a warning.
    pub fn is_warning(&self) -> bool {
        matches!(
            self.source,
            LineSource::Plugin {
                level: tcpx_abi::level::WARN,
                ..
            }
        )
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct KeptLines {
    kept: Vec<KeptLine>,
    /// What was said last on stderr, also by a line of a kind too many.
    last_on_stderr: LastWords,
    /// The same of any other stream.
    last_on_stdout: LastWords,
}

impl KeptLines {
    pub(super) fn kept(&self) -> &[KeptLine] {
        &self.kept
    }

    /// Two pipes tell no order between their lines, and what ends a process is said on stderr.
    pub(super) fn last_printed(&self) -> Option<&str> {
        self.last_on_stderr.text().or(self.last_on_stdout.text())
    }

    pub(super) fn logged(&mut self, at_ms: f64, line: &LogLine, phase: Option<Phase>) {
        let (level, function, count) = (line.level, line.function.clone(), line.count);
        let source = LineSource::Plugin {
            level,
            function,
            line: line.line,
            count,
        };
        self.take(at_ms, source, &line.text, phase);
    }

    pub(super) fn printed(&mut self, at_ms: f64, stream: &str, text: &str, phase: Option<Phase>) {
        match stream {
            "stderr" => self.last_on_stderr.hear(text),
            _ => self.last_on_stdout.hear(text),
        }
        self.take(at_ms, LineSource::Output(stream.to_owned()), text, phase);
    }

    fn take(&mut self, at_ms: f64, source: LineSource, text: &str, phase: Option<Phase>) {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        if let Some(kept) = self
            .kept
            .iter_mut()
            .find(|kept| kept.text == text && is_same(&kept.source, &source))
        {
            kept.count += 1;
            kept.last_ms = at_ms;
            kept.source = source;
        } else if self.kept.len() < KINDS_MAX {
            self.kept.push(KeptLine {
                source,
                text,
                count: 1,
                first_ms: at_ms,
                last_ms: at_ms,
                phase,
            });
        }
    }
}

/// Whether two lines come from the same place.
fn is_same(one: &LineSource, other: &LineSource) -> bool {
    match (one, other) {
        (
            LineSource::Plugin {
                level,
                function,
                line,
                ..
            },
            LineSource::Plugin {
                level: other_level,
                function: other_function,
                line: other_line,
                ..
            },
        ) => (level, function, line) == (other_level, other_function, other_line),
        (LineSource::Output(one), LineSource::Output(other)) => one == other,
        _ => false,
    }
}

/// What a process said last, which may be why it ended: the last line that is neither blank nor of a stack, or
/// all lines of a runtime's report of an uncaught exception or panic.
#[derive(Debug, Clone, Default)]
pub struct LastWords {
    text: Option<String>,
    /// The report goes on until a line that is not of it.
    is_report: bool,
}

impl LastWords {
    /// What was said, at most 1000 characters.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Takes the next line that the process printed.
    pub fn hear(&mut self, line: &str) {
        if !may_tell_why(line) {
            // A text may have paragraphs.
            self.is_report &= line.trim().is_empty();
            return;
        }
        let bounded = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect();
        self.text = match self.text.take().filter(|_| self.is_report) {
            Some(report) => Some(bounded(&format!("{report} {}", line.trim()))),
            None => Some(bounded(line)),
        };
        self.is_report |= begins_report(line);
    }
}

/// Whether a line begins the report of an uncaught exception (C++) or panic (Rust). Its text follows.
fn begins_report(line: &str) -> bool {
    line.starts_with("terminate called ")
        || line.starts_with("libc++abi: terminating ")
        || (line.starts_with("thread '") && line.contains(" panicked at "))
}

/// Whether a line that a process printed may be why it ended: it is neither blank nor a stack frame, nor what
/// a runtime says of every end.
fn may_tell_why(text: &str) -> bool {
    let of_every_end = [
        "note: run with `RUST_BACKTRACE",
        "thread caused non-unwinding panic",
    ];
    let is_usual = of_every_end.iter().any(|usual| text.starts_with(usual));
    !text.trim().is_empty() && !is_usual && !is_stack_frame(text)
}

/// Whether a line is one frame of a stack, or the heading of its frames, as abseil, glog, glibc,
/// sanitizers and debuggers print them.
fn is_stack_frame(text: &str) -> bool {
    let text = text.trim();
    let is_address = |word: &str| {
        let digits = word.strip_prefix("0x").unwrap_or_default();
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        word == "(nil)" || (!digits.is_empty() && is_hex)
    };
    let mut words = text.split_whitespace();
    let (first, second) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    // `@ 0x55f1 main`, `#0 0x55f1 in main`.
    let number = first.strip_prefix('#').unwrap_or_default();
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_marked = (first == "@" || is_numbered) && is_address(second);
    // `/lib/libc.so.6(abort+0x12b) [0x7f6f]`.
    let is_bracketed = text
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once(" ["))
        .is_some_and(|(_, address)| is_address(address));
    let is_heading = text == "stack backtrace:"
        || (text.starts_with("***") && text.to_ascii_lowercase().contains("stack trace"));
    is_marked || is_bracketed || is_heading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_printed_line_is_what_was_said_before_the_stack() {
        let mut lines = KeptLines::default();
        let said = "F1125 13:38:14.580 17 transport.cc:64] Check failed: devices > 0 ";
        for text in [
            said,
            "*** Check failure stack trace: ***",
            "    @     0x7f6ffb96f17f  uccl::Init()",
            "    @              (nil)  (unknown)",
            "    #0 0x55d1e in main /src/main.cc:12:5",
            "/lib/x86_64-linux-gnu/libc.so.6(abort+0x12b) [0x7f6ffb4452]",
            "",
        ] {
            lines.printed(1.0, "stderr", text, None);
        }
        assert_eq!(lines.last_printed(), Some(said));
        for text in [
            "# 3 devices",
            "@home",
            "read [0xzz]",
            "*** stack smashing detected ***",
        ] {
            lines.printed(1.0, "stderr", text, None);
            assert_eq!(lines.last_printed(), Some(text));
        }
    }

    #[test]
    fn an_uncaught_exception_or_panic_is_told_whole() {
        let said = |lines: &[&str]| {
            let mut last = LastWords::default();
            lines.iter().for_each(|line| last.hear(line));
            last.text().map(str::to_owned)
        };
        let thrown = "terminate called after throwing an instance of 'std::runtime_error'";
        assert_eq!(
            said(&["hello", thrown, "  what():  no NIC", "", "named eth9"]).as_deref(),
            Some(format!("{thrown} what():  no NIC named eth9").as_str())
        );
        let panicked = "thread 'main' (7) panicked at src/init.rs:7:5:";
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        let all = [
            panicked,
            "no device",
            note,
            "thread caused non-unwinding panic. aborting.",
        ];
        assert_eq!(said(&all), Some(format!("{panicked} no device")));
        // A panic that was caught.
        assert_eq!(
            said(&[&all[..3], &["cannot bind"]].concat()).as_deref(),
            Some("cannot bind")
        );
        let long = "x".repeat(5000);
        assert_eq!(
            said(&[thrown, &long]).map(|text| text.len()),
            Some(TEXT_CHARS_MAX)
        );
    }

    #[test]
    fn a_line_of_stdout_that_is_read_later_is_not_the_last_word() {
        let mut lines = KeptLines::default();
        lines.printed(1.0, "stdout", "hello from pid 21398", None);
        assert_eq!(lines.last_printed(), Some("hello from pid 21398"));
        let said = "terminate called after throwing an instance of 'std::runtime_error'";
        lines.printed(1.0, "stderr", said, None);
        lines.printed(2.0, "stdout", "closing", None);
        assert_eq!(lines.last_printed(), Some(said));
    }
}
