//! IP addresses of this machine's interfaces, and the interface by which a peer
//! is reached. Both ask the running kernel, so a captured tree has neither.
#![expect(unsafe_code, reason = "walks the list that getifaddrs allocates")]

use crate::Fact;
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ptr::NonNull;

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// Interface name, or the label of an alias.
    pub interface: String,
    /// IPv4 or IPv6.
    pub address: IpAddr,
}

/// How a peer is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The local address that the kernel chooses towards the peer.
    pub local: IpAddr,
    /// The interface that holds that address. For a peer on this machine that is
    /// the interface with the peer's own address, though packets go through `lo`.
    pub interface: Fact<String>,
}

/// Every IPv4 and IPv6 address, in the kernel's order.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let list = List::get()?;
    let mut found = Vec::new();
    let mut next = list.head;
    while let Some(entry) = next {
        // SAFETY: `entry` is a node of the list, which `list` keeps alive and
        // nobody else knows.
        let entry = unsafe { entry.as_ref() };
        if let Some(address) = ip_of(entry.ifa_addr) {
            // SAFETY: getifaddrs(3) gives every entry a terminated name that
            // lives as long as the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(InterfaceAddress { interface: name.to_string_lossy().into_owned(), address });
        }
        next = NonNull::new(entry.ifa_next);
    }
    Ok(found)
}

/// The interface and address by which `peer` is reached. Connecting a datagram
/// socket makes the kernel choose a route; no packet leaves.
pub fn route_to(peer: IpAddr) -> Fact<Route> {
    let any = if peer.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let ask = || {
        let socket = UdpSocket::bind((any, 0))?;
        // Port 9 is `discard`; any but 0 does.
        socket.connect((peer, 9))?;
        let local = socket.local_addr()?.ip();
        Ok(Route { local, interface: holder_of(local, &addresses()?) })
    };
    ask().map_err(|error: io::Error| format!("no route to {peer}: {error}")).into()
}

fn holder_of(local: IpAddr, all: &[InterfaceAddress]) -> Fact<String> {
    let holder = all.iter().find(|held| held.address == local).map(|held| held.interface.clone());
    // All of 127.0.0.0/8 is the loopback's, though it lists one address.
    let holder = holder.or_else(|| {
        let loopback = all.iter().find(|held| local.is_loopback() && held.address.is_loopback());
        loopback.map(|held| held.interface.clone())
    });
    holder.ok_or_else(|| format!("no interface holds {local}")).into()
}

struct List {
    head: Option<NonNull<libc::ifaddrs>>,
}

impl List {
    fn get() -> io::Result<Self> {
        let mut head = std::ptr::null_mut();
        // SAFETY: getifaddrs writes one pointer to `head`, which is ours.
        match unsafe { libc::getifaddrs(&raw mut head) } {
            0 => Ok(Self { head: NonNull::new(head) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: the list came from getifaddrs and is freed once, here.
            unsafe { libc::freeifaddrs(head.as_ptr()) };
        }
    }
}

fn ip_of(address: *mut libc::sockaddr) -> Option<IpAddr> {
    let address = NonNull::new(address)?;
    // SAFETY: a non-null `ifa_addr` is at least a `sockaddr` with its family.
    let family = unsafe { address.as_ref() }.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: getifaddrs stores a whole `sockaddr_in` under AF_INET.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: getifaddrs stores a whole `sockaddr_in6` under AF_INET6.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_routes_to_itself() {
        for peer in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 9, 9, 9)] {
            let route = route_to(IpAddr::V4(peer)).known().cloned().unwrap();
            assert!(route.local.is_loopback(), "{route:?}");
            assert_eq!(route.interface, Fact::Known("lo".to_owned()));
        }
    }

    #[test]
    fn a_listed_address_is_reached_by_its_own_interface() {
        // A link-local address needs a scope that a bare address does not carry.
        let global = |held: &&InterfaceAddress| match held.address {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        for held in addresses().unwrap().iter().filter(global) {
            let route = route_to(held.address).known().cloned().unwrap();
            assert_eq!(route.interface, Fact::Known(held.interface.clone()));
        }
    }

    #[test]
    fn an_address_nobody_holds_is_said_so() {
        let lo = InterfaceAddress { interface: "lo".to_owned(), address: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        let holder = holder_of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 25)), &[lo]);
        assert_eq!(holder.why(), Some("no interface holds 10.0.1.25"));
    }
}
