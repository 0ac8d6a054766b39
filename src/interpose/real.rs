//! The plugin that the program would load by itself.
//!
//! User programs read the two variables of TCPX. NCCL reads `NCCL_NET_PLUGIN`, then searches for
//! `libnccl-net.so`. The default locations of TCPX come last. The software plugin is used only
//! with `--plugin soft`.
#![forbid(unsafe_code)]

use super::error::InterposeError;
use std::path::{Path, PathBuf};
use tcpx_node::plugin_files::{
    PluginSource, TCPX_PLACES, TCPX_VARIABLES, choose, named_for_nccl, search_folders,
};

/// The plugin, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RealPlugin {
    /// Its path, with links resolved.
    pub(crate) path: PathBuf,
    /// Why this plugin was chosen.
    pub(crate) why: String,
    /// Variables that name another plugin, which the tap replaces too, with their values.
    pub(crate) also: Vec<(String, String)>,
}

/// Resolves `--plugin`, or without it the environment that `variable` reads. `exe` is the path
/// of tcpxctl.
///
/// # Errors
/// The plugin was not found; the error has every path that was tried.
pub(crate) fn real_plugin(
    wanted: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
    exe: &Path,
) -> Result<RealPlugin, InterposeError> {
    let named: Vec<(String, String)> = TCPX_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), variable(name)?)))
        .collect();
    let (path, why) = match wanted {
        Some(wanted) => match choose(wanted, &variable, exe)?.source {
            PluginSource::Builtin => return Err(InterposeError::Builtin),
            PluginSource::File(path) => (path, "requested".to_owned()),
        },
        None => found(&named, &variable)?,
    };
    let path = path
        .canonicalize()
        .map_err(|_| tcpx_node::plugin_files::LoadError::NotFound { path: path.clone() })?;
    let another = |value: &str| {
        Path::new(value)
            .canonicalize()
            .map_or(true, |real| real != path)
    };
    let also = named
        .into_iter()
        .filter(|(_, value)| another(value))
        .collect();
    Ok(RealPlugin { path, why, also })
}

fn found(
    named: &[(String, String)],
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<(PathBuf, String), InterposeError> {
    let mut looked = Vec::new();
    let mut first = |candidates: Vec<PathBuf>, why: &str| {
        let there = candidates
            .iter()
            .find(|path| path.exists())
            .map(|path| (path.clone(), why.to_owned()));
        for path in candidates {
            let path = path.display().to_string();
            if !looked.contains(&path) {
                looked.push(path);
            }
        }
        there
    };
    for (name, value) in named {
        if let Some(there) = first(vec![value.into()], &format!("named by {name}")) {
            return Ok(there);
        }
    }
    if let Some(there) = first(named_for_nccl(variable), "named by NCCL_NET_PLUGIN") {
        return Ok(there);
    }
    let folders = search_folders(variable("LD_LIBRARY_PATH").as_deref());
    first(
        folders
            .iter()
            .map(|folder| folder.join("libnccl-net.so"))
            .collect(),
        "libnccl-net.so, as NCCL searches for it",
    )
    .or_else(|| {
        first(
            TCPX_PLACES.map(PathBuf::from).to_vec(),
            "a default location of TCPX",
        )
    })
    .ok_or_else(|| InterposeError::NoPlugin {
        looked: looked.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(
        variables: &[(&str, &Path)],
        wanted: Option<&str>,
    ) -> Result<RealPlugin, InterposeError> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.display().to_string())
        };
        real_plugin(wanted, variable, Path::new("/nowhere/tcpxctl"))
    }

    #[test]
    fn the_plugin_that_the_program_would_load_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, b"x").expect("written");
            path.canonicalize().expect("a path")
        };
        let [tcpx, net, other] = ["libnccl-net-tcpx.so", "libnccl-net.so", "other.so"].map(place);
        let search = folder.path();
        let by_name = find(
            &[
                ("LD_LIBRARY_PATH", search),
                ("NCCL_NET_PLUGIN", Path::new("tcpx")),
            ],
            None,
        );
        assert_eq!(by_name.expect("found").path, tcpx);
        let by_default = find(&[("LD_LIBRARY_PATH", search)], None).expect("found");
        assert_eq!(
            (by_default.path, by_default.why.as_str()),
            (net.clone(), "libnccl-net.so, as NCCL searches for it")
        );
        let listed = find(
            &[
                ("LD_LIBRARY_PATH", search),
                ("NCCL_NET_PLUGIN", Path::new("none, nosuch,other.so")),
            ],
            None,
        );
        assert_eq!(listed.expect("found").path, other);
        let by_variable = find(
            &[
                ("UCCL_TCPX_PLUGIN_PATH", &other),
                ("NCCL_GPUDIRECTTCPX_PLUGIN_PATH", &net),
            ],
            None,
        );
        let by_variable = by_variable.expect("found");
        assert_eq!(by_variable.path, other);
        assert_eq!(
            by_variable.also,
            [(
                "NCCL_GPUDIRECTTCPX_PLUGIN_PATH".to_owned(),
                net.display().to_string()
            )]
        );
        let requested = find(&[("UCCL_TCPX_PLUGIN_PATH", &other)], net.to_str()).expect("found");
        assert_eq!((requested.path, requested.why.as_str()), (net, "requested"));
    }

    #[test]
    fn without_a_plugin_every_searched_path_is_named() {
        if TCPX_PLACES.iter().any(|place| Path::new(place).exists()) {
            return;
        }
        let error = find(
            &[
                ("LD_LIBRARY_PATH", Path::new("/nowhere")),
                ("UCCL_TCPX_PLUGIN_PATH", Path::new("/no.so")),
            ],
            None,
        );
        let said = error
            .map(|found| found.why)
            .expect_err("refused")
            .to_string();
        for place in [
            "/no.so",
            "/nowhere/libnccl-net.so",
            "/usr/local/tcpx/lib64/libnccl-net-tcpx.so",
        ] {
            assert!(said.contains(place), "{place} in {said}");
        }
        assert!(matches!(
            find(&[], Some("builtin")),
            Err(InterposeError::Builtin)
        ));
    }
}
