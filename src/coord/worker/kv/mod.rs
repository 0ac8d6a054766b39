//! KV-cache traffic, the work of `run` with `[traffic] kind = "kv"`: one endpoint per worker, vector
//! reads or writes of pages, every page compared.
//!
//! As for one stream of bytes, an iteration lies between two barriers that both ends share, and the
//! pattern is written before the first one. Unlike there, only one end starts operations: with
//! `pull` the end that receives, with `push` the end that sends. Its client threads are in `client`,
//! what both ends share is in `session`, the memory is in `pages`.
#![forbid(unsafe_code)]

mod client;
mod measured;
mod notes;
mod pages;
mod session;
mod words;

use super::links::PeerLinks;
use super::load::Ready;
use super::memory::{self, Opened, memory_failure};
use super::transfer::seed;
use super::{Context, TaskResult};
use crate::protocol::limits::connecting;
use crate::protocol::message::{PairTask, WorkerMessage};
use measured::{Measured, iterate};
use notes::Note;
use pages::{PageKind, Pages, PagesError};
use session::{Answers, Ended, SLICE, Session};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tcpx_bootstrap::{Deadline, Handle, Secret};
use tcpx_engine::gpu::{CudaMemory, DeviceMemory, HostMemory, MemoryKind};
use tcpx_engine::transfer::Pattern;
use tcpx_node::{Root, memory_available};
use tcpx_p2p::{Endpoint, Error, Loaded, MemoryOf, Metadata, Rights, Settings};
use tcpx_run_model::kv_plan::KvPlan;
use tcpx_run_model::lanes::LaneChannels;
use tcpx_run_model::phase::{Failure, Phase};
use tcpx_run_model::scenario::{KvOperation, Traffic};
use tcpx_words::error::{NextStep, Outcome};
use tcpx_words::payload::Tally;

/// Handles that carry an endpoint's metadata over the bootstrap; it has about 400 bytes.
const METADATA_HANDLES: u32 = 8;
const HANDLE_BYTES: usize = 128;

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
    kv: &Traffic,
) -> TaskResult<()> {
    context.enter(Phase::Connecting);
    let gpu = gpu(context, task, ready)?;
    let endpoint = open(context, task, ready, gpu.as_ref())?;
    let connection = meet(context, task, &endpoint, link)?;
    context.enter(Phase::Registering);
    let plan = KvPlan::new(kv);
    let memory = Memory::new(context, task, &endpoint, gpu, (kv, &plan))?;
    let stop = Arc::clone(&context.stop);
    let mut session = Session {
        endpoint: &endpoint,
        connection,
        plan: &plan,
        kv,
        verify: task.scenario.transfer.verify,
        stop: &stop,
        failed: AtomicBool::new(false),
        cache: memory.cache.as_ref(),
        places: &memory.places,
        peer_cache: None,
        peer_places: None,
        arrived: Mutex::new(Tally::default()),
        answers: Answers::new((kv.concurrency * kv.depth) as usize),
    };
    exchange(context, task, &mut session)?;
    let mut measured = Measured::new(ready);
    let over = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        let (session, over) = (&session, &over);
        let notes = scope.spawn(move || {
            let served = session.serve(over);
            session.failed.fetch_or(served.is_err(), Ordering::Relaxed);
            served
        });
        let ran = iterate(context, task, ready, link, session, &mut measured);
        over.store(true, Ordering::Relaxed);
        let served = notes
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // What the notifications said is the cause of a client that stopped.
        served.map_err(|ended| failure(context, ended)).and(ran)
    });
    context.enter(Phase::Closing);
    let result = measured.result(ready, &session, &memory);
    context.tell(&WorkerMessage::Transfer(Box::new(result)));
    if let Err(failure) = ran {
        context.announce(&failure);
        // As after any failure, the comms stay as they are until the process ends: the recorder
        // shows what was in flight, and a thread inside a plugin call is not waited for.
        std::mem::forget(endpoint);
        return Err(failure);
    }
    // Close only after both ends have received everything.
    let last = Deadline::after("limits.total", Duration::from(task.scenario.limits.total));
    link.barrier("close", 0, last, &context.stop)
        .map_err(|error| context.bootstrap_failure(&error))
}

/// The GPU that holds the pages; `None` for host memory.
fn gpu(context: &Context, task: &PairTask, ready: &Ready) -> TaskResult<Option<Arc<CudaMemory>>> {
    let gpu = task.lanes.first().and_then(|lane| lane.gpu);
    match memory::open(context, task, ready, gpu)? {
        Opened::Gpu(gpu) => Ok(Some(gpu)),
        Opened::Host(memory) if memory.kind() == MemoryKind::Host => Ok(None),
        Opened::Host(_) => {
            let (message, next) = (words::NO_STAND_IN, words::USE_HOST);
            Err(context.failure(Outcome::NotRun, message.to_owned(), Some(next.to_owned())))
        }
    }
}

/// The endpoint, over the worker's plugin, recorder and devices.
fn open(
    context: &Context,
    task: &PairTask,
    ready: &Ready,
    gpu: Option<&Arc<CudaMemory>>,
) -> TaskResult<Endpoint> {
    let secret = Secret::from_hex(&task.secret)
        .map_err(|error| context.failure(Outcome::Usage, words::secret_refused(&error), None))?;
    let scenario = &task.scenario;
    let lanes = ready.channels.count();
    let file = ready.loaded.file.as_ref();
    let loaded = Loaded {
        net: Arc::clone(&ready.net),
        tap: ready.tap,
        devices: (0..lanes).map(|lane| ready.device_of(lane)).collect(),
        interface: None,
        sha256: file.map_or_else(|| "builtin".to_owned(), |file| file.sha256.clone()),
    };
    let settings = Settings {
        name: format!("kv {}", task.node.chars().take(12).collect::<String>()),
        // Only the end that listens in the bootstrap is connected to.
        address: Some(task.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        port: task.listen.map_or(0, |_| task.port),
        lanes,
        memory: gpu.map_or(MemoryOf::Host, |gpu| MemoryOf::Opened(Arc::clone(gpu))),
        chunk: scenario.transfer.chunk.as_usize(),
        secret: Some(secret),
        connect_within: connecting(&scenario.limits, |name| std::env::var(name).ok()),
        // The agent declares stalls; this end waits for as long as the run may.
        stall_after: scenario.limits.total.into(),
        threads: Some(driving_threads(task.workers_here as usize)),
        ..Settings::default()
    };
    Endpoint::over(loaded, &settings).map_err(|error| {
        let about = &ready.loaded.about;
        let message = words::no_endpoint(&about.name, &about.abi, &error);
        let next = (!ready.net.calls().limits().asks_again).then(|| words::ANOTHER_ABI.to_owned());
        context.failure(Outcome::NotRun, message, next.or(error.next_step()))
    })
}

/// This worker's share of the CPUs. Of two, the kernel's and the clients' work take as much as a second
/// thread gains.
fn driving_threads(workers: usize) -> NonZero<usize> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = if cpus > 2 { cpus / workers.max(1) } else { 1 };
    NonZero::new(share).unwrap_or(NonZero::<usize>::MIN)
}

/// Connects to the peer's endpoint. The metadata travel as connect handles do.
fn meet(
    context: &Context,
    task: &PairTask,
    endpoint: &Endpoint,
    link: &mut PeerLinks,
) -> TaskResult<u64> {
    let patience = connecting(&task.scenario.limits, |name| std::env::var(name).ok());
    let deadline = Deadline::after("limits.connect", patience);
    let mut mine = endpoint.metadata().to_bytes();
    mine.resize(METADATA_HANDLES as usize * HANDLE_BYTES, b' ');
    let pieces = LaneChannels::new([METADATA_HANDLES]);
    let mine: Vec<Handle> = mine.as_chunks().0.to_vec();
    let theirs = link
        .exchange_handles(&mine, true, &pieces, deadline, &context.stop)
        .map_err(|error| context.bootstrap_failure(&error))?;
    let connected = match task.listen {
        None => Metadata::parse(theirs.concat().trim_ascii_end())
            .map_err(|error| Error::Usage(error.to_string()))
            .and_then(|metadata| endpoint.connect(&metadata)),
        Some(_) => accept(context, endpoint, patience),
    };
    connected.map_err(|error| failure(context, error.into()))
}

fn accept(context: &Context, endpoint: &Endpoint, allowed: Duration) -> Result<u64, Error> {
    let started = Instant::now();
    loop {
        match endpoint.accept(SLICE) {
            Ok(accepted) => return Ok(accepted.connection),
            Err(Error::TimedOut { what, .. }) if started.elapsed() > allowed => {
                return Err(Error::TimedOut { what, allowed });
            }
            Err(Error::TimedOut { .. }) if !context.stop.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The memory of one end.
struct Memory {
    kind: Arc<dyn DeviceMemory>,
    cache: Option<Pages>,
    places: Vec<Pages>,
}

impl Memory {
    fn new(
        context: &Context,
        task: &PairTask,
        endpoint: &Endpoint,
        gpu: Option<Arc<CudaMemory>>,
        (kv, plan): (&Traffic, &KvPlan),
    ) -> TaskResult<Self> {
        let is_on_a_gpu = gpu.is_some();
        let memory: Arc<dyn DeviceMemory> = match gpu {
            Some(gpu) => gpu,
            None => Arc::new(HostMemory::host()),
        };
        let verify = task.scenario.transfer.verify;
        let pattern = verify.then(|| Arc::new(Pattern::new(seed(&task.run_id))));
        // The end that connects in the bootstrap sends in direction 0.
        let connects = task.listen.is_none();
        let kind = |sends: bool| PageKind {
            bytes: plan.page_bytes() as usize,
            pattern: pattern.clone(),
            channel: u64::from(sends != connects),
        };
        let refused = |error| match error {
            PagesError::Memory(error) => memory_failure(context, &error),
            PagesError::Endpoint(error) => failure(context, error.into()),
        };
        let of_client = (kv.depth * kv.batch) as usize;
        let clients = kv.concurrency as usize;
        let regions = match kv.op {
            _ if !task.receives => Vec::new(),
            KvOperation::Pull => vec![of_client; clients],
            KvOperation::Push => vec![of_client * clients],
        };
        let sent = if task.sends { plan.cache_pages() } else { 0 };
        let all = sent + regions.iter().map(|count| *count as u64).sum::<u64>();
        if !is_on_a_gpu {
            must_fit(context, all.saturating_mul(plan.page_bytes()))?;
        }
        let cache = task
            .sends
            .then(|| Pages::new(endpoint, &memory, &kind(true), plan.cache_pages() as usize))
            .transpose()
            .map_err(refused)?;
        let places: Result<Vec<Pages>, PagesError> = regions
            .into_iter()
            .map(|count| Pages::new(endpoint, &memory, &kind(false), count))
            .collect();
        Ok(Self {
            kind: memory,
            cache,
            places: places.map_err(refused)?,
        })
    }

    fn bytes(&self) -> u64 {
        self.cache
            .iter()
            .chain(&self.places)
            .map(Pages::bytes)
            .sum()
    }
}

/// The pages are touched at once, and more than there is would end the process, or another one.
fn must_fit(context: &Context, bytes: u64) -> TaskResult<()> {
    let there = memory_available(&Root::live());
    match there.known() {
        Some(there) if bytes > *there => {
            let message = words::too_large(bytes, *there);
            Err(context.failure(Outcome::NotRun, message, Some(words::LOWER.to_owned())))
        }
        _ => Ok(()),
    }
}

/// Advertises what the peer reads or writes, and takes what it advertises.
fn exchange(context: &Context, task: &PairTask, session: &mut Session<'_>) -> TaskResult<()> {
    let op = session.kv.op;
    let mine = match op {
        KvOperation::Pull => session.cache.map(|pages| (pages, Rights::Read)),
        KvOperation::Push => session.places.first().map(|pages| (pages, Rights::Write)),
    };
    let failed = |error: Error| failure(context, error.into());
    if let Some((pages, rights)) = mine {
        let blob = pages.advertise(session.endpoint, rights).map_err(failed)?;
        let is_cache = op == KvOperation::Pull;
        let note = Note::Memory { is_cache, blob }.encode();
        let sent = session.endpoint.notify(session.connection, &note);
        sent.map_err(failed)?;
    }
    let starts = match op {
        KvOperation::Pull => task.receives,
        KvOperation::Push => task.sends,
    };
    if !starts {
        return Ok(());
    }
    let allowed = connecting(&task.scenario.limits, |name| std::env::var(name).ok());
    let started = Instant::now();
    while started.elapsed() < allowed {
        if context.stop.load(Ordering::Relaxed) {
            return Err(context.stopped());
        }
        let Some((_, bytes)) = session.endpoint.notification(SLICE) else {
            continue;
        };
        match (op, Note::decode(&bytes)) {
            (
                KvOperation::Pull,
                Some(Note::Memory {
                    is_cache: true,
                    blob,
                }),
            ) => {
                session.peer_cache = Some(blob);
            }
            (
                KvOperation::Push,
                Some(Note::Memory {
                    is_cache: false,
                    blob,
                }),
            ) => {
                session.peer_places = Some(blob);
            }
            _ => return Err(failure(context, words::unexpected(&bytes))),
        }
        return Ok(());
    }
    let what = words::PEER_MEMORY.to_owned();
    Err(failed(Error::TimedOut { what, allowed }))
}

/// What an iteration that ended early is told as.
fn failure(context: &Context, ended: Ended) -> Box<Failure> {
    match ended {
        Ended::Stopped => context.stopped(),
        Ended::Memory(error) => memory_failure(context, &error),
        Ended::Peer(what) => context.failure(Outcome::Failed, what, None),
        Ended::Failed(error) => {
            let outcome = match error {
                Error::Usage(_) => Outcome::NotRun,
                _ => Outcome::Failed,
            };
            let mut failure = context.failure(outcome, error.to_string(), error.next_step());
            // The peer, whose connection ended, knows why.
            failure.follows |= matches!(error, Error::Connection { .. } | Error::Closed);
            failure
        }
    }
}
