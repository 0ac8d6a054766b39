//! Reads files of signatures and reports every mistake with its line.
//!
//! A TOML syntax error ends the reading of its file; all other mistakes are reported
//! together, whatever their kind. A signature's example is its test: the signature must match it, and no
//! signature that `over` does not name may match it too.
#![forbid(unsafe_code)]

use super::below::BelowText;
use super::catalogue::{SignatureCatalogue, SignatureCatalogueError, compile, is_marker};
use super::signature::{Fact, OwnSignature, Severity, Signature};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 256;
/// A shorter literal would stop the search at too many places.
const LITERAL_MIN: usize = 5;
const LITERAL_MAX: usize = 200;
const MISTAKES_MAX: usize = 200;

/// A mistake in a file of signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct SignatureMistake {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong, in one sentence.
    pub problem: String,
}

pub(super) fn list(mistakes: &[SignatureMistake]) -> String {
    mistakes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    signature: Vec<Signature>,
}

/// Checks a folder of a user's signatures against each other and against the embedded
/// ones. Returns them and all mistakes.
///
/// # Errors
/// A folder or a file could not be read.
pub fn check_folder(
    folder: &Path,
) -> Result<(Vec<OwnSignature>, Vec<SignatureMistake>), SignatureCatalogueError> {
    let embedded = SignatureCatalogue::embedded()?;
    let (signatures, mistakes) = check(&read(folder)?, embedded.signatures());
    let own = signatures
        .iter()
        .map(|signature| OwnSignature::new(signature, embedded.signatures()));
    Ok((own.collect(), mistakes))
}

/// Names and texts of the files `*.toml` of a folder, or of one file.
pub(super) fn read(folder: &Path) -> Result<Vec<(String, String)>, SignatureCatalogueError> {
    let unreadable = |path: &Path, problem: &dyn Display| SignatureCatalogueError::Unreadable {
        path: path.to_owned(),
        problem: problem.to_string(),
    };
    if !folder.is_dir() && folder.exists() {
        return Ok(vec![read_one(folder)?]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.len() > FILES_MAX {
        return Err(unreadable(
            folder,
            &format!(
                "it has {} files, more than the limit of {FILES_MAX}",
                paths.len()
            ),
        ));
    }
    paths.iter().map(|path| read_one(path)).collect()
}

fn read_one(path: &Path) -> Result<(String, String), SignatureCatalogueError> {
    let unreadable = |problem: String| SignatureCatalogueError::Unreadable {
        path: path.to_owned(),
        problem,
    };
    let mut bytes = Vec::new();
    tcpx_words::input::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    Ok((path.display().to_string(), text))
}

/// Parses files whose signatures a test checks.
///
/// # Errors
/// What is no signature.
pub(super) fn parse_checked(
    files: &[(&str, &str)],
) -> Result<Vec<Signature>, Vec<SignatureMistake>> {
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    for (file, text) in files {
        all.append(&mut parse_file(file, text, &mut mistakes).0);
    }
    if mistakes.is_empty() {
        Ok(all)
    } else {
        Err(mistakes)
    }
}

/// Parses files, and checks each signature on its own.
#[cfg(any(test, fuzzing))]
pub(super) fn parse(files: &[(String, String)]) -> (Vec<Signature>, Vec<SignatureMistake>) {
    let (placed, mistakes) = parse_placed(files);
    (
        placed.into_iter().map(|placed| placed.signature).collect(),
        mistakes,
    )
}

/// Parses files, and checks each signature on its own, against the others and against `known`.
pub(super) fn check(
    files: &[(String, String)],
    known: &[Signature],
) -> (Vec<Signature>, Vec<SignatureMistake>) {
    let (placed, mut mistakes) = parse_placed(files);
    let right = || placed.iter().filter(|placed| placed.is_right);
    let all = right().map(|placed| &placed.signature).chain(known);
    let mut by_name = BTreeMap::new();
    all.for_each(|signature| {
        by_name
            .entry(signature.name.clone())
            .or_insert_with(|| signature.clone());
    });
    match SignatureCatalogue::new(by_name.into_values().collect()) {
        Ok(catalogue) => right().for_each(|placed| placed.cross_talk(&catalogue, &mut mistakes)),
        Err(error) => mistakes.push(SignatureMistake {
            file: String::new(),
            line: 0,
            problem: error.to_string(),
        }),
    }
    mistakes.truncate(MISTAKES_MAX);
    let of_file = |placed: Placed<'_>| Signature {
        file: Some(placed.file.to_owned()),
        ..placed.signature
    };
    (placed.into_iter().map(of_file).collect(), mistakes)
}

/// A signature with its place in a file.
struct Placed<'a> {
    signature: Signature,
    file: &'a str,
    /// Line of `[[signature]]`, from 0.
    line: usize,
    lines: Vec<&'a str>,
    /// Nothing is wrong with it on its own.
    is_right: bool,
}

fn parse_placed(files: &[(String, String)]) -> (Vec<Placed<'_>>, Vec<SignatureMistake>) {
    let (mut all, mut mistakes) = (Vec::<Placed<'_>>::new(), Vec::new());
    for (file, text) in files {
        let (parsed, kept) = parse_file(file, text, &mut mistakes);
        let heads = tables(&kept).into_iter().map(|(line, _)| line);
        let heads: Vec<usize> = heads.collect();
        let of_table = tables(text);
        let mut tables = of_table
            .into_iter()
            .filter(|(line, _)| heads.contains(line));
        for signature in parsed {
            let (line, lines) = tables.next().unwrap_or_default();
            let mut placed = Placed {
                signature,
                file,
                line,
                lines,
                is_right: true,
            };
            let before = mistakes.len();
            placed.alone(&mut mistakes);
            if all
                .iter()
                .any(|other| other.signature.name == placed.signature.name)
            {
                placed.wrong(
                    "name",
                    format!("`{}` is defined twice", placed.signature.name),
                    &mut mistakes,
                );
            }
            placed.is_right = mistakes.len() == before;
            all.push(placed);
        }
    }
    mistakes.truncate(MISTAKES_MAX);
    (all, mistakes)
}

/// The signatures of a file, and its text without what is wrong. A line with an unknown key or a wrong
/// value is left out and the file read again, so that all such lines are reported.
fn parse_file(
    file: &str,
    text: &str,
    mistakes: &mut Vec<SignatureMistake>,
) -> (Vec<Signature>, String) {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut is_left_out = vec![false; lines.len()];
    for _ in 0..MISTAKES_MAX {
        let kept = lines.join("\n");
        let error = match toml::from_str::<File>(&kept) {
            Ok(parsed) => return (parsed.signature, kept),
            Err(error) => error,
        };
        let start = error.span().map_or(0, |span| span.start.min(kept.len()));
        let line = kept[..start].matches('\n').count();
        let table = match lines.get(line) {
            Some(text) if text.trim_start().starts_with('[') => end_of_table(&lines, line),
            _ => line + 1,
        };
        // A key that was left out is no missing one.
        let is_told = table > line + 1 && is_left_out[line..table].contains(&true);
        if !is_told {
            mistakes.push(SignatureMistake {
                file: file.to_owned(),
                line: line + 1,
                problem: error.message().to_owned(),
            });
        }
        if line >= lines.len() || toml::from_str::<toml::Table>(text).is_err() {
            break;
        }
        is_left_out[line..table].fill(true);
        // A signature without a severity is none, and its other mistakes would not be found.
        let is_severity = table == line + 1 && is_of_key(lines[line], "severity");
        lines[line..table].fill("");
        if is_severity {
            lines[line] = "severity = \"info\"";
        }
    }
    (Vec::new(), String::new())
}

/// Whether a line sets a key.
fn is_of_key(line: &str, key: &str) -> bool {
    let rest = line.trim_start().strip_prefix(key);
    rest.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// The line behind the table that begins at `line`.
fn end_of_table(lines: &[&str], line: usize) -> usize {
    let is_head = |text: &&str| text.trim_start().starts_with("[[");
    let next = lines[line + 1..].iter().position(is_head);
    next.map_or(lines.len(), |next| line + 1 + next)
}

/// The line of each `[[signature]]`, and the lines that belong to it.
fn tables(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut tables = Vec::<(usize, Vec<&str>)>::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("[[") {
            tables.push((number, Vec::new()));
        }
        if let Some((_, lines)) = tables.last_mut() {
            lines.push(line);
        }
    }
    tables
}

impl Placed<'_> {
    fn wrong(&self, key: &str, problem: String, mistakes: &mut Vec<SignatureMistake>) {
        let inside = self.lines.iter().position(|line| is_of_key(line, key));
        let inside = inside.unwrap_or(0);
        mistakes.push(SignatureMistake {
            file: self.file.to_owned(),
            line: self.line + inside + 1,
            problem,
        });
    }

    /// Checks the signature on its own.
    fn alone(&self, mistakes: &mut Vec<SignatureMistake>) {
        let it = &self.signature;
        let mut must = |holds: bool, key: &str, problem: &str| {
            if !holds {
                self.wrong(key, format!("{}: {problem}", it.name), mistakes);
            }
        };
        let in_name =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        must(
            !it.name.is_empty() && it.name.chars().all(in_name),
            "name",
            "a name consists of lowercase letters, digits and dashes",
        );
        let sizes = LITERAL_MIN..=LITERAL_MAX;
        // A marker is searched for anyway.
        let is_marker = is_marker(it.literal.as_bytes());
        must(
            sizes.contains(&it.literal.len()) || is_marker,
            "literal",
            &format!("a literal has {LITERAL_MIN} to {LITERAL_MAX} bytes"),
        );
        for (key, text) in [
            ("literal", &it.literal),
            ("meaning", &it.meaning),
            ("example", &it.example),
        ] {
            must(
                !text.chars().any(char::is_control),
                key,
                "it contains control characters",
            );
            must(!text.trim().is_empty(), key, "it is empty");
        }
        must(
            !it.severity.is_finding() || !it.causes.is_empty(),
            "severity",
            "a finding needs causes",
        );
        must(
            !it.severity.is_finding() || it.next.is_some(),
            "severity",
            "a finding needs a next step",
        );
        must(
            !it.label || it.severity == Severity::Info,
            "severity",
            "a label is info",
        );
        must(
            it.severity != Severity::Benign || it.benign.is_empty(),
            "benign",
            "a benign signature is benign in every phase; omit `benign`",
        );
        must(
            it.example.contains(&it.literal),
            "example",
            "the example lacks the literal",
        );
        self.regex(mistakes);
        self.below(mistakes);
    }

    /// The lines below its example tell what their texts name.
    fn below(&self, mistakes: &mut Vec<SignatureMistake>) {
        let Some(below) = &self.signature.below else {
            return;
        };
        let problem = match compile(&below.regex) {
            Err(problem) => problem,
            Ok(_) if BelowText::of_example(below).values(below).is_some() => return,
            Ok(_) => "the lines of `below.example` lack a value that its texts name".to_owned(),
        };
        self.wrong(
            "below",
            format!("{}: {problem}", self.signature.name),
            mistakes,
        );
    }

    /// Every placeholder of the texts is a group of the regex, or `{means}` of a table.
    fn placeholders(&self, groups: &[&str], mistakes: &mut Vec<SignatureMistake>) {
        let it = &self.signature;
        let causes = it.causes.iter().map(|cause| ("causes", cause));
        let texts = [("meaning", &it.meaning)].into_iter().chain(causes);
        let texts = texts.chain(it.next.iter().map(|next| ("next", next)));
        for (key, text) in texts.chain(it.blames.iter().map(|text| ("blames", text))) {
            for part in text.split('{').skip(1) {
                let name = part.split('}').next().unwrap_or_default();
                let of_table = name == "means" && !it.table.is_empty();
                if !groups.contains(&name) && !of_table {
                    let problem = format!("{}: the regex has no group named `{name}`", it.name);
                    self.wrong(key, problem, mistakes);
                }
            }
        }
    }

    fn regex(&self, mistakes: &mut Vec<SignatureMistake>) {
        let it = &self.signature;
        let needed: &[&str] = match it.fact {
            Some(Fact::Setting) => &["key", "value"],
            Some(
                Fact::TransportLoaded | Fact::TransportUp | Fact::Transport | Fact::TransportUsed,
            ) => &["transport"],
            Some(Fact::Nodes) => &["nodes"],
            Some(Fact::Collective) => &["sequence", "operation"],
            Some(Fact::Progress) => &["enqueued"],
            Some(Fact::AnnouncedRank) => &["rank", "ranks"],
            Some(Fact::ListedRank) => &["rank", "host"],
            _ if !it.table.is_empty() => &["code"],
            Some(Fact::Version) => &["version"],
            _ => &[],
        };
        let Some(text) = &it.regex else {
            self.placeholders(&[], mistakes);
            if let Some(group) = needed.first() {
                self.wrong(
                    "fact",
                    format!(
                        "{}: this fact needs a regex with a group named `{group}`",
                        it.name
                    ),
                    mistakes,
                );
            }
            return;
        };
        match compile(text) {
            Err(problem) => self.wrong("regex", format!("{}: {problem}", it.name), mistakes),
            Ok(regex) => {
                let groups: Vec<&str> = regex.capture_names().flatten().collect();
                self.placeholders(&groups, mistakes);
                for group in needed
                    .iter()
                    .filter(|group| !regex.capture_names().any(|name| name == Some(**group)))
                {
                    self.wrong(
                        "regex",
                        format!("{}: the regex has no group named `{group}`", it.name),
                        mistakes,
                    );
                }
                if !regex.is_match(it.example.as_bytes()) {
                    self.wrong(
                        "example",
                        format!("{}: the regex does not match the example", it.name),
                        mistakes,
                    );
                }
            }
        }
    }

    /// Checks the signature against all others.
    fn cross_talk(&self, catalogue: &SignatureCatalogue, mistakes: &mut Vec<SignatureMistake>) {
        let it = &self.signature;
        let matches: Vec<&str> = catalogue
            .matches(it.example.as_bytes())
            .iter()
            .filter(|other| !other.label || other.name == it.name)
            .map(|other| other.name.as_str())
            .collect();
        if !matches.contains(&it.name.as_str()) {
            self.wrong(
                "example",
                format!("{}: it does not match its example; {matches:?} do", it.name),
                mistakes,
            );
        }
        let others = matches
            .iter()
            .filter(|other| !it.label && **other != it.name);
        for other in others {
            self.wrong(
                "example",
                format!(
                    "{}: `{other}` matches this example too; name it in `over`, or make one of the two narrower",
                    it.name
                ),
                mistakes,
            );
        }
        for name in &it.over {
            if !catalogue
                .signatures()
                .iter()
                .any(|other| other.name == *name)
            {
                self.wrong(
                    "over",
                    format!("{}: no signature is named `{name}`", it.name),
                    mistakes,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: &str = "[[signature]]\nname = 'mine-a'\nliteral = 'widget lost'\nseverity = 'warning'\nmeaning = 'm'\ncauses = ['c']\nnext = 'n'\nversions = 'v'\nexample = 'a widget lost here'\n";

    fn mistakes(text: &str) -> Vec<String> {
        let embedded = SignatureCatalogue::embedded().unwrap();
        let files = [("x.toml".to_owned(), text.to_owned())];
        check(&files, embedded.signatures())
            .1
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_mistake_is_reported_with_its_line() {
        let check = |text: &str, line: usize, part: &str| {
            let mistakes = mistakes(text);
            assert!(
                mistakes[0].starts_with(&format!("x.toml:{line}: ")) && mistakes[0].contains(part),
                "{mistakes:?}"
            );
        };
        check(&ONE.replace("mine-a", "Mine"), 2, "lowercase letters");
        check(&ONE.replace("'widget lost'", "'wid'"), 3, "bytes");
        check(
            &ONE.replace("'warning'", "'terrible'"),
            4,
            "unknown variant",
        );
        check(&ONE.replace("meaning", "because"), 5, "unknown field");
        check(&format!("{ONE}regex = '('\n"), 10, "unclosed group");
        check(&format!("{ONE}regex = 'zz'\n"), 9, "does not match");
        check(
            &format!("{ONE}over = ['no-such']\n"),
            10,
            "no signature is named `no-such`",
        );
        check(&format!("{ONE}fact = 'setting'\n"), 10, "group named `key`");
        check(&ONE.replace("'m'", "'a {peer}'"), 5, "group named `peer`");
        check(&format!("{ONE}\n{ONE}"), 12, "is defined twice");
        check(
            &ONE.replace("a widget lost here", "gone"),
            9,
            "lacks the literal",
        );
        check(
            &ONE.replace("a widget lost here", "widget lost: mhandle is null"),
            9,
            "`null-mhandle` matches this example too",
        );
        check("[[signature]\n", 1, "");
        assert_eq!(mistakes(ONE), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_severity_hides_no_other_mistake() {
        let text = ONE
            .replace("mine-a", "Mine")
            .replace("'widget lost'", "'wid'")
            .replace("'warning'", "'warn'")
            .replace("'m'", "'a {peer}'")
            .replace("a widget lost here", "gone");
        let said = mistakes(&format!("{text}foo = 1\n"));
        for line in [2, 3, 4, 5, 9, 10] {
            let place = format!("x.toml:{line}: ");
            assert!(said.iter().any(|one| one.starts_with(&place)), "{said:?}");
        }
    }

    #[test]
    fn several_mistakes_are_reported_at_once() {
        let text = ONE
            .replace("mine-a", "Mine")
            .replace("'widget lost'", "'wid'");
        assert!(mistakes(&text).len() >= 2);
        let file = format!(
            "{}\n{}\n{}regex = '('\n\n{}",
            ONE.replace("'warning'", "'terrible'")
                .replace("meaning", "because"),
            ONE.replace("mine-a", "mine-b")
                .replace("literal = 'widget lost'\n", ""),
            ONE.replace("mine-a", "mine-c"),
            ONE.replace("mine-a", "mine-d") + "over = ['no-such']\n",
        );
        let said = mistakes(&file);
        let parts = [
            "x.toml:4: unknown variant",
            "x.toml:5: unknown field",
            "missing field `literal`",
            "unclosed group",
            "no signature is named `no-such`",
        ];
        for part in parts {
            let count = said.iter().filter(|one| one.contains(part)).count();
            assert_eq!(count, 1, "{part}: {said:#?}");
        }
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(cut in 0usize..ONE.len(), with in "[ -~\n]{0,12}", text in "\\PC{0,100}") {
            for text in [text, format!("{}{with}{}", &ONE[..cut], &ONE[cut..])] {
                let (signatures, mistakes) = parse(&[("x.toml".to_owned(), text)]);
                prop_assert!(signatures.len() <= 2 && mistakes.len() <= MISTAKES_MAX);
            }
        }
    }
}
