//! The tap's shared object, and the versions that it exports for a plugin.
#![forbid(unsafe_code)]

use super::error::InterposeError;
use super::exports::Exports;
use std::path::{Path, PathBuf};
use tcpx_abi::VERSIONS;
use tcpx_node::plugin_files::library_places;

/// The tap's object and its versions for one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapLibrary {
    /// The object's file.
    pub path: PathBuf,
    /// Versions that the tap exports: those of the plugin that the tap supports.
    pub versions: Vec<u32>,
    /// Versions that the plugin exports and the tap hides.
    pub hidden: Vec<u32>,
}

/// The tap's file name. The versions that it exports are chosen while it is loaded.
const OBJECT: &str = "libnccl_net_tcpxtap.so";

/// The tap for the plugin at `plugin`. `exe` is the path of tcpxctl.
///
/// # Errors
/// The plugin exports no version that the tap supports, or the object was not found.
pub fn tap_library(
    plugin: &Path,
    exports: &Exports,
    exe: &Path,
) -> Result<TapLibrary, InterposeError> {
    let (versions, hidden): (Vec<u32>, Vec<u32>) = exports
        .net
        .iter()
        .partition(|version| VERSIONS.contains(version));
    if versions.is_empty() {
        let path = plugin.to_owned();
        return Err(InterposeError::Versions {
            path,
            found: words(&exports.net),
        });
    }
    let places = library_places(exe, OBJECT);
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(TapLibrary {
            path: path.clone(),
            versions,
            hidden,
        }),
        None => Err(InterposeError::NoTap {
            name: OBJECT.to_owned(),
            looked: places
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

fn words(versions: &[u32]) -> String {
    if versions.is_empty() {
        return "no ncclNet table".to_owned();
    }
    versions
        .iter()
        .map(|version| format!("ncclNetPlugin_v{version}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(net: &[u32], there: bool) -> Result<TapLibrary, InterposeError> {
        let folder = tempfile::tempdir().expect("a folder");
        if there {
            std::fs::write(folder.path().join(OBJECT), b"x").expect("written");
        }
        let exports = Exports {
            net: net.to_vec(),
            other: vec![],
        };
        tap_library(
            Path::new("/x/plugin.so"),
            &exports,
            &folder.path().join("tcpxctl"),
        )
    }

    #[test]
    fn versions_that_the_tap_does_not_support_are_hidden() {
        for (net, versions, hidden) in [
            (&[7][..], &[7][..], &[][..]),
            (&[4, 7, 12], &[4, 7, 12], &[]),
            (&[3, 6, 13], &[6], &[3, 13]),
        ] {
            let chosen = choose(net, true).expect("an object");
            assert_eq!(
                (chosen.versions.as_slice(), chosen.hidden.as_slice()),
                (versions, hidden)
            );
        }
    }

    #[test]
    fn an_unsupported_version_and_a_missing_object_are_named() {
        let unknown = choose(&[13, 14], true).expect_err("refused").to_string();
        assert!(
            unknown.contains("ncclNetPlugin_v13, ncclNetPlugin_v14"),
            "{unknown}"
        );
        let missing = choose(&[8], false).expect_err("refused").to_string();
        assert!(
            missing.contains(OBJECT) && missing.contains("/../lib/tcpxctl/"),
            "{missing}"
        );
    }
}
