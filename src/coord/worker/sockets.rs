//! The plugin's sockets, found among this process's descriptors.
#![forbid(unsafe_code)]

use rustix::fd::{AsFd, BorrowedFd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One connected TCP socket of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// Every connected IP socket that is open now.
pub(super) fn flows() -> Vec<Flow> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers: Vec<i32> = folder
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
        })
        .collect();
    numbers.into_iter().filter_map(flow_of).collect()
}

/// Reads the addresses through a duplicate, because the plugin may close the descriptor and reuse
/// its number at any time.
fn flow_of(number: i32) -> Option<Flow> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if !link
        .to_str()
        .is_some_and(|name| name.starts_with("socket:"))
    {
        return None;
    }
    let socket = crate::process::spawn::peek(number)?;
    addresses(socket.as_fd())
}

fn addresses(socket: BorrowedFd<'_>) -> Option<Flow> {
    let local = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    let peer = SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()?;
    Some(Flow { local, peer })
}

/// The flows that belong to a TCPX connect handle, which holds the addresses of two listeners: on
/// the sending end, flows whose peer is one of the listeners; on the receiving end, flows whose
/// local address is.
pub(super) fn of_handle(flows: &[Flow], handle: &[u8; 128], sends: bool) -> Vec<Flow> {
    let listeners = [address_at(handle, 0), address_at(handle, 48)];
    let mine = |flow: &&Flow| {
        let end = if sends { flow.peer } else { flow.local };
        listeners.contains(&Some(end))
    };
    flows.iter().filter(mine).copied().collect()
}

/// A `sockaddr` inside the handle; used only for display, because the format is not documented.
fn address_at(handle: &[u8; 128], at: usize) -> Option<SocketAddr> {
    let bytes = handle.get(at..at + 28)?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7])),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_found_by_the_listener_named_in_its_handle() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let stream = TcpStream::connect(listener.local_addr().expect("named")).expect("connected");
        let (accepted, _) = listener.accept().expect("accepted");
        let mut handle = [0; 128];
        handle[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        handle[2..4].copy_from_slice(&listener.local_addr().expect("named").port().to_be_bytes());
        handle[4..8].copy_from_slice(&[127, 0, 0, 1]);
        let flows = flows();
        let ours = of_handle(&flows, &handle, true);
        assert_eq!(ours.len(), 1);
        assert_eq!(Some(ours[0].local), stream.local_addr().ok());
        let theirs = of_handle(&flows, &handle, false);
        assert_eq!(theirs.len(), 1);
        assert_eq!(Some(theirs[0].peer), accepted.peer_addr().ok());
    }
}
