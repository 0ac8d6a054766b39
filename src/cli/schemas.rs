//! The JSON schema of every document that tcpxctl prints or writes, kept in `docs/schemas`.
//!
//! A schema is generated from the document's own type. Types of other crates inside it are
//! described here once more, or left open as [`Object`]. `tests/support/schema.rs` checks every
//! document that an integration test reads against these files, so a key that is renamed in
//! one place only fails there.
//!
//! `UPDATE_DOCS=1 cargo test -p tcpxctl --lib schemas` writes the files.
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "these types only describe what others serialize")]

use super::{
    adopt, baseline, bundle, compare, diagnose, discover, doctor, doctor_fleet, doctor_table,
    dry_run, failure, generate, gpu, handshake, history, logs, mr, rehearse, run, selftest, shrink,
    tap, topic, trace, tune,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[path = "../../tests/support/files.rs"]
mod files;
use files::files_below;

/// An object whose keys are not part of the schema.
#[derive(Serialize)]
pub(super) struct Object;

impl JsonSchema for Object {
    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// Keys beside `schema` that are not part of the schema.
pub(super) type Keys = BTreeMap<String, Value>;

/// How a command ended.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Outcome")]
pub(super) enum OutcomeWord {
    /// Everything was verified and every gate met; exit code 0.
    Passed,
    /// A gate or the verification failed; exit code 1.
    Failed,
    /// The command line or a configuration was wrong; exit code 2.
    Usage,
    /// The command could not be run; exit code 3.
    NotRun,
    /// No progress by the deadline; exit code 4.
    Stalled,
    /// The peer was unreachable or lost; exit code 5.
    PeerLost,
    /// The process that runs the plugin ended early: the plugin exited or crashed, or a signal killed it; exit code 6.
    PluginDied,
    /// Interrupted by a signal; exit code 130.
    Interrupted,
}

/// A task on a node that failed.
#[derive(JsonSchema, Serialize)]
pub(super) struct Problem {
    outcome: OutcomeWord,
    message: String,
    next_step: Option<String>,
}

/// A condition that the rules found.
#[derive(JsonSchema, Serialize)]
pub(super) struct Finding {
    /// The condition's name, as in docs/failures.md.
    condition: String,
    severity: FindingSeverity,
    /// 0 to 1.
    confidence: f64,
    /// The worker or node that the finding is about; absent for the run as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Subject>,
    /// Index of the channel within its direction.
    channel: Option<usize>,
    /// The deciding facts.
    because: Vec<String>,
    /// Evidence that is missing.
    cannot_see: Vec<String>,
    next_step: Option<String>,
    reference: Option<String>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum FindingSeverity {
    Error,
    Warning,
    Info,
}

#[derive(JsonSchema, Serialize)]
struct Subject {
    /// Index in `nodes`.
    node: u32,
    /// Index in `pairs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<u32>,
    /// Process id, of a process that no run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// As printed: `peer`, `peer gpu 3`, `pid 4242`.
    name: String,
}

/// One check of the doctor.
#[derive(JsonSchema, Serialize)]
pub(super) struct Check {
    id: String,
    layer: String,
    /// What holds when the check passes.
    title: String,
    verdict: CheckVerdict,
    /// What was read, or why it could not be read.
    value: String,
    expected: String,
    why: String,
    next_step: Option<String>,
    severity: CheckSeverity,
    /// The failure that follows when the check fails.
    prevents: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum CheckVerdict {
    Pass,
    Fail,
    Warn,
    Unknown,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CheckSeverity {
    Critical,
    High,
    Medium,
    Low,
}

/// A run in the history.
#[derive(JsonSchema, Serialize)]
pub(super) struct HistoryEntry {
    /// Name of the run folder.
    id: String,
    /// RFC 3339, UTC.
    started: String,
    scenario: String,
    /// An outcome, or `killed`, `running`, `damaged`; `measured` for a result file of another tool.
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<HistoryRate>,
    /// Of all directions, over the interval that they were measured in together.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_gb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<String>,
    /// The part of a mesh that explains most of what is slow or dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Bytes and modification time of the run.json that the entry was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<(u64, i64)>,
}

/// The rate of one direction of one pair over one rail.
#[derive(JsonSchema, Serialize)]
pub(super) struct RateOfPair {
    /// RFC 3339, UTC.
    started: String,
    /// The run, or the name of the file.
    run: String,
    scenario: String,
    /// `tcpxctl`, or the tool that wrote the file.
    tool: String,
    from: String,
    /// Empty where the tool measured a node as a whole.
    to: String,
    /// The interface, several joined with `+`, or `all`.
    rail: String,
    /// That sent.
    gpu: Option<u32>,
    /// That received.
    to_gpu: Option<u32>,
    round: Option<u32>,
    pair: Option<u32>,
    /// Whether the pair was measured again, because it was suspect.
    again: bool,
    /// `passed`, or how the pair ended; `measured` for a file of another tool.
    outcome: String,
    gb_per_s: Option<f64>,
}

/// A rail whose rate fell.
#[derive(JsonSchema, Serialize)]
pub(super) struct SlowerRail {
    /// Of the runs that are compared.
    scenario: String,
    node: String,
    rail: String,
    /// Start of the first run that counts as after.
    since: String,
    /// Number of runs before and after.
    runs: (usize, usize),
    before_gb_per_s: f64,
    after_gb_per_s: f64,
    /// -0.2 is 20 % slower.
    change: f64,
    /// That this is chance; `null` with too few runs.
    p: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct HistoryRate {
    /// `local->peer`
    direction: String,
    /// 10^9 bytes per second.
    median_gb_per_s: f64,
}

/// A result that can be compared.
#[derive(JsonSchema, Serialize)]
pub(super) struct Measured {
    name: String,
    tool: String,
    source: String,
    settings: BTreeMap<String, String>,
    metrics: BTreeMap<String, Metric>,
}

#[derive(JsonSchema, Serialize)]
struct Metric {
    unit: String,
    better: Better,
    /// Whether a regression makes the exit code 1.
    gates: bool,
    samples: Vec<f64>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Better {
    Higher,
    Lower,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Compared {
    /// The reference first.
    results: Vec<Measured>,
    /// Settings that differ: the name, and the value of each result.
    settings: Vec<(String, Vec<Option<String>>)>,
    rows: Vec<ComparedRow>,
    /// Relative: 0.05 is 5 %.
    tolerance: f64,
}

/// One metric of one result beside the reference's.
#[derive(JsonSchema, Serialize)]
struct ComparedRow {
    metric: String,
    unit: String,
    /// Index in `results`.
    result: usize,
    reference: [f64; 3],
    other: [f64; 3],
    change: Option<f64>,
    p: Option<f64>,
    verdict: ComparedVerdict,
    gates: bool,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ComparedVerdict {
    Better,
    Worse,
    Noise,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Bundled {
    /// The folder in the archive.
    name: String,
    files: Vec<BundledFile>,
    /// Files that were cut or left out, with the reason.
    cut: Vec<String>,
    /// Texts in a redacted bundle that look like an address, a name or a secret, with their places.
    revealing: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct BundledFile {
    name: String,
    bytes: u64,
    sha256: String,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Verified {
    /// Files whose sums are right.
    intact: usize,
    problems: Vec<String>,
    /// Texts that look like an address, a name or a secret, with their places.
    revealing: Vec<String>,
    redacted: bool,
}

/// One rehearsed failure.
#[derive(JsonSchema, Serialize)]
pub(super) struct RehearsalRow {
    scenario: String,
    /// The condition that should be found first.
    expected: String,
    /// The condition that was found first, or the outcome.
    found: String,
    /// From the last progress to the finding.
    seconds_to_verdict: Option<f64>,
    passed: bool,
    /// Judged from recorded evidence: nothing ran.
    simulated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmet: Vec<String>,
}

/// `run.json`.
#[derive(JsonSchema, Serialize)]
pub(super) struct Run {
    schema: String,
    /// Name of the run folder.
    id: String,
    /// RFC 3339, UTC.
    started: String,
    /// RFC 3339, UTC.
    finished: String,
    /// When the last event happened, since the start; absent in records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    events_until_ms: Option<f64>,
    tcpxctl_version: String,
    outcome: OutcomeWord,
    exit_code: u8,
    reason: Option<String>,
    next_step: Option<String>,
    scenario: RunScenario,
    nodes: Vec<RunNode>,
    pairs: Vec<RunPair>,
    /// One for each direction of each lane.
    transfers: Vec<Transfer>,
    /// Over the interval that all transfers measured in, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    sums: Option<Sums>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mesh: Option<Mesh>,
    findings: Vec<Finding>,
    /// Gates of `[expect]` that were not met.
    unmet: Vec<String>,
    /// The command line, quoted for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

#[derive(JsonSchema, Serialize)]
struct RunScenario {
    name: String,
    sha256: String,
    /// Every key with its value, as scenarios/schema.json describes them.
    resolved: Object,
}

#[derive(JsonSchema, Serialize)]
struct RunNode {
    /// `local`, `peer`, or a host name.
    name: String,
    address: String,
    host: String,
    clock: Option<Clock>,
    /// NICs, GPUs, limits and environment of the node.
    facts: Option<Object>,
}

/// The node's clock against the coordinator's.
#[derive(JsonSchema, Serialize)]
struct Clock {
    offset_us: i64,
    round_trip_us: u64,
}

#[derive(JsonSchema, Serialize)]
struct RunPair {
    /// Indexes in `nodes`.
    nodes: [u32; 2],
    lanes: Vec<Lane>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rail: Option<Rail>,
    /// Of the mesh, from 0; those that measured again what was suspect are rounds too.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    outcome: OutcomeWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// In the order of `nodes`.
    workers: [Object; 2],
}

/// Host memory, or one GPU of each node.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Lane {
    Host,
    /// The same number on both nodes.
    Gpu(u32),
    /// Of the pair's first node and its second; in a transfer, of the sender and the receiver.
    Gpus(u32, u32),
}

/// What of a mesh was not run.
#[derive(JsonSchema, Serialize)]
struct Mesh {
    /// The nodes whose agents did not start.
    missing: Vec<MissingNode>,
    /// Rounds that were not started, because the budget was used up or the run interrupted.
    rounds_left_out: usize,
    /// Their pairs.
    pairs_left_out: usize,
    /// Index in `pairs` of the first that measured again what was suspect; so did all after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_retest: Option<u32>,
    /// By node: its rack, block or whatever the topology file or the cloud says that it shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Option<String>>,
    /// What differs between the nodes and may explain rates or failures, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<String>,
    /// The first lines of the program that started the agents, such as srun, and how it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    launcher_said: Vec<String>,
    /// Which parts are slow or dead, or lose segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<MeshAttribution>,
}

#[derive(JsonSchema, Serialize)]
struct MeshAttribution {
    /// The part that explains most first; dead ones before all others.
    findings: Vec<MeshFinding>,
    /// Parts that looked slow at first, and were not when they were measured again.
    cleared: Vec<MeshFinding>,
    /// How much the measurements scatter without any of this: 0.1 is 10 %.
    scatter: f64,
    /// Number of measurements with a rate.
    measured: usize,
    /// Number of measurements without one.
    missing: usize,
    /// Indexes in `nodes`: what a scheduler should leave out.
    nodes_at_fault: Vec<u32>,
    /// Slowest first.
    slowest: Vec<SlowDirection>,
}

/// One part that is slow or dead, or loses segments.
#[derive(JsonSchema, Serialize)]
struct MeshFinding {
    /// One sentence.
    words: String,
    subject: MeshSubject,
    /// `slow`, `dead` or `lossy`.
    what: String,
    /// Of a slow part: its rate divided by that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    /// Of a dead part: how many measurements failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<usize>,
    /// Of a part that loses segments: the share that it lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// Of a part that loses segments: the share that the others lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<f64>,
    /// How many measurements it rests on.
    measurements: usize,
    /// From 0 to 1.
    confidence: f64,
    /// `confirmed` or `suspected`.
    standing: String,
}

/// A part of a mesh, with the indexes of its nodes (`node`, or `a` and `b`), of its `rail` and of its
/// groups.
#[derive(JsonSchema, Serialize)]
struct MeshSubject {
    /// `lane`, `pair`, `rail`, `node`, `groups`, `group` or `every-rail`.
    kind: String,
    /// `both`, `sends` or `receives`.
    way: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rail: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<usize>,
}

#[derive(JsonSchema, Serialize)]
struct SlowDirection {
    /// Index of the sending node.
    from: u32,
    /// Index of the receiving node.
    to: u32,
    /// Number of the rail.
    rail: u32,
    gb_per_s: f64,
    /// Divided by the median of all.
    share: f64,
}

#[derive(JsonSchema, Serialize)]
struct MissingNode {
    /// Index in `nodes`.
    node: u32,
    reason: String,
}

/// The interfaces of a pair, in a mesh that measures each rail by itself.
#[derive(JsonSchema, Serialize)]
struct Rail {
    /// Place in each node's list of data interfaces, from 0.
    number: u32,
    /// The interface of each node.
    nics: [String; 2],
}

/// One direction of a lane.
#[derive(JsonSchema, Serialize)]
struct Transfer {
    /// Index in `pairs`.
    pair: u32,
    /// Index of the sending node.
    from: u32,
    /// Index of the receiving node.
    to: u32,
    lane: Lane,
    /// When the receiving end measured, in milliseconds since the command started.
    measured_ms: Option<(f64, f64)>,
    /// Of the measured iterations.
    bytes: u64,
    verified_bytes: u64,
    wrong_bytes: u64,
    /// Of the measured iterations: between barriers that both ends share, or, of one of several
    /// lanes of a process, until the lane's last byte had been received.
    seconds: f64,
    /// 10^9 bytes per second.
    gb_per_s: f64,
    median_gb_per_s: f64,
    iterations: u32,
    iteration_seconds: Vec<f64>,
    first_iteration_seconds: Option<f64>,
    /// Ping-pong only.
    round_trip_us: Option<LatencyUs>,
    /// KV-cache traffic only.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<Kv>,
    /// The first wrong bytes of each channel that has some.
    mismatches: Vec<Object>,
    /// The sending side's, then the receiving side's.
    channels: Vec<Channel>,
}

/// The requests of KV-cache traffic in one direction; a batch is one vector read or write.
#[derive(JsonSchema, Serialize)]
struct Kv {
    /// The pages, in words.
    what: String,
    op: KvOperation,
    /// Lengths and batches, in words.
    requests_of: String,
    /// How requests arrive, in words.
    arrival: String,
    page_bytes: u64,
    /// Most pages of a batch.
    batch: u32,
    /// Of lengths, pages and arrivals.
    seed: u32,
    /// Of the requests that ended with every byte right, 10^9 bytes per second.
    goodput_gb_per_s: f64,
    /// From a request's arrival until its last byte was in place.
    requests: Latencies,
    /// From the call that starts a batch until its last byte was in place.
    batches: Latencies,
    /// In the call that starts a batch.
    posts: Latencies,
    /// To list the pages of a batch.
    preparations: Latencies,
    /// Bytes of the requests that ended with every byte right.
    good_bytes: u64,
}

/// Who starts the operations: the receiving end reads, or the sending end writes.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
enum KvOperation {
    Pull,
    Push,
}

/// Times, as a histogram that can be merged with others.
#[derive(JsonSchema, Serialize)]
struct Latencies {
    count: u64,
    mean_us: f64,
    us: Option<LatencyUs>,
    sum_ns: u64,
    max_ns: u64,
    /// First nanosecond of each bucket, and its count.
    buckets: Vec<(u64, u64)>,
}

/// Rates by NIC, GPU and node.
#[derive(JsonSchema, Serialize)]
struct Sums {
    /// The interval, in milliseconds since the command started.
    measured_ms: (f64, f64),
    /// Number of transfers that were added.
    transfers: usize,
    /// Rate of all, 10^9 bytes per second.
    gb_per_s: f64,
    nodes: Vec<NodeSum>,
}

#[derive(JsonSchema, Serialize)]
struct NodeSum {
    /// Index in `nodes`.
    node: u32,
    rates: PartRates,
    /// Only if the lanes are GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<GpuSum>,
    nics: Vec<NicSum>,
}

#[derive(JsonSchema, Serialize)]
struct GpuSum {
    /// CUDA's number.
    gpu: u32,
    /// By the GPU's own time.
    rates: PartRates,
}

#[derive(JsonSchema, Serialize)]
struct NicSum {
    nic: String,
    rates: PartRates,
}

/// 10^9 bytes per second; `null` where the part does not send or receive.
#[derive(JsonSchema, Serialize)]
struct PartRates {
    send_gb_per_s: Option<f64>,
    recv_gb_per_s: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct LatencyUs {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Counters of one channel of one side, warm-up included.
#[derive(JsonSchema, Serialize)]
struct Channel {
    /// Index within its direction.
    id: usize,
    /// Interface.
    dev: String,
    side: ChannelSide,
    posted: u64,
    done: u64,
    consumed: u64,
    bytes: u64,
    in_flight_high_water: u64,
    tests: u64,
    tests_not_done: u64,
    rc_errors: u64,
    null_requests: u64,
    /// Post to done.
    latency_us: Option<LatencyUs>,
    /// The worker's recorder had no memory for this channel: its counters, except `bytes`, are not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncounted: bool,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ChannelSide {
    Send,
    Recv,
}

/// `tcpxctl logs --json`.
#[derive(JsonSchema, Serialize)]
pub(super) struct Logs {
    schema: String,
    inputs: LogInputs,
    transport: LogTransport,
    settings: Vec<Object>,
    comms: Vec<Object>,
    /// What failed first, then failures without a reason, warnings, and what followed.
    findings: Vec<Object>,
    /// Which of several files failed first, if more than one failed.
    first_failure: Option<Object>,
    /// Collectives that ranks wait for, the first one first.
    waits: Vec<Object>,
    /// Groups in which ranks started fewer collectives than others.
    gaps: Vec<Object>,
    /// WARN lines of no known signature, the first one first.
    unknown: Vec<Object>,
    /// Lines that state an error in words, if no finding names a cause: place and text.
    stated: Vec<Object>,
    /// The last lines of processes, the latest of each file first.
    ends: Vec<Object>,
    benign: Vec<Object>,
    seen: Vec<Object>,
    builds: Vec<Object>,
    /// Programs that drive the plugin themselves, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    harness: Option<LogHarness>,
    /// The user's signatures: name, file, and where the one is from that it replaces.
    own_signatures: Vec<Object>,
    telemetry: Vec<Object>,
    problems: Vec<Object>,
}

#[derive(JsonSchema, Serialize)]
struct LogHarness {
    /// One for each pair of ends, and for each end without its peer.
    verdicts: Vec<LogHarnessVerdict>,
    /// One end of one process each: phase, iterations, posts, tests, channels, last line.
    programs: Vec<Object>,
    /// One for each run of iterations, or for each message size.
    results: Vec<LogHarnessResult>,
}

#[derive(JsonSchema, Serialize)]
struct LogHarnessVerdict {
    /// `window-full`, `peer-closed`, `finished`, ...
    condition: String,
    state: LogHarnessState,
    /// Indices in `programs`.
    programs: Vec<usize>,
    summary: String,
    /// The deciding facts, with their lines.
    because: Vec<String>,
    /// The end that has to act next, if the lines show it.
    turn: Option<LogHarnessRole>,
    next_steps: Vec<String>,
    /// What the lines do not show.
    cannot_tell: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LogHarnessState {
    Failed,
    Waits,
    Doubtful,
    Finished,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LogHarnessRole {
    Server,
    Client,
}

#[derive(JsonSchema, Serialize)]
struct LogHarnessResult {
    /// Index in `programs`.
    program: usize,
    role: Option<LogHarnessRole>,
    /// Absent for all GPUs of a process.
    gpu: Option<u32>,
    /// Of an iteration or of a message.
    bytes: Option<u64>,
    /// Measured ones.
    iterations: u64,
    /// Iterations that were asked for.
    wanted: Option<u64>,
    first_ms: Option<f64>,
    /// Without the first iteration.
    median_ms: Option<f64>,
    /// Median without the first of several iterations; 10^9 bytes per second.
    gb_per_s: Option<f64>,
    samples_gb_per_s: Vec<f64>,
    /// The program's own mean, in 2^30 bytes per second.
    printed: Option<f64>,
    /// Why the rate is wrong.
    wrong: Option<String>,
}

#[derive(JsonSchema, Serialize)]
struct LogInputs {
    files: usize,
    /// Uncompressed.
    bytes: u64,
    lines: u64,
    matched_lines: u64,
    /// Records of such lines that `--rank`, `--node`, `--since` or `--until` left out.
    filtered_records: u64,
    /// Files of which no date has a year: their times are told without one.
    assumed_years: usize,
}

#[derive(JsonSchema, Serialize)]
struct LogTransport {
    /// `tcpx`, `tcpxo`, `socket`, `fastsocket`, `ib`, `ofi`, `other`, `mixed`, `within-node`, `asked-for`
    /// (no line tells, but a command or an environment asks for one), or `unknown`.
    verdict: String,
    /// The network below `ib` or `ofi`, where lines tell it: `RoCE`, `InfiniBand`, `EFA`, `Slingshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fabric: Option<String>,
    because: String,
    /// Networks by name, with their processes.
    named: BTreeMap<String, Vec<String>>,
    /// Versions of the plugin, with their processes.
    versions: BTreeMap<String, Vec<String>>,
    /// Networks of libraries beside NCCL, such as `Ascend HCCL` and `NIXL UCX`; at most four.
    libraries: Vec<String>,
    /// What a command or an environment asks for, where no line tells what is used: `InfiniBand or RoCE (NCCL_IB_HCA)`;
    /// at most three.
    asked: Vec<String>,
}

/// A report as JSON: the keys that name the run. The others follow the report's sections.
#[derive(JsonSchema, Serialize)]
struct Report {
    schema: String,
    tcpxctl_version: String,
    redacted: bool,
    /// Name of the run folder.
    id: String,
    /// RFC 3339, UTC.
    started: Option<String>,
    #[serde(flatten)]
    sections: Keys,
}

/// One file that was adopted: its path in the run folder, and the path it was copied from.
#[derive(JsonSchema, Serialize)]
pub(super) struct AdoptedFile {
    name: String,
    from: PathBuf,
}

/// `adopted.json` of a run folder.
#[derive(JsonSchema, Serialize)]
struct Adopted {
    schema: String,
    files: Vec<AdoptedFile>,
}

/// `nodes/NODE/frame.json`: what surrounded a worker when a stall was declared.
#[derive(JsonSchema, Serialize)]
struct Frame {
    schema: String,
    #[serde(flatten)]
    sections: Keys,
}

fn schema_of<T: JsonSchema>(kind: &str) -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = json!(kind);
    schema["properties"]["schema"] = json!({ "const": kind });
    // schemars marks the width of an integer; its range is in `minimum` and `maximum`.
    drop_formats(&mut schema);
    schema
}

fn drop_formats(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "format" || !value.is_string());
            map.values_mut().for_each(drop_formats);
        }
        Value::Array(all) => all.iter_mut().for_each(drop_formats),
        _ => {}
    }
}

/// Every kind of document with its schema.
fn all() -> BTreeMap<&'static str, Value> {
    macro_rules! schemas {
        ($($kind:literal: $document:ty,)+) => {
            BTreeMap::from([$(($kind, schema_of::<$document>($kind))),+])
        };
    }
    schemas! {
        "tcpxctl.adopt/1": adopt::AdoptDocument<'static>,
        "tcpxctl.adopted/1": Adopted,
        "tcpxctl.baseline/1": baseline::BaselineDocument<'static>,
        "tcpxctl.baselines/1": baseline::BaselinesDocument<'static>,
        "tcpxctl.bundle-verified/1": bundle::BundleVerifiedDocument<'static>,
        "tcpxctl.bundle/1": bundle::BundleDocument<'static>,
        "tcpxctl.compare/1": compare::CompareDocument<'static>,
        "tcpxctl.diagnose/2": diagnose::DiagnoseDocument<'static>,
        "tcpxctl.discover-pair/1": discover::DiscoverPairDocument<'static>,
        "tcpxctl.discover/1": discover::DiscoverDocument<'static>,
        "tcpxctl.doctor-fix-env/1": doctor::FixEnvDocument<'static>,
        "tcpxctl.doctor-fleet/1": doctor_fleet::FleetDocument<'static>,
        "tcpxctl.doctor/1": doctor_table::DoctorDocument<'static>,
        "tcpxctl.dry-run/1": dry_run::DryRunDocument<'static>,
        "tcpxctl.error/1": failure::ErrorDocument<'static>,
        "tcpxctl.evidence/1": diagnose::EvidenceDocument<'static>,
        "tcpxctl.explain/1": diagnose::ExplainDocument<'static>,
        "tcpxctl.facts/1": doctor::FactsDocument<'static>,
        "tcpxctl.frame/1": Frame,
        "tcpxctl.gpu/1": gpu::GpuDocument<'static>,
        "tcpxctl.handshake/1": handshake::HandshakeDocument<'static>,
        "tcpxctl.history/1": history::HistoryDocument<'static>,
        "tcpxctl.logs-check/1": logs::LogsCheckDocument<'static>,
        "tcpxctl.logs/1": Logs,
        "tcpxctl.man/1": generate::ManDocument<'static>,
        "tcpxctl.mr/1": mr::MrDocument<'static>,
        "tcpxctl.pruned/1": history::PrunedDocument<'static>,
        "tcpxctl.rates/1": history::RatesDocument<'static>,
        "tcpxctl.rehearsals/1": rehearse::RehearsalsDocument<'static>,
        "tcpxctl.rehearse/1": rehearse::RehearseDocument<'static>,
        "tcpxctl.report/2": Report,
        "tcpxctl.run/2": Run,
        "tcpxctl.selftest-endpoint/1": selftest::EndpointDocument<'static>,
        "tcpxctl.selftest-rows/1": selftest::SelftestRowsDocument,
        "tcpxctl.selftest/1": selftest::SelftestDocument<'static>,
        "tcpxctl.shrink/1": shrink::ShrinkDocument<'static>,
        "tcpxctl.slower/1": history::SlowerDocument<'static>,
        "tcpxctl.sweep/1": run::SweepDocument<'static>,
        "tcpxctl.tap/1": tap::TapDocument,
        "tcpxctl.topic/1": topic::TopicDocument,
        "tcpxctl.traced/1": trace::TracedDocument<'static>,
        "tcpxctl.tune/1": tune::TuneDocument,
    }
}

/// `tcpxctl.run/2` is `docs/schemas/tcpxctl.run-2.json`.
fn file_of(kind: &str) -> PathBuf {
    let name = kind.replace('/', "-");
    folder().join(format!("{name}.json"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas")
}

#[test]
fn every_schema_is_checked_in() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut expected = BTreeSet::new();
    for (kind, schema) in all() {
        let (path, text) = (file_of(kind), format!("{schema:#}\n"));
        if update {
            std::fs::create_dir_all(folder()).expect("made");
            std::fs::write(&path, &text).expect("written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "{kind} is out of step: UPDATE_DOCS=1 cargo test -p tcpxctl --lib schemas"
        );
        expected.insert(path);
    }
    let files = std::fs::read_dir(folder()).expect("a folder");
    let found: BTreeSet<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(found, expected);
}

/// Read and no longer written.
const FORMER: [&str; 1] = ["tcpxctl.run/1"];
/// Of no version yet: tests of what a newer program may have written.
const FUTURE: [&str; 2] = ["tcpxctl.run/3", "tcpxctl.run/9"];

#[test]
fn every_kind_that_the_source_names_has_a_schema() {
    let mut named = BTreeSet::new();
    for top in ["src", "probes"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(top);
        for path in files_below(&folder, "rs", &|_| true) {
            let text = std::fs::read_to_string(path).expect("readable");
            let literals = text.split('"').filter(|literal| is_kind(literal));
            named.extend(literals.map(str::to_owned));
        }
    }
    for known in FORMER.iter().chain(&FUTURE) {
        named.remove(*known);
    }
    let known: BTreeSet<String> = all().into_keys().map(str::to_owned).collect();
    assert_eq!(named, known);
}

fn is_kind(literal: &str) -> bool {
    let parts = literal
        .strip_prefix("tcpxctl.")
        .and_then(|rest| rest.split_once('/'));
    parts.is_some_and(|(name, version)| {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let is_digit = |c: char| c.is_ascii_digit();
        !name.is_empty()
            && name.chars().all(is_name)
            && !version.is_empty()
            && version.chars().all(is_digit)
    })
}
