//! Records everything that is read of a machine, so that it can be written as a tree.
//!
//! A recording root keeps each file, folder and link that a reader used and each answer to a
//! question, as a tree. Links are kept as relative links, so that the tree works in any
//! folder. Reading the same facts from that tree gives the same values, because nothing else
//! was read.
//!
//! Only text is kept. Other entries of a listed folder become empty files, and a path that is
//! not a regular file leaves only the answer about it.
#![forbid(unsafe_code)]

use crate::Fact;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most links followed in one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Most entries of one machine; a full examination of an A3-high has about 1500.
const ENTRIES_MAX: usize = 20_000;

/// One entry of the tree, under its absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordedEntry {
    /// A regular file with its text.
    File(String),
    /// A link, with the target to write.
    Link(PathBuf),
    /// A folder that was listed, or that a path leads to.
    Folder,
}

/// The tree so far, shared by all clones of one root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording(Arc<Mutex<BTreeMap<PathBuf, RecordedEntry>>>);

impl Recording {
    /// All entries by path; a folder comes before its content.
    pub(crate) fn entries(&self) -> BTreeMap<PathBuf, RecordedEntry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps a file's text. A second read does not replace the first, whose value was used.
    pub(super) fn read(&self, path: &Path, text: &str) {
        let real = self.walk(path);
        self.keep(real, RecordedEntry::File(text.to_owned()));
    }

    /// Keeps a folder and the names in it.
    pub(super) fn listed(&self, path: &Path, names: &[String]) {
        let real = self.walk(path);
        for name in names {
            self.name(&real.join(name));
        }
        self.keep(real, RecordedEntry::Folder);
    }

    /// Keeps a path that was resolved.
    pub(super) fn seen(&self, path: &Path) {
        let real = self.walk(path);
        self.name(&real);
    }

    /// Keeps a link that was read and not followed.
    pub(super) fn link(&self, path: &Path, target: &str) {
        let (parent, name) = (
            path.parent().unwrap_or(Path::new("/")),
            path.file_name().unwrap_or_default(),
        );
        let real = self.walk(parent).join(name);
        self.keep(real, RecordedEntry::Link(PathBuf::from(target)));
    }

    /// Keeps an answer as the document that a captured tree has.
    pub(super) fn answered<T: Serialize>(&self, path: &str, answer: &Fact<T>) {
        if let Ok(text) = serde_json::to_string(answer) {
            self.keep(
                PathBuf::from(path),
                RecordedEntry::File(format!("{text}\n")),
            );
        }
    }

    /// Keeps the existence of a path, without content.
    fn name(&self, path: &Path) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {
                if let Ok(target) = fs::read_link(path) {
                    self.keep(
                        path.to_owned(),
                        RecordedEntry::Link(relative(path, &target)),
                    );
                }
            }
            Ok(found) if found.is_dir() => self.keep(path.to_owned(), RecordedEntry::Folder),
            _ => self.keep(path.to_owned(), RecordedEntry::File(String::new())),
        }
    }

    fn keep(&self, path: PathBuf, entry: RecordedEntry) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let placeholder =
            |kept: &RecordedEntry| matches!(kept, RecordedEntry::File(text) if text.is_empty());
        if entries.get(&path).is_none_or(placeholder) && entries.len() < ENTRIES_MAX {
            entries.insert(path, entry);
        }
    }

    /// Keeps every link on the path, and returns the resolved path.
    fn walk(&self, path: &Path) -> PathBuf {
        let mut real = PathBuf::from("/");
        let mut ahead: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == Path::new("..") {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            match fs::read_link(&next) {
                Ok(target) if links < LINKS_MAX => {
                    links += 1;
                    self.keep(next.clone(), RecordedEntry::Link(relative(&next, &target)));
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    ahead.extend(parts(&target));
                }
                _ => real = next,
            }
        }
        real
    }
}

/// The parts of a path, last part first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let kept = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().rev().filter_map(kept).collect()
}

/// Makes an absolute link target relative; an absolute one would lead out of the tree.
fn relative(link: &Path, target: &Path) -> PathBuf {
    let Ok(below) = target.strip_prefix("/") else {
        return target.to_owned();
    };
    let depth = link
        .parent()
        .map_or(0, |parent| parent.components().count().saturating_sub(1));
    std::iter::repeat_n("..", depth)
        .collect::<PathBuf>()
        .join(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_link_becomes_a_relative_one() {
        for (link, target, expected) in [
            ("/usr/local/tcpx", "/var/lib/tcpx", "../../var/lib/tcpx"),
            ("/a", "/b", "b"),
            ("/sys/class/net/eth0", "../../devices/x", "../../devices/x"),
        ] {
            assert_eq!(
                relative(Path::new(link), Path::new(target)),
                Path::new(expected),
                "{link}"
            );
        }
    }

    #[test]
    fn a_file_is_kept_with_the_links_on_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        fs::create_dir(here.join("real")).unwrap();
        fs::write(here.join("real/file"), "text").unwrap();
        std::os::unix::fs::symlink(here.join("real"), here.join("alias")).unwrap();
        let recording = Recording::default();
        recording.read(&here.join("alias/file"), "text");
        let entries = recording.entries();
        assert_eq!(
            entries.get(&here.join("real/file")),
            Some(&RecordedEntry::File("text".to_owned()))
        );
        let Some(RecordedEntry::Link(target)) = entries.get(&here.join("alias")) else {
            panic!("{entries:#?}")
        };
        assert!(
            target.starts_with("..") && target.ends_with("real"),
            "{target:?}"
        );
    }
}
