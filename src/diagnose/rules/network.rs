//! Sockets and interfaces at the moment of a stall.
#![forbid(unsafe_code)]

use super::connection::never_connected;
use super::progress::is_polled;
use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, Spot};
use std::collections::BTreeMap;
use tcpx_node::{NicDown, SentAgain, TcpFlow, TcpSocket};
use tcpx_run_model::counters::Frame;
use tcpx_run_model::phase::Phase;
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

pub(super) const RULES: &[Rule] = &[
    sockets,
    retransmits,
    lost_while_connecting,
    address_gone,
    link_down,
    down_before,
    rail,
];

/// Established sockets of a node's process, as its freeze-frame has them.
fn sockets_of(node: &EvidenceNode) -> impl Iterator<Item = &TcpSocket> {
    let all = node
        .frame
        .as_deref()
        .and_then(|frame| frame.sockets.known());
    all.into_iter()
        .flatten()
        .filter(|socket| socket.state == "ESTAB")
}

/// The same connection, seen from the other end.
fn far_end<'a>(
    evidence: &'a Evidence,
    node: &'a EvidenceNode,
    socket: &TcpSocket,
) -> Option<(&'a EvidenceNode, &'a TcpSocket)> {
    let (local, peer) = (socket.local, socket.peer);
    let is = move |far: &&TcpSocket| far.local == peer && far.peer == local;
    evidence
        .others(node)
        .find_map(|other| Some((other, sockets_of(other).find(is)?)))
}

fn sockets(evidence: &Evidence) -> Vec<Found> {
    if evidence.standing().next().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for node in &evidence.nodes {
        for socket in sockets_of(node).filter(|socket| socket.send_queue > 0) {
            found.extend(full_send_queue(evidence, node, socket));
        }
    }
    found.extend(
        evidence
            .standing()
            .filter_map(|spot| leaves_unread(evidence, spot)),
    );
    // The channel of a finding is that of its first fact.
    found.sort_by_key(|one| one.channel.is_none());
    found
}

/// Segments that are lost at once where a path loses packets; one or two may be late.
const LOST_AT_ONCE: u32 = 3;

/// Segments that a connection sent again, from which on one without an answer is no late one; and how long a kernel takes
/// for an answer at most, however busy the program at its end is.
const SENT_AGAIN: u32 = 3;
const ANSWER_MAX_MS: u32 = 1000;

/// Whether a socket waits until segments are sent again: it holds several for lost, or has sent some before and has no
/// answer to the last ones. Between two timeouts, which grow with the loss, nothing else tells.
fn waits_for_lost(socket: &TcpSocket, flow: &TcpFlow) -> bool {
    let holds_lost = flow.lost >= LOST_AT_ONCE;
    let is_unanswered = flow.unacked > 0
        && flow.sent_ms_ago >= ANSWER_MAX_MS
        && socket.lost_segments() >= SENT_AGAIN;
    socket.local.ip() != socket.peer.ip() && flow.probes == 0 && (holds_lost || is_unanswered)
}

/// Why bytes are queued on a socket: lost segments, or a reader that does not read.
fn full_send_queue(evidence: &Evidence, node: &EvidenceNode, socket: &TcpSocket) -> Option<Found> {
    let flow = socket.flow?;
    let far = far_end(evidence, node, socket);
    let far_is_full = far.is_some_and(|(_, far)| far.recv_queue > 0);
    let queued = format!(
        "{}: {} bytes are queued on {} -> {}",
        node.name(),
        socket.send_queue,
        socket.local,
        socket.peer
    );
    let found = if flow.timeouts > 0 && !far_is_full {
        Found::at(Condition::NetworkLoss, node, 0.9, queued).and(unacknowledged(&flow))
    } else if waits_for_lost(socket, &flow) && !far_is_full {
        let found = Found::at(Condition::NetworkLoss, node, 0.8, queued);
        let found = match flow.lost {
            0 => found,
            lost => found.and(format!("{lost} of its segments are lost")),
        };
        found.and(unanswered(socket, &flow))
    } else if far_is_full || (far.is_none() && flow.probes > 0) {
        let reader = match far {
            Some((reader, _)) => reader,
            None => evidence.opposite(node).unwrap_or(node),
        };
        let unread = match far {
            Some((_, far)) => format!(
                "{}: {} bytes are unread on {}",
                reader.name(),
                far.recv_queue,
                far.local
            ),
            None => format!(
                "{} -> {}: the socket at the other end was not captured",
                socket.local, socket.peer
            ),
        };
        let confidence = if far_is_full { 0.8 } else { 0.6 };
        let found = Found::at(Condition::ZeroWindowAtPeer, reader, confidence, unread);
        let mut receives = evidence
            .standing()
            .filter(|spot| !spot.channel.sends() && spot.node.subject == reader.subject);
        let untested = receives.find(|spot| spot.channel.polls_per_s().is_none());
        let found = untested.map_or(found.clone(), |spot| found.if_tested(spot));
        found.and(format!(
            "{queued}; the closed window was probed {} times",
            flow.probes
        ))
    } else {
        return None;
    };
    Some(match channel_of(evidence, node, socket) {
        Some(spot) => Found {
            channel: Some(spot.channel.now.index),
            ..found.and(spot.counters())
        },
        None => found,
    })
}

/// A receiver that is tested, to which everything was sent: its kernel has messages and, on another connection, headers
/// after those that its plugin has read. If a header was lost, only messages are unread.
fn leaves_unread(evidence: &Evidence, spot: Spot<'_>) -> Option<Found> {
    let waits = !spot.channel.sends() && spot.channel.in_flight() > 0 && is_polled(evidence, spot);
    let is_sent = |socket: &TcpSocket| {
        let far = far_end(evidence, spot.node, socket);
        far.is_some_and(|(_, far)| far.send_queue == 0)
    };
    let is_of_channel = |socket: &TcpSocket| {
        let channel = channel_of(evidence, spot.node, socket);
        channel.is_some_and(|one| one.channel.now.index == spot.channel.now.index)
    };
    let mut unread = unread_sockets(spot.node);
    unread.retain(|socket| is_of_channel(socket) && is_sent(socket));
    let (most, least) = (unread.first()?, unread.last()?);
    let has_headers = most.recv_queue / HEADERS_SHARE >= least.recv_queue;
    if !waits || !has_headers {
        return None;
    }
    let fact = |socket: &TcpSocket| {
        let (bytes, local) = (socket.recv_queue, socket.local);
        format!("{}: {bytes} bytes are unread on {local}", spot.node.name())
    };
    let found = Found::at(Condition::ZeroWindowAtPeer, spot.node, 0.7, fact(most))
        .if_tested(spot)
        .and(fact(least))
        .and("nothing is queued at the sender");
    Some(Found {
        channel: Some(spot.channel.now.index),
        ..found.and(spot.counters())
    })
}

/// Headers are at most this part of the bytes of their messages.
const HEADERS_SHARE: u32 = 64;

/// A connection that retransmitted this many segments, and this share of all, crosses a path that
/// loses packets: reordering and a late answer cause fewer.
const RETRANSMITS: u32 = 30;
const RETRANSMITTED_SHARE: f64 = 0.02;

/// Whether the path of a socket loses packets, by everything that it ever sent. Between two sockets of one address
/// there is no path: segments are sent again where a receive buffer is full.
fn is_lossy(socket: &TcpSocket) -> bool {
    if socket.local.ip() == socket.peer.ip() {
        return false;
    }
    let count = socket.lost_segments();
    let segments = socket.flow.and_then(|flow| flow.data_segments);
    // Frames of older versions do not tell the number of segments.
    let share = segments.map_or(1.0, |all| f64::from(count) / f64::from(all.max(1)));
    count >= RETRANSMITS && share >= RETRANSMITTED_SHARE
}

/// Loss that slows a transfer so much that it was given up, or stood still for a while. A segment may just have arrived
/// when a frame is taken, so the frame's totals count, also of a stall before the last movement.
fn retransmits(evidence: &Evidence) -> Vec<Found> {
    let gave_up = evidence.outcome == Some(Outcome::Stalled);
    let (condition, confidence) = if gave_up || evidence.standing().next().is_some() {
        (Condition::NetworkLoss, 0.85)
    } else {
        (Condition::SegmentsRetransmitted, 0.9)
    };
    let moved = evidence.nodes.iter().filter(|node| !was_connecting(node));
    let found = moved.filter_map(|node| {
        let socket = lost_at_a_stall(node, condition == Condition::SegmentsRetransmitted)?;
        let of = socket
            .flow
            .and_then(|flow| flow.data_segments)
            .map(|all| format!(" of {all}"))
            .unwrap_or_default();
        let fact = format!(
            "{}: {}{of} segments on {} -> {} were retransmitted",
            node.name(),
            socket.retransmits.unwrap_or(0),
            socket.local,
            socket.peer
        );
        Some(Found::at(condition, node, confidence, fact))
    });
    found.collect()
}

/// Of the newest freeze-frame that shows loss, the socket that shows it most; of a stall that `is_over` also one
/// that was sending its oldest segment again then.
fn lost_at_a_stall(node: &EvidenceNode, is_over: bool) -> Option<TcpSocket> {
    let repeats = |one: &TcpSocket| {
        let flow = one.flow.as_ref();
        one.local.ip() != one.peer.ip() && flow.is_some_and(|flow| flow.timeouts > 0)
    };
    let lossy = |frame: &'_ Frame| {
        let sockets = frame.sockets.known()?.iter();
        sockets
            .filter(|one| one.state == "ESTAB" && (is_lossy(one) || (is_over && repeats(one))))
            .max_by_key(|one| one.lost_segments())
            .cloned()
    };
    node.frames().find_map(lossy)
}

/// The node whose segments were lost when a stall stood that is over now.
pub(super) fn lost_meanwhile(evidence: &Evidence) -> Option<&EvidenceNode> {
    let mut nodes = evidence.nodes.iter();
    nodes.find(|node| lost_at_a_stall(node, true).is_some())
}

/// What a node sent again while it connected to others, by its newest freeze-frame that shows it.
fn sent_again(node: &EvidenceNode) -> Option<SentAgain> {
    let mut frames = node.frames();
    frames.find_map(|frame| SentAgain::of(frame.sockets.known()?))
}

/// Whether a worker ended, or was told to end, before it was connected.
fn was_connecting(node: &EvidenceNode) -> bool {
    let failed = node.failure.as_ref().map(|failure| failure.what.phase);
    let phase = failed.or(node.phase);
    matches!(phase, Some(Phase::Bootstrapping | Phase::Connecting))
}

/// Loss while a pair connected, seen at either end.
pub(super) fn lost_while_connecting(evidence: &Evidence) -> Vec<Found> {
    let connecting = evidence.nodes.iter().filter(|node| was_connecting(node));
    let found = connecting.filter_map(|node| {
        let again = sent_again(node)?;
        let (count, of) = (again.count, again.of);
        let fact = format!(
            "{}: {count} of at least {of} segments were sent again while it connected, over {}",
            node.name(),
            counted(again.connections, "connection")
        );
        let worst = format!(
            "{}: {} segments on {} -> {} were retransmitted",
            node.name(),
            again.worst.retransmits.unwrap_or(0),
            again.worst.local,
            again.worst.peer
        );
        let found = Found::at(Condition::NetworkLoss, node, 0.85, fact).and(worst);
        let waits = again.worst.flow.filter(|flow| flow.timeouts > 0);
        Some(match waits {
            Some(flow) => found.and(unacknowledged(&flow)),
            None => found,
        })
    });
    found.collect()
}

/// Whether segments were lost while the pair of a node connected.
pub(super) fn lossy_connect(evidence: &Evidence, node: &EvidenceNode) -> bool {
    let ends = [Some(node), evidence.opposite(node)];
    ends.into_iter()
        .flatten()
        .any(|end| was_connecting(end) && sent_again(end).is_some())
}

/// The same of a socket of which no timeout is counted.
fn unanswered(socket: &TcpSocket, flow: &TcpFlow) -> String {
    if flow.timeouts > 0 {
        return unacknowledged(flow);
    }
    format!(
        "{} segments are unacknowledged, the last was sent {} ms ago; {} were sent again before",
        flow.unacked,
        flow.sent_ms_ago,
        socket.lost_segments()
    )
}

fn unacknowledged(flow: &TcpFlow) -> String {
    format!(
        "{} segments are unacknowledged; the oldest was retransmitted {} times, next in {} ms",
        flow.unacked,
        flow.timeouts,
        flow.rto_us / 1000
    )
}

/// Bytes that have arrived in a node's kernel and that its plugin does not read. A fact
/// and not a cause: bytes also wait there when their header was lost.
pub(super) fn unread(node: &EvidenceNode) -> Option<String> {
    let waiting = unread_sockets(node);
    let most = waiting.first()?;
    Some(format!(
        "{}: {} bytes on {} have arrived and are unread ({} such connections)",
        node.name(),
        most.recv_queue,
        most.local,
        waiting.len()
    ))
}

/// The connections of a node with unread bytes, most bytes first.
fn unread_sockets(node: &EvidenceNode) -> Vec<&TcpSocket> {
    let mut unread: Vec<&TcpSocket> = sockets_of(node)
        .filter(|socket| socket.recv_queue > 0)
        .collect();
    unread.sort_by_key(|socket| std::cmp::Reverse(socket.recv_queue));
    unread
}

/// The standing channel that a socket probably belongs to: by the addresses of its comm,
/// or because there is only one.
fn channel_of<'a>(
    evidence: &'a Evidence,
    node: &EvidenceNode,
    socket: &TcpSocket,
) -> Option<Spot<'a>> {
    let ip = |address: &Option<String>| {
        address
            .as_deref()
            .and_then(|text| text.parse::<std::net::SocketAddr>().ok())
    };
    let mine: Vec<Spot<'a>> = evidence
        .standing()
        .filter(|spot| spot.node.name() == node.name())
        .collect();
    let uses = |spot: &Spot<'_>, socket: &TcpSocket| {
        let (local, peer) = (ip(&spot.channel.now.local), ip(&spot.channel.now.peer));
        local.is_some_and(|local| local.ip() == socket.local.ip())
            || peer.is_some_and(|peer| peer.ip() == socket.peer.ip())
    };
    let only = || {
        let spot = mine.first().copied().filter(|_| mine.len() == 1)?;
        let uses_another = sockets_of(node).any(|another| uses(&spot, another));
        (!uses_another).then_some(spot)
    };
    let found = mine.iter().find(|spot| uses(spot, socket));
    found.copied().or_else(only)
}

/// Connections whose local address no interface holds any more: what is sent to it is dropped.
fn address_gone(evidence: &Evidence) -> Vec<Found> {
    if evidence.standing().next().is_none() {
        return Vec::new();
    }
    let found = evidence.nodes.iter().filter_map(|node| {
        let held = node.frame.as_deref()?.addresses.known()?;
        let is_gone = |socket: &&TcpSocket| !held.contains(&socket.local.ip());
        let gone: Vec<&TcpSocket> = sockets_of(node).filter(is_gone).collect();
        let first = gone.first().filter(|_| !held.is_empty())?;
        let address = first.local.ip();
        let fact = format!(
            "{}: no interface has {address} any more, which {} of its connections use",
            node.name(),
            gone.len()
        );
        let found = Found::at(Condition::AddressGone, node, 0.97, fact);
        let on_it = evidence.standing().filter(|spot| {
            spot.node.subject == node.subject
                && channel_of(evidence, node, first)
                    .is_some_and(|known| std::ptr::eq(known.channel, spot.channel))
        });
        Some(with_channels(found, on_it))
    });
    found.collect()
}

fn link_down(evidence: &Evidence) -> Vec<Found> {
    if evidence.standing().next().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for node in &evidence.nodes {
        let nics = node.frame.iter().flat_map(|frame| &frame.nics);
        for nic in nics.filter(|nic| nic.is_down()) {
            let state = nic.operstate.known().map_or("", String::as_str);
            let fact = format!("{}: {} is {state}", node.name(), nic.name);
            let first = Found::at(Condition::LinkDown, node, 0.97, fact);
            let on_nic = evidence
                .standing()
                .filter(|spot| spot.node.name() == node.name() && spot.channel.nic == nic.name);
            found.push(with_channels(first, on_nic));
        }
    }
    found
}

/// Interfaces that were down before connections over them were to be made. A plugin leaves such an interface out, so
/// that its peers connect to the wrong rails or to nothing. Other interfaces may be down: nothing connects over them.
fn down_before(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for (one, other) in evidence.pairs() {
        if ![one, other]
            .iter()
            .any(|node| never_connected(node, evidence))
        {
            continue;
        }
        for (node, peer) in [(one, other), (other, one)] {
            found.extend(down_nics(node, peer));
        }
    }
    found
}

/// The interfaces of a node that are down and that its plugin or that of its peer uses.
fn down_nics<'a>(
    node: &'a EvidenceNode,
    peer: &'a EvidenceNode,
) -> impl Iterator<Item = Found> + 'a {
    let nics = node.machine.iter().flat_map(|machine| &machine.nics);
    nics.filter_map(move |nic| {
        let (down, name) = (nic.down?, &nic.name);
        let user = [peer, node]
            .into_iter()
            .find(|user| user.devices.contains(name))?;
        let host = node.machine.as_ref().and_then(|machine| machine.host.as_ref());
        let host = host.and_then(|host| host.name.known().map(String::as_str));
        let host = host.unwrap_or(node.name());
        let (what, next_step) = match down {
            NicDown::TakenDown => (
                "is down",
                format!("run `ip link set {name} up` on {host}, and start the run again"),
            ),
            NicDown::NoLink => (
                "has no link",
                format!(
                    "look at `ip link show {name}` and dmesg on {host}: {name} is enabled, and its cable, switch port or \
                     virtual NIC is down"
                ),
            ),
        };
        let fact = format!("{}: {name} {what}", node.name());
        let found = Found::at(Condition::LinkDown, node, 0.9, fact)
            .and(format!("the plugin of {} uses {name}", user.name()));
        Some(Found {
            next_step: Some(next_step),
            ..found
        })
    })
}

/// Adds the counters of channels; the first of them is the channel of the finding.
fn with_channels<'a>(mut found: Found, spots: impl Iterator<Item = Spot<'a>>) -> Found {
    for spot in spots {
        found.channel = found.channel.or(Some(spot.channel.now.index));
        found = found.and(spot.counters());
    }
    found
}

fn rail(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for node in &evidence.nodes {
        let rails = channels_by_nic(evidence, node);
        let moving: Vec<&str> = rails
            .iter()
            .filter(|(_, spots)| spots.iter().all(has_moved))
            .map(|(nic, _)| *nic)
            .collect();
        if moving.is_empty() {
            continue;
        }
        for (nic, spots) in rails.iter().filter(|(_, spots)| stands_still(spots)) {
            let confidence = if spots.len() > 1 { 0.7 } else { 0.55 };
            let fact = format!(
                "{}: every channel with requests in flight on {nic} stands still; channels on {} moved",
                node.name(),
                moving.join(", ")
            );
            let first = Found::at(Condition::RailCarriesNothing, node, confidence, fact);
            let standing = spots.iter().copied().filter(Spot::stands);
            found.push(with_channels(first, standing));
        }
    }
    found
}

/// The channels of a node that posted requests, by interface.
fn channels_by_nic<'a>(
    evidence: &'a Evidence,
    node: &EvidenceNode,
) -> BTreeMap<&'a str, Vec<Spot<'a>>> {
    let mut rails = BTreeMap::<&str, Vec<Spot<'_>>>::new();
    for spot in evidence.spots() {
        let channel = spot.channel;
        if spot.node.name() == node.name() && !channel.nic.is_empty() && channel.now.posted > 0 {
            rails.entry(&channel.nic).or_default().push(spot);
        }
    }
    rails
}

/// Whether every channel of a rail with requests in flight stands still and waits for the rail.
fn stands_still(spots: &[Spot<'_>]) -> bool {
    let mut busy = spots
        .iter()
        .filter(|spot| spot.channel.in_flight() > 0)
        .peekable();
    busy.peek().is_some() && busy.all(|spot| spot.stands() && waits_for_rail(spot))
}

fn has_moved(spot: &Spot<'_>) -> bool {
    !spot.stands() && spot.channel.now.done > 0
}

/// Whether the channel waits for its rail, and not for the process at either end.
fn waits_for_rail(spot: &Spot<'_>) -> bool {
    let driven = |spot: Spot<'_>| {
        spot.channel.polls_per_s().is_none_or(|rate| rate > 0.0)
            && spot.stuck_in().is_none()
            && spot.channel.now.last_error.is_none()
            && (spot.channel.sends() || spot.channel.done_unconsumed() < spot.channel.in_flight())
    };
    let other_waits = spot
        .other_end()
        .is_none_or(|other| other.stands() && driven(other));
    driven(*spot) && other_waits
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::evidence::EvidenceStall;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::NetworkLoss, network_loss),
        (Condition::NetworkLoss, loss_before_it_moved_again),
        (Condition::NetworkLoss, lost_before_the_first_timeout),
        (Condition::NetworkLoss, lost_between_timeouts),
        (Condition::NetworkLoss, loss_while_connecting),
        (Condition::NetworkLoss, loss_until_a_call_failed),
        (Condition::LinkDown, link_down),
        (Condition::LinkDown, down_before_the_run),
        (Condition::LinkDown, without_link_before_the_run),
        (Condition::AddressGone, address_gone),
        (Condition::RailCarriesNothing, one_rail_of_two),
    ];

    fn network_loss() -> Evidence {
        let mut evidence = stuck();
        evidence.nodes[0].frame = frame(
            vec![socket(
                "10.0.1.25:40000",
                "10.0.0.226:50000",
                [0, 400_000],
                5,
            )],
            "up",
        );
        evidence.nodes[1].frame = frame(
            vec![socket("10.0.0.226:50000", "10.0.1.25:40000", [0, 0], 0)],
            "up",
        );
        evidence
    }

    /// Most of the transfer was well, so that few of all segments were lost, and the timeout is longer than the stall.
    fn lost_before_the_first_timeout() -> Evidence {
        let mut evidence = network_loss();
        let mut standing = socket("10.0.1.25:40000", "10.0.0.226:50000", [0, 400_000], 0);
        standing.retransmits = Some(853);
        let flow = standing.flow.as_mut().expect("the socket has its state");
        (flow.lost, flow.unacked, flow.data_segments) = (9, 28, Some(53_035));
        evidence.nodes[0].frame = frame(vec![standing], "up");
        evidence
    }

    /// Between two timeouts, a few segments without an answer, as a connection had that began with the loss.
    fn lost_between_timeouts() -> Evidence {
        let mut evidence = network_loss();
        let mut standing = socket("10.0.1.25:40000", "10.0.0.226:50000", [0, 735_232], 0);
        standing.retransmits = Some(7);
        let flow = standing.flow.as_mut().expect("the socket has its state");
        (flow.lost, flow.unacked, flow.data_segments) = (0, 18, Some(48));
        flow.sent_ms_ago = 6204;
        evidence.nodes[0].frame = frame(vec![standing], "up");
        evidence
    }

    #[test]
    fn segments_that_may_still_be_answered_are_not_lost() {
        let loss = |change: fn(&mut TcpSocket)| {
            let mut evidence = lost_between_timeouts();
            let frame = evidence.nodes[0].frame.as_mut().expect("a frame");
            let tcpx_node::Fact::Known(sockets) = &mut frame.sockets else {
                panic!("the frame has sockets");
            };
            change(&mut sockets[0]);
            let found = crate::diagnose(&evidence);
            found.iter().any(|one| one.condition == "network-loss")
        };
        assert!(loss(|_| ()));
        // Just sent, nothing lost before, a closed window.
        assert!(!loss(|one| one
            .flow
            .as_mut()
            .expect("a flow")
            .sent_ms_ago = 300));
        assert!(!loss(|one| one.retransmits = Some(2)));
        assert!(!loss(|one| one.flow.as_mut().expect("a flow").probes = 4));
    }

    /// Segments were lost all the time, and the frame was taken when one had just arrived.
    fn loss_before_it_moved_again() -> Evidence {
        let mut evidence = stuck();
        let mut lossy = socket("10.0.1.25:40000", "10.0.0.226:50000", [0, 400_000], 0);
        lossy.retransmits = Some(335);
        let taken = frame(vec![lossy], "up");
        evidence.nodes[0].earlier_frames = taken.into_iter().map(|frame| *frame).collect();
        evidence
    }

    #[test]
    fn segments_that_arrived_twice_are_no_loss() {
        let mut evidence = loss_before_it_moved_again();
        assert_eq!(retransmits(&evidence).len(), 1);
        for frame in &mut evidence.nodes[0].earlier_frames {
            let tcpx_node::Fact::Known(sockets) = &mut frame.sockets else {
                panic!("the frame has sockets");
            };
            let flow = sockets[0].flow.as_mut();
            flow.expect("the socket has its state").duplicates = Some(330);
        }
        assert_eq!(retransmits(&evidence), []);
    }

    /// A pair that did not connect within its limit; the first end's connections are these.
    fn unconnected(sockets: Vec<TcpSocket>) -> Evidence {
        let mut evidence = ended(Outcome::Stalled, stuck());
        for node in &mut evidence.nodes {
            node.channels.clear();
            node.phase = Some(Phase::Connecting);
        }
        let message = "after 30.0 s, 1 of 4 connects and 0 of 0 accepts were still not ready";
        evidence.nodes[0].failure = failure(Phase::Connecting, message, false);
        if let Some(failure) = &mut evidence.nodes[0].failure {
            failure.what.outcome = Outcome::Stalled;
        }
        evidence.nodes[0].frame = frame(sockets, "up");
        evidence
    }

    /// A connection of a few segments, of which some were sent again.
    fn handshake(state: &str, retransmits: u32, timeouts: u8) -> TcpSocket {
        let mut one = socket(
            "192.168.1.25:40000",
            "192.168.1.226:50000",
            [0; 2],
            timeouts,
        );
        (one.state, one.retransmits) = (state.into(), Some(retransmits));
        if let Some(flow) = &mut one.flow {
            flow.data_segments = Some(4);
        }
        one
    }

    fn loss_while_connecting() -> Evidence {
        unconnected(vec![
            handshake("ESTAB", 2, 0),
            handshake("ESTAB", 0, 0),
            handshake("SYN-SENT", 2, 2),
        ])
    }

    #[test]
    fn what_was_sent_again_while_a_pair_connected_is_told_once() {
        let sockets = vec![handshake("ESTAB", 40, 4)];
        for outcome in [Outcome::Stalled, Outcome::PluginDied] {
            let evidence = ended(outcome, unconnected(sockets.clone()));
            assert_eq!(retransmits(&evidence), []);
            assert_eq!(lost_while_connecting(&evidence).len(), 1);
        }
    }

    fn loss_until_a_call_failed() -> Evidence {
        let mut evidence = loss_while_connecting();
        evidence.outcome = Some(Outcome::Failed);
        let message = "connect returned 2 (ncclSystemError)";
        evidence.nodes[0].failure = failure(Phase::Connecting, message, true);
        let message = "stopped while connecting";
        evidence.nodes[1].failure = failure(Phase::Connecting, message, true);
        evidence
    }

    #[test]
    fn a_port_that_never_answers_is_not_called_loss() {
        let first = |sockets| crate::diagnose(&unconnected(sockets)).remove(0).condition;
        let dropped = || handshake("SYN-SENT", 5, 5);
        assert_eq!(first(vec![dropped(), dropped()]), "connect-never-completes");
        let control = handshake("ESTAB", 0, 0);
        assert_eq!(first(vec![dropped(), control]), "connect-never-completes");
        // A segment of the connection to a sound port was late, or of one on another rail.
        let late = handshake("ESTAB", 1, 0);
        assert_eq!(first(vec![dropped(), late]), "connect-never-completes");
        let mut elsewhere = handshake("ESTAB", 2, 0);
        elsewhere.peer = "10.0.0.226:50000".parse().expect("an address");
        assert_eq!(first(vec![dropped(), elsewhere]), "connect-never-completes");
        // Within one address there is no path.
        let mut here = handshake("ESTAB", 9, 5);
        here.peer = "192.168.1.25:50000".parse().expect("an address");
        assert_eq!(first(vec![here]), "connect-never-completes");
        let mut busy = handshake("ESTAB", 4, 1);
        if let Some(flow) = &mut busy.flow {
            flow.data_segments = Some(1000);
        }
        assert_eq!(first(vec![busy]), "connect-never-completes");
        let lossy = vec![dropped(), handshake("ESTAB", 2, 0)];
        assert_eq!(first(lossy), "network-loss");
    }

    #[test]
    fn loss_is_told_before_the_stall_that_it_caused_and_that_is_over() {
        let names = |timeouts, is_here| {
            let mut evidence = passed();
            evidence.stall = Some(EvidenceStall {
                at_ms: 4000.0,
                recovered: true,
                starved: None,
            });
            let there = if is_here {
                "10.0.1.25:50000"
            } else {
                "10.0.0.226:50000"
            };
            let repeats = socket("10.0.1.25:40000", there, [0, 400_000], timeouts);
            let taken = frame(vec![repeats], "up");
            evidence.nodes[0].earlier_frames = taken.into_iter().map(|frame| *frame).collect();
            let found = crate::diagnose(&evidence).into_iter();
            found.map(|one| one.condition).collect::<Vec<_>>()
        };
        assert_eq!(
            names(4, false),
            ["segments-retransmitted", "stalled-and-recovered"]
        );
        assert_eq!(names(0, false), ["stalled-and-recovered"]);
        assert_eq!(names(4, true), ["stalled-and-recovered"]);
    }

    #[test]
    fn the_channel_of_lost_segments_is_that_of_the_first_socket() {
        let mut evidence = stuck();
        let sender = &mut evidence.nodes[0];
        let addresses = ["10.0.1.25", "10.0.3.25"];
        let sockets = addresses.map(|from| {
            socket(
                &format!("{from}:40000"),
                "10.0.0.226:50000",
                [0, 400_000],
                5,
            )
        });
        sender.frame = frame(sockets.to_vec(), "up");
        let mut moving = sender.channels[0].clone();
        (moving.now.local, moving.now.quiet_ms) = (Some("10.0.1.25:40000".into()), 100);
        let standing = &mut sender.channels[0];
        (standing.now.local, standing.now.index) = (Some("10.0.3.25:40000".into()), 2);
        sender.channels.insert(0, moving);
        let found = sockets_found(&evidence);
        assert_eq!(found.channel, Some(2));
        assert!(found.because[0].contains("10.0.3.25:40000"), "{found:?}");
    }

    /// The first finding about sockets.
    fn sockets_found(evidence: &Evidence) -> Found {
        sockets(evidence).into_iter().next().expect("a finding")
    }

    #[test]
    fn unread_bytes_are_those_of_the_node_that_has_the_socket() {
        let mut evidence = network_loss();
        let unread = socket("10.0.0.226:50000", "10.0.1.25:40000", [7000, 0], 0);
        evidence.nodes[1].frame = frame(vec![unread], "up");
        // A node of another pair stands before it.
        let mut third = node("third gpu 1", Vec::new());
        third.subject.node = tcpx_run_model::ids::NodeId(2);
        evidence.nodes.insert(1, third);
        let [found] = &sockets(&evidence)[..] else {
            panic!("one finding")
        };
        assert_eq!(found.condition, Condition::ZeroWindowAtPeer);
        assert_eq!(
            found.because[0],
            "peer: 7000 bytes are unread on 10.0.0.226:50000"
        );
        assert_eq!(found.node, Some(evidence.nodes[2].subject.clone()));
    }

    #[test]
    fn a_receiver_that_leaves_headers_and_messages_unread_is_told_though_nothing_is_queued() {
        let found = |unread: [u32; 2]| {
            let mut evidence = stuck();
            let ends = [
                ("10.0.1.25:40000", "10.0.0.226:50000"),
                ("10.0.1.25:40001", "10.0.0.226:50001"),
            ];
            let sent = ends.map(|(here, there)| socket(here, there, [0, 0], 0));
            evidence.nodes[0].frame = frame(sent.to_vec(), "up");
            let mut arrived = Vec::new();
            for ((here, there), bytes) in ends.into_iter().zip(unread) {
                arrived.push(socket(there, here, [bytes, 0], 0));
            }
            evidence.nodes[1].frame = frame(arrived, "up");
            crate::diagnose(&evidence).remove(0)
        };
        let first = found([176, 2_431_561]);
        assert_eq!(first.condition, "zero-window-at-peer");
        assert_eq!(
            first.because[..3],
            [
                "peer: 2431561 bytes are unread on 10.0.0.226:50001",
                "peer: 176 bytes are unread on 10.0.0.226:50000",
                "nothing is queued at the sender",
            ]
        );
        // Headers were lost.
        for unread in [[0, 131_072], [131_072, 65_536]] {
            assert_eq!(found(unread).condition, "nothing-arrives");
        }
    }

    fn link_down() -> Evidence {
        let mut evidence = network_loss();
        evidence.nodes[1].frame = frame(Vec::new(), "down");
        evidence
    }

    /// The receiver's eth2 is down; the plugin of the sender uses it, that of the receiver left it out.
    fn never_connected(down: Option<NicDown>) -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [0; 3], 0),
            channel(Side::Recv, [0; 3], 0),
        );
        for node in &mut evidence.nodes {
            node.machine = Some(machine(&[]));
            node.devices = vec!["eth1".into(), "eth2".into()];
            node.failure = failure(Phase::Connecting, "1 of 2 connects were not ready", false);
            node.failure.as_mut().expect("it is set").what.outcome = Outcome::Stalled;
        }
        let receiver = &mut evidence.nodes[1];
        receiver.devices.pop();
        let nics = receiver.machine.as_mut().map(|machine| &mut machine.nics);
        nics.expect("it is set")[1].down = down;
        ended(Outcome::Stalled, evidence)
    }

    fn down_before_the_run() -> Evidence {
        never_connected(Some(NicDown::TakenDown))
    }

    fn without_link_before_the_run() -> Evidence {
        never_connected(Some(NicDown::NoLink))
    }

    #[test]
    fn an_interface_that_is_down_is_why_nothing_connects_if_a_plugin_uses_it() {
        let check = |down, [ours, theirs]: [bool; 2], waits, expected| {
            let mut evidence = never_connected(down);
            for (node, uses) in evidence.nodes.iter_mut().zip([ours, theirs]) {
                node.devices.retain(|name| name != "eth2");
                node.devices.extend(uses.then(|| "eth2".to_owned()));
                node.failure = node.failure.take().filter(|_| waits);
            }
            let findings = crate::diagnose(&evidence);
            let first = findings.first().filter(|one| one.condition == "link-down");
            let told = first.map(|one| one.because[1].as_str());
            assert_eq!(
                told, expected,
                "{down:?} {ours} {theirs} {waits}: {findings:?}"
            );
            let next = first.map(|one| one.next_step.clone().unwrap_or_default());
            let is_told = |next: String| {
                next.contains("eth2 up` on peer") == (down == Some(NicDown::TakenDown))
            };
            assert!(next.is_none_or(is_told));
        };
        let (local, peer) = (
            Some("the plugin of local uses eth2"),
            Some("the plugin of peer uses eth2"),
        );
        for down in [Some(NicDown::TakenDown), Some(NicDown::NoLink)] {
            check(down, [true, false], true, local);
            check(down, [true, true], true, local);
            check(down, [false, true], true, peer);
            check(down, [false, false], true, None);
            check(down, [true, false], false, None);
        }
        check(None, [true, false], true, None);
        let mut refused = down_before_the_run();
        let failed = failure(Phase::Connecting, "connect returned 2", false);
        refused.nodes[0].failure = failed;
        refused.nodes[1].failure = None;
        let first = &crate::diagnose(&refused)[0];
        assert_eq!(first.condition, "link-down", "{first:?}");
        let findings = crate::diagnose(&down_before_the_run());
        assert_eq!(findings[0].because[0], "peer: eth2 is down");
        assert!(
            findings[1..]
                .iter()
                .all(|one| one.severity != tcpx_run_model::finding::Severity::Error),
            "{findings:?}"
        );
    }

    fn address_gone() -> Evidence {
        let mut evidence = network_loss();
        let others = ["10.0.1.25", "127.0.0.1"].map(|text| text.parse().expect("an address"));
        if let Some(frame) = &mut evidence.nodes[1].frame {
            frame.addresses = tcpx_node::Fact::Known(others.into());
        }
        evidence
    }

    fn one_rail_of_two() -> Evidence {
        let mut evidence = stuck();
        for (node, counts) in [(0, [64, 64, 64]), (1, [64, 64, 64])] {
            let mut good = channel(
                if node == 0 { Side::Send } else { Side::Recv },
                counts,
                5000,
            );
            (good.now.index, good.nic) = (1, "eth2".into());
            evidence.nodes[node].channels.push(good);
            let mut second = evidence.nodes[node].channels[0].clone();
            second.now.index = 2;
            evidence.nodes[node].channels.push(second);
        }
        evidence
    }
}
