//! Secrets in command lines, behind the options of well-known programs: `sshpass -p VALUE`,
//! `curl -u user:VALUE`, `mysql -pVALUE`, `echo VALUE | docker login --password-stdin`.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys::{DIGITS_MIN, is_absent, is_chosen, is_words};
use super::programs::{Carries, PROGRAMS};
use super::{ordinary, spelling};
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;

/// Options and programs that read a secret from stdin, which `echo` writes.
pub(super) const FROM_STDIN: [&str; 11] = [
    "smbpasswd",
    "password-stdin",
    "passwd --stdin",
    "chpasswd",
    "sudo -S",
    "sudo -k",
    "kinit",
    "cryptsetup",
    "--with-token",
    "passphrase-fd",
    "su -",
];
/// Programs that encode what `echo` writes, which may be a secret.
const ENCODERS: [&str; 4] = ["base64", "sha256sum", "md5sum", "openssl dgst"];
/// Programs that write a secret.
const WRITERS: [&str; 3] = ["echo ", "printf ", "yes "];
/// Fewest signs between the words of a phrase that is a secret.
const PHRASE_SIGNS_MIN: usize = 3;
/// Longest part of a line that is looked at.
const LINE_BYTES_MAX: usize = 4096;

static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(PROGRAMS.map(|(program, ..)| program)).ok());

/// The places of secrets in command lines. They may overlap.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    // Where the next command of each program is, which is searched for the options behind it.
    let mut next = [text.len(); PROGRAMS.len()];
    let mut commands = programs(text);
    commands.reverse();
    let mut found: Vec<(usize, Range<usize>)> = commands
        .into_iter()
        .map(|(program, at)| (program, at..std::mem::replace(&mut next[program], at)))
        .collect();
    found.reverse();
    let ends: Vec<Ahead> = PROGRAMS.iter().map(|_| Ahead::default()).collect();
    for (program, part) in found {
        let (_, options, carries) = PROGRAMS[program];
        let count = places.len();
        command(text, part, options, carries, &ends[program], places);
        for place in &mut places[count..] {
            place.end = end_of_quoted(text, place.clone());
        }
    }
    echoed(text, &FROM_STDIN, |_| true, places);
    echoed(text, &ENCODERS, |word| !ordinary::is_ordinary(word), places);
}

/// Whether a word is a number that is long enough for a secret.
fn is_number(word: &str) -> bool {
    word.len() >= DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The end of a value whose first word is known: in quotes, it may have others.
fn end_of_quoted(text: &str, word: Range<usize>) -> usize {
    let quote = text[..word.start].chars().next_back();
    let Some(quote) = quote.filter(|sign| matches!(sign, '"' | '\'')) else {
        return word.end;
    };
    let most = text.floor_char_boundary((word.start + LINE_BYTES_MAX).min(text.len()));
    let rest = &text[word.end..most];
    let end = rest
        .find([quote, '\n'])
        .filter(|end| rest[*end..].starts_with(quote));
    end.map_or(word.end, |end| word.end + end)
}

/// The programs that a text names, and where each name ends.
fn programs(text: &str) -> Vec<(usize, usize)> {
    let Some(finder) = &*FINDER else {
        return Vec::new();
    };
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let found = finder.find_overlapping_iter(text).filter(|found| {
        let before = found.start().checked_sub(1).map(|at| bytes[at]);
        let behind = bytes.get(found.end());
        !before.as_ref().is_some_and(is_part) && !behind.is_some_and(is_part)
    });
    found
        .map(|found| (found.pattern().as_usize(), found.end()))
        .collect()
}

/// The words of the command that goes on at `at`, each with its place. `word_ends` is where the last one ended, which may be
/// as long as the line and full of commands.
fn words(text: &str, at: usize, word_ends: &Ahead) -> impl Iterator<Item = Range<usize>> {
    let most = text.floor_char_boundary((at + LINE_BYTES_MAX).min(text.len()));
    let ends = |letter: char| "\n\r|;&".contains(letter);
    let is_gap = |letter: char| letter.is_whitespace() || "\0\"'`,".contains(letter);
    let mut from = at;
    std::iter::from_fn(move || {
        let rest = &text[from..most];
        let begin = from + rest.find(|letter| ends(letter) || !is_gap(letter))?;
        if text[begin..].starts_with(ends) {
            return None;
        }
        let is_end = |letter| ends(letter) || is_gap(letter);
        from = word_ends
            .find(text, begin, |rest| rest.find(is_end))
            .min(most);
        Some(begin..from)
    })
}

/// The secrets of a command whose words begin at `part.start`. The next one begins at its end, or behind a value.
fn command(
    text: &str,
    part: Range<usize>,
    options: &[&str],
    carries: Carries,
    word_ends: &Ahead,
    places: &mut Vec<Range<usize>>,
) {
    let mut is_next = false;
    // Words that are passed over before the value.
    let mut skipped = 0;
    for place in words(text, part.start, word_ends) {
        if place.start >= part.end && !is_next {
            return;
        }
        let word = &text[place.clone()];
        if carries == Carries::AfterSign {
            let value = word.strip_prefix('=').unwrap_or(word);
            let behind = value.split_once('=').map(|(_, behind)| behind);
            if let Some(behind) = behind.filter(|behind| !is_absent(behind)) {
                places.push(place.end - behind.len()..place.end);
            }
            return;
        }
        if matches!(carries, Carries::First | Carries::Second) {
            if word.starts_with(['-', '/']) || carries == Carries::Second && skipped == 0 {
                skipped += usize::from(!word.starts_with(['-', '/']));
                continue;
            }
            // `net user` begins sentences, too.
            let is_word = carries == Carries::Second && ordinary::is_ordinary(word);
            places.extend((!is_word && !word.starts_with('$')).then_some(place));
            return;
        }
        if carries == Carries::Hash {
            let is_hash = word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            places.extend(is_hash.then_some(place));
            return;
        }
        if matches!(carries, Carries::Chosen | Carries::Key) {
            let opened = word.trim_start_matches([':', '(', '[']);
            let place = place.end - opened.len()..place.end;
            let word = opened;
            let is_secret = is_chosen(word)
                || (word.len() >= 20 && !is_words(word))
                || spelling::is_likely_random(word)
                || ordinary::is_unknown(word)
                || word.matches('-').count() >= PHRASE_SIGNS_MIN
                || carries == Carries::Key && is_number(word);
            if is_secret && !word.starts_with(['/', '\\', '-', '.']) {
                places.push(place);
            }
            continue;
        }
        if carries == Carries::SecondValue && is_next && skipped == 0 {
            skipped = 1;
            continue;
        }
        // The value was empty: `-N ''`.
        is_next &= !(word.len() == 2 && word.starts_with('-'));
        let attached = options.iter().find_map(|option| word.strip_prefix(option));
        let value = match attached {
            _ if is_next => place.clone(),
            Some("") if carries != Carries::Attached => {
                is_next = true;
                continue;
            }
            // Another long option may begin with the letters of a short one.
            Some(rest)
                if !rest.is_empty() && (!word.starts_with("--") || rest.starts_with('=')) =>
            {
                place.end - rest.trim_start_matches('=').len()..place.end
            }
            _ => continue,
        };
        is_next = false;
        let sign = match carries {
            Carries::AfterColon => Some(':'),
            Carries::AfterEquals => Some('='),
            Carries::AfterSlash => Some('/'),
            Carries::AfterPercent => Some('%'),
            _ => None,
        };
        let value = match sign.map(|sign| text[value.clone()].find(sign)) {
            Some(Some(at)) => value.start + at + 1..value.end,
            Some(None) => continue,
            None => value,
        };
        let value = match text[value.clone()].find('@') {
            Some(at) if carries == Carries::AfterSlash => value.start..value.start + at,
            _ => value,
        };
        if !value.is_empty() && !is_absent(&text[value.clone()]) {
            places.push(value);
        }
    }
}

/// What `echo` or `printf` writes to the programs that read a secret.
fn echoed(
    text: &str,
    readers: &[&str],
    is_secret: fn(&str) -> bool,
    places: &mut Vec<Range<usize>>,
) {
    let pipes = pipes(text, readers);
    for writer in WRITERS {
        let mut from = 0;
        for pipe in &pipes {
            let fresh = &text[from..*pipe];
            let line = fresh.rfind('\n').map_or(0, |end| end + 1);
            // What it writes ends at the first pipe.
            if let Some(at) = fresh[line..].rfind(writer) {
                written(text, from + line + at + writer.len(), is_secret, places);
            }
            from = *pipe;
        }
    }
}

/// The pipes before programs that read a secret, in order.
fn pipes(text: &str, readers: &[&str]) -> Vec<usize> {
    let mut pipes = Vec::new();
    for reader in readers {
        let (mut from, mut pipe) = (0, None);
        for at in memchr::memmem::find_iter(text.as_bytes(), reader) {
            let sign = memchr::memrchr2(b'|', b'\n', &text.as_bytes()[from..at]);
            if let Some(sign) = sign.map(|sign| from + sign) {
                pipe = Some(sign).filter(|sign| text[*sign..].starts_with('|'));
            }
            pipes.extend(pipe);
            from = at;
        }
    }
    pipes.sort_unstable();
    pipes.dedup();
    pipes
}

fn written(text: &str, at: usize, is_secret: fn(&str) -> bool, places: &mut Vec<Range<usize>>) {
    for place in words(text, at, &Ahead::default()) {
        let word = &text[place.clone()];
        if is_secret(word) && !word.starts_with(['-', '%', '$']) {
            // The name of a user may stand before a colon.
            let begin = word.find(':').map_or(0, |colon| colon + 1);
            places.push(place.start + begin..place.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        places(text, &mut found);
        found
    }

    /// Each byte, and whether it is in a place.
    fn covered(text: &str, places: &[Range<usize>]) -> Vec<bool> {
        let is_in = |at| places.iter().any(|place| place.contains(&at));
        (0..text.len()).map(is_in).collect()
    }

    proptest! {
        #[test]
        fn what_commands_share_is_found_as_if_each_was_searched_alone(
            words in prop::collection::vec(prop::sample::select(vec![
                "curl", "curl:b", "-u", "-ua:b", "a:b", "mysql", "-px", "-p", "sshpass", "x", "ftp", "hunter2x9",
                "--from-literal=a=b", "smbclient", "a%b", ";", "|", "\n", "'", "login",
            ]), 0..30),
        ) {
            let text = words.join(" ");
            let mut alone = Vec::new();
            for (program, at) in programs(&text) {
                let (_, options, carries) = PROGRAMS[program];
                command(&text, at..text.len(), options, carries, &Ahead::default(), &mut alone);
            }
            prop_assert_eq!(covered(&text, &found(&text)), covered(&text, &alone));
        }
    }

    #[test]
    fn each_command_of_a_long_line_finds_its_own_secret() {
        for command in ["curl -u a:b ", "echo hunter2 | sudo -S x; "] {
            assert_eq!(found(&command.repeat(1000)).len(), 1000, "{command}");
        }
    }

    #[test]
    fn a_word_full_of_programs_is_passed_over_once() {
        // To its end from each of them takes minutes.
        assert!(found(&"login(".repeat(1 << 16)).is_empty());
    }

    #[test]
    fn a_phrase_in_quotes_is_one_value() {
        let text = "sshpass -p 'seven winter garden' ssh node0";
        let mut found = Vec::new();
        places(text, &mut found);
        assert_eq!(&text[found[0].clone()], "seven winter garden");
    }

    #[test]
    fn ports_and_other_options_are_no_secrets() {
        for text in [
            "docker run -p 8080:80 image",
            "curl -U x https://host/",
            "mysql -p -h db",
            "the login -v node",
            "zip -r a.zip folder",
            "curling -u a:b",
            "echo done | tee log",
        ] {
            let mut found = Vec::new();
            places(text, &mut found);
            let shown: Vec<&str> = found.into_iter().map(|place| &text[place]).collect();
            assert_eq!(shown, Vec::<&str>::new(), "{text}");
        }
    }
}
