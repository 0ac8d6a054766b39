//! Small reads and writes that travel together: as one request, one message of the plugin, one answer.
//!
//! A message of the plugin costs more than a copy of a few KiB. So the end that sends copies the pieces of
//! several operations into one message, and the end that receives copies them out of it. The first
//! operations of a connection do not wait for others; once a few are in flight, those that follow are
//! collected until one is done, or until they fill a message.
//!
//! If the peer refuses one of them, it moves nothing, and each is started again alone, so that each gets
//! an answer of its own.
//!
//! Only between endpoints of host memory: the copies are made by the CPU.
#![forbid(unsafe_code)]

use crate::blob::Right;
use crate::connection::{Connection, Lost};
use crate::lane::Part;
use crate::memory::{Held, Registration, copy};
use crate::message::{Message, RemotePiece};
use crate::pending::{Operation, Ours, Starter};
use crate::pieces::{LocalPiece, push};
use crate::transfer::Completion;
use std::sync::Arc;
use tcpx_engine::gpu::{DeviceMemory, HostMemory};

/// Most bytes of an operation that travels with others.
pub(crate) const SMALL_MAX: usize = 8 << 10;
/// Most bytes, and most operations, of one message.
pub(crate) const TOGETHER_MAX: usize = 64 << 10;
const COUNT_MAX: usize = 256;
/// With fewer small requests in flight, an operation does not wait for others.
const FEW: usize = 4;
/// Most small requests of one end in flight.
const REQUESTS_MAX: usize = 64;
/// Most buffers of a connection: those of both ends' requests, some of which the plugin has not let go.
const BUFFERS_MAX: usize = 8 * REQUESTS_MAX;

/// An operation on one small piece, which waits for others.
pub(crate) struct Small {
    right: Right,
    here: LocalPiece,
    there: RemotePiece,
    completion: Completion,
}

impl Small {
    fn alone(self) -> (Operation, Completion) {
        let (here, there) = (vec![self.here], vec![self.there]);
        let operation = match self.right {
            Right::Read => Operation::Read(here, there),
            Right::Write => Operation::Write(here, there),
        };
        (operation, self.completion)
    }
}

/// Operations that travel together, and the buffer with their bytes, one after the other.
pub(crate) struct Together {
    staged: LocalPiece,
    all: Vec<Small>,
}

impl Together {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Finishes every operation: its bytes have arrived, here or there.
    pub(crate) fn finish(self) -> Result<(), Lost> {
        let reads = self.all.iter().filter(|one| one.right == Right::Read);
        scatter(&self.staged, reads.map(|one| &one.here))?;
        for Small {
            here, completion, ..
        } in self.all
        {
            let bytes = here.len as u64;
            drop(here);
            completion.finish(Ok(bytes));
        }
        Ok(())
    }

    /// The operations, to be started again.
    pub(crate) fn alone(self) -> impl Iterator<Item = (Operation, Completion)> {
        self.all.into_iter().map(Small::alone)
    }

    pub(crate) fn into_completions(self) -> impl Iterator<Item = Completion> {
        self.all.into_iter().map(|one| one.completion)
    }
}

/// Small operations that wait until they are started together.
#[derive(Default)]
pub(crate) struct Waiting {
    all: Vec<Small>,
    bytes: usize,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn into_completions(self) -> impl Iterator<Item = Completion> {
        self.all.into_iter().map(|one| one.completion)
    }

    /// Whether an operation can join those that wait, in a message of at most so many bytes.
    fn takes(&self, small: &Small, most: usize) -> bool {
        let is_alike = |one: &Small| one.right == small.right;
        self.all.len() < COUNT_MAX
            && self.bytes + small.here.len <= most
            && self.all.first().is_none_or(is_alike)
    }
}

/// Buffers for messages of several pieces. One is free again once nothing holds it: the plugin does
/// until its message is done.
#[derive(Default)]
pub(crate) struct Staging(Vec<Arc<Registration>>);

impl Staging {
    /// The first bytes of a free buffer.
    pub(crate) fn take(&mut self, len: usize) -> Result<LocalPiece, String> {
        let free = self.0.iter().position(|buffer| !buffer.is_held());
        let at = match free {
            Some(at) => at,
            None if self.0.len() < BUFFERS_MAX => self.add()?,
            None => return Err(format!("{BUFFERS_MAX} small requests are in flight")),
        };
        let (held, offset) = (Held::new(&self.0[at]), 0);
        Ok(LocalPiece { held, offset, len })
    }

    fn add(&mut self) -> Result<usize, String> {
        let region = HostMemory::host().allocate(TOGETHER_MAX);
        let region = region.map_err(|error| error.to_string())?;
        // A number that no registration of the program has, for the plugin's registrations.
        let number = u64::MAX - self.0.len() as u64;
        self.0.push(Arc::new(Registration::own(number, region)));
        Ok(self.0.len() - 1)
    }

    /// Copies pieces into a free buffer, one after the other.
    pub(crate) fn gather<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a LocalPiece> + Clone,
    ) -> Result<LocalPiece, String> {
        let staged = self.take(pieces.clone().map(|piece| piece.len).sum())?;
        let mut at = 0;
        for piece in pieces {
            let (from, into) = ((&*piece.held, piece.offset), (&*staged.held, at));
            copy(from, into, piece.len)?;
            at += piece.len;
        }
        Ok(staged)
    }
}

/// Copies what arrived in a buffer to its pieces.
pub(crate) fn scatter<'a>(
    staged: &LocalPiece,
    pieces: impl Iterator<Item = &'a LocalPiece>,
) -> Result<(), String> {
    let mut at = 0;
    for piece in pieces {
        let (from, into) = ((&*staged.held, at), (&*piece.held, piece.offset));
        copy(from, into, piece.len)?;
        at += piece.len;
    }
    Ok(())
}

impl Connection {
    /// Whether an operation on these pieces may travel with others.
    pub(crate) fn is_small(&self, pieces: &[LocalPiece]) -> bool {
        let most = SMALL_MAX.min(self.chunk);
        self.gathers && matches!(pieces, [one] if (1..=most).contains(&one.len))
    }

    /// Lets a small operation of one piece wait for others.
    pub(crate) fn collect(
        &mut self,
        right: Right,
        (mut here, mut there): (Vec<LocalPiece>, Vec<RemotePiece>),
        completion: Completion,
    ) {
        let (Some(here), Some(there)) = (here.pop(), there.pop()) else {
            return;
        };
        let small = Small {
            right,
            here,
            there,
            completion,
        };
        if !self.waiting.takes(&small, self.together_max()) {
            self.start_waiting();
        }
        self.waiting.bytes += small.here.len;
        self.waiting.all.push(small);
    }

    /// Starts the small operations that wait, unless enough others are in flight to wait for.
    pub(crate) fn start_few(&mut self) {
        if self.small_in_flight < FEW {
            self.start_waiting();
        }
    }

    /// Whether the peer has room for a small request more.
    pub(crate) fn has_room_for_small(&self) -> bool {
        self.small_in_flight < REQUESTS_MAX
    }

    /// Starts the small operations that wait.
    pub(crate) fn start_waiting(&mut self) {
        let Waiting { all, bytes } = std::mem::take(&mut self.waiting);
        if all.len() > 1 {
            return self.begin_together(all, bytes);
        }
        for (operation, completion) in all.into_iter().map(Small::alone) {
            self.begin_alone(operation, completion);
        }
    }

    fn begin_together(&mut self, all: Vec<Small>, bytes: usize) {
        let reads = all.iter().all(|one| one.right == Right::Read);
        let staged = match reads {
            true => self.staging.take(bytes),
            false => self.staging.gather(all.iter().map(|one| &one.here)),
        };
        let Ok(staged) = staged else {
            // Without memory for a message, each has one of its own.
            self.again.extend(all.into_iter().map(Small::alone));
            return;
        };
        self.next_op += 1;
        let op = self.next_op;
        let pieces = all.iter().map(|one| one.there.clone()).collect();
        let together = Together {
            staged: staged.clone(),
            all,
        };
        let mut ours = Ours::new("write", bytes as u64, Starter::Together(together));
        if reads {
            ours.what = "read";
            let first_lane = self.first_lane(1);
            self.say(&Message::Read {
                op,
                first_lane,
                together: true,
                pieces,
            });
            let (lanes, part) = (&mut self.recvs, Part::Read(op));
            ours.left = push(lanes, first_lane, &[staged], self.chunk, part);
        } else {
            self.say(&Message::Write {
                op,
                together: true,
                pieces,
            });
            ours.data = vec![staged];
        }
        self.insert(op, ours);
    }

    fn together_max(&self) -> usize {
        TOGETHER_MAX.min(self.chunk)
    }

    /// The bytes of pieces that the peer puts into one message.
    pub(crate) fn together_len(&self, pieces: &[RemotePiece]) -> Result<usize, Lost> {
        let sum = pieces.iter().map(|piece| piece.len);
        let bytes = sum.fold(0, u64::saturating_add);
        let most = self.together_max() as u64;
        if self.gathers && (1..=most).contains(&bytes) {
            return Ok(bytes as usize);
        }
        Err(format!(
            "the peer puts pieces of {bytes} bytes into one message of at most {most}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_engine::gpu::Region;

    fn piece(memory: &Held, offset: usize, len: usize) -> LocalPiece {
        let held = memory.clone();
        LocalPiece { held, offset, len }
    }

    fn with<R>(region: &Arc<Region>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let whole = region.span(0, region.len()).expect("inside");
        region.with_bytes(whole, f).expect("not lent")
    }

    #[test]
    fn pieces_are_put_into_a_buffer_and_come_out_at_their_places() {
        let region = HostMemory::host().allocate(4096).expect("memory");
        with(&region, |bytes| {
            (0..100).for_each(|at| bytes[at] = at as u8)
        });
        let memory = Held::own(Arc::clone(&region));
        let mut staging = Staging::default();
        let from = [piece(&memory, 90, 10), piece(&memory, 0, 3)];
        let staged = staging.gather(from.iter()).expect("a buffer");
        assert_eq!(staged.len, 13);
        let into = [piece(&memory, 200, 9), piece(&memory, 300, 4)];
        scatter(&staged, into.iter()).expect("inside");
        with(&region, |bytes| {
            assert_eq!(bytes[200..210], [90, 91, 92, 93, 94, 95, 96, 97, 98, 0]);
            assert_eq!(bytes[299..305], [0, 99, 0, 1, 2, 0]);
        });
        let outside = piece(&memory, region.len() - 1, 2);
        assert!(staging.gather([outside].iter()).is_err());
    }

    #[test]
    fn memory_of_a_gpu_is_not_copied() {
        let device = HostMemory::device_stand_in().allocate(4096);
        let memory = Held::own(device.expect("memory"));
        let refused = Staging::default().gather([piece(&memory, 0, 8)].iter());
        assert!(refused.is_err());
    }

    #[test]
    fn a_buffer_is_used_again_once_nothing_holds_it_and_there_is_a_bound() {
        let mut staging = Staging::default();
        let first = staging.take(8).expect("a buffer");
        let second = staging.take(8).expect("a buffer");
        assert_ne!(first.held.number, second.held.number);
        let number = first.held.number;
        drop(first);
        assert_eq!(staging.take(8).expect("a buffer").held.number, number);
        let held: Vec<_> = (1..BUFFERS_MAX).map(|_| staging.take(8)).collect();
        assert!(held.iter().all(Result::is_ok));
        assert!(staging.take(8).is_err());
    }
}
