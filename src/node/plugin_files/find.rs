//! Resolves the value of `--plugin` to a plugin, with the reason and the candidates that were
//! skipped.
//!
//! `auto` is Google's plugin if a variable or a default location leads to a file, else the
//! software plugin. A plugin of another name in `NCCL_NET_PLUGIN` is passed over and told. A TCPX that is found but does not load is an error of the run: there is
//! no silent fall-back.
#![forbid(unsafe_code)]

use super::error::LoadError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tcpx_words::abi_version::AbiVersion;
use tcpx_words::plugin_family::PluginFamily;

/// The origin of a plugin's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginSource {
    /// The software plugin linked into this program.
    Builtin,
    /// A shared object.
    File(PathBuf),
}

impl std::fmt::Display for PluginSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// A candidate that was tried and not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedOver {
    /// Path of the candidate.
    pub candidate: String,
    /// Why it was not used.
    pub why: String,
}

/// The chosen plugin, and the reason for the choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenPlugin {
    /// The origin of the table.
    pub source: PluginSource,
    /// The requested version of the table; `None` takes the newest that both sides know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abi: Option<AbiVersion>,
    /// The reason in a few words, for the first lines of output.
    pub why: String,
    /// Candidates that were tried first.
    pub passed_over: Vec<PassedOver>,
}

impl ChosenPlugin {
    /// A file that the user requested.
    pub fn of_file(path: PathBuf) -> Self {
        Self::new(PluginSource::File(path), "requested", Vec::new())
    }

    /// A source with the reason for it, in the newest version of its table.
    pub fn new(source: PluginSource, why: &str, passed_over: Vec<PassedOver>) -> Self {
        Self {
            source,
            abi: None,
            why: why.to_owned(),
            passed_over,
        }
    }

    /// The expected family, by the path alone, before the plugin is loaded.
    pub fn expected_family(&self) -> PluginFamily {
        match &self.source {
            PluginSource::Builtin => PluginFamily::TcpxSoft,
            PluginSource::File(path) => PluginFamily::expected_of_path(path),
        }
    }
}

/// Default locations of TCPX: two file names under two prefixes.
pub const TCPX_PLACES: [&str; 4] = [
    "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
    "/var/lib/tcpx/lib64/libnccl-net-tcpx.so",
    "/usr/local/tcpx/lib64/libnccl-net.so",
    "/var/lib/tcpx/lib64/libnccl-net.so",
];

/// Variables in which UCCL's test programs take the plugin's path, in the order used here.
pub const TCPX_VARIABLES: [&str; 2] = ["UCCL_TCPX_PLUGIN_PATH", "NCCL_GPUDIRECTTCPX_PLUGIN_PATH"];

const SOFT_LIBRARY: &str = "libnccl_net_tcpxsoft.so";
const PLAIN_LIBRARY: &str = "libnccl_net_plainsoft.so";

/// Resolves `auto`, `soft`, `plainsoft`, `builtin`, a path, or a name X for
/// `libnccl-net-X.so`. `variable` reads the environment; `exe` is this program.
pub fn choose(
    wanted: &str,
    variable: impl Fn(&str) -> Option<String>,
    exe: &Path,
) -> Result<ChosenPlugin, LoadError> {
    match wanted {
        "builtin" => Ok(ChosenPlugin::new(
            PluginSource::Builtin,
            "requested",
            Vec::new(),
        )),
        "soft" => soft_library(exe).map(ChosenPlugin::of_file),
        "auto" => Ok(auto(variable, exe)),
        path if path.contains('/') || path.ends_with(".so") => {
            Ok(ChosenPlugin::of_file(path.into()))
        }
        "plainsoft" => library_of_ours(exe, PLAIN_LIBRARY, "plainsoft").map(ChosenPlugin::of_file),
        name => by_name(name, variable),
    }
}

fn auto(variable: impl Fn(&str) -> Option<String>, exe: &Path) -> ChosenPlugin {
    let mut passed_over = Vec::new();
    let named = TCPX_VARIABLES
        .iter()
        .filter_map(|name| variable(name).map(|path| (format!("${name}"), path)));
    let usual = TCPX_PLACES
        .iter()
        .map(|path| ("a default location of TCPX".to_owned(), (*path).to_owned()));
    let of_nccl = named_for_nccl(&variable)
        .into_iter()
        .find(|path| path.exists());
    let of_nccl = of_nccl.map(|path| ("$NCCL_NET_PLUGIN".to_owned(), path.display().to_string()));
    for (origin, path) in named.chain(of_nccl).chain(usual) {
        let family = PluginFamily::expected_of_path(Path::new(&path));
        if origin == "$NCCL_NET_PLUGIN" && family != PluginFamily::Tcpx {
            passed_over.push(PassedOver {
                candidate: path,
                why: "NCCL_NET_PLUGIN names it, but it is not TCPX by its name; --plugin PATH uses it".into(),
            });
            continue;
        }
        if Path::new(&path).exists() {
            return ChosenPlugin::new(
                PluginSource::File(path.into()),
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
            let why = "no TCPX plugin on this node; using the software plugin";
            ChosenPlugin::new(PluginSource::File(path), why, passed_over)
        }
        Err(error) => {
            passed_over.push(PassedOver {
                candidate: SOFT_LIBRARY.into(),
                why: error.to_string(),
            });
            let why = "no TCPX plugin on this node; using the built-in software plugin";
            ChosenPlugin::new(PluginSource::Builtin, why, passed_over)
        }
    }
}

/// The files that NCCL tries for the list in `NCCL_NET_PLUGIN`: each entry as it is, then as X of
/// `libnccl-net-X.so`. `none` names no file.
pub fn named_for_nccl(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let folders = search_folders(variable("LD_LIBRARY_PATH").as_deref());
    let in_folders = |file: String| folders.iter().map(move |folder| folder.join(&file));
    let list = variable("NCCL_NET_PLUGIN").unwrap_or_default();
    let names = list.split(',').map(str::trim);
    let mut files = Vec::new();
    for name in names.filter(|name| !name.is_empty() && *name != "none") {
        if name.contains('/') {
            files.push(PathBuf::from(name));
        } else {
            files.extend(in_folders(name.to_owned()));
            files.extend(in_folders(format!("libnccl-net-{name}.so")));
        }
    }
    files
}

fn by_name(
    name: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ChosenPlugin, LoadError> {
    let file = format!("libnccl-net-{name}.so");
    let folders = search_folders(variable("LD_LIBRARY_PATH").as_deref());
    let mut passed_over = Vec::new();
    for folder in folders {
        let path = folder.join(&file);
        if path.exists() {
            return Ok(ChosenPlugin::new(
                PluginSource::File(path),
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

/// The folders that are searched for `libnccl-net-X.so`: those of `LD_LIBRARY_PATH`, then
/// TCPX's, then the loader's.
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

/// The shared object of the software plugin.
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

/// The paths where a library of this project may be: `deps/` first, because cargo keeps that
/// copy current, then beside the program, then where `scripts/install` puts it.
pub fn library_places(exe: &Path, name: &str) -> [PathBuf; 3] {
    let folder = exe.parent().unwrap_or(Path::new("/"));
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
    fn the_plugin_in_the_variable_comes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let plugin = folder.path().join("libnccl-net-tcpx.so");
        std::fs::write(&plugin, b"x").expect("written");
        let variable =
            |name: &str| (name == "UCCL_TCPX_PLUGIN_PATH").then(|| plugin.display().to_string());
        let choice = choose("auto", variable, Path::new("/nowhere/tcpxctl")).expect("a choice");
        assert_eq!(choice.source, PluginSource::File(plugin.clone()));
        assert_eq!(choice.why, "found in $UCCL_TCPX_PLUGIN_PATH");
    }

    #[test]
    fn a_tcpx_that_nccl_is_told_to_load_is_used_and_another_plugin_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let [tcpx, other] = ["libnccl-net-tcpx.so", "libnccl-net-other.so"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, b"x").expect("written");
            path
        });
        let chosen = |list: &str| {
            let variable = |name: &str| match name {
                "NCCL_NET_PLUGIN" => Some(list.to_owned()),
                "LD_LIBRARY_PATH" => Some(folder.path().display().to_string()),
                _ => None,
            };
            choose("auto", variable, Path::new("/nowhere/tcpxctl")).expect("a choice")
        };
        for list in [
            "tcpx",
            "libnccl-net-tcpx.so",
            "nosuch, tcpx",
            &tcpx.display().to_string(),
        ] {
            let choice = chosen(list);
            assert_eq!(choice.source, PluginSource::File(tcpx.clone()), "{list}");
            assert_eq!(choice.why, "found in $NCCL_NET_PLUGIN");
        }
        let choice = chosen("other");
        assert_ne!(choice.source, PluginSource::File(other.clone()));
        let passed = &choice.passed_over[0];
        assert_eq!(passed.candidate, other.display().to_string());
        assert!(passed.why.contains("--plugin PATH"), "{}", passed.why);
    }

    #[test]
    fn without_a_tcpx_the_reason_names_the_software_plugin() {
        let choice = choose("auto", |_| None, Path::new("/nowhere/tcpxctl")).expect("a choice");
        if choice.source == PluginSource::Builtin {
            assert!(choice.why.contains("software plugin"), "{}", choice.why);
            assert!(choice.passed_over.len() >= 4);
        }
    }

    #[test]
    fn the_copy_in_deps_comes_first_because_cargo_keeps_it_current() {
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
    fn the_error_for_an_unknown_name_lists_the_paths_tried() {
        let error = choose("nosuch", |_| None, Path::new("/nowhere/tcpxctl")).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("/usr/local/tcpx/lib64/libnccl-net-nosuch.so"),
            "{error}"
        );
    }
}
