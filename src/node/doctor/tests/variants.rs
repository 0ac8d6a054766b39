//! An A3-high node with one fault at a time, one variant or more for each check.

use super::*;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variants {
    variant: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    link: BTreeMap<String, String>,
    #[serde(default)]
    edit: Vec<(String, String, Value)>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    unset: Vec<String>,
    #[serde(default)]
    breaks: BTreeSet<String>,
    #[serde(default)]
    open: BTreeSet<String>,
}

impl Variant {
    /// The facts of `tree` with this variant applied. The tree is restored afterwards.
    fn facts(&self, tree: &Tree, good: &DoctorFacts) -> DoctorFacts {
        let touched = self
            .remove
            .iter()
            .chain(self.files.keys())
            .chain(self.link.keys());
        let touched: BTreeSet<&String> = touched
            .chain(self.edit.iter().map(|(path, _, _)| path))
            .collect();
        // Most variants change only the environment, which is not in the tree.
        let mut facts = good.clone();
        if !touched.is_empty() {
            let before: Vec<Saved> = touched
                .iter()
                .map(|path| Saved::read(&tree.path.join(path)))
                .collect();
            self.lay(&tree.path);
            facts = self::facts(tree);
            before.into_iter().for_each(Saved::restore);
        }
        facts.node.environment.extend(self.env.clone());
        facts
            .node
            .environment
            .retain(|name, _| !self.unset.contains(name));
        facts
    }

    fn lay(&self, root: &Path) {
        for path in &self.remove {
            remove(&root.join(path));
        }
        for (path, text) in &self.files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{}\n", text.trim_start_matches('\n'))).unwrap();
        }
        for (path, target) in &self.link {
            symlink(target, root.join(path)).unwrap();
        }
        for (path, pointer, value) in &self.edit {
            change(&root.join(path), |document| {
                *document.pointer_mut(pointer).expect(pointer) = value.clone()
            });
        }
    }
}

/// The content of a path, to be restored.
enum Saved {
    File(PathBuf, Vec<u8>),
    Link(PathBuf, PathBuf),
    Folder(PathBuf, Vec<Saved>),
    Nothing(PathBuf),
}

impl Saved {
    fn read(path: &Path) -> Self {
        let here = path.to_owned();
        match (fs::read_link(path), path.is_dir()) {
            (Ok(target), _) => Self::Link(here, target),
            (_, true) => Self::Folder(
                here,
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| Self::read(&entry.unwrap().path()))
                    .collect(),
            ),
            _ => fs::read(path).map_or_else(
                |_| Self::Nothing(here.clone()),
                |bytes| Self::File(here.clone(), bytes),
            ),
        }
    }

    fn restore(self) {
        let (Self::File(path, _)
        | Self::Link(path, _)
        | Self::Folder(path, _)
        | Self::Nothing(path)) = &self;
        remove(path);
        match self {
            Self::File(path, bytes) => fs::write(path, bytes).unwrap(),
            Self::Link(path, target) => symlink(target, path).unwrap(),
            Self::Folder(path, all) => {
                fs::create_dir(path).unwrap();
                all.into_iter().for_each(Self::restore);
            }
            Self::Nothing(_) => {}
        }
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

fn change(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut document);
    fs::write(path, document.to_string()).unwrap();
}

#[test]
fn each_variant_fails_the_checks_it_lists_and_no_other() {
    let catalogue = Catalogue::embedded().unwrap();
    let variants: Variants = toml::from_str(include_str!("../fixtures/variants.toml")).unwrap();
    let tree = fixture::a3_high();
    let good = facts(&tree);
    let mut covered = BTreeSet::new();
    for variant in variants.variant {
        let found = examine(&catalogue, &variant.facts(&tree, &good), TCPX);
        let broken = ids(&found, &[CheckVerdict::Fail, CheckVerdict::Warn]);
        assert_eq!(
            broken,
            variant.breaks,
            "{}:\n{}",
            variant.name,
            explained(&found)
        );
        assert_eq!(
            ids(&found, &[CheckVerdict::Unknown]),
            variant.open,
            "{}:\n{}",
            variant.name,
            explained(&found)
        );
        let fails = found
            .rows
            .iter()
            .any(|row| row.verdict == CheckVerdict::Fail);
        assert_eq!(found.exit_code() == 1, fails, "{}", variant.name);
        covered.extend(broken);
    }
    let of_one_node = catalogue
        .checks()
        .filter(|(layer, _)| !layer.both)
        .map(|(_, check)| check.id.clone());
    assert_eq!(facts(&tree), good, "every variant restored what it changed");
    let never: Vec<String> = of_one_node.filter(|id| !covered.contains(id)).collect();
    // What only a machine that is no A3-high at all can break, or loading, in tests of their own.
    assert_eq!(
        never,
        [
            "gpu-present",
            "gpu-control-device",
            "rail-present",
            "control-present",
            "control-address",
            "rail-serves-gpus",
            "gpu-number-node",
            "rail-interrupts",
            "cuda-initialises",
            "plugin-loads",
            "plugin-is-tcpx",
        ]
    );
}
