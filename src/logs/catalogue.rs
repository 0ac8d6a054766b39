//! All signatures: the embedded ones, and those that users add.
//!
//! A user's signature replaces the embedded one of the same name.
#![forbid(unsafe_code)]

use super::check::{self, SignatureMistake};
use super::counting::Counting;
use super::digits;
use super::loggers;
use super::matcher::{Matcher, Walk};
use super::signature::{OwnSignature, Signature};
use super::signature_regex::{Scratch, SignatureRegex};
use super::stated;
use aho_corasick::{AhoCorasick, BuildError};
use regex::bytes::{Regex, RegexBuilder};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};
use tcpx_words::folders::user_config;

const FILES: [(&str, &str); 20] = [
    ("nccl.toml", include_str!("../../probes/logs/nccl.toml")),
    ("init.toml", include_str!("../../probes/logs/init.toml")),
    (
        "connect.toml",
        include_str!("../../probes/logs/connect.toml"),
    ),
    ("memory.toml", include_str!("../../probes/logs/memory.toml")),
    ("data.toml", include_str!("../../probes/logs/data.toml")),
    ("misuse.toml", include_str!("../../probes/logs/misuse.toml")),
    ("system.toml", include_str!("../../probes/logs/system.toml")),
    (
        "harness.toml",
        include_str!("../../probes/logs/harness.toml"),
    ),
    (
        "sockets.toml",
        include_str!("../../probes/logs/sockets.toml"),
    ),
    ("verbs.toml", include_str!("../../probes/logs/verbs.toml")),
    (
        "plugins.toml",
        include_str!("../../probes/logs/plugins.toml"),
    ),
    (
        "fastrak.toml",
        include_str!("../../probes/logs/fastrak.toml"),
    ),
    (
        "managers.toml",
        include_str!("../../probes/logs/managers.toml"),
    ),
    ("gpu.toml", include_str!("../../probes/logs/gpu.toml")),
    (
        "frameworks.toml",
        include_str!("../../probes/logs/frameworks.toml"),
    ),
    (
        "libraries.toml",
        include_str!("../../probes/logs/libraries.toml"),
    ),
    (
        "networks.toml",
        include_str!("../../probes/logs/networks.toml"),
    ),
    ("launch.toml", include_str!("../../probes/logs/launch.toml")),
    ("ranks.toml", include_str!("../../probes/logs/ranks.toml")),
    (
        "endpoints.toml",
        include_str!("../../probes/logs/endpoints.toml"),
    ),
];
/// Markers of lines that are reported even without a signature if they are warnings of NCCL or a
/// plugin, or errors of any program. The pieces of words follow them.
const MARKERS: [&[u8]; 16] = [
    loggers::WORDS[0],
    loggers::WORDS[1],
    loggers::WORDS[2],
    loggers::WORDS[3],
    loggers::LOWER_WORD,
    loggers::SHORT_WORD,
    b"NCCL WARN ",
    b"[ncclNet:2]",
    loggers::SOURCES[0],
    loggers::SOURCES[1],
    loggers::SOURCES[2],
    b"torch/distributed/",
    loggers::OTHER_FORMS[0],
    loggers::OTHER_FORMS[1],
    loggers::OTHER_FORMS[2],
    loggers::OTHER_FORMS[3],
];

/// What is searched after the literals of the signatures.
fn markers<'a>() -> impl Iterator<Item = &'a [u8]> {
    let (markers, pieces): ([&'a [u8]; _], [&'a [u8]; _]) = (MARKERS, stated::PIECES);
    markers.into_iter().chain(pieces)
}

/// Whether lines with this text are looked at even without a signature.
pub(super) fn is_marker(text: &[u8]) -> bool {
    MARKERS.contains(&text)
}

const SIGNATURES_MAX: usize = 1024;
/// Limit of a compiled regex and of its cache, in bytes.
pub(super) const REGEX_BYTES_MAX: usize = 1 << 20;

/// Signatures that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureCatalogueError {
    /// A folder or file could not be read.
    #[error("cannot read {}: {problem}", path.display())]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        problem: String,
    },
    /// Mistakes in the files, each with file and line.
    #[error("{}", check::list(.0))]
    Wrong(Vec<SignatureMistake>),
    /// Too many signatures.
    #[error("{0} signatures are more than the limit of {SIGNATURES_MAX}")]
    TooMany(usize),
    /// The search could not be built.
    #[error("cannot build the search for the literals: {0}")]
    Search(String),
}

impl tcpx_words::error::NextStep for SignatureCatalogueError {
    fn next_step(&self) -> Option<String> {
        matches!(self, Self::Wrong(_))
            .then(|| "`tcpxctl logs --check DIR` names every mistake of a folder".to_owned())
    }
}

/// The regexes of the signatures for one thread.
#[derive(Debug)]
pub(super) struct Regexes<'a> {
    catalogue: &'a SignatureCatalogue,
    /// Copies of those that are asked of each line, from the first use on: a shared one locks its cache each time.
    kept: Vec<OnceCell<SignatureRegex>>,
    scratch: RefCell<Scratch>,
}

impl Regexes<'_> {
    /// Whether a text is one of a signature, as far as its regex tells.
    pub(super) fn holds(&self, signature: usize, text: &[u8]) -> bool {
        let regex = self.of(signature);
        regex.is_none_or(|regex| regex.is_match(text, &mut self.scratch.borrow_mut()))
    }

    /// Whether the regex of a signature may treat two texts of one form differently.
    fn tells_apart(&self, signature: usize) -> bool {
        matches!(
            self.catalogue.regex(signature),
            Some(SignatureRegex::EachLine(_))
        )
    }

    /// The groups with a name that the regex of a signature has in a text, if it matches.
    pub(super) fn groups<'a>(
        &self,
        signature: usize,
        text: &'a [u8],
    ) -> Option<Vec<(&str, &'a [u8])>> {
        self.of(signature)?
            .groups(text, &mut self.scratch.borrow_mut())
    }

    fn of(&self, signature: usize) -> Option<&SignatureRegex> {
        let regex = self.catalogue.regex(signature)?;
        match (regex, self.kept.get(signature)) {
            (SignatureRegex::EachLine(_), Some(kept)) => Some(kept.get_or_init(|| regex.clone())),
            _ => Some(regex),
        }
    }
}

/// Signatures, compiled for the search.
#[derive(Debug)]
pub struct SignatureCatalogue {
    pub(super) signatures: Vec<Signature>,
    /// The signatures of users.
    pub(super) own: Vec<OwnSignature>,
    /// For each signature: its regex, compiled at the first use, since a log has the lines of few.
    regexes: Vec<OnceLock<Option<SignatureRegex>>>,
    /// For each signature: the signatures that it hides where it matches.
    over: Vec<Vec<usize>>,
    literals: Vec<Vec<u8>>,
    /// For each literal: the signatures that have it.
    of_literal: Vec<Vec<usize>>,
    /// For each signature: how its lines are counted.
    pub(super) counting: Vec<Counting>,
    /// The literals with a digit, and a search for their forms.
    with_digits: Vec<usize>,
    forms: AhoCorasick,
    matcher: Matcher,
}

/// When a signature is tried on a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Ordinary,
    Fallback,
    Label,
}

impl Pass {
    fn of(signature: &Signature) -> Self {
        match (signature.label, signature.fallback) {
            (true, _) => Self::Label,
            (false, true) => Self::Fallback,
            (false, false) => Self::Ordinary,
        }
    }
}

impl SignatureCatalogue {
    /// The embedded signatures.
    ///
    /// # Errors
    /// The embedded files are wrong, which a test rules out.
    pub fn embedded() -> Result<Self, SignatureCatalogueError> {
        Self::new(embedded()?)
    }

    /// The embedded signatures and those of the files `*.toml` of `folders`.
    ///
    /// # Errors
    /// A folder could not be read, or all mistakes in the files.
    pub fn with(folders: &[PathBuf]) -> Result<Self, SignatureCatalogueError> {
        let (mut all, mut own) = (embedded()?, Vec::new());
        for folder in folders {
            let files = check::read(folder)?;
            let (added, mistakes) = check::check(&files, &all);
            if !mistakes.is_empty() {
                return Err(SignatureCatalogueError::Wrong(mistakes));
            }
            own.extend(added.iter().map(|one| OwnSignature::new(one, &all)));
            all.retain(|signature| !added.iter().any(|other| other.name == signature.name));
            all.extend(added);
        }
        Ok(Self {
            own,
            ..Self::new(all)?
        })
    }

    /// Makes the search for signatures that were checked before.
    pub(super) fn new(signatures: Vec<Signature>) -> Result<Self, SignatureCatalogueError> {
        if signatures.len() > SIGNATURES_MAX {
            return Err(SignatureCatalogueError::TooMany(signatures.len()));
        }
        let mut literals: Vec<Vec<u8>> = signatures
            .iter()
            .map(|signature| signature.literal.clone().into())
            .collect();
        literals.sort_unstable();
        literals.dedup();
        let regexes = signatures.iter().map(|_| OnceLock::new()).collect();
        let index = |name: &String| signatures.iter().position(|other| other.name == *name);
        let over = signatures
            .iter()
            .map(|signature| signature.over.iter().filter_map(index).collect())
            .collect();
        let of = |literal: &Vec<u8>| {
            let with = signatures
                .iter()
                .enumerate()
                .filter(|(_, signature)| signature.literal.as_bytes() == literal);
            with.map(|(index, _)| index).collect()
        };
        let of_literal = literals.iter().map(of).collect();
        let searched: Vec<&[u8]> = literals
            .iter()
            .map(Vec::as_slice)
            .chain(markers())
            .collect();
        let examples: Vec<&[u8]> = signatures
            .iter()
            .map(|signature| signature.example.as_bytes())
            .collect();
        let search = |error: BuildError| SignatureCatalogueError::Search(error.to_string());
        let matcher = Matcher::new(&searched, &examples).map_err(search)?;
        let counting = signatures.iter().map(Counting::of).collect();
        let has_digit = |index: &usize| searched[*index].iter().any(u8::is_ascii_digit);
        let with_digits: Vec<usize> = (0..searched.len()).filter(has_digit).collect();
        let forms = with_digits
            .iter()
            .map(|index| digits::form(searched[*index]));
        // Digits are frequent, so looking for places with one would take longer.
        let forms = AhoCorasick::builder()
            .prefilter(false)
            .build(forms)
            .map_err(search)?;
        Ok(Self {
            signatures,
            own: Vec::new(),
            regexes,
            over,
            literals,
            of_literal,
            counting,
            with_digits,
            forms,
            matcher,
        })
    }

    /// The folder of the user's own signatures, if it exists; `variable` reads the environment.
    pub fn user_folder(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
        Some(user_config(variable)?.join("logs")).filter(|path| path.is_dir())
    }

    /// The number of vector searches for the literals; `None` if they need the automaton, which
    /// is slower.
    #[cfg(test)]
    pub(super) fn vector_searches(&self) -> Option<usize> {
        self.matcher.vector_searches()
    }

    /// Every signature, in the order of the files.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// The literals of all signatures, without the markers of warnings.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.literals.iter().map(Vec::as_slice)
    }

    /// As [`Matcher::hits`]; literals beyond those of signatures are markers.
    pub(super) fn hits(&self, block: &[u8], hit: impl FnMut(usize, usize)) {
        self.matcher.hits(block, hit);
    }

    /// As [`Matcher::walk`].
    pub(super) fn walk<'a>(&'a self, block: &'a [u8]) -> Walk<'a> {
        self.matcher.walk(block)
    }

    /// The places of a form where a line of it may have a literal with a digit.
    pub(super) fn places_of_digits(&self, form: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let found = self.forms.find_overlapping_iter(form);
        found.map(|found| (self.with_digits[found.pattern().as_usize()], found.start()))
    }

    /// Whether a line has a literal at a place.
    pub(super) fn is_at(&self, literal: usize, line: &[u8], place: usize) -> bool {
        let text = match literal.checked_sub(self.literals.len()) {
            None => self.literals[literal].as_slice(),
            Some(marker) => markers().nth(marker).unwrap_or_default(),
        };
        line.get(place..).is_some_and(|rest| rest.starts_with(text))
    }

    /// Whether a literal belongs to a signature, and is not a marker's text as well.
    pub(super) fn is_only_of_signatures(&self, literal: usize) -> bool {
        self.literals
            .get(literal)
            .is_some_and(|text| !is_marker(text))
    }

    /// The signatures of a message, in `found`; `literals` are those that it contains. A
    /// fallback is tried only if nothing else matches; labels are tried in any case. `asked` gets the answers of regexes that
    /// tell digits apart.
    pub(super) fn of_message(
        &self,
        literals: impl Iterator<Item = usize> + Clone,
        message: &[u8],
        regexes: &Regexes<'_>,
        found: &mut Vec<usize>,
        asked: &mut Vec<(usize, bool)>,
    ) {
        found.clear();
        for pass in [Pass::Ordinary, Pass::Fallback, Pass::Label] {
            if pass == Pass::Fallback && !found.is_empty() {
                continue;
            }
            for literal in literals.clone() {
                for &index in self.of_literal.get(literal).into_iter().flatten() {
                    let mut holds = || {
                        let holds = regexes.holds(index, message);
                        if regexes.tells_apart(index) {
                            asked.push((index, holds));
                        }
                        holds
                    };
                    let is_meant = Pass::of(&self.signatures[index]) == pass;
                    if is_meant && !found.contains(&index) && holds() {
                        found.push(index);
                    }
                }
            }
        }
        self.without_hidden(found);
    }

    /// Whether a literal is that of a signature.
    pub(super) fn has(&self, literal: usize, signature: usize) -> bool {
        let of = self.of_literal.get(literal);
        of.is_some_and(|of| of.contains(&signature))
    }

    /// Removes signatures that others in the list hide.
    fn without_hidden(&self, found: &mut Vec<usize>) {
        if found.len() > 1 && found.iter().any(|index| !self.over[*index].is_empty()) {
            let hidden: Vec<usize> = found
                .iter()
                .flat_map(|index| &self.over[*index])
                .copied()
                .collect();
            found.retain(|index| !hidden.contains(index));
        }
    }

    /// The values that a line has for the placeholders of the signature `index`.
    pub(super) fn values(&self, index: usize, line: &[u8]) -> Values {
        let mut values = BTreeMap::new();
        // A copy has a cache of its own, which ends with it.
        let regex = self.regex(index).cloned();
        let groups = |text| regex.as_ref()?.groups(text, &mut Scratch::default());
        // A signature is tried on the message, so `^` is its beginning.
        let found = groups(self.message(index, line)).or_else(|| groups(line));
        for (name, text) in found.into_iter().flatten() {
            values.insert(name.to_owned(), super::compose::shown(text));
        }
        if let Some(means) = values
            .get("code")
            .zip(self.signatures.get(index))
            .and_then(|(code, signature)| signature.table.get(code))
        {
            values.insert(MEANS.to_owned(), means.clone());
        }
        Values(values)
    }

    /// The message of the record of a line that has the literal of the signature `index`.
    fn message<'a>(&self, index: usize, line: &'a [u8]) -> &'a [u8] {
        let literal = self.signatures.get(index).map(|one| one.literal.as_bytes());
        let place = literal.and_then(|literal| memchr::memmem::find(line, literal));
        super::shape::record_at(line, place.unwrap_or_default())
            .0
            .message
    }

    /// The regex of a signature, if it has one.
    fn regex(&self, index: usize) -> Option<&SignatureRegex> {
        let text = self.signatures.get(index)?.regex.as_deref()?;
        let compiled = self.regexes.get(index)?;
        compiled
            .get_or_init(|| SignatureRegex::new(text).ok())
            .as_ref()
    }

    /// The regexes for one thread.
    pub(super) fn regexes(&self) -> Regexes<'_> {
        Regexes {
            catalogue: self,
            kept: self.regexes.iter().map(|_| OnceCell::new()).collect(),
            scratch: RefCell::default(),
        }
    }

    /// The signatures that match one line.
    pub fn matches(&self, line: &[u8]) -> Vec<&Signature> {
        let mut hits = Vec::new();
        self.hits(line, |literal, place| hits.push((literal, place)));
        let mut all = Vec::new();
        if let Some((_, place)) = hits.first() {
            let message = super::shape::record_at(line, *place).0.message;
            let literals = hits.iter().map(|(literal, _)| *literal);
            let regexes = self.regexes();
            self.of_message(literals, message, &regexes, &mut all, &mut Vec::new());
        }
        all.into_iter()
            .map(|index| &self.signatures[index])
            .collect()
    }
}

/// Compiles a signature's regex.
///
/// # Errors
/// The mistake, in one line.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    // Lines are bytes, and NCCL and the plugin write ASCII.
    let regex = builder
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build();
    regex.map_err(|error| {
        error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim()
            .to_owned()
    })
}

/// Values for the placeholders `{name}` in the texts of a signature.
#[derive(Default)]
pub(super) struct Values(BTreeMap<String, String>);

/// The placeholder for the table's meaning of the group `code`.
const MEANS: &str = "means";

impl Values {
    /// The value of a group.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Adds a value of a group, which may have others.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let Some(known) = self.0.get_mut(name) else {
            self.0.insert(name.to_owned(), value.to_owned());
            return;
        };
        if known.split(", ").all(|one| one != value) {
            known.push_str(", ");
            known.push_str(value);
        }
    }

    /// Whether there is a value for every placeholder of a text.
    pub(super) fn has_all(&self, text: &str) -> bool {
        let mut names = text.split('{').skip(1);
        names.all(|name| {
            name.split_once('}')
                .is_some_and(|(name, _)| self.0.contains_key(name))
        })
    }

    /// A text with its placeholders filled. A value that the line lacks becomes `?`.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, tail)) = after.split_once('}') else {
                break;
            };
            filled.push_str(before);
            let value = self.0.get(name).map_or("?", |value| of_one_writer(value));
            if value.is_empty() && filled.ends_with(": ") {
                // The line ends before what would tell why.
                filled.truncate(filled.len() - ": ".len());
            }
            filled.push_str(value);
            rest = tail;
        }
        filled + rest
    }
}

/// The color of a launcher's prefix, whose escape a log may have lost: `[0;36m(Worker pid=71)`.
static NEXT_WRITER: LazyLock<Regex> =
    LazyLock::new(|| super::loggers::regex(r".\s*\[\d{1,2}(?:;\d{1,3})*m\("));

/// What a value is up to where another process wrote into its line.
fn of_one_writer(value: &str) -> &str {
    let may_have = memchr::memmem::find(value.as_bytes(), b"m(").is_some();
    let next = may_have
        .then(|| NEXT_WRITER.find(value.as_bytes()))
        .flatten();
    let end =
        next.and_then(|next| Some(next.start() + value[next.start()..].chars().next()?.len_utf8()));
    end.and_then(|end| value.get(..end)).unwrap_or(value)
}

fn embedded() -> Result<Vec<Signature>, SignatureCatalogueError> {
    check::parse_checked(&FILES).map_err(SignatureCatalogueError::Wrong)
}

/// The embedded files.
#[cfg(test)]
pub(super) fn files() -> Vec<(String, String)> {
    FILES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}
