//! The scenarios of `scenarios/`, by name, for machines without a checkout: `tcpxctl run mesh-quick`.
#![forbid(unsafe_code)]

use std::path::Path;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),*]
    };
}

const SHIPPED: &[(&str, &str)] = shipped![
    "1conn",
    "4conn",
    "8conn-1nic",
    "8gpu-full-mesh",
    "8gpu-per-process",
    "8gpu-single-process",
    "bidirectional",
    "gpu-4conn",
    "gpu-memory",
    "gpu-unpack",
    "incast",
    "kv-cache",
    "kv-incast",
    "latency",
    "mesh",
    "mesh-quick",
    "progress",
    "rails",
    "sweep",
];

/// The shipped scenario that a path without a folder and an ending names, unless there is such a file.
pub(super) fn text(path: &Path) -> Option<&'static str> {
    let name = path.to_str()?;
    let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
    (!path.exists()).then_some(*text)
}

/// Whether a shipped scenario has this name.
pub fn is_shipped(name: &str) -> bool {
    SHIPPED.iter().any(|(shipped, _)| *shipped == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_folder_has_a_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let files = std::fs::read_dir(folder).expect("the folder").flatten();
        let mut found: Vec<String> = files
            .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        found.sort();
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, found);
        assert!(text(Path::new("mesh-quick")).is_some_and(|text| text.contains("[mesh]")));
        assert_eq!(text(Path::new("no-such-scenario")), None);
    }
}
