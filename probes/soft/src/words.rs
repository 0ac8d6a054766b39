//! Sends or receives a short message completely over a nonblocking socket, across several calls.
//! Used for connection setup.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

const ROOM: usize = crate::wire::HELLO_BYTES;

/// A message being sent or received.
#[derive(Debug)]
pub(crate) struct Words {
    bytes: [u8; ROOM],
    length: usize,
    at: usize,
}

impl Words {
    /// A message to send. All messages fit; longer ones are cut.
    pub(crate) fn outgoing(bytes: &[u8]) -> Self {
        let length = bytes.len().min(ROOM);
        let mut words = Self::incoming(length);
        words.bytes[..length].copy_from_slice(&bytes[..length]);
        words
    }

    /// A message of `length` bytes to receive.
    pub(crate) fn incoming(length: usize) -> Self {
        Self {
            bytes: [0; ROOM],
            length: length.min(ROOM),
            at: 0,
        }
    }

    /// Sends the remaining bytes. `true` once all are sent.
    pub(crate) fn send(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        while self.at < self.length {
            match stream.write(&self.bytes[self.at..self.length]) {
                Ok(count) => self.at += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Receives the missing bytes and no more. `true` once the message is complete.
    pub(crate) fn receive(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        while self.at < self.length {
            match stream.read(&mut self.bytes[self.at..self.length]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.at += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The bytes of a complete message.
    pub(crate) fn whole(&self) -> &[u8; ROOM] {
        &self.bytes
    }

    /// The `index`-th 32-bit word.
    pub(crate) fn word(&self, index: usize) -> u32 {
        let bytes = self
            .bytes
            .get(index * 4..)
            .and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}
