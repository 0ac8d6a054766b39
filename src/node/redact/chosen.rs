//! Places in which people write names that they chose: behind a key or an option (`cluster=`, `--job-name`), behind a
//! word for what has names (`job`, `cluster`), and folders and variables of a
//! site (`own.rs`). A name there may consist of ordinary words and still tell whose job it is.
//!
//! Not here: hosts, users, buckets and projects in formats that are known, which are replaced before.
#![forbid(unsafe_code)]

use super::own;
use std::ops::Range;

/// Shortest word that tells something, in letters.
pub(super) const LETTERS_MIN: usize = 4;
/// Most bytes before a word that decide whether it is a name.
const BEFORE_BYTES_MAX: usize = 512;
/// Ends of keys and options whose value is a name, in lower case without signs.
const KEYS: [&str; 37] = [
    "account",
    "appname",
    "cluster",
    "clustername",
    "context",
    "customer",
    "dataset",
    "datasetname",
    "department",
    "deployment",
    "entity",
    "experiment",
    "experimentname",
    "host",
    "hostid",
    "hostname",
    "expname",
    "job",
    "jobname",
    "jobset",
    "nodename",
    "org",
    "organization",
    "owner",
    "partition",
    "projectname",
    "queue",
    "rungroup",
    "runname",
    "taskname",
    "team",
    "tenant",
    "workload",
    "workspace",
    "servicename",
    "wandbname",
    "wandbproject",
];
/// Options whose value is a name. As keys in a text, these words seldom have one.
const OPTIONS: [&str; 5] = ["name", "namespace", "project", "run", "service"];
/// Options of one letter whose value is a name, and beginnings of the commands that have them; of `-J`, any.
const SHORT: [(&str, &[&str]); 4] = [
    ("-J", &[""]),
    ("-A", &SLURM),
    ("-p", &SLURM),
    ("-n", &["kubectl", "helm"]),
];
const SLURM: [&str; 6] = ["srun", "sbatch", "salloc", "squeue", "sacct", "scontrol"];
/// What NCCL writes before the value of a variable, and what stands before a host.
const SET_TO: &str = " set by environment to ";
const BEFORE_HOST: [&str; 2] = ["COMPLETE on ", "config set project "];
/// Words that a name with a number or in quotes follows.
const NOUNS: [&str; 13] = [
    "bucket",
    "cluster",
    "context",
    "experiment",
    "host",
    "job",
    "machine",
    "node",
    "partition",
    "pool",
    "project",
    "queue",
    "workspace",
];
/// Values that tell nothing.
const COMMON: [&str; 21] = [
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
    let has_number = name.bytes().any(|byte| byte.is_ascii_digit());
    if name.len() < LETTERS_MIN || !name.contains(|letter: char| letter.is_ascii_lowercase()) {
        return false;
    }
    let is_chosen = match place(before) {
        Some(Place::Value) => {
            !COMMON.contains(&name) && !name.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        Some(Place::Noun { is_quoted: false }) => is_joined(name) && has_number,
        Some(Place::Noun { is_quoted: true }) => {
            (is_joined(name) || !name.contains('_')) && !COMMON.contains(&name)
        }
        None => false,
    };
    is_chosen || own::is_folder(before, behind, name)
}

/// Whether a name can be told from operations and modules wherever it stands: `all_reduce` is one of these.
pub(super) fn is_certain(name: &str) -> bool {
    is_joined(name) && name.bytes().any(|byte| byte.is_ascii_digit()) && parts(name).count() > 1
}

enum Place {
    /// The value of a key or an option.
    Value,
    /// Behind a word for what has names.
    Noun { is_quoted: bool },
}

/// The place that begins behind a text.
fn place(before: &str) -> Option<Place> {
    let is_quote = |letter: char| "\"'`\\".contains(letter);
    let unquoted = before.trim_end_matches(is_quote);
    let is_quoted = unquoted.len() < before.len();
    // A file in TOML has spaces beside the sign.
    let spaced = unquoted.strip_suffix(" = ").filter(|_| is_quoted);
    if let Some(key) = spaced.or_else(|| unquoted.strip_suffix('=')) {
        let key = key.trim_end_matches(is_quote);
        let is_key = is_key(last_word(key), &KEYS);
        return is_key.then_some(Place::Value).or_else(|| option(key, true));
    }
    if let Some(key) = unquoted.strip_suffix(SET_TO) {
        return is_key(last_word(key), &KEYS).then_some(Place::Value);
    }
    if BEFORE_HOST.iter().any(|host| unquoted.ends_with(host)) {
        return Some(Place::Value);
    }
    // Without a space, key and value are in quotes.
    let key = unquoted.strip_suffix(": ");
    let joined = || {
        unquoted
            .strip_suffix(':')
            .filter(|key| is_quoted && key.ends_with(is_quote))
    };
    if let Some(key) = key.or_else(joined) {
        let key = key.trim_end_matches(is_quote);
        let name = last_word(key);
        // A sentence has a colon behind such words too.
        let outer = key[..key.len() - name.len()].trim_end_matches(' ');
        let is_entry = outer.is_empty() || outer.ends_with(['\n', '{', ',', '"', '\'', '-']);
        return (is_entry && is_key(name, &KEYS)).then_some(Place::Value);
    }
    let gap = unquoted.strip_suffix(' ')?;
    let noun = || {
        NOUNS
            .iter()
            .any(|noun| last_word(gap).eq_ignore_ascii_case(noun))
    };
    option(gap, false).or_else(|| noun().then_some(Place::Noun { is_quoted }))
}

/// The value of an option that ends a text; any of them stands behind `=`.
fn option(text: &str, has_sign: bool) -> Option<Place> {
    let short = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let long = short.strip_prefix("--");
    let is_long = long.is_some_and(|name| is_key(name, &KEYS) || is_key(name, &OPTIONS));
    let line = || text.rsplit('\n').next().unwrap_or_default();
    let is_of = |commands: &[&str]| {
        let mut words = line().split(|letter: char| letter.is_whitespace() || letter == '/');
        commands == [""] || words.any(|word| commands.contains(&word))
    };
    let mut all = SHORT.iter();
    let is_short = !has_sign && all.any(|(option, commands)| short == *option && is_of(commands));
    (is_long || is_short).then_some(Place::Value)
}

/// Whether a key ends with one of these: `SLURM_JOB_NAME`, `jobName`, `cluster`.
fn is_key(key: &str, known: &[&str]) -> bool {
    let plain = |part: &str| part.replace(['_', '-', '.'], "").to_ascii_lowercase();
    let whole = plain(key);
    let ends = key
        .match_indices(['_', '-', '.'])
        .map(|(at, _)| plain(&key[at..]));
    std::iter::once(whole)
        .chain(ends)
        .any(|end| known.contains(&end.as_str()))
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
