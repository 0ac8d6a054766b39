//! Values that go wrong together: sockets and threads, chunks and slices, an
//! exporter without a place to write to.
#![forbid(unsafe_code)]

use super::numbers::integer;
use super::{Environment, Findings, Fix, Kind, Machine, pair};

const CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const SOCKETS: &str = "NCCL_NSOCKS_PERTHREAD";
const THREADS: &str = "NCCL_SOCKET_NTHREADS";
const EXPORT: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE";
const EXPORTER_PATH: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH";
const EXPORTER_CPU: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_CORE_INDEX";
const STEERING: &str = "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY";
const STEERING_WAIT: &str = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS";
/// `MAX_SOCKETS` of 3.1.9, per comm.
const SOCKETS_MAX: i64 = 8;
/// The unpack slice of one request.
const SLICE_BYTES: u64 = 4 << 20;
/// What production uses.
const PUBLISHED_CHUNK: i64 = 524_288;
/// 3.1.9's own, where nothing is set.
const EXPORTER_CPU_DEFAULT: i64 = 171;
/// A wait that nobody notices.
const WAIT_MICROS_MAX: i64 = 1_000_000;

pub(super) fn look(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    chunks(environment, machine, findings);
    sockets(environment, findings);
    exporter(environment, machine, findings);
    switches(environment, findings);
    wait(environment, findings);
    visible(environment, machine, findings);
}

/// A number within its range, else what the plugin falls back to.
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

fn chunks(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    let task_chunk = integer(environment, CHUNK);
    let mend = || Fix::Set(CHUNK.to_owned(), PUBLISHED_CHUNK.to_string());
    match (environment.get(CHUNK), task_chunk) {
        (None, _) => findings.add(
            Kind::TaskChunk,
            format!("{CHUNK} is not set, which is 0"),
            [mend()],
        ),
        (Some(_), None | Some(0)) => {
            findings.add(
                Kind::TaskChunk,
                format!("{} is 0 to the plugin", pair(environment, CHUNK)),
                [mend()],
            );
        }
        _ => {}
    }
    let Some((message, name)) = message(environment, machine) else {
        return;
    };
    if message > SLICE_BYTES {
        findings.add(
            Kind::ChunkSlice,
            format!("{name} is {message} bytes; a request carries 4 MiB at most"),
            (name != "the scenario's chunk")
                .then(|| Fix::Set(name.to_owned(), PUBLISHED_CHUNK.to_string())),
        );
        return;
    }
    let (sockets, threads) = data_sockets(environment);
    let sockets = (sockets * threads).min(SOCKETS_MAX);
    // -1 and its like restore the built-in 128 KiB.
    let task_chunk = task_chunk
        .map(|bytes| if bytes < 0 { 131_072 } else { bytes })
        .filter(|bytes| *bytes > 0);
    if let Some(bytes) = task_chunk.and_then(|bytes| u64::try_from(bytes).ok())
        && message > bytes.saturating_mul(sockets.unsigned_abs())
    {
        let enough = message
            .div_ceil(sockets.unsigned_abs())
            .next_multiple_of(4096);
        findings.add(
            Kind::ChunkLeak,
            format!("{name} is {message} bytes, {sockets} sockets take {bytes} each"),
            [Fix::Set(CHUNK.to_owned(), enough.to_string())],
        );
    }
}

/// Bytes of one message, and what says so. A harness falls back to NCCL's name.
fn message<'a>(environment: &Environment, machine: &Machine) -> Option<(u64, &'a str)> {
    if let Some(chunk) = machine.chunk {
        return Some((chunk, "the scenario's chunk"));
    }
    ["UCCL_TCPX_CHUNK_BYTES", "NCCL_P2P_NET_CHUNKSIZE"]
        .into_iter()
        .find_map(|name| Some((u64::try_from(integer(environment, name)?).ok()?, name)))
}

fn sockets(environment: &Environment, findings: &mut Findings) {
    let (sockets, threads) = data_sockets(environment);
    let mend = || {
        [
            Fix::Set(SOCKETS.to_owned(), "4".to_owned()),
            Fix::Set(THREADS.to_owned(), "1".to_owned()),
        ]
    };
    if threads > SOCKETS_MAX {
        let text = format!(
            "{}: {threads} threads share {SOCKETS_MAX} sockets, so each has 0",
            pair(environment, THREADS)
        );
        findings.add(Kind::NoSockets, text, mend());
    } else if sockets * threads > SOCKETS_MAX {
        let text = format!(
            "{SOCKETS} {sockets} x {THREADS} {threads} is {}; cut to {} per thread",
            sockets * threads,
            SOCKETS_MAX / threads
        );
        findings.add(Kind::Sockets, text, mend());
    }
}

fn exporter(environment: &Environment, machine: &Machine, findings: &mut Findings) {
    if integer(environment, EXPORT) != Some(1) {
        return;
    }
    if environment.get(EXPORTER_PATH).is_none_or(String::is_empty) {
        let text = format!("{EXPORT}=1 without {EXPORTER_PATH}");
        findings.add(Kind::Exporter, text, [Fix::Unset(EXPORT.to_owned())]);
    }
    let cpu = integer(environment, EXPORTER_CPU).unwrap_or(EXPORTER_CPU_DEFAULT);
    match (&machine.online, u32::try_from(cpu)) {
        (None, _) => findings.open([Kind::ExporterCpu], "the CPUs are not known"),
        (Some(online), Ok(cpu)) if online.contains(cpu) => {}
        (Some(online), _) => {
            let last = online.iter().max().unwrap_or(0);
            let text = format!("the exporter pins itself to CPU {cpu}; this node has {online}");
            findings.add(
                Kind::ExporterCpu,
                text,
                [Fix::Set(EXPORTER_CPU.to_owned(), last.to_string())],
            );
        }
    }
}

fn switches(environment: &Environment, findings: &mut Findings) {
    let off = [
        ("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", 0..=0, "init refuses"),
        ("NCCL_USE_DMA_BUF", 0..=0, "no GPU memory can be registered"),
        (STEERING, 0..=2, "init refuses every strategy but 3"),
        (
            "NCCL_GPUDIRECTTCPX_CONNECTION_RETRY",
            0..=0,
            "no connection is ever tried",
        ),
    ];
    for (name, values, consequence) in off {
        if integer(environment, name).is_some_and(|value| values.contains(&value)) {
            let text = format!("{}: {consequence}", pair(environment, name));
            findings.add(Kind::Disabled, text, [Fix::Unset(name.to_owned())]);
        }
    }
}

fn wait(environment: &Environment, findings: &mut Findings) {
    let micros = integer(environment, STEERING_WAIT).filter(|micros| *micros > 0);
    let mend = || [Fix::Set(STEERING_WAIT.to_owned(), "500000".to_owned())];
    match micros {
        None => findings.add(
            Kind::SteeringWait,
            format!("{STEERING_WAIT} is not set: each accept waits 5 s"),
            mend(),
        ),
        Some(micros) if micros > WAIT_MICROS_MAX => {
            let text = format!(
                "{}: each accept waits {:.1} s",
                pair(environment, STEERING_WAIT),
                micros as f64 / 1e6
            );
            findings.add(Kind::SteeringWait, text, mend());
        }
        Some(_) => {}
    }
}

/// The plugin takes a GPU's NUMA node from CUDA's number: 0 to 3 are on node 0.
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
            "{}: CUDA's device numbers are not the node's",
            pair(environment, name)
        );
        findings.add(Kind::VisibleDevices, text, [Fix::Unset(name.to_owned())]);
    }
}
