//! What the log of one end comes to.
//!
//! A log that ends says where the program was, not for how long: a program whose log was copied
//! while it ran looks like one that stands still. So a summary says "the log ends".
#![forbid(unsafe_code)]

use super::super::report::SignatureFinding;
use super::super::signature::Severity;
use super::line::{Failure, HarnessRole, Step};
use super::program::{ChannelKey, Program, Spot};
use super::report::{HarnessState, HarnessVerdict};

/// The single-process program logs its first tests only.
pub(super) const TESTS_LOGGED: u64 = 50;
/// A rate that no NIC of these machines carries, in 10^9 bytes per second.
pub(super) const TOO_FAST: f64 = 25.0;

/// Shortest silence that a verdict tells.
const SILENT_MIN_US: i64 = 1_000_000;

const EVERY_CHANNEL: &str = "test the oldest request of this and of every other channel after each post \
    (progress_channel, not blocking), not only when a window is full: a plugin moves data inside test alone, and only \
    for the comm that is tested";
const FULL_WINDOW: &str = "when a window is full, test until its oldest request is released, and test the other \
    channels in the same loop";
const TAP: &str = "run both ends under `tcpxctl tap -- PROGRAM` and look at `tcpxctl watch`: it shows every request \
    and every call of test, which stands in for next_transmitting in a TRACE log";
const LOG_ALL_TESTS: &str =
    "log every test (raise debug_count in try_release_oldest), or the last one of each second";
/// A request is done, and its program has not given its slot back.
pub(super) const DONE_NOT_RELEASED: &str = "done-not-released";
const CONSUME: &str = "finish the unpack of the oldest done receive, call irecv_consumed for it, and only then look for \
    a free slot: a receive holds its slot until it is consumed";
const KERNEL: &str = "if its unpack kernel does not end: check the launch's error and cudaEventQuery on its event, and \
    that no other work blocks its stream";
const CHUNK_SIZE: &str =
    "set NCCL_DYNAMIC_CHUNK_SIZE=524288 on both nodes: unset or 0 looks the same, with no error";

/// One end, and what its file says beside its own lines.
pub(super) struct Side<'a> {
    pub index: usize,
    pub file: &'a str,
    pub program: &'a Program,
    /// Failures that lines of the plugin, of NCCL or of CUDA name in the same file.
    pub causes: Vec<&'a SignatureFinding>,
    /// From its last line to the last line of all.
    pub silent_us: Option<i64>,
}

impl Side<'_> {
    fn fatal(&self) -> Option<&SignatureFinding> {
        let mut causes = self
            .causes
            .iter()
            .filter(|one| one.severity == Severity::Fatal);
        causes.next().copied()
    }

    /// That others go on, which shows that the log was not copied at this end's last line.
    fn silence(&self) -> Option<String> {
        let seconds = self.silent_us.filter(|us| *us >= SILENT_MIN_US)? / 1_000_000;
        let name = name(self.program);
        Some(format!(
            "{name}: it says nothing in the last {seconds} s, and other lines go on"
        ))
    }

    pub(super) fn has(&self, signature: &str) -> bool {
        self.causes.iter().any(|one| one.signature == signature)
    }
}

/// A verdict in the making.
pub(super) struct Case {
    pub condition: &'static str,
    pub state: HarnessState,
    pub summary: String,
    pub turn: Option<HarnessRole>,
    pub next: Vec<String>,
    pub unseen: Vec<String>,
}

impl Case {
    pub(super) fn new(
        condition: &'static str,
        state: HarnessState,
        summary: impl Into<String>,
    ) -> Self {
        let summary = summary.into();
        Self {
            condition,
            state,
            summary,
            turn: None,
            next: Vec::new(),
            unseen: Vec::new(),
        }
    }

    pub(super) fn failed(condition: &'static str, summary: impl Into<String>) -> Self {
        Self::new(condition, HarnessState::Failed, summary)
    }

    pub(super) fn waits(condition: &'static str, summary: impl Into<String>) -> Self {
        Self::new(condition, HarnessState::Waits, summary)
    }

    pub(super) fn turn(self, turn: Option<HarnessRole>) -> Self {
        Self { turn, ..self }
    }

    pub(super) fn next(mut self, step: impl Into<String>) -> Self {
        self.next.push(step.into());
        self
    }

    pub(super) fn unseen(mut self, what: impl Into<String>) -> Self {
        self.unseen.push(what.into());
        self
    }

    /// The steps of the users' own guide for a window that does not empty.
    pub(super) fn progress_steps(self, program: &Program) -> Self {
        let case = self
            .next(EVERY_CHANNEL)
            .next(FULL_WINDOW)
            .next(CHUNK_SIZE)
            .next(TAP);
        if reached_log_limit(program) {
            case.next(LOG_ALL_TESTS)
        } else {
            case
        }
    }

    pub(super) fn verdict(self, sides: &[&Side<'_>]) -> HarnessVerdict {
        let limit = |side: &&&Side<'_>| reached_log_limit(side.program);
        let mut cannot_tell = self.unseen;
        cannot_tell.extend(sides.iter().filter(limit).map(|side| {
            format!(
                "what test returned at the {} after its line {}: the program logs its first {TESTS_LOGGED} tests only, so \
                 their silence proves nothing",
                name(side.program),
                side.program.tests.last_line
            )
        }));
        if self.state == HarnessState::Waits
            && sides.iter().all(|side| side.program.last.time_us.is_none())
        {
            cannot_tell.push("how long it has waited, or whether the log was copied while it ran: its lines have no time".to_owned());
        }
        let mut because: Vec<String> = sides.iter().flat_map(|side| facts(side)).collect();
        if self.state == HarnessState::Waits {
            because.extend(sides.iter().filter_map(|side| side.silence()));
        }
        HarnessVerdict {
            condition: self.condition.into(),
            state: self.state,
            programs: sides.iter().map(|side| side.index).collect(),
            summary: self.summary,
            because,
            turn: self.turn,
            next_steps: self.next,
            cannot_tell,
        }
    }
}

pub(super) fn reached_log_limit(program: &Program) -> bool {
    program.tests.count == TESTS_LOGGED
}

/// `server`, `client`, or `program` if no line says it.
pub(super) fn name(program: &Program) -> &'static str {
    program.role.map_or("program", HarnessRole::name)
}

pub(super) fn other(role: HarnessRole) -> HarnessRole {
    match role {
        HarnessRole::Server => HarnessRole::Client,
        HarnessRole::Client => HarnessRole::Server,
    }
}

/// The verdict on an end whose peer's log was not read.
pub(super) fn alone(side: &Side<'_>) -> HarnessVerdict {
    let case = case(side);
    let lacks_peer = matches!(case.state, HarnessState::Waits | HarnessState::Failed);
    let peer = side.program.role.map_or("peer", |role| other(role).name());
    let case = if lacks_peer {
        case.unseen(format!(
            "what the {peer} did: read its log too, `tcpxctl logs SERVER.log CLIENT.log`"
        ))
    } else {
        case
    };
    case.verdict(&[side])
}

/// What an end comes to by its own file.
pub(super) fn case(side: &Side<'_>) -> Case {
    let program = side.program;
    if let Some(fatal) = side.fatal().filter(|_| program.spot != Spot::Ended) {
        let case = Case::failed(
            "plugin-exited",
            format!("{} ended the process: {}", fatal.signature, fatal.meaning),
        );
        let next = fatal.next_step.iter().cloned();
        return next.fold(case.turn(program.role), Case::next);
    }
    if let Some(case) = misused(side) {
        return case;
    }
    if let Some((failure, _)) = &program.failure {
        return failed(side, *failure);
    }
    if program.peer_closed_early > 0 && program.spot != Spot::Ended {
        return peer_closed(
            program,
            "the peer closed while a request was not done, and the program goes on testing it",
        );
    }
    if program.tests.run_with_rc > 0 && program.spot != Spot::Ended {
        return tests_fail(program);
    }
    match program.spot {
        Spot::Starting if program.tests.run > 0 => never_done(side),
        Spot::Starting => Case::waits("starting", "the log ends before the programs find each other"),
        Spot::Setup(step) => setup(program, step),
        Spot::WindowFull => window_full(side),
        Spot::InCall => Case::waits(
            "post-does-not-return",
            format!("the log ends inside {} of {}", call(program), at(program)),
        )
        .next("in the plugin, a post waits until the connection is made: read its lines about this connection")
        .next("`gdb -p PID -batch -ex 'thread apply all bt'` shows where the call is"),
        Spot::Transfer | Spot::Posted if program.tests.run > 0 => never_done(side),
        Spot::Transfer => silent(side),
        Spot::Posted => Case::waits("stops-after-post", format!("the log ends after a post to {}", at(program)))
            .progress_steps(program),
        Spot::Drain => drain(program),
        Spot::Rates => rates(program),
        Spot::Between if !has_all(program) => between(program),
        Spot::Between | Spot::Ended => ended(program),
    }
}

fn call(program: &Program) -> &'static str {
    match program.role {
        Some(HarnessRole::Client) => "isend",
        _ => "irecv",
    }
}

fn request(program: &Program) -> &'static str {
    match program.role {
        Some(HarnessRole::Client) => "send",
        Some(HarnessRole::Server) => "receive",
        None => "request",
    }
}

/// The channel that the program is at, as its lines name it.
fn at(program: &Program) -> String {
    program
        .at
        .map_or_else(|| "a channel".to_owned(), channel_name)
}

pub(super) fn channel_name((gpu, channel): ChannelKey) -> String {
    match (gpu, channel) {
        (Some(gpu), Some(channel)) => format!("GPU {gpu} channel {channel}"),
        (None, Some(channel)) => format!("channel {channel}"),
        (Some(gpu), None) => format!("GPU {gpu}"),
        (None, None) => "a channel".to_owned(),
    }
}

/// Lines of the plugin that name a call which breaks its rules. The program's own lines tell only
/// that something failed then, or that its window is full.
const MISUSES: [&str; 4] = [
    "consumed-too-early",
    "consumed-out-of-order",
    "consumed-null",
    "test-out-of-order",
];

/// The first call that the plugin refused because the program broke a rule, unless the program
/// ended or says itself which call was refused.
fn misused(side: &Side<'_>) -> Option<Case> {
    let program = side.program;
    let is_vague = |failure: &(Failure, _)| matches!(failure.0, Failure::Other | Failure::Consume);
    if program.spot == Spot::Ended || !program.failure.as_ref().is_none_or(is_vague) {
        return None;
    }
    let names = MISUSES.into_iter().flat_map(|name| {
        let of_name = side.causes.iter().filter(move |one| one.signature == name);
        of_name.map(move |one| (name, one))
    });
    let (name, found) = names.min_by_key(|(_, one)| one.first.line)?;
    let case = Case::failed(name, found.meaning.clone()).turn(program.role);
    Some(found.next_step.iter().cloned().fold(case, Case::next))
}

// ---- failures ---------------------------------------------------------------------------

fn failed(side: &Side<'_>, failure: Failure) -> Case {
    let program = side.program;
    let role = program.role;
    match failure {
        Failure::Bootstrap => Case::failed("bootstrap-failed", "the two programs did not exchange their connect handles")
            .next("start the server first: this client tries once")
            .next("compare ports and addresses of both ends; `ss -ltnp` shows who listens"),
        Failure::Accept => Case::failed("accept-gave-up", format!("accept of {} returned no comm within its retries", at(program)))
            .next("call accept for 30 s or more: each comm needs 100 ms per socket, and up to 5 s for flow steering")
            .next("read the plugin's lines at the server for a refused steering rule"),
        Failure::HandleCount => Case::failed("channel-counts-differ", "the two ends have different numbers of channels")
            .next("set UCCL_TCPX_NUM_CHANNELS to the same number on both nodes, not above the number of devices"),
        Failure::Connect => Case::failed("connect-failed", "connect returned no comm")
            .next("call connect again with the same handle while it returns 0 and no comm: newer plugins connect in the background"),
        Failure::Register => Case::failed("register-failed", "the plugin did not register the buffer")
            .next("pass memory that is aligned to 4096 bytes, with its GPU current"),
        Failure::Post { rc, chunk } => refused(side, rc, chunk),
        Failure::Test { rc: 2, .. } => peer_closed(program, "test returned 2: the peer closed its end, or is gone"),
        Failure::Test { rc, chunk, .. } => Case::failed("test-failed", format!("test of {} returned {rc}", chunk_at(program, chunk)))
            .turn(role)
            .next("test the oldest request of the comm only; 3 is the answer for any other")
            .next("treat every result code but 0 as an error: `not ready` is 0 with done 0"),
        Failure::Consume => Case::failed("consume-failed", "a receive could not be handed back")
            .turn(role)
            .next("consume in the order of posting, once, after the unpack"),
        Failure::Benchmark => Case::failed("benchmark-failed", "the benchmark says that it failed")
            .turn(role)
            .next("read the lines of the library just before, and the log of the other end"),
        Failure::Other => Case::failed("iteration-aborted", "the program gave up an iteration")
            .next("read the line just before, and the plugin's warnings"),
    }
}

fn chunk_at(program: &Program, chunk: Option<u32>) -> String {
    match chunk {
        Some(chunk) => format!("chunk {chunk} on {}", at(program)),
        None => at(program),
    }
}

fn refused(side: &Side<'_>, rc: Option<i64>, chunk: Option<u32>) -> Case {
    let program = side.program;
    let slots = program
        .channels
        .values()
        .map(|channel| channel.in_flight)
        .max()
        .unwrap_or_default();
    let code = rc.map_or_else(String::new, |rc| format!(" with {rc}"));
    let what = format!(
        "{} of {} was refused{code}",
        call(program),
        chunk_at(program, chunk)
    );
    if slots >= 16 || side.has("slots-exhausted") || side.has("no-free-request") {
        return Case::failed(
            "window-overrun",
            format!("{what}: 16 requests of the comm are in flight already"),
        )
        .turn(program.role)
        .next("look at the window before a post, not after it: a comm has 16 requests")
        .next(
            "a rate of an iteration that ends after a refused post is false: not all bytes moved",
        );
    }
    Case::failed("post-refused", what)
        .turn(program.role)
        .next("read the plugin's warning just before it")
        .next("a comm has 16 requests, a receive holds its own until irecv_consumed")
}

fn peer_closed(program: &Program, summary: &str) -> Case {
    Case::failed("peer-closed", summary)
        .turn(program.role.map(other))
        .next("find why the peer ended: an error in its log, or a close right after its own last request")
        .next("close only after both ends said over the bootstrap socket that they have everything")
}

fn tests_fail(program: &Program) -> Case {
    let (count, rc) = (
        program.tests.run_with_rc,
        program.tests.first_rc.unwrap_or_default(),
    );
    let summary = format!(
        "the last {count} logged tests returned {rc} or another error, and the program calls that not ready"
    );
    let case = Case::failed("errors-taken-for-not-ready", summary).turn(program.role);
    let case = if rc == 2 {
        case.next("2: the peer closed or is gone; read its log")
    } else {
        case
    };
    case.next("3: the request is not the oldest of its comm")
        .next("treat every result code but 0 as an error: `not ready` is 0 with done 0")
}

// ---- waits ------------------------------------------------------------------------------

fn setup(program: &Program, step: Step) -> Case {
    let port = program
        .port
        .map_or_else(String::new, |port| format!(" on port {port}"));
    let is_client = program.role == Some(HarnessRole::Client);
    match step {
        Step::BootstrapListens(_) => Case::waits("bootstrap-waits", format!("the log ends while the server waits for a client{port}"))
            .next("start the client with this server's address and the same UCCL_TCPX_BOOTSTRAP_PORT_BASE")
            .next("try the port from the client's node: `nc -vz SERVER PORT`"),
        Step::BootstrapConnects(_) => Case::waits("bootstrap-waits", format!("the log ends while the client connects{port}"))
            .next("check that the server listens there, and that no firewall drops the port"),
        Step::MeetsPeer => Case::waits("peer-not-met", "the log ends while the benchmark waits for the program at the other end")
            .next("start the other program, with the address that this one prints; nixlbench: the same --etcd_endpoints and --benchmark_group at both ends")
            .next("try the port from the other node: `nc -vz SERVER PORT`"),
        Step::Listens => Case::waits("bootstrap-waits", "the log ends after listen, before the handles are exchanged"),
        Step::Connects => connects(),
        Step::HandlesExchanged if is_client => connects(),
        Step::HandlesExchanged | Step::Accepts => Case::waits("accept-never-completes", format!("the log ends in accept of {}", not_accepted(program).unwrap_or_else(|| at(program))))
            .next("give accept 30 s for each comm: 100 ms per socket, and up to 5 s for flow steering")
            .next("read the plugin's lines at both ends: a refused steering rule, a connect that is retried")
            .next("accept and connect the channels in the same order at both ends"),
        Step::Accepted | Step::Connected | Step::Registers => Case::waits("register-not-reached", "the log ends with connections made and memory not registered on all of them"),
        Step::Registered => Case::waits("not-started", "the log ends before the first iteration"),
        Step::WaitsForPosts => Case::waits("not-started", "the log ends while the client sleeps 10 s before it sends")
            .turn(Some(HarnessRole::Client)),
    }
}

/// The GPUs whose connections are not accepted, if others' are.
fn not_accepted(program: &Program) -> Option<String> {
    let waiting = program.gpus_waiting();
    if program.gpus_accepted.is_empty() || waiting.is_empty() {
        return None;
    }
    let list = |gpus: &mut dyn Iterator<Item = u32>| {
        let names: Vec<String> = gpus.map(|gpu| gpu.to_string()).collect();
        names.join(", ")
    };
    Some(format!(
        "the connections of GPU {}; those of GPU {} are accepted",
        list(&mut waiting.into_iter()),
        list(&mut program.gpus_accepted.iter().copied())
    ))
}

fn connects() -> Case {
    Case::waits("connect-never-completes", "the log ends in connect")
        .next("call connect again with the same handle while it returns 0 and no comm")
        .next("read the server's log: it must be in accept of the same channel")
}

fn window_full(side: &Side<'_>) -> Case {
    let program = side.program;
    let channel = program.at.and_then(|at| program.channels.get(&at));
    let window = channel.and_then(|channel| Some((channel.in_flight, channel.size?)));
    let window = window.map_or_else(
        || "full".to_owned(),
        |(count, size)| format!("{count}/{size}"),
    );
    let place = at(program);
    if program.is_full_of_done && program.tests.run == 0 && program.tests.run_with_rc == 0 {
        return done_not_released(program, &place, &window);
    }
    let summary = format!(
        "the log ends while {place} waits for a free slot: its window is {window}, and no later line shows room"
    );
    chunk_size(side, Case::waits("window-full", summary)).progress_steps(program)
}

/// The plugin has done its part, and the program keeps the slot.
fn done_not_released(program: &Program, place: &str, window: &str) -> Case {
    let summary = format!(
        "the log ends while {place} waits for a free slot: its window is {window}, and its oldest request is done and not handed back"
    );
    let case = Case::waits(DONE_NOT_RELEASED, summary).turn(program.role);
    let case = if program.role == Some(HarnessRole::Client) {
        case.next("take each send out of the window as soon as test says that it is done")
    } else {
        case.next(CONSUME).next(KERNEL)
    };
    case.next("`gdb -p PID -batch -ex 'thread apply all bt'` shows where the program is")
}

fn never_done(side: &Side<'_>) -> Case {
    let program = side.program;
    let (run, of) = (program.tests.run, request(program));
    let chunk = program
        .tests
        .chunk
        .map_or_else(String::new, |chunk| format!(" (chunk {chunk})"));
    let summary = format!(
        "the last {run} logged tests of the oldest {of}{chunk} returned 0 and not done: no error, and no progress of this request"
    );
    chunk_size(side, Case::waits("tests-never-done", summary)).progress_steps(program)
}

/// A line of the plugin may already name the cause.
fn chunk_size(side: &Side<'_>, case: Case) -> Case {
    if side.has("tcpx-chunk-size-zero") {
        let summary = format!(
            "{}; the plugin's chunk size is 0, so no message can complete",
            case.summary
        );
        return Case {
            condition: "chunk-size-zero",
            summary,
            ..case
        };
    }
    case
}

fn silent(side: &Side<'_>) -> Case {
    let program = side.program;
    let iteration = program.begun.unwrap_or_default();
    let case = Case::waits(
        "stops-in-iteration",
        format!("the log ends in iteration {iteration}"),
    );
    let case = if program.posted() == 0 {
        case.unseen("how much was posted: this end logs no posts")
    } else {
        case
    };
    case.progress_steps(program)
}

fn drain(program: &Program) -> Case {
    let pending = program.drain_pending.map_or_else(String::new, |pending| {
        format!(", {pending} requests pending")
    });
    let summary = format!(
        "the log ends while {} is drained{pending}: everything is posted, and not all of it completes",
        at(program)
    );
    Case::waits("drain-never-ends", summary)
        .next("compare the posts of both ends: a receive without a send never completes")
        .next("drain all channels in one loop: two ends that drain channel by channel in different order wait for each other")
        .next(TAP)
}

fn has_all(program: &Program) -> bool {
    let ended = program.ended.map_or(0, |ended| u64::from(ended) + 1);
    program
        .iterations_wanted
        .is_some_and(|wanted| ended >= wanted)
}

fn between(program: &Program) -> Case {
    let ended = program.ended.map_or(0, |ended| u64::from(ended) + 1);
    let of = program
        .iterations_wanted
        .map_or_else(String::new, |wanted| format!(" of {wanted}"));
    Case::waits(
        "stops-between-iterations",
        format!("the log ends after {ended}{of} iterations, before the next one begins"),
    )
}

// ---- ended ------------------------------------------------------------------------------

/// A benchmark that prints a rate for each size.
fn rates(program: &Program) -> Case {
    let summary = format!("{} rates, and no error", program.results.all.len());
    Case::new("rates", HarnessState::Finished, summary)
        .unseen("whether the program ended, and whether the bytes were right")
}

fn ended(program: &Program) -> Case {
    let last = program.results.all.last();
    let measured = last.map_or(0, |last| last.ms.len() as u64 + last.left_out);
    if last.is_some_and(|last| last.is_false) {
        return Case::new(
            "rate-is-false",
            HarnessState::Doubtful,
            "an iteration ended although one of its posts or tests failed: its rate counts bytes that did not move",
        );
    }
    if let Some(wanted) = program
        .iterations_wanted
        .filter(|wanted| measured > 0 && measured < *wanted)
    {
        let summary = format!("the program ended after {measured} of {wanted} iterations");
        return Case::new("iterations-missing", HarnessState::Doubtful, summary)
            .next("look for the reason above its last iteration; a mean over fewer iterations weighs the first one more");
    }
    let fastest = last.and_then(|last| last.rates().into_iter().reduce(f64::max));
    if let Some(rate) = fastest.filter(|rate| *rate > TOO_FAST && program.total_bytes.is_none()) {
        let summary = format!(
            "{rate:.1} GB/s are more than a 200 Gbit/s NIC carries: not all bytes of an iteration moved within its time"
        );
        return Case::new("rate-is-false", HarnessState::Doubtful, summary);
    }
    let iterations = measured.max(u64::from(program.begun.is_some()));
    let rates = program.results.all.len();
    let counted = if last.is_some_and(|last| last.gb_per_s.is_some()) {
        format!("{rates} rates")
    } else {
        format!("{iterations} iterations")
    };
    let case = Case::new(
        "finished",
        HarnessState::Finished,
        format!("the program ended; {counted}"),
    );
    let per_iteration = program.lines_in_iterations / iterations.max(1);
    let chunks = program
        .size_bytes
        .zip(program.chunk_bytes)
        .map(|(size, chunk)| size.div_ceil(chunk.max(1)));
    if chunks.is_some_and(|chunks| per_iteration >= chunks) {
        return case
            .next(format!("measure again without debug lines: {per_iteration} were written in each timed iteration, and that time is in the rate"));
    }
    case.unseen("whether the bytes were right: these programs compare none")
}

// ---- facts ------------------------------------------------------------------------------

/// The lines that a verdict rests on.
fn facts(side: &Side<'_>) -> Vec<String> {
    let (program, name) = (side.program, name(side.program));
    let mut facts = Vec::new();
    if let Some((_, quoted)) = &program.failure {
        facts.push(format!(
            "{name}: {}:{}: {}",
            side.file,
            quoted.line,
            super::super::compose::shown(&quoted.text)
        ));
    }
    for cause in side.causes.iter().take(3) {
        facts.push(format!(
            "{name}: {} at {}:{}",
            cause.signature, cause.first.file, cause.first.line
        ));
    }
    if let Some((key, channel)) = program
        .at
        .and_then(|at| Some((at, program.channels.get(&at)?)))
    {
        let counts = [
            (channel.posted, format!("{} posted", channel.posted)),
            (
                channel.posted + channel.released,
                format!("{} released", channel.released),
            ),
        ];
        // A program that logs no posts has not posted none.
        let mut shown: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(_, text)| text)
            .collect();
        if let Some(size) = channel.size {
            shown.push(format!(
                "window {}/{size}, at most {}/{size}",
                channel.in_flight, channel.high_water
            ));
        }
        if !shown.is_empty() {
            facts.push(format!(
                "{name}: {}: {}",
                channel_name(key),
                shown.join(", ")
            ));
        }
    }
    let tests = &program.tests;
    if tests.count > 0 {
        let codes = if tests.with_rc > 0 {
            format!(", {} with an error", tests.with_rc)
        } else {
            ", all with rc 0".to_owned()
        };
        facts.push(format!(
            "{name}: {} tests logged, {} done{codes}; the last {} not done",
            tests.count, tests.done, tests.run
        ));
        if tests.count < TESTS_LOGGED && tests.run > 0 {
            facts.push(format!(
                "{name}: a program that logs its first {TESTS_LOGGED} tests made no further one after line {}",
                tests.last_line
            ));
        }
    }
    if program.done_lines.max(program.released_lines) > 0 {
        let done = program.done_lines.max(program.released_lines);
        facts.push(format!("{name}: {done} requests reported done or released"));
    }
    if program.polls > 0 {
        facts.push(format!(
            "{name}: the oldest send was tested {} times in one wait",
            program.polls
        ));
    }
    let last = super::super::compose::shown(&program.last.text);
    facts.push(format!(
        "{name}: last line {}:{}: {last}",
        side.file, program.last.line
    ));
    facts
}
