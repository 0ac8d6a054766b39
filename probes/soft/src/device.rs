//! The plugin's devices: network interfaces of the machine.
//!
//! A device is an interface that is up and has an address. Interfaces are selected with NCCL's
//! syntax: a comma-separated list of prefixes, with a leading `=` for exact names and a leading
//! `^` to exclude. Without a list, the first of these classes with a member is used: InfiniBand,
//! anything except docker and loopback, docker, loopback. Devices are sorted by name, so `eth10`
//! comes before `eth2`, as in TCPX 3.1.9.
//!
//! Unlike the real plugin, interfaces that are down are skipped and a control interface that
//! does not exist is refused. `NET_COMM_ID` is not supported.
#![expect(unsafe_code, reason = "walks the list of getifaddrs")]

use crate::settings::Family;
use crate::wire;
use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{fs, io, ptr, slice};

/// Most devices; further matches are ignored.
pub(crate) const DEVICES_MAX: usize = 16;
/// Mbit/s assumed for an interface of unknown speed.
pub(crate) const SPEED_UNKNOWN: i32 = 10_000;

/// An interface that could be a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its name.
    pub name: String,
    /// The address used; the port is 0.
    pub address: SocketAddr,
}

/// One device.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    /// Name and address.
    pub interface: Interface,
    /// The name as a C string.
    pub name: CString,
    /// sysfs path of the hardware; `None` for loopback, veth and bridges.
    pub pci_path: Option<CString>,
    /// Mbit/s reported by sysfs.
    pub speed: Option<i32>,
}

impl Device {
    /// Reads the properties of `interface` from sysfs.
    pub(crate) fn from_sysfs(interface: Interface) -> Self {
        let sysfs = Path::new("/sys/class/net").join(&interface.name);
        let pci_path = fs::canonicalize(sysfs.join("device")).ok();
        let speed = fs::read_to_string(sysfs.join("speed"))
            .ok()
            .and_then(|text| text.trim().parse().ok());
        Self {
            name: CString::new(interface.name.as_str()).unwrap_or_default(),
            pci_path: pci_path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()),
            speed: speed.filter(|speed| *speed > 0),
            interface,
        }
    }
}

/// The interfaces that `wanted` selects, sorted by name.
pub(crate) fn choose(all: &[Interface], wanted: Option<&str>) -> Vec<Interface> {
    let groups = match wanted {
        Some(list) => vec![list],
        None => vec!["ib", "^docker,lo", "docker", "lo"],
    };
    let chosen = groups
        .into_iter()
        .map(|group| Filter::parse(group).select(all))
        .find(|chosen| !chosen.is_empty());
    let mut chosen = chosen.unwrap_or_default();
    chosen.sort_by(|one, other| one.name.cmp(&other.name));
    chosen.truncate(DEVICES_MAX);
    chosen
}

/// A parsed interface list in NCCL's syntax.
struct Filter<'a> {
    exclude: bool,
    exact: bool,
    names: Vec<&'a str>,
}

impl<'a> Filter<'a> {
    fn parse(text: &'a str) -> Self {
        let (exclude, text) = text
            .strip_prefix('^')
            .map_or((false, text), |rest| (true, rest));
        let (exact, text) = text
            .strip_prefix('=')
            .map_or((false, text), |rest| (true, rest));
        // A port after a name is for InfiniBand and ignored here.
        let names = text
            .split(',')
            .map(|name| name.split(':').next().unwrap_or_default().trim());
        Self {
            exclude,
            exact,
            names: names.filter(|name| !name.is_empty()).collect(),
        }
    }

    fn select(&self, all: &[Interface]) -> Vec<Interface> {
        all.iter()
            .filter(|interface| self.admits(&interface.name))
            .cloned()
            .collect()
    }

    fn admits(&self, name: &str) -> bool {
        let named = self.names.iter().any(|wanted| {
            if self.exact {
                name == *wanted
            } else {
                name.starts_with(wanted)
            }
        });
        named != self.exclude
    }
}

/// Every interface that is up and has an address of `family`, with one address each. IPv4 is
/// preferred to IPv6, and link-local addresses are last.
pub(crate) fn interfaces(family: Option<Family>) -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    for candidate in addresses()? {
        let fits = match family {
            None => true,
            Some(Family::V4) => candidate.address.is_ipv4(),
            Some(Family::V6) => candidate.address.is_ipv6(),
        };
        if !fits {
            continue;
        }
        match found.iter_mut().find(|known| known.name == candidate.name) {
            Some(known) if preference(&candidate.address) < preference(&known.address) => {
                *known = candidate
            }
            Some(_) => {}
            None => found.push(candidate),
        }
    }
    Ok(found)
}

fn preference(address: &SocketAddr) -> u8 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) if !v6.ip().is_unicast_link_local() => 1,
        SocketAddr::V6(_) => 2,
    }
}

/// Every address of every interface that is up.
fn addresses() -> io::Result<Vec<Interface>> {
    let mut head = ptr::null_mut();
    // SAFETY: `head` is ours to write.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = head;
    // SAFETY: the list that getifaddrs made is valid until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        found.extend(interface_of(entry));
        next = entry.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs and nothing of it is kept.
    unsafe { libc::freeifaddrs(head) };
    Ok(found)
}

fn interface_of(entry: &libc::ifaddrs) -> Option<Interface> {
    if entry.ifa_flags & libc::IFF_UP as u32 == 0 || entry.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: a non-null `ifa_addr` starts with its family.
    let family = i32::from(unsafe { (*entry.ifa_addr).sa_family });
    let length = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    // SAFETY: an address of this family is `length` bytes long.
    let source = unsafe { slice::from_raw_parts(entry.ifa_addr.cast::<u8>(), length) };
    let mut bytes = [0; 28];
    bytes[..length].copy_from_slice(source);
    // SAFETY: getifaddrs gives a terminated name.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_str().ok()?;
    Some(Interface {
        name: name.to_owned(),
        address: wire::decode_host(&bytes).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &str, wanted: Option<&str>) -> String {
        let address = "10.0.1.25:0".parse().unwrap();
        let all: Vec<Interface> = all
            .split(' ')
            .map(|name| Interface {
                name: name.to_owned(),
                address,
            })
            .collect();
        choose(&all, wanted)
            .into_iter()
            .map(|interface| interface.name)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn interfaces_are_chosen_as_nccl_chooses_them() {
        let all = "lo eth2 eth10 eth1 docker0 ens5";
        let check = |wanted: &str, expected: &str| {
            assert_eq!(names(all, Some(wanted)), expected, "{wanted}")
        };
        check("eth", "eth1 eth10 eth2");
        check("eth1", "eth1 eth10");
        check("=eth1", "eth1");
        check("=eth2,eth1", "eth1 eth2");
        check("eth1:1,ens", "ens5 eth1 eth10");
        check("^eth", "docker0 ens5 lo");
        check("^=eth1,lo", "docker0 ens5 eth10 eth2");
        check("lo", "lo");
        check("wlan", "");
    }

    #[test]
    fn loopback_is_a_device_only_when_nothing_else_is() {
        assert_eq!(names("lo eth0 docker0", None), "eth0");
        assert_eq!(names("lo docker0", None), "docker0");
        assert_eq!(names("lo", None), "lo");
        assert_eq!(names("eth0 ib0", None), "ib0");
    }

    #[test]
    fn there_are_sixteen_devices_at_most() {
        let all: Vec<String> = (0..20).map(|number| format!("eth{number:02}")).collect();
        assert_eq!(
            names(&all.join(" "), Some("eth")).split(' ').count(),
            DEVICES_MAX
        );
    }

    #[test]
    fn the_machine_has_a_loopback_with_an_ipv4_address() {
        let all = interfaces(Some(Family::V4)).unwrap();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        assert_eq!(lo.address, "127.0.0.1:0".parse().unwrap());
        assert_eq!(Device::from_sysfs(lo.clone()).pci_path, None);
    }
}
