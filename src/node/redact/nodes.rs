//! Names behind words and commands: `pod X is ready`, `ssh root@X`, `mpirun -H X:8,Y:8`, lists such as
//! `gpu-[0-3]`, the host of a line of syslog, and columns of `kubectl get pods` and `squeue`.
//!
//! A word behind `pod` or `node` is a name if it is not ordinary.
#![forbid(unsafe_code)]

use super::context::{BEFORE, Kind, may_be_name, name_at};
use super::name_formats;
use super::ordinary::is_ordinary;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::sync::LazyLock;
use tcpx_recorder::format::FILE_SUFFIX;

/// Words that a name may follow, with or without quotes.
const NOUNS: [(&str, Kind); 32] = [
    ("pod ", Kind::Node),
    ("pods ", Kind::Node),
    ("node ", Kind::Node),
    ("nodes ", Kind::Node),
    ("host ", Kind::Node),
    ("Node ", Kind::Node),
    ("Pod ", Kind::Node),
    ("Host ", Kind::Node),
    ("Nodes ", Kind::Node),
    ("hostname ", Kind::Node),
    ("server ", Kind::Node),
    ("machine ", Kind::Node),
    (" ON ", Kind::Node),
    ("Connection to ", Kind::Node),
    ("namespace ", Kind::Namespace),
    ("namespaces ", Kind::Namespace),
    ("user ", Kind::User),
    ("User ", Kind::User),
    ("login: ", Kind::User),
    ("srun: error: ", Kind::Node),
    ("onnecting to ", Kind::Node),
    ("onnect to ", Kind::Node),
    ("node/", Kind::Node),
    ("nodes/", Kind::Node),
    ("deployment/", Kind::Node),
    ("statefulset/", Kind::Node),
    ("job/", Kind::Node),
    (" -it ", Kind::Node),
    ("serviceaccount ", Kind::User),
    ("project ", Kind::Project),
    ("Project ", Kind::Project),
    ("bucket ", Kind::Bucket),
];
/// Commands and options that hosts follow.
const COMMANDS: [(&str, Kind); 29] = [
    ("kubectl logs ", Kind::Node),
    ("kubectl exec ", Kind::Node),
    ("PING ", Kind::Node),
    (" -n ", Kind::Namespace),
    ("ssh ", Kind::Node),
    ("mpirun -H ", Kind::Node),
    (" -H ", Kind::Node),
    (" --host ", Kind::Node),
    (" -host ", Kind::Node),
    ("--hosts ", Kind::Node),
    ("--hosts=", Kind::Node),
    ("--host=", Kind::Node),
    ("--nodelist=", Kind::Node),
    ("--nodelist ", Kind::Node),
    (" -w ", Kind::Node),
    ("NODELIST=", Kind::Node),
    ("NodeList=", Kind::Node),
    ("BatchHost=", Kind::Node),
    ("nodeName: ", Kind::Node),
    ("endpoint=", Kind::Node),
    ("endpoint ", Kind::Node),
    ("--address=", Kind::Node),
    ("master_addr=", Kind::Node),
    ("master_addr ", Kind::Node),
    ("master-addr=", Kind::Node),
    ("hosts: ", Kind::Node),
    ("Account=", Kind::Project),
    ("arn:aws:s3:::", Kind::Bucket),
    ("assigned default/", Kind::Node),
];
/// Names that a column has.
const COLUMNS: [(&str, Kind); 10] = [
    ("HOSTNAME", Kind::Node),
    ("HOSTNAMES", Kind::Node),
    ("NODENAME", Kind::Node),
    ("INSTANCE", Kind::Node),
    ("NAME", Kind::Node),
    ("NODE", Kind::Node),
    ("HOST", Kind::Node),
    ("NODELIST(REASON)", Kind::Node),
    ("NODELIST", Kind::Node),
    ("USER", Kind::User),
];
/// Columns of which a header with names has one.
const BESIDE: [&str; 9] = [
    "READY",
    "ROLES",
    "STATUS",
    "PARTITION",
    "NODES",
    "STATE",
    "ZONE",
    "MACHINE_TYPE",
    "INTERNAL_IP",
];
/// Most options of a command and their values before its host, and longest one.
const OPTIONS_MAX: usize = 64;
const OPTION_BYTES_MAX: usize = 4096;
/// Most rows of a table, and most hosts of a list.
const ROWS_MAX: usize = 1024;
const HOSTS_MAX: usize = 1024;
/// Shortest and longest name behind a word.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 4..=128;

/// What stands before an id of a machine, and the months at the begin of a line of syslog.
const IDS: [&str; 11] = [
    "machine-id",
    "machine_id",
    "machineID",
    "machine id",
    "Machine ID",
    "boot_id",
    "boot-id",
    "bootID",
    "boot id",
    "Boot ID",
    "Boot id",
];
const MONTHS: [&str; 12] = [
    "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec ",
];

/// What each pattern of the search leads to. Those of `context.rs` come first.
enum Lead {
    Before,
    Noun(&'static str, Kind),
    Command(&'static str, Kind),
    Id(&'static str),
    Month,
    Column,
    /// Of a line of a file of hosts, behind the name.
    Slots,
    /// Of the format with this number.
    Format(usize),
    Copy(&'static str),
}

/// What follows the name of a host in a file of hosts of MPI.
const SLOTS: &str = " slots=";

static FINDER: LazyLock<Option<(AhoCorasick, Vec<Lead>)>> = LazyLock::new(|| {
    let nouns = NOUNS.map(|(noun, kind)| (noun, Lead::Noun(noun, kind)));
    let commands = COMMANDS.map(|(command, kind)| (command, Lead::Command(command, kind)));
    let before = BEFORE.map(|(before, _)| (before, Lead::Before));
    let formats = name_formats::literals().into_iter().enumerate();
    let all = before
        .into_iter()
        .chain(nouns)
        .chain(commands)
        .chain(IDS.map(|id| (id, Lead::Id(id))))
        .chain(MONTHS.map(|month| (month, Lead::Month)))
        .chain(BESIDE.map(|column| (column, Lead::Column)))
        .chain([(SLOTS, Lead::Slots)])
        .chain(name_formats::COPIES.map(|copy| (copy, Lead::Copy(copy))))
        .chain(formats.map(|(number, literal)| (literal, Lead::Format(number))));
    let (patterns, leads): (Vec<&str>, Vec<Lead>) = all.unzip();
    let finder = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns);
    Some((finder.ok()?, leads))
});

/// The number of each pattern in a text, and where it is: first all places of the first one. One
/// search finds those of `context.rs`, too, since each pass over a text counts.
pub(super) fn search(text: &str) -> Vec<(usize, usize)> {
    let Some((finder, _)) = &*FINDER else {
        return Vec::new();
    };
    let found = finder.find_overlapping_iter(text);
    let mut places: Vec<(usize, usize)> = found
        .map(|place| (place.pattern().as_usize(), place.start()))
        .collect();
    places.sort_unstable();
    places
}

/// Calls `found` with the name at each place of a search. Of a list, with each host and with the list.
pub(super) fn names<'a>(
    text: &'a str,
    places: &[(usize, usize)],
    found: &mut impl FnMut(Kind, &'a str),
) {
    let Some((_, leads)) = &*FINDER else {
        return;
    };
    let mut header = usize::MAX;
    let mut line = Kubectl::default();
    for &(which, at) in places {
        match leads[which] {
            Lead::Before => {}
            Lead::Noun(noun, kind) => behind_noun(text, at, noun, kind, found),
            Lead::Command(_, Kind::Namespace) if !line.has_before(text, at) => {}
            Lead::Command(command, kind) => behind_command(text, at, command, kind, found),
            Lead::Id(name) => machine(text, at + name.len(), found),
            Lead::Month => of_syslog(text, at, found),
            Lead::Column => columns(text, at, &mut header, found),
            Lead::Slots => with_slots(text, at, found),
            Lead::Format(number) => name_formats::at(text, number, at, found),
            Lead::Copy(_) if is_in_word(text, at) => {}
            Lead::Copy(copy) => name_formats::copies(&text[at + copy.len()..], found),
        }
    }
}

fn behind_noun<'a>(
    text: &'a str,
    at: usize,
    noun: &str,
    kind: Kind,
    found: &mut impl FnMut(Kind, &'a str),
) {
    if !noun.starts_with([' ', '"', 'o']) && is_in_word(text, at) {
        return;
    }
    let behind = &text[at + noun.len()..];
    let is_quote = |letter: char| "\"'`\\".contains(letter);
    let name = name_at(behind.trim_start_matches(is_quote), 0).trim_end_matches(['.', '-']);
    let after = &text[name.as_ptr() as usize - text.as_ptr() as usize + name.len()..];
    // A path, a call, a key or an option.
    let is_code = after.starts_with(['/', '(', '=', '[', '_', '*']) || after.starts_with("::");
    let is_name = is_name(name) || kind == Kind::Node && is_id(name);
    if NAME_BYTES.contains(&name.len()) && is_name && !is_code && may_be_name(kind, name) {
        found(kind, name);
    }
}

/// Whether a word is a name: lower case, and not ordinary or with a number, such as `worker-19`.
pub(super) fn is_name(word: &str) -> bool {
    let begins = word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let has_upper = word.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_file = (word.contains('.') && !word.contains('-')) || is_of_worker(word);
    let is_numbered = word.contains('-') && word.ends_with(|letter: char| letter.is_ascii_digit());
    begins && !has_upper && !word.contains('_') && !is_file && (is_numbered || !is_ordinary(word))
}

/// Whether it is a file of a worker in a run folder, where it stands behind the node's folder, which may
/// be named `node`: `recorder-pid4242.tcpxrec`, `frame-pair3.json`.
fn is_of_worker(word: &str) -> bool {
    let recorder = word
        .strip_prefix("recorder-")
        .and_then(|rest| rest.strip_suffix(FILE_SUFFIX));
    let frame = || word.strip_prefix("frame-")?.strip_suffix(".json");
    let number = |of: &str| {
        let number = ["pid", "pair", "gpu"]
            .iter()
            .find_map(|unit| of.strip_prefix(unit))?;
        let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'-';
        number.bytes().all(is_number).then_some(())
    };
    recorder.or_else(frame).and_then(number).is_some()
}

fn is_in_word(text: &str, at: usize) -> bool {
    text[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_-".contains(letter))
}

/// Whether a line has `kubectl`, as far as a place. A line may be as long as the text.
#[derive(Default)]
struct Kubectl {
    seen: usize,
    is_on_line: bool,
}

impl Kubectl {
    /// Whether it stands before `at`, on its line. Places are asked for in order.
    fn has_before(&mut self, text: &str, at: usize) -> bool {
        let from = text.floor_char_boundary(self.seen.saturating_sub("kubectl".len()));
        let fresh = &text[from..at.max(from)];
        let line = fresh.rfind('\n');
        self.is_on_line &= line.is_none();
        self.is_on_line |= fresh[line.unwrap_or(0)..].contains("kubectl");
        self.seen = at;
        self.is_on_line
    }
}

fn behind_command<'a>(
    text: &'a str,
    at: usize,
    command: &str,
    kind: Kind,
    found: &mut impl FnMut(Kind, &'a str),
) {
    if command == "ssh " && is_in_word(text, at) {
        return;
    }
    // `ssh` is also a word of sentences.
    let before =
        text[..at].trim_end_matches(|letter: char| letter.is_whitespace() && letter != '\n');
    let is_sentence = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == ',');
    if command == "ssh " && is_sentence {
        return;
    }
    let rest = without_options(&text[at + command.len()..]).trim_start_matches(['"', '\'']);
    let rest = without_scheme(rest);
    let rest = match kind {
        // The names of buckets may follow each other in one word.
        Kind::Bucket => &rest[..rest.floor_char_boundary(*NAME_BYTES.end() + 1)],
        _ => rest,
    };
    let is_of_list = |letter: char| letter.is_ascii_alphanumeric() || ".-_,:@[]".contains(letter);
    let word = rest
        .split(|letter| !is_of_list(letter))
        .next()
        .unwrap_or_default();
    let word = word.trim_end_matches(['.', ',', ':']);
    let is_list = command.ends_with(['=', ':', '/'])
        || word.contains(['[', ','])
        || word.contains(':') && command.contains('-');
    for host in word.split_inclusive(']').flat_map(outside) {
        let name = host.rsplit('@').next().unwrap_or(host);
        let name = name.split(':').next().unwrap_or(name);
        if NAME_BYTES.contains(&name.len()) && (is_name(name) || is_list && is_host(name)) {
            found(kind, name);
        }
    }
    if word.find('[').is_some_and(|at| at > 0) && word.len() <= *NAME_BYTES.end() {
        found(kind, word);
    }
}

/// `node7 slots=8`: the host before `at`.
fn with_slots<'a>(text: &'a str, at: usize, found: &mut impl FnMut(Kind, &'a str)) {
    let least = text.floor_char_boundary(at.saturating_sub(*NAME_BYTES.end() + 1));
    let is_of_host = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    let before = &text[least..at];
    let host = &before[before.trim_end_matches(is_of_host).len()..];
    if NAME_BYTES.contains(&host.len()) && is_host(host) {
        found(Kind::Node, host);
    }
}

/// What follows the options of a command and their numbers: `-p 22 -o X=y `.
fn without_options(rest: &str) -> &str {
    let mut rest = rest;
    for _ in 0..OPTIONS_MAX {
        let near = &rest[..rest.floor_char_boundary(OPTION_BYTES_MAX)];
        let Some(end) = near.find(' ') else {
            break;
        };
        let (word, behind) = (&rest[..end], &rest[end + 1..]);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if !word.starts_with('-') && !is_number && !word.contains('=') || word.is_empty() {
            break;
        }
        rest = behind;
    }
    rest
}

/// What follows the scheme of a URL: `https://`.
fn without_scheme(rest: &str) -> &str {
    let behind = rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
    behind.strip_prefix("://").unwrap_or(rest)
}

/// The parts of a list between commas, without those with brackets.
fn outside(part: &str) -> impl Iterator<Item = &str> {
    part.split(',').filter(|host| !host.contains(['[', ']']))
}

fn is_host(name: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    name.bytes().all(is_of_host) && name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

/// The hosts of a list such as `gpu-[0-3,7]`, `gpu-[08-10]`; none if it is no such list.
pub(super) fn hosts(list: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    let mut rest = list;
    while let Some(open) = rest.find('[') {
        let before = rest[..open].rsplit(',').next().unwrap_or_default();
        let Some(length) = rest[open..].find(']') else {
            break;
        };
        for range in rest[open + 1..open + length].split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (Ok(from), Ok(to)) = (first.parse::<usize>(), last.parse::<usize>()) else {
                continue;
            };
            let left = HOSTS_MAX.saturating_sub(hosts.len());
            let numbers = (from..=to).take(left);
            hosts.extend(
                numbers.map(|number| format!("{before}{number:0width$}", width = first.len())),
            );
        }
        rest = &rest[open + length + 1..];
    }
    hosts
}

/// Whether a word is an id, whole or cut: hexadecimal digits, letters among them, in groups or not. A whole UUID is
/// replaced for its shape.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_hexdigit).count();
    let groups = word.split('-').count();
    ID_DIGITS.contains(&digits)
        && digits + groups == word.len() + 1
        && !(groups == 5 && digits == 32)
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The id of a machine behind its name, or near it.
fn machine<'a>(text: &'a str, at: usize, found: &mut impl FnMut(Kind, &'a str)) {
    let behind = &text[at..text.floor_char_boundary((at + ID_DISTANCE_MAX).min(text.len()))];
    let is_of_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let next = behind.trim_start_matches(|letter| !is_of_id(letter));
    let next = next.split(|letter| !is_of_id(letter)).next();
    if let Some(id) = next
        .map(|id| id.trim_end_matches('-'))
        .filter(|id| is_id(id))
    {
        return found(Kind::Machine, id);
    }
    let mut words = behind.split(|letter: char| !letter.is_ascii_alphanumeric());
    if let Some(id) = words.find(|word| may_be_name(Kind::Machine, word)) {
        found(Kind::Machine, id);
    }
}

/// Most bytes from the name of an id to its end, and how many digits an id has that follows its name.
const ID_DISTANCE_MAX: usize = 80;
const ID_DIGITS: std::ops::RangeInclusive<usize> = 8..=64;

/// The host of a line of syslog: `Nov 20 10:15:00 X kernel: `.
fn of_syslog<'a>(text: &'a str, at: usize, found: &mut impl FnMut(Kind, &'a str)) {
    if at > 0 && !text[..at].ends_with('\n') {
        return;
    }
    let mut words = text[at..].split_ascii_whitespace().take(5).skip(2);
    if let (Some(time), Some(host), Some(program)) = (words.next(), words.next(), words.next())
        && time.len() >= 8
        && time
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
        && program.ends_with(':')
        && is_host(host)
    {
        found(Kind::Node, host);
    }
}

/// The names in columns of tables such as those of `kubectl get nodes`. `last` is the last header.
fn columns<'a>(text: &'a str, at: usize, last: &mut usize, found: &mut impl FnMut(Kind, &'a str)) {
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    if begin == *last {
        return;
    }
    *last = begin;
    let mut lines = text[begin..].lines();
    let header: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let has_lower = |name: &&str| name.bytes().any(|byte| byte.is_ascii_lowercase());
    if header.len() < 3 || header.iter().any(has_lower) {
        return;
    }
    let kind = |name: &str| COLUMNS.iter().find(|(column, _)| *column == name);
    let columns = header.iter().enumerate();
    let columns: Vec<(usize, Kind)> = columns
        .filter_map(|(at, name)| Some((at, kind(name)?.1)))
        .collect();
    for line in lines.take(ROWS_MAX).take_while(|line| {
        !line.trim().is_empty() && line.split_whitespace().ne(header.iter().copied())
    }) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        for (at, kind) in &columns {
            let cell = cells
                .get(*at)
                .filter(|_| cells.len() == header.len() || *at == 0);
            if let Some(cell) =
                cell.filter(|cell| is_host(cell) && cell.len() >= *NAME_BYTES.start())
            {
                found(*kind, cell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_stands_behind_kubectl_on_its_line() {
        let mut line = Kubectl::default();
        let text = "x -n a kubectl -n b get -n c\n -n d kubectl -n e";
        let behind: Vec<bool> = text
            .match_indices(" -n ")
            .map(|(at, _)| line.has_before(text, at))
            .collect();
        assert_eq!(behind, [false, true, true, false, true]);
    }

    #[test]
    fn a_file_of_a_worker_in_the_folder_of_a_node_is_no_name() {
        for file in [
            "recorder-pid4242.tcpxrec",
            "recorder-pid42-1.tcpxrec",
            "frame-pair3.json",
        ] {
            assert!(!is_name(file), "{file}");
        }
        assert!(is_name("recorder-1"));
    }

    #[test]
    fn hosts_of_a_list_are_written_out() {
        assert_eq!(
            hosts("gpu-[0-1,7],x,cpu[08-09]"),
            ["gpu-0", "gpu-1", "gpu-7", "cpu08", "cpu09"]
        );
        assert_eq!(hosts("gpu-0"), Vec::<String>::new());
        assert_eq!(hosts("a[0-99999999]").len(), HOSTS_MAX);
    }
}
