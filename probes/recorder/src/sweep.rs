//! Removes the files of writers that were killed. Every run starts with a sweep.
//!
//! A file is removed if its header identifies a writer that has ended; if the header is
//! incomplete, its name does. Files marked as kept, files of writers in another pid namespace,
//! and other files stay.
#![forbid(unsafe_code)]

use crate::folder::{Folder, c_string};
use crate::format::FILE_SUFFIX;
use crate::list::ENTRIES_MAX;
use crate::process::{Identity, Liveness};
use crate::read::{ReadError, Reader};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The result of a sweep.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Removed files, whose writers had ended.
    pub removed: Vec<PathBuf>,
    /// Number of recorder files not removed: the writer runs or may run, or the file is kept.
    pub left: usize,
}

/// Sweeps this user's folder below `parent` (such as [`crate::SHARED_MEMORY`]).
/// Does nothing if there is no folder.
///
/// # Errors
/// The folder is not owned by this user alone, or cannot be listed.
pub fn sweep(parent: &Path) -> io::Result<Swept> {
    let folder = match Folder::find(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swept::default()),
        outcome => outcome?,
    };
    let mut swept = Swept::default();
    for entry in std::fs::read_dir(folder.path())?.take(ENTRIES_MAX) {
        let file_name = entry?.file_name();
        let bytes = file_name.as_bytes();
        if !bytes.ends_with(FILE_SUFFIX.as_bytes()) {
            continue;
        }
        let name = c_string(bytes)?;
        let Ok(file) = folder.read(&name) else {
            continue;
        };
        if is_abandoned(Reader::from_file(file), &file_name.to_string_lossy())
            && folder.remove(&name).is_ok()
        {
            swept.removed.push(folder.path().join(&file_name));
        } else {
            swept.left += 1;
        }
    }
    Ok(swept)
}

fn is_abandoned(reader: Result<Reader, ReadError>, name: &str) -> bool {
    match reader.and_then(|mut reader| reader.header()) {
        Ok(header) => !header.keep && header.writer.liveness() == Liveness::Dead,
        Err(ReadError::Unfinished) => {
            named_writer(name).is_some_and(|writer| writer.liveness() == Liveness::Dead)
        }
        Err(_) => false,
    }
}

/// The writer that the name `NAME-PID-START.tcpxrec` identifies, assuming this boot and this
/// pid namespace.
fn named_writer(name: &str) -> Option<Identity> {
    let mut parts = name.strip_suffix(FILE_SUFFIX)?.rsplitn(3, '-');
    let start_ticks = parts.next()?.parse().ok()?;
    let pid = parts.next()?.parse().ok()?;
    parts.next()?;
    Some(Identity {
        pid,
        start_ticks,
        ..Identity::own()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::header;
    use crate::{Options, Recorder};
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::FileExt;

    const OPTIONS: Options<'_> = Options {
        capacity: 4,
        ..Options::new("worker")
    };

    #[test]
    fn the_file_of_a_running_writer_stays_and_that_of_an_ended_one_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let live = Recorder::create_in(parent.path(), &OPTIONS).unwrap();
        let dead = live.path().with_file_name(format!("dead-1-1{FILE_SUFFIX}"));
        fs::copy(live.path(), &dead).unwrap();
        let file = OpenOptions::new().write(true).open(&dead).unwrap();
        file.write_all_at(&1u64.to_le_bytes(), header::START_TICKS as u64)
            .unwrap();

        assert_eq!(
            sweep(parent.path()).unwrap(),
            Swept {
                removed: vec![dead],
                left: 1
            }
        );
        assert!(live.path().exists());
    }

    #[test]
    fn a_kept_file_stays_after_its_writer_ended() {
        let parent = tempfile::tempdir().unwrap();
        let kept = Recorder::create_in(
            parent.path(),
            &Options {
                keep: true,
                ..OPTIONS
            },
        )
        .unwrap();
        let path = kept.path();
        drop(kept);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&1u64.to_le_bytes(), header::START_TICKS as u64)
            .unwrap();
        assert_eq!(
            sweep(parent.path()).unwrap(),
            Swept {
                removed: vec![],
                left: 1
            }
        );
    }

    #[test]
    fn an_unfinished_file_is_judged_by_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let own = Identity::own();
        folder
            .create(&format!("a-b-{}-1{FILE_SUFFIX}", own.pid))
            .unwrap();
        folder
            .create(&format!("a-b-{}-{}{FILE_SUFFIX}", own.pid, own.start_ticks))
            .unwrap();
        folder.create(&format!("1-1{FILE_SUFFIX}")).unwrap();
        folder.create("notes.txt").unwrap();
        let swept = sweep(parent.path()).unwrap();
        assert_eq!((swept.removed.len(), swept.left), (1, 2));
        assert!(folder.path().join("notes.txt").exists());
    }

    #[test]
    fn other_files_with_a_recorder_name_stay() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        fs::write(folder.path().join(format!("x-1-1{FILE_SUFFIX}")), [7; 5000]).unwrap();
        assert_eq!(sweep(parent.path()).unwrap().left, 1);
    }

    #[test]
    fn no_folder_is_nothing_to_sweep() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(sweep(parent.path()).unwrap(), Swept::default());
    }
}
