//! Sends small traffic between nodes to measure the network between them.

use crate::lab::{Lab, address};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Time limit for an expected packet, long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// A packet that has not arrived after this time is lost.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);
/// Packets of one burst, which fit into a receive buffer.
const BURST: u32 = 100;

/// A datagram socket in a node, on one of its interfaces; it never fragments.
pub(crate) fn datagrams(lab: &Lab, node: &str, interface: &str) -> UdpSocket {
    let socket = lab
        .inside(node, || UdpSocket::bind((address(node, interface), 0)))
        .unwrap();
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Two connected datagram sockets, one per node, on one network.
pub(crate) fn pair(lab: &Lab, interface: &str) -> [UdpSocket; 2] {
    let [one, other] = ["node0", "node1"].map(|node| datagrams(lab, node, interface));
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    [one, other]
}

/// Sends numbered packets as one burst; returns the numbers in order of arrival. Ends once all
/// have arrived, or none has arrived for this time.
pub(crate) fn burst(from: &UdpSocket, to: &UdpSocket, patience: Duration) -> Vec<u32> {
    for number in 0..BURST {
        from.send(&number.to_le_bytes()).unwrap();
    }
    to.set_read_timeout(Some(patience)).unwrap();
    let mut arrived = Vec::new();
    let mut number = [0; 4];
    while let Ok(4) = to.recv(&mut number) {
        arrived.push(u32::from_le_bytes(number));
        if arrived.len() == BURST as usize {
            break;
        }
    }
    arrived
}

/// Checks that every packet arrives, in order, each way.
pub(crate) fn is_whole(lab: &Lab, interface: &str) {
    let [one, other] = pair(lab, interface);
    let all: Vec<u32> = (0..BURST).collect();
    assert_eq!(
        burst(&one, &other, PATIENCE),
        all,
        "{interface}, from node0"
    );
    assert_eq!(
        burst(&other, &one, PATIENCE),
        all,
        "{interface}, from node1"
    );
}

/// The share of packets in `bursts` bursts that arrives.
pub(crate) fn share_that_arrives(from: &UdpSocket, to: &UdpSocket, bursts: u32) -> f64 {
    let mut arrived = 0;
    let mut take = |patience| {
        to.set_read_timeout(Some(patience)).unwrap();
        while to.recv(&mut [0; 16]).is_ok() {
            arrived += 1;
        }
    };
    for _ in 0..bursts {
        (0..BURST).for_each(|_| assert_eq!(from.send(&[0; 4]).unwrap(), 4));
        // Late packets are counted after the next burst.
        take(Duration::from_millis(5));
    }
    take(SILENCE);
    f64::from(arrived) / f64::from(bursts * BURST)
}

/// Connects from one node to an address of the other, with a short time limit.
pub(crate) fn connect(lab: &Lab, from: &str, to: SocketAddr) -> io::Result<TcpStream> {
    lab.inside(from, || TcpStream::connect_timeout(&to, SILENCE))
}

/// A stream from node0 to node1 over one network.
pub(crate) fn stream(lab: &Lab, interface: &str) -> [TcpStream; 2] {
    let listener = lab
        .inside("node1", || {
            TcpListener::bind((address("node1", interface), 0))
        })
        .unwrap();
    let to = listener.local_addr().unwrap();
    let one = lab
        .inside("node0", || TcpStream::connect_timeout(&to, PATIENCE))
        .unwrap();
    let (other, _) = listener.accept().unwrap();
    [one, other].map(|stream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    })
}

/// The minimum of ten round trip times.
pub(crate) fn round_trip(lab: &Lab, interface: &str) -> Duration {
    let [one, other] = pair(lab, interface);
    let mut byte = [0];
    let trips = (0..10).map(|_| {
        let since = Instant::now();
        one.send(&[1]).unwrap();
        other.recv(&mut byte).unwrap();
        other.send(&[2]).unwrap();
        one.recv(&mut byte).unwrap();
        since.elapsed()
    });
    trips.min().unwrap()
}
