//! Makes the record `run.json` from the final state and the outcomes of the pairs.
#![forbid(unsafe_code)]

use super::drive::RunOutcome;
use super::end::End;
use super::pair::PairOutcome;
use std::time::Duration;
use tcpx_run_model::counters::ChannelNow;
use tcpx_run_model::event::PluginDevice;
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::{NodeId, WorkerId};
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::record::{
    ChannelRecord, KvRecord, MeshCell, MeshPair, MeshRecord, MissingNode, NodeRecord, PairRecord,
    Role, RunRecord, SCHEMA, ScenarioRecord, Sums, TransferRecord, WorkerRecord, cells, was_tried,
};
use tcpx_run_model::results::Iteration;
use tcpx_run_model::results::{ChannelResult, TransferResult};
use tcpx_run_model::scenario::{Direction, KvOperation, Scenario, Traffic};
use tcpx_run_model::state::{KeptLine, LineSource, RunState, WorkerState};
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;
use tcpx_words::units::Rate;

/// WARN lines kept per worker.
const WARNINGS_MAX: usize = 50;

/// The record of a run. `RunRecord::settle` later compares it with `[expect]`, and sets `exit_code`
/// and `unmet`.
pub fn conclude(id: &str, started: &str, scenario: &Scenario, run: &RunOutcome) -> RunRecord {
    let decisive = run.decisive();
    let transfers = all_transfers(scenario, &run.pairs, &run.state);
    // Pairs that measured again did so when the others had ended.
    let is_first = |one: &&TransferRecord| run.first_retest.is_none_or(|first| one.pair < first);
    let mut record = RunRecord {
        schema: SCHEMA.into(),
        id: id.into(),
        started: started.into(),
        finished: tcpx_words::units::now_utc(),
        events_until_ms: Some(run.state.now_ms),
        tcpxctl_version: env!("CARGO_PKG_VERSION").into(),
        outcome: decisive.outcome,
        exit_code: decisive.outcome.exit_code(),
        reason: decisive.reason.clone(),
        next_step: decisive.next_step.clone(),
        scenario: ScenarioRecord {
            name: scenario.name.clone(),
            sha256: scenario.hash(),
            resolved: scenario.clone(),
        },
        nodes: nodes(&run.state),
        pairs: pair_records(scenario, &run.pairs, &run.state),
        sums: Sums::of(transfers.iter().filter(is_first)),
        transfers,
        mesh: scenario.mesh.as_ref().map(|_| mesh(run)),
        findings: findings(&run.pairs),
        unmet: Vec::new(),
        command: None,
        unwritten: None,
    };
    record.attribute();
    record
}

/// The rates of a mesh so far.
pub(super) fn rates(scenario: &Scenario, pairs: &[PairOutcome], state: &RunState) -> Vec<MeshCell> {
    let part = |pair: &PairOutcome| MeshPair {
        nodes: pair.nodes,
        sends: End::ALL.map(|end| role(scenario, end) != Role::Recv),
        segments: pair.nodes.map(|node| {
            let worker = state.workers.get(&WorkerId::of_pair(node, pair.id))?;
            worker.transfer.as_ref()?.network.as_ref()?.segments()
        }),
        rail: pair.rail.as_ref().map_or(0, |rail| rail.number),
        round: pair.round,
        passed: pair.outcome == Outcome::Passed,
        was_tried: was_tried(pair.outcome),
    };
    let parts: Vec<MeshPair> = pairs.iter().map(part).collect();
    cells(
        &parts,
        &all_transfers(scenario, pairs, state),
        0..pairs.len(),
    )
}

fn role(scenario: &Scenario, end: End) -> Role {
    match (scenario.transfer.direction, end) {
        (Direction::Both | Direction::PingPong, _) => Role::Both,
        (Direction::Forward, End::First) | (Direction::Reverse, End::Second) => Role::Send,
        _ => Role::Recv,
    }
}

fn pair_records(scenario: &Scenario, pairs: &[PairOutcome], state: &RunState) -> Vec<PairRecord> {
    let record = |pair| pair_record(scenario, pair, state);
    pairs.iter().map(record).collect()
}

fn all_transfers(
    scenario: &Scenario,
    pairs: &[PairOutcome],
    state: &RunState,
) -> Vec<TransferRecord> {
    let of_pair = |pair| transfers(scenario, pair, state);
    pairs.iter().flat_map(of_pair).collect()
}

fn mesh(run: &RunOutcome) -> MeshRecord {
    let missing = |(node, reason): &(NodeId, String)| MissingNode {
        node: *node,
        reason: reason.clone(),
    };
    MeshRecord {
        missing: run.missing.iter().map(missing).collect(),
        rounds_left_out: run.left_out.rounds,
        pairs_left_out: run.left_out.pairs,
        first_retest: run.first_retest,
        groups: run.groups.clone(),
        differences: run.differences.clone(),
        launcher_said: run.launcher_said.clone(),
        attribution: None,
    }
}

fn nodes(state: &RunState) -> Vec<NodeRecord> {
    let node = |(id, intro): (NodeId, &tcpx_run_model::ids::NodeIntro)| {
        let known = state.node(id);
        let facts = known.and_then(|node| node.facts.clone());
        let host = facts
            .as_ref()
            .and_then(|facts| facts.host.name.known().cloned());
        NodeRecord {
            name: intro.name.clone(),
            address: intro.address.clone(),
            host: host.unwrap_or_else(|| "unknown".into()),
            clock: known.and_then(|node| node.clock),
            facts,
        }
    };
    (0..)
        .map(NodeId)
        .zip(&state.names.nodes)
        .map(node)
        .collect()
}

fn worker_of<'a>(pair: &PairOutcome, end: End, state: &'a RunState) -> Option<&'a WorkerState> {
    state
        .workers
        .get(&WorkerId::of_pair(pair.nodes[end as usize], pair.id))
}

fn pair_record(scenario: &Scenario, pair: &PairOutcome, state: &RunState) -> PairRecord {
    PairRecord {
        nodes: pair.nodes,
        lanes: pair.lanes.clone(),
        rail: pair.rail.clone(),
        round: pair.round,
        outcome: pair.outcome,
        reason: pair.reason.clone(),
        workers: End::ALL
            .map(|end| worker_record(scenario, pair, end, worker_of(pair, end, state))),
    }
}

fn worker_record(
    scenario: &Scenario,
    pair: &PairOutcome,
    end: End,
    worker: Option<&WorkerState>,
) -> WorkerRecord {
    let role = role(scenario, end);
    let env = pair.env[end as usize].clone();
    let Some(worker) = worker else {
        return WorkerRecord {
            role,
            env,
            ..WorkerRecord::default()
        };
    };
    let transfer = worker.transfer.as_deref();
    WorkerRecord {
        role,
        plugin: worker.plugin.as_ref().map(|ready| ready.plugin.clone()),
        env,
        warnings: warnings(worker.lines()),
        log_lines: worker.log.map(|log| (log.lines, log.warnings)),
        resident_bytes: transfer.and_then(|transfer| transfer.resident_bytes),
        registered_bytes: transfer.map(|transfer| transfer.registered_bytes),
        memory: transfer.map(|transfer| transfer.memory.clone()),
        driving: transfer.and_then(|transfer| transfer.driving.clone()),
        windows: transfer.and_then(|transfer| transfer.windows.clone()),
        network: transfer.and_then(|transfer| transfer.network.clone()),
        frame: None,
    }
}

/// The newest WARN lines, each with the number of lines logged at its place in the source.
fn warnings(lines: &[KeptLine]) -> Vec<String> {
    let mut warnings: Vec<&KeptLine> = lines.iter().filter(|line| line.is_warning()).collect();
    warnings.sort_by(|a, b| a.last_ms.total_cmp(&b.last_ms));
    let first = warnings.len().saturating_sub(WARNINGS_MAX);
    let text = |line: &&KeptLine| match line.source {
        LineSource::Plugin { count, .. } => format!("{} (x{count})", line.text),
        LineSource::Output(_) => line.text.clone(),
    };
    warnings[first..].iter().map(text).collect()
}

fn transfers(scenario: &Scenario, pair: &PairOutcome, state: &RunState) -> Vec<TransferRecord> {
    let directions: &[End] = match scenario.transfer.direction {
        Direction::Forward => &[End::First],
        Direction::Reverse => &[End::Second],
        Direction::Both | Direction::PingPong => &[End::First, End::Second],
    };
    let lanes = 0..pair.lanes.len();
    lanes
        .flat_map(|lane| {
            directions
                .iter()
                .filter_map(move |from| transfer(scenario, pair, lane, *from, state))
        })
        .collect()
}

/// The transfer of one lane in one direction.
fn transfer(
    scenario: &Scenario,
    pair: &PairOutcome,
    lane: usize,
    from: End,
    state: &RunState,
) -> Option<TransferRecord> {
    let connections = pair.lanes.iter().map(|lane| scenario.connections_of(*lane));
    let channels_of = LaneChannels::new(connections);
    let of_lane = |index: usize| channels_of.channels(lane).contains(&index);
    let [from_worker, to_worker] = [from, from.other()].map(|end| worker_of(pair, end, state));
    let sender = from_worker.and_then(|worker| worker.transfer.as_deref());
    let receiver = to_worker.and_then(|worker| worker.transfer.as_deref());
    let channels = [
        channels(from_worker, Side::Send),
        channels(to_worker, Side::Recv),
    ];
    let channels: Vec<ChannelRecord> = channels
        .concat()
        .into_iter()
        .filter(|channel| of_lane(channel.id))
        .collect();
    // The receiver's times include checking and consuming every byte.
    let clock = receiver.or(sender);
    if clock.is_none() && channels.is_empty() {
        return None;
    }
    let iterations = clock
        .map(|clock| clock.iterations.as_slice())
        .unwrap_or_default();
    let measured = measured(iterations);
    // Lanes of one process share their barriers; each has a time of its own within them.
    let own = clock.and_then(|clock| clock.lanes.get(lane));
    let nanoseconds = |iteration: &Iteration| {
        let own = own.and_then(|own| own.get(iteration.index as usize));
        own.copied().unwrap_or(iteration.nanoseconds)
    };
    let seconds =
        |iteration: &&Iteration| Duration::from_nanos(nanoseconds(iteration)).as_secs_f64();
    let iteration_seconds: Vec<f64> = measured.iter().map(seconds).collect();
    let total = scenario.iteration_bytes();
    let bytes = total * measured.len() as u64;
    let elapsed = Duration::from_nanos(
        measured
            .iter()
            .map(|iteration| nanoseconds(iteration))
            .sum(),
    );
    let received: Vec<&ChannelResult> = of_side(receiver, Side::Recv)
        .into_iter()
        .filter(|channel| of_lane(channel.index))
        .collect();
    let arrived = receiver.and_then(|receiver| receiver.kv.as_deref());
    let arrived = arrived.map(|kv| &kv.arrived);
    let (verified_bytes, wrong_bytes) = match (receiver, arrived) {
        (Some(_), Some(arrived)) => (arrived.verified_bytes, arrived.wrong_bytes),
        (Some(_), None) => checked_bytes(&received),
        // The receiver was lost: use its counts up to its last complete iteration.
        (None, _) if pair.lanes.len() == 1 => to_worker
            .and_then(|worker| worker.verified)
            .unwrap_or((0, 0)),
        (None, _) => (0, 0),
    };
    Some(TransferRecord {
        pair: pair.id,
        from: pair.nodes[from as usize],
        to: pair.nodes[from.other() as usize],
        lane: match from {
            End::First => pair.lanes[lane],
            End::Second => pair.lanes[lane].reversed(),
        },
        measured_ms: to_worker.and_then(|worker| worker.measured_ms),
        bytes,
        verified_bytes,
        wrong_bytes,
        seconds: elapsed.as_secs_f64(),
        gb_per_s: Rate { bytes, elapsed }.gb_per_s(),
        median_gb_per_s: median(&iteration_seconds).map_or(0.0, |time| total as f64 / time / 1e9),
        iterations: measured.len() as u32,
        first_iteration_seconds: iterations.first().map(|iteration| seconds(&iteration)),
        iteration_seconds,
        round_trip_us: sender.and_then(|sender| sender.round_trip_us),
        kv: scenario
            .traffic
            .as_ref()
            .and_then(|traffic| kv_record(traffic, sender, receiver, elapsed)),
        mismatches: received
            .iter()
            .map(|channel| &channel.tally)
            .chain(arrived)
            .filter_map(|tally| tally.first_mismatch.clone())
            .collect(),
        channels,
    })
}

/// The requests, from the end that started them.
fn kv_record(
    traffic: &Traffic,
    sender: Option<&TransferResult>,
    receiver: Option<&TransferResult>,
    elapsed: Duration,
) -> Option<Box<KvRecord>> {
    let starts = match traffic.op {
        KvOperation::Pull => receiver,
        KvOperation::Push => sender,
    };
    let times = starts?.kv.as_deref()?.started.clone()?;
    let goodput = Rate {
        bytes: times.good_bytes,
        elapsed,
    };
    Some(Box::new(KvRecord {
        what: traffic.what(),
        op: Some(traffic.op),
        requests_of: traffic.cut(),
        arrival: traffic.arrives(),
        page_bytes: traffic.shape().page_bytes,
        batch: traffic.batch,
        seed: traffic.seed,
        goodput_gb_per_s: goodput.gb_per_s(),
        times,
    }))
}

/// Verified and wrong bytes of these channels.
fn checked_bytes(channels: &[&ChannelResult]) -> (u64, u64) {
    let tallies = || channels.iter().map(|channel| &channel.tally);
    (
        tallies().map(|tally| tally.verified_bytes).sum(),
        tallies().map(|tally| tally.wrong_bytes).sum(),
    )
}

/// The measured iterations: without warm-up, and without the very first one if there are more.
fn measured(all: &[Iteration]) -> Vec<&Iteration> {
    let counting: Vec<&Iteration> = all.iter().filter(|iteration| !iteration.warmup).collect();
    if counting.len() > 1 && counting[0].index == 0 {
        counting[1..].to_vec()
    } else {
        counting
    }
}

fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 {
        *upper
    } else {
        (sorted[middle - 1] + upper) / 2.0
    })
    .filter(|time| *time > 0.0)
}

fn of_side(result: Option<&TransferResult>, side: Side) -> Vec<&ChannelResult> {
    result
        .map(|result| {
            result
                .channels
                .iter()
                .filter(|channel| channel.side == side)
                .collect()
        })
        .unwrap_or_default()
}

/// The channels that a worker reported, or those of its last sample if it did not report.
fn channels(worker: Option<&WorkerState>, side: Side) -> Vec<ChannelRecord> {
    let Some(worker) = worker else {
        return Vec::new();
    };
    let Some(result) = worker.transfer.as_deref() else {
        let devices = worker
            .plugin
            .as_ref()
            .map(|ready| ready.devices.as_slice())
            .unwrap_or_default();
        let mine = worker
            .channels
            .iter()
            .filter(|channel| channel.side == side);
        return mine.map(|counters| last_seen(counters, devices)).collect();
    };
    of_side(Some(result), side)
        .into_iter()
        .map(channel)
        .collect()
}

fn last_seen(counters: &ChannelNow, devices: &[PluginDevice]) -> ChannelRecord {
    let device = usize::try_from(counters.device)
        .ok()
        .and_then(|index| devices.get(index));
    ChannelRecord {
        id: counters.index,
        dev: device.map(|device| device.name.clone()).unwrap_or_default(),
        side: counters.side,
        posted: counters.posted,
        done: counters.done,
        consumed: counters.consumed,
        bytes: counters.bytes,
        in_flight_high_water: counters.in_flight_high_water,
        tests: counters.tests,
        tests_not_done: counters.tests_not_done,
        rc_errors: counters.rc_errors,
        null_requests: 0,
        latency_us: counters.latency_us,
        uncounted: false,
    }
}

fn channel(result: &ChannelResult) -> ChannelRecord {
    let counters = result.counters.clone().unwrap_or_default();
    ChannelRecord {
        id: result.index,
        dev: result.nic.clone(),
        side: result.side,
        posted: counters.posted,
        done: counters.done,
        consumed: counters.consumed,
        bytes: result.tally.bytes,
        in_flight_high_water: counters.in_flight_high_water,
        tests: counters.tests,
        tests_not_done: counters.tests_not_done,
        rc_errors: counters.rc_errors,
        null_requests: result.tally.null_requests,
        latency_us: counters.latency_us,
        uncounted: result.counters.is_none(),
    }
}

/// The warnings made before the start, without duplicates from several pairs.
fn findings(pairs: &[PairOutcome]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in pairs.iter().flat_map(|pair| &pair.warnings) {
        if !findings.contains(finding) {
            findings.push(finding.clone());
        }
    }
    findings
}
