//! The box in which rich draws a traceback, where its exception, which stands below it, is torn off.
//!
//! ```text
//! │ /opt/venv/lib/python3.8/site-packages/accelerate/utils/other.py:81 in wait_for_everyone │
//! │ ❱  81 │   │   torch.distributed.barrier()                                              │
//! ```
//!
//! A launcher may write who it is in front of each line, and lines of others may be in between.
#![forbid(unsafe_code)]

use super::known::LEFT_OUT;
use super::loggers::regex;
use memchr::memmem::Finder;
use regex::bytes::Regex;
use std::sync::LazyLock;

static SIDE: LazyLock<Finder> = LazyLock::new(|| Finder::new("│"));
/// The first line of a frame: its file, its line, and its function, which may be in the next line.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^\s*(?P<path>/[^\s:]+):(?P<line>\d+)(?:\s+in\s+(?P<function>[\w<>]+))?\s")
});
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*in\s+(?P<function>[\w<>]+)\s"));
/// The line of the source that a frame is at.
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    regex("^\\s*❱\\s*(?P<line>\\d+)(?:\\s|│)+(?P<code>\\S[^\\n]*?)\\s*(?:│\\s*)?$")
});
/// Most lines of the source behind one that tells, which are left out of a log that leaves a machine.
const CONTEXT_MAX: u64 = 8;
/// The last line of a box.
static BOTTOM: LazyLock<Finder> = LazyLock::new(|| Finder::new("╰──"));

/// Whether a line of a box tells where an exception came from.
pub(super) fn tells(line: &[u8]) -> bool {
    SIDE.find(line).is_some_and(|side| {
        let inside = &line[side + "│".len()..];
        [&FRAME, &FUNCTION, &MARKED]
            .iter()
            .any(|form| form.is_match(inside))
    })
}

/// The box that is being read.
#[derive(Debug, Default)]
pub(super) struct TracebackBox {
    /// What stands in front of its lines.
    front: Vec<u8>,
    /// The path of its last frame, and the function.
    path: String,
    function: String,
    /// The number of its last marked line, and what that tells.
    marked: Option<(u64, String)>,
    /// The number of its last line.
    last: u64,
}

impl TracebackBox {
    /// Reads a line, and tells whether it is of the box.
    pub(super) fn line(&mut self, number: u64, line: &[u8]) -> bool {
        if line == LEFT_OUT {
            return self.marked.is_some() && number - self.last <= CONTEXT_MAX;
        }
        let Some(side) = SIDE.find(line) else {
            let is_of_writer = line.starts_with(&self.front);
            let is_bottom = BOTTOM.find(line).is_some();
            if self.marked.is_some() && is_of_writer && !is_bottom && !line.trim_ascii().is_empty()
            {
                *self = Self::default();
            }
            return is_bottom;
        };
        let (front, inside) = (&line[..side], &line[side + "│".len()..]);
        if self.marked.is_some() && front != self.front {
            return false;
        }
        let shown = |found: &regex::bytes::Captures<'_>, part: &str| {
            found
                .name(part)
                .map(|part| super::compose::shown(part.as_bytes()))
        };
        self.last = number;
        if let Some(found) = FRAME.captures(inside) {
            self.path = shown(&found, "path").unwrap_or_default();
            self.function = shown(&found, "function").unwrap_or_default();
        } else if let Some(found) = FUNCTION.captures(inside) {
            self.function = shown(&found, "function").unwrap_or_default();
        } else if let Some(found) = MARKED.captures(inside) {
            let (line, code) = (shown(&found, "line"), shown(&found, "code"));
            let (line, code) = (line.unwrap_or_default(), code.unwrap_or_default());
            let place = super::traceback::place(&self.path, &line, &self.function);
            self.front = front.to_vec();
            self.marked = Some((number, format!("{place} by `{code}`")));
        }
        true
    }

    /// Whether a line is the last one that is marked.
    pub(super) fn is_marked(&self, number: u64) -> bool {
        self.marked
            .as_ref()
            .is_some_and(|(marked, _)| *marked == number)
    }

    /// The number of the last line, and where the exception came from, if no line is below the box.
    pub(super) fn torn(self) -> Option<(u64, String)> {
        let (_, told) = self.marked?;
        Some((self.last, told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn torn(lines: &[&str]) -> Option<(u64, String)> {
        let mut boxed = TracebackBox::default();
        for (number, line) in (1..).zip(lines) {
            boxed.line(number, line.as_bytes());
        }
        boxed.torn()
    }

    #[test]
    fn a_box_without_its_exception_tells_the_marked_line() {
        let lines = [
            "node-a: │ /opt/venv/lib/python3.8/site-packages/accelerate/utils/other.py:81   │",
            "node-a: │ in wait_for_everyone                                                 │",
            "node-a: │    80 │   ):                                                         │",
            "node-a: │ ❱  81 │   │   torch.distributed.barrier()                            │",
            "node-b: epoch 3",
            "node-a: │    82 │   elif other:                                                │",
        ];
        let told =
            "accelerate/utils/other.py:81(wait_for_everyone) by `torch.distributed.barrier()`";
        assert_eq!(torn(&lines), Some((6, told.to_owned())));
        let whole = [
            &lines[..],
            &["node-a: ╰────────╯", "node-a: RuntimeError: it failed"],
        ]
        .concat();
        assert_eq!(torn(&whole), None);
        assert_eq!(torn(&["│ table │ of │ words │"]), None);
    }
}
