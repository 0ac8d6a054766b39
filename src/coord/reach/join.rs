//! Reaches a node without ssh: `tcpxctl serve` runs there, and the coordinator uses `--join`.
//!
//! Both read a shared secret from a file and prove it to each other over fresh nonces before any
//! message of the agent is read; the messages after that are not encrypted. `serve` accepts one
//! coordinator at a time and starts an agent whose stdin and stdout are the connection.
#![forbid(unsafe_code)]

use super::{Addresses, AgentLink, Half, Hold, Opening, REACH_MAX, ReachError, Transport, Until};
use crate::bootstrap::Secret;
use crate::process::spawn::ourselves;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tcpx_words::error::Outcome;

/// First bytes of either end. They tell another program or version from a wrong secret.
const GREETING: &[u8; 16] = b"tcpxctl serve 1\n";
/// Longest read or write during the handshake.
const PROOF_MAX: Duration = Duration::from_secs(3);

/// A node where `tcpxctl serve` runs.
#[derive(Clone)]
pub struct Join {
    address: String,
    secret: Secret,
}

impl Join {
    /// `address` is `HOST:PORT` and `secret` the secret of that `serve`.
    pub fn new(address: &str, secret: Secret) -> Self {
        Self {
            address: address.to_owned(),
            secret,
        }
    }

    fn join(&self) -> Result<AgentLink, ReachError> {
        let wrong = |error| {
            ReachError::new(
                &self.address,
                Outcome::Usage,
                format!("--join HOST:PORT: {error}"),
            )
        };
        let until = Until::after(REACH_MAX);
        let mut last = wrong(io::Error::other("the host has no address"));
        for address in self.address.to_socket_addrs().map_err(wrong)? {
            let joined =
                TcpStream::connect_timeout(&address, until.left().max(Duration::from_millis(1)))
                    .and_then(|stream| greet(stream, &self.secret, Side::Joins));
            match joined.and_then(link) {
                Ok(link) => return Ok(link),
                Err(error) => {
                    let what = format!("cannot join {address}: {error}");
                    last = ReachError::new(&self.address, Outcome::PeerLost, what)
                        .next("check that `tcpxctl serve` runs there with the same secret file");
                }
            }
        }
        Err(last)
    }
}

impl Transport for Join {
    fn node(&self) -> &str {
        &self.address
    }

    fn open(&self, opening: &mut Opening<'_>) -> Result<AgentLink, ReachError> {
        let join = self.clone();
        opening.in_thread(&self.address, 2 * REACH_MAX, move || join.join())?
    }
}

fn link(stream: TcpStream) -> io::Result<AgentLink> {
    let addresses = Addresses {
        here: Some(stream.local_addr()?.ip()),
        there: Some(stream.peer_addr()?.ip()),
    };
    Ok(AgentLink {
        to_agent: Box::new(Half(stream.try_clone()?)),
        from_agent: Box::new(stream.try_clone()?),
        stderr: None,
        hold: Box::new(Connection(stream)),
        addresses,
    })
}

struct Connection(TcpStream);

impl Hold for Connection {
    fn finish(&mut self, _patience: Duration) {
        // The agent ends when its stdin closes; the coordinator does not wait for it.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Serves,
    Joins,
}

/// Proves the secret in both directions. The end that joins proves it first, so that `serve` gives
/// no proof to a client without the secret.
fn greet(mut stream: TcpStream, secret: &Secret, side: Side) -> io::Result<TcpStream> {
    let refused = || {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the other end does not have the same secret",
        )
    };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PROOF_MAX))?;
    stream.set_write_timeout(Some(PROOF_MAX))?;
    let ours = Secret::nonce()?;
    let mut hello = [0; 48];
    hello[..16].copy_from_slice(GREETING);
    hello[16..].copy_from_slice(&ours);
    stream.write_all(&hello)?;
    stream.read_exact(&mut hello)?;
    if hello[..16] != GREETING[..] {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other end is not tcpxctl, or another version",
        ));
    }
    let theirs: [u8; 32] = hello[16..].try_into().map_err(io::Error::other)?;
    let (serves, joins) = if side == Side::Serves {
        (ours, theirs)
    } else {
        (theirs, ours)
    };
    let proof = |word: &[u8]| secret.proof_of(&[word, &serves, &joins]);
    let mut shown = [0; 32];
    if side == Side::Joins {
        stream.write_all(&proof(b"joins"))?;
        stream.read_exact(&mut shown).map_err(|_| refused())?;
        secret
            .verifies_proof(&shown, &[b"serves", &serves, &joins])
            .then_some(())
            .ok_or_else(refused)?;
    } else {
        stream.read_exact(&mut shown)?;
        secret
            .verifies_proof(&shown, &[b"joins", &serves, &joins])
            .then_some(())
            .ok_or_else(refused)?;
        stream.write_all(&proof(b"serves"))?;
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Reads the secret from a file that only its owner can read.
///
/// # Errors
/// The file cannot be read, other users can read it, or it holds no secret; the error names it.
pub fn read_secret(path: &Path) -> Result<Secret, String> {
    let said = |what: String| format!("the secret file {}: {what}", path.display());
    let file = std::fs::File::open(path).map_err(|error| said(error.to_string()))?;
    let about = file.metadata().map_err(|error| said(error.to_string()))?;
    if about.mode() & 0o077 != 0 {
        return Err(said(format!(
            "other users can access it (mode {:o}); run `chmod 600` on it",
            about.mode() & 0o777
        )));
    }
    let mut text = String::new();
    file.take(256)
        .read_to_string(&mut text)
        .map_err(|error| said(error.to_string()))?;
    Secret::from_hex(text.trim()).map_err(|error| {
        said(format!(
            "{error}; `tcpxctl serve --secret-file FILE` creates a random one in a FILE that does not exist"
        ))
    })
}

/// Reads the secret from a file, or creates the file with a new secret. Returns whether it is new.
///
/// # Errors
/// The file cannot be read or created; the error names it.
pub fn read_or_make_secret(path: &Path) -> Result<(Secret, bool), String> {
    if path.exists() {
        return Ok((read_secret(path)?, false));
    }
    let said = |error: io::Error| format!("the secret file {}: {error}", path.display());
    let secret = Secret::generate().map_err(said)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(said)?;
    writeln!(file, "{}", secret.to_hex()).map_err(said)?;
    Ok((secret, true))
}

/// An event that `tcpxctl serve` reports.
pub enum Serving {
    /// A coordinator joined and its agent starts.
    Joined(std::net::SocketAddr),
    /// The coordinator's agent has ended.
    Left(std::net::SocketAddr),
    /// A connection was refused, for this reason.
    Refused(std::net::SocketAddr, io::Error),
}

/// Serves coordinators, one at a time, until `stop` returns true or, with `once`, until the first
/// has left.
///
/// # Errors
/// The agent cannot be started, or the socket fails.
pub fn serve(
    listener: &TcpListener,
    secret: &Secret,
    once: bool,
    stop: impl Fn() -> bool,
    mut report: impl FnMut(&Serving),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !stop() {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                rustix::event::poll(
                    &mut [rustix::event::PollFd::new(
                        listener,
                        rustix::event::PollFlags::IN,
                    )],
                    Some(&rustix::event::Timespec {
                        tv_sec: 0,
                        tv_nsec: 100_000_000,
                    }),
                )
                .map(drop)
                .or_else(|error| {
                    if error == rustix::io::Errno::INTR {
                        Ok(())
                    } else {
                        Err(error)
                    }
                })?;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        match greet(stream, secret, Side::Serves) {
            Ok(stream) => {
                report(&Serving::Joined(from));
                attend(stream, &stop)?;
                report(&Serving::Left(from));
                if once {
                    return Ok(());
                }
            }
            Err(error) => report(&Serving::Refused(from, error)),
        }
    }
    Ok(())
}

/// Runs the agent of one coordinator until the agent ends.
fn attend(stream: TcpStream, stop: &impl Fn() -> bool) -> io::Result<()> {
    let mut agent = Command::new(ourselves())
        .arg("agent")
        .stdin(Stdio::from(OwnedFd::from(stream.try_clone()?)))
        .stdout(Stdio::from(OwnedFd::from(stream.try_clone()?)))
        .process_group(0)
        .spawn()?;
    while agent.try_wait()?.is_none() {
        if stop() {
            // Closes the agent's stdin, which ends the agent.
            stream.shutdown(Shutdown::Both)?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(theirs: Secret, ours: Secret) -> (io::Result<TcpStream>, io::Result<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let serving = std::thread::spawn(move || {
            greet(listener.accept().expect("a guest").0, &theirs, Side::Serves)
        });
        let joined =
            TcpStream::connect(address).and_then(|stream| greet(stream, &ours, Side::Joins));
        (serving.join().expect("no panic"), joined)
    }

    #[test]
    fn two_ends_with_the_same_secret_connect() {
        let secret = Secret::of_test(7);
        let (serving, joined) = pair(secret.clone(), secret);
        let (mut serving, mut joined) = (serving.expect("let in"), joined.expect("joined"));
        serving.write_all(b"x").expect("written");
        let mut byte = [0];
        joined.read_exact(&mut byte).expect("read");
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn another_secret_is_refused_on_both_ends() {
        let (serving, joined) = pair(Secret::of_test(7), Secret::of_test(8));
        assert_eq!(
            serving.expect_err("refused").kind(),
            io::ErrorKind::PermissionDenied
        );
        assert!(joined.expect_err("refused").to_string().contains("secret"));
    }

    #[test]
    fn a_secret_file_is_created_once_and_must_be_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let (first, is_new) = read_or_make_secret(&path).expect("made");
        let (again, is_newer) = read_or_make_secret(&path).expect("read");
        assert!(is_new && !is_newer && first.to_hex() == again.to_hex());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("a mode");
        assert!(read_secret(&path).is_err_and(|error| error.contains("chmod 600")));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        for (text, why) in [
            ("00".repeat(32), "it has 1 distinct byte values"),
            ("hunter2".to_owned(), "this has 7 characters"),
        ] {
            std::fs::write(&path, text).expect("written");
            assert!(read_secret(&path).is_err_and(|error| error.contains(why)));
        }
    }
}
