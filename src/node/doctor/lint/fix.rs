//! The lines that correct an environment: `tcpxctl doctor --fix-env`.
//!
//! A fix can reveal the next mistake (the value under a corrected name is out of range), so
//! the rules run again until nothing changes.
#![forbid(unsafe_code)]

use super::{Environment, Fix, Machine, VariableTable, interfaces, lint};
use std::collections::BTreeMap;
use tcpx_words::units::shell_word;

/// Most rounds of fixes; fewer mistakes can hide behind each other.
const ROUNDS_MAX: usize = 8;

/// Shell lines, one per variable: `export NAME='value'` or `unset NAME`. In the shell that
/// `environment` came from, they leave no mistake that has a fix.
pub(crate) fn exports(
    table: &VariableTable,
    environment: &Environment,
    machine: &Machine,
) -> Vec<String> {
    let fixed = fixed(table, environment, machine);
    let names = environment
        .keys()
        .chain(fixed.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let line = |name: &&String| match (environment.get(*name), fixed.get(*name)) {
        (before, Some(after)) if before != Some(after) => {
            Some(format!("export {name}={}", shell_word(after)))
        }
        (Some(_), None) => Some(format!("unset {name}")),
        _ => None,
    };
    names.iter().filter_map(line).collect()
}

fn fixed(table: &VariableTable, environment: &Environment, machine: &Machine) -> Environment {
    let mut fixed = environment.clone();
    complete(&mut fixed, machine);
    for _ in 0..ROUNDS_MAX {
        let before = fixed.clone();
        for fix in lint(table, &before, machine)
            .lints
            .into_iter()
            .flat_map(|lint| lint.fixes)
        {
            match fix {
                Fix::Set(name, value) => fixed.insert(name, value),
                Fix::Unset(name) => fixed.remove(&name),
            };
        }
        if fixed == before {
            break;
        }
    }
    fixed
}

/// Sets the data and control interfaces if they are unset. The plugin would find interfaces
/// by itself, but may find others.
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
