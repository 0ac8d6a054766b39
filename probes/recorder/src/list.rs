//! Finds recorder files: all of this user's below a parent, with who wrote each
//! and whether it still runs.
#![forbid(unsafe_code)]

use crate::folder::{Folder, c_string};
use crate::format::FILE_SUFFIX;
use crate::process::Liveness;
use crate::read::{Header, ReadError, Reader};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most names that one look goes through.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// One file.
#[derive(Debug)]
pub struct Listed {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself, or why it cannot be read.
    pub header: Result<Header, ReadError>,
    /// Whether its writer runs; [`Liveness::Unknown`] where the header says nothing.
    pub writer: Liveness,
}

/// Every recorder file in this user's folder below `parent` (such as
/// [`crate::SHARED_MEMORY`]), by name. No folder is no file.
///
/// # Errors
/// The folder is not ours alone, or cannot be listed.
pub fn list(parent: &Path) -> io::Result<Vec<Listed>> {
    let folder = match Folder::find(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        outcome => outcome?,
    };
    let mut names: Vec<_> = Vec::new();
    for entry in std::fs::read_dir(folder.path())?.take(ENTRIES_MAX) {
        let name = entry?.file_name();
        if name.as_bytes().ends_with(FILE_SUFFIX.as_bytes()) {
            names.push(name);
        }
    }
    names.sort();
    names.into_iter().map(|name| look(&folder, &name)).collect()
}

fn look(folder: &Folder, name: &std::ffi::OsStr) -> io::Result<Listed> {
    let file = folder
        .read(&c_string(name.as_bytes())?)
        .map_err(ReadError::Io);
    let header = file
        .and_then(Reader::from_file)
        .and_then(|mut reader| reader.header());
    let writer = header
        .as_ref()
        .map_or(Liveness::Unknown, |header| header.writer.liveness());
    Ok(Listed {
        path: folder.path().join(name),
        header,
        writer,
    })
}
