//! One comm, its registration, its memory and its window.
//!
//! Memory is cut into as many slots as the window is deep, each on a page of its
//! own: a whole chunk, then a canary. The most recently freed
//! slot is used next, because its lines are still in the cache.
//!
//! Posting and draining never allocate, lock or make a system call of their own.
#![forbid(unsafe_code)]

use super::Pace;
use super::payload::{Mismatch, MismatchKind, Pattern, StampId};
use super::plan::Plan;
use super::window::{Illegal, InFlight, SLOTS_MAX, Step, Window};
use crate::gpu::{DeviceMemory, MemoryError, MemoryKind, Region, ScatterError, ScatterSource, Span, Unpack};
use crate::plugin::{Comm, MHandle, Net, PluginError, RecvComm, SendComm};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tcpx_abi::result::SYSTEM_ERROR;
use tcpx_abi::unpack::{ENTRIES, LoadMeta};
use tcpx_recorder::Key;
use tcpx_tap::Tap;

/// Which end of a connection a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Posts isend.
    Send,
    /// Posts irecv.
    Recv,
}

/// What stopped a channel. Terminal for its comm.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The plugin refused a call.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The scatter list cannot be true.
    #[error("a received scatter list was refused: {0}")]
    Scatter(#[from] ScatterError),
    /// The peer closed before everything had arrived.
    #[error("the peer closed with {missing} chunks outstanding; {error}")]
    ClosedEarly {
        /// Chunks of this iteration not yet done.
        missing: u64,
        /// The plugin's last answer.
        error: PluginError,
    },
    /// A bug of ours, kept as a value.
    #[error("the engine broke its own order: {0}")]
    Order(#[from] Illegal),
    /// A bug of ours: bytes of a slot could not be reached.
    #[error("slot {0} is not memory of its channel")]
    Slot(u8),
}

/// Sizes and habits of a channel.
#[derive(Clone)]
pub struct ChannelSetup {
    /// Index within its direction.
    pub index: usize,
    /// Requests in flight at most.
    pub window: usize,
    /// Bytes of a full chunk.
    pub chunk: usize,
    /// Write and check the pattern.
    pub verify: Option<Arc<Pattern>>,
    /// How receives in bounce pages get into place.
    pub unpack: Unpack,
    /// How long rc 2 from the head of a receive may be a peer that closed
    /// after everything had arrived.
    pub close_grace: Duration,
}

/// Where a channel's bytes live: region and registration.
pub struct Memory {
    region: Arc<Region>,
    mhandle: MHandle,
    stride: usize,
}

const GUARD: usize = 4096;
const CANARY: [u8; 64] = [0xc5; 64];

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

/// See [`Channel::pieces`].
pub(super) struct Pieces<'a> {
    pub(super) end: Comm<'a>,
    pub(super) mhandle: &'a MHandle,
    pub(super) window: &'a mut Window,
}

/// What a channel did since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes done since measuring began.
    pub bytes: u64,
    /// Bytes compared with the pattern since measuring began.
    pub verified_bytes: u64,
    /// Wrong bytes, warm-up included.
    pub wrong_bytes: u64,
    /// Posts that came back as success without a request.
    pub null_requests: u64,
    /// The first mismatch of the channel.
    pub first_mismatch: Option<Mismatch>,
}

/// One comm, its mhandle and its window.
pub struct Channel {
    setup: ChannelSetup,
    end: End,
    memory: Memory,
    device: Arc<dyn DeviceMemory>,
    scatter: Option<(ScatterSource, Box<[LoadMeta; ENTRIES]>)>,
    window: Window,
    free: Vec<u8>,
    plan: Option<Plan>,
    iteration: u64,
    turn: u64,
    turns: u64,
    refused_since: Option<Duration>,
    recorded: Option<(Tap, Key)>,
    tally: Tally,
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

    /// A channel that receives on `comm`. With device memory the comm must have
    /// an unpack queue that this process can read.
    pub fn receiver(
        net: &dyn Net,
        comm: RecvComm,
        device: Arc<dyn DeviceMemory>,
        setup: ChannelSetup,
    ) -> Result<Self, ChannelError> {
        let mut channel = Self::new(net, End::Recv(comm), device, setup)?;
        // After the registration, whose refusal says more than a missing queue.
        if let (MemoryKind::Device, End::Recv(comm)) = (channel.device.kind(), &channel.end)
            && let Some(handle) = comm.device_handle()
        {
            let source = ScatterSource::from_host_handle(handle)?;
            channel.scatter = Some((source, Box::new([LoadMeta::default(); ENTRIES])));
        }
        Ok(channel)
    }

    fn new(net: &dyn Net, end: End, device: Arc<dyn DeviceMemory>, setup: ChannelSetup) -> Result<Self, ChannelError> {
        let window = Window::new(setup.window);
        let slots = setup.window.clamp(1, SLOTS_MAX);
        let stride = setup.chunk.next_multiple_of(GUARD) + GUARD;
        let region = device.allocate(stride * slots)?;
        let mhandle = net.reg_mr(end.comm(), &region, 0, region.len())?;
        let mut channel = Self {
            free: (0..slots as u8).rev().collect(),
            memory: Memory { region, mhandle, stride },
            setup,
            end,
            device,
            scatter: None,
            window,
            plan: None,
            iteration: 0,
            turn: 0,
            turns: 0,
            refused_since: None,
            recorded: None,
            tally: Tally::default(),
        };
        channel.touch()?;
        Ok(channel)
    }

    /// Numbers the channel in the flight recorder, which sees every call but
    /// the unpacking.
    pub fn record(&mut self, tap: Tap) {
        self.recorded = tap.key(self.end.comm().as_ptr()).map(|key| (tap, key));
        if let Some((tap, key)) = self.recorded {
            tap.set_channel(key, self.setup.index as u32);
        }
    }

    /// Send or receive.
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

    /// What it did so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// From here on bytes count as measured; wrong ones count from the start.
    pub fn start_measuring(&mut self) {
        self.tally.bytes = 0;
        self.tally.verified_bytes = 0;
    }

    /// Bytes registered with the plugin.
    pub fn registered_bytes(&self) -> usize {
        self.memory.region.len()
    }

    /// The window, for those who report on it.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Sets the next iteration up; a sender writes its pattern here, outside
    /// the timed part.
    pub fn begin(&mut self, plan: Plan, iteration: u64) -> Result<(), ChannelError> {
        self.plan = Some(plan);
        self.iteration = iteration;
        self.turn = 0;
        self.turns = plan.chunks_of(self.setup.index);
        if let (Side::Send, Some(pattern)) = (self.side(), self.setup.verify.clone()) {
            let id = self.id(0);
            for slot in 0..self.setup.window.clamp(1, SLOTS_MAX) as u8 {
                let span = self.slot_span(slot, self.setup.chunk)?;
                self.memory.region.with_bytes(span, |bytes| pattern.fill(id, bytes)).ok_or(ChannelError::Slot(slot))?;
            }
        }
        Ok(())
    }

    fn id(&self, chunk: u64) -> StampId {
        StampId { iteration: self.iteration, channel: self.setup.index as u64, chunk }
    }

    /// Whether every chunk of the iteration is consumed.
    pub fn is_finished(&self) -> bool {
        self.turn == self.turns && self.window.is_drained()
    }

    /// Whether one more chunk may be posted now.
    pub fn can_post(&self) -> bool {
        self.turn < self.turns && self.window.has_room()
    }

    /// Whether every chunk of the iteration was posted.
    pub fn has_posted_all(&self) -> bool {
        self.turn == self.turns
    }

    /// Whether nothing more can be posted for lack of room.
    pub fn is_full(&self) -> bool {
        !self.window.has_room()
    }

    /// Posts the next chunk. `false`: the plugin said "try again", or there is
    /// nothing to post.
    pub fn post(&mut self, net: &dyn Net) -> Result<bool, ChannelError> {
        let (Some(plan), true) = (self.plan, self.can_post()) else { return Ok(false) };
        let Some(slot) = self.free.last().copied() else { return Ok(false) };
        let chunk = plan.chunk(self.setup.index, self.turn);
        let span = self.slot_span(slot, chunk.len as usize)?;
        let request = match &self.end {
            End::Send(comm) => {
                if let Some(pattern) = &self.setup.verify {
                    let id = self.id(chunk.index);
                    let stamped = self.memory.region.with_bytes(span, |bytes| pattern.stamp_blocks(id, bytes));
                    stamped.ok_or(ChannelError::Slot(slot))?;
                }
                net.isend(comm, span, &self.memory.mhandle)?
            }
            End::Recv(comm) => net.irecv(comm, span, &self.memory.mhandle)?,
        };
        let Some(request) = request else {
            self.tally.null_requests += 1;
            return Ok(false);
        };
        self.free.pop();
        let posted = self.window.post(InFlight { request, turn: self.turn, slot, len: chunk.len });
        debug_assert!(posted.is_ok(), "room was checked above");
        self.turn += 1;
        Ok(true)
    }

    /// Tests the oldest request until one is not done; takes, checks and hands
    /// back what is. Returns how many requests finished.
    pub fn drain(&mut self, net: &dyn Net, pace: &dyn Pace) -> Result<u32, ChannelError> {
        let mut finished = 0;
        while self.drain_one(net, pace)? {
            finished += 1;
        }
        Ok(finished)
    }

    /// As `drain`, for at most one request.
    pub fn drain_one(&mut self, net: &dyn Net, pace: &dyn Pace) -> Result<bool, ChannelError> {
        let Some(head) = self.window.to_test() else { return Ok(false) };
        match net.test(head.request) {
            Ok(tested) if !tested.done => return Ok(false),
            Ok(_) => self.refused_since = None,
            Err(error) => return self.maybe_closed(error, pace),
        }
        self.window.step(Step::Finish)?;
        self.tally.bytes += u64::from(head.len);
        self.take(net)?;
        Ok(true)
    }

    /// Which turn is posted next.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Some bytes of the channel, for a post that must be refused.
    pub(super) fn any_span(&self) -> Option<Span> {
        self.slot_span(0, self.setup.chunk).ok()
    }

    /// Takes a payload whose pages were handed back already.
    pub(super) fn take_too_late(&mut self) -> Result<(), ChannelError> {
        self.window.step(Step::Finish)?;
        let Some(one) = self.window.to_unpack() else { return Ok(()) };
        self.tally.bytes += u64::from(one.len);
        self.unpack(one)?;
        self.check(one)?;
        self.window.step(Step::Unpack)?;
        self.window.step(Step::Consume)?;
        self.free.push(one.slot);
        Ok(())
    }

    /// What `rogue` may reach: the pieces whose order it breaks on purpose.
    pub(super) fn pieces(&mut self) -> Pieces<'_> {
        Pieces { end: self.end.comm(), mhandle: &self.memory.mhandle, window: &mut self.window }
    }

    /// Payload of the oldest done request into place, checked, handed back.
    fn take(&mut self, net: &dyn Net) -> Result<(), ChannelError> {
        let Some(one) = self.window.to_unpack() else { return Ok(()) };
        let receives = matches!(self.end, End::Recv(_));
        if receives {
            self.unpack(one)?;
            self.check(one)?;
        }
        self.window.step(Step::Unpack)?;
        if let End::Recv(comm) = &self.end {
            if let Some((tap, key)) = self.recorded {
                tap.unpacked(key);
            }
            net.irecv_consumed(comm, one.request)?;
        }
        self.window.step(Step::Consume)?;
        self.free.push(one.slot);
        Ok(())
    }

    fn unpack(&mut self, one: InFlight) -> Result<(), ChannelError> {
        let span = self.slot_span(one.slot, one.len as usize)?;
        let finished = self.window.totals()[2];
        let Some((source, scratch)) = &mut self.scatter else { return Ok(()) };
        let list = source.read(finished, u64::from(one.len), scratch)?;
        let gathered = self.device.gather(self.setup.unpack, &list, &self.memory.region, span);
        if gathered { Ok(()) } else { Err(ChannelError::Slot(one.slot)) }
    }

    fn check(&mut self, one: InFlight) -> Result<(), ChannelError> {
        let Some(pattern) = &self.setup.verify else { return Ok(()) };
        if self.scatter.is_some() && self.setup.unpack == Unpack::None {
            return Ok(());
        }
        let Some(plan) = self.plan else { return Ok(()) };
        let id = self.id(plan.chunk(self.setup.index, one.turn).index);
        let span = self.slot_span(one.slot, one.len as usize)?;
        let found = self.memory.region.with_bytes(span, |bytes| pattern.verify(id, bytes));
        let mut mismatch = found.ok_or(ChannelError::Slot(one.slot))?;
        self.tally.verified_bytes += u64::from(one.len);
        if mismatch.is_none() {
            mismatch = self.overrun(one.slot, id)?;
        }
        if let Some(mismatch) = mismatch {
            self.tally.wrong_bytes += mismatch.wrong_bytes;
            self.tally.first_mismatch.get_or_insert(mismatch);
        }
        Ok(())
    }

    /// Whether the bytes after a slot's chunk are still the canary.
    fn overrun(&self, slot: u8, id: StampId) -> Result<Option<Mismatch>, ChannelError> {
        let span = self.guard_span(slot)?;
        let wrong = self.memory.region.with_bytes(span, |bytes| bytes.iter().zip(&CANARY).position(|(a, b)| a != b));
        Ok(wrong.ok_or(ChannelError::Slot(slot))?.map(|at| Mismatch {
            id,
            offset: (self.setup.chunk + at) as u64,
            wrong_bytes: 1,
            expected: CANARY[0],
            got: 0,
            kind: MismatchKind::Overrun,
            from: None,
        }))
    }

    /// Makes every slot memory of its own: pages that were never written all
    /// read as one page of zeroes, and sending that page over and over would be
    /// faster than anything real. Behind each slot goes its canary.
    fn touch(&mut self) -> Result<(), ChannelError> {
        for slot in 0..self.free.len() as u8 {
            let whole = self.slot_span(slot, self.setup.chunk)?;
            let written = self.memory.region.with_bytes(whole, |bytes| bytes.fill(slot | 0x80));
            written.ok_or(ChannelError::Slot(slot))?;
            let span = self.guard_span(slot)?;
            let written = self.memory.region.with_bytes(span, |bytes| bytes.copy_from_slice(&CANARY));
            written.ok_or(ChannelError::Slot(slot))?;
        }
        Ok(())
    }

    fn slot_span(&self, slot: u8, len: usize) -> Result<Span, ChannelError> {
        let span = self.memory.region.span(usize::from(slot) * self.memory.stride, len);
        span.ok_or(ChannelError::Slot(slot))
    }

    fn guard_span(&self, slot: u8) -> Result<Span, ChannelError> {
        let start = usize::from(slot) * self.memory.stride + self.setup.chunk;
        self.memory.region.span(start, CANARY.len()).ok_or(ChannelError::Slot(slot))
    }

    /// rc 2 from the head of a receive may only say that the peer closed after
    /// sending everything; TCPX then succeeds when asked again.
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
        let missing = self.turns - self.turn + self.window.in_flight() as u64;
        Err(ChannelError::ClosedEarly { missing, error })
    }

    /// Deregisters and closes; for after the barrier that ends the run, or to
    /// give everything back after an error.
    pub fn close(self, net: &dyn Net) -> Result<(), PluginError> {
        let deregistered = net.dereg_mr(self.end.comm(), self.memory.mhandle);
        let closed = match self.end {
            End::Send(comm) => net.close_send(comm),
            End::Recv(comm) => net.close_recv(comm),
        };
        deregistered.and(closed)
    }
}
