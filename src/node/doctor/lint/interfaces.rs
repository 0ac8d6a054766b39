//! Lists of interfaces in NCCL's syntax: prefixes separated by commas; a leading `=` makes
//! them exact names, a leading `^` excludes them.
#![forbid(unsafe_code)]

use super::{Environment, Findings, Fix, LintKind, Machine, NicPlace, pair};
use std::collections::BTreeMap;

const DATA: &str = "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME";
const CONTROL: &str = "NCCL_GPUDIRECTTCPX_CTRL_DEV";

pub(super) fn check(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let Some(nics) = &machine.nics else {
        return findings.open(
            [
                LintKind::Interfaces,
                LintKind::Control,
                LintKind::ControlAmongData,
            ],
            "the interfaces are unknown",
        );
    };
    if let Some(list) = environment.get(DATA) {
        data(environment, list, machine, nics, findings);
    }
    if let Some(name) = environment.get(CONTROL) {
        control(environment, name, machine, nics, findings);
    }
}

fn data(
    environment: &Environment,
    list: &str,
    machine: &Machine,
    nics: &BTreeMap<String, NicPlace>,
    findings: &mut Findings,
) {
    let fix = || rails(machine).map(|names| Fix::Set(DATA.to_owned(), format!("={names}")));
    let (excludes, _, _) = syntax(list);
    // The plugin ignores a value of one character.
    if list.len() < 2 || !nics.keys().any(|nic| matches(list, nic)) {
        findings.add(
            LintKind::Interfaces,
            format!("{} matches no interface", pair(environment, DATA)),
            fix(),
        );
        return;
    }
    let without: Vec<&str> = entries(list)
        .filter(|entry| !nics.keys().any(|nic| one_matches(list, entry, nic)))
        .collect();
    if !without.is_empty() && !excludes {
        let text = format!(
            "{}: no such interface: {}",
            pair(environment, DATA),
            without.join(", ")
        );
        findings.add(LintKind::Interfaces, text, fix());
    }
}

fn control(
    environment: &Environment,
    name: &str,
    machine: &Machine,
    nics: &BTreeMap<String, NicPlace>,
    findings: &mut Findings,
) {
    let other = machine
        .default_interface
        .clone()
        .filter(|other| other != name && nics.contains_key(other));
    let fix = || other.map(|other| Fix::Set(CONTROL.to_owned(), other));
    match nics
        .iter()
        .find(|(nic, _)| nic.starts_with(name) && !name.is_empty())
    {
        None => findings.add(
            LintKind::Control,
            format!("{}: no such interface", pair(environment, CONTROL)),
            fix(),
        ),
        Some((_, place)) if place.has_address == Some(false) => {
            let text = format!(
                "{} has no address that another node can reach",
                pair(environment, CONTROL)
            );
            findings.add(LintKind::Control, text, fix());
        }
        Some((nic, _)) => control_among_data(environment, nic, nics, findings),
    }
}

/// Finds a control interface that is also a data interface. The fix lists the other data
/// interfaces.
fn control_among_data(
    environment: &Environment,
    control: &str,
    nics: &BTreeMap<String, NicPlace>,
    findings: &mut Findings,
) {
    let Some(list) = environment.get(DATA) else {
        return;
    };
    if list.len() < 2 || !matches(list, control) {
        return;
    }
    let text = format!(
        "{} is also a data interface: {}",
        pair(environment, CONTROL),
        pair(environment, DATA)
    );
    let others: Vec<&str> = nics
        .keys()
        .map(String::as_str)
        .filter(|nic| *nic != control && matches(list, nic))
        .collect();
    let fix =
        (!others.is_empty()).then(|| Fix::Set(DATA.to_owned(), format!("={}", others.join(","))));
    findings.add(LintKind::ControlAmongData, text, fix);
}

/// The machine's data interfaces, separated by commas; `None` if it has none.
pub(super) fn rails(machine: &Machine) -> Option<String> {
    (!machine.rails.is_empty()).then(|| machine.rails.join(","))
}

/// Whether `list` selects the interface `name`.
pub(crate) fn matches(list: &str, name: &str) -> bool {
    let (excludes, _, _) = syntax(list);
    entries(list).any(|entry| one_matches(list, entry, name)) != excludes
}

fn one_matches(list: &str, entry: &str, name: &str) -> bool {
    let (_, exact, _) = syntax(list);
    // A port may follow, as in `mlx5_0:1`.
    let entry = entry.split(':').next().unwrap_or_default();
    !entry.is_empty()
        && if exact {
            name == entry
        } else {
            name.starts_with(entry)
        }
}

/// Whether the list excludes, whether its names are exact, and the names.
fn syntax(list: &str) -> (bool, bool, &str) {
    let rest = list.strip_prefix('^');
    let excludes = rest.is_some();
    let rest = rest.unwrap_or(list);
    let names = rest.strip_prefix('=');
    (excludes, names.is_some(), names.unwrap_or(rest))
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    syntax(list).2.split(',').filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_what_nccl_would_take() {
        for (list, name, expected) in [
            ("eth1,eth2", "eth1", true),
            ("eth1", "eth10", true),
            ("=eth1", "eth10", false),
            ("^eth0", "eth1", true),
            ("^eth0", "eth0", false),
            ("^=eth1", "eth10", true),
            ("eth1:1", "eth1", true),
            ("", "eth1", false),
            ("enp", "eth1", false),
        ] {
            assert_eq!(matches(list, name), expected, "{list} {name}");
        }
    }
}
