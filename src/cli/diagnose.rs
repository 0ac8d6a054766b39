//! `tcpxctl diagnose`: names the condition that stops a transfer, with its evidence.
//!
//! ```console
//! $ tcpxctl diagnose                                    # what runs here now, or the newest run below reports/
//! $ tcpxctl diagnose reports/20261120T101500Z-4conn     # a run, finished or not
//! $ tcpxctl diagnose run.tar.gz                         # a bundle, read in place
//! $ tcpxctl diagnose 4242                               # a process under `tcpxctl tap`
//! $ tcpxctl diagnose a.tcpxrec b.tcpxrec                # recordings of both ends, running or not
//! $ tcpxctl diagnose a.tcpxrec b.tcpxrec logs/          # with the logs of the program; or logs alone
//! $ tcpxctl diagnose --peer 10.0.0.226                  # what runs on both nodes now
//! $ tcpxctl diagnose 4242 peer:77 --peer 10.0.0.226     # of that, a process here and one there
//! $ tcpxctl diagnose --explain                          # every condition there is a name for
//! $ tcpxctl diagnose --explain window-never-consumed    # what it means, how it is detected, what to do
//! ```
//!
//! The exit code is 0 without findings, 3 without findings in a damaged or empty run or in copies that do not
//! tell, 4 for a stall, and 1 for any other error. Without an error, a run that failed keeps its own.
#![forbid(unsafe_code)]

use super::Common;
use super::adopt::{find, is_foreign};
use super::failure::{Ended, Ending, Failure};
use super::findings::render_all;
use super::logs::catalogue;
use super::logs_text;
use super::nodes::{Nodes, upload};
use super::output::{Columns, print, print_json};
use super::signals::interrupted;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tcpx_coord::Watching;
use tcpx_coord::reach::Transport;
use tcpx_diagnose::{
    CatalogueEntry, Condition, Evidence, OpenError, diagnose, evidence_from_files,
    evidence_from_recorders, newest_run,
};
use tcpx_logs::{LogFilter, LogReader, LogReport, Severity as LineSeverity};
use tcpx_recorder::Reader;
use tcpx_run_model::adopt::LOGS;
use tcpx_run_model::finding::{Finding, Severity};
use tcpx_run_model::ids::{Names, NodeId, Unit, WorkerId};
use tcpx_run_model::live::torn;
use tcpx_run_model::record::RunFiles;
use tcpx_run_model::repeats::{Repeat, take_repeated_recordings};
use tcpx_run_model::replay::clock_set_back;
use tcpx_tui::watch::{SourceError, open};
use tcpx_words::error::Outcome;
use tcpx_words::units::printable;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run folder (finished or not) or bundle; or process ids, recorder files, of one end or both, and logs [default:
    /// every running process here that has a recorder; if there is none, the newest run in reports/].
    /// With --peer, PID is a process on this node, and peer:PID one on the other.
    #[arg(value_name = "RUN|PID|FILE", conflicts_with = "explain")]
    what: Vec<String>,
    /// Explain a condition: meaning, detection, reproduction and fix; without a name, list all conditions.
    #[arg(long, value_name = "CONDITION", num_args = 0..=1)]
    explain: Option<Option<String>>,
    /// Print the evidence as JSON, and no findings.
    #[arg(long, conflicts_with = "explain")]
    evidence: bool,
    #[command(flatten)]
    nodes: Nodes,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if let Some(name) = &arguments.explain {
        return explain(common, name.as_deref());
    }
    let DiagnoseInput {
        of,
        evidence,
        note,
        logs,
    } = seen(arguments)?;
    if arguments.evidence {
        print_json(&EvidenceDocument {
            schema: "tcpxctl.evidence/1",
            evidence: &evidence,
        });
        return Ok(Ending::PASSED);
    }
    let findings = diagnose(&evidence);
    let state = || {
        let left = || evidence.left_in_flight();
        evidence
            .idle()
            .or_else(left)
            .or_else(|| evidence.asked_to_end())
    };
    let state = findings.is_empty().then(state).flatten();
    let notes: Vec<String> = note.into_iter().chain(state).collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    // What cannot be read may be what was wrong, and so may what a copy does not tell.
    let outcome = match exit_of(&findings, logs.as_ref()) {
        _ if findings.is_empty() && !evidence.damaged.is_empty() => Outcome::NotRun,
        Outcome::Passed if findings.is_empty() && evidence.is_undecided() => Outcome::NotRun,
        Outcome::Passed if evidence.is_empty() && logs.is_none() => Outcome::NotRun,
        // A warning, or nothing, does not make a run that failed one that passed.
        Outcome::Passed => evidence.failure().unwrap_or(Outcome::Passed),
        outcome => outcome,
    };
    if common.json {
        let missing = evidence.missing();
        let exit_code = outcome.exit_code();
        let (of, findings, note) = (&*of, &*findings, note.as_deref());
        print_json(&DiagnoseDocument {
            schema: "tcpxctl.diagnose/2",
            of,
            exit_code,
            note,
            findings,
            missing,
            damaged: &evidence.damaged,
            logs: logs.as_ref(),
        });
    } else {
        print(&text(
            &of,
            note.as_deref(),
            &evidence,
            &findings,
            logs.as_ref(),
        ));
    }
    Ok(Ending::from(outcome))
}

/// 4 for a stall, as in `run`, and 1 for any other error; by the logs if the rules find none.
fn exit_of(findings: &[Finding], logs: Option<&LogReport>) -> Outcome {
    let errors = || {
        findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
    };
    match (
        errors().next(),
        errors().any(|finding| is_stall(&finding.condition)),
    ) {
        (None, _) => match logs.and_then(LogReport::worst) {
            Some(LineSeverity::Stall) => Outcome::Stalled,
            Some(LineSeverity::Fatal | LineSeverity::Error) => Outcome::Failed,
            _ => Outcome::Passed,
        },
        (Some(_), true) => Outcome::Stalled,
        (Some(_), false) => Outcome::Failed,
    }
}

/// Whether the condition stops a transfer; the others end it or spoil its result.
fn is_stall(condition: &str) -> bool {
    Condition::from_name(condition).is_none_or(|condition| condition.entry().stalls)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EvidenceDocument<'a> {
    schema: &'static str,
    /// What the rules look at; its keys change with them.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "super::schemas::Keys"))]
    evidence: &'a Evidence,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiagnoseDocument<'a> {
    schema: &'static str,
    of: &'a str,
    exit_code: u8,
    /// The state of a run without an end, or of programs that post nothing or ended with requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Finding>"))]
    findings: &'a [Finding],
    missing: Vec<String>,
    /// Files of the run that are there and cannot be read, or only in part, in words.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    damaged: &'a [String],
    /// The summary of the logs, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<super::schemas::Logs>"))]
    logs: Option<&'a LogReport>,
}

fn text(
    of: &str,
    note: Option<&str>,
    evidence: &Evidence,
    findings: &[Finding],
    logs: Option<&LogReport>,
) -> String {
    let summary = logs
        .map(|logs| logs_text::render(logs, false))
        .unwrap_or_default();
    let nodes: Vec<&str> = evidence.node_names().collect();
    let channels = evidence.channel_count();
    let has_only_logs = logs.is_some() && nodes.is_empty();
    let channels = match (has_only_logs, nodes.as_slice()) {
        (true, _) => String::new(),
        (false, []) => format!(": {channels} channels of no process"),
        (false, nodes) => format!(": {channels} channels of {}", nodes.join(", ")),
    };
    let mut text = format!("# diagnose : {}{channels}\n", printable(of));
    note.iter()
        .for_each(|note| text.push_str(&format!("# note : {note}\n")));
    let damaged = evidence.damaged.iter();
    damaged.for_each(|what| text.push_str(&format!("# note : {what}\n")));
    if has_only_logs {
        return text + &summary;
    }
    if findings.is_empty() {
        text.push_str(match (logs, evidence.damaged.is_empty()) {
            (_, false) => "# nothing found in what could be read\n",
            (_, true) if evidence.is_undecided() => UNDECIDED,
            (None, true) if evidence.is_empty() => {
                "# nothing to judge : no event or recording tells of a process\n"
            }
            (_, true) if evidence.failure().is_some() => UNEXPLAINED,
            (None, true) => "# nothing found\n",
            (Some(_), true) => "# nothing found in the recordings\n",
        });
        evidence
            .missing()
            .iter()
            .for_each(|what| text.push_str(&format!("# not seen : {what}\n")));
        return text + &summary;
    }
    text.push_str(&render_all(findings));
    let first = &findings[0].condition;
    text.push_str(&format!("# More : tcpxctl diagnose --explain {first}\n"));
    text + &summary
}

/// What is said of copies that were taken while their programs ran.
const UNDECIDED: &str = "# undecided : a copy has requests in flight and does not tell whether they stood still when it was taken
# next : judge the program while it runs (`tcpxctl diagnose PID` there), or let `tcpxctl tap --on-stall report` take its own report
";

/// What is said of a run that did not pass and of which no rule knows why.
const UNEXPLAINED: &str = "# nothing found that explains why the run did not pass
# next : read the reason that it ended with: `tcpxctl report RUN --short`
";

/// The evidence, and where it is from.
struct DiagnoseInput {
    of: String,
    evidence: Evidence,
    note: Option<String>,
    /// The summary of the logs, if there are any.
    logs: Option<LogReport>,
}

fn seen(arguments: &Arguments) -> Result<DiagnoseInput, Failure> {
    if let Some(transport) = arguments.nodes.peer()? {
        return on_peer(arguments, &*transport);
    }
    if let Some(process) = arguments.what.iter().find(|what| is_on_peer(what)) {
        let message =
            format!("{process} is a process on the other node, and no other node is named");
        return Err(Failure::new(Outcome::Usage, message).next("name it with --peer HOST"));
    }
    match arguments.what.as_slice() {
        [] => match in_recorders(&[]) {
            Err(SourceError::NoRecorder) => in_run(&newest_run(Path::new("reports"))?),
            seen => Ok(seen?),
        },
        [run] if Path::new(run).exists() && !is_foreign(Path::new(run)) => in_run(Path::new(run)),
        // Run folders of both nodes' taps are judged by their recordings and logs, together.
        what if what.iter().all(|one| is_foreign(Path::new(one))) || is_of_folders(what) => {
            in_files(what)
        }
        recorders => Ok(in_recorders(recorders)?),
    }
}

/// Whether folders are among the arguments, and no bundle, which is read alone.
fn is_of_folders(what: &[String]) -> bool {
    let mut paths = what.iter().map(Path::new);
    paths.clone().any(Path::is_dir) && !paths.any(RunFiles::is_bundle)
}

/// Recordings and logs of programs that no run started.
fn in_files(what: &[String]) -> Result<DiagnoseInput, Failure> {
    let paths: Vec<PathBuf> = what.iter().map(PathBuf::from).collect();
    let found = find(&paths)?;
    if found.logs.is_empty() && !paths.iter().any(|path| path.is_dir()) {
        return Ok(in_recorders(what)?);
    }
    let path = |path: &PathBuf| path.display().to_string();
    let recordings: Vec<String> = found.recordings.iter().map(path).collect();
    let mut input = match recordings.as_slice() {
        [] => DiagnoseInput {
            of: what.join(", "),
            evidence: Evidence::default(),
            note: Some("no recording: the logs alone are judged".to_owned()),
            logs: None,
        },
        recordings => in_recorders(recordings)?,
    };
    if let Some(note) = note_of(&found.repeats) {
        input.note = Some(
            input
                .note
                .map_or(note.clone(), |first| format!("{first}; {note}")),
        );
    }
    if !found.logs.is_empty() {
        input.logs = Some(summary(|reader| reader.paths(&found.logs))?);
    }
    Ok(input)
}

/// The summary of logs that `read` reads.
fn summary(read: impl FnOnce(&mut LogReader<'_>)) -> Result<LogReport, Failure> {
    let (catalogue, filter) = (catalogue(&[])?, LogFilter::default());
    let mut reader = LogReader::new(&catalogue, &filter);
    read(&mut reader);
    Ok(reader.report())
}

/// A run folder or a bundle, finished or not.
fn in_run(path: &Path) -> Result<DiagnoseInput, Failure> {
    let files = RunFiles::open(path)?;
    let evidence = evidence_from_files(&files)?;
    let note = match files.unfinished() {
        Some(unfinished) => Some(unfinished.words(evidence.now_ms)),
        None => set_back(&files).map(str::to_owned),
    };
    let is_log = |name: &String| name.starts_with(LOGS);
    let names: Vec<String> = files.names().into_iter().filter(is_log).collect();
    let read = |reader: &mut LogReader<'_>| {
        for name in &names {
            // A file that cannot be read is among what the run has lost.
            if let Ok(file) = files.file(name) {
                reader.stream(name, file);
            }
        }
    };
    let logs = match names.is_empty() {
        true => None,
        false => Some(summary(read)?),
    };
    Ok(DiagnoseInput {
        of: path.display().to_string(),
        evidence,
        note,
        logs,
    })
}

/// What is noted of the times of a run's record.
fn set_back(files: &RunFiles) -> Option<&'static str> {
    let record = files.record().ok()??;
    clock_set_back([&record.started, &record.finished])
}

/// What is said of files that were named more than once.
fn note_of(repeats: &[Repeat]) -> Option<String> {
    let sentences: Vec<String> = repeats.iter().map(Repeat::sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Processes that write a recorder now, and recorder files.
fn in_recorders(what: &[String]) -> Result<DiagnoseInput, SourceError> {
    let repeats = take_repeated_recordings(&mut what.iter().map(PathBuf::from).collect());
    let mut source = open(what)?;
    let of = source.begin().title;
    let names = source.begin().state.names;
    let mut evidence: Evidence = evidence_from_recorders(names, |events| {
        events.extend(source.poll()?);
        Ok::<_, SourceError>(())
    })?;
    let torn = |name: &String| torn(name, &mut Reader::open(Path::new(name)).ok()?);
    evidence.damaged.extend(what.iter().filter_map(torn));
    Ok(DiagnoseInput {
        of,
        evidence,
        note: note_of(&repeats),
        logs: None,
    })
}

/// Whether it is `peer:PID`, and no file has that name.
fn is_on_peer(what: &str) -> bool {
    what.strip_prefix("peer:")
        .is_some_and(|pid| pid.parse::<u32>().is_ok())
        && !Path::new(what).exists()
}

/// Node and process ids from `PID` and `peer:PID`.
fn processes(what: &[String]) -> Result<Vec<(NodeId, u32)>, Failure> {
    let process = |text: &String| {
        let (node, pid) = match text.strip_prefix("peer:") {
            Some(pid) => (NodeId(1), pid),
            None => (NodeId(0), text.as_str()),
        };
        pid.parse().ok().map(|pid| (node, pid))
    };
    what.iter().map(process).collect::<Option<_>>().ok_or_else(|| {
        let message = "--peer judges what runs on two nodes now, and a RUN or FILE is a recording \
                       on this machine";
        Failure::new(Outcome::Usage, message)
            .next("name processes only, PID here and peer:PID there, or omit --peer")
    })
}

/// The processes with a recorder that run on both nodes now: those that are named, and all of a
/// node of which none is named.
fn on_peer(arguments: &Arguments, transport: &dyn Transport) -> Result<DiagnoseInput, Failure> {
    let wanted = processes(&arguments.what)?;
    let transports = arguments.nodes.transports()?;
    let mut watching = Watching::start(
        &transports,
        wanted.clone(),
        &*interrupted()?,
        &mut |node, sent, all| upload(node, sent, all),
    )?;
    let names = Names {
        nodes: watching.nodes().to_vec(),
        pairs: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    let evidence = evidence_from_recorders(names, |events| {
        let before = events.len();
        watching.look(events)?;
        let rest = events.split_off(before);
        events.extend(rest.into_iter().filter(|event| {
            let Some(WorkerId {
                node,
                unit: Unit::Process { pid, .. },
            }) = event.worker()
            else {
                return true;
            };
            seen.insert((node, pid));
            wanted.contains(&(node, pid)) || wanted.iter().all(|(other, _)| *other != node)
        }));
        Ok(())
    })
    .map_err(OpenError::Lost)?;
    if let Some((node, pid)) = wanted
        .iter()
        .find(|process| !seen.contains(process) && !watching.is_elsewhere(**process))
    {
        let node = &watching.nodes()[node.0 as usize].name;
        let message = format!("process {pid} on {node} does not run, or has no recorder");
        return Err(Failure::new(Outcome::Usage, message)
            .next("omit the process ids to judge every process with a recorder on both nodes"));
    }
    Ok(DiagnoseInput {
        of: format!("{} and {}", transports[0].node(), transport.node()),
        evidence,
        note: None,
        logs: None,
    })
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ExplainDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Object>"))]
    conditions: Vec<&'a CatalogueEntry>,
}

fn explain(common: &Common, name: Option<&str>) -> Ended {
    let conditions: Vec<&CatalogueEntry> = match name.map(|name| (name, Condition::from_name(name)))
    {
        None => Condition::ALL.iter().map(|one| one.entry()).collect(),
        Some((_, Some(condition))) => vec![condition.entry()],
        Some((name, None)) => {
            let like = Condition::suggestions(name).join(", ");
            let next = if like.is_empty() {
                "list them with `tcpxctl diagnose --explain`".to_owned()
            } else {
                format!("did you mean {like}?")
            };
            let message = format!("there is no condition `{name}`");
            return Err(Failure::new(Outcome::Usage, message).next(next));
        }
    };
    match (common.json, conditions.as_slice()) {
        (true, _) => print_json(&ExplainDocument {
            schema: "tcpxctl.explain/1",
            conditions,
        }),
        (false, [one]) if name.is_some() => print(&described(one)),
        (false, all) => print(&listed(all)),
    }
    Ok(Ending::PASSED)
}

fn listed(conditions: &[&CatalogueEntry]) -> String {
    let mut columns = Columns::new(&["condition", "severity", "what it means"]);
    for condition in conditions {
        columns.row([
            condition.name.to_string(),
            condition.severity.to_string(),
            condition.meaning.to_owned(),
        ]);
    }
    columns.render()
}

fn described(it: &CatalogueEntry) -> String {
    let causes = it
        .causes
        .iter()
        .zip(1..)
        .map(|(cause, number)| format!("  {number}. {cause}\n"))
        .collect::<String>();
    let reproduce = if it.simulated {
        "to rehearse"
    } else {
        "to reproduce"
    };
    format!(
        "{} ({})\n{}\n\nyou see      : {}\ndetected     : {}\nlikely causes:\n{causes}{reproduce:<13}: {}\nto fix       : {}\nreference    : {}\n",
        it.name,
        it.severity,
        it.meaning,
        it.symptom,
        it.detected,
        it.reproduce,
        it.fix,
        it.reference
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_what_a_run_warns_of_before_it_starts() {
        for name in tcpx_coord::WARNED_OF {
            assert!(Condition::from_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_process_of_two_nodes_is_a_number_here_or_at_the_peer() {
        let said = |what: &[&str]| {
            let what: Vec<String> = what.iter().map(|text| (*text).to_owned()).collect();
            processes(&what).map_err(|failure| failure.message().to_owned())
        };
        let (here, there) = (NodeId(0), NodeId(1));
        assert_eq!(said(&[]), Ok(vec![]));
        assert_eq!(said(&["42", "peer:7"]), Ok(vec![(here, 42), (there, 7)]));
        for wrong in ["reports/a", "peer:", "a:7", "-1", "x.tcpxrec"] {
            assert!(said(&[wrong]).is_err(), "{wrong}");
        }
    }
}
