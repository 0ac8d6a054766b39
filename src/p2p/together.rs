//! Small reads and writes of the peer that travel together: as one request, one message of the plugin, one
//! answer.
//!
//! A message of the plugin costs more than a copy of a few KiB. So the end that sends copies the pieces of
//! several operations into one message, and the end that receives copies them out of it. Only between
//! endpoints of host memory: the copies are made by the CPU.
#![forbid(unsafe_code)]

use crate::connection::{Connection, LocalPiece, Lost};
use crate::memory::{Held, Registration, copy};
use crate::message::RemotePiece;
use std::sync::Arc;
use tcpx_engine::gpu::{DeviceMemory, HostMemory};

/// Most bytes of one message.
pub(crate) const TOGETHER_MAX: usize = 64 << 10;
/// Most buffers of a connection.
const BUFFERS_MAX: usize = 512;

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
