//! Addresses of both families, IPv4 and IPv6, on one socket.
#![forbid(unsafe_code)]

use super::listen::BACKLOG;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Listens at an address. `[::]` is every address of both families where this machine has IPv6, and
/// every IPv4 address where it has none.
///
/// # Errors
/// The address cannot be listened on.
pub fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    if address != SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port())) {
        return TcpListener::bind(address);
    }
    let both = || {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
        // `net.ipv6.bindv6only` may be set.
        socket.set_only_v6(false)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    both().or_else(|error: io::Error| match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        _ => Err(error),
    })
}

/// An address as one of its family: a socket of both families has IPv4 addresses as
/// `::ffff:10.0.0.226`.
pub fn of_its_family(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(_) => address,
        // An address of IPv6 keeps its scope.
        IpAddr::V6(ip) => ip
            .to_ipv4_mapped()
            .map_or(address, |ip| (ip, address.port()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn every_address_is_one_of_both_families_and_is_shown_in_its_own() {
        let listener = listen_at("[::]:0".parse().expect("an address")).expect("listens");
        let port = listener.local_addr().expect("an address").port();
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().expect("an address");
            let Ok(near) = TcpStream::connect((ip, port)) else {
                // A machine without IPv6.
                assert!(ip.is_ipv6());
                continue;
            };
            let (_far, from) = listener.accept().expect("a connection");
            assert_eq!(of_its_family(from), near.local_addr().expect("an address"));
        }
        let scoped: SocketAddr = "[fe80::1%3]:7".parse().expect("an address");
        assert_eq!(of_its_family(scoped), scoped);
    }
}
