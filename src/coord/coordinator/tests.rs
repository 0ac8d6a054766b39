//! The coordinator's state machines: one pair's transition table, and what holds of a
//! run whatever happens to it.

use super::end::End;
use super::pair::{
    Absence, AgentLoss, Pair, PairEffect, PairInput, PairSetup, PairStage, PairTick,
};
use super::run::{Now, OnFailure, Run, RunEffect, RunInput};
use crate::protocol::limits::SILENCE_MAX;
use crate::protocol::message::{AgentMessage, CoordinatorOrder, Work, WorkerMessage, WorkerOrder};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::{Event, EventKind};
use tcpx_run_model::ids::{Lane, NodeId, NodeIntro, PairId, PairIntro, Who, WorkerId};
use tcpx_run_model::phase::{Exit, Failure, Phase};
use tcpx_run_model::scenario::Scenario;
use tcpx_run_model::state::RunState;
use tcpx_words::error::Outcome;
use tcpx_words::log::{LogLine, LogSummary};
use tcpx_words::side::Side;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn setup(number: u32, nodes: [u32; 2]) -> PairSetup {
    PairSetup {
        id: PairId(number),
        intro: PairIntro::new(nodes.map(NodeId), vec![Lane::Host]),
        scenario: Scenario::default(),
        work: Work::Transfer,
        run_id: "test".into(),
        preflight: false,
        looks_per_sample: 1,
        is_here: [false; 2],
    }
}

fn introduced(nodes: &[&str]) -> RunState {
    let mut state = RunState::default();
    let intro = |name: &&str| NodeIntro {
        name: (*name).into(),
        address: format!("{name}.invalid"),
    };
    state.apply(&Event::new(
        0.0,
        Who::Run,
        EventKind::Nodes(nodes.iter().map(intro).collect()),
    ));
    state
}

fn channels(posted: u64, done: u64) -> Vec<ChannelNow> {
    let quiet_ms = if done < posted { 4000 } else { 0 };
    vec![ChannelNow {
        side: Side::Recv,
        posted,
        done,
        consumed: done,
        quiet_ms,
        ..ChannelNow::default()
    }]
}

fn exit(code: i32) -> Exit {
    let (phase, channels) = (Phase::Measuring, Vec::new());
    Exit {
        code: Some(code),
        signal: None,
        killed: false,
        phase,
        in_call: None,
        channels,
    }
}

/// A time in which the command was stopped.
fn stopped(seconds: u64) -> Absence {
    Absence {
        lasted: Duration::from_secs(seconds),
        waited: Duration::ZERO,
    }
}

fn failure(follows: bool) -> Failure {
    let outcome = if follows {
        Outcome::PeerLost
    } else {
        Outcome::Failed
    };
    Failure {
        outcome,
        phase: Phase::Measuring,
        message: "it failed".into(),
        next_step: None,
        follows,
    }
}

/// A pair whose workers measure, with the state that says so.
struct Bench {
    pair: Pair,
    state: RunState,
}

impl Bench {
    fn measuring() -> Self {
        let mut state = introduced(&["local", "peer"]);
        let pair = PairIntro::new([NodeId(0), NodeId(1)], vec![Lane::Host]);
        state.apply(&Event::new(0.0, Who::Run, EventKind::Pairs(vec![pair])));
        let mut bench = Self {
            pair: Pair::new(setup(0, [0, 1]), Duration::ZERO),
            state,
        };
        for end in End::ALL {
            bench.event(1.0, end, EventKind::Phase(Phase::Measuring));
        }
        bench
    }

    fn event(&mut self, at: f64, end: End, kind: EventKind) -> Vec<PairEffect> {
        let worker = WorkerId::of_pair(NodeId(end as u32), PairId(0));
        self.state
            .apply(&Event::new(at * 1e3, Who::Worker(worker), kind.clone()));
        self.step(at, &PairInput::Event(end, &kind))
    }

    fn step(&mut self, at: f64, input: &PairInput<'_>) -> Vec<PairEffect> {
        self.pair.step(seconds(at), input, &self.state)
    }

    fn tick(&mut self, at: f64) -> Vec<PairEffect> {
        self.step(at, &PairInput::Tick(PairTick::default()))
    }

    /// In each of its stages; the last input came at 10 s.
    fn in_stage(stage: &str) -> Self {
        let mut bench = Self::measuring();
        let stall = || EventKind::Stall(channels(16, 0));
        match stage {
            "running" => {}
            "stalled" => drop(bench.event(10.0, End::Second, stall())),
            "stopping" => drop(bench.event(10.0, End::First, EventKind::Failed(failure(false)))),
            "over" => {
                for end in End::ALL {
                    bench.event(10.0, end, EventKind::Finished(LogSummary::default()));
                    bench.event(10.0, end, EventKind::Exited(exit(0)));
                }
            }
            other => panic!("{other}"),
        }
        bench
    }
}

fn stage_word(stage: PairStage) -> String {
    match stage {
        PairStage::Running => "running".into(),
        PairStage::Stalled { give_up_at } => {
            format!("stalled until {:.1} s", give_up_at.as_secs_f64())
        }
        PairStage::Stopping { since } => format!("stopping since {:.1} s", since.as_secs_f64()),
        PairStage::Over => "over".into(),
    }
}

fn effect_word(effect: &PairEffect) -> String {
    match effect {
        PairEffect::Tell(end, order) => {
            let order = match order {
                CoordinatorOrder::Stop { .. } => "stop",
                CoordinatorOrder::Freeze => "freeze",
                CoordinatorOrder::Snapshot => "snapshot",
                CoordinatorOrder::ToWorker(WorkerOrder::Measure) => "measure",
                CoordinatorOrder::ToWorker(WorkerOrder::PeerListens(_)) => "peer-listens",
                _ => "other",
            };
            format!(
                "{order}->{}",
                if *end == End::First {
                    "first"
                } else {
                    "second"
                }
            )
        }
        PairEffect::Note(text) => format!("\"{text}\""),
        PairEffect::StandsStill => "stands-still".into(),
        PairEffect::MovesAgain => "moves-again".into(),
    }
}

/// An input's name, when it comes, and how it is given.
type InputRow = (&'static str, f64, fn(&mut Bench, f64) -> Vec<PairEffect>);

/// Every input, 1 s after the stage was reached unless its time matters.
const INPUTS: &[InputRow] = &[
    ("sample that moves", 11.0, |bench, at| {
        bench.event(at, End::First, EventKind::Sample(channels(17, 17)))
    }),
    ("stall, first end", 11.0, |bench, at| {
        bench.event(at, End::First, EventKind::Stall(channels(12, 0)))
    }),
    ("recovered", 11.0, |bench, at| {
        bench.event(at, End::Second, EventKind::Recovered)
    }),
    ("failed, first end", 11.0, |bench, at| {
        bench.event(at, End::First, EventKind::Failed(failure(false)))
    }),
    ("exit(1), second end", 11.0, |bench, at| {
        bench.event(at, End::Second, EventKind::Exited(exit(1)))
    }),
    ("agent broken", 11.0, |bench, at| {
        bench.event(at, End::First, EventKind::AgentBroken("no memory".into()))
    }),
    ("agent lost", 11.0, |bench, at| {
        bench.step(at, &PairInput::AgentLost(End::Second, AgentLoss::Gone))
    }),
    ("agent deserted", 11.0, |bench, at| {
        let loss = AgentLoss::Deserted(stopped(10));
        bench.step(at, &PairInput::AgentLost(End::Second, loss))
    }),
    ("agent deserted, no CPU", 11.0, |bench, at| {
        let starved = Absence {
            waited: Duration::from_millis(9900),
            ..stopped(10)
        };
        let loss = AgentLoss::Deserted(starved);
        bench.step(at, &PairInput::AgentLost(End::Second, loss))
    }),
    ("listening", 11.0, |bench, at| {
        bench.event(
            at,
            End::Second,
            EventKind::Listening("10.0.0.226:40000".parse().expect("an address")),
        )
    }),
    ("measure", 11.0, |bench, at| {
        bench.step(at, &PairInput::Measure)
    }),
    ("run stops", 11.0, |bench, at| {
        bench.step(at, &PairInput::RunStops)
    }),
    ("let go of both", 11.0, |bench, at| {
        bench.step(at, &PairInput::LetGo(End::First));
        bench.step(at, &PairInput::LetGo(End::Second))
    }),
    ("interrupted", 11.0, |bench, at| {
        bench.step(
            at,
            &PairInput::Tick(PairTick {
                interrupted: true,
                ..PairTick::default()
            }),
        )
    }),
    ("nothing for 1 s", 11.0, |bench, at| bench.tick(at)),
    ("nothing for 20 s", 30.0, |bench, at| bench.tick(at)),
    ("nothing for 20 s, an agent unheard", 30.0, |bench, at| {
        bench.step(
            at,
            &PairInput::Tick(PairTick {
                agent_silent: true,
                ..PairTick::default()
            }),
        )
    }),
    ("nothing for 1000 s", 1010.0, |bench, at| bench.tick(at)),
];

#[test]
fn the_whole_transition_table_of_a_pair() {
    let mut table = String::new();
    for stage in ["running", "stalled", "stopping", "over"] {
        for (name, at, give) in INPUTS {
            let mut bench = Bench::in_stage(stage);
            let effects = give(&mut bench, *at);
            let effects: Vec<String> = effects.iter().map(effect_word).collect();
            let after = stage_word(bench.pair.stage());
            table.push_str(&format!("{stage:<9} {name:<35} -> {after}\n"));
            effects
                .iter()
                .for_each(|effect| table.push_str(&format!("{:>14}{effect}\n", "")));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_stall_that_an_agent_saw_while_the_other_was_unheard_is_declared_once_both_are() {
    let mut bench = Bench::measuring();
    bench.step(
        2.0,
        &PairInput::Tick(PairTick {
            agent_silent: true,
            ..PairTick::default()
        }),
    );
    assert!(
        bench
            .event(3.0, End::First, EventKind::Stall(channels(16, 0)))
            .is_empty()
    );
    assert_eq!(bench.pair.stage(), PairStage::Running);
    bench.tick(4.0);
    assert!(matches!(bench.pair.stage(), PairStage::Stalled { .. }));
}

#[test]
fn a_standstill_that_was_given_up_does_not_recover_because_the_workers_stop() {
    let mut bench = Bench::measuring();
    // Neither agent saw a channel stand still: the coordinator finds that nothing moves.
    let effects = bench.tick(30.0);
    assert!(
        effects
            .iter()
            .any(|one| matches!(one, PairEffect::StandsStill))
    );
    bench.tick(60.0);
    assert!(matches!(bench.pair.stage(), PairStage::Stopping { .. }));
    for kind in [
        EventKind::Phase(Phase::Closing),
        EventKind::Sample(channels(17, 17)),
    ] {
        let effects = bench.event(61.0, End::First, kind);
        assert!(
            !effects
                .iter()
                .any(|one| matches!(one, PairEffect::MovesAgain))
        );
    }
}

#[test]
fn a_warning_that_the_plugin_went_on_after_is_not_said_to_be_the_cause() {
    let told = |times: &[f64], exit: Exit| {
        let mut bench = Bench::in_stage("running");
        for at in times {
            let line = LogLine {
                level: 2,
                function: "use_header".into(),
                line: 981,
                text: "No free space for recv task".into(),
                count: 1,
            };
            bench.event(*at, End::First, EventKind::PluginLine(line));
        }
        bench.event(12.0, End::First, EventKind::Exited(exit));
        let outcome = bench.pair.conclude(&bench.state);
        let is_cause =
            outcome.next_step.as_deref() == Some("its last WARN line is usually the cause");
        let why = outcome.reason.unwrap_or_default();
        (is_cause, why.contains("its last WARN"))
    };
    assert_eq!(told(&[11.9], exit(1)), (true, true));
    // On several comms.
    assert_eq!(told(&[11.9, 11.901], exit(1)), (true, true));
    assert_eq!(told(&[11.0, 11.9], exit(1)), (false, false));
    let later = Exit {
        phase: Phase::Closing,
        ..exit(1)
    };
    assert_eq!(told(&[11.9], later), (false, false));
}

#[test]
fn what_stood_still_because_an_agent_was_lost_is_no_stall() {
    let mut bench = Bench::in_stage("stalled");
    let loss = AgentLoss::Silent(SILENCE_MAX);
    bench.step(18.0, &PairInput::AgentLost(End::First, loss));
    bench.step(22.0, &PairInput::LetGo(End::Second));
    let outcome = bench.pair.conclude(&bench.state);
    assert_eq!((outcome.outcome, outcome.stall), (Outcome::PeerLost, None));
}

#[test]
fn an_agent_whose_process_is_stopped_is_said_to_be() {
    let (mut run, _) = triangle();
    let tick = RunInput::Tick {
        interrupted: false,
        focused: None,
        stopped: vec![(NodeId(1), 4242)],
    };
    let later = Now {
        elapsed: SILENCE_MAX + Duration::from_secs(1),
        ..moment(0.0)
    };
    let effects = run.step(later, tick);
    let is_told = |effect: &RunEffect| {
        matches!(effect, RunEffect::Emit(event)
            if event.who() == Who::Node(NodeId(1)) && matches!(event.kind, EventKind::AgentStopped { pid: 4242 }))
    };
    assert!(effects.iter().any(is_told), "the rules are not told");
    let outcomes = run.outcomes().into_iter();
    let reasons: Vec<String> = outcomes.filter_map(|one| one.reason).collect();
    assert!(
        reasons
            .iter()
            .any(|why| why.contains("b (b.invalid) is stopped: its process 4242 is in state T")),
        "{reasons:?}"
    );
}

/// A run of three nodes and three pairs, each node in two of them.
fn triangle() -> (Run, Vec<RunEffect>) {
    let state = introduced(&["a", "b", "c"]);
    let now = moment(0.0);
    let mut run = Run::new(state, &[true; 3], OnFailure::StopAll, now);
    let pairs = [[0, 1], [1, 2], [2, 0]].into_iter().zip(0..);
    let pairs =
        pairs.map(|(nodes, number)| (Pair::new(setup(number, nodes), Duration::ZERO), Vec::new()));
    let pairs: Vec<_> = pairs.collect();
    let intro =
        |(pair, _): &(Pair, Vec<PairEffect>)| PairIntro::new(pair.nodes(), vec![Lane::Host]);
    let mut effects = run.introduce(pairs.iter().map(intro).collect(), now);
    effects.extend(run.add(pairs, now));
    (run, effects)
}

/// A round of two pairs among four nodes, whose pairs go on without one another.
fn mesh() -> Run {
    let now = moment(0.0);
    let mut run = Run::new(
        introduced(&["a", "b", "c", "d"]),
        &[true; 4],
        OnFailure::GoOn,
        now,
    );
    let intro = |nodes: [u32; 2]| PairIntro::new(nodes.map(NodeId), vec![Lane::Host]);
    run.introduce([[0, 1], [2, 3], [0, 2], [1, 3]].map(intro).to_vec(), now);
    run.add(round(0, [[0, 1], [2, 3]]), now);
    run
}

fn round(first: u32, pairs: [[u32; 2]; 2]) -> Vec<(Pair, Vec<PairEffect>)> {
    let pair = |(number, nodes)| (Pair::new(setup(number, nodes), Duration::ZERO), Vec::new());
    (first..).zip(pairs).map(pair).collect()
}

fn moment(at: f64) -> Now {
    Now {
        elapsed: seconds(at),
        us: 1_700_000_000_000_000,
    }
}

fn of_worker(node: u32, worker: u32, message: WorkerMessage) -> RunInput {
    RunInput::AgentMessage {
        node: NodeId(node),
        node_us: 0,
        worker,
        message: AgentMessage::Worker(message),
    }
}

#[test]
fn in_a_mesh_a_failed_pair_stops_no_other_and_delays_none() {
    let mut run = mesh();
    run.step(
        moment(1.0),
        of_worker(0, 0, WorkerMessage::Failed(failure(false))),
    );
    let told = |effects: &[RunEffect], wanted: fn(&CoordinatorOrder) -> bool| {
        let of = |effect: &RunEffect| match effect {
            RunEffect::Tell(node, _, order) if wanted(order) => Some(node.0),
            _ => None,
        };
        effects.iter().filter_map(of).collect::<Vec<_>>()
    };
    let gathering = || WorkerMessage::Phase(Phase::Gathering);
    let mut effects = run.step(moment(1.1), of_worker(2, 1, gathering()));
    effects.extend(run.step(moment(1.2), of_worker(3, 1, gathering())));
    let measures = |order: &CoordinatorOrder| {
        matches!(order, CoordinatorOrder::ToWorker(WorkerOrder::Measure))
    };
    let stops = |order: &CoordinatorOrder| matches!(order, CoordinatorOrder::Stop { .. });
    assert_eq!(told(&effects, measures), [2, 3]);
    assert_eq!(told(&effects, stops), [0; 0]);
}

#[test]
fn a_node_that_is_lost_in_one_round_is_not_waited_for_in_the_next() {
    let mut run = mesh();
    run.step(moment(1.0), RunInput::AgentGone(NodeId(1)));
    for (node, worker) in [(0, 0), (2, 1), (3, 1)] {
        let input = RunInput::AgentMessage {
            node: NodeId(node),
            node_us: 0,
            worker,
            message: AgentMessage::Exited(exit(0)),
        };
        run.step(moment(1.5), input);
    }
    assert!(run.is_round_over());
    run.add(round(2, [[0, 2], [1, 3]]), moment(2.0));
    assert!(!run.is_pair_over(PairId(2)) && run.is_pair_over(PairId(3)));
    let (_, outcomes) = run.conclude();
    assert_eq!(outcomes[3].outcome, Outcome::PeerLost);
    let reason = outcomes[3].reason.as_deref();
    assert_eq!(reason, Some("the agent of b (b.invalid) is gone"));
}

#[test]
fn why_an_agent_left_is_the_reason_of_its_pairs_also_in_later_rounds() {
    let mut run = mesh();
    let why = "orted, which had started it, is gone";
    let left = RunInput::AgentMessage {
        node: NodeId(1),
        node_us: 0,
        worker: 0,
        message: AgentMessage::Leaving(why.into()),
    };
    run.step(moment(1.0), left);
    run.step(moment(1.1), RunInput::AgentGone(NodeId(1)));
    run.add(round(2, [[0, 2], [1, 3]]), moment(2.0));
    let (_, outcomes) = run.conclude();
    for pair in [0, 3] {
        let reason = outcomes[pair].reason.as_deref();
        let expected = format!("the agent of b (b.invalid) ended: {why}");
        assert_eq!(reason, Some(expected.as_str()), "pair {pair}");
    }
}

/// What may happen, at random: which, to whom, and how long after the one before.
#[derive(Debug, Clone, Copy)]
struct Happening {
    what: u8,
    node: u32,
    worker: u32,
    after_ms: u64,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = (
        0u8..20,
        0u32..4,
        0u32..4,
        prop_oneof![0u64..300, 0u64..20_000],
    );
    prop::collection::vec(
        one.prop_map(|(what, node, worker, after_ms)| Happening {
            what,
            node,
            worker,
            after_ms,
        }),
        0..80,
    )
}

fn input(one: Happening) -> RunInput {
    let said = |message| RunInput::AgentMessage {
        node: NodeId(one.node),
        node_us: 7,
        worker: one.worker,
        message,
    };
    let worker = |message| said(AgentMessage::Worker(message));
    match one.what {
        0 => worker(WorkerMessage::Phase(Phase::WarmUp)),
        1 => worker(WorkerMessage::Phase(Phase::Gathering)),
        2 | 3 => worker(WorkerMessage::Phase(Phase::Measuring)),
        4 => worker(WorkerMessage::Phase(Phase::Connecting)),
        5 => worker(WorkerMessage::Failed(failure(false))),
        6 => worker(WorkerMessage::Failed(failure(true))),
        7 => worker(WorkerMessage::Finished(LogSummary::default())),
        8 => said(AgentMessage::Exited(exit(1))),
        9 => said(AgentMessage::Stall(channels(16, 0))),
        10 => said(AgentMessage::Recovered),
        11 => said(AgentMessage::Broken("no memory".into())),
        12 => said(AgentMessage::Echo {
            us: u64::from(one.worker),
        }),
        13 => RunInput::AgentGone(NodeId(one.node)),
        14 => RunInput::AgentText {
            node: NodeId(one.node),
            text: "motd".into(),
        },
        15 => RunInput::Tick {
            interrupted: true,
            focused: None,
            stopped: Vec::new(),
        },
        16 => RunInput::Slept(stopped(3)),
        18 => RunInput::Slept(stopped(9)),
        17 => said(AgentMessage::Sample(channels(u64::from(one.worker), 0))),
        _ => RunInput::Tick {
            interrupted: false,
            focused: None,
            stopped: Vec::new(),
        },
    }
}

/// Longest that a run can go on: its total, giving up, and letting go of agents.
const LONGEST: Duration = Duration::from_secs(3600 * 24);

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_a_run_ends_and_every_node_is_told(happenings in happenings(), are_heard in any::<bool>()) {
        let (mut run, _) = triangle();
        let mut elapsed = Duration::ZERO;
        let mut told_to_stop = BTreeSet::new();
        let mut went_away = BTreeSet::new();
        let mut over = BTreeSet::new();
        let mut first_bad = None;
        let total = Duration::from(Scenario::default().limits.total);
        prop_assert!(total < LONGEST);
        // After what happens nothing more does, and time goes on.
        let quiet = std::iter::repeat_n(Happening { what: 19, node: 0, worker: 0, after_ms: 200 }, 60);
        let beyond = Happening { what: 19, node: 0, worker: 0, after_ms: total.as_millis() as u64 };
        let all = happenings.into_iter().chain([beyond]).chain(quiet);
        for one in all {
            elapsed += Duration::from_millis(one.after_ms);
            let now = Now { elapsed, us: 1_700_000_000_000_000 + elapsed.as_micros() as u64 };
            let mut effects = Vec::new();
            for node in (0..3).map(NodeId).filter(|_| are_heard) {
                effects.extend(run.step(now, RunInput::AgentMessage { node, node_us: 7, worker: 0, message: AgentMessage::Heartbeat }));
            }
            effects.extend(run.step(now, input(one)));
            for effect in &effects {
                match effect {
                    RunEffect::Tell(node, worker, order) => {
                        let key = (*node, *worker);
                        if matches!(order, CoordinatorOrder::Stop { .. }) {
                            told_to_stop.insert(key);
                        }
                        let of_worker = !matches!(order, CoordinatorOrder::Heartbeat { .. } | CoordinatorOrder::Watch { .. });
                        prop_assert!(!of_worker || !over.contains(worker), "{order:?} after pair {worker} ended");
                    }
                    RunEffect::LetGo { node, .. } => drop(went_away.insert(*node)),
                    RunEffect::Emit(event) => {
                        if let (EventKind::Exited(_) | EventKind::AgentBroken(_), Some(worker)) = (&event.kind, event.worker()) {
                            went_away.insert(worker.node);
                        }
                        if let (EventKind::Note(text), Some(pair)) = (&event.kind, event.pair)
                            && !text.starts_with("stall declared") && !text.starts_with("the stalled")
                        {
                            first_bad.get_or_insert((pair, text.clone()));
                        }
                    }
                }
            }
            if let RunInput::AgentGone(node) = input(one) {
                went_away.insert(node);
            }
            over.extend((0..3u32).filter(|pair| run.is_pair_over(PairId(*pair))));
        }
        prop_assert!(run.is_round_over(), "it goes on at {elapsed:?}");
        // Who was not told to stop had ended, or its agent was lost or let go.
        went_away.extend((0..3).map(NodeId).filter(|_| !are_heard));
        for (pair, nodes) in [[0, 1], [1, 2], [2, 0]].into_iter().enumerate() {
            for node in nodes.map(NodeId) {
                prop_assert!(
                    told_to_stop.contains(&(node, pair as u32)) || went_away.contains(&node) || run.has_exited(node, PairId(pair as u32)),
                    "{node:?} was never told of pair {pair}"
                );
            }
        }
        let (_, outcomes) = run.conclude();
        prop_assert_eq!(outcomes.len(), 3);
        // The first decision of the coordinator is what its pair is judged by.
        if let Some((pair, text)) = first_bad {
            let outcome = &outcomes[pair.index()];
            let reason = outcome.reason.clone().unwrap_or_default();
            let said = text.split_once(": ").map_or("", |(_, why)| why);
            prop_assert!(reason.starts_with(said), "{reason} is not {said}");
        }
    }
}

#[test]
fn a_worker_without_a_cpu_does_not_hang() {
    let mut bench = Bench::measuring();
    bench.event(10.0, End::First, EventKind::Phase(Phase::Initialising));
    let limit = Duration::from(Scenario::default().limits.connect).as_secs_f64();
    bench.step(10.0 + limit, &PairInput::NoCpu(End::First, seconds(limit)));
    assert!(bench.tick(11.0 + limit).is_empty());
    let hangs = bench.tick(11.0 + 2.0 * limit);
    let words = effect_word(hangs.first().expect("a verdict"));
    assert!(words.contains("hangs while initialising"), "{words}");
    // Before it says that it loads the plugin, there is none that could hang.
    let mut bench = Bench::measuring();
    bench.event(10.0, End::First, EventKind::Phase(Phase::Starting));
    let late = bench.tick(11.0 + limit);
    let words = effect_word(late.first().expect("a verdict"));
    assert!(
        words.contains("the worker of local has not started"),
        "{words}"
    );
    // The time belongs to its phase.
    let mut bench = Bench::measuring();
    bench.step(10.0, &PairInput::NoCpu(End::First, seconds(limit)));
    bench.event(10.0, End::First, EventKind::Phase(Phase::Initialising));
    assert!(!bench.tick(11.0 + limit).is_empty());
}
