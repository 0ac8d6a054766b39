//! Files that are written completely or not at all: a full disk leaves the old report in place.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tcpx_words::error::{NextStep, Outcome};

/// End of the name of a file that is being written, behind the pid of its writer.
const PARTIAL: &str = ".partial";
/// What every text and every archive that this program writes has near its start.
const OWN: &[u8] = b"tcpxctl";
const HEAD: u64 = 4096;
/// A writer has locked its file within this time.
const LOCKED_WITHIN: Duration = Duration::from_secs(60);

/// The files that this process is writing, and the names that they get.
static UNFINISHED: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());

/// Removes what this process has written of files that are not complete, for a signal that ends it now, and gives their
/// names. No file is completed any more.
pub fn remove_unfinished() -> Vec<PathBuf> {
    remove_unfinished_in(Path::new(""))
}

fn remove_unfinished_in(folder: &Path) -> Vec<PathBuf> {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let removed = unfinished.extract_if(.., |(beside, _)| beside.starts_with(folder));
    let removed = removed.map(|(beside, path)| {
        let _ = std::fs::remove_file(beside);
        path
    });
    removed.collect()
}

/// Completes a file, unless it was removed as unfinished.
fn complete(beside: &Path, path: &Path) -> io::Result<()> {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = unfinished.iter().position(|(known, _)| known == beside);
    let known = known.ok_or_else(tcpx_words::input::stopped_by_signal)?;
    let renamed = std::fs::rename(beside, path);
    if renamed.is_ok() {
        unfinished.swap_remove(known);
    }
    renamed
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}{}", path.display(), if *is_stream { "" } else { "; any existing file is unchanged" })]
pub struct WriteError {
    path: PathBuf,
    /// Whether the path is a pipe or a device: there is no old file to keep.
    is_stream: bool,
    #[source]
    source: io::Error,
}

impl WriteError {
    /// The exit code's outcome.
    pub fn outcome(&self) -> Outcome {
        Outcome::NotRun
    }
}

impl NextStep for WriteError {
    fn next_step(&self) -> Option<String> {
        if tcpx_words::input::was_given_up() {
            return None;
        }
        let limit = tcpx_words::output::limit_to_raise(&self.source);
        let otherwise = match self.source.kind() {
            // The reader has exited, usually because it had read enough.
            io::ErrorKind::BrokenPipe => return None,
            io::ErrorKind::TimedOut
            | io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory => "choose another path",
            _ => "free disk space there, or choose another path",
        };
        Some(limit.unwrap_or(otherwise).into())
    }
}

/// Writes a temporary file beside `path`, then renames it to `path`. Mode 0600, because a
/// report describes someone's machines. A link stays, and the file that it names is replaced.
///
/// # Errors
/// The file cannot be written completely. The temporary file is removed then.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let is_stream = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let failed = |source| WriteError {
        path: path.to_owned(),
        is_stream,
        source,
    };
    if is_stream {
        // A pipe or a device is opened and written; renaming a file over it would replace it.
        return tcpx_words::output::open(path)
            .and_then(|mut to| write(&mut to))
            .map_err(failed);
    }
    let path = &named_by_link(path);
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::Error::other("the path has no file name")))?;
    remove_abandoned(path, name);
    let beside = partial(path, name);
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    unfinished.push((beside.clone(), path.to_owned()));
    drop(unfinished);
    let written = write_new(&beside, write).and_then(|()| complete(&beside, path));
    if written.is_err() {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|(known, _)| *known != beside);
        drop(unfinished);
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

/// Whether [`write_whole`] can make a file there, for a command that works for a long time before it
/// writes. A full disk is not noticed, nor a pipe that has no reader.
///
/// # Errors
/// No file can be made there.
pub fn check_writable(path: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError {
        path: path.to_owned(),
        is_stream: false,
        source,
    };
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(meta) if !meta.is_file() => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    let path = &named_by_link(path);
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::Error::other("the path has no file name")))?;
    let beside = partial(path, name);
    let made = write_new(&beside, |_| Ok(()));
    let _ = std::fs::remove_file(&beside);
    made.map_err(failed)
}

/// The file that a link names, which need not be there yet; any other path as it is.
fn named_by_link(path: &Path) -> PathBuf {
    let Ok(named) = std::fs::read_link(path) else {
        return path.to_owned();
    };
    let beside = path.parent().unwrap_or(Path::new("")).join(named);
    std::fs::canonicalize(path).unwrap_or(beside)
}

/// The name under which a file is written.
fn partial(path: &Path, name: &OsStr) -> PathBuf {
    let mut beside = name.to_owned();
    beside.push(format!(".{}{PARTIAL}", std::process::id()));
    path.with_file_name(beside)
}

/// As [`write_whole`], for as long as `stop` is not set.
///
/// # Errors
/// As [`write_whole`], and if `stop` is set before the file is complete.
pub fn write_whole_unless(
    path: &Path,
    stop: &AtomicBool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    write_whole(path, |to| {
        let mut to = Stoppable { to, stop };
        write(&mut to)?;
        to.go_on()
    })
}

struct Stoppable<'a> {
    to: &'a mut dyn Write,
    stop: &'a AtomicBool,
}

impl Stoppable<'_> {
    fn go_on(&self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(tcpx_words::input::stopped_by_signal()),
            false => Ok(()),
        }
    }
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.go_on()?;
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Removes what writers in this folder left that were killed. A writer holds a lock on its file. What
/// was written under another name counts only if it is empty or shows that this program wrote it:
/// other programs have files of such names too.
fn remove_abandoned(path: &Path, name: &OsStr) {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return,
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let Some((of, pid)) = of_writer(found.as_bytes()) else {
            continue;
        };
        let is_same = of == name.as_bytes();
        if is_abandoned(&entry.path(), pid, is_same).unwrap_or(false) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The name of a file and its writer from `NAME.PID.partial`.
fn of_writer(partial: &[u8]) -> Option<(&[u8], u32)> {
    let rest = partial.strip_suffix(PARTIAL.as_bytes())?;
    let dot = rest.iter().rposition(|byte| *byte == b'.')?;
    let pid = std::str::from_utf8(&rest[dot + 1..]).ok()?;
    Some((&rest[..dot], pid.parse().ok()?))
}

fn is_abandoned(partial: &Path, pid: u32, is_same: bool) -> io::Result<bool> {
    let meta = std::fs::symlink_metadata(partial)?;
    let since = meta.modified()?.elapsed();
    // Between creating a file and locking it, its writer runs; on another machine, it is not seen.
    let is_old = since.is_ok_and(|since| since >= LOCKED_WITHIN);
    let is_gone = !Path::new("/proc").join(pid.to_string()).exists();
    // Opening a FIFO would wait.
    if !meta.is_file() || !(is_old || is_gone) {
        return Ok(false);
    }
    let file = OpenOptions::new().read(true).open(partial)?;
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    let is_ours = |head: &[u8]| head.windows(OWN.len()).any(|piece| piece == OWN);
    // A writer that was killed before its first bytes were written left an empty file.
    Ok(is_same || (is_gone && (head.is_empty() || is_ours(&head))))
}

fn write_new(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A killed process with the same pid may have left a temporary file.
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // Released when the process ends, however it ends. A file system without locks has the age only.
    let _ = file.try_lock();
    let mut buffered = io::BufWriter::with_capacity(1 << 18, file);
    write(&mut buffered)?;
    // A full disk may be reported only when the data is flushed.
    buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_and_not_replaced() {
        write_whole(Path::new("/dev/null"), |to| to.write_all(b"x")).expect("written");
        assert!(!std::fs::metadata("/dev/null").expect("there").is_file());
        assert!(write_whole(Path::new("/dev/full"), |to| to.write_all(b"x")).is_err());
    }

    #[test]
    fn a_link_stays_and_the_file_that_it_names_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("b")).expect("made");
        std::fs::write(at("b/old"), "old").expect("written");
        for (link, named) in [("to-old", "b/old"), ("to-new", "b/new")] {
            std::os::unix::fs::symlink(named, at(link)).expect("linked");
            check_writable(&at(link)).expect("writable");
            write_whole(&at(link), |to| to.write_all(b"new")).expect("written");
            assert!(at(link).is_symlink());
            assert_eq!(std::fs::read(at(named)).expect("there"), b"new");
        }
        assert_eq!(std::fs::read_dir(at("b")).expect("listed").count(), 2);
    }

    #[test]
    fn of_a_pipe_without_a_reader_no_disk_space_is_advised() {
        let path = Path::new("/dev/full");
        let broken =
            |to: &mut dyn Write| to.write_all(b"").and(Err(io::ErrorKind::BrokenPipe.into()));
        let error = write_whole(path, broken).expect_err("no reader");
        assert!(!error.to_string().contains("unchanged"), "{error}");
        assert_eq!(error.next_step(), None);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.html");
        write_whole(&path, |to| to.write_all(b"old")).expect("written");
        let full = |to: &mut dyn Write| {
            to.write_all(&[0; 1000])
                .and(Err(io::ErrorKind::StorageFull.into()))
        };
        let error = write_whole(&path, full).expect_err("full");
        assert!(error.to_string().contains("is unchanged"), "{error}");
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_a_signal_ends_leaves_no_part_of_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.tar.gz");
        let written = write_whole(&path, |to| {
            to.write_all(&[0; 1 << 19])?;
            // Other tests write at the same time.
            assert!(remove_unfinished_in(folder.path()).contains(&path));
            assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
            Ok(())
        });
        assert!(written.is_err() && !path.exists());
    }

    #[test]
    fn a_check_leaves_nothing_and_names_what_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("junit.xml");
        check_writable(&path).expect("writable");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        std::fs::write(&path, "old").expect("written");
        check_writable(&path).expect("writable");
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        check_writable(&folder.path().join("absent/junit.xml")).expect_err("no folder");
        check_writable(folder.path()).expect_err("a folder");
    }

    #[test]
    fn a_write_that_a_signal_ends_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.tar.gz");
        let stop = AtomicBool::new(false);
        let write = |to: &mut dyn Write| {
            to.write_all(b"the first part")?;
            stop.store(true, Ordering::Relaxed);
            to.write_all(b"the second part")
        };
        let error = write_whole_unless(&path, &stop, write).expect_err("a signal");
        assert!(error.to_string().contains("a signal ended"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        // Also where nothing is written after the signal.
        write_whole_unless(&path, &stop, |_| Ok(())).expect_err("a signal");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }

    /// A process that runs for as long as this one.
    fn own_parent() -> u32 {
        std::os::unix::process::parent_id()
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let old = |name: &str| {
            let file = std::fs::File::create(at(name)).expect("a file");
            let then = std::time::SystemTime::now() - 2 * LOCKED_WITHIN;
            file.set_modified(then).expect("a time");
            file
        };
        drop(old("report.html.7.partial"));
        let other = old("report.html.8.partial");
        other.try_lock().expect("a lock");
        std::fs::write(at(&format!("report.html.{}.partial", own_parent())), "new")
            .expect("written");
        drop(old("other.html.7.partial"));
        drop(old("report.html.x.partial"));
        // Of this program and a writer that is gone; of one that runs; of another program.
        let no_pid = u32::MAX;
        let trace = "{\"schema\":\"tcpxctl.trace/1\"";
        let own = std::process::id();
        for (name, text) in [
            (format!("t.json.{no_pid}.partial"), trace),
            (format!("u.json.{own}.partial"), trace),
            (format!("v.json.{no_pid}.partial"), "{}"),
            (format!("report.html.{no_pid}.partial"), ""),
            (format!("w.json.{no_pid}.partial"), ""),
        ] {
            std::fs::write(at(&name), text).expect("written");
        }
        write_whole(&at("report.html"), |to| to.write_all(b"x")).expect("written");
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .expect("listed")
            .map(|entry| entry.expect("a file").file_name())
            .collect();
        left.sort();
        let expected = [
            "other.html.7",
            "report.html",
            "report.html.8",
            "report.html.PARENT",
            "report.html.x",
            "u.json.OWN",
            "v.json.GONE",
        ];
        let shown = left.iter().map(|name| {
            let name = name.to_string_lossy().replace(PARTIAL, "");
            name.replace(&format!(".{own}"), ".OWN")
                .replace(&format!(".{}", own_parent()), ".PARENT")
                .replace(&format!(".{no_pid}"), ".GONE")
        });
        let mut shown: Vec<String> = shown.collect();
        shown.sort();
        assert_eq!(shown, expected);
    }
}
