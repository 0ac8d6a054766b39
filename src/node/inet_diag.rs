//! TCP sockets of this network namespace with what the kernel knows of each:
//! queues, retransmits, round-trip time (`INET_DIAG` over netlink, `<linux/inet_diag.h>`).
//!
//! Needs no privilege. What comes is read with its own lengths.
#![forbid(unsafe_code)]

use super::{Fact, Root};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Answers of one dump that are read, of up to 32 KiB each.
const ANSWERS_MAX: usize = 256;
const PATIENCE: Duration = Duration::from_millis(100);
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const TCP: u8 = 6;
const TCP_INFO: u16 = 2;
/// All but listening and waiting to be forgotten.
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6);
const NETLINK_HEADER: usize = 16;
const DIAG_MESSAGE: usize = 72;

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// `ESTAB`, `CLOSE-WAIT`, ...
    pub state: String,
    /// Bytes received that nobody has read.
    pub recv_queue: u32,
    /// Bytes sent that are not acknowledged.
    pub send_queue: u32,
    /// Segments sent again, ever.
    pub retransmits: Option<u32>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// By which `/proc/PID/fd` names it.
    #[serde(default)]
    pub inode: u32,
    /// How sending and receiving go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<TcpFlow>,
}

/// What `struct tcp_info` says of a connection that does not get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFlow {
    /// Times that the oldest segment was sent again without an answer.
    pub timeouts: u8,
    /// Times that a closed window was asked after.
    pub probes: u8,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments taken for lost.
    pub lost: u32,
    /// Until it is sent again, microseconds.
    pub rto_us: u32,
    /// Segments that may be on the way.
    pub cwnd: u32,
    /// Since data was sent last.
    pub sent_ms_ago: u32,
    /// Since data came in last.
    pub received_ms_ago: u32,
    /// Bytes that were given to the socket and never sent.
    pub not_sent: Option<u32>,
    /// Time in which the peer's window kept it from sending, ever.
    pub peer_window_limited_us: Option<u64>,
}

/// Every TCP connection of this network namespace.
///
/// # Errors
/// The kernel's own.
pub fn tcp_sockets() -> io::Result<Vec<TcpSocket>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut all = dump(&socket, AddressFamily::INET)?;
    // A kernel without IPv6 has none.
    all.extend(dump(&socket, AddressFamily::INET6).unwrap_or_default());
    Ok(all)
}

fn dump(socket: &OwnedFd, family: AddressFamily) -> io::Result<Vec<TcpSocket>> {
    let mut question = Vec::with_capacity(72);
    question.extend(72u32.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST_DUMP.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([family.as_raw() as u8, TCP, 1 << (TCP_INFO - 1), 0]);
    question.extend(STATES.to_ne_bytes());
    question.resize(72, 0);
    send(socket, &question, SendFlags::empty())?;
    let (mut sockets, mut answer) = (Vec::new(), vec![0; 32 << 10]);
    for _ in 0..ANSWERS_MAX {
        let (length, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
        if take(&answer[..length.min(answer.len())], &mut sockets)? {
            return Ok(sockets);
        }
    }
    Ok(sockets)
}

/// Whether this was the last of it.
fn take(mut bytes: &[u8], sockets: &mut Vec<TcpSocket>) -> io::Result<bool> {
    while let Some(length) = u32_at(bytes, 0).map(|length| length as usize) {
        if length < NETLINK_HEADER || length > bytes.len() {
            break;
        }
        let body = &bytes[NETLINK_HEADER..length];
        match u16_at(bytes, 4) {
            Some(DONE) => return Ok(true),
            Some(ERROR) => {
                let code = u32_at(body, 0).map_or(0, u32::cast_signed);
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => sockets.extend(decode(body)),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn decode(message: &[u8]) -> Option<TcpSocket> {
    let (head, attributes) = message.split_at_checked(DIAG_MESSAGE)?;
    let ip = |at: usize| -> Option<IpAddr> {
        Some(match i32::from(head[0]) {
            libc::AF_INET => IpAddr::from(Ipv4Addr::from(*head.get(at..)?.first_chunk::<4>()?)),
            _ => IpAddr::from(Ipv6Addr::from(*head.get(at..)?.first_chunk::<16>()?)).to_canonical(),
        })
    };
    let port = |at: usize| Some(u16::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let info = info(attributes);
    Some(TcpSocket {
        local: SocketAddr::new(ip(8)?, port(4)?),
        peer: SocketAddr::new(ip(24)?, port(6)?),
        state: state(head[1]).to_owned(),
        recv_queue: u32_at(head, 56)?,
        send_queue: u32_at(head, 60)?,
        // Offsets of `struct tcp_info`: tcpi_total_retrans, tcpi_rtt.
        retransmits: info.and_then(|info| u32_at(info, 100)),
        rtt_us: info.and_then(|info| u32_at(info, 68)),
        inode: u32_at(head, 68)?,
        flow: info.and_then(flow),
    })
}

/// Offsets of `struct tcp_info` in `<linux/tcp.h>`; the last two came later.
fn flow(info: &[u8]) -> Option<TcpFlow> {
    Some(TcpFlow {
        timeouts: *info.get(2)?,
        probes: *info.get(3)?,
        unacked: u32_at(info, 24)?,
        lost: u32_at(info, 32)?,
        rto_us: u32_at(info, 8)?,
        cwnd: u32_at(info, 80)?,
        sent_ms_ago: u32_at(info, 44)?,
        received_ms_ago: u32_at(info, 52)?,
        not_sent: u32_at(info, 144),
        peer_window_limited_us: info.get(176..).and_then(|rest| Some(u64::from_ne_bytes(*rest.first_chunk()?))),
    })
}

/// The TCP connections of one process of this machine, as far as its open files
/// may be listed; at most `SOCKETS_OF_ONE_MAX`.
pub fn sockets_of(root: &Root, pid: u32) -> Fact<Vec<TcpSocket>> {
    let folder = format!("/proc/{pid}/fd");
    root.names(&folder).and_then(|names| {
        let inode = |name: &String| {
            let target = root.link(&format!("{folder}/{name}"));
            target.known()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok()
        };
        let ours: BTreeSet<u32> = names.iter().filter_map(inode).collect();
        let all = tcp_sockets().map_err(|error| format!("INET_DIAG: {error}"));
        Fact::from(all).map(|all| {
            let mine = all.into_iter().filter(|socket| ours.contains(&socket.inode));
            mine.take(SOCKETS_OF_ONE_MAX).collect()
        })
    })
}

/// Connections of one process that are kept.
const SOCKETS_OF_ONE_MAX: usize = 1024;

/// The attribute that is a `struct tcp_info`.
fn info(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == TCP_INFO {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// `<net/tcp_states.h>`, as `ss` writes them.
fn state(raw: u8) -> &'static str {
    match raw {
        1 => "ESTAB",
        2 => "SYN-SENT",
        3 => "SYN-RECV",
        4 => "FIN-WAIT-1",
        5 => "FIN-WAIT-2",
        7 => "CLOSED",
        8 => "CLOSE-WAIT",
        9 => "LAST-ACK",
        11 => "CLOSING",
        _ => "?",
    }
}

/// What an interface counts, those of `/sys/class/net/*/statistics` that say something.
pub fn nic_counters(root: &Root, interface: &str) -> Vec<(String, u64)> {
    let names = ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors"];
    // A name is a claim of the plugin's, and no path.
    if interface.contains('/') || interface.starts_with('.') {
        return Vec::new();
    }
    let read = |name: &&str| {
        let text = root.text(&format!("/sys/class/net/{interface}/statistics/{name}"));
        Some(((*name).to_owned(), text.known()?.trim().parse().ok()?))
    };
    names.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn a_connection_is_found_with_its_queue() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut here = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (_there, _) = listener.accept().expect("accepted");
        here.write_all(&[7; 300]).expect("written");
        let (local, peer) = (here.local_addr().expect("bound"), here.peer_addr().expect("connected"));
        let all = tcp_sockets().expect("the kernel tells");
        assert!(all.iter().any(|one| one.local == local && one.peer == peer && one.rtt_us.is_some()));
        let far = all.iter().find(|one| one.local == peer && one.peer == local).expect("the other end");
        assert_eq!((far.recv_queue, far.state.as_str()), (300, "ESTAB"));
    }

    #[test]
    fn an_interface_counts_and_a_path_is_none() {
        assert!(nic_counters(&Root::live(), "lo").iter().any(|(name, _)| name == "rx_bytes"));
        assert!(nic_counters(&Root::live(), "../../net/lo").is_empty());
    }

    proptest! {
        #[test]
        fn any_answer_ends(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = take(&bytes, &mut Vec::new());
        }
    }
}
