//! Names in the rows of listings of jobs and pods (`squeue`, `sacct`, `sinfo`, `kubectl get`), by the column that they
//! stand in. Of a row with as many words as the header, the place of a word decides; of others, where it is written.
//!
//! Not here: columns of secrets (`tables.rs`).
#![forbid(unsafe_code)]

use std::ops::Range;

/// Columns of names, in upper case.
const NAMES: [&str; 10] = [
    "ACCOUNT",
    "GROUP",
    "JOBNAME",
    "NAME",
    "NAMESPACE",
    "NODELIST",
    "OWNER",
    "PARTITION",
    "QUEUE",
    "USER",
];
/// Columns that such listings have, too.
const OTHERS: [&str; 26] = [
    "AGE",
    "ALLOCCPUS",
    "ALLOCTRES",
    "AVAIL",
    "CLUSTER-IP",
    "CPUS",
    "ELAPSED",
    "END",
    "EXITCODE",
    "EXTERNAL-IP",
    "JOBID",
    "MAXRSS",
    "NODES",
    "NODELIST(REASON)",
    "PRIORITY",
    "READY",
    "REASON",
    "RESTARTS",
    "ST",
    "START",
    "STATE",
    "STATUS",
    "TIME",
    "TIMELIMIT",
    "TYPE",
    "VERSION",
];
/// Fewest columns of a listing.
const COLUMNS_MIN: usize = 4;
/// Most rows beneath a header.
const ROWS_MAX: usize = 10_000;
/// Longest row.
const ROW_BYTES_MAX: usize = 1024;

/// The places of names in the listings of a text, in order.
pub(super) fn names(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut header: Option<Header> = None;
    let mut at = 0;
    for row in text.split_inclusive('\n') {
        let begin = at;
        at += row.len();
        let line = row.trim_end();
        let is_line = line.bytes().all(|byte| b"-+| ".contains(&byte));
        if line.is_empty() || line.len() > ROW_BYTES_MAX {
            header = None;
        } else if let Some(next) = Header::of(line) {
            header = Some(next);
        } else if let Some(header) = header.as_mut().filter(|header| header.rows < ROWS_MAX) {
            header.rows += 1;
            let words = cells(line, header.has_bars);
            if is_line {
                header.widen(&words);
                continue;
            }
            let cells = words
                .iter()
                .enumerate()
                .filter(|(number, word)| header.is_name(*number, words.len(), word));
            found.extend(cells.map(|(_, word)| begin + word.start..begin + word.end));
        }
    }
    found
}

/// The first line of a listing.
struct Header {
    /// Where each column stands, and whether it has names.
    columns: Vec<(Range<usize>, bool)>,
    has_bars: bool,
    rows: usize,
}

impl Header {
    fn of(line: &str) -> Option<Self> {
        let has_bars = line.contains('|');
        let words = cells(line, has_bars);
        let is = |list: &[&str], word: &Range<usize>| {
            list.iter()
                .any(|one| line[word.clone()].trim().eq_ignore_ascii_case(one))
        };
        let known = words
            .iter()
            .filter(|word| is(&NAMES, word) || is(&OTHERS, word))
            .count();
        let is_listing = known >= COLUMNS_MIN && 2 * known > words.len();
        let columns = words.iter().map(|word| (word.clone(), is(&NAMES, word)));
        is_listing.then(|| Self {
            columns: columns.collect(),
            has_bars,
            rows: 0,
        })
    }

    /// Takes the width of each column from the line of dashes beneath the header.
    fn widen(&mut self, dashes: &[Range<usize>]) {
        if dashes.len() == self.columns.len() {
            let columns = self.columns.iter_mut().zip(dashes);
            columns.for_each(|((place, _), dashes)| *place = dashes.clone());
        }
    }

    fn is_name(&self, number: usize, count: usize, word: &Range<usize>) -> bool {
        if count == self.columns.len() {
            return self.columns[number].1;
        }
        let overlaps =
            |(place, _): &&(Range<usize>, bool)| place.start < word.end && word.start < place.end;
        self.columns
            .iter()
            .find(overlaps)
            .is_some_and(|(_, is_of_names)| *is_of_names)
    }
}

/// The words of a row, or what stands between its bars.
fn cells(line: &str, has_bars: bool) -> Vec<Range<usize>> {
    let ends = |letter: char| match has_bars {
        true => letter == '|',
        false => letter.is_whitespace(),
    };
    let marks = || {
        line.match_indices(ends)
            .map(|(at, mark)| at..at + mark.len())
    };
    let starts = std::iter::once(0).chain(marks().map(|mark| mark.end));
    let places = starts.zip(marks().map(|mark| mark.start).chain([line.len()]));
    let cells = places.map(|(start, end)| start..end);
    cells.filter(|cell| has_bars || !cell.is_empty()).collect()
}
