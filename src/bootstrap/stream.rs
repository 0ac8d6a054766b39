//! Bytes over an encrypted connection, as blocking streams: one for each direction, so that two
//! threads can use them.
#![forbid(unsafe_code)]

use super::noise::{Opener, RECORD_MAX, Sealer};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

const READ_LEN: usize = 16 * 1024;

/// What the other end wrote. The end of the stream is not authenticated.
pub struct Reader {
    stream: TcpStream,
    opener: Opener,
    /// Received, not yet decrypted.
    inbox: Vec<u8>,
    /// Decrypted; the bytes before `taken` were read.
    opened: Vec<u8>,
    taken: usize,
}

/// Encrypts and sends each write at once.
pub struct Writer {
    stream: TcpStream,
    sealer: Sealer,
    records: Vec<u8>,
}

impl Reader {
    /// Begins with `opened`, then what is in `inbox`.
    pub(super) fn new(stream: TcpStream, opener: Opener, inbox: Vec<u8>, opened: Vec<u8>) -> Self {
        Self {
            stream,
            opener,
            inbox,
            opened,
            taken: 0,
        }
    }

    /// Decrypts the next record; false at the end of the stream.
    fn refill(&mut self) -> io::Result<bool> {
        self.opened.clear();
        self.taken = 0;
        loop {
            let record = self.opener.open(&self.inbox, RECORD_MAX, &mut self.opened);
            let changed = |_| {
                let what = "a message fails its authentication: it was changed on the way";
                io::Error::new(io::ErrorKind::InvalidData, what)
            };
            if let Some(used) = record.map_err(changed)? {
                self.inbox.drain(..used);
                return Ok(true);
            }
            let mut more = [0; READ_LEN];
            match self.stream.read(&mut more)? {
                0 => return Ok(false),
                read => self.inbox.extend_from_slice(&more[..read]),
            }
        }
    }
}

impl Writer {
    pub(super) fn new(stream: TcpStream, sealer: Sealer) -> Self {
        Self {
            stream,
            sealer,
            records: Vec::new(),
        }
    }

    /// The connection, to end it.
    pub fn connection(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.opened.len() && !self.refill()? {
            return Ok(0);
        }
        let read = (&self.opened[self.taken..]).read(bytes)?;
        self.taken += read;
        Ok(read)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.records.clear();
        self.sealer.seal(bytes, &mut self.records)?;
        self.stream.write_all(&self.records)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
