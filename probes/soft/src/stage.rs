//! Sends from GPU memory: a pinned buffer per request slot, filled by the GPU.
//!
//! The copy starts when a send is posted, and the message is divided into task chunks once the
//! copy is done. With the real plugin the NIC reads GPU memory itself, which a socket cannot.
#![expect(unsafe_code, reason = "lets a GPU write into buffers of its own")]

use crate::cuda::{Gpu, Mark, Stream};
use crate::failed::Failed;
use crate::queue::SLOTS_MAX;
use std::ptr::{self, NonNull};

/// Buffers of one send comm.
pub(crate) struct Stage {
    stream: Stream,
    slots: [Option<Buffer>; SLOTS_MAX],
}

struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    /// The copy under way.
    copy: Option<Mark>,
}

// SAFETY: plain memory of this process.
unsafe impl Send for Buffer {}

impl Stage {
    /// No buffers yet.
    pub(crate) fn new(gpu: &'static Gpu) -> Result<Self, Failed> {
        Ok(Self {
            stream: Stream::new(gpu)?,
            slots: [const { None }; SLOTS_MAX],
        })
    }

    /// Starts to copy `bytes` bytes at device address `from` for a slot.
    pub(crate) fn fetch(&mut self, slot: usize, from: u64, bytes: usize) -> Result<(), Failed> {
        let place = &mut self.slots[slot % SLOTS_MAX];
        if place.as_ref().is_none_or(|buffer| buffer.bytes < bytes) {
            if let Some(small) = place.take() {
                self.stream.finish()?;
                self.stream.gpu().free_pinned(small.start);
            }
            *place = Some(Buffer {
                start: self.stream.gpu().pinned(bytes)?,
                bytes,
                copy: None,
            });
        }
        let Some(buffer) = place else { return Ok(()) };
        // SAFETY: the slot's last message has gone, so the buffer is not in use.
        let copy = unsafe { self.stream.copy_out(buffer.start.as_ptr(), from, bytes) }?;
        buffer.copy = Some(copy);
        Ok(())
    }

    /// Whether the copy of a slot's message is done.
    pub(crate) fn is_here(&mut self, slot: usize) -> Result<bool, Failed> {
        let Some(buffer) = &mut self.slots[slot % SLOTS_MAX] else {
            return Ok(true);
        };
        if let Some(copy) = buffer.copy
            && self.stream.has_passed(copy)?
        {
            buffer.copy = None;
        }
        Ok(buffer.copy.is_none())
    }

    /// The buffer of a slot's message.
    pub(crate) fn message(&self, slot: usize) -> *mut u8 {
        self.slots[slot % SLOTS_MAX]
            .as_ref()
            .map_or(ptr::null_mut(), |buffer| buffer.start.as_ptr())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.stream.finish();
        for buffer in self.slots.iter_mut().filter_map(Option::take) {
            self.stream.gpu().free_pinned(buffer.start);
        }
    }
}
