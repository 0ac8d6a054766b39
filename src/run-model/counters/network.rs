//! TCP connections and interfaces of a worker at the end of its transfer: what the network lost,
//! also of a run that passed.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tcpx_fleet::attribute::Segments;
use tcpx_node::{Fact, Root, TcpSocket, nic_counters, sockets_of};

/// Counters of an interface that grow when it drops a packet.
const DROPS: [&str; 3] = ["rx_dropped", "tx_dropped", "rx_errors"];

/// What the network carried and lost for one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Established TCP connections by their two addresses, or why they are unknown.
    pub paths: Fact<Vec<PathUse>>,
    /// Packets that interfaces dropped during the transfer: interface, counter, count. Of all
    /// traffic of the node. Counters that did not grow are left out: an empty list is of interfaces that
    /// dropped none. What a queueing discipline or a firewall drops is in no counter of an interface.
    /// `None` if no interface tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<Vec<(String, String, u64)>>,
}

/// The connections of one process between two addresses, since they were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathUse {
    /// Address of this end.
    pub local: IpAddr,
    /// Address of the other end.
    pub peer: IpAddr,
    /// Number of connections.
    pub connections: u32,
    /// Segments with data that this end sent, retransmissions included.
    pub segments: u64,
    /// Segments that this end retransmitted.
    pub retransmits: u64,
    /// Retransmitted segments that had arrived before.
    #[serde(default)]
    pub duplicates: u64,
    /// Median of their smoothed round-trip times, microseconds.
    pub rtt_us: Option<u32>,
}

impl PathUse {
    /// Segments that this end lost. A busy machine retransmits some that have arrived, and drops some of
    /// those that it sends to itself.
    pub fn lost(&self) -> u64 {
        match self.local == self.peer {
            true => 0,
            false => self.retransmits.saturating_sub(self.duplicates),
        }
    }
}

impl NetworkUse {
    /// The segments that this end sent on all paths; `None` if they are unknown.
    pub fn segments(&self) -> Option<Segments> {
        let paths = self.paths.known()?.iter();
        let segments = paths.map(|path| Segments {
            sent: path.segments,
            lost: path.lost(),
        });
        segments.reduce(Segments::and)
    }
}

/// Counters of interfaces before a transfer.
#[derive(Debug, Clone, Default)]
pub struct NetworkBefore {
    drops: BTreeMap<(String, String), u64>,
}

impl NetworkBefore {
    /// Reads the counters of these interfaces.
    pub fn read(nics: impl IntoIterator<Item = String>) -> Self {
        let mut drops = BTreeMap::new();
        for nic in nics {
            for (counter, value) in nic_counters(&Root::live(), &nic) {
                if DROPS.contains(&counter.as_str()) {
                    drops.insert((nic.clone(), counter), value);
                }
            }
        }
        Self { drops }
    }

    /// What process `pid` has used of the network since.
    pub fn used(&self, pid: u32) -> NetworkUse {
        let nics: Vec<String> = self.drops.keys().map(|(nic, _)| nic.clone()).collect();
        let now = Self::read(nics).drops;
        let grown = now.into_iter().filter_map(|((nic, counter), value)| {
            let key = (nic, counter);
            let more = value.saturating_sub(*self.drops.get(&key)?);
            (more > 0).then_some((key.0, key.1, more))
        });
        NetworkUse {
            paths: sockets_of(&Root::live(), pid).map(|sockets: Vec<TcpSocket>| by_path(&sockets)),
            drops: (!self.drops.is_empty()).then(|| grown.collect()),
        }
    }
}

/// Sums of established connections by their two addresses.
fn by_path(sockets: &[TcpSocket]) -> Vec<PathUse> {
    let mut paths = BTreeMap::<(IpAddr, IpAddr), Vec<&TcpSocket>>::new();
    for socket in sockets.iter().filter(|socket| socket.state == "ESTAB") {
        let path = (socket.local.ip(), socket.peer.ip());
        paths.entry(path).or_default().push(socket);
    }
    let used = |((local, peer), sockets): ((IpAddr, IpAddr), Vec<&TcpSocket>)| {
        let sum = |count: fn(&TcpSocket) -> Option<u32>| {
            let counts = sockets.iter().filter_map(|socket| count(socket));
            counts.map(u64::from).sum()
        };
        let mut trips: Vec<u32> = sockets.iter().filter_map(|socket| socket.rtt_us).collect();
        trips.sort_unstable();
        PathUse {
            local,
            peer,
            connections: u32::try_from(sockets.len()).unwrap_or(u32::MAX),
            segments: sum(|socket| socket.flow?.data_segments),
            retransmits: sum(|socket| socket.retransmits),
            duplicates: sum(|socket| socket.flow?.duplicates),
            rtt_us: trips.get(trips.len() / 2).copied(),
        }
    };
    paths.into_iter().map(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn connections_of_this_process_are_summed_by_path() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut pairs = Vec::new();
        for _ in 0..3 {
            let mut here = std::net::TcpStream::connect(address).expect("connected");
            let (mut there, _) = listener.accept().expect("accepted");
            here.write_all(&[7; 100]).expect("written");
            there.read_exact(&mut [0; 100]).expect("read");
            pairs.push((here, there));
        }
        let used = NetworkBefore::read(["lo".to_owned()]).used(std::process::id());
        let paths = used.paths.known().expect("own connections are listed");
        let loopback = paths.iter().find(|path| path.local == address.ip());
        let loopback = loopback.expect("connections over loopback");
        assert!(
            loopback.connections >= 6 && loopback.segments >= 3 && loopback.rtt_us.is_some(),
            "{loopback:?}"
        );
    }

    #[test]
    fn only_drops_of_the_transfer_are_counted() {
        let mut before = NetworkBefore::read(["lo".to_owned()]);
        assert_eq!(before.drops.len(), DROPS.len(), "{before:?}");
        let used = before.used(std::process::id());
        assert_eq!(used.drops, Some(Vec::new()));
        let written = serde_json::to_value(&used).expect("a document");
        assert_eq!(written["drops"], serde_json::json!([]), "none is told");
        // A counter that started again, as after a driver's reset, has not grown.
        for value in before.drops.values_mut() {
            *value += 1_000_000;
        }
        assert_eq!(before.used(std::process::id()).drops, Some(Vec::new()));
        let of_none = NetworkBefore::read([]).used(std::process::id());
        assert_eq!(of_none.drops, None);
    }
}
