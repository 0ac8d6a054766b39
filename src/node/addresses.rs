//! IP addresses of this machine's interfaces, and the interface by which a peer
//! is reached. Both ask the running kernel, so a captured tree has neither.
#![forbid(unsafe_code)]

use crate::Fact;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterfaceAddress {
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

/// The interface and address by which `peer` is reached. Connecting a datagram
/// socket makes the kernel choose a route; no packet leaves.
pub fn route_to(peer: IpAddr) -> Fact<Route> {
    let any = if peer.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let ask = || {
        let socket = UdpSocket::bind((any, 0))?;
        // Port 9 is `discard`; any but 0 does.
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
    // All of 127.0.0.0/8 is the loopback's, though it lists one address.
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
        let lo = InterfaceAddress {
            interface: "lo".to_owned(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let holder = holder_of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 25)), &[lo]);
        assert_eq!(holder.why(), Some("no interface holds 10.0.1.25"));
    }
}
