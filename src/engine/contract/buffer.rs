//! A registered buffer cut into slots: writes patterns and checks canaries.
#![forbid(unsafe_code)]

use super::subject::{Checked, Shortfall};
use crate::gpu::{DeviceMemory, HostMemory, MemoryKind, Region, Scatter, Span};
use crate::plugin::{Comm, MHandle, Net};
use crate::transfer::Pattern;
use std::sync::Arc;
use tcpx_words::payload::StampId;

/// Value of every byte of a receive buffer before a message arrives.
const CANARY: u8 = 0xc5;
/// Bytes after each slot that must stay unwritten.
const GUARD: usize = 4096;
/// Fixed, so that every plugin under test moves the same bytes.
const SEED: u64 = 0x7c9c_7b01;

/// One end's memory. Message `k` uses slot `k` modulo the number of slots.
pub(super) struct Buffer {
    region: Arc<Region>,
    mhandle: Option<MHandle>,
    stride: usize,
    slots: usize,
    pattern: Pattern,
}

impl Buffer {
    /// Allocates `slots` slots of `len` bytes, each followed by a guard, and registers
    /// them as one region.
    pub(super) fn new(
        net: &dyn Net,
        comm: Comm<'_>,
        memory: HostMemory,
        slots: usize,
        len: usize,
    ) -> Checked<Self> {
        let stride = len.next_multiple_of(GUARD) + GUARD;
        let region = memory.allocate(stride * slots)?;
        let mhandle = net.reg_mr(comm, &region, 0, region.len())?;
        Ok(Self {
            region,
            mhandle: Some(mhandle),
            stride,
            slots,
            pattern: Pattern::new(SEED),
        })
    }

    /// The bytes that message `k` occupies.
    pub(super) fn span(&self, message: usize, len: usize) -> Checked<Span> {
        let span = self.region.span(message % self.slots * self.stride, len);
        span.ok_or_else(|| {
            Shortfall::Broken(format!(
                "selftest bug: {len} bytes requested from a smaller slot"
            ))
        })
    }

    pub(super) fn mhandle(&self) -> Checked<&MHandle> {
        let ended =
            || Shortfall::Broken("selftest bug: the registration was already deregistered".into());
        self.mhandle.as_ref().ok_or_else(ended)
    }

    /// Whether receives land in bounce pages and must be unpacked.
    pub(super) fn is_device(&self) -> bool {
        self.region.kind() == MemoryKind::Device
    }

    /// Writes the pattern of message `k` into its slot.
    pub(super) fn write(&self, message: usize, len: usize) -> Checked<()> {
        self.bytes(self.span(message, len)?, |bytes| {
            self.pattern.fill(id(message), bytes)
        })
    }

    /// Fills the slot of message `k` and its guard with the canary.
    pub(super) fn blank(&self, message: usize) -> Checked<()> {
        self.bytes(self.span(message, self.stride)?, |bytes| bytes.fill(CANARY))
    }

    /// Checks that the slot of message `k` and its guard hold the canary from byte `from` on.
    pub(super) fn blank_from(&self, message: usize, from: usize) -> Checked<()> {
        let whole = self.span(message, self.stride)?;
        let written = self.bytes(whole, |bytes| {
            bytes[from..].iter().position(|byte| *byte != CANARY)
        })?;
        match written {
            None => Ok(()),
            Some(at) => Err(Shortfall::Broken(format!(
                "byte {} after message {message} was written",
                from + at
            ))),
        }
    }

    /// Checks every byte of message `k`, and that nothing was written after it.
    pub(super) fn verify(&self, message: usize, len: usize) -> Checked<()> {
        let mismatch = self.bytes(self.span(message, len)?, |bytes| {
            self.pattern.verify(id(message), bytes)
        })?;
        if let Some(found) = mismatch {
            let whose = found
                .from
                .map(|from| format!("; the bytes are from message {}", from.chunk))
                .unwrap_or_default();
            return Err(Shortfall::Broken(format!(
                "message {message} ({len} bytes) differs from byte {} on, {} bytes wrong ({:?}){whose}",
                found.offset, found.wrong_bytes, found.kind
            )));
        }
        self.blank_from(message, len)
    }

    /// Copies the fragments that `list` points to into the slot of message `k`.
    pub(super) fn gather(&self, list: &Scatter<'_>, message: usize, len: usize) -> Checked<()> {
        self.bytes(self.span(message, len)?, |bytes| list.copy_into(bytes))
    }

    /// Deregisters the buffer. Its memory is freed when the buffer is dropped.
    pub(super) fn end(&mut self, net: &dyn Net, comm: Comm<'_>) -> Checked<()> {
        match self.mhandle.take() {
            Some(mhandle) => Ok(net.dereg_mr(comm, mhandle)?),
            None => Ok(()),
        }
    }

    fn bytes<R>(&self, span: Span, f: impl FnOnce(&mut [u8]) -> R) -> Checked<R> {
        let lent = self.region.with_bytes(span, f);
        lent.ok_or_else(|| Shortfall::Broken("selftest bug: access outside the buffer".into()))
    }
}

/// Gives every message an iteration of its own, so that all its bytes differ from those
/// of other messages and even a short message in the wrong slot is detected.
fn id(message: usize) -> StampId {
    StampId {
        iteration: message as u64 + 1,
        channel: 0,
        chunk: message as u64,
    }
}
