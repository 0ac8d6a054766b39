//! Plain flavour: receives into device memory, to which a socket cannot write.
//!
//! A message is received into a host buffer, and `test` then reports it done. It is copied to
//! its destination by `iflush`, once the request of the flush is done and not before: a caller
//! that does not flush finds the old bytes.
#![expect(unsafe_code, reason = "writes to the caller's buffers")]

use crate::cuda::{Gpu, Stream};
use crate::failed::Failed;
use crate::log::warning;
use crate::queue::SLOTS_MAX;
use crate::settings::PRODUCT;
use std::collections::VecDeque;
use std::ffi::c_void;

/// Most flushes of a comm in progress; `iflush` completes one more at once.
pub(crate) const FLUSHES: usize = 32;
/// Most messages that wait to be flushed: two windows.
const LANDED_MAX: usize = 2 * SLOTS_MAX;

/// A received message in host memory, and its destination.
struct Landed {
    to: usize,
    bytes: Vec<u8>,
}

/// The received messages of one comm that are not flushed.
pub(crate) struct Landing {
    stream: Option<Stream>,
    /// Buffers of messages being received, by slot.
    slots: [Option<Vec<u8>>; SLOTS_MAX],
    /// Received messages, oldest first.
    landed: VecDeque<Landed>,
    flushes: [Option<Vec<Landed>>; FLUSHES],
}

impl Landing {
    /// For messages to GPU memory, or to host memory that stands in for it.
    pub(crate) fn new(gpu: Option<&'static Gpu>) -> Result<Self, Failed> {
        Ok(Self {
            stream: gpu.map(Stream::new).transpose()?,
            slots: [const { None }; SLOTS_MAX],
            landed: VecDeque::new(),
            flushes: [const { None }; FLUSHES],
        })
    }

    /// The buffer of `bytes` bytes for the message of a slot, the same until it has arrived.
    pub(crate) fn buffer(&mut self, slot: usize, bytes: usize) -> *mut u8 {
        self.slots[slot % SLOTS_MAX]
            .get_or_insert_with(|| vec![0; bytes])
            .as_mut_ptr()
    }

    /// Records that the message of a slot has arrived. Its destination is `to`.
    pub(crate) fn arrived(&mut self, slot: usize, to: *mut c_void) {
        let Some(bytes) = self.slots[slot % SLOTS_MAX].take() else {
            return;
        };
        let to = to as usize;
        // A newer message replaces an older one with the same destination.
        self.landed.retain(|one| one.to != to);
        if self.landed.len() == LANDED_MAX {
            warning!(
                c"softIflush",
                "{PRODUCT} : {LANDED_MAX} messages were never flushed, the oldest is lost"
            );
            self.landed.pop_front();
        }
        self.landed.push_back(Landed { to, bytes });
    }

    /// Starts to flush the messages for these destinations. Returns the number of the flush, or
    /// `None` if there is nothing to wait for.
    pub(crate) fn flush(&mut self, places: &[*mut c_void]) -> Result<Option<usize>, Failed> {
        let mut mine = Vec::new();
        for place in places {
            if let Some(at) = self.landed.iter().position(|one| one.to == *place as usize) {
                mine.extend(self.landed.remove(at));
            }
        }
        if mine.is_empty() {
            return Ok(None);
        }
        let Some(free) = self.flushes.iter().position(Option::is_none) else {
            self.put(mine)?;
            return Ok(None);
        };
        self.flushes[free] = Some(mine);
        Ok(Some(free))
    }

    /// `test` of a flush, which completes it. `false` if there is no such flush.
    pub(crate) fn finish(&mut self, flush: usize) -> Result<bool, Failed> {
        match self.flushes.get_mut(flush).and_then(Option::take) {
            Some(mine) => self.put(mine).map(|()| true),
            None => Ok(false),
        }
    }

    fn put(&mut self, mine: Vec<Landed>) -> Result<(), Failed> {
        for Landed { to, bytes } in mine {
            match &mut self.stream {
                // SAFETY: the caller registered the destination and leaves it alone
                // until the flush is done.
                Some(stream) => unsafe { stream.copy_in(to as u64, bytes.as_ptr(), bytes.len()) }?,
                // SAFETY: as above, in ordinary memory.
                None => unsafe {
                    bytes
                        .as_ptr()
                        .copy_to_nonoverlapping(to as *mut u8, bytes.len())
                },
            }
        }
        Ok(())
    }
}
