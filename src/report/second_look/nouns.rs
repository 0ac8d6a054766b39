//! Names of hosts, pods and users behind words, commands and variables: `pod X is ready`, `ssh root@X`,
//! `SLURM_NODELIST=X`, `user=X`, rows beneath `NAME  READY`.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::places::COMMON;
use super::prose::unseen;
use super::{Found, is_placeholder};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// What a name is of, its surroundings with the name as the last group, and whether it may be a word.
const RULES: [(&str, &str, bool); 17] = [
    (
        "a host",
        r"^(?:\S+ )?([A-Za-z][\w.-]+):\d+:\d+ \[\d+\] .*\bNCCL ",
        false,
    ),
    (
        "a host",
        r"(?:[A-Z_]*_HOSTID|HOSTNAME|NODENAME|NODE_NAME|POD_NAME|MASTER_ADDR|MASTER_HOST|HEAD_NODE)(?:[\x22'`\\]|&quot;|\s)*(?:[=:|]|</[a-z]+>)(?:[\x22'`\\]|&quot;|<[^<>]*>|\s|\||-)*([a-z][\w.-]+)",
        false,
    ),
    (
        "a host",
        r"(?:NODELIST|NodeList|BatchHost|nodeName)[\x22']?\s?[=:]\s?[\x22']?([A-Za-z][\w.,\[\]-]+)",
        false,
    ),
    (
        "a host",
        r"(?:\s-H|--host|\s-host|--hosts|--nodelist|\s-w)[ =][\x22']?(?:https?://)?(?:node\d+(?::\d+)?,)*([A-Za-z][\w.-]+)",
        true,
    ),
    (
        "a host",
        r"\b(?:ssh|scp|sftp)\s(?:\S+\s){0,6}?[\w.-]+@([A-Za-z][\w.-]+)|^[\w.-]+@([A-Za-z][\w.-]+):[~/]",
        false,
    ),
    ("a host", r"^(?:\$ |\+ )?ssh ([a-z][\w.-]+) [a-z]", true),
    (
        "a host",
        r"@([\w.-]+)'s password|Connection to ([\w.-]+) closed",
        false,
    ),
    (
        "a host",
        r"(?i)\b(?:pods?|nodes?|host|hostname) [\\\x22']*([a-z][a-z0-9.-]+)[\\\x22']*(?:\s|$)",
        true,
    ),
    (
        "a host",
        r"^srun: error: ([a-z][a-z0-9.-]+):|\bexec -it ([a-z][\w.-]+)|\bassigned [\w-]+/([a-z][\w.-]+) to",
        false,
    ),
    (
        "a host",
        r"(?:endpoint|--address|master[_-]addr)[ =]([a-z][\w.-]+)(?::\d|\s|$)",
        true,
    ),
    (
        "an account",
        r"\bAccount=([a-z][\w.-]+)|\barn:aws:s3:::([a-z][\w.-]+)|(?:^|\s)[uU]ser ([a-z][\w.-]+) |\blogin: ([a-z][\w.-]+)",
        true,
    ),
    ("a host", r" ON ([a-z][\w.-]+) ", true),
    (
        "a host",
        r"\bkubectl (?:logs|exec) (?:-\w+ )*([a-z][\w.-]+)|^([a-z][\w.-]+) slots=\d",
        true,
    ),
    (
        "a host",
        r"^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) [\w./-]+(?:\[\d+\])?:",
        false,
    ),
    (
        "a namespace",
        r"\bnamespaces? [\\\x22']+([a-z][a-z0-9.-]+)|\bkubectl (?:\S+ )*-n ([a-z][a-z0-9.-]+)",
        true,
    ),
    (
        "a user",
        r"\b[uU]ser(?:[nN]ame|Id)?=([a-z][\w.-]{2,})|\x22user(?:name)?\x22:\s?\x22([a-z][\w.-]{2,})\x22|(?:^|\s)--user(?:name)? ([a-z][\w.-]{2,})",
        true,
    ),
    (
        "a user",
        r"/(?:home|homes|users)/([a-z][\w.-]+)|\barn:aws:iam::\w+:(?:user|role)/([\w.-]+)",
        false,
    ),
];
/// Words of a header of hosts.
const COLUMNS: [&str; 6] = [
    "READY",
    "ROLES",
    "NODELIST(REASON)",
    "NODELIST",
    "MACHINE_TYPE",
    "INTERNAL_IP",
];
/// Shortest word that is judged by its letters.
const LETTERS_MIN: usize = 6;

static PATTERNS: LazyLock<Option<Vec<Pattern>>> = LazyLock::new(|| {
    RULES
        .iter()
        .map(|(_, rule, _)| Pattern::new(rule))
        .collect()
});

/// What one line at least must have for the rules to be tried.
fn may_name(line: &str) -> bool {
    static STEMS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let stems = " NCCL |HOST|MASTER|NAME|srun|exec|assigned|address|addr|endpoint|Account|login|ost|ode|ODE|ssh|scp|sftp|[uU]ser|[pP]od|namespace|kubectl|@| ON | slots=|^[JFMASOND]|-[Hw] |arn:|/home|password";
        Regex::new(stems).ok()
    });
    STEMS.as_ref().is_none_or(|stems| stems.is_match(line))
}

/// The names in a line.
pub(super) fn find(line: &str) -> Vec<Found> {
    if !may_name(line) {
        return Vec::new();
    }
    let Some(patterns) = &*PATTERNS else {
        return vec![found("a text that could not be checked", 0..line.len())];
    };
    let mut all = Vec::new();
    for (pattern, (what, _, is_word)) in patterns.iter().zip(RULES) {
        let found_here = pattern.on(line).map(|regex| regex.captures_iter(line));
        for captures in found_here.into_iter().flatten() {
            let Some(name) = captures.iter().skip(1).flatten().next() else {
                continue;
            };
            let is_common = COMMON.contains(&name.as_str());
            let is_name = !is_common && !is_list_of_placeholders(name.as_str());
            if is_name && (!is_word || is_given(name.as_str())) {
                all.push(found(what, name.range()));
            }
        }
    }
    all
}

/// Whether a word is no word of ours: it has a number behind a dash, or unknown triples of letters.
pub(super) fn is_given(word: &str) -> bool {
    let word = word.trim_end_matches('.');
    let is_numbered = word.contains('-')
        && word.ends_with(|letter: char| letter.is_ascii_digit())
        && !word.contains('.');
    is_numbered || word.len() >= LETTERS_MIN && unseen(word) > 0
}

/// `node0..node3`, `node0,node1`.
fn is_list_of_placeholders(word: &str) -> bool {
    word.split([',', '.']).all(is_placeholder)
}

/// The last header of hosts.
#[derive(Default)]
pub(super) struct Table {
    columns: Vec<usize>,
    count: usize,
}

impl Table {
    /// The names in a row.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let mut cells = line.split_whitespace();
        let Some(first) = cells.next() else {
            self.columns.clear();
            return Vec::new();
        };
        let is_title = first == "NAME" || first == "JOBID";
        if is_title && COLUMNS.iter().any(|column| line.contains(column)) {
            let names = line.split_whitespace().enumerate();
            let hosts = names.filter(|(_, name)| {
                *name == "NAME" && first == "NAME"
                    || *name == "USER"
                    || name.starts_with("NODELIST")
            });
            self.columns = hosts.map(|(at, _)| at).collect();
            self.count = line.split_whitespace().count();
            return Vec::new();
        }
        if self.columns.is_empty() {
            return Vec::new();
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let columns = self.columns.iter().filter(|_| cells.len() == self.count);
        let names = columns.filter_map(|at| cells.get(*at)).filter(|name| {
            name.starts_with(|letter: char| letter.is_ascii_alphabetic()) && !is_placeholder(name)
        });
        let begin = |name: &str| name.as_ptr() as usize - line.as_ptr() as usize;
        names
            .map(|name| found("a host", begin(name)..begin(name) + name.len()))
            .collect()
    }
}

fn found(what: &'static str, at: Range<usize>) -> Found {
    Found { what, at }
}
