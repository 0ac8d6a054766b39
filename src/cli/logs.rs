//! `tcpxctl logs`: summarizes NCCL and TCPX logs.
//!
//! ```console
//! $ tcpxctl logs node0.log node1.log
//! # logs : 2 files, 4812 lines, 655 kB; 38 lines of known kinds
//! # transport : tcpx (NCCL names GPUDirectTCPX_v7)
//! # version : 3.1.9 on node0:71, node1:71
//! STALL ctrl-timeout : 12 lines, 2026-11-20T08:14:04Z to 2026-11-20T08:19:34Z, node1:71
//!   a receive waits and no header comes: the sender of this flow has not sent
//!   ...
//! ```
//!
//! `FILE` is a file (`.gz`, `.zst`, `.xz` and UTF-16 too), a folder that is read recursively, or `-` for stdin. The worst
//! finding comes first. Harmless lines that look like errors, such as a connection closed at the
//! end of a run, are not findings.
//!
//! Lines of programs that drive the plugin themselves (the P2P harness and its sliding window, UCCL's
//! P2P benchmark, nixlbench) are followed per channel. The verdict says where each end was at its
//! last line, whose turn it is, and what the lines cannot tell; give the logs of both ends:
//!
//! ```console
//! $ tcpxctl logs server.log client.log
//! WAITS receiver-does-not-progress : server.log server, client.log client
//!   3 sends and 0 receives are done, by their lines: bytes of a send that is done are at the receiver, ...
//!   turn : the server's
//!   ...
//! ```
//!
//! Signatures are data (`tcpxctl topic own-signatures`). `--signatures DIR` and `~/.config/tcpxctl/logs` add to the shipped ones;
//! `--check DIR` prints the mistakes in such a folder, with file and line; `--literals` prints
//! the literals that are searched for, in the format of `grep -F -f`.
//!
//! The exit code says whether the logs could be read. With `--fail-on warning` it is 1 if they
//! have a finding of that severity or worse, for CI:
//!
//! ```console
//! $ tcpxctl logs --fail-on error --json logs/ > findings.json
//! # fail : the worst finding is fatal (--fail-on error)
//! $ echo $?
//! 1
//! ```
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print, print_json, say};
use super::signals::interrupted;
use super::{logs_harness, logs_text};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tcpx_logs::{
    HarnessReport, HarnessState, HarnessVerdict, LogFilter, LogReader, LogReport, Severity,
    SignatureCatalogue, SignatureCatalogueError, SignatureMistake, check_folder, follow,
    parse_time,
};
use tcpx_words::error::Outcome;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Log files, folders of them, or `-` for stdin.
    #[arg(value_name = "FILE", required_unless_present_any = ["check", "literals"])]
    files: Vec<PathBuf>,
    /// Keep reading as the files grow, until Ctrl-C, or if only pipes are read until they end. Then print the
    /// whole summary.
    #[arg(long, short)]
    follow: bool,
    /// Only lines from this time on, and lines without a time (RFC 3339 or a date; UTC without a zone).
    ///
    /// Times without a zone in the logs are read as UTC too. Times of glog and vLLM have no year: it is that
    /// of the log's first time with one, or the last in which they are not in the future or after the
    /// file was written.
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<i64>,
    /// Only lines up to this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<i64>,
    /// Only lines of this rank.
    ///
    /// The rank is in the prefix of the launcher: `[1,3]<stdout>:`, `3: `, `[rank3]:`,
    /// `[default3]:`, also behind the prefixes of kubectl, Ray and a collector. In a line without
    /// such a prefix it is the GPU in NCCL's header, `[3]`: add --node in a log of several nodes.
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Only lines of this host, as NCCL writes it: up to the first dot.
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
    /// Exit with code 1 if the logs have a finding of this severity or worse.
    ///
    /// From worst to mildest: fatal, error, stall, warning. Verdicts on programs that drive the
    /// plugin count too, and so do builds of the plugin that differ.
    #[arg(long, value_name = "SEVERITY", conflicts_with_all = ["check", "follow", "literals"])]
    fail_on: Option<FailOn>,
    /// Folder or file of your own signatures; may be repeated.
    ///
    /// `tcpxctl topic own-signatures` prints the format, every key, and an example to copy.
    #[arg(long, value_name = "DIR")]
    signatures: Vec<PathBuf>,
    /// Check a folder of signatures, and read no logs.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "follow", "literals"])]
    check: Option<PathBuf>,
    /// Print the literals that are searched for, one per line.
    #[arg(long, conflicts_with_all = ["files", "follow"])]
    literals: bool,
    /// Also print all settings, all connections and every recognised line.
    #[arg(long, short)]
    verbose: bool,
}

/// A severity of findings.
#[derive(Clone, Copy, ValueEnum)]
enum FailOn {
    Fatal,
    Error,
    Stall,
    Warning,
}

impl From<FailOn> for Severity {
    fn from(fail_on: FailOn) -> Self {
        match fail_on {
            FailOn::Fatal => Self::Fatal,
            FailOn::Error => Self::Error,
            FailOn::Stall => Self::Stall,
            FailOn::Warning => Self::Warning,
        }
    }
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text)
        .ok_or_else(|| "expected a time such as 2026-11-20T08:14:04Z, or a date".to_owned())
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if let Some(folder) = &arguments.check {
        return check(common, folder);
    }
    tcpx_node::one_arena::share();
    let catalogue = catalogue(&arguments.signatures)?;
    if arguments.literals {
        let lines = catalogue
            .literals()
            .map(|literal| format!("{}\n", String::from_utf8_lossy(literal)));
        print(&lines.collect::<String>());
        return Ok(Ending::PASSED);
    }
    let filter = LogFilter {
        since_us: arguments.since,
        until_us: arguments.until,
        rank: arguments.rank,
        node: arguments.node.clone(),
    };
    let mut reader = LogReader::new(&catalogue, &filter);
    if arguments.follow {
        return go_on(common, arguments, &mut reader);
    }
    reader.paths(&arguments.files);
    tcpx_node::one_arena::give_back();
    let report = reader.report();
    show(common, arguments, &report);
    ended(arguments, &report)
}

/// The shipped signatures, those of the user's folder, and `more`.
pub(crate) fn catalogue(more: &[PathBuf]) -> Result<SignatureCatalogue, Failure> {
    let own = SignatureCatalogue::user_folder(|name| std::env::var_os(name));
    let folders: Vec<PathBuf> = own.into_iter().chain(more.iter().cloned()).collect();
    SignatureCatalogue::with(&folders).map_err(|error| Failure::because(Outcome::Usage, &error))
}

fn show(common: &Common, arguments: &Arguments, report: &LogReport) {
    if common.json {
        print_json(report)
    } else {
        print(&logs_text::render(report, arguments.verbose))
    }
}

/// Fails if no input could be read, and ends with code 1 if `--fail-on` says so.
fn ended(arguments: &Arguments, report: &LogReport) -> Ended {
    if report.inputs.bytes > 0 || !report.telemetry.is_empty() {
        return Ok(judged(arguments, report));
    }
    let Some(first) = report.problems.first() else {
        return Ok(Ending::PASSED);
    };
    let message = format!("no log could be read: {}: {}", first.path, first.problem);
    Err(Failure::new(Outcome::NotRun, message).in_result())
}

/// The ending by the worst finding.
fn judged(arguments: &Arguments, report: &LogReport) -> Ending {
    let limit = arguments.fail_on.map(Severity::from);
    let Some((limit, worst)) = limit.zip(report.worst()) else {
        return Ending::PASSED;
    };
    if worst > limit {
        return Ending::PASSED;
    }
    let (worst, limit) = (worst.name(), limit.name());
    say(&format!(
        "# fail : the worst finding is {worst} (--fail-on {limit})\n"
    ));
    Ending::from(Outcome::Failed)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LogsCheckDocument<'a> {
    schema: &'static str,
    signatures: usize,
    /// Names of shipped signatures that those of the folder replace.
    replaces: Vec<&'a str>,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Object>"))]
    mistakes: &'a [SignatureMistake],
}

fn check(common: &Common, folder: &Path) -> Ended {
    let (own, mistakes) = check_folder(folder).map_err(|error| {
        let outcome = match &error {
            SignatureCatalogueError::Unreadable { .. } => Outcome::NotRun,
            _ => Outcome::Usage,
        };
        Failure::because(outcome, &error)
    })?;
    let (signatures, replaced) = (own.len(), own.iter().filter(|one| one.replaces.is_some()));
    if common.json {
        print_json(&LogsCheckDocument {
            schema: "tcpxctl.logs-check/1",
            signatures,
            replaces: replaced.map(|one| one.name.as_str()).collect(),
            mistakes: &mistakes,
        });
    } else {
        mistakes
            .iter()
            .for_each(|mistake| print(&format!("{mistake}\n")));
        print(&logs_text::replaced(&own));
        say(&format!(
            "# {signatures} signatures in {}, {} mistakes\n",
            path_text(folder),
            mistakes.len()
        ));
    }
    let outcome = if mistakes.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Usage
    };
    Ok(Ending::from(outcome))
}

/// Looks at the files without a new line after which programs that wait are told: 5 s.
const QUIET_LOOKS: u32 = 20;

/// Reads until a signal, or until nothing can grow any more, and then prints the whole report. A
/// finding is printed when it is new and whenever its count has doubled, so that a flood of log
/// lines does not flood the terminal.
/// A verdict on a program is printed when it is new: a failure at once, a wait once the files
/// stay as they are, because every program waits between two lines.
fn go_on(common: &Common, arguments: &Arguments, reader: &mut LogReader<'_>) -> Ended {
    let interrupted = interrupted()?;
    let mut shown = std::collections::BTreeMap::<String, u64>::new();
    let (mut harness, mut told, mut quiet) = (None, Vec::new(), 0_u32);
    follow(reader, &arguments.files, |report| {
        let findings = report.into_iter().flat_map(|report| &report.findings);
        for finding in findings {
            let before = shown.get(&finding.signature).copied().unwrap_or_default();
            if finding.count >= 2 * before.max(1) || before == 0 {
                shown.insert(finding.signature.clone(), finding.count);
                if common.json {
                    print_line(finding);
                } else {
                    print(&logs_text::finding(finding));
                }
            }
        }
        quiet = if report.is_some() {
            0
        } else {
            quiet.saturating_add(1)
        };
        if let Some(report) = report {
            harness.clone_from(&report.harness);
        }
        if let Some(harness) = &harness {
            tell(common, harness, quiet >= QUIET_LOOKS, &mut told);
        }
        !interrupted.load(Ordering::Relaxed)
    });
    let report = reader.report();
    if common.json {
        print_line(&report);
    } else {
        print(&format!(
            "\n{}",
            logs_text::render(&report, arguments.verbose)
        ));
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(Ending::from(Outcome::Interrupted));
    }
    ended(arguments, &report)
}

/// Prints the verdicts that are new, and forgets those that no longer hold.
fn tell(
    common: &Common,
    harness: &HarnessReport,
    is_quiet: bool,
    told: &mut Vec<(Cow<'static, str>, Vec<usize>)>,
) {
    let key = |one: &HarnessVerdict| (one.condition.clone(), one.programs.clone());
    told.retain(|known| harness.verdicts.iter().any(|one| key(one) == *known));
    for one in &harness.verdicts {
        let is_settled = is_quiet || one.state != HarnessState::Waits;
        if is_settled && !told.contains(&key(one)) {
            told.push(key(one));
            if common.json {
                print_line(one);
            } else {
                print(&logs_harness::verdict(one, &harness.programs));
            }
        }
    }
}

fn print_line(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        print(&format!("{line}\n"));
    }
}
