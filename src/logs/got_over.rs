//! Exceptions that a program got over, as it says beside their traceback: it tries again, does without, or goes
//! another way.
//!
//! Not here: whether the job ended with such an exception all the same, which needs the whole log (`compose`).
#![forbid(unsafe_code)]

use super::loggers::regex;
use super::seen::Around;
use super::traceback::{WITHIN, begins, ends, is_within, joins, writer};
use super::word::has;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// Lines behind an exception that are looked at: its message may go on there.
const BEHIND_MAX: usize = 8;

/// What a program says of a failure that does not stop it.
static SAYS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\bretry(?:ing)?\b|\bretries (?:left|remain)|\btry(?:ing)? again\b|\bre-?try\b",
        r"|\battempt \d+ ?(?:of|/) ?\d+\b|\breconnecting\b",
        r"|\bfall(?:s|ing)?[ -]?back\b|\bfell back\b",
        r"|\bexception ignored (?:in|on)\b|\bignor(?:ing|ed)\b|\bskipp(?:ing|ed)\b",
        r"|\busing\b.{1,60}\binstead\b|\b(?:continuing|going on|proceeding) (?:without|with|anyway)\b",
        r"|\b(?:non-?|not )fatal\b",
    ))
});
/// What it says once it has got over it.
static SUCCEEDED: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)\b(?:succeeded|successful|recovered|reconnected) (?:at|on|after|with|from|by|in)\b")
});
/// What it says where it does not try any more.
static GIVES_UP: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\bgiv(?:e|es|en|ing) up\b|\bgave up\b|\bexhausted\b|\bexceeded\b|\blast (?:attempt|retry|try)\b",
        r"|\bno (?:more |further )?(?:retr|attempts|fall)|\bnot (?:retry|ignor|skip|recover)|\bnon-?retr",
        r"|\b(?:after|all) \d+ (?:retries|attempts|tries)\b|\b(?:exiting|aborting|terminating)\b",
    ))
});

/// Whether a line says that the program goes on.
pub(super) fn says(line: &[u8]) -> bool {
    SUCCEEDED.is_match(line) || SAYS.is_match(line) && !GIVES_UP.is_match(line)
}

/// Whether a line says so of the traceback that begins behind it.
pub(super) fn opens(line: &[u8], around: Around<'_>) -> bool {
    let below = around.block.get(around.end + 1..).unwrap_or_default();
    let next = below.split(|byte| *byte == b'\n').next();
    next.is_some_and(begins) && says(line)
}

/// Whether a line is the last of a traceback beside which the program says that it got over it.
pub(super) fn is_got_over(around: Around<'_>) -> bool {
    let own = around.block.get(around.start..around.end);
    let writer = writer(own.unwrap_or_default());
    let below = around.block.get(around.end + 1..).unwrap_or_default();
    let is_of_writer = |line: &&[u8]| match writer {
        b"" => self::writer(line).is_empty(),
        writer => line.starts_with(writer),
    };
    let below = &below[..below.len().min(WITHIN)];
    let below = below.split(|byte| *byte == b'\n').filter(is_of_writer);
    match line_above(around) {
        Some(above) => says(above) || says_behind(below, writer),
        None => false,
    }
}

/// Whether a line is the last of a traceback of what Python itself called and whose exceptions stop nothing, such as a
/// destructor.
pub(super) fn is_ignored(around: Around<'_>) -> bool {
    line_above(around).is_some_and(ignores)
}

/// Whether a line is the one with which Python begins an exception that it ignores.
pub(super) fn ignores(line: &[u8]) -> bool {
    has!(line, b"Exception ignored ")
}

/// The line above a traceback of which a line is the last, or the front of the one that opens it where that says that
/// the program goes on; nothing if no traceback is above.
fn line_above(around: Around<'_>) -> Option<&[u8]> {
    let own = around.block.get(around.start..around.end);
    let writer = writer(own.unwrap_or_default());
    let is_of_writer = |line: &&[u8]| match writer {
        b"" => self::writer(line).is_empty(),
        writer => line.starts_with(writer),
    };
    let above = around.block.get(..around.start).unwrap_or_default();
    let above = &above[above.len().saturating_sub(WITHIN)..];
    let above = above.strip_suffix(b"\n").unwrap_or(above);
    let above = above.rsplit(|byte| *byte == b'\n').filter(is_of_writer);
    let mut is_open = false;
    for line in above {
        if !is_open && begins(line) {
            let opening = memchr::memmem::find(line, b"Traceback").unwrap_or_default();
            if says(&line[..opening]) {
                return Some(&line[..opening]);
            }
            is_open = true;
        } else if is_empty(line, writer) {
            // Around what joins two exceptions.
        } else if is_open && !joins(line) {
            return Some(line);
        } else if is_open {
            // The exception for which this one was raised has a traceback of its own.
            is_open = false;
        } else if !is_within(line, writer) && !ends(line) {
            return None;
        }
    }
    is_open.then_some(b"")
}

/// Whether the line behind an exception, and behind those that were raised for it, says so.
fn says_behind<'a>(below: impl Iterator<Item = &'a [u8]>, writer: &[u8]) -> bool {
    let mut is_within_next = false;
    let mut left = BEHIND_MAX;
    for line in below.filter(|line| !is_empty(line, writer)) {
        if joins(line) {
            (is_within_next, left) = (true, BEHIND_MAX);
        } else if is_within_next {
            is_within_next = !ends(line);
        } else if !is_within(line, writer) {
            return says(line);
        } else if left == 0 {
            return false;
        } else {
            left -= 1;
        }
    }
    false
}

/// Whether a writer's line has nothing behind its prefix.
fn is_empty(line: &[u8], writer: &[u8]) -> bool {
    let behind = line.strip_prefix(writer).unwrap_or(line);
    behind.iter().all(|byte| b" :\t\r".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the last line that begins with the class of an exception.
    fn check(text: &str, expected: bool) {
        let start = text.rfind("OSError").or(text.rfind("[rank1]: OSError"));
        let start = text[..start.unwrap()].rfind('\n').unwrap() + 1;
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        let around = Around {
            block: text.as_bytes(),
            start,
            end,
        };
        assert_eq!(is_got_over(around), expected, "{text}");
    }

    const TRACEBACK: &str =
        "Traceback (most recent call last):\n  File \"a.py\", line 9, in up\n    put(x)\n";

    #[test]
    fn the_line_above_or_behind_a_traceback_says_that_it_was_got_over() {
        let of =
            |above: &str, behind: &str| format!("a\n{above}\n{TRACEBACK}OSError: x\n{behind}\n");
        for above in [
            "upload failed, retrying in 2 s",
            "ERROR trainer: retry 1 of 3",
            "attempt 1/3 failed",
            "could not load fused kernels, falling back to PyTorch",
            "Exception ignored in: <function Pool.__del__ at 0x7f>",
            "bad sample 42, skipping it",
            "no fused Adam, using torch.optim.Adam instead",
        ] {
            check(&of(above, "step 4"), true);
            check(&of("step 3", above), true);
        }
        check(&of("step 3", "upload succeeded after 2 attempts"), true);
        for above in [
            "upload failed",
            "no more retries",
            "max retries exceeded, no retry",
            "retry failed, giving up",
            "step 3",
        ] {
            check(&of(above, "step 4"), false);
        }
        // Without a traceback above, the line above is not about the exception.
        check("a\nretrying\nOSError: x\n", false);
        check(
            &format!("retrying\n{TRACEBACK}KeyError: x\nstep 3\nOSError: x\n"),
            false,
        );
    }

    #[test]
    fn exceptions_that_were_raised_for_others_are_read_through() {
        let chain = format!(
            "retrying\n{TRACEBACK}KeyError: x\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}"
        );
        check(&format!("a\n{chain}OSError: x\nstep 4\n"), true);
        let more = "\nThe above exception was the direct cause of the following exception:\n\n";
        let first = format!("a\n{TRACEBACK}OSError: x\n{more}{TRACEBACK}ValueError: y\n");
        check(&format!("{first}retrying\n"), true);
        check(&format!("{first}step 4\n"), false);
    }

    #[test]
    fn lines_of_other_ranks_say_nothing_of_it() {
        let of = |prefix: &str| TRACEBACK.replace('\n', &format!("\n{prefix}"));
        let text = format!(
            "a\n[rank1]: retrying\n[rank0]: step\n[rank1]: {}OSError: x\n",
            of("[rank1]: ")
        );
        check(&text, true);
        let text = format!(
            "a\n[rank0]: retrying\n[rank1]: {}OSError: x\n[rank0]: retrying\n",
            of("[rank1]: ")
        );
        check(&text, false);
    }
}
