//! Help texts: what a launcher writes in several lines between two lines of dashes, as Open MPI does.
//!
//! The first line says what happened, the host and the reason are further down, and each alone tells
//! little. So a line that states an error within such a text stands for the whole text.
#![forbid(unsafe_code)]

use super::lines;
use super::loggers::regex;
use super::seen::Around;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Dashes of a line that begins or ends a text.
const DASHES: usize = 30;
/// Bytes that a launcher may write before the dashes.
const PREFIX_MAX: usize = 40;
/// Most lines of a text, and the bytes in which they are looked for before and behind a line.
pub(super) const LINES_MAX: usize = 24;
const WITHIN: usize = 4096;
/// Bytes of a text that are kept.
const TEXT_MAX: usize = 400;

/// Texts that warn, and do not say that the job fails.
static ADVICE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:warning|note|info)\b|to (?:disable|suppress|silence|turn off) this|this (?:warning|message) can be",
    )
});
static FAILS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)now (?:fail|abort)|will (?:now )?(?:abort|fail|terminate|exit|end)|should not happen|cannot continue",
    )
});

/// A text between lines of dashes.
#[derive(Debug, PartialEq)]
pub(super) struct HelpText {
    /// Lines of it before the line that it was looked for at.
    pub lines_before: u64,
    /// Its words, with one blank between them.
    pub text: Vec<u8>,
}

impl HelpText {
    /// The text that a line is in, as far as the line's block has it.
    pub(super) fn of(around: Around<'_>) -> Option<Self> {
        let before = around.block.get(..around.start)?;
        let near = &before[before.len().saturating_sub(WITHIN)..];
        let mut lines = Vec::new();
        let mut above = lines::above(near);
        loop {
            let line = above.next().filter(|_| lines.len() < LINES_MAX)?;
            if is_dashes(line) {
                break;
            }
            lines.push(line);
        }
        let lines_before = lines.len() as u64;
        lines.reverse();
        lines.push(around.block.get(around.start..around.end)?);
        let behind = around.block.get(around.end + 1..).unwrap_or_default();
        let behind = behind[..behind.len().min(WITHIN)].split(is_line_end);
        let behind: Vec<&[u8]> = behind.take(LINES_MAX).collect();
        if let Some(end) = behind.iter().position(|line| is_dashes(line)) {
            lines.extend(&behind[..end]);
        }
        let words = lines
            .iter()
            .flat_map(|line| line.split(u8::is_ascii_whitespace));
        let words: Vec<&[u8]> = words.filter(|word| !word.is_empty()).collect();
        let mut text = words.join(&b' ');
        text.truncate(TEXT_MAX);
        Some(Self { lines_before, text })
    }

    /// Whether it only warns or advises.
    pub(super) fn is_advice(&self) -> bool {
        ADVICE.is_match(&self.text) && !FAILS.is_match(&self.text)
    }
}

fn is_line_end(byte: &u8) -> bool {
    *byte == b'\n'
}

/// Whether a line is one of dashes, behind the prefix of a launcher.
pub(super) fn is_dashes(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let dashes = line.iter().rev().take_while(|byte| **byte == b'-').count();
    dashes >= DASHES && line.len() - dashes <= PREFIX_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, line: &str) -> Option<(u64, String)> {
        let start = text.find(line).unwrap();
        let around = Around {
            block: text.as_bytes(),
            start,
            end: start + line.len(),
        };
        let text = HelpText::of(around)?;
        Some((text.lines_before, String::from_utf8(text.text).unwrap()))
    }

    #[test]
    fn a_line_stands_for_the_text_between_the_dashes() {
        let dashes = "-".repeat(60);
        let text = format!(
            "a\n{dashes}\nIt was not reached.\n\n  Host: b\n  Error: refused\n{dashes}\nc\n"
        );
        let whole = "It was not reached. Host: b Error: refused".to_owned();
        assert_eq!(of(&text, "  Error: refused"), Some((3, whole.clone())));
        assert_eq!(of(&text, "It was not reached."), Some((0, whole)));
        assert_eq!(of(&text, "a"), None);
        // A text whose end is not there is taken up to the line.
        let open = format!("[1,0]<stderr>:{dashes}\nfirst\nsecond\nthird\n");
        assert_eq!(of(&open, "second"), Some((1, "first second".to_owned())));
        let far = format!("{dashes}\n{}last\n", "line\n".repeat(LINES_MAX));
        assert_eq!(of(&far, "last"), None);
    }

    #[test]
    fn a_text_that_only_warns_is_advice() {
        let check = |text: &str, is_advice: bool| {
            let text = HelpText {
                lines_before: 0,
                text: text.into(),
            };
            assert_eq!(text.is_advice(), is_advice, "{text:?}");
        };
        check(
            "WARNING: no device was found, and it failed to open one",
            true,
        );
        check("It failed. You can set x=1 to disable this message", true);
        check(
            "WARNING: it failed to connect. Your job may now fail.",
            false,
        );
        check("It was unable to connect", false);
    }

    proptest! {
        #[test]
        fn any_place_of_any_text_holds(text in "(-{40}|a|\n| ){0,40}", start in 0usize..60, size in 0usize..60) {
            let start = start.min(text.len());
            let end = (start + size).min(text.len());
            let around = Around { block: text.as_bytes(), start, end };
            if let Some(found) = HelpText::of(around) {
                prop_assert!(found.text.len() <= TEXT_MAX);
            }
        }
    }
}
