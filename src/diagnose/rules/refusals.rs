//! Calls that the plugin refused for a reason that no other condition names, and what to do
//! after each: an `init` that is refused is not the end of a comm.
#![forbid(unsafe_code)]

use super::network::lossy_connect;
use super::slots::{INTERNAL_ERROR, SLOTS, SYSTEM_ERROR, is_misuse_of_consumed, is_misuse_of_test};
use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, Gone, SignatureLines, Spot};
use tcpx_logs::Severity;
use tcpx_words::error::Outcome;

pub(super) const RULES: &[Rule] = &[refused];

fn refused(evidence: &Evidence) -> Vec<Found> {
    let mut found: Vec<Found> = evidence
        .spots()
        .filter_map(|spot| on_channel(spot, evidence))
        .collect();
    for node in &evidence.nodes {
        let is_new = !found
            .iter()
            .any(|one| one.node.as_ref() == Some(&node.subject));
        if is_new {
            found.extend(of_no_channel(node, evidence).or_else(|| of_setup(node)));
        }
    }
    found
}

/// The last failed call of a channel.
fn on_channel(spot: Spot<'_>, evidence: &Evidence) -> Option<Found> {
    let (call, code) = spot.channel.now.last_error.as_ref()?;
    let is_named = match (call.as_str(), *code) {
        ("test", INTERNAL_ERROR) => is_misuse_of_test(&spot),
        ("irecvConsumed", INTERNAL_ERROR) => is_misuse_of_consumed(&spot),
        ("test", SYSTEM_ERROR) => true,
        // A run that passed has narrowed its window to the slots that the plugin has.
        ("isend" | "irecv", INTERNAL_ERROR) => {
            spot.channel.in_flight() >= SLOTS || evidence.outcome == Some(Outcome::Passed)
        }
        _ => false,
    };
    if is_named {
        return None;
    }
    Some(of_code(spot))
}

/// A channel whose last call failed, and what its plugin said of it.
pub(super) fn of_code(spot: Spot<'_>) -> Found {
    let (call, code) = spot.channel.now.last_error.clone().unwrap_or_default();
    let found = Found {
        next_step: remedy(&call).map(str::to_owned),
        ..Found::on(Condition::CallRefused, spot, 0.8)
    };
    let line = last_error_line(spot.node);
    found.and(format!("{call} returned {code}")).and_line(line)
}

/// A known line that is no error, such as one of a setting, is not why a call failed.
pub(super) fn last_error_line(node: &EvidenceNode) -> Option<&SignatureLines> {
    node.lines.iter().rev().find(|line| match line.signature {
        Some(_) => line.severity < Severity::Warning,
        None => line.severity.is_finding(),
    })
}

/// The last set-up call of a program that failed, if the program set up or moved nothing after it:
/// a program may try what its plugin need not have, such as the registration of a GPU's memory.
fn of_setup(node: &EvidenceNode) -> Option<Found> {
    let setup = node.setup.as_ref()?;
    let (call, code) = setup.last_error.as_deref()?;
    let moves = node.channels.iter().any(|channel| channel.now.posted > 0);
    if moves && setup.last != *call {
        return None;
    }
    let then = match &node.gone {
        Some(Gone { how: Some(how), .. }) => format!("; then the process {how}"),
        _ => String::new(),
    };
    let why = format!("{}: {call} returned {code}{then}", node.name());
    let found = Found::at(Condition::CallRefused, node, 0.8, why);
    let found = Found {
        next_step: remedy(call).map(str::to_owned),
        ..found
    };
    Some(found.and_line(last_error_line(node)))
}

/// The failure of a worker, in a call that no channel counted.
fn of_no_channel(node: &EvidenceNode, evidence: &Evidence) -> Option<Found> {
    let failure = &node.failure.as_ref()?.what;
    let (before, _) = failure.message.split_once(" returned ")?;
    let call = before.rsplit(' ').next().unwrap_or(before);
    let is_on_channel = |node: &EvidenceNode| {
        let mut channels = node.channels.iter();
        channels.any(|channel| channel.now.last_error.is_some())
    };
    let confidence = match failure.follows {
        false => 0.7,
        // A lost connection has its cause elsewhere, unless nothing else failed.
        true if lossy_connect(evidence, node) => return None,
        true if evidence.nodes.iter().all(shows_no_cause) => 0.6,
        true => return None,
    };
    if node.died().is_some() || is_on_channel(node) {
        return None;
    }
    let why = format!("{}, {}: {}", node.name(), failure.phase, failure.message);
    let found = Found::at(Condition::CallRefused, node, confidence, why);
    Some(Found {
        next_step: remedy(call).map(str::to_owned),
        ..found
    })
}

/// Whether a node neither ended nor failed before the others did.
pub(super) fn shows_no_cause(node: &EvidenceNode) -> bool {
    let follows = node.failure.as_ref().is_none_or(|one| one.what.follows);
    follows && node.died().is_none()
}

/// What to do after a refused call; `None` for the calls that move bytes, of which the
/// catalogue's text speaks.
fn remedy(call: &str) -> Option<&'static str> {
    Some(match call {
        "init" | "devices" | "getProperties" => {
            "read what the plugin logged while it started; `tcpxctl doctor` checks what it needs \
             on this node"
        }
        "listen" | "connect" | "accept" => {
            "read the plugin's WARN lines of that moment; this connection cannot be completed: \
             begin another with a new listen comm and its handle"
        }
        "regMr" | "regMrDmaBuf" | "getDeviceMr" => {
            "read the plugin's WARN lines of that moment; compare the kind, address and length of \
             the memory with what the plugin takes"
        }
        "deregMr" | "closeSend" | "closeRecv" | "closeListen" => {
            "read the plugin's WARN lines of that moment; release each registration and comm once, \
             a comm after its registrations"
        }
        "isend" | "irecv" | "iflush" | "test" | "irecvConsumed" => return None,
        _ => "read the plugin's WARN lines of that moment",
    })
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_run_model::counters::SetupCalls;
    use tcpx_run_model::phase::Phase;

    pub(crate) const CASES: &[Case] = &[
        (Condition::CallRefused, init),
        (Condition::CallRefused, connect),
        (Condition::CallRefused, registration),
        (Condition::CallRefused, close),
        (Condition::CallRefused, test_of_a_larger_message),
    ];

    #[test]
    fn a_set_up_call_of_a_program_is_named_if_nothing_was_done_after_it() {
        let mut evidence = stuck();
        evidence.nodes.truncate(1);
        let node = &mut evidence.nodes[0];
        node.channels.clear();
        node.gone = Some(Gone {
            how: Some("called exit(1)".into()),
            signal: None,
        });
        node.setup = Some(SetupCalls {
            last: "closeListen".into(),
            count: 4,
            failed: 1,
            last_error: Some(Box::new(("connect".into(), 2))),
            at_ns: None,
        });
        let found = refused(&evidence);
        assert_eq!(found[0].condition, Condition::CallRefused);
        assert!(
            found[0].because[0].ends_with("connect returned 2; then the process called exit(1)")
        );
        evidence.nodes[0].channels = stuck().nodes.remove(0).channels;
        assert!(refused(&evidence).is_empty(), "it went on");
        if let Some(setup) = &mut evidence.nodes[0].setup {
            setup.last = "connect".into();
        }
        assert_eq!(refused(&evidence).len(), 1);
    }

    /// A worker without channels whose call was refused.
    fn failed(phase: Phase, message: &str, follows: bool) -> Evidence {
        let mut evidence = ended(Outcome::Failed, stuck());
        for node in &mut evidence.nodes {
            node.channels.clear();
        }
        evidence.nodes[0].failure = failure(phase, message, follows);
        evidence
    }

    fn init() -> Evidence {
        let message = "init returned 3 (ncclInternalError)";
        failed(Phase::Initialising, message, false)
    }

    fn connect() -> Evidence {
        let message = "connect returned 2 (ncclSystemError)";
        let mut evidence = failed(Phase::Connecting, message, true);
        evidence.nodes[1].failure = failure(Phase::Connecting, "the peer gave up", true);
        evidence
    }

    fn registration() -> Evidence {
        let message = "regMr returned 3 (ncclInternalError)";
        failed(Phase::Registering, message, false)
    }

    fn close() -> Evidence {
        let message = "closeRecv returned 3 (ncclInternalError)";
        failed(Phase::Closing, message, false)
    }

    /// `test` returned what TCPX returns for misuse, but the plugin said another reason.
    fn test_of_a_larger_message() -> Evidence {
        let mut evidence = ended(Outcome::Failed, stuck());
        let node = &mut evidence.nodes[1];
        node.channels[0].now.last_error = Some(("test".to_owned(), INTERNAL_ERROR));
        let text = "sender has 16384 bytes for a receive of 8192";
        node.lines = vec![line("", text)];
        node.lines[0].signature = None;
        evidence
    }

    /// Each call, and whether its refusal ends a comm.
    const CALLS: [(&str, bool); 18] = [
        ("init", false),
        ("devices", false),
        ("getProperties", false),
        ("listen", false),
        ("connect", false),
        ("accept", false),
        ("regMr", false),
        ("regMrDmaBuf", false),
        ("getDeviceMr", false),
        ("deregMr", false),
        ("isend", true),
        ("irecv", true),
        ("iflush", true),
        ("test", true),
        ("irecvConsumed", true),
        ("closeSend", false),
        ("closeRecv", false),
        ("closeListen", false),
    ];

    #[test]
    fn only_a_call_that_moves_bytes_is_said_to_end_a_comm() {
        for (call, ends_comm) in CALLS {
            let message = format!("Send channel 0: {call} returned 5 (ncclInvalidUsage)");
            let evidence = failed(Phase::Measuring, &message, false);
            let by_message = crate::diagnose(&evidence).remove(0);
            let mut evidence = ended(Outcome::Failed, stuck());
            evidence.nodes[0].channels[0].now.last_error = Some((call.to_owned(), 5));
            let by_code = crate::diagnose(&evidence).remove(0);
            for finding in [by_message, by_code] {
                assert_eq!(finding.condition, "call-refused", "{call}");
                let next = finding.next_step.unwrap_or_default();
                assert_eq!(
                    next.contains("end of its comm"),
                    ends_comm,
                    "{call}: {next}"
                );
            }
        }
    }

    #[test]
    fn a_lost_connection_whose_cause_is_known_is_no_refusal() {
        let mut evidence = connect();
        evidence.nodes[1].failure = failure(Phase::Connecting, "out of memory", false);
        assert_eq!(refused(&evidence), Vec::new());
    }
}
