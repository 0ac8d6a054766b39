//! The root that a machine's files are read from: `/` for this machine, or a folder that
//! holds a captured `/sys` and `/proc` of another one.
//!
//! A captured tree is untrusted: reads are bounded, only regular files are opened (opening a
//! FIFO would wait for ever), and a link out of the tree is an error. sysfs links are
//! relative, so a real capture has no such link.
#![forbid(unsafe_code)]

use crate::Fact;
use crate::recording::Recording;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Most bytes that are read of one file; `/proc/cpuinfo` of 208 CPUs is a third of this.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most characters of a one-line fact; a sysfs file is at most one page.
const LINE_CHARS_MAX: usize = 4096;
/// Most characters of an unexpected line that are quoted in the reason.
const QUOTED_CHARS_MAX: usize = 60;
/// Most entries taken from one folder.
const ENTRIES_MAX: usize = 4096;

/// The root of the file tree of a machine.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    live: bool,
    recording: Option<Recording>,
}

impl Root {
    /// This machine.
    pub fn live() -> Self {
        Self {
            path: PathBuf::from("/"),
            live: true,
            recording: None,
        }
    }

    /// This machine, with a recording of everything that is read.
    pub(crate) fn recorded(recording: Recording) -> Self {
        Self {
            recording: Some(recording),
            ..Self::live()
        }
    }

    /// A captured tree whose `/` is the folder `path`.
    ///
    /// # Errors
    /// The folder cannot be resolved.
    pub fn captured(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            path: path.canonicalize()?,
            live: false,
            recording: None,
        })
    }

    /// Whether this is the running machine, whose kernel can be asked.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// The recording, if this root has one.
    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    /// A whole file as text; bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self, path: &str) -> Fact<String> {
        self.text_within(path, FILE_BYTES_MAX)
    }

    /// As [`Root::text`], but at most `bytes_max` bytes; for files that grow with the machine.
    pub(crate) fn text_within(&self, path: &str, bytes_max: u64) -> Fact<String> {
        let read = || {
            let inside = self.inside(path)?;
            let file = File::open(&inside).map_err(|error| error.to_string())?;
            if !file
                .metadata()
                .map_err(|error| error.to_string())?
                .is_file()
            {
                return Err("not a regular file".to_owned());
            }
            let mut bytes = Vec::new();
            file.take(bytes_max)
                .read_to_end(&mut bytes)
                .map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            self.note(|recording| recording.read(Path::new(path), &text));
            Ok(text)
        };
        read()
            .map_err(|why: String| format!("{path}: {why}"))
            .into()
    }

    /// The first line of a file, trimmed, without control characters.
    pub(crate) fn line(&self, path: &str) -> Fact<String> {
        self.text(path).and_then(
            |text| match printable(text.lines().next().unwrap_or_default()) {
                line if line.is_empty() => Fact::unknown(format!("{path}: empty")),
                line => Fact::Known(line),
            },
        )
    }

    /// The first line of a file, parsed.
    pub(crate) fn parsed<T: FromStr>(&self, path: &str) -> Fact<T> {
        self.line(path).and_then(|line| {
            line.parse()
                .map_or_else(|_| unexpected(path, &line), Fact::Known)
        })
    }

    /// The names in a folder, sorted as text. A name with control characters is left out,
    /// because names are used as paths and printed.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        let read = || {
            let entries = fs::read_dir(self.inside(path)?).map_err(|error| error.to_string())?;
            let names = entries
                .take(ENTRIES_MAX)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> = names.filter(|name| printable(name) == *name).collect();
            names.sort_unstable();
            self.note(|recording| recording.listed(Path::new(path), &names));
            Ok(names)
        };
        read()
            .map_err(|why: String| format!("{path}: {why}"))
            .into()
    }

    /// The path with every link resolved, below the root of the machine.
    pub(crate) fn real_path(&self, path: &str) -> Fact<String> {
        let resolve = || {
            let inside = self.inside(path)?;
            let below = inside
                .strip_prefix(&self.path)
                .map_err(|error| error.to_string())?;
            let text = below
                .to_str()
                .filter(|text| printable(text) == *text)
                .ok_or("not printable")?;
            self.note(|recording| recording.seen(Path::new(path)));
            Ok(format!("/{text}"))
        };
        resolve()
            .map_err(|why: String| format!("{path}: {why}"))
            .into()
    }

    /// The target of a link, as written; for links that lead to no file (`/proc/self/ns`).
    pub(crate) fn link(&self, path: &str) -> Fact<String> {
        let read = || {
            let (parent, name) = path.rsplit_once('/').ok_or("not an absolute path")?;
            let target = fs::read_link(self.inside(parent)?.join(name))
                .map_err(|error| error.to_string())?;
            let target = printable(&target.to_string_lossy());
            self.note(|recording| recording.link(Path::new(path), &target));
            Ok(target)
        };
        read()
            .map_err(|why: String| format!("{path}: {why}"))
            .into()
    }

    /// The last part of a resolved path, which in sysfs is the name of a driver or device.
    pub(crate) fn real_name(&self, path: &str) -> Fact<String> {
        self.real_path(path)
            .map(|real| real.rsplit('/').next().map(printable).unwrap_or_default())
    }

    fn note(&self, keep: impl FnOnce(&Recording)) {
        if let Some(recording) = &self.recording {
            keep(recording);
        }
    }

    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let joined = self.path.join(path.trim_start_matches('/'));
        let real = joined.canonicalize().map_err(|error| error.to_string())?;
        // `File::open` of a FIFO waits for a writer, so the type is checked first.
        let kind = fs::metadata(&real).map_err(|error| error.to_string())?;
        match real.starts_with(&self.path) {
            false => Err("leads out of the captured tree".to_owned()),
            true if kind.is_file() || kind.is_dir() => Ok(real),
            true => Err("neither a file nor a folder".to_owned()),
        }
    }
}

/// The unknown fact for a file with unexpected content.
pub(super) fn unexpected<T>(path: &str, text: &str) -> Fact<T> {
    let quoted: String = printable(text).chars().take(QUOTED_CHARS_MAX).collect();
    Fact::unknown(format!("{path}: unexpected `{quoted}`"))
}

/// Untrusted text made printable: trimmed, bounded, without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.trim()
        .chars()
        .filter(|letter| !letter.is_control())
        .take(LINE_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_captured_tree_cannot_escape_block_or_print_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        fs::write(here("name"), "  eth1\x1b[31m\nsecond\n").unwrap();
        fs::write(here("empty"), "\n").unwrap();
        fs::write(here("red\x1b[31m"), "1").unwrap();
        symlink("red\x1b[31m", here("red")).unwrap();
        symlink("/etc", here("escape")).unwrap();
        symlink("name", here("alias")).unwrap();
        symlink("loop", here("loop")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            here("fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let root = Root::captured(folder.path()).unwrap();

        assert_eq!(root.line("/name"), Fact::Known("eth1[31m".to_owned()));
        assert_eq!(root.real_path("/alias"), Fact::Known("/name".to_owned()));
        assert_eq!(root.real_path("/red").why(), Some("/red: not printable"));
        let names = ["alias", "empty", "escape", "fifo", "loop", "name", "red"];
        assert_eq!(
            root.names("/"),
            Fact::Known(names.map(str::to_owned).to_vec())
        );
        assert_eq!(root.link("/alias"), Fact::Known("name".to_owned()));
        for (path, why) in [
            ("/empty", "/empty: empty"),
            ("/escape", "/escape: leads out of the captured tree"),
            ("/fifo", "/fifo: neither a file nor a folder"),
        ] {
            assert_eq!(root.line(path).why(), Some(why));
        }
        for path in ["/none", "/loop", "/../../etc/hostname", "/name/below"] {
            assert_eq!(root.line(path).known(), None, "{path}");
        }
        assert_eq!(
            root.parsed::<u32>("/name").why(),
            Some("/name: unexpected `eth1[31m`")
        );
    }
}
