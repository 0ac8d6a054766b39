//! TCP connections of this network namespace with queues, retransmits and round-trip time
//! (`INET_DIAG` over netlink, `<linux/inet_diag.h>`).
//!
//! Needs no privileges. Every length in an answer is checked against the bytes received.
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

/// Most answers that are read for one dump, of up to 32 KiB each.
const ANSWERS_MAX: usize = 256;
/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_millis(100);
/// One TCP connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub peer: SocketAddr,
    /// State as `ss` prints it: `ESTAB`, `CLOSE-WAIT`, ...
    pub state: String,
    /// Bytes received and not yet read by the process.
    pub recv_queue: u32,
    /// Bytes written and not yet acknowledged by the peer.
    pub send_queue: u32,
    /// Segments retransmitted since the connection was made.
    pub retransmits: Option<u32>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// Inode, as in the links of `/proc/PID/fd`.
    #[serde(default)]
    pub inode: u32,
    /// Retransmission state and recent activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<TcpFlow>,
}

impl TcpSocket {
    /// Segments that were lost: those retransmitted, without those that had arrived. A busy machine
    /// retransmits segments that are only late.
    pub fn lost_segments(&self) -> u32 {
        let duplicates = self.flow.and_then(|flow| flow.duplicates).unwrap_or(0);
        self.retransmits.unwrap_or(0).saturating_sub(duplicates)
    }
}

/// The fields of `struct tcp_info` that explain a connection without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFlow {
    /// Consecutive retransmissions of the oldest segment without an acknowledgement.
    pub timeouts: u8,
    /// Unanswered probes of a zero window.
    pub probes: u8,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments considered lost.
    pub lost: u32,
    /// Retransmission timeout, microseconds.
    pub rto_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Time since data was last sent, milliseconds.
    pub sent_ms_ago: u32,
    /// Time since data was last received, milliseconds.
    pub received_ms_ago: u32,
    /// Bytes written to the socket and not yet sent.
    pub not_sent: Option<u32>,
    /// Total time that the peer's receive window limited sending, microseconds.
    pub peer_window_limited_us: Option<u64>,
    /// Segments with data sent since the connection was made, retransmissions included; absent
    /// in frames of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_segments: Option<u32>,
    /// Segments that arrived twice, by the peer's acknowledgements: they were retransmitted
    /// although they were not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u32>,
}

/// Every TCP connection of this network namespace.
///
/// # Errors
/// The kernel's error.
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
    // A kernel without IPv6 returns an error.
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

/// Adds the connections in an answer to `sockets`. Returns whether the dump is complete.
fn take(mut bytes: &[u8], sockets: &mut Vec<TcpSocket>) -> io::Result<bool> {
    // A message that cannot be parsed is skipped by its length.
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
        data_segments: Some(info.data_segs_out),
        duplicates: Some(info.dsack_dups),
    }
}

/// The TCP connections of one process, if this user may list its open files; at most
/// `SOCKETS_OF_ONE_MAX`.
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

/// Most connections of one process that are kept.
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

/// Bytes, packets, drops and errors of an interface, from `/sys/class/net/*/statistics`.
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
    // The name may come from a plugin; it must not be a path.
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
    fn a_connection_is_listed_with_its_receive_queue() {
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
    fn an_interface_has_counters_and_a_path_has_none() {
        assert!(
            nic_counters(&Root::live(), "lo")
                .iter()
                .any(|(name, _)| name == "rx_bytes")
        );
        assert!(nic_counters(&Root::live(), "../../net/lo").is_empty());
    }

    proptest! {
        #[test]
        fn any_answer_is_parsed_to_its_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = take(&bytes, &mut Vec::new());
        }
    }
}
