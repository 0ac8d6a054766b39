//! Rows beneath a header with a column of secrets: `NAME  TOKEN  AGE`, and `| user | password |` in Markdown.
#![forbid(unsafe_code)]

use super::ordinary::is_ordinary;
use super::telling;
use std::ops::Range;

/// Most rows of a table.
const ROWS_MAX: usize = 256;
/// Longest row.
const ROW_BYTES_MAX: usize = 1024;

/// How the cells of a row are apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Bar,
    Tab,
    /// Two spaces or more.
    Spaces,
    /// One space: all words of the header are in capitals.
    Space,
}

/// The words that may be secrets in the column of a name; none if the name is in no header.
pub(super) fn column(
    text: &str,
    name: &Range<usize>,
    row: &Range<usize>,
    places: &mut Vec<Range<usize>>,
) {
    let (begin, end) = (row.start, row.end.saturating_sub(1));
    if !text[row.clone()].ends_with('\n') || end - begin > ROW_BYTES_MAX {
        return;
    }
    let header = &text[begin..end];
    let Some(gap) = gap(header) else { return };
    let names: Vec<Range<usize>> = cells(header, gap).collect();
    let at = name.start - begin;
    let Some(number) = names.iter().position(|cell| cell.contains(&at)) else {
        return;
    };
    // A variable whose value was replaced is a row: `| HF_TOKEN | SECRET |`.
    let cell = |at: usize| header[names[at].clone()].trim();
    let is_replaced = |at: usize| number != at && cell(at) == super::SECRET;
    let is_placeholder = cell(number) == super::SECRET && super::keys::is_secret(cell(0));
    if gap == Gap::Bar && (is_placeholder && number > 0 || (0..names.len()).any(is_replaced))
        || header.contains('`')
    {
        return;
    }
    // Two words at most: `API KEY`.
    let words = header[names[number].clone()].split_whitespace().count();
    // A variable and its value have no such words.
    let is_title = |word: &str| {
        is_ordinary(word)
            && !word
                .bytes()
                .any(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    // Columns of a database have any name.
    let is_column = |word: &str| gap == Gap::Bar && word.bytes().all(is_of_column);
    let is_header = |word: &str| is_title(word) || is_column(word);
    if names.len() < 2 || words > 2 || !header.split_whitespace().all(is_header) {
        return;
    }
    let start = names[number].start;
    let mut from = end + 1;
    for row in text[from..].split_inclusive('\n').take(ROWS_MAX) {
        let line = row.trim_end();
        // A header that is repeated has rows of its own.
        if line.is_empty() || line.len() > ROW_BYTES_MAX || line == header.trim_end() {
            return;
        }
        if line.bytes().all(|byte| b"-+=|: ".contains(&byte)) {
            from += row.len();
            continue;
        }
        let found: Vec<Range<usize>> = cells(line, gap).collect();
        if found.len() < 2 {
            return;
        }
        let cell = match found.len() == names.len() {
            true => found.get(number),
            // Where cells are empty, columns are aligned.
            false => found.iter().find(|cell| cell.contains(&start)),
        };
        if let Some(cell) = cell {
            telling::words(text, from + cell.start..from + cell.end, places);
        }
        from += row.len();
    }
}

fn is_of_column(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_|".contains(&byte)
}

/// How the cells of a header are apart; `None` if the line is no header.
fn gap(header: &str) -> Option<Gap> {
    if header.contains(['=', ':', '"', '{', '<', ';']) {
        return None;
    }
    let line = header.trim();
    if line.contains('|') {
        return Some(Gap::Bar);
    }
    if line.contains('\t') {
        return Some(Gap::Tab);
    }
    let words = line.split_whitespace();
    let is_capital = |word: &str| !word.bytes().any(|byte| byte.is_ascii_lowercase());
    match line.contains("  ") {
        true => Some(Gap::Spaces),
        false => words
            .clone()
            .all(is_capital)
            .then_some(Gap::Space)
            .filter(|_| words.count() > 1),
    }
}

/// The places of the cells of a row, without the space around them.
fn cells(row: &str, gap: Gap) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = &row[from..];
        let skipped = rest.len() - rest.trim_start_matches([' ', '\t', '|']).len();
        let begin = from + skipped;
        let inner = &row[begin..];
        if inner.is_empty() {
            return None;
        }
        let length = match gap {
            Gap::Bar => inner.find('|'),
            Gap::Tab => inner.find('\t'),
            Gap::Spaces => inner.find("  "),
            Gap::Space => inner.find(' '),
        };
        let cell = &inner[..length.unwrap_or(inner.len())];
        from = begin + cell.len();
        Some(begin..begin + cell.trim_end().len())
    })
}
