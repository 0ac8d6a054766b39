//! The work of `run`: registers memory, warms up, measures and reports.
//!
//! Each iteration lies between two barriers that both ends share, and its time is the time between
//! them. The pattern is written before the first barrier; before the second, every byte is done,
//! unpacked, checked and consumed.
#![forbid(unsafe_code)]

use super::connect::connect_all;
use super::links::PeerLinks;
use super::load::Ready;
use super::memory::memory_failure;
use super::{Context, TaskResult};
use crate::bootstrap::Deadline;
use crate::protocol::message::{PairTask, WorkerMessage, WorkerOrder};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcpx_engine::gpu::Unpack;
use tcpx_engine::transfer::{
    Channel, ChannelError, ChannelSetup, Pattern, Plan, Rogue, RoundTrips, WallPace, ping_pong,
    run_iteration,
};
use tcpx_run_model::counters::LatencyUs;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::Iteration;
use tcpx_run_model::results::{ChannelResult, TransferResult};
use tcpx_run_model::scenario::{self, Fault};
use tcpx_words::error::Outcome;
use tcpx_words::payload::Tally;
use tcpx_words::progress::Policy;
use tcpx_words::side::Side;

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
) -> TaskResult<()> {
    let connected = connect_all(context, task, ready, link)?;
    context.enter(Phase::Registering);
    let mut transfer = Transfer::new(context, task)?;
    let sends = connected
        .sends
        .into_iter()
        .enumerate()
        .map(|(index, comm)| {
            Channel::sender(
                &*ready.net,
                comm,
                Arc::clone(ready.memory_of(index)),
                transfer.setup(index, Side::Send),
            )
        });
    let recvs = connected
        .recvs
        .into_iter()
        .enumerate()
        .map(|(index, comm)| {
            Channel::receiver(
                &*ready.net,
                comm,
                Arc::clone(ready.memory_of(index)),
                transfer.setup(index, Side::Recv),
            )
        });
    let channels: Result<Vec<Channel>, ChannelError> = sends.chain(recvs).collect();
    transfer.channels = channels.map_err(|error| channel_failure(context, &error))?;
    if let Some(tap) = ready.tap {
        transfer
            .channels
            .iter_mut()
            .for_each(|channel| channel.record(tap));
    }
    let ran = transfer.iterate(context, task, ready, link);
    context.enter(Phase::Closing);
    context.tell(&WorkerMessage::Transfer(Box::new(transfer.result(ready))));
    ran?;
    // Close only after both ends have received everything.
    let last = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
    link.barrier("close", 0, last, &context.stop)
        .map_err(|error| context.bootstrap_failure(&error))?;
    for channel in transfer.channels {
        channel
            .close(&*ready.net)
            .map_err(|error| context.plugin_failure(&error))?;
    }
    Ok(())
}

/// Waits until the workers of all GPUs have warmed up: their rates can be added only while all of
/// them move bytes.
fn gather(context: &mut Context, task: &PairTask) -> TaskResult<()> {
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

struct Transfer {
    channels: Vec<Channel>,
    plan: Plan,
    pattern: Option<Arc<Pattern>>,
    unpack: Unpack,
    policy: Policy,
    pace: WallPace,
    rogue: Option<Rogue>,
    ping_pong: Option<PingPong>,
    windows: [usize; 2],
    chunk: usize,
    close_grace: Duration,
    iterations: Vec<Iteration>,
}

impl Transfer {
    fn new(context: &Context, task: &PairTask) -> TaskResult<Self> {
        let wanted = &task.scenario.transfer;
        let plan = Plan::of_groups(
            wanted.total.0,
            wanted.chunk.0,
            wanted.connections as usize,
            task.gpus.len(),
        );
        let plan = plan.ok_or_else(|| {
            context.failure(
                Outcome::Usage,
                format!(
                    "cannot cut {} into chunks of {}",
                    wanted.total, wanted.chunk
                ),
                None,
            )
        })?;
        Ok(Self {
            channels: Vec::new(),
            plan,
            pattern: wanted
                .verify
                .then(|| Arc::new(Pattern::new(seed(&task.run_id)))),
            unpack: match wanted.unpack {
                scenario::Unpack::Auto | scenario::Unpack::Kernel => Unpack::Kernel,
                scenario::Unpack::D2d => Unpack::D2d,
                scenario::Unpack::Host => Unpack::Host,
                scenario::Unpack::None => Unpack::None,
            },
            policy: task.scenario.progress.policy,
            pace: WallPace::new(task.scenario.progress.idle, Arc::clone(&context.stop)),
            rogue: rogue(task),
            ping_pong: (wanted.direction == scenario::Direction::PingPong).then(|| PingPong {
                // The end that connects in the bootstrap sends first.
                leads: task.listen.is_none(),
                times: RoundTrips::default(),
            }),
            windows: [wanted.send_window as usize, wanted.recv_window as usize],
            chunk: wanted.chunk.as_usize(),
            close_grace: task.scenario.limits.close_grace.into(),
            iterations: Vec::new(),
        })
    }

    fn setup(&self, index: usize, side: Side) -> ChannelSetup {
        ChannelSetup {
            index,
            window: self.windows[usize::from(side == Side::Recv)],
            chunk: self.chunk,
            verify: self.pattern.clone(),
            unpack: self.unpack,
            close_grace: self.close_grace,
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
        for index in 0..wanted.warmup + wanted.iterations {
            let warmup = index < wanted.warmup;
            let starts_measuring = index == wanted.warmup || (index == 1 && wanted.warmup == 0);
            if index == wanted.warmup && task.together {
                gather(context, task)?;
            }
            self.begin(context, index, starts_measuring)?;
            context.enter(if warmup {
                Phase::WarmUp
            } else {
                Phase::Measuring
            });
            link.barrier("start", u64::from(index), until, &context.stop)
                .map_err(|e| context.bootstrap_failure(&e))?;
            let started = Instant::now();
            self.one_iteration(context, ready)?;
            link.barrier("end", u64::from(index), until, &context.stop)
                .map_err(|e| context.bootstrap_failure(&e))?;
            let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let tallied = |count: fn(&Tally) -> u64| {
                self.channels
                    .iter()
                    .map(|channel| count(channel.tally()))
                    .sum()
            };
            let iteration = Iteration {
                index,
                warmup,
                nanoseconds,
                bytes: self.plan.total() * directions,
                verified_bytes: tallied(|tally| tally.verified_bytes),
                wrong_bytes: tallied(|tally| tally.wrong_bytes),
            };
            self.iterations.push(iteration);
            context.tell(&WorkerMessage::Iteration(iteration));
        }
        Ok(())
    }

    /// Prepares every channel for an iteration: writes the pattern, and resets the tallies if
    /// measuring starts.
    fn begin(&mut self, context: &Context, index: u32, starts_measuring: bool) -> TaskResult<()> {
        if let Some(ping_pong) = &mut self.ping_pong {
            if starts_measuring {
                ping_pong.times.clear();
            }
            ping_pong.times.reserve(self.plan.chunks());
        }
        for channel in &mut self.channels {
            // As in `run.json`, the first iteration is not measured if there are more.
            if starts_measuring {
                channel.start_measuring();
            }
            channel
                .begin(self.plan, u64::from(index))
                .map_err(|error| channel_failure(context, &error))?;
        }
        Ok(())
    }

    fn one_iteration(&mut self, context: &Context, ready: &Ready) -> TaskResult<()> {
        let net = &*ready.net;
        let moved = match (&mut self.ping_pong, self.rogue) {
            (Some(PingPong { leads, times }), _) => {
                ping_pong(net, &mut self.channels, *leads, &mut self.pace, times)
            }
            (None, Some(rogue)) => rogue.run_iteration(net, &mut self.channels, &mut self.pace),
            (None, None) => run_iteration(net, &mut self.channels, self.policy, &mut self.pace),
        };
        moved.map_err(|error| context.transfer_failure(&error))
    }

    fn result(&self, ready: &Ready) -> TransferResult {
        let counters = ready.recorder.now();
        TransferResult {
            iterations: self.iterations.clone(),
            channels: self
                .channels
                .iter()
                .map(|channel| {
                    let side = channel.side();
                    let mine = counters
                        .iter()
                        .find(|now| now.side == side && now.index == channel.index());
                    ChannelResult {
                        side: channel.side(),
                        index: channel.index(),
                        device: ready.device_of(channel.index()),
                        nic: ready.nic_of(channel.index()),
                        tally: channel.tally().clone(),
                        counters: mine.cloned(),
                    }
                })
                .collect(),
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
            registered_bytes: self
                .channels
                .iter()
                .map(|channel| channel.registered_bytes() as u64)
                .sum(),
            resident_bytes: resident_bytes(),
        }
    }
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
fn seed(run_id: &str) -> u64 {
    run_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

pub(super) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
