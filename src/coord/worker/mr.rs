//! The work of `mr`: which registrations the plugin accepts, which it refuses and with which
//! message, how long they take, and whether everything is freed.
#![forbid(unsafe_code)]

use super::connect::{Connected, connect_all};
use super::links::PeerLinks;
use super::load::Ready;
use super::{Context, TaskResult};
use crate::protocol::message::{PairTask, WorkerMessage};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tcpx_bootstrap::Deadline;
use tcpx_engine::gpu::{DeviceMemory, HostMemory, MemoryKind, Region};
use tcpx_engine::plugin::{Comm, MHandle, Net, PluginError};
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::MrRow;
use tcpx_words::side::Side;

/// Sizes tried at offset 0: from one byte to the largest C `int`, and one byte more.
const SIZES: [u64; 9] = [
    1,
    4095,
    4096,
    4097,
    512 << 10,
    4 << 20,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
];
/// Offsets from a page boundary, tried with a size of one page.
const OFFSETS: [u64; 5] = [0, 1, 512, 4095, 4096];
/// Most registrations of one page held at once.
const COUNT_MAX: u64 = 4096;
/// Pairs of register and deregister in the storm row.
const STORM: u64 = 2000;
/// Pairs of register and deregister in every other row, for the latencies.
const TRIES: u64 = 32;

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
) -> TaskResult<()> {
    let connected = connect_all(context, task, ready, link)?;
    context.enter(Phase::Registering);
    let rows = sweep(context, ready, &connected);
    context.enter(Phase::Closing);
    context.tell(&WorkerMessage::Mr(rows?));
    let last = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
    link.barrier("registered", 0, last, &context.stop)
        .map_err(|error| context.bootstrap_failure(&error))?;
    for comm in connected.sends {
        ready
            .net
            .close_send(comm)
            .map_err(|error| context.plugin_failure(&error))?;
    }
    for comm in connected.recvs {
        ready
            .net
            .close_recv(comm)
            .map_err(|error| context.plugin_failure(&error))?;
    }
    Ok(())
}

fn sweep(context: &Context, ready: &Ready, connected: &Connected) -> TaskResult<Vec<MrRow>> {
    let comms = connected
        .sends
        .first()
        .map(|comm| (Side::Send, Comm::Send(comm)))
        .into_iter()
        .chain(
            connected
                .recvs
                .first()
                .map(|comm| (Side::Recv, Comm::Recv(comm))),
        );
    let mut rows = Vec::new();
    for (side, comm) in comms {
        for memory in memories(ready) {
            let bench = Bench {
                net: &*ready.net,
                comm,
                side,
                memory,
            };
            for size in SIZES {
                rows.push(bench.one("size", size, 0));
                stop_here(context)?;
            }
            for offset in OFFSETS {
                rows.push(bench.one("offset", 4096, offset));
            }
            rows.push(bench.count());
            rows.push(bench.storm());
            stop_here(context)?;
        }
    }
    Ok(rows)
}

/// Host memory, and GPU memory or a stand-in for it.
fn memories(ready: &Ready) -> [Arc<dyn DeviceMemory>; 2] {
    let device = match ready.memory[0].kind() {
        MemoryKind::Device => Arc::clone(&ready.memory[0]),
        MemoryKind::Host => Arc::new(HostMemory::device_stand_in()),
    };
    [Arc::new(HostMemory::host()), device]
}

fn stop_here(context: &Context) -> TaskResult<()> {
    if context.stop.load(Ordering::Relaxed) {
        Err(context.stopped())
    } else {
        Ok(())
    }
}

struct Bench<'a> {
    net: &'a dyn Net,
    comm: Comm<'a>,
    side: Side,
    memory: Arc<dyn DeviceMemory>,
}

impl Bench<'_> {
    fn row(&self, what: &str, size: u64, offset: u64) -> MrRow {
        MrRow {
            side: self.side,
            memory: self.memory.describe(),
            what: what.to_owned(),
            size,
            offset,
            accepted: false,
            said: String::new(),
            count: 0,
            reg_us: None,
            dereg_us: None,
        }
    }

    /// Allocates memory for a row and makes its GPU current, because a registration binds to the
    /// current GPU. If this fails, the row gets the error.
    fn region(&self, len: usize, row: &mut MrRow) -> Option<Arc<Region>> {
        let region = self
            .memory
            .allocate(len)
            .and_then(|region| self.memory.make_current().map(|()| region));
        region.map_err(|error| row.said = error.to_string()).ok()
    }

    fn one(&self, what: &str, size: u64, offset: u64) -> MrRow {
        let mut row = self.row(what, size, offset);
        let len = usize::try_from(size + offset).unwrap_or(usize::MAX);
        let Some(region) = self.region(len, &mut row) else {
            return row;
        };
        let mut samples = Samples::default();
        for _ in 0..TRIES {
            if let Err(error) = self.pair(&region, offset, size, &mut samples) {
                row.said = words(&error);
                break;
            }
            row.count += 1;
        }
        samples.into_row(&mut row);
        row.accepted = row.count > 0 && row.said.is_empty();
        row
    }

    fn register(
        &self,
        region: &Arc<Region>,
        offset: u64,
        size: u64,
    ) -> Result<MHandle, PluginError> {
        let (offset, len) = (
            usize::try_from(offset).unwrap_or(usize::MAX),
            usize::try_from(size).unwrap_or(usize::MAX),
        );
        let registered = self.net.reg_mr(self.comm, region, offset, len);
        if registered.is_err() {
            // A failed CUDA registration of TCPX 3.1.9 closes descriptor 0.
            super::keep_descriptor_zero();
        }
        registered
    }

    fn pair(
        &self,
        region: &Arc<Region>,
        offset: u64,
        size: u64,
        samples: &mut Samples,
    ) -> Result<(), PluginError> {
        let started = Instant::now();
        let mhandle = self.register(region, offset, size)?;
        samples.reg.push(started.elapsed());
        let started = Instant::now();
        self.net.dereg_mr(self.comm, mhandle)?;
        samples.dereg.push(started.elapsed());
        Ok(())
    }

    /// Counts how many registrations of one page the comm holds at once.
    fn count(&self) -> MrRow {
        let mut row = self.row("count", 4096, 0);
        let Some(region) = self.region(4096, &mut row) else {
            return row;
        };
        let mut held = Vec::new();
        while row.count < COUNT_MAX {
            match self.register(&region, 0, 4096) {
                Ok(mhandle) => held.push(mhandle),
                Err(error) => {
                    row.said = words(&error);
                    break;
                }
            }
            row.count += 1;
        }
        row.accepted = row.count > 0;
        for mhandle in held {
            if let Err(error) = self.net.dereg_mr(self.comm, mhandle) {
                row.accepted = false;
                row.said = words(&error);
            }
        }
        row
    }

    /// Registers and deregisters many times, and reports by how much descriptors and memory grew.
    fn storm(&self) -> MrRow {
        let mut row = self.row("storm", 4096, 0);
        let Some(region) = self.region(4096, &mut row) else {
            return row;
        };
        let mut samples = Samples::default();
        // The plugin may allocate its pools in the first pairs.
        for _ in 0..TRIES {
            if let Err(error) = self.pair(&region, 0, 4096, &mut samples) {
                row.said = words(&error);
                return row;
            }
        }
        let before = held_by_process();
        for _ in 0..STORM {
            if let Err(error) = self.pair(&region, 0, 4096, &mut samples) {
                row.said = words(&error);
                break;
            }
            row.count += 1;
        }
        let after = held_by_process();
        samples.into_row(&mut row);
        let (descriptors, kib) = (
            after.0.saturating_sub(before.0),
            after.1.saturating_sub(before.1),
        );
        row.accepted = row.count == STORM && descriptors == 0;
        if row.said.is_empty() {
            row.said = format!(
                "{descriptors} more descriptors and {kib} KiB more memory after {STORM} pairs"
            );
        }
        row
    }
}

/// Open descriptors and resident KiB of this process.
fn held_by_process() -> (usize, u64) {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (
        descriptors,
        super::transfer::resident_bytes().unwrap_or(0) / 1024,
    )
}

fn words(error: &PluginError) -> String {
    match error {
        PluginError::Refused { code, said, .. } if !said.is_empty() => {
            format!("rc {code}: {}", said.join(" / "))
        }
        other => other.to_string(),
    }
}

#[derive(Default)]
struct Samples {
    reg: Vec<Duration>,
    dereg: Vec<Duration>,
}

impl Samples {
    fn into_row(self, row: &mut MrRow) {
        row.reg_us = p50_p99(self.reg);
        row.dereg_us = p50_p99(self.dereg);
    }
}

fn p50_p99(mut samples: Vec<Duration>) -> Option<(f64, f64)> {
    samples.sort_unstable();
    let at = |share: usize| {
        samples.get((samples.len() * share / 100).min(samples.len().checked_sub(1)?))
    };
    Some((at(50)?.as_secs_f64() * 1e6, at(99)?.as_secs_f64() * 1e6))
}
