//! The second look at what leaves: what still looks like a secret, a name or an address.
//!
//! It shares neither code nor tables with `tcpx_node::redact`, so a layout or a kind of token
//! that the redaction misses is found here by another rule: the published formats of tokens
//! (`formats.rs`), names of secrets with a value (`named.rs`), words that tell a secret
//! (`told.rs`, `spoken.rs`), odd words on lines that tell of one (`prose.rs`), arguments of programs (`arguments.rs`), lines
//! below one that tells of a secret (`below.rs`), numbers behind such words (`numbers.rs`), names of ordinary words (`given_names.rs`), names behind words (`nouns.rs`) and in formats of programs
//! (`places.rs`), what typed commands print (`typed.rs`), and words of high entropy (`entropy.rs`). It knows the
//! placeholders, and the hashes and ids of tcpxctl's own files.
//! Where it is in doubt, it tells.
//!
//! Not here: replacing anything.
#![forbid(unsafe_code)]

mod arguments;
mod below;
mod entropy;
mod formats;
mod given_names;
#[cfg(test)]
mod layouts;
mod named;
mod nouns;
mod numbers;
mod pattern;
mod places;
mod prose;
mod spoken;
mod told;
mod typed;

use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::ops::Range;
use tcpx_node::redact::Cleared;

/// Most doubts about one file.
const DOUBTS_MAX: usize = 20;
/// Largest text in a compressed file that is looked at.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// Shortest text in a binary file that is looked at.
const TEXT_BYTES_MIN: usize = 6;
/// Longest line that is looked at as one; a longer one is looked at in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;
/// How much of a piece is in the next one too, at least: a name and its value, or the words that
/// tell a secret, are then together in one of them.
const OVERLAP: usize = 1 << 10;
/// How often a line may follow itself and still be looked at. No rule remembers more lines.
const REPEATS_MAX: usize = 256;
/// Most lines of a file that are looked at, without those that repeat. A file of a bundle has 16 MiB.
const LINES_MAX: usize = 5_000_000;

/// A place in a file that may reveal something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// What it looks like.
    pub(crate) what: String,
    /// Line, from 1; 0 in a binary file.
    pub(crate) line: usize,
    /// Offset of its first byte in the file, or in what a compressed file holds.
    pub(crate) offset: usize,
    /// Its first letters and its length.
    pub(crate) masked: String,
}

impl Doubt {
    /// One sentence: where, what, and the masked text.
    pub(crate) fn told(&self, file: &str) -> String {
        let place = match self.line {
            0 => format!("{file}, byte {}", self.offset),
            line => format!("{file}, line {line}, byte {}", self.offset),
        };
        format!("{place}: {}: {}", self.what, self.masked)
    }
}

/// What a rule found in a line.
struct Found {
    what: &'static str,
    at: Range<usize>,
}

/// What is looked for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookedFor {
    /// Secrets, names and addresses.
    All,
    /// Secrets: the file has the real names on purpose.
    Secrets,
}

impl LookedFor {
    fn has(self, what: &str) -> bool {
        self == Self::All || !NAMES.contains(&what)
    }
}

/// Most letters and digits of a name that could be anyone's: `fw`, `b1`.
const SHORT_NAME_MAX: usize = 2;

/// What names and addresses look like; all else is a secret.
const NAMES: [&str; 18] = [
    "a name that someone chose",
    "a host",
    "a user",
    "an account",
    "a person",
    "a bucket",
    "a project",
    "a namespace",
    "a home folder",
    "a mail address",
    "an IPv4 address",
    "an IPv6 address",
    "a MAC address",
    "a UUID",
    "a Kubernetes pod",
    "an internal host name",
    "a name that a command printed",
    "a word of high entropy",
];

/// What a file that is about to leave may reveal, one sentence each: place, what it looks like,
/// and its masked text.
pub fn revealing(file: &str, cleared: &Cleared) -> Vec<String> {
    told(file, cleared.bytes(), LookedFor::All)
}

/// As [`revealing`], of a file in a bundle.
pub(crate) fn told(file: &str, bytes: &[u8], looked_for: LookedFor) -> Vec<String> {
    let doubts = doubts(bytes, looked_for);
    let mut told: Vec<String> = doubts.iter().map(|doubt| doubt.told(file)).collect();
    if doubts.len() == DOUBTS_MAX {
        told.push(format!(
            "{file}: the search of this file ended here, after {DOUBTS_MAX} such places: there may be more"
        ));
    }
    told
}

/// Everything in a file that may reveal something.
pub(crate) fn doubts(bytes: &[u8], looked_for: LookedFor) -> Vec<Doubt> {
    let mut inner = Vec::new();
    let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
        // What cannot be unpacked is looked at as it is.
        true => match MultiGzDecoder::new(bytes)
            .take(UNPACKED_BYTES_MAX)
            .read_to_end(&mut inner)
        {
            Ok(_) => &inner,
            Err(_) => bytes,
        },
        false => bytes,
    };
    let is_binary = bytes.contains(&0);
    let mut doubts = Vec::new();
    let mut offset = 0;
    let mut before = told::Before::default();
    let mut above = prose::Above::default();
    let mut table = nouns::Table::default();
    let mut columns = places::Columns::default();
    let mut typed = typed::Typed::default();
    let mut below = below::Below::default();
    let is_end = |byte: &u8| match is_binary {
        true => !(0x20..0x7f).contains(byte),
        false => *byte == b'\n',
    };
    let (mut last, mut repeats, mut looked_at) = (&bytes[..0], 0, 0);
    for (number, line) in bytes.split_inclusive(is_end).enumerate() {
        let from = offset;
        offset += line.len();
        repeats = if line == last { repeats + 1 } else { 0 };
        last = line;
        if repeats > REPEATS_MAX {
            continue;
        }
        if is_binary && line.len() <= TEXT_BYTES_MIN {
            continue;
        }
        looked_at += 1;
        if looked_at > LINES_MAX {
            doubts.push(Doubt {
                what: "the file has too many lines: those from here on are not checked".to_owned(),
                line: if is_binary { 0 } else { number + 1 },
                offset: from,
                masked: masked(&String::from_utf8_lossy(line)),
            });
            break;
        }
        let mut end = 0_usize;
        for piece in pieces(line) {
            let (begin, known) = (from + piece.start, end.saturating_sub(piece.start));
            end = piece.end;
            let text = String::from_utf8_lossy(&line[piece]);
            let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
            let mut found = match text.bytes().any(is_of_word) {
                true => of_line(&text),
                false => Vec::new(),
            };
            let told = before.find(&text);
            let odd = above.find(&text);
            let mut names = table.find(&text);
            names.extend(columns.find(&text));
            names.extend(typed.find(&text));
            names.extend(below.find(&text));
            if found.is_empty() {
                found.extend(told);
            }
            if found.is_empty() {
                found.extend(odd);
                found.extend(names);
            }
            found.retain(|one| looked_for.has(one.what));
            found.retain(|one| !is_short_name(one.what, &text[one.at.clone()]));
            // What begins in the piece before was found there.
            found.retain(|one| one.at.start >= known || !is_told(&doubts, begin + one.at.start));
            for found in found {
                doubts.push(Doubt {
                    what: found.what.to_owned(),
                    line: if is_binary { 0 } else { number + 1 },
                    offset: begin + found.at.start,
                    masked: masked(&text[found.at]),
                });
            }
        }
        if doubts.len() >= DOUBTS_MAX {
            doubts.truncate(DOUBTS_MAX);
            break;
        }
    }
    doubts
}

/// Whether a name has so few letters and digits that it tells nothing: the redaction of earlier versions kept them.
fn is_short_name(what: &str, name: &str) -> bool {
    let count = name
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .count();
    NAMES.contains(&what) && count <= SHORT_NAME_MAX
}

/// The pieces of a line, in order. A longer line than one piece is cut between words, if it has
/// any, since the rest of an address is another address.
fn pieces(line: &[u8]) -> Vec<Range<usize>> {
    // The start of the word at `near`, or of one less than `OVERLAP` before.
    let word_at = |near: usize| {
        let before = near.saturating_sub(OVERLAP);
        let is_gap = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"._-:/@+=%".contains(byte);
        let (begin, part) = (before, &line[before..near]);
        let gap = part.iter().rposition(u8::is_ascii_whitespace);
        let gap = gap.or_else(|| part.iter().rposition(is_gap));
        gap.map_or(near, |gap| begin + gap + 1)
    };
    let mut pieces = Vec::new();
    let mut from = 0;
    while line.len() - from > LINE_BYTES_MAX {
        let end = word_at(from + LINE_BYTES_MAX);
        pieces.push(from..end);
        from = word_at(end - OVERLAP);
    }
    pieces.push(from..line.len());
    pieces
}

/// Whether there is a doubt that begins here.
fn is_told(doubts: &[Doubt], offset: usize) -> bool {
    doubts.iter().rev().any(|doubt| doubt.offset == offset)
}

/// What the rules find in one line; of several that overlap, the first.
fn of_line(line: &str) -> Vec<Found> {
    let mut found = formats::find(line);
    found.extend(named::find(line));
    found.extend(told::find(line));
    found.extend(spoken::find(line));
    found.extend(arguments::find(line));
    found.extend(nouns::find(line));
    found.extend(places::find(line));
    found.extend(entropy::find(line));
    found.extend(numbers::find(line));
    found.extend(given_names::find(line));
    found.sort_by_key(|one| one.at.start);
    let mut end = 0;
    found.retain(|one| {
        let is_new = one.at.start >= end;
        end = end.max(one.at.end);
        is_new
    });
    found
}

/// The first two letters of a long text, and the length.
fn masked(text: &str) -> String {
    let count = text.chars().count();
    let shown: String = text.chars().take(if count > 7 { 2 } else { 0 }).collect();
    format!("{shown}\u{2026} ({count} characters)")
}

/// Whether a value was replaced or says that there is none; a number is a value.
fn is_replaced(value: &str) -> bool {
    is_placeholder(value) && !is_number(value)
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a placeholder, or the name of a variable with one in it (`NCCL_node2`), or says that there is no
/// value.
fn is_placeholder(text: &str) -> bool {
    let text = text.trim_matches(|letter: char| !letter.is_alphanumeric());
    if text.contains('_') {
        let is_upper = |part: &str| part.bytes().all(|byte| byte.is_ascii_uppercase());
        let mut parts = text.split('_').filter(|part| !is_upper(part)).peekable();
        return parts.peek().is_some() && parts.all(is_placeholder);
    }
    let word = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_unknown_word = word == "word" && word.len() < text.len();
    is_unknown_word
        || matches!(
            word.to_ascii_lowercase().as_str(),
            "" | "secret"
                | "node"
                | "user"
                | "email"
                | "folder"
                // The folder of Google's nodes, `/home/kubernetes/bin`.
                | "kubernetes"
                | "project"
                | "bucket"
                | "container"
                | "namespace"
                | "machine"
                | "null"
                | "none"
                | "true"
                | "false"
                | "unset"
                | "yes"
                | "no"
                | "on"
                | "off"
                | "auto"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubts(bytes: &[u8]) -> Vec<Doubt> {
        super::doubts(bytes, LookedFor::All)
    }

    /// What is found in a text.
    fn told(text: &str) -> Vec<String> {
        doubts(text.as_bytes())
            .iter()
            .map(|doubt| doubt.what.clone())
            .collect()
    }

    #[test]
    fn a_name_of_two_letters_is_no_doubt_and_a_longer_one_or_a_secret_is() {
        for name in ["fw", "b1"] {
            let line = format!("tcp://{name}:29500 [rank 1] HOSTNAME={name}\nssh root@{name} ls\n");
            assert_eq!(told(&line), [""; 0], "{name}");
        }
        assert_eq!(told("tcp://fw1:29500"), ["a host"]);
        assert_eq!(told("DB_PASSWORD=b1").len(), 1);
    }

    #[test]
    fn a_short_password_a_project_and_the_host_of_a_url_are_doubted_in_sentences() {
        for (line, what) in [
            (
                "login failed for user0 with password q7hUNj: key SECRET",
                "a value that the words before it tell",
            ),
            (
                "pod node1 of project prj-xarbekk-77 bucket gs://bucket0/x",
                "a name that someone chose",
            ),
            (
                "request to https://SECRET@registry.sisptza.io/x failed",
                "a host",
            ),
        ] {
            assert_eq!(told(line), [what], "{line}");
        }
        for line in [
            "with password SECRET: key SECRET of token eth0, https://SECRET@node0:80/x",
            "password from mlx5, https://SECRET@word0.word1/x of project project0",
        ] {
            assert_eq!(told(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_line_that_is_repeated_costs_nothing_and_hides_nothing() {
        for line in ["\n", "x\n", "---\n"] {
            let mut text = line.repeat(5_000_000);
            text.push_str("the password:\nhunter2hunter\n");
            assert_eq!(told(&text).len(), 1, "{line:?}");
        }
    }

    #[test]
    #[ignore = "takes minutes in a build without optimization"]
    fn lines_beyond_those_that_are_looked_at_are_told() {
        let text = "x\ny\n".repeat(LINES_MAX / 2 + 1);
        let told = doubts(text.as_bytes());
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].line, LINES_MAX + 1);
    }

    #[test]
    fn a_search_that_ends_early_says_so() {
        let line = "HF_TOKEN=hunter2\n";
        let of_lines = |count| super::told("a.log", line.repeat(count).as_bytes(), LookedFor::All);
        assert_eq!(of_lines(DOUBTS_MAX - 1).len(), DOUBTS_MAX - 1);
        let told = of_lines(DOUBTS_MAX + 10);
        assert_eq!(told.len(), DOUBTS_MAX + 1);
        assert!(told[DOUBTS_MAX].ends_with("there may be more"), "{told:?}");
    }

    #[test]
    fn a_long_line_is_cut_between_words_and_each_place_is_told_once() {
        for gap in [" ", ",", "; "] {
            let line = format!("198.18.0.1{gap}").repeat(12_000);
            assert_eq!(told(&line), Vec::<String>::new(), "{gap:?}");
        }
        // Wherever the cut is, the name and its value are seen together, once.
        for before in 0..6 {
            let filler = "word ".repeat((LINE_BYTES_MAX - OVERLAP - 60) / 5);
            let line = format!("{filler}{}HF_TOKEN=hunter2 ", "x ".repeat(before));
            for behind in ["word ".repeat(14_000), "word ".repeat(200)] {
                assert_eq!(
                    told(&format!("{line}{behind}")),
                    ["the value of a secret's name"],
                    "{before}"
                );
            }
        }
        for length in [0, 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, 5 * LINE_BYTES_MAX] {
            for text in ["x", "x ", "\u{e9}"] {
                let line = text.repeat(length / text.len());
                let pieces = pieces(line.as_bytes());
                let is_joined = pieces.windows(2).all(|two| {
                    two[1].start < two[0].end
                        && two[0].end < two[1].end
                        && two[0].start < two[1].start
                });
                assert!(is_joined && pieces[0].start == 0, "{pieces:?}");
                assert_eq!(pieces.last().map(|last| last.end), Some(line.len()));
            }
        }
    }

    #[test]
    fn secrets_are_doubted_and_masked() {
        let tail = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYz5";
        for (text, what) in [
            (format!("x ghp_{tail}ab y"), "a GitHub token"),
            ("id AKIAQWERTYUIOPASDFGH".to_owned(), "an AWS key id"),
            (format!("key {}", &tail[..32]), "a word of high entropy"),
            (
                "HF_TOKEN=hunter2".to_owned(),
                "the value of a secret's name",
            ),
            (
                "USERPWD=hunter2 ".to_owned(),
                "the value of a secret's name",
            ),
            (
                "| HF_TOKEN | - | hunter2 |".to_owned(),
                "the value of a secret's name",
            ),
            (
                "<tr><td><code>DB_PASSWORD</code></td><td>-</td><td>hunter2</td></tr>".to_owned(),
                "the value of a secret's name",
            ),
            (
                "%22password%22%3A%22hunter2%22".to_owned(),
                "the value of a secret's name",
            ),
            (
                "api_token ..... hunter2".to_owned(),
                "the value of a secret's name",
            ),
            (
                "\"password\": \"hunter2\"".to_owned(),
                "the value of a secret's name",
            ),
            ("ldap://ada:hunter2@host/".to_owned(), "a password in a URL"),
            ("-----BEGIN EC PRIVATE KEY-----".to_owned(), "a key in PEM"),
            (
                format!("rubygems_{}.toml", "3d29f0ff".repeat(6)),
                "a key behind a prefix",
            ),
            (
                "A3-2H6Z69-46WZ98949T6-629ID-TRV79-4UAVK".to_owned(),
                "a key in groups",
            ),
            (
                "machine x login ada password hunter".to_owned(),
                "a password beside a login",
            ),
            (
                "ada:hunter2@tcp(db:3306)/x".to_owned(),
                "a password in an address",
            ),
            (
                "Basic YWRhOmxldG1laW5wbGVhc2U=".to_owned(),
                "credentials of HTTP",
            ),
            (
                "join abc7ef.0123456789abcdef".to_owned(),
                "a token of a cluster",
            ),
            (
                "vh4699gc1wtr37mc3i1we2osw97ll6f1".to_owned(),
                "a word of high entropy",
            ),
            ("ada@example.com".to_owned(), "a mail address"),
            ("peer 10.0.1.25:80".to_owned(), "an IPv4 address"),
            ("fe80::4001:aff:fe00:119".to_owned(), "an IPv6 address"),
            ("42:01:0a:00:01:19".to_owned(), "a MAC address"),
            ("6f9619ff-8b86-d011-b42d-00c04fc964ff".to_owned(), "a UUID"),
            ("boot id 3d29f0ffb4fd".to_owned(), "the id of a machine"),
            ("pod 3d29f0ff-8b86".to_owned(), "a Kubernetes pod"),
            ("in /home/ada/x".to_owned(), "a home folder"),
            ("to gs://acme-logs/x".to_owned(), "a bucket"),
        ] {
            assert_eq!(told(&text), [what], "{text}");
        }
        let doubt = doubts(b"one\ntwo HF_TOKEN=quietly7\n").remove(0);
        assert_eq!(
            doubt.told("a.log"),
            "a.log, line 2, byte 17: the value of a secret's name: qu\u{2026} (8 characters)"
        );
    }

    #[test]
    fn placeholders_hashes_and_ordinary_text_are_not_doubted() {
        for text in [
            "HF_TOKEN=SECRET password: \"SECRET\" --token SECRET",
            "{\\\"name\\\":\\\"DB_PASSWORD\\\",\\\"value\\\":\\\"SECRET\\\"}",
            "otpauth://totp/x?secret=SECRET and user0@node1's password: SECRET",
            "machine h1 login user0 password SECRET\", x",
            "<td>mysql -uroot -p&#39;SECRET&#39; jobs</td></tr>",
            "sudo -S ls <<< SECRET\n**NCCL2x%9yz**",
            "| HF_TOKEN | - | SECRET |",
            "\"key\": \"NCCL_node2\"",
            "password: Some(\"SECRET\") in ada:SECRET:19000:0:99999",
            "c10::DistBackendError",
            "node0 at 198.18.0.25, 2001:db8::1, 02:00:00:00:00:01, 127.0.0.1, email0",
            "sha256 3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88",
            "00000000-0000-4000-8000-000000000001",
            "boot id 00000000-0000-4000-8000-000000000001, pod 00000000-0000-4000-8000-00000000000a",
            "boot id machine0, pod node3-, pod 12345678",
            "/home/kubernetes/bin/nvidia /home/user0/x gs://bucket0/x https://node0:SECRET@node1/x",
            "/dev/shm/tcpxctl-0/worker-20261120T101500Z-two-gpus-26803-435068.tcpxrec",
            "20261122T190844Z-4conn libnccl_net_tcpxsoft.so NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
            "docker-3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88.scope",
            "std::vector 12:30:45 a:b:c fd0 driver 535.129.03, kernel 6.6.93+",
            "the token of a request is not its comm",
            "ERROR: SECRET: https://hooks.slack.SECRET",
            "INFO starting with GOOGLE_CLOUD_PROJECT=project0",
        ] {
            assert_eq!(told(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn texts_of_binary_and_compressed_files_are_looked_at() {
        let binary = b"\x01\x00\x02HF_TOKEN=hunter2hunter\x00\x03";
        assert_eq!(doubts(binary)[0].offset, 12);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, b"HF_TOKEN=hunter2hunter").expect("packed");
        assert_eq!(doubts(&packed.finish().expect("packed")).len(), 1);
    }
}
