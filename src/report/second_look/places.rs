//! Names in the formats of programs: the host of `uname` and of syslog, owners of `ls`, users of `ps` and `who`,
//! addresses such as `tcp://X:29500`, authors of git, and columns of files with commas.
#![forbid(unsafe_code)]

use super::nouns::is_given;
use super::{Found, is_placeholder};
use regex::{Regex, RegexSet, RegexSetBuilder};
use std::sync::LazyLock;

/// What a name is of, the format with names as groups, and whether the name may be a word. `NAME` is a name, `AT`
/// is the begin of a word.
const RULES: [(&str, &str, bool); 56] = [
    ("a host", r"ATLinux NAME \d\S* #\d", false),
    ("a host", r"ATslurmstepd-NAME: ", false),
    ("a host", r"ATNode:\s+NAME/\d", false),
    ("a user", r"GroupId=NAME\(", false),
    ("a host", r"Successfully assigned \S+ to NAME", false),
    ("a host", r"assigned \S+ to NAME", true),
    ("a host", r"resolve host:? ['\x22]?NAME", false),
    ("a host", r"tcp://NAME:\d", false),
    ("a host", r"://[^\s/@\x22'<>]+@NAME", false),
    ("a host", r"/instances/NAME", false),
    ("a host", r"^NAME has address \d", false),
    (
        "a host",
        r"^(?:\d+: )?\d{4}-\d\d-\d\dT[\d:.,+Z-]+ NAME [\w./-]+\[\d+\]:",
        false,
    ),
    (
        "a host",
        r"^(?:\d+: )?\d{4}-\d\d-\d\dT[\d:.,+Z-]+ NAME kernel:",
        false,
    ),
    (
        "a host",
        r"^(?:\d+: )?\d{4}-\d\d-\d\dT[\d:.,+Z-]+ NAME [\w./-]+:",
        true,
    ),
    ("a host", r"^\s+host(?:name)?\s+:\s+NAME", false),
    ("a host", r"<(?:host|hostname)>NAME<", false),
    (
        "a host",
        r"AT(gke-[a-z0-9-]+-[0-9a-f]{8}-[a-z0-9]{4})(?:$|[^a-z0-9-])",
        false,
    ),
    ("a host", r"AT(ip-\d+-\d+-\d+-\d+)", false),
    ("a host", r"Ring \d+ : NAME ->", false),
    ("a host", r"host_?[hH]ash[=:\x22 ]+(0x[0-9a-f]{8,})", false),
    ("a host", r"kubernetes\.io/instance=NAME", true),
    ("a host", r"(?: at | to | from | on |://)NAME:\d", true),
    ("a host", r"[rR]ank[ =]?\d+ (?:on|at) NAME", true),
    (
        "a host",
        r"(?:^|[^A-Za-z0-9])(?:host|hostname|node|instance|server|machine)['\x22\\]{0,4} {0,16}[=:\x{ff1a}] {0,16}['\x22\\]{0,4}NAME",
        true,
    ),
    ("a host", r"^(?:\d+: )?\[NAME:\d+\]", true),
    (
        "a host",
        r"^(?:\d+: )?(?:\d{1,3}\.){3}\d{1,3}\s+NAME(?:\s|$)",
        true,
    ),
    (
        "a host",
        r"AT(?:scp|rsync)\s(?:\S+\s+){0,15}?(?:[\w.-]+@)?NAME:\S",
        true,
    ),
    (
        "a host",
        r"(?:主机名?|主機|节点|節點|服务器|机器|ホスト名?|ノード|サーバー|호스트|노드|서버|хост|узел|узле|сервер|Rechner)[\x{ff1a}:=\s「『“\x22]{0,6}NAME",
        true,
    ),
    (
        "a user",
        r"(?:用户名?|使用者|账号|ユーザー名?|사용자|пользователь|Benutzer|utilisateur|usuario)[\x{ff1a}:=\s「『“\x22]{0,6}NAME",
        true,
    ),
    (
        "a user",
        r"^(?:\d+: )?[-dlcbps][rwxsStT-]{9}[.+@]?\s+\d+\s+(\S+)\s+(\S+)\s+\d",
        true,
    ),
    (
        "a user",
        r"^(?:\d+: )?NAME\s+\d+\s+\d+\.\d+\s+\d+\.\d+\s",
        true,
    ),
    ("a user", r"^(?:\d+: )?NAME\s+(?:pts/|tty)\d", true),
    ("a user", r"^(?:\d+: )?NAME:x:\d+:\d+:", true),
    ("a user", r"[=,]\d+\(NAME\)", true),
    ("a user", r"ATsudo(?:\[\d+\])?:\s+NAME : TTY=", false),
    ("a user", r"<user(?:name)?>NAME<", false),
    (
        "a person",
        r"AT(?:Author|Committer|Commit|Signed-off-by|Co-authored-by|Reviewed-by):\s+([^<>=/\s][^<>=/]{1,60}?) <",
        false,
    ),
    ("an account", r"(?:git@[\w.-]+|email\d+):NAME/", true),
    ("an account", r"wandb\.ai/NAME/", true),
    ("an account", r"logged in as: NAME", false),
    (
        "an account",
        r"(?:huggingface\.co/|hf\.co/|Loading )NAME/|(?:models|datasets)--([a-z0-9]+(?:-[a-z0-9]+)*)--",
        true,
    ),
    (
        "an account",
        r"ATimage:\s+['\x22]?([a-z][a-z0-9_-]+)/|docker pull ([a-z][a-z0-9_-]+)/",
        true,
    ),
    (
        "a host",
        r"^debug1: (?:Authenticating|Connecting) to NAME",
        false,
    ),
    ("a host", r"resolve hostname NAME", false),
    ("a host", r"ATHost 'NAME' is known", false),
    ("a host", r"^(?:\$ |\+ )?ssh NAME$", false),
    ("a host", r"ATgcloud compute ssh NAME", false),
    ("a host", r"server address: https?://NAME", false),
    ("an account", r"ATpull access denied for NAME/", false),
    (
        "an account",
        r"refers to repository \[[\w.:-]+/NAME/",
        false,
    ),
    (
        "an account",
        r"ATdocker (?:push|tag) [\w.-]+\.[\w.:-]+/NAME/|(?:^| )registry/NAME/",
        false,
    ),
    (
        "a name that someone chose",
        r"AT(?:GROUP|LAB|TEAM|SITE|DEPARTMENT)_NAME=NAME|ATkey=/[\w.-]+/NAME/",
        false,
    ),
    (
        "a name that someone chose",
        r"AThelm (?:install|upgrade)(?: --[\w-]+)* NAME|ATray job (?:logs|stop|status) NAME|--submission-id[ =]NAME",
        false,
    ),
    (
        "a name that someone chose",
        r"create secret [\w-]+ NAME|^secret/NAME (?:created|configured|deleted|unchanged)",
        false,
    ),
    (
        "a name that someone chose",
        r"ATaws --profile[ =]NAME",
        false,
    ),
    (
        "a name that someone chose",
        r"property \[core/project\] to NAME|kubeconfig entry generated for NAME",
        false,
    ),
];
/// Names that the redaction keeps, too.
pub(super) const COMMON: [&str; 36] = [
    "uvicorn",
    "gunicorn",
    "hypercorn",
    "istio-envoy",
    "cloudflare",
    "aarch64",
    "dgx-h100",
    "dgx-a100",
    "hgx-h100",
    "rdzv",
    "nogroup",
    "kubelet",
    "localhost",
    "root",
    "user",
    "unknown",
    "none",
    "null",
    "ubuntu",
    "system",
    "default",
    "host",
    "node",
    "peer",
    "nccl",
    "tcpx",
    "tcpxctl",
    "nobody",
    "local",
    "deepseek-ai",
    "eleutherai",
    "huggingfaceh4",
    "tiiuae",
    "thudm",
    "stabilityai",
    "mosaicml",
];
/// Titles of columns with names.
const TITLES: [&str; 9] = [
    "host", "hosts", "hostname", "node", "nodename", "instance", "server", "user", "username",
];
/// Longest header.
const HEADER_BYTES_MAX: usize = 512;
/// Most memory of the automaton of all rules: as in `formats.rs`.
const AUTOMATON_BYTES_MAX: usize = 32 << 20;

static PATTERNS: LazyLock<Option<(RegexSet, Vec<Regex>)>> = LazyLock::new(|| {
    let written = RULES.map(|(_, rule, _)| {
        rule.replace("NAME", "([A-Za-z][A-Za-z0-9._-]+)")
            .replace("AT", "(?:^|[^A-Za-z0-9_-])")
            .replace(r"\d", "[0-9]")
            .replace(r"\w", "A-Za-z0-9_")
    });
    let regexes = written.iter().map(|rule| Regex::new(rule));
    let set = RegexSetBuilder::new(&written)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build();
    Some((set.ok()?, regexes.collect::<Result<_, _>>().ok()?))
});

/// The names in a line.
pub(super) fn find(line: &str) -> Vec<Found> {
    let Some((set, regexes)) = &*PATTERNS else {
        return vec![found("a text that could not be checked", 0, line)];
    };
    let mut all = Vec::new();
    for number in set.matches(line) {
        let (what, _, is_word) = RULES[number];
        for captures in regexes[number].captures_iter(line) {
            let names = captures.iter().skip(1).flatten();
            let names = names.filter(|name| is_name(name.as_str(), is_word));
            all.extend(names.map(|name| found(what, name.start(), name.as_str())));
        }
    }
    all
}

/// Whether a word is a name: no placeholder, and, if words stand in its place, no word of ours.
fn is_name(word: &str, is_word: bool) -> bool {
    let is_replaced = word.split([' ', '.']).all(is_placeholder);
    let is_common = COMMON
        .iter()
        .any(|common| word.eq_ignore_ascii_case(common));
    // The type of a machine.
    let is_machine =
        word.contains("gpu-") || word.contains("-standard-") || word.contains("-highmem-");
    !is_replaced && !is_common && !is_machine && (!is_word || is_given(word) && !word.contains('_'))
}

fn found(what: &'static str, at: usize, name: &str) -> Found {
    Found {
        what,
        at: at..at + name.len(),
    }
}

/// The columns with names of the last header of a file with commas or semicolons.
#[derive(Default)]
pub(super) struct Columns {
    sign: char,
    count: usize,
    named: Vec<usize>,
}

impl Columns {
    /// The names in a row beneath the header.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let line = line.trim_end();
        let cells: Vec<&str> = line.split(self.sign).take(self.count + 1).collect();
        if !self.named.is_empty() && cells.len() == self.count {
            let begin = |cell: &str| cell.as_ptr() as usize - line.as_ptr() as usize;
            let named = self.named.iter().filter_map(|at| cells.get(*at));
            let names = named.map(|cell| cell.trim_matches(['"', ' ']));
            let names = names.filter(|cell| is_name(cell, true));
            return names
                .map(|cell| found("a host", begin(cell), cell))
                .collect();
        }
        *self = Self::of_header(line).unwrap_or_default();
        Vec::new()
    }

    fn of_header(line: &str) -> Option<Self> {
        if line.len() > HEADER_BYTES_MAX {
            return None;
        }
        let sign = [',', ';', '\t']
            .into_iter()
            .find(|sign| line.contains(*sign))?;
        let titles: Vec<&str> = line
            .split(sign)
            .map(|title| title.trim_matches('"'))
            .collect();
        let is_title = |title: &&str| {
            title
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let is_named = |title: &str| TITLES.iter().any(|named| title.eq_ignore_ascii_case(named));
        if !titles.iter().all(is_title) {
            return None;
        }
        let named = titles
            .iter()
            .enumerate()
            .filter(|(_, title)| is_named(title));
        Some(Self {
            sign,
            count: titles.len(),
            named: named.map(|(at, _)| at).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_a_pattern() {
        assert!(PATTERNS.is_some());
    }
}
