//! Names that their surroundings reveal: users of home folders and before `@`, hosts with an
//! internal domain or before NCCL's process ids, projects, buckets, pods, containers.
#![forbid(unsafe_code)]

use super::ahead::Ahead;
use super::keys::is_absent;
use super::literals::Literals;
use super::{NAME_BYTES_MAX, name_formats, nodes, ordinary, printed};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
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
    Namespace,
    Machine,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::User => "user",
            Self::Project => "project",
            Self::Bucket => "bucket",
            Self::Container => "container",
            Self::Namespace => "namespace",
            Self::Machine => "machine",
        }
    }
}

/// Most bytes from the host of a line of NCCL to the end of its header.
const HEADER_BYTES_MAX: usize = 512;
/// Domains of internal host names.
const DOMAINS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];
/// What stands before a name of each kind.
pub(super) const BEFORE: [(&str, Kind); 37] = [
    ("/users/", Kind::User),
    (":user/", Kind::User),
    (":role/", Kind::User),
    ("resourceGroups/", Kind::Project),
    // Also with the escapes of JSON.
    ("\\Users\\", Kind::User),
    ("/scratch/", Kind::User),
    ("/data/users/", Kind::User),
    ("sudo -u ", Kind::User),
    ("sudo -iu ", Kind::User),
    ("su - ", Kind::User),
    ("su -l ", Kind::User),
    ("runuser -u ", Kind::User),
    ("for user ", Kind::User),
    ("Accepted publickey for ", Kind::User),
    ("Accepted password for ", Kind::User),
    ("oss://", Kind::Bucket),
    ("s3a://", Kind::Bucket),
    ("obs://", Kind::Bucket),
    ("cos://", Kind::Bucket),
    ("pod/", Kind::Node),
    ("pods/", Kind::Node),
    ("connect to host ", Kind::Node),
    ("resolve hostname ", Kind::Node),
    ("Connection to host ", Kind::Node),
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
/// Names of folders for all users, which are no names of users.
const FOLDERS: [&str; 32] = [
    "all",
    "apps",
    "bin",
    "cache",
    "checkpoints",
    "ckpt",
    "common",
    "data",
    "datasets",
    "home",
    "jobs",
    // Google's nodes have the plugin in `/home/kubernetes/bin/nvidia`.
    "kubernetes",
    "lib",
    "logs",
    "log",
    "models",
    "opt",
    "out",
    "output",
    "project",
    "projects",
    "public",
    "results",
    "runs",
    "shared",
    "share",
    "software",
    "src",
    "team",
    "temp",
    "tmp",
    "users",
];
/// Domains of storage in which a bucket is the first part: where the domain begins, and what it has.
const STORAGE: [(&str, &str); 7] = [
    (".storage.googleapis.com", ""),
    (".s3.", ".amazonaws.com"),
    (".s3-", ".amazonaws.com"),
    (".blob.core.windows.net", ""),
    (".dfs.core.windows.net", ""),
    (".oss-", ".aliyuncs.com"),
    (".cos.", ".myqcloud.com"),
];

/// How much of a key has to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    /// Its end: `TPU_PROJECT_ID`.
    End,
    /// All of it.
    Yes,
    /// All of it. In lower case, before a sign without a space or in quotes: `user` is written before
    /// much that is no user.
    Variable,
}
/// Keys whose value is a name, without signs between words.
const KEYS: [(&str, Kind, Whole); 29] = [
    ("CLOUDPROJECT", Kind::Project, Whole::End),
    ("GCLOUDPROJECT", Kind::Project, Whole::End),
    ("GCPPROJECT", Kind::Project, Whole::End),
    ("COREPROJECT", Kind::Project, Whole::End),
    ("PROJECTID", Kind::Project, Whole::End),
    ("PROJECTNUMBER", Kind::Project, Whole::End),
    ("PROJECT", Kind::Project, Whole::Yes),
    ("BUCKET", Kind::Bucket, Whole::End),
    ("BUCKETNAME", Kind::Bucket, Whole::End),
    ("HOSTNAME", Kind::Node, Whole::End),
    ("PODNAME", Kind::Node, Whole::End),
    ("POD", Kind::Node, Whole::End),
    ("NODENAME", Kind::Node, Whole::End),
    ("MASTERADDR", Kind::Node, Whole::Yes),
    ("HOSTID", Kind::Node, Whole::End),
    ("MASTERHOST", Kind::Node, Whole::End),
    ("HEADNODE", Kind::Node, Whole::End),
    ("RDZVHOST", Kind::Node, Whole::End),
    ("SUBMITHOST", Kind::Node, Whole::End),
    ("NAMESPACE", Kind::Namespace, Whole::End),
    ("LOGIN", Kind::User, Whole::Yes),
    ("USERID", Kind::User, Whole::Yes),
    ("NAMESPACE", Kind::Namespace, Whole::Yes),
    ("MACHINEID", Kind::Machine, Whole::Yes),
    ("BOOTID", Kind::Machine, Whole::Yes),
    ("USER", Kind::User, Whole::Variable),
    ("USERNAME", Kind::User, Whole::Variable),
    ("LOGNAME", Kind::User, Whole::Variable),
    ("SUDOUSER", Kind::User, Whole::Variable),
];
/// Something that every key contains.
const STEMS: [&str; 24] = [
    "project",
    "bucket",
    "hostname",
    "pod_name",
    "pod-name",
    "podname",
    "_pod",
    "node_name",
    "nodename",
    "master_addr",
    "hostid",
    "submit_host",
    "master_host",
    "head_node",
    "rdzv_host",
    "namespace",
    "_id",
    "user",
    "logname",
    "machine-id",
    "machineid",
    "machine id",
    "boot-id",
    "boot id",
];

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

/// The kind of name that is the value of a key.
pub(super) fn kind_of_value(key: &str) -> Option<Kind> {
    let is_sign = |letter: char| "_-. ".contains(letter);
    let upper = key.to_ascii_uppercase();
    let plain = upper.replace(is_sign, "");
    let is_known = |end: &str, whole: Whole| match whole {
        Whole::Yes => plain == end,
        Whole::Variable => plain == end,
        // A part begins behind a sign, or with a capital: `myBucket`.
        Whole::End => {
            plain.ends_with(end) && {
                let mut left = end.len();
                let begin = key.char_indices().rev().find(|(_, letter)| {
                    left -= usize::from(!is_sign(*letter));
                    left == 0
                });
                let begin = begin.map_or(0, |(at, _)| at);
                let before = key[..begin].chars().next_back();
                before.is_none_or(|before| {
                    is_sign(before)
                        || key[begin..].starts_with(char::is_uppercase) && before.is_lowercase()
                })
            }
        }
    };
    let mut known = KEYS.iter().filter(|(end, _, whole)| is_known(end, *whole));
    known.next().map(|(_, kind, _)| *kind)
}

/// Whether a text may be the name of this kind that a key has.
pub(super) fn may_be_name(kind: Kind, name: &str) -> bool {
    let lower = name.bytes().all(|byte| !byte.is_ascii_uppercase());
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if is_absent(name) {
        return false;
    }
    match kind {
        Kind::Machine => name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
        Kind::Bucket => {
            lower
                && begins
                && name.len() >= 5
                && !name.starts_with(|letter: char| letter.is_ascii_digit())
        }
        Kind::Namespace => {
            let common = [
                "default",
                "system",
                "global",
                "local",
                "std",
                "detail",
                "monitoring",
            ];
            lower
                && begins
                && name.len() >= 4
                && !name.starts_with("kube-")
                && !common.contains(&name)
        }
        Kind::Project => lower && begins && name.len() >= 5,
        Kind::User => begins && name.len() <= USER_BYTES_MAX && name.chars().all(is_of_user),
        _ => true,
    }
}

/// Longest name of a user.
const USER_BYTES_MAX: usize = 64;
/// What a message of a conversation is from, and users that many machines have.
const ROLES: [&str; 8] = [
    "assistant",
    "system",
    "developer",
    "tool",
    "default",
    "unset",
    "given",
    "function",
];

/// Whether the value of a key is the name of a user. `user` in lower case is written before much that
/// is none, so an ordinary word behind it is none.
pub(super) fn is_user(key: &str, name: &str) -> bool {
    let is_lower = key.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_role = ROLES.contains(&name.to_ascii_lowercase().as_str());
    let is_short = key.trim_start_matches('-').eq_ignore_ascii_case("user");
    let is_word = is_short && ordinary::is_ordinary(name) && name.len() > 3;
    !(is_lower && (is_role || is_word))
}

fn is_of_user(letter: char) -> bool {
    letter.is_alphanumeric() || "._-".contains(letter)
}

/// Calls `found` with every name that a text reveals.
pub(super) fn names<'a>(text: &'a str, mut found: impl FnMut(Kind, &'a str)) {
    let places = nodes::search(text);
    for &(which, at) in &places {
        let Some(&(before, kind)) = BEFORE.get(which) else {
            break;
        };
        let behind = at + before.len();
        let escapes = usize::from(before.ends_with('\\') && text[behind..].starts_with('\\'));
        let most = match kind {
            // The names of containers may follow each other in one word.
            Kind::Container => text.floor_char_boundary(behind + HASH_BYTES),
            _ => text.len(),
        };
        let name = name_at(&text[..most], behind + escapes);
        let is_hash = name.len() == HASH_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        match kind {
            Kind::Container if is_hash => found(kind, name),
            Kind::Container => {}
            // `kubepods/`, and the ids of pods, which are UUIDs.
            Kind::Node
                if is_behind_letter(text, at)
                    || name.matches('-').count() == 4 && name.len() == 36 => {}
            Kind::User if FOLDERS.contains(&name) => {}
            _ => found(kind, name),
        }
    }
    storage(text, &mut found);
    accounts(text, &mut found);
    projects(text, &mut found);
    values(text, &mut found);
    users(text, &mut found);
    nodes::names(text, &places, &mut found);
    name_formats::lines(text, &mut found);
    printed::names(text, &mut found);
    hosts(text).for_each(|host| found(Kind::Node, host));
}

/// Digits of the id of a container.
const HASH_BYTES: usize = 64;

/// The name that begins at `at`.
pub(super) fn name_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    rest.split(|letter| !is_of_user(letter))
        .next()
        .unwrap_or_default()
}

/// The name that ends at `at`; none if it is longer than a name of DNS.
fn name_before(text: &str, at: usize, is_of_name: impl Fn(char) -> bool) -> &str {
    let least = text.floor_char_boundary(at.saturating_sub(NAME_BYTES_MAX + 1));
    let before = &text[least..at];
    let name = &before[before.trim_end_matches(is_of_name).len()..];
    match name.len() > NAME_BYTES_MAX {
        true => "",
        false => name,
    }
}

fn projects<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(["projects/"]));
    for (_, at) in FINDER.find(text) {
        let name = name_at(text, at + "projects/".len());
        let behind = &text[at + "projects/".len() + name.len()..];
        let next = behind.strip_prefix('/').map_or("", |rest| name_at(rest, 0));
        let is_number = name.len() >= 9 && name.bytes().all(|byte| byte.is_ascii_digit());
        if OF_PROJECT.contains(&next) || is_number {
            found(Kind::Project, name);
        }
    }
    for (domain, before) in [(".iam.gserviceaccount.com", '@'), (".internal", '.')] {
        for at in memchr::memmem::find_iter(text.as_bytes(), domain) {
            let name = name_before(text, at, |letter| is_of_name(letter) && letter != before);
            let is_project = before == '@' || text[..at - name.len()].ends_with(".c.");
            if is_project {
                found(Kind::Project, name);
            }
        }
    }
}

fn is_behind_letter(text: &str, at: usize) -> bool {
    text[..at].ends_with(|letter: char| letter.is_alphanumeric())
}

/// `acme-logs.s3.us-east-1.amazonaws.com`, and what `gcsfuse` mounts.
fn storage<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> =
        LazyLock::new(|| Literals::new(STORAGE.map(|(begin, _)| begin)));
    static MOUNT: LazyLock<Literals> = LazyLock::new(|| Literals::new(["gcsfuse "]));
    for (which, at) in FINDER.find(text) {
        let most = text.floor_char_boundary(at + NAME_BYTES_MAX);
        let domain = name_at(&text[..most], at + 1);
        let bucket = name_before(text, at, is_of_name);
        if domain.contains(STORAGE[which].1.trim_start_matches('.')) && !bucket.is_empty() {
            found(Kind::Bucket, bucket);
        }
    }
    let (ends, paths) = (Ahead::default(), Ahead::default());
    for (_, at) in MOUNT.find(text) {
        let end = ends.find(text, at, |rest| rest.find('\n'));
        let words = text[at..end].split_ascii_whitespace().skip(1);
        let name = words.take(OPTIONS_MAX).find(|word| !word.starts_with('-'));
        // A path behind it is where it is mounted; without one, this is a sentence.
        let is_path = |pair: &[u8]| pair[0].is_ascii_whitespace() && b"/.".contains(&pair[1]);
        let is_command = paths.find(text, at, |rest| {
            rest.as_bytes().windows(2).position(is_path)
        }) < end;
        if let Some(name) = name.filter(|name| is_command || name.contains(['-', '_', '.'])) {
            found(Kind::Bucket, name_at(name, 0));
        }
    }
}

/// Most options of a command before its first argument.
const OPTIONS_MAX: usize = 16;

/// `arn:aws:iam::NUMBER:role/x`, `uid=1001(ada)`, `~ada/x`.
fn accounts<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(["arn:aws", "uid="]));
    for (which, at) in FINDER.find(text) {
        if which == 0 {
            let number = text[at..].split(':').nth(4).unwrap_or_default();
            if number.len() == 12 && number.bytes().all(|byte| byte.is_ascii_digit()) {
                found(Kind::Project, number);
            }
            continue;
        }
        let behind =
            text[at + "uid=".len()..].trim_start_matches(|letter: char| letter.is_ascii_digit());
        if let Some(name) = behind.strip_prefix('(') {
            found(Kind::User, name_at(name, 0));
        }
    }
    for at in memchr::memchr_iter(b'~', text.as_bytes()) {
        let name = name_at(text, at + 1);
        let is_folder = text[at + 1 + name.len()..].starts_with('/');
        let begins = name.starts_with(|letter: char| letter.is_ascii_lowercase());
        let is_word = text[..at].ends_with(|letter: char| !" \t\n\"'`=:(".contains(letter));
        if is_folder && begins && !is_word {
            found(Kind::User, name);
        }
    }
}

/// Names behind a variable, a key or an option: `GOOGLE_CLOUD_PROJECT=x`, `"bucket": "x"`, `--project x`.
fn values<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let mut builder = AhoCorasickBuilder::new();
        builder.ascii_case_insensitive(true).build(STEMS).ok()
    });
    let Some(finder) = &*FINDER else { return };
    let bytes = text.as_bytes();
    let mut from = 0;
    for stem in finder.find_iter(text) {
        if stem.start() < from {
            continue;
        }
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        let before = bytes[..stem.start()]
            .iter()
            .rev()
            .take(KEY_BYTES_MAX)
            .take_while(is_part);
        let begin = stem.start() - before.count();
        let end = stem.end()
            + bytes[stem.end()..]
                .iter()
                .take(KEY_BYTES_MAX)
                .take_while(is_part)
                .count();
        from = end;
        let behind = &text[end..];
        let is_quote = |letter: char| "\"'\\".contains(letter);
        let unquoted = behind.trim_start_matches(is_quote);
        let is_quoted = unquoted.len() < behind.len();
        let spaced = unquoted.trim_start_matches(' ');
        let key = &text[begin..end];
        let is_option = key.starts_with("--") && behind.starts_with(' ');
        let value = match spaced.strip_prefix(['=', ':']) {
            Some(value) if unquoted.len() - spaced.len() <= 1 => value,
            None if is_option => spaced,
            _ => match behind.strip_prefix(" set by environment to ") {
                Some(value) => value,
                None => continue,
            },
        };
        let Some(kind) = kind_of_value(key.trim_start_matches('-')) else {
            continue;
        };
        if kind == Kind::Namespace && key.contains('.') {
            continue;
        }
        let name = name_at(
            value.trim_start_matches(' ').trim_start_matches(is_quote),
            0,
        );
        let after = &text[name.as_ptr() as usize - text.as_ptr() as usize + name.len()..];
        // A call, an element or an address; the path behind `user@hostname:`.
        let is_number = after.starts_with('(')
            && after[1..].starts_with(|letter: char| letter.is_ascii_digit());
        let is_code = after.starts_with(['(', '[']) && !(kind == Kind::User && is_number)
            || after.starts_with("://");
        if is_code || text[..begin].ends_with('@') {
            continue;
        }
        // The word alone is also written before a title.
        let is_word = key.eq_ignore_ascii_case("project") && !is_quoted;
        let is_assigned =
            is_quoted || is_option || spaced.starts_with('=') && spaced.len() == behind.len();
        // Nothing is assigned: `logname= uid=0`.
        if kind == Kind::User && spaced.starts_with("= ") && spaced.len() == behind.len() {
            continue;
        }
        let is_variable = !key.bytes().any(|byte| byte.is_ascii_lowercase());
        if kind == Kind::User && !(is_variable || is_assigned)
            || kind == Kind::User && !is_user(key, name)
        {
            continue;
        }
        if may_be_name(kind, name)
            && (!is_word || name.contains(['-', '_']) || spaced.starts_with('='))
        {
            found(kind, name);
        }
    }
}

/// Longest key that is looked at.
const KEY_BYTES_MAX: usize = 64;

/// Commands that a user and a host follow.
const LOGINS: [&str; 6] = ["ssh ", "scp ", "sftp ", "rsync ", "mosh ", "ssh-copy-id "];

/// The last of each command on a line as far as a place. A line may be as long as the text.
#[derive(Default)]
struct Logins {
    seen: usize,
    /// Whether a word begins with it.
    last: [bool; LOGINS.len()],
}

impl Logins {
    /// Whether a command stands before `at`, on its line. Places are asked for in order.
    fn is_before(&mut self, text: &str, at: usize) -> bool {
        let fresh = &text[self.seen..at.max(self.seen)];
        let line = fresh.rfind('\n').map(|end| self.seen + end + 1);
        if line.is_some() {
            self.last = Default::default();
        }
        let line = line.unwrap_or(self.seen);
        for (is_word, login) in self.last.iter_mut().zip(LOGINS) {
            if let Some(begin) = text[line..at.max(line)].rfind(login) {
                *is_word = !is_behind_letter(text, line + begin);
            }
        }
        self.seen = at.max(self.seen);
        self.last.contains(&true)
    }
}

/// `ada@10.0.1.25` and `ada@node7`: users of ssh. Mail addresses are replaced whole.
fn users<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    let mut logins = Logins::default();
    for at in memchr::memchr_iter(b'@', text.as_bytes()) {
        let begin = text[..at]
            .rfind(|letter: char| !is_of_name(letter))
            .map_or(0, |end| {
                end + text[end..].chars().next().map_or(1, char::len_utf8)
            });
        let host = name_at(text, at + 1);
        let is_command = text[..begin].ends_with(' ') && logins.is_before(text, begin);
        // The prompt of a shell.
        let behind = &text[at + 1 + host.len()..];
        let is_prompt = behind.starts_with(":~") || behind.starts_with(":/");
        let is_host = host.parse::<IpAddr>().is_ok()
            || (!host.contains('.') && host.contains('-'))
            || (!host.is_empty() && (is_command || is_prompt));
        let user = &text[begin..at];
        // What a launcher writes before a line: `[rank0@node7]`.
        let number = user.strip_prefix("rank").unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            if text[..begin].ends_with('[') {
                found(Kind::Node, host);
            }
            continue;
        }
        if is_host {
            found(Kind::User, user);
        }
        if is_host && (is_command || is_prompt) || behind.starts_with("'s password") {
            found(Kind::Node, host);
            found(Kind::User, user);
        }
    }
}

/// Host names that can be recognised: those with an internal domain, and those before NCCL's
/// process and thread ids (`host:71:84 [0] NCCL INFO`, `host:71:84 [0] net.cc:12 NCCL WARN`).
fn hosts(text: &str) -> impl Iterator<Item = &str> {
    static FINDER: LazyLock<Literals> = LazyLock::new(|| Literals::new(DOMAINS));
    static NCCL: LazyLock<Literals> = LazyLock::new(|| Literals::new([" NCCL "]));
    // `.lan` begins `java.lang`, too.
    let is_domain = move |(which, at): &(usize, usize)| {
        let behind = &text[*at + DOMAINS[*which].len()..];
        !behind.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
    };
    let internal = FINDER
        .find(text)
        .filter(is_domain)
        .map(move |(_, at)| name_before(text, at, is_of_name));
    let nccl = NCCL.find(text).filter_map(move |(_, at)| {
        let least = text.floor_char_boundary(at.saturating_sub(HEADER_BYTES_MAX));
        let line = text[least..at]
            .rfind('\n')
            .map_or(least, |before| least + before + 1);
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
        let is_header = is_number(parts.next()) && is_number(parts.next());
        let written = parts.next().filter(|_| is_header)?;
        // A launcher's prefix may stand before it: `[1,0]<stdout>:host:71:84 [0] NCCL INFO`.
        let name = written.rsplit(|letter: char| !is_of_name(letter)).next()?;
        Some(name.trim_start_matches('-'))
    });
    internal.chain(nccl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_launcher_writes_before_a_line_is_a_rank_of_a_node() {
        let mut found = Vec::new();
        names("[rank0@node-b]: x\n[rank0]: y", |kind, name| {
            found.push((kind, name))
        });
        assert_eq!(found, [(Kind::Node, "node-b")]);
    }

    #[test]
    fn names_behind_letters_of_more_bytes_are_found() {
        let mut found = Vec::new();
        let text = "\u{e9}.internal \u{3002}db7.corp \u{e9}acme.s3.amazonaws.com \
            \u{4e3a}ml-1@x.iam.gserviceaccount.com";
        names(text, |kind, name| found.push((kind, name)));
        assert!(found.contains(&(Kind::Node, "db7")), "{found:?}");
        assert!(found.contains(&(Kind::Bucket, "acme")), "{found:?}");
    }

    #[test]
    fn a_word_that_is_full_of_domains_has_no_long_name() {
        for piece in [
            ".s3.amazonaws.com",
            ".lan",
            ".iam.gserviceaccount.com",
            "docker-",
        ] {
            names(&piece.repeat(1 << 10), |_, name| {
                assert!(name.len() <= NAME_BYTES_MAX, "{piece}");
            });
        }
    }

    #[test]
    fn a_user_stands_behind_the_last_command_of_its_line() {
        let mut logins = Logins::default();
        let text = "ssh a@b c@d\n e@f xssh g@h scp i@j";
        let behind: Vec<bool> = text
            .match_indices('@')
            .map(|(at, _)| logins.is_before(text, at - 1))
            .collect();
        assert_eq!(behind, [true, true, false, false, true]);
    }

    #[test]
    fn hosts_are_found_behind_what_launchers_and_pages_put_before_them() {
        for before in ["[1,0]<stdout>:", "+", "-", "`", "> ", "\u{3000}"] {
            let text = format!("{before}train-b:71:84 [0] NCCL INFO x");
            let mut found = Vec::new();
            names(&text, |kind, name| found.push((kind, name)));
            assert_eq!(found, [(Kind::Node, "train-b")], "{text}");
        }
    }

    #[test]
    fn hosts_that_a_job_and_ssh_name_are_found() {
        let mut found = Vec::new();
        let text = "MASTER_ADDR=train-b\nSLURM_SUBMIT_HOST=front-a\n\
            ssh: connect to host train-c port 22: Connection refused\nMASTER_PORT=29500";
        names(text, |kind, name| found.push((kind, name)));
        found.sort_by_key(|(_, name)| *name);
        let nodes = ["front-a", "train-b", "train-c"].map(|name| (Kind::Node, name));
        assert_eq!(found, nodes);
    }
}
