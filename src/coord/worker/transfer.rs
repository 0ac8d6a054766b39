//! The work of `run`: registers memory, warms up, measures and reports.
//!
//! Each iteration lies between two barriers that both ends share, and its time is the time between
//! them. The pattern is written before the first barrier; before the second, every byte is done,
//! unpacked, checked and consumed.
#![forbid(unsafe_code)]

use super::connect::connect_all;
use super::driving::{self, Chosen, NearCpus, Situation};
use super::links::PeerLinks;
use super::load::Ready;
use super::memory::memory_failure;
use super::{Context, TaskResult};
use crate::protocol::message::{PairTask, WorkerMessage, WorkerOrder};
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcpx_bootstrap::Deadline;
use tcpx_engine::gpu::Unpack;
use tcpx_engine::plugin::Device;
use tcpx_engine::transfer::{
    Channel, ChannelError, ChannelSetup, Drivers, Pattern, Plan, Rogue, RoundTrips, Sampled,
    WallPace, ping_pong, slots_of,
};
use tcpx_node::{Root, context_switches, waited_by_all};
use tcpx_run_model::counters::{LatencyUs, NetworkBefore};
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::Iteration;
use tcpx_run_model::results::{ChannelResult, Driving, TransferResult};
use tcpx_run_model::scenario::{self, Fault};
use tcpx_words::error::Outcome;
use tcpx_words::payload::Tally;
use tcpx_words::side::Side;

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
) -> TaskResult<()> {
    let connected = connect_all(context, task, ready, link)?;
    context.enter(Phase::Registering);
    let mut transfer = Transfer::new(context, task, ready)?;
    let sends = connected
        .sends
        .into_iter()
        .enumerate()
        .map(|(index, comm)| {
            let (memory, setup) = (ready.memory_of(index), transfer.setup(index, Side::Send));
            transfer.near.on(&ready.nic_of(index), || {
                Channel::sender(&*ready.net, comm, Arc::clone(memory), setup)
            })
        });
    let recvs = connected
        .recvs
        .into_iter()
        .enumerate()
        .map(|(index, comm)| {
            let (memory, setup) = (ready.memory_of(index), transfer.setup(index, Side::Recv));
            transfer.near.on(&ready.nic_of(index), || {
                Channel::receiver(&*ready.net, comm, Arc::clone(memory), setup)
            })
        });
    let channels: Result<Vec<Channel>, ChannelError> = sends.chain(recvs).collect();
    let mut channels = channels.map_err(|error| channel_failure(context, &error))?;
    if let Some(tap) = ready.tap {
        channels.iter_mut().for_each(|channel| channel.record(tap));
    }
    transfer.share_out(context, ready, channels)?;
    let ran = transfer.iterate(context, task, ready, link);
    context.enter(Phase::Closing);
    context.tell(&WorkerMessage::Transfer(Box::new(transfer.result(ready))));
    ran?;
    // Close only after both ends have received everything.
    let last = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
    link.barrier("close", 0, last, &context.stop)
        .map_err(|error| context.bootstrap_failure(&error))?;
    for channel in transfer.drivers.take_channels() {
        channel
            .close(&*ready.net)
            .map_err(|error| context.plugin_failure(&error))?;
    }
    Ok(())
}

/// Waits until the workers of all GPUs have warmed up: their rates can be added only while all of
/// them move bytes.
pub(super) fn gather(context: &mut Context, task: &PairTask) -> TaskResult<()> {
    context.enter(Phase::Gathering);
    match context.receive(task.scenario.limits.total.into(), "the order to measure")? {
        WorkerOrder::Measure => Ok(()),
        _ => Err(context.failure(
            Outcome::Usage,
            "received another order in place of the order to measure".into(),
            None,
        )),
    }
}

fn channel_failure(context: &Context, error: &ChannelError) -> Box<super::Failure> {
    match error {
        ChannelError::Memory(error) => memory_failure(context, error),
        other => context.failure(Outcome::Failed, other.to_string(), None),
    }
}

/// One end of a ping-pong.
struct PingPong {
    leads: bool,
    times: RoundTrips,
}

/// Average time between two messages of ended iterations: the result has them all, and a message
/// of each would cost the coordinator as much as the samples of a run with few.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// Messages that may come at once, so that a run with few iterations tells each.
const TELL_AT_ONCE: u32 = 8;

/// Which iterations are told when they end: on average one every 50 ms.
#[derive(Default)]
pub(super) struct IterationNews {
    /// When the next message is due on average.
    due: Option<Instant>,
}

impl IterationNews {
    /// Whether the iteration that has just ended is told by its time alone.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.due.unwrap_or(now);
        let is_due = now + TELL_EVERY * TELL_AT_ONCE > due;
        if is_due {
            self.due = Some(due.max(now) + TELL_EVERY);
        }
        is_due
    }
}

struct Transfer {
    drivers: Drivers<WallPace>,
    pace: WallPace,
    near: NearCpus,
    situation: Situation,
    /// The threads that drive the channels now; `None` before they are dealt.
    chosen: Option<Chosen>,
    other_cpu: OtherCpu,
    /// At the beginning of the measured iterations.
    switches_before: Option<[u64; 2]>,
    /// How long all threads of this process had waited for a CPU when measuring began.
    waited_before: Option<Duration>,
    network: NetworkBefore,
    /// By lane.
    plans: Vec<Plan>,
    pattern: Option<Arc<Pattern>>,
    unpack: Unpack,
    rogue: Option<Rogue>,
    ping_pong: Option<PingPong>,
    /// Requests in flight that the scenario asks for, by side.
    windows: [usize; 2],
    /// Request slots that a comm of the plugin's ncclNet version is sure to have.
    slots: usize,
    may_narrow: bool,
    chunk: usize,
    close_grace: Duration,
    iterations: Vec<Iteration>,
    lanes: LaneClocks,
}

impl Transfer {
    fn new(context: &Context, task: &PairTask, ready: &Ready) -> TaskResult<Self> {
        let wanted = &task.scenario.transfer;
        let plans = Plan::of_lanes(wanted.total.0, wanted.chunk.0, ready.channels.counts());
        let plans = plans.ok_or_else(|| {
            context.failure(
                Outcome::Usage,
                format!(
                    "cannot cut {} into chunks of {}",
                    wanted.total, wanted.chunk
                ),
                None,
            )
        })?;
        let rogue = rogue(task);
        let near = NearCpus::read(ready);
        let pace = WallPace::new(task.scenario.progress.idle, Arc::clone(&context.stop));
        let is_ping_pong = wanted.direction == scenario::Direction::PingPong;
        Ok(Self {
            drivers: Drivers::new(pace.clone()),
            pace,
            situation: Situation {
                policy: task.scenario.progress.policy,
                wanted: task.scenario.progress.threads,
                alone: match (rogue, is_ping_pong) {
                    (Some(_), _) => Some("a fault of the driver"),
                    (None, true) => Some("direction ping-pong"),
                    (None, false) => None,
                },
                channels: 0,
                cpus: std::thread::available_parallelism().map_or(1, NonZero::get),
                workers: task.workers_here as usize,
                affine: near.affine(),
                both_ends: task.peer_here && task.workers_here == 2 && task.cpus.is_none(),
                plugin: None,
            },
            near,
            chosen: None,
            other_cpu: OtherCpu::default(),
            switches_before: None,
            waited_before: None,
            network: NetworkBefore::read(ready.loaded.devices.iter().map(|one| one.name.clone())),
            plans,
            pattern: wanted
                .verify
                .then(|| Arc::new(Pattern::new(seed(&task.run_id)))),
            unpack: match wanted.unpack {
                scenario::Unpack::Auto | scenario::Unpack::Kernel => Unpack::Kernel,
                scenario::Unpack::D2d => Unpack::D2d,
                scenario::Unpack::Host => Unpack::Host,
                scenario::Unpack::None => Unpack::None,
            },
            rogue,
            ping_pong: is_ping_pong.then(|| PingPong {
                // The end that connects in the bootstrap sends first.
                leads: task.listen.is_none(),
                times: RoundTrips::default(),
            }),
            windows: [wanted.send_window as usize, wanted.recv_window as usize],
            slots: slots_of(ready.loaded.about.abi),
            // An unpacking plugin has a slot for each of its 16 scatter lists.
            may_narrow: !ready.loaded.devices.iter().any(Device::is_unpack),
            chunk: wanted.chunk.as_usize(),
            close_grace: task.scenario.limits.close_grace.into(),
            iterations: Vec::new(),
            lanes: LaneClocks::new(task, ready),
        })
    }

    fn setup(&self, index: usize, side: Side) -> ChannelSetup {
        ChannelSetup {
            index,
            window: self.windows[usize::from(side == Side::Recv)].min(self.slots),
            may_narrow: self.may_narrow,
            chunk: self.chunk,
            verify: self.pattern.clone(),
            unpack: self.unpack,
            close_grace: self.close_grace,
        }
    }

    /// Deals the channels to as many threads as the situation asks for.
    fn share_out(
        &mut self,
        context: &Context,
        ready: &Ready,
        channels: Vec<Channel>,
    ) -> TaskResult<()> {
        self.situation.channels = channels.len();
        let chosen = driving::choose(&self.situation);
        self.set_wait(&chosen);
        let shares = if chosen.by_cpu {
            self.near.deal_by_cpu(channels, chosen.threads)
        } else {
            self.near.deal(channels, chosen.threads, ready)
        };
        self.chosen = Some(chosen);
        self.drivers
            .share_out(&ready.net, shares)
            .map_err(|error| context.transfer_failure(&error))
    }

    /// Chooses the number of threads and their pace again, now that warm-up has shown what the
    /// plugin's own threads need.
    fn share_out_anew(&mut self, context: &Context, ready: &Ready) -> TaskResult<()> {
        self.situation.plugin = self.other_cpu.load();
        let chosen = driving::choose(&self.situation);
        let before = self.chosen.as_ref().map(Chosen::dealing);
        if before == Some(chosen.dealing()) {
            self.set_wait(&chosen);
            self.chosen = Some(chosen);
            return Ok(());
        }
        let channels = self.drivers.take_channels();
        self.share_out(context, ready, channels)
    }

    fn set_wait(&self, chosen: &Chosen) {
        let window = self.windows[0].min(self.windows[1]).min(self.slots);
        if self.ping_pong.is_none() {
            let wait = driving::wait(&self.situation, chosen, window * self.chunk);
            self.pace.set_wait(wait);
        }
    }

    fn iterate(
        &mut self,
        context: &mut Context,
        task: &PairTask,
        ready: &Ready,
        link: &mut PeerLinks,
    ) -> TaskResult<()> {
        let wanted = &task.scenario.transfer;
        let directions = u64::from(task.sends) + u64::from(task.receives);
        let until = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
        let mut news = IterationNews::default();
        for index in 0..wanted.warmup + wanted.iterations {
            let warmup = index < wanted.warmup;
            let starts_measuring = index == wanted.warmup || (index == 1 && wanted.warmup == 0);
            if index == wanted.warmup && index > 0 {
                self.share_out_anew(context, ready)?;
            }
            if index == wanted.warmup && task.together {
                gather(context, task)?;
            }
            self.begin(context, ready, index, starts_measuring)?;
            context.enter(if warmup {
                Phase::WarmUp
            } else {
                Phase::Measuring
            });
            link.barrier("start", u64::from(index), until, &context.stop)
                .map_err(|e| context.bootstrap_failure(&e))?;
            let started = Instant::now();
            let began = self.drivers.now();
            let cpu = process_cpu();
            let driven = self.driven_cpu();
            self.one_iteration(context, ready)?;
            let others = (process_cpu() - cpu).saturating_sub(self.driven_cpu() - driven);
            self.other_cpu.add(others, started.elapsed());
            link.barrier("end", u64::from(index), until, &context.stop)
                .map_err(|e| context.bootstrap_failure(&e))?;
            let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.lanes.add(began, nanoseconds, self.drivers.channels());
            let tallied = |count: fn(&Tally) -> u64| {
                self.drivers
                    .channels()
                    .map(|channel| count(channel.tally()))
                    .sum()
            };
            let iteration = Iteration {
                index,
                warmup,
                nanoseconds,
                bytes: self.plans.iter().map(|plan| plan.total()).sum::<u64>() * directions,
                verified_bytes: tallied(|tally| tally.verified_bytes),
                wrong_bytes: tallied(|tally| tally.wrong_bytes),
            };
            self.iterations.push(iteration);
            let is_last =
                index + 1 == wanted.warmup || index + 1 == wanted.warmup + wanted.iterations;
            if news.is_due() || is_last || iteration.wrong_bytes > 0 {
                context.tell(&WorkerMessage::Iteration(iteration));
            }
        }
        Ok(())
    }

    /// Prepares every channel for an iteration: writes the pattern, and resets the tallies if
    /// measuring starts.
    fn begin(
        &mut self,
        context: &Context,
        ready: &Ready,
        index: u32,
        starts_measuring: bool,
    ) -> TaskResult<()> {
        if let Some(ping_pong) = &mut self.ping_pong {
            if starts_measuring {
                ping_pong.times.clear();
            }
            let chunks = self.plans.iter().map(|plan| plan.chunks());
            ping_pong.times.reserve(chunks.sum());
        }
        if starts_measuring {
            self.drivers.start_measuring();
            self.other_cpu = OtherCpu::default();
            self.switches_before = switches();
            self.waited_before = waited_for_cpu();
        }
        for channel in self.drivers.channels_mut() {
            // As in `run.json`, the first iteration is not measured if there are more.
            if starts_measuring {
                channel.start_measuring();
            }
            let place = ready.channels.place(channel.index());
            let Some(plan) = place.and_then(|(lane, _)| self.plans.get(lane)) else {
                continue;
            };
            channel
                .begin(*plan, u64::from(index))
                .map_err(|error| channel_failure(context, &error))?;
        }
        Ok(())
    }

    fn one_iteration(&mut self, context: &Context, ready: &Ready) -> TaskResult<()> {
        let net = &*ready.net;
        let (rogue, ping_pongs) = (self.rogue, &mut self.ping_pong);
        let alone = self
            .drivers
            .alone(|channels, pace| match (ping_pongs, rogue) {
                (Some(PingPong { leads, times }), _) => {
                    Some(ping_pong(net, channels, *leads, pace, times))
                }
                (None, Some(rogue)) => Some(rogue.run_iteration(net, channels, pace)),
                (None, None) => None,
            });
        let moved = match alone.flatten() {
            Some(moved) => moved,
            None => self.drivers.run_iteration(net, self.situation.policy),
        };
        moved.map_err(|error| context.transfer_failure(&error))
    }

    fn result(&self, ready: &Ready) -> TransferResult {
        let channels = self.channel_results(ready);
        TransferResult {
            iterations: self.iterations.clone(),
            lanes: self.lanes.nanoseconds.clone(),
            driving: Some(self.driving(&channels)),
            channels,
            round_trip_us: self
                .ping_pong
                .as_ref()
                .filter(|one| one.leads)
                .and_then(|one| {
                    let [p50, p99, p999, max] = one.times.quantiles_us()?;
                    Some(LatencyUs {
                        p50,
                        p99,
                        p999,
                        max,
                    })
                }),
            memory: ready.memory[0].describe(),
            windows: self.narrowed(ready),
            registered_bytes: self
                .drivers
                .channels()
                .map(|channel| channel.registered_bytes() as u64)
                .sum(),
            resident_bytes: resident_bytes(),
            network: Some(self.network.used(std::process::id())),
            kv: None,
        }
    }

    fn driving(&self, channels: &[ChannelResult]) -> Driving {
        let counters = channels.iter().filter_map(|one| one.counters.as_ref());
        let (tests, done) = counters.fold((0, 0), |(tests, done), now| {
            (tests + now.tests, done + now.done)
        });
        let cpu = self.drivers.cpu();
        let verifying = self.drivers.channels().filter_map(Channel::verifying);
        let verifying = verifying.fold(None, |all: Option<Sampled>, one| {
            let mut all = all.unwrap_or_default();
            all.add(one);
            Some(all)
        });
        // An estimate, unlike the CPU time of the threads.
        let verify_seconds = verifying.map(|all| all.total().min(cpu.iter().sum()).as_secs_f64());
        Driving {
            why: self
                .chosen
                .as_ref()
                .map_or_else(String::new, |one| one.why.clone()),
            cpu_seconds: cpu.iter().map(Duration::as_secs_f64).collect(),
            other_cpu_seconds: self.other_cpu.cpu.as_secs_f64(),
            bytes: self.bytes_measured(),
            context_switches: self
                .switches_before
                .zip(switches())
                .map(|(before, now)| [0, 1].map(|kind| now[kind].saturating_sub(before[kind]))),
            no_cpu_seconds: self
                .waited_before
                .zip(waited_for_cpu())
                .map(|(before, now)| now.saturating_sub(before).as_secs_f64()),
            tests_per_chunk: (done > 0).then(|| tests as f64 / done as f64),
            verify_seconds,
        }
    }

    /// The windows that are narrower than the scenario asks for, and why.
    fn narrowed(&self, ready: &Ready) -> Option<String> {
        let of = |side: Side| {
            let wanted = self.windows[usize::from(side == Side::Recv)];
            let channels = self.drivers.channels();
            let depths = channels.filter(|channel| channel.side() == side);
            let narrowest = depths.map(|channel| channel.window().depth()).min()?;
            (narrowest < wanted).then_some((side, narrowest, wanted))
        };
        let narrow: Vec<_> = [Side::Send, Side::Recv]
            .into_iter()
            .filter_map(of)
            .collect();
        let is_refused = narrow
            .iter()
            .any(|(_, narrowest, wanted)| *narrowest < self.slots.min(*wanted));
        let words = narrow
            .iter()
            .map(|(side, narrowest, wanted)| format!("{narrowest} of {wanted} {side}"));
        let words = words.collect::<Vec<_>>().join(", ");
        let why = match is_refused {
            true => "the plugin refused another request".to_owned(),
            false => format!(
                "a plugin of ncclNet v{} may have {} request slots",
                ready.loaded.about.abi, self.slots
            ),
        };
        (!narrow.is_empty()).then(|| format!("{words}: {why}"))
    }

    fn channel_results(&self, ready: &Ready) -> Vec<ChannelResult> {
        let counters = ready.recorder.now();
        let mut channels: Vec<&Channel> = self.drivers.channels().collect();
        channels.sort_by_key(|channel| (channel.side() == Side::Recv, channel.index()));
        let result = |channel: &Channel| {
            let side = channel.side();
            let mine = counters
                .iter()
                .find(|now| now.side == side && now.index == channel.index());
            ChannelResult {
                side,
                index: channel.index(),
                device: ready.device_of(channel.index()),
                nic: ready.nic_of(channel.index()),
                tally: channel.tally().clone(),
                counters: mine.cloned(),
            }
        };
        channels.into_iter().map(result).collect()
    }

    /// Bytes of the iterations that CPU time was counted in.
    fn bytes_measured(&self) -> u64 {
        let measured = |iteration: &&Iteration| !iteration.warmup;
        let all: Vec<u64> = self
            .iterations
            .iter()
            .filter(measured)
            .map(|one| one.bytes)
            .collect();
        // As in `run.json`, the first iteration is not measured if there are more.
        let skipped = usize::from(self.iterations.len() == all.len() && all.len() > 1);
        all[skipped..].iter().sum()
    }

    /// CPU time of the driving threads.
    fn driven_cpu(&self) -> Duration {
        self.drivers.cpu().iter().sum()
    }
}

/// The time that each lane of a worker took, iteration by iteration. The barriers are those of all
/// lanes, so they tell only the time of the slowest.
struct LaneClocks {
    channels: LaneChannels,
    /// Whose end is a lane's: that of its receives, which includes checking every byte.
    side: Side,
    /// By lane; empty with one lane, whose time is the iteration's.
    nanoseconds: Vec<Vec<u64>>,
}

impl LaneClocks {
    fn new(task: &PairTask, ready: &Ready) -> Self {
        let lanes = task.lanes.len();
        Self {
            channels: ready.channels.clone(),
            side: if task.receives {
                Side::Recv
            } else {
                Side::Send
            },
            nanoseconds: vec![Vec::new(); if lanes > 1 { lanes } else { 0 }],
        }
    }

    /// Adds an iteration that began at `began` and took `whole` nanoseconds.
    fn add<'a>(
        &mut self,
        began: Duration,
        whole: u64,
        channels: impl Iterator<Item = &'a Channel>,
    ) {
        if self.nanoseconds.is_empty() {
            return;
        }
        let mut took = vec![None; self.nanoseconds.len()];
        for channel in channels.filter(|channel| channel.side() == self.side) {
            let place = self.channels.place(channel.index());
            let lane = place.and_then(|(lane, _)| took.get_mut(lane));
            let finished = channel.finished().map(|at| at.saturating_sub(began));
            if let Some(lane) = lane {
                *lane = (*lane).max(finished);
            }
        }
        for (lane, took) in self.nanoseconds.iter_mut().zip(took) {
            let took = took.and_then(|took| u64::try_from(took.as_nanos()).ok());
            lane.push(took.map_or(whole, |took| took.clamp(1, whole.max(1))));
        }
    }
}

/// CPU time of the threads that drive no channel, while channels were driven.
#[derive(Debug, Clone, Copy, Default)]
struct OtherCpu {
    cpu: Duration,
    elapsed: Duration,
}

impl OtherCpu {
    fn add(&mut self, cpu: Duration, elapsed: Duration) {
        self.cpu += cpu;
        self.elapsed += elapsed;
    }

    /// CPUs that they kept busy; `None` if nothing was measured.
    fn load(&self) -> Option<f64> {
        let elapsed = self.elapsed.as_secs_f64();
        (elapsed > 0.0).then(|| self.cpu.as_secs_f64() / elapsed)
    }
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn rogue(task: &PairTask) -> Option<Rogue> {
    let Some(Fault::Driver {
        side,
        kind,
        channel,
        after_chunk,
    }) = &task.scenario.fault
    else {
        return None;
    };
    let ends = [(task.sends, Side::Send), (task.receives, Side::Recv)];
    let mine = ends
        .into_iter()
        .find(|(takes_part, one)| *takes_part && side.include(*one))?;
    Some(Rogue {
        kind: *kind,
        side: mine.1,
        channel: *channel as usize,
        after_chunk: *after_chunk,
    })
}

/// Seed of the pattern: the same on both ends, and different for every run.
pub(super) fn seed(run_id: &str) -> u64 {
    run_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Context switches of this process so far.
fn switches() -> Option<[u64; 2]> {
    context_switches(&Root::live(), std::process::id())
}

/// How long all threads of this process have waited for a CPU so far.
fn waited_for_cpu() -> Option<Duration> {
    waited_by_all(&Root::live(), std::process::id())
}

pub(super) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
