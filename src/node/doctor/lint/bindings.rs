//! CPU bindings of the plugin's helper threads: `eth1:8-21,112-125;eth2:…`.
//!
//! The plugin accepts ranges only, at most eight per interface; without a valid range for
//! an interface the first transfer divides by zero. A set may overlap the interrupt CPUs by
//! up to half, as the published A3-high sets do, because threads are not pinned within
//! their set. A larger overlap is a mistake.
#![forbid(unsafe_code)]

use super::{Environment, Findings, Fix, LintKind, Machine, NicPlace};
use crate::cpu::CpuList;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 2] = [
    "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
    "NCCL_GPUDIRECTTCPX_RX_BINDINGS",
];
const PIN: &str = "NCCL_GPUDIRECTTCPX_WORKER_PIN_THREADS";
/// Ranges per interface; more overflow an array of 3.1.9.
const RANGES_MAX: usize = 8;
/// Most interfaces that are parsed; the plugin takes fewer.
const INTERFACES_MAX: usize = 64;
const CPU_MAX: u32 = 65_535;

/// The CPUs of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Name of the interface.
    pub interface: String,
    /// First and last CPU of each range.
    pub ranges: Vec<(u32, u32)>,
}

impl Binding {
    fn cpus(&self) -> BTreeSet<u32> {
        self.ranges
            .iter()
            .flat_map(|(first, last)| *first..=*last)
            .collect()
    }
}

/// Parses a value. Returns the bindings, and a message for each part that the plugin would
/// not accept as written.
pub(crate) fn parse(text: &str) -> (Vec<Binding>, Vec<String>) {
    let (mut bindings, mut problems) = (Vec::new(), Vec::new());
    for part in text
        .split(';')
        .filter(|part| !part.trim().is_empty())
        .take(INTERFACES_MAX)
    {
        let Some((interface, list)) = part.split_once(':') else {
            problems.push(format!("`{part}` has no `interface:`"));
            continue;
        };
        let mut ranges = Vec::new();
        for one in list.split(',') {
            match range(one) {
                Some(range) => ranges.push(range),
                None => problems.push(format!(
                    "`{one}` for {interface} is not a range such as 8-21"
                )),
            }
        }
        if ranges.len() > RANGES_MAX {
            problems.push(format!(
                "{interface} has {} ranges; at most {RANGES_MAX} fit",
                ranges.len()
            ));
        }
        bindings.push(Binding {
            interface: interface.trim().to_owned(),
            ranges,
        });
    }
    if bindings.is_empty() && problems.is_empty() {
        problems.push("the value is empty".to_owned());
    }
    (bindings, problems)
}

/// `8-21`. The plugin rejects a single number.
fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .ok()
            .filter(|cpu| *cpu <= CPU_MAX)
    };
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

pub(super) fn check(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let mut sets: BTreeMap<String, Vec<BTreeSet<u32>>> = BTreeMap::new();
    for name in NAMES {
        let Some(text) = environment.get(name) else {
            continue;
        };
        let (bindings, problems) = parse(text);
        // The default, all CPUs of the interface's NUMA node, is always correct.
        let unset = || [Fix::Unset(name.to_owned())];
        if !problems.is_empty() {
            findings.add(
                LintKind::BindingsSyntax,
                format!("{name}: {}", problems.join(", ")),
                unset(),
            );
        }
        for binding in bindings {
            let cpus = binding.cpus();
            sets.entry(binding.interface.clone())
                .or_default()
                .push(cpus.clone());
            check_place(
                name,
                &binding.interface,
                &cpus,
                environment,
                machine,
                findings,
            );
        }
    }
    shared(&sets, findings);
}

/// Checks that the CPUs of one binding exist, are near the interface, and serve few of its
/// interrupts.
fn check_place(
    name: &str,
    interface: &str,
    cpus: &BTreeSet<u32>,
    environment: &Environment,
    machine: &Machine,
    findings: &mut Findings,
) {
    let unset = || [Fix::Unset(name.to_owned())];
    let kinds = [
        LintKind::BindingsOffline,
        LintKind::BindingsFar,
        LintKind::BindingsOnIrqs,
    ];
    let (Some(nics), Some(online)) = (&machine.nics, &machine.online) else {
        return findings.open(kinds, "the interfaces or the online CPUs are unknown");
    };
    let Some(nic) = nics.get(interface) else {
        findings.add(
            LintKind::BindingsOffline,
            format!("{name}: there is no interface {interface}"),
            unset(),
        );
        return;
    };
    let absent = outside(cpus, online);
    if !absent.is_empty() {
        let text = format!(
            "{name}: {interface} is bound to {}; online are {online}",
            listed(&absent)
        );
        findings.add(LintKind::BindingsOffline, text, unset());
    }
    match nic
        .node
        .and_then(|node| Some((node, machine.nodes.get(&node)?)))
    {
        None => findings.open(
            [LintKind::BindingsFar],
            &format!("the NUMA node of {interface} is unknown"),
        ),
        Some((node, near)) => {
            let far: BTreeSet<u32> = outside(cpus, near).difference(&absent).copied().collect();
            if !far.is_empty() {
                let text = format!(
                    "{name}: {interface} is bound to {}, but its NUMA node {node} has {near}",
                    listed(&far)
                );
                findings.add(LintKind::BindingsFar, text, unset());
            }
        }
    }
    on_irqs(name, interface, cpus, nic, environment, findings);
}

/// Up to half of a set may serve interrupts, because threads can move to the other CPUs. A
/// pinned thread cannot.
fn on_irqs(
    name: &str,
    interface: &str,
    cpus: &BTreeSet<u32>,
    nic: &NicPlace,
    environment: &Environment,
    findings: &mut Findings,
) {
    let Some(irqs) = &nic.irq_cpus else {
        return findings.open(
            [LintKind::BindingsOnIrqs],
            &format!("the interrupts of {interface} are unknown"),
        );
    };
    let hit = cpus.iter().filter(|cpu| irqs.contains(**cpu)).count();
    let pinned = super::integer(environment, PIN) == Some(1);
    if hit * 2 > cpus.len() || (pinned && hit > 0) {
        let text = format!(
            "{name}: {hit} of {} CPUs of {interface} serve its interrupts ({irqs})",
            cpus.len()
        );
        findings.add(
            LintKind::BindingsOnIrqs,
            text,
            [Fix::Unset(name.to_owned())],
        );
    }
}

/// Sender and receiver threads of one interface on the same CPUs.
fn shared(sets: &BTreeMap<String, Vec<BTreeSet<u32>>>, findings: &mut Findings) {
    for (interface, sets) in sets {
        let [tx, rx, ..] = sets.as_slice() else {
            continue;
        };
        let both: BTreeSet<u32> = tx.intersection(rx).copied().collect();
        if !both.is_empty() {
            let text = format!("{interface}: TX and RX threads share {}", listed(&both));
            findings.add(
                LintKind::BindingsShared,
                text,
                NAMES.map(|name| Fix::Unset(name.to_owned())),
            );
        }
    }
}

fn outside(cpus: &BTreeSet<u32>, list: &CpuList) -> BTreeSet<u32> {
    cpus.iter()
        .filter(|cpu| !list.contains(**cpu))
        .copied()
        .collect()
}

/// `CPUs 8-21,112`
fn listed(cpus: &BTreeSet<u32>) -> String {
    format!(
        "CPUs {}",
        crate::cpu::CpuList::from_iter(cpus.iter().copied())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_sets_are_parsed_completely() {
        let (bindings, problems) = parse("eth1:8-21,112-125;eth3:60-73,164-177");
        assert_eq!((bindings.len(), problems.len()), (2, 0));
        assert_eq!(bindings[1].interface, "eth3");
        assert_eq!(bindings[0].cpus().len(), 28);
    }

    #[test]
    fn each_part_that_the_plugin_rejects_is_named() {
        for (text, problem) in [
            ("eth1:8", "`8` for eth1 is not a range such as 8-21"),
            ("eth1:9-8", "`9-8` for eth1 is not a range such as 8-21"),
            ("8-21", "`8-21` has no `interface:`"),
            ("", "the value is empty"),
            (
                "eth1:0-1,2-3,4-5,6-7,8-9,10-11,12-13,14-15,16-17",
                "eth1 has 9 ranges; at most 8 fit",
            ),
        ] {
            assert_eq!(parse(text).1, [problem], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_bindings_or_problems(text in "[a-z0-9:;,\\- ]{0,60}") {
            let (bindings, problems) = parse(&text);
            prop_assert!(!bindings.is_empty() || !problems.is_empty());
        }
    }
}
