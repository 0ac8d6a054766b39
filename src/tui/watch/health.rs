//! The sentence of the banner: whether the transfer moves, which channel does not, and whose
//! turn it is there.
//!
//! `tcpx_diagnose::turn` decides whose turn it is; the rules find the reason.
#![forbid(unsafe_code)]

use super::model::Model;
use super::picture::{ChannelPicture, ChannelState, Picture, WorkerPicture};
use super::source::Clock;
use tcpx_diagnose::turn::{Turn, whose_turn};
use tcpx_diagnose::{Condition, Evidence};
use tcpx_run_model::finding::Severity;
use tcpx_run_model::phase::Phase;
use tcpx_words::error::Outcome;

/// A call that has not returned for so long is told.
const INSIDE_MS: u64 = 1000;
/// Older counters are reported as stale.
const STALE_MS: u64 = 2000;

/// The state of the run, which decides the banner's style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealthLevel {
    /// No channel yet, or nothing in flight.
    Quiet,
    Moving,
    /// A channel waits, a call failed, or counters are stale.
    Waiting,
    Stalled,
    Passed,
    /// The run ended and did not pass.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) level: HealthLevel,
    /// The state in capitals, such as `MOVING` or `STALLED 4.2 s`.
    pub(crate) word: String,
    /// The counters or the finding behind the state.
    pub(crate) why: String,
}

impl Health {
    /// The health at the moment of a picture. This runs for each frame, so evidence is collected
    /// only if a channel waits.
    pub(crate) fn of_picture(model: &Model, picture: &Picture<'_>) -> Self {
        if let Clock::Reading(percent) = model.clock {
            return Self {
                level: HealthLevel::Quiet,
                word: "READING".into(),
                why: format!("{percent} % of what the run has written is read"),
            };
        }
        if let Some(ended) = &model.state().ended
            && picture.at_ns >= model.last_ns()
        {
            return Self::ended(model, picture, ended.outcome, ended.reason.clone());
        }
        if let Some(silent) = silent(picture) {
            let age = seconds(silent.stale_ms);
            return Self {
                level: HealthLevel::Waiting,
                word: "NO COUNTERS".into(),
                why: format!("no counters from {} for {age}", silent.name),
            };
        }
        let stopped = stopped(model);
        if let Some(inside) = inside(model, picture).filter(|_| stopped.is_none()) {
            return inside;
        }
        // What a stopped process has not done for a moment is nobody's turn; a stall is told with it.
        let turn = turn(model, picture).filter(|turn| turn.is_stalled || stopped.is_none());
        if let Some(turn) = turn {
            return Self::standing(model, picture, turn);
        }
        if let Some(why) = stopped {
            return Self {
                level: HealthLevel::Waiting,
                word: "STOPPED".into(),
                why,
            };
        }
        let is_over = picture.nodes.iter().all(|one| one.ended.is_some());
        let moves = |row: &ChannelPicture<'_>| row.state == ChannelState::Moving;
        let has_no_end = model.clock == Clock::Over && picture.at_ns >= model.last_ns();
        match !is_over && picture.rows.iter().any(moves) {
            true if has_no_end => Self::cut_short(picture),
            true => Self::moving(picture),
            false => Self::quiet(picture, model.clock == Clock::Over),
        }
    }

    /// The last moment of a run whose record has no end. Recordings that were adopted while their
    /// programs ran have none either, and no coordinator.
    fn cut_short(picture: &Picture<'_>) -> Self {
        if picture.nodes.iter().all(|one| one.id.pair().is_none()) {
            return Self {
                level: HealthLevel::Quiet,
                word: "COPY".into(),
                why: "the recordings were copied while channels moved: how it went on is not known"
                    .into(),
            };
        }
        Self {
            level: HealthLevel::Failed,
            word: "NO END".into(),
            why: "the record ends here while channels move: its coordinator was killed, or could not write any more".into(),
        }
    }

    fn ended(
        model: &Model,
        picture: &Picture<'_>,
        outcome: Outcome,
        reason: Option<String>,
    ) -> Self {
        let word = outcome.to_string().to_uppercase();
        // The counters of a record that was cut are those of an earlier moment.
        let lost = match model.lost.first() {
            Some(first) => format!("; the record is incomplete: {first}"),
            None => String::new(),
        };
        if outcome == Outcome::Passed {
            let level = match lost.is_empty() {
                true => HealthLevel::Passed,
                false => HealthLevel::Waiting,
            };
            let why = reason.unwrap_or_else(|| "all transfers completed".to_owned()) + &lost;
            return Self { level, word, why };
        }
        let stalled = turn(model, picture).filter(|turn| turn.is_stalled);
        let why = stalled.map(|turn| turn.words).or(reason);
        Self {
            level: HealthLevel::Failed,
            word,
            why: why.unwrap_or_else(|| "no reason was recorded".to_owned()) + &lost,
        }
    }

    fn standing(model: &Model, picture: &Picture<'_>, turn: Turn) -> Self {
        let quiet = seconds(turn.quiet_ms);
        if turn.is_stalled {
            let why = turn.words + &others(picture, ChannelState::Stuck);
            return Self {
                level: HealthLevel::Stalled,
                word: format!("STALLED {quiet}"),
                why: named(model, why),
            };
        }
        let why = turn.words + &others(picture, ChannelState::Waiting);
        Self {
            level: HealthLevel::Waiting,
            word: format!("WAITING {quiet}"),
            why,
        }
    }

    fn moving(picture: &Picture<'_>) -> Self {
        let moving = picture
            .rows
            .iter()
            .filter(|row| row.state == ChannelState::Moving)
            .count();
        let refused = picture.rows.iter().find(|row| row.now.rc_errors > 0);
        let (level, why) = match refused {
            Some(row) => (HealthLevel::Waiting, refusals(picture, row)),
            None => (
                HealthLevel::Moving,
                format!("{moving} of {} channels", picture.rows.len()),
            ),
        };
        Self {
            level,
            word: "MOVING".into(),
            why,
        }
    }

    fn quiet(picture: &Picture<'_>, is_over: bool) -> Self {
        let nodes = &picture.nodes;
        let running = || nodes.iter().filter(|one| one.ended.is_none());
        let connecting = |one| Some((one, connecting(one, picture.at_ns)?));
        if let Some((node, connecting)) = running().find_map(connecting) {
            return Self {
                level: HealthLevel::Waiting,
                word: "CONNECTING".into(),
                why: format!("{} is {connecting}: the peer has not accepted", node.name),
            };
        }
        let inside = running()
            .filter_map(|one| Some((one.name, one.worker.process.as_ref()?.inside.as_ref()?)))
            .next();
        if let Some((node, call)) = inside {
            return Self {
                level: HealthLevel::Quiet,
                word: "SETTING UP".into(),
                why: format!("{node} is inside {call}"),
            };
        }
        let ended = nodes
            .iter()
            .enumerate()
            .find_map(|(node, one)| Some((node, one.name, one.ended.as_ref()?)));
        let (word, why) = match (nodes.is_empty(), picture.rows.is_empty(), ended) {
            (true, ..) if picture.waits => ("WAITS", "its round comes later".to_owned()),
            (true, ..) if is_over => {
                let why = "the run is over, and no event that is left of it is of a process";
                ("NO PROCESS", why.to_owned())
            }
            (true, ..) => ("NO PROCESS", "no process with a recorder yet".to_owned()),
            (_, _, Some((node, name, how))) => (
                nodes[node].end_word(),
                format!("{name}: {how}{}", at_its_end(picture, node)),
            ),
            (_, true, _) => ("STARTING", "no recorded channel yet".to_owned()),
            _ => ("IDLE", "nothing in flight on any channel".to_owned()),
        };
        Self {
            level: HealthLevel::Quiet,
            word: word.into(),
            why,
        }
    }
}

/// The plugin call that has not returned for longest, if that is longer than a healthy call takes. Requests in
/// flight, if there are any, wait for it too. A `connect` waits for the peer, and is told otherwise.
fn inside(model: &Model, picture: &Picture<'_>) -> Option<Health> {
    let node = |row: &ChannelPicture<'_>| &picture.nodes[row.node];
    let on_channels = picture.rows.iter().filter_map(|row| {
        let (name, one) = (node(row).name, row.now);
        let call = one
            .in_call
            .as_ref()
            .filter(|_| !one.closed && one.in_call_ms > 0)?;
        let ms = one.in_call_ms.saturating_add(node(row).stale_ms);
        let what = format!("{name} {} {} is inside {call}", one.side, one.index);
        node(row).ended.is_none().then_some((ms, what))
    });
    let running = picture.nodes.iter().filter(|one| one.ended.is_none());
    let in_setup = running.filter_map(|one| {
        let process = one.worker.process.as_ref()?;
        let call = process.inside.as_ref().filter(|call| *call != "connect")?;
        let ns = picture.at_ns.checked_sub(process.inside_since_ns?)?;
        Some((ns / 1_000_000, format!("{} is inside {call}", one.name)))
    });
    let calls = on_channels.chain(in_setup);
    let (ms, what) = calls
        .filter(|(ms, _)| *ms >= INSIDE_MS)
        .max_by_key(|(ms, _)| *ms)?;
    let level = match ms >= model.state().stall_after_ms {
        true => HealthLevel::Stalled,
        false => HealthLevel::Waiting,
    };
    Some(Health {
        level,
        word: format!("IN A CALL {}", seconds(ms)),
        why: format!("{what}, which has not returned: the plugin's turn"),
    })
}

/// The `connect` of a process that had given no comm at the moment `at_ns`, or at its end.
fn connecting(node: &WorkerPicture<'_>, at_ns: u64) -> Option<String> {
    let one = node.worker.process.as_ref()?.connecting.as_ref()?;
    let end_ns = node.sample.filter(|_| node.ended.is_some());
    let until_ns = end_ns.map_or(at_ns, |sample| sample.at_ns);
    let ms = until_ns.checked_sub(one.since_ns)? / 1_000_000;
    let peer = one.peer.as_deref();
    let peer = peer.map_or_else(String::new, |peer| format!(" to {peer}"));
    one.goes_on
        .then(|| format!("connecting{peer} for {}", seconds(ms)))
}

/// What a node still did when it ended, if anything.
fn at_its_end(picture: &Picture<'_>, node: usize) -> String {
    let connecting = connecting(&picture.nodes[node], picture.at_ns);
    let connecting = connecting.map(|words| format!("; it had been {words}"));
    connecting.unwrap_or_default() + &in_flight(picture, node)
}

/// What a node still had in flight, if anything.
fn in_flight(picture: &Picture<'_>, node: usize) -> String {
    let of_node = picture.rows.iter().filter(|row| row.node == node);
    let open = of_node.filter(|row| !row.now.closed);
    let requests = open
        .map(ChannelPicture::in_flight)
        .fold(0, u64::saturating_add);
    match requests {
        0 => String::new(),
        _ => format!(", with {requests} requests in flight"),
    }
}

/// Whose turn it is, if any channel waits.
fn turn(model: &Model, picture: &Picture<'_>) -> Option<Turn> {
    let waits = picture
        .rows
        .iter()
        .any(|row| matches!(row.state, ChannelState::Stuck | ChannelState::Waiting));
    if waits {
        whose_turn(&Evidence::at(&model.timeline, picture.at_ns))
    } else {
        None
    }
}

/// The worker with the oldest stale counters. Workers of a run send counters only while they
/// move bytes, so only those phases count.
fn silent<'a, 'b>(picture: &'b Picture<'a>) -> Option<&'b WorkerPicture<'a>> {
    let is_sampled = |one: &&WorkerPicture<'_>| {
        matches!(one.phase, None | Some(Phase::WarmUp | Phase::Measuring))
    };
    let silent = picture
        .nodes
        .iter()
        .filter(|one| one.sample.is_some() && one.stale_ms > STALE_MS);
    silent.filter(is_sampled).max_by_key(|one| one.stale_ms)
}

/// The counters of the stalled channel, followed by the condition that the rules found, so that
/// a narrow screen still shows whose turn it is. A finding without a channel, such as a stopped
/// process or a link that is down, replaces the counters with its first fact.
fn named(model: &Model, counters: String) -> String {
    let state = model.state();
    let first = state
        .findings
        .first()
        .filter(|first| first.severity == Severity::Error && state.ended.is_none());
    match first {
        Some(first) if first.channel.is_none() => {
            let place = first
                .place()
                .map(|place| format!(" at {place}"))
                .unwrap_or_default();
            format!(
                "{}{place}: {}",
                first.condition,
                first
                    .because
                    .first()
                    .map_or_else(String::new, |fact| without_times(fact))
            )
        }
        Some(first) => format!("{counters} ({})", first.condition),
        None => counters,
    }
}

/// A fact without how long its channels were quiet and how often they were tested: that was so when the finding was
/// made, and a finding stays while its stall goes on.
fn without_times(fact: &str) -> String {
    let mut parts = fact.split(", quiet for ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once(" s").map_or("", |(_, rest)| rest);
        let tested = rest.strip_prefix(", tested ");
        let behind = tested.and_then(|tested| tested.split_once(" times/s"));
        text.push_str(behind.map_or(rest, |(_, rest)| rest));
    }
    text
}

/// The process that a signal has stopped, if there is one: with nothing in flight, no channel waits.
fn stopped(model: &Model) -> Option<String> {
    let findings = &model.state().findings;
    let stopped = Some(Condition::ProcessStopped);
    let found = findings
        .iter()
        .find(|one| Condition::from_name(&one.condition) == stopped)?;
    found.because.first().cloned()
}

fn others(picture: &Picture<'_>, state: ChannelState) -> String {
    match picture.rows.iter().filter(|row| row.state == state).count() {
        0 | 1 => String::new(),
        count => format!("; {count} channels in total"),
    }
}

fn refusals(picture: &Picture<'_>, row: &ChannelPicture<'_>) -> String {
    let (name, side, index) = (picture.nodes[row.node].name, row.now.side, row.now.index);
    let last = row
        .now
        .last_error
        .as_ref()
        .map(|(call, code)| format!("; {call} returned {code}"));
    format!(
        "{name} {side} {index}: {} calls failed{}",
        row.now.rc_errors,
        last.unwrap_or_default()
    )
}

/// A duration such as `4.2 s` or `3 min 07 s`.
fn seconds(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Beginning;
    use tcpx_run_model::counters::ChannelNow;
    use tcpx_run_model::counters::{ConnectingFacts, ProcessFacts};
    use tcpx_run_model::event::{Event, EventKind};
    use tcpx_run_model::finding::{Finding, Subject};
    use tcpx_run_model::ids::{NodeId, NodeIntro, PairId, Unit, Who, WorkerId};
    use tcpx_run_model::state::RunState;
    use tcpx_words::side::Side;

    const LOCAL: WorkerId = WorkerId::of_pair(NodeId(0), PairId(0));
    const PEER: WorkerId = WorkerId::of_pair(NodeId(1), PairId(0));

    /// A channel with these posted, done and consumed requests, unchanged for `quiet_s` seconds.
    fn channel(side: Side, [posted, done, consumed]: [u64; 3], quiet_s: u64) -> ChannelNow {
        ChannelNow {
            side,
            posted,
            done,
            consumed,
            quiet_ms: quiet_s * 1000,
            ..ChannelNow::default()
        }
    }

    fn sample(worker: WorkerId, one: ChannelNow) -> Event {
        Event::new(0.0, Who::Worker(worker), EventKind::Sample(vec![one]))
    }

    /// The health of a run of two nodes after some events.
    fn after(events: impl IntoIterator<Item = Event>) -> Health {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        health_after(state, events)
    }

    fn model_after(state: RunState, events: impl IntoIterator<Item = Event>) -> Model {
        let title = String::new();
        Model::after(Beginning { title, state }, events)
    }

    fn health_after(state: RunState, events: impl IntoIterator<Item = Event>) -> Health {
        let model = model_after(state, events);
        Health::of_picture(&model, &Picture::at(&model, model.last_ns()))
    }

    fn check(send: ChannelNow, recv: ChannelNow, expected: &str) {
        let health = after([sample(LOCAL, send), sample(PEER, recv)]);
        assert_eq!(format!("{}: {}", health.word, health.why), expected);
    }

    #[test]
    fn the_counters_of_both_ends_say_whose_turn_it_is() {
        let [send, recv] = [Side::Send, Side::Recv]
            .map(|side| move |counts, quiet_s| channel(side, counts, quiet_s));
        check(
            send([12, 0, 0], 4),
            recv([16, 16, 0], 4),
            "STALLED 4.0 s: peer recv 0: 16/16 done, none handed back: the receiver's turn; 2 channels in total",
        );
        check(
            send([12, 12, 12], 4),
            recv([28, 12, 12], 4),
            "STALLED 4.0 s: peer recv 0: 16 posted, local send 0 has none in flight: the sender's turn",
        );
        check(
            send([12, 0, 0], 4),
            recv([0, 0, 0], 4),
            "STALLED 4.0 s: local send 0: 12 posted, peer recv 0 has none posted: the receiver's turn",
        );
        check(
            send([12, 0, 0], 4),
            recv([16, 0, 0], 4),
            // One sample does not tell whether a program tests.
            "STALLED 4.0 s: peer recv 0: 16 posted, local send 0: 12, nothing arrives; 2 channels in total",
        );
        let tested = |ms, sent, received| {
            let [mut from, mut to] = [send([12, 0, 0], 4), recv([16, 0, 0], 4)];
            (from.tests, to.tests) = (sent, received);
            let of = |who, now| Event::new(ms, Who::Worker(who), EventKind::Sample(vec![now]));
            [of(LOCAL, from), of(PEER, to)]
        };
        let why = |sent, received| {
            let samples = tested(0.0, 0, 0).into_iter();
            after(samples.chain(tested(1000.0, sent, received))).why
        };
        let path =
            "peer recv 0: 16 posted, local send 0: 12, nothing arrives: the path between them";
        assert!(why(90_000, 90_000).starts_with(path));
        assert!(
            why(90_000, 3)
                .starts_with("peer recv 0: 16 posted, local send 0: 12, nothing arrives; ")
        );
        assert!(
            why(90_000, 0).starts_with("peer recv 0: 16 posted, not tested: its program's turn")
        );
        let sender = "local send 0: 12 posted, not tested: its program's turn; peer recv 0: 16";
        assert!(why(0, 90_000).starts_with(sender));
        let inside = ChannelNow {
            in_call: Some("test".into()),
            ..recv([16, 0, 0], 4)
        };
        let sent = send([12, 12, 12], 4);
        // One sample does not tell whether the call returns.
        let once = "STALLED 4.0 s: peer recv 0: 16 posted, local send 0 has none in flight: the sender's turn";
        check(sent.clone(), inside.clone(), once);
        let told = |tests: u64| {
            let later = ChannelNow {
                tests,
                ..inside.clone()
            };
            let later = Event::new(300.0, Who::Worker(PEER), EventKind::Sample(vec![later]));
            let first = [sample(LOCAL, sent.clone()), sample(PEER, inside.clone())];
            after(first.into_iter().chain([later])).why
        };
        let hangs = "peer recv 0 is inside test, which has not returned: the plugin's turn";
        assert_eq!(told(0), hangs);
        assert!(!told(300_000).contains("inside"));
        let refused = ChannelNow {
            rc_errors: 1,
            last_error: Some(("test".into(), 2)),
            ..recv([16, 0, 0], 4)
        };
        check(
            send([12, 12, 12], 4),
            refused,
            "STALLED 4.0 s: peer recv 0: 16 in flight; test returned 2",
        );
    }

    #[test]
    fn a_stall_shows_the_finding_of_the_rules() {
        let stuck = || sample(PEER, channel(Side::Recv, [16, 0, 0], 4));
        let found = Finding {
            condition: "process-stopped".into(),
            severity: Severity::Error,
            confidence: 1.0,
            subject: Some(Subject {
                node: NodeId(1),
                pair: Some(PairId(0)),
                pid: None,
                name: "peer".into(),
            }),
            channel: None,
            because: vec!["all 2 threads are stopped".into()],
            cannot_see: Vec::new(),
            next_step: None,
            reference: None,
        };
        let health = |stuck: Event, found: Vec<Finding>| {
            after([stuck, Event::new(0.0, Who::Run, EventKind::Findings(found))])
        };
        let why = |found: Vec<Finding>| health(stuck(), found).why;
        assert_eq!(
            why(vec![found.clone()]),
            "process-stopped at peer: all 2 threads are stopped"
        );
        // Before it is a stall, nobody's turn is told.
        let waiting = sample(PEER, channel(Side::Recv, [16, 0, 0], 1));
        let soon = health(waiting, vec![found.clone()]);
        let said = format!("{}: {}", soon.word, soon.why);
        assert_eq!(said, "STOPPED: all 2 threads are stopped");
        let waits = "local waits for recv 0 and leaves recv 1 alone (local recv 0: posted 8, done 0, consumed 0, \
                     quiet for 9.6 s, tested 160723 times/s; local recv 1: posted 8, done 0, consumed 0, quiet for at \
                     least 9.6 s)";
        let of_both = Finding {
            because: vec![waits.into()],
            ..found.clone()
        };
        assert_eq!(
            why(vec![of_both]),
            "process-stopped at peer: local waits for recv 0 and leaves recv 1 alone (local recv 0: posted 8, done 0, \
             consumed 0; local recv 1: posted 8, done 0, consumed 0)"
        );
        let of_a_channel = Finding {
            condition: "stuck".into(),
            channel: Some(0),
            ..found
        };
        assert_eq!(
            why(vec![of_a_channel]),
            "peer recv 0: 16 posted, 0 done (stuck)"
        );
        assert_eq!(why(Vec::new()), "peer recv 0: 16 posted, 0 done");
    }

    fn process(pid: u32) -> WorkerId {
        WorkerId {
            node: NodeId(0),
            unit: Unit::Process { pid, recorder: 0 },
        }
    }

    /// The state for processes of this machine, which has no name.
    fn here() -> RunState {
        let mut state = RunState::default();
        state.names.nodes = vec![NodeIntro {
            name: String::new(),
            address: String::new(),
        }];
        state
    }

    #[test]
    fn two_processes_are_a_pair_only_if_their_addresses_match() {
        let why = |local: Option<&str>| {
            let send = ChannelNow {
                peer: Some("10.0.0.226:5".into()),
                ..channel(Side::Send, [12, 0, 0], 4)
            };
            let recv = ChannelNow {
                index: 7,
                local: local.map(Into::into),
                ..channel(Side::Recv, [4, 4, 4], 4)
            };
            health_after(here(), [sample(process(1), send), sample(process(2), recv)]).why
        };
        assert_eq!(why(None), "pid 1 send 0: 12 posted, none done");
        assert!(
            why(Some("10.0.0.226:5")).contains("pid 2 recv 7 has none posted: the receiver's turn")
        );
    }

    #[test]
    fn a_process_that_is_inside_a_call_for_long_is_not_idle() {
        let within = |ms, in_flight: u64| {
            let one = ChannelNow {
                in_call: Some("irecv".into()),
                in_call_ms: ms,
                ..channel(Side::Recv, [4 + in_flight, 4, 4], 4)
            };
            let health = health_after(here(), [sample(process(7), one)]);
            (health.level, format!("{}: {}", health.word, health.why))
        };
        let said = "pid 7 recv 0 is inside irecv, which has not returned: the plugin's turn";
        for in_flight in [0, 1] {
            let (level, text) = within(3100, in_flight);
            assert_eq!(
                (level, text),
                (HealthLevel::Stalled, format!("IN A CALL 3.1 s: {said}"))
            );
        }
        assert_eq!(within(1200, 0).0, HealthLevel::Waiting);
        assert_eq!(within(900, 0).1, "IDLE: nothing in flight on any channel");
        let facts = ProcessFacts {
            inside: Some("accept".to_owned()),
            inside_since_ns: Some(1_000_000_000),
            ..ProcessFacts::default()
        };
        let tell = |kind| Event {
            at: "1970-01-01T00:00:00Z".into(),
            ..Event::new(13_000.0, Who::Worker(process(7)), kind)
        };
        let health = health_after(
            here(),
            [
                tell(EventKind::Process(facts)),
                tell(EventKind::Sample(Vec::new())),
            ],
        );
        assert_eq!(health.word, "IN A CALL 12.0 s");
    }

    #[test]
    fn a_process_that_is_inside_a_setup_call_is_setting_up() {
        let facts = ProcessFacts {
            inside: Some("connect".to_owned()),
            ..ProcessFacts::default()
        };
        let tell = |kind| Event::new(0.0, Who::Worker(process(7)), kind);
        let health = health_after(
            here(),
            [
                tell(EventKind::Process(facts)),
                tell(EventKind::Sample(Vec::new())),
            ],
        );
        assert_eq!(
            (health.word.as_str(), health.why.as_str()),
            ("SETTING UP", "pid 7 is inside connect")
        );
    }

    #[test]
    fn a_process_whose_connect_gives_no_comm_is_connecting() {
        let later = |ms: f64, is_gone| {
            let facts = ProcessFacts {
                is_gone,
                connecting: Some(ConnectingFacts {
                    peer: Some("10.0.0.226:4000".to_owned()),
                    since_ns: 2_000_000_000,
                    calls: 64,
                    goes_on: true,
                }),
                ..ProcessFacts::default()
            };
            let tell = |kind| Event {
                at: "1970-01-01T00:00:00Z".into(),
                ..Event::new(ms, Who::Worker(process(7)), kind)
            };
            let events = [
                tell(EventKind::Process(facts)),
                tell(EventKind::Sample(Vec::new())),
            ];
            let health = health_after(here(), events);
            format!("{}: {}", health.word, health.why)
        };
        assert_eq!(
            later(14_300.0, false),
            "CONNECTING: pid 7 is connecting to 10.0.0.226:4000 for 12.3 s: the peer has not accepted"
        );
        assert_eq!(
            later(14_300.0, true),
            "ENDED: pid 7: the process has ended; it had been connecting to 10.0.0.226:4000 for 12.3 s"
        );
        // At an earlier moment, it had not begun.
        assert_eq!(later(1_000.0, false), "STARTING: no recorded channel yet");
    }

    #[test]
    fn a_copy_or_a_recorder_of_another_boot_is_no_end_of_its_process() {
        let facts = |is_copy, is_elsewhere| ProcessFacts {
            is_gone: true,
            is_copy,
            is_elsewhere,
            ..ProcessFacts::default()
        };
        let tell = |kind| Event::new(0.0, Who::Worker(process(7)), kind);
        let told = |is_copy, is_elsewhere| {
            let events = [
                tell(EventKind::Process(facts(is_copy, is_elsewhere))),
                tell(EventKind::Sample(Vec::new())),
            ];
            let health = health_after(here(), events);
            format!("{}: {}", health.word, health.why)
        };
        assert_eq!(told(false, false), "ENDED: pid 7: the process has ended");
        assert_eq!(
            told(false, true),
            "END UNKNOWN: pid 7: it is of another boot, machine or container, and its end was not seen"
        );
        let frame = |is_copy, is_elsewhere| {
            let facts = facts(is_copy, is_elsewhere);
            let model = model_after(here(), [tell(EventKind::Process(facts))]);
            Picture::at(&model, model.last_ns()).is_of_recordings()
        };
        assert!(!frame(false, false) && frame(false, true) && frame(true, false));
        let copied = "COPY: pid 7: its recorder is a copy, and the process runs";
        assert_eq!(told(true, false), copied);
    }

    #[test]
    fn only_a_run_that_has_a_coordinator_can_have_lost_it() {
        let word = |worker| {
            let mut state = RunState::default();
            state.introduce_two_nodes();
            let moving = sample(worker, channel(Side::Send, [12, 4, 4], 0));
            let mut model = model_after(state, [moving]);
            model.clock = Clock::Over;
            Health::of_picture(&model, &Picture::at(&model, model.last_ns())).word
        };
        assert_eq!(word(LOCAL), "NO END");
        assert_eq!(word(process(7)), "COPY");
    }

    #[test]
    fn moving_idle_and_closed_channels_are_no_stall() {
        let [send, recv] = [Side::Send, Side::Recv];
        check(
            channel(send, [12, 4, 4], 0),
            channel(recv, [16, 4, 4], 0),
            "MOVING: 2 of 2 channels",
        );
        check(
            channel(send, [9, 9, 9], 60),
            channel(recv, [9, 9, 9], 60),
            "IDLE: nothing in flight on any channel",
        );
        let closed = |side| ChannelNow {
            closed: true,
            ..channel(side, [9, 0, 0], 60)
        };
        check(
            closed(send),
            closed(recv),
            "IDLE: nothing in flight on any channel",
        );
    }

    #[test]
    fn a_node_without_new_counters_is_named_unless_it_has_finished() {
        let phase = |worker, phase| Event::new(0.0, Who::Worker(worker), EventKind::Phase(phase));
        let later = Event::new(5000.0, Who::Run, EventKind::Note(String::new()));
        let health = |local| {
            let moving = sample(PEER, channel(Side::Recv, [16, 4, 4], 0));
            after([
                phase(LOCAL, local),
                phase(PEER, Phase::Measuring),
                moving,
                later.clone(),
            ])
        };
        assert_eq!(health(Phase::Measuring).word, "NO COUNTERS");
        assert_eq!(
            health(Phase::Closing).why,
            "no counters from peer for 5.0 s"
        );
    }
}
