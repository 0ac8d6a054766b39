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
    /// The newest line of output that is not blank, also of a kind too many.
    last_printed: Option<String>,
}

impl KeptLines {
    pub(super) fn kept(&self) -> &[KeptLine] {
        &self.kept
    }

    pub(super) fn last_printed(&self) -> Option<&str> {
        self.last_printed.as_deref()
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
        if !text.trim().is_empty() {
            self.last_printed = Some(text.chars().take(TEXT_CHARS_MAX).collect());
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
