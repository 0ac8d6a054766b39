//! Files that are named more than once: by the same path, a link, or as part of a folder.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tcpx_recorder::Reader;
use tcpx_words::units::printable;

/// A file that is there already under another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// Its path.
    pub path: PathBuf,
    /// The name under which it is read.
    pub first: PathBuf,
    /// Whether it is another file with the same bytes.
    pub is_copy: bool,
}

impl Repeat {
    /// What is said of it, behind its path.
    pub fn words(&self) -> String {
        let first = printable(&self.first.display().to_string());
        let what = match self.is_copy {
            true => "a copy of",
            false => "the same file as",
        };
        format!("is {what} {first}, and is read once")
    }

    /// A sentence.
    pub fn sentence(&self) -> String {
        let path = printable(&self.path.display().to_string());
        format!("{path} {}", self.words())
    }
}

/// Leaves of `paths` each regular file once, and returns the others.
pub fn take_repeats(paths: &mut Vec<PathBuf>) -> Vec<Repeat> {
    let (mut seen, mut repeats) = (HashMap::new(), Vec::new());
    paths.retain(|path| {
        let Some(meta) = path.metadata().ok().filter(std::fs::Metadata::is_file) else {
            return true;
        };
        match seen.entry((meta.dev(), meta.ino())) {
            Entry::Vacant(entry) => {
                entry.insert(path.clone());
                true
            }
            Entry::Occupied(first) => {
                repeats.push(Repeat {
                    path: path.clone(),
                    first: first.get().clone(),
                    is_copy: false,
                });
                false
            }
        }
    });
    repeats
}

/// As [`take_repeats`], for recordings, of which one that is a copy is left out too. Logs of two
/// processes may have the same bytes.
pub fn take_repeated_recordings(paths: &mut Vec<PathBuf>) -> Vec<Repeat> {
    let mut repeats = take_repeats(paths);
    let mut seen: Vec<(PathBuf, [u64; 4])> = Vec::new();
    paths.retain(|path| {
        let Some(key) = recording(path) else {
            return true;
        };
        let is_copy = |(other, of_other): &&(PathBuf, [u64; 4])| {
            *of_other == key && std::fs::read(other).ok() == std::fs::read(path).ok()
        };
        let first = seen.iter().find(is_copy).map(|(first, _)| first.clone());
        match first {
            None => {
                seen.push((path.clone(), key));
                true
            }
            Some(first) => {
                repeats.push(Repeat {
                    path: path.clone(),
                    first,
                    is_copy: true,
                });
                false
            }
        }
    });
    repeats
}

/// What two copies of a recording have in common.
fn recording(path: &Path) -> Option<[u64; 4]> {
    let header = Reader::open(path).ok()?.header().ok()?;
    let writer = header.writer;
    let size = path.metadata().ok()?.len();
    Some([
        u64::from(writer.pid),
        writer.start_ticks,
        header.created_wall_ns,
        size,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_recorder::{Options, Recorder};

    #[test]
    fn a_copy_of_a_recording_is_left_out_and_a_later_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            capacity: 4,
            ..Options::new("worker")
        };
        let recorder = Recorder::create_in(folder.path(), &options).expect("a recorder");
        let at = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            std::fs::copy(recorder.path(), at(name)).expect("copied");
        }
        let _ = recorder.set_plugin("another");
        std::fs::copy(recorder.path(), at("later")).expect("copied");
        std::fs::write(at("x"), "no recording").expect("written");
        std::fs::write(at("y"), "no recording").expect("written");
        let mut paths: Vec<PathBuf> = ["a", "b", "later", "x", "y"].map(at).into();
        let repeats = take_repeated_recordings(&mut paths);
        assert_eq!(paths, ["a", "later", "x", "y"].map(at));
        let said = repeats[0].sentence();
        assert!(said.contains("b is a copy of "), "{said}");
    }

    #[test]
    fn a_file_is_left_once_whatever_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "x").expect("written");
        std::fs::write(at("b"), "x").expect("written");
        std::fs::hard_link(at("a"), at("hard")).expect("linked");
        std::os::unix::fs::symlink(at("a"), at("soft")).expect("linked");
        let names = ["a", "b", "a", "hard", "soft", "absent", "absent"];
        let mut paths: Vec<PathBuf> = names.map(at).into();
        let repeats = take_repeats(&mut paths);
        assert_eq!(paths, ["a", "b", "absent", "absent"].map(at));
        assert_eq!(repeats.len(), 3);
        let said = repeats[1].sentence();
        assert!(said.contains("hard is the same file as "), "{said}");
    }
}
