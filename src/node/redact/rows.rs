//! Values in other cells than their name, in Markdown, HTML and files with commas, and on other lines.
#![forbid(unsafe_code)]

use super::pairs::{Layout, VALUE_BYTES_MAX, Value, as_far_as_a_value, ends_line};
use super::signs::{length, quote};
use super::{keys, ordinary, spelling};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Most lines of a here document.
const DOCUMENT_LINES_MAX: usize = 64;
/// Most cells of a row behind the one of a name.
const CELLS_MAX: usize = 8;
/// Most bytes of these cells.
const CELLS_BYTES_MAX: usize = 4096;
/// Most tags of a row in HTML behind the cell of a name.
const HTML_TAGS_MAX: usize = 256;
/// What ends a row in HTML, and what a row with cells has.
const HTML_ENDS: [&str; 7] = ["</tr", "<tr", "</dd", "</table", "</dl", "</li", "</p"];
const HTML_CELLS: [&str; 5] = ["<td", "<th", "<dd", "<code", "<span"];
static HTML: LazyLock<Option<[AhoCorasick; 2]>> = LazyLock::new(|| {
    let ends = AhoCorasick::new(HTML_ENDS).ok()?;
    Some([ends, AhoCorasick::new(HTML_CELLS).ok()?])
});
/// Lines between the cells of a table.
pub(super) const BARS: [char; 4] = ['|', '\u{2502}', '\u{2503}', '\u{2551}'];

impl Layout<'_> {
    /// A value on the line behind that of its name: in quotes, an item of a list, or one word that
    /// is indented further or that no person would write in a sentence.
    pub(super) fn next_line(
        &self,
        line: usize,
        at: usize,
        is_quoted: bool,
        found: &mut Vec<Value>,
    ) {
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let own = indent(&self.text[line..]);
        let begin = at + length(&self.text[at..], |byte| byte == b'\n') + 1;
        let Some(next) = self.text.get(begin..) else {
            return;
        };
        let body = &next[indent(next)..];
        let is_item = body.starts_with("- ");
        let from = begin + indent(next) + if is_item { 2 } else { 0 };
        let is_further = indent(next) > own || is_item;
        let rest = &self.text[from..];
        let is_string = quote(rest).is_some() && (is_further || is_quoted);
        let written = &rest[..length(rest, ends_line)];
        // Another key, or a sentence.
        let is_word =
            !written.trim_end().contains(char::is_whitespace) && !written.trim_end().ends_with(':');
        let word = written.trim_end();
        let is_told =
            keys::is_chosen(word) || spelling::is_likely_random(word) || ordinary::is_unknown(word);
        if is_string && !written.trim_end().ends_with(':') || (is_word && (is_further || is_told)) {
            self.one(from, false, found);
        }
    }

    /// The other cells of a row in Markdown. In a string of JSON, a row ends with an escape.
    pub(super) fn cells(&self, at: usize, found: &mut Vec<Value>) {
        let most = self.text.floor_char_boundary(at + CELLS_BYTES_MAX);
        let end = self.line_end(at).min(most);
        let next = self.text[end..].trim_start_matches(['\r', '\n', ' ']);
        // A header, whose rows `tables.rs` reads.
        let rules = ["|-", "| -", "|:", "+-", "--"];
        if rules.iter().any(|rule| next.starts_with(rule)) {
            return;
        }
        let escape = self
            .ends
            .escape
            .find(self.text, at, |rest| rest.find("\\n"));
        let row = &self.text[at..end.min(escape)];
        let mut bars = row.match_indices(BARS).peekable();
        for _ in 0..CELLS_MAX {
            let Some((bar, text)) = bars.next() else {
                return;
            };
            let from = bar + text.len();
            let end = bars.peek().map_or(row.len(), |(next, _)| *next);
            let inner = row[from..end].trim().trim_matches('`');
            let begin = at + from + row[from..end].find(inner).unwrap_or(0);
            self.push(begin..begin + inner.len(), true, found);
        }
    }

    /// The other cells of a row in HTML, or what a definition says: up to the next row.
    pub(super) fn html_cells(&self, at: usize, found: &mut Vec<Value>) {
        let Some([ends, cells]) = &*HTML else { return };
        let first = |of: &AhoCorasick, rest: &str| of.find(rest).map(|found| found.start());
        let most = at + as_far_as_a_value(&self.text[at..]).len();
        let mut end = self.ends.row.find(self.text, at, |rest| first(ends, rest));
        if end >= most {
            end = self.line_end(at).min(most);
        }
        if self
            .ends
            .cell
            .find(self.text, at, |rest| first(cells, rest))
            >= end
        {
            return;
        }
        // Names in one row share its cells, which are read once.
        let at = at.max(self.ends.read.get());
        let Some(row) = self.text.get(at..end) else {
            return;
        };
        let mut from = 0;
        for _ in 0..HTML_TAGS_MAX {
            let Some(close) = row[from..].find('>') else {
                return;
            };
            let begin = from + close + 1;
            let end = begin + length(&row[begin..], |byte| byte == b'<');
            let inner = row[begin..end].trim();
            let begin = begin + row[begin..end].find(inner).unwrap_or(0);
            self.push(at + begin..at + begin + inner.len(), true, found);
            from = end;
            self.ends.read.set(at + end);
        }
    }

    /// The cells of a column of a file with commas or semicolons, whose first line has the name.
    pub(super) fn csv_column(&self, found: &mut Vec<Value>) {
        let (begin, (count, sign)) = (self.line.row, self.line.cells);
        if count == 0 {
            return;
        }
        // The line before the first has another number of cells.
        let above = self.text[..begin.saturating_sub(1)].rfind('\n');
        let before = &self.text[above.map_or(0, |end| end + 1)..begin];
        if begin > 0 && before.split(sign).count() == count {
            return;
        }
        let column = self.text[begin..self.name.start].matches(sign).count();
        let mut at = self.line.row_end;
        for line in self.text[at..].split_inclusive('\n') {
            let cells: Vec<&str> = line.trim_end().split(sign).collect();
            if cells.len() != count {
                return;
            }
            let before: usize = cells[..column].iter().map(|cell| cell.len() + 1).sum();
            let cell = cells[column].trim_matches('"');
            let from = at + before + cells[column].find(cell).unwrap_or(0);
            self.push(from..from + cell.len(), keys::is_chosen(cell), found);
            at += line.len();
        }
    }

    /// `value: VALUE` on the line above `name: KEY`.
    pub(super) fn value_above(&self, found: &mut Vec<Value>) {
        let own = self.text[self.line.row..self.name.start].trim_start();
        let key = own.trim_start_matches("- ");
        if key.trim_end_matches([' ', '"', '\'']) != "name:" {
            return;
        }
        let Some(end) = self.line.row.checked_sub(1) else {
            return;
        };
        let most = self
            .text
            .ceil_char_boundary(end.saturating_sub(VALUE_BYTES_MAX));
        let begin = self.text[most..end]
            .rfind('\n')
            .map_or(most, |at| most + at + 1);
        let above = self.text[begin..end].trim_start().trim_start_matches("- ");
        if let Some(value) = above.strip_prefix("value:") {
            self.one(end - value.trim_start().len(), true, found);
        }
    }

    /// The lines of a here document, `<<EOF` up to `EOF`.
    pub(super) fn here_document(&self, at: usize, found: &mut Vec<Value>) {
        let first = at + length(&self.text[at..], ends_line);
        let word = self.text[at..first].trim_start_matches(['<', '-', '~', '"', '\'']);
        let word = word.trim_end_matches(['"', '\'']);
        if word.is_empty() || word.contains(char::is_whitespace) {
            return;
        }
        let mut begin = first + 1;
        let Some(rest) = self.text.get(begin..) else {
            return;
        };
        let lines = as_far_as_a_value(rest).split_inclusive('\n');
        for line in lines.take(DOCUMENT_LINES_MAX) {
            let inner = line.trim();
            // Another one may begin before this one ends.
            if inner == word || inner.contains("<<") {
                return;
            }
            let from = begin + (line.len() - line.trim_start().len());
            self.push(from..from + inner.len(), true, found);
            begin += line.len();
        }
    }

    /// A YAML block: the lines that are indented further than the line of the name.
    pub(super) fn block(&self, line: usize, at: usize, found: &mut Vec<Value>) {
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let own = indent(&self.text[line..]);
        let from = at + length(&self.text[at..], ends_line);
        let lines = self.text[from..].split_inclusive('\n');
        let mut end = from + lines.clone().next().map_or(0, str::len);
        for next in lines.skip(1) {
            let is_outside = !next.trim().is_empty() && indent(next) <= own;
            if is_outside || end - from > VALUE_BYTES_MAX {
                break;
            }
            end += next.len();
        }
        let end = self
            .text
            .floor_char_boundary(end.min(from + VALUE_BYTES_MAX));
        let mut begin = from;
        for line in self.text[from..end.max(from)].split_inclusive('\n') {
            let inner = line.trim();
            let at = begin + indent(line);
            self.push(at..at + inner.len(), true, found);
            begin += line.len();
        }
    }
}
