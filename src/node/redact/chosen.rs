//! Places in which people write names that they chose: behind a key or an option (`cluster=`, `--job-name`), behind a
//! word for what has names (`job`, `cluster`), in messages of programs (`Syncing run X`), and folders and variables of a
//! site (`own.rs`). A name there may consist of ordinary words and still tell whose job it is.
//!
//! Not here: hosts, users, buckets and projects in formats that are known, which are replaced before.
#![forbid(unsafe_code)]

use super::{COMMON_NAMES, own, sentences};
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
    /// Before a name in quotes, with a number or with two words: `job train-data`.
    Joined,
    /// Also before one word, of which something is said: `cluster harbor is down`.
    Word,
}

/// Words for things that people name, in lower case without signs, as ends of keys and in sentences. A key may have
/// `name` or `id` behind them.
const THINGS: [(&str, As, Noun); 55] = [
    ("account", As::Key, Noun::No),
    ("appname", As::Key, Noun::No),
    ("bucket", As::Signed, Noun::Word),
    ("checkpointname", As::Key, Noun::No),
    ("cluster", As::Key, Noun::Word),
    ("context", As::Key, Noun::Joined),
    ("customer", As::Key, Noun::Word),
    ("dataset", As::Key, Noun::No),
    ("department", As::Key, Noun::No),
    ("group", As::Option, Noun::No),
    ("profile", As::Option, Noun::No),
    ("lab", As::Signed, Noun::No),
    ("submission", As::Option, Noun::No),
    ("deployment", As::Key, Noun::Word),
    ("entity", As::Key, Noun::No),
    ("exp", As::Signed, Noun::No),
    ("expname", As::Key, Noun::No),
    ("experiment", As::Key, Noun::Word),
    ("host", As::Key, Noun::Word),
    ("instance", As::Signed, Noun::Word),
    ("job", As::Key, Noun::Word),
    ("jobset", As::Key, Noun::No),
    ("logname", As::Signed, Noun::No),
    ("machine", As::Option, Noun::Word),
    ("modelname", As::Key, Noun::No),
    ("name", As::Option, Noun::No),
    ("namespace", As::Signed, Noun::No),
    ("node", As::Option, Noun::Joined),
    ("nodename", As::Key, Noun::No),
    ("nodepool", As::Signed, Noun::No),
    ("org", As::Key, Noun::No),
    ("organization", As::Key, Noun::No),
    ("owner", As::Key, Noun::No),
    ("partition", As::Key, Noun::Word),
    ("pod", As::Option, Noun::Joined),
    ("pool", As::Option, Noun::Word),
    ("project", As::Key, Noun::Word),
    ("projectname", As::Key, Noun::No),
    ("queue", As::Key, Noun::Word),
    ("rdzvid", As::Signed, Noun::No),
    ("run", As::Option, Noun::No),
    ("rungroup", As::Key, Noun::No),
    ("runid", As::Signed, Noun::No),
    ("runname", As::Key, Noun::No),
    ("service", As::Option, Noun::No),
    ("servicename", As::Key, Noun::No),
    ("taskname", As::Key, Noun::No),
    ("team", As::Key, Noun::Word),
    ("tenant", As::Key, Noun::Word),
    ("user", As::Key, Noun::No),
    ("username", As::Signed, Noun::No),
    ("wandbname", As::Key, Noun::No),
    ("wandbproject", As::Key, Noun::No),
    ("workload", As::Key, Noun::No),
    ("workspace", As::Key, Noun::Word),
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
/// What stands before and behind a name in messages and commands of programs.
const MESSAGES: [(&str, &str); 28] = [
    ("access denied for ", "/"),
    ("property [core/project] to ", ""),
    ("entry generated for ", ""),
    ("Authenticating to ", ":"),
    ("Connecting to ", " ["),
    ("Host '", "' is known"),
    ("COMPLETE on ", ""),
    ("config set project ", ""),
    ("Syncing run ", ""),
    ("View run ", " at"),
    ("Synced ", ":"),
    ("logged in as: ", ""),
    (" (", "). Use `wandb"),
    ("Cloning into '", "'"),
    ("tagged ", ":"),
    ("Pulling image \"", ""),
    ("assigned ", "/"),
    (".batch/", ""),
    (".apps/", ""),
    ("gcr.io/", "/"),
    ("hdfs://", "/"),
    ("srun: error: ", ": task"),
    (" ON ", " CANCELLED"),
    ("Connection to ", " closed"),
    ("kubectl logs ", ""),
    ("exec -it ", ""),
    ("owned by ", ""),
    ("on node ", " exited"),
];
/// Commands that the name of a thing follows, behind their options.
const COMMANDS: [&str; 15] = [
    "ssh",
    "helm install",
    "helm upgrade",
    "helm uninstall",
    "ray job logs",
    "ray job status",
    "ray job stop",
    "gcloud compute ssh",
    "clusters get-credentials",
    "clusters describe",
    "kubectl logs",
    "create secret docker-registry",
    "create secret generic",
    "create namespace",
    "scontrol show job",
];
/// Registries of images, which the name of an owner follows, beside hosts that have `registry` in their name.
const REGISTRIES: [&str; 8] = [
    "docker.io",
    "gcr.io",
    "ghcr.io",
    "quay.io",
    "nvcr.io",
    ".pkg.dev",
    ".azurecr.io",
    ".amazonaws.com",
];
/// Owners of public images.
const PUBLISHERS: [&str; 7] = [
    "charts",
    "library",
    "nvidia",
    "pytorch",
    "rocm",
    "simple",
    "tensorflow",
];
/// What kubectl says that it did to an object.
const DONE_TO: [&str; 7] = [
    " created",
    " configured",
    " unchanged",
    " deleted",
    " patched",
    " scaled",
    " restarted",
];
/// What is said of a thing behind its name.
const SAID: [&str; 12] = [
    " is ",
    " was ",
    " has ",
    " does ",
    " failed",
    " not found",
    " started",
    " exited",
    " stopped",
    ".\n",
    "\n",
    ",",
];
/// Words that say something of a thing, and no name of one.
const ATTRIBUTES: [&str; 108] = [
    "adapter",
    "address",
    "after",
    "again",
    "agent",
    "allocation",
    "array",
    "been",
    "before",
    "buffer",
    "buffers",
    "cannot",
    "capacity",
    "client",
    "config",
    "configuration",
    "control",
    "controller",
    "could",
    "count",
    "creation",
    "data",
    "does",
    "error",
    "errors",
    "events",
    "failure",
    "file",
    "from",
    "group",
    "groups",
    "have",
    "here",
    "id",
    "image",
    "info",
    "installs",
    "interface",
    "into",
    "itself",
    "job",
    "join",
    "kernel",
    "key",
    "keys",
    "lacks",
    "level",
    "limit",
    "list",
    "manager",
    "member",
    "members",
    "memory",
    "mode",
    "must",
    "name",
    "names",
    "network",
    "nodes",
    "notation",
    "only",
    "owner",
    "pair",
    "pairs",
    "pointer",
    "policy",
    "port",
    "ports",
    "quota",
    "receives",
    "release",
    "resources",
    "scheduler",
    "script",
    "server",
    "settings",
    "setup",
    "should",
    "side",
    "size",
    "space",
    "state",
    "status",
    "step",
    "steps",
    "storage",
    "template",
    "that",
    "then",
    "this",
    "time",
    "timeout",
    "today",
    "together",
    "type",
    "until",
    "update",
    "usage",
    "version",
    "were",
    "what",
    "when",
    "which",
    "while",
    "will",
    "with",
    "without",
    "would",
];
/// Parts of a word of two that describe a thing: `multi-node`, `topology-aware`.
const DESCRIBING: [&str; 29] = [
    "aware", "based", "bit", "bound", "cross", "hard", "head", "high", "inter", "intra", "level",
    "long", "low", "many", "multi", "non", "off", "only", "out", "per", "post", "pre", "re",
    "self", "short", "side", "single", "un", "wide",
];
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
/// Whether a word of a listing says whose it is.
pub(super) fn tells(name: &str) -> bool {
    let mut common = COMMON.iter().chain(&COMMON_NAMES);
    let is_number = || name.bytes().all(|byte| byte.is_ascii_digit());
    name.len() >= LETTERS_MIN
        && !is_number()
        && !common.any(|common| common.eq_ignore_ascii_case(name))
}

/// The text before a place, as far as it decides whether a name stands there.
pub(super) fn before(text: &str, at: usize) -> &str {
    &text[text.floor_char_boundary(at.saturating_sub(BEFORE_BYTES_MAX))..at]
}

/// Whether a known word stands where people write a name that they chose.
pub(super) fn is_name(text: &str, word: Range<usize>) -> bool {
    let (before, behind, name) = (before(text, word.start), &text[word.end..], &text[word]);
    if own::is_variable(name) {
        return own::is_variable_of_site(before, behind, name);
    }
    let has_lower = name.contains(|letter: char| letter.is_ascii_lowercase());
    let tells = || tells(name);
    let is_hex = || name.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.len() >= LETTERS_MIN
        && has_lower
        && (is_value(before) && tells() && !is_hex()
            || is_in_message(before, behind) && tells() && !is_hex()
            || is_of_command(before, behind, name) && tells()
            || (is_image_owner(before, behind, name) || is_in_key(before)) && tells()
            || is_behind_noun(before, behind, name)
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

/// Whether a command ends a text, with options behind it.
fn is_of_command(before: &str, behind: &str, name: &str) -> bool {
    let Some(line) = before
        .rsplit('\n')
        .next()
        .and_then(|line| line.strip_suffix(' '))
    else {
        return false;
    };
    let is_option =
        |word: &str| word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_digit());
    let mut command = line;
    while let Some((rest, last)) = command.rsplit_once(' ') {
        if !is_option(last) {
            break;
        }
        command = rest;
    }
    // One word alone is a command at the begin of a line, behind a prompt or a sign of the shell.
    let begins = |rest: &str| {
        let rest = rest.trim_end_matches(' ');
        rest.is_empty() || rest.ends_with(['$', '#', '+', ';', '&', '|', '%'])
    };
    let is_last = behind.is_empty() || behind.starts_with([' ', '\n', '"', '\'']);
    let is = |one: &&str| {
        let rest = command.strip_suffix(*one);
        rest.is_some_and(|rest| match one.contains(' ') {
            true => rest.is_empty() || rest.ends_with(' '),
            false => begins(rest) && !ATTRIBUTES.contains(&name) && !sentences::is_remark(name),
        })
    };
    is_last && COMMANDS.iter().any(is)
}

/// Whether the host of a registry of images ends a text, and a part of a name follows.
fn is_image_owner(before: &str, behind: &str, name: &str) -> bool {
    let ends = |letter: char| letter.is_whitespace() || "\"'`[](=,@".contains(letter);
    let path = before.rsplit(ends).next().unwrap_or_default();
    let path = path.rsplit_once("//").map_or(path, |(_, path)| path);
    let Some(host) = path.strip_suffix('/') else {
        return false;
    };
    let is_registry =
        host.contains("registry") || REGISTRIES.iter().any(|registry| host.ends_with(registry));
    is_registry && !host.contains('/') && behind.starts_with('/') && !PUBLISHERS.contains(&name)
}

/// Whether a path that is the value of `key` ends a text: the key of a store.
fn is_in_key(before: &str) -> bool {
    let word = before
        .rsplit(char::is_whitespace)
        .next()
        .unwrap_or_default();
    let path = word.strip_prefix("key=");
    path.is_some_and(|path| path.starts_with('/') && path.ends_with('/'))
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
    // A variable of which programs know nothing: `GROUP_NAME`.
    if own::is_variable(key) && key.ends_with("_NAME") {
        return true;
    }
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

fn is_in_message(before: &str, behind: &str) -> bool {
    let mut messages = MESSAGES.iter();
    let is_process = || {
        let rest =
            behind.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
        before.ends_with('[') && rest.len() < behind.len() && rest.starts_with("] ***")
    };
    let is_repository = || {
        let path = behind.split(char::is_whitespace).next().unwrap_or_default();
        before.ends_with([':', '/']) && path.starts_with('/') && path.ends_with(".git")
    };
    // `secret/X created`.
    let is_object = || {
        let line = before.rsplit('\n').next().unwrap_or_default();
        let kind = line.strip_suffix('/').unwrap_or_default();
        let is_kind = !kind.is_empty()
            && kind
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'.');
        is_kind && DONE_TO.iter().any(|done| behind.starts_with(done))
    };
    // `Authenticating to node0:22 as 'X'`.
    let is_user = || {
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.contains("Authenticating to ") && line.ends_with(" as '")
    };
    messages.any(|(begin, end)| before.ends_with(begin) && behind.starts_with(end))
        || is_object()
        || is_user()
        || is_process()
        || is_repository()
}

/// Whether a name stands behind a word for what has one.
fn is_behind_noun(before: &str, behind: &str, name: &str) -> bool {
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
    let is_end = || gap.ends_with("on node") || gap.ends_with("on host");
    match *noun {
        Noun::No => false,
        _ if is_joined(name) && has_digit(name) => true,
        _ if name.contains('-') => !describes(name),
        _ => {
            (*noun == Noun::Word || is_end())
                && is_said_of(behind)
                && !name.ends_with("tion")
                && !ATTRIBUTES.contains(&name)
                && !COMMON.contains(&name)
                && !sentences::is_remark(name)
        }
    }
}

/// Whether something is said of what was named, or the line ends.
fn is_said_of(behind: &str) -> bool {
    behind.is_empty() || behind == "." || SAID.iter().any(|said| behind.starts_with(said))
}

/// Whether a word of two describes a thing.
fn describes(name: &str) -> bool {
    name.split('-')
        .any(|part| DESCRIBING.contains(&part) || part.ends_with("ed") || part.ends_with("ing"))
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
            ("cluster large-model", "large-model"),
            ("failed on node node-a: x", "node-a"),
            ("cluster google is down", "google"),
            ("Synced google: x", "google"),
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
