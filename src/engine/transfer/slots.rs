//! The memory of one channel, cut into slots. Each slot starts on a page and holds one chunk
//! followed by a canary.
//!
//! Host memory is filled, unpacked and compared at once. For GPU memory these are jobs on a
//! lane: they are queued, launched together, and reported once the GPU has finished them. In
//! both cases the scatter list of a receive is read and checked as soon as it is done.
//!
//! Not here: which slot is used, in which order, and when a receive is consumed.
#![forbid(unsafe_code)]

use super::channel::{ChannelError, ChannelSetup};
use super::payload::Pattern;
use super::window::SLOTS_MAX;
use crate::gpu::{
    DeviceMemory, Lane, LaneSetup, Passed, PatternKey, Region, ScatterSource, Span, Unpack, Work,
};
use crate::plugin::{Comm, MHandle, Net, PluginError, RecvComm};
use std::sync::Arc;
use tcpx_abi::unpack::{ENTRIES, LoadMeta};
use tcpx_words::payload::{Mismatch, MismatchKind, StampId};

const GUARD: usize = 4096;
const CANARY: [u8; 64] = [0xc5; 64];

/// The region, its registration, and the GPU lane that works on it.
pub(super) struct Slots {
    // Dropped before the region: dropping the lane waits for its work on the region.
    lane: Option<Box<dyn Lane>>,
    region: Arc<Region>,
    mhandle: MHandle,
    device: Arc<dyn DeviceMemory>,
    stride: usize,
    chunk: usize,
    pattern: Option<Arc<Pattern>>,
    unpack: Unpack,
    scatter: Option<(ScatterSource, Box<[LoadMeta; ENTRIES]>)>,
}

impl Slots {
    /// Allocates the region, registers it with `comm` and touches every slot.
    pub(super) fn new(
        net: &dyn Net,
        comm: Comm<'_>,
        device: Arc<dyn DeviceMemory>,
        setup: &ChannelSetup,
    ) -> Result<Self, ChannelError> {
        let count = count(setup);
        let stride = setup.chunk.next_multiple_of(GUARD) + GUARD;
        let region = device.allocate(stride * count)?;
        let pattern = setup.verify.as_deref().map(Pattern::key);
        let lane = device.lane(&LaneSetup {
            jobs: count,
            chunk: setup.chunk,
            unpack: if matches!(comm, Comm::Recv(_)) {
                setup.unpack
            } else {
                Unpack::None
            },
            pattern: pattern.as_ref() as Option<&PatternKey>,
        })?;
        // The plugin binds a registration to the thread's current GPU.
        device.make_current()?;
        let mhandle = net.reg_mr(comm, &region, 0, region.len())?;
        let slots = Self {
            lane,
            region,
            mhandle,
            device,
            stride,
            chunk: setup.chunk,
            pattern: setup.verify.clone(),
            unpack: setup.unpack,
            scatter: None,
        };
        let receives = matches!(comm, Comm::Recv(_));
        (0..count as u8).try_for_each(|slot| slots.touch(slot, first_byte(slot, receives)))?;
        Ok(slots)
    }

    /// Unpacks receives by the scatter lists of `comm` from now on.
    pub(super) fn receive_from(&mut self, comm: &RecvComm) -> Result<(), ChannelError> {
        if let Some(handle) = comm.device_handle() {
            let source = self.device.scatter_source(handle)?;
            self.scatter = Some((source, Box::new([LoadMeta::default(); ENTRIES])));
        }
        Ok(())
    }

    pub(super) fn mhandle(&self) -> &MHandle {
        &self.mhandle
    }

    pub(super) fn registered_bytes(&self) -> usize {
        self.region.len()
    }

    /// Deregisters and frees the memory.
    pub(super) fn end(self, net: &dyn Net, comm: Comm<'_>) -> Result<(), PluginError> {
        drop(self.lane);
        net.dereg_mr(comm, self.mhandle)
    }

    /// The first `len` bytes of a slot.
    pub(super) fn span(&self, slot: u8, len: usize) -> Result<Span, ChannelError> {
        self.region
            .span(usize::from(slot) * self.stride, len)
            .ok_or(ChannelError::Slot(slot))
    }

    /// Whether received bytes are unpacked or compared before the receive is consumed.
    pub(super) fn has_work(&self) -> bool {
        self.scatter.is_some() || self.pattern.is_some()
    }

    /// Whether receives are unpacked and compared by GPU jobs instead of at once.
    pub(super) fn takes_later(&self) -> bool {
        self.lane.is_some() && self.unpack != Unpack::None
    }

    /// Whether sends are written by GPU jobs instead of at once.
    pub(super) fn fills_later(&self) -> bool {
        self.lane.is_some() && self.pattern.is_some()
    }

    /// Writes the body and the stamps of a message, at once.
    pub(super) fn fill(&self, slot: u8, id: StampId) -> Result<(), ChannelError> {
        let Some(pattern) = &self.pattern else {
            return Ok(());
        };
        let span = self.span(slot, self.chunk)?;
        self.region
            .with_bytes(span, |bytes| pattern.fill(id, bytes))
            .ok_or(ChannelError::Slot(slot))
    }

    /// Writes the stamps of a message, at once. The slot must hold this iteration's body.
    pub(super) fn stamp(&self, slot: u8, len: usize, id: StampId) -> Result<(), ChannelError> {
        let Some(pattern) = &self.pattern else {
            return Ok(());
        };
        let span = self.span(slot, len)?;
        self.region
            .with_bytes(span, |bytes| pattern.stamp_blocks(id, bytes))
            .ok_or(ChannelError::Slot(slot))
    }

    /// Unpacks the `number`-th receive, at once.
    pub(super) fn unpack(&mut self, slot: u8, len: usize, number: u64) -> Result<(), ChannelError> {
        let span = self.span(slot, len)?;
        let Some((source, scratch)) = &mut self.scatter else {
            return Ok(());
        };
        let list = source.read(number, len as u64, scratch)?;
        if self.unpack == Unpack::None {
            return Ok(());
        }
        let gathered = self.device.gather(self.unpack, &list, &self.region, span);
        if gathered {
            Ok(())
        } else {
            Err(ChannelError::Slot(slot))
        }
    }

    /// Compares a message and its canary, at once; `None` when nothing is compared.
    pub(super) fn check(
        &self,
        slot: u8,
        len: usize,
        id: StampId,
    ) -> Result<Option<Option<Mismatch>>, ChannelError> {
        let Some(pattern) = self.compared() else {
            return Ok(None);
        };
        let found = self
            .region
            .with_bytes(self.span(slot, len)?, |bytes| pattern.verify(id, bytes));
        let mismatch = found.ok_or(ChannelError::Slot(slot))?;
        if mismatch.is_some() {
            return Ok(Some(mismatch));
        }
        let guard = self
            .region
            .with_bytes(self.guard_span(slot)?, |bytes| overrun(bytes));
        let at = guard.ok_or(ChannelError::Slot(slot))?;
        Ok(Some(at.map(|(at, got)| self.overrun_at(id, at, got))))
    }

    fn compared(&self) -> Option<&Arc<Pattern>> {
        let unread = self.scatter.is_some() && self.unpack == Unpack::None;
        self.pattern.as_ref().filter(|_| !unread)
    }

    /// Queues a job that writes a message.
    pub(super) fn queue_fill(
        &mut self,
        slot: u8,
        len: usize,
        id: StampId,
    ) -> Result<(), ChannelError> {
        let span = self.span(slot, len)?;
        let (Some(lane), Some(pattern)) = (&mut self.lane, &self.pattern) else {
            return Ok(());
        };
        Ok(lane.queue(&Work::Fill {
            span,
            stamp: pattern.stamp_of(id),
        })?)
    }

    /// Reads and checks the scatter list of the `number`-th receive, and queues a job that
    /// unpacks and compares it.
    pub(super) fn queue_take(
        &mut self,
        slot: u8,
        len: usize,
        number: u64,
        id: StampId,
    ) -> Result<(), ChannelError> {
        let span = self.span(slot, len)?;
        let verify = self.compared().map(|pattern| pattern.stamp_of(id));
        let list = match &mut self.scatter {
            Some((source, scratch)) => Some(source.read(number, len as u64, scratch)?),
            None => None,
        };
        let Some(lane) = &mut self.lane else {
            return Ok(());
        };
        Ok(lane.queue(&Work::Take {
            list: list.as_ref(),
            span,
            verify,
            guard: self.chunk,
        })?)
    }

    /// Launches the queued jobs.
    pub(super) fn launch(&mut self) -> Result<(), ChannelError> {
        match &mut self.lane {
            Some(lane) => Ok(lane.launch()?),
            None => Ok(()),
        }
    }

    /// Launches the queued jobs and waits for all jobs, within the lane's deadline.
    pub(super) fn settle(&mut self) -> Result<(), ChannelError> {
        match &mut self.lane {
            Some(lane) => Ok(lane.settle()?),
            None => Ok(()),
        }
    }

    /// The result of the oldest job, if the GPU has finished it.
    pub(super) fn passed(&mut self) -> Result<Option<Passed>, ChannelError> {
        match &mut self.lane {
            Some(lane) => Ok(lane.passed()?),
            None => Ok(None),
        }
    }

    /// Describes a mismatch that a GPU job found, by reading the bytes back. If the bytes are
    /// right by now, it is still a mismatch.
    #[cold]
    pub(super) fn explain(
        &self,
        slot: u8,
        len: usize,
        id: StampId,
    ) -> Result<Mismatch, ChannelError> {
        let mut bytes = vec![0; len];
        self.device
            .read(&self.region, self.span(slot, len)?, &mut bytes)?;
        if let Some(found) = self
            .pattern
            .as_ref()
            .and_then(|pattern| pattern.verify(id, &bytes))
        {
            return Ok(found);
        }
        let mut canary = CANARY;
        self.device
            .read(&self.region, self.guard_span(slot)?, &mut canary)?;
        let (at, got) = overrun(&canary).unwrap_or((0, CANARY[0]));
        Ok(self.overrun_at(id, at, got))
    }

    fn overrun_at(&self, id: StampId, at: usize, got: u8) -> Mismatch {
        Mismatch {
            id,
            offset: (self.chunk + at) as u64,
            wrong_bytes: 1,
            expected: CANARY[0],
            got,
            kind: MismatchKind::Overrun,
            from: None,
        }
    }

    /// Writes the slot and its canary, so that the slot has pages of its own. Pages that were
    /// never written are all backed by one zero page, and sending that page would be
    /// unrealistically fast.
    fn touch(&self, slot: u8, byte: u8) -> Result<(), ChannelError> {
        self.device.write(
            &self.region,
            self.span(slot, self.chunk)?,
            &vec![byte; self.chunk],
        )?;
        Ok(self
            .device
            .write(&self.region, self.guard_span(slot)?, &CANARY)?)
    }

    fn guard_span(&self, slot: u8) -> Result<Span, ChannelError> {
        let start = usize::from(slot) * self.stride + self.chunk;
        self.region
            .span(start, CANARY.len())
            .ok_or(ChannelError::Slot(slot))
    }
}

/// What fills a slot before its first use. No slot of a receiver looks like one of a sender: bytes that were not
/// moved would otherwise look as if they had been.
fn first_byte(slot: u8, receives: bool) -> u8 {
    let sent = slot | 0x80;
    if receives { !sent } else { sent }
}

/// Number of slots of a channel, the depth of its window.
pub(super) fn count(setup: &ChannelSetup) -> usize {
    setup.window.clamp(1, SLOTS_MAX)
}

/// The first byte that differs from the canary: its offset and value.
fn overrun(bytes: &[u8]) -> Option<(usize, u8)> {
    let at = bytes
        .iter()
        .zip(&CANARY)
        .position(|(got, canary)| got != canary)?;
    Some((at, bytes[at]))
}
