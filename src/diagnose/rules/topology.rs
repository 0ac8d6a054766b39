//! Which GPU's memory goes over which NIC.
#![forbid(unsafe_code)]

use super::Found;
use crate::evidence::{Evidence, Node};
use tcpx_run_model::scenario::Memory;
use tcpx_words::plugin_family::PluginFamily;

/// Whether a GPU's memory is moved by a plugin that needs NIC and GPU together.
fn is_device(evidence: &Evidence, node: &Node) -> bool {
    node.family == Some(PluginFamily::Tcpx)
        && evidence
            .scenario
            .as_ref()
            .is_none_or(|scenario| scenario.transfer.memory != Memory::Host)
}

pub(super) fn far_nic(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for node in evidence
        .nodes
        .iter()
        .filter(|node| is_device(evidence, node))
    {
        let Some((machine, gpu)) = node.machine.as_ref().zip(node.gpu()) else {
            continue;
        };
        let Some(root) = machine.gpu_roots.get(gpu as usize).and_then(Option::as_ref) else {
            continue;
        };
        let near: Vec<&str> = machine
            .nics
            .iter()
            .filter(|nic| nic.pci_root.as_ref() == Some(root))
            .map(|nic| nic.name.as_str())
            .collect();
        let far = node.channels.iter().find_map(|channel| {
            let nic = machine.nics.iter().find(|nic| nic.name == channel.nic)?;
            let theirs = nic.pci_root.as_ref().filter(|theirs| *theirs != root)?;
            Some((channel, theirs))
        });
        if let Some((channel, theirs)) = far.filter(|_| !near.is_empty()) {
            let why = format!(
                "{}: GPU {gpu} is at {root}, {} at {theirs}; {} shares its root",
                node.name(),
                channel.nic,
                near.join(", ")
            );
            let index = Some(channel.now.index);
            found.push(Found {
                channel: index,
                ..Found::at("nic-far-from-gpu", node, 0.95, why)
            });
        }
    }
    found
}

pub(super) fn same_host(evidence: &Evidence) -> Vec<Found> {
    let found = evidence.pairs().filter_map(|(one, other)| {
        let host = |node: &Node| {
            node.machine
                .as_ref()
                .and_then(|machine| machine.host.clone())
        };
        let same = host(one)
            .zip(host(other))
            .and_then(|(one, other)| one.is_same_stack(&other));
        let matters = is_device(evidence, one) || is_device(evidence, other);
        let why = || {
            format!(
                "{} and {} are one network stack of one machine",
                one.name(),
                other.name()
            )
        };
        (same == Some(true) && matters).then(|| Found::of_all("same-host", 0.95, why()))
    });
    found.collect()
}
