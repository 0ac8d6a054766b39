//! Formats of lines of programs in which a name has a fixed place: of `uname`, `ls`, `ps`, `who`, syslog, git,
//! Kubernetes, Slurm, Ray and others. They are written as templates, so a format more is a line more.
//!
//! Not here: words that a name may follow (`nodes.rs`), and what stands directly before one (`context.rs`).
#![forbid(unsafe_code)]

use super::context::Kind;
use super::templates::Template;
use std::ops::Range;
use std::sync::LazyLock;

/// Formats that begin with a text wherever it stands.
const ANYWHERE: [&str; 64] = [
    "/instances/{node}",
    "git@{tag}:{~project}/",
    "Linux {node} {word} #{d}",
    "slurmstepd-{node}: ",
    "Node:{s}{node}/{d}.",
    "app.kubernetes.io/instance={~node}",
    "Successfully assigned {word} to {node}",
    "assigned {word} to {~node}",
    "resolve host: {node}",
    "resolve host '{node}",
    "resolve host \"{node}",
    "tcp://{node}:{d}",
    "://{~node}:{d}",
    " at {~node}:{d}",
    " to {~node}:{d}",
    " from {~node}:{d}",
    " on {~node}:{d}",
    " peer {node}<{d}>",
    " to {~node}<{d}>",
    " from {~node}<{d}>",
    " with {~node}<{d}>",
    "rank {d} on {~node}",
    "rank {d} at {~node}",
    "rank={d} host={node}",
    "host_hash={q}{[machine}{hash}{]}",
    "hostHash{sign}{[machine}{hash}{]}",
    "hostHash {[machine}{hash}{]}",
    "Ring {d} : {node} -> {node}",
    "{[node}gke-{pool}{]}",
    "{[node}ip-{d}-{d}-{d}-{d}{]}",
    "*host{q}{sign}{q}{~node}",
    "*hostname{q}{sign}{q}{~node}",
    "*node{q}{sign}{q}{~node}",
    "*instance{q}{sign}{q}{~node}",
    "*server{q}{sign}{q}{~node}",
    "*machine{q}{sign}{q}{~node}",
    "<host>{node}</",
    "<hostname>{node}</",
    "<node>{~node}</",
    "<user>{user}</",
    "<username>{user}</",
    "gid={ids}",
    "groups={ids}",
    "uid={ids}",
    "GroupId={user}({d})",
    "Author:{s}{person} <",
    "Committer:{s}{person} <",
    "Commit:{s}{person} <",
    "Co-authored-by: {person} <",
    "Signed-off-by: {person} <",
    "Reviewed-by: {person} <",
    "wandb.ai/{~user}/{~project}/",
    "wandb.ai/{~user}/",
    "logged in as: {user}",
    "logged in as {~user}",
    "huggingface.co/{~user}/",
    "hf.co/{~user}/",
    "models--{~user}--",
    "datasets--{~user}--",
    "Loading {~user}/{word} from the Hub",
    "image:{s}{q}{~project}/{word}",
    "docker pull {~project}/",
    "sudo:{s}{user} : TTY=",
    "sudo[{d}]:{s}{user} : TTY=",
];
/// Formats of a whole line, or of its beginning.
const LINES: [&str; 15] = [
    "{time} {node} {tag}[{d}]:",
    "{time} {node} kernel:",
    "{time} {~node} {tag}:",
    "{v4}{s}{nodes}",
    "{mode}{s}{d}{s}{~user}{s}{~user}{s}{d}",
    "{mode}{s}{d}{s}{~user}{s}{word}{s}{d}",
    "{mode}{s}{d}{s}{word}{s}{~user}{s}{d}",
    "{~user}{s}{d}{s}{f}{s}{f}{s}",
    "{~user}{s}pts/{d}",
    "{~user}{s}tty{d}",
    "{~user}:x:{d}:{d}:",
    "{node} has address {d}.",
    "[{~node}:{d}]",
    "{s}host{s}:{s}{node}",
    "{s}hostname{s}:{s}{node}",
];
/// Words of other languages for a host and a user, which the name follows with or without a sign.
const FOREIGN: [(&str, Kind); 30] = [
    ("主机名", Kind::Node),
    ("主机", Kind::Node),
    ("主機", Kind::Node),
    ("节点", Kind::Node),
    ("節點", Kind::Node),
    ("服务器", Kind::Node),
    ("机器", Kind::Node),
    ("用户名", Kind::User),
    ("用户", Kind::User),
    ("使用者", Kind::User),
    ("账号", Kind::User),
    ("ホスト名", Kind::Node),
    ("ホスト", Kind::Node),
    ("ノード", Kind::Node),
    ("サーバー", Kind::Node),
    ("ユーザー名", Kind::User),
    ("ユーザー", Kind::User),
    ("호스트", Kind::Node),
    ("노드", Kind::Node),
    ("서버", Kind::Node),
    ("사용자", Kind::User),
    ("хост", Kind::Node),
    ("узел", Kind::Node),
    ("узле", Kind::Node),
    ("сервер", Kind::Node),
    ("пользователь", Kind::User),
    ("Rechner", Kind::Node),
    ("Benutzer", Kind::User),
    ("utilisateur", Kind::User),
    ("usuario", Kind::User),
];
/// Titles of columns with names, longest header, and most rows.
const TITLES: [(&str, Kind); 9] = [
    ("host", Kind::Node),
    ("hosts", Kind::Node),
    ("hostname", Kind::Node),
    ("node", Kind::Node),
    ("nodename", Kind::Node),
    ("instance", Kind::Node),
    ("server", Kind::Node),
    ("user", Kind::User),
    ("username", Kind::User),
];
const HEADER_BYTES_MAX: usize = 512;
const ROWS_MAX: usize = 1024;
/// Most bytes between such a word and the name.
const GAP_BYTES_MAX: usize = 16;
/// Commands of which an argument is the path on a host, and most arguments.
pub(super) const COPIES: [&str; 2] = ["scp ", "rsync "];
const ARGUMENTS_MAX: usize = 16;
const ARGUMENT_BYTES_MAX: usize = 1024;

static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| ANYWHERE.into_iter().map(Template::new).collect());
static OF_LINES: LazyLock<Vec<Template>> =
    LazyLock::new(|| LINES.into_iter().map(Template::new).collect());

/// The texts that formats begin with, for the search of `nodes.rs`.
pub(super) fn literals() -> Vec<&'static str> {
    let foreign = FOREIGN.iter().map(|(word, _)| *word);
    TEMPLATES
        .iter()
        .map(Template::literal)
        .chain(foreign)
        .collect()
}

/// The names at a place of the text with this number in [`literals`].
pub(super) fn at<'a>(
    text: &'a str,
    which: usize,
    at: usize,
    found: &mut impl FnMut(Kind, &'a str),
) {
    if let Some(template) = TEMPLATES.get(which) {
        return template.names(text, at, found);
    }
    let (word, kind) = FOREIGN[which - TEMPLATES.len()];
    let behind = &text[at + word.len()..];
    let near = &behind[..behind.floor_char_boundary(GAP_BYTES_MAX.min(behind.len()))];
    let is_gap =
        |letter: char| letter != '\n' && !letter.is_ascii_alphanumeric() && !letter.is_alphabetic();
    let gap = near.len() - near.trim_start_matches(is_gap).len();
    NAMES[usize::from(kind == Kind::User)].names(text, at + word.len() + gap, found);
}

/// A name alone: of a host, and of a user.
static NAMES: LazyLock<[Template; 2]> = LazyLock::new(|| ["{~node}", "{~user}"].map(Template::new));

/// The names in lines of a format.
pub(super) fn lines<'a>(text: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    let mut begin = 0;
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
    for next in ends.chain([text.len()]) {
        let at = begin + label(&text[begin..next]);
        if at < next {
            OF_LINES.iter().for_each(|line| line.names(text, at, found));
            column(text, at..next, found);
        }
        begin = next;
    }
}

/// The names in columns of a file with commas or semicolons whose header is `line`.
fn column<'a>(text: &'a str, line: Range<usize>, found: &mut impl FnMut(Kind, &'a str)) {
    let header = text[line.clone()].trim_end();
    if header.len() > HEADER_BYTES_MAX {
        return;
    }
    let Some(sign) = [',', ';', '\t']
        .into_iter()
        .find(|sign| header.contains(*sign))
    else {
        return;
    };
    let is_of_title = |byte: u8| byte.is_ascii_alphanumeric() || b"_\"".contains(&byte);
    let titles: Vec<&str> = header.split(sign).collect();
    if !titles.iter().all(|title| title.bytes().all(is_of_title)) {
        return;
    }
    let kind = |title: &str| {
        let title = title.trim_matches('"');
        TITLES
            .iter()
            .find(|(known, _)| title.eq_ignore_ascii_case(known))
    };
    let columns = titles.iter().enumerate();
    let columns: Vec<(usize, Kind)> = columns
        .filter_map(|(at, title)| Some((at, kind(title)?.1)))
        .collect();
    if columns.is_empty() {
        return;
    }
    for row in text[line.end..].lines().take(ROWS_MAX) {
        let cells: Vec<&str> = row.split(sign).take(titles.len() + 1).collect();
        // A header that is repeated has rows of its own.
        let is_row =
            cells.len() == titles.len() && columns.iter().all(|(at, _)| cells[*at] != titles[*at]);
        if !is_row {
            return;
        }
        for (at, kind) in &columns {
            let cell = cells[*at].trim_matches(['"', ' ']);
            NAMES[usize::from(*kind == Kind::User)].names(cell, 0, found);
        }
    }
}

/// The length of what `srun --label` writes before a line: `12: `.
fn label(line: &str) -> usize {
    let digits = line.bytes().take(6).take_while(u8::is_ascii_digit).count();
    match digits > 0 && line[digits..].starts_with(": ") {
        true => digits + ": ".len(),
        false => 0,
    }
}

/// The hosts in arguments such as `X:/tmp`, `user@X:file` and `X::module`; `rest` is behind the command.
pub(super) fn copies<'a>(rest: &'a str, found: &mut impl FnMut(Kind, &'a str)) {
    let most = &rest[..rest.floor_char_boundary(ARGUMENT_BYTES_MAX.min(rest.len()))];
    let line = most
        .split(['\n', '\r', ';', '|', '&'])
        .next()
        .unwrap_or_default();
    for word in line.split_ascii_whitespace().take(ARGUMENTS_MAX) {
        let word = word.trim_matches(['"', '\'', '`']);
        let Some((target, path)) = word.split_once(':') else {
            continue;
        };
        let host = target.rsplit('@').next().unwrap_or(target);
        let is_path = !path.is_empty() && !target.contains('/');
        if is_path && host.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            NAMES[0].names(host, 0, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_begins_with_a_text() {
        assert!(literals().iter().all(|literal| literal.len() >= 3));
    }

    #[test]
    fn names_of_programs_formats_are_found() {
        let text =
            "12: kestral   1234  0.0 12.5 python\nscp a.b kestrel2:/tmp x\nLinux kestrol 5.1 #3";
        let mut names = Vec::new();
        lines(text, &mut |_, name| names.push(name));
        copies(" a.b kestrel-2:/tmp x", &mut |_, name| names.push(name));
        assert_eq!(names, ["kestral", "kestrel-2"]);
    }
}
