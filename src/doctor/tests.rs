//! The checks on an A3-high node, good and broken in every way they know.

use super::*;
use crate::node::fixture::{self, Tree};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const TCPX: Subject = Subject { tcpx: true, chunk: None };

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
    /// The facts of `tree` with this in it; the tree is as before afterwards.
    fn facts(&self, tree: &Tree, good: &Facts) -> Facts {
        let touched = self.remove.iter().chain(self.files.keys()).chain(self.link.keys());
        let touched: BTreeSet<&String> = touched.chain(self.edit.iter().map(|(path, _, _)| path)).collect();
        // Most variants are about the environment alone, which is no file's.
        let mut facts = good.clone();
        if !touched.is_empty() {
            let before: Vec<Kept> = touched.iter().map(|path| Kept::of(&tree.path.join(path))).collect();
            self.lay(&tree.path);
            facts = self::facts(tree);
            before.into_iter().for_each(Kept::put_back);
        }
        facts.node.environment.extend(self.env.clone());
        facts.node.environment.retain(|name, _| !self.unset.contains(name));
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
            change(&root.join(path), |document| *document.pointer_mut(pointer).expect(pointer) = value.clone());
        }
    }
}

/// What stood at a path.
enum Kept {
    File(PathBuf, Vec<u8>),
    Link(PathBuf, PathBuf),
    Folder(PathBuf, Vec<Kept>),
    Nothing(PathBuf),
}

impl Kept {
    fn of(path: &Path) -> Self {
        let here = path.to_owned();
        match (fs::read_link(path), path.is_dir()) {
            (Ok(target), _) => Self::Link(here, target),
            (_, true) => {
                Self::Folder(here, fs::read_dir(path).unwrap().map(|entry| Self::of(&entry.unwrap().path())).collect())
            }
            _ => fs::read(path).map_or_else(|_| Self::Nothing(here.clone()), |bytes| Self::File(here.clone(), bytes)),
        }
    }

    fn put_back(self) {
        let (Self::File(path, _) | Self::Link(path, _) | Self::Folder(path, _) | Self::Nothing(path)) = &self;
        remove(path);
        match self {
            Self::File(path, bytes) => fs::write(path, bytes).unwrap(),
            Self::Link(path, target) => symlink(target, path).unwrap(),
            Self::Folder(path, all) => {
                fs::create_dir(path).unwrap();
                all.into_iter().for_each(Self::put_back);
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

fn facts(tree: &Tree) -> Facts {
    Facts::read(&tree.root, scope(Depth::All))
}

fn scope(depth: Depth) -> Scope<'static> {
    static NOTHING: BTreeMap<String, String> = BTreeMap::new();
    Scope { environment: &NOTHING, depth, plugin: None }
}

fn ids(found: &Examination, verdicts: &[Verdict]) -> BTreeSet<String> {
    let such = found.rows.iter().filter(|row| verdicts.contains(&row.verdict));
    such.map(|row| row.id.clone()).collect()
}

fn explained(found: &Examination) -> String {
    let odd = found.rows.iter().filter(|row| row.verdict != Verdict::Pass);
    odd.map(|row| format!("{} {}: {}\n", row.verdict, row.id, row.value)).collect()
}

#[test]
fn a_good_a3_high_passes_every_check() {
    let tree = fixture::a3_high();
    let catalogue = Catalogue::embedded().unwrap();
    let found = examine(&catalogue, &facts(&tree), TCPX);
    assert_eq!(explained(&found), "");
    assert_eq!(found.exit_code(), 0);
    let of_one_node =
        catalogue.layers.iter().filter(|layer| !layer.both).map(|layer| layer.checks.len()).sum::<usize>();
    assert_eq!(found.rows.len(), of_one_node, "every check found something to look at");
    insta::assert_snapshot!(
        found.rows.iter().map(|row| format!("{:<12} {:<24} {}\n", row.layer, row.id, row.value)).collect::<String>()
    );
}

#[test]
fn each_broken_variant_breaks_the_checks_it_should_and_no_other() {
    let catalogue = Catalogue::embedded().unwrap();
    let variants: Variants = toml::from_str(include_str!("fixtures/variants.toml")).unwrap();
    let tree = fixture::a3_high();
    let good = facts(&tree);
    let mut covered = BTreeSet::new();
    for variant in variants.variant {
        let found = examine(&catalogue, &variant.facts(&tree, &good), TCPX);
        let broken = ids(&found, &[Verdict::Fail, Verdict::Warn]);
        assert_eq!(broken, variant.breaks, "{}:\n{}", variant.name, explained(&found));
        assert_eq!(ids(&found, &[Verdict::Unknown]), variant.open, "{}:\n{}", variant.name, explained(&found));
        let fails = found.rows.iter().any(|row| row.verdict == Verdict::Fail);
        assert_eq!(found.exit_code() == 1, fails, "{}", variant.name);
        covered.extend(broken);
    }
    let of_one_node = catalogue.checks().filter(|(layer, _)| !layer.both).map(|(_, check)| check.id.clone());
    assert_eq!(facts(&tree), good, "every variant put back what it changed");
    let never: Vec<String> = of_one_node.filter(|id| !covered.contains(id)).collect();
    // What only a machine that is no A3-high at all can break, in the next test.
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
            "rail-interrupts"
        ]
    );
}

#[test]
fn a_machine_of_another_kind_fails_at_the_root_of_each_layer() {
    let tree = fixture::tree(
        "sys/bus/pci/devices/0000:00:03.0/vendor = 0x1af4
sys/class/net/lo/mtu = 65536
proc/net/route = Iface
asked/plugins.json = []
asked/environment.json = {}
asked/manager-folder.json = true
asked/manager-sockets.json = {\"rx_rule_manager\":\"missing\",\"rx_rule_uninstall\":\"missing\"}",
    );
    let found = examine(&Catalogue::embedded().unwrap(), &facts(&tree), TCPX);
    let failed = ids(&found, &[Verdict::Fail]);
    for id in ["gpu-present", "rail-present", "control-present", "manager-rules", "plugin-found"] {
        assert!(failed.contains(id), "{id}\n{}", explained(&found));
    }
    assert_eq!(found.exit_code(), 1);
}

#[test]
fn an_empty_tree_knows_nothing_and_passes_nothing_that_it_did_not_see() {
    let tree = fixture::tree("");
    let found = examine(&Catalogue::embedded().unwrap(), &facts(&tree), TCPX);
    for row in found.rows.iter().filter(|row| row.verdict == Verdict::Pass) {
        assert_eq!(row.layer, "environment", "{row:#?}");
    }
}

#[test]
fn unknown_alone_is_exit_3_only_where_it_could_have_failed() {
    let row = |verdict, severity| {
        let found = examine(&Catalogue::embedded().unwrap(), &facts(&fixture::a3_high()), TCPX);
        let mut row = found.rows[0].clone();
        (row.verdict, row.severity) = (verdict, severity);
        Examination { rows: vec![row] }.exit_code()
    };
    assert_eq!(row(Verdict::Unknown, Severity::High), 3);
    assert_eq!(row(Verdict::Unknown, Severity::Medium), 0);
    assert_eq!(row(Verdict::Warn, Severity::Medium), 0);
    assert_eq!(row(Verdict::Fail, Severity::High), 1);
}

#[test]
fn what_is_read_before_a_run_is_enough_for_the_critical_checks() {
    let tree = fixture::a3_high();
    let facts = Facts::read(&tree.root, scope(Depth::Critical));
    let found = examine(&Catalogue::critical().unwrap(), &facts, TCPX);
    assert_eq!(explained(&found), "");
    assert!(found.rows.len() >= 20, "{}", found.rows.len());
}

#[test]
fn the_software_plugin_needs_a_network_and_no_more() {
    let environment = [("NCCL_DYNAMIC_CHUNK_SIZE".to_owned(), "524288".to_owned())].into();
    let scope = Scope { environment: &environment, ..scope(Depth::Critical) };
    let facts = Facts::read(&crate::node::Root::live(), scope);
    let subject = Subject { tcpx: false, chunk: Some(524_288) };
    let found = examine(&Catalogue::critical().unwrap(), &facts, subject);
    assert!(found.rows.iter().all(|row| row.layer == "nic" || row.layer == "environment"), "{}", explained(&found));
}

#[test]
fn facts_travel_and_are_judged_alike() {
    let tree = fixture::a3_high();
    let here = facts(&tree);
    let there = Facts::from_json(&serde_json::to_string(&here).unwrap()).unwrap();
    assert_eq!(here, there);
    for text in ["", "{}", "[]", "{\"node\":1}"] {
        assert!(Facts::from_json(text).is_err(), "{text}");
    }
}

fn pair(change: impl FnOnce(&mut Facts), tried: Option<&Tried>) -> BTreeSet<String> {
    let here = facts(&fixture::a3_high());
    let mut there = here.clone();
    there.node.host.boot_id = crate::node::Fact::Known("other".to_owned());
    for nic in there.node.nics.known().cloned().unwrap_or_default() {
        let addresses = nic.addresses.known().cloned().unwrap_or_default();
        let moved = addresses.into_iter().map(|one| if one.is_loopback() { one } else { other_host(one) }).collect();
        with_nic(&mut there, &nic.name, |nic| nic.addresses = crate::node::Fact::Known(moved));
    }
    change(&mut there);
    let found = examine_pair(&Catalogue::embedded().unwrap(), &here, &there, tried, TCPX);
    ids(&found, &[Verdict::Fail, Verdict::Warn, Verdict::Unknown])
}

fn other_host(address: std::net::IpAddr) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => std::net::Ipv4Addr::from_bits(v4.to_bits() ^ 0x80).into(),
        v6 => v6,
    }
}

fn with_nic(facts: &mut Facts, name: &str, change: impl FnOnce(&mut crate::node::Nic)) {
    let crate::node::Fact::Known(nics) = &mut facts.node.nics else { panic!("no interfaces") };
    change(nics.iter_mut().find(|nic| nic.name == name).unwrap());
}

#[test]
fn two_nodes_are_held_against_each_other() {
    let check = |change: &dyn Fn(&mut Facts), expected: &[&str]| {
        let found = pair(change, None);
        assert_eq!(found, expected.iter().map(|id| (*id).to_owned()).collect(), "{expected:?}");
    };
    check(&|_| {}, &[]);
    check(&|there| there.node.host = facts(&fixture::a3_high()).node.host, &["peer-distinct"]);
    check(&|there| there.node.host.boot_id = crate::node::Fact::unknown("x"), &["peer-distinct"]);
    check(&|there| there.node.host.kernel = crate::node::Fact::Known("6.6.72+".into()), &["peer-kernel"]);
    check(&|there| with_nic(there, "eth2", |nic| nic.mtu = crate::node::Fact::Known(1460)), &["peer-interfaces"]);
    check(&|there| drop(there.node.environment.insert("NCCL_NSOCKS_PERTHREAD".into(), "2".into())), &["peer-settings"]);
    check(&|there| drop(there.node.environment.remove("NCCL_ALGO")), &["peer-environment"]);
    check(&|there| there.plugins = crate::node::Fact::Known(Vec::new()), &["peer-plugin"]);
    check(
        &|there| with_nic(there, "eth1", |nic| nic.addresses = crate::node::Fact::Known(vec![[10, 0, 11, 25].into()])),
        &["peer-addresses"],
    );
}

#[test]
fn what_was_tried_between_two_nodes_is_judged() {
    let rail = TriedRail {
        name: "eth1".into(),
        to: [10, 0, 11, 153].into(),
        reachable: crate::node::Fact::Known(true),
        full_mtu: crate::node::Fact::Known(true),
        ports_closed: crate::node::Fact::Known(Vec::new()),
    };
    let check = |rail: TriedRail, expected: &[&str]| {
        let found = pair(|_| {}, Some(&Tried { rails: vec![rail] }));
        assert_eq!(found, expected.iter().map(|id| (*id).to_owned()).collect());
    };
    check(rail.clone(), &[]);
    check(TriedRail { full_mtu: crate::node::Fact::Known(false), ..rail.clone() }, &["peer-rail-mtu"]);
    check(TriedRail { ports_closed: crate::node::Fact::Known(vec![40_000]), ..rail.clone() }, &["peer-rail-ports"]);
    check(
        TriedRail { reachable: crate::node::Fact::Known(false), ..rail },
        &["peer-rail-reachable", "peer-rail-mtu", "peer-rail-ports"],
    );
}
