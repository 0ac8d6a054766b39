//! One comm, its registration, its memory and its window.
//!
//! The most recently freed slot is used next, because its bytes are still in the CPU's
//! cache. With GPU memory, a send is posted once the GPU has written its pattern, and a
//! receive is consumed once the GPU has unpacked and compared it; one launch covers all
//! requests that became done since the last one.
//!
//! If the plugin does not unpack, a receive into device memory is flushed before its bytes
//! are compared, as NCCL does. TCPX's receives are unpacked and never flushed.
//!
//! Posting and draining do not allocate, lock or make system calls outside the plugin.
#![forbid(unsafe_code)]

use super::Pace;
use super::filling::Filling;
use super::payload::Pattern;
use super::plan::{Plan, Share};
use super::sampled::Sampled;
use super::slots::{self, Slots};
use super::window::{Illegal, InFlight, SLOTS_MIN, Step, Window};
use crate::gpu::{DeviceMemory, MemoryError, MemoryKind, Passed, ScatterError, Span, Unpack};
use crate::plugin::{Comm, MHandle, Net, PluginError, RecvComm, Request, SendComm, Tested};
use std::sync::Arc;
use std::time::Duration;
use tcpx_abi::result::{INTERNAL_ERROR, SYSTEM_ERROR};
use tcpx_recorder::Key;
use tcpx_tap::Tap;
use tcpx_words::payload::{Mismatch, StampId, Tally};
use tcpx_words::side::Side;

/// Why a channel failed. Its comm cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A call into the plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// Memory could not be allocated, or a GPU operation failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The plugin published an inconsistent scatter list.
    #[error("the scatter list of a receive is invalid: {0}")]
    Scatter(#[from] ScatterError),
    /// The peer closed before all data had arrived.
    #[error("the peer closed with {missing} chunks outstanding; {error}")]
    ClosedEarly {
        /// Chunks of this iteration not yet done.
        missing: u64,
        /// The plugin's last error.
        error: PluginError,
    },
    /// `test` reported a size other than the one sent.
    #[error("test reported {reported} bytes for a receive of {sent} bytes")]
    Size {
        /// What the plugin wrote into `sizes`.
        reported: i32,
        /// Bytes that the peer sends, by the plan that both sides share.
        sent: u32,
    },
    /// A bug in the engine: a step out of order.
    #[error("engine bug: {0}")]
    Order(#[from] Illegal),
    /// A bug in the engine: a slot is outside the channel's memory.
    #[error("engine bug: slot {0} is outside the channel's memory")]
    Slot(u8),
}

/// Sizes and options of a channel.
#[derive(Clone)]
pub struct ChannelSetup {
    /// Index within its direction.
    pub index: usize,
    /// Most requests in flight.
    pub window: usize,
    /// Whether the plugin may have fewer request slots than `window`, and refuse a post for it.
    pub may_narrow: bool,
    /// Bytes of a full chunk.
    pub chunk: usize,
    /// The pattern to write and verify; `None` for neither.
    pub verify: Option<Arc<Pattern>>,
    /// How receives are unpacked from bounce pages.
    pub unpack: Unpack,
    /// How long rc 2 for the oldest receive is taken for a peer that closed after sending
    /// everything.
    pub close_grace: Duration,
}

enum End {
    Send(SendComm),
    Recv(RecvComm),
}

impl End {
    fn comm(&self) -> Comm<'_> {
        match self {
            Self::Send(comm) => Comm::Send(comm),
            Self::Recv(comm) => Comm::Recv(comm),
        }
    }
}

/// The parts of a channel that [`Channel::pieces`] lends.
pub(super) struct Pieces<'a> {
    pub(super) end: Comm<'a>,
    pub(super) mhandle: &'a MHandle,
    pub(super) window: &'a mut Window,
}

/// One comm, its mhandle and its window.
pub struct Channel {
    setup: ChannelSetup,
    // Dropped before the comm, because the GPU may still be working on its memory.
    slots: Slots,
    end: End,
    window: Window,
    free: Vec<u8>,
    /// Slots that the GPU is filling: neither free nor in the window.
    filling: Filling,
    share: Share,
    iteration: u64,
    turn: u64,
    refused_since: Option<Duration>,
    /// Whether receives must be flushed.
    flushes: bool,
    /// The flush of the oldest request, which has arrived.
    flushing: Option<Request>,
    recorded: Option<(Tap, Key)>,
    tally: Tally,
    verifying: Sampled,
    /// When the last chunk of the iteration was consumed.
    finished: Option<Duration>,
}

impl Channel {
    /// A channel that sends on `comm`.
    pub fn sender(
        net: &dyn Net,
        comm: SendComm,
        device: Arc<dyn DeviceMemory>,
        setup: ChannelSetup,
    ) -> Result<Self, ChannelError> {
        Self::new(net, End::Send(comm), device, setup)
    }

    /// A channel that receives on `comm`. With device memory, the comm of an unpacking plugin
    /// must have published a readable unpack queue.
    pub fn receiver(
        net: &dyn Net,
        comm: RecvComm,
        device: Arc<dyn DeviceMemory>,
        mut setup: ChannelSetup,
    ) -> Result<Self, ChannelError> {
        let (on_device, unpacks) = (device.kind() == MemoryKind::Device, comm.hands_back());
        if !unpacks {
            // Nothing is unpacked, so the option must have no effect.
            setup.unpack = Unpack::Kernel;
        }
        let mut channel = Self::new(net, End::Recv(comm), device, setup)?;
        channel.flushes = on_device && !unpacks;
        // After the registration, whose error is more useful than a missing queue.
        if let (true, true, End::Recv(comm)) = (on_device, unpacks, &channel.end) {
            channel.slots.receive_from(comm)?;
        }
        Ok(channel)
    }

    fn new(
        net: &dyn Net,
        end: End,
        device: Arc<dyn DeviceMemory>,
        setup: ChannelSetup,
    ) -> Result<Self, ChannelError> {
        let slots = Slots::new(net, end.comm(), device, &setup)?;
        let count = slots::count(&setup);
        Ok(Self {
            window: Window::new(setup.window),
            free: (0..count as u8).rev().collect(),
            filling: Filling::new(count),
            setup,
            slots,
            end,
            share: Share::default(),
            iteration: 0,
            turn: 0,
            refused_since: None,
            flushes: false,
            flushing: None,
            recorded: None,
            tally: Tally::default(),
            verifying: Sampled::default(),
            finished: None,
        })
    }

    /// Writes the channel's number into the flight recorder, and records unpacks from now on;
    /// the tap records the calls.
    pub fn record(&mut self, tap: Tap) {
        self.recorded = tap.key(self.end.comm().as_ptr()).map(|key| (tap, key));
        if let Some((tap, key)) = self.recorded {
            tap.set_channel(key, self.setup.index as u32);
        }
    }

    /// The direction: send or receive.
    pub fn side(&self) -> Side {
        match self.end {
            End::Send(_) => Side::Send,
            End::Recv(_) => Side::Recv,
        }
    }

    /// Index within its direction.
    pub fn index(&self) -> usize {
        self.setup.index
    }

    /// Bytes, mismatches and null requests so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Resets the byte counts after warm-up. Mismatches are kept.
    pub fn start_measuring(&mut self) {
        self.tally.bytes = 0;
        self.tally.verified_bytes = 0;
        self.verifying = Sampled::default();
    }

    /// The writing and comparing of patterns by the thread that drives the channel. `None` if nothing
    /// is verified, or by a GPU.
    pub fn verifying(&self) -> Option<&Sampled> {
        let is_here = match self.side() {
            Side::Send => !self.slots.fills_later(),
            Side::Recv => !self.slots.takes_later(),
        };
        (self.setup.verify.is_some() && is_here).then_some(&self.verifying)
    }

    /// Bytes registered with the plugin.
    pub fn registered_bytes(&self) -> usize {
        self.slots.registered_bytes()
    }

    /// The window, for reporting.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Prepares the next iteration. A sender writes its pattern here, outside the timed part.
    pub fn begin(&mut self, plan: Plan, iteration: u64) -> Result<(), ChannelError> {
        self.share = plan.share(self.setup.index);
        self.iteration = iteration;
        self.turn = 0;
        self.finished = None;
        self.filling.restart();
        if self.side() == Side::Recv {
            return Ok(());
        }
        if self.slots.fills_later() {
            self.fill_free()?;
            self.slots.settle()?;
            return self.see_filled();
        }
        let id = self.id(0);
        (0..slots::count(&self.setup) as u8).try_for_each(|slot| self.slots.fill(slot, id))
    }

    /// Queues GPU jobs that write the next messages into the free slots, and launches them.
    fn fill_free(&mut self) -> Result<(), ChannelError> {
        while self.filling.next_turn() < self.share.turns()
            && let Some(slot) = self.free.pop()
        {
            let chunk = self.share.chunk(self.filling.next_turn());
            self.slots
                .queue_fill(slot, chunk.len as usize, self.id(chunk.index))?;
            self.filling.add(slot);
        }
        self.slots.launch()
    }

    fn see_filled(&mut self) -> Result<(), ChannelError> {
        while self.filling.is_waiting() && self.slots.passed()?.is_some() {
            self.filling.passed();
        }
        Ok(())
    }

    fn id(&self, chunk: u64) -> StampId {
        StampId {
            iteration: self.iteration,
            channel: self.setup.index as u64,
            chunk,
        }
    }

    /// Whether every chunk of the iteration is consumed.
    pub fn is_finished(&self) -> bool {
        self.turn == self.share.turns() && self.window.is_drained()
    }

    /// Notes when the channel finished the iteration, if it has: once per iteration, so that lanes
    /// which share their barriers have times of their own.
    pub(super) fn note_finish(&mut self, pace: &dyn Pace) {
        if self.finished.is_none() && self.is_finished() {
            self.finished = Some(pace.now());
        }
    }

    /// When the channel finished the iteration, by the clock of its driver's pace; `None` before
    /// that, and after a transfer that one thread drove in a way of its own.
    pub fn finished(&self) -> Option<Duration> {
        self.finished
    }

    /// Whether one more chunk may be posted now.
    pub(crate) fn can_post(&self) -> bool {
        self.turn < self.share.turns() && self.window.has_room()
    }

    /// Whether every chunk of the iteration has been posted.
    pub(crate) fn has_posted_all(&self) -> bool {
        self.turn == self.share.turns()
    }

    /// Whether the window is full.
    pub(crate) fn is_full(&self) -> bool {
        !self.window.has_room()
    }

    /// Posts the next chunk. `false`: the plugin said "try again", no slot is ready, or there
    /// is nothing to post.
    pub fn post(&mut self, net: &dyn Net) -> Result<bool, ChannelError> {
        if !self.can_post() {
            return Ok(false);
        }
        let Some(slot) = self.next_slot()? else {
            return Ok(false);
        };
        let chunk = self.share.chunk(self.turn);
        let span = self.slots.span(slot, chunk.len as usize)?;
        let posted = match &self.end {
            End::Send(comm) => {
                if !self.slots.fills_later() {
                    let (slots, id) = (&self.slots, self.id(chunk.index));
                    self.verifying
                        .call(|| slots.stamp(slot, chunk.len as usize, id))?;
                }
                net.isend(comm, span, self.slots.mhandle())
            }
            End::Recv(comm) => net.irecv(comm, span, self.slots.mhandle()),
        };
        let Some(request) = posted.or_else(|error| self.no_slot(error))? else {
            self.tally.null_requests += 1;
            return Ok(false);
        };
        self.use_slot();
        let posted = self.window.post(InFlight {
            request,
            turn: self.turn,
            slot,
            len: chunk.len,
        });
        debug_assert!(posted.is_ok(), "room was checked above");
        self.turn += 1;
        Ok(true)
    }

    /// Takes a refused post for a lack of request slots, once, and narrows the window to what the
    /// plugin has granted; returns any other error.
    #[cold]
    fn no_slot(&mut self, error: PluginError) -> Result<Option<Request>, PluginError> {
        let is_internal = matches!(
            error,
            PluginError::Refused {
                code: INTERNAL_ERROR,
                ..
            }
        );
        let may_narrow = std::mem::take(&mut self.setup.may_narrow);
        if may_narrow && is_internal && self.window.in_flight() >= SLOTS_MIN {
            self.window.narrow();
            return Ok(None);
        }
        Err(error)
    }

    /// The slot for the next post, if one is free and, for a send, its message is written.
    fn next_slot(&mut self) -> Result<Option<u8>, ChannelError> {
        if self.side() == Side::Recv || !self.slots.fills_later() {
            return Ok(self.free.last().copied());
        }
        if self.filling.written_for(self.turn).is_none() {
            // Launch jobs that could not be launched before; `drain` may not be running.
            self.slots.launch()?;
            self.see_filled()?;
        }
        Ok(self.filling.written_for(self.turn))
    }

    fn use_slot(&mut self) {
        if self.side() == Side::Send && self.slots.fills_later() {
            self.filling.posted();
        } else {
            self.free.pop();
        }
    }

    /// Tests the oldest request until one is not done. Unpacks, verifies and consumes those
    /// that are done. Returns how many requests advanced.
    pub fn drain(&mut self, net: &dyn Net, pace: &dyn Pace) -> Result<u32, ChannelError> {
        let mut moved = self.retire(net)?;
        while self.finish_one(net, pace)? {
            moved += 1;
        }
        self.launch()?;
        Ok(moved)
    }

    /// As `drain`, but finishes at most one request.
    pub(crate) fn drain_one(
        &mut self,
        net: &dyn Net,
        pace: &dyn Pace,
    ) -> Result<bool, ChannelError> {
        let retired = self.retire(net)? > 0;
        let finished = self.finish_one(net, pace)?;
        self.launch()?;
        Ok(finished || retired)
    }

    fn finish_one(&mut self, net: &dyn Net, pace: &dyn Pace) -> Result<bool, ChannelError> {
        let Some(head) = self.window.to_test() else {
            return Ok(false);
        };
        if self.flushing.is_none() {
            match net.test(head.request) {
                Ok(tested) if !tested.done => return Ok(false),
                Ok(tested) => {
                    self.refused_since = None;
                    self.check_size(tested, head)?;
                }
                Err(error) => return self.maybe_closed(error, pace),
            }
        }
        if self.flushes && !self.flush(net, head)? {
            return Ok(false);
        }
        self.finish(head)?;
        if !self.takes_later() {
            self.take(net)?;
        }
        Ok(true)
    }

    /// Starts the flush of a receive, or tests the one in progress. Returns whether the bytes
    /// are visible: the flush is done, or the plugin needed none.
    fn flush(&mut self, net: &dyn Net, head: InFlight) -> Result<bool, ChannelError> {
        let End::Recv(comm) = &self.end else {
            return Ok(true);
        };
        if self.flushing.is_none() {
            let span = self.slots.span(head.slot, head.len as usize)?;
            self.flushing = net.iflush(comm, span, self.slots.mhandle())?;
        }
        if let Some(flush) = self.flushing {
            if !net.test(flush)?.done {
                return Ok(false);
            }
            self.flushing = None;
        }
        Ok(true)
    }

    /// Checks the size that `test` reported, if any. Unpacking plugins such as TCPX report none.
    fn check_size(&self, tested: Tested, head: InFlight) -> Result<(), ChannelError> {
        let told = match &self.end {
            End::Recv(comm) if !comm.hands_back() => tested.reported,
            _ => return Ok(()),
        };
        if told == Tested::UNREPORTED || i64::from(told) == i64::from(head.len) {
            return Ok(());
        }
        Err(ChannelError::Size {
            reported: told,
            sent: head.len,
        })
    }

    /// Records that a request is done. If a GPU unpacks it, queues the job.
    fn finish(&mut self, head: InFlight) -> Result<(), ChannelError> {
        self.window.step(Step::Finish)?;
        self.tally.bytes += u64::from(head.len);
        if self.takes_later() {
            let number = self.window.totals()[1] - 1;
            self.slots
                .queue_take(head.slot, head.len as usize, number, self.id_of(head))?;
        }
        Ok(())
    }

    fn takes_later(&self) -> bool {
        self.side() == Side::Recv && self.slots.takes_later()
    }

    /// Launches the GPU jobs of all finished receives, or fills the free slots of a sender.
    fn launch(&mut self) -> Result<(), ChannelError> {
        match self.side() {
            Side::Recv => self.slots.launch(),
            Side::Send if self.slots.fills_later() => self.fill_free(),
            Side::Send => Ok(()),
        }
    }

    /// Consumes, in order, every receive whose GPU job has finished.
    fn retire(&mut self, net: &dyn Net) -> Result<u32, ChannelError> {
        let mut retired = 0;
        while self.takes_later()
            && let Some(one) = self.window.to_unpack()
            && let Some(passed) = self.slots.passed()?
        {
            self.judge(one, passed)?;
            self.hand_back(net, one)?;
            retired += 1;
        }
        Ok(retired)
    }

    /// Records the result of a GPU job.
    fn judge(&mut self, one: InFlight, passed: Passed) -> Result<(), ChannelError> {
        if self.setup.verify.is_none() {
            return Ok(());
        }
        let found = match passed {
            Passed::Right => None,
            Passed::Wrong | Passed::Overrun => Some(self.slots.explain(
                one.slot,
                one.len as usize,
                self.id_of(one),
            )?),
        };
        self.book(one, found);
        Ok(())
    }

    fn book(&mut self, one: InFlight, mismatch: Option<Mismatch>) {
        self.tally.verified_bytes += u64::from(one.len);
        if let Some(mismatch) = mismatch {
            self.tally.wrong_bytes += mismatch.wrong_bytes;
            self.tally.first_mismatch.get_or_insert(mismatch);
        }
    }

    fn id_of(&self, one: InFlight) -> StampId {
        self.id(self.share.chunk(one.turn).index)
    }

    /// The turn that is posted next.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Registered bytes for a post that must be refused.
    pub(super) fn any_span(&self) -> Option<Span> {
        self.slots.span(0, self.setup.chunk).ok()
    }

    /// Consumes every finished receive, waiting for GPU jobs in progress.
    pub(super) fn catch_up(&mut self, net: &dyn Net) -> Result<(), ChannelError> {
        while self.takes_later() && self.window.to_unpack().is_some() {
            self.slots.settle()?;
            if self.retire(net)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Unpacks a receive that was already consumed, as the fault `consumed-early` wants.
    pub(super) fn take_too_late(&mut self) -> Result<(), ChannelError> {
        let Some(one) = self.window.to_test() else {
            return Ok(());
        };
        self.finish(one)?;
        if self.takes_later() {
            self.slots.settle()?;
            if let Some(passed) = self.slots.passed()? {
                self.judge(one, passed)?;
            }
        } else {
            self.unpack_and_check(one)?;
        }
        self.window.step(Step::Unpack)?;
        self.free_slot(one)
    }

    /// Lends comm, registration and window to `rogue`, which breaks their order on purpose.
    pub(super) fn pieces(&mut self) -> Pieces<'_> {
        Pieces {
            end: self.end.comm(),
            mhandle: self.slots.mhandle(),
            window: &mut self.window,
        }
    }

    /// Unpacks, verifies and consumes the oldest finished request.
    fn take(&mut self, net: &dyn Net) -> Result<(), ChannelError> {
        let Some(one) = self.window.to_unpack() else {
            return Ok(());
        };
        if self.side() == Side::Recv {
            self.unpack_and_check(one)?;
        }
        self.hand_back(net, one)
    }

    fn unpack_and_check(&mut self, one: InFlight) -> Result<(), ChannelError> {
        let (slot, len) = (one.slot, one.len as usize);
        self.slots.unpack(slot, len, self.window.totals()[1] - 1)?;
        let (slots, id) = (&self.slots, self.id_of(one));
        if let Some(found) = self.verifying.call(|| slots.check(slot, len, id))? {
            self.book(one, found);
        }
        Ok(())
    }

    /// Consumes a receive that was unpacked, or retires a send, and frees the slot.
    fn hand_back(&mut self, net: &dyn Net, one: InFlight) -> Result<(), ChannelError> {
        self.window.step(Step::Unpack)?;
        if let End::Recv(comm) = &self.end {
            match self.recorded {
                Some((tap, key)) if self.slots.has_work() => tap.unpacked(key),
                Some((tap, key)) => tap.in_place(key),
                None => {}
            }
            net.irecv_consumed(comm, one.request)?;
        }
        self.free_slot(one)
    }

    fn free_slot(&mut self, one: InFlight) -> Result<(), ChannelError> {
        self.window.step(Step::Consume)?;
        self.free.push(one.slot);
        Ok(())
    }

    /// Handles an error of `test`. rc 2 for the oldest receive may mean only that the peer
    /// closed after sending everything: TCPX then succeeds on a later call.
    #[cold]
    fn maybe_closed(&mut self, error: PluginError, pace: &dyn Pace) -> Result<bool, ChannelError> {
        if !matches!(self.end, End::Recv(_)) || error.code() != Some(SYSTEM_ERROR) {
            return Err(error.into());
        }
        let now = pace.now();
        let since = *self.refused_since.get_or_insert(now);
        if now.saturating_sub(since) < self.setup.close_grace {
            return Ok(false);
        }
        let missing = self.share.turns() - self.turn + self.window.in_flight() as u64;
        Err(ChannelError::ClosedEarly { missing, error })
    }

    /// Deregisters the memory and closes the comm, after the barrier that ends the run or
    /// after an error.
    pub fn close(self, net: &dyn Net) -> Result<(), PluginError> {
        let deregistered = self.slots.end(net, self.end.comm());
        let closed = match self.end {
            End::Send(comm) => net.close_send(comm),
            End::Recv(comm) => net.close_recv(comm),
        };
        deregistered.and(closed)
    }
}
