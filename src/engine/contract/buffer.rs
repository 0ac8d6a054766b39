//! A registered buffer, cut into slots: patterns written, canaries compared.
#![forbid(unsafe_code)]

use super::subject::{Checked, Shortfall};
use crate::gpu::{DeviceMemory, HostMemory, MemoryKind, Region, Scatter, Span};
use crate::plugin::{Comm, MHandle, Net};
use crate::transfer::Pattern;
use std::sync::Arc;
use tcpx_words::payload::StampId;

/// What every byte of a receive buffer is before something arrives.
const CANARY: u8 = 0xc5;
/// Bytes after each slot that nobody may write.
const GUARD: usize = 4096;
/// The same on every run, so that two plugins move the same bytes.
const SEED: u64 = 0x7c9c_7b01;

/// One end's memory. Message `k` lies in slot `k` modulo the number of slots.
pub(super) struct Buffer {
    region: Arc<Region>,
    mhandle: Option<MHandle>,
    stride: usize,
    slots: usize,
    pattern: Pattern,
}

impl Buffer {
    /// `slots` slots of `len` bytes, each with a guard, registered as one.
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

    /// Where message `k` goes.
    pub(super) fn span(&self, message: usize, len: usize) -> Checked<Span> {
        let span = self.region.span(message % self.slots * self.stride, len);
        span.ok_or_else(|| {
            Shortfall::Broken(format!(
                "a row of the suite wants {len} bytes of a smaller slot"
            ))
        })
    }

    pub(super) fn mhandle(&self) -> Checked<&MHandle> {
        let ended =
            || Shortfall::Broken("a row of the suite uses a registration that it has ended".into());
        self.mhandle.as_ref().ok_or_else(ended)
    }

    /// Whether receives land in pages and must be unpacked.
    pub(super) fn is_device(&self) -> bool {
        self.region.kind() == MemoryKind::Device
    }

    /// Writes message `k`.
    pub(super) fn write(&self, message: usize, len: usize) -> Checked<()> {
        self.bytes(self.span(message, len)?, |bytes| {
            self.pattern.fill(id(message), bytes)
        })
    }

    /// Blanks the place of message `k`, its guard included.
    pub(super) fn blank(&self, message: usize) -> Checked<()> {
        self.bytes(self.span(message, self.stride)?, |bytes| bytes.fill(CANARY))
    }

    /// That the place of message `k` is blank from byte `from` on, its guard included.
    pub(super) fn blank_from(&self, message: usize, from: usize) -> Checked<()> {
        let whole = self.span(message, self.stride)?;
        let written = self.bytes(whole, |bytes| {
            bytes[from..].iter().position(|byte| *byte != CANARY)
        })?;
        match written {
            None => Ok(()),
            Some(at) => Err(Shortfall::Broken(format!(
                "byte {} behind message {message} was written",
                from + at
            ))),
        }
    }

    /// That the whole of message `k` is there and nothing behind it.
    pub(super) fn verify(&self, message: usize, len: usize) -> Checked<()> {
        let mismatch = self.bytes(self.span(message, len)?, |bytes| {
            self.pattern.verify(id(message), bytes)
        })?;
        if let Some(found) = mismatch {
            let whose = found
                .from
                .map(|from| format!("; message {} is there", from.chunk))
                .unwrap_or_default();
            return Err(Shortfall::Broken(format!(
                "message {message} of {len} bytes differs from byte {} on, {} bytes wrong ({:?}){whose}",
                found.offset, found.wrong_bytes, found.kind
            )));
        }
        self.blank_from(message, len)
    }

    /// Copies what a scatter list points to now into the place of message `k`.
    pub(super) fn gather(&self, list: &Scatter<'_>, message: usize, len: usize) -> Checked<()> {
        self.bytes(self.span(message, len)?, |bytes| list.copy_into(bytes))
    }

    /// Ends the registration; the memory stays until the buffer goes.
    pub(super) fn end(&mut self, net: &dyn Net, comm: Comm<'_>) -> Checked<()> {
        match self.mhandle.take() {
            Some(mhandle) => Ok(net.dereg_mr(comm, mhandle)?),
            None => Ok(()),
        }
    }

    fn bytes<R>(&self, span: Span, f: impl FnOnce(&mut [u8]) -> R) -> Checked<R> {
        let lent = self.region.with_bytes(span, f);
        lent.ok_or_else(|| {
            Shortfall::Broken("a row of the suite reaches outside its buffer".into())
        })
    }
}

/// Messages share no byte but by chance, so that one in another's place is told
/// even where it is short; nothing here is measured.
fn id(message: usize) -> StampId {
    StampId {
        iteration: message as u64 + 1,
        channel: 0,
        chunk: message as u64,
    }
}
