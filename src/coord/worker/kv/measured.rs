//! The iterations of KV-cache traffic, between barriers that both ends share, and what is measured in
//! them.
#![forbid(unsafe_code)]

use super::Memory;
use super::client::{self, Clocks};
use super::failure;
use super::session::Session;
use crate::protocol::message::{PairTask, WorkerMessage};
use crate::worker::links::PeerLinks;
use crate::worker::load::Ready;
use crate::worker::memory::memory_failure;
use crate::worker::transfer::{IterationNews, gather, resident_bytes};
use crate::worker::{Context, TaskResult};
use std::time::{Duration, Instant};
use tcpx_bootstrap::Deadline;
use tcpx_run_model::counters::{ChannelNow, NetworkBefore};
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::{ChannelResult, Iteration, KvResult, TransferResult};
use tcpx_words::payload::Tally;
use tcpx_words::side::Side;

/// What is measured, beside the session's tally.
pub(super) struct Measured {
    iterations: Vec<Iteration>,
    clocks: Clocks,
    /// Counters when measuring began.
    before: Vec<ChannelNow>,
    network: NetworkBefore,
}

/// Runs every iteration.
pub(super) fn iterate(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
    session: &Session<'_>,
    measured: &mut Measured,
) -> TaskResult<()> {
    let wanted = &task.scenario.transfer;
    let until = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
    let directions = u64::from(task.sends) + u64::from(task.receives);
    let starts = session.peer_cache.is_some() || session.peer_places.is_some();
    let mut news = IterationNews::default();
    for index in 0..wanted.warmup + wanted.iterations {
        let warmup = index < wanted.warmup;
        if index == wanted.warmup && task.together {
            gather(context, task)?;
        }
        // As in `run.json`, the first iteration is not measured if there are more.
        if index == wanted.warmup || (index == 1 && wanted.warmup == 0) {
            measured.start(ready, session);
        }
        if let Some(cache) = session.cache {
            cache
                .fill(index.into())
                .map_err(|error| memory_failure(context, &error))?;
        }
        context.enter(match warmup {
            true => Phase::WarmUp,
            false => Phase::Measuring,
        });
        link.barrier("start", u64::from(index), until, &context.stop)
            .map_err(|error| context.bootstrap_failure(&error))?;
        let started = Instant::now();
        if starts {
            let clocks =
                client::run_iteration(session, index).map_err(|ended| failure(context, ended))?;
            measured.clocks.merge(&clocks);
        }
        link.barrier("end", u64::from(index), until, &context.stop)
            .map_err(|error| context.bootstrap_failure(&error))?;
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (verified_bytes, wrong_bytes) = {
            let arrived = session.arrived();
            (arrived.verified_bytes, arrived.wrong_bytes)
        };
        let iteration = Iteration {
            index,
            warmup,
            nanoseconds,
            bytes: session.plan.bytes() * directions,
            verified_bytes,
            wrong_bytes,
        };
        measured.iterations.push(iteration);
        let is_last = index + 1 == wanted.warmup || index + 1 == wanted.warmup + wanted.iterations;
        if news.is_due() || is_last || wrong_bytes > 0 {
            context.tell(&WorkerMessage::Iteration(iteration));
        }
    }
    Ok(())
}

impl Measured {
    pub(super) fn new(ready: &Ready) -> Self {
        let names = ready.loaded.devices.iter().map(|one| one.name.clone());
        Self {
            iterations: Vec::new(),
            clocks: Clocks::default(),
            before: Vec::new(),
            network: NetworkBefore::read(names),
        }
    }

    /// Counts from zero again, except wrong bytes.
    fn start(&mut self, ready: &Ready, session: &Session<'_>) {
        self.clocks = Clocks::default();
        self.before = ready.recorder.now();
        let mut arrived = session.arrived();
        (arrived.bytes, arrived.verified_bytes) = (0, 0);
    }

    pub(super) fn result(
        &self,
        ready: &Ready,
        session: &Session<'_>,
        memory: &Memory,
    ) -> TransferResult {
        let starts = session.peer_cache.is_some() || session.peer_places.is_some();
        TransferResult {
            iterations: self.iterations.clone(),
            lanes: Vec::new(),
            channels: self.channels(ready),
            round_trip_us: None,
            memory: memory.kind.describe(),
            windows: None,
            registered_bytes: memory.bytes(),
            resident_bytes: resident_bytes(),
            driving: None,
            network: Some(self.network.used(std::process::id())),
            kv: Some(Box::new(KvResult {
                started: starts.then(|| self.clocks.told()),
                arrived: session.arrived().clone(),
            })),
        }
    }

    /// Every comm of the endpoint, by the recorder's counters: the same ones as in samples, also where
    /// a direction carries no data.
    fn channels(&self, ready: &Ready) -> Vec<ChannelResult> {
        let now = ready.recorder.now();
        let find = |all: &[ChannelNow], side, index| {
            let mut all = all.iter();
            all.find(|one| one.side == side && one.index == index)
                .cloned()
        };
        let channel = |side: Side, index: usize| {
            let counters = find(&now, side, index);
            let bytes = |one: Option<&ChannelNow>| one.map_or(0, |one| one.bytes);
            let before = find(&self.before, side, index);
            ChannelResult {
                side,
                index,
                device: ready.device_of(index),
                nic: ready.nic_of(index),
                tally: Tally {
                    bytes: bytes(counters.as_ref()).saturating_sub(bytes(before.as_ref())),
                    ..Tally::default()
                },
                counters,
            }
        };
        let lanes = ready.channels.count();
        [Side::Send, Side::Recv]
            .into_iter()
            .flat_map(|side| (0..lanes).map(move |index| (side, index)))
            .map(|(side, index)| channel(side, index))
            .collect()
    }
}
