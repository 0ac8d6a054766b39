//! What a pair came to, as `run.json` says it.
#![forbid(unsafe_code)]

use super::drive::decisive;
use super::launch::End;
use super::message::{ChannelResult, TransferResult};
use super::pair::{EndRecord, PairOutcome};
use std::time::Duration;
use tcpx_engine::plugin::Device;
use tcpx_run_model::record::{
    ChannelNow, ChannelRecord, Finding, Iteration, NodeRecord, PluginRecord, RunRecord, SCHEMA, ScenarioRecord,
    TransferRecord,
};
use tcpx_run_model::scenario::{Direction, Scenario};
use tcpx_words::side::Side;
use tcpx_words::units::Rate;

/// The record of what a pair came to. `exit_code` and `unmet` are the gates' to
/// set.
pub fn conclude(id: &str, started: &str, scenario: &Scenario, pairs: &[PairOutcome]) -> RunRecord {
    let pair = decisive(pairs);
    RunRecord {
        schema: SCHEMA.into(),
        id: id.into(),
        started: started.into(),
        finished: tcpx_words::units::now_utc(),
        tcpxctl_version: env!("CARGO_PKG_VERSION").into(),
        outcome: pair.outcome,
        exit_code: pair.outcome.exit_code(),
        reason: pair.reason.clone(),
        next_step: pair.next_step.clone(),
        scenario: ScenarioRecord { name: scenario.name.clone(), sha256: scenario.hash(), resolved: scenario.clone() },
        nodes: End::ALL.map(|end| node(end, scenario, &pair.ends[end as usize])).into(),
        transfers: pairs.iter().flat_map(|pair| transfers(scenario, pair)).collect(),
        findings: findings(pairs),
        unmet: Vec::new(),
        command: None,
    }
}

fn node(end: End, scenario: &Scenario, record: &EndRecord) -> NodeRecord {
    let role = match (scenario.transfer.direction, end) {
        (Direction::Both | Direction::PingPong, _) => "both",
        (Direction::Forward, End::Local) | (Direction::Reverse, End::Peer) => "send",
        _ => "recv",
    };
    let host = record.facts.as_ref().and_then(|facts| facts.host.name.known().cloned());
    NodeRecord {
        name: end.name().into(),
        role: role.into(),
        address: record.address.clone(),
        clock: record.clock,
        host: host.unwrap_or_else(|| "unknown".into()),
        plugin: record.loaded.as_ref().map(|loaded| PluginRecord {
            path: loaded.file.as_ref().map_or("builtin".into(), |file| file.realpath.display().to_string()),
            sha256: loaded.file.as_ref().map_or("builtin".into(), |file| file.sha256.clone()),
            abi: loaded.about.abi,
            name: loaded.about.name.clone(),
            version: loaded.version.clone(),
            why: loaded.choice.why.clone(),
            passed_over: loaded.choice.passed_over.clone(),
        }),
        env: record.env.clone(),
        facts: record.facts.clone(),
        warnings: record.warnings.iter().map(|line| format!("{} (x{})", line.text, line.count)).collect(),
        log_lines: record.log.map(|log| (log.lines, log.warnings)),
        worker_resident_bytes: record.transfer.as_ref().and_then(|transfer| transfer.resident_bytes),
        registered_bytes: record.transfer.as_ref().map(|transfer| transfer.registered_bytes),
        memory: record.transfer.as_ref().map(|transfer| transfer.memory.clone()),
        frames: Vec::new(),
    }
}

fn transfers(scenario: &Scenario, pair: &PairOutcome) -> Vec<TransferRecord> {
    let directions: &[(End, End)] = match scenario.transfer.direction {
        Direction::Forward => &[(End::Local, End::Peer)],
        Direction::Reverse => &[(End::Peer, End::Local)],
        Direction::Both | Direction::PingPong => &[(End::Local, End::Peer), (End::Peer, End::Local)],
    };
    let groups = 0..pair.gpus.len();
    groups
        .flat_map(|group| directions.iter().filter_map(move |(from, to)| transfer(scenario, pair, group, *from, *to)))
        .collect()
}

/// What moved for one GPU of the pair, in one direction.
fn transfer(scenario: &Scenario, pair: &PairOutcome, group: usize, from: End, to: End) -> Option<TransferRecord> {
    let connections = scenario.transfer.connections as usize;
    let of_group = |index: usize| index / connections.max(1) == group;
    let sender = pair.ends[from as usize].transfer.as_deref();
    let receiver = pair.ends[to as usize].transfer.as_deref();
    let channels = [channels(&pair.ends[from as usize], Side::Send), channels(&pair.ends[to as usize], Side::Recv)];
    let channels: Vec<ChannelRecord> = channels.concat().into_iter().filter(|channel| of_group(channel.id)).collect();
    // The receiver's clock runs until everything is checked and consumed.
    let clock = receiver.or(sender);
    if clock.is_none() && channels.is_empty() {
        return None;
    }
    let iterations = clock.map(|clock| clock.iterations.as_slice()).unwrap_or_default();
    let measured = measured(iterations);
    let seconds = |iteration: &&Iteration| Duration::from_nanos(iteration.nanoseconds).as_secs_f64();
    let iteration_seconds: Vec<f64> = measured.iter().map(seconds).collect();
    let total = scenario.transfer.total.0;
    let bytes = total * measured.len() as u64;
    let elapsed = Duration::from_nanos(measured.iter().map(|iteration| iteration.nanoseconds).sum());
    // Its worker was lost with what it had counted since its last iteration.
    let lost = receiver.is_none() && pair.gpus.len() == 1;
    let (lost_verified, lost_wrong) = if lost { pair.ends[to as usize].tallied } else { (0, 0) };
    let received: Vec<&ChannelResult> =
        of_side(receiver, Side::Recv).into_iter().filter(|channel| of_group(channel.index)).collect();
    Some(TransferRecord {
        from: from.name().into(),
        to: to.name().into(),
        gpu: pair.gpus.get(group).copied().flatten(),
        measured_ms: pair.ends[to as usize].measured_ms,
        bytes,
        verified_bytes: lost_verified + received.iter().map(|channel| channel.tally.verified_bytes).sum::<u64>(),
        wrong_bytes: lost_wrong + received.iter().map(|channel| channel.tally.wrong_bytes).sum::<u64>(),
        seconds: elapsed.as_secs_f64(),
        gb_per_s: Rate { bytes, elapsed }.gb_per_s(),
        median_gb_per_s: median(&iteration_seconds).map_or(0.0, |time| total as f64 / time / 1e9),
        iterations: measured.len() as u32,
        first_iteration_seconds: iterations.first().map(|iteration| seconds(&iteration)),
        iteration_seconds,
        round_trip_us: sender.and_then(|sender| sender.round_trip_us),
        mismatches: received.iter().filter_map(|channel| channel.tally.first_mismatch.clone()).collect(),
        channels,
    })
}

/// What counts: not warm-up, and not the very first iteration when there are more.
fn measured(all: &[Iteration]) -> Vec<&Iteration> {
    let counting: Vec<&Iteration> = all.iter().filter(|iteration| !iteration.warmup).collect();
    if counting.len() > 1 && counting[0].index == 0 { counting[1..].to_vec() } else { counting }
}

fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { *upper } else { (sorted[middle - 1] + upper) / 2.0 }).filter(|time| *time > 0.0)
}

fn of_side(result: Option<&TransferResult>, side: Side) -> Vec<&ChannelResult> {
    result.map(|result| result.channels.iter().filter(|channel| channel.side == side).collect()).unwrap_or_default()
}

/// What a worker said of its channels, or else what its recorder showed last.
fn channels(end: &EndRecord, side: Side) -> Vec<ChannelRecord> {
    let Some(result) = end.transfer.as_deref() else {
        let name = if side == Side::Send { "send" } else { "recv" };
        let devices = end.loaded.as_ref().map(|loaded| loaded.devices.as_slice()).unwrap_or_default();
        let mine = end.channels.iter().filter(|channel| channel.side == name);
        return mine.map(|counters| last_seen(counters, side, devices)).collect();
    };
    of_side(Some(result), side).into_iter().map(channel).collect()
}

fn last_seen(counters: &ChannelNow, side: Side, devices: &[Device]) -> ChannelRecord {
    let device = usize::try_from(counters.device).ok().and_then(|index| devices.get(index));
    ChannelRecord {
        id: counters.index,
        dev: device.map(|device| device.name.clone()).unwrap_or_default(),
        side,
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
    }
}

/// What was seen before anything ran; what holds of every GPU is said once.
fn findings(pairs: &[PairOutcome]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in pairs.iter().flat_map(|pair| &pair.warnings) {
        if !findings.contains(finding) {
            findings.push(finding.clone());
        }
    }
    findings
}
