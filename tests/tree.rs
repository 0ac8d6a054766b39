//! ARCHITECTURE.md is true: its crates are the manifests', its map is the folders',
//! and no role of a run imports another but through the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The cells of every row of the tables below a heading.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text
        .split(&format!("\n{heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no section {heading}"));
    let section = section
        .split("\n## ")
        .next()
        .unwrap()
        .split("\n### ")
        .next()
        .unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    rows.map(|line| {
        line.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Our crates that a manifest depends on, not counting what only tests need.
fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let names = table["dependencies"].as_table().unwrap().keys();
    names
        .filter(|name| name.starts_with("tcpx-"))
        .cloned()
        .collect()
}

const PROBES: [&str; 4] = ["tcpx-abi", "tcpx-recorder", "tcpx-soft", "tcpx-tap"];

#[test]
fn the_walls_of_the_crates_are_as_they_are_drawn() {
    let mut drawn = BTreeMap::new();
    for row in rows(&architecture(), "## Crates") {
        let allowed = match row[2].as_str() {
            "nothing of ours" => Vec::new(),
            text if text.starts_with("all of them") => continue,
            text => {
                let mut allowed = quoted(text);
                if text.contains("all of `probes/`") {
                    allowed.extend(PROBES.map(str::to_owned));
                }
                allowed
            }
        };
        if let [name] = &quoted(&row[0])[..] {
            let folder = quoted(&row[1]).remove(0);
            drawn.insert(name.clone(), (root().join(folder), allowed));
        }
    }
    let crates = fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("Cargo.toml"));
    let there: BTreeSet<PathBuf> = crates.filter(|manifest| manifest.exists()).collect();
    let known: BTreeSet<PathBuf> = drawn
        .values()
        .map(|(folder, _)| folder.join("Cargo.toml"))
        .collect();
    assert_eq!(there, known, "crates in src/ against ARCHITECTURE.md");
    for (name, (folder, allowed)) in drawn {
        let beyond: Vec<String> = dependencies(&folder.join("Cargo.toml"))
            .into_iter()
            .filter(|used| !allowed.contains(used))
            .collect();
        assert_eq!(
            beyond,
            Vec::<String>::new(),
            "{name} uses what ARCHITECTURE.md does not let it use"
        );
    }
}

/// Folders below `src` that hold code: crates, and one level of modules in them.
fn folders() -> BTreeSet<String> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let paths = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        paths.filter(|path| path.is_dir()).collect()
    };
    let has_code =
        |folder: &PathBuf| folder.join("mod.rs").exists() || folder.join("lib.rs").exists();
    let name = |path: &Path| {
        path.strip_prefix(root().join("src"))
            .unwrap()
            .display()
            .to_string()
    };
    let mut found = BTreeSet::new();
    for top in below(&root().join("src")) {
        let modules: Vec<PathBuf> = below(&top)
            .into_iter()
            .filter(|path| has_code(path) || is_split(path))
            .collect();
        let is_crate = top.join("Cargo.toml").exists();
        // A crate that is one idea has a row; one that is several has a row for each.
        if !is_crate || modules.is_empty() {
            found.insert(name(&top));
        } else {
            found.extend(modules.iter().map(|module| name(module)));
        }
    }
    found.retain(|name| !name.ends_with("/tests") && !name.ends_with("/fixtures"));
    found
}

/// `state.rs` beside `state/`.
fn is_split(folder: &Path) -> bool {
    folder.with_extension("rs").exists()
}

#[test]
fn the_map_names_every_folder_and_none_that_is_not_there() {
    let architecture = architecture();
    let map: BTreeSet<String> = rows(&architecture, "### `src/`")
        .iter()
        .flat_map(|row| quoted(&row[0]))
        .collect();
    for place in &map {
        assert!(
            root().join("src").join(place).is_dir(),
            "ARCHITECTURE.md maps src/{place}, which is no folder"
        );
    }
    let missing: Vec<String> = folders()
        .into_iter()
        .filter(|folder| !map.contains(folder))
        .collect();
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "folders that ARCHITECTURE.md does not map"
    );
}

/// Every source file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_role_of_a_run_imports_another() {
    const ROLES: [&str; 3] = ["coordinator", "agent", "worker"];
    for role in ROLES {
        let mut files = Vec::new();
        sources(&root().join("src/coord").join(role), &mut files);
        assert!(!files.is_empty(), "{role}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for other in ROLES.iter().filter(|other| **other != role) {
                let path = format!("crate::{other}::");
                assert!(!text.contains(&path), "{} imports {path}", file.display());
            }
        }
    }
}
