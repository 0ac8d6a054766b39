//! The lines that make an environment right: `tcpxctl doctor --fix-env`.
//!
//! A fix can bring the next mistake to light (a name that was misspelt has a
//! value out of range), so the rules are asked again until nothing changes.
#![forbid(unsafe_code)]

use super::{Environment, Fix, Machine, Table, interfaces, lint};
use std::collections::BTreeMap;
use tcpx_words::units::shell_word;

/// More rounds than mistakes can hide behind each other.
const ROUNDS_MAX: usize = 8;

/// Shell lines, one per variable: `export NAME='value'` or `unset NAME`. Run in
/// the shell that `environment` came from they leave nothing that is mendable.
pub(crate) fn exports(table: &Table, environment: &Environment, machine: &Machine) -> Vec<String> {
    let mended = mended(table, environment, machine);
    let names = environment
        .keys()
        .chain(mended.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let line = |name: &&String| match (environment.get(*name), mended.get(*name)) {
        (before, Some(after)) if before != Some(after) => {
            Some(format!("export {name}={}", shell_word(after)))
        }
        (Some(_), None) => Some(format!("unset {name}")),
        _ => None,
    };
    names.iter().filter_map(line).collect()
}

fn mended(table: &Table, environment: &Environment, machine: &Machine) -> Environment {
    let mut mended = environment.clone();
    complete(&mut mended, machine);
    for _ in 0..ROUNDS_MAX {
        let before = mended.clone();
        for fix in lint(table, &before, machine)
            .lints
            .into_iter()
            .flat_map(|lint| lint.fixes)
        {
            match fix {
                Fix::Set(name, value) => mended.insert(name, value),
                Fix::Unset(name) => mended.remove(&name),
            };
        }
        if mended == before {
            break;
        }
    }
    mended
}

/// What is no mistake when missing, and is better said: which interfaces.
fn complete(environment: &mut BTreeMap<String, String>, machine: &Machine) {
    let control = machine
        .default_interface
        .clone()
        .filter(|control| !machine.rails.contains(control));
    let rails = interfaces::rails(machine).map(|names| format!("={names}"));
    for (name, value) in [
        ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", rails),
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", control),
    ] {
        if let Some(value) = value {
            environment.entry(name.to_owned()).or_insert(value);
        }
    }
}
