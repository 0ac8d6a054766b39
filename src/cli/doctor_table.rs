//! The table of `tcpxctl doctor`: layers from the machine up, one line per check, the details of
//! checks that did not pass, and the first next steps at the end.
#![forbid(unsafe_code)]

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tcpx_node::doctor::{Catalogue, CheckRow, CheckVerdict, Examination, NOT_CHECKED};
use tcpx_words::units::printable;
use textwrap::{Options, WordSplitter};

/// Maximum number of characters of a passed check's value; `--json` has the whole value.
const VALUE_CHARS_MAX: usize = 90;
/// Width that explanations are wrapped at.
const LINE_COLUMNS: usize = 112;
/// Maximum number of next steps that the summary repeats.
const STEPS_MAX: usize = 5;
/// Indent of the explanations of a check that did not pass.
const INDENT: &str = "                      ";

/// Whether to print in colour.
#[derive(Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(super) fn verdict(self, verdict: CheckVerdict) -> String {
        let style = match verdict {
            _ if !self.0 => Style::new(),
            CheckVerdict::Pass => AnsiColor::Green.on_default(),
            CheckVerdict::Fail => AnsiColor::Red.on_default().bold(),
            CheckVerdict::Warn => AnsiColor::Yellow.on_default(),
            CheckVerdict::Unknown => AnsiColor::Magenta.on_default(),
        };
        let word = verdict.to_string();
        format!(
            "{style}{word}{style:#}{}",
            &INDENT[..7_usize.saturating_sub(word.len())]
        )
    }
}

/// One node and the results of its checks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Section {
    /// The node's host name.
    pub(crate) node: String,
    /// In the catalogue's order.
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Check>"))]
    pub(crate) checks: Vec<CheckRow>,
}

/// The results of all checks.
pub(crate) struct Report<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) tcpx: bool,
    /// The plugin's path, if `--plugin` is a file.
    pub(crate) plugin: Option<&'a Path>,
    pub(crate) here: Section,
    pub(crate) peer: Option<Section>,
    /// Checks of both nodes together.
    pub(crate) both: Option<Vec<CheckRow>>,
}

/// The document of `--json`; `peer` and `both` need a peer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DoctorDocument<'a> {
    schema: &'static str,
    node: &'a str,
    plugin: &'static str,
    exit_code: u8,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Check>"))]
    checks: &'a [CheckRow],
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a Section>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<Vec<super::schemas::Check>>"))]
    both: Option<&'a [CheckRow]>,
}

impl Report<'_> {
    fn all(&self) -> Examination {
        let peer = self.peer.iter().flat_map(|section| &section.checks);
        let rows = self
            .here
            .checks
            .iter()
            .chain(peer)
            .chain(self.both.iter().flatten());
        Examination {
            rows: rows.cloned().collect(),
        }
    }

    /// 1, 3 or 0, over the checks of all nodes.
    pub(crate) fn exit_code(&self) -> u8 {
        self.all().exit_code()
    }

    pub(crate) fn document(&self) -> DoctorDocument<'_> {
        DoctorDocument {
            schema: "tcpxctl.doctor/1",
            node: &self.here.node,
            plugin: if self.tcpx { "tcpx" } else { "soft" },
            exit_code: self.exit_code(),
            checks: &self.here.checks,
            peer: self.peer.as_ref(),
            both: self.both.as_deref(),
        }
    }

    pub(crate) fn text(&self, paint: Paint) -> String {
        let what = match (self.tcpx, self.plugin) {
            (true, _) => "GPUDirect-TCPX".to_owned(),
            (false, Some(file)) => format!(
                "{}, with the checks of the software plugin",
                printable(&file.to_string_lossy())
            ),
            (false, None) => "the software plugin".to_owned(),
        };
        let mut text = format!(
            "# tcpxctl {}  doctor  {}, for {what}\n",
            env!("CARGO_PKG_VERSION"),
            self.here.node
        );
        text.push_str(&self.layers(&self.here.checks, paint));
        if let Some(peer) = &self.peer {
            let _ = writeln!(text, "\n# Peer : {}", peer.node);
            text.push_str(&self.layers(&peer.checks, paint));
        }
        if let Some(both) = &self.both {
            text.push_str(&self.layers(both, paint));
        }
        text + &summary(&self.all(), paint)
    }

    /// The rows under their layers' headings.
    fn layers(&self, rows: &[CheckRow], paint: Paint) -> String {
        let width = rows.iter().map(|row| row.id.len()).max().unwrap_or(0);
        let mut text = String::new();
        for layer in &self.catalogue.layers {
            let own: Vec<&CheckRow> = rows.iter().filter(|row| row.layer == layer.layer).collect();
            if !own.is_empty() {
                let _ = writeln!(text, "#\n# {}", layer.title);
                text.push_str(&section(&own, width, paint));
            }
        }
        text
    }
}

/// The rows of one layer. Checks that found nothing wrong share one line at the end, and so do
/// checks that were skipped for the same reason.
fn section(rows: &[&CheckRow], width: usize, paint: Paint) -> String {
    let mut text = String::new();
    let mut clean: Vec<&str> = Vec::new();
    let mut skipped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        match (row.verdict, row.value.strip_prefix(NOT_CHECKED)) {
            (CheckVerdict::Pass, _) if ["none", "0"].contains(&row.value.as_str()) => {
                clean.push(&row.id);
            }
            (CheckVerdict::Unknown, Some(why)) => skipped.entry(why).or_default().push(&row.id),
            _ => text.push_str(&one(row, width, paint)),
        }
    }
    let mut together = |verdict, what: &str, ids: &[&str]| {
        let head = format!("  {}  {} {what}: ", paint.verdict(verdict), ids.len());
        text.push_str(&wrapped(&head, &INDENT[..11], &ids.join(" ")));
    };
    if !clean.is_empty() {
        together(CheckVerdict::Pass, "found nothing wrong", &clean);
    }
    for (why, ids) in skipped {
        together(CheckVerdict::Unknown, &format!("not checked ({why})"), &ids);
    }
    text
}

fn one(row: &CheckRow, width: usize, paint: Paint) -> String {
    let verdict = paint.verdict(row.verdict);
    if row.verdict == CheckVerdict::Pass {
        return format!("  {verdict}  {:<width$}  {}\n", row.id, short(&row.value));
    }
    let mut text = format!("  {verdict}  {:<width$}  {}", row.id, row.value);
    // Every list of mistakes is expected to be `none`, which explains nothing.
    if row.verdict != CheckVerdict::Unknown && row.expected != "none" {
        let _ = write!(text, " (must be: {})", row.expected);
    }
    text.push('\n');
    let next = row.next_step.as_deref().unwrap_or_default();
    let words = [
        ("why", row.why.as_str()),
        ("do", next),
        ("else", &row.prevents),
    ];
    for (word, what) in words.into_iter().filter(|(_, what)| !what.is_empty()) {
        text.push_str(&wrapped(&format!("             {word:<7}  "), INDENT, what));
    }
    text
}

/// `words` after `head`, wrapped between words, with later lines indented.
pub(super) fn wrapped(head: &str, indent: &str, words: &str) -> String {
    let options = Options::new(LINE_COLUMNS)
        .initial_indent(head)
        .subsequent_indent(indent);
    // Names and flags are not hyphenated, so that they can be searched for.
    let options = options
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(words, options) + "\n"
}

fn short(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{} …", &value[..at]),
        None => value.to_owned(),
    }
}

/// The count of each verdict, and the first next steps.
fn summary(found: &Examination, paint: Paint) -> String {
    let count = |verdict| {
        format!(
            "{} {}",
            found.count(verdict),
            paint.verdict(verdict).trim_end()
        )
    };
    let all = [
        CheckVerdict::Fail,
        CheckVerdict::Warn,
        CheckVerdict::Unknown,
        CheckVerdict::Pass,
    ]
    .map(count)
    .join(", ");
    let mut text = format!("#\n# Found : {all}\n");
    let failed: Vec<&CheckRow> = found
        .rows
        .iter()
        .filter(|row| row.verdict == CheckVerdict::Fail)
        .collect();
    for (number, row) in failed.iter().take(STEPS_MAX).enumerate() {
        let head = format!(
            "# {} : {}: ",
            if number == 0 { "First" } else { "Then " },
            row.id
        );
        text.push_str(&wrapped(
            &head,
            "#         ",
            row.next_step.as_deref().unwrap_or_default(),
        ));
    }
    if failed.len() > STEPS_MAX {
        let _ = writeln!(text, "# ... and {} more", failed.len() - STEPS_MAX);
    }
    text
}
