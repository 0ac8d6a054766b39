//! GPUs, read from sysfs and the NVIDIA driver's `/proc` files without any library, so that
//! a node can be described even if CUDA does not load.
//!
//! Devices are in PCI order. CUDA uses the same order with `CUDA_DEVICE_ORDER=PCI_BUS_ID`,
//! and on nodes whose GPUs are all of one model.
#![forbid(unsafe_code)]

use crate::cpu::field;
use crate::nic::{in_path, numa_node};
use crate::pci::{self, PciAddress};
use crate::root::unexpected;
use crate::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVER: &str = "/proc/driver/nvidia";

/// One NVIDIA GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Position in PCI order.
    pub index: usize,
    /// Address of the PCI function.
    pub pci_address: PciAddress,
    /// Resolved sysfs path of the device.
    pub pci_path: Fact<String>,
    /// Host bridge, `pciDDDD:BB`.
    pub pci_root: Fact<String>,
    /// NUMA node of the device.
    pub numa_node: Fact<u32>,
    /// Model name, from the driver.
    pub model: Fact<String>,
    /// N of `/dev/nvidiaN`.
    pub device_minor: Fact<u32>,
}

/// The GPUs of a machine and their driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpus {
    /// Version of the loaded kernel driver.
    pub driver_version: Fact<String>,
    /// GPUs in PCI order. Empty: there are none. Unknown: the files cannot be read.
    pub devices: Fact<Vec<Gpu>>,
}

impl Gpus {
    /// Reads `/sys/bus/pci` and `/proc/driver/nvidia`; a GPU listed in either counts.
    pub(crate) fn read(root: &Root) -> Self {
        let on_bus = root
            .names(DEVICES)
            .map(|names| addresses(&names).filter(|at| is_gpu(root, *at)).collect());
        let by_driver = root
            .names(&format!("{DRIVER}/gpus"))
            .map(|names| addresses(&names).collect());
        Self {
            driver_version: driver_version(root),
            devices: union(on_bus, by_driver).map(|found| {
                found
                    .into_iter()
                    .enumerate()
                    .map(|(index, at)| Gpu::read(root, index, at))
                    .collect()
            }),
        }
    }
}

impl Gpu {
    fn read(root: &Root, index: usize, at: PciAddress) -> Self {
        let file = format!("{DRIVER}/gpus/{at}/information");
        let information = root.text(&file);
        let of_driver = |key: &str| {
            information
                .as_ref()
                .and_then(|text| field(text, key, &file))
        };
        let pci_path = root.real_path(&format!("{DEVICES}/{at}"));
        Self {
            index,
            pci_address: at,
            pci_root: in_path(&pci_path, "PCI root", |path| {
                pci::root_in(path).map(str::to_owned)
            }),
            pci_path,
            numa_node: numa_node(root, &format!("{DEVICES}/{at}/numa_node")),
            model: of_driver("Model"),
            device_minor: of_driver("Device Minor").and_then(|minor| {
                minor
                    .parse()
                    .map_or_else(|_| unexpected(&file, &minor), Fact::Known)
            }),
        }
    }
}

/// The GPUs among `all` that a process with this `CUDA_VISIBLE_DEVICES` has, as CUDA numbers them: those of one
/// model in PCI order. `None` stands for one that is named by an id. A number that does not exist
/// ends the list, as in CUDA.
pub fn cuda_order<'a>(all: &'a [Gpu], visible: Option<&str>) -> Vec<Option<&'a Gpu>> {
    let Some(visible) = visible else {
        return all.iter().map(Some).collect();
    };
    let one = |name: &str| match name.parse::<usize>() {
        Ok(index) => all.get(index).map(Some),
        Err(_) => (name.starts_with("GPU-") || name.starts_with("MIG-")).then_some(None),
    };
    visible
        .split(',')
        .map_while(|name| one(name.trim()))
        .collect()
}

fn addresses(names: &[String]) -> impl Iterator<Item = PciAddress> + '_ {
    names.iter().filter_map(|name| name.parse().ok())
}

/// Vendor NVIDIA, class display controller (0x0300 VGA, 0x0302 3D).
fn is_gpu(root: &Root, at: PciAddress) -> bool {
    let starts = |file: &str, with: &str| {
        root.line(&format!("{DEVICES}/{at}/{file}"))
            .known()
            .is_some_and(|line| line.starts_with(with))
    };
    starts("vendor", "0x10de") && starts("class", "0x03")
}

fn union(
    one: Fact<BTreeSet<PciAddress>>,
    other: Fact<BTreeSet<PciAddress>>,
) -> Fact<BTreeSet<PciAddress>> {
    match (one, other) {
        (Fact::Known(one), Fact::Known(other)) => Fact::Known(&one | &other),
        (Fact::Known(known), Fact::Unknown { .. }) | (Fact::Unknown { .. }, Fact::Known(known)) => {
            Fact::Known(known)
        }
        (unknown, _) => unknown,
    }
}

/// The version in the module's sysfs file, else in the driver's banner: the first word of
/// digits and dots (`… x86_64 Kernel Module  535.129.03  Thu Oct 19 …`).
fn driver_version(root: &Root) -> Fact<String> {
    let banner = || {
        let file = format!("{DRIVER}/version");
        field(root.text(&file).known()?, "NVRM version", &file)
            .known()
            .cloned()
    };
    let is_version = |word: &&str| {
        word.contains('.')
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    match root.line("/sys/module/nvidia/version") {
        Fact::Known(version) => Fact::Known(version),
        missing => match banner()
            .as_deref()
            .and_then(|line| line.split_whitespace().find(is_version))
        {
            Some(version) => Fact::Known(version.to_owned()),
            None => missing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn visible_gpus_have_the_numbers_that_cuda_gives_them() {
        let gpus = crate::NodeFacts::read(&crate::fixture::a3_high().root).gpus;
        let all = gpus.devices.known().expect("eight GPUs");
        let order = |visible: Option<&str>| -> Vec<Option<usize>> {
            let listed = cuda_order(all, visible).into_iter();
            listed.map(|gpu| gpu.map(|gpu| gpu.index)).collect()
        };
        assert_eq!(order(None), (0..8).map(Some).collect::<Vec<_>>());
        assert_eq!(order(Some("5, 2")), [Some(5), Some(2)]);
        assert_eq!(order(Some("1,9,3")), [Some(1)]);
        assert_eq!(order(Some("GPU-8932f937-d72c,3")), [None, Some(3)]);
        assert!(order(Some("")).is_empty() && order(Some("-1")).is_empty());
        assert!(order(Some("NoDevFiles")).is_empty());
    }

    #[test]
    fn the_driver_version_comes_from_the_module_or_the_banner() {
        for (files, expected) in [
            ("sys/module/nvidia/version = 550.54.15", Some("550.54.15")),
            (
                "proc/driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19",
                Some("535.129.03"),
            ),
            (
                "proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release",
                Some("550.54.15"),
            ),
            ("proc/driver/nvidia/version = nothing of the kind", None),
        ] {
            let version = driver_version(&fixture::tree(files).root);
            assert_eq!(version.known().map(String::as_str), expected, "{files}");
        }
    }

    #[test]
    fn no_gpu_differs_from_an_unreadable_bus() {
        let looked = fixture::tree("sys/bus/pci/devices/0000:00:03.0/vendor = 0x1ae0");
        assert_eq!(Gpus::read(&looked.root).devices, Fact::Known(vec![]));
        let nothing = fixture::tree("proc/uptime = 1.0");
        assert!(Gpus::read(&nothing.root).devices.why().is_some());
    }

    #[test]
    fn the_audio_function_of_a_gpu_is_not_a_gpu() {
        let files =
            "sys/bus/pci/devices/0000:01:00.0/vendor = 0x10de\nsys/bus/pci/devices/0000:01:00.0/class = 0x030200
sys/bus/pci/devices/0000:01:00.1/vendor = 0x10de\nsys/bus/pci/devices/0000:01:00.1/class = 0x040300";
        let gpus = Gpus::read(&fixture::tree(files).root).devices;
        let found = gpus.known().unwrap();
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].numa_node.known(), None);
        assert!(found[0].model.why().unwrap().contains("information"));
    }
}
