//! Lines below a line that complete it: a table of torchrun, or the list behind a warning of Horovod.
//!
//! A logger writes such a text at once, so its lines follow each other, each behind the prefix of the same launcher.
//! They are kept where a signature has a `below`, and read when the report is made.
#![forbid(unsafe_code)]

use super::catalogue::{Values, compile};
use super::seen::{Around, Place};
use super::signature::Below;
use super::traceback::writer;

/// Lines of a text, its bytes, and texts that are kept of one signature and process.
const LINES_MAX: usize = 64;
const TEXT_MAX: usize = 2400;
const TEXTS_MAX: usize = 8;

/// In the `meaning` of a `below`: what the line itself means.
pub(super) const SAID: &str = "{said}";

/// The lines below a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BelowText {
    /// The line above them.
    pub place: Place,
    pub text: Vec<u8>,
}

impl BelowText {
    /// The lines below one, up to a line of `=` or `-`, or an empty one, as far as the line's block has them. Where a
    /// line of those is right above, the text is in a box, and empty lines are within it.
    pub(super) fn of(place: Place, around: Around<'_>) -> Self {
        let behind = around.block.get(around.end + 1..).unwrap_or_default();
        let behind = &behind[..behind.len().min(TEXT_MAX)];
        let is_rule = |line: &[u8]| line.ends_with(b"====") || line.ends_with(b"----");
        let above = around.block.get(..around.start).unwrap_or_default();
        let is_in_box = is_rule(above.trim_ascii_end());
        let ends = |line: &&[u8]| {
            let line = line.trim_ascii();
            line.is_empty() && !is_in_box || is_rule(line)
        };
        // A launcher mixes what its processes write.
        let own = around.block.get(around.start..around.end);
        let own = writer(own.unwrap_or_default());
        let is_its =
            |line: &&[u8]| own.is_empty() || line.starts_with(own) || writer(line).is_empty();
        let lines = behind.split(|byte| *byte == b'\n').take(LINES_MAX);
        let lines = lines.filter(is_its);
        let lines: Vec<&[u8]> = lines.take_while(|line| !ends(line)).collect();
        Self {
            place,
            text: lines.join(&b'\n'),
        }
    }

    /// How many lines it has.
    pub(super) fn lines(&self) -> usize {
        self.text.split(|byte| *byte == b'\n').count()
    }

    /// The text of an example.
    pub(super) fn of_example(below: &Below) -> Self {
        Self {
            place: Place::default(),
            text: below.example.clone().into_bytes(),
        }
    }

    /// The values of the text's groups, if it has every one that the texts of `below` name.
    pub(super) fn values(&self, below: &Below) -> Option<Values> {
        let regex = compile(&below.regex).ok()?;
        let mut values = Values::default();
        for found in regex.captures_iter(&self.text) {
            let groups = regex.capture_names().flatten();
            for (name, group) in groups.filter_map(|name| Some((name, found.name(name)?))) {
                values.add(name, &super::compose::shown(group.as_bytes()));
            }
        }
        let texts = [&below.meaning.replace(SAID, ""), &below.next];
        texts
            .iter()
            .all(|text| values.has_all(text))
            .then_some(values)
    }
}

/// Whether a text of a line at `place` would be kept.
pub(super) fn takes(texts: &[BelowText], place: Place) -> bool {
    texts.len() < TEXTS_MAX || texts.last().is_some_and(|last| place < last.place)
}

/// Keeps the first of several texts.
pub(super) fn keep(texts: &mut Vec<BelowText>, more: impl IntoIterator<Item = BelowText>) {
    texts.extend(more);
    texts.sort_unstable();
    texts.truncate(TEXTS_MAX);
}

/// The text that tells what a signature's `below` asks for, with its values: the one with the least `time`, and of
/// those without one the first.
pub(super) fn telling<'a>(
    below: &Below,
    texts: impl Iterator<Item = &'a BelowText>,
) -> Option<(&'a BelowText, Values)> {
    let told = texts.filter_map(|text| Some((text, text.values(below)?)));
    told.min_by_key(|(text, values)| {
        let time = values.get("time").map(str::to_owned);
        (time.is_none(), time, text.place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below() -> Below {
        Below {
            causes: Vec::new(),
            regex: r"at (?P<time>\d+)|rank (?P<rank>\d+)".to_owned(),
            meaning: "ranks {rank}".to_owned(),
            next: "n".to_owned(),
            severity: None,
            role: None,
            example: String::new(),
        }
    }

    fn text(line: u64, block: &str) -> BelowText {
        let end = block.find('\n').unwrap();
        let around = Around {
            block: block.as_bytes(),
            start: 0,
            end,
        };
        BelowText::of(Place { file: 0, line }, around)
    }

    #[test]
    fn all_values_of_a_group_are_listed_up_to_the_end_of_the_text() {
        let values =
            text(1, "x\n[0] rank 3\n[0] rank 5\n[0] rank 3\n=====\nrank 7\n").values(&below());
        assert_eq!(values.unwrap().fill("ranks {rank}"), "ranks 3, 5");
        assert!(text(1, "x\nat 5\n\nrank 7\n").values(&below()).is_none());
        assert!(text(1, "x\n").values(&below()).is_none());
    }

    #[test]
    fn lines_of_another_process_are_no_part_of_a_text() {
        let block = "(A pid=7) x\n(A pid=8) at 5\n(A pid=7) rank 7\n";
        assert_eq!(text(1, block).text, b"(A pid=7) rank 7");
    }

    #[test]
    fn empty_lines_are_within_a_text_in_a_box() {
        let block = "-----\nx\nat 5\n\nrank 7\n-----\nrank 8\n";
        let around = Around {
            block: block.as_bytes(),
            start: 6,
            end: 7,
        };
        let text = BelowText::of(Place { file: 0, line: 2 }, around);
        assert_eq!(text.text, b"at 5\n\nrank 7");
    }

    #[test]
    fn the_text_with_the_least_time_counts() {
        let texts = [
            text(1, "x\nrank 3 at 8\n"),
            text(9, "x\nrank 5 at 7\n"),
            text(4, "x\nrank 6\n"),
        ];
        let (text, values) = telling(&below(), texts.iter()).unwrap();
        assert_eq!((text.place.line, values.get("rank")), (9, Some("5")));
    }
}
