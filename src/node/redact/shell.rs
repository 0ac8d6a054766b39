//! Secrets that a shell hands on: here strings (`<<< VALUE`), here documents of a program that reads a secret or
//! of a file whose name tells of one (`cat > pw.txt <<EOF`), and `echo VALUE > .vault_pass`.
#![forbid(unsafe_code)]

use super::commands::FROM_STDIN;
use super::keys::{self, is_absent};
use super::{ordinary, telling};
use std::ops::Range;

/// Longest line of a command, and longest word of it.
const LINE_BYTES_MAX: usize = 4096;
const WORD_BYTES_MAX: usize = 512;
/// Most lines of a here document.
const DOCUMENT_LINES_MAX: usize = 64;
/// Programs that read a secret from a here document.
const READERS: [&str; 4] = ["passwd ", "chpasswd", "smbpasswd", "mysql_secure"];
/// What stands before the file that a command writes.
const WRITES: [&str; 3] = ["> ", ">", "tee "];

/// The places of secrets on lines with a redirection, and on those of a here document.
pub(super) fn places(text: &str, places: &mut Vec<Range<usize>>) {
    let mut seen = 0;
    for sign in memchr::memchr2_iter(b'<', b'>', text.as_bytes()) {
        // Each line is looked at once.
        if sign < seen {
            continue;
        }
        let least = text
            .floor_char_boundary(sign.saturating_sub(LINE_BYTES_MAX))
            .max(seen);
        let begin = text[least..sign]
            .rfind('\n')
            .map_or(least, |end| least + end + 1);
        let most = text.floor_char_boundary((sign + LINE_BYTES_MAX).min(text.len()));
        let end = text[sign..most]
            .find('\n')
            .map_or(most, |length| sign + length);
        seen = end;
        let line = &text[begin..end];
        here_strings(line, begin, places);
        written_file(line, begin, places);
        if let Some(word) = document(line).filter(|_| reads_secret(line)) {
            lines(text, end + 1, word, places);
        }
    }
}

/// The word behind each `<<<`.
fn here_strings(line: &str, at: usize, places: &mut Vec<Range<usize>>) {
    let mut seen = 0;
    for sign in memchr::memmem::find_iter(line.as_bytes(), "<<<") {
        if sign < seen {
            continue;
        }
        let behind = line[sign..].trim_start_matches(['<', ' ', '"', '\'']);
        let word = word(behind);
        let begin = line.len() - behind.len();
        seen = begin;
        if !word.starts_with(['$', '-']) && !ordinary::is_ordinary(word) && !is_absent(word) {
            places.push(at + begin..at + begin + word.len());
        }
    }
}

/// What `echo` or `printf` writes to a file whose name tells of a secret.
fn written_file(line: &str, at: usize, places: &mut Vec<Range<usize>>) {
    let Some(sign) = line.rfind('>') else { return };
    let writer = ["echo ", "printf "]
        .iter()
        .find_map(|writer| Some(line[..sign].rfind(writer)? + writer.len()));
    if let Some(from) = writer
        && is_secret_file(line[sign + 1..].trim_start())
    {
        let mut words = Vec::new();
        telling::words(line, from..sign, &mut words);
        places.extend(words.into_iter().map(|word| at + word.start..at + word.end));
    }
}

/// The first word of a text.
fn word(text: &str) -> &str {
    let most = &text[..text.floor_char_boundary(WORD_BYTES_MAX.min(text.len()))];
    let ends = |letter: char| letter.is_whitespace() || "\"'`;|&<>)".contains(letter);
    most.split(ends).next().unwrap_or_default()
}

/// Whether the name of a file tells that a secret is in it: `~/.vault_pass.txt`, `pw.txt`.
fn is_secret_file(path: &str) -> bool {
    let path = path.trim_start_matches(['"', '\'']);
    let file = word(path).rsplit('/').next().unwrap_or_default();
    let name = file
        .trim_start_matches('.')
        .split('.')
        .next()
        .unwrap_or_default();
    let is_pass = || keys::weak(name).is_some_and(|weak| weak != keys::Weak::Login);
    !name.is_empty() && (keys::is_secret(name) || is_pass())
}

/// The word that ends the here document of a line.
fn document(line: &str) -> Option<&str> {
    let at = line
        .find("<<")
        .filter(|at| !line[*at..].starts_with("<<<"))?;
    let word = word(line[at..].trim_start_matches(['<', '-', '~', ' ', '"', '\'', '\\']));
    let is_end = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!word.is_empty() && word.bytes().all(is_end)).then_some(word)
}

/// Whether a command reads a secret, or writes it to a file.
fn reads_secret(line: &str) -> bool {
    let mut readers = READERS.iter().chain(&FROM_STDIN);
    let mut files = WRITES
        .iter()
        .filter_map(|sign| Some(&line[line.rfind(sign)? + sign.len()..]));
    readers.any(|reader| line.contains(reader))
        || files.any(|file| is_secret_file(file.trim_start()))
}

/// The words of the lines from `at` up to one that ends the document.
fn lines(text: &str, at: usize, end: &str, places: &mut Vec<Range<usize>>) {
    let mut at = at;
    let rest = text.get(at..).unwrap_or_default();
    for line in rest.split_inclusive('\n').take(DOCUMENT_LINES_MAX) {
        let inner = line.trim();
        if inner == end || inner.contains("<<") || line.len() > LINE_BYTES_MAX {
            return;
        }
        let from = at + line.len() - line.trim_start().len();
        match inner.contains(char::is_whitespace) {
            true => telling::words(text, from..from + inner.len(), places),
            false if inner.is_empty() => {}
            false => {
                // The name of a user may stand before a colon.
                let user = inner.find(':').map_or(0, |colon| colon + 1);
                places.push(from + user..from + inner.len());
            }
        }
        at += line.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        places(text, &mut found);
        found.into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn what_a_shell_hands_to_programs_and_files_of_secrets_is_found() {
        for text in [
            "sudo -S ls <<< bavotukemi",
            "kinit ada <<<'bavotukemi'",
            "cat > pw.txt <<EOF\nbavotukemi\nEOF\nx",
            "passwd ada << 'END'\nbavotukemi\nEND",
            "chpasswd <<-EOF\n  ada:bavotukemi\n  EOF",
            "echo bavotukemi > /etc/x/.vault_pass.txt",
            "echo \"bavotukemi\" >> secret",
            "tee db_token.txt <<EOF\nbavotukemi\nEOF",
        ] {
            assert_eq!(found(text), ["bavotukemi"], "{text}");
        }
        for text in [
            "cat > run.sh <<EOF\nbavotukemi\nEOF",
            "echo bavotukemi > log.txt",
            "read x <<< $PASSWORD",
            "bc <<< 1+1",
            "<a> << b >> 1 << 3",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn a_long_line_full_of_redirections_is_looked_at_in_pieces() {
        let count = found(&"<<< bavotukemi ".repeat(1 << 12)).len();
        assert!((4000..=1 << 12).contains(&count), "{count}");
    }
}
