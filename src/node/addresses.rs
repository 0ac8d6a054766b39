//! IP addresses of this machine's interfaces, and the route to a peer. Both ask the running
//! kernel, so a captured tree has neither.
#![forbid(unsafe_code)]

use crate::Fact;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterfaceAddress {
    /// Interface name, or the label of an alias (`eth0:1`).
    pub interface: String,
    /// IPv4 or IPv6.
    pub address: IpAddr,
}

/// The route to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The source address that the kernel chooses.
    pub local: IpAddr,
    /// The interface that holds the source address. For a peer on this machine this is the
    /// interface with the peer's address, although packets go through `lo`.
    pub interface: Fact<String>,
}

/// Every IPv4 and IPv6 address of this machine, in the kernel's order.
pub(crate) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let all = if_addrs::get_if_addrs()?;
    Ok(all
        .into_iter()
        .map(|one| InterfaceAddress {
            address: one.ip(),
            interface: one.name,
        })
        .collect())
}

/// The first address of an interface; IPv4 before IPv6.
pub fn address_of(interface: &str) -> Option<IpAddr> {
    let all = addresses().ok()?;
    let of_it = all.iter().filter(|one| one.interface == interface);
    of_it.map(|one| one.address).min_by_key(IpAddr::is_ipv6)
}

/// The IP addresses of this network namespace, in the kernel's order.
pub fn local_addresses() -> Fact<Vec<IpAddr>> {
    addresses()
        .map(|all| all.into_iter().map(|one| one.address).collect::<Vec<_>>())
        .map_err(|error| format!("the addresses of the interfaces: {error}"))
        .into()
}

/// The interface and source address of packets to `peer`. Connecting a datagram socket makes
/// the kernel choose a route; no packet is sent.
pub fn route_to(peer: IpAddr) -> Fact<Route> {
    let any = if peer.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let ask = || {
        let socket = UdpSocket::bind((any, 0))?;
        // Port 9 is `discard`; any port except 0 works.
        socket.connect((peer, 9))?;
        let local = socket.local_addr()?.ip();
        Ok(Route {
            local,
            interface: holder_of(local, &addresses()?),
        })
    };
    ask()
        .map_err(|error: io::Error| format!("no route to {peer}: {error}"))
        .into()
}

fn holder_of(local: IpAddr, all: &[InterfaceAddress]) -> Fact<String> {
    let holder = all
        .iter()
        .find(|held| held.address == local)
        .map(|held| held.interface.clone());
    // The loopback interface answers for all of 127.0.0.0/8, but lists one address.
    let holder = holder.or_else(|| {
        let loopback = all
            .iter()
            .find(|held| local.is_loopback() && held.address.is_loopback());
        loopback.map(|held| held.interface.clone())
    });
    holder
        .ok_or_else(|| format!("no interface holds {local}"))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_is_reached_through_lo() {
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
    fn an_address_that_no_interface_holds_is_an_error() {
        let lo = InterfaceAddress {
            interface: "lo".to_owned(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let holder = holder_of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 25)), &[lo]);
        assert_eq!(holder.why(), Some("no interface holds 10.0.1.25"));
    }
}
