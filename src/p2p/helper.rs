//! Threads that drive lanes beside the endpoint's thread, while there is much to move.
//!
//! They are started when they are first needed, sleep without a timeout while they have no lane, and
//! end with the endpoint.
#![forbid(unsafe_code)]

use crate::lane::Finished;
use crate::pause::{Pause, Pauses};
use crate::shared::Shared;
use crate::shared_lane::{Driven, Helped};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAUSE: Pause = Pause {
    spins: 64,
    yields: 400,
    nap: Duration::from_micros(50),
};
/// A helper lets its lanes go after so long without progress. A message of 512 KiB is progress only once
/// it is done, and the peer may have one thread for all lanes.
const KEPT: Duration = Duration::from_millis(5);

/// Threads that drive an endpoint, its own included: half the CPUs that the process may use, because
/// the program needs some too, and on one machine so does the peer.
pub(crate) fn threads(wanted: Option<NonZero<usize>>) -> usize {
    let half = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() / 2);
    wanted.map_or_else(half, NonZero::get).max(1)
}

/// The helper that may drive a channel; `None`: the endpoint's thread does. Channels in a row go to
/// different threads.
pub(crate) fn of_channel(channel: u32, threads: usize) -> Option<usize> {
    (channel as usize % threads).checked_sub(1)
}

/// The helpers of an endpoint, by number.
pub(crate) struct Helpers {
    shared: Arc<Shared>,
    all: Vec<Option<Helper>>,
}

impl Helpers {
    /// Room for `threads - 1` helpers; none is started.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let mut all = Vec::new();
        all.resize_with(shared.threads - 1, || None);
        Self { shared, all }
    }

    /// Lets a helper drive a lane. Without a thread, it stays with the endpoint's.
    pub(crate) fn lend(&mut self, helper: usize, lane: Arc<Driven>) {
        let Some(place) = self.all.get_mut(helper) else {
            return lane.let_go();
        };
        if place.is_none() {
            *place = Helper::start(helper, &self.shared).ok();
        }
        match place {
            Some(helper) => helper.take(lane),
            None => lane.let_go(),
        }
    }
}

/// What a helper and the endpoint's thread share.
#[derive(Default)]
struct Orders {
    lanes: Mutex<Vec<Arc<Driven>>>,
    has_lanes: AtomicBool,
    stop: AtomicBool,
}

struct Helper {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start(number: usize, shared: &Arc<Shared>) -> std::io::Result<Self> {
        let orders = Arc::new(Orders::default());
        let (shared, theirs) = (Arc::clone(shared), Arc::clone(&orders));
        let thread = std::thread::Builder::new()
            .name(format!("tcpxp2p-help{number}"))
            .spawn(move || run(&shared, &theirs))?;
        let thread = Some(thread);
        Ok(Self { orders, thread })
    }

    fn take(&self, lane: Arc<Driven>) {
        let mut lanes = self.orders.lanes();
        lanes.push(lane);
        drop(lanes);
        self.orders.has_lanes.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Orders {
    fn lanes(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Driven>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(shared: &Shared, orders: &Orders) {
    // The plugin uses the thread's current GPU. Where that fails, the plugin's calls say so.
    let _ = shared.memory.movable.make_current();
    let mut lanes: Vec<Arc<Driven>> = Vec::new();
    let mut finished: Vec<Finished> = Vec::new();
    let (pauses, mut left) = (Pauses::new(PAUSE), Vec::new());
    let mut idle = 0;
    let mut moved_at = Instant::now();
    while !orders.stop.load(Ordering::Relaxed) {
        if orders.has_lanes.swap(false, Ordering::Acquire) {
            for lane in orders.lanes().drain(..) {
                if !lanes.iter().any(|known| Arc::ptr_eq(known, &lane)) {
                    lanes.push(lane);
                }
            }
            moved_at = Instant::now();
        }
        let (mut moved, mut is_done) = (false, false);
        left.clear();
        lanes.retain(|lane| match lane.help(&*shared.loaded.net, &mut finished) {
            Helped::Over => {
                is_done = true;
                false
            }
            Helped::Nothing(bytes) => {
                left.extend(bytes);
                true
            }
            Helped::Moved(done) => {
                moved = true;
                is_done |= done;
                true
            }
        });
        if is_done {
            shared.tell_driver();
        }
        if moved {
            idle = 0;
            continue;
        }
        if idle == 0 {
            moved_at = Instant::now();
        }
        idle += 1;
        let pause = pauses.with_left(left.iter().copied());
        match idle {
            _ if lanes.is_empty() => {
                std::thread::park();
                idle = 0;
            }
            _ if idle <= pause.spins => std::hint::spin_loop(),
            _ if idle <= pause.yields => std::thread::yield_now(),
            _ if moved_at.elapsed() < KEPT => std::thread::park_timeout(pause.nap),
            _ => lanes.drain(..).for_each(|lane| lane.let_go()),
        }
    }
}
