use super::*;
use crate::counters::Frame;
use crate::event::Event;
use crate::phase::{Failure, Phase};
use tcpx_words::side::Side;

const LOCAL: WorkerId = WorkerId::of_pair(NodeId(0), PairId(0));
const PEER: WorkerId = WorkerId::of_pair(NodeId(1), PairId(0));

fn told(state: &mut RunState, ms: f64, worker: WorkerId, kind: EventKind) {
    state.apply(&Event::new(ms, Who::Worker(worker), kind));
}

fn channels(posted: u64, consumed: u64, quiet_ms: u64) -> Vec<ChannelNow> {
    vec![ChannelNow {
        side: Side::Recv,
        posted,
        consumed,
        quiet_ms,
        ..ChannelNow::default()
    }]
}

fn failure() -> Failure {
    let (outcome, phase) = (Outcome::Failed, Phase::Measuring);
    Failure {
        outcome,
        phase,
        message: "x".into(),
        next_step: None,
        follows: false,
    }
}

#[test]
fn a_stall_that_both_ends_declare_is_one_stall_and_keeps_the_counters_of_that_time() {
    let mut state = RunState::default();
    state.introduce_two_nodes();
    told(
        &mut state,
        10.0,
        LOCAL,
        EventKind::Sample(channels(16, 0, 0)),
    );
    told(
        &mut state,
        20.0,
        PEER,
        EventKind::Stall(channels(16, 0, 3000)),
    );
    told(
        &mut state,
        30.0,
        LOCAL,
        EventKind::Stall(channels(17, 0, 3000)),
    );
    assert_eq!(
        state.stall(),
        Some(DeclaredStall {
            at_ms: 20.0,
            by: Some(NodeId(1)),
            recovered: false
        })
    );
    assert_eq!(
        state.workers[&LOCAL]
            .at_stall
            .as_ref()
            .map(|picture| picture.channels[0].posted),
        Some(16)
    );
    told(&mut state, 40.0, PEER, EventKind::Recovered);
    assert_eq!(state.stall().map(|stall| stall.recovered), Some(true));
    told(
        &mut state,
        50.0,
        LOCAL,
        EventKind::Stall(channels(20, 0, 3000)),
    );
    assert_eq!(
        state.stall(),
        Some(DeclaredStall {
            at_ms: 50.0,
            by: Some(NodeId(0)),
            recovered: false
        })
    );
}

#[test]
fn progress_after_a_freeze_frame_is_a_recovery() {
    let mut state = RunState::default();
    state.introduce_two_nodes();
    let frame = || {
        Box::new(Frame::take(
            std::process::id(),
            &[],
            channels(16, 0, 3000),
            None,
        ))
    };
    told(
        &mut state,
        20.0,
        PEER,
        EventKind::Stall(channels(16, 0, 3000)),
    );
    told(&mut state, 21.0, PEER, EventKind::Frame(frame()));
    assert!(state.workers[&PEER].frame.is_some());
    told(
        &mut state,
        22.0,
        PEER,
        EventKind::Sample(channels(16, 0, 3100)),
    );
    assert!(state.workers[&PEER].frame.is_some());
    told(
        &mut state,
        23.0,
        PEER,
        EventKind::Sample(channels(17, 1, 0)),
    );
    let peer = &state.workers[&PEER];
    assert!(peer.frame.is_none() && peer.was_framed);
    assert_eq!(peer.earlier_frames.len(), 1, "it stays evidence");
    assert_eq!(state.stall().map(|stall| stall.recovered), Some(true));
}

#[test]
fn counters_without_a_wait_for_a_cpu_keep_the_one_of_their_standstill() {
    let mut state = RunState::default();
    state.introduce_two_nodes();
    let mut waited = channels(16, 0, 3000);
    waited[0].no_cpu_ms = 2900;
    told(&mut state, 20.0, PEER, EventKind::Sample(waited));
    let mut no_cpu_ms = |at_ms, counters| {
        told(&mut state, at_ms, PEER, EventKind::Sample(counters));
        state.workers[&PEER].channels[0].no_cpu_ms
    };
    assert_eq!(no_cpu_ms(120.0, channels(16, 0, 3100)), 2900);
    // A message that was sent earlier.
    assert_eq!(no_cpu_ms(130.0, channels(16, 0, 2800)), 2800);
    // The thread that drives it slept meanwhile.
    let mut asleep = channels(16, 0, 3150);
    asleep[0].thread = Some(7);
    assert_eq!(no_cpu_ms(170.0, asleep), 0);
    assert_eq!(no_cpu_ms(220.0, channels(17, 0, 3200)), 0);
}

#[test]
fn counters_of_comms_that_giving_up_closed_are_not_judged() {
    let closed = || {
        let mut closed = channels(16, 0, 5);
        closed.iter_mut().for_each(|channel| channel.closed = true);
        EventKind::Sample(closed)
    };
    for (is_stalled, judged_ms) in [(true, 3000), (false, 5)] {
        let mut state = RunState::default();
        state.introduce_two_nodes();
        told(
            &mut state,
            1.0,
            PEER,
            EventKind::Sample(channels(16, 0, 3000)),
        );
        if is_stalled {
            told(
                &mut state,
                2.0,
                PEER,
                EventKind::Stall(channels(16, 0, 3000)),
            );
        }
        told(&mut state, 3.0, PEER, closed());
        told(&mut state, 4.0, PEER, EventKind::Failed(failure()));
        let judged = &state.workers[&PEER].judged().1[0];
        assert_eq!((judged.quiet_ms, judged.closed), (judged_ms, !is_stalled));
    }
}

#[test]
fn counters_after_a_failure_are_not_judged() {
    let mut state = RunState::default();
    told(
        &mut state,
        1.0,
        PEER,
        EventKind::Sample(channels(16, 0, 3000)),
    );
    told(&mut state, 2.0, PEER, EventKind::Failed(failure()));
    told(
        &mut state,
        3.0,
        PEER,
        EventKind::Sample(channels(16, 16, 0)),
    );
    let worker = &state.workers[&PEER];
    assert_eq!(worker.judged().1[0].consumed, 0);
    assert_eq!((worker.channels[0].consumed, state.progress_ms), (16, 3.0));
}

#[test]
fn each_of_three_pairs_has_its_own_stall_and_names() {
    let mut state = RunState::default();
    let node = |name: &str| NodeIntro {
        name: name.into(),
        address: name.into(),
    };
    let pair = |a, b| PairIntro::new([NodeId(a), NodeId(b)], vec![Lane::Host]);
    state.apply(&Event::new(
        0.0,
        Who::Run,
        EventKind::Nodes(vec![node("a"), node("b"), node("c")]),
    ));
    state.apply(&Event::new(
        0.0,
        Who::Run,
        EventKind::Pairs(vec![pair(0, 1), pair(1, 2), pair(2, 0)]),
    ));
    let worker = |node, pair| WorkerId::of_pair(NodeId(node), PairId(pair));
    told(
        &mut state,
        5.0,
        worker(2, 1),
        EventKind::Stall(channels(16, 0, 3000)),
    );
    told(
        &mut state,
        6.0,
        worker(1, 1),
        EventKind::Phase(Phase::Measuring),
    );
    assert_eq!(state.name(worker(2, 1)), "c with b");
    assert_eq!(
        state.opposite(worker(2, 1)).map(|other| other.phase),
        Some(Some(Phase::Measuring))
    );
    assert!(
        state
            .pair(PairId(0))
            .is_none_or(|pair| pair.stall.is_none())
    );
    assert_eq!(state.ends(PairId(1)).map(|end| end.is_some()), [true, true]);
}

#[test]
fn a_stream_of_version_1_names_its_pairs_by_gpu() {
    let mut state = RunState::default();
    state.introduce_two_nodes();
    told(&mut state, 1.0, PEER, EventKind::Phase(Phase::Loading));
    assert_eq!(state.name(PEER), "peer");
    told(
        &mut state,
        1.0,
        WorkerId::of_pair(NodeId(0), PairId(2)),
        EventKind::Phase(Phase::Loading),
    );
    assert_eq!(state.name(PEER), "peer gpu 0");
    assert_eq!(
        state.name(WorkerId::of_pair(NodeId(0), PairId(2))),
        "local gpu 2"
    );
}

#[test]
fn ids_out_of_bounds_are_ignored() {
    let mut state = RunState::default();
    state.apply(&Event::new(
        0.0,
        Who::Node(NodeId(u32::MAX)),
        EventKind::AgentBroken("x".into()),
    ));
    state.apply(&Event::new(
        0.0,
        Who::Pair(PairId(u32::MAX)),
        EventKind::Stall(Vec::new()),
    ));
    told(
        &mut state,
        0.0,
        WorkerId::of_pair(NodeId(0), PairId(u32::MAX)),
        EventKind::Stall(channels(1, 0, 9)),
    );
    assert!(state.nodes.is_empty() && state.pairs.is_empty());
}

#[test]
fn a_record_names_nodes_and_hosts_before_the_first_event() {
    let record = br#"{"schema": "tcpxctl.run/1", "outcome": "passed", "transfers": [],
        "nodes": [{"name": "local", "host": "node0"}, {"name": "peer", "host": "node1"}]}"#;
    let run = RunRecord::parse(record).expect("a record");
    let mut state = RunState::default();
    state.introduce(&run);
    let host = |node| {
        state
            .node(NodeId(node))
            .and_then(|node| node.host.as_deref())
    };
    assert_eq!((host(0), host(1)), (Some("node0"), Some("node1")));
    assert_eq!(
        (state.name(PEER), state.ended.is_none(), state.workers.len()),
        ("peer".into(), true, 0)
    );
    let nobody =
        RunRecord::parse(br#"{"schema": "tcpxctl.run/2", "outcome": "passed"}"#).expect("a record");
    state.conclude(&nobody);
    assert_eq!(
        (state.name(PEER), state.ended.is_some()),
        ("peer".into(), true)
    );
}
