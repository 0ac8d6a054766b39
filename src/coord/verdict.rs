//! Which of several endings is the cause, and how it is said.
//!
//! When one end goes wrong the other follows: it loses its peer, its plugin sees
//! closed sockets, or it is told to stop. Here the first cause is picked from
//! what arrived.
#![forbid(unsafe_code)]

use super::launch::End;
use super::message::{Exit, Failure, Phase};
use super::pair::{EndRecord, Stall};
use std::net::{IpAddr, SocketAddr};
use tcpx_words::error::Outcome;

/// An ending with its sentence and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) why: String,
    pub(super) next_step: Option<String>,
}

/// The coordinator's own verdict, if it came to one, stands: it comes to none
/// while things stop, except that a process is gone, which is never a
/// consequence. Else it is the first of both ends' failures, given in the order
/// in which they came, that the other does not explain.
pub(super) fn cause(own: Option<Verdict>, failures: &[(End, Failure)]) -> Option<Verdict> {
    // Of the same kind the one that came first, which `min_by_key` keeps.
    let first = failures.iter().min_by_key(|(_, failure)| failure.follows);
    own.or_else(|| {
        first.map(|(end, failure)| Verdict {
            outcome: failure.outcome,
            why: format!("{} end, {}: {}", end.name(), failure.phase, failure.message),
            next_step: failure.next_step.clone(),
        })
    })
}

/// What the C library calls `ENETUNREACH` and `EHOSTUNREACH`.
const NO_WAY: [&str; 2] = ["Network is unreachable", "No route to host"];

/// Where the kernel of node `from` knows no way to node `to`, says so with their
/// names; the plugin knows addresses only. `driver` is the node where the command was
/// typed, if that is an end of the pair: most often it was only meant to drive others.
pub(super) fn no_way(failure: &mut Failure, from: &str, to: &str, driver: Option<&str>) {
    let said = &failure.message;
    if failure.phase != Phase::Connecting || !NO_WAY.iter().any(|words| said.contains(words)) {
        return;
    }
    let address = |word: &str| word.parse().or_else(|_| word.parse().map(|socket: SocketAddr| socket.ip())).ok();
    let address: Option<IpAddr> = said.split([' ', '<', ',']).find_map(address);
    let Some(address) = address else { return };
    let look = format!("look at `ip route get {address}` on {from}");
    failure.message = format!("{from} has no way to {address} of {to}: {said}");
    failure.next_step = Some(match driver {
        Some(driver) => {
            format!("if {driver} only drives the transfer, put a node in its place with --from HOST; else {look}")
        }
        None => look,
    });
}

/// The channels that stand still.
pub(super) fn stall_words(stall: Option<&Stall>) -> String {
    let Some(stall) = stall else { return "no progress".into() };
    let stuck: Vec<String> = stall
        .stuck()
        .into_iter()
        .take(4)
        .map(|channel| {
            let in_flight = channel.posted - channel.consumed;
            format!(
                "{} channel {}: {in_flight} in flight, quiet for {} ms",
                channel.side, channel.index, channel.quiet_ms
            )
        })
        .collect();
    let stuck = if stuck.is_empty() { "nothing in flight".into() } else { stuck.join("; ") };
    format!("stalled, first seen by {} ({stuck})", stall.seen_by())
}

/// How a worker died.
pub(super) fn death_words(end: End, exit: &Exit, record: &EndRecord) -> String {
    let inside = exit.in_call.as_ref().map(|call| format!(", inside {call}")).unwrap_or_default();
    let said = record.warnings.last().map(|line| format!("; its last WARN: {}", line.text)).unwrap_or_default();
    format!("the plugin of the {} end {} while {}{inside}{said}", end.name(), exit.how(), exit.phase)
}

/// The calls out of which workers had to be killed.
pub(super) fn stuck_calls(ends: &[EndRecord; 2]) -> impl Iterator<Item = String> {
    End::ALL.iter().zip(ends).filter_map(|(end, record)| {
        let exit = record.exit.as_ref().filter(|exit| exit.killed)?;
        Some(format!("the worker of the {} end was killed inside {}", end.name(), exit.in_call.as_ref()?))
    })
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Failed, Interrupted, NotRun, PeerLost, PluginDied, Stalled};
    use super::*;

    fn check(own: Option<Outcome>, failures: &[(End, Outcome)], expected: Option<(Outcome, &str)>) {
        let own = own.map(|outcome| Verdict { outcome, why: "own".into(), next_step: None });
        let failure = |(end, outcome): &(End, Outcome)| {
            let follows = matches!(outcome, PeerLost | Interrupted);
            let (phase, message) = (Phase::Measuring, "x".to_owned());
            (*end, Failure { outcome: *outcome, phase, message, next_step: None, follows })
        };
        let failures: Vec<_> = failures.iter().map(failure).collect();
        let found = cause(own, &failures);
        let found = found.as_ref().map(|verdict| (verdict.outcome, verdict.why.split(' ').next().unwrap_or_default()));
        assert_eq!(found, expected, "{failures:?}");
    }

    #[test]
    fn a_node_without_a_way_to_the_other_is_named_with_the_address_and_what_to_do() {
        let check = |phase, said: &str, driver, expected: Option<(&str, &str)>| {
            let mut failure = Failure { outcome: Failed, phase, message: said.into(), next_step: None, follows: false };
            no_way(&mut failure, "laptop", "node1", driver);
            let Some((why, next)) = expected else {
                return assert_eq!((failure.message.as_str(), failure.next_step), (said, None));
            };
            assert_eq!(failure.message, format!("laptop has no way to {why} of node1: {said}"));
            assert!(failure.next_step.as_ref().is_some_and(|step| step.contains(next)), "{failure:?}");
        };
        let ours = "it said: Connect to 192.168.1.226:40000 from 10.0.1.77:0 failed : Network is unreachable";
        let nccl = "it said: Call to connect to fd00::1<40000> failed : No route to host";
        check(Phase::Connecting, ours, Some("laptop"), Some(("192.168.1.226", "if laptop only drives")));
        check(Phase::Connecting, ours, Some("laptop"), Some(("192.168.1.226", "--from HOST")));
        check(Phase::Connecting, nccl, None, Some(("fd00::1", "look at `ip route get fd00::1` on laptop")));
        check(Phase::Measuring, ours, None, None);
        check(Phase::Connecting, "Connect to 192.168.1.226:1 failed : Connection refused", None, None);
        check(Phase::Connecting, "Network is unreachable", None, None);
    }

    #[test]
    fn the_channel_that_is_quiet_for_the_longest_is_named_first() {
        use tcpx_run_model::record::ChannelNow;
        let channel = |index, posted, quiet_ms| ChannelNow {
            index,
            posted,
            quiet_ms,
            side: "recv".into(),
            ..ChannelNow::default()
        };
        let channels = vec![channel(0, 1, 13), channel(1, 0, 9000), channel(2, 16, 3050), channel(3, 1, 7)];
        let words = stall_words(Some(&Stall { end: Some(End::Peer), at_ms: 0.0, channels, recovered: false }));
        let expected =
            "stalled, first seen by the peer end (recv channel 2: 16 in flight, quiet for 3050 ms; recv channel 0";
        assert!(words.starts_with(expected), "{words}");
    }

    #[test]
    fn the_first_cause_is_found_among_its_consequences() {
        use End::{Local, Peer};
        check(None, &[], None);
        check(Some(Stalled), &[], Some((Stalled, "own")));
        check(None, &[(Peer, PeerLost), (Local, Failed)], Some((Failed, "local")));
        check(None, &[(Peer, Failed), (Local, NotRun)], Some((Failed, "peer")));
        check(None, &[(Peer, PeerLost), (Local, Interrupted)], Some((PeerLost, "peer")));
        check(Some(PluginDied), &[(Peer, PeerLost), (Local, Failed)], Some((PluginDied, "own")));
        check(Some(PeerLost), &[(Local, Failed)], Some((PeerLost, "own")));
        check(Some(Interrupted), &[(Local, PeerLost), (Peer, Interrupted)], Some((Interrupted, "own")));
    }
}
