//! Set-up: connections that are never made, flow steering, settings that differ.
#![forbid(unsafe_code)]

use super::{Found, Rule, said, with_line};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceChannel, EvidenceNode, Gone};
use std::collections::BTreeSet;
use tcpx_run_model::phase::{Failure, Phase};
use tcpx_run_model::scenario::Processes;
use tcpx_words::error::Outcome;
use tcpx_words::units::counted;

pub(super) const RULES: &[Rule] = &[
    never_completes,
    connect_once,
    receive_path,
    settings,
    chunk_size_zero,
    wrong_gpu,
];

fn never_completes(evidence: &Evidence) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for node in evidence.nodes.iter().filter(|node| gave_up(node)) {
        let why = node
            .failure
            .as_ref()
            .map(|failure| format!("{}: {}", node.name(), failure.what.message));
        let here = Found::of_transfer(
            Condition::ConnectNeverCompletes,
            0.8,
            why.unwrap_or_default(),
        );
        found.push(here.and_line(node.any_line(CONNECT_LINES)));
    }
    let inside = evidence.nodes.iter().filter_map(|node| {
        let why = without_comm(node, evidence).filter(|_| node.failure.is_none())?;
        let why = format!("{}: {why}", node.name());
        let peer = node.connecting.as_ref().and_then(|one| one.peer.as_ref());
        let next_step = peer.map(|peer| {
            format!(
                "check that the program that listens at {peer} runs and calls accept; if it does, run `tcpxctl doctor \
                 --peer HOST`, which tries every rail and port"
            )
        });
        let found = Found::at(Condition::ConnectNeverCompletes, node, 0.8, why);
        Some(Found { next_step, ..found })
    });
    found.extend(inside);
    let of_accept = with_line(evidence, &["harness-accept-gave-up"]);
    found.extend(of_accept.map(|(node, line)| {
        Found::at(Condition::AcceptBudgetTooSmall, node, 0.8, said(line)).and(format!(
            "per comm, the plugin itself waits (sockets + 1) x 100 ms, and {} for flow steering",
            steering_wait(node)
        ))
    }));
    found
}

/// Whether the worker's connects and accepts did not all complete within the limit.
fn gave_up(node: &EvidenceNode) -> bool {
    let failure = node.failure.as_ref().map(|failure| &failure.what);
    failure.is_some_and(|one| one.phase == Phase::Connecting && one.outcome == Outcome::Stalled)
}

/// Whether `connect-never-completes` is found at a node, or a call failed while it connected.
pub(super) fn never_connected(node: &EvidenceNode, evidence: &Evidence) -> bool {
    let failure = node.failure.as_ref().map(|failure| &failure.what);
    let failed = |one: &Failure| one.phase == Phase::Connecting && one.outcome == Outcome::Failed;
    failure.is_some_and(failed)
        || gave_up(node)
        || (node.failure.is_none() && without_comm(node, evidence).is_some())
}

/// What a program says that has been inside `connect`, or has polled it, for as long as a stall.
fn without_comm(node: &EvidenceNode, evidence: &Evidence) -> Option<String> {
    let connecting = node.connecting.as_ref();
    let listener = connecting.and_then(|one| one.peer.as_ref());
    let to = listener.map_or_else(String::new, |peer| format!(" to the listener {peer}"));
    let quiet_s = without_setup_s(node, evidence);
    if let Some(quiet_s) = quiet_s.filter(|_| node.inside.as_deref() == Some("connect")) {
        return Some(format!("connect{to} has not returned for {quiet_s:.1} s"));
    }
    let polled = connecting.filter(|one| one.goes_on)?;
    let waited_ms = until_ms(node, evidence) - node.connecting_ms?;
    (waited_ms >= evidence.stall_after_ms as f64).then(|| {
        format!(
            "connect{to} has given no comm for {:.1} s, in at least {}",
            waited_ms / 1e3,
            counted(usize::try_from(polled.calls).unwrap_or(usize::MAX), "call")
        )
    })
}

/// The end of a process that is gone, or now.
fn until_ms(node: &EvidenceNode, evidence: &Evidence) -> f64 {
    let end_ms = node.sampled_ms.filter(|_| node.gone.is_some());
    end_ms.unwrap_or(evidence.now_ms)
}

/// Seconds since its program entered or left a set-up call, if they are as long as a stall.
fn without_setup_s(node: &EvidenceNode, evidence: &Evidence) -> Option<f64> {
    let quiet_ms = until_ms(node, evidence) - node.setup_ms?;
    (quiet_ms >= evidence.stall_after_ms as f64).then_some(quiet_ms / 1e3)
}

/// A program that polls connect makes more set-up calls than these within a moment.
const SETUP_CALLS_MAX: u64 = 16;

fn connect_once(evidence: &Evidence) -> Vec<Found> {
    let found = evidence.nodes.iter().filter_map(|node| {
        let setup = node.setup.as_ref()?;
        let then = match &node.gone {
            Some(Gone { how: Some(how), .. }) => format!("then the process {how}"),
            Some(_) => "then its recording ends".to_owned(),
            None => {
                let quiet_s = without_setup_s(node, evidence)?;
                format!("it has made none for {quiet_s:.1} s since")
            }
        };
        let is_it = setup.last == "connect"
            && setup.failed == 0
            && setup.count <= SETUP_CALLS_MAX
            && node.connecting.as_ref().is_none_or(|one| one.calls <= 1)
            && node.inside.is_none()
            && !node.channels.iter().any(EvidenceChannel::sends);
        is_it.then(|| {
            let why = format!(
                "{}: its last set-up call was connect, which returned 0 without a comm; it made {} set-up calls in all",
                node.name(),
                setup.count
            );
            Found::at(Condition::ConnectCalledOnce, node, 0.8, why).and(then)
        })
    });
    found.collect()
}

const CONNECT_LINES: &[&str] = &[
    "tcpx-connect-gave-up",
    "tcpx-connect-failed",
    "tcpx-accept-failed",
];

fn steering_wait(node: &EvidenceNode) -> String {
    match node
        .settings
        .get("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS")
    {
        Some(micros) => format!("{micros} us"),
        None => "5 s (the variable is not set)".to_owned(),
    }
}

const NOT_ON_THE_GPU: &[&str] = &[
    "rx-no-cmsg",
    "rx-no-data",
    "rx-on-host-memory",
    "rx-cmsg-truncated",
    "rx-cmsg-bytes",
    "rx-too-many-fragments",
    "request-too-many-pages",
];
const NOT_STEERED: &[&str] = &["rxdm-rule-failed", "tcpx-listen-failed"];

fn receive_path(evidence: &Evidence) -> Vec<Found> {
    let lost = with_line(evidence, NOT_ON_THE_GPU).map(|(node, line)| {
        let found = Found::at(Condition::NoCmsg, node, 0.95, said(line));
        match &node.exit {
            Some(exit) => found.and(format!("then its process {}", exit.what.how())),
            None => found,
        }
    });
    let refused = with_line(evidence, NOT_STEERED)
        .map(|(node, line)| Found::at(Condition::FlowSteeringRefused, node, 0.9, said(line)));
    lost.chain(refused).collect()
}

const RECV_SYNC: &str = "NCCL_GPUDIRECTTCPX_RECV_SYNC";
/// Parts of names of settings that may differ: they name things of one node.
const NODE_LOCAL: [&str; 7] = [
    "IFNAME",
    "CTRL_DEV",
    "BINDINGS",
    "PREFIX",
    "PATH",
    "CUDA_VISIBLE_DEVICES",
    "TCPXSOFT_",
];

fn settings(evidence: &Evidence) -> Vec<Found> {
    let mismatch = with_line(evidence, &["recv-sync-mismatch"])
        .map(|(node, line)| Found::at(Condition::RecvSyncDiffers, node, 0.95, said(line)));
    let mut found: Vec<Found> = mismatch.collect();
    let refusal = evidence
        .nodes
        .iter()
        .filter_map(|node| node.failure.as_ref())
        .find(|failure| {
            failure.what.phase == Phase::Bootstrapping && failure.what.message.contains("differ")
        });
    if let Some(failure) = refusal {
        let name = if failure.what.message.contains(RECV_SYNC) {
            Condition::RecvSyncDiffers
        } else {
            Condition::SettingsDiffer
        };
        found.push(Found::of_transfer(name, 0.97, failure.what.message.clone()));
        return found;
    }
    if found.is_empty() && evidence.standing().next().is_some() {
        let ends = evidence.pairs().chain(connected(evidence));
        found.extend(ends.flat_map(|(one, other)| differences(one, other)));
    }
    found
}

/// Both ends of each transfer between two processes that no run started.
fn connected(evidence: &Evidence) -> Vec<(&EvidenceNode, &EvidenceNode)> {
    let mut ends: Vec<(&EvidenceNode, &EvidenceNode)> = Vec::new();
    for spot in evidence
        .spots()
        .filter(|spot| spot.node.subject.pair.is_none())
    {
        let Some(other) = spot.other_end() else {
            continue;
        };
        let is_new = !ends.iter().any(|known| {
            [known, &(known.1, known.0)].iter().any(|(one, two)| {
                one.subject == spot.node.subject && two.subject == other.node.subject
            })
        });
        if is_new && spot.node.subject != other.node.subject {
            ends.push((spot.node, other.node));
        }
    }
    ends
}

/// Differing settings that are reported of one pair.
const DIFFERENCES_MAX: usize = 4;

fn differences(one: &EvidenceNode, other: &EvidenceNode) -> Vec<Found> {
    let names: BTreeSet<&String> = one.settings.keys().chain(other.settings.keys()).collect();
    let differs = |name: &&String| {
        let value = |node: &EvidenceNode| node.settings.get(*name).cloned().unwrap_or_default();
        value(one) != value(other) && !NODE_LOCAL.iter().any(|part| name.contains(part))
    };
    let names = names
        .into_iter()
        .filter(differs)
        .filter(|name| is_comparable(one, other, name));
    let found = names.take(DIFFERENCES_MAX).map(|name| {
        let value = |node: &EvidenceNode| {
            node.settings
                .get(name)
                .map_or("not set".to_owned(), |value| format!("`{value}`"))
        };
        let why = format!(
            "{name} is {} on {} and {} on {}",
            value(one),
            one.name(),
            value(other),
            other.name()
        );
        let is_sync = name == RECV_SYNC || name == "receiver sync";
        Found::of_transfer(
            if is_sync {
                Condition::RecvSyncDiffers
            } else {
                Condition::SettingsDiffer
            },
            if is_sync { 0.9 } else { 0.4 },
            why,
        )
    });
    found.collect()
}

/// Whether the values of both ends can be compared. A variable of the plugin that only one
/// end has set is a difference; a setting that a plugin printed is compared only if the
/// other plugin printed it too.
fn is_comparable(one: &EvidenceNode, other: &EvidenceNode, name: &str) -> bool {
    let is_variable = name
        .chars()
        .all(|letter| letter.is_ascii_uppercase() || letter == '_' || letter.is_ascii_digit());
    if is_variable {
        name.starts_with("NCCL_")
    } else {
        one.settings.contains_key(name) && other.settings.contains_key(name)
    }
}

fn chunk_size_zero(evidence: &Evidence) -> Vec<Found> {
    if evidence.standing().next().is_none() {
        return Vec::new();
    }
    let said_so = |node: &EvidenceNode| node.line("tcpx-chunk-size-zero").map(said);
    let is_zero = |node: &EvidenceNode, name: &str| {
        let value = node.settings.get(name)?.trim().parse::<i64>().ok()?;
        (value == 0).then_some(())
    };
    let set_so = |node: &EvidenceNode| {
        is_zero(node, "NCCL_DYNAMIC_CHUNK_SIZE")?;
        Some(format!("{}: NCCL_DYNAMIC_CHUNK_SIZE is 0", node.name()))
    };
    // The line of a plugin that takes 0 because the variable is not set.
    let printed_so = |node: &EvidenceNode| {
        is_zero(node, "dynamic chunk size")?;
        Some(format!(
            "{}: its plugin logged a dynamic chunk size of 0",
            node.name()
        ))
    };
    let found = evidence.nodes.iter().filter_map(|node| {
        let why = said_so(node)
            .or_else(|| set_so(node))
            .or_else(|| printed_so(node))?;
        Some(Found::at(Condition::DynamicChunkSizeZero, node, 0.97, why))
    });
    found.collect()
}

fn wrong_gpu(evidence: &Evidence) -> Vec<Found> {
    let single = evidence
        .scenario
        .as_ref()
        .is_none_or(|scenario| scenario.topology.processes == Processes::Single);
    let found = evidence.nodes.iter().filter_map(|node| {
        let gpu = node
            .listened_on_gpus
            .first()
            .filter(|_| node.listened_on_gpus.len() == 1)?;
        let gpus = node
            .machine
            .as_ref()
            .map(|machine| machine.gpu_roots.len())
            .filter(|gpus| *gpus > 1)?;
        let receives = node
            .channels
            .iter()
            .filter(|channel| !channel.sends())
            .count();
        let shared = single && evidence.is_bad() && receives > 1 && *gpu as usize + 1 == gpus;
        shared.then(|| {
            let why = format!(
                "{}: all {receives} listen comms were made while GPU {gpu} was current, the last of {gpus}",
                node.name()
            );
            Found::at(Condition::WrongGpuCurrent, node, 0.7, why)
                .unseen("which GPU each channel was meant for: only the program knows")
        })
    });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_run_model::counters::{ConnectingFacts, SetupCalls};
    use tcpx_run_model::finding::Subject;
    use tcpx_run_model::ids::NodeId;
    use tcpx_run_model::scenario::Scenario;
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::SettingsDiffer, settings_differ),
        (Condition::AcceptBudgetTooSmall, accept_budget),
        (Condition::ConnectCalledOnce, connect_called_once),
        (Condition::WrongGpuCurrent, wrong_gpu),
    ];

    #[test]
    fn settings_of_two_connected_programs_are_compared() {
        let mut evidence = stuck();
        for (end, node) in evidence.nodes.iter_mut().enumerate() {
            (node.subject.pair, node.subject.pid) = (None, Some(4242));
            // As both plugins printed it.
            let value = ["1", "0"][end].to_owned();
            node.settings.insert("receiver sync".into(), value);
            let addresses = ["10.0.1.25:4000", "10.0.0.226:5000"].map(str::to_owned);
            let now = &mut node.channels[0].now;
            (now.local, now.peer) = (
                Some(addresses[end].clone()),
                Some(addresses[1 - end].clone()),
            );
        }
        let first = crate::diagnose(&evidence).remove(0);
        assert_eq!(first.condition, "recv-sync-differs");
        assert_eq!(
            first.because,
            ["receiver sync is `1` on local and `0` on peer"]
        );
        // Of programs that have nothing to do with each other, it means nothing.
        evidence.nodes[0].channels[0].now.peer = Some("10.0.0.7:5000".into());
        evidence.nodes[1].channels[0].now.peer = None;
        assert_eq!(settings(&evidence), []);
    }

    /// A recording of a program that ended after its first connect.
    fn connect_called_once() -> Evidence {
        let mut one = EvidenceNode::new(Subject {
            node: NodeId(0),
            pair: None,
            pid: Some(4242),
            name: "pid 4242".into(),
        });
        one.gone = Some(Gone {
            how: Some("called exit(1)".into()),
            signal: None,
        });
        one.setup = Some(SetupCalls {
            last: "connect".into(),
            count: 5,
            failed: 0,
            last_error: None,
            at_ns: None,
        });
        Evidence {
            stall_after_ms: 3000,
            now_ms: 9000.0,
            nodes: vec![one],
            ..Evidence::default()
        }
    }

    #[test]
    fn a_program_that_polls_connect_or_has_a_comm_is_not_blamed() {
        let mut evidence = connect_called_once();
        assert_eq!(connect_once(&evidence).len(), 1);
        let calls = |last: &str, count, failed| SetupCalls {
            last: last.into(),
            count,
            failed,
            last_error: None,
            at_ns: None,
        };
        for other in [
            calls("connect", SETUP_CALLS_MAX + 1, 0),
            calls("connect", 5, 1),
            calls("accept", 5, 0),
        ] {
            evidence.nodes[0].setup = Some(other);
            assert!(connect_once(&evidence).is_empty());
        }
        evidence = connect_called_once();
        evidence.nodes[0].channels = vec![channel(Side::Send, [0; 3], 0)];
        assert!(connect_once(&evidence).is_empty());
        evidence = connect_called_once();
        evidence.nodes[0].inside = Some("connect".into());
        assert!(connect_once(&evidence).is_empty());
        // A recording without an end says no end of its process.
        evidence = connect_called_once();
        if let Some(gone) = &mut evidence.nodes[0].gone {
            gone.how = None;
        }
        let found = &connect_once(&evidence)[0].because;
        assert_eq!(
            found.last().map(String::as_str),
            Some("then its recording ends")
        );
    }

    #[test]
    fn a_program_that_is_inside_connect_for_the_stall_limit_is_told() {
        let mut evidence = connect_called_once();
        let node = &mut evidence.nodes[0];
        (node.inside, node.setup_ms) = (Some("connect".into()), Some(6001.0));
        assert!(never_completes(&evidence).is_empty());
        evidence.nodes[0].setup_ms = Some(-4000.0);
        let found = never_completes(&evidence);
        assert_eq!(found.len(), 1);
        evidence.nodes[0].inside = Some("accept".into());
        assert!(never_completes(&evidence).is_empty(), "it waits for a peer");
    }

    #[test]
    fn a_program_that_polls_connect_for_the_stall_limit_is_told_with_the_listener() {
        let mut evidence = connect_called_once();
        let node = &mut evidence.nodes[0];
        node.connecting = Some(ConnectingFacts {
            peer: Some("10.0.1.25:4000".into()),
            since_ns: 0,
            calls: 8192,
            goes_on: true,
        });
        node.connecting_ms = Some(-36_000.0);
        let found = never_completes(&evidence);
        assert_eq!(
            found[0].because,
            [
                "pid 4242: connect to the listener 10.0.1.25:4000 has given no comm for 45.0 s, in at least 8192 calls"
            ]
        );
        assert!(connect_once(&evidence).is_empty());
        // The end of a process that is gone, not that of another one.
        evidence.nodes[0].sampled_ms = Some(-33_001.0);
        assert!(never_completes(&evidence).is_empty());
        let node = &mut evidence.nodes[0];
        (node.gone, node.inside) = (None, Some("connect".into()));
        node.setup_ms = Some(-1000.0);
        let found = never_completes(&evidence);
        let expected =
            "pid 4242: connect to the listener 10.0.1.25:4000 has not returned for 10.0 s";
        assert_eq!(found[0].because, [expected]);
        if let Some(connecting) = &mut evidence.nodes[0].connecting {
            connecting.goes_on = false;
        }
        evidence.nodes[0].inside = None;
        assert!(never_completes(&evidence).is_empty(), "it has given up");
    }

    #[test]
    fn a_running_program_is_blamed_once_it_has_made_no_call_for_the_stall_limit() {
        let mut evidence = connect_called_once();
        evidence.nodes[0].gone = None;
        let mut found = |setup_ms| {
            evidence.nodes[0].setup_ms = setup_ms;
            connect_once(&evidence).len()
        };
        assert_eq!(found(None), 0, "a recorder that does not tell");
        assert_eq!([6001.0, 6000.0].map(|ms| found(Some(ms))), [0, 1]);
        assert_eq!(found(Some(-60_000.0)), 1, "before the first look");
    }

    #[test]
    fn a_chunk_size_of_0_is_known_by_what_the_plugin_logged() {
        let mut evidence = stuck();
        evidence.nodes.truncate(1);
        assert!(chunk_size_zero(&evidence).is_empty());
        let settings = &mut evidence.nodes[0].settings;
        settings.insert("dynamic chunk size".into(), "524288".into());
        assert!(chunk_size_zero(&evidence).is_empty());
        let settings = &mut evidence.nodes[0].settings;
        settings.insert("dynamic chunk size".into(), "0".into());
        let found = chunk_size_zero(&evidence);
        assert_eq!(found[0].condition, Condition::DynamicChunkSizeZero);
    }

    #[test]
    fn one_process_with_both_ends_misses_none() {
        let mut evidence = pair(
            channel(Side::Send, [16, 0, 0], 9000),
            channel(Side::Recv, [16, 0, 0], 9000),
        );
        let mut recv = evidence.nodes.remove(1).channels.remove(0);
        let missing = |evidence: &Evidence| evidence.missing().join("; ").contains("the other end");
        assert!(missing(&evidence));
        recv.now.local = Some("10.0.1.25:4000".into());
        evidence.nodes[0].channels[0].now.peer = Some("10.0.1.25:4000".into());
        evidence.nodes[0].channels.push(recv);
        assert!(!missing(&evidence));
        evidence.nodes[0].channels[0].now.peer = Some("10.0.0.226:4000".into());
        assert!(missing(&evidence));
    }

    fn settings_differ() -> Evidence {
        let mut evidence = ended(
            Outcome::Failed,
            pair(
                channel(Side::Send, [0; 3], 0),
                channel(Side::Recv, [0; 3], 0),
            ),
        );
        let why = "the two ends differ in NCCL_NSOCKS_PERTHREAD: 4 here, 1 there";
        evidence.nodes[0].failure = failure(Phase::Bootstrapping, why, false);
        evidence
    }

    fn accept_budget() -> Evidence {
        let mut evidence = ended(
            Outcome::Failed,
            pair(
                channel(Side::Send, [0; 3], 0),
                channel(Side::Recv, [0; 3], 0),
            ),
        );
        let text = "Failed to accept connection for channel 4 after 100 retries";
        evidence.nodes[1].lines = vec![line("harness-accept-gave-up", text)];
        evidence
    }

    fn wrong_gpu() -> Evidence {
        let mut scenario = Scenario::default();
        scenario.topology.processes = Processes::Single;
        let mut evidence = Evidence {
            scenario: Some(scenario),
            ..stuck()
        };
        let mut second = evidence.nodes[1].channels[0].clone();
        second.now.index = 1;
        evidence.nodes[1].channels.push(second);
        evidence.nodes[1].listened_on_gpus = [7].into();
        evidence.nodes[1].machine = Some(machine(&[None; 8]));
        evidence
    }
}
