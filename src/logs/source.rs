//! Lines of a program's source in its log: a difference that `git diff` prints, and the code that a traceback quotes,
//! below its frames, in a box of rich, or with numbers as IPython does. They hold the texts of errors that the program
//! may write one day, and state none.
//!
//! Not here: differences between two logs, whose lines are lines of a log behind their mark (`markup`).
#![forbid(unsafe_code)]

use super::lines;
use super::shape::{record_at, without_escapes};
use super::traceback::{begins, is_frame, writer};
use super::word::{find, has};
use memchr::memmem;
use memchr::{memchr, memrchr};
use std::borrow::Cow;

/// What a hunk of a difference begins with: `@@ -88,6 +88,14 @@ def main():`.
const HUNK: &[u8] = b"@@ -";
/// Longest prefix that a launcher writes before each line of a difference.
const PREFIX_MAX: usize = 64;
/// Endings of names of logs.
const LOGS: [&[u8]; 5] = [b"log", b"out", b"err", b"txt", b"jsonl"];
/// Lines of code below a frame that are looked at: a statement goes over several.
const CODE_LINES: usize = 8;
/// The least indentation of code.
const INDENTATION: &[u8] = b"    ";
/// Bytes of a line in which its indentation is.
const INDENTED_WITHIN: usize = 64 + INDENTATION.len();

/// A text whose lines that are of a difference of source are blank; their number and their sizes stay.
pub(super) fn without_differences(text: &[u8]) -> Cow<'_, [u8]> {
    let mut blank: Option<Vec<u8>> = None;
    // The end of the hunk before, and whether its file was a log.
    let mut before: Option<(usize, Option<bool>)> = None;
    let mut from = 0;
    while let Some(at) = memmem::find(&text[from..], HUNK).map(|at| from + at) {
        let start = memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
        from = line_end(text, at);
        let mut scratch = Vec::new();
        let head = without_escapes(&text[start..from], &mut scratch);
        let at = memmem::find(head, HUNK).unwrap_or_default();
        let marks = head[..at].iter().rev().take_while(|byte| **byte == b'@');
        let (prefix, head) = head.split_at(at - marks.count());
        let Some(counts) = counts(head).filter(|_| prefix.len() <= PREFIX_MAX) else {
            continue;
        };
        let hunk = from..hunk_end(text, from, prefix, counts);
        let is_next = |(end, _): &(usize, _)| start == end + 1;
        let is_log = match before.filter(is_next) {
            Some((_, is_log)) => is_log,
            None => file_above(text, start, prefix),
        };
        before = Some((hunk.end, is_log));
        let is_of_source = match is_log {
            Some(is_log) => !is_log,
            None => !text[hunk.clone()]
                .split(|byte| *byte == b'\n')
                .any(is_logged),
        };
        from = hunk.end;
        if is_of_source {
            let out = blank.get_or_insert_with(|| text.to_vec());
            for byte in out[start..hunk.end]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
            {
                *byte = b' ';
            }
        }
    }
    blank.map_or(Cow::Borrowed(text), Cow::Owned)
}

fn line_end(text: &[u8], from: usize) -> usize {
    memchr(b'\n', &text[from..]).map_or(text.len(), |size| from + size)
}

/// Most files that a merge has one of; more are no difference.
const PARENTS_MAX: usize = 8;

/// How many lines a hunk has of each file before, of which a merge has several, and of the one behind.
fn counts(head: &[u8]) -> Option<(Vec<u64>, u64)> {
    let parents = head.iter().take_while(|byte| **byte == b'@').count() - 1;
    let (marks, rest) = head.split_at(parents + 1);
    let rest = rest.get(..memmem::find(rest, marks)?)?;
    let mut ranges = std::str::from_utf8(rest).ok()?.trim().split(' ');
    let count = |range: Option<&str>, mark: char| {
        let range = range?.strip_prefix(mark)?;
        let (first, count) = range.split_once(',').unwrap_or((range, "1"));
        first.parse::<u64>().ok()?;
        count.parse::<u64>().ok()
    };
    let old = ranges.by_ref().take(parents.min(PARENTS_MAX));
    let old: Option<Vec<u64>> = old.map(|range| count(Some(range), '-')).collect();
    let new = count(ranges.next(), '+')?;
    let old = old.filter(|old| old.len() == parents && ranges.next().is_none())?;
    Some((old, new))
}

/// Where the lines of a hunk end, of which the line before ends at `end`.
fn hunk_end(
    text: &[u8],
    mut end: usize,
    prefix: &[u8],
    (mut old, mut new): (Vec<u64>, u64),
) -> usize {
    let mut scratch = Vec::new();
    while end < text.len() && (new > 0 || old.iter().any(|left| *left > 0)) {
        let next = line_end(text, end + 1);
        let line = without_escapes(&text[end + 1..next], &mut scratch);
        let Some(line) = line.strip_prefix(prefix) else {
            return end;
        };
        // A page takes the blanks off the end of a line.
        let marks = &line[..line.len().min(old.len())];
        let is_mark = |mark: &u8| matches!(mark, b'+' | b'-' | b' ' | b'\r');
        if !line.starts_with(b"\\") {
            if !marks.iter().all(is_mark) {
                return end;
            }
            let is_removed = marks.contains(&b'-');
            let unmarked = if is_removed { b'-' } else { b' ' };
            for (number, left) in old.iter_mut().enumerate() {
                let mark = marks.get(number).map_or(b' ', |mark| *mark);
                let mark = if mark == b'\r' { b' ' } else { mark };
                *left = left.saturating_sub(u64::from(mark == unmarked));
            }
            new = new.saturating_sub(u64::from(!is_removed));
        }
        end = next;
    }
    end
}

/// Whether the file that the line above its first hunk names is a log, if one is named.
fn file_above(text: &[u8], start: usize, prefix: &[u8]) -> Option<bool> {
    let above = text[..start].strip_suffix(b"\n")?;
    let line = &above[memrchr(b'\n', above).map_or(0, |end| end + 1)..];
    let mut scratch = Vec::new();
    let line = without_escapes(line, &mut scratch);
    let path = line.strip_prefix(prefix)?.strip_prefix(b"+++ ")?;
    let path = path.trim_ascii_end();
    let name = &path[memrchr(b'/', path).map_or(0, |at| at + 1)..];
    let ending = &name[memrchr(b'.', name)? + 1..];
    Some(LOGS.contains(&ending))
}

/// Whether a line of a hunk is one that NCCL logged.
fn is_logged(line: &[u8]) -> bool {
    let mut scratch = Vec::new();
    let line = without_escapes(line, &mut scratch)
        .get(1..)
        .unwrap_or_default();
    let record = record_at(line, line.len()).0;
    record.level().is_some() && record.host.is_some()
}

/// Whether a line looks like code that a traceback quotes, whatever is around it. Lines that differ only in digits of the
/// same number look alike.
pub(super) fn looks_like_code(line: &[u8]) -> bool {
    let front = &line[..line.len().min(INDENTED_WITHIN)];
    has!(front, INDENTATION) || has!(front, BAR) || number_of_code(line).is_some()
}

/// Whether the line that begins at `start`, which looks like code, is code that a traceback quotes.
pub(super) fn is_code(block: &[u8], start: usize, line: &[u8]) -> bool {
    is_below_frame(block, start, line) || is_quoted(block, start, line)
}

/// Whether a line is code in a box, or one of numbered lines of code.
pub(super) fn is_quoted(block: &[u8], start: usize, line: &[u8]) -> bool {
    let end = block.len().min(start + line.len());
    is_boxed(&block[..start], line) || is_numbered(&block[..start], &block[end..], line)
}

/// What rich draws around a traceback, and what it writes before the line that raised.
const BAR: &[u8] = "│".as_bytes();
const CORNER: &[u8] = "╭".as_bytes();
const ARROW: &[u8] = "❱".as_bytes();
/// Bytes above a line in which the head of its box is.
const BOX_WITHIN: usize = 32 << 10;
/// Lines around a line of code that have numbers too, and digits of one.
const NUMBERED_LINES: usize = 10;
const NUMBER_DIGITS: usize = 6;

/// Whether a line has a number, or no more than blanks, in a box that is headed as a traceback: `│ ❱ 42 │ raise E │`.
fn is_boxed(above: &[u8], line: &[u8]) -> bool {
    let behind = |text: &[u8]| Some(find!(text, BAR)? + BAR.len());
    let Some(cell) = behind(&line[..line.len().min(INDENTED_WITHIN)]).map(|at| &line[at..]) else {
        return false;
    };
    let Some(cell) = behind(cell).map(|end| &cell[..end - BAR.len()]) else {
        return false;
    };
    let cell = cell.trim_ascii();
    let number = cell.strip_prefix(ARROW).unwrap_or(cell).trim_ascii();
    if !number.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let above = &above[above.len().saturating_sub(BOX_WITHIN)..];
    let mut above = above.rsplit(|byte| *byte == b'\n');
    let head = above.find(|one| {
        let corner = memmem::find(one, CORNER);
        corner.is_some_and(|corner| find!(one, BAR).is_none_or(|bar| corner < bar))
    });
    head.is_some_and(begins)
}

/// Whether a line is one of several with numbers that follow each other, of which an arrow marks one: `----> 42 f(x)`.
fn is_numbered(above: &[u8], below: &[u8], line: &[u8]) -> bool {
    let Some((own, is_marked)) = number_of_code(line) else {
        return false;
    };
    let above = above.strip_suffix(b"\n").unwrap_or(above);
    let above = above.rsplit(|byte| *byte == b'\n');
    let below = below.split(|byte| *byte == b'\n').skip(1);
    // The marks of the lines beside it whose numbers go on.
    let before = above.map_while(number_of_code).zip(1..);
    let before = before.take_while(|((number, _), by)| number + by == own);
    let behind = below.map_while(number_of_code).zip(1..);
    let behind = behind.take_while(|((number, _), by)| own + by == *number);
    let mut beside = before
        .take(NUMBERED_LINES)
        .chain(behind.take(NUMBERED_LINES));
    beside.any(|((_, is_other), _)| is_marked || is_other)
}

/// The number before a line of code, and whether an arrow marks it.
fn number_of_code(line: &[u8]) -> Option<(u64, bool)> {
    let mut scratch = Vec::new();
    let line = without_escapes(line, &mut scratch);
    let prefix = writer(line);
    let line = line[prefix.len()..]
        .strip_prefix(b":")
        .unwrap_or(&line[prefix.len()..]);
    let line = line.trim_ascii_start();
    let dashes = line.iter().take_while(|byte| **byte == b'-').count();
    let line = match dashes {
        0 => line,
        _ => line[dashes..].strip_prefix(b"> ")?.trim_ascii_start(),
    };
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = (1..=NUMBER_DIGITS).contains(&digits)
        && matches!(line.get(digits), None | Some(b' ' | b'\r'));
    let number = is_number.then(|| std::str::from_utf8(&line[..digits]).ok()?.parse().ok());
    Some((number??, dashes > 0))
}

/// Whether a line is code below a frame.
fn is_below_frame(block: &[u8], start: usize, line: &[u8]) -> bool {
    let front = &line[..line.len().min(INDENTED_WITHIN)];
    let Some(blanks) = find!(front, INDENTATION) else {
        return false;
    };
    let indented = &line[..blanks + INDENTATION.len()];
    // Another line of the statement is indented behind the same prefix.
    let mut above = lines::above(&block[..start]).take(CODE_LINES);
    let Some(frame) = above.find(|one| !one.starts_with(indented)) else {
        return false;
    };
    if !is_frame(frame) || is_frame(line) {
        return false;
    }
    let at = memmem::find(frame, b"File \"").unwrap_or_default();
    line.get(..at) == frame.get(..at) && line[at..].starts_with(b"  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Which lines are blank, as `#`.
    fn blank(text: &str) -> String {
        let out = without_differences(text.as_bytes());
        assert_eq!(out.len(), text.len());
        let lines = text.split('\n').zip(out.split(|byte| *byte == b'\n'));
        lines
            .map(|(line, out)| if line.as_bytes() == out { '.' } else { '#' })
            .collect()
    }

    #[test]
    fn lines_of_a_difference_of_source_are_blank() {
        let hunk = "@@ -1,2 +1,3 @@\n a\n+        raise E(\"CUDA out of memory\")\n";
        let of = |path: &str| format!("--- a/{path}\n+++ b/{path}\n{hunk}node-a: it failed\n");
        assert_eq!(blank(&of("t.py")), "..###..");
        assert_eq!(blank(&of("t.log")), ".......");
        let two = format!("+++ b/t.py\n{hunk}@@ -9 +9,2 @@ def f():\n-b\n+c\n+d\n+e\n");
        assert_eq!(blank(&two), ".#######..");
        assert_eq!(blank(&format!("{hunk}done")), "###.");
        let log = "@@ -1,2 +1,2 @@\n a\n+node-a:71:79 [0] NCCL INFO a\n-done\n";
        assert_eq!(blank(log), ".....");
        assert_eq!(
            blank("0: +++ t.py\n0: @@ -1 +1 @@\n0: +a\n1: +a\n"),
            ".##.."
        );
        assert_eq!(blank("@@ -1,x +1 @@\n+a"), "..");
    }

    #[test]
    fn colored_differences_and_those_of_merges_are_blank() {
        let hunk = "\x1b[36m@@ -1,2 +1,3 @@\x1b[m f\n a\n\x1b[32m+\x1b[m\x1b[32mraise E(\"x\")\x1b[m\n\x1b[31m-b\x1b[m\n+c\n";
        let of = |path: &str| format!("\x1b[1m+++ b/{path}\x1b[m\n{hunk}node-a: it failed\n");
        assert_eq!(blank(&of("t.py")), ".#####..");
        assert_eq!(blank(&of("t.log")), "........");
        let merge = "+++ b/t.py\n@@@ -1,3 -1,2 +1,3 @@@ f\n  a\n- b\n -c\n++d\n +e\n f failed\n";
        assert_eq!(blank(merge), ".######..");
        // Its last lines are missing.
        let merge = "@@@ -1,9 -1,9 +1,9 @@@ f\n  a\n++d\nnode-a: it failed\n";
        assert_eq!(blank(merge), "###..");
    }

    #[test]
    fn code_in_a_box_or_with_numbers_is_found() {
        let is_code = |text: &str, line: &str| {
            let start = text.find(line).unwrap();
            let start = text[..start].rfind('\n').map_or(0, |end| end + 1);
            let end = start + text[start..].find('\n').unwrap();
            super::is_code(text.as_bytes(), start, &text.as_bytes()[start..end])
        };
        let text = "[rank1]: ╭──── Traceback (most recent call last) ────╮\n[rank1]: │ /w/t.py:92 in f: out of memory │\n[rank1]: │    91 │   if \"out of memory\" in e:   │\n[rank1]: │ ❱  92 │ │  raise E(\"x\") │\n[rank1]: │       │ │   \"or more\" │\n╰────╯\n";
        assert!(is_code(text, "if \"out"));
        assert!(is_code(text, "raise E"));
        assert!(is_code(text, "or more"));
        assert!(!is_code(text, "/w/t.py"));
        let table = text.replace("Traceback (most recent call last)", "ranks");
        assert!(!is_code(&table, "raise E"));
        let text = "Cell In[7], line 3\n      1 def f(e):\n      2     if \"out of memory\" in e:\n----> 3         raise E(\"x\")\n      4     g(\"timed out\")\n\nE: x\n      9 ranks: timed out too\n";
        for code in ["out of memory", "raise E", "timed out\")"] {
            assert!(is_code(text, code), "{code}");
        }
        for other in ["Cell", "E: x", "out too"] {
            assert!(!is_code(text, other), "{other}");
        }
    }

    #[test]
    fn code_below_a_frame_is_found() {
        let code = |text: &str, line: &str| {
            let start = text.find(line).unwrap();
            is_code(text.as_bytes(), start, line.as_bytes())
        };
        let text = "[rank9]:   File \"/w/t.py\", line 9, in main\n[rank9]:     raise ValueError(\n[rank9]:         \"out of memory\"\n[rank9]: ValueError: out of memory\n    and more";
        assert!(code(text, "[rank9]:     raise ValueError("));
        assert!(code(text, "[rank9]:         \"out of memory\""));
        assert!(!code(text, "[rank9]: ValueError: out of memory"));
        assert!(!code(text, "    and more"));
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_lines(text in "(@@ -|1|,|2| \\+|@@|@|\x1b\\[31m|│|❱|╭ Traceback|-> |\n|\\+\\+\\+ |a\\.py|\\+|-| |File \"a\", line 1, in f){0,40}") {
            let out = without_differences(text.as_bytes());
            prop_assert_eq!(out.len(), text.len());
            let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(lines(&out), lines(text.as_bytes()));
            for (start, line) in text.match_indices('\n').map(|(at, _)| (at + 1, &text[at + 1..])) {
                is_code(text.as_bytes(), start, line.as_bytes());
            }
        }
    }
}
