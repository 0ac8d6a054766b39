//! `tcpxctl report`: renders a run as HTML, Markdown, JSON, CSV, JUnit XML or Prometheus text.
//!
//! ```console
//! $ tcpxctl report                                    # the newest run under reports/, as HTML
//! # Report : reports/20261120T101500Z-4conn/report.html (redacted; 412 kB)
//! $ tcpxctl report reports/20261120T101500Z-4conn --short --lang zh
//! $ tcpxctl report run.tar.gz --format junit --out junit.xml
//! $ tcpxctl report reports/*-sweep-* --out sweep/     # all points in one chart
//! $ tcpxctl report a3-0.tcpxrec a3-1.tcpxrec logs/    # recordings and logs, as `tcpxctl adopt` takes them
//! $ tcpxctl report --collect --peer 10.0.0.226        # no run: what both nodes are now
//! ```
//!
//! Any run folder, finished, going on or damaged, or a bundle, which is read in
//! place. Names and addresses are replaced unless `--no-redact`; what was replaced
//! by what goes beside the report, for its owner only.
#![forbid(unsafe_code)]

use super::Common;
use super::adopt::runs;
use super::collect::{self, NoChecks};
use super::failure::{Ended, Ending, Failure};
use super::mesh::{self, ExcludeWord};
use super::nodes::Nodes;
use super::output::{path_text, print, print_error, say};
use super::signals::{end_soon, interrupted};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tcpx_diagnose::{findings_from_files, newest_run};
use tcpx_node::redact::{Cleared, Outlet};
use tcpx_report::{Language, Story, WriteError, gather, write_whole};
use tcpx_run_model::record::{RunFiles, RunFolder};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folder or bundle [default: the newest run]. With several runs, the report covers the first, and its chart shows all.
    ///
    /// Or recorder files, process ids, logs and folders of these, which become one run folder below
    /// --reports.
    #[arg(value_name = "RUN|FILE|PID", conflicts_with = "collect")]
    runs: Vec<PathBuf>,
    /// Report the nodes instead of a run: the doctor checks of this node and of --peer.
    #[arg(long)]
    collect: bool,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Render at most sixty lines of Markdown, for the body of an e-mail.
    #[arg(long, conflicts_with = "format")]
    short: bool,
    /// Audience: `google` puts the questions for Google first.
    #[arg(long = "for", value_enum, value_name = "WHOM")]
    whom: Option<Whom>,
    /// Language of the verdict, the findings with their next steps, the questions, and all of the short form.
    #[arg(long, value_enum, default_value_t = Lang::En)]
    lang: Lang,
    /// File to write, or a folder for every format; `-` is stdout.
    #[arg(long, value_name = "DIR|FILE")]
    out: Option<PathBuf>,
    /// Do not replace names and addresses.
    #[arg(long)]
    no_redact: bool,
    /// Print only the nodes that a mesh found at fault, for a scheduler.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["collect", "format", "short", "out"])]
    exclude_format: Option<ExcludeWord>,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One HTML file with charts; opens from disk, prints.
    Html,
    /// Markdown, to paste.
    Markdown,
    /// Everything as one JSON document.
    Json,
    /// The counters over time.
    Csv,
    /// The run's gates as JUnit XML.
    Junit,
    /// Prometheus text format.
    Prometheus,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whom {
    /// Google's TCPX team.
    Google,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// English.
    En,
    /// Chinese.
    Zh,
}

impl Format {
    const ALL: [Self; 6] = [
        Self::Html,
        Self::Markdown,
        Self::Json,
        Self::Csv,
        Self::Junit,
        Self::Prometheus,
    ];

    fn file_name(self) -> &'static str {
        match self {
            Self::Html => "report.html",
            Self::Markdown => "report.md",
            Self::Json => "report.json",
            Self::Csv => "report.csv",
            Self::Junit => "junit.xml",
            Self::Prometheus => "report.prom",
        }
    }
}

impl Arguments {
    fn language(&self) -> Language {
        match self.lang {
            Lang::En => Language::English,
            Lang::Zh => Language::Chinese,
        }
    }

    fn render(&self, story: &Story, format: Format, outlet: &mut Outlet) -> Cleared {
        let format = if self.short {
            tcpx_report::Format::Short
        } else {
            format.into()
        };
        let for_google = self.whom.is_some();
        tcpx_report::render(story, format, for_google, self.language(), outlet)
    }
}

impl From<Format> for tcpx_report::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Html => Self::Html,
            Format::Markdown => Self::Markdown,
            Format::Json => Self::Json,
            Format::Csv => Self::Csv,
            Format::Junit => Self::Junit,
            Format::Prometheus => Self::Prometheus,
        }
    }
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if !arguments.collect && arguments.nodes.has_peer() {
        let message = "--peer goes with --collect: a run has recorded its nodes";
        return Err(Failure::new(Outcome::Usage, message).next("omit --peer, or add --collect"));
    }
    let mut runs = match arguments.collect {
        true => vec![collected(arguments)?],
        false => open(common, &arguments.runs, &arguments.reports)?,
    };
    end_soon()?;
    let files = runs.remove(0);
    if let Some(format) = arguments.exclude_format {
        return exclude(&files, format);
    }
    let mut story = gather(&files, findings_from_files);
    for other in &runs {
        story.sweep_with(&gather(other, findings_from_files));
    }
    let mut outlet = Outlet::of_command(arguments.no_redact);
    if let Some(redactor) = outlet.redactor() {
        story = tcpx_report::redacted(story, redactor);
    }
    if common.json && arguments.out.is_none() {
        let cleared = arguments.render(&story, Format::Json, &mut outlet);
        print(&cleared.text());
        return Ok(Ending::from(second_look(
            common,
            &outlet,
            [("-".as_ref(), &cleared)],
        )));
    }
    let out = place(arguments, &files)?;
    let map_place = match &out {
        Place::Stdout => None,
        Place::File(path) | Place::Folder(path) => Some(beside(path)),
    };
    let mut rendered = Vec::new();
    match out {
        Place::Stdout => {
            let cleared = arguments.render(&story, arguments.format, &mut outlet);
            print(&cleared.text());
            rendered.push((PathBuf::from("-"), cleared));
        }
        Place::File(path) => rendered.push((
            path,
            arguments.render(&story, arguments.format, &mut outlet),
        )),
        Place::Folder(folder) => rendered.extend(Format::ALL.map(|format| {
            let path = folder.join(format.file_name());
            (path, arguments.render(&story, format, &mut outlet))
        })),
    }
    for (path, cleared) in rendered.iter().filter(|(path, _)| path.as_os_str() != "-") {
        write(&story, cleared, path)?;
    }
    if let Some(path) = map_place {
        keep_map(&path, &outlet)?;
    }
    let files = rendered
        .iter()
        .map(|(path, cleared)| (path.as_path(), cleared));
    Ok(Ending::from(second_look(common, &outlet, files)))
}

/// Prints the nodes that a mesh found at fault.
fn exclude(files: &RunFiles, format: ExcludeWord) -> Ended {
    let run = files
        .record()
        .map_err(|error| Failure::because(Outcome::NotRun, &error))?;
    let Some(run) = run.filter(|run| run.mesh.is_some()) else {
        let message = format!("{} is no finished run of a mesh", files.id());
        return Err(Failure::new(Outcome::Usage, message)
            .next("name a run of scenarios/mesh.toml, or of another scenario with [mesh]"));
    };
    print(&mesh::excluded(&run, format.into()));
    Ok(Ending::PASSED)
}

/// Looks at redacted reports once more, with other rules.
fn second_look<'a>(
    common: &Common,
    outlet: &Outlet,
    files: impl IntoIterator<Item = (&'a Path, &'a Cleared)>,
) -> Outcome {
    if !outlet.is_redacting() {
        return Outcome::Passed;
    }
    let texts = files
        .into_iter()
        .flat_map(|(path, cleared)| tcpx_report::revealing(&path.display().to_string(), cleared));
    warn_of_revealing(common, &texts.collect::<Vec<_>>())
}

/// Names every text that looks like a name, an address or a secret. `Failed` if there is one.
pub(crate) fn warn_of_revealing(common: &Common, texts: &[String]) -> Outcome {
    for text in texts {
        let next = "look at this place before you send the file; if it must not leave, remove it \
            from the run's files and render them again";
        print_error(common, format!("may reveal something: {text}"), Some(next));
    }
    match texts.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed,
    }
}

/// A run folder that has the doctor checks of both nodes and no run.
fn collected(arguments: &Arguments) -> Result<RunFiles, Failure> {
    let stamp = tcpx_words::units::stamp_utc();
    let folder = RunFolder::create(&arguments.reports, &stamp, "collected")?;
    let path = folder.path.clone();
    let stop = interrupted()?;
    collect::examine(&path, &arguments.nodes, &stop).map_err(|why| match why {
        NoChecks::Interrupted => Failure::new(Outcome::Interrupted, "interrupted"),
        NoChecks::Failed(why) => {
            let message = format!("cannot examine the nodes: {why}");
            Failure::new(Outcome::PeerLost, message)
        }
    })?;
    Ok(RunFiles::open(&path)?)
}

/// The map's file: beside the output, never in it.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".map.json");
    path.with_file_name(name)
}

/// Writes the map from names to the placeholders that replace them, if any were replaced.
pub(crate) fn keep_map(path: &Path, outlet: &Outlet) -> Result<(), WriteError> {
    let Some(map) = outlet.map() else {
        return Ok(());
    };
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    if is_device || path.starts_with("/proc") {
        say(
            "# Map : not written, because the output is not a file; the run folder has the real names\n",
        );
        return Ok(());
    }
    write_whole(path, |to| {
        serde_json::to_writer_pretty(to, map).map_err(Into::into)
    })?;
    say(&format!(
        "# Map : {} (the real names: do not send it)\n",
        path_text(path)
    ));
    Ok(())
}

/// The runs that are named, at least one: by default the newest run in `reports`.
pub(crate) fn open(
    common: &Common,
    named: &[PathBuf],
    reports: &Path,
) -> Result<Vec<RunFiles>, Failure> {
    match named {
        [] => Ok(vec![RunFiles::open(&newest_run(reports)?)?]),
        named => runs(common, named, reports),
    }
}

enum Place {
    Stdout,
    File(PathBuf),
    Folder(PathBuf),
}

fn place(arguments: &Arguments, files: &RunFiles) -> Result<Place, Failure> {
    let file = |folder: &Path| folder.join(arguments.format.file_name());
    Ok(match (&arguments.out, files) {
        (Some(path), _) if path.as_os_str() == "-" => Place::Stdout,
        (Some(path), _) if path.is_dir() && arguments.short => Place::File(path.join("SUMMARY.md")),
        (Some(path), _) if path.is_dir() => Place::Folder(path.clone()),
        (Some(path), _) if path.as_os_str().to_string_lossy().ends_with('/') => {
            std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            Place::Folder(path.clone())
        }
        (Some(path), _) => Place::File(path.clone()),
        (None, _) if arguments.short || arguments.format != Format::Html => Place::Stdout,
        (None, RunFiles::Folder(run)) => Place::File(file(run)),
        (None, RunFiles::Bundle { .. }) => Place::File(PathBuf::from(arguments.format.file_name())),
    })
}

/// Writes the redacted report of a run into its folder, and returns its path.
pub(crate) fn write_html(files: &RunFiles, run: &Path) -> Result<PathBuf, WriteError> {
    let mut outlet = Outlet::of_command(false);
    let mut story = gather(files, findings_from_files);
    if let Some(redactor) = outlet.redactor() {
        story = tcpx_report::redacted(story, redactor);
    }
    let path = run.join(Format::Html.file_name());
    let format = tcpx_report::Format::Html;
    let cleared = tcpx_report::render(&story, format, false, Language::English, &mut outlet);
    write(&story, &cleared, &path)?;
    keep_map(&beside(&path), &outlet)?;
    Ok(path)
}

fn write(story: &Story, cleared: &Cleared, path: &Path) -> Result<(), WriteError> {
    write_whole(path, |to| to.write_all(cleared.bytes()))?;
    let how = if story.redacted {
        "redacted"
    } else {
        "NOT redacted"
    };
    say(&format!(
        "# Report : {} ({how}; {} kB)\n",
        path_text(path),
        cleared.bytes().len().div_ceil(1000)
    ));
    Ok(())
}
