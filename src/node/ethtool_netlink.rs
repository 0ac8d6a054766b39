//! The ring parameter that the ioctl does not have: whether TCP headers and data are split
//! (`ethtool -g`, kernel 5.17 and later).
//!
//! Two requests over generic netlink: the number of the `ethtool` family, and the rings of
//! one interface. Every length in an answer is checked against the bytes received.
#![forbid(unsafe_code)]

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
    NlasIterator,
};
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
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
/// Bytes of the generic netlink header, which follows netlink's.
const GENERIC_HEADER: usize = 4;
/// Longest wait for an answer; the kernel answers at once or not at all.
const PATIENCE: Duration = Duration::from_millis(100);

/// `on`, `off` or `auto`, as the driver of `interface` has it.
///
/// # Errors
/// The kernel's error: no such family or device, or the driver does not have the parameter.
pub(crate) fn tcp_data_split(interface: &str) -> io::Result<String> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(GENERIC),
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let ask = |family: u16, command: u8, attribute: DefaultNla| -> io::Result<Vec<u8>> {
        send(
            &socket,
            &question(family, command, &attribute),
            SendFlags::empty(),
        )?;
        let mut answer = vec![0; 8192];
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        answer.truncate(length);
        attributes_of(&answer).map(<[u8]>::to_vec)
    };
    let family = ask(
        FAMILY_OF_FAMILIES,
        GET_FAMILY,
        DefaultNla::new(FAMILY_NAME, b"ethtool\0".into()),
    )?;
    let family =
        find(&family, FAMILY_ID).and_then(|id| Some(u16::from_ne_bytes(*id.first_chunk()?)));
    let family =
        family.ok_or_else(|| io::Error::other("the kernel has no ethtool netlink family"))?;
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let header = emitted(&DefaultNla::new(HEADER_DEVICE_NAME, name));
    let rings = ask(
        family,
        GET_RINGS,
        DefaultNla::new(RINGS_HEADER | NLA_F_NESTED, header),
    )?;
    match find(&rings, RINGS_TCP_DATA_SPLIT).and_then(|value| value.first().copied()) {
        Some(0) => Ok("auto".to_owned()),
        Some(1) => Ok("off".to_owned()),
        Some(2) => Ok("on".to_owned()),
        Some(other) => Err(io::Error::other(format!("tcp-data-split is {other}"))),
        None => Err(io::Error::other("the driver has no tcp-data-split")),
    }
}

fn question(family: u16, command: u8, attribute: &DefaultNla) -> Vec<u8> {
    // Sequence number and sender stay 0: there is one request at a time.
    let mut header = NetlinkHeader::default();
    (header.message_type, header.flags) = (family, NLM_F_REQUEST);
    header.length = (header.buffer_len() + GENERIC_HEADER + attribute.buffer_len()) as u32;
    [emitted(&header), vec![command, 1, 0, 0], emitted(attribute)].concat()
}

fn emitted(part: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; part.buffer_len()];
    part.emit(&mut bytes);
    bytes
}

/// The attributes of an answer, or the error that it carries.
fn attributes_of(answer: &[u8]) -> io::Result<&[u8]> {
    let message = NetlinkBuffer::new_checked(answer).map_err(io::Error::other)?;
    if message.message_type() != NLMSG_ERROR {
        return Ok(message.payload().get(GENERIC_HEADER..).unwrap_or_default());
    }
    let code = message
        .payload()
        .first_chunk()
        .map_or(0, |code| i32::from_ne_bytes(*code));
    Err(if code == 0 {
        io::Error::other("no answer")
    } else {
        io::Error::from_raw_os_error(code.saturating_neg())
    })
}

/// The value of the first attribute of kind `wanted`.
fn find(attributes: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    all.find(|attribute| attribute.kind() == wanted)
        .map(|attribute| attribute.value().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_missing_interface_gives_the_kernels_error() {
        let error = tcp_data_split("no-such-nic").unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }

    proptest! {
        #[test]
        fn any_answer_is_read_within_its_bounds(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Ok(attributes) = attributes_of(&bytes) {
                for kind in 0..16 {
                    let found = find(attributes, kind);
                    prop_assert!(found.is_none_or(|value| value.len() <= attributes.len()));
                }
            }
        }
    }
}
