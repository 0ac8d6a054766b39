//! Names that their surroundings reveal: users of home folders and before `@`, hosts with an
//! internal domain or before NCCL's process ids, projects, buckets, containers.
#![forbid(unsafe_code)]

use super::literals::Literals;
use std::net::IpAddr;
use std::sync::LazyLock;

/// What a name is of. The word is the beginning of its placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    User,
    Project,
    Bucket,
    Container,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::User => "user",
            Self::Project => "project",
            Self::Bucket => "bucket",
            Self::Container => "container",
        }
    }
}

/// Domains of internal host names.
const DOMAINS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];
/// What stands before a name of each kind.
const BEFORE: [(&str, Kind); 13] = [
    ("/home/", Kind::User),
    ("/Users/", Kind::User),
    ("gs://", Kind::Bucket),
    ("s3://", Kind::Bucket),
    ("storage.googleapis.com/", Kind::Bucket),
    ("storage.cloud.google.com/", Kind::Bucket),
    ("gcr.io/", Kind::Project),
    ("pkg.dev/", Kind::Project),
    ("cri-containerd-", Kind::Container),
    ("docker-", Kind::Container),
    ("/docker/", Kind::Container),
    ("crio-", Kind::Container),
    ("libpod-", Kind::Container),
];
/// What follows the name of a project in a path of Google's cloud; `projects/` is also a folder.
const OF_PROJECT: [&str; 11] = [
    "zones",
    "regions",
    "locations",
    "global",
    "secrets",
    "instances",
    "topics",
    "serviceAccounts",
    "machineTypes",
    "subscriptions",
    "networks",
];
/// Ends of keys whose value is a name.
const KEYS: [(&str, Kind); 12] = [
    ("GOOGLE_CLOUD_PROJECT", Kind::Project),
    ("GCLOUD_PROJECT", Kind::Project),
    ("GCP_PROJECT", Kind::Project),
    ("CLOUDSDK_CORE_PROJECT", Kind::Project),
    ("PROJECT_ID", Kind::Project),
    ("PROJECT_NUMBER", Kind::Project),
    ("BUCKET", Kind::Bucket),
    ("BUCKET_NAME", Kind::Bucket),
    ("HOSTNAME", Kind::Node),
    ("POD_NAME", Kind::Node),
    ("NODE_NAME", Kind::Node),
    ("NODENAME", Kind::Node),
];

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

/// The kind of name that is the value of a key.
pub(super) fn kind_of_value(key: &str) -> Option<Kind> {
    let key = key
        .trim_start_matches('-')
        .replace('-', "_")
        .to_ascii_uppercase();
    let is_end = |end: &str| {
        key.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '.']))
    };
    let known = KEYS.iter().find(|(end, _)| is_end(end));
    known.map(|(_, kind)| *kind)
}

/// Calls `found` with every name that a text reveals.
pub(super) fn names<'a>(text: &'a str, mut found: impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> =
        LazyLock::new(|| Literals::new(BEFORE.map(|(before, _)| before)));
    for (which, at) in FINDER.find(text) {
        let (before, kind) = BEFORE[which];
        let name = name_at(text, at + before.len());
        let is_hash =
            name.len() >= 64 && name.bytes().take(64).all(|byte| byte.is_ascii_hexdigit());
        match kind {
            Kind::Container if is_hash => found(kind, &name[..64]),
            Kind::Container => {}
            _ => found(kind, name),
        }
    }
    projects(text, &mut found);
    values(text, &mut found);
    users(text, &mut found);
    hosts(text).for_each(|host| found(Kind::Node, host));
}

/// The name that begins at `at`.
fn name_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    let is_of_user = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    rest.split(|letter| !is_of_user(letter))
        .next()
        .unwrap_or_default()
}

fn projects<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(["projects/"]));
    for (_, at) in FINDER.find(text) {
        let name = name_at(text, at + "projects/".len());
        let behind = &text[at + "projects/".len() + name.len()..];
        let next = behind.strip_prefix('/').map_or("", |rest| name_at(rest, 0));
        if OF_PROJECT.contains(&next) {
            found(Kind::Project, name);
        }
    }
    for (domain, before) in [(".iam.gserviceaccount.com", '@'), (".internal", '.')] {
        for at in memchr::memmem::find_iter(text.as_bytes(), domain) {
            let name = &text[..at];
            let begin = name.rfind(|letter: char| !is_of_name(letter) || letter == before);
            let begin = begin.map_or(0, |end| end + 1);
            let is_project = before == '@' || text[..begin].ends_with(".c.");
            if let (true, Some(name)) = (is_project, text.get(begin..at)) {
                found(Kind::Project, name);
            }
        }
    }
}

/// The option of gcloud.
const PROJECT: &str = "--project";

/// Names behind a variable or an option: `GOOGLE_CLOUD_PROJECT=x`, `--project x`.
fn values<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> =
        LazyLock::new(|| Literals::new(KEYS.map(|(key, _)| key).into_iter().chain([PROJECT])));
    for (which, at) in FINDER.find(text) {
        let (key, kind) = *KEYS.get(which).unwrap_or(&(PROJECT, Kind::Project));
        let behind = &text[at + key.len()..];
        let value = behind.trim_start_matches(['"', '\'', '=', ':', '\\']);
        let value = value
            .trim_start_matches(' ')
            .trim_start_matches(['"', '\'', '\\']);
        let is_option = key.starts_with('-') && behind.starts_with(' ');
        let is_assigned = behind
            .trim_start_matches(['"', '\'', '\\'])
            .starts_with(['=', ':']);
        if is_option || is_assigned {
            found(kind, name_at(value, 0));
        }
    }
}

/// `ada@10.0.1.25` and `ada@node7`: users of ssh. Mail addresses are replaced whole.
fn users<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    for at in memchr::memchr_iter(b'@', text.as_bytes()) {
        let begin = text[..at]
            .rfind(|letter: char| !is_of_name(letter))
            .map_or(0, |end| {
                end + text[end..].chars().next().map_or(1, char::len_utf8)
            });
        let host = name_at(text, at + 1);
        let is_host = host.parse::<IpAddr>().is_ok() || (!host.contains('.') && host.contains('-'));
        if is_host {
            found(Kind::User, &text[begin..at]);
        }
    }
}

/// Host names that can be recognised: those with an internal domain, and those before NCCL's
/// process and thread ids (`host:71:84 [0] NCCL INFO`).
fn hosts(text: &str) -> impl Iterator<Item = &str> {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(DOMAINS));
    static NCCL: LazyLock<Literals> = LazyLock::new(|| Literals::new(["] NCCL "]));
    let internal = FINDER.find(text).map(move |(_, at)| {
        let begin = text[..at]
            .rfind(|letter| !is_of_name(letter))
            .map_or(0, |before| before + 1);
        text.get(begin..at).unwrap_or_default()
    });
    let nccl = NCCL.find(text).filter_map(move |(_, at)| {
        let line = text[..at].rfind('\n').map_or(0, |before| before + 1);
        let header = text[line..at].rsplit_once(" [")?.0;
        let word = header
            .rsplit(|letter: char| letter.is_whitespace())
            .next()?;
        let mut parts = word.rsplitn(3, ':');
        let is_number = |part: Option<&str>| {
            part.is_some_and(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        (is_number(parts.next()) && is_number(parts.next()))
            .then(|| parts.next())
            .flatten()
    });
    internal.chain(nccl)
}
