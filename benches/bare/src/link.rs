//! A TCP connection between the two ends, for connect handles and barriers.
#![forbid(unsafe_code)]

use crate::Outcome;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tcpx_abi::HANDLE_MAX;

/// Longest wait for the peer to connect, and for each of its messages.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(2);

/// A connection to the other end.
pub(crate) struct Link(TcpStream);

impl Link {
    /// Connects the two ends. The receiver listens; the sender retries until it does.
    pub(crate) fn meet(port: u16, sends: bool) -> Outcome<Self> {
        let stream = if sends { dial(port) } else { answer(port) };
        let stream = stream.map_err(|error| format!("the other end, at port {port}: {error}"))?;
        let settled = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        settled.map_err(|error| error.to_string())?;
        Ok(Self(stream))
    }

    /// A barrier: returns once both ends have called it.
    pub(crate) fn barrier(&mut self) -> Outcome<()> {
        self.exchange([0]).map(|_| ())
    }

    /// Sends this end's handle and returns the peer's.
    pub(crate) fn exchange<const BYTES: usize>(
        &mut self,
        ours: [u8; BYTES],
    ) -> Outcome<[u8; BYTES]> {
        let mut theirs = [0; BYTES];
        self.0
            .write_all(&ours)
            .and_then(|()| self.0.read_exact(&mut theirs))
            .map(|()| theirs)
            .map_err(|error| format!("the other end: {error}"))
    }

    /// As `exchange`, for several handles.
    pub(crate) fn exchange_handles(
        &mut self,
        ours: &[[u8; HANDLE_MAX]],
    ) -> Outcome<Vec<[u8; HANDLE_MAX]>> {
        ours.iter().map(|handle| self.exchange(*handle)).collect()
    }
}

fn answer(port: u16) -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let stream = retry(
        || listener.accept().map(|(stream, _)| stream),
        std::io::ErrorKind::WouldBlock,
    )?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn dial(port: u16) -> std::io::Result<TcpStream> {
    retry(
        || TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
        std::io::ErrorKind::ConnectionRefused,
    )
}

/// Retries after `meanwhile`, until the deadline.
fn retry(
    attempt: impl Fn() -> std::io::Result<TcpStream>,
    meanwhile: std::io::ErrorKind,
) -> std::io::Result<TcpStream> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == meanwhile && started.elapsed() < PATIENCE => {
                std::thread::sleep(RETRY)
            }
            ended => return ended,
        }
    }
}
