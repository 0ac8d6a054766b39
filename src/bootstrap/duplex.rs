//! Bytes over an encrypted connection in both directions, for one thread that never waits.
//!
//! `queue` and `flush` send, `fill` receives; each does what it can at once. The caller bounds
//! both buffers: it stops reading while `queued` is large, and a record has a largest length.
#![forbid(unsafe_code)]

use super::noise::{RECORD_MAX, Session};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

const READ_LEN: usize = 64 * 1024;

/// A proven connection, both directions.
pub struct Duplex {
    stream: TcpStream,
    session: Session,
    /// The first `filled` bytes are received and not yet decrypted. The rest is room, which is kept:
    /// zeroing it again for each read costs more than the read.
    inbox: Vec<u8>,
    filled: usize,
    /// Decrypted, not yet taken by the caller.
    received: Vec<u8>,
    /// Encrypted; the bytes before `written` are sent.
    outbox: Vec<u8>,
    written: usize,
}

impl Duplex {
    /// Begins with `received`, then what is in `inbox`.
    pub(super) fn new(
        stream: TcpStream,
        session: Session,
        inbox: Vec<u8>,
        received: Vec<u8>,
    ) -> Self {
        Self {
            stream,
            session,
            filled: inbox.len(),
            inbox,
            received,
            outbox: Vec::new(),
            written: 0,
        }
    }

    /// Encrypts `bytes` and appends them to what `flush` sends.
    ///
    /// # Errors
    /// The cipher refuses.
    pub fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.session.sealer.seal(bytes, &mut self.outbox)
    }

    /// Bytes that are queued and not sent.
    pub fn queued(&self) -> usize {
        self.outbox.len() - self.written
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.queued() > 0 {
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once and decrypts. Returns whether there are new bytes.
    ///
    /// # Errors
    /// The peer closed the connection (`UnexpectedEof`), the connection is lost, or a record
    /// fails its authentication.
    pub fn fill(&mut self) -> io::Result<bool> {
        let end = self.filled + READ_LEN;
        if self.inbox.len() < end {
            self.inbox.resize(end, 0);
        }
        match self.stream.read(&mut self.inbox[self.filled..end]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.filled += read,
            // What the handshake received already may hold records.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let (mut used, before) = (0, self.received.len());
        let changed = |_| {
            let what = "a message fails its authentication: it was changed on the way";
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let (opener, received) = (&mut self.session.opener, &mut self.received);
        while let Some(record) = opener
            .open(&self.inbox[used..self.filled], RECORD_MAX, received)
            .map_err(changed)?
        {
            used += record;
        }
        self.inbox.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(self.received.len() > before)
    }

    /// What arrived; the caller removes what it has used.
    pub fn received(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Ends the connection in both directions.
    pub fn shut_down(&self) {
        // A connection that is already gone needs no end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Duplex {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl std::fmt::Debug for Duplex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Duplex({} bytes queued)", self.queued())
    }
}
