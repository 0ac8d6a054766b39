//! Checks that the sources of each package use every dependency in its manifest, and that some
//! manifest uses every dependency of the workspace.
//!
//! A source uses a crate if it names the crate before `::`, in `use` or as a macro. A crate that
//! only `tests` modules use belongs in `[dev-dependencies]`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

#[path = "support/files.rs"]
mod files;
use files::files_below;

/// Dependencies that are used without being named: manifest, dependency and reason.
const UNNAMED: &[(&str, &str, &str)] = &[
    (
        "Cargo.toml",
        "plain-soft-object",
        "so that cargo run builds it",
    ),
    (
        "Cargo.toml",
        "tcpx-soft-object",
        "so that cargo run builds it",
    ),
    (
        "Cargo.toml",
        "tcpx-tap-object",
        "so that cargo run builds it",
    ),
];

/// A shared object that the program loads is of no use where it is not installed.
#[test]
fn every_plugin_object_is_installed_and_in_the_wheel() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let objects: Vec<String> = manifests(root)
        .into_iter()
        .filter_map(|manifest| {
            let library = read_toml(&manifest).get("lib")?.clone();
            let is_object = library
                .get("crate-type")?
                .as_array()?
                .iter()
                .any(|kind| kind.as_str() == Some("cdylib"));
            let name = library.get("name")?.as_str()?.strip_prefix("nccl_net_")?;
            is_object.then(|| name.to_owned())
        })
        .collect();
    assert!(objects.len() >= 3, "{objects:?}");
    for script in ["scripts/install", "scripts/wheel"] {
        let text = fs::read_to_string(root.join(script)).expect("a script");
        for object in &objects {
            assert!(text.contains(object), "{script} does not install {object}");
        }
    }
}

#[test]
fn every_declared_dependency_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    let mut declared_anywhere = BTreeSet::new();
    for manifest in manifests(root) {
        let folder = manifest.parent().expect("a folder");
        let shown = manifest
            .strip_prefix(root)
            .expect("below the root")
            .display()
            .to_string();
        let sources = Sources::read(folder);
        for (kind, name) in declared(&read_toml(&manifest)) {
            let is_unnamed = UNNAMED
                .iter()
                .any(|(place, unnamed, _)| *place == shown && *unnamed == name);
            if !is_unnamed
                && !sources
                    .of(kind)
                    .any(|source| names(source, &name.replace('-', "_")))
            {
                wrong.push(format!("{shown}: nothing uses `{name}` of [{kind}]"));
            }
            declared_anywhere.insert(name);
        }
    }
    let workspace = read_toml(&root.join("Cargo.toml"));
    let shared = workspace["workspace"]
        .get("dependencies")
        .and_then(Value::as_table)
        .expect("a table");
    let unused = shared
        .keys()
        .filter(|name| !declared_anywhere.contains(*name));
    wrong.extend(
        unused.map(|name| {
            format!("Cargo.toml: no manifest takes `{name}` of [workspace.dependencies]")
        }),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The fuzz targets take `tcpx-coord` without its feature `ssh`.
#[test]
fn the_fuzz_targets_compile_no_ssh_and_no_crypto_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = read_toml(&root.join("fuzz/Cargo.lock"));
    let packages = lock["package"].as_array().expect("a list");
    let locked: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert!(locked.contains("tcpx-coord"));
    for unwanted in ["ssh2", "libssh2-sys", "openssl-sys", "aws-lc-sys"] {
        assert!(
            !locked.contains(unwanted),
            "fuzz/Cargo.lock holds {unwanted}"
        );
    }
}

#[test]
fn a_crate_name_in_a_comment_or_string_is_not_a_use() {
    for text in [
        "use regex::Regex;",
        "    regex::Regex::new(text)",
        "use {regex, toml};",
        "regex!(x)",
        "<regex::Regex>",
    ] {
        assert!(names(text, "regex"), "{text}");
    }
    for text in [
        "// regex::Regex",
        "let regex = 1;",
        "crate::regex::find()",
        "my_regex::find()",
        "regex.find()",
    ] {
        assert!(!names(text, "regex"), "{text}");
    }
}

fn manifests(root: &Path) -> Vec<PathBuf> {
    let mut found = files_below(root, "toml", &|_| true);
    found.retain(|path| path.ends_with("Cargo.toml"));
    assert!(found.len() > 5, "{found:?}");
    found
}

fn read_toml(path: &Path) -> Table {
    let text = fs::read_to_string(path).expect("a manifest");
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each dependency with the name of its table.
fn declared(manifest: &Table) -> Vec<(&'static str, String)> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values);
    let tables: Vec<&Table> = targets
        .filter_map(Value::as_table)
        .chain([manifest])
        .collect();
    let mut all = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let of_kind = tables
            .iter()
            .filter_map(|table| table.get(kind)?.as_table());
        all.extend(
            of_kind
                .flat_map(Table::keys)
                .map(|name| (kind, name.clone())),
        );
    }
    all
}

/// The Rust sources of one package.
struct Sources {
    /// Sources of the library and the programs, without `tests` modules.
    plain: Vec<String>,
    /// All sources, with unit tests, integration tests, examples and benches.
    tests: Vec<String>,
    build: Vec<String>,
}

impl Sources {
    fn read(package: &Path) -> Self {
        let is_inside = |folder: &Path| !folder.join("Cargo.toml").exists();
        let mut sources = Self {
            plain: Vec::new(),
            tests: Vec::new(),
            build: Vec::new(),
        };
        let build = fs::read_to_string(package.join("build.rs")).unwrap_or_default();
        for path in files_below(package, "rs", &is_inside) {
            let text = fs::read_to_string(&path).expect("a source");
            let below = path.strip_prefix(package).expect("below the package");
            let is_test =
                |part: &str| matches!(part, "tests" | "tests.rs" | "benches" | "examples");
            // A module of the build script, which tests may share.
            let module = below.to_str().and_then(|name| name.strip_suffix(".rs"));
            let is_shared = module.is_some_and(|name| build.contains(&format!("\nmod {name};")));
            if below == Path::new("build.rs") {
                sources.build.push(text);
            } else if is_shared {
                sources.build.push(text.clone());
                sources.tests.push(text);
            } else {
                if !below.iter().any(|part| part.to_str().is_some_and(is_test)) {
                    let plain = text
                        .split("\n#[cfg(test)]\nmod tests {")
                        .next()
                        .unwrap_or_default();
                    sources.plain.push(plain.to_owned());
                }
                sources.tests.push(text);
            }
        }
        sources
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = &str> {
        let all = match kind {
            "dependencies" => &self.plain,
            "dev-dependencies" => &self.tests,
            _ => &self.build,
        };
        all.iter().map(String::as_str)
    }
}

/// Whether code names a crate, as opposed to a module with the same name.
fn names(source: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let code = source
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with("//"));
    code.into_iter().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let is_whole =
                !before.ends_with(is_word) && !before.ends_with("::") && !before.ends_with('.');
            let is_used = line.starts_with("use ")
                || line.starts_with("pub use ")
                || line.starts_with("extern crate ");
            is_whole
                && (after.starts_with("::")
                    || after.starts_with('!')
                    || is_used && !after.starts_with(is_word))
        })
    })
}
