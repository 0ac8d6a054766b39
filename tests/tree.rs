//! Checks that ARCHITECTURE.md agrees with the code: its crates with the manifests, its map with
//! the folders. Roles of a run may depend on each other only through the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/files.rs"]
mod files;
use files::files_below;

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

/// The words between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The workspace crates that a manifest depends on, without dev-dependencies.
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
fn crate_dependencies_match_architecture_md() {
    let mut drawn = BTreeMap::new();
    for row in rows(&architecture(), "## Crates") {
        let allowed = match row[2].as_str() {
            "no workspace crate" => Vec::new(),
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
        // A crate has one row, or one row for each of its folders.
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
fn the_map_lists_exactly_the_existing_folders() {
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

fn sources(folder: &Path) -> Vec<PathBuf> {
    files_below(folder, "rs", &|_| true)
}

#[test]
fn no_role_of_a_run_imports_another() {
    const ROLES: [&str; 3] = ["coordinator", "agent", "worker"];
    for role in ROLES {
        let files = sources(&root().join("src/coord").join(role));
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

/// Module folders of a crate may not import from each other in a cycle. A folder and its parent
/// may, because `mod.rs` re-exports from its subfolders.
#[test]
fn no_folders_of_a_crate_import_each_other() {
    let mut circles = Vec::new();
    for lib in crate_roots() {
        let imports = imports_between_folders(&lib);
        for (from, to) in &imports {
            if reaches(&imports, to, from) {
                circles.push(format!(
                    "{}: {from} imports {to} and is imported by it",
                    lib.display()
                ));
            }
        }
    }
    assert_eq!(circles, Vec::<String>::new());
}

/// The folder of every `lib.rs` in the workspace.
fn crate_roots() -> Vec<PathBuf> {
    let roots: Vec<PathBuf> = ["src", "probes"]
        .into_iter()
        .flat_map(|top| sources(&root().join(top)))
        .filter(|file| file.ends_with("lib.rs"))
        .map(|file| file.parent().unwrap().to_owned())
        .collect();
    assert!(roots.len() > 10, "{roots:?}");
    roots
}

/// Pairs of sibling folders where a file of the first imports from the second.
fn imports_between_folders(lib: &Path) -> BTreeSet<(String, String)> {
    let mut files = sources(lib);
    // A crate in a subfolder is checked separately.
    files.retain(|file| {
        file.ancestors()
            .skip(1)
            .find(|folder| folder.join("lib.rs").exists())
            == Some(lib)
    });
    let mut imports = BTreeSet::new();
    for file in files {
        let module = module_path(lib, &file);
        if module
            .iter()
            .any(|part| part == "tests" || part == "fixtures")
        {
            continue;
        }
        let own = folder_of(lib, &module);
        let text = fs::read_to_string(&file).unwrap();
        for path in named_paths(&text, &module) {
            let other = folder_of(lib, &path);
            let shared = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
            if shared < own.len() && shared < other.len() {
                imports.insert((own[..=shared].join("/"), other[..=shared].join("/")));
            }
        }
    }
    imports
}

/// `["record", "live"]` for `record/live/mod.rs` and `record/live.rs`.
fn module_path(lib: &Path, file: &Path) -> Vec<String> {
    let below = file.strip_prefix(lib).unwrap().with_extension("");
    let mut parts: Vec<String> = below
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

/// The leading part of a path that consists of folders.
fn folder_of(lib: &Path, path: &[String]) -> Vec<String> {
    let mut folder = lib.to_owned();
    let mut parts = Vec::new();
    for part in path {
        folder.push(part);
        if !folder.is_dir() {
            break;
        }
        parts.push(part.clone());
    }
    parts
}

/// Every path from `crate` or `super` in a source, from the crate's root; without
/// comments and unit tests.
fn named_paths(source: &str, module: &[String]) -> Vec<Vec<String>> {
    let code = source
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<&str>>().join(" ");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            if before.ends_with("::")
                || before.ends_with(|last: char| last.is_alphanumeric() || last == '_')
            {
                continue;
            }
            let mut rest = &code[at..];
            let mut base = module.to_vec();
            if let Some(after) = rest.strip_prefix("crate::") {
                base.clear();
                rest = after;
            }
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            // A group ends at the closing brace of its first brace; other names are not folders.
            expand(&mut rest, &base, &mut found);
        }
    }
    found
}

/// The paths of a use tree: `a::b`, `{a, b::c}`, `a::{b, c}`.
fn expand(rest: &mut &str, base: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = base.to_vec();
    loop {
        *rest = rest.trim_start();
        if let Some(inside) = rest.strip_prefix('{') {
            *rest = inside;
            loop {
                expand(rest, &path, found);
                *rest = rest.trim_start();
                match rest.chars().next() {
                    Some(',') => *rest = &rest[1..],
                    Some('}') => {
                        *rest = &rest[1..];
                        return;
                    }
                    // Not a use tree.
                    _ => return,
                }
            }
        }
        let size = rest
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        path.push(rest[..size].to_owned());
        *rest = &rest[size..];
        match rest.strip_prefix("::") {
            Some(after) => *rest = after,
            None => break,
        }
    }
    found.push(path);
}

fn reaches(imports: &BTreeSet<(String, String)>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(folder) = open.pop() {
        if folder == to {
            return true;
        }
        if seen.insert(folder) {
            let next = imports.iter().filter(|(importer, _)| importer == folder);
            open.extend(next.map(|(_, imported)| imported.as_str()));
        }
    }
    false
}

#[test]
fn paths_in_groups_are_read() {
    let source = "use crate::{a::b, c::{d, e as f}};\nfn g() { super::h::i() }\n// crate::no\n";
    let paths = named_paths(source, &["x".to_owned(), "y".to_owned()]);
    let paths: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["a::b", "c::d", "c::e", "x::h::i"]);
}

/// Commands and writers of what leaves the machine write only what an outlet has cleared.
#[test]
fn files_of_commands_that_redact_are_written_from_cleared_bytes() {
    let mut writers = 0;
    for path in files_below(&root().join("src"), "rs", &|_| true) {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        if is_test || !text.contains("Outlet") || path.ends_with("redact/outlet.rs") {
            continue;
        }
        for call in ["write_all(", "append_data("] {
            for (_, arguments) in text
                .match_indices(call)
                .map(|(at, _)| text[at..].split_at(call.len()))
            {
                let arguments = arguments.split(';').next().unwrap();
                let is_cleared =
                    arguments.contains(".bytes()") || arguments.contains("io::empty()");
                assert!(is_cleared, "{}: {call}{arguments}", path.display());
                writers += 1;
            }
        }
    }
    assert!(writers >= 5, "{writers}");
}
