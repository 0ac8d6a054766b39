//! Which GPU's memory goes over which NIC.
#![forbid(unsafe_code)]

use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode};
use tcpx_run_model::scenario::Memory;
use tcpx_words::plugin_family::PluginFamily;

pub(super) const RULES: &[Rule] = &[far_nic, same_host];

/// Whether the node moves GPU memory through TCPX, which needs a NIC of the GPU's PCI root.
fn moves_gpu_memory(evidence: &Evidence, node: &EvidenceNode) -> bool {
    node.family == Some(PluginFamily::Tcpx)
        && evidence
            .scenario
            .as_ref()
            .is_none_or(|scenario| scenario.transfer.memory != Memory::Host)
}

fn far_nic(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for node in evidence
        .nodes
        .iter()
        .filter(|node| moves_gpu_memory(evidence, node))
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
                ..Found::at(Condition::NicFarFromGpu, node, 0.95, why)
            });
        }
    }
    found
}

fn same_host(evidence: &Evidence) -> Vec<Found> {
    let found = evidence.pairs().filter_map(|(one, other)| {
        let host = |node: &EvidenceNode| {
            node.machine
                .as_ref()
                .and_then(|machine| machine.host.clone())
        };
        let same = host(one)
            .zip(host(other))
            .and_then(|(one, other)| one.is_same_stack(&other));
        let matters = moves_gpu_memory(evidence, one) || moves_gpu_memory(evidence, other);
        let why = || {
            format!(
                "{} and {} share one network stack of one machine",
                one.name(),
                other.name()
            )
        };
        (same == Some(true) && matters)
            .then(|| Found::of_transfer(Condition::SameHost, 0.95, why()))
    });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::evidence::EvidenceMachine;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_node::{Fact, Host};

    pub(crate) const CASES: &[Case] = &[
        (Condition::NicFarFromGpu, far_nic),
        (Condition::SameHost, same_host),
    ];

    fn far_nic() -> Evidence {
        let mut evidence = on_gpu(passed());
        evidence.nodes[1].machine = Some(machine(&[None, None, Some("pci0000:07")]));
        evidence
    }

    fn same_host() -> Evidence {
        let mut evidence = on_gpu(passed());
        let host = Host {
            name: Fact::Known("node0".into()),
            kernel: Fact::unknown("not read"),
            boot_id: Fact::Known("one".into()),
            network_namespace: Fact::Known(1),
            physical: None,
        };
        for node in &mut evidence.nodes {
            node.machine = Some(EvidenceMachine {
                host: Some(host.clone()),
                ..EvidenceMachine::default()
            });
        }
        evidence
    }
}
