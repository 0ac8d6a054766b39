//! nixlbench's table of rates: rows of numbers below a head.
//!
//! A row has no text to search for, so it is looked for behind its head. Where the block ends
//! there, the rows at the front of the next one are read.
#![forbid(unsafe_code)]

use super::line::{Event, Line};
use super::text::Text;
use memchr::memchr;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Most lines behind a head that are looked at.
const LINES_MAX: u32 = 256;
/// Lines at the front of a block of which one must look like a row, for all to be looked at.
const FRONT_LINES: usize = 4;
static HEAD: LazyLock<Finder> = LazyLock::new(|| Finder::new("Block Size (B)"));
/// Longest time in brackets.
const TIME_BYTES: usize = 40;
/// Longest row, in bytes.
const ROW_BYTES: usize = 1024;

/// The columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    columns: usize,
    rate: usize,
}

impl Head {
    /// Reads `Block Size (B)      Batch Size     B/W (GB/Sec)   ...`.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let line = &line[..line.len().min(ROW_BYTES)];
        let start = HEAD.find(line)?;
        let line = std::str::from_utf8(line).ok()?;
        // A head's words have single blanks between them, and its columns at least two.
        let columns: Vec<&str> = line[start..]
            .split("  ")
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let rate = columns.iter().position(|name| *name == "B/W (GB/Sec)")?;
        Some(Self {
            columns: columns.len(),
            rate,
        })
    }

    /// A row of this table.
    pub(super) fn row(self, line: &[u8]) -> Option<Line> {
        let words = Text::new(line).words().map(Text::number_alone);
        let numbers: Vec<f64> = words.take(self.columns + 1).collect::<Option<_>>()?;
        if numbers.len() != self.columns {
            return None;
        }
        let (bytes, gb_per_s) = (*numbers.first()? as u64, *numbers.get(self.rate)?);
        Some(Line {
            role: None,
            gpu: None,
            channel: None,
            event: Event::Rate { bytes, gb_per_s },
        })
    }

    /// Calls `found` with each row in the lines behind the head, and its number among them.
    /// Returns the number of lines that were looked at, if the block ended before the table.
    pub(super) fn rows(
        self,
        behind: &[u8],
        mut found: impl FnMut(u32, Line, &[u8]),
    ) -> Option<u32> {
        let mut end = 0;
        for (number, line) in (0..LINES_MAX).zip(lines(behind)) {
            if let Some(row) = looks_like_row(line).then(|| self.row(line)).flatten() {
                found(number, row, line);
            } else if Self::read(line).is_some() {
                return None;
            }
            end = number + 1;
        }
        (end < LINES_MAX).then_some(end)
    }
}

/// The lines of a block, trimmed, without a time in brackets that a collector put in front.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = (!rest.is_empty()).then(|| without_time(rest[..end].trim_ascii()));
        rest = rest.get(end + 1..).unwrap_or_default();
        line
    })
}

fn without_time(line: &[u8]) -> &[u8] {
    let close = memchr(b']', &line[..line.len().min(TIME_BYTES)]);
    close
        .filter(|_| line.starts_with(b"["))
        .map_or(line, |close| line[close + 1..].trim_ascii_start())
}

fn looks_like_row(line: &[u8]) -> bool {
    let mut bytes = line.iter();
    bytes.next().is_some_and(u8::is_ascii_digit)
        && line.len() <= ROW_BYTES
        && bytes.all(|byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b'.'))
}

/// Calls `found` with the lines at the front of a block that may be rows of a table whose head
/// is in the block before, and their numbers.
pub(super) fn front(block: &[u8], mut found: impl FnMut(u32, &[u8])) {
    if !lines(block).take(FRONT_LINES).any(looks_like_row) {
        return;
    }
    for (number, line) in (0..LINES_MAX).zip(lines(block)) {
        if looks_like_row(line) {
            found(number, line);
        } else if Head::read(line).is_some() {
            return;
        }
    }
}

/// Whether a line is still behind a head, of which the block before had `before` lines.
pub(super) fn is_behind(before: u32, number: u32) -> bool {
    before.saturating_add(number) < LINES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_between_other_lines_and_by_the_names_of_the_columns() {
        let rates = |text: &str| {
            let (head, behind) = text.split_once('\n').unwrap();
            let mut all = Vec::new();
            Head::read(head.as_bytes())
                .unwrap()
                .rows(behind.as_bytes(), |number, row, _| {
                    all.push((number, row.event))
                });
            all
        };
        let rate = |bytes, gb_per_s| Event::Rate { bytes, gb_per_s };
        let new = "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)  Avg Prep (us)\n-----\n\
            4096                1              0.812          5.0            1.2\nI0120 a warning\n\
            [2026-11-20T08:14:04.531Z] 8192     1              1.604          5.1            1.2\n1 2 3\n";
        assert_eq!(rates(new), [(1, rate(4096, 0.812)), (3, rate(8192, 1.604))]);
        let old = "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GiB/Sec)  B/W (GB/Sec)\n\
            65536               1              35.1           1780.6         1.7389         1.8671\n";
        assert_eq!(rates(old), [(0, rate(65_536, 1.8671))]);
        assert_eq!(Head::read(b"B/W (GB/Sec)"), None);
    }
}
