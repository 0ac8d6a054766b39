//! The nearest NIC of a GPU.
//!
//! On an A3-high node each pair of GPUs shares a host bridge with one data NIC. Only below
//! one host bridge does a packet reach GPU memory without crossing a CPU socket. The same
//! NUMA node is second best; anything else is far.
#![forbid(unsafe_code)]

use crate::gpu::Gpu;
use crate::nic::Nic;
use crate::pci::shared_bridges;
use serde::{Deserialize, Serialize};

/// How near a NIC is to a GPU, from far to near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Closeness {
    /// Neither NUMA node nor host bridge is shared, or the position of one is unknown.
    Far,
    /// The same NUMA node.
    SameNumaNode,
    /// The same host bridge.
    SamePciRoot {
        /// Bridges in common, including the host bridge; more is nearer.
        bridges: usize,
    },
}

/// How near `nic` is to `gpu`.
pub(crate) fn closeness(gpu: &Gpu, nic: &Nic) -> Closeness {
    let bridges = match (gpu.pci_path.known(), nic.pci_path.known()) {
        (Some(gpu), Some(nic)) => shared_bridges(gpu, nic),
        _ => 0,
    };
    let numa = gpu.numa_node.known();
    match bridges {
        0 if numa.is_some() && numa == nic.numa_node.known() => Closeness::SameNumaNode,
        0 => Closeness::Far,
        bridges => Closeness::SamePciRoot { bridges },
    }
}

/// The nearest of `nics`, and how near it is; the first of equals. `None` only without any
/// NIC: the caller decides whether a far one is acceptable.
pub(crate) fn nearest<'a>(
    gpu: &Gpu,
    nics: impl IntoIterator<Item = &'a Nic>,
) -> Option<(&'a Nic, Closeness)> {
    let mut best = None;
    for nic in nics {
        let near = closeness(gpu, nic);
        if best.is_none_or(|(_, so_far)| near > so_far) {
            best = Some((nic, near));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fact, NodeFacts, fixture};

    #[test]
    fn each_pair_of_gpus_of_an_a3_high_shares_a_root_with_one_nic() {
        let node = NodeFacts::read(&fixture::a3_high().root);
        let nics = node.nics.known().unwrap();
        let map = node.gpus.devices.known().unwrap().iter().map(|gpu| {
            let (nic, near) = nearest(gpu, nics).unwrap();
            assert_eq!(
                near,
                Closeness::SamePciRoot { bridges: 3 },
                "{gpu:#?} {nic:#?}"
            );
            (gpu.index, nic.name.as_str())
        });
        let expected = [
            (0, "eth1"),
            (1, "eth1"),
            (2, "eth2"),
            (3, "eth2"),
            (4, "eth3"),
            (5, "eth3"),
            (6, "eth4"),
            (7, "eth4"),
        ];
        assert_eq!(map.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_gpu_without_its_own_nic_takes_one_on_its_numa_node() {
        let node = NodeFacts::read(&fixture::a3_high().root);
        let nics = node
            .nics
            .known()
            .unwrap()
            .iter()
            .filter(|nic| nic.name != "eth3");
        let gpu = &node.gpus.devices.known().unwrap()[4];
        let (nic, near) = nearest(gpu, nics).unwrap();
        assert_eq!((nic.name.as_str(), near), ("eth4", Closeness::SameNumaNode));
    }

    #[test]
    fn an_unknown_position_is_far() {
        let node = NodeFacts::read(&fixture::a3_high().root);
        let mut gpu = node.gpus.devices.known().unwrap()[0].clone();
        gpu.pci_path = Fact::unknown("not read");
        gpu.numa_node = Fact::unknown("not read");
        let lo = node
            .nics
            .known()
            .unwrap()
            .iter()
            .find(|nic| nic.is_virtual)
            .unwrap();
        assert_eq!(
            nearest(&gpu, [lo]).map(|(_, near)| near),
            Some(Closeness::Far)
        );
        assert_eq!(nearest(&gpu, []), None);
    }
}
