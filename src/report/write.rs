//! Files that are whole or not there: a full disk leaves the old report as it was.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tcpx_words::error::{NextStep, Outcome};

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; what was there before is untouched", path.display())]
pub struct WriteError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl WriteError {
    /// Whose problem it is.
    pub fn outcome(&self) -> Outcome {
        Outcome::NotRun
    }
}

impl NextStep for WriteError {
    fn next_step(&self) -> Option<String> {
        Some("make room there, or choose another place".into())
    }
}

/// Writes beside it, then puts it into its place. Only its owner may read it: it is
/// about somebody's machines.
///
/// # Errors
/// It cannot be written whole; nothing of it is left then.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let failed = |source| WriteError {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        // A pipe or a device is written to; another file in its place would be no help.
        return std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut to| write(&mut to))
            .map_err(failed);
    }
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::Error::other("it names no file")))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.partial", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = write_new(&beside, write).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // Half of it helps nobody.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

fn write_new(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // What a killed process of the same number left.
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut buffered = io::BufWriter::with_capacity(1 << 18, file);
    write(&mut buffered)?;
    // A full disk may say so only now.
    buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_stays_one() {
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
        assert!(error.to_string().contains("is untouched"), "{error}");
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }
}
