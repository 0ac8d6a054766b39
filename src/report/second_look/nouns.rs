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
/// The first column of a listing of jobs, nodes or pods, and others that only such listings have.
const FIRST_COLUMNS: [&str; 6] = [
    "JOBID",
    "NAME",
    "NAMESPACE",
    "NODE",
    "NODELIST",
    "PARTITION",
];
const COLUMNS: [&str; 11] = [
    "AVAIL",
    "INTERNAL_IP",
    "MACHINE_TYPE",
    "NODELIST",
    "NODELIST(REASON)",
    "READY",
    "ROLES",
    "ST",
    "STATE",
    "STATUS",
    "TIMELIMIT",
];
/// What the names of a column are of.
const NAMED_COLUMNS: [(&str, &[&str]); 5] = [
    ("a host", &["NODE", "NODELIST", "NODELIST(REASON)"]),
    ("a user", &["USER", "OWNER"]),
    ("an account", &["ACCOUNT", "GROUP"]),
    ("a namespace", &["NAMESPACE"]),
    (
        "a name that someone chose",
        &["JOBNAME", "NAME", "PARTITION", "QUEUE"],
    ),
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

/// The last header of a listing.
#[derive(Default)]
pub(super) struct Table {
    /// Where each column stands, and what its names are of.
    columns: Vec<(Range<usize>, Option<&'static str>)>,
    has_bars: bool,
}

impl Table {
    /// The names in a row.
    pub(super) fn find(&mut self, line: &str) -> Vec<Found> {
        let line = line.trim_end();
        let has_bars = line.contains('|');
        let titles = cells(line, has_bars);
        if is_header(line, &titles) {
            let what = |title: &Range<usize>| {
                let title = line[title.clone()].to_ascii_uppercase();
                let named = NAMED_COLUMNS
                    .iter()
                    .find(|(_, titles)| titles.contains(&&*title));
                named.map(|(what, _)| *what)
            };
            let columns = titles.iter().map(|title| (title.clone(), what(title)));
            (self.columns, self.has_bars) = (columns.collect(), has_bars);
            return Vec::new();
        }
        if titles.is_empty() {
            self.columns.clear();
        }
        if self.columns.is_empty() {
            return Vec::new();
        }
        let cells = cells(line, self.has_bars);
        let names = cells.iter().enumerate().filter_map(|(number, cell)| {
            let what = self.what(number, cells.len(), cell)?;
            let name = line[cell.clone()].trim_end_matches('*');
            let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && !COMMON.contains(&name)
                && !is_placeholder(name.split('[').next().unwrap_or_default());
            is_name.then(|| found(what, cell.start..cell.start + name.len()))
        });
        names.collect()
    }

    /// What a cell is the name of. A row with fewer words than the header has empty cells; one with more has spaces
    /// in its last ones.
    fn what(&self, number: usize, count: usize, cell: &Range<usize>) -> Option<&'static str> {
        let overlaps =
            |(title, _): &&(Range<usize>, _)| title.start < cell.end && cell.start < title.end;
        let column = match count < self.columns.len() {
            true => self.columns.iter().find(overlaps),
            false => self.columns.get(number),
        };
        column?.1
    }
}

/// Whether a line is the header of a listing of jobs, nodes or pods.
fn is_header(line: &str, titles: &[Range<usize>]) -> bool {
    let is_one_of = |titles: &[&str], title: &Range<usize>| {
        titles
            .iter()
            .any(|one| line[title.clone()].eq_ignore_ascii_case(one))
    };
    let Some((first, others)) = titles.split_first() else {
        return false;
    };
    is_one_of(&FIRST_COLUMNS, first) && others.iter().any(|title| is_one_of(&COLUMNS, title))
}

/// The words of a row, or what stands between its bars.
fn cells(line: &str, has_bars: bool) -> Vec<Range<usize>> {
    let is_end = |(at, letter): (usize, char)| {
        let ends = if has_bars {
            letter == '|'
        } else {
            letter.is_ascii_whitespace()
        };
        ends.then_some(at)
    };
    let mut begin = 0;
    let mut cells = Vec::new();
    for end in line.char_indices().filter_map(is_end).chain([line.len()]) {
        if has_bars || begin < end {
            cells.push(begin..end);
        }
        begin = (end + 1).min(line.len());
    }
    cells
}

fn found(what: &'static str, at: Range<usize>) -> Found {
    Found { what, at }
}
