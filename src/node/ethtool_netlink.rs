//! The one ring parameter that the ioctl never learned: whether TCP headers and
//! data are split (`ethtool -g`, kernel 5.17 and later).
//!
//! Two questions over generic netlink: which number the `ethtool` family has,
//! and the rings of one interface. An answer is a claim of the kernel's that is
//! still read with its own lengths.
#![forbid(unsafe_code)]

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with};
use std::io;
use std::time::Duration;

const FAMILY_OF_FAMILIES: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
// <linux/ethtool_netlink.h>
const GET_RINGS: u8 = 15;
const RINGS_HEADER: u16 = 1;
const HEADER_DEVICE_NAME: u16 = 2;
const RINGS_TCP_DATA_SPLIT: u16 = 11;
const NESTED: u16 = 1 << 15;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// Netlink's and generic netlink's headers.
const HEADERS: usize = 20;
/// The kernel answers at once or not at all.
const PATIENCE: Duration = Duration::from_millis(100);

/// `on`, `off` or `auto`, as the driver of `interface` has it.
///
/// # Errors
/// The kernel's own: no such family or device, or a driver that has no such
/// parameter.
pub fn tcp_data_split(interface: &str) -> io::Result<String> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let ask = |family: u16, command: u8, attributes: &[u8]| -> io::Result<Vec<u8>> {
        send(&socket, &message(family, command, attributes), SendFlags::empty())?;
        let mut answer = vec![0; 8192];
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        answer.truncate(length);
        attributes_of(&answer)
    };
    let family = ask(FAMILY_OF_FAMILIES, GET_FAMILY, &attribute(FAMILY_NAME, b"ethtool\0"))?;
    let family = find(&family, FAMILY_ID).and_then(|id| Some(u16::from_ne_bytes(*id.first_chunk()?)));
    let family = family.ok_or_else(|| io::Error::other("the kernel has no such family"))?;
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let rings = ask(family, GET_RINGS, &attribute(RINGS_HEADER | NESTED, &attribute(HEADER_DEVICE_NAME, &name)))?;
    match find(&rings, RINGS_TCP_DATA_SPLIT).and_then(|value| value.first()) {
        Some(0) => Ok("auto".to_owned()),
        Some(1) => Ok("off".to_owned()),
        Some(2) => Ok("on".to_owned()),
        Some(other) => Err(io::Error::other(format!("tcp-data-split is {other}"))),
        None => Err(io::Error::other("the driver has no tcp-data-split")),
    }
}

fn message(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = (HEADERS + attributes.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Sequence and sender: one question at a time needs neither.
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// What follows the headers of an answer, or the error that it is.
fn attributes_of(answer: &[u8]) -> io::Result<Vec<u8>> {
    let kind = answer.get(4..6).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_ne_bytes(*bytes));
    let code = answer.get(16..20).and_then(<[u8]>::first_chunk).map(|bytes| i32::from_ne_bytes(*bytes));
    match (kind, code) {
        (Some(ERROR), Some(code)) if code != 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        (Some(kind), _) if kind != ERROR => Ok(answer.get(HEADERS..).unwrap_or_default().to_vec()),
        _ => Err(io::Error::other("no answer")),
    }
}

/// The value of the first attribute of a kind.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?) & !NESTED;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interface_that_is_not_there_is_the_kernels_error() {
        let error = tcp_data_split("no-such-nic").unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }

    proptest! {
        #[test]
        fn any_answer_is_read_within_its_bounds(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Ok(attributes) = attributes_of(&bytes) {
                for kind in 0..16 {
                    let found = find(&attributes, kind);
                    prop_assert!(found.is_none_or(|value| value.len() <= attributes.len()));
                }
            }
        }
    }
}
