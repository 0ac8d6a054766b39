//! Which process ended first, and what the other end saw of it.
#![forbid(unsafe_code)]

use super::{Found, Rule, refusals, said, with_line};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, SignatureLines, Spot, Timed};
use tcpx_logs::Severity;
use tcpx_node::TcpSocket;
use tcpx_run_model::phase::{Phase, asks_to_end, is_sent};
use tcpx_words::error::Outcome;

pub(super) const RULES: &[Rule] = &[died, recorded_died, peer_first, closed];

fn died(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for node in &evidence.nodes {
        let Some(exit) = node.died() else { continue };
        let exit = &exit.what;
        let condition = match (exit.code, exit.signal) {
            _ if exit.is_from_outside() => Condition::ProcessKilled,
            (None, Some(_)) => Condition::PluginCrash,
            _ => Condition::PluginExit,
        };
        let inside = exit
            .in_call
            .as_ref()
            .map(|call| format!(", inside {call}"))
            .unwrap_or_default();
        let fact = format!(
            "{}: its process {} while {}{inside}",
            node.name(),
            exit.how(),
            exit.phase
        );
        let one = Found::at(condition, node, 0.9, fact);
        if exit.is_from_outside() {
            found.push(sent(one, exit.signal));
            continue;
        }
        // What was logged in an earlier phase, the plugin went on after.
        let is_of_then = |line: &&SignatureLines| match node.phase {
            Some(last) if last == exit.phase => line.last_ms >= node.phase_ms,
            _ => line.phase.is_none_or(|then| then == exit.phase),
        };
        let last_warning = node
            .lines
            .iter()
            .filter(|line| line.severity <= Severity::Warning)
            .filter(is_of_then)
            .max_by(|a, b| a.last_ms.total_cmp(&b.last_ms));
        // A runtime that ends a process says why on stderr, not in the plugin's log.
        let printed = node
            .last_printed
            .as_ref()
            .filter(|text| last_warning.is_none_or(|line| line.text != **text));
        found.push(match (last_warning, printed) {
            (None, None) => one.unseen(
                "why: its plugin logged no warning in that phase and its process printed nothing",
            ),
            (line, None) => one.and_line(line),
            (line, Some(text)) => one.and_line(line).and(format!(
                "the last line that it printed, apart from stack frames: {text}"
            )),
        });
    }
    found
}

/// What to do about a signal that another process sent. The kernel and schedulers end a process with SIGKILL, mostly
/// without a word to it; the others ask it to end.
fn sent(found: Found, signal: Option<i32>) -> Found {
    let next_step = match signal {
        Some(libc::SIGINT) => {
            "nothing if Ctrl-C was pressed; otherwise find the program that sent it SIGINT"
        }
        Some(libc::SIGTERM) => {
            "find what asked it to end: a scheduler at a job's time limit or an eviction, a launcher, `kill`"
        }
        Some(libc::SIGHUP) => {
            "start it so that it outlives its terminal: under nohup, tmux or a scheduler"
        }
        _ => return found.unseen("who sent the signal"),
    };
    Found {
        next_step: Some(next_step.to_owned()),
        ..found.unseen("who sent the signal")
    }
}

/// How likely a signal is the cause of what stood still before.
pub(crate) const KILLED_LATER: f64 = 0.45;

/// A recorded program that a signal ended. If everything in flight at it, or at the other ends of its
/// channels, stood still by then, the stall is the finding, and a likely reason for the signal. A
/// program with nothing in flight may be asked to end.
fn recorded_died(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for node in &evidence.nodes {
        let Some(signal) = node.gone.as_ref().and_then(|gone| gone.signal) else {
            continue;
        };
        let is_busy = |spot: &Spot<'_>| !spot.channel.now.closed && spot.channel.in_flight() > 0;
        let own = || {
            let of_node = |spot: &Spot<'_>| spot.node.subject == node.subject;
            evidence.spots().filter(of_node)
        };
        let is_idle = !own().any(|spot| is_busy(&spot));
        let ends = own().flat_map(|spot| [Some(spot), spot.other_end()]);
        let busy: Vec<Spot<'_>> = ends.flatten().filter(is_busy).collect();
        let stood = busy.iter().filter(|spot| spot.stood_before(node)).count();
        let is_stall = stood > 0 && stood == busy.len();
        // Without addresses, no end is known to be the other one of a channel that stood still.
        let others_stood = || {
            let others = evidence.spots().filter(|spot| spot.other_end().is_none());
            others
                .filter(is_busy)
                .any(|spot| spot.node.gone.is_some() && spot.stood_before(node))
        };
        if is_stall || (is_idle && (asks_to_end(signal) || others_stood())) {
            continue;
        }
        let mut in_calls = node
            .channels
            .iter()
            .filter_map(|one| one.now.in_call.as_deref());
        let inside = node.inside.as_deref().or(in_calls.next_back());
        let inside_call = inside.map_or_else(String::new, |call| format!(", inside {call}"));
        let fact = left(node) + &inside_call;
        // A channel that stood before the signal has a cause of its own, which is told first.
        let of_kill = match (is_idle, stood > 0 || others_stood()) {
            (_, true) => KILLED_LATER,
            (true, false) => 0.6,
            (false, false) => 0.9,
        };
        let of_crash = if is_idle { 0.4 } else { 0.5 };
        found.push(match (is_sent(signal), inside) {
            (true, _) => sent(
                Found::at(Condition::ProcessKilled, node, of_kill, fact),
                Some(signal),
            ),
            (false, Some(_)) => Found::at(Condition::PluginCrash, node, 0.9, fact),
            (false, None) => Found::at(Condition::PluginCrash, node, of_crash, fact)
                .unseen("what crashed: the program was inside no call of the plugin"),
        });
    }
    found
}

/// The end that outlived the other, and the failure that it saw.
fn peer_first(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for (node, exit) in evidence
        .nodes
        .iter()
        .filter_map(|node| Some((node, node.died()?)))
    {
        let Some(left) = evidence.opposite(node) else {
            continue;
        };
        if let Some(saw) =
            first_failure_seen(left).filter(|saw| saw.at_ms >= exit.at_ms - SAME_MOMENT_MS)
        {
            let how = exit.what.how();
            found.push(
                Found::at(
                    Condition::PeerExitedFirst,
                    left,
                    0.9,
                    format!("{} {how} at {:.1} s", node.name(), exit.at_ms / 1e3),
                )
                .and(format!(
                    "{} saw it at {:.1} s: {}",
                    left.name(),
                    saw.at_ms / 1e3,
                    saw.what
                )),
            );
        }
    }
    found
}

/// Reports of two nodes about one moment may arrive in either order.
const SAME_MOMENT_MS: f64 = 2000.0;

fn first_failure_seen(node: &EvidenceNode) -> Option<Timed<String>> {
    // A failure of its own is no sign of the other end.
    let failure = node.failure.as_ref().filter(|failure| failure.what.follows);
    let failed = failure.map(|failure| Timed {
        at_ms: failure.at_ms,
        what: failure.what.message.clone(),
    });
    failed.or_else(|| {
        node.any_line(CLOSED).map(|line| Timed {
            at_ms: line.first_ms,
            what: line.text.clone(),
        })
    })
}

const CLOSED: &[&str] = &[
    "data-socket-closed",
    "ctrl-socket-closed",
    "ctrl-socket-failed",
    "data-socket-failed",
    "sendmsg-zero",
];
/// What plugins without known lines log of a connection that the other end closed.
const SAYS_CLOSED: &[&str] = &["closed by remote", "closed by peer", "reset by peer"];
const SYSTEM_ERROR: i32 = 2;

/// Whether a line that is not in the catalogue says that the other end closed the connection.
fn says_closed(line: &SignatureLines) -> bool {
    let text = line.text.to_ascii_lowercase();
    line.signature.is_none() && SAYS_CLOSED.iter().any(|words| text.contains(words))
}

/// A connection was closed while requests were in flight and both processes were alive.
fn closed(evidence: &Evidence) -> Vec<Found> {
    if evidence.nodes.iter().any(|node| node.died().is_some()) || !evidence.is_bad() {
        return Vec::new();
    }
    // An agent that is ended ends its workers.
    if evidence.agents.iter().any(|agent| agent.left.is_some()) {
        return Vec::new();
    }
    // Workers close while requests are in flight if they were told to stop or their agent is gone,
    // and then no end of theirs is known: only a close before that, in a freeze-frame, is a cause.
    let is_lost = |node: &EvidenceNode| node.exit.is_none() && node.failure.is_none();
    let was_interrupted = match evidence.outcome {
        Some(Outcome::Interrupted) => true,
        Some(Outcome::NotRun | Outcome::PeerLost) => evidence.nodes.iter().any(is_lost),
        _ => false,
    };
    // A run that is given up ends its workers too, after its stall was declared.
    let given_up_ms = evidence.given_up_ms();
    let was_ended = was_interrupted || given_up_ms.is_some();
    let by_code = evidence.spots().filter(|spot| {
        !was_ended && has_lost(*spot) && spot.channel.in_flight() > 0 && !is_lost_later(*spot)
    });
    let found: Vec<Found> = match is_close_seen(evidence) {
        true => by_code.map(|spot| lost(evidence, spot)).collect(),
        // The code alone tells of no connection: any failure of the system has it.
        false => by_code
            .filter(|spot| spot.channel.failed_with(&["test"], SYSTEM_ERROR))
            .map(refusals::of_code)
            .collect(),
    };
    if !found.is_empty() {
        return found;
    }
    let found: Vec<Found> = evidence
        .nodes
        .iter()
        .filter_map(|node| half_closed(evidence, node))
        .collect();
    if !found.is_empty() || was_interrupted {
        return found;
    }
    let early = |line: &SignatureLines| {
        !matches!(line.phase, Some(Phase::Closing | Phase::Finished))
            && given_up_ms.is_none_or(|ms| line.first_ms <= ms)
    };
    let standing = evidence.standing().next().is_some();
    // Once the programs are ended, what stood still is closed, too.
    let of_end = |node: &EvidenceNode| {
        let own = evidence
            .spots()
            .filter(|spot| spot.node.subject == node.subject);
        let mut ends = own
            .flat_map(|spot| [Some(spot), spot.other_end()])
            .flatten();
        ends.any(is_lost_later)
    };
    let lines = with_line(evidence, CLOSED)
        .filter(|(node, line)| early(line) && line.severity != Severity::Benign && !of_end(node));
    let found = lines.map(|(node, line)| {
        let own = evidence
            .spots()
            .filter(|spot| spot.node.subject == node.subject && spot.channel.in_flight() > 0);
        let mut left = own.filter_map(|spot| who_left(spot, spot.other_end()?));
        if let Some(found) = left.next() {
            return found.and_line(Some(line));
        }
        let name = if standing || node.failure.is_some() {
            Condition::PrematureClose
        } else {
            Condition::ConnectionReset
        };
        let found = Found::at(name, node, if standing { 0.8 } else { 0.5 }, said(line));
        let is_known = evidence.opposite(node).is_some()
            || evidence
                .spots()
                .any(|spot| spot.node.subject == node.subject && spot.other_end().is_some());
        match name {
            Condition::PrematureClose if !is_known => of_one_end(found),
            _ => found,
        }
    });
    found.collect()
}

/// Whether a call that moves bytes returned what TCPX returns when a connection is lost.
pub(super) fn has_lost(spot: Spot<'_>) -> bool {
    let calls = &["test", "isend", "irecv"];
    spot.channel.failed_with(calls, SYSTEM_ERROR)
}

/// Whether it stood still when the program at its other end was ended: a call that failed for that tells of
/// no cause. Where it is not known which end that is, nothing may tell that the call failed before.
pub(super) fn is_lost_later(spot: Spot<'_>) -> bool {
    let is_known = spot.other_end().is_some();
    spot.other_nodes()
        .any(|ended| spot.stood_before(ended) && (is_known || !failed_before(spot.node, ended)))
}

/// Whether a process was over, or its plugin had warned for the last time, long before another one ended.
fn failed_before(node: &EvidenceNode, ended: &EvidenceNode) -> bool {
    let said = refusals::last_error_line(node).map(|line| line.last_ms);
    let last_ms = [said, node.sampled_ms].into_iter().flatten();
    ended
        .sampled_ms
        .is_some_and(|end_ms| last_ms.fold(f64::INFINITY, f64::min) < end_ms - SAME_MOMENT_MS)
}

/// Whether an end lost its connection because the program of the other one had left: its plugin said
/// so, or a call failed and the other end did nothing after the last change. A call that has failed for
/// long before failed for another reason, and what stood still before lost nothing by it.
fn has_noticed(here: Spot<'_>, left: Spot<'_>) -> bool {
    if here.stood_before(left.node) {
        return false;
    }
    let quiet_ms = here.channel.now.quiet_ms as f64;
    let ended_by_then = || match (here.node.sampled_ms, left.node.sampled_ms) {
        (Some(now), Some(end)) => end <= now - quiet_ms + SAME_MOMENT_MS,
        _ => true,
    };
    here.node.any_line(CLOSED).is_some() || (has_lost(here) && ended_by_then())
}

/// Whether anything but the code of a call shows that a connection was closed: a line of a plugin,
/// both ends of a channel, or a socket.
fn is_close_seen(evidence: &Evidence) -> bool {
    // Of a program it is not known whether it was closing: that these lines are benign then is no
    // reason to doubt a call that failed.
    let is_line = |line: &SignatureLines| line.severity != Severity::Benign || line.phase.is_none();
    let mut lines = evidence.nodes.iter().flat_map(|node| &node.lines);
    let has_line =
        with_line(evidence, CLOSED).any(|(_, line)| is_line(line)) || lines.any(says_closed);
    let at_both = |spot: Spot<'_>| has_lost(spot) && spot.other_end().is_some_and(has_lost);
    let is_closing = |node: &EvidenceNode| {
        let frame = node.frame.as_deref();
        let sockets = frame.and_then(|frame| frame.sockets.known());
        let mut sockets = sockets.into_iter().flatten();
        sockets.any(|one| one.state.starts_with("FIN-WAIT") || one.state == "CLOSE-WAIT")
    };
    let is_left = |spot: Spot<'_>| {
        has_lost(spot)
            && spot
                .other_end()
                .is_some_and(|other| who_left(spot, other).is_some())
    };
    has_line
        || evidence.spots().any(|spot| at_both(spot) || is_left(spot))
        || evidence.nodes.iter().any(is_closing)
}

/// Whether it is of a recorded program that ended while its comm was open.
fn has_left(spot: Spot<'_>) -> bool {
    let how = spot.node.gone.as_ref().and_then(|gone| gone.how.as_ref());
    how.is_some() && !spot.channel.now.closed && !has_lost(spot)
}

/// How a recorded program that is gone ended, as a fact.
fn left(node: &EvidenceNode) -> String {
    let how = node.gone.as_ref().and_then(|gone| gone.how.as_deref());
    let in_flight = match node.in_flight() {
        0 => "nothing".to_owned(),
        requests => format!("{requests} requests"),
    };
    format!(
        "{}: its process {} with {in_flight} in flight",
        node.name(),
        how.unwrap_or("ended")
    )
}

/// The finding on an end that left while this one had requests in flight: the program ended, or it
/// closed the channel. `None` if neither is known.
fn who_left(here: Spot<'_>, other: Spot<'_>) -> Option<Found> {
    if has_left(other) && has_noticed(here, other) {
        let why = left(other.node);
        return Some(Found::at(Condition::PeerExitedFirst, here.node, 0.9, why));
    }
    let is_first = other.channel.now.closed && !here.channel.now.closed && !has_lost(other);
    is_first.then(|| {
        Found::on(Condition::PrematureClose, other, 0.9).and("it closed this channel".to_owned())
    })
}

/// A channel that lost its connection, as a call of this end shows.
fn lost(evidence: &Evidence, spot: Spot<'_>) -> Found {
    let (call, code) = spot.channel.now.last_error.clone().unwrap_or_default();
    let left = spot.other_end().and_then(|other| who_left(spot, other));
    left.map_or_else(
        || premature(evidence, spot),
        |found| {
            found.and(format!(
                "{} saw it: {call} returned {code} with {} requests in flight",
                spot.node.name(),
                spot.channel.in_flight()
            ))
        },
    )
}

/// A connection that this end closed while requests were in flight.
fn half_closed(evidence: &Evidence, node: &EvidenceNode) -> Option<Found> {
    evidence.standing().next()?;
    let sockets = node.frame.as_deref()?.sockets.known()?;
    let closed: Vec<&TcpSocket> = sockets
        .iter()
        .filter(|one| one.state.starts_with("FIN-WAIT"))
        .collect();
    let first = closed.first()?;
    let why = format!(
        "{}: it closed {} of its connections ({} -> {} is in {})",
        node.name(),
        closed.len(),
        first.local,
        first.peer,
        first.state
    );
    let found = Found::at(Condition::PrematureClose, node, 0.9, why);
    Some(found.and_line(node.any_line(CLOSED)))
}

fn premature(evidence: &Evidence, spot: Spot<'_>) -> Found {
    let (call, code) = spot.channel.now.last_error.clone().unwrap_or_default();
    let found = Found::on(Condition::PrematureClose, spot, 0.85).and(format!(
        "{call} returned {code} with {} requests in flight",
        spot.channel.in_flight()
    ));
    let found = found.and_line(spot.node.any_line(CLOSED));
    let other = spot.other_end().map(|other| other.node);
    match other.or_else(|| evidence.opposite(spot.node)) {
        // Its recording is one of before its end, and it may have been killed.
        Some(other) if other.ended_unseen() => of_one_end(found),
        Some(other) if other.gone.is_some() => found,
        Some(other) => found.and(format!("the process of {} had not ended", other.name())),
        None => of_one_end(found),
    }
}

/// A close as the end shows it that is left: a program that closes too early and one that is killed look the
/// same from there.
fn of_one_end(found: Found) -> Found {
    let condition = Condition::ConnectionLost;
    Found { condition, ..found }
        .unseen("the other end: whether its program closed the connection, ended or was killed")
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::evidence::{EvidenceStall, Gone, Watched};
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_run_model::finding::Subject;
    use tcpx_run_model::ids::NodeId;
    use tcpx_run_model::phase::how_ended;
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::PluginExit, plugin_exit),
        (Condition::ProcessKilled, killed_inside_a_call),
        (Condition::PrematureClose, reset_in_flight),
        (Condition::CallRefused, failed_for_no_known_reason),
        (Condition::ConnectionReset, reset_only),
        (Condition::ConnectionLost, seen_from_one_end),
    ];

    /// The recording of one end, to which the connection was reset.
    fn seen_from_one_end() -> Evidence {
        let mut evidence = stuck();
        evidence.nodes.truncate(1);
        let left = &mut evidence.nodes[0];
        left.subject.pair = None;
        let reset = "Call to socket op send(0) failed : Connection reset by peer";
        left.lines = vec![line("data-socket-failed", reset)];
        evidence
    }

    #[test]
    fn of_an_end_that_is_not_known_it_is_not_said_that_it_closed_or_was_killed() {
        let by_line = seen_from_one_end();
        let mut by_code = by_line.clone();
        by_code.nodes[0].channels[0].now.last_error = Some(("test".into(), SYSTEM_ERROR));
        // The recording of the other one is of before its end.
        let mut before_its_end = reset_in_flight();
        before_its_end.outcome = None;
        let ends = [None, Some("called exit(1)")];
        for (node, how) in before_its_end.nodes.iter_mut().zip(ends) {
            node.gone = Some(Gone {
                how: how.map(Into::into),
                signal: None,
            });
        }
        for evidence in [by_line, by_code, before_its_end] {
            let found = crate::diagnose(&evidence);
            assert_eq!(found[0].condition, "connection-lost");
            let unseen = found[0].cannot_see.join("; ");
            assert!(unseen.contains("ended or was killed"), "{unseen}");
            assert!(found.iter().all(|one| one.condition != "premature-close"));
        }
    }

    fn plugin_exit() -> Evidence {
        let mut evidence = ended(
            Outcome::PluginDied,
            pair(
                channel(Side::Send, [40, 28, 28], 10),
                channel(Side::Recv, [0; 3], 0),
            ),
        );
        evidence.nodes[1].exit = exit(Some(1));
        evidence.nodes[0].failure =
            failure(Phase::Measuring, "test returned 2 (ncclSystemError)", true);
        evidence
    }

    #[test]
    fn what_a_plugin_logged_in_an_earlier_phase_is_not_said_of_its_end() {
        let quotes = |first_ms: f64, last_ms: f64| {
            let mut evidence = plugin_exit();
            let node = &mut evidence.nodes[1];
            (node.phase, node.phase_ms) = (Some(Phase::Measuring), 600.0);
            let text = "set up 0, eth1, pci_path (null)";
            node.lines = vec![line("tcpx-pci-path-missing", text)];
            (node.lines[0].first_ms, node.lines[0].last_ms) = (first_ms, last_ms);
            let because = crate::diagnose(&evidence)[0].because.join("; ");
            because.contains("pci_path")
        };
        // Of each of its devices.
        assert!(!quotes(10.0, 11.0));
        assert!(quotes(610.0, 611.0) && quotes(10.0, 611.0));
        let mut of_no_phase = plugin_exit();
        let node = &mut of_no_phase.nodes[1];
        node.phase = None;
        node.lines = vec![line("tcpx-pci-path-missing", "set up 0")];
        node.lines[0].phase = Some(Phase::Initialising);
        let because = crate::diagnose(&of_no_phase)[0].because.join("; ");
        assert!(!because.contains("set up"), "{because}");
    }

    #[test]
    fn a_plugin_s_own_words_of_a_closed_connection_are_no_refusal() {
        let mut evidence = seen_from_one_end();
        let left = &mut evidence.nodes[0];
        left.channels[0].now.last_error = Some(("test".into(), SYSTEM_ERROR));
        left.lines = vec![line("", "Net/Strict : Connection closed by remote peer")];
        left.lines[0].signature = None;
        let found = crate::diagnose(&evidence);
        assert_eq!(found[0].condition, "connection-lost", "{found:#?}");
        assert!(found.iter().all(|one| one.condition != "call-refused"));
    }

    /// Its last counters were taken while it was inside `test`, and again when it was gone.
    fn killed_inside_a_call() -> Evidence {
        let mut evidence = plugin_exit();
        evidence.nodes.swap(0, 1);
        let gone = &mut evidence.nodes[0];
        gone.exit = exit(None);
        if let Some(exit) = &mut gone.exit {
            exit.what.signal = Some(libc::SIGKILL);
        }
        let mut inside = channel(Side::Send, [40, 28, 28], 20);
        inside.watched = Some(Watched {
            ms: 20.0,
            tests: 0,
            in_one_call: true,
            ..Watched::default()
        });
        inside.now.in_call = Some("test".into());
        gone.channels = vec![inside];
        evidence.nodes[1].channels = vec![channel(Side::Recv, [44, 28, 28], 20)];
        evidence
    }

    /// A recording of a program whose channels moved bytes until this signal ended it.
    fn recorded(signal: i32, quiet_ms: u64) -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 10),
            channel(Side::Recv, [44, 28, 28], quiet_ms),
        );
        let mut receiver = evidence.nodes.remove(1);
        receiver.subject.pair = None;
        receiver.gone = Some(Gone {
            how: Some(how_ended(None, Some(signal))),
            signal: Some(signal),
        });
        evidence.nodes = vec![receiver];
        evidence
    }

    #[test]
    fn a_signal_has_its_name_and_advice_of_its_own() {
        for (signal, name, advice) in [
            (libc::SIGINT, "SIGINT, as Ctrl-C sends it", "Ctrl-C"),
            (libc::SIGTERM, "SIGTERM", "asked it to end"),
            (libc::SIGHUP, "SIGHUP", "outlives its terminal"),
        ] {
            let found = recorded_died(&recorded(signal, 10));
            assert!(found[0].because[0].contains(name), "{:?}", found[0].because);
            let next_step = found[0].next_step.as_deref().unwrap_or_default();
            assert!(next_step.contains(advice), "{next_step}");
        }
        assert_eq!(
            recorded_died(&recorded(libc::SIGKILL, 10))[0].next_step,
            None
        );
    }

    #[test]
    fn a_signal_that_ended_a_recorded_program_is_told_unless_it_stood_still() {
        let found = |evidence: &Evidence| {
            let found = recorded_died(evidence).into_iter();
            let found = found.map(|one| (one.condition, one.confidence));
            found.collect::<Vec<_>>()
        };
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGINT, libc::SIGHUP] {
            let moving = recorded(signal, 10);
            assert_eq!(found(&moving), [(Condition::ProcessKilled, 0.9)]);
            assert_eq!(found(&recorded(signal, 60_000)), []);
            let mut one_stood = recorded(signal, 60_000);
            let moved = channel(Side::Recv, [44, 28, 28], 10);
            one_stood.nodes[0].channels.push(moved);
            assert_eq!(found(&one_stood), [(Condition::ProcessKilled, 0.45)]);
        }
        let mut crash = recorded(libc::SIGSEGV, 10);
        assert_eq!(found(&crash), [(Condition::PluginCrash, 0.5)]);
        crash.nodes[0].channels[0].now.in_call = Some("test".into());
        assert_eq!(found(&crash), [(Condition::PluginCrash, 0.9)]);
        // With nothing in flight, a program is ended that has done its work, and others are not.
        let idle = |signal: i32| {
            let mut idle = recorded(signal, 60_000);
            idle.nodes[0].channels[0].now.consumed = 44;
            idle
        };
        assert_eq!(found(&idle(libc::SIGTERM)), []);
        let killed = idle(libc::SIGKILL);
        assert_eq!(found(&killed), [(Condition::ProcessKilled, 0.6)]);
        let because = recorded_died(&killed).remove(0).because.join("\n");
        assert!(because.ends_with("with nothing in flight"), "{because}");
        crash = idle(libc::SIGSEGV);
        assert_eq!(found(&crash), [(Condition::PluginCrash, 0.4)]);
        crash.nodes[0].inside = Some("closeRecv".into());
        assert_eq!(found(&crash), [(Condition::PluginCrash, 0.9)]);
    }

    /// Recordings without addresses of a sender that was killed inside `isend`, and of its receiver, whose
    /// connection was closed by that.
    fn killed_inside_isend() -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [21, 10, 10], 9000),
            channel(Side::Recv, [32, 16, 16], 9000),
        );
        let ends = [
            how_ended(None, Some(libc::SIGKILL)),
            how_ended(Some(4), None),
        ];
        for (node, how) in evidence.nodes.iter_mut().zip(ends) {
            node.subject.pair = None;
            node.sampled_ms = Some(9500.0);
            node.gone = Some(Gone {
                how: Some(how),
                signal: None,
            });
        }
        let [sender, receiver] = &mut evidence.nodes[..] else {
            return evidence;
        };
        sender.gone = sender.gone.take().map(|gone| Gone {
            signal: Some(libc::SIGKILL),
            ..gone
        });
        sender.channels[0].now.in_call = Some("isend".into());
        sender.channels[0].watched = Some(Watched {
            ms: 9000.0,
            in_one_call: true,
            ..Watched::default()
        });
        receiver.channels[0].now.last_error = Some(("test".into(), SYSTEM_ERROR));
        receiver.lines = vec![SignatureLines {
            signature: None,
            first_ms: 9501.0,
            last_ms: 9501.0,
            ..line("", "Net/Strict : Connection closed by remote peer")
        }];
        evidence
    }

    #[test]
    fn a_connection_that_the_end_of_a_hanging_program_closed_is_no_refusal() {
        let evidence = killed_inside_isend();
        let found = crate::diagnose(&evidence);
        assert_eq!(found[0].condition, "hang-inside-call", "{found:#?}");
        let unseen = found[0].cannot_see.join("; ");
        assert!(unseen.contains("no address tells"), "{unseen}");
        assert!(!unseen.contains("not inspected"), "{unseen}");

        let is_told = |evidence: &Evidence| {
            let found = crate::diagnose(evidence);
            let names = ["call-refused", "connection-lost", "premature-close"];
            found
                .iter()
                .any(|one| names.contains(&one.condition.as_str()))
        };
        assert!(!is_told(&evidence));
        let mut failed_before = evidence.clone();
        failed_before.nodes[1].lines[0].last_ms = 600.0;
        assert!(is_told(&failed_before));
        let mut over_before = evidence.clone();
        over_before.nodes[1].sampled_ms = Some(5000.0);
        assert!(is_told(&over_before));
        let mut of_another_transfer = evidence;
        for (node, port) in of_another_transfer.nodes.iter_mut().zip([4000, 5000]) {
            let now = &mut node.channels[0].now;
            let address = Some(format!("10.0.1.25:{port}"));
            match now.side {
                Side::Send => now.peer = address,
                Side::Recv => now.local = address,
            }
        }
        assert!(is_told(&of_another_transfer));
    }

    /// Recordings of both ends of a transfer in which one end stopped posting 9 s before it was killed, and the
    /// other was killed after it had seen that, or not.
    fn stopped_posting_then_killed(silent: Side, has_seen: bool) -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 9000),
            channel(Side::Recv, [40, 28, 28], 9000),
        );
        for node in &mut evidence.nodes {
            node.subject.pair = None;
            node.gone = Some(Gone {
                how: Some(how_ended(None, Some(libc::SIGKILL))),
                signal: Some(libc::SIGKILL),
            });
            let channel = &mut node.channels[0];
            let is_silent = channel.now.side == silent;
            let addresses = ["10.0.1.25:4000", "10.0.0.226:5000"].map(str::to_owned);
            let own = usize::from(channel.now.side == Side::Recv);
            channel.now.local = Some(addresses[own].clone());
            channel.now.peer = Some(addresses[1 - own].clone());
            if is_silent {
                channel.now.posted = 28;
                channel.watched = None;
            } else if has_seen {
                (node.sampled_ms, channel.now.quiet_ms) = (Some(9300.0), 9300);
                channel.now.last_error = Some(("test".into(), SYSTEM_ERROR));
                node.lines = vec![line(
                    "ctrl-socket-closed",
                    "Connection closed by remote peer",
                )];
            }
        }
        evidence
    }

    #[test]
    fn a_stall_that_stood_before_both_programs_were_killed_is_the_cause() {
        for (silent, name) in [
            (Side::Recv, "receiver-silent"),
            (Side::Send, "sender-silent"),
        ] {
            for has_seen in [false, true] {
                let found = crate::diagnose(&stopped_posting_then_killed(silent, has_seen));
                assert_eq!(found[0].condition, name, "{has_seen}: {found:#?}");
                let ends = ["process-killed", "peer-exited-first", "premature-close"];
                assert!(
                    found.iter().all(|one| !ends.contains(&&*one.condition)),
                    "{found:#?}"
                );
            }
        }
        // What still moved until then was ended by the signal.
        let mut moved = stopped_posting_then_killed(Side::Recv, true);
        moved
            .nodes
            .iter_mut()
            .for_each(|node| node.channels[0].now.quiet_ms = 300);
        assert_eq!(crate::diagnose(&moved)[0].condition, "process-killed");
    }

    /// Recordings of a program that ended with requests in flight, and of its peer.
    fn left_alone(how: Option<i32>, closed: bool) -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 10),
            channel(Side::Recv, [44, 28, 28], 10),
        );
        for node in &mut evidence.nodes {
            node.subject.pair = None;
            node.gone = Some(Gone {
                how: Some(how_ended(how, None)),
                signal: None,
            });
        }
        let addresses = ["10.0.1.25:4000", "10.0.0.226:5000"].map(str::to_owned);
        for (node, own) in [(0, 0), (1, 1)] {
            let now = &mut evidence.nodes[node].channels[0].now;
            now.local = Some(addresses[own].clone());
            now.peer = Some(addresses[1 - own].clone());
        }
        evidence.nodes[0].channels[0].now.last_error = Some(("test".into(), 2));
        evidence.nodes[1].channels[0].now.closed = closed;
        evidence
    }

    #[test]
    fn the_end_that_left_first_is_named_not_the_one_that_saw_it() {
        let first = |evidence: &Evidence| {
            let found = closed(evidence).into_iter().next();
            found.map(|one| (one.condition, one.node.map(|node| node.name)))
        };
        let (sender, receiver) = (Some("local".to_owned()), Some("peer".to_owned()));
        let exited = left_alone(Some(7), false);
        assert_eq!(first(&exited), Some((Condition::PeerExitedFirst, sender)));
        let because = &closed(&exited)[0].because;
        assert!(
            because[0].contains("called exit(7) with 16 requests"),
            "{because:?}"
        );
        let closes = left_alone(Some(0), true);
        assert_eq!(first(&closes), Some((Condition::PrematureClose, receiver)));
    }

    #[test]
    fn what_a_run_closes_when_it_is_given_up_is_not_its_cause() {
        // The line is logged at 5 s.
        let first = |stall_ms: f64, outcome| {
            let mut evidence = ended(outcome, reset_in_flight());
            for node in &mut evidence.nodes {
                node.channels[0].now.quiet_ms = 4000;
            }
            evidence.stall = Some(EvidenceStall {
                at_ms: stall_ms,
                recovered: false,
                starved: None,
            });
            crate::diagnose(&evidence).remove(0).condition
        };
        assert_eq!(first(4000.0, Outcome::Failed), "premature-close");
        assert_eq!(first(6000.0, Outcome::Stalled), "premature-close");
        assert_eq!(first(4000.0, Outcome::Stalled), "nothing-arrives");
    }

    fn reset_in_flight() -> Evidence {
        let mut evidence = ended(
            Outcome::Failed,
            pair(
                channel(Side::Send, [40, 28, 28], 10),
                channel(Side::Recv, [44, 28, 28], 10),
            ),
        );
        evidence.nodes[1].channels[0].now.last_error = Some(("test".into(), 2));
        evidence.nodes[1].lines = vec![line(
            "ctrl-socket-closed",
            "Connection closed by remote peer",
        )];
        evidence
    }

    /// `test` failed at one end, and nothing shows that a connection was closed.
    fn failed_for_no_known_reason() -> Evidence {
        let mut evidence = reset_in_flight();
        evidence.nodes[1].lines.clear();
        evidence
    }

    #[test]
    fn a_code_is_called_a_closed_connection_only_if_something_else_shows_it() {
        let mut evidence = failed_for_no_known_reason();
        let names = |evidence: &Evidence| -> Vec<Condition> {
            closed(evidence)
                .into_iter()
                .map(|one| one.condition)
                .collect()
        };
        assert_eq!(names(&evidence), [Condition::CallRefused]);
        evidence.nodes[0].channels[0].now.last_error = Some(("test".into(), 2));
        assert_eq!(names(&evidence), [Condition::PrematureClose; 2]);
    }

    #[test]
    fn a_failure_of_its_own_did_not_see_the_other_end() {
        let mut evidence = plugin_exit();
        assert_eq!(peer_first(&evidence).len(), 1);
        evidence.nodes[0].failure = failure(Phase::Measuring, "3 wrong bytes", false);
        assert!(peer_first(&evidence).is_empty());
    }

    fn reset_only() -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [40, 40, 40], 10),
            channel(Side::Recv, [0; 3], 0),
        );
        evidence.nodes.truncate(1);
        let pid = Some(4242);
        evidence.nodes[0].subject = Subject {
            node: NodeId(0),
            pair: None,
            pid,
            name: "pid 4242".into(),
        };
        evidence.nodes[0].lines = vec![line(
            "data-socket-failed",
            "Call to socket op send(0) failed : Connection reset by peer",
        )];
        evidence
    }
}
