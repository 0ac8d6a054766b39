//! The two ends' own TCP connection: connect handles, and being in step.
#![forbid(unsafe_code)]

use crate::Outcome;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tcpx_abi::HANDLE_MAX;

/// For the peer to come, and for each thing it says.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(2);

/// A connection to the other end.
pub(crate) struct Link(TcpStream);

impl Link {
    /// The receiver listens, the sender tries until it does.
    pub(crate) fn meet(port: u16, sends: bool) -> Outcome<Self> {
        let stream = if sends { dial(port) } else { answer(port) };
        let stream = stream.map_err(|error| format!("the other end, at port {port}: {error}"))?;
        let settled = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        settled.map_err(|error| error.to_string())?;
        Ok(Self(stream))
    }

    /// Returns once both ends have called it.
    pub(crate) fn barrier(&mut self) -> Outcome<()> {
        self.exchange([0]).map(|_| ())
    }

    /// Gives ours for theirs.
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

    /// As `exchange`, for as many handles as there are.
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

/// Tries again after `meanwhile`, for as long as patience lasts.
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
