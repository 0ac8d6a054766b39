//! Names of jobs, teams, clusters and hosts that consist of ordinary words, behind keys, options and messages.
#![forbid(unsafe_code)]

use super::pattern::Pattern;
use super::spoken::is_remark;
use super::{Found, is_placeholder};
use std::sync::LazyLock;

static NAMES: LazyLock<Option<[Pattern; 7]>> = LazyLock::new(|| {
    let key = "(?:job|run|exp(?:eriment)?|task|project|cluster|service|dataset|node|app|model|checkpoint)[_-]?name|job_?set|wandb_(?:name|project|entity|run_group)|team|tenant|customer|department|owner|cluster|experiment|workspace|partition|queue|account|host(?:id|name)?|entity|dataset|project|user|context|deployment|(?:job|cluster|context|account|project|user|tenant|team)[_-]?id";
    let signed = "bucket|exp|instance|logname|namespace|node_?pool|rdzv[_-]?id|run[_-]?id|username";
    let own = "(?:^|[^A-Za-z0-9_.-])(?:[A-Za-z0-9]+_)*";
    let name = "([A-Za-z][A-Za-z0-9._-]{3,})";
    let end = r"(?:[\x22'`\\\s,;}\])]|\.?$)";
    let quote = r"[\x22'\\]{0,2}";
    Some([
        Pattern::new(&format!("(?i){own}(?:{key}|{signed})={quote}{name}{end}"))?,
        Pattern::new(&format!(
            r"(?i)(?:(?:^|[{{,])\s*{quote}(?:[a-z0-9]+_)*(?:{key}){quote}:\s{quote}|[\x22'](?:[a-z0-9]+_)*(?:{key}|{signed})[\x22']:\s?[\x22']){name}{end}"
        ))?,
        Pattern::new(&format!(
            r"(?i){own}(?:{key}|{signed}) set by environment to {name}"
        ))?,
        Pattern::new(&format!(
            "(?i)(?:^|[^A-Za-z0-9_-])--(?:[a-z0-9]+[_-])*(?:{key}|{signed}|name|service|run|master_addr|rdzv_endpoint)[ =]{quote}{name}"
        ))?,
        Pattern::new(&format!(
            r"\b(?:kubectl|helm) .*-n {name}|(?:\b(?:srun|sbatch|salloc|squeue|sacct|scontrol) .*|^#SBATCH )-[ApJ] {name}"
        ))?,
        Pattern::new(&format!(
            r"COMPLETE on {name}|config set project {name}|\b(?:[Jj]ob|cluster|experiment|partition|pool|queue|workspace|pods?|namespaces?) [\x22'`\\]{{1,2}}([A-Za-z][A-Za-z0-9.-]{{3,}})[\x22'`\\]"
        ))?,
        Pattern::new(&format!(
            r"(?:Syncing run |connect to host |exec -it |owned by |kubectl logs |logged in as: (?:\w+ \()?|wandb\.ai/(?:[\w.-]+/)?|\.(?:batch|apps)/|hdfs://|gcr\.io/){name}|(?:View run ){name} at|Synced {name}:|Cloning into '{name}'|tagged {name}:|Pulling image \x22{name}|assigned {name}/|srun: error: {name}: task| ON {name} CANCELLED|Connection to {name} closed|\[{name}:[0-9]+\] \*\*\*|[:/]{name}/[\w.-]+\.git\b"
        ))?,
    ])
});
/// Names behind words for what has them, in sentences.
static NOUNS: LazyLock<Option<[Pattern; 2]>> = LazyLock::new(|| {
    let noun = "(?:bucket|cluster|context|customer|deployment|experiment|host|instance|[Jj]ob|machine|partition|pool|project|queue|team|tenant|workspace|on node)";
    Some([
        Pattern::new(&format!(
            r"\b(?:{noun}|node) ([A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+|[A-Za-z]\w*_[0-9]+)(?:[^\w-]|$)"
        ))?,
        Pattern::new(&format!(
            r"\b{noun} ([A-Za-z]{{4,}})(?: (?:is|was|has|does|failed|not found|started|exited|stopped)\b|,|\.?\s*$)"
        ))?,
    ])
});
/// The first folder below those of storage and of programs, or of a path.
static FOLDERS: LazyLock<Option<Pattern>> = LazyLock::new(|| {
    let storage = "beegfs|data|datasets|disks?|efs|export|fsx|gpfs|home|lustre|mnt|nfs|projects|raid|scratch|shared?|storage|users|volumes|weka";
    let plain = format!("{storage}|{}", PLAIN.join("|"));
    Pattern::new(&format!(
        r"(?:^|[\s\x22'`=(\[,>|;])/(?:(?:{storage})/(?:(?:{plain})/)*)?([A-Za-z][A-Za-z0-9_-]{{3,}})(?:[^\w.(-]|$)"
    ))
});
/// Folders that tell nothing.
const PLAIN: [&str; 38] = [
    "apps",
    "build",
    "cache",
    "checkpoints?",
    "ckpts?",
    "code",
    "confi?g?s?",
    "docs",
    "dist",
    "examples",
    "inputs?",
    "install",
    "libs?",
    "local",
    "logs",
    "metrics",
    "models?",
    "outputs?",
    "results",
    "runs",
    "scripts",
    "tests?",
    "torch",
    "train",
    "training",
    "work",
    "workdir",
    "workspace",
    "root",
    "src",
    "third_party",
    "nccl-tests",
    "rccl-tests",
    "bin",
    "lib",
    "tmp",
    "pytorch",
    "conda",
];
/// Other folders of systems, of storage and in checkpoints, by their names without numbers.
const SYSTEM: [&str; 46] = [
    "beegfs",
    "boot",
    "builds",
    "cvmfs",
    "data",
    "datasets",
    "disk",
    "epoch",
    "etc",
    "export",
    "fsx",
    "global_step",
    "gpfs",
    "home",
    "iter",
    "kubernetes",
    "lustre",
    "mnt",
    "node",
    "nfs",
    "opt",
    "proc",
    "projects",
    "raid",
    "rank",
    "rapids",
    "sbin",
    "scratch",
    "share",
    "snap",
    "spack",
    "step",
    "storage",
    "sys",
    "users",
    "Users",
    "usr",
    "var",
    "volumes",
    "weka",
    "health",
    "generate",
    "completions",
    "conf",
    "config",
    "include",
];
/// Words that say something of a thing, and parts of words that do.
const SAID: [&str; 89] = [
    "address",
    "after",
    "again",
    "array",
    "aware",
    "based",
    "before",
    "bound",
    "buffer",
    "buffers",
    "cannot",
    "capacity",
    "config",
    "control",
    "controller",
    "count",
    "data",
    "error",
    "errors",
    "events",
    "failure",
    "file",
    "from",
    "group",
    "groups",
    "have",
    "head",
    "here",
    "image",
    "info",
    "installs",
    "interface",
    "into",
    "itself",
    "join",
    "kernel",
    "keys",
    "lacks",
    "level",
    "limit",
    "list",
    "local",
    "manager",
    "member",
    "members",
    "memory",
    "mode",
    "multi",
    "must",
    "name",
    "names",
    "network",
    "nodes",
    "only",
    "pair",
    "pairs",
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
    "side",
    "single",
    "size",
    "state",
    "status",
    "step",
    "steps",
    "template",
    "that",
    "then",
    "this",
    "time",
    "timeout",
    "together",
    "type",
    "usage",
    "version",
    "what",
    "when",
    "wide",
    "with",
];

/// Values that tell nothing.
const COMMON: [&str; 39] = [
    "admin",
    "batch",
    "chief",
    "compute",
    "debug",
    "default",
    "false",
    "global",
    "host",
    "kube-system",
    "latest",
    "local",
    "localhost",
    "main",
    "master",
    "memory",
    "missing",
    "nobody",
    "node",
    "none",
    "normal",
    "null",
    "peer",
    "ready",
    "root",
    "running",
    "site",
    "system",
    "tcpxctl",
    "test",
    "train",
    "training",
    "true",
    "ubuntu",
    "unknown",
    "unset",
    "user",
    "worker",
    "workers",
];

pub(super) fn find(line: &str) -> Vec<Found> {
    let found = |at| Found {
        what: "a name that someone chose",
        at,
    };
    let (Some(patterns), Some(nouns), Some(folders)) = (&*NAMES, &*NOUNS, &*FOLDERS) else {
        return vec![found(0..line.len())];
    };
    let mut all = Vec::new();
    let mut search = |pattern: &Pattern, is_one: &dyn Fn(&str) -> bool| {
        let on = pattern.on(line);
        for captures in on.into_iter().flat_map(|on| on.captures_iter(line)) {
            let names = captures.iter().skip(1).flatten();
            let names = names.filter(|name| is_name(name.as_str()) && is_one(name.as_str()));
            all.extend(names.map(|name| found(name.range())));
        }
    };
    patterns
        .iter()
        .for_each(|pattern| search(pattern, &|_| true));
    nouns
        .iter()
        .for_each(|pattern| search(pattern, &is_no_remark));
    search(folders, &is_no_plain_folder);
    all
}

/// Whether a word behind that for a thing says nothing of it.
fn is_no_remark(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let says = |part: &str| SAID.contains(&part) || part.ends_with("tion") || is_remark(part);
    has_digit || !word.split('-').any(says)
}

/// Whether a folder is neither of a system nor of sources, and no step of a training.
fn is_no_plain_folder(word: &str) -> bool {
    let stem =
        word.trim_end_matches(|letter: char| letter.is_ascii_digit() || "_-".contains(letter));
    let is_plain = |plain: &str| {
        let plain = plain.trim_end_matches("s?");
        plain == stem || stem.strip_suffix('s') == Some(plain)
    };
    !PLAIN.iter().chain(&SYSTEM).any(|plain| is_plain(plain)) && !word.ends_with("_perf")
}

/// What drivers call the RDMA devices of a node, before their number.
const DEVICES: [&str; 6] = [
    "mlx4_",
    "mlx5_",
    "mlx5_bond_",
    "bnxt_re",
    "bnxt_re_bond",
    "irdma",
];

fn is_name(word: &str) -> bool {
    let device = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let has_lower = word.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = || word.split(['-', '_', '.']).filter(|part| !part.is_empty());
    has_lower
        && !is_hex
        && !COMMON.contains(&&*word.to_ascii_lowercase())
        && !DEVICES.contains(&device)
        && !parts().all(is_placeholder)
}
