//! Makes evidence of a run's state, now or at an earlier moment.
//!
//! How often a channel was tested while it stood still distinguishes most causes, so
//! earlier samples are used too. What a worker did after it failed is left out: it would
//! hide the cause.
#![forbid(unsafe_code)]

use super::evidence::{
    Evidence, EvidenceAgent, EvidenceChannel, EvidenceMachine, EvidenceNic, EvidenceNode,
    EvidenceStall, Gone, Moved, Said, SignatureLines, Starved, StoppedAgent, Watched, lacked_cpu,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use tcpx_logs::{Phase as LogPhase, Severity as LineSeverity, SignatureCatalogue};
use tcpx_node::NodeFacts;
use tcpx_run_model::counters::{ChannelNow, Frame};
use tcpx_run_model::finding::Subject;
use tcpx_run_model::ids::{Lane, NodeId, PairId, WorkerId};
use tcpx_run_model::live::TESTS_PER_NOTE;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::record::RunRecord;
use tcpx_run_model::results::Driving;
use tcpx_run_model::state::{CallCounts, CallSample, KeptLine, NodeState, RunState, WorkerState};
use tcpx_run_model::timeline::Timeline;
use tcpx_words::log::LogSummary;
use tcpx_words::payload::Unit;
use tcpx_words::plugin_family::PluginFamily;
use tcpx_words::units::{counted, printable};

/// Most signatures that are judged of one worker.
const LINES_MAX: usize = 64;
/// Characters of a line that are quoted.
const LINE_CHARS_MAX: usize = 400;
/// Most workers that are judged.
const NODES_MAX: usize = 4096;
const SETTINGS_MAX: usize = 512;

/// The embedded signatures; a test parses them.
static SIGNATURES: LazyLock<Option<SignatureCatalogue>> =
    LazyLock::new(|| SignatureCatalogue::embedded().ok());

/// Meanings of the lines of each worker, kept between judgements: lines are only added.
#[derive(Debug, Default)]
pub(super) struct KnownLines {
    by_worker: BTreeMap<WorkerId, Vec<Meaning>>,
}

#[derive(Debug, Clone)]
enum Meaning {
    Known {
        signature: String,
        severity: LineSeverity,
    },
    /// A WARN without a signature.
    UnknownWarning,
    Nothing,
}

impl Evidence {
    /// Everything that a run's state holds now.
    pub fn from_state(state: &RunState) -> Self {
        Self::with_known_lines(state, &mut KnownLines::default())
    }

    pub(super) fn with_known_lines(state: &RunState, known: &mut KnownLines) -> Self {
        let workers = state.workers.values().take(NODES_MAX);
        Self {
            scenario: state.scenario.clone(),
            stall_after_ms: stall_after_ms(state),
            now_ms: state.now_ms,
            stall: state.stall().map(|stall| EvidenceStall {
                at_ms: stall.at_ms,
                recovered: stall.recovered,
                starved: starved(state, stall.at_ms),
            }),
            outcome: state.ended.as_ref().map(|ended| ended.outcome),
            nodes: workers.map(|worker| node(state, worker, known)).collect(),
            agents: agents(state),
            launcher_said: state.launcher_said.iter().map(Said::from).collect(),
            moved: Vec::new(),
            damaged: state
                .workers
                .values()
                .filter_map(|worker| unrecorded(state, worker))
                .collect(),
        }
    }

    /// The counters at a moment, nanoseconds since 1970, for [`crate::turn::whose_turn`]. Not
    /// for the rules: everything but counters and phases is left out, because a view asks for
    /// each frame.
    pub fn at(timeline: &Timeline, at_ns: u64) -> Self {
        let state = &timeline.state;
        let at_ms = at_ns.saturating_sub(state.at_ns(0.0)) as f64 / 1e6;
        let workers = state.workers.values().take(NODES_MAX);
        Self {
            stall_after_ms: stall_after_ms(state),
            now_ms: at_ms,
            outcome: state
                .ended
                .as_ref()
                .filter(|_| at_ms >= state.now_ms)
                .map(|ended| ended.outcome),
            nodes: workers
                .map(|worker| node_at(timeline, worker, at_ns))
                .collect(),
            ..Self::default()
        }
    }

    /// Adds what only the record of a run holds: measured transfers and line counts.
    pub fn add_record(&mut self, run: &RunRecord) {
        self.outcome = Some(run.outcome);
        for (pair, node, record) in run.workers() {
            let is = |one: &&mut EvidenceNode| {
                one.subject.node == node && one.subject.pair == Some(pair)
            };
            if let Some(worker) = self.nodes.iter_mut().find(is) {
                worker.logged = worker.logged.or(record.log_lines.map(below_warn));
                worker.without_cpu = record.driving.as_ref().and_then(Driving::share_without_cpu);
            }
        }
        let moved = run.transfers.iter().map(|one| Moved {
            pair: one.pair,
            from: one.from,
            to: one.to,
            bytes: one.bytes,
            seconds: one.seconds,
        });
        self.moved = moved.collect();
    }
}

fn agents(state: &RunState) -> Vec<EvidenceAgent> {
    let is_lost = |node: &NodeState| {
        node.broken.is_some() || node.gone_ms.is_some() || node.stopped.is_some()
    };
    let are_told = !state.launcher_said.is_empty() || state.nodes.iter().any(is_lost);
    let agent = |(node, known): (NodeId, &NodeState)| EvidenceAgent {
        node,
        name: state.names.node(node),
        left: known.broken.as_ref().map(Said::from),
        gone_ms: known.gone_ms,
        stopped: known.stopped.as_ref().map(|stopped| StoppedAgent {
            at_ms: stopped.at_ms,
            pid: stopped.what,
        }),
    };
    let nodes = (0..).map(NodeId).zip(&state.nodes);
    nodes.filter(|_| are_told).map(agent).collect()
}

/// A worker of the pair whose stall was declared at this moment, if every channel that it used and
/// that stood still then did so for lack of a CPU. Where an end of a transfer cannot run, the
/// other end stands still too.
fn starved(state: &RunState, at_ms: f64) -> Option<Starved> {
    let pair = state
        .pairs
        .iter()
        .position(|pair| pair.stall.is_some_and(|stall| stall.at_ms == at_ms))?;
    let ends = state.ends(PairId(u32::try_from(pair).ok()?));
    ends.into_iter().flatten().find_map(|worker| {
        let picture = worker.at_stall.as_ref()?;
        let counts: Vec<CallCounts> = picture
            .channels
            .iter()
            .map(CallCounts::of_channel)
            .collect();
        let process_calls = calls(&counts);
        // One that was driven all the same stood still for another reason.
        let lacked = |(place, now): &(usize, &ChannelNow)| {
            let looks = &worker.looks_at_stall;
            let watched = watched(looks, *place, now, process_calls, picture.at_ms);
            let is_free = |watched: Watched| watched.is_driven() || watched.leaves_it_alone();
            lacked_cpu(now) && !watched.is_some_and(is_free)
        };
        // The samples of a machine without a free CPU are late.
        let stood = |(_, now): &(usize, &ChannelNow)| {
            !now.closed && now.posted > 0 && now.quiet_ms >= state.stall_after_ms / 2
        };
        let stood = || picture.channels.iter().enumerate().filter(stood);
        let (_, longest) = stood().max_by_key(|(_, now)| now.quiet_ms)?;
        stood().all(|one| lacked(&one)).then(|| Starved {
            name: subject(state, worker).name,
            quiet_ms: longest.quiet_ms,
            no_cpu_ms: longest.no_cpu_ms,
        })
    })
}

/// Milliseconds without a change that are a stall. A run without its scenario does not say,
/// but a stall that it declared does: some channel had been quiet for as long by then.
fn stall_after_ms(state: &RunState) -> u64 {
    let mut stall_after_ms = state.stall_after_ms;
    if state.scenario.is_some() {
        return stall_after_ms;
    }
    for (index, _) in state
        .pairs
        .iter()
        .enumerate()
        .filter(|(_, pair)| pair.stall.is_some())
    {
        let ends = state.ends(PairId(u32::try_from(index).unwrap_or(u32::MAX)));
        let pictures = ends
            .into_iter()
            .flatten()
            .filter_map(|worker| worker.at_stall.as_ref());
        let quiet_ms = pictures
            .flat_map(|picture| &picture.channels)
            .filter(|channel| !channel.closed && channel.posted > channel.consumed)
            .map(|channel| channel.quiet_ms)
            .max();
        stall_after_ms = stall_after_ms.min(quiet_ms.unwrap_or(u64::MAX));
    }
    stall_after_ms
}

/// Of the numbers of all lines and of WARN lines, the number of the others.
fn below_warn((lines, warnings): (u64, u64)) -> u64 {
    lines.saturating_sub(warnings)
}

/// The number of lines below WARN that NCCL would print.
fn printed_below_warn(log: LogSummary) -> u64 {
    below_warn((log.lines, log.warnings)).saturating_sub(log.unprinted)
}

fn node_at(timeline: &Timeline, worker: &WorkerState, at_ns: u64) -> EvidenceNode {
    let state = &timeline.state;
    let has_ended = worker
        .exit
        .as_ref()
        .is_some_and(|exit| state.at_ns(exit.at_ms) <= at_ns);
    let is_over = has_ended || worker.is_gone();
    let series = timeline.series.get(&worker.id);
    let sample = series.and_then(|series| series.at(at_ns));
    let before = sample.and_then(|sample| series?.at(sample.at_ns.saturating_sub(ONE_CALL_NS)));
    let channel = |place: usize, now: &ChannelNow, stale_ms: u64| EvidenceChannel {
        now: ChannelNow {
            quiet_ms: now.quiet_ms.saturating_add(stale_ms),
            in_call: now.in_call.clone().filter(|_| {
                let before = before.and_then(|sample| sample.channels.get(place));
                before.is_some_and(|before| {
                    CallCounts::of_channel(before).shows_one_call(&CallCounts::of_channel(now))
                })
            }),
            ..now.clone()
        },
        watched: sample.and_then(|sample| {
            // Watched for less time, as far back as its samples go.
            let earlier = series?.at(sample.at_ns.saturating_sub(RATE_NS));
            let earlier = earlier.or_else(|| series?.iter().next())?;
            let ms = sample.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e6;
            let before = earlier.channels.get(place)?;
            // Only of a stretch in which none of its requests changed state.
            (now.quiet_ms as f64 >= ms).then(|| {
                let counts = [before, now].map(CallCounts::of_channel);
                between(&counts[0], &counts[1], ms)
            })
        }),
        ..EvidenceChannel::default()
    };
    let channels = sample.map(|sample| {
        let stale_ms = if is_over {
            0
        } else {
            at_ns.saturating_sub(sample.at_ns) / 1_000_000
        };
        sample
            .channels
            .iter()
            .enumerate()
            .map(|(place, now)| channel(place, now, stale_ms))
            .collect()
    });
    EvidenceNode {
        phase: timeline.phase(worker.id, at_ns),
        sampled_ms: sample.map(|sample| sample.at_ns.saturating_sub(state.at_ns(0.0)) as f64 / 1e6),
        channels: channels.unwrap_or_default(),
        ..EvidenceNode::new(subject(state, worker))
    }
}

/// Time between two samples that show one call: a channel that is tested all the time is inside `test` in most samples.
const ONE_CALL_NS: u64 = 200_000_000;
/// Time over which a view counts the tests of a channel.
const RATE_NS: u64 = 1_000_000_000;

/// The worker, with the name of a process's endpoint.
fn subject(state: &RunState, worker: &WorkerState) -> Subject {
    let mut subject = Subject::worker(worker.id, &state.names);
    if let Some(process) = &worker.process {
        subject.name = process.with_endpoint(&subject.name);
    }
    subject
}

/// The lanes of a worker's pair, as seen from its own end.
fn lanes(state: &RunState, worker: &WorkerState) -> Vec<Lane> {
    let Some(pair) = worker.id.pair() else {
        return Vec::new();
    };
    let intro = state.names.pairs.get(pair.index());
    let is_second = intro.is_some_and(|intro| intro.nodes[1] == worker.id.node);
    let own = |lane: &Lane| if is_second { lane.reversed() } else { *lane };
    state.lanes(pair).iter().map(own).collect()
}

/// Says so if the recorder of a process had no place for some of its comms.
fn unrecorded(state: &RunState, worker: &WorkerState) -> Option<String> {
    let count = worker.process.as_ref()?.unrecorded;
    (count > 0).then(|| {
        format!(
            "the recorder of {} had no slot or no memory for {} (`df` of its folder): nothing is known of them",
            subject(state, worker).name,
            counted(count as usize, "comm")
        )
    })
}

fn gone(worker: &WorkerState) -> Option<Gone> {
    let process = worker.process.as_ref().filter(|process| process.is_gone)?;
    Some(Gone {
        how: process.ended.clone(),
        signal: process.signal,
    })
}

fn node(state: &RunState, worker: &WorkerState, known: &mut KnownLines) -> EvidenceNode {
    let (sampled_ms, counters) = worker.judged();
    let of_node = state.node(worker.id.node);
    let facts = of_node.and_then(|node| node.facts.as_deref());
    let in_call = worker
        .exit
        .as_ref()
        .and_then(|exit| exit.what.in_call.clone());
    let setup = worker
        .process
        .as_ref()
        .and_then(|process| process.setup.as_ref());
    let connecting = worker
        .process
        .as_ref()
        .and_then(|process| process.connecting.as_ref());
    let mut node = EvidenceNode {
        lanes: lanes(state, worker),
        phase: worker.phase,
        phase_ms: worker.phase_ms,
        sampled_ms,
        channels: channels(worker, counters, &worker.looks, sampled_ms.unwrap_or(0.0)),
        gone: gone(worker),
        setup: setup.cloned(),
        setup_ms: setup.and_then(|calls| Some(state.ms(calls.at_ns?))),
        inside: in_call.or_else(|| worker.process.as_ref()?.inside.clone()),
        inside_since_ms: worker
            .process
            .as_ref()
            .and_then(|process| Some(state.ms(process.inside_since_ns?))),
        connecting: connecting.cloned(),
        connecting_ms: connecting.map(|one| state.ms(one.since_ns)),
        lines: known.lines(worker),
        last_printed: worker
            .last_printed()
            .filter(|_| worker.exit.is_some())
            .map(quoted),
        without_cpu: None,
        logged: worker.log.map(printed_below_warn),
        plugin: plugin(worker),
        devices: devices(worker),
        family: family(worker),
        exit: worker.exit.clone(),
        failure: worker.failure.clone(),
        verified: worker.verified,
        mismatch: mismatch_words(worker),
        machine: facts.map(machine),
        frame: worker.frame.as_ref().map(|framed| framed.frame.clone()),
        earlier_frames: worker
            .earlier_frames
            .iter()
            .map(|framed| Frame::clone(&framed.frame))
            .collect(),
        network: worker
            .transfer
            .as_ref()
            .and_then(|transfer| transfer.network.clone()),
        ..EvidenceNode::new(subject(state, worker))
    };
    for line in worker.lines() {
        node.listened_on_gpus.extend(listened_on_gpu(&line.text));
        if let Some((label, value)) = setting(&line.text)
            && node.settings.len() < SETTINGS_MAX
        {
            node.settings.insert(label, value);
        }
    }
    node.settings
        .extend(facts.iter().flat_map(|facts| facts.environment.clone()));
    node.settings.extend(worker.env.clone());
    node
}

fn channels(
    worker: &WorkerState,
    counters: &[ChannelNow],
    looks: &VecDeque<CallSample>,
    at_ms: f64,
) -> Vec<EvidenceChannel> {
    let in_doubt = if worker.is_gone() { TESTS_PER_NOTE } else { 0 };
    let counts: Vec<CallCounts> = counters.iter().map(CallCounts::of_channel).collect();
    let process_calls = calls(&counts);
    let channel = |(place, now): (usize, &ChannelNow)| EvidenceChannel {
        nic: worker.nic(now.device).map(printable).unwrap_or_default(),
        watched: watched(looks, place, now, process_calls, at_ms).map(|watched| Watched {
            tests_in_doubt: watched.tests.min(in_doubt),
            ..watched
        }),
        now: now.clone(),
    };
    counters.iter().enumerate().map(channel).collect()
}

/// What a channel did since one of its requests last changed state, as far back as looks
/// were kept.
fn watched(
    looks: &VecDeque<CallSample>,
    place: usize,
    now: &ChannelNow,
    process_calls: u64,
    at_ms: f64,
) -> Option<Watched> {
    let since_ms = at_ms - now.quiet_ms as f64;
    let is_inside = (looks.back()).is_some_and(|look| look.channels.iter().any(|one| one.in_call));
    let after = CallCounts::of_channel(now);
    // By the clock of its node: counters arrive late where a CPU is missing.
    let mut looks = looks
        .iter()
        .filter(|look| look.at_ms >= since_ms && look.at_ms < at_ms)
        .filter_map(|look| Some((look.channels.get(place)?, calls(&look.channels))))
        .filter(|(look, _)| look.quiet_ms < after.quiet_ms);
    let (before, mut process) = looks.next()?;
    let (mut tests, mut turns, mut process_turns) = (before.tests, 0, 0);
    for (look, calls) in looks.chain([(&after, process_calls)]) {
        turns += u64::from(look.tests > tests);
        process_turns += u64::from(calls > process);
        (tests, process) = (look.tests, calls);
    }
    let ms = after.quiet_ms - before.quiet_ms;
    Some(Watched {
        turns,
        process_turns,
        // Of a thread that is inside a call, on whichever channel, it is not known what it does.
        is_of_its_thread: now.thread.is_some() && !is_inside,
        ..between(before, &after, ms as f64)
    })
}

/// All calls of a process.
fn calls<'a>(channels: impl IntoIterator<Item = &'a CallCounts>) -> u64 {
    let calls = channels.into_iter().map(|one| one.calls);
    calls.fold(0, u64::saturating_add)
}

/// What a channel did between two looks that are `ms` apart.
fn between(before: &CallCounts, after: &CallCounts, ms: f64) -> Watched {
    Watched {
        ms,
        tests: after.tests.saturating_sub(before.tests),
        no_cpu_ms: match before.thread == after.thread {
            true => after.no_cpu_ms.saturating_sub(before.no_cpu_ms),
            // Of another thread or of all before: at most what is known of this one.
            false => after.no_cpu_ms,
        },
        thread_turns: match before.thread == after.thread {
            true => after.turns.saturating_sub(before.turns),
            false => 0,
        },
        null_requests: after.null_requests.saturating_sub(before.null_requests),
        in_one_call: before.shows_one_call(after),
        ..Watched::default()
    }
}

fn plugin(worker: &WorkerState) -> Option<String> {
    if let Some(process) = &worker.process {
        return Some(process.plugin.clone()).filter(|plugin| !plugin.is_empty());
    }
    let plugin = &worker.plugin.as_ref()?.plugin;
    let version = plugin.version.as_deref().unwrap_or_default();
    Some(printable(format!("{} {version}", plugin.name).trim()))
}

/// The family of the loaded plugin; of a process only by the name of its plugin.
fn family(worker: &WorkerState) -> Option<PluginFamily> {
    let loaded = worker.plugin.as_ref().map(|ready| ready.plugin.family);
    loaded.or_else(|| Some(PluginFamily::of_label(&worker.process.as_ref()?.plugin)))
}

fn mismatch_words(worker: &WorkerState) -> Option<String> {
    let wrong = worker.mismatch.as_ref()?;
    let unit = Unit::of_kv(worker.transfer.as_ref().is_some_and(|one| one.kv.is_some()));
    Some(format!(
        "{}: {} bytes wrong from byte {}, {:?}",
        wrong.place(unit),
        wrong.wrong_bytes,
        wrong.offset,
        wrong.kind
    ))
}

/// `... cudaDev 3, listen port 4711`: the GPU that was current for a listen comm.
fn listened_on_gpu(text: &str) -> Option<u32> {
    let rest = text
        .split_once("cudaDev ")
        .filter(|_| text.contains(" listen port "))?
        .1;
    rest.split([' ', ',']).next()?.parse().ok()
}

/// `NET/GPUDirectTCPX : nthreads: 1`: a setting that the plugin prints at init.
fn setting(text: &str) -> Option<(String, String)> {
    let (label, value) = text
        .strip_prefix("NET/")?
        .split_once(" : ")?
        .1
        .rsplit_once(": ")?;
    value.parse::<i64>().ok()?;
    Some((printable(label), value.to_owned()))
}

impl KnownLines {
    fn lines(&mut self, worker: &WorkerState) -> Vec<SignatureLines> {
        let meanings = self.by_worker.entry(worker.id).or_default();
        let kept = worker.lines();
        if kept.len() < meanings.len() {
            // A worker of another run with the same id.
            meanings.clear();
        }
        meanings.extend(kept[meanings.len()..].iter().map(meaning));
        let mut lines: Vec<SignatureLines> = Vec::new();
        for (line, meaning) in kept.iter().zip(meanings.iter()) {
            let (signature, severity) = match meaning {
                Meaning::Known {
                    signature,
                    severity,
                } => (Some(signature), *severity),
                Meaning::UnknownWarning => (None, LineSeverity::Warning),
                Meaning::Nothing => continue,
            };
            let text = quoted(&line.text);
            // Lines without a signature are the same only if they say the same.
            let is_same = |one: &&mut SignatureLines| {
                one.signature.as_ref() == signature && (signature.is_some() || one.text == text)
            };
            if let Some(same) = lines.iter_mut().find(is_same) {
                same.count = same.count.saturating_add(line.times());
                same.last_ms = same.last_ms.max(line.last_ms);
            } else if lines.len() < LINES_MAX {
                lines.push(SignatureLines {
                    signature: signature.cloned(),
                    severity,
                    text,
                    count: line.times(),
                    first_ms: line.first_ms,
                    last_ms: line.last_ms,
                    phase: line.phase,
                });
            }
        }
        lines
    }
}

/// Reads the catalogue of log lines, which otherwise happens at the first line.
pub(super) fn read_catalogue() {
    LazyLock::force(&SIGNATURES);
}

fn meaning(line: &KeptLine) -> Meaning {
    let Some(signatures) = SIGNATURES.as_ref() else {
        return Meaning::Nothing;
    };
    match signatures.matches(line.text.as_bytes()).into_iter().next() {
        Some(known) => {
            let is_benign = known.benign.contains(&log_phase(line.phase));
            let severity = if is_benign {
                LineSeverity::Benign
            } else {
                known.severity
            };
            Meaning::Known {
                signature: known.name.clone(),
                severity,
            }
        }
        None if line.is_warning() => Meaning::UnknownWarning,
        None => Meaning::Nothing,
    }
}

fn log_phase(phase: Option<Phase>) -> LogPhase {
    match phase {
        Some(Phase::WarmUp | Phase::Measuring) | None => LogPhase::Transfer,
        Some(Phase::Closing | Phase::Finished) => LogPhase::Close,
        Some(_) => LogPhase::Setup,
    }
}

/// A line as findings quote it.
fn quoted(text: &str) -> String {
    printable(text).chars().take(LINE_CHARS_MAX).collect()
}

/// Names of the interfaces that the worker's plugin lists.
fn devices(worker: &WorkerState) -> Vec<String> {
    let plugin = worker.plugin.iter();
    let devices = plugin.flat_map(|plugin| &plugin.devices);
    devices.map(|device| printable(&device.name)).collect()
}

fn machine(facts: &NodeFacts) -> EvidenceMachine {
    let nic = |nic: &tcpx_node::Nic| EvidenceNic {
        name: nic.name.clone(),
        up: nic.is_up(),
        down: nic.down(),
        mbit_per_s: nic.speed.mbit_per_s(),
        pci_root: nic.pci_root.known().cloned(),
    };
    let gpus = facts
        .gpus
        .devices
        .known()
        .map(Vec::as_slice)
        .unwrap_or_default();
    EvidenceMachine {
        host: Some(facts.host.clone()),
        nics: facts
            .nics
            .known()
            .map(|nics| nics.iter().map(nic).collect())
            .unwrap_or_default(),
        gpu_roots: gpus
            .iter()
            .map(|gpu| gpu.pci_root.known().cloned())
            .collect(),
    }
}
