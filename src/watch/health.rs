//! The one sentence of the banner: is it moving, which channel is not, and which
//! side is it that does not do its part.
//!
//! It says whose turn it is by the counters of both ends, no more; why nobody
//! takes it is for the diagnosis.
#![forbid(unsafe_code)]

use super::model::Model;
use super::picture::{NodePicture, Row, State};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing to see yet, or nothing in flight.
    Quiet,
    Moving,
    /// Something waits, or something was refused.
    Waiting,
    Stalled,
    /// It ended well.
    Passed,
    /// It ended otherwise.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    pub level: Level,
    /// In a word: `MOVING`, `STALLED 4.2 s`.
    pub word: String,
    /// What the counters show.
    pub why: String,
}

impl Health {
    pub(super) fn of(model: &Model, nodes: &[NodePicture<'_>], rows: &[Row<'_>], at_ns: u64) -> Self {
        if let Some(ended) = model.ended.as_ref().filter(|ended| at_ns >= ended.at_ns) {
            let passed = ended.outcome == "passed";
            let level = if passed { Level::Passed } else { Level::Failed };
            let stuck = worst(rows).filter(|row| row.state == State::Stuck).map(|row| blame(nodes, rows, row));
            let why = stuck.filter(|_| !passed).or_else(|| ended.reason.clone());
            let why = why.unwrap_or_else(|| "all that was asked for was done".to_owned());
            return Self { level, word: ended.outcome.to_uppercase(), why };
        }
        if let Some(stale) =
            nodes.iter().filter(|one| one.sample.is_some() && one.stale_ms > 2000).max_by_key(|one| one.stale_ms)
            && is_watched_closely(nodes)
        {
            let why = format!("no counters from {} for {}", stale.node.name, seconds(stale.stale_ms));
            return Self { level: Level::Waiting, word: "NO NEWS".into(), why };
        }
        match worst(rows) {
            Some(row) if row.state == State::Stuck => Self {
                level: Level::Stalled,
                word: format!("STALLED {}", seconds(row.quiet_ms)),
                why: named(model, || blame(nodes, rows, row) + &others(rows, State::Stuck)),
            },
            Some(row) if row.state == State::Waiting => Self {
                level: Level::Waiting,
                word: format!("WAITING {}", seconds(row.quiet_ms)),
                why: blame(nodes, rows, row) + &others(rows, State::Waiting),
            },
            Some(row) if row.state == State::Moving => Self::moving(nodes, rows),
            _ => Self::quiet(nodes, rows),
        }
    }

    fn moving(nodes: &[NodePicture<'_>], rows: &[Row<'_>]) -> Self {
        let moving = rows.iter().filter(|row| row.state == State::Moving).count();
        let refused = rows.iter().find(|row| row.now.rc_errors > 0);
        let (level, why) = match refused {
            Some(row) => (
                Level::Waiting,
                format!("{} had {} calls refused{}", name(nodes, row), row.now.rc_errors, last_error(row)),
            ),
            None => (Level::Moving, format!("{moving} of {} channels", rows.len())),
        };
        Self { level, word: "MOVING".into(), why }
    }

    fn quiet(nodes: &[NodePicture<'_>], rows: &[Row<'_>]) -> Self {
        let ended = nodes.iter().find_map(|one| Some((&one.node.name, one.ended?)));
        let inside = nodes.iter().filter(|one| one.ended.is_none());
        let inside = inside.filter_map(|one| Some((&one.node.name, one.node.facts.inside.as_ref()?))).next();
        if let Some((node, call)) = inside {
            return Self { level: Level::Quiet, word: "SETTING UP".into(), why: format!("{node} is inside {call}") };
        }
        let (word, why) = match (nodes.is_empty(), rows.is_empty(), ended) {
            (true, ..) => ("NOTHING YET", "no process with a recorder".to_owned()),
            (_, _, Some((node, how))) => ("ENDED", format!("{node}: {how}")),
            (_, true, _) => ("STARTING", "no channel yet".to_owned()),
            _ => ("IDLE", "nothing in flight on any channel".to_owned()),
        };
        Self { level: Level::Quiet, word: word.into(), why }
    }
}

/// What stands still by the counters, then what the rules call it, where they have
/// said so: whose turn it is stays in sight on a narrow screen. A finding that is
/// not of a channel (a stopped process, a link that is down) has the fact that
/// decides instead.
fn named(model: &Model, counters: impl FnOnce() -> String) -> String {
    let first = model.findings.first().filter(|first| first.severity == "error" && model.ended.is_none());
    match first {
        Some(first) if first.channel.is_none() => {
            let node = first.node.as_ref().map(|node| format!(" at {node}")).unwrap_or_default();
            format!("{}{node}: {}", first.condition, first.because.first().map_or("", String::as_str))
        }
        Some(first) => format!("{} ({})", counters(), first.condition),
        None => counters(),
    }
}

/// In a run, samples come only while it moves bytes; a phase says that it does.
fn is_watched_closely(nodes: &[NodePicture<'_>]) -> bool {
    nodes.iter().all(|one| matches!(one.phase, None | Some("warming up" | "measuring")))
}

/// The one to speak of: stuck before waiting, full windows first, then the longest.
fn worst<'a, 'b>(rows: &'b [Row<'a>]) -> Option<&'b Row<'a>> {
    let key = |row: &&Row<'_>| {
        (row.state, u64::MAX - row.done_unconsumed(), u64::MAX - row.in_flight(), u64::MAX - row.quiet_ms)
    };
    rows.iter().filter(|row| row.state != State::Closed).min_by_key(key)
}

fn others(rows: &[Row<'_>], state: State) -> String {
    match rows.iter().filter(|row| row.state == state).count() {
        0 | 1 => String::new(),
        count => format!("; {} channels in all", count),
    }
}

/// Which side it is, as far as the counters of both show.
fn blame(nodes: &[NodePicture<'_>], rows: &[Row<'_>], row: &Row<'_>) -> String {
    let name = name(nodes, row);
    let (in_flight, waiting) = (row.in_flight(), row.done_unconsumed());
    let partner = rows.iter().find(|one| is_partner(nodes, row, one));
    if let Some(call) = &row.now.in_call {
        return format!("{name} is inside {call}, which does not return: the plugin's turn{}", last_error(row));
    }
    if row.now.rc_errors > 0 && row.state == State::Stuck {
        return format!("{name}: {in_flight} in flight{}", last_error(row));
    }
    if !row.is_send() && waiting > 0 && waiting == in_flight {
        return format!("{name}: {waiting}/{in_flight} done, none handed back: the receiver's turn");
    }
    let theirs = partner.map(|one| (self::name(nodes, one), one.in_flight()));
    match (row.is_send(), theirs) {
        (false, Some((sender, 0))) => {
            format!("{name}: {in_flight} posted, {sender} has none in flight: the sender's turn")
        }
        (true, Some((receiver, 0))) => {
            format!("{name}: {in_flight} posted, {receiver} has none posted: the receiver's turn")
        }
        (_, Some((other, count))) => {
            format!("{name}: {in_flight} posted, {other}: {count}, nothing arrives: the way between them")
        }
        (false, None) => format!("{name}: {in_flight} posted, {waiting} done"),
        (true, None) => format!("{name}: {in_flight} posted, none done"),
    }
}

/// Whether two channels are the ends of one connection: their addresses say so,
/// or they have the same number in the same pair of a run. Processes that happen
/// to run at the same time are not taken for a pair.
fn is_partner(nodes: &[NodePicture<'_>], one: &Row<'_>, other: &Row<'_>) -> bool {
    if one.node == other.node || one.is_send() == other.is_send() {
        return false;
    }
    let meet = |from: &Row<'_>, to: &Row<'_>| from.now.peer.is_some() && from.now.peer == to.now.local;
    let pair = |row: &Row<'_>| {
        let name = nodes.get(row.node).map_or("", |one| &one.node.name);
        let rest = name.strip_prefix("local").or_else(|| name.strip_prefix("peer"))?;
        (rest.is_empty() || rest.starts_with(" gpu ")).then(|| rest.to_owned())
    };
    let same_pair = pair(one).is_some() && pair(one) == pair(other);
    meet(one, other) || meet(other, one) || (same_pair && one.now.index == other.now.index)
}

fn last_error(row: &Row<'_>) -> String {
    row.now.last_error.as_ref().map(|(call, code)| format!("; {call} returned {code}")).unwrap_or_default()
}

fn name(nodes: &[NodePicture<'_>], row: &Row<'_>) -> String {
    let node = nodes.get(row.node).map_or("?", |one| &one.node.name);
    format!("{node} {} {}", row.now.side, row.now.index)
}

/// `4.2 s`, `3 min`.
pub(crate) fn seconds(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Picture;
    use super::*;
    use tcpx_run_model::record::ChannelNow;
    use tcpx_run_model::record::live::{NodeNow, Update};

    /// A channel with so many posted, done and consumed, quiet for so many seconds.
    fn channel(side: &str, [posted, done, consumed]: [u64; 3], quiet_s: u64) -> ChannelNow {
        ChannelNow { side: side.into(), posted, done, consumed, quiet_ms: quiet_s * 1000, ..ChannelNow::default() }
    }

    fn check(send: ChannelNow, recv: ChannelNow, expected: &str) {
        let mut model = Model::default();
        for (node, one) in [("local", send), ("peer", recv)] {
            model.take(Update::Sample { node: node.into(), at_ns: 9, channels: vec![one] });
        }
        let health = Picture::at(&model, 9).health;
        assert_eq!(format!("{}: {}", health.word, health.why), expected);
    }

    #[test]
    fn the_counters_of_both_ends_say_whose_turn_it_is() {
        let [send, recv] = ["send", "recv"].map(|side| move |counts, quiet_s| channel(side, counts, quiet_s));
        check(
            send([12, 0, 0], 4),
            recv([16, 16, 0], 4),
            "STALLED 4.0 s: peer recv 0: 16/16 done, none handed back: the receiver's turn; 2 channels in all",
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
            "STALLED 4.0 s: peer recv 0: 16 posted, local send 0: 12, nothing arrives: the way between them; 2 channels in all",
        );
        let inside = ChannelNow { in_call: Some("test".into()), ..recv([16, 0, 0], 4) };
        check(
            send([12, 12, 12], 4),
            inside,
            "STALLED 4.0 s: peer recv 0 is inside test, which does not return: the plugin's turn",
        );
        let refused = ChannelNow { rc_errors: 1, last_error: Some(("test".into(), 2)), ..recv([16, 0, 0], 4) };
        check(send([12, 12, 12], 4), refused, "STALLED 4.0 s: peer recv 0: 16 in flight; test returned 2");
    }

    #[test]
    fn what_the_rules_found_is_said_while_it_stands_still() {
        let mut model = Model::default();
        let stuck = channel("recv", [16, 0, 0], 4);
        model.take(Update::Sample { node: "peer".into(), at_ns: 9, channels: vec![stuck] });
        let found = tcpx_run_model::record::Finding {
            condition: "process-stopped".into(),
            severity: "error".into(),
            confidence: 1.0,
            node: Some("peer".into()),
            channel: None,
            because: vec!["all 2 threads are stopped".into()],
            cannot_see: Vec::new(),
            next_step: None,
            reference: None,
        };
        model.take(Update::Findings(vec![found.clone()]));
        let health = Picture::at(&model, 9).health;
        assert_eq!(health.why, "process-stopped at peer: all 2 threads are stopped");
        let of_a_channel = tcpx_run_model::record::Finding { condition: "stuck".into(), channel: Some(0), ..found };
        model.take(Update::Findings(vec![of_a_channel]));
        assert_eq!(Picture::at(&model, 9).health.why, "peer recv 0: 16 posted, 0 done (stuck)");
        model.take(Update::Findings(Vec::new()));
        assert_eq!(Picture::at(&model, 9).health.why, "peer recv 0: 16 posted, 0 done");
    }

    #[test]
    fn strangers_are_no_pair_and_addresses_make_one() {
        let said = |local: Option<&str>| {
            let mut model = Model::default();
            let send = ChannelNow { peer: Some("10.0.0.226:5".into()), ..channel("send", [12, 0, 0], 4) };
            let recv = ChannelNow { index: 7, local: local.map(Into::into), ..channel("recv", [4, 4, 4], 4) };
            for (node, one) in [("pid 1", send), ("pid 2", recv)] {
                model.take(Update::Sample { node: node.into(), at_ns: 9, channels: vec![one] });
            }
            Picture::at(&model, 9).health.why
        };
        assert_eq!(said(None), "pid 1 send 0: 12 posted, none done");
        assert!(said(Some("10.0.0.226:5")).contains("pid 2 recv 7 has none posted: the receiver's turn"));
    }

    #[test]
    fn a_process_inside_a_call_of_no_channel_is_said_to_be() {
        let mut model = Model::default();
        let inside = Some("connect".to_owned());
        model.take(Update::Node { node: "pid 7".into(), facts: NodeNow { inside, ..NodeNow::default() } });
        model.take(Update::Sample { node: "pid 7".into(), at_ns: 9, channels: vec![] });
        let health = Picture::at(&model, 9).health;
        assert_eq!((health.word.as_str(), health.why.as_str()), ("SETTING UP", "pid 7 is inside connect"));
    }

    #[test]
    fn what_moves_and_what_has_nothing_to_do_is_no_stall() {
        check(channel("send", [12, 4, 4], 0), channel("recv", [16, 4, 4], 0), "MOVING: 2 of 2 channels");
        check(channel("send", [9, 9, 9], 60), channel("recv", [9, 9, 9], 60), "IDLE: nothing in flight on any channel");
        let closed = |side| ChannelNow { closed: true, ..channel(side, [9, 0, 0], 60) };
        check(closed("send"), closed("recv"), "IDLE: nothing in flight on any channel");
    }
}
