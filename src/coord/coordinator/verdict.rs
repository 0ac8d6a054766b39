//! Picks the cause among several failures of a pair, and words it.
//!
//! When one end fails, the other fails too: it loses its peer, its plugin sees closed sockets, or
//! it is told to stop. The cause is picked from the failures of both ends.
#![forbid(unsafe_code)]

use super::end::End;
use std::net::{IpAddr, SocketAddr};
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::state::{KeptLine, WorkerState};
use tcpx_words::error::Outcome;

/// An outcome with its reason and next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) why: String,
    pub(super) next_step: Option<String>,
}

/// The cause of the outcome. The coordinator's own verdict takes precedence: after a stop order it
/// makes none, except that a worker died, which is never a consequence. Otherwise it is the first
/// failure that the other end did not cause. `failures` are in order of arrival, `names` are those
/// of the workers.
pub(super) fn cause(
    own: Option<Verdict>,
    failures: &[(End, Failure)],
    names: &[String; 2],
) -> Option<Verdict> {
    // `min_by_key` returns the first of several equal ones.
    let first = failures.iter().min_by_key(|(_, failure)| failure.follows);
    own.or_else(|| {
        first.map(|(end, failure)| Verdict {
            outcome: failure.outcome,
            why: format!(
                "{}, {}: {}",
                names[*end as usize], failure.phase, failure.message
            ),
            next_step: failure.next_step.clone(),
        })
    })
}

/// The C library's messages for `ENETUNREACH` and `EHOSTUNREACH`.
const NO_WAY: [&str; 2] = ["Network is unreachable", "No route to host"];

/// Rewrites a failure to connect because the kernel of node `from` has no route to node `to`, so
/// that it names both nodes; the plugin's message has addresses only. `driver` is the node where
/// the command was typed, if it is an end of the pair: most often it should only drive others.
pub(super) fn no_way(failure: &mut Failure, from: &str, to: &str, driver: Option<&str>) {
    let said = &failure.message;
    if failure.phase != Phase::Connecting || !NO_WAY.iter().any(|words| said.contains(words)) {
        return;
    }
    let address = |word: &str| {
        word.parse()
            .or_else(|_| word.parse().map(|socket: SocketAddr| socket.ip()))
            .ok()
    };
    let address: Option<IpAddr> = said.split([' ', '<', ',']).find_map(address);
    let Some(address) = address else { return };
    let look = format!("run `ip route get {address}` on {from}");
    failure.message = format!("{from} has no route to {address} of {to}: {said}");
    failure.next_step = Some(match driver {
        Some(driver) => {
            format!(
                "if {driver} should only drive the transfer, replace it with --from HOST; otherwise {look}"
            )
        }
        None => look,
    });
}

/// A plugin that dies of an error logs it on all its comms within this time.
const WENT_ON_MS: f64 = 100.0;
/// Most channels that a message names.
const CHANNELS_MAX: usize = 4;

/// Names the channels with requests in flight, the longest quiet first: the others may have been
/// busy a moment ago. `seen_by` declared the stall.
pub(super) fn stall_words(seen_by: &str, channels: &[ChannelNow]) -> String {
    let mut stuck: Vec<_> = channels
        .iter()
        .filter(|channel| channel.posted > channel.consumed)
        .collect();
    stuck.sort_by_key(|channel| std::cmp::Reverse(channel.quiet_ms));
    let of_channel = |channel: &&ChannelNow| {
        let in_flight = channel.posted - channel.consumed;
        format!(
            "{} channel {}: {in_flight} in flight, quiet for {} ms",
            channel.side, channel.index, channel.quiet_ms
        )
    };
    let stuck: Vec<String> = stuck.iter().take(CHANNELS_MAX).map(of_channel).collect();
    let stuck = if stuck.is_empty() {
        "nothing in flight".into()
    } else {
        stuck.join("; ")
    };
    format!("stalled, first seen by {seen_by} ({stuck})")
}

/// Words the death of a worker: how, in which phase and call, and the plugin's last WARN line.
pub(super) fn death_words(name: &str, exit: &Exit, worker: Option<&WorkerState>) -> String {
    let inside = exit
        .in_call
        .as_ref()
        .map(|call| format!(", inside {call}"))
        .unwrap_or_default();
    if exit.is_from_outside() {
        return format!(
            "the worker of {name} {} while {}{inside}",
            exit.how(),
            exit.phase
        );
    }
    let warned = last_warning(exit, worker).map(|line| format!("; its last WARN: {}", line.text));
    let printed = || {
        worker?
            .last_printed()
            .map(|text| format!("; it last printed: {text}"))
    };
    let said = warned.or_else(printed).unwrap_or_default();
    format!(
        "the plugin of {name} {} while {}{inside}{said}",
        exit.how(),
        exit.phase
    )
}

/// What the user can do about a worker that a signal from outside ended.
pub(super) const AFTER_KILL: &str =
    "look at dmesg and at the scheduler's log of that node and time";

/// What the user can do about the death of a worker.
pub(super) fn after_death(exit: &Exit, worker: Option<&WorkerState>) -> Option<String> {
    let next = match (exit.is_from_outside(), last_warning(exit, worker)) {
        (true, _) => AFTER_KILL,
        (false, Some(_)) => "its last WARN line is usually the cause",
        (false, None) => return None,
    };
    Some(next.to_owned())
}

/// The plugin's last WARN line that it did not go on after.
fn last_warning<'a>(exit: &Exit, worker: Option<&'a WorkerState>) -> Option<&'a KeptLine> {
    let warnings = worker?.lines().iter().filter(|line| line.is_warning());
    let last = warnings.max_by(|a, b| a.last_ms.total_cmp(&b.last_ms))?;
    (!was_survived(exit, last)).then_some(last)
}

/// Whether a plugin went on after a line, so that it did not die of it: it logged the same again later, or entered
/// another phase.
fn was_survived(exit: &Exit, line: &KeptLine) -> bool {
    line.last_ms - line.first_ms >= WENT_ON_MS || line.phase.is_some_and(|then| then != exit.phase)
}

/// Names the plugin call that a worker was killed in, if its agent killed it.
pub(super) fn stuck_call(name: &str, worker: &WorkerState) -> Option<String> {
    let exit = worker
        .exit
        .as_ref()
        .map(|exit| &exit.what)
        .filter(|exit| exit.killed)?;
    Some(format!(
        "the worker of {name} did not return from {}, so its agent killed it",
        exit.in_call.as_ref()?
    ))
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Failed, Interrupted, NotRun, PeerLost, PluginDied, Stalled};
    use super::*;

    fn check(own: Option<Outcome>, failures: &[(End, Outcome)], expected: Option<(Outcome, &str)>) {
        let own = own.map(|outcome| Verdict {
            outcome,
            why: "own".into(),
            next_step: None,
        });
        let failure = |(end, outcome): &(End, Outcome)| {
            let follows = matches!(outcome, PeerLost | Interrupted);
            let (phase, message) = (Phase::Measuring, "x".to_owned());
            (
                *end,
                Failure {
                    outcome: *outcome,
                    phase,
                    message,
                    next_step: None,
                    follows,
                },
            )
        };
        let failures: Vec<_> = failures.iter().map(failure).collect();
        let names = ["local".to_owned(), "peer".to_owned()];
        let found = cause(own, &failures, &names);
        let found = found.as_ref().map(|verdict| {
            (
                verdict.outcome,
                verdict.why.split([' ', ',']).next().unwrap_or_default(),
            )
        });
        assert_eq!(found, expected, "{failures:?}");
    }

    #[test]
    fn a_node_without_a_route_to_the_other_is_named_with_the_address_and_a_next_step() {
        let check = |phase, said: &str, driver, expected: Option<(&str, &str)>| {
            let mut failure = Failure {
                outcome: Failed,
                phase,
                message: said.into(),
                next_step: None,
                follows: false,
            };
            no_way(&mut failure, "laptop", "node1", driver);
            let Some((why, next)) = expected else {
                return assert_eq!((failure.message.as_str(), failure.next_step), (said, None));
            };
            assert_eq!(
                failure.message,
                format!("laptop has no route to {why} of node1: {said}")
            );
            assert!(
                failure
                    .next_step
                    .as_ref()
                    .is_some_and(|step| step.contains(next)),
                "{failure:?}"
            );
        };
        let ours = "it said: Connect to 192.168.1.226:40000 from 10.0.1.77:0 failed : Network is unreachable";
        let nccl = "it said: Call to connect to fd00::1<40000> failed : No route to host";
        check(
            Phase::Connecting,
            ours,
            Some("laptop"),
            Some(("192.168.1.226", "if laptop should only drive")),
        );
        check(
            Phase::Connecting,
            ours,
            Some("laptop"),
            Some(("192.168.1.226", "--from HOST")),
        );
        check(
            Phase::Connecting,
            nccl,
            None,
            Some(("fd00::1", "run `ip route get fd00::1` on laptop")),
        );
        check(Phase::Measuring, ours, None, None);
        check(
            Phase::Connecting,
            "Connect to 192.168.1.226:1 failed : Connection refused",
            None,
            None,
        );
        check(Phase::Connecting, "Network is unreachable", None, None);
    }

    #[test]
    fn the_channel_that_is_quiet_for_the_longest_is_named_first() {
        let channel = |index, posted, quiet_ms| ChannelNow {
            index,
            posted,
            quiet_ms,
            side: tcpx_words::side::Side::Recv,
            ..ChannelNow::default()
        };
        let channels = vec![
            channel(0, 1, 13),
            channel(1, 0, 9000),
            channel(2, 16, 3050),
            channel(3, 1, 7),
        ];
        let words = stall_words("peer", &channels);
        let expected = "stalled, first seen by peer (recv channel 2: 16 in flight, quiet for 3050 ms; recv channel 0";
        assert!(words.starts_with(expected), "{words}");
    }

    #[test]
    fn the_sentences_of_this_file_have_chinese_translations() {
        let channel = ChannelNow {
            posted: 3,
            ..ChannelNow::default()
        };
        let exit = |code, signal| Exit {
            code,
            signal,
            killed: true,
            phase: Phase::Connecting,
            in_call: Some("test on recv channel 0".to_owned()),
            channels: Vec::new(),
        };
        let mut failure = Failure {
            outcome: Failed,
            phase: Phase::Connecting,
            message: "Call to connect 10.0.0.226 failed : No route to host".to_owned(),
            next_step: None,
            follows: false,
        };
        no_way(&mut failure, "local", "peer", Some("local"));
        let names = ["local", "peer"].map(str::to_owned);
        let cause = cause(None, &[(End::First, failure.clone())], &names);
        let sentences = [
            stall_words("the peer end", &[channel]),
            stall_words("the coordinator", &[]),
            death_words("peer gpu 3", &exit(Some(1), None), None),
            death_words("peer", &exit(None, Some(9)), None),
            cause.expect("a cause").why,
            failure.next_step.expect("a next step"),
            after_death(&exit(None, Some(9)), None).expect("a next step"),
        ];
        for sentence in sentences {
            let translated = tcpx_run_model::chinese::chinese(&sentence);
            assert!(
                translated.is_some(),
                "src/run-model/chinese.toml lacks: {sentence}"
            );
        }
    }

    #[test]
    fn the_first_cause_is_picked_among_its_consequences() {
        use End::{First as Local, Second as Peer};
        check(None, &[], None);
        check(Some(Stalled), &[], Some((Stalled, "own")));
        check(
            None,
            &[(Peer, PeerLost), (Local, Failed)],
            Some((Failed, "local")),
        );
        check(
            None,
            &[(Peer, Failed), (Local, NotRun)],
            Some((Failed, "peer")),
        );
        check(
            None,
            &[(Peer, PeerLost), (Local, Interrupted)],
            Some((PeerLost, "peer")),
        );
        check(
            Some(PluginDied),
            &[(Peer, PeerLost), (Local, Failed)],
            Some((PluginDied, "own")),
        );
        check(Some(PeerLost), &[(Local, Failed)], Some((PeerLost, "own")));
        check(
            Some(Interrupted),
            &[(Local, PeerLost), (Peer, Interrupted)],
            Some((Interrupted, "own")),
        );
    }
}
