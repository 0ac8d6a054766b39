//! A socket address as stored in the file: four words.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Words of an address in the file.
pub(crate) const ADDRESS_WORDS: usize = 4;

/// Bytes of the largest socket address that a connect handle begins with.
pub const SOCKADDR_BYTES: usize = 28;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// IP address.
    pub ip: IpAddr,
    /// TCP port.
    pub port: u16,
    /// IPv6 scope: the interface index of a link-local address, otherwise 0.
    pub scope: u32,
}

impl Address {
    /// Reads a `sockaddr_in` or `sockaddr_in6`. `None` for any other family, and for port 0 or
    /// the unspecified address, which identify no connection.
    pub fn from_sockaddr(bytes: &[u8; SOCKADDR_BYTES]) -> Option<Self> {
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let (ip, scope) = match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => (IpAddr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?), 0),
            libc::AF_INET6 => {
                let scope = u32::from_ne_bytes(bytes[24..28].try_into().ok()?);
                (
                    IpAddr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?),
                    scope,
                )
            }
            _ => return None,
        };
        (port != 0 && !ip.is_unspecified()).then_some(Self { ip, port, scope })
    }

    pub(crate) fn to_words(self) -> [u64; ADDRESS_WORDS] {
        let (family, octets) = match self.ip {
            IpAddr::V4(ip) => (4u64, u128::from_le_bytes(spread(ip))),
            IpAddr::V6(ip) => (6, u128::from_le_bytes(ip.octets())),
        };
        [
            family | u64::from(self.port) << 16 | u64::from(self.scope) << 32,
            octets as u64,
            (octets >> 64) as u64,
            0,
        ]
    }

    pub(crate) fn from_words(words: [u64; ADDRESS_WORDS]) -> Option<Self> {
        let octets = (u128::from(words[2]) << 64 | u128::from(words[1])).to_le_bytes();
        let ip = match words[0] as u16 {
            4 => Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into(),
            6 => Ipv6Addr::from(octets).into(),
            _ => return None,
        };
        Some(Self {
            ip,
            port: (words[0] >> 16) as u16,
            scope: (words[0] >> 32) as u32,
        })
    }
}

fn spread(ip: Ipv4Addr) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..4].copy_from_slice(&ip.octets());
    octets
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.ip, self.scope) {
            (IpAddr::V4(ip), _) => write!(f, "{ip}:{}", self.port),
            (IpAddr::V6(ip), 0) => write!(f, "[{ip}]:{}", self.port),
            (IpAddr::V6(ip), scope) => write!(f, "[{ip}%{scope}]:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(family: u16, port: u16, ip: [u8; 4]) -> [u8; SOCKADDR_BYTES] {
        // The bytes after an IPv4 address are arbitrary plugin memory.
        let mut bytes = [0xa5; SOCKADDR_BYTES];
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&ip);
        bytes
    }

    #[test]
    fn an_address_survives_the_file() {
        let address = Address::from_sockaddr(&v4(2, 40001, [10, 0, 1, 25])).unwrap();
        assert_eq!(address.to_string(), "10.0.1.25:40001");
        let mut bytes = v4(10, 7, [0; 4]);
        bytes[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        bytes[24..28].copy_from_slice(&3u32.to_ne_bytes());
        let six = Address::from_sockaddr(&bytes).unwrap();
        assert_eq!(six.to_string(), "[::1%3]:7");
        for address in [address, six] {
            assert_eq!(Address::from_words(address.to_words()), Some(address));
        }
    }

    #[test]
    fn other_bytes_are_no_address() {
        for bytes in [
            v4(1, 5, [1; 4]),
            v4(2, 0, [1; 4]),
            v4(2, 5, [0; 4]),
            [0; SOCKADDR_BYTES],
        ] {
            assert_eq!(Address::from_sockaddr(&bytes), None);
        }
        assert_eq!(Address::from_words([5, 1, 1, 0]), None);
    }
}
