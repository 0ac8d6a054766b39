//! What the rows of nccl-tests tell besides their sizes: values that were wrong, and a bus bandwidth that falls.
//!
//! A row is known by its own columns, so those of a table are read whose head is torn off, and a row that is torn itself.
//!
//! Not here: whether the next size ends (`ends`), and the sum of all wrong values, which has a signature.
#![forbid(unsafe_code)]

use super::benchmarks;
use super::loggers::regex;
use regex::bytes::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What a launcher writes in front of each piece of a line that a rank writes: `[0]`.
static RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[\d{1,6}\]"));
/// A figure with two decimals, as nccl-tests prints a bandwidth.
static BANDWIDTH: LazyLock<Regex> = LazyLock::new(|| regex(r"^\d{1,7}\.\d\d$"));
/// A number of wrong values: more digits than six are printed as `1.23457e+06`. The deviation that older releases print
/// there has no decimals.
static COUNT: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:\d{1,7}|\d\.\d+e\+\d\d)$"));
/// What may stand there instead.
const NOT_CHECKED: &[u8] = b"N/A";
static DEVIATION: LazyLock<Regex> = LazyLock::new(|| regex(r"^\d+(?:\.\d+)?e[-+]\d+$"));

/// The least bus bandwidth whose fall is told, GB/s, and how much less counts.
const BANDWIDTH_MIN: f64 = 1.0;
const FALL: f64 = 3.0;
/// Rows that make a fall: one alone may be of another load of the machine.
const ROWS_MIN: u64 = 2;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub size: u64,
    /// Of the data out of place, GB/s.
    pub bandwidth: f64,
    /// Wrong values out of place and in place, as far as the row tells.
    pub wrong: [f64; 2],
}

/// The row that a line is, as far as it is there.
pub(super) fn row(line: &[u8]) -> Option<Row> {
    let line = match memchr::memchr(b'[', line) {
        Some(_) => RANK.replace_all(line, &b" "[..]),
        None => Cow::Borrowed(line),
    };
    let size = benchmarks::size_of_typed_row(&line)?;
    let columns = line.split(u8::is_ascii_whitespace);
    let columns: Vec<&[u8]> = columns.filter(|column| !column.is_empty()).collect();
    let is_half = |at: &usize| {
        let [_, algorithm, bus, wrong, ..] = columns[*at..] else {
            return false;
        };
        let is_checked = COUNT.is_match(wrong) || DEVIATION.is_match(wrong) || wrong == NOT_CHECKED;
        BANDWIDTH.is_match(algorithm) && BANDWIDTH.is_match(bus) && is_checked
    };
    let at = (0..columns.len()).find(is_half)?;
    let number = |column: usize| -> Option<f64> {
        std::str::from_utf8(columns.get(column)?).ok()?.parse().ok()
    };
    let wrong = |at: usize| {
        let counts = columns
            .get(at + 3)
            .is_some_and(|column| COUNT.is_match(column));
        number(at + 3).filter(|_| counts).unwrap_or(0.0)
    };
    let second = Some(at + 4).filter(is_half);
    Some(Row {
        size,
        bandwidth: number(at + 2)?,
        wrong: [wrong(at), second.map_or(0.0, wrong)],
    })
}

/// A row of a file that is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToldRow {
    pub row: Row,
    pub speaker: u32,
    /// The number of its line, and the line.
    pub line: u64,
    pub text: Vec<u8>,
}

/// Rows after a smaller size with more than three times their bus bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fall {
    pub from: Row,
    pub to: ToldRow,
    pub rows: u64,
}

/// What the rows of one file come to.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// The first row with wrong values, and how many have such.
    pub wrong: Option<(ToldRow, u64)>,
    /// The first fall.
    pub fall: Option<Fall>,
    /// Of the table that is being read: the row with the greatest bandwidth, and the last row.
    best: Option<Row>,
    last: Option<Row>,
    falling: Option<Fall>,
}

impl Measured {
    /// With the numbers that speakers have elsewhere.
    pub(super) fn numbered(mut self, number: impl Fn(u32) -> u32) -> Self {
        let wrong = self.wrong.as_mut().map(|(told, _)| told);
        let fall = self.fall.as_mut().map(|fall| &mut fall.to);
        wrong
            .into_iter()
            .chain(fall)
            .for_each(|told| told.speaker = number(told.speaker));
        self
    }

    /// Adds what a later part of the file tells.
    pub(super) fn merge(&mut self, later: Self) {
        self.wrong = match (self.wrong.take(), later.wrong) {
            (Some((first, rows)), Some((_, more))) => Some((first, rows + more)),
            (first, later) => first.or(later),
        };
        self.fall = self.fall.take().or(later.fall);
        (self.best, self.last, self.falling) = (later.best, later.last, later.falling);
    }

    /// Reads a row; those of one table are in the order of their sizes.
    pub(super) fn read(&mut self, told: ToldRow) {
        let row = told.row;
        if row.wrong.iter().any(|wrong| *wrong > 0.0) {
            let (_, rows) = self.wrong.get_or_insert_with(|| (told.clone(), 0));
            *rows += 1;
        }
        if self.last.is_some_and(|last| last.size >= row.size) {
            (self.best, self.falling) = (None, None);
        }
        self.last = Some(row);
        let best = *self.best.get_or_insert(row);
        let falls = best.bandwidth >= BANDWIDTH_MIN && row.bandwidth * FALL < best.bandwidth;
        if !falls {
            self.falling = None;
            if row.bandwidth > best.bandwidth {
                self.best = Some(row);
            }
            return;
        }
        let falling = self.falling.get_or_insert(Fall {
            from: best,
            to: told,
            rows: 0,
        });
        falling.rows += 1;
        let is_same = |fall: &Fall| fall.to == falling.to;
        if falling.rows >= ROWS_MIN && self.fall.as_ref().is_none_or(is_same) {
            self.fall = Some(falling.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<(u64, f64, [f64; 2])> {
        let row = row(line.as_bytes())?;
        Some((row.size, row.bandwidth, row.wrong))
    }

    #[test]
    fn a_row_has_the_number_of_its_wrong_values() {
        let row = "      524288        131072     float     sum      -1    662.7    0.79    0.79  237790    570.0    0.92    0.92  237981";
        assert_eq!(of(row), Some((524_288, 0.79, [237_790.0, 237_981.0])));
        assert_eq!(of(&format!("[1,0]<stdout>:{row}")), of(row));
        // Torn in its second half.
        assert_eq!(of(&row[..110]), Some((524_288, 0.79, [237_790.0, 0.0])));
        let many = row.replace("237790", "2.3779e+06");
        assert_eq!(of(&many).map(|of| of.2[0]), Some(2_377_900.0));
        for right in ["0", "N/A", "0e+00", "4e-07", "2e+00"] {
            let right = row.replace("237790", right).replace("237981", right);
            assert_eq!(of(&right).map(|of| of.2), Some([0.0; 2]), "{right}");
        }
        let old =
            "  8  2  float  sum  24390    2.75    5.27  0e+00    24441    2.75    5.26  0e+00";
        assert_eq!(of(old), Some((8, 5.27, [0.0; 2])));
        let of_ranks = "[0]     67108864       16777216     float     sum      -1[0]    24390    2.75    5.27      7[0]    24441    2.75    5.26      0";
        assert_eq!(of(of_ranks), Some((67_108_864, 5.27, [7.0, 0.0])));
        for other in [
            "1048576",
            "524288  131072  float  sum  -1  662.7  0.79",
            "epoch 3 0.79 0.80 17",
            "1 2 3 4.00 5.00 6",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    fn measured(rows: &[(u64, f64)]) -> Option<(u64, u64, u64)> {
        let mut measured = Measured::default();
        for (line, (size, bandwidth)) in (1..).zip(rows) {
            measured.read(ToldRow {
                row: Row {
                    size: *size,
                    bandwidth: *bandwidth,
                    wrong: [0.0; 2],
                },
                speaker: 0,
                line,
                text: Vec::new(),
            });
        }
        let fall = measured.fall?;
        Some((fall.from.size, fall.to.row.size, fall.rows))
    }

    #[test]
    fn a_bandwidth_falls_over_more_than_one_row() {
        assert_eq!(
            measured(&[(8, 9.0), (16, 29.5), (32, 5.2), (64, 5.3)]),
            Some((16, 32, 2))
        );
        assert_eq!(
            measured(&[(8, 9.0), (16, 29.5), (32, 5.2), (64, 28.0), (128, 5.2)]),
            None
        );
        assert_eq!(
            measured(&[(8, 9.0), (16, 29.5), (32, 14.0), (64, 12.0)]),
            None
        );
        assert_eq!(measured(&[(8, 0.04), (16, 0.01), (32, 0.01)]), None);
        // The next table begins again.
        assert_eq!(
            measured(&[(8, 0.1), (16, 29.5), (8, 0.1), (16, 0.2), (32, 29.0)]),
            None
        );
    }
}
