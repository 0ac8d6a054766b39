//! One end of a pair: loads the plugin, connects to the peer, connects every channel, does the
//! work.
//!
//! The receiving end listens first and sends its connect handles over the bootstrap connection.
//! Then each end polls every connect and accept in turn until each returns a comm. TCPX allows one
//! connection per listener and needs a separate handle buffer for each connect. The end that
//! listens in the bootstrap accepts before it connects, because a v4 plugin blocks inside either
//! call.
#![forbid(unsafe_code)]

use super::links::PeerLinks;
use super::load::{Ready, load};
use super::sockets::{self, Flow};
use super::{Context, TaskResult, handshake, kv, memory, mr, transfer};
use crate::protocol::limits::connecting;
use crate::protocol::message::{PairTask, Work, WorkerMessage, WorkerOrder};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tcpx_bootstrap::{Config, Deadline, Listener, PeerLink, Purpose, Secret};
use tcpx_engine::plugin::{ConnectHandle, Connecting, ListenComm, RecvComm, SendComm};
use tcpx_run_model::ids::Lane;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::ConnectionTimes;
use tcpx_run_model::scenario::NicMap;
use tcpx_words::error::Outcome;
use tcpx_words::side::Side;

/// Added to deadlines for the peer. If the peer is stuck inside a plugin call, the coordinator,
/// which can name the call, ends the run first.
const LOADING: Duration = Duration::from_secs(5);

/// The comms of one pair, connected.
pub(super) struct Connected {
    /// Send comms, by connection.
    pub(super) sends: Vec<SendComm>,
    /// Receive comms, by connection.
    pub(super) recvs: Vec<RecvComm>,
    /// Duration of each step of each connection.
    pub(super) times: Vec<ConnectionTimes>,
}

pub(super) fn run(context: &mut Context, task: &PairTask) -> TaskResult<()> {
    bind(context, task)?;
    let channels = task.channels();
    // The lanes of an endpoint are comms in both directions.
    let kv = task.scenario.traffic.as_ref();
    let kv = kv.filter(|_| task.work == Work::Transfer);
    let ends = match kv {
        Some(_) => 2,
        None => usize::from(task.sends) + usize::from(task.receives),
    };
    let mut ready = load(context, &task.plugin, channels.count() * ends, &task.run_id)?;
    check_against_plugin(context, task, &ready)?;
    ready.channels = channels;
    ready.lane_devices = lane_devices(context, task, &ready)?;
    if kv.is_none() {
        ready.memory = memory::of_lanes(context, task, &ready)?;
    }
    context.enter(Phase::Bootstrapping);
    let mut link = PeerLinks(
        task.lanes
            .iter()
            .map(|lane| meet(context, task, &ready, lane.lane))
            .collect::<TaskResult<_>>()?,
    );
    let done = match (&task.work, kv) {
        (Work::Transfer, Some(kv)) => kv::run(context, task, &ready, &mut link, kv),
        (Work::Transfer, None) => transfer::run(context, task, &ready, &mut link),
        (Work::Handshake { repeat }, _) => {
            handshake::run(context, task, &ready, &mut link, *repeat)
        }
        (Work::Mr, _) => mr::run(context, task, &ready, &mut link),
    };
    let done = done.and_then(|()| {
        ready
            .net
            .finalize()
            .map_err(|error| context.plugin_failure(&error))
    });
    let deadline = Deadline::after("the closing timeout", Duration::from_secs(2));
    match &done {
        Ok(()) => {
            // Enter the phase first: the plugin has finished, and only the peer is awaited.
            context.enter(Phase::Finished);
            link.close(deadline, &context.stop);
        }
        Err(failure) => {
            context.announce(failure);
            link.abort(failure.outcome, &failure.message);
        }
    }
    done
}

/// Checks the scenario against the limits of the plugin and its devices.
fn check_against_plugin(context: &Context, task: &PairTask, ready: &Ready) -> TaskResult<()> {
    let with_limit = ready
        .loaded
        .devices
        .iter()
        .filter(|device| device.max_p2p_bytes > 0);
    let smallest_limit = with_limit
        .map(|device| (device.name.as_str(), device.max_p2p_bytes))
        .min_by_key(|(_, bytes)| *bytes);
    task.scenario
        .check_against_plugin(ready.net.about().family(), smallest_limit)
        .map_err(|reason| context.failure(Outcome::Usage, reason.to_string(), None))
}

/// The devices of each lane. A map by hand is kept or refused; any other falls back to every
/// device, because the user's own variables may have left the plugin without the nearest.
fn lane_devices(context: &Context, task: &PairTask, ready: &Ready) -> TaskResult<Vec<Vec<usize>>> {
    let devices = &ready.loaded.devices;
    let is_fixed = matches!(task.scenario.topology.map, NicMap::Fixed(_));
    let mut lanes = Vec::new();
    for lane in &task.lanes {
        let mut of_lane = Vec::new();
        for nic in &lane.nics {
            match devices.iter().position(|device| device.name == *nic) {
                Some(device) => of_lane.push(device),
                None if is_fixed => {
                    let names: Vec<&str> =
                        devices.iter().map(|device| device.name.as_str()).collect();
                    let message = format!(
                        "topology.map gives {} the interface {nic}, and the devices of the plugin are {}",
                        Lane::from(lane.gpu),
                        names.join(", ")
                    );
                    let next =
                        "correct the map, or the variables that choose the plugin's interfaces";
                    return Err(context.failure(Outcome::NotRun, message, Some(next.to_owned())));
                }
                None => {}
            }
        }
        lanes.push(of_lane);
    }
    Ok(lanes)
}

/// Binds the main thread to the task's CPUs. Threads that the plugin starts inherit the binding.
fn bind(context: &Context, task: &PairTask) -> TaskResult<()> {
    let Some(cpus) = &task.cpus else {
        return Ok(());
    };
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus
        .cpus()
        .filter(|cpu| (*cpu as usize) < rustix::thread::CpuSet::MAX_CPU)
    {
        set.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| {
        let next =
            "check `[bindings]` of the scenario against the CPUs of this node and of its cgroup"
                .to_owned();
        context.failure(
            Outcome::NotRun,
            format!("cannot run on CPUs {cpus}: {error}"),
            Some(next),
        )
    })
}

fn meet(context: &Context, task: &PairTask, ready: &Ready, lane: Lane) -> TaskResult<PeerLink> {
    let secret = Secret::from_hex(&task.secret).map_err(|error| {
        let what = format!("the run's secret is refused: {error}");
        context.failure(Outcome::Usage, what, None)
    })?;
    let config = config(task, ready, lane);
    let patience = Duration::from(task.scenario.limits.connect);
    let deadline = || Deadline::after("limits.connect + 5 s", patience + LOADING);
    let met = match task.listen {
        Some(ip) => {
            let listener = Listener::bind(SocketAddr::new(ip, task.port))
                .map_err(|e| context.bootstrap_failure(&e))?;
            context.tell(&WorkerMessage::Listening(listener.local_addr()));
            listener.accept(&secret, &config, deadline(), &context.stop)
        }
        None => {
            let message = context.receive(patience + LOADING, "the peer's listening address")?;
            let WorkerOrder::PeerListens(address) = message else {
                return Err(context.failure(
                    Outcome::Usage,
                    "received another order in place of the peer's listening address".into(),
                    None,
                ));
            };
            tcpx_bootstrap::connect(
                address,
                &secret,
                Purpose::Pair,
                &config,
                deadline(),
                &context.stop,
            )
        }
    };
    met.map_err(|error| context.bootstrap_failure(&error))
}

/// The configuration that both ends must share, without values that may differ between nodes.
fn config(task: &PairTask, ready: &Ready, lane: Lane) -> Config {
    Config {
        pair: lane.to_string(),
        tcpxctl_version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario_sha256: task.scenario.hash(),
        scenario: task.scenario.leaves(),
        plugin_name: ready.loaded.about.name.clone(),
        plugin_version: ready.loaded.version.clone().unwrap_or_default(),
        plugin_sha256: ready
            .loaded
            .file
            .as_ref()
            .map_or_else(|| "builtin".to_owned(), |file| file.sha256.clone()),
        settings: super::load::shared_settings(&task.scenario),
    }
}

struct Pending<T> {
    state: T,
    started: Instant,
    retries: u64,
    ended: Option<Duration>,
}

impl<T> Pending<T> {
    fn new(state: T) -> Self {
        Self {
            state,
            started: Instant::now(),
            retries: 0,
            ended: None,
        }
    }
}

/// Connects every channel of this end; closes everything if one fails.
pub(super) fn connect_all(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
) -> TaskResult<Connected> {
    context.enter(Phase::Connecting);
    let mut listeners = Vec::new();
    let made = match listen_all(context, task, ready, &mut listeners) {
        Ok(handles) => connect_and_accept(context, task, ready, link, &handles, &mut listeners),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = &made {
        context.announce(failure);
    }
    for (listener, _) in listeners {
        // An accepted comm does not need its listener any more.
        let _ = ready.net.close_listen(listener.state);
    }
    made
}

type Listening = (Pending<ListenComm>, Duration);

fn listen_all(
    context: &Context,
    task: &PairTask,
    ready: &Ready,
    listeners: &mut Vec<Listening>,
) -> TaskResult<Vec<[u8; 128]>> {
    if !task.receives {
        return Ok(Vec::new());
    }
    (0..ready.channels.count())
        .map(|index| {
            let started = Instant::now();
            make_current(context, ready, index)?;
            let (listener, handle) = ready
                .net
                .listen(ready.device_of(index))
                .map_err(|error| context.plugin_failure(&error))?;
            listeners.push((Pending::new(listener), started.elapsed()));
            Ok(handle.0)
        })
        .collect()
}

/// Makes the connection's GPU current: each of these plugin calls binds to the current GPU.
fn make_current(context: &Context, ready: &Ready, connection: usize) -> TaskResult<()> {
    ready
        .memory_of(connection)
        .make_current()
        .map_err(|error| memory::memory_failure(context, &error))
}

fn connect_and_accept(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
    handles: &[[u8; 128]],
    listeners: &mut [Listening],
) -> TaskResult<Connected> {
    let patience = connecting(&task.scenario.limits, |name| std::env::var(name).ok());
    let started = Instant::now();
    let theirs = link
        .exchange_handles(
            handles,
            task.sends,
            &ready.channels,
            Deadline::after("limits.connect + 5 s", patience + LOADING),
            &context.stop,
        )
        .map_err(|error| context.bootstrap_failure(&error))?;
    let bootstrap = started.elapsed();
    let mut connecting: Vec<_> = theirs
        .iter()
        .map(|handle| Pending::new(Connecting::to(ConnectHandle(*handle))))
        .collect();
    for (listener, _) in listeners.iter_mut() {
        listener.started = Instant::now();
    }
    let mut sends: Vec<Option<SendComm>> = theirs.iter().map(|_| None).collect();
    let mut recvs: Vec<Option<RecvComm>> = listeners.iter().map(|_| None).collect();
    let order = if task.listen.is_some() {
        [Side::Recv, Side::Send]
    } else {
        [Side::Send, Side::Recv]
    };
    let halves = (
        (&mut connecting[..], &mut sends[..]),
        (&mut *listeners, &mut recvs[..]),
    );
    let connected = poll_until_connected(context, ready, patience, order, halves);
    if let Err(failure) = connected {
        context.announce(&failure);
        end_pending(ready, &mut connecting, &sends);
        for comm in sends.into_iter().flatten() {
            let _ = ready.net.close_send(comm);
        }
        for comm in recvs.into_iter().flatten() {
            let _ = ready.net.close_recv(comm);
        }
        return Err(failure);
    }
    let times = all_times(
        ready,
        bootstrap,
        (&connecting, &theirs),
        (listeners, handles),
    );
    Ok(Connected {
        sends: sends.into_iter().flatten().collect(),
        recvs: recvs.into_iter().flatten().collect(),
        times,
    })
}

/// Times of every connect, then of every accept, each with the handle that it used.
fn all_times(
    ready: &Ready,
    bootstrap: Duration,
    (connecting, theirs): (&[Pending<Connecting>], &[[u8; 128]]),
    (listeners, mine): (&[Listening], &[[u8; 128]]),
) -> Vec<ConnectionTimes> {
    let flows = sockets::flows();
    let flows_of = |handle, sends| {
        if ready.net.about().family().has_tcpx_semantics() {
            sockets::of_handle(&flows, handle, sends)
        } else {
            Vec::new()
        }
    };
    let mut times = Vec::new();
    for (index, (one, handle)) in connecting.iter().zip(theirs).enumerate() {
        times.push(time_row(
            index,
            ready,
            bootstrap,
            None,
            one,
            flows_of(handle, true),
        ));
    }
    for (index, ((one, listen), handle)) in listeners.iter().zip(mine).enumerate() {
        times.push(time_row(
            index,
            ready,
            bootstrap,
            Some(*listen),
            one,
            flows_of(handle, false),
        ));
    }
    times
}

fn time_row<T>(
    index: usize,
    ready: &Ready,
    bootstrap: Duration,
    listen: Option<Duration>,
    one: &Pending<T>,
    flows: Vec<Flow>,
) -> ConnectionTimes {
    let ended = one.ended.map(milliseconds);
    let sends = listen.is_none();
    ConnectionTimes {
        index,
        sends,
        nic: ready.nic_of(index),
        listen_ms: listen.map(milliseconds),
        bootstrap_ms: milliseconds(bootstrap),
        connect_ms: ended.filter(|_| sends),
        accept_ms: ended.filter(|_| !sends),
        retries: one.retries,
        flows: flows
            .into_iter()
            .map(|flow| (flow.local, flow.peer))
            .collect(),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn poll_connects(
    context: &Context,
    ready: &Ready,
    connecting: &mut [Pending<Connecting>],
    sends: &mut [Option<SendComm>],
) -> TaskResult<usize> {
    let mut waiting = 0;
    for (index, (one, comm)) in connecting
        .iter_mut()
        .zip(sends)
        .enumerate()
        .filter(|(_, (_, comm))| comm.is_none())
    {
        make_current(context, ready, index)?;
        let asked = ready.net.connect(ready.device_of(index), &mut one.state);
        *comm = asked.map_err(|error| context.plugin_failure(&error))?;
        waiting += settle(
            comm.is_some(),
            &mut one.retries,
            &mut one.ended,
            one.started,
        );
    }
    Ok(waiting)
}

fn poll_accepts(
    context: &Context,
    ready: &Ready,
    listeners: &mut [Listening],
    recvs: &mut [Option<RecvComm>],
) -> TaskResult<usize> {
    let mut waiting = 0;
    for (index, ((one, _), comm)) in listeners
        .iter_mut()
        .zip(recvs)
        .enumerate()
        .filter(|(_, (_, comm))| comm.is_none())
    {
        make_current(context, ready, index)?;
        *comm = ready
            .net
            .accept(&mut one.state)
            .map_err(|error| context.plugin_failure(&error))?;
        waiting += settle(
            comm.is_some(),
            &mut one.retries,
            &mut one.ended,
            one.started,
        );
    }
    Ok(waiting)
}

type Connects<'a> = (&'a mut [Pending<Connecting>], &'a mut [Option<SendComm>]);
type Accepts<'a> = (&'a mut [Listening], &'a mut [Option<RecvComm>]);

fn poll_until_connected(
    context: &Context,
    ready: &Ready,
    patience: Duration,
    order: [Side; 2],
    ((connecting, sends), (listeners, recvs)): (Connects<'_>, Accepts<'_>),
) -> TaskResult<()> {
    let started = Instant::now();
    loop {
        let mut waiting = 0;
        for side in order {
            waiting += match side {
                Side::Send => poll_connects(context, ready, connecting, sends)?,
                Side::Recv => poll_accepts(context, ready, listeners, recvs)?,
            };
        }
        if waiting == 0 {
            return Ok(());
        }
        if context.stop.load(Ordering::Relaxed) {
            return Err(context.stopped());
        }
        if started.elapsed() > patience {
            let (connects, accepts) = (
                sends.iter().filter(|comm| comm.is_none()).count(),
                recvs.iter().filter(|comm| comm.is_none()).count(),
            );
            let message = format!(
                "after {:.1} s, {connects} of {} connects and {accepts} of {} accepts were still not ready (rc 0, no comm)",
                started.elapsed().as_secs_f64(),
                sends.len(),
                recvs.len(),
            );
            let next =
                "raise limits.connect, or look at the plugin's log lines of both ends".to_owned();
            return Err(context.failure(Outcome::Stalled, message, Some(next)));
        }
        // The plugin's handshake takes a few round trips.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Longest wait for pending connects to end.
const ENDING: Duration = Duration::from_millis(300);

/// Ends the pending connects. The ABI has no call to cancel one, so each is polled until it returns
/// a comm, which is closed, or an error, after which the plugin has freed everything.
fn end_pending(ready: &Ready, connecting: &mut [Pending<Connecting>], sends: &[Option<SendComm>]) {
    let until = Instant::now() + ENDING;
    let mut pending: Vec<usize> = (0..sends.len())
        .filter(|index| sends[*index].is_none())
        .collect();
    while !pending.is_empty() && Instant::now() < until {
        pending.retain(|index| {
            match ready
                .net
                .connect(ready.device_of(*index), &mut connecting[*index].state)
            {
                Ok(None) => true,
                Ok(Some(comm)) => {
                    let _ = ready.net.close_send(comm);
                    false
                }
                Err(_) => false,
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn settle(ready: bool, retries: &mut u64, ended: &mut Option<Duration>, started: Instant) -> usize {
    if ready {
        *ended = Some(started.elapsed());
        0
    } else {
        *retries += 1;
        1
    }
}
