//! Names of jobs, teams, clusters and hosts that consist of ordinary words, behind keys, options and messages.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::{Found, is_placeholder};
use std::sync::LazyLock;

static NAMES: LazyLock<Option<[Pattern; 6]>> = LazyLock::new(|| {
    let key = "(?:job|run|exp(?:eriment)?|task|project|cluster|service|dataset|node|app)[_-]?name|job_?set|wandb_(?:name|project|entity|run_group)|team|tenant|customer|department|owner|cluster|experiment|workspace|partition|queue|account|host(?:id|name)?|entity";
    let own = "(?:^|[^A-Za-z0-9_.-])(?:[A-Za-z0-9]+_)*";
    let name = "([A-Za-z][A-Za-z0-9._-]{3,})";
    let end = r"(?:[\x22'`\\\s,;}\])]|\.?$)";
    let quote = r"[\x22'\\]{0,2}";
    Some([
        Pattern::new(&format!("(?i){own}(?:{key})={quote}{name}{end}"))?,
        Pattern::new(&format!(
            r"(?i)(?:(?:^|[{{,])\s*{quote}(?:[a-z0-9]+_)*(?:{key}){quote}:\s{quote}|[\x22'](?:[a-z0-9]+_)*(?:{key})[\x22']:[\x22']){name}{end}"
        ))?,
        Pattern::new(&format!(r"(?i){own}(?:{key}) set by environment to {name}"))?,
        Pattern::new(&format!(
            "(?i)(?:^|[^A-Za-z0-9_-])--(?:{key}|name|context|namespace|project|service|run)[ =]{quote}{name}"
        ))?,
        Pattern::new(&format!(
            r"\b(?:kubectl|helm) .*-n {name}|\b(?:srun|sbatch|salloc|squeue|sacct|scontrol) .*-[ApJ] {name}"
        ))?,
        Pattern::new(&format!(
            r"COMPLETE on {name}|config set project {name}|\b(?:job|cluster|experiment|partition|pool|queue|workspace) [\x22'`\\]{{1,2}}([a-z][a-z0-9.-]{{3,}})[\x22'`\\]"
        ))?,
    ])
});
/// Values that tell nothing.
const COMMON: [&str; 22] = [
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
    "none",
    "normal",
    "null",
    "peer",
    "test",
    "train",
    "training",
    "true",
    "unknown",
    "worker",
];

pub(super) fn find(line: &str) -> Vec<Found> {
    let found = |at| Found {
        what: "a name that someone chose",
        at,
    };
    let Some(patterns) = &*NAMES else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    for pattern in patterns {
        let on = pattern.on(line);
        for captures in on.into_iter().flat_map(|on| on.captures_iter(line)) {
            let names = captures.iter().skip(1).flatten();
            let names = names.filter(|name| is_name(name.as_str()));
            all.extend(names.map(|name| found(name.range())));
        }
    }
    all
}

fn is_name(word: &str) -> bool {
    let has_lower = word.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = || word.split(['-', '_', '.']).filter(|part| !part.is_empty());
    has_lower && !is_hex && !COMMON.contains(&word) && !parts().all(is_placeholder)
}
