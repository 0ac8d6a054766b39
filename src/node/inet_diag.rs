//! TCP sockets of this network namespace with what the kernel knows of each:
//! queues, retransmits, round-trip time (`INET_DIAG` over netlink, `<linux/inet_diag.h>`).
//!
//! Needs no privilege. What comes is read with its own lengths.
#![forbid(unsafe_code)]

use super::{Fact, Root};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::IPPROTO_TCP;
use netlink_packet_sock_diag::inet::nlas::{Nla, TcpInfo};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Answers of one dump that are read, of up to 32 KiB each.
const ANSWERS_MAX: usize = 256;
const PATIENCE: Duration = Duration::from_millis(100);
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
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut all = dump(&socket, AddressFamily::INET)?;
    // A kernel without IPv6 has none.
    all.extend(dump(&socket, AddressFamily::INET6).unwrap_or_default());
    Ok(all)
}

fn dump(socket: &OwnedFd, family: AddressFamily) -> io::Result<Vec<TcpSocket>> {
    let request = InetRequest {
        family: family.as_raw() as u8,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all() & !StateFlags::LISTEN & !StateFlags::TIME_WAIT,
        socket_id: SocketId::new_v4(),
    };
    let mut question = NetlinkMessage::from(SockDiagMessage::InetRequest(request));
    question.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.finalize();
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    send(socket, &bytes, SendFlags::empty())?;
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
    // One that is not understood is passed over, by its length.
    while let Ok(header) = NetlinkBuffer::new_checked(bytes) {
        let length = header.length() as usize;
        match NetlinkMessage::<SockDiagMessage>::deserialize(bytes).map(|message| message.payload) {
            Ok(NetlinkPayload::Done(_)) => return Ok(true),
            Ok(NetlinkPayload::Error(error)) => {
                return Err(io::Error::from_raw_os_error(
                    error.raw_code().saturating_neg(),
                ));
            }
            Ok(NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response))) => {
                sockets.push(decode(&response))
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn decode(response: &InetResponse) -> TcpSocket {
    let (head, id) = (&response.header, &response.header.socket_id);
    let info = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    });
    TcpSocket {
        local: SocketAddr::new(id.source_address.to_canonical(), id.source_port),
        peer: SocketAddr::new(id.destination_address.to_canonical(), id.destination_port),
        state: state(head.state).to_owned(),
        recv_queue: head.recv_queue,
        send_queue: head.send_queue,
        retransmits: info.map(|info| info.total_retrans),
        rtt_us: info.map(|info| info.rtt),
        inode: head.inode,
        flow: info.map(flow),
    }
}

fn flow(info: &TcpInfo) -> TcpFlow {
    TcpFlow {
        timeouts: info.retransmits,
        probes: info.probes,
        unacked: info.unacked,
        lost: info.lost,
        rto_us: info.rto,
        cwnd: info.snd_cwnd,
        sent_ms_ago: info.last_data_sent,
        received_ms_ago: info.last_data_recv,
        not_sent: Some(info.notsent_bytes),
        peer_window_limited_us: Some(info.rwnd_limited),
    }
}

/// The TCP connections of one process of this machine, as far as its open files
/// may be listed; at most `SOCKETS_OF_ONE_MAX`.
pub fn sockets_of(root: &Root, pid: u32) -> Fact<Vec<TcpSocket>> {
    let folder = format!("/proc/{pid}/fd");
    root.names(&folder).and_then(|names| {
        let inode = |name: &String| {
            let target = root.link(&format!("{folder}/{name}"));
            target
                .known()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse::<u32>()
                .ok()
        };
        let ours: BTreeSet<u32> = names.iter().filter_map(inode).collect();
        let all = tcp_sockets().map_err(|error| format!("INET_DIAG: {error}"));
        Fact::from(all).map(|all| {
            let mine = all
                .into_iter()
                .filter(|socket| ours.contains(&socket.inode));
            mine.take(SOCKETS_OF_ONE_MAX).collect()
        })
    })
}

/// Connections of one process that are kept.
const SOCKETS_OF_ONE_MAX: usize = 1024;

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
    let names = [
        "rx_bytes",
        "tx_bytes",
        "rx_packets",
        "tx_packets",
        "rx_dropped",
        "tx_dropped",
        "rx_errors",
    ];
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
        let mut here = std::net::TcpStream::connect(listener.local_addr().expect("an address"))
            .expect("connected");
        let (_there, _) = listener.accept().expect("accepted");
        here.write_all(&[7; 300]).expect("written");
        let (local, peer) = (
            here.local_addr().expect("bound"),
            here.peer_addr().expect("connected"),
        );
        let all = tcp_sockets().expect("the kernel tells");
        assert!(
            all.iter()
                .any(|one| one.local == local && one.peer == peer && one.rtt_us.is_some())
        );
        let far = all
            .iter()
            .find(|one| one.local == peer && one.peer == local)
            .expect("the other end");
        assert_eq!((far.recv_queue, far.state.as_str()), (300, "ESTAB"));
    }

    #[test]
    fn an_interface_counts_and_a_path_is_none() {
        assert!(
            nic_counters(&Root::live(), "lo")
                .iter()
                .any(|(name, _)| name == "rx_bytes")
        );
        assert!(nic_counters(&Root::live(), "../../net/lo").is_empty());
    }

    proptest! {
        #[test]
        fn any_answer_ends(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = take(&bytes, &mut Vec::new());
        }
    }
}
