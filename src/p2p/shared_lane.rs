//! A lane that the endpoint's thread drives, or lends to a helper while there is much to move.
//!
//! One thread moves about 5 GB/s, and lanes are independent, so a helper (`helper`) can drive a lane
//! as well as the endpoint's thread. That thread alone decides: it lends a lane, gives it more
//! messages, collects those that are done, and takes it back. The lane itself is behind a lock that
//! each takes for a turn, never for a message, and that is free unless the lane is just changing
//! hands.
#![forbid(unsafe_code)]

use crate::connection::Lost;
use crate::lane::{Finished, Job, Lane};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tcpx_engine::plugin::Net;

/// Bytes of a lane that are worth waking a thread, which takes about as long as moving half of them.
pub(crate) const WORTH_LENDING: usize = 512 << 10;

/// Bytes after which the endpoint's thread goes on to the next lane where it has helpers: they wait
/// for it with what they have done.
const TURN_MAX: usize = 512 << 10;

/// What both threads see of a lane.
pub(crate) struct Driven {
    /// `None` once the comm is closed.
    lane: Mutex<Option<Lane>>,
    /// Messages for the lane while it is lent.
    inbox: Mutex<VecDeque<Job>>,
    has_inbox: AtomicBool,
    outbox: Mutex<Outbox>,
    has_outbox: AtomicBool,
    /// Whether a helper drives it. The helper stops before the next turn once this is false.
    is_lent: AtomicBool,
}

#[derive(Default)]
struct Outbox {
    finished: Vec<Finished>,
    failed: Option<Lost>,
}

/// What a helper's turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helped {
    /// A message advanced; `true`: at least one is done.
    Moved(bool),
    /// No message advanced. So many bytes are left; `None`: there is no message.
    Nothing(Option<usize>),
    /// The lane was taken back, closed, or has failed.
    Over,
}

impl Driven {
    fn lane(&self) -> MutexGuard<'_, Option<Lane>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what was left for the lane into it.
    fn take_inbox(&self, lane: &mut Lane) {
        if self.has_inbox.swap(false, Ordering::Acquire) {
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.drain(..).for_each(|job| lane.push(job));
        }
    }

    fn give(&self, jobs: &mut Vec<Job>) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.extend(jobs.drain(..));
        drop(inbox);
        self.has_inbox.store(true, Ordering::Release);
    }

    /// Drives the lane for a turn of a helper. `scratch` is empty before and afterwards.
    pub(crate) fn help(&self, net: &dyn Net, scratch: &mut Vec<Finished>) -> Helped {
        if !self.is_lent.load(Ordering::Acquire) {
            return Helped::Over;
        }
        let mut guard = self.lane();
        let Some(lane) = guard.as_mut() else {
            return Helped::Over;
        };
        self.take_inbox(lane);
        if lane.is_idle() {
            return Helped::Nothing(None);
        }
        let turned = lane.turn(net, usize::MAX, scratch);
        let left = lane.left_bytes();
        drop(guard);
        let is_done = !scratch.is_empty();
        if is_done || turned.is_err() {
            let mut outbox = self.outbox();
            outbox.finished.append(scratch);
            outbox.failed = turned.as_ref().err().map(ToString::to_string);
            drop(outbox);
            self.has_outbox.store(true, Ordering::Release);
        }
        match turned {
            Ok(false) => Helped::Nothing(Some(left)),
            Ok(true) => Helped::Moved(is_done),
            Err(_) => {
                self.let_go();
                Helped::Over
            }
        }
    }

    /// A helper drives it no more.
    pub(crate) fn let_go(&self) {
        self.is_lent.store(false, Ordering::Release);
    }
}

/// A lane, as the endpoint's thread has it.
pub(crate) struct SharedLane {
    driven: Arc<Driven>,
    /// Pushed in this turn.
    fresh: Vec<Job>,
    /// Messages that are not done, and their bytes.
    left: usize,
    left_bytes: usize,
    /// Whether a message advanced in the last turn.
    moved: bool,
    /// The helper that may drive it; `None` where the endpoint's thread must.
    helper: Option<usize>,
    /// Bytes of a turn of the endpoint's thread.
    most: usize,
}

impl SharedLane {
    /// A lane of an endpoint with so many threads.
    pub(crate) fn new(lane: Lane, helper: Option<usize>, threads: usize) -> Self {
        Self {
            driven: Arc::new(Driven {
                lane: Mutex::new(Some(lane)),
                inbox: Mutex::default(),
                has_inbox: AtomicBool::new(false),
                outbox: Mutex::default(),
                has_outbox: AtomicBool::new(false),
                is_lent: AtomicBool::new(false),
            }),
            fresh: Vec::new(),
            left: 0,
            left_bytes: 0,
            moved: false,
            helper,
            most: if threads > 1 { TURN_MAX } else { usize::MAX },
        }
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.left += 1;
        self.left_bytes += job.len;
        self.fresh.push(job);
    }

    /// Messages that are not done.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// Whether it has no messages.
    pub(crate) fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// Whether it has something to do: a message advanced in the last turn, is new, or is a helper's.
    pub(crate) fn is_active(&self) -> bool {
        self.left > 0 && (self.moved || !self.fresh.is_empty() || self.is_lent())
    }

    /// Bytes that are not done; `None` where there is no message, or a helper drives it.
    pub(crate) fn left_here(&self) -> Option<usize> {
        (self.left > 0 && !self.is_lent()).then_some(self.left_bytes)
    }

    /// Whether a helper drives it.
    pub(crate) fn is_lent(&self) -> bool {
        self.driven.is_lent.load(Ordering::Acquire)
    }

    /// Drives it, or collects what its helper has done. Returns whether a message advanced.
    pub(crate) fn turn(
        &mut self,
        net: &dyn Net,
        finished: &mut Vec<Finished>,
    ) -> Result<bool, Lost> {
        self.moved = false;
        if self.left == 0 {
            return Ok(false);
        }
        let before = finished.len();
        let mut moved = false;
        let is_lent = self.is_lent();
        if is_lent && !self.fresh.is_empty() {
            self.driven.give(&mut self.fresh);
        }
        // Also where it is lent no more: its last turn may have left something.
        if self.driven.has_outbox.swap(false, Ordering::Acquire) {
            let mut outbox = self.driven.outbox();
            finished.append(&mut outbox.finished);
            if let Some(why) = outbox.failed.take() {
                return Err(why);
            }
            moved = true;
        }
        if !is_lent && let Some(lane) = self.driven.lane().as_mut() {
            self.driven.take_inbox(lane);
            self.fresh.drain(..).for_each(|job| lane.push(job));
            moved |= lane
                .turn(net, self.most, finished)
                .map_err(|error| error.to_string())?;
        }
        for done in &finished[before..] {
            self.left -= 1;
            self.left_bytes -= done.len;
        }
        self.moved = moved;
        Ok(moved)
    }

    /// Lends it to its helper, if it has one and enough to do. Returns the helper's number.
    pub(crate) fn lend(&self) -> Option<(usize, Arc<Driven>)> {
        let helper = self.helper?;
        if !self.is_active() || self.left_bytes < WORTH_LENDING || self.is_lent() {
            return None;
        }
        self.driven.is_lent.store(true, Ordering::Release);
        Some((helper, Arc::clone(&self.driven)))
    }

    /// What the comm waits for, in words; `None` if it has no messages.
    pub(crate) fn waits(&self) -> Option<String> {
        self.driven.lane().as_ref().and_then(Lane::waits)
    }

    /// Ends every registration of `number` with this comm. Nothing holds it any more.
    pub(crate) fn release(&self, net: &dyn Net, number: u64) {
        self.driven.let_go();
        if let Some(lane) = self.driven.lane().as_mut() {
            lane.release(net, number);
        }
    }

    /// Closes the comm: afterwards the plugin touches no memory of it.
    pub(crate) fn close(self, net: &dyn Net) {
        self.driven.let_go();
        let lane = self.driven.lane().take();
        if let Some(lane) = lane {
            lane.close(net);
        }
    }
}
