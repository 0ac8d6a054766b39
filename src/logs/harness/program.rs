//! The state of one end of one process, after each of its lines.
//!
//! Every collection is bounded. Counts are of lines: a program that logs only its first tests
//! has made more of them than `tests.count`.
#![forbid(unsafe_code)]

use super::line::{Event, Failure, HarnessRole, Line, Occupancy, SettingKind, Step};
use super::results::Results;
use std::collections::{BTreeMap, BTreeSet};

/// Most channels of a program: 8 GPUs with 16 each.
const CHANNELS_MAX: usize = 128;
/// Bare tests at the end of a log that show such a program.
const BARE_TESTS_MIN: u64 = 20;
/// Bytes of a line that is quoted.
const QUOTED_BYTES: usize = 240;

/// A line that is quoted later.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Quoted {
    pub line: u64,
    pub time_us: Option<i64>,
    pub text: Vec<u8>,
}

/// The line that a program takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastLine<'a> {
    pub line: u64,
    pub time_us: Option<i64>,
    pub text: &'a [u8],
}

impl Quoted {
    /// Quotes another line, in the same memory.
    fn set(&mut self, said: LastLine<'_>) {
        (self.line, self.time_us) = (said.line, said.time_us);
        self.text.clear();
        let size = said.text.len().min(QUOTED_BYTES);
        self.text.extend_from_slice(&said.text[..size]);
    }
}

/// Where a program was at its last line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Spot {
    #[default]
    Starting,
    Setup(Step),
    /// In an iteration, with no post logged.
    Transfer,
    /// In `irecv` or `isend`.
    InCall,
    /// A window is full, and its oldest request is waited for.
    WindowFull,
    /// The last post returned.
    Posted,
    /// All chunks are posted.
    Drain,
    /// A benchmark printed a rate.
    Rates,
    /// Between iterations.
    Between,
    Ended,
}

/// A channel of a GPU. A program with one GPU does not name it.
pub(super) type ChannelKey = (Option<u32>, Option<u32>);

/// The posts of one channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Channel {
    /// Posts that returned, by a line that says so or because the program went on.
    pub posted: u64,
    /// Requests that left the window, by lines that say so or by the next occupancy.
    pub released: u64,
    /// In the window at the last line that says it, and posts since.
    pub in_flight: u32,
    pub high_water: u32,
    pub size: Option<u32>,
    pub last_chunk: Option<u32>,
}

impl Channel {
    fn holds(&mut self, window: Option<Occupancy>) {
        let Some((count, size)) = window else { return };
        self.released += u64::from(self.in_flight.saturating_sub(count));
        self.in_flight = count;
        self.size = Some(size);
        self.high_water = self.high_water.max(count);
    }
}

/// Calls of `test` that were logged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tests {
    pub count: u64,
    pub done: u64,
    /// By result code: the first code other than 0, and how often any was seen.
    pub first_rc: Option<i64>,
    pub with_rc: u64,
    /// Tests at the end without one that is done or failed.
    pub run: u64,
    /// Tests at the end with a result code other than 0.
    pub run_with_rc: u64,
    pub chunk: Option<u32>,
    /// Line of the last one.
    pub last_line: u64,
}

/// One end of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Program {
    pub role: Option<HarnessRole>,
    /// The GPU of the process, if it has one.
    pub gpu: Option<u32>,
    pub lines: u64,
    pub first_line: u64,
    pub last: Quoted,
    /// Lines of the file before this one, and behind that one, belong to other runs.
    pub begins_at: u64,
    pub ends_at: Option<u64>,
    /// Runs in the file before this one; the rest is about the last one.
    pub earlier_runs: u32,
    pub channels_wanted: Option<u64>,
    pub iterations_wanted: Option<u64>,
    pub chunk_bytes: Option<u64>,
    /// Of an iteration: of each GPU, and of all.
    pub size_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    /// The ports of the bootstrap: the last one, and the first, from which the others count.
    pub port: Option<u32>,
    pub first_port: Option<u32>,
    pub spot: Spot,
    /// When the window was found full, its oldest request was done already.
    pub is_full_of_done: bool,
    /// Requests done and released before the iteration.
    before: (u64, u64),
    /// The channel that `spot` is about.
    pub at: Option<ChannelKey>,
    /// The chunk whose post is announced: a program that goes on to another one has posted it.
    announced: Option<(ChannelKey, Option<u32>)>,
    pub channels: BTreeMap<ChannelKey, Channel>,
    /// GPUs of a program that drives several: those that it named, and those whose connections are accepted.
    gpus: BTreeSet<u32>,
    pub gpus_accepted: BTreeSet<u32>,
    pub tests: Tests,
    /// Lines that say that one request is done.
    pub done_lines: u64,
    /// Calls of test that the wrapper logs, which it does for requests that are done.
    pub calls_done: u64,
    /// Requests that lines call released.
    pub released_lines: u64,
    pub begun: Option<u32>,
    pub ended: Option<u32>,
    pub aborted: u32,
    /// Lines of the program within its iterations.
    pub lines_in_iterations: u64,
    pub polls: u64,
    pub drain_pending: Option<u32>,
    pub peer_closed: u64,
    /// The peer closed, and the request in hand was not done.
    pub peer_closed_early: u64,
    pub failure: Option<(Failure, Quoted)>,
    pub results: Results,
    /// Lines that say more than that the program runs.
    pub known: u64,
}

impl Program {
    /// Takes a line of the program. `said` is the same line.
    pub(super) fn take(&mut self, line: Line, said: LastLine<'_>) {
        self.lines += 1;
        if self.first_line == 0 {
            self.first_line = said.line;
        }
        self.role = self.role.or(line.role);
        // Any program may say that a test completed.
        let is_end_alone = line.event == Event::Ends && self.known == 0;
        let says_little = matches!(line.event, Event::Other | Event::BareTest { .. });
        self.known += u64::from(!says_little && !is_end_alone);
        if self.begun.is_some() && self.begun != self.ended {
            self.lines_in_iterations += 1;
        }
        // The next line of the program shows that a call returned.
        let is_about_call = matches!(
            line.event,
            Event::Calls { .. }
                | Event::Returned
                | Event::Fails(Failure::Post { .. })
                | Event::Other
        );
        let goes_on = self.goes_on(&line);
        if self.spot == Spot::InCall && !is_about_call || goes_on {
            self.returned();
        }
        if line.channel.is_some() {
            self.at = Some((line.gpu, line.channel));
        }
        // A log may lack its beginning.
        let moves_bytes = matches!(
            line.event,
            Event::Test { .. }
                | Event::Done
                | Event::CallDone
                | Event::Released { .. }
                | Event::StillWaits(_)
        );
        if moves_bytes && matches!(self.spot, Spot::Starting | Spot::Setup(_)) {
            self.spot = Spot::Transfer;
        }
        match (line.event, line.gpu) {
            (Event::StepOfGpu(step), Some(gpu)) => self.step_of_gpu(step, gpu),
            (event, _) => self.change(event, said),
        }
        self.last.set(said);
    }

    /// Joins an earlier run of the same end of the same GPU: its results stay, and all else is about
    /// this run.
    pub(super) fn follows(&mut self, earlier: Self) {
        self.earlier_runs += earlier.earlier_runs + 1;
        self.lines += earlier.lines;
        self.known += earlier.known;
        self.first_line = earlier.first_line;
        let own = std::mem::replace(&mut self.results, earlier.results);
        self.results.append(own);
    }

    /// Whether its lines show that it is such a program.
    pub(super) fn is_known(&self) -> bool {
        self.known > 0 || self.tests.run.max(self.tests.run_with_rc) >= BARE_TESTS_MIN
    }

    /// GPUs that the program named and whose connections are not accepted.
    pub(super) fn gpus_waiting(&self) -> Vec<u32> {
        let waiting = self.gpus.difference(&self.gpus_accepted);
        waiting.copied().collect()
    }

    /// Whether the lines tell nothing but settings of a program that is not known.
    pub(super) fn is_head_alone(&self) -> bool {
        self.role.is_none() && self.spot == Spot::Starting && self.tests.count == 0
    }

    /// Whether a line is about what follows the announced post.
    fn goes_on(&self, line: &Line) -> bool {
        let Some((key, chunk)) = self.announced else {
            return false;
        };
        match line.event {
            // A chunk that waited for room may be announced again.
            Event::Chunk { chunk: next, .. } => {
                chunk != Some(next) || key != (line.gpu, line.channel)
            }
            Event::IterationBegins { .. }
            | Event::IterationEnds { .. }
            | Event::AllPosted
            | Event::Drains { .. } => true,
            _ => false,
        }
    }

    /// Whether a line is the first of another run in the same file, of this process or of one whose
    /// log was joined to it.
    pub(super) fn begins_again(&self, event: Event) -> bool {
        let is_past_setup = !matches!(self.spot, Spot::Starting | Spot::Setup(_));
        let is_other = |gpu: u64| self.gpu.is_some_and(|own| u64::from(own) != gpu);
        match event {
            Event::Starts => self.spot != Spot::Starting,
            Event::Setting(SettingKind::Gpu, gpu) => is_past_setup || is_other(gpu),
            Event::Step(Step::BootstrapListens(_) | Step::BootstrapConnects(_)) => is_past_setup,
            _ => false,
        }
    }

    fn change(&mut self, event: Event, said: LastLine<'_>) {
        match event {
            Event::Setting(kind, value) => self.set(kind, value),
            Event::Step(step) => self.step(step),
            Event::IterationBegins {
                iteration,
                bytes,
                chunk_bytes,
            } => {
                self.size_bytes = bytes.or(self.size_bytes);
                self.chunk_bytes = chunk_bytes.or(self.chunk_bytes);
                self.begin(iteration);
            }
            Event::IterationEnds { iteration, ms } => self.end(iteration, ms),
            Event::IterationAborted(_) => {
                self.aborted = self.aborted.saturating_add(1);
                self.spot = Spot::Between;
                self.fail(Failure::Other, said);
            }
            Event::Chunk { chunk, window } => {
                let is_full = window.is_some_and(|(count, size)| count >= size);
                self.channel(|channel| {
                    channel.holds(window);
                    channel.last_chunk = Some(chunk);
                });
                self.announced = Some((self.at.unwrap_or_default(), Some(chunk)));
                self.spot = Spot::Transfer;
                if is_full {
                    self.full(false);
                }
            }
            Event::Full(window) | Event::FullOfDone(window) => {
                self.channel(|channel| channel.holds(window));
                self.full(matches!(event, Event::FullOfDone(_)));
            }
            Event::Room if self.spot == Spot::WindowFull => self.spot = Spot::Transfer,
            Event::Calls { chunk } => {
                self.spot = Spot::InCall;
                let key = self.at.unwrap_or_default();
                self.announced.get_or_insert((key, chunk));
            }
            Event::Returned if self.announced.is_some() => self.returned(),
            Event::Test { rc, done, chunk } => {
                self.tests.last_line = said.line;
                self.test(rc, done, chunk);
            }
            Event::BareTest { rc, done } => {
                self.tests.last_line = said.line;
                self.test(rc, done, None);
            }
            Event::Done => {
                self.done_lines += 1;
                self.tests.run = 0;
                self.polls = 0;
            }
            Event::Released { count, window } => self.released(count, window),
            Event::StillWaits(polls) => self.polls = self.polls.max(polls),
            Event::AllPosted => self.spot = Spot::Drain,
            Event::Drains { pending } => {
                self.spot = Spot::Drain;
                self.drain_pending = pending;
            }
            Event::Drained => {
                self.drain_pending = None;
                self.channel(|channel| {
                    channel.released += u64::from(std::mem::take(&mut channel.in_flight))
                });
            }
            Event::PeerClosed { done } => {
                self.peer_closed += 1;
                self.peer_closed_early += u64::from(!done);
            }
            Event::Fails(failure) => {
                if self.spot == Spot::InCall {
                    self.spot = Spot::Transfer;
                }
                self.announced = None;
                self.fail(failure, said);
            }
            Event::CallDone => {
                self.calls_done += 1;
                self.tests.run = 0;
            }
            Event::Mean {
                iterations,
                ms,
                rate,
            } => {
                self.results.mean(iterations, ms, rate);
                self.spot = Spot::Ended;
            }
            Event::Rate { bytes, gb_per_s } => {
                self.results.rate(bytes, gb_per_s);
                self.spot = Spot::Rates;
            }
            Event::Ends => self.spot = Spot::Ended,
            Event::Starts | Event::Room | Event::Returned | Event::StepOfGpu(_) | Event::Other => {}
        }
    }

    fn set(&mut self, kind: SettingKind, value: u64) {
        match kind {
            SettingKind::Gpu => self.gpu = u32::try_from(value).ok(),
            SettingKind::Channels => self.channels_wanted = Some(value),
            SettingKind::Iterations => self.iterations_wanted = Some(value),
            SettingKind::ChunkBytes => self.chunk_bytes = Some(value),
            SettingKind::SizeBytes => self.size_bytes = Some(value),
            SettingKind::TotalBytes => self.total_bytes = Some(value),
        }
    }

    fn step(&mut self, step: Step) {
        // A program that wrote rates had met its peer: it waits for no other one as it ends.
        if step == Step::MeetsPeer && self.spot == Spot::Rates {
            return;
        }
        if let Step::BootstrapListens(Some(port)) | Step::BootstrapConnects(Some(port)) = step {
            self.port = Some(port);
            self.first_port = self.first_port.or(Some(port));
        }
        // An earlier attempt failed, and this one got further.
        let is_over = match &self.failure {
            Some((Failure::Bootstrap, _)) => step == Step::HandlesExchanged,
            Some((Failure::Accept | Failure::Connect, _)) => {
                matches!(step, Step::Accepted | Step::Connected)
            }
            _ => false,
        };
        if is_over {
            self.failure = None;
        }
        self.spot = Spot::Setup(step);
    }

    fn step_of_gpu(&mut self, step: Step, gpu: u32) {
        if self.gpus.len() < CHANNELS_MAX {
            self.gpus.insert(gpu);
        }
        if step != Step::Accepted {
            return self.step(step);
        }
        if self.gpus.contains(&gpu) {
            self.gpus_accepted.insert(gpu);
        }
        let is_all = self.gpus_waiting().is_empty();
        self.step(if is_all { step } else { Step::Accepts });
    }

    fn begin(&mut self, iteration: u32) {
        if self.begun == Some(iteration) && self.ended != Some(iteration) {
            return;
        }
        self.begun = Some(iteration);
        self.drain_pending = None;
        self.spot = Spot::Transfer;
        self.before = (self.told_done(), self.told_released());
        // The program clears its windows, whatever is in them.
        self.channels
            .values_mut()
            .for_each(|channel| channel.in_flight = 0);
    }

    fn end(&mut self, iteration: u32, ms: f64) {
        self.ended = Some(iteration);
        self.begun = self.begun.max(Some(iteration));
        if self.spot == Spot::Drain {
            for channel in self.channels.values_mut() {
                channel.released += u64::from(std::mem::take(&mut channel.in_flight));
            }
        }
        self.spot = Spot::Between;
        self.results
            .iteration(iteration, ms, self.total_bytes.or(self.size_bytes));
        let (wanted, is_false) = (self.iterations_wanted, self.has_failed_request());
        if let Some(open) = self.results.current() {
            open.wanted = open.wanted.or(wanted);
            open.is_false |= is_false;
        }
    }

    /// Whether a post or a test failed, so that not all bytes arrived.
    fn has_failed_request(&self) -> bool {
        matches!(
            &self.failure,
            Some((Failure::Post { .. } | Failure::Test { done: false, .. }, _))
        )
    }

    fn full(&mut self, says_done: bool) {
        let is_first = self.spot != Spot::WindowFull;
        self.spot = Spot::WindowFull;
        if is_first || says_done {
            self.is_full_of_done = says_done || self.holds_done();
        }
    }

    /// Whether the oldest request of the channel is done and still in its window: more of them
    /// are than the other windows can hold, and a comm completes its requests in order.
    fn holds_done(&self) -> bool {
        let (done, released) = self.before;
        let done = self.told_done().saturating_sub(done);
        let released = self.told_released().saturating_sub(released);
        let at = self.at.unwrap_or_default();
        let others = self.channels.iter().filter(|(key, _)| **key != at);
        let others: u64 = others.map(|(_, other)| u64::from(other.in_flight)).sum();
        done.saturating_sub(released) > others
    }

    fn returned(&mut self) {
        self.spot = Spot::Posted;
        let announced = self.announced.take().map(|(key, _)| key);
        self.channel_of(announced.or(self.at).unwrap_or_default(), |channel| {
            channel.posted += 1;
            channel.in_flight = channel.in_flight.saturating_add(1);
            channel.high_water = channel.high_water.max(channel.in_flight);
        });
    }

    fn test(&mut self, rc: i64, done: bool, chunk: Option<u32>) {
        let tests = &mut self.tests;
        tests.count += 1;
        tests.chunk = chunk.or(tests.chunk);
        if rc != 0 {
            tests.first_rc = tests.first_rc.or(Some(rc));
            tests.with_rc += 1;
            (tests.run, tests.run_with_rc) = (0, tests.run_with_rc + 1);
        } else if done {
            tests.done += 1;
            (tests.run, tests.run_with_rc) = (0, 0);
        } else {
            (tests.run, tests.run_with_rc) = (tests.run + 1, 0);
        }
    }

    fn released(&mut self, count: u32, window: Option<Occupancy>) {
        self.tests.run = 0;
        self.released_lines += u64::from(count);
        self.channel(|channel| match window {
            Some(_) => channel.holds(window),
            None => {
                channel.released += u64::from(count);
                channel.in_flight = channel.in_flight.saturating_sub(count);
            }
        });
        if self.spot == Spot::WindowFull && window.is_none_or(|(count, size)| count < size) {
            self.spot = Spot::Transfer;
        }
    }

    /// Keeps the first failure: the others follow it.
    fn fail(&mut self, failure: Failure, said: LastLine<'_>) {
        if self.failure.is_none() {
            let mut quoted = Quoted::default();
            quoted.set(said);
            self.failure = Some((failure, quoted));
        }
    }

    /// Changes the channel that the program is at.
    fn channel(&mut self, change: impl FnOnce(&mut Channel)) {
        self.channel_of(self.at.unwrap_or_default(), change);
    }

    fn channel_of(&mut self, key: ChannelKey, change: impl FnOnce(&mut Channel)) {
        if self.channels.len() < CHANNELS_MAX || self.channels.contains_key(&key) {
            change(self.channels.entry(key).or_default());
        }
    }

    /// Requests that lines call done: each kind of line alone is a lower bound.
    pub(super) fn done(&self) -> u64 {
        self.told_done().max(self.told_released())
    }

    fn told_done(&self) -> u64 {
        self.tests.done.max(self.done_lines).max(self.calls_done)
    }

    fn told_released(&self) -> u64 {
        let inferred = self.channels.values().map(|channel| channel.released).sum();
        self.released_lines.max(inferred)
    }

    pub(super) fn posted(&self) -> u64 {
        self.channels.values().map(|channel| channel.posted).sum()
    }
}
