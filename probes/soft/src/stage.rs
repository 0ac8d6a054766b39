//! Sends from GPU memory: a pinned buffer per request slot, filled by the GPU.
//!
//! The copy starts when a send is posted, and the message is divided into task chunks once the
//! copy is done. With the real plugin the NIC reads GPU memory itself, which a socket cannot.
#![expect(unsafe_code, reason = "lets a GPU write into buffers of its own")]

use crate::cuda::{Event, Gpu};
use crate::failed::Failed;
use crate::queue::SLOTS_MAX;
use std::ptr::{self, NonNull};

/// Buffers of one send comm.
pub(crate) struct Stage {
    gpu: &'static Gpu,
    slots: [Option<Buffer>; SLOTS_MAX],
}

struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    event: Event,
}

// SAFETY: plain memory, and an event that any thread may ask.
unsafe impl Send for Stage {}

impl Stage {
    /// No buffers yet.
    pub(crate) fn new(gpu: &'static Gpu) -> Self {
        Self {
            gpu,
            slots: [const { None }; SLOTS_MAX],
        }
    }

    /// Starts to copy `bytes` bytes at device address `from` for a slot.
    pub(crate) fn fetch(&mut self, slot: usize, from: u64, bytes: usize) -> Result<(), Failed> {
        let place = &mut self.slots[slot % SLOTS_MAX];
        if place.as_ref().is_none_or(|buffer| buffer.bytes < bytes) {
            if let Some(small) = place.take() {
                self.gpu.free_pinned(small.start);
            }
            *place = Some(Buffer {
                start: self.gpu.pinned(bytes)?,
                bytes,
                event: Event::new(self.gpu)?,
            });
        }
        let Some(buffer) = place else { return Ok(()) };
        // SAFETY: the slot's last message has gone, so the buffer is nobody's.
        unsafe {
            self.gpu
                .copy_out(buffer.start.as_ptr(), from, bytes, &buffer.event)
        }
    }

    /// Whether the copy of a slot's message is done.
    pub(crate) fn is_here(&self, slot: usize) -> Result<bool, Failed> {
        self.slots[slot % SLOTS_MAX]
            .as_ref()
            .map_or(Ok(true), |buffer| buffer.event.has_passed())
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
        for buffer in self.slots.iter_mut().filter_map(Option::take) {
            self.gpu.free_pinned(buffer.start);
        }
    }
}
