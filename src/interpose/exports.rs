//! The tables that a shared object exports, read from its file without loading it: only a worker
//! loads a plugin.
#![forbid(unsafe_code)]

use std::path::Path;
use tcpx_node::plugin_files::{LoadError, dynamic_of, inspect};

/// NCCL's tables among a plugin's symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exports {
    /// Versions of the net table, ascending.
    pub net: Vec<u32>,
    /// Tables of other kinds: `ncclCollNetPlugin_v7`, ...
    pub other: Vec<String>,
}

/// Reads the names of a plugin's dynamic symbols.
///
/// # Errors
/// The file is missing, unreadable, or not a shared object for this machine.
pub fn exports(path: &Path) -> Result<Exports, LoadError> {
    inspect(path)?;
    let dynamic = dynamic_of(path).map_err(|why| LoadError::Unreadable {
        path: path.to_owned(),
        why,
    })?;
    Ok(sort(dynamic.names("nccl").iter().map(String::as_str)))
}

fn sort<'a>(names: impl Iterator<Item = &'a str>) -> Exports {
    let mut exports = Exports::default();
    for name in names {
        let table = name
            .strip_prefix("nccl")
            .and_then(|rest| rest.split_once("Plugin_v"));
        let Some((kind, Ok(version))) = table.map(|(kind, version)| (kind, version.parse::<u32>()))
        else {
            continue;
        };
        if kind == "Net" {
            exports.net.push(version);
        } else {
            exports.other.push(name.to_owned());
        }
    }
    exports.net.sort_unstable();
    exports.other.sort();
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_table_symbols_are_listed() {
        let names = [
            "ncclNetPlugin_v8",
            "malloc",
            "ncclNetPlugin_v7",
            "ncclCollNetPlugin_v7",
            "ncclNetPlugin_vx",
            "nccl",
        ];
        let found = sort(names.into_iter());
        assert_eq!(
            found,
            Exports {
                net: vec![7, 8],
                other: vec!["ncclCollNetPlugin_v7".into()]
            }
        );
    }

    #[test]
    fn the_software_plugin_exports_version_7() {
        let exe = std::env::current_exe().expect("a path");
        if let Ok(soft) = tcpx_node::plugin_files::soft_library(&exe) {
            assert_eq!(
                exports(&soft).expect("readable"),
                Exports {
                    net: vec![7],
                    other: vec![]
                }
            );
        }
        assert!(exports(Path::new("/etc/passwd")).is_err());
    }
}
