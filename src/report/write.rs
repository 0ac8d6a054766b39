//! Files that are written completely or not at all: a full disk leaves the old report in place.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tcpx_words::error::{NextStep, Outcome};

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; any existing file is unchanged", path.display())]
pub struct WriteError {
    path: PathBuf,
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
        Some("free disk space there, or choose another path".into())
    }
}

/// Writes a temporary file beside `path`, then renames it to `path`. Mode 0600, because a
/// report describes someone's machines.
///
/// # Errors
/// The file cannot be written completely. The temporary file is removed then.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let failed = |source| WriteError {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        // A pipe or a device is opened and written; renaming a file over it would replace it.
        return std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut to| write(&mut to))
            .map_err(failed);
    }
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::Error::other("the path has no file name")))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.partial", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = write_new(&beside, write).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

fn write_new(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A killed process with the same pid may have left a temporary file.
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
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
}
