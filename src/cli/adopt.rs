//! `tcpxctl adopt`: makes a run folder of what other programs left.
//!
//! ```console
//! $ tcpxctl adopt a3-0.tcpxrec a3-1.tcpxrec logs/
//! # adopt : 2 recordings and 16 logs in reports/20261122T101500Z-adopted
//! # next : tcpxctl report reports/20261122T101500Z-adopted
//! ```
//!
//! The arguments are recordings of `tcpxctl tap` of one end or both, ids of processes that write
//! one now, log files, and folders of any of these. `report`, `bundle`, `diagnose`, `watch` and
//! `trace` then read the folder like that of a run, and redact it like one. `report` and `bundle`
//! take the same arguments and make the folder themselves.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{path_text, print_json, print_warning, say};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tcpx_recorder::Reader;
use tcpx_recorder::format::FILE_SUFFIX;
use tcpx_run_model::adopt::{Adoptable, AdoptedFile, AdoptedFiles, LOGS, adopt};
use tcpx_run_model::live::{FILES_MAX, recorders_of, torn, why_unrecorded};
use tcpx_run_model::record::{FilesError, RunFiles};
use tcpx_run_model::repeats::{take_repeated_recordings, take_repeats};
use tcpx_words::error::Outcome;
use tcpx_words::units::{counted, stamp_utc};

/// Name of a run folder that is made of files.
const NAME: &str = "adopted";
/// Levels of folders that are searched.
const DEPTH_MAX: usize = 4;
/// Most files that are found.
const FOUND_MAX: usize = 512;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Recorder files, process ids, log files, and folders of these.
    #[arg(required = true, value_name = "FILE|PID|FOLDER")]
    what: Vec<PathBuf>,
    /// Name of the run.
    #[arg(long, value_name = "NAME", default_value = NAME)]
    name: String,
    /// Folder of the run folders.
    #[arg(long, value_name = "DIR", default_value = "reports")]
    reports: PathBuf,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AdoptDocument<'a> {
    schema: &'static str,
    run: &'a Path,
    #[cfg_attr(test, schemars(with = "Vec<super::schemas::AdoptedFile>"))]
    files: &'a [AdoptedFile],
}

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    let found = find(&arguments.what)?;
    let (run, adopted) = make(common, &found, &arguments.reports, &arguments.name)?;
    if common.json {
        print_json(&AdoptDocument {
            schema: "tcpxctl.adopt/1",
            run: &run,
            files: &adopted.files,
        });
    } else {
        say(&format!("# next : tcpxctl report {}\n", path_text(&run)));
    }
    Ok(Ending::PASSED)
}

/// The runs and bundles that arguments name; or one run folder, made below `reports`, of the
/// recordings, logs and processes that they name.
pub(crate) fn runs(
    common: &Common,
    what: &[PathBuf],
    reports: &Path,
) -> Result<Vec<RunFiles>, Failure> {
    let is_foreign = |path: &&PathBuf| is_foreign(path);
    let foreign: Vec<&PathBuf> = what.iter().filter(is_foreign).collect();
    match foreign.len() {
        0 => {
            let runs = what.iter().map(|path| RunFiles::open(path));
            Ok(runs.collect::<Result<_, _>>()?)
        }
        all if all == what.len() => {
            let found = find(what)?;
            let (run, _) = make(common, &found, reports, NAME)?;
            Ok(vec![RunFiles::open(&run)?])
        }
        _ => {
            let message = format!(
                "{} is a recording or a log, and others are runs",
                foreign[0].display()
            );
            Err(Failure::new(Outcome::Usage, message)
                .next("name runs only, or recordings, logs and process ids only"))
        }
    }
}

/// Whether a path is neither a run folder nor a bundle, but there is something to adopt.
pub(crate) fn is_foreign(path: &Path) -> bool {
    if path.is_dir() {
        // A run folder that has lost its record and its events is not a folder of logs.
        return matches!(RunFiles::open(path), Err(FilesError::NoRun(_)))
            && !path.join("scenario.toml").exists()
            && !has_runs(path);
    }
    if !path.exists() {
        return process_id(path).is_some();
    }
    let name = path.as_os_str().to_string_lossy();
    let is_archive = name.ends_with(".tar.gz") || name.ends_with(".tgz");
    // A log may be compressed too.
    let is_bundle = is_archive || RunFiles::is_bundle(path) && RunFiles::open(path).is_ok();
    !is_bundle
}

/// Whether a folder is one of run folders.
fn has_runs(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.any(|path| path.is_dir() && RunFiles::open(&path).is_ok())
}

fn process_id(path: &Path) -> Option<u32> {
    path.to_str()?.parse().ok()
}

/// The files that arguments name.
pub(crate) fn find(what: &[PathBuf]) -> Result<Adoptable, Failure> {
    let mut found = Adoptable::default();
    for path in what {
        let before = found.len();
        find_at(path, &mut found)?;
        // Of two nodes' folders, one that holds nothing would make the other look like all.
        if before == found.len() && before < FOUND_MAX {
            let message = format!("no recording and no log in {}", path.display());
            let next = "name the folder that `tcpxctl tap --reports` wrote, or its files; copy it again if it lost them";
            return Err(Failure::new(Outcome::Usage, message).next(next));
        }
    }
    found.repeats = take_repeated_recordings(&mut found.recordings);
    found.repeats.extend(take_repeats(&mut found.logs));
    Ok(found)
}

/// Makes a run folder of files, and says where it is.
fn make(
    common: &Common,
    found: &Adoptable,
    reports: &Path,
    name: &str,
) -> Result<(PathBuf, AdoptedFiles), Failure> {
    for repeat in &found.repeats {
        print_warning(common, repeat.sentence(), None);
    }
    let left_out = found.recordings.len().saturating_sub(FILES_MAX);
    if left_out > 0 {
        let message = format!(
            "{} are left out: {FILES_MAX} are read at once",
            counted(left_out, "recording")
        );
        print_warning(common, &message, None);
    }
    let recordings = found.recordings.iter();
    let torn = recordings.filter_map(|path| {
        let mut reader = Reader::open(path).ok()?;
        torn(&path.display().to_string(), &mut reader)
    });
    torn.for_each(|what| print_warning(common, &what, Some("copy the recording again")));
    let (run, adopted) = adopt(reports, &stamp_utc(), name, found, tcpx_logs::unpack)?;
    let is_log = |file: &&AdoptedFile| file.name.starts_with(LOGS);
    let logs = adopted.files.iter().filter(is_log).count();
    say(&format!(
        "# adopt : {} and {} in {}\n",
        counted(adopted.files.len() - logs, "recording"),
        counted(logs, "log"),
        path_text(&run)
    ));
    Ok((run, adopted))
}

/// Adds the files that an argument names.
fn find_at(path: &Path, found: &mut Adoptable) -> Result<(), Failure> {
    if path.is_dir() {
        find_below(path, 0, found);
        return Ok(());
    }
    if path.is_file() {
        add(path, found);
        return Ok(());
    }
    let recorders = process_id(path).map(recorders_of).unwrap_or_default();
    if recorders.is_empty()
        && let Some(pid) = process_id(path)
    {
        let (why, next) = why_unrecorded(pid);
        return Err(Failure::new(Outcome::Usage, why).next(next));
    }
    if recorders.is_empty() {
        let what = path.display();
        let message =
            format!("{what} is not a file, a folder, or a process that writes a recorder");
        return Err(Failure::new(Outcome::Usage, message)
            .next("name a recorder file, a log, a folder of these, or a process id"));
    }
    found.recordings.extend(recorders);
    Ok(())
}

/// Adds the regular files below a folder, without hidden ones and without following links. Of a run,
/// these are its recordings and its logs: what was made of them is made again.
fn find_below(folder: &Path, depth: usize, found: &mut Adoptable) {
    if let Ok(run) = RunFiles::open(folder) {
        let is_kept = |name: &&String| name.starts_with(LOGS) || name.ends_with(FILE_SUFFIX);
        let names = run.names();
        let kept = names.iter().filter(is_kept);
        kept.for_each(|name| add(&folder.join(name), found));
        return;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => {
                find_below(&entry.path(), depth + 1, found);
            }
            Ok(kind) if kind.is_file() => add(&entry.path(), found),
            _ => {}
        }
    }
}

fn add(path: &Path, found: &mut Adoptable) {
    if found.len() >= FOUND_MAX {
        return;
    }
    let name = path.as_os_str().as_encoded_bytes();
    let is_named = name.ends_with(FILE_SUFFIX.as_bytes());
    let is_recording =
        is_named || Reader::open(path).is_ok_and(|mut reader| reader.header().is_ok());
    if is_recording {
        found.recordings.push(path.to_owned());
    } else {
        found.logs.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_run_only_its_recordings_and_logs_are_adopted() {
        let parent = tempfile::tempdir().expect("a folder");
        let log = parent.path().join("a.log");
        std::fs::write(&log, "NCCL WARN x\n").expect("written");
        let logs = find(&[log]).expect("a log");
        let adopted = adopt(parent.path(), "now", NAME, &logs, tcpx_logs::unpack);
        let (run, _) = adopted.expect("a run");
        let found = find(std::slice::from_ref(&run)).expect("its files");
        assert_eq!(found.logs, [run.join("logs/a.log")]);
        assert!(found.recordings.is_empty());
        let damaged = parent.path().join("damaged");
        std::fs::create_dir(&damaged).expect("a folder");
        std::fs::write(damaged.join("run.json"), "").expect("written");
        let failure = find(&[run, damaged]).expect_err("nothing in one");
        let message = failure.message();
        assert!(message.ends_with("/damaged"), "{message}");
    }
}
