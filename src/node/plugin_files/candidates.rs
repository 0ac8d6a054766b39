//! Every file that a program on this node could load as the plugin.
//!
//! Nothing is loaded: a candidate is described by its dynamic section and its hash. Its
//! version and the name of its table are known only after `init`, which `discover` calls. If
//! two paths lead to two files, two programs on one node can run two plugins.
#![forbid(unsafe_code)]

use super::error::LoadError;
use super::find::{TCPX_PLACES, TCPX_VARIABLES};
use super::inspect::inspect;
use crate::libraries::search_path;
use crate::{Fact, Root, elf};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use tcpx_abi::SYMBOL_PREFIX;
use tcpx_words::abi_version::AbiVersion;

const CANDIDATES_MAX: usize = 16;
/// Origins of a candidate, as in [`PluginFile::named_by`].
const CHOSEN: &str = "requested";
const USUAL: &str = "a default location";
const SEARCHED: &str = "$LD_LIBRARY_PATH";

/// A file that a program may load as the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginFile {
    /// Path, as the origin names it.
    pub path: String,
    /// Origin of the path: a variable, a default location, or the request.
    pub named_by: String,
    /// Path after following links.
    pub real_path: Fact<String>,
    /// SHA-256 of the file; not read before a run.
    pub sha256: Fact<String>,
    /// Names `ncclNetPlugin_vN` in its dynamic string table.
    pub tables: Fact<Vec<String>>,
    /// Needed libraries that the loader would not find.
    pub missing: Fact<Vec<String>>,
}

impl PluginFile {
    /// Why the file cannot be the plugin of a run, if that is known without loading it.
    pub fn why_not(&self) -> Option<String> {
        let tables = match (&self.real_path, &self.tables) {
            (Fact::Unknown { unknown }, _) | (_, Fact::Unknown { unknown }) => {
                return Some(unknown.clone());
            }
            (_, Fact::Known(tables)) => tables,
        };
        (!has_known(tables)).then(|| format!("{}: {}", self.path, exported(tables)))
    }
}

fn has_known(tables: &[String]) -> bool {
    tables
        .iter()
        .any(|symbol| AbiVersion::of_symbol(symbol).is_some())
}

fn exported(tables: &[String]) -> String {
    if tables.is_empty() {
        "no ncclNet table".to_owned()
    } else {
        tables.join(", ")
    }
}

/// Every candidate that exists, each path once; or only `chosen`, if it is given. `variable`
/// reads the environment. `whole` also reads the whole files, for their hashes.
pub fn plugin_files(
    root: &Root,
    variable: &dyn Fn(&str) -> Option<String>,
    chosen: Option<&Path>,
    whole: bool,
) -> Fact<Vec<PluginFile>> {
    let folders = search_path(root, variable("LD_LIBRARY_PATH").as_deref());
    root.ask("plugins", || {
        let named = match chosen {
            Some(path) => vec![(path.display().to_string(), CHOSEN.to_owned())],
            None => candidates(variable),
        };
        Fact::Known(
            named
                .iter()
                .filter_map(|one| look(one, &folders, whole))
                .collect(),
        )
    })
}

fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let named = TCPX_VARIABLES
        .iter()
        .filter_map(|name| Some((variable(name)?, format!("${name}"))));
    let usual = TCPX_PLACES
        .iter()
        .map(|path| ((*path).to_owned(), USUAL.to_owned()));
    let path = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let searched = folders.flat_map(|folder| {
        ["libnccl-net.so", "libnccl-net-tcpx.so"]
            .map(|name| (format!("{folder}/{name}"), SEARCHED.to_owned()))
    });
    let mut seen = BTreeSet::new();
    let all = named
        .chain(usual)
        .chain(searched)
        .filter(|(path, _)| seen.insert(path.clone()));
    all.take(CANDIDATES_MAX).collect()
}

fn look(
    (path, named_by): &(String, String),
    folders: &[String],
    whole: bool,
) -> Option<PluginFile> {
    // A missing file is reported if a variable names it, not if a default location or a
    // folder of LD_LIBRARY_PATH lacks it.
    if !Path::new(path).exists() && [USUAL, SEARCHED].contains(&named_by.as_str()) {
        return None;
    }
    let dynamic = dynamic_of(Path::new(path));
    let real = std::fs::canonicalize(path).map_err(|error| format!("{path}: {error}"));
    let hash = || {
        inspect(Path::new(path))
            .map(|file| file.sha256)
            .map_err(|error| error.to_string())
    };
    Some(PluginFile {
        path: path.clone(),
        named_by: named_by.clone(),
        real_path: real.map(|real| real.display().to_string()).into(),
        sha256: if whole {
            hash().into()
        } else {
            Fact::unknown("not read before a run")
        },
        // A file that is not a shared object has no tables and needs no libraries.
        missing: dynamic
            .as_ref()
            .map(|dynamic| missing(dynamic, path, folders))
            .map_err(Clone::clone)
            .into(),
        tables: dynamic.map(|dynamic| dynamic.names(SYMBOL_PREFIX)).into(),
    })
}

/// Checks, without loading the file, that it is a shared object with a table of a known
/// version.
///
/// # Errors
/// The file cannot be read, is not a shared object for this machine, or has no such table.
pub fn must_have_table(path: &Path) -> Result<(), LoadError> {
    inspect(path)?;
    let unreadable = |why| LoadError::Unreadable {
        path: path.to_owned(),
        why,
    };
    let tables = dynamic_of(path).map_err(unreadable)?.names(SYMBOL_PREFIX);
    if has_known(&tables) {
        return Ok(());
    }
    Err(LoadError::NoTable {
        path: path.to_owned(),
        exported: exported(&tables),
    })
}

/// The dynamic section of a file; empty if the file is not an ELF file with one.
///
/// # Errors
/// The file cannot be read, or is not a regular file.
pub fn dynamic_of(path: &Path) -> Result<elf::Dynamic, String> {
    let says = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    // Checked before opening, because opening a FIFO waits for a writer.
    if !std::fs::metadata(path)
        .map_err(|error| says(&error))?
        .is_file()
    {
        return Err(says(&"not a regular file"));
    }
    let file = File::open(path).map_err(|error| says(&error))?;
    Ok(elf::dynamic(file).unwrap_or_default())
}

/// Needed libraries that the loader would not find. The C library is not checked.
fn missing(dynamic: &elf::Dynamic, path: &str, folders: &[String]) -> Vec<String> {
    let origin = Path::new(path)
        .parent()
        .map(|folder| folder.display().to_string())
        .unwrap_or_default();
    let run_path = dynamic.run_path.as_deref().unwrap_or_default();
    let run_path = run_path
        .replace("${ORIGIN}", &origin)
        .replace("$ORIGIN", &origin);
    let own = run_path
        .split(':')
        .filter(|folder| !folder.is_empty())
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let is_there = |name: &String| {
        own.iter()
            .chain(folders)
            .any(|folder| Path::new(folder).join(name).exists())
    };
    let of_libc = |name: &String| name.starts_with("ld-linux") || name == "libc.so.6";
    dynamic
        .needed
        .iter()
        .filter(|name| !of_libc(name) && !is_there(name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a plugin with `flags` that needs `below/libdep.so`; returns what is missing.
    fn missing_of_a_plugin(flags: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        let compile = |flags: &[&str]| {
            let mut cc = std::process::Command::new("cc");
            cc.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
                .args(flags)
                .current_dir(folder.path());
            assert!(cc.status().unwrap().success(), "{cc:?}");
        };
        compile(&["below/libdep.so"]);
        compile(
            &[
                &[
                    "plugin.so",
                    "-x",
                    "none",
                    "-Wl,--no-as-needed",
                    "-Lbelow",
                    "-ldep",
                ],
                flags,
            ]
            .concat(),
        );
        let dynamic = dynamic_of(&folder.path().join("plugin.so")).unwrap();
        assert_eq!(dynamic.needed, ["libdep.so"]);
        missing(
            &dynamic,
            folder.path().join("plugin.so").to_str().unwrap(),
            &[],
        )
    }

    #[test]
    fn a_needed_library_is_searched_in_the_run_path() {
        let none = Vec::<String>::new();
        assert_eq!(missing_of_a_plugin(&[]), ["libdep.so"]);
        assert_eq!(
            missing_of_a_plugin(&["-Wl,--enable-new-dtags,-rpath,$ORIGIN/below"]),
            none
        );
        assert_eq!(
            missing_of_a_plugin(&["-Wl,--enable-new-dtags,-rpath,${ORIGIN}/below"]),
            none
        );
        assert_eq!(
            missing_of_a_plugin(&["-Wl,--disable-new-dtags,-rpath,$ORIGIN/below"]),
            none,
            "DT_RPATH"
        );
        assert_eq!(
            missing_of_a_plugin(&["-Wl,--disable-new-dtags,-rpath,/no/such:$ORIGIN"]),
            ["libdep.so"]
        );
    }

    #[test]
    fn a_missing_file_that_a_variable_names_is_listed() {
        let variable =
            |name: &str| (name == "UCCL_TCPX_PLUGIN_PATH").then(|| "/no/such.so".to_owned());
        let files = plugin_files(&Root::live(), &variable, None, true);
        let file = files
            .known()
            .unwrap()
            .iter()
            .find(|file| file.path == "/no/such.so")
            .unwrap();
        assert!(
            file.real_path.why().is_some() && file.tables.why().is_some(),
            "{file:#?}"
        );
    }
}
