//! How a subcommand ends: with an [`Ending`] once its result is printed, or with a [`Failure`].
//!
//! Subcommands and the functions they call return these; only [`Failure::print`], called by
//! `cli::main`, turns a failure into text on stderr and into the `tcpxctl.error/1` document of
//! `--json`. Every error type of the other crates becomes a `Failure` by `From` here.
#![forbid(unsafe_code)]

use super::Common;
use super::output::{colors, cut_short, print_error, print_json_line, say_in_color};
use super::usage::with_printable_arguments;
use crate::interpose::InterposeError;
use serde::Serialize;
use std::fmt::Display;
use std::process::ExitCode;
use tcpx_coord::reach::ReachError;
use tcpx_coord::{LaunchError, NoPlugin, TaskError};
use tcpx_diagnose::OpenError;
use tcpx_engine::gpu::{CudaError, MemoryError};
use tcpx_node::plugin_files::LoadError;
use tcpx_report::WriteError;
use tcpx_report::compare::BaselineError;
use tcpx_report::history::HistoryError;
use tcpx_run_model::adopt::AdoptError;
use tcpx_run_model::record::{FilesError, FolderError};
use tcpx_run_model::scenario::ScenarioError;
use tcpx_trace::SourceError as TraceError;
use tcpx_tui::TuiError;
use tcpx_tui::watch::SourceError;
use tcpx_words::error::{NextStep, Outcome};

/// How a subcommand ends.
pub(crate) type Ended = Result<Ending, Failure>;

/// The exit code of a subcommand whose result, good or bad, is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending(pub(crate) ExitCode);

impl Ending {
    /// Exit code 0.
    pub(crate) const PASSED: Self = Self(ExitCode::SUCCESS);

    /// Exit code `code`: of a record, or of another program.
    pub(crate) fn code(code: u8) -> Self {
        Self(ExitCode::from(code))
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Self::code(outcome.exit_code())
    }
}

/// Why a subcommand has no result, or none that is good.
#[derive(Debug)]
pub(crate) struct Failure {
    outcome: Outcome,
    message: String,
    next_step: Option<String>,
    /// What stderr shows instead of message and next step.
    shown: Shown,
    /// Whether the result document on stdout already has the reason.
    is_in_result: bool,
}

#[derive(Debug)]
enum Shown {
    /// `error: MESSAGE`, and the next step below it.
    Message,
    /// The scenario's line with the mistake marked.
    Scenario(Box<ScenarioError>),
    /// The mistake with the command's usage.
    Usage(clap::Error),
}

/// What `--json` prints for a failure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ErrorDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "super::schemas::OutcomeWord"))]
    outcome: Outcome,
    exit_code: u8,
    message: &'a str,
    next_step: Option<&'a str>,
}

impl Failure {
    /// A failure that no other crate has an error type for.
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            message: message.into(),
            next_step: None,
            shown: Shown::Message,
            is_in_result: false,
        }
    }

    /// An error whose outcome depends on what the command was doing.
    pub(crate) fn because(outcome: Outcome, error: &(impl Display + NextStep)) -> Self {
        Self::new(outcome, error.to_string()).with_next_step(error.next_step())
    }

    /// One imperative sentence, without a full stop.
    pub(crate) fn next(self, step: impl Into<String>) -> Self {
        self.with_next_step(Some(step.into()))
    }

    /// As [`Failure::next`], where the step may be unknown.
    pub(crate) fn with_next_step(self, next_step: Option<String>) -> Self {
        Self { next_step, ..self }
    }

    /// For a failure that the result document already holds: under `--json`, stdout gets no
    /// second document.
    pub(crate) fn in_result(self) -> Self {
        Self {
            is_in_result: true,
            ..self
        }
    }

    /// The message alone, for the text of a larger result.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the failure to stderr and, under `--json`, its document to stdout.
    pub(crate) fn print(&self, common: &Common) -> ExitCode {
        match &self.shown {
            Shown::Message => print_error(common, &self.message, self.next_step.as_deref()),
            Shown::Scenario(error) => {
                let text = error.render(colors(common));
                say_in_color(&format!("{}\n", text.trim_end()));
            }
            Shown::Usage(error) => {
                if let Err(error) = error.print() {
                    cut_short(&error);
                }
            }
        }
        let outcome = if tcpx_words::input::was_given_up() {
            Outcome::Interrupted
        } else {
            self.outcome
        };
        let exit_code = outcome.exit_code();
        if common.json && !self.is_in_result {
            print_json_line(&ErrorDocument {
                schema: "tcpxctl.error/1",
                outcome,
                exit_code,
                message: &self.message,
                next_step: self.next_step.as_deref(),
            });
        }
        ExitCode::from(exit_code)
    }
}

/// An error that no caller distinguishes, with the context that says what failed.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Outcome::NotRun, format!("{error:#}"))
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        let failure = Self::because(error.outcome(), &error);
        Self {
            shown: Shown::Scenario(Box::new(error)),
            ..failure
        }
    }
}

/// clap's text is a paragraph that says what is wrong, then hints, then the usage.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        use clap::error::ErrorKind;
        let error = with_printable_arguments(error);
        let text = error.render().to_string();
        let (message, next_step) = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                ("no subcommand is given".to_owned(), None)
            }
            _ => (first_paragraph(&text), hint(&text)),
        };
        let next_step = next_step.unwrap_or_else(|| "see --help".to_owned());
        Self {
            shown: Shown::Usage(error),
            ..Self::new(Outcome::Usage, message).next(next_step)
        }
    }
}

/// `error: ` off, line breaks to spaces.
fn first_paragraph(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let message = words.join(" ");
    message
        .strip_prefix("error: ")
        .map_or(message.clone(), str::to_owned)
}

/// The sentence behind the first `tip:`.
fn hint(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: "))?;
    Some(line.to_owned())
}

impl From<ReachError> for Failure {
    fn from(error: ReachError) -> Self {
        Self::because(error.outcome, &error)
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Self {
        Self::new(error.outcome, error.message).with_next_step(error.next_step)
    }
}

impl From<NoPlugin> for Failure {
    fn from(no_plugin: NoPlugin) -> Self {
        Self::new(Outcome::NotRun, no_plugin.why).with_next_step(no_plugin.next_step)
    }
}

impl From<AdoptError> for Failure {
    fn from(error: AdoptError) -> Self {
        Self::because(Outcome::NotRun, &error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let outcome = match &error {
            OpenError::NoEvents { .. } | OpenError::NoRuns(_) => Outcome::Usage,
            OpenError::Record { .. } => Outcome::NotRun,
            OpenError::Lost(_) => Outcome::PeerLost,
        };
        Self::because(outcome, &error)
    }
}

impl From<TuiError> for Failure {
    fn from(error: TuiError) -> Self {
        match error {
            TuiError::Source(error) => error.into(),
            TuiError::Background => Self::new(Outcome::Usage, error.to_string())
                .next("use `fg`, `timeout --foreground`, or one frame: `tcpxctl watch --once`"),
            TuiError::Terminal(_) => Self::new(Outcome::NotRun, error.to_string())
                .next("print one frame with --once instead"),
        }
    }
}

/// Errors that know whose problem they are.
macro_rules! with_their_outcome {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::because(error.outcome(), &error)
            }
        })*
    };
}

with_their_outcome!(
    BaselineError,
    FilesError,
    HistoryError,
    InterposeError,
    LaunchError,
    SourceError,
    TraceError,
    WriteError,
);

/// Errors that mean that something is missing, unreadable or cannot be written.
macro_rules! not_run {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::because(Outcome::NotRun, &error)
            }
        })*
    };
}

not_run!(CudaError, FolderError, LoadError, MemoryError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_is_one_sentence_and_its_hint() {
        let text = "error: unexpected argument '--sets' found\n\n  tip: a similar argument exists: \
                    '--set'\n\nUsage: tcpxctl run [OPTIONS] <SCENARIO>\n";
        assert_eq!(first_paragraph(text), "unexpected argument '--sets' found");
        assert_eq!(
            hint(text).as_deref(),
            Some("a similar argument exists: '--set'")
        );
        let missing = "error: the following required arguments were not provided:\n  <SCENARIO>\n";
        assert_eq!(
            first_paragraph(missing),
            "the following required arguments were not provided: <SCENARIO>"
        );
    }
}
