//! Finds this user's recorder files below a parent folder, with the writer of each and whether
//! it still runs.
#![forbid(unsafe_code)]

use crate::folder::{Folder, c_string};
use crate::format::FILE_SUFFIX;
use crate::process::Liveness;
use crate::read::{Header, ReadError, Reader};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most folder entries that are examined.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// One recorder file.
#[derive(Debug)]
pub struct Listed {
    /// Path of the file.
    pub path: PathBuf,
    /// The file's header, or why it cannot be read.
    pub header: Result<Header, ReadError>,
    /// Whether its writer runs; [`Liveness::Unknown`] if the header cannot be read.
    pub writer: Liveness,
}

/// Every recorder file in this user's folder below `parent` (such as
/// [`crate::SHARED_MEMORY`]), sorted by name. Empty if there is no folder.
///
/// # Errors
/// The folder is not owned by this user alone, or cannot be listed.
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
