//! The program's environment: a folder with a link to the tap under every file name that a
//! program may use for its plugin, and the variables that select these links.
//!
//! The link names follow NCCL, which searches the loader's path for `libnccl-net-NAME.so` or
//! `libnccl-net.so`. Other files in the folder are the report, to which every tap appends
//! the path of its recorder file, and the identity of the process that made the folder.
#![forbid(unsafe_code)]

use super::abandoned::{PREFIX, remove_abandoned, sign};
use super::error::InterposeError;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Maximum number of folder names that are tried.
const ATTEMPTS: u32 = 100;
/// Maximum number of bytes read from the report.
const REPORT_MAX: usize = 1 << 20;

/// A folder of links, removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    path: PathBuf,
    keep: bool,
}

/// Settings of the recorder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    /// Prefix of the recorder files' names.
    pub(crate) name: String,
    /// Folder of the recorder files, instead of one in `/dev/shm`.
    pub(crate) folder: Option<PathBuf>,
    /// Maximum number of open comms.
    pub(crate) channels: Option<u32>,
    /// Number of events kept per channel.
    pub(crate) ring_events: Option<u32>,
}

/// Variables added to the program's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProgramEnvironment {
    /// Values by name.
    pub(crate) variables: BTreeMap<String, String>,
    /// Plugins that could not be redirected, and the consequence.
    pub(crate) notes: Vec<String>,
}

impl PrivateFolder {
    /// Makes a folder in `parent` with links to `tap`, also under the names in
    /// `NCCL_NET_PLUGIN`.
    ///
    /// # Errors
    /// The folder cannot be made or filled.
    pub(crate) fn create(
        parent: &Path,
        tap: &Path,
        net_plugin: Option<&str>,
    ) -> Result<Self, InterposeError> {
        let failed = |source| InterposeError::Folder {
            parent: parent.to_owned(),
            source,
        };
        remove_abandoned(parent);
        let tap = tap.canonicalize().map_err(failed)?;
        let folder = Self {
            path: make(parent).map_err(failed)?,
            keep: false,
        };
        sign(&folder.path).map_err(failed)?;
        let mut names = vec!["tcpx".to_owned(), LINK.to_owned()];
        names.extend(plain_names(net_plugin.unwrap_or_default()));
        names.sort();
        names.dedup();
        let links = names.iter().map(|name| format!("libnccl-net-{name}.so"));
        for link in links.chain(["libnccl-net.so".to_owned()]) {
            symlink(&tap, folder.path.join(link)).map_err(failed)?;
        }
        let report = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.report());
        report.map_err(failed)?;
        Ok(folder)
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder: a process that outlives the program may still load the tap from it.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    fn report(&self) -> PathBuf {
        self.path.join("report")
    }

    /// The lines that taps have appended to the report: process id and text.
    pub(crate) fn reported(&self) -> Vec<(u32, String)> {
        let bytes = std::fs::read(self.report()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(REPORT_MAX)]).into_owned();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .filter_map(|(pid, text)| Some((pid.parse().ok()?, tcpx_words::units::printable(text))))
            .collect()
    }

    /// The variables that make a program load the tap from this folder. `real` is the plugin
    /// behind the tap, and `variable` reads the current environment.
    pub(crate) fn environment(
        &self,
        real: &Path,
        recording: &Recording,
        variable: impl Fn(&str) -> Option<String>,
    ) -> ProgramEnvironment {
        let mut given = ProgramEnvironment::default();
        let link = self.path.join("libnccl-net-tcpx.so").display().to_string();
        let mut set =
            |name: &str, value: String| drop(given.variables.insert(name.to_owned(), value));
        set("TCPXTAP_PLUGIN", real.display().to_string());
        set("TCPXTAP_NAME", recording.name.clone());
        set("TCPXTAP_REPORT", self.report().display().to_string());
        set("UCCL_TCPX_PLUGIN_PATH", link.clone());
        set("NCCL_GPUDIRECTTCPX_PLUGIN_PATH", link);
        let before = variable("LD_LIBRARY_PATH")
            .filter(|path| !path.is_empty())
            .map(|path| format!(":{path}"));
        set(
            "LD_LIBRARY_PATH",
            format!("{}{}", self.path.display(), before.unwrap_or_default()),
        );
        if let Some(folder) = &recording.folder {
            set("TCPXTAP_FOLDER", folder.display().to_string());
        }
        if let Some(channels) = recording.channels {
            set("TCPXTAP_CHANNELS", channels.to_string());
        }
        if let Some(events) = recording.ring_events {
            set("TCPXTAP_RING_EVENTS", events.to_string());
        }
        match variable("NCCL_NET_PLUGIN").as_deref().map(str::trim) {
            Some("none") => given.notes.push(
                "NCCL_NET_PLUGIN=none is not changed: NCCL 2.28 and newer loads neither a plugin nor the tap".into(),
            ),
            _ => set("NCCL_NET_PLUGIN", LINK.to_owned()),
        }
        given
    }
}

/// X of the `libnccl-net-X.so` that `NCCL_NET_PLUGIN` is set to.
const LINK: &str = "tcpxtap";

/// The names in the list, without paths: NCCL searches for names and opens paths directly.
fn plain_names(list: &str) -> impl Iterator<Item = String> {
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.contains('/'));
    names.map(str::to_owned)
}

fn make(parent: &Path) -> io::Result<PathBuf> {
    for attempt in 0..ATTEMPTS {
        let path = parent.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
        // An existing entry is never reused, even if it is a link made by another user.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if !self.keep {
            // If this fails, a few links remain.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &PrivateFolder) -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).expect("listed");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_folder_links_every_plugin_name_and_is_removed_on_drop() {
        let parent = tempfile::tempdir().expect("a folder");
        let tap = parent.path().join("tap.so");
        std::fs::write(&tap, b"x").expect("written");
        let folder =
            PrivateFolder::create(parent.path(), &tap, Some("aws, /abs/x.so,tcpx")).expect("made");
        let expected = [
            "libnccl-net-aws.so",
            "libnccl-net-tcpx.so",
            "libnccl-net-tcpxtap.so",
            "libnccl-net.so",
            "owner",
            "report",
        ];
        assert_eq!(names(&folder), expected);
        std::fs::write(
            folder.path().join("report"),
            "12 recording /dev/shm/x\nnonsense\n13 a\x1b[1m b\n",
        )
        .expect("written");
        assert_eq!(
            folder.reported(),
            [
                (12, "recording /dev/shm/x".to_owned()),
                (13, "a[1m b".to_owned())
            ]
        );
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_environment_makes_every_kind_of_program_load_the_tap() {
        let parent = tempfile::tempdir().expect("a folder");
        let tap = parent.path().join("tap.so");
        std::fs::write(&tap, b"x").expect("written");
        let folder = PrivateFolder::create(parent.path(), &tap, None).expect("made");
        let recording = Recording {
            name: "tap-1".into(),
            ring_events: Some(64),
            ..Recording::default()
        };
        let variable = |name: &str| (name == "LD_LIBRARY_PATH").then(|| "/a:/b".to_owned());
        let given = folder
            .environment(Path::new("/real.so"), &recording, variable)
            .variables;
        let inside = folder.path().display().to_string();
        for (name, value) in [
            ("TCPXTAP_PLUGIN", "/real.so".to_owned()),
            ("TCPXTAP_NAME", "tap-1".to_owned()),
            ("TCPXTAP_RING_EVENTS", "64".to_owned()),
            (
                "UCCL_TCPX_PLUGIN_PATH",
                format!("{inside}/libnccl-net-tcpx.so"),
            ),
            (
                "NCCL_GPUDIRECTTCPX_PLUGIN_PATH",
                format!("{inside}/libnccl-net-tcpx.so"),
            ),
            ("NCCL_NET_PLUGIN", "tcpxtap".to_owned()),
            ("LD_LIBRARY_PATH", format!("{inside}:/a:/b")),
        ] {
            assert_eq!(given.get(name), Some(&value), "{name}");
        }
        assert!(!given.contains_key("TCPXTAP_FOLDER"));

        let none = |name: &str| (name == "NCCL_NET_PLUGIN").then(|| "none".to_owned());
        let given = folder.environment(Path::new("/real.so"), &recording, none);
        assert!(!given.variables.contains_key("NCCL_NET_PLUGIN") && given.notes.len() == 1);
    }
}
