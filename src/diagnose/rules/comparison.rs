//! Rails, channels and paths of one run compared with each other.
//!
//! A run that passes may still have a rail that is several times slower than the others. A rail is
//! named only if its receives are slow compared with every other rail, and another measure agrees or
//! they are far slower: on a machine with too few cores, one measure alone differs by several times in
//! healthy runs.
#![forbid(unsafe_code)]

use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceChannel, EvidenceNode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tcpx_run_model::counters::PathUse;
use tcpx_run_model::ids::{NodeId, PairId};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

pub(super) const RULES: &[Rule] = &[slow_rail, slow_channel, retransmitted];

/// Fewest requests of a channel whose latency is compared.
const REQUESTS_MIN: u64 = 32;
/// A rail is slow if its receives take this many times as long as those of the other rails, and
/// this many times as long as those of the slowest of them.
const RAIL_TIMES_MEDIAN: f64 = 2.0;
const RAIL_TIMES_NEXT: f64 = 1.5;
/// The same where two other measures agree. In healthy runs on loaded machines, receives over the
/// slowest rail took up to 1.3 times as long as over the next one.
const AGREED_TIMES_MEDIAN: f64 = 1.6;
const AGREED_TIMES_NEXT: f64 = 1.4;
/// The same where there is only one other rail.
const RAIL_TIMES_ONE: f64 = 3.0;
/// The same where no other measure agrees, of two or more other rails in a run that measured for so
/// many seconds: bursts that are shorter than a queue on the path do not raise the round-trip time.
const ALONE_TIMES_MEDIAN: f64 = 8.0;
const ALONE_TIMES_NEXT: f64 = 4.0;
const ALONE_MIN_S: f64 = 1.0;
/// A second measure agrees if it is this many times that of the other rails: latency of the sends,
/// and round-trip time.
const SENDS_TIMES: f64 = 2.0;
const ROUND_TRIP_TIMES: f64 = 3.0;
/// Shorter round trips differ by their noise.
const ROUND_TRIP_MIN_US: f64 = 500.0;
/// A channel is slow if its latency is this many times that of the others at both ends, and this
/// many standard deviations from their median.
const CHANNEL_TIMES: f64 = 4.0;
const CHANNEL_DEVIATIONS: f64 = 8.0;
/// Channels are not compared if their pair measured for a shorter time, in seconds: on a machine with too few
/// CPUs, a channel's thread can wait that long for a CPU.
const CHANNELS_MIN_S: f64 = 1.0;
/// Nor if the threads of an end waited for a CPU for such a share of the time in which they could have run: which
/// channels wait longest is then the scheduler's choice. Both ends on two idle CPUs waited for 45 and 69 % of it, and
/// beside eight busy processes for 82 and 91 %, where a few of some hundred healthy runs had a slow channel.
const WITHOUT_CPU_MOST: f64 = 0.75;
/// Fewest channels over one interface that are compared.
const CHANNELS_MIN: usize = 4;
/// Fewest retransmits that are reported.
const RETRANSMITS_MIN: u64 = 30;
/// Share of segments that a loaded machine loses without a fault: up to 0.3 % were seen.
const LOST_USUALLY: f64 = 0.003;
/// More is a fault, whatever the other paths lose.
const LOST_MOST: f64 = 0.005;
/// A path loses more than the others if it loses this many times as much.
const LOST_TIMES: f64 = 3.0;
/// By chance, a count is further below its mean than so many of its standard deviations in one of a
/// thousand runs.
const LOST_DEVIATIONS: f64 = 3.0;
/// Fewest segments of a path that others are compared with.
const SEGMENTS_MIN: u64 = 1000;
/// Most paths that are named.
const PATHS_MAX: usize = 8;

/// Whether the run has come to its end by itself, so that its totals can be compared.
fn has_ended(evidence: &Evidence) -> bool {
    matches!(evidence.outcome, Some(Outcome::Passed | Outcome::Failed))
}

/// What is known of one rail of one direction of a pair.
#[derive(Default)]
struct Rail<'a> {
    recvs: Vec<f64>,
    sends: Vec<f64>,
    /// Path of the sender and of the receiver.
    paths: [Option<&'a PathUse>; 2],
}

/// The rails of the direction from `from` to `to`, by the receiver's interface.
fn rails<'a>(from: &'a EvidenceNode, to: &'a EvidenceNode) -> BTreeMap<&'a str, Rail<'a>> {
    let mut rails = BTreeMap::<&str, Rail<'_>>::new();
    for recv in of_side(to, Side::Recv) {
        let send = of_side(from, Side::Send).find(|send| send.now.index == recv.now.index);
        let (Some(send), Some(recvs)) = (send, latency(recv)) else {
            continue;
        };
        let rail = rails.entry(&recv.nic).or_default();
        rail.recvs.push(recvs);
        rail.sends.extend(latency(send));
        // The address that the receiver listens on, as each end knows it.
        rail.paths[0] = rail.paths[0]
            .or(ip(&send.now.peer).and_then(|there| path_of(from, |path| path.peer == there)));
        rail.paths[1] = rail.paths[1]
            .or(ip(&recv.now.local).and_then(|here| path_of(to, |path| path.local == here)));
    }
    rails
}

fn of_side(node: &EvidenceNode, side: Side) -> impl Iterator<Item = &EvidenceChannel> {
    let is = move |channel: &&EvidenceChannel| channel.now.side == side && !channel.nic.is_empty();
    node.channels.iter().filter(is)
}

/// The median latency of a channel with enough requests, microseconds.
fn latency(channel: &EvidenceChannel) -> Option<f64> {
    let median = channel
        .now
        .latency_us
        .filter(|_| channel.now.done >= REQUESTS_MIN)?
        .p50;
    (median.is_finite() && median > 0.0).then_some(median)
}

fn ip(address: &Option<String>) -> Option<IpAddr> {
    Some(address.as_deref()?.parse::<SocketAddr>().ok()?.ip())
}

fn paths(node: &EvidenceNode) -> impl Iterator<Item = &PathUse> {
    let network = node.network.as_ref();
    network
        .and_then(|network| network.paths.known())
        .into_iter()
        .flatten()
}

fn path_of(node: &EvidenceNode, is: impl Fn(&PathUse) -> bool) -> Option<&PathUse> {
    paths(node).find(|path| is(path))
}

/// The middle of some numbers.
fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}

/// How many times the median of the others a number is.
fn times(number: Option<f64>, others: &[f64]) -> Option<f64> {
    let middle = median(others).filter(|middle| *middle > 0.0)?;
    Some(number? / middle)
}

/// A rail that is slow in one direction of a pair.
struct SlowRail<'a> {
    ends: [&'a EvidenceNode; 2],
    nic: &'a str,
    found: Found,
}

impl SlowRail<'_> {
    fn touches(&self, node: NodeId) -> bool {
        self.ends.iter().any(|end| end.subject.node == node)
    }

    fn pair(&self) -> Option<PairId> {
        self.ends[0].subject.pair
    }
}

fn slow_rail(evidence: &Evidence) -> Vec<Found> {
    if !has_ended(evidence) {
        return Vec::new();
    }
    let both_ways = evidence
        .pairs()
        .flat_map(|(one, other)| [[one, other], [other, one]]);
    let mut slow = Vec::new();
    for ends in both_ways {
        let rails = rails(ends[0], ends[1]);
        slow.extend(rails.keys().filter_map(|nic| {
            let found = slow_one(evidence, &rails, nic, ends[0], ends[1])?;
            Some(SlowRail { ends, nic, found })
        }));
    }
    let recurs: Vec<bool> = slow
        .iter()
        .map(|one| recurs(evidence, &slow, one))
        .collect();
    let named = slow.into_iter().zip(recurs).filter(|(_, recurs)| *recurs);
    named.map(|(one, _)| one.found).collect()
}

/// Whether one of the ends that are in several pairs has this slow rail in half of them. Of hundreds of
/// rails in a mesh, some are slow once by chance.
fn recurs(evidence: &Evidence, slow: &[SlowRail<'_>], one: &SlowRail<'_>) -> bool {
    let shares = one.ends.map(|end| {
        let node = end.subject.node;
        let workers = evidence.nodes.iter();
        let of_node = workers.filter(|worker| worker.subject.node == node);
        let pairs: BTreeSet<_> = of_node.map(|worker| worker.subject.pair).collect();
        let slow = slow.iter();
        let alike = slow.filter(|other| other.nic == one.nic && other.touches(node));
        let slow_pairs: BTreeSet<_> = alike.map(SlowRail::pair).collect();
        (slow_pairs.len(), pairs.len())
    });
    let mut of_several = shares.iter().filter(|(_, pairs)| *pairs > 1).peekable();
    of_several.peek().is_none() || of_several.any(|(slow, pairs)| *slow > 1 && 2 * slow >= *pairs)
}

fn slow_one(
    evidence: &Evidence,
    rails: &BTreeMap<&str, Rail<'_>>,
    nic: &str,
    from: &EvidenceNode,
    to: &EvidenceNode,
) -> Option<Found> {
    let this = rails.get(nic)?;
    let others: Vec<&Rail<'_>> = rails
        .iter()
        .filter(|(other, _)| **other != nic)
        .map(|(_, rail)| rail)
        .collect();
    let of_others = |value: &dyn Fn(&Rail<'_>) -> Option<f64>| -> Vec<f64> {
        others.iter().filter_map(|rail| value(rail)).collect()
    };
    let recvs = median(&this.recvs)?;
    let other_recvs = of_others(&|rail| median(&rail.recvs));
    let slower = times(Some(recvs), &other_recvs)?;
    let next = other_recvs.iter().copied().fold(0.0, f64::max);
    let mut agree = Vec::new();
    let sends = median(&this.sends);
    let sends_slower = times(sends, &of_others(&|rail| median(&rail.sends)));
    if let (Some(sends), Some(slower)) = (sends, sends_slower.filter(|times| *times >= SENDS_TIMES))
    {
        agree.push(format!(
            "its sends take {sends:.0} us, {slower:.1} times those of the others"
        ));
    }
    for (end, node) in [from, to].into_iter().enumerate() {
        let trip = |rail: &Rail<'_>| rail.paths[end]?.rtt_us.map(f64::from);
        let mine = trip(this).filter(|mine| *mine >= ROUND_TRIP_MIN_US);
        let slower = times(mine, &of_others(&trip));
        if let (Some(mine), Some(slower)) =
            (mine, slower.filter(|times| *times >= ROUND_TRIP_TIMES))
        {
            agree.push(format!(
                "{}: the round-trip time of its connections is {mine:.0} us, {slower:.1} times that of the others",
                node.name()
            ));
        }
        if let Some(path) = this.paths[end].filter(|path| is_lossy(node, path)) {
            agree.push(resent(node, path));
        }
    }
    let is_long = moved_for(evidence, from, to).is_some_and(|seconds| seconds >= ALONE_MIN_S);
    let (least, least_next) = match (other_recvs.len(), agree.len()) {
        (2.., 0) if is_long => (ALONE_TIMES_MEDIAN, ALONE_TIMES_NEXT),
        (_, 0) => return None,
        (1, _) => (RAIL_TIMES_ONE, RAIL_TIMES_ONE),
        (_, 1) => (RAIL_TIMES_MEDIAN, RAIL_TIMES_NEXT),
        _ => (AGREED_TIMES_MEDIAN, AGREED_TIMES_NEXT),
    };
    if slower < least || recvs < next * least_next {
        return None;
    }
    let far_from_it = if slower >= 2.0 * least { 0.15 } else { 0.0 };
    let confidence = (0.6 + far_from_it + 0.1 * agree.len().min(2) as f64).min(0.95);
    let fact = format!(
        "{} -> {}: a receive over {nic} takes {recvs:.0} us (median), {slower:.1} times as long as over {}",
        from.name(),
        to.name(),
        match other_recvs.len() {
            1 => "the other rail".to_owned(),
            count => format!("the {count} other rails"),
        }
    );
    let found = Found::at(Condition::RailSlowerThanOthers, to, confidence, fact);
    Some(agree.into_iter().fold(found, Found::and))
}

/// One channel among many over the same interface, slow at both ends.
fn slow_channel(evidence: &Evidence) -> Vec<Found> {
    if !has_ended(evidence) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let both_ways = evidence
        .pairs()
        .flat_map(|(one, other)| [(one, other), (other, one)]);
    for (from, to) in both_ways {
        if moved_for(evidence, from, to).is_some_and(|seconds| seconds < CHANNELS_MIN_S) {
            continue;
        }
        let lacks_cpu = |node: &EvidenceNode| {
            node.without_cpu
                .is_some_and(|share| share > WITHOUT_CPU_MOST)
        };
        if lacks_cpu(from) || lacks_cpu(to) {
            continue;
        }
        for recv in of_side(to, Side::Recv) {
            let send = of_side(from, Side::Send).find(|send| send.now.index == recv.now.index);
            let slower = [send.and_then(|send| outlier(from, send)), outlier(to, recv)];
            let [Some(sends), Some(recvs)] = slower else {
                continue;
            };
            let fact = format!(
                "{} -> {}: requests of channel {} over {} take {:.1} times as long at the sender and {:.1} times at \
                 the receiver as those of the other channels over it (medians)",
                from.name(),
                to.name(),
                recv.now.index,
                recv.nic,
                sends,
                recvs
            );
            found.push(Found {
                channel: Some(recv.now.index),
                ..Found::at(Condition::ChannelSlowerThanOthers, to, 0.7, fact)
            });
        }
    }
    found
}

/// The measured seconds of one direction of a pair.
fn moved_for(evidence: &Evidence, from: &EvidenceNode, to: &EvidenceNode) -> Option<f64> {
    let ends = (from.subject.pair, from.subject.node, to.subject.node);
    let mut moved = evidence.moved.iter();
    let of_ends = moved.find(|one| (Some(one.pair), one.from, one.to) == ends);
    of_ends.map(|moved| moved.seconds)
}

/// How many times slower a channel is than the others of its node, side and interface, if it is
/// far outside their spread.
fn outlier(node: &EvidenceNode, channel: &EvidenceChannel) -> Option<f64> {
    let is_other =
        |other: &&EvidenceChannel| other.nic == channel.nic && other.now.index != channel.now.index;
    let others = of_side(node, channel.now.side).filter(is_other);
    let others: Vec<f64> = others.filter_map(latency).collect();
    if others.len() + 1 < CHANNELS_MIN {
        return None;
    }
    let (mine, middle) = (latency(channel)?, median(&others)?);
    let distances: Vec<f64> = others.iter().map(|other| (other - middle).abs()).collect();
    // The median distance of normally distributed numbers, as a standard deviation.
    let deviation = (median(&distances)? * 1.4826).max(middle * 0.05);
    let slower = mine / middle;
    let is_far = (mine - middle) / deviation >= CHANNEL_DEVIATIONS;
    (slower >= CHANNEL_TIMES && is_far).then_some(slower)
}

/// Whether segments were lost on a path of a node: by more than chance, and more than on its other paths,
/// or than any path loses without a fault.
fn is_lossy(node: &EvidenceNode, path: &PathUse) -> bool {
    let share = |lost: f64, path: &PathUse| lost / path.segments.max(1) as f64;
    let is_other = |other: &&PathUse| !std::ptr::eq(*other, path) && other.segments >= SEGMENTS_MIN;
    let others: Vec<f64> = paths(node)
        .filter(is_other)
        .map(|other| share(other.lost() as f64, other))
        .collect();
    let limit = median(&others).map_or(LOST_MOST, |usual| {
        (LOST_TIMES * usual).clamp(LOST_USUALLY, LOST_MOST)
    });
    let lost = path.lost() as f64;
    // Losses are independent events: their number varies by its square root.
    let at_least = lost - LOST_DEVIATIONS * lost.sqrt();
    path.lost() >= RETRANSMITS_MIN && share(at_least, path) > limit
}

/// A larger share of lost segments is why a run did not end in time: TCP then moves a small part of what it could.
const LOST_IS_WHY: f64 = 0.05;

fn resent(node: &EvidenceNode, path: &PathUse) -> String {
    format!(
        "{}: {} of {} segments on {} -> {} were retransmitted",
        node.name(),
        path.retransmits,
        path.segments,
        path.local,
        path.peer
    )
}

fn retransmitted(evidence: &Evidence) -> Vec<Found> {
    if !has_ended(evidence) {
        return Vec::new();
    }
    // Nothing failed but that the time was over.
    let is_late = evidence.outcome == Some(Outcome::Failed)
        && evidence.nodes.iter().all(super::refusals::shows_no_cause);
    let found = evidence.nodes.iter().flat_map(|node| {
        let lossy = paths(node)
            .filter(|path| is_lossy(node, path))
            .take(PATHS_MAX);
        lossy.map(|path| {
            let fact = resent(node, path);
            let share = path.lost() as f64 / path.segments.max(1) as f64;
            let condition = match is_late && share >= LOST_IS_WHY {
                true => Condition::NetworkLoss,
                false => Condition::SegmentsRetransmitted,
            };
            Found::at(condition, node, 0.8, fact)
        })
    });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_node::Fact;
    use tcpx_run_model::counters::{LatencyUs, NetworkUse};

    pub(crate) const CASES: &[Case] = &[
        (Condition::RailSlowerThanOthers, one_rail_at_500_mbit),
        (Condition::ChannelSlowerThanOthers, one_slow_channel),
        (Condition::SegmentsRetransmitted, loss_on_the_only_rail),
    ];

    /// A run over these channels: interface, latency of sends and of receives, round-trip time and
    /// retransmits at the sender.
    pub(crate) fn run(channels: &[(&str, [f64; 2], u32, u64)]) -> Evidence {
        let mut evidence = passed();
        let mut paths = Vec::new();
        for (end, node) in evidence.nodes.iter_mut().enumerate() {
            node.channels.clear();
            for (index, (nic, latencies, ..)) in channels.iter().enumerate() {
                let mut one = channel([Side::Send, Side::Recv][end], [192; 3], 10);
                (one.nic, one.watched, one.now.index) = ((*nic).into(), None, index);
                let p50 = latencies[end];
                one.now.latency_us = Some(LatencyUs {
                    p50,
                    p99: p50,
                    p999: p50,
                    max: p50,
                });
                let address = Some(SocketAddr::new(on(nic, 226), 4711).to_string());
                match one.now.side {
                    Side::Send => one.now.peer = address,
                    Side::Recv => one.now.local = address,
                }
                node.channels.push(one);
            }
        }
        for (nic, _, rtt_us, retransmits) in channels {
            paths.push(PathUse {
                local: on(nic, 25),
                peer: on(nic, 226),
                connections: 8,
                segments: 12_500,
                retransmits: *retransmits,
                duplicates: 0,
                rtt_us: Some(*rtt_us),
            });
        }
        paths.dedup_by_key(|path| path.peer);
        evidence.nodes[0].network = Some(NetworkUse {
            paths: Fact::Known(paths),
            drops: None,
        });
        evidence
    }

    /// The address of a host on a rail.
    fn on(nic: &str, host: u8) -> IpAddr {
        let rail: u8 = nic.trim_start_matches("eth").parse().expect("eth1");
        IpAddr::from([192, 168, rail, host])
    }

    // As measured on two cores, with 500 Mbit/s on eth2.
    fn one_rail_at_500_mbit() -> Evidence {
        run(&[
            ("eth1", [6553.6, 17825.8], 3031, 14),
            ("eth2", [104_857.6, 130_023.4], 38_859, 4),
        ])
    }

    pub(super) fn one_slow_channel() -> Evidence {
        let mut channels = [("eth1", [9000.0, 20_000.0], 3000, 10); 4];
        for (index, channel) in channels.iter_mut().enumerate() {
            channel.1[1] += 1000.0 * index as f64;
        }
        channels[3].1 = [90_000.0, 210_000.0];
        run(&channels)
    }

    fn loss_on_the_only_rail() -> Evidence {
        run(&[("eth1", [9000.0, 20_000.0], 23_000, 124)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use tcpx_run_model::finding::Finding;

    #[test]
    fn a_path_that_lost_much_is_why_a_run_did_not_end_in_time() {
        let first = |outcome, retransmits| {
            let mut evidence =
                super::cases::run(&[("eth1", [9000.0, 20_000.0], 23_000, retransmits)]);
            evidence.outcome = Some(outcome);
            diagnose(&evidence).remove(0).condition
        };
        assert_eq!(first(Outcome::Failed, 2500), "network-loss");
        assert_eq!(first(Outcome::Failed, 124), "segments-retransmitted");
        assert_eq!(first(Outcome::Passed, 2500), "segments-retransmitted");
    }

    #[test]
    fn rails_of_a_healthy_run_on_two_busy_cores_are_not_told_apart() {
        // Latencies and round trips of runs without a fault: one measure differs, no two agree.
        for channels in [
            [
                ("eth1", [3276.8, 13_107.2], 4546, 9),
                ("eth2", [13_107.2, 24_117.2], 7672, 9),
                ("eth3", [14_155.8, 24_117.2], 3990, 12),
                ("eth4", [39_845.9, 22_020.1], 3779, 17),
            ],
            [
                ("eth1", [4980.7, 14_155.8], 3384, 5),
                ("eth2", [19_922.9, 22_020.1], 2594, 10),
                ("eth3", [30_408.7, 26_214.4], 7448, 9),
                ("eth4", [28_311.6, 35_651.6], 4508, 38),
            ],
        ] {
            assert_eq!(diagnose(&cases::run(&channels)), []);
        }
    }

    /// What is found in a run that measured for so many seconds.
    fn found_after(seconds: f64, mut evidence: Evidence) -> Vec<String> {
        let [from, to] = [0, 1].map(|end| evidence.nodes[end].subject.clone());
        evidence.moved = vec![crate::evidence::Moved {
            pair: from.pair.expect("a pair"),
            from: from.node,
            to: to.node,
            bytes: 1 << 30,
            seconds,
        }];
        let found = diagnose(&evidence).into_iter();
        found.map(|one| one.condition).collect()
    }

    #[test]
    fn channels_of_a_short_measurement_are_not_compared() {
        let found = |seconds| found_after(seconds, cases::one_slow_channel());
        assert_eq!(found(0.4), [""; 0]);
        assert_eq!(found(1.4), ["channel-slower-than-others"]);
    }

    #[test]
    fn channels_of_an_end_that_mostly_waited_for_a_cpu_are_not_compared() {
        let found = |end: usize, share| {
            let mut evidence = cases::one_slow_channel();
            evidence.nodes[end].without_cpu = Some(share);
            found_after(1.4, evidence)
        };
        for end in [0, 1] {
            assert_eq!(found(end, 0.7), ["channel-slower-than-others"]);
            assert_eq!(found(end, 0.8), [""; 0]);
        }
    }

    #[test]
    fn a_rail_is_named_by_its_receives_alone_only_if_they_are_far_slower() {
        // 500 Mbit/s on eth3, in iterations of 4 MiB: the path's queue holds each burst.
        let run = |recvs| {
            cases::run(&[
                ("eth1", [753.7, 1507.3], 5543, 0),
                ("eth2", [819.2, 1376.3], 6314, 0),
                ("eth3", [753.7, recvs], 6350, 0),
                ("eth4", [688.1, 1015.8], 5463, 0),
            ])
        };
        assert_eq!(found_after(1.4, run(32_505.9)), ["rail-slower-than-others"]);
        assert_eq!(found_after(1.4, run(5505.0)), [""; 0]);
        assert_eq!(found_after(0.4, run(32_505.9)), [""; 0]);
    }

    #[test]
    fn a_rail_of_a_node_with_several_pairs_is_named_if_it_is_slow_in_half_of_them() {
        let slow = cases::run(&[
            ("eth1", [4980.7, 15_204.4], 2252, 8),
            ("eth2", [48_234.5, 65_011.7], 32_918, 8),
            ("eth3", [30_408.7, 28_311.6], 4121, 16),
        ]);
        let healthy = cases::run(&[
            ("eth1", [4980.7, 15_204.4], 2252, 8),
            ("eth2", [30_408.7, 28_311.6], 4121, 16),
            ("eth3", [30_408.7, 28_311.6], 4121, 16),
        ]);
        // The first node of each pair is the same.
        let named = |pairs: &[&Evidence]| {
            let mut all = slow.clone();
            all.nodes.clear();
            for (number, pair) in (0..).zip(pairs) {
                let mut nodes = pair.nodes.clone();
                nodes[1].subject.node = NodeId(number + 1);
                nodes
                    .iter_mut()
                    .for_each(|node| node.subject.pair = Some(PairId(number)));
                all.nodes.extend(nodes);
            }
            let found = diagnose(&all);
            let is = |one: &&Finding| one.condition == "rail-slower-than-others";
            found.iter().filter(is).count()
        };
        assert_eq!(named(&[&slow]), 1);
        assert_eq!(named(&[&slow, &slow, &healthy, &healthy]), 2);
        assert_eq!(named(&[&slow, &slow, &healthy, &healthy, &healthy]), 0);
        assert_eq!(named(&[&slow, &healthy]), 0);
    }

    #[test]
    fn retransmits_on_one_machine_and_of_segments_that_had_arrived_are_no_loss() {
        let found = |change: fn(&mut PathUse)| {
            let mut evidence = cases::run(&[("eth1", [9000.0, 20_000.0], 23_000, 124)]);
            let network = evidence.nodes[0].network.as_mut();
            if let Some(tcpx_node::Fact::Known(paths)) = network.map(|network| &mut network.paths) {
                paths.iter_mut().for_each(change);
            }
            !diagnose(&evidence).is_empty()
        };
        assert!(found(|_| {}));
        assert!(!found(|path| path.peer = path.local));
        assert!(!found(|path| path.duplicates = 100));
    }

    #[test]
    fn a_rail_is_named_sooner_where_two_measures_agree() {
        // 500 Mbit/s on eth2, of a machine so busy that the other rails are hardly faster.
        let run = |recvs, sends, rtt_us| {
            let slow = ("eth2", [sends, recvs], rtt_us, 9);
            let found = diagnose(&cases::run(&[
                ("eth1", [15_204.4, 35_651.6], 5674, 11),
                slow,
                ("eth3", [39_845.9, 44_040.2], 4559, 15),
                ("eth4", [56_623.1, 48_234.5], 7517, 16),
            ]));
            !found.is_empty()
        };
        assert!(run(79_691.8, 96_469.0, 17_458));
        assert!(!run(79_691.8, 60_000.0, 17_458));
        assert!(!run(60_000.0, 96_469.0, 17_458));
    }

    #[test]
    fn loss_is_told_by_comparison_with_the_other_rails_and_by_the_number_of_segments() {
        // Lost of 12500 segments on eth2 and on each other rail, and as many of so many times as many.
        let is_named = |lost: u64, elsewhere: u64, times: u64| {
            let rail = |nic, lost| (nic, [4980.7, 15_204.4], 2252, lost);
            let mut evidence = cases::run(&[
                rail("eth1", elsewhere),
                rail("eth2", lost),
                rail("eth3", elsewhere),
                rail("eth4", elsewhere),
            ]);
            let network = evidence.nodes[0].network.as_mut();
            if let Some(tcpx_node::Fact::Known(paths)) = network.map(|network| &mut network.paths) {
                for path in paths {
                    path.segments *= times;
                    path.retransmits *= times;
                }
            }
            !diagnose(&evidence).is_empty()
        };
        // 1 % of packets, of which 0.67 % of segments were counted, beside clean rails.
        assert!(is_named(84, 0, 1));
        // What a loaded machine loses, also where it is counted for long.
        assert!(!is_named(37, 2, 1));
        assert!(!is_named(37, 2, 100));
        // The same share is sure where more was sent.
        assert!(!is_named(45, 2, 1));
        assert!(is_named(45, 2, 20));
        // The machine loses as much on every rail, until that is too much for any.
        assert!(!is_named(60, 45, 1));
        assert!(is_named(125, 110, 1));
    }

    #[test]
    fn a_rail_with_loss_and_delay_is_named_with_its_retransmits() {
        let found = diagnose(&cases::run(&[
            ("eth1", [4980.7, 15_204.4], 2252, 8),
            ("eth2", [48_234.5, 65_011.7], 32_918, 136),
            ("eth3", [30_408.7, 28_311.6], 4121, 16),
            ("eth4", [39_845.9, 26_214.4], 2612, 13),
        ]));
        let rail = found
            .iter()
            .find(|one| one.condition == "rail-slower-than-others");
        let rail = rail.expect("the slow rail");
        assert!(rail.because[0].contains("over eth2 takes"), "{rail:#?}");
        assert!(
            found
                .iter()
                .any(|one| one.condition == "segments-retransmitted"),
            "{found:#?}"
        );
    }
}
