//! `tcpxctl serve --call`: a node calls a coordinator, gets its orders, and calls again.
//!
//! The node may call before the coordinator is there, and may wait until it speaks: the agent starts with
//! the first order.
#![forbid(unsafe_code)]

use super::Until;
use super::serve::{ServedAgent, attend};
use crate::dial::dial;
use crate::process::spawn::ourselves;
use std::io::{self, Cursor, Read};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tcpx_bootstrap::{Reader, Secret, Writer};

/// Pause after a call that found no coordinator.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(100);

/// An event that `tcpxctl serve --call` reports.
pub enum Calling {
    /// The coordinator took the call.
    Taken(SocketAddr),
    /// The coordinator has left. An error if the connection did not end as it should.
    Left(io::Result<()>),
    /// The coordinator has not left, but serving ends. Whether its agent said so to it.
    Ended(bool),
    /// No coordinator takes the call, for this reason; told once while it stays the same.
    Waiting(String),
}

/// A node that calls.
pub struct CallOut<'a> {
    /// The node's name.
    pub name: &'a str,
    /// `HOST:PORT` of the coordinator; resolved for each call.
    pub coordinator: &'a str,
    /// The secret that the coordinator has.
    pub secret: &'a Secret,
    /// Whether the first coordinator that gave orders is the last.
    pub once: bool,
    /// Ends the calls.
    pub stop: &'a AtomicBool,
}

impl CallOut<'_> {
    /// Calls until it is stopped or, with `once`, until the first coordinator has left.
    pub fn run(&self, mut report: impl FnMut(Calling)) {
        let mut told = None;
        while !self.stop.load(Ordering::Relaxed) {
            match self.dial() {
                Ok((reader, writer)) => {
                    told = None;
                    if let Ok(Ok(from)) =
                        writer.connection().map(|connection| connection.peer_addr())
                    {
                        report(Calling::Taken(from));
                    }
                    let served = self.serve(reader, writer);
                    let was_used = !matches!(served, Ok(Served::Unused));
                    report(match served {
                        Ok(Served::Unused | Served::Left) => Calling::Left(Ok(())),
                        Ok(Served::Ended { was_told }) => Calling::Ended(was_told),
                        Err(error) => Calling::Left(Err(error)),
                    });
                    if self.once && was_used {
                        return;
                    }
                }
                Err(why) if told.as_ref() == Some(&why) => {}
                Err(why) => {
                    report(Calling::Waiting(why.clone()));
                    told = Some(why);
                }
            }
            let until = Until::after(PAUSE);
            while !until.is_past() && !self.stop.load(Ordering::Relaxed) {
                thread::sleep(SLICE.min(until.left()));
            }
        }
    }

    fn dial(&self) -> Result<(Reader, Writer), String> {
        let resolved = self.coordinator.to_socket_addrs();
        let addresses: Vec<SocketAddr> = resolved
            .map_err(|error| format!("cannot resolve {}: {error}", self.coordinator))?
            .collect();
        dial(self.name, &addresses, self.secret, self.stop)
    }

    /// Waits for the first order, then has an agent carry out all.
    fn serve(&self, mut reader: Reader, writer: Writer) -> io::Result<Served> {
        let connection = writer.connection()?;
        connection.set_read_timeout(Some(SLICE))?;
        let mut first = vec![0; 4096];
        let read = loop {
            match reader.read(&mut first) {
                Ok(0) => return Ok(Served::Unused),
                Ok(read) => break read,
                Err(error) if is_timeout(&error) && !self.stop.load(Ordering::Relaxed) => {}
                Err(error) if is_timeout(&error) => return Ok(Served::Unused),
                // The coordinator ended while it waited for others.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Served::Unused);
                }
                Err(error) => return Err(error),
            }
        };
        connection.set_read_timeout(None)?;
        first.truncate(read);
        let mut command = Command::new(ourselves());
        command.arg("agent").stderr(Stdio::inherit());
        let (agent, signals) = ServedAgent::start(command)?;
        thread::scope(|scope| {
            let attending = scope.spawn(|| attend(agent, Cursor::new(first).chain(reader), writer));
            let mut served = Served::Left;
            while !attending.is_finished() {
                if self.stop.load(Ordering::Relaxed) {
                    let was_told = signals.says_that_serve_ends(|| attending.is_finished());
                    served = Served::Ended { was_told };
                    // Ends both directions, and so an agent that has not ended.
                    let _ = connection.shutdown(Shutdown::Both);
                    break;
                }
                thread::sleep(SLICE);
            }
            let panicked = |_| Err(io::Error::other("a thread of `serve` panicked"));
            let attended = attending.join().unwrap_or_else(panicked);
            match served {
                Served::Ended { .. } => Ok(served),
                _ => attended.map(|()| served),
            }
        })
    }
}

/// How a call that was taken ended.
enum Served {
    /// The coordinator gave no order.
    Unused,
    /// The coordinator has left.
    Left,
    /// Serving ended first.
    Ended { was_told: bool },
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
