//! A coordinator and a node: both prove the secret, and then the connection carries bytes. Either the
//! coordinator joins a node where `tcpxctl serve` runs, and gets its one seat or is told who has it;
//! or the node calls the coordinator.
#![forbid(unsafe_code)]

use super::connect::meet;
use super::error::{BootstrapError, Cause, Endpoint};
use super::exchange::{expect_open, out_of_step};
use super::message::Message;
use super::noise::Purpose;
use super::secret::Secret;
use super::strangers::Proven;
use super::stream::{Reader, Writer};
use super::wait::{Awaited, Deadline, Wait};
use super::wire::Wire;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use tcpx_words::error::Outcome;

/// Joins the node that serves at `address`, and waits for its seat.
///
/// # Errors
/// A [`Cause`]; a node that serves another coordinator is [`Cause::PeerAborted`] with the reason.
pub fn join(
    address: SocketAddr,
    secret: &Secret,
    deadline: Deadline,
    stop: &AtomicBool,
) -> Result<(Reader, Writer), BootstrapError> {
    dial(address, secret, Purpose::Serve, deadline, stop)
}

/// Calls the coordinator that listens at `address`.
///
/// # Errors
/// As [`join`].
pub fn call(
    address: SocketAddr,
    secret: &Secret,
    deadline: Deadline,
    stop: &AtomicBool,
) -> Result<(Reader, Writer), BootstrapError> {
    dial(address, secret, Purpose::Call, deadline, stop)
}

fn dial(
    address: SocketAddr,
    secret: &Secret,
    purpose: Purpose,
    deadline: Deadline,
    stop: &AtomicBool,
) -> Result<(Reader, Writer), BootstrapError> {
    let mut wait = Wait::new(Endpoint::Peer(address), Awaited::Connection, deadline, stop);
    let is_passing = |cause: &Cause| matches!(cause, Cause::Dropped | Cause::Vanished);
    let mut wire = meet(address, secret, purpose, &mut wait, is_passing)?;
    wire.trust();
    wait.set_awaited(Awaited::Ready);
    let answer = expect_open(wire.recv(&wait, 0)?).map_err(|cause| wait.error(cause))?;
    if answer != Message::Ready {
        return Err(wait.error(out_of_step("ready", &answer)));
    }
    streams(wire).map_err(|cause| wait.error(cause))
}

impl Proven {
    /// Gives the coordinator the seat, or takes the call of a node.
    pub fn welcome(mut self) -> Result<(Reader, Writer), Cause> {
        self.wire.queue(&Message::Ready)?;
        // The answer is small and fits into an empty socket buffer.
        if !self.wire.flush()? {
            return Err(Cause::garbage("the peer does not read"));
        }
        streams(self.wire)
    }

    /// Tells the coordinator why it gets no seat.
    pub fn turn_away(mut self, reason: String) {
        let outcome = Outcome::NotRun;
        // A single attempt: the reason only improves the coordinator's error message.
        let queued = self.wire.queue(&Message::Abort { outcome, reason });
        let _ = queued.and_then(|()| self.wire.flush());
    }

    /// Whether a coordinator without a seat has closed the connection, or sends before its turn.
    pub fn has_left(&mut self) -> bool {
        self.wire.fill();
        !matches!(self.wire.next(), Ok(None))
    }
}

fn streams(wire: Wire) -> Result<(Reader, Writer), Cause> {
    wire.into_streams().map_err(|source| Cause::System {
        doing: "make a stream of the connection",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PendingLimits, Strangers};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn ample() -> Deadline {
        Deadline::after("ample", Duration::from_secs(20))
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a mode");
        let address = listener.local_addr().expect("its address");
        (listener, address)
    }

    /// Passes the first coordinator to `attend`. Gives up when `stop` is set, and returns how many
    /// connections were refused.
    fn serve(listener: &TcpListener, stop: &AtomicBool, attend: impl FnOnce(Proven)) -> u32 {
        let (secret, limits) = (Secret::of_test(7), PendingLimits::default());
        let mut strangers = Strangers::new(listener, limits, &secret, Purpose::Serve);
        while !stop.load(Ordering::Relaxed) {
            let slice = Duration::from_millis(20);
            if let Some(proven) = strangers.serve(None, slice).expect("a socket") {
                attend(proven);
                break;
            }
        }
        strangers.rejections.rejected
    }

    #[test]
    fn a_coordinator_with_the_secret_gets_a_stream_in_both_directions() {
        let (listener, address) = listener();
        let long = b"{\"log\":\"a line\"}\n".repeat(20_000);
        thread::scope(|scope| {
            scope.spawn(|| {
                serve(&listener, &NEVER, |proven| {
                    let (mut reader, mut writer) = proven.welcome().expect("there");
                    let mut heard = [0; 6];
                    reader.read_exact(&mut heard).expect("a line");
                    assert_eq!(&heard, b"start\n");
                    writer.write_all(&long).expect("written");
                })
            });
            let joined = join(address, &Secret::of_test(7), ample(), &NEVER);
            let (mut reader, mut writer) = joined.expect("joined");
            writer.write_all(b"start\n").expect("written");
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).expect("all of it");
            assert!(heard == long);
        });
    }

    #[test]
    fn a_coordinator_is_told_in_words_why_it_gets_no_seat() {
        let (listener, address) = listener();
        thread::scope(|scope| {
            scope.spawn(|| {
                serve(&listener, &NEVER, |proven| {
                    proven.turn_away("serves 10.0.1.25:51234 at the moment".into());
                })
            });
            let joined = join(address, &Secret::of_test(7), ample(), &NEVER);
            let error = joined.map(drop).expect_err("turned away");
            let Cause::PeerAborted { reason, outcome } = &error.cause else {
                panic!("{error}")
            };
            assert_eq!(reason, "serves 10.0.1.25:51234 at the moment");
            assert_eq!(*outcome, Outcome::NotRun);
        });
    }

    #[test]
    fn another_secret_is_named_and_the_node_goes_on_waiting() {
        let (listener, address) = listener();
        thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&listener, &NEVER, |proven| drop(proven.welcome())));
            let joined = join(address, &Secret::of_test(8), ample(), &NEVER);
            let error = joined.map(drop).expect_err("refused");
            assert!(matches!(error.cause, Cause::WrongSecret), "{error}");
            let joined = join(address, &Secret::of_test(7), ample(), &NEVER);
            assert!(joined.is_ok());
            assert_eq!(serving.join().expect("no panic"), 1);
        });
    }

    #[test]
    fn a_recorded_conversation_gets_no_seat_and_none_of_it_is_readable() {
        let (listener, address) = listener();
        let (relaying, near) = self::listener();
        relaying.set_nonblocking(false).expect("a mode");
        let recorded = thread::scope(|scope| {
            scope.spawn(|| {
                serve(&listener, &NEVER, |proven| {
                    let (mut reader, _writer) = proven.welcome().expect("there");
                    reader.read_to_end(&mut Vec::new()).expect("all of it");
                })
            });
            let relay = scope.spawn(|| {
                let mut from = relaying.accept().expect("a coordinator").0;
                let mut to = TcpStream::connect(address).expect("the node");
                let (mut back, mut answers) = (
                    to.try_clone().expect("a copy"),
                    from.try_clone().expect("a copy"),
                );
                let answering = thread::spawn(move || std::io::copy(&mut back, &mut answers));
                let mut all = Vec::new();
                let mut part = [0; 4096];
                while let Ok(read @ 1..) = from.read(&mut part) {
                    all.extend_from_slice(&part[..read]);
                    to.write_all(&part[..read]).expect("passed on");
                }
                drop(to.shutdown(std::net::Shutdown::Write));
                drop(answering.join());
                all
            });
            let joined = join(near, &Secret::of_test(7), ample(), &NEVER);
            let (reader, mut writer) = joined.expect("joined");
            writer.write_all(b"{\"start\":1}\n").expect("written");
            drop((reader, writer));
            relay.join().expect("no panic")
        });
        assert!(!recorded.windows(5).any(|window| window == b"start"));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&listener, &stop, |_| panic!("a seat")));
            let mut again = TcpStream::connect(address).expect("the node");
            again.write_all(&recorded).expect("written");
            // A hello, a refusal, and the end.
            let mut answer = Vec::new();
            let _ = again.read_to_end(&mut answer);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(serving.join().expect("no panic"), 1);
        });
    }

    #[test]
    fn strangers_do_not_delay_who_has_the_secret() {
        let (listener, address) = listener();
        let silent: Vec<TcpStream> = (0..40)
            .map(|_| TcpStream::connect(address).expect("connects"))
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &NEVER, |proven| drop(proven.welcome())));
            let joined = join(address, &Secret::of_test(7), ample(), &NEVER);
            assert!(joined.is_ok());
        });
        drop(silent);
    }
}
