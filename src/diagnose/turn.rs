//! The channel that waits longest, and which side has to act there, by the counters of
//! both ends.
//!
//! Not here: why that side does not act, which the rules find.
#![forbid(unsafe_code)]

use super::evidence::{Evidence, Spot};
use tcpx_run_model::finding::Subject;
use tcpx_words::side::Side;

/// A channel that is quiet for this long is reported as waiting.
pub const WAITING_MS: u64 = 500;
/// A channel that is tested less often than the first, its program does not drive. If both ends are tested as often as
/// the second, no program keeps bytes waiting.
const UNTESTED_PER_S: f64 = 1.0;
const TESTED_PER_S: f64 = 20.0;

/// The channel that waits, and whose turn it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The worker or process that the channel belongs to.
    pub subject: Subject,
    /// Which end of its connection it is.
    pub side: Side,
    /// Index within its direction.
    pub channel: usize,
    /// Milliseconds since one of its requests changed state.
    pub quiet_ms: u64,
    /// It has been quiet for `stall_after`.
    pub is_stalled: bool,
    /// `peer recv 1: 16/16 done, none handed back: the receiver's turn`.
    pub words: String,
}

/// The channel that waits: stalled ones first, then full windows, then the longest quiet.
/// `None` if everything moves or nothing is in flight.
pub fn whose_turn(evidence: &Evidence) -> Option<Turn> {
    let waits = |spot: &Spot<'_>| {
        let channel = spot.channel;
        !channel.now.closed && channel.in_flight() > 0 && channel.now.quiet_ms >= WAITING_MS
    };
    let is_stalled = |spot: &Spot<'_>| spot.channel.now.quiet_ms >= evidence.stall_after_ms;
    let key = |spot: &Spot<'_>| {
        let channel = spot.channel;
        (
            is_stalled(spot),
            channel.done_unconsumed(),
            channel.in_flight(),
            channel.now.quiet_ms,
        )
    };
    // The first of several equal ones.
    let worst = evidence.spots().filter(waits).reduce(|worst, spot| {
        if key(&spot) > key(&worst) {
            spot
        } else {
            worst
        }
    });
    worst.map(|spot| Turn {
        subject: spot.node.subject.clone(),
        side: spot.channel.now.side,
        channel: spot.channel.now.index,
        quiet_ms: spot.channel.now.quiet_ms,
        is_stalled: is_stalled(&spot),
        words: words(spot, is_stalled(&spot)),
    })
}

fn words(spot: Spot<'_>, is_stalled: bool) -> String {
    let (name, channel) = (spot.short_name(), spot.channel);
    let (in_flight, done) = (channel.in_flight(), channel.done_unconsumed());
    let last_error = channel.now.last_error.as_ref();
    let last_error = last_error
        .map(|(call, code)| format!("; {call} returned {code}"))
        .unwrap_or_default();
    if let Some(call) = &channel.now.in_call {
        return format!(
            "{name} is inside {call}, which has not returned: the plugin's turn{last_error}"
        );
    }
    if channel.now.rc_errors > 0 && is_stalled {
        return format!("{name}: {in_flight} in flight{last_error}");
    }
    if !channel.sends() && done > 0 && done == in_flight {
        return format!("{name}: {done}/{in_flight} done, none handed back: the receiver's turn");
    }
    let end = spot.other_end();
    let other = end
        .as_ref()
        .map(|other| (other.short_name(), other.channel.in_flight()));
    let rates = [Some(channel), end.as_ref().map(|other| other.channel)];
    let [own, others] = rates.map(|of| of.and_then(|of| of.polls_per_s()));
    let is_untested = |rate: Option<f64>| rate.is_some_and(|rate| rate < UNTESTED_PER_S);
    let is_tested = |rate: Option<f64>| rate.is_some_and(|rate| rate >= TESTED_PER_S);
    match (channel.now.side, other) {
        (Side::Recv, Some((sender, 0))) => {
            format!("{name}: {in_flight} posted, {sender} has none in flight: the sender's turn")
        }
        (Side::Send, Some((receiver, 0))) => {
            format!("{name}: {in_flight} posted, {receiver} has none posted: the receiver's turn")
        }
        _ if is_untested(own) => {
            format!("{name}: {in_flight} posted, not tested: its program's turn")
        }
        (_, Some((other, count))) if is_untested(others) => {
            format!("{other}: {count} posted, not tested: its program's turn; {name}: {in_flight}")
        }
        // Who does not test moves nothing, so the path is left only where both do.
        (_, Some((other, count))) if is_tested(own) && is_tested(others) => {
            format!(
                "{name}: {in_flight} posted, {other}: {count}, nothing arrives: the path between them"
            )
        }
        (_, Some((other, count))) => {
            format!("{name}: {in_flight} posted, {other}: {count}, nothing arrives")
        }
        (Side::Recv, None) => format!("{name}: {in_flight} posted, {done} done"),
        (Side::Send, None) => format!("{name}: {in_flight} posted, none done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::event::{Event, EventKind};
    use tcpx_run_model::ids::{NodeId, PairId, Who, WorkerId};
    use tcpx_run_model::phase::{Exit, Phase};
    use tcpx_run_model::state::RunState;
    use tcpx_run_model::timeline::Timeline;

    fn apply(timeline: &mut Timeline, ms: f64, node: u32, kind: EventKind) {
        let who = Who::Worker(WorkerId::of_pair(NodeId(node), PairId(0)));
        timeline.apply(&Event {
            at: "1970-01-01T00:00:00Z".into(),
            ..Event::new(ms, who, kind)
        });
    }

    fn counters(side: Side, [posted, done, consumed]: [u64; 3], quiet_ms: u64) -> EventKind {
        EventKind::Sample(vec![ChannelNow {
            side,
            posted,
            done,
            consumed,
            quiet_ms,
            ..ChannelNow::default()
        }])
    }

    #[test]
    fn whose_turn_it_was_is_known_at_any_moment() {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        let mut timeline = Timeline::from_state(state);
        apply(&mut timeline, 0.0, 0, counters(Side::Send, [12, 4, 4], 0));
        apply(&mut timeline, 0.0, 1, counters(Side::Recv, [16, 16, 0], 0));
        apply(
            &mut timeline,
            9000.0,
            0,
            counters(Side::Send, [20, 12, 12], 0),
        );
        apply(
            &mut timeline,
            9000.0,
            1,
            counters(Side::Recv, [24, 24, 24], 0),
        );
        let at = |timeline: &Timeline, ms: u64| whose_turn(&Evidence::at(timeline, ms * 1_000_000));
        assert_eq!(at(&timeline, 0), None);
        // Counters age while no newer ones arrive.
        let waits = at(&timeline, 600).expect("it waits");
        assert_eq!(
            (waits.quiet_ms, waits.is_stalled, waits.subject.node),
            (600, false, NodeId(1))
        );
        assert_eq!(
            waits.words,
            "peer recv 0: 16/16 done, none handed back: the receiver's turn"
        );
        assert!(at(&timeline, 8999).is_some_and(|turn| turn.is_stalled));
        assert_eq!(at(&timeline, 9000), None);
        let channels = vec![];
        let exit = Exit {
            code: Some(1),
            signal: None,
            killed: false,
            phase: Phase::Measuring,
            in_call: None,
            channels,
        };
        apply(&mut timeline, 9100.0, 0, EventKind::Exited(exit));
        assert_eq!(
            at(&timeline, 60_000),
            None,
            "a worker that is gone does not wait, and the other has nothing in flight"
        );
    }
}
