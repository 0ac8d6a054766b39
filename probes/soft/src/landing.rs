//! Plain flavour: receives into device memory, which a socket cannot write to.
//!
//! A message lands in a buffer of the host. `test` says that it has arrived; it is
//! in its place once `iflush` was asked for it and the request of that is done,
//! and not before: a caller that forgets to flush finds its old bytes.
#![expect(unsafe_code, reason = "writes to the caller's buffers")]

use crate::cuda::Gpu;
use crate::failed::Failed;
use crate::log::warning;
use crate::queue::SLOTS_MAX;
use crate::settings::PRODUCT;
use std::collections::VecDeque;
use std::ffi::c_void;

/// Flushes of one comm at a time; one more is done before `iflush` returns.
pub(crate) const FLUSHES: usize = 32;
/// Messages that wait to be flushed: a whole window twice.
const LANDED_MAX: usize = 2 * SLOTS_MAX;

/// A message on the host, and where it belongs.
struct Landed {
    to: usize,
    bytes: Vec<u8>,
}

/// What has landed on one comm.
pub(crate) struct Landing {
    gpu: Option<&'static Gpu>,
    /// Being received, by slot.
    slots: [Option<Vec<u8>>; SLOTS_MAX],
    /// Arrived, oldest first.
    landed: VecDeque<Landed>,
    flushes: [Option<Vec<Landed>>; FLUSHES],
}

impl Landing {
    /// Into a GPU's memory, or into ordinary memory that stands in for it.
    pub(crate) fn new(gpu: Option<&'static Gpu>) -> Self {
        Self {
            gpu,
            slots: [const { None }; SLOTS_MAX],
            landed: VecDeque::new(),
            flushes: [const { None }; FLUSHES],
        }
    }

    /// The buffer for the message of a slot, `bytes` long; the same until it arrived.
    pub(crate) fn buffer(&mut self, slot: usize, bytes: usize) -> *mut u8 {
        self.slots[slot % SLOTS_MAX]
            .get_or_insert_with(|| vec![0; bytes])
            .as_mut_ptr()
    }

    /// The message of a slot has arrived; it belongs to `to`.
    pub(crate) fn arrived(&mut self, slot: usize, to: *mut c_void) {
        let Some(bytes) = self.slots[slot % SLOTS_MAX].take() else {
            return;
        };
        let to = to as usize;
        // What was there before is written over by it.
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

    /// Begins to flush what has arrived for these places; says which flush that
    /// is, or `None` where nothing is left to wait for.
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

    /// `test` of a flush, which is done the first time; `false` for none.
    pub(crate) fn finish(&mut self, flush: usize) -> Result<bool, Failed> {
        match self.flushes.get_mut(flush).and_then(Option::take) {
            Some(mine) => self.put(mine).map(|()| true),
            None => Ok(false),
        }
    }

    fn put(&self, mine: Vec<Landed>) -> Result<(), Failed> {
        for Landed { to, bytes } in mine {
            match self.gpu {
                // SAFETY: the caller registered the destination and leaves it alone
                // until the flush is done.
                Some(gpu) => unsafe { gpu.copy_in(to as u64, bytes.as_ptr(), bytes.len()) }?,
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
