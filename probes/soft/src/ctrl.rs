//! The control socket of a comm, with a buffer for each direction and nonblocking I/O. Sixteen
//! headers can wait to be sent, twice as many as in the real plugin, so that a window of small
//! messages is announced by one system call. The payload of an inline message is buffered after
//! its header, so that one system call sends both and one receives both.
//!
//! Reading continues until the buffer is full or the socket is empty, so one call may find both
//! headers and the end of the stream. That call fails although headers are buffered, and the
//! next call succeeds. The real plugin does the same: drivers see return code 2 at the end of a
//! run and must tolerate it.
#![forbid(unsafe_code)]

use crate::failed::{BROKEN, Failed};
use crate::log::warning;
use crate::settings::PRODUCT;
use crate::socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Bytes of sixteen headers, the most that can wait to be sent.
pub(crate) const HEADERS: usize = 256;
/// Bytes of each buffer: the headers, and the longest inline message.
pub(crate) const BUFFER: usize = HEADERS + 2048;

/// A control socket with its buffers.
pub(crate) struct Ctrl {
    stream: TcpStream,
    /// Its flow string.
    pub flow: String,
    /// Bytes to send, from `sent` to `written`.
    out: [u8; BUFFER],
    sent: usize,
    written: usize,
    /// Set once queued bytes were lost.
    broken: bool,
    /// Bytes received, from `taken` to `filled`.
    input: [u8; BUFFER],
    taken: usize,
    filled: usize,
}

impl Ctrl {
    /// Buffers a connected, nonblocking socket.
    pub(crate) fn new(stream: TcpStream, flow: String) -> Self {
        Self {
            stream,
            flow,
            out: [0; BUFFER],
            sent: 0,
            written: 0,
            broken: false,
            input: [0; BUFFER],
            taken: 0,
            filled: 0,
        }
    }

    /// Whether `bytes` more of headers can be queued.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.written + bytes <= HEADERS
    }

    /// Whether an inline message can be queued with its header, which are `bytes` together.
    pub(crate) fn has_room_inline(&self, bytes: usize) -> bool {
        self.written + bytes <= BUFFER
    }

    /// Queues bytes; `false` when they do not fit.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.out.get_mut(self.written..self.written + bytes.len()) else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.written += bytes.len();
        true
    }

    /// Sends as many queued bytes as the socket accepts. On an error the queued bytes are lost,
    /// because the peer is gone.
    pub(crate) fn flush(&mut self) -> Result<(), Failed> {
        while self.sent < self.written {
            match (&self.stream).write(&self.out[self.sent..self.written]) {
                Ok(count) => self.sent += count,
                Err(error) if busy(&error) => return Ok(()),
                Err(error) => {
                    (self.sent, self.written) = (0, 0);
                    self.broken = true;
                    return Err(self.failed("send", &error));
                }
            }
        }
        (self.sent, self.written) = (0, 0);
        Ok(())
    }

    /// Whether everything ever queued has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.written == 0 && !self.broken
    }

    /// Reads until the buffer is full or the socket is empty.
    pub(crate) fn fill(&mut self) -> Result<(), Failed> {
        self.input.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        while self.filled < BUFFER {
            match (&self.stream).read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.filled += count,
                Err(error) if busy(&error) => return Ok(()),
                Err(error) => return Err(self.failed("recv", &error)),
            }
        }
        Ok(())
    }

    /// The next `N` buffered bytes, without removing them.
    pub(crate) fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        self.input[self.taken..self.filled].first_chunk()
    }

    /// Removes the next `count` buffered bytes.
    pub(crate) fn skip(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.filled);
    }

    /// Reads into `bytes`, first from the buffer, then from the socket. Returns how many.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Result<usize, Failed> {
        if self.taken < self.filled {
            let count = bytes.len().min(self.filled - self.taken);
            bytes[..count].copy_from_slice(&self.input[self.taken..self.taken + count]);
            self.taken += count;
            return Ok(count);
        }
        match (&self.stream).read(bytes) {
            Ok(0) if !bytes.is_empty() => Err(self.closed()),
            Ok(count) => Ok(count),
            Err(error) if busy(&error) => Ok(0),
            Err(error) => Err(self.failed("recv", &error)),
        }
    }

    fn closed(&self) -> Failed {
        warning!(
            c"softCtrlProgress",
            "Net/{} : Connection closed by remote peer, {}",
            PRODUCT.name(),
            self.flow
        );
        BROKEN
    }

    fn failed(&self, call: &str, error: &io::Error) -> Failed {
        warning!(
            c"softCtrlProgress",
            "Call to {call} failed, {} : {}",
            self.flow,
            socket::words(error)
        );
        BROKEN
    }
}

fn busy(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
