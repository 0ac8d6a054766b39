//! What an endpoint does with memory: it registers and advertises buffers, and moves their bytes.
#![expect(
    unsafe_code,
    reason = "registers memory that the caller promises to keep"
)]

use crate::blob::{Blob, Claim, Right, Rights};
use crate::connection::MESSAGES_MAX;
use crate::memory::Held;
use crate::message::{NOTE_MAX, PIECES_MAX, RemotePiece};
use crate::pending::Operation;
use crate::pieces::{LocalPiece, messages_of};
use crate::shared::Command;
use crate::transfer::begin;
use crate::{Endpoint, Error, Transfer};
use std::sync::Arc;
use std::time::Duration;
use tcpx_engine::gpu::Region;

/// A buffer of this program: an address inside a registration, and a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// The registration.
    pub registration: u64,
    /// First byte.
    pub address: usize,
    /// Bytes.
    pub len: usize,
}

/// A part of a range that the peer advertised, as long as the local buffer it is used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote<'a> {
    /// The peer's blob.
    pub blob: &'a [u8],
    /// First byte, from the start of the advertised range.
    pub offset: u64,
}

impl Endpoint {
    /// Registers memory, or counts one more user of the same range.
    ///
    /// # Errors
    /// The range is not mapped in this process, and is not memory of the endpoint's GPU.
    ///
    /// # Safety
    /// The range stays mapped and writable, by the process or by the GPU, until
    /// [`Endpoint::deregister`] has returned as often, and the program expects it to change while it
    /// is advertised for writes or received into.
    pub unsafe fn register(&self, start: *mut u8, len: usize) -> Result<u64, Error> {
        self.shared.check_process()?;
        // SAFETY: the caller promises it.
        unsafe { self.shared.memory.register(start, len) }
    }

    /// Registers a region of the engine, which the endpoint keeps alive.
    ///
    /// # Errors
    /// There are too many registrations, or the region is not memory that the endpoint moves.
    pub fn register_region(&self, region: &Arc<Region>) -> Result<u64, Error> {
        self.shared.check_process()?;
        self.shared.memory.register_region(region)
    }

    /// Ends one use of a registration. After the last one, waits until no operation, local or of a
    /// peer, uses the memory; blobs of it are refused from now on.
    ///
    /// # Errors
    /// There is no such registration, or an operation does not end: the memory must then stay.
    pub fn deregister(&self, registration: u64) -> Result<(), Error> {
        self.shared.check_process()?;
        let Some(registration) = self.shared.memory.remove(registration)? else {
            return Ok(());
        };
        // A connection that does not move is given up after `stall_after`.
        let allowed = self.shared.stall_after * 2;
        let ask = |reply| Command::Release {
            registration,
            reply,
        };
        match self
            .shared
            .call(ask, "an operation on the memory of a registration", allowed)
        {
            // The thread that used the memory has ended.
            Err(Error::Closed) => Ok(()),
            released => released,
        }
    }

    /// Why this endpoint moves no GPU memory; `None` if it does.
    pub fn without_gpu(&self) -> Option<String> {
        self.shared.memory.movable.without_gpu()
    }

    /// Registrations there are.
    pub fn registrations(&self) -> usize {
        self.shared.memory.len()
    }

    /// The blob of a range, for peers to use it.
    ///
    /// # Errors
    /// The range is not inside its registration.
    pub fn advertise(&self, range: Local, rights: Rights) -> Result<Blob, Error> {
        let piece = self.piece(range)?;
        Ok(self.shared.seal.advertise(&Claim {
            address: range.address as u64,
            len: piece.len as u64,
            registration: range.registration,
            rights,
            endpoint: self.metadata.endpoint,
        }))
    }

    /// Reads from the peer's memory into each buffer. Done when every byte is in place.
    ///
    /// # Errors
    /// A buffer or a blob is wrong; nothing was started.
    pub fn read(&self, connection: u64, pieces: &[(Local, Remote<'_>)]) -> Result<Transfer, Error> {
        let (into, from) = self.pieces(connection, pieces, Right::Read)?;
        self.operate(connection, Operation::Read(into, from))
    }

    /// Writes each buffer to the peer's memory. Done when every byte is in place there.
    ///
    /// # Errors
    /// A buffer or a blob is wrong; nothing was started.
    pub fn write(
        &self,
        connection: u64,
        pieces: &[(Local, Remote<'_>)],
    ) -> Result<Transfer, Error> {
        let (from, to) = self.pieces(connection, pieces, Right::Write)?;
        self.operate(connection, Operation::Write(from, to))
    }

    /// Sends a buffer to the peer's next receive. Done when every byte is in place there.
    ///
    /// # Errors
    /// The buffer is wrong; nothing was started.
    pub fn send(&self, connection: u64, from: Local) -> Result<Transfer, Error> {
        self.operate(connection, Operation::Send(self.piece(from)?))
    }

    /// Receives the peer's next send, which must be as long. Done when every byte is in place.
    ///
    /// # Errors
    /// The buffer is wrong; nothing was started.
    pub fn receive(&self, connection: u64, into: Local) -> Result<Transfer, Error> {
        self.operate(connection, Operation::Receive(self.piece(into)?))
    }

    /// Leaves a message in the peer's queue. Done when it is there.
    ///
    /// # Errors
    /// The message is longer than 64 KiB.
    pub fn notify(&self, connection: u64, bytes: &[u8]) -> Result<Transfer, Error> {
        if bytes.len() > NOTE_MAX {
            let len = bytes.len();
            return Err(Error::Usage(format!(
                "a notification of {len} bytes: {NOTE_MAX} are possible"
            )));
        }
        self.operate(connection, Operation::Notify(bytes.to_vec()))
    }

    /// The oldest unread notification, with its connection; waits at most `allowed`.
    pub fn notification(&self, allowed: Duration) -> Option<(u64, Vec<u8>)> {
        self.shared.notes.pop(allowed, &self.shared.stop)
    }

    fn operate(&self, connection: u64, operation: Operation) -> Result<Transfer, Error> {
        let (transfer, completion) = begin();
        self.shared.ask(Command::Operate {
            connection,
            operation,
            completion,
        })?;
        Ok(transfer)
    }

    fn piece(&self, local: Local) -> Result<LocalPiece, Error> {
        self.shared.check_process()?;
        piece_of(self.shared.memory.hold(local.registration)?, local)
    }

    fn pieces(
        &self,
        connection: u64,
        pieces: &[(Local, Remote<'_>)],
        right: Right,
    ) -> Result<(Vec<LocalPiece>, Vec<RemotePiece>), Error> {
        self.shared.check_process()?;
        if !(1..=PIECES_MAX).contains(&pieces.len()) {
            let count = pieces.len();
            return Err(Error::Usage(format!(
                "{count} pieces: 1 to {PIECES_MAX} are possible"
            )));
        }
        let messages = messages_of(
            pieces.iter().map(|(local, _)| local.len as u64),
            self.shared.chunk,
        );
        if messages > MESSAGES_MAX {
            let chunk = self.shared.chunk;
            return Err(Error::Usage(format!(
                "{messages} messages of {chunk} bytes: {MESSAGES_MAX} are possible at once"
            )));
        }
        let endpoint = self
            .shared
            .peers()
            .get(&connection)
            .map(|(peer, _)| peer.endpoint);
        let endpoint = endpoint.ok_or_else(|| Error::no_connection(connection))?;
        let mut local = Vec::with_capacity(pieces.len());
        let mut remote = Vec::with_capacity(pieces.len());
        // Of the piece before: most vectors are of one registration here and one range there.
        let mut last: Option<Held> = None;
        for (buffer, Remote { blob, offset }) in pieces {
            let (offset, len) = (*offset, buffer.len as u64);
            let bad = |error: crate::BadBlob| Error::Usage(error.to_string());
            let claim = Claim::parse(blob).map_err(bad)?;
            claim.covers(endpoint, right, offset, len).map_err(bad)?;
            let blob = (*blob)
                .try_into()
                .map_err(|_| bad(crate::BadBlob::Length(blob.len())))?;
            let held = match last.take_if(|held| held.number == buffer.registration) {
                Some(held) => held,
                None => self.shared.memory.hold(buffer.registration)?,
            };
            let piece = piece_of(held.clone(), *buffer)?;
            last = Some(held);
            add(
                &mut local,
                &mut remote,
                piece,
                RemotePiece { blob, offset, len },
            );
        }
        Ok((local, remote))
    }
}

/// The piece that a buffer is of the registration that it names.
fn piece_of(held: Held, local: Local) -> Result<LocalPiece, Error> {
    let Local { address, len, .. } = local;
    let Some(offset) = held.offset_of(address, len) else {
        return Err(Error::Usage(format!(
            "{len} bytes at {address:#x} are outside registration {}, {} bytes at {:#x}",
            local.registration, held.len, held.start
        )));
    };
    Ok(LocalPiece { held, offset, len })
}

/// Appends a piece of an operation. One that begins where the last one ends, in both memories, makes
/// that one longer: each piece has messages of its own, and small ones cost as much as large ones.
fn add(
    local: &mut Vec<LocalPiece>,
    remote: &mut Vec<RemotePiece>,
    here: LocalPiece,
    there: RemotePiece,
) {
    if let (Some(last), Some(last_there)) = (local.last_mut(), remote.last_mut())
        && last.held.is_same(&here.held)
        && last.offset + last.len == here.offset
        && last_there.blob == there.blob
        && last_there.offset + last_there.len == there.offset
    {
        last.len += here.len;
        last_there.len += there.len;
        return;
    }
    local.push(here);
    remote.push(there);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_engine::gpu::{DeviceMemory, HostMemory};

    #[test]
    fn pieces_that_go_on_in_both_memories_become_one() {
        let held = || Held::own(HostMemory::host().allocate(4096).expect("memory"));
        let (one, other) = (held(), held());
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        let (blob, foreign) = ([1; 64], [2; 64]);
        for (held, offset, blob, there) in [
            (&one, 0, blob, 100),
            (&one, 10, blob, 110),
            (&one, 20, blob, 130),
            (&one, 31, blob, 140),
            (&one, 41, foreign, 150),
            (&other, 51, foreign, 160),
            (&other, 61, foreign, 170),
        ] {
            let (held, len) = (held.clone(), 10);
            let here = LocalPiece { held, offset, len };
            let (offset, len) = (there, 10);
            add(
                &mut local,
                &mut remote,
                here,
                RemotePiece { blob, offset, len },
            );
        }
        let places: Vec<_> = local.iter().map(|one| (one.offset, one.len)).collect();
        let there: Vec<_> = remote.iter().map(|one| (one.offset, one.len)).collect();
        assert_eq!(places, [(0, 20), (20, 10), (31, 10), (41, 10), (51, 20)]);
        assert_eq!(
            there,
            [(100, 20), (130, 10), (140, 10), (150, 10), (160, 20)]
        );
    }
}
