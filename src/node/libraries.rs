//! Libraries as the dynamic loader would find them.
//!
//! Not here: loading a library, and the loader's cache (`/etc/ld.so.cache`), which is built
//! from the folders of the same configuration.
#![forbid(unsafe_code)]

use crate::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Folders of installers and images, and the loader's default folders.
const USUAL: [&str; 9] = [
    "/usr/local/tcpx/lib64",
    "/var/lib/tcpx/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];
const FOLDERS_MAX: usize = 64;

/// A library file, and the version in its file name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Path after following links.
    pub path: String,
    /// `2.19.4` of `libnccl.so.2.19.4`.
    pub version: Fact<String>,
}

/// The folders that are searched for a library, in order: `LD_LIBRARY_PATH`, the loader's
/// configuration, then the default folders.
pub(crate) fn search_path(root: &Root, ld_library_path: Option<&str>) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    let of_variable = ld_library_path
        .unwrap_or_default()
        .split(':')
        .filter(|folder| folder.starts_with('/'));
    folders.extend(of_variable.map(str::to_owned));
    let listed = root
        .names("/etc/ld.so.conf.d")
        .known()
        .cloned()
        .unwrap_or_default();
    let files = listed
        .iter()
        .filter(|name| name.ends_with(".conf"))
        .map(|name| format!("/etc/ld.so.conf.d/{name}"));
    for file in files.take(FOLDERS_MAX) {
        let text = root.text(&file).known().cloned().unwrap_or_default();
        folders.extend(
            text.lines()
                .map(str::trim)
                .filter(|line| line.starts_with('/'))
                .map(str::to_owned),
        );
    }
    folders.extend(USUAL.map(str::to_owned));
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders.truncate(FOLDERS_MAX);
    folders
}

/// The library `name` in the first of `folders` that has it.
pub(crate) fn find(root: &Root, folders: &[String], name: &str) -> Fact<Library> {
    let found = folders
        .iter()
        .find_map(|folder| root.real_path(&format!("{folder}/{name}")).known().cloned());
    let found = found.ok_or_else(|| {
        format!(
            "{name} is in none of {} folders, {} first",
            folders.len(),
            first(folders)
        )
    });
    Fact::from(found).map(|path| Library {
        version: version_of(&path),
        path,
    })
}

fn first(folders: &[String]) -> &str {
    folders.first().map_or("none", String::as_str)
}

/// The version after `.so.` in a file name; unknown if it has only one number.
fn version_of(path: &str) -> Fact<String> {
    let version = path
        .rsplit_once(".so.")
        .map(|(_, version)| version.to_owned());
    let full = version.filter(|version| version.split('.').count() > 1);
    full.ok_or_else(|| format!("the file name {path} has no version"))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_variable_comes_before_the_loaders_configuration() {
        let tree = fixture::tree(
            "etc/ld.so.conf.d/cuda.conf = /opt/cuda/lib64\netc/ld.so.conf.d/x.txt = /opt/x",
        );
        let path = search_path(&tree.root, Some("/opt/mine:relative::/opt/cuda/lib64"));
        assert_eq!(
            path[..3],
            ["/opt/mine", "/opt/cuda/lib64", "/usr/local/tcpx/lib64"]
        );
    }

    #[test]
    fn the_version_comes_from_the_target_of_the_link() {
        let tree = fixture::tree(
            "opt/libnccl.so.2.19.4 = \nopt/libnccl.so.2 -> libnccl.so.2.19.4\nopt/libcuda.so.1 = ",
        );
        let folders = ["/none".to_owned(), "/opt".to_owned()];
        let nccl = find(&tree.root, &folders, "libnccl.so.2")
            .known()
            .cloned()
            .unwrap();
        assert_eq!(
            (nccl.path.as_str(), nccl.version),
            ("/opt/libnccl.so.2.19.4", Fact::Known("2.19.4".to_owned()))
        );
        let cuda = find(&tree.root, &folders, "libcuda.so.1")
            .known()
            .cloned()
            .unwrap();
        assert_eq!(
            cuda.version.why(),
            Some("the file name /opt/libcuda.so.1 has no version")
        );
        assert!(
            find(&tree.root, &folders, "libx.so")
                .why()
                .unwrap()
                .contains("libx.so is in none of 2 folders, /none first")
        );
    }
}
