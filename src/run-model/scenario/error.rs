//! Errors in a scenario: what is wrong, where, and what was expected.
//!
//! A [`Diagnostic`] is rendered like those of rustc: title, file, line, caret, help. Only the line
//! in question is shown, bounded in length and without control characters, because the file may
//! hold anything.
#![forbid(unsafe_code)]

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tcpx_words::abi_version::UnknownVersion;
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units;

/// Why a scenario cannot be run. The request is wrong, never the system under test.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file does not exist or cannot be read.
    #[error("cannot read scenario {}: {source}", shown_path(path))]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
        /// A file there is whose name is close.
        nearest: Option<PathBuf>,
    },
    /// The user's configuration exists, or may exist, and cannot be read.
    #[error("cannot read the configuration {}: {source}", shown_path(path))]
    UnreadableConfig {
        /// `config.toml` in the user's folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file of `--env-file` cannot be read.
    #[error("cannot read --env-file {}: {source}", shown_path(path))]
    UnreadableScript {
        /// As it was given.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory, not a scenario file", shown_path(.0))]
    Directory(PathBuf),
    /// Refused without parsing.
    #[error("{} is not a scenario: larger than {limit} bytes", shown_path(path))]
    TooLarge {
        /// As it was given.
        path: PathBuf,
        /// The bound, in bytes.
        limit: u64,
    },
    /// Not UTF-8.
    #[error("{} is not UTF-8 text: byte {offset} is invalid", shown_path(path))]
    NotText {
        /// As it was given.
        path: PathBuf,
        /// The first byte that is not text.
        offset: usize,
    },
    /// An environment variable is not UTF-8.
    #[error("environment variable {0} is not text")]
    VariableNotText(&'static str),
    /// A pattern of `--forward-env` that does not begin with a part of a name.
    #[error("--forward-env `{0}` would forward variables of any name")]
    ForwardsAll(String),
    /// An environment variable with an unknown ncclNet version.
    #[error("environment variable {name} is `{value}`: {error}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should have been.
        error: UnknownVersion,
    },
    /// Something in a file, a flag or a variable, with its place.
    #[error("{0}")]
    Written(Box<Diagnostic>),
    /// A value outside its range, of a scenario that came from no file.
    #[error("{0}")]
    InvalidValue(InvalidValue),
    /// JSON that is not a scenario.
    #[error("not a scenario: {0}")]
    Json(#[source] serde_json::Error),
}

impl ScenarioError {
    /// Whose problem it is: the request was wrong.
    pub fn outcome(&self) -> Outcome {
        Outcome::Usage
    }

    /// An error with its place. Only a value that no source gave has no place.
    pub(super) fn written(
        place: Option<Place>,
        title: String,
        label: String,
        help: Option<String>,
    ) -> Self {
        let place = place.unwrap_or_else(|| Place::new("scenario", "", 0..0));
        Self::Written(Box::new(Diagnostic {
            title,
            label,
            help,
            place,
        }))
    }

    /// The whole message, over several lines, for a person.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        match self {
            Self::Written(diagnostic) => renderer.render(&[diagnostic.group()]),
            other => {
                let title = printable(&other.to_string(), TITLE_CHARS_MAX);
                let help = other.next_step();
                let group = Group::with_title(Level::ERROR.primary_title(title));
                renderer.render(&[group.elements(help.map(|help| Level::HELP.message(help)))])
            }
        }
    }
}

impl NextStep for ScenarioError {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Unreadable {
                nearest: Some(path),
                ..
            } => Some(format!("did you mean {}?", shown_path(path))),
            Self::Directory(_) => Some("name one of the files in it".to_owned()),
            Self::TooLarge { .. } | Self::NotText { .. } => {
                Some("give a TOML file such as scenarios/4conn.toml".into())
            }
            Self::Written(diagnostic) => diagnostic.help.clone(),
            Self::Variable { name, .. } => Some(format!("unset {name}, or give --abi vN")),
            Self::ForwardsAll(_) => {
                Some("begin with a part of the names: --forward-env 'NCCL_*'".to_owned())
            }
            Self::UnreadableConfig { .. } => {
                Some("set HOME or XDG_CONFIG_HOME to a folder that this user can read".to_owned())
            }
            Self::Unreadable { .. }
            | Self::UnreadableScript { .. }
            | Self::VariableNotText(_)
            | Self::InvalidValue(_)
            | Self::Json(_) => None,
        }
    }
}

/// A key whose value is outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// The dotted key.
    pub key: String,
    /// Its value as JSON text, where it has a single one.
    pub value: Option<String>,
    /// What it must be.
    pub expected: String,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self
            .value
            .as_deref()
            .map_or("this".to_owned(), |value| printable(value, VALUE_CHARS_MAX));
        write!(
            f,
            "`{}` cannot be {value}: expected {}",
            self.key, self.expected
        )
    }
}

/// A message that points at a place in a file, a flag or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, naming key and value.
    pub title: String,
    /// What was expected; stands beside the caret.
    pub label: String,
    /// The nearest valid thing, where there is one.
    pub help: Option<String>,
    /// Where.
    pub place: Place,
}

/// A place in a source, reduced to the line it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, flag or variable.
    pub source: String,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    excerpt: String,
    span: Range<usize>,
    /// The excerpt begins later than the line does.
    is_cut: bool,
}

const TITLE_CHARS_MAX: usize = 300;
const VALUE_CHARS_MAX: usize = 60;
const EXCERPT_CHARS_MAX: usize = 100;

impl Place {
    /// The place of `span` in `text`. A span that is out of range or within a character is moved
    /// to the nearest character boundary.
    pub(super) fn new(source: &str, text: &str, span: Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let end = text.ceil_char_boundary(span.end.clamp(start, line_end));
        let before = &text[line_start..start];
        let column = before.chars().count() + 1;
        // Before the caret, keep the end of the line's text.
        let kept = before
            .char_indices()
            .rev()
            .nth(EXCERPT_CHARS_MAX - 1)
            .map_or(before, |(at, _)| &before[at..]);
        let is_cut = kept.len() < before.len();
        let before = clean(kept, EXCERPT_CHARS_MAX);
        let marked = clean(&text[start..end], VALUE_CHARS_MAX);
        let after = clean(&text[end..line_end], EXCERPT_CHARS_MAX);
        Self {
            source: printable(source, EXCERPT_CHARS_MAX),
            line: text[..line_start].matches('\n').count() + 1,
            column,
            is_cut,
            span: before.len()..before.len() + marked.len(),
            excerpt: before + &marked + after.trim_end(),
        }
    }

    /// The marked text as it is shown; `empty` if there is none.
    pub(super) fn marked(&self) -> &str {
        self.excerpt
            .get(self.span.clone())
            .filter(|marked| !marked.is_empty())
            .unwrap_or("empty")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source, self.line, self.column)
    }
}

impl Diagnostic {
    fn group(&self) -> Group<'_> {
        let place = &self.place;
        let caret = AnnotationKind::Primary
            .span(place.span.clone())
            .label(self.label.as_str());
        let snippet = Snippet::source(place.excerpt.as_str())
            .line_start(place.line)
            .annotation(caret);
        let title = Level::ERROR.primary_title(self.title.as_str());
        let group = if place.is_cut {
            // The renderer would count the column from where the excerpt begins.
            let origin = Origin::path(place.source.as_str())
                .line(place.line)
                .char_column(place.column);
            title.element(origin).element(snippet)
        } else {
            title.element(snippet.path(place.source.as_str()))
        };
        group.elements(self.help.as_deref().map(|help| Level::HELP.message(help)))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.title)?;
        if self.label.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.label)
        }
    }
}

/// Text on one line, without control characters, cut to `chars_max` characters.
pub(super) fn printable(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((cut, _)) => units::printable(&text[..cut]) + "…",
        None => units::printable(text),
    }
}

/// As above, but keeps the number of characters, so that the caret stays in place: a character
/// that cannot be shown becomes `\u{fffd}`.
fn clean(text: &str, chars_max: usize) -> String {
    text.chars()
        .take(chars_max)
        .map(|c| {
            if is_shown(c) {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        })
        .collect()
}

fn is_shown(c: char) -> bool {
    // Direction marks, zero-width characters and tags.
    let is_invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_invisible
}

fn shown_path(path: &Path) -> String {
    printable(&path.to_string_lossy(), TITLE_CHARS_MAX)
}
