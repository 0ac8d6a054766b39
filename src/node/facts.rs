//! The facts of a machine as one document: `facts` of a node in run.json, and the part of
//! `discover` that needs no plugin.
#![forbid(unsafe_code)]

use crate::cpu::Cpu;
use crate::gpu::Gpus;
use crate::limits::Limits;
use crate::nic::Nic;
use crate::root::unexpected;
use crate::{Fact, Root, environment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The identity of a machine and of the network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: Fact<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: Fact<String>,
    /// Boot id, new at each boot.
    pub boot_id: Fact<String>,
    /// Inode of the network namespace of this process.
    pub network_namespace: Fact<u64>,
    /// Where a virtual machine runs, as [`crate::physical_host`] says; only agents ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical: Option<String>,
}

impl Host {
    /// Reads `/proc`.
    pub fn read(root: &Root) -> Self {
        Self {
            name: root.line("/proc/sys/kernel/hostname"),
            kernel: root.line("/proc/sys/kernel/osrelease"),
            boot_id: root.line("/proc/sys/kernel/random/boot_id"),
            network_namespace: network_namespace(root),
            physical: None,
        }
    }

    /// Whether both are one machine, whatever their network namespaces. `None` if either boot id
    /// is unknown.
    pub fn is_same_machine(&self, other: &Self) -> Option<bool> {
        Some(self.boot_id.known()? == other.boot_id.known()?)
    }

    /// Whether both have the same boot id and network namespace, so that traffic between them
    /// never crosses a NIC. `None` if either is unknown.
    pub fn is_same_stack(&self, other: &Self) -> Option<bool> {
        let boot = self.is_same_machine(other)?;
        let stack = self.network_namespace.known()? == other.network_namespace.known()?;
        Some(boot && stack)
    }
}

/// The facts of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Host name, kernel, boot id and network namespace.
    pub host: Host,
    /// Processors and memory.
    pub cpu: Cpu,
    /// Network interfaces, by name.
    pub nics: Fact<Vec<Nic>>,
    /// GPUs and their driver.
    pub gpus: Gpus,
    /// Limits of the reading process.
    pub limits: Limits,
    /// Allow-listed variables of the reading process.
    pub environment: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Reads all facts. A fact that cannot be read is unknown, with the reason.
    pub fn read(root: &Root) -> Self {
        Self {
            host: Host::read(root),
            cpu: Cpu::read(root),
            nics: Nic::read_all(root),
            gpus: Gpus::read(root),
            limits: Limits::read(root),
            environment: environment::read(root).known().cloned().unwrap_or_default(),
        }
    }
}

/// `/proc/self/ns/net` links to `net:[4026531840]`.
fn network_namespace(root: &Root) -> Fact<u64> {
    let path = "/proc/self/ns/net";
    root.link(path).and_then(|target| {
        let inode = target
            .strip_prefix("net:[")
            .and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        inode.map_or_else(|| unexpected(path, &target), Fact::Known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    #[test]
    fn an_a3_high_is_read_as_it_is() {
        let node = NodeFacts::read(&fixture::a3_high().root);
        insta::assert_json_snapshot!(node);
    }

    #[test]
    fn the_counts_of_an_a3_high_are_right() {
        let node = NodeFacts::read(&fixture::a3_high().root);
        assert_eq!(node.cpu.count, Fact::Known(208));
        let gpus = node.gpus.devices.known().unwrap();
        assert_eq!(gpus.len(), 8);
        assert!(
            gpus.iter()
                .enumerate()
                .all(|(index, gpu)| gpu.device_minor == Fact::Known(index as u32))
        );
        let physical: Vec<&Nic> = node
            .nics
            .known()
            .unwrap()
            .iter()
            .filter(|nic| !nic.is_virtual)
            .collect();
        assert_eq!(physical.len(), 5);
        assert!(
            physical
                .iter()
                .all(|nic| nic.is_up() && nic.driver == Fact::Known("gve".to_owned()))
        );
    }

    #[test]
    fn every_fact_of_an_empty_tree_is_unknown_with_a_reason() {
        let node = NodeFacts::read(&fixture::tree("").root);
        assert_eq!(
            node.host.name.why(),
            Some("/proc/sys/kernel/hostname: No such file or directory (os error 2)")
        );
        assert!(
            node.nics.why().is_some()
                && node.gpus.devices.why().is_some()
                && node.cpu.count.why().is_some()
        );
        assert!(node.environment.is_empty());
    }

    #[test]
    fn facts_survive_json() {
        for node in [
            NodeFacts::read(&fixture::a3_high().root),
            NodeFacts::read(&Root::live()),
        ] {
            let json = serde_json::to_string(&node).unwrap();
            assert_eq!(serde_json::from_str::<NodeFacts>(&json).unwrap(), node);
        }
    }

    #[test]
    fn the_same_stack_needs_the_same_boot_and_namespace() {
        let here = Host::read(&Root::live());
        assert_eq!(here.is_same_stack(&here), Some(true));
        let beside = Host {
            network_namespace: Fact::Known(1),
            physical: None,
            ..here.clone()
        };
        assert_eq!(here.is_same_stack(&beside), Some(false));
        let unread = Host {
            boot_id: Fact::unknown("not read"),
            ..here.clone()
        };
        assert_eq!(here.is_same_stack(&unread), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_files_give_facts_or_reasons(junk in prop::collection::vec("[ -~\\t\u{1b}é]{0,60}", 40)) {
            let mut junk = junk.iter().cycle();
            let replace = |line: &str| match line.split_once(" = ") {
                Some((path, _)) => format!("{path} = {}", junk.next().map_or("", String::as_str)),
                None => line.to_owned(),
            };
            let lines = fixture::A3_HIGH.lines().map(replace).collect::<Vec<_>>().join("\n");
            let node = NodeFacts::read(&fixture::tree(&lines).root);
            let json = serde_json::to_string(&node).unwrap();
            prop_assert_eq!(serde_json::from_str::<NodeFacts>(&json).unwrap(), node);
            prop_assert!(!json.contains("\\u001b"), "{}", json);
        }
    }
}
