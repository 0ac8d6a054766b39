//! Two nodes that differ in one thing.

use super::*;
use crate::{Fact, Nic};
use std::net::IpAddr;

fn pair(change: impl FnOnce(&mut DoctorFacts), tried: Option<&ProbedRails>) -> BTreeSet<String> {
    let here = facts(&fixture::a3_high());
    let mut there = here.clone();
    there.node.host.boot_id = Fact::Known("other".to_owned());
    for nic in there.node.nics.known().cloned().unwrap_or_default() {
        let addresses = nic.addresses.known().cloned().unwrap_or_default();
        let moved = addresses
            .into_iter()
            .map(|one| {
                if one.is_loopback() {
                    one
                } else {
                    other_host(one)
                }
            })
            .collect();
        with_nic(&mut there, &nic.name, |nic| {
            nic.addresses = Fact::Known(moved)
        });
    }
    change(&mut there);
    let found = examine_pair(&Catalogue::embedded().unwrap(), &here, &there, tried, TCPX);
    ids(
        &found,
        &[
            CheckVerdict::Fail,
            CheckVerdict::Warn,
            CheckVerdict::Unknown,
        ],
    )
}

fn other_host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => std::net::Ipv4Addr::from_bits(v4.to_bits() ^ 0x80).into(),
        v6 => v6,
    }
}

fn with_nic(facts: &mut DoctorFacts, name: &str, change: impl FnOnce(&mut Nic)) {
    let Fact::Known(nics) = &mut facts.node.nics else {
        panic!("no interfaces")
    };
    change(nics.iter_mut().find(|nic| nic.name == name).unwrap());
}

#[test]
fn each_difference_between_two_nodes_fails_its_check() {
    let check = |change: &dyn Fn(&mut DoctorFacts), expected: &[&str]| {
        let found = pair(change, None);
        assert_eq!(
            found,
            expected.iter().map(|id| (*id).to_owned()).collect(),
            "{expected:?}"
        );
    };
    check(&|_| {}, &[]);
    check(
        &|there| there.node.host = facts(&fixture::a3_high()).node.host,
        &["peer-distinct"],
    );
    check(
        &|there| there.node.host.boot_id = Fact::unknown("x"),
        &["peer-distinct"],
    );
    check(
        &|there| there.node.host.kernel = Fact::Known("6.6.72+".into()),
        &["peer-kernel"],
    );
    check(
        &|there| with_nic(there, "eth2", |nic| nic.mtu = Fact::Known(1460)),
        &["peer-interfaces"],
    );
    check(
        &|there| {
            drop(
                there
                    .node
                    .environment
                    .insert("NCCL_NSOCKS_PERTHREAD".into(), "2".into()),
            )
        },
        &["peer-settings"],
    );
    check(
        &|there| drop(there.node.environment.remove("NCCL_ALGO")),
        &["peer-environment"],
    );
    check(
        &|there| there.plugins = Fact::Known(Vec::new()),
        &["peer-plugin"],
    );
    check(
        &|there| {
            with_nic(there, "eth1", |nic| {
                nic.addresses = Fact::Known(vec![[10, 0, 11, 25].into()])
            })
        },
        &["peer-addresses"],
    );
}

#[test]
fn the_results_of_probing_rails_are_checked() {
    let rail = ProbedRail {
        name: "eth1".into(),
        to: [10, 0, 11, 153].into(),
        reachable: Fact::Known(true),
        full_mtu: Fact::Known(true),
        ports_closed: Fact::Known(Vec::new()),
    };
    let check = |rail: ProbedRail, expected: &[&str]| {
        let found = pair(|_| {}, Some(&ProbedRails { rails: vec![rail] }));
        assert_eq!(found, expected.iter().map(|id| (*id).to_owned()).collect());
    };
    check(rail.clone(), &[]);
    check(
        ProbedRail {
            full_mtu: Fact::Known(false),
            ..rail.clone()
        },
        &["peer-rail-mtu"],
    );
    check(
        ProbedRail {
            ports_closed: Fact::Known(vec![40_000]),
            ..rail.clone()
        },
        &["peer-rail-ports"],
    );
    check(
        ProbedRail {
            reachable: Fact::Known(false),
            ..rail
        },
        &["peer-rail-reachable", "peer-rail-mtu", "peer-rail-ports"],
    );
}
