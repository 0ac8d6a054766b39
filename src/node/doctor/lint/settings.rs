//! Values that depend on each other or on the machine: sockets and threads, chunk sizes, the
//! statistics exporter, switches that disable the plugin.
#![forbid(unsafe_code)]

use super::numbers::integer;
use super::{Environment, Findings, Fix, LintKind, Machine, pair};

const CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const SOCKETS: &str = "NCCL_NSOCKS_PERTHREAD";
const THREADS: &str = "NCCL_SOCKET_NTHREADS";
const EXPORT: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE";
const EXPORTER_PATH: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH";
const EXPORTER_CPU: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_CORE_INDEX";
const STEERING: &str = "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY";
const STEERING_WAIT: &str = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS";
/// Name of the chunk size of a scenario, in messages.
const SCENARIO_CHUNK: &str = "the scenario's chunk";
/// `MAX_SOCKETS` of 3.1.9, per comm.
const SOCKETS_MAX: i64 = 8;
/// Bytes that one unpack slot holds: the largest receive.
const SLICE_BYTES: u64 = 4 << 20;
/// The published A3-high value.
const PUBLISHED_CHUNK: i64 = 524_288;
/// The default of 3.1.9.
const EXPORTER_CPU_DEFAULT: i64 = 171;
/// Longest wait that is not reported.
const WAIT_MICROS_MAX: i64 = 1_000_000;

pub(super) fn check(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    task_chunk(environment, findings);
    message_size(environment, machine, findings);
    sockets(environment, findings);
    exporter(environment, machine, findings);
    switches(environment, findings);
    wait(environment, findings);
    visible(environment, machine, findings);
}

/// The value of a variable if it is within `range`, else the default that the plugin uses.
fn effective(
    environment: &Environment,
    name: &str,
    range: std::ops::RangeInclusive<i64>,
    default: i64,
) -> i64 {
    integer(environment, name)
        .filter(|number| range.contains(number))
        .unwrap_or(default)
}

fn data_sockets(environment: &Environment) -> (i64, i64) {
    (
        effective(environment, SOCKETS, 1..=8, 1),
        effective(environment, THREADS, 1..=16, 1),
    )
}

fn task_chunk(environment: &Environment, findings: &mut Findings) {
    let text = match (environment.get(CHUNK), integer(environment, CHUNK)) {
        (None, _) => format!("{CHUNK} is not set; the plugin uses 0"),
        (Some(_), None | Some(0)) => format!("{}: the plugin uses 0", pair(environment, CHUNK)),
        _ => return,
    };
    let fix = Fix::Set(CHUNK.to_owned(), PUBLISHED_CHUNK.to_string());
    findings.add(LintKind::TaskChunk, text, [fix]);
}

fn message_size(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let Some((message, name)) = message(environment, machine) else {
        return;
    };
    if message > SLICE_BYTES {
        let text = format!("{name} is {message} bytes; a request carries at most 4 MiB");
        let fix = (name != SCENARIO_CHUNK)
            .then(|| Fix::Set(name.to_owned(), PUBLISHED_CHUNK.to_string()));
        findings.add(LintKind::ChunkSlice, text, fix);
        return;
    }
    let task_chunk = match integer(environment, CHUNK) {
        // A negative number restores the built-in 128 KiB.
        Some(bytes) if bytes < 0 => 131_072,
        Some(bytes) => bytes.unsigned_abs(),
        None => 0,
    };
    let (sockets, threads) = data_sockets(environment);
    let sockets = (sockets * threads).min(SOCKETS_MAX).unsigned_abs();
    if task_chunk > 0 && message > task_chunk.saturating_mul(sockets) {
        let text = format!(
            "{name} is {message} bytes, more than {sockets} sockets x {CHUNK} {task_chunk}"
        );
        let enough = message.div_ceil(sockets).next_multiple_of(4096);
        let fix = Fix::Set(CHUNK.to_owned(), enough.to_string());
        findings.add(LintKind::ChunkLeak, text, [fix]);
    }
}

/// Bytes of one message, and the setting that they come from. UCCL's test programs fall back
/// to NCCL's variable.
fn message<'a>(environment: &Environment, machine: &Machine) -> Option<(u64, &'a str)> {
    if let Some(chunk) = machine.chunk {
        return Some((chunk, SCENARIO_CHUNK));
    }
    ["UCCL_TCPX_CHUNK_BYTES", "NCCL_P2P_NET_CHUNKSIZE"]
        .into_iter()
        .find_map(|name| Some((u64::try_from(integer(environment, name)?).ok()?, name)))
}

fn sockets(environment: &Environment, findings: &mut Findings) {
    let (sockets, threads) = data_sockets(environment);
    let fix = || {
        [
            Fix::Set(SOCKETS.to_owned(), "4".to_owned()),
            Fix::Set(THREADS.to_owned(), "1".to_owned()),
        ]
    };
    if threads > SOCKETS_MAX {
        let text = format!(
            "{}: {threads} threads share {SOCKETS_MAX} sockets, so each gets 0",
            pair(environment, THREADS)
        );
        findings.add(LintKind::NoSockets, text, fix());
    } else if sockets * threads > SOCKETS_MAX {
        let text = format!(
            "{SOCKETS} {sockets} x {THREADS} {threads} is {}; the plugin cuts it to {} per thread",
            sockets * threads,
            SOCKETS_MAX / threads
        );
        findings.add(LintKind::Sockets, text, fix());
    }
}

fn exporter(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    if integer(environment, EXPORT) != Some(1) {
        return;
    }
    if environment.get(EXPORTER_PATH).is_none_or(String::is_empty) {
        let text = format!("{EXPORT}=1, but {EXPORTER_PATH} is not set");
        findings.add(LintKind::Exporter, text, [Fix::Unset(EXPORT.to_owned())]);
    }
    let cpu = integer(environment, EXPORTER_CPU).unwrap_or(EXPORTER_CPU_DEFAULT);
    match (&machine.online, u32::try_from(cpu)) {
        (None, _) => findings.open([LintKind::ExporterCpu], "the online CPUs are unknown"),
        (Some(online), Ok(cpu)) if online.contains(cpu) => {}
        (Some(online), _) => {
            let last = online.iter().max().unwrap_or(0);
            let text = format!("the exporter pins itself to CPU {cpu}; online are {online}");
            findings.add(
                LintKind::ExporterCpu,
                text,
                [Fix::Set(EXPORTER_CPU.to_owned(), last.to_string())],
            );
        }
    }
}

fn switches(environment: &Environment, findings: &mut Findings) {
    let off = [
        ("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", 0..=0, "init fails"),
        ("NCCL_USE_DMA_BUF", 0..=0, "no GPU memory can be registered"),
        (STEERING, 0..=2, "init rejects every strategy except 3"),
        (
            "NCCL_GPUDIRECTTCPX_CONNECTION_RETRY",
            0..=0,
            "no connection is attempted",
        ),
    ];
    for (name, values, consequence) in off {
        if integer(environment, name).is_some_and(|value| values.contains(&value)) {
            let text = format!("{}: {consequence}", pair(environment, name));
            findings.add(LintKind::Disabled, text, [Fix::Unset(name.to_owned())]);
        }
    }
}

fn wait(environment: &Environment, findings: &mut Findings) {
    let micros = integer(environment, STEERING_WAIT).filter(|micros| *micros > 0);
    let fix = || [Fix::Set(STEERING_WAIT.to_owned(), "500000".to_owned())];
    match micros {
        None => findings.add(
            LintKind::SteeringWait,
            format!("{STEERING_WAIT} is not set: each accept waits 5 s"),
            fix(),
        ),
        Some(micros) if micros > WAIT_MICROS_MAX => {
            let text = format!(
                "{}: each accept waits {:.1} s",
                pair(environment, STEERING_WAIT),
                micros as f64 / 1e6
            );
            findings.add(LintKind::SteeringWait, text, fix());
        }
        Some(_) => {}
    }
}

/// The plugin derives a GPU's NUMA node from its CUDA number: 0 to 3 are on node 0.
fn visible(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let name = "CUDA_VISIBLE_DEVICES";
    let Some(list) = environment.get(name) else {
        return;
    };
    let first: Vec<String> = (0..machine.gpus).map(|index| index.to_string()).collect();
    let given: Vec<&str> = list.split(',').map(str::trim).collect();
    let in_order = !list.is_empty()
        && given
            .iter()
            .enumerate()
            .all(|(at, one)| first.get(at).is_some_and(|index| index == one));
    if !in_order {
        let text = format!(
            "{}: CUDA's device numbers differ from the node's",
            pair(environment, name)
        );
        findings.add(
            LintKind::VisibleDevices,
            text,
            [Fix::Unset(name.to_owned())],
        );
    }
}
