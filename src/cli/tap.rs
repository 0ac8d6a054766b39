//! `tcpxctl tap`: runs your own program and records every call of its plugin.
//!
//! ```console
//! $ tcpxctl tap -- ./my_transfer server 0
//! # tap : v7 of /usr/local/tcpx/lib64/libnccl-net-tcpx.so (a default location of TCPX)
//! ...the program's output...
//! # recording : pid 4242 in /dev/shm/tcpxctl-1000/tap-4240-4242-1423497.tcpxrec
//! ```
//!
//! The program loads the tap instead of its plugin, whether it selects the plugin with
//! `UCCL_TCPX_PLUGIN_PATH`, `NCCL_GPUDIRECTTCPX_PLUGIN_PATH`, `NCCL_NET_PLUGIN` or
//! `libnccl-net.so` on the loader's path. The tap exports the table versions that the plugin
//! exports. With `--on-stall report`, a program that stands still is reported while it stands:
//!
//! ```console
//! # stall : window-never-consumed at pid 4242
//! # Report : reports/20261122T101500Z-tap-stall/report.html (redacted; 212 kB)
//! ```
//!
//! `tap` ends with the program's exit code or signal. Recorder files stay until the user
//! removes them. A program that opens its plugin by a fixed path cannot be redirected; `tap`
//! prints the path.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::on_stall::{OnStall, ReportedStall, StallReporter};
use super::output::{path_text, print_json, print_warning, say};
use crate::interpose::{
    Exports, InterposeError, PrivateFolder, Program, ProgramEnding, ProgramEnvironment, RealPlugin,
    Recording, TapLibrary, exports, fixed_paths, real_plugin, tap_library,
};
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tcpx_recorder::{EndedHow, Header, ReadError, folder_name, note_life};
use tcpx_run_model::adopt::{Adoptable, adopt};
use tcpx_words::units::{printable, stamp_utc};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Plugin to record: soft, a path, or a name X for libnccl-net-X.so [default: the one that the program would load].
    #[arg(long, value_name = "PLUGIN")]
    plugin: Option<String>,
    /// Folder for the recorder files [default: /dev/shm/tcpxctl-UID].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Make a run folder of the recordings in DIR when the program has ended.
    #[arg(long, value_name = "DIR")]
    reports: Option<PathBuf>,
    /// Write a report or a bundle into the folder of --reports [default: reports] while the program stands still.
    ///
    /// The rules of `diagnose` judge the recordings while the program runs. Each stall is reported
    /// once, up to four per program; the program is not touched.
    #[arg(long, value_enum, value_name = "WHAT")]
    on_stall: Option<OnStall>,
    /// Maximum number of open comms per process, listen comms included [default: 1024].
    #[arg(long, value_name = "N")]
    channels: Option<u32>,
    /// Number of events kept per channel, 32 bytes each [default: 1024].
    #[arg(long, value_name = "N")]
    ring_events: Option<u32>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TapDocument {
    schema: &'static str,
    plugin: PathBuf,
    why: String,
    tap: PathBuf,
    versions: Vec<u32>,
    notes: Vec<String>,
    recordings: Vec<Process>,
    not_recorded: Vec<Process>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    /// The run folder of the recordings, with --reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<PathBuf>,
    /// The stalls that were reported, with --on-stall.
    stalls: Vec<ReportedStall>,
}

#[derive(Serialize, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Process {
    pid: u32,
    /// The recorder file, or why there is none.
    what: String,
    #[serde(skip)]
    has_ended: bool,
    /// Whether it was said that its recorder has no place for some of its comms.
    #[serde(skip)]
    has_lost: bool,
    /// Whether it was said that some of its comms have counters only.
    #[serde(skip)]
    has_lost_events: bool,
}

impl Process {
    fn new(pid: u32, what: String) -> Self {
        Self {
            pid,
            what,
            has_ended: false,
            has_lost: false,
            has_lost_events: false,
        }
    }

    /// Says so, once each, if the recorder has no place for some comms or for their events.
    fn look_for_lost(&mut self, header: &Header) {
        if !self.has_lost_events && header.rings_refused > 0 {
            self.has_lost_events = true;
            say(&format!(
                "# not recorded : the events of some comms of pid {}: no room is left for them, so there are counters \
                 only; look at `df` of {}\n",
                self.pid, self.what
            ));
        }
        if self.has_lost || header.channels_refused == 0 {
            return;
        }
        self.has_lost = true;
        let why = match header.channel_count == header.capacity {
            true => format!(
                "all {} slots are open; give --channels a larger number",
                header.capacity
            ),
            false => format!("no memory is left for them; look at `df` of {}", self.what),
        };
        say(&format!(
            "# not recorded : some comms of pid {}: {why}\n",
            self.pid
        ));
    }
}

/// Everything that is prepared before the program starts.
struct Tapping {
    real: RealPlugin,
    tap: TapLibrary,
    folder: PrivateFolder,
    given: ProgramEnvironment,
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let mut reporter = stall_reporter(common, arguments)?;
    let mut tapping = prepare(arguments)?;
    announce(&tapping);
    let program = Program::start(&arguments.command, &tapping.given, common.json)?;
    let (ending, watched) = Watched::until_the_end(program, &tapping, reporter.as_mut())
        .context("cannot wait for the program")?;
    let stalls = reporter.map(StallReporter::finish).unwrap_or_default();
    if watched.recordings.is_empty() && watched.not_recorded.is_empty() {
        let next = next_step(arguments, &tapping.real);
        print_warning(common, NOT_LOADED, next.as_deref());
    }
    if watched
        .recordings
        .iter()
        .any(|one| PathBuf::from(format!("/proc/{}", one.pid)).exists())
    {
        // A process that outlives the program may load the plugin again.
        tapping.folder.keep();
        say(&format!(
            "# note : a process of the program is still running, so {} is kept\n",
            path_text(tapping.folder.path())
        ));
    }
    let run = match &arguments.reports {
        Some(reports) if !watched.recordings.is_empty() => Some(adopted(reports, &watched)?),
        _ => None,
    };
    if common.json {
        print_json(&watched.document(&tapping, ending, run, stalls));
    }
    drop(tapping);
    Ok(leave(ending))
}

/// Makes the folder for reports of stalls, or refuses before the program is started.
fn stall_reporter(
    common: &Common,
    arguments: &Arguments,
) -> Result<Option<StallReporter>, Failure> {
    let Some(what) = arguments.on_stall else {
        return Ok(None);
    };
    let reports = arguments.reports.as_deref().unwrap_or(Path::new("reports"));
    std::fs::create_dir_all(reports)
        .with_context(|| format!("cannot make {}", reports.display()))?;
    Ok(Some(StallReporter::new(what, reports, common)))
}

/// Makes a run folder of the recordings.
fn adopted(reports: &Path, watched: &Watched) -> Result<PathBuf, Failure> {
    let files = Adoptable {
        recordings: watched.paths(),
        ..Adoptable::default()
    };
    let (run, _) = adopt(reports, &stamp_utc(), "tap", &files, tcpx_logs::unpack)?;
    say(&format!(
        "# recordings : {0}\n# next : tcpxctl report {0}\n",
        path_text(&run)
    ));
    Ok(run)
}

fn prepare(arguments: &Arguments) -> Result<Tapping, InterposeError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let exe = std::env::current_exe().unwrap_or_default();
    let real = real_plugin(arguments.plugin.as_deref(), variable, &exe)?;
    let exports: Exports = exports(&real.path)?;
    let tap = tap_library(&real.path, &exports, &exe)?;
    let net_plugin = variable("NCCL_NET_PLUGIN");
    if let Some(folder) = &arguments.folder {
        make_folder(folder)?;
    }
    let folder = PrivateFolder::create(&std::env::temp_dir(), &tap.path, net_plugin.as_deref())?;
    let recording = Recording {
        name: format!("tap-{}", std::process::id()),
        folder: arguments.folder.clone(),
        channels: arguments.channels,
        ring_events: arguments.ring_events,
    };
    let mut given = folder.environment(&real.path, &recording, variable);
    if !tap.hidden.is_empty() {
        let hidden = tap
            .hidden
            .iter()
            .map(|version| format!("v{version}"))
            .collect::<Vec<_>>()
            .join(", ");
        given.notes.push(format!(
            "the plugin also exports {hidden}, which the tap hides: it supports v4 to v12"
        ));
    }
    if !exports.other.is_empty() {
        given.notes.push(format!(
            "the plugin also exports {}, which the tap hides",
            exports.other.join(", ")
        ));
    }
    given.notes.extend(
        real.also
            .iter()
            .map(|(name, value)| format!("{name} names {value}; the tap replaces that plugin too")),
    );
    Ok(Tapping {
        real,
        tap,
        folder,
        given,
    })
}

/// Makes the folder for the recorder files, or refuses before the program is started.
fn make_folder(folder: &Path) -> Result<(), InterposeError> {
    let mut private = DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(folder);
    // The folder that the recorder makes for this user.
    let made = made.and_then(|()| private.create(folder.join(folder_name())));
    made.map_err(|source| InterposeError::RecorderFolder {
        folder: folder.to_owned(),
        source,
    })
}

fn announce(tapping: &Tapping) {
    let versions = tapping
        .tap
        .versions
        .iter()
        .map(|version| format!("v{version}"))
        .collect::<Vec<_>>()
        .join(" and ");
    say(&format!(
        "# tap : {versions} of {} ({})\n",
        path_text(&tapping.real.path),
        tapping.real.why
    ));
    tapping
        .given
        .notes
        .iter()
        .for_each(|note| say(&format!("# note : {}\n", printable(note))));
}

/// Interval between two reads of the taps' report.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Delay of the first search for processes that bypass the tap; each later delay is doubled.
const FIRST_SEARCH: Duration = Duration::from_secs(1);

const NOT_LOADED: &str = "the program has not loaded the tap, so nothing was recorded";

/// The program's processes, recorded or not.
#[derive(Default)]
struct Watched {
    recordings: Vec<Process>,
    not_recorded: Vec<Process>,
    lines: usize,
}

impl Watched {
    fn until_the_end(
        mut program: Program,
        tapping: &Tapping,
        mut reporter: Option<&mut StallReporter>,
    ) -> std::io::Result<(ProgramEnding, Self)> {
        let mut watched = Self::default();
        let (mut search_after, mut searched) = (FIRST_SEARCH, Instant::now());
        loop {
            let ending = program.wait(LOOK_EVERY)?;
            watched.look(tapping);
            watched.note_lives(program.id(), ending);
            if let (Some(reporter), None) = (&mut reporter, ending) {
                reporter.look(&watched.paths());
            }
            if let Some(ending) = ending {
                return Ok((ending, watched));
            }
            if searched.elapsed() >= search_after {
                let bypassing =
                    program.bypassing(tapping.folder.path(), &tapping.real.path, &tapping.tap.path);
                bypassing
                    .into_iter()
                    .for_each(|pid| watched.bypassed(pid, tapping));
                (search_after, searched) = (2 * search_after, Instant::now());
            }
        }
    }

    /// The recorder files.
    fn paths(&self) -> Vec<PathBuf> {
        self.recordings
            .iter()
            .map(|one| one.what.clone().into())
            .collect()
    }

    /// Prints what the taps reported since the last call.
    fn look(&mut self, tapping: &Tapping) {
        let lines = tapping.folder.reported();
        for (pid, line) in lines.iter().skip(self.lines) {
            match line.split_once(' ') {
                Some(("recording", file)) => {
                    say(&format!("# recording : pid {pid} in {file}\n"));
                    self.recordings.push(Process::new(*pid, file.to_owned()));
                }
                Some(("not-recorded", why)) => {
                    say(&format!("# not recorded : pid {pid}: {why}\n"));
                    self.not_recorded.push(Process::new(*pid, why.to_owned()));
                }
                _ => {}
            }
        }
        self.lines = lines.len();
    }

    /// Writes into the recorder files which processes run and when the others ended, so that the last
    /// counters can be judged as of that time. How is known of the program itself only.
    fn note_lives(&mut self, program: u32, ending: Option<ProgramEnding>) {
        for one in self.recordings.iter_mut().filter(|one| !one.has_ended) {
            let how = match ending.filter(|_| one.pid == program) {
                Some(ProgramEnding::Exited(code)) => EndedHow::Exited(code),
                Some(ProgramEnding::Killed(signal)) => EndedHow::Killed(signal),
                None => EndedHow::Unknown,
            };
            match note_life(Path::new(&one.what), how) {
                Ok(header) => {
                    one.has_ended = header.ended.is_some();
                    one.look_for_lost(&header);
                }
                // A file that is not complete yet tells nothing.
                Err(ReadError::Unfinished) => {}
                // A file that was removed or cannot be written stays as it is: the time of its
                // last change is known.
                Err(_) => one.has_ended = true,
            }
        }
    }

    fn bypassed(&mut self, pid: u32, tapping: &Tapping) {
        let known = self
            .not_recorded
            .iter()
            .chain(&self.recordings)
            .any(|one| one.pid == pid);
        if !known {
            let why = format!(
                "the process opened {} by a fixed path, which no variable redirects",
                path_text(&tapping.real.path)
            );
            say(&format!("# not recorded : pid {pid}: {why}\n"));
            self.not_recorded.push(Process::new(pid, why));
        }
    }

    fn document(
        &self,
        tapping: &Tapping,
        ending: ProgramEnding,
        run: Option<PathBuf>,
        stalls: Vec<ReportedStall>,
    ) -> TapDocument {
        let (exit_code, signal) = match ending {
            ProgramEnding::Exited(code) => (Some(code), None),
            ProgramEnding::Killed(signal) => (None, Some(signal)),
        };
        TapDocument {
            schema: "tcpxctl.tap/1",
            plugin: tapping.real.path.clone(),
            why: tapping.real.why.clone(),
            tap: tapping.tap.path.clone(),
            versions: tapping.tap.versions.clone(),
            notes: tapping.given.notes.clone(),
            recordings: self.recordings.clone(),
            not_recorded: self.not_recorded.clone(),
            exit_code,
            signal,
            run,
            stalls,
        }
    }
}

/// Why the program may not have loaded the tap.
fn next_step(arguments: &Arguments, real: &RealPlugin) -> Option<String> {
    let program = arguments.command.first().map_or("", String::as_str);
    let fixed = fixed_paths(program, std::env::var("PATH").ok().as_deref());
    if fixed.is_empty() {
        return Some(format!(
            "check that the program loads a plugin: run it with NCCL_DEBUG=INFO, or look for {} in /proc/PID/maps",
            real.path.display()
        ));
    }
    Some(format!(
        "the program opens {} by a fixed path, which no variable redirects: make it read \
         UCCL_TCPX_PLUGIN_PATH, or mount the tap over that path in a mount namespace",
        fixed.join(" and ")
    ))
}

/// Ends with the program's exit code or signal.
fn leave(ending: ProgramEnding) -> Ending {
    match ending {
        ProgramEnding::Exited(code) => Ending::code(code as u8),
        ProgramEnding::Killed(signal) => {
            // `end_by` writes no second core file. If the signal does not end this process, the
            // exit code is the shell's code for that signal.
            crate::interpose::end_by(signal);
            Ending::code(128u8.wrapping_add(signal as u8))
        }
    }
}
