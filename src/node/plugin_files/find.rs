//! Which plugin a name means, and why the others were passed over.
//!
//! `auto` is Google's plugin when one of its usual places holds a file, else
//! the software plugin. A TCPX that is found and does not load is an error of
//! the run, never a reason to fall back: nothing stands in silently.
#![forbid(unsafe_code)]

use super::error::LoadError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::plugin_family::PluginFamily;

/// Where a table comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The software plugin linked into this program.
    Builtin,
    /// A shared object.
    File(PathBuf),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// A candidate that was looked at and not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// What it was.
    pub candidate: String,
    /// Why not.
    pub why: String,
}

/// What was chosen and on which grounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The table's origin.
    pub source: Source,
    /// The version of its table; without one the newest that both sides know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abi: Option<AbiVersion>,
    /// In a few words, for the first line of output.
    pub why: String,
    /// The rest.
    pub passed_over: Vec<PassedOver>,
}

impl Choice {
    /// A file that was asked for.
    pub fn of_file(path: PathBuf) -> Self {
        Self::new(Source::File(path), "asked for", Vec::new())
    }

    /// A source on such grounds, in the newest version of its table.
    pub fn new(source: Source, why: &str, passed_over: Vec<PassedOver>) -> Self {
        Self {
            source,
            abi: None,
            why: why.to_owned(),
            passed_over,
        }
    }

    /// What it promises to be before it is loaded.
    pub fn expected_family(&self) -> PluginFamily {
        match &self.source {
            Source::Builtin => PluginFamily::TcpxSoft,
            Source::File(path) => PluginFamily::expected_of_path(path),
        }
    }
}

/// The two names under which installers leave TCPX, and the two roots.
pub const TCPX_PLACES: [&str; 4] = [
    "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
    "/var/lib/tcpx/lib64/libnccl-net-tcpx.so",
    "/usr/local/tcpx/lib64/libnccl-net.so",
    "/var/lib/tcpx/lib64/libnccl-net.so",
];

/// Variables by which the users' programs name the plugin, in our order.
pub const TCPX_VARIABLES: [&str; 2] = ["UCCL_TCPX_PLUGIN_PATH", "NCCL_GPUDIRECTTCPX_PLUGIN_PATH"];

const SOFT_LIBRARY: &str = "libnccl_net_tcpxsoft.so";
const PLAIN_LIBRARY: &str = "libnccl_net_plainsoft.so";

/// Resolves `auto`, `soft`, `plainsoft`, `builtin`, a path, or a name X for
/// `libnccl-net-X.so`. `variable` reads the environment; `exe` is this program.
pub fn choose(
    wanted: &str,
    variable: impl Fn(&str) -> Option<String>,
    exe: &Path,
) -> Result<Choice, LoadError> {
    match wanted {
        "builtin" => Ok(Choice::new(Source::Builtin, "asked for", Vec::new())),
        "soft" => soft_library(exe).map(Choice::of_file),
        "auto" => Ok(auto(variable, exe)),
        path if path.contains('/') || path.ends_with(".so") => Ok(Choice::of_file(path.into())),
        "plainsoft" => library_of_ours(exe, PLAIN_LIBRARY, "plainsoft").map(Choice::of_file),
        name => by_name(name, variable),
    }
}

fn auto(variable: impl Fn(&str) -> Option<String>, exe: &Path) -> Choice {
    let mut passed_over = Vec::new();
    let named = TCPX_VARIABLES
        .iter()
        .filter_map(|name| variable(name).map(|path| (format!("${name}"), path)));
    let usual = TCPX_PLACES
        .iter()
        .map(|path| ("a usual place of TCPX".to_owned(), (*path).to_owned()));
    for (origin, path) in named.chain(usual) {
        if Path::new(&path).exists() {
            return Choice::new(
                Source::File(path.into()),
                &format!("found in {origin}"),
                passed_over,
            );
        }
        passed_over.push(PassedOver {
            candidate: path,
            why: "no such file".into(),
        });
    }
    match soft_library(exe) {
        Ok(path) => {
            let why = "no TCPX plugin on this node; the software plugin stands in";
            Choice::new(Source::File(path), why, passed_over)
        }
        Err(error) => {
            passed_over.push(PassedOver {
                candidate: SOFT_LIBRARY.into(),
                why: error.to_string(),
            });
            let why = "no TCPX plugin on this node; the built-in software plugin stands in";
            Choice::new(Source::Builtin, why, passed_over)
        }
    }
}

fn by_name(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Choice, LoadError> {
    let file = format!("libnccl-net-{name}.so");
    let folders = search_folders(variable("LD_LIBRARY_PATH").as_deref());
    let mut passed_over = Vec::new();
    for folder in folders {
        let path = folder.join(&file);
        if path.exists() {
            return Ok(Choice::new(
                Source::File(path),
                &format!("named `{name}`"),
                passed_over,
            ));
        }
        passed_over.push(PassedOver {
            candidate: path.display().to_string(),
            why: "no such file".into(),
        });
    }
    let looked = passed_over
        .into_iter()
        .map(|one| one.candidate)
        .collect::<Vec<_>>()
        .join(", ");
    Err(LoadError::NoSuchName {
        name: name.to_owned(),
        looked,
    })
}

/// Where the loader looks for a name, with the places of TCPX behind what
/// `LD_LIBRARY_PATH` holds.
pub fn search_folders(library_path: Option<&str>) -> Vec<PathBuf> {
    let usual = [
        "/usr/local/tcpx/lib64",
        "/var/lib/tcpx/lib64",
        "/usr/local/lib",
        "/usr/lib64",
        "/usr/lib",
    ];
    let own = library_path
        .unwrap_or_default()
        .split(':')
        .filter(|folder| !folder.is_empty());
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    own.chain(usual)
        .map(PathBuf::from)
        .chain([machine.into()])
        .collect()
}

/// The software plugin's own file.
pub fn soft_library(exe: &Path) -> Result<PathBuf, LoadError> {
    library_of_ours(exe, SOFT_LIBRARY, "soft")
}

fn library_of_ours(exe: &Path, file: &str, name: &str) -> Result<PathBuf, LoadError> {
    let places = library_places(exe, file);
    places
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or_else(|| LoadError::NoSuchName {
            name: name.into(),
            looked: places.map(|path| path.display().to_string()).join(", "),
        })
}

/// Where a library of ours may be: `deps/` first, which is the copy that cargo
/// keeps current, then beside the program, then where `scripts/install` puts it.
pub fn library_places(exe: &Path, name: &str) -> [PathBuf; 3] {
    let folder = exe.parent().unwrap_or(Path::new("/"));
    // A test program lives in `deps/` itself.
    [
        folder.join("deps").join(name),
        folder.join(name),
        folder.join("../lib/tcpxctl").join(name),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcpx_named_by_the_users_variable_is_taken_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = folder.path().join("libnccl-net-tcpx.so");
        std::fs::write(&plugin, b"x").expect("written");
        let variable =
            |name: &str| (name == "UCCL_TCPX_PLUGIN_PATH").then(|| plugin.display().to_string());
        let choice = choose("auto", variable, Path::new("/nowhere/tcpxctl")).expect("a choice");
        assert_eq!(choice.source, Source::File(plugin.clone()));
        assert_eq!(choice.why, "found in $UCCL_TCPX_PLUGIN_PATH");
    }

    #[test]
    fn with_nothing_installed_the_software_plugin_says_that_it_stands_in() {
        let choice = choose("auto", |_| None, Path::new("/nowhere/tcpxctl")).expect("a choice");
        if choice.source == Source::Builtin {
            assert!(choice.why.contains("stands in"), "{}", choice.why);
            assert!(choice.passed_over.len() >= 4);
        }
    }

    #[test]
    fn the_copy_in_deps_is_preferred_because_the_other_goes_stale() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("deps")).expect("made");
        for place in ["", "deps/"] {
            std::fs::write(folder.path().join(format!("{place}{SOFT_LIBRARY}")), b"x")
                .expect("written");
        }
        let found = soft_library(&folder.path().join("tcpxctl")).expect("found");
        assert!(found.ends_with(format!("deps/{SOFT_LIBRARY}")));
    }

    #[test]
    fn an_unknown_name_says_where_it_looked() {
        let error = choose("nosuch", |_| None, Path::new("/nowhere/tcpxctl")).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("/usr/local/tcpx/lib64/libnccl-net-nosuch.so"),
            "{error}"
        );
    }
}
