//! The objects of the tap, one per set of versions, and which one stands for a
//! plugin.
#![forbid(unsafe_code)]

use super::error::InterposeError;
use super::exports::Exports;
use crate::plugin::library_places;
use std::path::{Path, PathBuf};

/// An object of the tap, chosen for a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapLibrary {
    /// The file.
    pub path: PathBuf,
    /// Versions it presents: all that the plugin exports and the tap knows.
    pub versions: Vec<u32>,
    /// Versions that the plugin exports too and the program will not see.
    pub hidden: Vec<u32>,
}

/// File names, by the versions they present.
const OBJECTS: [(&[u32], &str); 3] =
    [(&[7], "libnccl_net_tcpxtap.so"), (&[8], "libnccl_net_tcpxtap_v8.so"), (&[7, 8], "libnccl_net_tcpxtap_v7_v8.so")];

/// The object that presents what the plugin at `plugin` exports. `exe` is this program.
///
/// # Errors
/// The plugin exports nothing that the tap knows, or the object is nowhere.
pub fn tap_library(plugin: &Path, exports: &Exports, exe: &Path) -> Result<TapLibrary, InterposeError> {
    let (versions, hidden): (Vec<u32>, Vec<u32>) = exports.net.iter().partition(|version| [7, 8].contains(*version));
    let Some((_, name)) = OBJECTS.iter().find(|(presents, _)| *presents == versions) else {
        let path = plugin.to_owned();
        return Err(InterposeError::Versions { path, found: words(&exports.net) });
    };
    let places = library_places(exe, name);
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(TapLibrary { path: path.clone(), versions, hidden }),
        None => Err(InterposeError::NoTap {
            name: (*name).to_owned(),
            versions: words(&versions),
            looked: places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn words(versions: &[u32]) -> String {
    if versions.is_empty() {
        return "no ncclNet table".to_owned();
    }
    versions.iter().map(|version| format!("ncclNetPlugin_v{version}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(net: &[u32], there: bool) -> Result<TapLibrary, InterposeError> {
        let folder = tempfile::tempdir().expect("a folder");
        for (_, name) in OBJECTS.iter().filter(|_| there) {
            std::fs::write(folder.path().join(name), b"x").expect("written");
        }
        let exports = Exports { net: net.to_vec(), other: vec![] };
        tap_library(Path::new("/x/plugin.so"), &exports, &folder.path().join("tcpxctl"))
    }

    #[test]
    fn each_set_of_versions_has_its_object_and_a_v7_plugin_shows_no_v8() {
        for (net, name, hidden) in [
            (&[7][..], "libnccl_net_tcpxtap.so", &[][..]),
            (&[8], "libnccl_net_tcpxtap_v8.so", &[]),
            (&[7, 8], "libnccl_net_tcpxtap_v7_v8.so", &[]),
            (&[6, 7, 8, 9], "libnccl_net_tcpxtap_v7_v8.so", &[6, 9]),
        ] {
            let chosen = choose(net, true).expect("an object");
            assert!(chosen.path.ends_with(name), "{net:?}: {chosen:?}");
            assert_eq!(chosen.hidden, hidden);
        }
    }

    #[test]
    fn what_the_tap_does_not_know_or_find_is_named() {
        let unknown = choose(&[9, 10], true).expect_err("refused").to_string();
        assert!(unknown.contains("ncclNetPlugin_v9, ncclNetPlugin_v10"), "{unknown}");
        let missing = choose(&[8], false).expect_err("refused").to_string();
        assert!(missing.contains("libnccl_net_tcpxtap_v8.so") && missing.contains("/../lib/tcpxctl/"), "{missing}");
    }
}
