//! What belongs together: which process explains another, and what a process that was ended by
//! its agent shows.

use super::*;
use tcpx_run_model::finding::Subject;

/// A process with both ends of one channel.
fn process(pid: u32, port: u16, send: EvidenceChannel, recv: EvidenceChannel) -> EvidenceNode {
    let (mut send, mut recv) = (send, recv);
    send.now.peer = Some(format!("10.0.1.25:{port}"));
    recv.now.local = send.now.peer.clone();
    let subject = Subject {
        node: NodeId(0),
        pair: None,
        pid: Some(pid),
        name: format!("pid {pid}"),
    };
    EvidenceNode {
        subject,
        ..node("local", vec![send, recv])
    }
}

fn untested(mut channel: EvidenceChannel) -> EvidenceChannel {
    channel.watched = channel.watched.map(|watched| Watched {
        tests: 0,
        ..watched
    });
    channel
}

/// One process never consumes, and another never tests its receives.
fn two_programs() -> Evidence {
    let sends = || channel(Side::Send, [232, 216, 216], 8000);
    let unconsumed = channel(Side::Recv, [216, 216, 200], 8000);
    let untested = untested(channel(Side::Recv, [216, 200, 200], 8000));
    Evidence {
        stall_after_ms: 3000,
        now_ms: 9000.0,
        nodes: vec![
            process(41, 4000, sends(), unconsumed),
            process(42, 4001, sends(), untested),
        ],
        ..Evidence::default()
    }
}

#[test]
fn processes_that_are_not_connected_do_not_explain_each_other() {
    let findings = diagnose(&two_programs());
    assert_eq!(
        names(&findings),
        ["window-never-consumed", "polls-others-only"]
    );
    for finding in &findings {
        assert_eq!(finding.severity, Severity::Error, "{finding:#?}");
        let said = [&finding.because[..], &finding.cannot_see]
            .concat()
            .join("; ");
        assert!(
            !said.contains("it follows from") && !said.contains("instead"),
            "{said}"
        );
    }
    // The first also sends to the second.
    let mut evidence = two_programs();
    for (at, side) in [Side::Send, Side::Recv].into_iter().enumerate() {
        let mut channel = channel(side, [400, 390, 390], 10);
        channel.now.index = 1;
        let address = match side {
            Side::Send => &mut channel.now.peer,
            Side::Recv => &mut channel.now.local,
        };
        *address = Some("10.0.1.25:4002".into());
        evidence.nodes[at].channels.push(channel);
    }
    let findings = diagnose(&evidence);
    assert!(
        findings[1]
            .because
            .contains(&"it follows from window-never-consumed".to_owned()),
        "{findings:#?}"
    );
}

#[test]
fn a_guess_from_one_end_says_that_the_other_was_not_inspected() {
    let mut evidence = two_programs();
    evidence.nodes.truncate(1);
    let one = &mut evidence.nodes[0];
    let mut moving = channel(Side::Send, [400, 390, 390], 10);
    (moving.now.index, moving.nic) = (1, "eth2".into());
    one.channels = vec![channel(Side::Send, [64, 52, 52], 8000), moving];
    let findings = diagnose(&evidence);
    assert_eq!(names(&findings), ["rail-carries-nothing"]);
    let unseen = findings[0].cannot_see.join("; ");
    assert!(
        unseen.contains("the other end: it was not inspected"),
        "{findings:#?}"
    );
}

#[test]
fn a_worker_that_is_ended_because_the_other_end_died_does_not_hang() {
    let mut evidence = pair(
        channel(Side::Send, [0; 3], 0),
        channel(Side::Recv, [0; 3], 0),
    );
    for one in &mut evidence.nodes {
        one.inside = Some("init".into());
        one.exit = exit(None);
        let exit = &mut one.exit.as_mut().unwrap().what;
        (exit.phase, exit.signal) = (Phase::Initialising, Some(libc::SIGABRT));
    }
    let killed = &mut evidence.nodes[1].exit.as_mut().unwrap().what;
    (killed.killed, killed.signal) = (true, Some(libc::SIGKILL));
    evidence.nodes[0].last_printed = Some("terminate called without an active exception".into());
    let evidence = ended(Outcome::PluginDied, evidence);
    let findings = diagnose(&evidence);
    assert_eq!(names(&findings), ["plugin-crash"]);
    let said = findings[0].because.join("; ");
    assert!(
        said.contains("the last line that it printed, apart from stack frames: terminate called"),
        "{said}"
    );
    // Without the death of the other end it was inside the call for as long as its limit allows.
    let mut alone = evidence;
    alone.nodes[0].exit = None;
    assert_eq!(names(&diagnose(&alone)), ["hang-inside-call"]);
}

#[test]
fn a_run_that_was_interrupted_before_its_own_long_limit_is_judged_by_the_usual_one() {
    let mut evidence = pair(
        channel(Side::Send, [232, 216, 216], 8000),
        channel(Side::Recv, [216, 216, 200], 8000),
    );
    evidence.stall_after_ms = 100_000;
    assert_eq!(diagnose(&evidence), []);
    evidence.outcome = Some(Outcome::Interrupted);
    assert_eq!(names(&diagnose(&evidence)), ["window-never-consumed"]);
}

#[test]
fn a_stall_for_lack_of_a_cpu_that_a_passed_run_got_over_is_no_warning() {
    let found = |no_cpu_ms: u64, tests_per_look: u64| {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        let worker = |node| Who::Worker(WorkerId::of_pair(NodeId(node), PairId(0)));
        let counters = |side, done, quiet_ms, no_cpu_ms, tests| {
            let mut now = channel(side, [40, done, done], quiet_ms).now;
            (now.no_cpu_ms, now.tests) = (no_cpu_ms, tests);
            EventKind::Sample(vec![now])
        };
        let mut apply = |ms, who, kind| {
            state.apply(&Event::new(ms, who, kind));
        };
        // The sender runs and waits; the receiver cannot run.
        let mut tests = 0;
        for quiet_ms in (100..=3100).step_by(600) {
            let (at_ms, waited_ms) = (1900.0 + quiet_ms as f64, no_cpu_ms * quiet_ms / 3100);
            apply(
                at_ms,
                worker(0),
                counters(Side::Send, 28, quiet_ms + 100, 0, 7),
            );
            apply(
                at_ms,
                worker(1),
                counters(Side::Recv, 28, quiet_ms, waited_ms, tests),
            );
            tests += tests_per_look;
        }
        apply(5100.0, Who::Pair(PairId(0)), EventKind::Stall(Vec::new()));
        apply(6000.0, worker(0), counters(Side::Send, 40, 10, 0, 9));
        apply(6000.0, worker(1), counters(Side::Recv, 40, 10, 0, 9));
        let findings = diagnose(&ended(Outcome::Passed, Evidence::from_state(&state)));
        assert_eq!(names(&findings), ["stalled-and-recovered"]);
        findings.into_iter().next().unwrap()
    };
    let starved = found(3000, 0);
    let because = starved.because.join("; ");
    assert_eq!(starved.severity, Severity::Info, "{because}");
    assert!(
        because.contains("peer: of 3.1 s in which its channels stood still"),
        "{because}"
    );
    assert!(starved.next_step.unwrap().contains("give the process CPUs"));
    assert_eq!(found(1000, 0).severity, Severity::Warning);
    // It made its calls in each turn that it had, so it stood still for another reason.
    assert_eq!(found(3000, 1).severity, Severity::Warning);
}

#[test]
fn a_stall_on_a_busy_machine_is_judged_by_what_was_tested_in_turn() {
    // Tests by the receiver until a moment in its standstill, of which it waited all but a fiftieth.
    let first_of = |tests_until: fn(u64) -> u64, thread_from_ms: u64| {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        for at_ms in (5000..9000).step_by(100) {
            for (node, side) in [Side::Send, Side::Recv].into_iter().enumerate() {
                let quiet_ms = at_ms - 5000;
                let mut now = channel(side, [40, 28, 28], quiet_ms).now;
                (now.tests, now.no_cpu_ms) = (tests_until(quiet_ms), quiet_ms * 49 / 50);
                now.thread = (quiet_ms >= thread_from_ms).then_some(7);
                let who = Who::Worker(WorkerId::of_pair(NodeId(node as u32), PairId(0)));
                state.apply(&Event::new(at_ms as f64, who, EventKind::Sample(vec![now])));
            }
        }
        let mut evidence = Evidence::from_state(&state);
        evidence.stall_after_ms = 3000;
        diagnose(&ended(Outcome::Stalled, evidence))
            .remove(0)
            .condition
    };
    let first = |tests_until| first_of(tests_until, u64::MAX);
    assert_eq!(first(|quiet_ms| quiet_ms / 80), "nothing-arrives");
    assert_eq!(first(|quiet_ms| quiet_ms.min(200)), "waits-for-cpu");
    assert_eq!(first(|_| 7), "waits-for-cpu");
    // Of a thread that is known to drive the channel, these are 80 ms in which it tested nothing.
    assert_eq!(first_of(|_| 7, 0), "local-loop-starved");
    assert_eq!(first_of(|_| 7, 300), "local-loop-starved");
}

#[test]
fn a_call_that_has_not_returned_for_a_moment_does_not_hang() {
    let found = |ms: f64| {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 100),
            channel(Side::Recv, [44, 28, 28], 100),
        );
        let one = &mut evidence.nodes[1].channels[0];
        one.now.in_call = Some("test".into());
        one.watched = Some(Watched {
            ms,
            tests: 0,
            in_one_call: true,
            ..Watched::default()
        });
        diagnose(&evidence)
    };
    assert_eq!(names(&found(100.0)), Vec::<&str>::new());
    assert_eq!(names(&found(1500.0)), Vec::<&str>::new());
    assert_eq!(names(&found(3100.0)), ["hang-inside-call"]);
}

/// A recording of a process that ended inside a call, with so many tests since the last change.
fn ended_inside(call: &str, tests: u64) -> Vec<Finding> {
    let mut evidence = inside_a_call(call, 1, 0);
    let one = &mut evidence.nodes[0];
    one.gone = Some(Gone {
        how: Some("was killed by signal 9 (SIGKILL)".into()),
        signal: Some(9),
    });
    // The program has one thread: its other comm is as quiet.
    for channel in &mut one.channels {
        channel.now.quiet_ms = 9000;
        channel.watched = Some(Watched {
            ms: 9000.0,
            tests,
            tests_in_doubt: tests.min(255),
            ..Watched::default()
        });
    }
    diagnose(&evidence)
}

#[test]
fn a_process_that_ended_inside_one_of_few_tests_hung_in_it() {
    for tests in [1, 2, 255] {
        let findings = ended_inside("test", tests);
        assert_eq!(names(&findings)[0], "hang-inside-call", "{findings:#?}");
        let said = findings[0].because.join("; ");
        let expected =
            format!("the process ended inside test; tests in the 9.0 s before: at most {tests}");
        assert!(said.contains(&expected), "{said}");
    }
    // A loop that tests all the time ends inside a test, too.
    assert!(!names(&ended_inside("test", 90_000)).contains(&"hang-inside-call"));
}

#[test]
fn a_run_with_a_short_limit_hangs_within_it() {
    let found = |inside_ms| {
        let mut evidence = stuck();
        evidence.stall_after_ms = 600;
        let one = &mut evidence.nodes[1].channels[0];
        (one.now.quiet_ms, one.now.in_call_ms) = (620, inside_ms);
        one.now.in_call = Some("test".into());
        diagnose(&evidence).remove(0).condition
    };
    assert_eq!(found(500), "hang-inside-call");
    assert_eq!(found(50), "nothing-arrives");
}

#[test]
fn a_thread_without_a_cpu_between_two_looks_does_not_hang() {
    // A wait cycle on a busy machine: both looks find the threads inside `test`.
    let mut evidence = crate::rules::wait_cycle();
    for channel in evidence
        .nodes
        .iter_mut()
        .flat_map(|node| &mut node.channels)
    {
        (channel.now.quiet_ms, channel.now.in_call_ms) = (37_700, 30);
        channel.now.in_call = Some("test".into());
    }
    assert_eq!(names(&diagnose(&evidence)), ["wait-cycle"]);
    let mut evidence = stuck();
    for node in &mut evidence.nodes {
        let one = &mut node.channels[0];
        (one.now.quiet_ms, one.now.in_call_ms) = (37_700, 700);
        one.now.in_call = Some("test".into());
        one.watched = Some(Watched {
            ms: 800.0,
            in_one_call: true,
            ..Watched::default()
        });
    }
    let findings = diagnose(&evidence);
    assert!(!names(&findings).contains(&"hang-inside-call"));
    assert!(!names(&findings).contains(&"local-loop-starved"));
}

#[test]
fn a_cause_that_supposes_tests_is_less_sure_where_they_were_not_counted() {
    for (mut evidence, name) in [
        (sender_silent(), "sender-silent"),
        (stuck(), "nothing-arrives"),
    ] {
        for node in &mut evidence.nodes {
            node.channels[0].watched = None;
        }
        let first = diagnose(&evidence).remove(0);
        assert_eq!((&*first.condition, first.confidence), (name, 0.5));
        let unseen = first.cannot_see.join("; ");
        let expected =
            "how often peer recv 0 is tested: its tests could not be counted for long enough";
        assert!(unseen.contains(expected), "{unseen}");
    }
}

/// A program that waits for nothing, and has been inside a call on a comm for so long.
fn inside_a_call(call: &str, in_flight: u64, inside_ms: u64) -> Evidence {
    let [mut send, mut recv] = [Side::Send, Side::Recv].map(|side| {
        let in_flight = if side == Side::Recv { in_flight } else { 0 };
        untested(channel(side, [40 + in_flight, 40, 40], 40_000))
    });
    (send.nic, recv.nic) = (String::new(), String::new());
    send.now.in_call = Some(call.into());
    send.now.in_call_ms = inside_ms;
    Evidence {
        stall_after_ms: 3000,
        now_ms: 9000.0,
        nodes: vec![process(41, 4000, send, recv)],
        ..Evidence::default()
    }
}

#[test]
fn a_call_on_a_comm_without_requests_hangs_after_the_time_of_a_stall() {
    for call in ["irecv", "isend", "regMr", "deregMr", "closeSend"] {
        let evidence = inside_a_call(call, 0, 3100);
        let findings = diagnose(&evidence);
        assert_eq!(names(&findings), ["hang-inside-call"], "{findings:#?}");
        let said = findings[0].because.join("; ");
        let expected =
            format!("{call} has not returned for at least 3.1 s, and for at most 40.0 s");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(evidence.idle(), None, "{call}");
    }
    let evidence = inside_a_call("irecv", 0, 2900);
    assert_eq!(diagnose(&evidence), []);
    assert_eq!(evidence.idle(), None, "it may still return");
    assert_eq!(
        diagnose(&ended(Outcome::Passed, inside_a_call("irecv", 0, 9000))),
        []
    );
}

#[test]
fn a_call_that_hangs_is_why_other_channels_are_not_tested() {
    let mut evidence = inside_a_call("isend", 1, 3100);
    evidence.nodes[0].channels[1].now.local = None;
    let findings = diagnose(&evidence);
    assert_eq!(
        names(&findings),
        ["hang-inside-call", "local-loop-starved"],
        "{findings:#?}"
    );
    assert_eq!(findings[1].severity, Severity::Info);
}

#[test]
fn a_call_that_belongs_to_no_channel_hangs_after_the_time_of_a_stall() {
    for call in ["init", "getProperties", "listen", "accept", "closeListen"] {
        let mut evidence = inside_a_call(call, 0, 0);
        let one = &mut evidence.nodes[0];
        one.channels.clear();
        (one.inside, one.inside_since_ms) = (Some(call.into()), Some(-3000.0));
        let findings = diagnose(&evidence);
        assert_eq!(names(&findings), ["hang-inside-call"]);
        let expected = format!("pid 41: {call} has not returned for at least 12.0 s");
        assert_eq!(findings[0].because, [expected]);
        evidence.nodes[0].inside_since_ms = Some(6001.0);
        assert_eq!(diagnose(&evidence), []);
        evidence.nodes[0].inside_since_ms = None;
        assert_eq!(diagnose(&evidence), []);
    }
}
