//! The checks over the facts of an A3-high node and of other machines.

mod captured;
mod hostile;
mod pair;
mod variants;

use super::*;
use crate::Fact;
use crate::fixture::{self, Tree};
use std::collections::{BTreeMap, BTreeSet};

const TCPX: Subject = Subject {
    tcpx: true,
    chunk: None,
};

pub(super) fn facts(tree: &Tree) -> DoctorFacts {
    DoctorFacts::read(&tree.root, scope(Depth::All))
}

/// The facts, with a plugin and CUDA that loaded without an error.
fn with_loading(tree: &Tree) -> DoctorFacts {
    let known = |text: &str| Fact::Known(text.to_owned());
    let (plugin_name, plugin_version) = (known("GPUDirectTCPX_v7"), known("3.1.12"));
    let tested = Tested {
        cuda_devices: Fact::Known(8),
        plugin_name,
        plugin_version,
    };
    DoctorFacts {
        tested: Some(tested),
        ..facts(tree)
    }
}

pub(super) fn scope(depth: Depth) -> Scope<'static> {
    static NOTHING: BTreeMap<String, String> = BTreeMap::new();
    Scope {
        environment: &NOTHING,
        depth,
        plugin: None,
    }
}

pub(super) fn ids(found: &Examination, verdicts: &[CheckVerdict]) -> BTreeSet<String> {
    let such = found
        .rows
        .iter()
        .filter(|row| verdicts.contains(&row.verdict));
    such.map(|row| row.id.clone()).collect()
}

pub(super) fn explained(found: &Examination) -> String {
    let odd = found
        .rows
        .iter()
        .filter(|row| row.verdict != CheckVerdict::Pass);
    odd.map(|row| format!("{} {}: {}\n", row.verdict, row.id, row.value))
        .collect()
}

#[test]
fn a_good_a3_high_passes_every_check() {
    let tree = fixture::a3_high();
    let catalogue = Catalogue::embedded().unwrap();
    let found = examine(&catalogue, &with_loading(&tree), TCPX);
    assert_eq!(explained(&found), "");
    assert_eq!(found.exit_code(), 0);
    let of_one_node = catalogue
        .layers
        .iter()
        .filter(|layer| !layer.both)
        .map(|layer| layer.checks.len())
        .sum::<usize>();
    assert_eq!(
        found.rows.len(),
        of_one_node,
        "every check found something to look at"
    );
    insta::assert_snapshot!(
        found
            .rows
            .iter()
            .map(|row| format!("{:<12} {:<24} {}\n", row.layer, row.id, row.value))
            .collect::<String>()
    );
}

#[test]
fn another_machine_type_fails_the_first_check_of_each_layer() {
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
    let failed = ids(&found, &[CheckVerdict::Fail]);
    for id in [
        "gpu-present",
        "rail-present",
        "control-present",
        "manager-rules",
        "plugin-found",
    ] {
        assert!(failed.contains(id), "{id}\n{}", explained(&found));
    }
    assert_eq!(found.exit_code(), 1);
}

#[test]
fn no_check_passes_on_an_empty_tree() {
    let tree = fixture::tree("");
    let found = examine(&Catalogue::embedded().unwrap(), &facts(&tree), TCPX);
    assert_eq!(ids(&found, &[CheckVerdict::Pass]), BTreeSet::new());
}

#[test]
fn unknown_is_exit_3_only_for_a_check_that_can_fail() {
    let row = |verdict, severity| {
        let found = examine(
            &Catalogue::embedded().unwrap(),
            &facts(&fixture::a3_high()),
            TCPX,
        );
        let mut row = found.rows[0].clone();
        (row.verdict, row.severity) = (verdict, severity);
        Examination { rows: vec![row] }.exit_code()
    };
    assert_eq!(row(CheckVerdict::Unknown, Severity::High), 3);
    assert_eq!(row(CheckVerdict::Unknown, Severity::Medium), 0);
    assert_eq!(row(CheckVerdict::Warn, Severity::Medium), 0);
    assert_eq!(row(CheckVerdict::Fail, Severity::High), 1);
}

#[test]
fn the_facts_read_before_a_run_suffice_for_the_critical_checks() {
    let tree = fixture::a3_high();
    let facts = DoctorFacts::read(&tree.root, scope(Depth::Critical));
    let found = examine(&Catalogue::critical().unwrap(), &facts, TCPX);
    assert_eq!(explained(&found), "");
    assert!(found.rows.len() >= 20, "{}", found.rows.len());
}

#[test]
fn the_software_plugin_needs_only_a_network() {
    let environment = [("NCCL_DYNAMIC_CHUNK_SIZE".to_owned(), "524288".to_owned())].into();
    let scope = Scope {
        environment: &environment,
        ..scope(Depth::Critical)
    };
    let facts = DoctorFacts::read(&crate::Root::live(), scope);
    let subject = Subject {
        tcpx: false,
        chunk: Some(524_288),
    };
    let found = examine(&Catalogue::critical().unwrap(), &facts, subject);
    assert!(
        found
            .rows
            .iter()
            .all(|row| row.layer == "nic" || row.layer == "environment"),
        "{}",
        explained(&found)
    );
}

#[test]
fn facts_survive_json() {
    let tree = fixture::a3_high();
    let here = facts(&tree);
    let there = DoctorFacts::from_json(&serde_json::to_string(&here).unwrap()).unwrap();
    assert_eq!(here, there);
    for text in ["", "{}", "[]", "{\"node\":1}"] {
        assert!(DoctorFacts::from_json(text).is_err(), "{text}");
    }
}

#[test]
fn the_results_of_loading_are_checked_only_if_requested() {
    let good = with_loading(&fixture::a3_high());
    let tested = good.tested.clone().unwrap();
    let check = |tested: Option<Tested>, expected: &[&str]| {
        let found = examine(
            &Catalogue::embedded().unwrap(),
            &DoctorFacts {
                tested,
                ..good.clone()
            },
            TCPX,
        );
        let odd = ids(
            &found,
            &[
                CheckVerdict::Fail,
                CheckVerdict::Warn,
                CheckVerdict::Unknown,
            ],
        );
        assert_eq!(
            odd,
            expected.iter().map(|id| (*id).to_owned()).collect(),
            "{}",
            explained(&found)
        );
    };
    let unknown = Fact::unknown("the plugin called exit(1) while initialising");
    check(None, &[]);
    check(
        Some(Tested {
            cuda_devices: Fact::unknown("no driver"),
            ..tested.clone()
        }),
        &["cuda-initialises"],
    );
    check(
        Some(Tested {
            plugin_name: unknown,
            ..tested.clone()
        }),
        &["plugin-loads", "plugin-is-tcpx"],
    );
    for other in ["AWS Libfabric", "FasTrak", "GPUDirectTCPXO"] {
        check(
            Some(Tested {
                plugin_name: Fact::Known(other.into()),
                ..tested.clone()
            }),
            &["plugin-is-tcpx"],
        );
    }
    check(
        Some(Tested {
            plugin_version: Fact::Known("3.1.9".into()),
            ..tested
        }),
        &["plugin-versions"],
    );
}
