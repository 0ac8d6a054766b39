//! Lines in which a program says itself that it does not go on: `STALL rank 0 on node0: no progress past step 324 for
//! 120s`, `hang detected on rank 3`.
//!
//! No error is stated, and whatever such a program does next (the stacks of its threads, a table of the GPUs) may follow.
#![forbid(unsafe_code)]

use super::loggers::regex;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const TEXT_MAX: usize = 400;
/// Ranks that are kept.
const RANKS_MAX: usize = 64;

/// Words of a stall, with how long it lasted: from ten seconds on.
static SAYS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\b(?:(?:no|without(?: any)?) progress|stall(?:ed|s)?|stuck|hung|hang(?:s|ing)?)\b[^.;|]{0,80}?",
        r"\b(?:for|in|since|after) (?:more than |over |at least |the last )?(?:\d{2,}(?:\.\d+)? ?(?:s|secs?|seconds?)|\d+(?:\.\d+)? ?(?:m|mins?|minutes?|h|hours?))\b",
        r"|\bhang (?:was |has been )?detected\b|\bdetected an? hang\b|\bhang_detected\b",
    ))
});
/// Words of a stall that is over, that was none, or that is only looked for.
static OTHER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\b(?:if|when|whenever|unless|may|might|will|would|could|can|should|until)\b",
        r"|\b(?:no|not|never|0) (?:hangs?|hung|stalls?|stalled|stuck)\b|\b(?:was|were|had) (?:stalled|stuck|hung)\b",
        r"|\b(?:recovered|resumed|resuming|un-?stuck|enabled|disabled|detection|detector|threshold)\b",
    ))
});
static RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\brank[ =:_]?(?P<rank>\d{1,6})\b"));

/// Such lines of a part of a file.
#[derive(Debug, Default, Clone)]
pub(super) struct SaidStalls {
    /// The number and the text of the first, and the number of the last.
    pub first: Option<(u64, Vec<u8>)>,
    pub last: u64,
    pub count: u64,
    pub ranks: BTreeSet<u32>,
}

impl SaidStalls {
    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        if !SAYS.is_match(line) || OTHER.is_match(line) {
            return;
        }
        let text = &line[..line.len().min(TEXT_MAX)];
        self.first.get_or_insert_with(|| (number, text.to_vec()));
        (self.last, self.count) = (number, self.count + 1);
        let rank = RANK.captures(line);
        let rank = rank.and_then(|found| str::from_utf8(&found["rank"]).ok()?.parse::<u32>().ok());
        if self.ranks.len() < RANKS_MAX {
            self.ranks.extend(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SaidStalls;

    #[test]
    fn a_program_that_goes_on_behind_its_stall_has_no_finding() {
        let stall = "STALL rank 0 on node-a: no progress past step 324 for 120s\n";
        let found = |text: &str| {
            let findings = crate::tests::report_of(&[("x.log", text)]).findings;
            findings.into_iter().map(|one| one.signature).next()
        };
        let stacks = format!("{stall}| 0  NVIDIA H100 | 100% |\n");
        assert_eq!(found(&stacks).as_deref(), Some("said-stall"));
        assert_eq!(found(&format!("{stall}step 325 loss 2.31\n")), None);
    }

    #[test]
    fn a_program_says_that_it_does_not_go_on() {
        let check = |line: &str, expected: bool| {
            let mut stalls = SaidStalls::default();
            stalls.line(1, line.as_bytes());
            assert_eq!(stalls.first.is_some(), expected, "{line}");
        };
        check(
            "STALL rank 0 on node0: no progress past step 324 for 120s",
            true,
        );
        check("[rank3] training stalled at step 7 for 300 seconds", true);
        check(
            "worker 2 is stuck in all_reduce for more than 10 minutes",
            true,
        );
        check("HANG DETECTED on rank 5", true);
        check("no progress bar for 30 epochs", false);
        check("rank 0 stalled for 3 s", false);
        check("rank 0 was stalled for 30 s, resumed", false);
        check("no hang detected in 600 s", false);
        check("hang detection is enabled, 600 s", false);
        check(
            "a rank that makes no progress for 60 s will be ended",
            false,
        );
    }
}
