//! Network interfaces, read from sysfs.
//!
//! Without a number in sysfs the speed is unknown. TCPX reports 10000 Mbit/s in that case, so
//! every speed carries its source.
#![forbid(unsafe_code)]

use crate::addresses::{InterfaceAddress, addresses};
use crate::cpu::CpuList;
use crate::pci::{self, PciAddress};
use crate::root::unexpected;
use crate::{Fact, Root};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

const CLASS: &str = "/sys/class/net";
/// `IFF_UP` of `<linux/if.h>`.
const IFF_UP: u32 = 0x1;

/// Link speed, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
pub enum Speed {
    /// From `/sys/class/net/X/speed`.
    Sysfs {
        /// 10^6 bit per second.
        mbit_per_s: u32,
    },
    /// The driver reports no speed.
    NotReadable {
        /// The content of the file, or the error.
        why: String,
    },
}

impl Speed {
    /// The speed in 10^6 bit per second, if it is known.
    pub fn mbit_per_s(&self) -> Option<u32> {
        match self {
            Self::Sysfs { mbit_per_s } => Some(*mbit_per_s),
            Self::NotReadable { .. } => None,
        }
    }

    fn read(root: &Root, path: &str) -> Self {
        match root.parsed::<i64>(path) {
            Fact::Known(number) => match u32::try_from(number) {
                Ok(mbit_per_s) if (1..u32::MAX).contains(&mbit_per_s) => Self::Sysfs { mbit_per_s },
                // A driver without a number answers -1, some kernels 2^32 - 1.
                _ => Self::NotReadable {
                    why: format!("{path}: {number}"),
                },
            },
            Fact::Unknown { unknown } => Self::NotReadable { why: unknown },
        }
    }
}

/// Why an interface is known to carry nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicDown {
    /// It was taken down: `IFF_UP` is not set.
    TakenDown,
    /// It is administratively up, as far as is known, and its link is not.
    NoLink,
}

/// Whether an RFC 2863 state is one in which nothing is carried.
pub(crate) fn is_down_state(operstate: &str) -> bool {
    matches!(operstate, "down" | "lowerlayerdown" | "notpresent")
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs { mbit_per_s } => f.pad(&format!("{mbit_per_s} Mbit/s (sysfs)")),
            Self::NotReadable { .. } => f.pad("not readable"),
        }
    }
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// The kernel's interface index.
    pub index: Fact<u32>,
    /// Whether the interface is administratively up (`IFF_UP`).
    pub admin_up: Fact<bool>,
    /// RFC 2863 state: `up`, `down`, `unknown` (of the loopback), …
    pub operstate: Fact<String>,
    /// Whether the link has carrier; unreadable while the interface is down.
    pub carrier: Fact<bool>,
    /// MTU, in bytes.
    pub mtu: Fact<u32>,
    /// Link speed.
    pub speed: Speed,
    /// Name of the kernel driver.
    pub driver: Fact<String>,
    /// The PCI function of the device, or of its parent (virtio).
    pub pci_address: Fact<PciAddress>,
    /// Resolved sysfs path of the device, which TCPX reports as `pciPath`.
    pub pci_path: Fact<String>,
    /// Host bridge, `pciDDDD:BB`.
    pub pci_root: Fact<String>,
    /// NUMA node of the device.
    pub numa_node: Fact<u32>,
    /// Whether there is no device: loopback, veth, bridge.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    /// IPv4 and IPv6 addresses.
    pub addresses: Fact<Vec<IpAddr>>,
}

impl Nic {
    /// The addresses at which another node can reach the interface, IPv4 first.
    pub fn reachable_at(&self) -> Fact<Vec<IpAddr>> {
        self.addresses.as_ref().map(|all| {
            let is_global = |one: &&IpAddr| match one {
                IpAddr::V4(_) => true,
                IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
            };
            let mut all: Vec<IpAddr> = all.iter().filter(is_global).copied().collect();
            all.sort_by_key(IpAddr::is_ipv6);
            all
        })
    }

    /// Reads every interface, in the order of names.
    pub fn read_all(root: &Root) -> Fact<Vec<Self>> {
        let held = root.ask("addresses", || {
            addresses()
                .map_err(|error| format!("getifaddrs: {error}"))
                .into()
        });
        // `bonding_masters` is a file, not an interface.
        let is_interface = |name: &String| root.names(&format!("{CLASS}/{name}")).known().is_some();
        root.names(CLASS).map(|names| {
            names
                .into_iter()
                .filter(is_interface)
                .map(|name| Self::read(root, name, &held))
                .collect()
        })
    }

    /// Whether the interface can carry traffic: administratively up, and in state `up` or
    /// `unknown`.
    pub fn is_up(&self) -> bool {
        let state = self.operstate.known().map(String::as_str);
        let on = self
            .admin_up
            .known()
            .copied()
            .unwrap_or(state == Some("up"));
        on && matches!(state, Some("up" | "unknown"))
    }

    /// Why the interface is known to carry nothing; `None` if it is up or its state is not known.
    pub fn down(&self) -> Option<NicDown> {
        let operstate = self.operstate.known();
        match self.admin_up.known() {
            Some(false) => Some(NicDown::TakenDown),
            _ => operstate
                .is_some_and(|state| is_down_state(state))
                .then_some(NicDown::NoLink),
        }
    }

    fn read(root: &Root, name: String, held: &Fact<Vec<InterfaceAddress>>) -> Self {
        let at = |file: &str| format!("{CLASS}/{name}/{file}");
        let pci_path = root.real_path(&at("device"));
        let pci_address = in_path(&pci_path, "PCI function", pci::address_in);
        Self {
            index: root.parsed(&at("ifindex")),
            admin_up: flags(root, &at("flags")).map(|flags| flags & IFF_UP != 0),
            operstate: root.line(&at("operstate")),
            carrier: root
                .parsed::<u8>(&at("carrier"))
                .map(|carrier| carrier == 1),
            mtu: root.parsed(&at("mtu")),
            speed: Speed::read(root, &at("speed")),
            driver: root.real_name(&at("device/driver")),
            pci_root: in_path(&pci_path, "PCI root", |path| {
                pci::root_in(path).map(str::to_owned)
            }),
            // A virtio device has no `numa_node` file; its PCI function has.
            numa_node: pci_address
                .as_ref()
                .and_then(|at| numa_node(root, &format!("/sys/bus/pci/devices/{at}/numa_node"))),
            pci_address,
            is_virtual: is_virtual(root, &name),
            addresses: held.as_ref().map(|held| addresses_of(held, &name)),
            pci_path,
            name,
        }
    }
}

/// The part of a device path that `find` extracts, such as [`pci::address_in`].
pub(super) fn in_path<T>(
    path: &Fact<String>,
    what: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Fact<T> {
    path.as_ref().and_then(|path| {
        find(path)
            .ok_or_else(|| format!("{path} has no {what}"))
            .into()
    })
}

/// The CPUs nearest to an interface, as the kernel lists them for its PCI function.
pub fn nic_cpus(root: &Root, name: &str) -> Fact<CpuList> {
    let path = root.real_path(&format!("{CLASS}/{name}/device"));
    in_path(&path, "PCI function", pci::address_in)
        .and_then(|at| root.parsed(&format!("/sys/bus/pci/devices/{at}/local_cpulist")))
}

/// The NUMA node in a sysfs file. The kernel writes -1 if firmware names no node; that is
/// unknown (TCPX 3.1.9 treats it as node 1).
pub(super) fn numa_node(root: &Root, path: &str) -> Fact<u32> {
    root.parsed::<i64>(path).and_then(|node| {
        u32::try_from(node)
            .map_err(|_| format!("{path}: {node}"))
            .into()
    })
}

fn flags(root: &Root, path: &str) -> Fact<u32> {
    root.line(path).and_then(|line| {
        let flags = line
            .strip_prefix("0x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        flags.map_or_else(|| unexpected(path, &line), Fact::Known)
    })
}

fn is_virtual(root: &Root, name: &str) -> bool {
    let path = root.real_path(&format!("{CLASS}/{name}"));
    path.known()
        .is_some_and(|path| path.starts_with("/sys/devices/virtual/"))
}

fn addresses_of(held: &[InterfaceAddress], name: &str) -> Vec<IpAddr> {
    // An alias is labelled `eth0:1` and belongs to `eth0`.
    let of_name = |held: &&InterfaceAddress| held.interface.split(':').next() == Some(name);
    held.iter()
        .filter(of_name)
        .map(|held| held.address)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn this_machine_has_a_loopback_that_is_up_and_virtual() {
        let nics = Nic::read_all(&Root::live());
        let lo = nics
            .known()
            .unwrap()
            .iter()
            .find(|nic| nic.name == "lo")
            .unwrap();
        assert!(
            lo.is_up() && lo.is_virtual && lo.pci_address.known().is_none(),
            "{lo:#?}"
        );
        assert!(
            lo.addresses
                .known()
                .unwrap()
                .iter()
                .any(IpAddr::is_loopback),
            "{lo:#?}"
        );
        assert_eq!(lo.speed.mbit_per_s(), None);
    }

    #[test]
    fn an_interface_is_down_only_if_that_is_known() {
        let lo = |nic: &Nic| nic.name == "lo";
        let nics = Nic::read_all(&Root::live());
        let mut nic = nics
            .known()
            .unwrap()
            .iter()
            .find(|nic| lo(nic))
            .unwrap()
            .clone();
        let mut check = |admin_up: Option<bool>, operstate: Option<&str>, expected| {
            let unknown = || "not readable".to_owned();
            nic.admin_up = admin_up.ok_or_else(unknown).into();
            nic.operstate = operstate.map(str::to_owned).ok_or_else(unknown).into();
            assert_eq!(nic.down(), expected, "{admin_up:?} {operstate:?}");
        };
        check(Some(true), Some("up"), None);
        check(Some(true), Some("unknown"), None);
        check(Some(true), None, None);
        check(None, None, None);
        check(Some(false), Some("down"), Some(NicDown::TakenDown));
        check(Some(false), None, Some(NicDown::TakenDown));
        check(Some(true), Some("down"), Some(NicDown::NoLink));
        check(Some(true), Some("lowerlayerdown"), Some(NicDown::NoLink));
        check(None, Some("notpresent"), Some(NicDown::NoLink));
    }

    #[test]
    fn other_nodes_reach_ipv4_and_global_ipv6_addresses() {
        let nics = Nic::read_all(&Root::live());
        let mut nic = nics.known().unwrap()[0].clone();
        let check = |nic: &Nic, expected: &[&str]| {
            let all = nic.reachable_at().known().unwrap().clone();
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            assert_eq!(all, expected);
        };
        let held =
            |all: &[&str]| Fact::Known(all.iter().map(|text| text.parse().unwrap()).collect());
        nic.addresses = held(&["fe80::1", "::1"]);
        check(&nic, &[]);
        nic.addresses = held(&["fe80::1", "fd00::25", "10.0.1.25"]);
        check(&nic, &["10.0.1.25", "fd00::25"]);
    }

    #[test]
    fn a_speed_is_a_number_or_not_readable() {
        let tree = fixture::tree(
            "sys/a = 200000\nsys/b = -1\nsys/c = 4294967295\nsys/d = 0\nsys/e = fast",
        );
        let speed = |file: &str| Speed::read(&tree.root, &format!("/sys/{file}"));
        assert_eq!(
            speed("a"),
            Speed::Sysfs {
                mbit_per_s: 200_000
            }
        );
        for file in ["b", "c", "d", "e", "none"] {
            assert_eq!(speed(file).to_string(), "not readable", "{file}");
        }
        let json = serde_json::to_string(&[speed("a"), speed("b")]).unwrap();
        assert_eq!(
            json,
            r#"[{"source":"sysfs","mbit_per_s":200000},{"source":"not-readable","why":"/sys/b: -1"}]"#
        );
    }

    #[test]
    fn an_interface_is_up_by_its_flags_and_state() {
        for (flags, state, expected) in [
            ("0x1003", "up", true),
            ("0x9", "unknown", true),
            ("0x1002", "down", false),
            ("0x1003", "lowerlayerdown", false),
            ("0x1002", "unknown", false),
            ("junk", "up", true),
            ("junk", "unknown", false),
        ] {
            let files =
                format!("sys/class/net/x/flags = {flags}\nsys/class/net/x/operstate = {state}");
            let nics = Nic::read_all(&fixture::tree(&files).root);
            assert_eq!(
                nics.known().unwrap()[0].is_up(),
                expected,
                "{flags} {state}"
            );
        }
    }
}
