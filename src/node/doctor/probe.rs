//! Probes the rails between two nodes: a small packet, a packet of the full MTU with
//! don't-fragment set, and sixteen TCP ports of the range that the plugin listens on.
//!
//! One node opens sockets and describes them in an [`Offer`], which is sent to the other
//! node; that node probes them and returns the results. Every socket is bound to its
//! interface, so a packet cannot take another path. Each packet carries the offer's token;
//! a packet without it gets no answer, and an answer is never longer than the packet it
//! answers. All rails are probed at once, so that every wait ends within `PATIENCE`.
//!
//! Not here: how an offer reaches the peer, and what the results mean.
#![forbid(unsafe_code)]

use super::pair::{ProbedRail, ProbedRails};
use crate::{Fact, NodeFacts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// TCP ports probed per rail.
pub(crate) const PORTS: usize = 16;
/// Longest time that probing all rails takes.
pub(crate) const PATIENCE: Duration = Duration::from_millis(600);
/// The sockets of an offer close after this time.
const OFFER_LIFE: Duration = Duration::from_secs(30);
/// Times that a packet is sent before it counts as lost.
const ATTEMPTS: u32 = 3;
const TOKEN_BYTES: usize = 16;
/// Bytes of the UDP header and of the IP header before it.
const fn headers(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 28,
        IpAddr::V6(_) => 48,
    }
}
const RAILS_MAX: usize = 64;
const MTU_MAX: u32 = 65_535;
const TICK: Duration = Duration::from_millis(100);

/// One rail of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailAddress {
    /// Name of the interface.
    pub name: String,
    /// An address of the interface.
    pub address: IpAddr,
    /// MTU of the interface, in bytes.
    pub mtu: u32,
}

/// The sockets that one node opened for the other to probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    token: [u8; TOKEN_BYTES],
    rails: Vec<OfferedRail>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedRail {
    name: String,
    echo: SocketAddr,
    ports: Vec<u16>,
    mtu: u32,
}

/// The interfaces in `names` that another node can reach at an address, and that have a known MTU.
pub fn rails(node: &NodeFacts, names: &[String]) -> Vec<RailAddress> {
    let nics = node.nics.known().map(Vec::as_slice).unwrap_or_default();
    let rail = |nic: &crate::Nic| {
        let address = *nic.reachable_at().known()?.first()?;
        Some(RailAddress {
            name: nic.name.clone(),
            address,
            mtu: *nic.mtu.known()?,
        })
    };
    nics.iter()
        .filter(|nic| names.contains(&nic.name))
        .filter_map(rail)
        .take(RAILS_MAX)
        .collect()
}

/// Threads that answer the probes; dropping it stops them.
pub struct Listening {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Opens a UDP echo and sixteen TCP ports on each of `rails`. The ports are spread over
/// `range`, the kernel's ephemeral ports.
///
/// # Errors
/// The echo cannot be bound to a rail's address, or there is no randomness for the token.
pub fn listen(rails: &[RailAddress], range: (u16, u16)) -> io::Result<(Listening, Offer)> {
    let mut token = [0; TOKEN_BYTES];
    getrandom::fill(&mut token).map_err(io::Error::other)?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut listening = Listening {
        stop: Arc::clone(&stop),
        threads: Vec::new(),
    };
    let mut offered = Vec::new();
    for rail in rails.iter().take(RAILS_MAX) {
        let echo = UdpSocket::bind((rail.address, 0))?;
        let ports = open_ports(rail.address, range);
        offered.push(OfferedRail {
            name: rail.name.clone(),
            mtu: rail.mtu,
            echo: echo.local_addr()?,
            ports: ports
                .iter()
                .filter_map(|port| Some(port.local_addr().ok()?.port()))
                .collect(),
        });
        let stop = Arc::clone(&stop);
        listening.threads.push(std::thread::spawn(move || {
            answer(&echo, &ports, &token, &stop)
        }));
    }
    Ok((
        listening,
        Offer {
            token,
            rails: offered,
        },
    ))
}

/// Listens on ports spread evenly over the range, or on the next free one where a port is
/// taken. No thread accepts: the kernel completes a connection into the backlog.
fn open_ports(address: IpAddr, (first, last): (u16, u16)) -> Vec<TcpListener> {
    let step = (usize::from(last.saturating_sub(first)) / PORTS).max(1);
    let near = |index: usize| {
        let from = usize::from(first) + index * step;
        (from..from + step.min(8))
            .find_map(|port| TcpListener::bind((address, u16::try_from(port).ok()?)).ok())
    };
    (0..PORTS).filter_map(near).collect()
}

/// Answers each packet with the token and the length that arrived. `_ports` stay open as
/// long as this runs.
fn answer(echo: &UdpSocket, _ports: &[TcpListener], token: &[u8], stop: &AtomicBool) {
    let until = Instant::now() + OFFER_LIFE;
    let mut packet = vec![0; MTU_MAX as usize];
    if echo.set_read_timeout(Some(TICK)).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        let Ok((length, from)) = echo.recv_from(&mut packet) else {
            continue;
        };
        if packet[..length].starts_with(token) {
            let mut reply = token.to_vec();
            reply.extend((length as u32).to_le_bytes());
            // If the reply is lost, the peer sends its packet again.
            let _ = echo.send_to(&reply[..reply.len().min(length)], from);
        }
    }
}

/// Probes every rail of `offer` from the rail of the same name here, all at once.
pub fn try_offer(offer: &Offer, rails: &[RailAddress]) -> ProbedRails {
    let until = Instant::now() + PATIENCE;
    let pairs = offer
        .rails
        .iter()
        .take(RAILS_MAX)
        .enumerate()
        .filter_map(|(index, there)| {
            let named = rails.iter().find(|rail| rail.name == there.name);
            Some((named.or_else(|| rails.get(index))?, there))
        });
    std::thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .map(|(here, there)| scope.spawn(move || try_rail(here, there, &offer.token, until)))
            .collect();
        ProbedRails {
            rails: threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .collect(),
        }
    })
}

fn try_rail(here: &RailAddress, there: &OfferedRail, token: &[u8], until: Instant) -> ProbedRail {
    // Either end may send packets as large as its own interface allows.
    let full = usize::try_from(
        here.mtu
            .max(there.mtu)
            .min(MTU_MAX)
            .saturating_sub(headers(here.address)),
    )
    .unwrap_or_default();
    let (small, full, closed) = std::thread::scope(|scope| {
        let full = scope.spawn(|| echoed(here, there, token, full, until));
        let closed = scope.spawn(|| closed(here, there, until));
        (
            echoed(here, there, token, token.len() + 4, until),
            full.join(),
            closed.join(),
        )
    });
    ProbedRail {
        name: here.name.clone(),
        to: there.echo.ip(),
        full_mtu: match &small {
            Ok(true) => fact_of(full),
            _ => Fact::unknown("a small packet did not come back either"),
        },
        reachable: fact_of(Ok(small)),
        ports_closed: fact_of(closed),
    }
}

fn fact_of<T>(answer: std::thread::Result<io::Result<T>>) -> Fact<T> {
    let answer = answer.unwrap_or_else(|_| Err(io::Error::other("the probe panicked")));
    answer.map_err(|error| error.to_string()).into()
}

/// A socket that can only use the rail's interface. Without the permission to bind to the
/// interface it is bound to the address alone.
fn on_rail(here: &RailAddress, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(SocketAddr::new(here.address, 0)),
        kind,
        Some(protocol),
    )?;
    if here.name != "lo"
        && let Err(error) = socket.bind_device(Some(here.name.as_bytes()))
        && error.kind() != io::ErrorKind::PermissionDenied
    {
        return Err(error);
    }
    socket.bind(&SocketAddr::new(here.address, 0).into())?;
    Ok(socket)
}

/// Whether the peer answers that a packet of `length` bytes arrived whole.
fn echoed(
    here: &RailAddress,
    there: &OfferedRail,
    token: &[u8],
    length: usize,
    until: Instant,
) -> io::Result<bool> {
    let socket = on_rail(here, Type::DGRAM, Protocol::UDP)?;
    never_fragment(&socket)?;
    socket.connect(&there.echo.into())?;
    let socket = UdpSocket::from(socket);
    let mut packet = token.to_vec();
    packet.resize(length.max(token.len() + 4), 0);
    let share = until.saturating_duration_since(Instant::now()) / ATTEMPTS;
    for _ in 0..ATTEMPTS {
        match socket.send(&packet) {
            // Longer than the interface's MTU, or than a path MTU that a router reported.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            sent => drop(sent?),
        }
        socket.set_read_timeout(Some(share.max(Duration::from_millis(1))))?;
        let mut reply = [0; TOKEN_BYTES + 4];
        match socket.recv(&mut reply) {
            Ok(got) if got == reply.len() && reply.starts_with(token) => {
                let arrived = u32::from_le_bytes([reply[16], reply[17], reply[18], reply[19]]);
                if arrived as usize == packet.len() {
                    return Ok(true);
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(false)
}

/// Sets don't-fragment, whatever path MTU the kernel has cached.
fn never_fragment(socket: &Socket) -> io::Result<()> {
    use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE).map_err(io::Error::from)
}

/// The ports that did not accept a connection in time.
fn closed(here: &RailAddress, there: &OfferedRail, until: Instant) -> io::Result<Vec<u16>> {
    let mut waiting = Vec::new();
    for port in there.ports.iter().take(PORTS) {
        let socket = on_rail(here, Type::STREAM, Protocol::TCP)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SocketAddr::new(there.echo.ip(), *port).into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                waiting.push((*port, socket))
            }
            Err(error) => {
                let text = format!("cannot connect to port {port}: {error}");
                return Err(io::Error::other(text));
            }
        }
    }
    let mut closed = Vec::new();
    while !waiting.is_empty() && Instant::now() < until {
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|(_, socket)| PollFd::new(socket, PollFlags::OUT))
            .collect();
        let left = until.saturating_duration_since(Instant::now()).min(TICK);
        poll(
            &mut polled,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(left.subsec_nanos()),
            }),
        )?;
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        waiting.retain(|(port, socket)| {
            if !ready.next().unwrap_or_default() {
                return true;
            }
            if !matches!(socket.take_error(), Ok(None)) {
                closed.push(*port);
            }
            false
        });
    }
    closed.extend(waiting.iter().map(|(port, _)| *port));
    closed.sort_unstable();
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(mtu: u32) -> Vec<RailAddress> {
        vec![RailAddress {
            name: "lo".to_owned(),
            address: [127, 0, 0, 1].into(),
            mtu,
        }]
    }

    #[test]
    fn an_open_rail_passes_small_and_full_packets_and_connections() {
        let (listening, offer) = listen(&loopback(8244), (42_000, 43_000)).unwrap();
        assert_eq!(offer.rails[0].ports.len(), PORTS);
        let received: Offer =
            serde_json::from_str(&serde_json::to_string(&offer).unwrap()).unwrap();
        let tried = try_offer(&received, &loopback(8244));
        let [rail] = tried.rails.as_slice() else {
            panic!("{tried:?}")
        };
        assert_eq!(
            (&rail.reachable, &rail.full_mtu),
            (&Fact::Known(true), &Fact::Known(true)),
            "{rail:?}"
        );
        assert_eq!(rail.ports_closed, Fact::Known(vec![]));
        drop(listening);
        let rail = try_offer(&offer, &loopback(8244)).rails.remove(0);
        assert_eq!(rail.reachable, Fact::Known(false));
        assert!(rail.full_mtu.why().is_some());
        assert_eq!(rail.ports_closed.known().map(Vec::len), Some(PORTS));
    }

    #[test]
    fn a_packet_without_the_token_gets_no_answer() {
        let (_listening, mut offer) = listen(&loopback(1500), (42_000, 43_000)).unwrap();
        offer.token[0] ^= 1;
        let tried = try_offer(&offer, &loopback(1500));
        assert_eq!(tried.rails[0].reachable, Fact::Known(false));
    }
}
