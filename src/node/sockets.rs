//! Listening TCP ports and the default route of this network namespace, from `/proc/net`, so
//! that a captured tree has both.
#![forbid(unsafe_code)]

use crate::printable;
use crate::{Fact, Root};
use std::collections::BTreeSet;

const FILE_BYTES_MAX: u64 = 8 << 20;
/// `TCP_LISTEN` of `<net/tcp_states.h>`.
const LISTEN: &str = "0A";

/// TCP ports with a listener, over IPv4 and IPv6.
pub(crate) fn listening(root: &Root) -> Fact<BTreeSet<u16>> {
    let of = |file: &str| {
        root.text_within(file, FILE_BYTES_MAX)
            .map(|text| text.lines().filter_map(port).collect::<BTreeSet<_>>())
    };
    // A kernel without IPv6 has no second file.
    let v6 = of("/proc/net/tcp6").known().cloned().unwrap_or_default();
    of("/proc/net/tcp").map(|v4| &v4 | &v6)
}

/// `  0: 0100007F:1F90 00000000:0000 0A …`
fn port(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    let (_, port) = local.rsplit_once(':')?;
    if state == LISTEN {
        u16::from_str_radix(port, 16).ok()
    } else {
        None
    }
}

/// The interface of the default IPv4 route, which is the control NIC if the node has one.
pub(crate) fn default_interface(root: &Root) -> Fact<String> {
    root.text("/proc/net/route").and_then(|text| {
        let routes = text.lines().skip(1).filter_map(|line| {
            let mut words = line.split_whitespace();
            let (interface, destination) = (words.next()?, words.next()?);
            let mask = words.nth(5)?;
            (destination == "00000000" && mask == "00000000").then(|| printable(interface))
        });
        routes
            .into_iter()
            .next()
            .ok_or_else(|| "/proc/net/route: no default route".to_owned())
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn ports_of_listeners_and_the_default_route_are_found() {
        let tree = fixture::tree(
            "proc/net/tcp =   sl  local_address rem_address   st
proc/net/tcp =    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000
proc/net/tcp =    1: 0100007F:1F91 0100007F:C350 01 00000000:00000000
proc/net/tcp6 =    0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A
proc/net/route = Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask
proc/net/route = eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF
proc/net/route = eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000",
        );
        assert_eq!(listening(&tree.root), Fact::Known([22, 8080].into()));
        assert_eq!(
            default_interface(&tree.root),
            Fact::Known("eth0".to_owned())
        );
        let empty = fixture::tree("proc/net/route = Iface");
        assert!(
            default_interface(&empty.root).why().is_some()
                && listening(&empty.root).why().is_some()
        );
    }

    #[test]
    fn a_listener_of_this_process_is_listed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listening(&Root::live()).known().unwrap().contains(&port));
    }
}
