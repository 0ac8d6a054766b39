//! Places in which people write names that they chose: behind a key or an option (`cluster=`, `--job-name`), behind a
//! word for what has names (`job`, `cluster`), and folders and variables of a
//! site (`own.rs`). A name there may consist of ordinary words and still tell whose job it is.
//!
//! Not here: hosts, users, buckets and projects in formats that are known, which are replaced before.
#![forbid(unsafe_code)]

use super::{COMMON_NAMES, own};
use std::ops::Range;

/// Shortest word that tells something, in letters.
pub(super) const LETTERS_MIN: usize = 4;
/// Most bytes before a word that decide whether it is a name.
const BEFORE_BYTES_MAX: usize = 512;

/// Where a word for a thing announces its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum As {
    /// An option: `--name X`.
    Option,
    /// Also a key before `=` or in quotes: `project=X`, `"project": "X"`.
    Signed,
    /// Also a key before a colon: `team: X`.
    Key,
}

/// Where a word for a thing announces its name in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Noun {
    /// Seldom.
    No,
    /// Before a name in quotes, or with a number: `job train-data-7`.
    Joined,
}

/// Words for things that people name, in lower case without signs, as ends of keys and in sentences. A key may have
/// `name` or `id` behind them.
const THINGS: [(&str, As, Noun); 51] = [
    ("account", As::Key, Noun::No),
    ("appname", As::Key, Noun::No),
    ("bucket", As::Signed, Noun::Joined),
    ("checkpointname", As::Key, Noun::No),
    ("cluster", As::Key, Noun::Joined),
    ("context", As::Key, Noun::Joined),
    ("customer", As::Key, Noun::Joined),
    ("dataset", As::Key, Noun::No),
    ("department", As::Key, Noun::No),
    ("deployment", As::Key, Noun::Joined),
    ("entity", As::Key, Noun::No),
    ("exp", As::Signed, Noun::No),
    ("expname", As::Key, Noun::No),
    ("experiment", As::Key, Noun::Joined),
    ("host", As::Key, Noun::Joined),
    ("instance", As::Signed, Noun::Joined),
    ("job", As::Key, Noun::Joined),
    ("jobset", As::Key, Noun::No),
    ("logname", As::Signed, Noun::No),
    ("machine", As::Option, Noun::Joined),
    ("modelname", As::Key, Noun::No),
    ("name", As::Option, Noun::No),
    ("namespace", As::Signed, Noun::No),
    ("node", As::Option, Noun::Joined),
    ("nodename", As::Key, Noun::No),
    ("nodepool", As::Signed, Noun::No),
    ("org", As::Key, Noun::No),
    ("organization", As::Key, Noun::No),
    ("owner", As::Key, Noun::No),
    ("partition", As::Key, Noun::Joined),
    ("pod", As::Option, Noun::Joined),
    ("pool", As::Option, Noun::Joined),
    ("project", As::Key, Noun::Joined),
    ("projectname", As::Key, Noun::No),
    ("queue", As::Key, Noun::Joined),
    ("rdzvid", As::Signed, Noun::No),
    ("run", As::Option, Noun::No),
    ("rungroup", As::Key, Noun::No),
    ("runid", As::Signed, Noun::No),
    ("runname", As::Key, Noun::No),
    ("service", As::Option, Noun::No),
    ("servicename", As::Key, Noun::No),
    ("taskname", As::Key, Noun::No),
    ("team", As::Key, Noun::Joined),
    ("tenant", As::Key, Noun::Joined),
    ("user", As::Key, Noun::No),
    ("username", As::Signed, Noun::No),
    ("wandbname", As::Key, Noun::No),
    ("wandbproject", As::Key, Noun::No),
    ("workload", As::Key, Noun::No),
    ("workspace", As::Key, Noun::Joined),
];
/// Options of one letter whose value is a name, and beginnings of the commands that have them; of `-J`, any.
const SHORT: [(&str, &[&str]); 4] = [
    ("-J", &[""]),
    ("-A", &SLURM),
    ("-p", &SLURM),
    ("-n", &["kubectl", "helm"]),
];
const SLURM: [&str; 7] = [
    "srun", "sbatch", "salloc", "squeue", "sacct", "scontrol", "#SBATCH",
];
/// What NCCL writes before the value of a variable.
const SET_TO: &str = " set by environment to ";
/// What stands before a host and a project.
const BEFORE_NAME: [&str; 2] = ["COMPLETE on ", "config set project "];
/// Values that tell nothing.
const COMMON: [&str; 29] = [
    "admin",
    "batch",
    "chief",
    "compute",
    "debug",
    "default",
    "false",
    "global",
    "local",
    "localhost",
    "main",
    "master",
    "memory",
    "null",
    "none",
    "normal",
    "test",
    "train",
    "training",
    "true",
    "unknown",
    "unset",
    "missing",
    "user",
    "running",
    "ready",
    "workers",
    "latest",
    "worker",
];
/// The text before a place, as far as it decides whether a name stands there.
fn before(text: &str, at: usize) -> &str {
    &text[text.floor_char_boundary(at.saturating_sub(BEFORE_BYTES_MAX))..at]
}

/// Whether a known word stands where people write a name that they chose.
pub(super) fn is_name(text: &str, word: Range<usize>) -> bool {
    let (before, behind, name) = (before(text, word.start), &text[word.end..], &text[word]);
    if own::is_variable(name) {
        return own::is_variable_of_site(before, behind, name);
    }
    let has_lower = name.contains(|letter: char| letter.is_ascii_lowercase());
    let tells = || {
        let mut common = COMMON.iter().chain(&COMMON_NAMES);
        !common.any(|common| common.eq_ignore_ascii_case(name))
    };
    let is_hex = || name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.len() >= LETTERS_MIN
        && has_lower
        && (is_value(before) && tells() && !is_hex()
            || is_in_message(before) && tells() && !is_hex()
            || is_behind_noun(before, name)
            || own::is_folder(before, behind, name))
}

/// Whether a name can be told from operations and modules wherever it stands: `all_reduce` is one of these.
pub(super) fn is_certain(name: &str) -> bool {
    is_joined(name) && has_digit(name) && parts(name).count() > 1
}

fn has_digit(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_quote(letter: char) -> bool {
    "\"'`\\".contains(letter)
}

/// Whether a text ends with a key or an option and its sign.
fn is_value(before: &str) -> bool {
    let unquoted = before.trim_end_matches(is_quote);
    let is_quoted = unquoted.len() < before.len();
    // A file in TOML has spaces beside the sign.
    let spaced = unquoted.strip_suffix(" = ").filter(|_| is_quoted);
    if let Some(key) = spaced.or_else(|| unquoted.strip_suffix('=')) {
        let key = key.trim_end_matches(is_quote);
        return announces(last_word(key), As::Signed) || is_option(key, true);
    }
    if let Some(key) = unquoted.strip_suffix(SET_TO) {
        return announces(last_word(key), As::Signed);
    }
    // Without a space, key and value are in quotes.
    let key = unquoted.strip_suffix(": ");
    let joined = || {
        unquoted
            .strip_suffix(':')
            .filter(|key| is_quoted && key.ends_with(is_quote))
    };
    if let Some(key) = key.or_else(joined) {
        let name = last_word(key.trim_end_matches(is_quote));
        if key.ends_with(is_quote) {
            return announces(name, As::Signed);
        }
        // A sentence has a colon behind such words too.
        let outer = key[..key.len() - name.len()].trim_end_matches(' ');
        let is_entry = outer.is_empty() || outer.ends_with(['\n', '{', ',', '"', '\'', '-']);
        return is_entry && announces(name, As::Key);
    }
    unquoted
        .strip_suffix(' ')
        .is_some_and(|option| is_option(option, false))
}

/// Whether an option ends a text; any of them stands behind `=`.
fn is_option(text: &str, has_sign: bool) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let line = || text.rsplit('\n').next().unwrap_or_default();
    let is_of = |commands: &[&str]| {
        let mut words = line().split(|letter: char| letter.is_whitespace() || letter == '/');
        commands == [""] || words.any(|word| commands.contains(&word))
    };
    let mut short = SHORT.iter();
    word.strip_prefix("--")
        .is_some_and(|name| announces(name, As::Option))
        || !has_sign && short.any(|(option, commands)| word == *option && is_of(commands))
}

/// Whether a key ends with a word for a thing: `SLURM_JOB_NAME`, `jobName`, `cluster`.
fn announces(key: &str, place: As) -> bool {
    let plain = |part: &str| part.replace(['_', '-', '.'], "").to_ascii_lowercase();
    let ends = key.match_indices(['_', '-', '.']).map(|(at, _)| &key[at..]);
    let is_thing = |end: String| {
        let stem = end.strip_suffix("name").or_else(|| end.strip_suffix("id"));
        let is_of = |thing: &str| thing == end || Some(thing) == stem;
        THINGS
            .iter()
            .any(|(thing, least, _)| *least >= place && is_of(thing))
    };
    std::iter::once(key).chain(ends).map(plain).any(is_thing)
}

fn is_in_message(before: &str) -> bool {
    BEFORE_NAME.iter().any(|begin| before.ends_with(begin))
}

/// Whether a name stands behind a word for what has one.
fn is_behind_noun(before: &str, name: &str) -> bool {
    let unquoted = before.trim_end_matches(is_quote);
    let Some(gap) = unquoted.strip_suffix(' ') else {
        return false;
    };
    let word = last_word(gap).to_ascii_lowercase();
    // Of Kubernetes: `pods "X" not found`.
    let singular = word.strip_suffix('s').unwrap_or(&word);
    let is_quoted = unquoted.len() < before.len();
    let is_of = |thing: &str| thing == word || is_quoted && thing == singular;
    let noun = THINGS.iter().find(|(thing, ..)| is_of(thing));
    let Some((_, place, noun)) = noun else {
        return false;
    };
    if is_quoted {
        let is_named = *noun > Noun::No || singular == "namespace";
        return is_named && *place > As::Option
            || ["pod", "pool", "node", "machine"].contains(&singular)
                && (is_joined(name) || !name.contains('_'))
                && !COMMON.contains(&name);
    }
    *noun > Noun::No && is_joined(name) && has_digit(name)
}

fn last_word(text: &str) -> &str {
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    &text[text.trim_end_matches(is_of_word).len()..]
}

/// Parts that are words.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let is_word =
        |part: &&str| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.split(['-', '_']).filter(is_word)
}

/// Whether a name has two words that a sign joins, or one and a number.
pub(super) fn is_joined(name: &str) -> bool {
    let has_number = name
        .split(['-', '_'])
        .any(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let count = parts(name).count();
    count > 1
        || count == 1
            && has_number
            && name.contains(['-', '_'])
            && parts(name).any(|part| part.len() > LETTERS_MIN)
}

#[cfg(test)]
mod tests {
    use crate::redact::Redactor;

    fn left(text: &str) -> String {
        Redactor::default().known_words(text)
    }

    #[test]
    fn a_name_of_ordinary_words_is_replaced_where_names_stand() {
        for (text, name) in [
            ("srun --job-name train-data-7 --ntasks 8", "train-data-7"),
            ("srun -J model-training x", "model-training"),
            ("docker run --name=openai-train x", "openai-train"),
            (
                "cluster=network_group_cluster job=google",
                "network_group_cluster",
            ),
            ("cluster=local job=google", "google"),
            ("\"experiment\": \"large-model\"", "large-model"),
            ("SLURM_JOB_NAME=data_train", "data_train"),
            ("job train-data-7 failed", "train-data-7"),
            ("on host train-data-7", "train-data-7"),
            ("key=/train-data-7/b/", "train-data-7"),
            ("a\u{85}--name train-data-7", "train-data-7"),
        ] {
            let left = left(text);
            assert!(!left.contains(name), "{left}");
        }
        let twice = left("read train-data-7 of job train-data-7");
        assert_eq!(twice, "read word0 of job word0");
    }

    #[test]
    fn a_name_of_any_words_is_replaced_in_every_layout() {
        let layouts = include_str!("../../../probes/node/redact/chosen.txt");
        let mut left = Vec::new();
        for layout in layouts.lines().filter(|line| !line.starts_with('#')) {
            for name in ["train-data-7", "large-model", "network-group", "google"] {
                let text = Redactor::default().redact_foreign(&layout.replace("VALUE", name));
                left.extend(text.contains(name).then_some(text));
            }
        }
        assert!(left.is_empty(), "{}: {}", left.len(), left.join("\n"));
    }

    #[test]
    fn what_logs_say_of_themselves_stays() {
        for text in [
            "Unable to create step for job: Invalid user credential",
            "job:jax_worker/replica:0/task:2 job step 3, cluster-wide",
            "partition=batch job=1234 name=all_reduce op: all_reduce",
        ] {
            assert_eq!(left(text), text);
        }
    }
}
