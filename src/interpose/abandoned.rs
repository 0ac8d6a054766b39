//! Folders of links that a killed tap left.
//!
//! A folder has the identity of its tap. It is removed once that process is gone and no process has
//! the folder in its environment: the program may outlive the tap, and still load it from there.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use tcpx_recorder::{Identity, Liveness};

/// Start of the folders' names.
pub(super) const PREFIX: &str = "tcpxctl-tap-";
/// The file with the identity.
const OWNER: &str = "owner";
/// More than an identity has.
const OWNER_BYTES_MAX: u64 = 256;
/// Most entries of the folder for temporary files that are looked at.
const ENTRIES_MAX: usize = 65_536;

/// Writes the identity of this process into its folder.
pub(super) fn sign(folder: &Path) -> io::Result<()> {
    let Identity {
        pid,
        start_ticks,
        boot_id_hash,
        pid_namespace,
    } = Identity::own();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(OWNER))?;
    writeln!(file, "{pid} {start_ticks} {boot_id_hash} {pid_namespace}")
}

/// Removes this user's folders whose taps are gone. What cannot be removed stays for the next tap.
pub(super) fn remove_abandoned(parent: &Path) {
    let own = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.take(ENTRIES_MAX) {
        let is_named = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        let path = entry.path();
        // Others may make links and folders of this name. A folder of this user has mode 0700.
        let is_own = || {
            std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir() && meta.uid() == own)
        };
        let is_gone = || owner(&path).is_some_and(|owner| owner.liveness() == Liveness::Dead);
        if is_named && is_own() && is_gone() && !is_used(&path) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn owner(folder: &Path) -> Option<Identity> {
    let path = folder.join(OWNER);
    let is_file = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
    let mut text = String::new();
    let file = is_file.then(|| std::fs::File::open(path).ok())??;
    file.take(OWNER_BYTES_MAX).read_to_string(&mut text).ok()?;
    let mut numbers = text.split_whitespace();
    Some(Identity {
        pid: numbers.next()?.parse().ok()?,
        start_ticks: numbers.next()?.parse().ok()?,
        boot_id_hash: numbers.next()?.parse().ok()?,
        pid_namespace: numbers.next()?.parse().ok()?,
    })
}

/// Whether a process of this user has the folder in its environment.
fn is_used(folder: &Path) -> bool {
    super::program::with_in_environment(folder).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir;

    #[test]
    fn folders_of_taps_that_are_gone_are_removed_and_no_others() {
        let parent = tempfile::tempdir().expect("a folder");
        let made = |name: &str, owner: Option<Identity>| {
            let path = parent.path().join(name);
            create_dir(&path).expect("made");
            if let Some(one) = owner {
                let Identity {
                    pid,
                    start_ticks,
                    boot_id_hash,
                    pid_namespace,
                } = one;
                let text = format!("{pid} {start_ticks} {boot_id_hash} {pid_namespace}");
                std::fs::write(path.join(OWNER), text).expect("written");
            }
            path
        };
        let own = Identity::own();
        // A pid that was used again: another start time.
        let gone = Identity {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        made("tcpxctl-tap-1-0", Some(gone));
        made("tcpxctl-tap-2-0", Some(own));
        made("tcpxctl-tap-4-0", None);
        let used = made("tcpxctl-tap-5-0", Some(gone));
        made("another", Some(gone));
        let linked = made("target", Some(gone));
        std::os::unix::fs::symlink(linked, parent.path().join("tcpxctl-tap-6-0")).expect("a link");
        let mut program = std::process::Command::new("sleep")
            .arg("60")
            .env("LD_LIBRARY_PATH", &used)
            .spawn()
            .expect("a program");
        // It has been started when its environment is not yet to be seen.
        while !is_used(&used) && program.try_wait().expect("asked").is_none() {
            std::thread::yield_now();
        }
        remove_abandoned(parent.path());
        let mut left: Vec<_> = std::fs::read_dir(parent.path())
            .expect("listed")
            .map(|entry| {
                entry
                    .expect("one")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        left.sort();
        let kept = [2, 4, 5, 6].map(|at| format!("tcpxctl-tap-{at}-0"));
        assert_eq!(left[0], "another");
        assert_eq!(left[1], "target");
        assert_eq!(left[2..], kept);
        program.kill().expect("ended");
        program.wait().expect("ended");
        remove_abandoned(parent.path());
        assert!(!used.exists());
    }
}
