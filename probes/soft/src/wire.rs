//! The encoding of all messages between two software plugins: the connect handle, the hello that
//! opens every connection, and the 16-byte headers of the control socket. Data sockets carry raw
//! payload.
//!
//! The first 88 bytes of the handle, and the headers, have the layout of TCPX 3.1.9. The software
//! plugin adds a nonce in the handle's unused tail and the hello, with which it recognises
//! connections that do not belong to the comm.
//!
//! Decoders check every field; they never panic and never trust a length. Not here: sockets.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;

/// Bytes of the handle that `listen` writes; the caller's buffer is 128.
pub(crate) const HANDLE_BYTES: usize = 104;
/// Bytes of a v4 handle, the caller's whole buffer.
pub(crate) const SHORT_BYTES: usize = tcpx_abi::v4::HANDLE_MAX;
/// The bytes of the caller's buffer in which `connect` keeps its state; zero on the wire.
pub(crate) const TOKEN: Range<usize> = 80..88;
/// The listener's secret.
pub(crate) type Nonce = [u8; 16];
/// Identifies the connections of one `connect`.
pub(crate) type Session = [u8; 8];
/// Most data sockets of one comm.
pub(crate) const SOCKETS_MAX: usize = 8;
/// Most helper threads that a handle can request.
pub(crate) const THREADS_MAX: usize = 16;

const ADDRESS_BYTES: usize = 28;
const FAMILY_V4: u16 = 2;
const FAMILY_V6: u16 = 10;

/// Why received bytes are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The address family is neither IPv4 nor IPv6.
    Family(u16),
    /// An address without a port.
    NoPort,
    /// More data sockets than a comm can have.
    Sockets(i32),
    /// Helper threads outside 1..=16.
    Threads(i32),
    /// The hello does not start with the magic.
    Stranger,
    /// The hello of another protocol version.
    Version(u16),
    /// The hello is for the other listening socket, or has an unknown role.
    Role(u8),
    /// The hello has the wrong nonce.
    Nonce,
    /// A socket index that the comm does not have.
    Socket(u32),
    /// The header type is neither normal nor inline.
    HeaderType(u16),
    /// A task chunk that is empty or does not fit its message.
    Chunk {
        /// Bytes of the chunk.
        size: u32,
        /// Offset within the message.
        offset: u32,
        /// Bytes of the message.
        total: u32,
    },
    /// The message length exceeds an `int`.
    Total(u32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Family(family) => write!(out, "address family {family} is neither IPv4 nor IPv6"),
            Self::NoPort => write!(out, "address without a port"),
            Self::Sockets(count) => {
                write!(out, "{count} data sockets, expected 0 to {SOCKETS_MAX}")
            }
            Self::Threads(count) => write!(out, "{count} threads, expected 1 to {THREADS_MAX}"),
            Self::Stranger => write!(out, "not a software plugin"),
            Self::Version(version) => write!(out, "protocol version {version}, expected {VERSION}"),
            Self::Role(role) => write!(out, "socket role {role} on the wrong port"),
            Self::Nonce => write!(out, "wrong nonce"),
            Self::Socket(index) => write!(out, "data socket {index} does not exist"),
            Self::HeaderType(kind) => write!(out, "header type {kind}"),
            Self::Chunk {
                size,
                offset,
                total,
            } => write!(out, "chunk of {size} at {offset} in a message of {total}"),
            Self::Total(total) => write!(out, "message of {total} bytes"),
        }
    }
}

/// The connect handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Address for data sockets.
    pub data: SocketAddr,
    /// Address for the control socket.
    pub ctrl: SocketAddr,
    /// Data sockets of the comm; 0 when 9 or more threads share 8 sockets.
    pub sockets: usize,
    /// Helper threads of the comm.
    pub threads: usize,
    /// Whether the listener uses a separate control interface.
    pub redirect_ctrl: bool,
    /// Nonce that the connector must send.
    pub nonce: Nonce,
}

impl Handle {
    /// The bytes that `listen` writes to the caller's buffer.
    pub(crate) fn encode(&self) -> [u8; HANDLE_BYTES] {
        let mut out = [0; HANDLE_BYTES];
        out[..ADDRESS_BYTES].copy_from_slice(&encode_address(self.data));
        // port_start and port_count: fixed port ranges were never built.
        out[28..36].copy_from_slice(&[0xff; 8]);
        out[36..40].copy_from_slice(&(self.sockets as u32).to_ne_bytes());
        out[40..44].copy_from_slice(&(self.threads as u32).to_ne_bytes());
        out[44] = u8::from(self.redirect_ctrl);
        out[48..48 + ADDRESS_BYTES].copy_from_slice(&encode_address(self.ctrl));
        out[88..].copy_from_slice(&self.nonce);
        out
    }

    /// Encodes the handle in the 64 bytes of a v4 handle, which cannot hold two C socket
    /// addresses. The scope of a link-local address is lost.
    pub(crate) fn encode_short(&self) -> [u8; SHORT_BYTES] {
        let octets = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let mut out = [0; SHORT_BYTES];
        out[..16].copy_from_slice(&octets(self.data));
        out[16..32].copy_from_slice(&octets(self.ctrl));
        out[32..48].copy_from_slice(&self.nonce);
        out[48..50].copy_from_slice(&self.data.port().to_be_bytes());
        out[50..52].copy_from_slice(&self.ctrl.port().to_be_bytes());
        out[52] = self.sockets as u8;
        out[53] = self.threads as u8;
        out[54] = u8::from(self.redirect_ctrl);
        out
    }

    /// Converts an untrusted short handle to a long one.
    pub(crate) fn lengthen(bytes: &[u8; SHORT_BYTES]) -> Result<[u8; HANDLE_BYTES], Malformed> {
        let address = |ip: usize, port: usize| {
            let ip = Ipv6Addr::from(array::<16>(bytes, ip)).to_canonical();
            let port = u16::from_be_bytes(array(bytes, port));
            if port == 0 {
                Err(Malformed::NoPort)
            } else {
                Ok(SocketAddr::new(ip, port))
            }
        };
        let (sockets, threads) = (i32::from(bytes[52]), i32::from(bytes[53]));
        let handle = Self {
            data: address(0, 48)?,
            ctrl: address(16, 50)?,
            sockets: in_range(sockets, 0, SOCKETS_MAX).ok_or(Malformed::Sockets(sockets))?,
            threads: in_range(threads, 1, THREADS_MAX).ok_or(Malformed::Threads(threads))?,
            redirect_ctrl: bytes[54] != 0,
            nonce: array(bytes, 32),
        };
        Ok(handle.encode())
    }

    /// Decodes an untrusted handle.
    pub(crate) fn decode(bytes: &[u8; HANDLE_BYTES]) -> Result<Self, Malformed> {
        let sockets = i32::from_ne_bytes(array(bytes, 36));
        let threads = i32::from_ne_bytes(array(bytes, 40));
        Ok(Self {
            data: decode_address(&array(bytes, 0))?,
            ctrl: decode_address(&array(bytes, 48))?,
            sockets: in_range(sockets, 0, SOCKETS_MAX).ok_or(Malformed::Sockets(sockets))?,
            threads: in_range(threads, 1, THREADS_MAX).ok_or(Malformed::Threads(threads))?,
            redirect_ctrl: bytes[44] != 0,
            nonce: array(bytes, 88),
        })
    }
}

/// A socket address as the C `sockaddr_in` or `sockaddr_in6` it is on Linux.
pub(crate) fn encode_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut out = [0; ADDRESS_BYTES];
    out[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            out[..2].copy_from_slice(&FAMILY_V4.to_ne_bytes());
            out[4..8].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out[..2].copy_from_slice(&FAMILY_V6.to_ne_bytes());
            out[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            out[8..24].copy_from_slice(&v6.ip().octets());
            out[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    out
}

/// Length of an encoded address for the kernel.
pub(crate) fn address_bytes(address: &SocketAddr) -> usize {
    if address.is_ipv4() { 16 } else { ADDRESS_BYTES }
}

fn decode_address(bytes: &[u8; ADDRESS_BYTES]) -> Result<SocketAddr, Malformed> {
    let address = decode_host(bytes)?;
    if address.port() == 0 {
        Err(Malformed::NoPort)
    } else {
        Ok(address)
    }
}

/// Decodes an address that may have port 0, such as that of an interface.
pub(crate) fn decode_host(bytes: &[u8; ADDRESS_BYTES]) -> Result<SocketAddr, Malformed> {
    let port = u16::from_be_bytes(array(bytes, 2));
    match u16::from_ne_bytes(array(bytes, 0)) {
        FAMILY_V4 => Ok(SocketAddrV4::new(Ipv4Addr::from(array::<4>(bytes, 4)), port).into()),
        FAMILY_V6 => {
            let ip = Ipv6Addr::from(array::<16>(bytes, 8));
            let (flow, scope) = (
                u32::from_be_bytes(array(bytes, 4)),
                u32::from_ne_bytes(array(bytes, 24)),
            );
            Ok(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        family => Err(Malformed::Family(family)),
    }
}

const MAGIC: [u8; 8] = *b"TCPXSOFT";
/// Must change whenever an encoding in this file changes.
const VERSION: u16 = 1;
/// Bytes of a [`Hello`].
pub(crate) const HELLO_BYTES: usize = 40;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The comm's control socket.
    Ctrl,
    /// One of its data sockets.
    Data,
}

/// The first bytes on every connection, from the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Purpose of the connection.
    pub purpose: Purpose,
    /// Socket index; for the control socket the number of data sockets.
    pub index: usize,
    /// The nonce of the handle.
    pub nonce: Nonce,
    /// Session chosen by the connector, the same on all its sockets.
    pub session: Session,
}

impl Hello {
    /// The bytes to send.
    pub(crate) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = [0; HELLO_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10] = match self.purpose {
            Purpose::Ctrl => 0,
            Purpose::Data => 1,
        };
        out[12..16].copy_from_slice(&(self.index as u32).to_le_bytes());
        out[16..32].copy_from_slice(&self.nonce);
        out[32..].copy_from_slice(&self.session);
        out
    }

    /// Decodes a hello, which must have `nonce`.
    pub(crate) fn decode(bytes: &[u8; HELLO_BYTES], nonce: &Nonce) -> Result<Self, Malformed> {
        if bytes[..8] != MAGIC {
            return Err(Malformed::Stranger);
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let purpose = match bytes[10] {
            0 => Purpose::Ctrl,
            1 => Purpose::Data,
            role => return Err(Malformed::Role(role)),
        };
        if array::<16>(bytes, 16) != *nonce {
            return Err(Malformed::Nonce);
        }
        let index = u32::from_le_bytes(array(bytes, 12));
        let index = usize::try_from(index)
            .ok()
            .filter(|index| *index <= SOCKETS_MAX);
        let index = index.ok_or(Malformed::Socket(u32::from_le_bytes(array(bytes, 12))))?;
        Ok(Self {
            purpose,
            index,
            nonce: *nonce,
            session: array(bytes, 32),
        })
    }
}

/// Bytes of a [`Header`].
pub(crate) const HEADER_BYTES: usize = 16;

/// How the payload of a header is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// As a task chunk on the data socket of this index.
    Socket(usize),
    /// After the header on the control socket, as a whole message.
    Inline,
}

/// Announces one task chunk, or one whole inline message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// How the bytes are sent.
    pub route: Route,
    /// Bytes of this chunk.
    pub size: u32,
    /// Offset of the chunk within the message.
    pub offset: u32,
    /// Bytes of the message.
    pub total: u32,
}

impl Header {
    /// The bytes to send.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let (kind, index) = match self.route {
            Route::Socket(index) => (0u16, index as u16),
            Route::Inline => (1u16, 0),
        };
        let mut out = [0; HEADER_BYTES];
        out[..2].copy_from_slice(&kind.to_le_bytes());
        out[2..4].copy_from_slice(&index.to_le_bytes());
        out[4..8].copy_from_slice(&self.size.to_le_bytes());
        out[8..12].copy_from_slice(&self.offset.to_le_bytes());
        out[12..].copy_from_slice(&self.total.to_le_bytes());
        out
    }

    /// Decodes a header for a comm with `sockets` data sockets. Checks that it is consistent in
    /// itself; the caller must check that it fits the receive.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], sockets: usize) -> Result<Self, Malformed> {
        let kind = u16::from_le_bytes(array(bytes, 0));
        let index = usize::from(u16::from_le_bytes(array(bytes, 2)));
        let size = u32::from_le_bytes(array(bytes, 4));
        let offset = u32::from_le_bytes(array(bytes, 8));
        let total = u32::from_le_bytes(array(bytes, 12));
        let route = match kind {
            0 if index < sockets => Route::Socket(index),
            0 => return Err(Malformed::Socket(index as u32)),
            1 => Route::Inline,
            kind => return Err(Malformed::HeaderType(kind)),
        };
        if i32::try_from(total).is_err() {
            return Err(Malformed::Total(total));
        }
        let whole = match route {
            Route::Inline => offset == 0 && size == total,
            Route::Socket(_) => size > 0 && size <= total && offset <= total - size,
        };
        if whole {
            Ok(Self {
                route,
                size,
                offset,
                total,
            })
        } else {
            Err(Malformed::Chunk {
                size,
                offset,
                total,
            })
        }
    }
}

/// The type of a tag message: the tag of the next announced message.
const TAG: u16 = 2;

/// Plain flavour: encodes the tag that is sent before a message's first header.
pub(crate) fn encode_tag(tag: i32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..2].copy_from_slice(&TAG.to_le_bytes());
    out[4..8].copy_from_slice(&tag.to_le_bytes());
    out
}

/// The tag; `None` if the bytes are a header.
pub(crate) fn decode_tag(bytes: &[u8; HEADER_BYTES]) -> Option<i32> {
    let tag = i32::from_le_bytes(array(bytes, 4));
    (*bytes == encode_tag(tag)).then_some(tag)
}

/// `N` bytes at `at`. Callers pass constants within the slice.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(part) = bytes.get(at..at + N) {
        out.copy_from_slice(part);
    }
    out
}

fn in_range(value: i32, least: usize, most: usize) -> Option<usize> {
    usize::try_from(value)
        .ok()
        .filter(|value| (least..=most).contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handle() -> Handle {
        Handle {
            data: "10.0.1.25:4000".parse().unwrap(),
            ctrl: "[fe80::1%3]:4001"
                .parse()
                .unwrap_or("[fe80::1]:4001".parse().unwrap()),
            sockets: 4,
            threads: 1,
            redirect_ctrl: true,
            nonce: *b"0123456789abcdef",
        }
    }

    #[test]
    fn a_handle_has_the_layout_of_tcpx() {
        let bytes = handle().encode();
        assert_eq!(bytes[..8], [2, 0, 0x0f, 0xa0, 10, 0, 1, 25]);
        assert_eq!(bytes[28..36], [0xff; 8]);
        assert_eq!(bytes[36..45], [4, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(bytes[TOKEN], [0; 8]);
        assert_eq!(Handle::decode(&bytes), Ok(handle()));
    }

    #[test]
    fn a_short_handle_converts_to_the_long_one() {
        let handle = Handle {
            ctrl: "[2001:db8::1]:4001".parse().unwrap(),
            ..handle()
        };
        assert_eq!(
            Handle::lengthen(&handle.encode_short()),
            Ok(handle.encode())
        );
        let check = |at: usize, value: u8, expected: Malformed| {
            let mut bytes = handle.encode_short();
            bytes[at] = value;
            assert_eq!(Handle::lengthen(&bytes), Err(expected));
        };
        check(52, 9, Malformed::Sockets(9));
        check(53, 0, Malformed::Threads(0));
        assert_eq!(Handle::lengthen(&[0; SHORT_BYTES]), Err(Malformed::NoPort));
    }

    #[test]
    fn an_invalid_handle_is_refused() {
        let check = |at: usize, value: u8, expected: Malformed| {
            let mut bytes = handle().encode();
            bytes[at] = value;
            assert_eq!(Handle::decode(&bytes), Err(expected));
        };
        check(0, 7, Malformed::Family(7));
        check(36, 9, Malformed::Sockets(9));
        check(40, 0, Malformed::Threads(0));
        check(43, 0x80, Malformed::Threads(i32::MIN + 1));
        assert_eq!(
            Handle::decode(&[0; HANDLE_BYTES]),
            Err(Malformed::Family(0))
        );
    }

    #[test]
    fn a_header_has_the_layout_of_tcpx() {
        let header = Header {
            route: Route::Socket(3),
            size: 0x1000,
            offset: 0x2000,
            total: 0x3000,
        };
        assert_eq!(
            header.encode(),
            [0, 0, 3, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0x30, 0, 0]
        );
        assert_eq!(Header::decode(&header.encode(), 4), Ok(header));
        assert_eq!(
            Header::decode(&header.encode(), 3),
            Err(Malformed::Socket(3))
        );
        let empty = Header {
            route: Route::Inline,
            size: 0,
            offset: 0,
            total: 0,
        };
        assert_eq!(Header::decode(&empty.encode(), 0), Ok(empty));
    }

    #[test]
    fn a_header_that_does_not_fit_its_message_is_refused() {
        for (size, offset, total) in [
            (0, 0, 10),
            (11, 0, 10),
            (10, 1, 10),
            (u32::MAX, 1, u32::MAX >> 1),
        ] {
            let header = Header {
                route: Route::Socket(0),
                size,
                offset,
                total,
            };
            assert_eq!(
                Header::decode(&header.encode(), 1),
                Err(Malformed::Chunk {
                    size,
                    offset,
                    total
                })
            );
        }
        let long = Header {
            route: Route::Socket(0),
            size: 1,
            offset: 0,
            total: 1 << 31,
        };
        assert_eq!(
            Header::decode(&long.encode(), 1),
            Err(Malformed::Total(1 << 31))
        );
    }

    #[test]
    fn a_hello_needs_magic_version_role_and_nonce() {
        let nonce = *b"0123456789abcdef";
        let hello = Hello {
            purpose: Purpose::Data,
            index: 2,
            nonce,
            session: [7; 8],
        };
        assert_eq!(Hello::decode(&hello.encode(), &nonce), Ok(hello));
        let check = |at: usize, value: u8, expected: Malformed| {
            let mut bytes = hello.encode();
            bytes[at] = value;
            assert_eq!(Hello::decode(&bytes, &nonce), Err(expected));
        };
        check(0, b'G', Malformed::Stranger);
        check(8, 9, Malformed::Version(9));
        check(10, 2, Malformed::Role(2));
        check(20, 0, Malformed::Nonce);
        check(12, 9, Malformed::Socket(9));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::array::uniform32(any::<u8>()), sockets in 0usize..=8) {
            let mut handle = [0; HANDLE_BYTES];
            handle[..32].copy_from_slice(&bytes);
            handle[36..68].copy_from_slice(&bytes);
            if let Ok(handle) = Handle::decode(&handle) {
                prop_assert!(handle.sockets <= SOCKETS_MAX && handle.data.port() != 0);
            }
            if let Ok(header) = Header::decode(&array(&bytes, 0), sockets) {
                prop_assert!(u64::from(header.offset) + u64::from(header.size) <= u64::from(header.total));
                prop_assert!(matches!(header.route, Route::Inline | Route::Socket(0..8)));
            }
            let mut hello = [0; HELLO_BYTES];
            hello[..8].copy_from_slice(&MAGIC);
            hello[8..].copy_from_slice(&bytes);
            let _ = Hello::decode(&hello, &array(&bytes, 8));
        }

        #[test]
        fn headers_survive_the_trip(index in 0usize..8, offset in 0u32..1 << 30, size in 1u32..1 << 29) {
            let header = Header { route: Route::Socket(index), size, offset, total: offset + size };
            prop_assert_eq!(Header::decode(&header.encode(), 8), Ok(header));
        }
    }
}
