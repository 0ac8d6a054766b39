//! nixlbench's table of rates: rows of numbers below a head.
//!
//! A row has no text to search for, so it is looked for behind its head, in the same block.
//! Rows in the next block are not read.
#![forbid(unsafe_code)]

use super::line::{Event, Line};
use super::text::Text;
use memchr::memchr;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Most lines behind a head that are looked at.
const LINES_MAX: u32 = 256;
static HEAD: LazyLock<Finder> = LazyLock::new(|| Finder::new("Block Size (B)"));
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

    fn row(self, line: &[u8]) -> Option<Line> {
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
    pub(super) fn rows(self, mut behind: &[u8], mut found: impl FnMut(u32, Line, &[u8])) {
        for number in 0..LINES_MAX {
            let end = memchr(b'\n', behind).unwrap_or(behind.len());
            let line = behind[..end].trim_ascii();
            if behind.is_empty() {
                return;
            }
            let is_row = line.first().is_some_and(u8::is_ascii_digit) && line.len() <= ROW_BYTES;
            let row = is_row.then(|| self.row(line)).flatten();
            if let Some(row) = row {
                found(number, row, line);
            } else if Self::read(line).is_some() {
                return;
            }
            behind = behind.get(end + 1..).unwrap_or_default();
        }
    }
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
            8192                1              1.604          5.1            1.2\n1 2 3\n";
        assert_eq!(rates(new), [(1, rate(4096, 0.812)), (3, rate(8192, 1.604))]);
        let old = "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GiB/Sec)  B/W (GB/Sec)\n\
            65536               1              35.1           1780.6         1.7389         1.8671\n";
        assert_eq!(rates(old), [(0, rate(65_536, 1.8671))]);
        assert_eq!(Head::read(b"B/W (GB/Sec)"), None);
    }
}
