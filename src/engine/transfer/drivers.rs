//! The threads that drive the channels of a transfer, each a share of them.
//!
//! The calling thread drives the first share. The others wait for an iteration to begin; between
//! its beginning and its end, two threads have no lock and no counter in common. A channel stays
//! with its thread, so its slots stay in that core's cache.
#![forbid(unsafe_code)]

use super::Pace;
use super::channel::Channel;
use super::progress::{TransferError, run_share};
use crate::plugin::Net;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tcpx_words::progress::Policy;

/// The channels of one thread.
pub struct ChannelShare {
    /// In the order in which they are visited.
    pub channels: Vec<Channel>,
    /// CPUs that the thread may use; `None` for those of the process.
    pub cpus: Option<CpuSet>,
}

/// All channels of a transfer, and the threads that drive them.
pub struct Drivers<P> {
    /// By thread, the calling thread first. A share is empty only if its thread panicked.
    shares: Vec<Vec<Channel>>,
    /// Of every share but the first.
    threads: Vec<Driver>,
    /// CPU time by thread since [`Drivers::start_measuring`].
    cpu: Vec<Duration>,
    /// CPUs of the calling thread while it drives nothing; `None` if they are unknown.
    home: Option<CpuSet>,
    pace: UntilFailure<P>,
}

/// A thread that drives a share when it receives one.
struct Driver {
    orders: mpsc::Sender<Order>,
    ended: mpsc::Receiver<Ended>,
}

struct Order {
    channels: Vec<Channel>,
    policy: Policy,
}

struct Ended {
    channels: Vec<Channel>,
    result: Result<(), TransferError>,
    cpu: Duration,
}

/// A pace that also stops once a share of the transfer has failed.
#[derive(Clone)]
struct UntilFailure<P> {
    pace: P,
    failed: Arc<AtomicBool>,
}

impl<P: Pace> Pace for UntilFailure<P> {
    fn idle(&mut self, empty_sweeps: u32) {
        self.pace.idle(empty_sweeps);
    }

    fn stopped(&self) -> bool {
        self.pace.stopped() || self.failed.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.pace.now()
    }
}

impl<P: Pace + Clone + Send + 'static> Drivers<P> {
    /// No channel and no thread yet.
    pub fn new(pace: P) -> Self {
        Self {
            shares: Vec::new(),
            threads: Vec::new(),
            cpu: Vec::new(),
            home: sched_getaffinity(None).ok(),
            pace: UntilFailure {
                pace,
                failed: Arc::default(),
            },
        }
    }

    /// Gives each share a thread, the first one the calling thread. Earlier threads end.
    ///
    /// # Errors
    /// A thread cannot be started. The channels are lost.
    pub fn share_out(
        &mut self,
        net: &Arc<dyn Net>,
        shares: Vec<ChannelShare>,
    ) -> Result<(), TransferError> {
        self.threads.clear();
        for (number, share) in shares.iter().enumerate().skip(1) {
            let driver = Driver::start(number, Arc::clone(net), share.cpus, self.pace.clone());
            self.threads.push(driver.map_err(TransferError::Thread)?);
        }
        // Last, because a new thread inherits it.
        if let Some(first) = shares.first() {
            keep_to(first.cpus.as_ref());
        }
        self.cpu = vec![Duration::ZERO; shares.len()];
        self.shares = shares.into_iter().map(|share| share.channels).collect();
        Ok(())
    }

    /// Moves every chunk of the iteration that `Channel::begin` prepared.
    ///
    /// # Errors
    /// The first error of a share. The other shares stop as soon as nothing of theirs moves.
    pub fn run_iteration(&mut self, net: &dyn Net, policy: Policy) -> Result<(), TransferError> {
        let Some((first, others)) = self.shares.split_first_mut() else {
            return Ok(());
        };
        for (thread, share) in self.threads.iter().zip(others) {
            let order = Order {
                channels: std::mem::take(share),
                policy,
            };
            // Without a receiver the thread is gone, which is seen below.
            let _ = thread.orders.send(order);
        }
        let own = Ended::of(net, std::mem::take(first), policy, &mut self.pace);
        let mut ended = vec![Ok(own)];
        ended.extend(self.threads.iter().map(|thread| thread.ended.recv()));
        let mut errors = Vec::new();
        for (number, ended) in ended.into_iter().enumerate() {
            match ended {
                Ok(ended) => {
                    self.shares[number] = ended.channels;
                    self.cpu[number] += ended.cpu;
                    errors.extend(ended.result.err());
                }
                Err(mpsc::RecvError) => errors.push(TransferError::Panicked { thread: number }),
            }
        }
        // Shares that stopped because of an error elsewhere have nothing to say.
        let cause = errors
            .iter()
            .position(|error| !matches!(error, TransferError::Stopped));
        match errors.into_iter().nth(cause.unwrap_or(0)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl<P> Drivers<P> {
    /// Every channel, by thread.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.shares.iter().flatten()
    }

    /// Every channel, by thread.
    pub fn channels_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.shares.iter_mut().flatten()
    }

    /// The time by the clock of [`Channel::finished`].
    pub fn now(&self) -> Duration
    where
        P: Pace,
    {
        self.pace.now()
    }

    /// Calls `drive` with all channels, if one thread drives them.
    pub fn alone<R>(&mut self, drive: impl FnOnce(&mut [Channel], &mut dyn Pace) -> R) -> Option<R>
    where
        P: Pace,
    {
        let ([only], [cpu]) = (self.shares.as_mut_slice(), self.cpu.as_mut_slice()) else {
            return None;
        };
        let before = cpu_of_this_thread();
        let result = drive(only, &mut self.pace);
        *cpu += cpu_of_this_thread().saturating_sub(before);
        Some(result)
    }

    /// Takes the channels back, by thread. The calling thread may use all its CPUs again.
    pub fn take_channels(&mut self) -> Vec<Channel> {
        keep_to(self.home.as_ref());
        self.shares.drain(..).flatten().collect()
    }

    /// Counts CPU time from zero again.
    pub fn start_measuring(&mut self) {
        self.cpu.fill(Duration::ZERO);
    }

    /// CPU time of each thread in the iterations since [`Drivers::start_measuring`].
    pub fn cpu(&self) -> &[Duration] {
        &self.cpu
    }
}

impl Driver {
    fn start(
        number: usize,
        net: Arc<dyn Net>,
        cpus: Option<CpuSet>,
        mut pace: UntilFailure<impl Pace + Send + 'static>,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let (outbox, ended) = mpsc::channel();
        let body = move || {
            keep_to(cpus.as_ref());
            for order in inbox {
                let ended = Ended::of(&*net, order.channels, order.policy, &mut pace);
                if outbox.send(ended).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name(format!("driver-{number}"))
            .spawn(body)?;
        Ok(Self { orders, ended })
    }
}

impl Ended {
    fn of(
        net: &dyn Net,
        mut channels: Vec<Channel>,
        policy: Policy,
        pace: &mut UntilFailure<impl Pace>,
    ) -> Self {
        let before = cpu_of_this_thread();
        let result = run_share(net, &mut channels, policy, pace);
        if result.is_err() {
            pace.failed.store(true, Ordering::Relaxed);
        }
        Self {
            channels,
            result,
            cpu: cpu_of_this_thread().saturating_sub(before),
        }
    }
}

/// Where the kernel refuses, the thread runs on the CPUs that it had.
fn keep_to(cpus: Option<&CpuSet>) {
    if let Some(cpus) = cpus {
        let _ = sched_setaffinity(None, cpus);
    }
}

fn cpu_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
