//! Reads one channel of a recorder file in detail: its requests, last events, sockets and NIC.
#![forbid(unsafe_code)]

use crate::counters::{ChannelDetail, ChannelKey, EventDetail, RequestDetail};
use std::net::SocketAddr;
use tcpx_node::{Root, nic_counters, tcp_sockets};
use tcpx_recorder::format::EventKind;
use tcpx_recorder::{Address, ChannelSample, Reader, monotonic_ns};

/// Newest events of the channel.
const EVENTS_MAX: usize = 64;

/// Reads one channel. `nic` is its interface; `is_here` is false once the process has ended, so
/// that the kernel has no sockets of it.
pub(super) fn detail(
    reader: &mut Reader,
    sample: &ChannelSample,
    channel: ChannelKey,
    at_ns: u64,
    nic: Option<&str>,
    is_here: bool,
) -> ChannelDetail {
    let now_ns = if is_here {
        monotonic_ns()
    } else {
        sample.last_change_ns
    };
    let ago_us = |ns: u64| now_ns.saturating_sub(ns) / 1000;
    let events = reader
        .events(sample, EVENTS_MAX)
        .map(|events| events.events)
        .unwrap_or_default();
    ChannelDetail {
        channel,
        at_ns,
        requests: sample
            .requests
            .iter()
            .map(|request| RequestDetail {
                number: request.number,
                stage: request.stage.letter(),
                bytes: request.bytes,
                age_us: ago_us(request.posted_ns),
            })
            .collect(),
        events: events
            .iter()
            .map(|event| EventDetail {
                ago_us: ago_us(event.at_ns),
                what: name(event.kind).to_owned(),
                call: event.call.name().to_owned(),
                rc: event.code,
                request: event.request,
                value: event.value,
            })
            .collect(),
        latency: sample.latency.buckets().collect(),
        sockets: if is_here {
            sockets(sample)
        } else {
            Err("the process is not running on this machine".to_owned())
        },
        nic: nic
            .filter(|_| is_here)
            .map(|nic| nic_counters(&Root::live(), nic))
            .unwrap_or_default(),
    }
}

fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Opened => "opened",
        EventKind::Posted => "posted",
        EventKind::Done => "done",
        EventKind::Unpacked => "unpacked",
        EventKind::Consumed => "consumed",
        EventKind::Flushed => "flushed",
        EventKind::Failed => "failed",
        EventKind::Called => "called",
        EventKind::Closed => "closed",
    }
}

/// The comm's sockets, selected by the addresses that the plugin reports and by one known port.
/// The plugin does not report the ports of every data socket.
fn sockets(sample: &ChannelSample) -> Result<Vec<tcpx_node::TcpSocket>, String> {
    let known = sample.addresses;
    let (Some(peer), local) = (known.peer.or(known.ctrl), known.local) else {
        return Err("the plugin does not report the comm's addresses".to_owned());
    };
    let all =
        tcp_sockets().map_err(|error| format!("cannot list the kernel's TCP sockets: {error}"))?;
    let is = |socket: SocketAddr, address: Address| {
        socket.ip().to_canonical() == address.ip.to_canonical()
    };
    let exact = |socket: &tcpx_node::TcpSocket| {
        socket.peer.port() == peer.port
            || local.is_some_and(|local| socket.local.port() == local.port)
    };
    let mut ours: Vec<_> = all
        .into_iter()
        .filter(|socket| is(socket.peer, peer) && local.is_none_or(|local| is(socket.local, local)))
        .filter(exact)
        .collect();
    ours.truncate(SOCKETS_MAX);
    Ok(ours)
}

/// Most sockets of one comm: a control socket and eight data sockets.
const SOCKETS_MAX: usize = 9;
