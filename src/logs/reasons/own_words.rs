//! What a line says itself, as its first cause, where all else would be a guess.
//!
//! Words that tell only of what kind an error is make a poor cause: beside `no file at the path prefix /data/a` stands
//! `a check within the program failed`. What the line says comes first then, and the guess behind it.
#![forbid(unsafe_code)]

use super::{Kind, numbers, of, only_quotes};
use crate::report::SignatureFinding;
use crate::signature::{Role, Signature};

/// The first cause of an error that its own line explains best.
pub(super) const OWN_WORDS: &str =
    "as the line itself says: {word}; the log gives no further reason";

/// How it ends. Where the log has other findings, they may give it.
pub(crate) const NO_MORE: &str = "; the log gives no further reason";

/// The line beside an error that tells why, in its first sentence.
pub(crate) const BESIDE: &str = "beside it the log says: {word}";
/// Shortest word with a digit, such as an address or a port, by which two lines are about one thing.
const SHARED_MIN: usize = 5;

/// Pieces of a line that states an error.
const ERRORS: [&str; 6] = ["rror", "ailed", "annot", "nable to", "efused", "WARN"];

/// Whether a line states an error.
pub(crate) fn tells_error(line: &str) -> bool {
    ERRORS.iter().any(|word| line.contains(word))
}

/// Gives an error whose words tell little the cause of a line beside it that states an error about the same thing.
pub(crate) fn tell_of_beside(
    finding: &mut SignatureFinding,
    beside: &[String],
    headline: fn(&str) -> String,
) {
    let tells_little = match of(&finding.sample) {
        None => true,
        Some((reason, Kind::Other | Kind::Broad | Kind::Vague)) => {
            finding.causes.first().is_none_or(|one| one == reason.cause)
        }
        // That no connection was made in time is what an address that cannot be found comes to.
        Some((reason, Kind::System)) => {
            waits(&finding.sample) && finding.causes.first().is_none_or(|one| one == reason.cause)
        }
        Some(_) => false,
    };
    if !tells_little {
        return;
    }
    let told = beside.iter().find_map(|line| {
        let (reason, kind) = of(line)?;
        let line_says_error = ERRORS.iter().any(|word| line.contains(word));
        let tells = matches!(kind, Kind::Exact | Kind::System | Kind::Rdma | Kind::Cuda);
        let tells = tells && !waits(line);
        (tells && line_says_error && shares_a_name(&finding.sample, line)).then_some((line, reason))
    });
    let Some((line, reason)) = told else { return };
    let said = headline(line);
    finding.meaning = format!("{}; {}", finding.meaning, BESIDE.replace("{word}", &said));
    let cause = numbers::fill(reason.cause, line.as_bytes());
    finding.causes.retain(|one| *one != cause);
    finding.causes.insert(0, cause);
    finding.next_step = Some(numbers::fill(reason.next, line.as_bytes()));
}

/// Whether a line says no more than that time ran out.
fn waits(line: &str) -> bool {
    line.to_ascii_lowercase().contains("timed out")
}

/// Whether two lines have a word with a digit in common, such as a port, an address or a host.
fn shares_a_name(one: &str, other: &str) -> bool {
    let is_end = |letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter);
    let has = |word: &str, of: fn(&u8) -> bool| word.bytes().any(|byte| of(&byte));
    let is_date = |word: &str| word.contains('-') && !has(word, u8::is_ascii_alphabetic);
    let is_name =
        |word: &&str| word.len() >= SHARED_MIN && has(word, u8::is_ascii_digit) && !is_date(word);
    let mut names = one.split(is_end).filter(is_name);
    names.any(|name| other.split(is_end).any(|word| word == name))
}

/// Puts what a line says before causes that are guesses. `text` is the error in the line, and `default` is the
/// signature's first cause with the values of the line.
pub(crate) fn tell_own_words(
    finding: &mut SignatureFinding,
    signature: Option<&Signature>,
    text: &str,
    default: Option<&str>,
) {
    let first = finding.causes.first().map(String::as_str);
    let told = of(&finding.sample);
    let is_open = match &told {
        None => first.is_none() || first == default,
        Some((reason, Kind::Broad | Kind::Vague)) => {
            first.is_none() || first == Some(reason.cause) || first == default
        }
        Some(_) => false,
    };
    // Several causes of a signature are guesses, and one is what is known of its lines.
    let guesses = |one: &Signature| {
        one.role == Role::Cause && one.meaning.contains("{error}") && one.causes.len() > 1
    };
    // A cause that begins with words of the line, as in `local length error: `, is of that error.
    let head = default.and_then(|cause| Some(cause.split_once(": ")?.0.to_ascii_lowercase()));
    let sample = finding.sample.to_ascii_lowercase();
    let is_of_words = head.is_some_and(|head| sample.contains(&head));
    let has_text = text.chars().any(char::is_alphabetic);
    if !is_open
        || is_of_words
        || !has_text
        || !(only_quotes(&finding.signature, signature) || signature.is_some_and(guesses))
    {
        return;
    }
    let cause = OWN_WORDS.replace("{word}", text.trim_end_matches(['.', ' ']));
    if first == default && signature.is_some_and(|one| one.causes.len() == 1) {
        finding.causes.clear();
    }
    finding.causes.insert(0, cause);
}

#[cfg(test)]
mod tests {
    use crate::{LogFilter, LogReader, SignatureCatalogue};

    #[test]
    fn what_a_line_says_is_before_a_guess_and_behind_a_reason() {
        let check = |log: &str, part: &str| {
            let catalogue = SignatureCatalogue::embedded().unwrap();
            let filter = LogFilter::default();
            let mut reader = LogReader::new(&catalogue, &filter);
            reader.source("x.log", log.as_bytes(), log.as_bytes());
            let report = reader.report();
            let first = report.findings.first().and_then(|one| one.causes.first());
            assert!(
                first.is_some_and(|one| one.contains(part)),
                "{log}: {first:?}"
            );
        };
        check(
            "AssertionError: no file at the path prefix /data/a",
            "itself says: AssertionError: no file at the path prefix /data/a;",
        );
        check(
            "RuntimeError: the two halves disagree.",
            "itself says: RuntimeError: the two halves disagree;",
        );
        check(
            "srun: error: Task launch for 36.0 failed on node cn7: Unable to find the cpus",
            "itself says: cn7: Unable to find the cpus;",
        );
        check(
            "srun: error: Task launch for 36.0 failed on node cn7: Job credential expired",
            "clocks of the nodes differ",
        );
        check(
            "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node-a, 23456) cannot be retrieved (gai error: -2 - Name or service not known).\ntorch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (node-a, 23456).",
            "the name of the host does not resolve here",
        );
        check(
            "OSError: [Errno 24] Too many open files",
            "as many open files",
        );
    }
}
