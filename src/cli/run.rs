//! `tcpxctl run SCENARIO`: moves verified bytes between two workers.
//!
//! ```console
//! $ tcpxctl run scenarios/4conn.toml
//! ```
//!
//! Both ends run on this machine, each with an agent and a worker, or on two nodes with
//! `--peer 10.0.0.226`; the program is sent to the peer if it is not there. The table on stdout
//! follows nccl-tests; the run folder under `reports/` has everything else. A sweep runs its
//! points one after the other, and its exit code is the first one that is not 0.
#![forbid(unsafe_code)]

use super::collect::{NoChecks, examine};
use super::dry_run::dry_run;
use super::failure::{Ended, Ending, Failure};
use super::findings::render_all;
use super::mesh::{self, Meeting, MeshArguments};
use super::nixlbench::Like;
use super::nixlbench_table;
use super::nodes::{Nodes, upload};
use super::output::{path_text, print, print_error, print_json, print_warning, say};
use super::plugin_arguments::PluginArguments;
use super::run_table::{Progress, header, summary, table};
use super::scenario::{EnvironmentArguments, add_flags, must_be_runnable, points};
use super::signals::{end_with, interrupted};
use super::unrecorded::unrecorded;
use super::watch::LookArguments;
use super::{Common, bundle};
use clap::Args;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;
use tcpx_coord::{FocusedChannel, Retest, RunOutcome, RunRequest, Work, conclude};
use tcpx_diagnose::BackgroundWatcher;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::Who;
use tcpx_run_model::record::{MeshCell, RunFiles, RunFolder, RunRecord};
use tcpx_run_model::scenario::Resolved;
use tcpx_run_model::state::RunState;
use tcpx_tui::watch::{LiveSource, ViewUpdate};
use tcpx_tui::{ViewExit, ViewOptions};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::units::TimeSpan;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Scenario file, such as scenarios/4conn.toml, or the name of a shipped one, such as mesh-quick.
    #[arg(required_unless_present = "like_nixlbench")]
    scenario: Option<PathBuf>,
    /// In place of a scenario: what nixlbench would run with these options, and its table, such as
    /// '--op_type READ --max_block_size 65536'.
    #[arg(
        long,
        value_name = "OPTIONS",
        conflicts_with = "scenario",
        allow_hyphen_values = true
    )]
    like_nixlbench: Option<String>,
    /// Override a key, such as transfer.connections=8; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A gate, such as min_gb_per_s=10: short for --set expect.KEY=VALUE; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    expect: Vec<String>,
    /// End the run as Ctrl-C does once it has taken this long, with waiting for nodes.
    #[arg(long, value_name = "TIME")]
    within: Option<TimeSpan>,
    #[command(flatten)]
    environment: EnvironmentArguments,
    #[command(flatten)]
    plugin: PluginArguments,
    /// Folder for the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
    /// Print every key with its value and origin, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Skip the critical checks of both nodes.
    #[arg(long)]
    no_preflight: bool,
    /// Unless the run passes, check both nodes and pack a redacted bundle of the run.
    #[arg(long)]
    report_on_fail: bool,
    /// End as Ctrl-C does when this process, which started this one, ends.
    #[arg(long, value_name = "PID", hide = true)]
    ends_with: Option<u32>,
    /// Show the run as `tcpxctl watch` does, until `q`.
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    live: bool,
    #[command(flatten)]
    look: LookArguments,
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    mesh: MeshArguments,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let gates = arguments.expect.iter().map(|gate| format!("expect.{gate}"));
    let set: Vec<String> = arguments.set.iter().cloned().chain(gates).collect();
    let mut inputs = arguments.environment.inputs()?;
    inputs.scenario.clone_from(&arguments.scenario);
    let like = arguments.like_nixlbench.as_deref();
    let like = like.map(Like::parse).transpose()?;
    let points = match &like {
        Some(like) => {
            add_flags(&mut inputs, &set, &arguments.plugin);
            like.points(&inputs)?
        }
        None => points(inputs, &set, &arguments.plugin)?,
    };
    if arguments.dry_run {
        return dry_run(common, &arguments.nodes, &arguments.mesh, &points);
    }
    for point in &points {
        must_be_runnable(&point.scenario)?;
    }
    if arguments.live && !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err(Failure::new(Outcome::Usage, "--live needs a terminal")
            .next(format!("omit --live, and {ELSEWHERE}")));
    }
    let interrupted = interrupted()?;
    if let Some(parent) = arguments.ends_with {
        end_with(parent, &interrupted)?;
    }
    if let Some(within) = arguments.within {
        end_within(common, within, &interrupted);
    }
    let mut meetings = Vec::new();
    for point in &points {
        meetings.push(arguments.mesh.meeting(&arguments.nodes, &point.scenario)?);
    }
    let is_sweep = points.len() > 1;
    let mut runs = Vec::new();
    for (point, meeting) in points.iter().zip(&meetings) {
        let run = run_point(common, arguments, meeting, point, is_sweep, &interrupted);
        runs.push(run?);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    match (common.json, runs.as_slice()) {
        (false, runs) if like.is_some() => print(&nixlbench_table::table(runs)),
        (false, runs) if is_sweep => print(&summary(&points, runs)),
        (false, _) => {}
        (true, [run]) if !is_sweep => print_json(run),
        (true, runs) => print_json(&SweepDocument {
            schema: "tcpxctl.sweep/1",
            runs,
        }),
    }
    let first_bad = runs.iter().find(|run| run.exit_code != 0);
    Ok(match first_bad {
        Some(run) => Ending::code(run.exit_code),
        None if runs.len() < points.len() => Ending::from(Outcome::Interrupted),
        None => Ending::PASSED,
    })
}

/// How long a run may take to end once it is told to.
const ENDS_MAX: Duration = Duration::from_secs(15);

/// Interrupts the run after `within`, and ends the command if that does not end it.
fn end_within(common: &Common, within: TimeSpan, interrupted: &Arc<AtomicBool>) {
    let (common, interrupted) = (common.clone(), Arc::clone(interrupted));
    std::thread::spawn(move || {
        std::thread::sleep(within.into());
        print_error(
            &common,
            format!("the run takes longer than --within {within}, and is ended"),
            None,
        );
        interrupted.store(true, Ordering::Relaxed);
        std::thread::sleep(ENDS_MAX);
        // Agents and workers end because their control streams close.
        std::process::exit(i32::from(Outcome::Interrupted.exit_code()));
    });
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SweepDocument<'a> {
    schema: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::Run>"))]
    runs: &'a [RunRecord],
}

fn run_point(
    common: &Common,
    arguments: &Arguments,
    meeting: &Meeting,
    point: &Resolved,
    is_sweep: bool,
    interrupted: &Arc<AtomicBool>,
) -> Result<RunRecord, Failure> {
    let scenario = &point.scenario;
    let started = tcpx_words::units::now_utc();
    let stamp = tcpx_words::units::stamp_utc();
    let mut folder = RunFolder::create(&arguments.reports, &stamp, &scenario.slug())?;
    folder.scenario(&toml::to_string_pretty(scenario).unwrap_or_default());
    let id = folder.id.clone();
    // stdout is reserved for a document or a list of nodes.
    let show = |text: &str| match arguments.mesh.exclude_format {
        _ if common.json => {}
        Some(_) => say(text),
        None => print(text),
    };
    show(&header(&id, point, is_sweep));
    if let Some(mesh) = &scenario.mesh {
        show(&mesh::header(mesh, meeting));
    }
    let mut progress = Progress::new(scenario);
    let bootstrap_port = arguments.nodes.bootstrap_port();
    let preflight = !arguments.no_preflight;
    let focused = FocusedChannel::default();
    let nodes = meeting.transports.len();
    let retest = move |rates: &[MeshCell], groups: &[Option<String>]| {
        mesh::retest_rounds(rates, groups, nodes)
    };
    let retest: &Retest<'_> = &retest;
    let request = RunRequest {
        scenario,
        work: Work::Transfer,
        run_id: &id,
        interrupted,
        transports: &meeting.transports,
        rounds: &meeting.rounds,
        on_failure: meeting.on_failure,
        missing_max: arguments.mesh.allow_missing,
        retest: scenario.mesh.is_some().then_some(retest),
        topology: &meeting.topology,
        bootstrap_port,
        preflight,
        focused: arguments.live.then_some(&focused),
    };
    let mut observe = |event: &Event, state: &RunState, quietly: bool| {
        match (&event.kind, event.worker()) {
            (EventKind::Upload { to, sent, all }, _) if !quietly => return upload(to, *sent, *all),
            (EventKind::RecorderPiece { offset, bytes }, Some(worker)) => {
                return folder.recording(worker, &state.names, *offset, bytes);
            }
            (EventKind::Frame(frame), Some(worker)) => {
                return folder.frame(worker, &state.names, frame);
            }
            _ => {}
        }
        if event.is_written() {
            folder.event(event);
        }
        if !quietly {
            progress.show(event, state);
        }
    };
    let (outcome, mut run) = if arguments.live {
        let look = ViewOptions {
            stay: !is_sweep,
            ..arguments.look.look(common)
        };
        live(common, look, &request, &started, &mut observe)
    } else {
        judged(&request, &started, &mut |event, state| {
            observe(event, state, false)
        })
    };
    progress.clear();
    show(&table(&run, &outcome));
    if let Some(format) = arguments.mesh.exclude_format {
        print(&mesh::excluded(&run, format.into()));
    }
    print_reason(common, &run, show);
    let path = folder.path().to_owned();
    match folder.finish(&mut run) {
        Ok(path) => {
            show(&format!("# Record : {}\n", path_text(&path)));
            for lacks in unrecorded(&outcome, &path) {
                say(&format!("# not recorded : {lacks}\n"));
            }
            if arguments.report_on_fail && (run.exit_code != 0 || run.outcome != Outcome::Passed) {
                report_failure(common, arguments, &path);
            }
        }
        // The result is valid, but no later command can show all of it.
        Err(error) => {
            if path.is_dir() {
                show(&format!("# Record : {} (incomplete)\n", path_text(&path)));
            }
            let why = format!("the record is incomplete: {error}");
            print_error(common, why, error.next_step().as_deref());
        }
    }
    Ok(run)
}

/// Prints the reason for the outcome, the findings of a failed run, and the unmet expectations.
fn print_reason(common: &Common, run: &RunRecord, show: impl Fn(&str)) {
    match (&run.reason, run.exit_code) {
        (None, _) => {}
        (Some(reason), 0) => show(&format!("# As expected : {reason}\n")),
        (Some(reason), _) => print_error(common, reason, run.next_step.as_deref()),
    }
    if run.exit_code != 0 && !run.findings.is_empty() {
        say(&render_all(&run.findings));
    }
    for unmet in &run.unmet {
        print_error(common, unmet, None);
    }
}

/// Writes a bundle beside the run folder. A failure here is printed and changes no exit code.
fn report_failure(common: &Common, arguments: &Arguments, run: &Path) {
    // A signal may have ended the run, and these checks are for it; a second one ends this process.
    let stop = AtomicBool::new(false);
    if let Err(NoChecks::Failed(why)) = examine(run, &arguments.nodes, &stop) {
        let message = format!("the report has no doctor checks: {why}");
        print_error(common, message, None);
    }
    // stdout is reserved for the result.
    let quiet = Common {
        json: false,
        ..common.clone()
    };
    let out = PathBuf::from(format!("{}.tar.gz", run.display()));
    let written = RunFiles::open(run)
        .map_err(Failure::from)
        .and_then(|files| {
            bundle::write(
                &quiet,
                &files,
                Some(&out),
                bundle::Leaves::KnownLines,
                bundle::Signals::AreForTheCaller,
                say,
            )
        });
    if let Err(failure) = written {
        let message = format!("cannot write the bundle: {}", failure.message());
        print_error(common, message, None);
    }
}

/// The command line, quoted for a shell.
fn command() -> Option<String> {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    shlex::try_join(words.iter().map(String::as_str)).ok()
}

/// Runs the scenario, and applies the rules during the run and at its end.
fn judged(
    request: &RunRequest<'_>,
    started: &str,
    observe: &mut dyn FnMut(&Event, &RunState),
) -> (RunOutcome, RunRecord) {
    let watcher = BackgroundWatcher::start();
    let found_at = |event: &Event, findings| Event {
        at: event.at.clone(),
        ..Event::new(event.ms, Who::Run, EventKind::Findings(findings))
    };
    let mut last = None;
    let outcome = tcpx_coord::run(request, &mut |event, state| {
        observe(event, state);
        if let Some(findings) = watcher.event(event, state) {
            observe(&found_at(event, findings), state);
        }
        last = Some((event.ms, event.at.clone()));
    });
    let (mut watcher, findings) = watcher.finish();
    if let Some(((ms, at), findings)) = last.zip(findings) {
        let found = Event::new(ms, Who::Run, EventKind::Findings(findings));
        observe(&Event { at, ..found }, &outcome.state);
    }
    let mut run = conclude(request.run_id, started, request.scenario, &outcome);
    run.command = command();
    watcher.conclude(&outcome.state, &mut run);
    run.settle();
    (outcome, run)
}

/// How to see a run without `--live`.
const ELSEWHERE: &str = "use `tcpxctl watch` from another terminal";

/// Runs the scenario with the live view; after the view is left, the progress line goes on.
fn live(
    common: &Common,
    look: ViewOptions,
    request: &RunRequest<'_>,
    started: &str,
    observe: &mut (dyn FnMut(&Event, &RunState, bool) + Send),
) -> (RunOutcome, RunRecord) {
    let (to_view, updates) = mpsc::channel();
    let focused = |wanted| {
        if let Some(focused) = request.focused {
            *focused.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
        }
    };
    let mut source = LiveSource::new(request.scenario, updates, focused);
    let is_shown = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            let (outcome, run) = judged(request, started, &mut |event, state| {
                // Fails once the view is left.
                let _ = to_view.send(ViewUpdate::Event(Box::new(event.clone())));
                observe(event, state, is_shown.load(Ordering::Relaxed));
            });
            let _ = to_view.send(ViewUpdate::Over(Box::new(run.clone())));
            (outcome, run)
        });
        let left = catch_unwind(AssertUnwindSafe(|| tcpx_tui::run(&mut source, look)));
        is_shown.store(false, Ordering::Relaxed);
        match left {
            Ok(Ok(ViewExit::Quit)) => {}
            Ok(Ok(ViewExit::Interrupted)) => request.interrupted.store(true, Ordering::Relaxed),
            Ok(Err(error)) if error.is_hang_up() => {
                request.interrupted.store(true, Ordering::Relaxed);
            }
            // The run continues without a view. Of a panic, the hook has told.
            Ok(Err(error)) => print_warning(common, error, Some(ELSEWHERE)),
            Err(_) => {}
        }
        runs.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
