//! Two ends over real sockets on loopback, and their failures.
//!
//! A test that needs an address without a listener uses one of its own in 127/8, so that no other
//! test is given its port. Expected events get ample time; only the absence of an event is
//! awaited with a short deadline.

use super::error::{Endpoint, Rejections};
use super::handshake::Handshake;
use super::message::{BARRIER_NAME_MAX, BODY_MAX, Flow, HANDLES_MAX, Message, Role};
use super::noise::Purpose;
use super::secret::Secret;
use super::strangers::PendingLimits;
use super::wait::{Awaited, Wait};
use super::wire::Wire;
use super::*;
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tcpx_words::error::{NextStep, Outcome};

static NEVER: AtomicBool = AtomicBool::new(false);

type Ended = Result<PeerLink, BootstrapError>;

fn secret() -> Secret {
    Secret::of_test(7)
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Long enough for anything that should happen.
fn ample() -> Deadline {
    Deadline::after("ample", Duration::from_secs(20))
}

/// An address that only this process uses. Each test uses its own port.
fn own_address(port: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 64 | high & 0x3f, middle, low], port))
}

/// Short, for events that should not happen.
fn short() -> Deadline {
    Deadline::after("limits.connect", Duration::from_millis(300))
}

fn config() -> Config {
    let scenario = [("name", "4conn"), ("transfer.chunk", "512KiB")];
    Config {
        tcpxctl_version: "0.1.0".to_owned(),
        scenario: scenario
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        plugin_name: "TCPXSOFT".to_owned(),
        ..Config::default()
    }
}

fn listener() -> Listener {
    Listener::bind(loopback()).expect("a port")
}

/// Runs both ends and returns the results, of the listening end first. If the connecting end has
/// the wrong secret, the listening end is stopped.
fn pair_of(listens: (&Secret, &Config), connects: (&Secret, &Config)) -> (Ended, Ended) {
    let listener = listener();
    let (address, stop) = (listener.local_addr(), AtomicBool::new(false));
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(listens.0, listens.1, ample(), &stop));
        let connected = connect(
            address,
            connects.0,
            Purpose::Pair,
            connects.1,
            ample(),
            &NEVER,
        );
        if matches!(
            &connected,
            Err(BootstrapError {
                cause: Cause::WrongSecret,
                ..
            })
        ) {
            stop.store(true, Ordering::Relaxed);
        }
        (accepting.join().expect("no panic"), connected)
    })
}

fn pair() -> (PeerLink, PeerLink) {
    let (secret, config) = (secret(), config());
    let (listens, connects) = pair_of((&secret, &config), (&secret, &config));
    (listens.expect("listens"), connects.expect("connects"))
}

/// A port whose connections are passed to `serve` until the test ends.
fn impostor(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let socket = TcpListener::bind(loopback()).expect("a port");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || socket.incoming().flatten().for_each(serve));
    address
}

/// The error of connecting to a listener that never completes the handshake.
fn connect_to(address: SocketAddr, deadline: Deadline) -> BootstrapError {
    connect(
        address,
        &secret(),
        Purpose::Pair,
        &config(),
        deadline,
        &NEVER,
    )
    .expect_err("must fail")
}

/// The listener's error after clients that send these bytes were all rejected.
fn rejected(says: &[&[u8]]) -> BootstrapError {
    let (listener, stop) = (listener(), AtomicBool::new(false));
    let clients: Vec<_> = says
        .iter()
        .map(|bytes| client(listener.local_addr(), bytes))
        .collect();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&secret(), &config(), ample(), &stop));
        for mut client in clients {
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("a timeout");
            // Ends when rejected, with a reset if the listener did not read everything.
            let _ = client.read_to_end(&mut Vec::new());
        }
        stop.store(true, Ordering::Relaxed);
        accepting.join().expect("no panic").expect_err("stopped")
    })
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes).expect("fits");
    bytes
}

/// `count` connect handles: a frame of any size.
fn handles(count: usize) -> Message {
    Message::Handles {
        flow: Flow::Forward,
        handles: vec![[0; 128]; count],
    }
}

/// A hello without the secret.
fn hello() -> Message {
    Message::Hello {
        role: Role::Connects,
        greeting: [5; 48],
    }
}

/// A connection that has sent these bytes.
fn client(address: SocketAddr, says: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.write_all(says).expect("a small write");
    stream
}

fn send_raw(link: &mut PeerLink, message: &Message) {
    link.wire.queue(message).expect("fits");
    link.wire.flush().expect("leaves");
}

/// Makes closing the socket send a reset.
fn cut(stream: &TcpStream) {
    SockRef::from(stream)
        .set_linger(Some(Duration::ZERO))
        .expect("linger");
}

#[test]
fn a_pair_exchanges_handles_and_barriers_and_says_goodbye() {
    let (mut listens, mut connects) = pair();
    let handles: Vec<Handle> = (0..4).map(|n| [n; 128]).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(
                listens
                    .exchange_handles(&handles, 0, ample(), &NEVER)
                    .expect("handles"),
                Vec::<Handle>::new()
            );
            for n in 0..50 {
                assert_eq!(
                    listens
                        .barrier("iteration", n, ample(), &NEVER)
                        .expect("barrier"),
                    1000 + n
                );
            }
            listens.close(ample(), &NEVER).expect("goodbye");
        });
        assert_eq!(
            connects
                .exchange_handles(&[], 4, ample(), &NEVER)
                .expect("handles"),
            handles
        );
        for n in 0..50 {
            assert_eq!(
                connects
                    .barrier("iteration", 1000 + n, ample(), &NEVER)
                    .expect("barrier"),
                n
            );
        }
        connects.close(ample(), &NEVER).expect("goodbye");
    });
}

#[test]
fn a_pair_finds_each_other_over_ipv6() {
    let Ok(listener) = Listener::bind(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0))) else {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let address = listener.local_addr();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&secret(), &config(), ample(), &NEVER));
        connect(
            address,
            &secret(),
            Purpose::Pair,
            &config(),
            ample(),
            &NEVER,
        )
        .expect("connects");
        assert!(
            accepting
                .join()
                .expect("no panic")
                .expect("accepts")
                .peer
                .is_ipv6()
        );
    });
}

#[test]
fn the_end_that_connects_may_come_first() {
    let address = own_address(4711);
    thread::scope(|scope| {
        let connecting = scope.spawn(move || {
            connect(
                address,
                &secret(),
                Purpose::Pair,
                &config(),
                ample(),
                &NEVER,
            )
        });
        thread::sleep(Duration::from_millis(30));
        let listener = Listener::bind(address).expect("the port");
        listener
            .accept(&secret(), &config(), ample(), &NEVER)
            .expect("accepts");
        connecting.join().expect("no panic").expect("connects");
    });
}

#[test]
fn a_port_without_a_listener_is_retried_until_the_deadline() {
    let address = own_address(4712);
    let error = connect_to(address, short());
    assert!(matches!(error.cause, Cause::Refused), "{error}");
    assert!(
        error.at.tries > 1 && error.at.waited >= Duration::from_millis(200),
        "{error}"
    );
    assert!(
        error.to_string().starts_with(&format!(
            "bootstrap with {address}, waiting for a connection"
        )),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::PeerLost);
}

#[test]
fn a_socket_that_connects_to_itself_is_rejected() {
    // The kernel assigns source ports in order, so sooner or later a socket that connects to a free
    // port is assigned that port. Binding to it makes this happen at once.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&loopback().into()).expect("a port");
    let own = socket.local_addr().expect("an address");
    socket.connect(&own).expect("to itself");
    assert_eq!(
        socket.peer_addr().expect("a peer"),
        own,
        "the kernel connects a socket to itself"
    );
    let mut wire = Wire::new(socket.into()).expect("a wire");
    let (secret, wait) = (
        secret(),
        Wait::new(Endpoint::Peer(loopback()), Awaited::Hello, ample(), &NEVER),
    );
    let (mut handshake, hello) = Handshake::connects(&secret, Purpose::Pair).expect("keys");
    wire.send(&hello, &wait).expect("sends");
    let echo = wire.recv(&wait, 0).expect("its own message");
    assert!(matches!(
        handshake.receive(echo),
        Err(Cause::Garbage { .. })
    ));
}

#[test]
fn a_port_that_answers_no_syn_times_out() {
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    deaf.bind(&loopback().into()).expect("a port");
    deaf.listen(1).expect("listens");
    let address = deaf.local_addr().expect("an address");
    let crowd: Vec<Socket> = (0..8)
        .map(|_| {
            let socket =
                Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).expect("a socket");
            let _ = socket.connect(&address);
            socket
        })
        .collect();
    let error = connect_to(address.as_socket().expect("an address"), short());
    assert!(
        matches!(
            error.cause,
            Cause::TimedOut {
                limit: "limits.connect",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("waiting for a connection"),
        "{error}"
    );
    assert!(
        error.next_step().expect("one").contains("firewall"),
        "{error}"
    );
    drop(crowd);
}

#[test]
fn a_silent_peer_times_out() {
    let error = connect_to(impostor(std::mem::forget), short());
    assert!(matches!(error.cause, Cause::TimedOut { .. }), "{error}");
    assert!(
        error.to_string().contains("waiting for the peer's hello"),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::PeerLost);
}

#[test]
fn a_listener_without_a_peer_times_out() {
    let error = listener()
        .accept(&secret(), &config(), short(), &NEVER)
        .expect_err("must fail");
    assert!(
        error
            .to_string()
            .ends_with("nothing arrived within limits.connect (0.3 s)"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("bootstrap listening on 127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn a_connection_cut_in_the_handshake_is_reset() {
    let error = connect_to(
        impostor(|mut stream| {
            cut(&stream);
            let _ = stream.read(&mut [0; 8]);
        }),
        short(),
    );
    assert!(matches!(error.cause, Cause::Reset), "{error}");
    assert!(error.at.tries > 1, "{error}");
}

#[test]
fn a_connection_cut_later_is_reset() {
    let (mut listens, connects) = pair();
    SockRef::from(&connects.wire.as_fd())
        .set_linger(Some(Duration::ZERO))
        .expect("linger");
    drop(connects);
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(matches!(error.cause, Cause::Reset), "{error}");
    assert!(
        error.to_string().contains("waiting for barrier `start`"),
        "{error}"
    );
}

#[test]
fn a_connection_closed_in_the_handshake_is_closed_early() {
    let error = connect_to(
        impostor(|mut stream| {
            let _ = stream.read(&mut [0; 64]);
        }),
        short(),
    );
    assert!(
        matches!(error.cause, Cause::ClosedEarly { goodbye: false }),
        "{error}"
    );
}

#[test]
fn a_connection_closed_later_is_closed_early_with_or_without_goodbye() {
    let (mut listens, connects) = pair();
    drop(connects);
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(
        matches!(error.cause, Cause::ClosedEarly { goodbye: false }),
        "{error}"
    );

    let (mut listens, connects) = pair();
    thread::scope(|scope| {
        scope.spawn(|| {
            connects
                .close(short(), &NEVER)
                .expect_err("the other end is not done")
        });
        let error = listens
            .barrier("end", 0, ample(), &NEVER)
            .expect_err("must fail");
        assert!(
            matches!(error.cause, Cause::ClosedEarly { goodbye: true }),
            "{error}"
        );
    });
}

#[test]
fn a_wrong_secret_is_an_error_at_that_end_and_the_listener_keeps_waiting() {
    let (wrong, right) = (Secret::of_test(8), secret());
    let (listens, connects) = pair_of((&right, &config()), (&wrong, &config()));
    let connects = connects.expect_err("must fail");
    assert!(matches!(connects.cause, Cause::WrongSecret), "{connects}");
    let listens = listens.expect_err("stopped");
    assert!(
        listens
            .to_string()
            .ends_with("stopped; 1 other connection rejected, 1 with a wrong secret"),
        "{listens}"
    );
}

#[test]
fn a_listener_without_the_secret_is_refused() {
    let error = connect_to(
        impostor(|mut stream| {
            let _ = stream.write_all(&encoded(&Message::Hello {
                role: Role::Listens,
                greeting: [5; 48],
            }));
            std::mem::forget(stream);
        }),
        ample(),
    );
    assert!(matches!(error.cause, Cause::WrongSecret), "{error}");
    assert!(
        error.to_string().contains("waiting for the peer's hello"),
        "{error}"
    );
}

/// What the two ends of one connection sent.
struct Recording {
    connects: Vec<u8>,
    listens: Vec<u8>,
}

/// An address that passes one connection on to `to`, byte by byte through `change`, which is told
/// the position of the byte that the connecting end sent. The recording comes when both ends have
/// closed.
fn relay(
    to: SocketAddr,
    change: impl Fn(usize, u8) -> u8 + Send + 'static,
) -> (SocketAddr, thread::JoinHandle<Recording>) {
    fn pass(mut from: &TcpStream, mut to: &TcpStream, change: impl Fn(usize, u8) -> u8) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let start = all.len();
            all.extend_from_slice(&bytes[..read]);
            for (at, byte) in (start..).zip(&mut bytes[..read]) {
                *byte = change(at, *byte);
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
        all
    }
    let socket = TcpListener::bind(loopback()).expect("a port");
    let address = socket.local_addr().expect("an address");
    let relaying = thread::spawn(move || {
        let near = socket.accept().expect("a connection").0;
        let far = TcpStream::connect(to).expect("a listener");
        thread::scope(|scope| {
            let listens = scope.spawn(|| pass(&far, &near, |_, byte| byte));
            let connects = pass(&near, &far, change);
            let listens = listens.join().expect("no panic");
            Recording { connects, listens }
        })
    });
    (address, relaying)
}

/// A pair of which a relay changes bytes that the connecting end sends.
fn relayed_pair(
    change: impl Fn(usize, u8) -> u8 + Send + 'static,
) -> ((Ended, Ended), thread::JoinHandle<Recording>) {
    let listener = listener();
    let (address, relaying) = relay(listener.local_addr(), change);
    let pair = thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&secret(), &config(), short(), &NEVER));
        let connected = connect(
            address,
            &secret(),
            Purpose::Pair,
            &config(),
            short(),
            &NEVER,
        );
        (accepting.join().expect("no panic"), connected)
    });
    (pair, relaying)
}

#[test]
fn nothing_of_a_message_is_readable_on_the_way() {
    let ((listens, connects), relaying) = relayed_pair(|_, byte| byte);
    let (mut listens, mut connects) = (listens.expect("listens"), connects.expect("connects"));
    thread::scope(|scope| {
        scope.spawn(|| {
            listens
                .exchange_handles(
                    &[std::array::from_fn(|at| b"0123456789abcdef"[at % 16]); 2],
                    0,
                    ample(),
                    &NEVER,
                )
                .expect("handles");
            listens
                .barrier("warm-up", 1, ample(), &NEVER)
                .expect("barrier");
            listens.close(ample(), &NEVER).expect("goodbye");
        });
        connects
            .exchange_handles(&[], 2, ample(), &NEVER)
            .expect("handles");
        connects
            .barrier("warm-up", 1, ample(), &NEVER)
            .expect("barrier");
        connects.close(ample(), &NEVER).expect("goodbye");
    });
    let recording = relaying.join().expect("no panic");
    for bytes in [&recording.connects, &recording.listens] {
        // The hello of each end is in the clear, and only that.
        let magics = bytes.windows(4).filter(|window| window == b"TCXB").count();
        assert_eq!(magics, 1);
        assert!(bytes.len() > 200);
        for word in [
            "4conn", "512KiB", "TCPXSOFT", "89abcdef", "warm-up", "scenario",
        ] {
            let found = bytes
                .windows(word.len())
                .any(|window| window == word.as_bytes());
            assert!(!found, "{word}");
        }
    }
}

#[test]
fn a_recorded_conversation_is_no_proof() {
    let ((listens, connects), relaying) = relayed_pair(|_, byte| byte);
    drop((listens.expect("listens"), connects.expect("connects")));
    let recorded = relaying.join().expect("no panic").connects;
    assert_eq!(&recorded[..4], b"TCXB");

    let error = rejected(&[&recorded]);
    assert!(
        error
            .to_string()
            .ends_with("stopped; 1 other connection rejected"),
        "{error}"
    );
}

#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    // In the hello's header, role, key and tag; in the proof's length, text and tag; in the
    // configuration.
    for at in [5, 12, 13, 60, 61, 62, 70, 90, 95, 150] {
        let ((listens, connects), relaying) =
            relayed_pair(move |position, byte| byte ^ u8::from(position == at));
        assert!(listens.is_err() && connects.is_err(), "byte {at}");
        relaying.join().expect("no panic");
    }
}

#[test]
fn a_message_that_was_changed_is_not_read() {
    let (mut listens, connects) = pair();
    let mut wire = connects.wire;
    wire.queue(&Message::Bye).expect("fits");
    wire.outbox[5] ^= 1;
    wire.flush().expect("leaves");
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(matches!(error.cause, Cause::NotAuthentic), "{error}");
    assert_eq!(error.outcome(), Outcome::PeerLost);
}

#[test]
fn another_version_and_another_program_have_different_errors() {
    let mut newer = encoded(&Message::Ready);
    newer[5] = 9;
    let error = connect_to(
        impostor(move |mut stream| drop(stream.write_all(&newer))),
        ample(),
    );
    assert!(
        matches!(error.cause, Cause::OtherVersion { ours: 2, theirs: 9 }),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Usage);

    let error = connect_to(
        impostor(|mut stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n"))),
        ample(),
    );
    assert!(matches!(error.cause, Cause::Garbage { .. }), "{error}");
    assert!(
        error.to_string().contains("the data begins with \"SSH-\""),
        "{error}"
    );
}

#[test]
fn both_ends_name_the_key_that_differs() {
    let mut other = config();
    other
        .scenario
        .insert("transfer.chunk".to_owned(), "1MiB".to_owned());
    let secret = secret();
    let (listens, connects) = pair_of((&secret, &config()), (&secret, &other));
    let (listens, connects) = (
        listens.expect_err("must fail"),
        connects.expect_err("must fail"),
    );
    assert!(
        listens
            .to_string()
            .ends_with("disagree: transfer.chunk is `512KiB` here and `1MiB` there"),
        "{listens}"
    );
    assert!(
        connects
            .to_string()
            .ends_with("disagree: transfer.chunk is `1MiB` here and `512KiB` there"),
        "{connects}"
    );
    assert_eq!(
        (listens.outcome(), connects.outcome()),
        (Outcome::Usage, Outcome::Usage)
    );
}

#[test]
fn connecting_to_the_receiver_of_another_pair_is_an_error() {
    let (secret, gpu) = (secret(), |n| Config {
        pair: format!("gpu {n}"),
        ..config()
    });
    let (listens, connects) = pair_of((&secret, &gpu(0)), (&secret, &gpu(1)));
    assert!(
        listens
            .expect_err("must fail")
            .to_string()
            .ends_with("pair is `gpu 0` here and `gpu 1` there")
    );
    assert!(matches!(
        connects.expect_err("must fail").cause,
        Cause::DifferentConfig(_)
    ));
}

#[test]
fn a_configuration_too_large_to_send_fails_both_ends() {
    let mut large = config();
    large.settings.insert("X".to_owned(), "x".repeat(BODY_MAX));
    let secret = secret();
    let (listens, connects) = pair_of((&secret, &config()), (&secret, &large));
    assert!(matches!(
        connects.expect_err("must fail").cause,
        Cause::TooLarge {
            what: "configuration",
            ..
        }
    ));
    assert!(matches!(
        listens.expect_err("must fail").cause,
        Cause::PeerAborted {
            outcome: Outcome::NotRun,
            ..
        }
    ));
}

#[test]
fn an_abort_arrives_with_its_reason_even_after_unread_messages() {
    let (mut listens, connects) = pair();
    send_raw(&mut listens, &handles(40));
    thread::scope(|scope| {
        scope.spawn(|| connects.abort(Outcome::PluginDied, "exit(1)\x1b[31m after \"no cmsg\""));
        let error = listens
            .barrier("end", 0, ample(), &NEVER)
            .expect_err("must fail");
        let Cause::PeerAborted { reason, .. } = &error.cause else {
            panic!("{error}")
        };
        assert_eq!(reason, "exit(1)?[31m after \"no cmsg\"");
        assert_eq!(error.outcome(), Outcome::PluginDied);
        drop(listens);
    });
}

#[test]
fn garbage_from_a_proven_peer_is_an_error() {
    let (mut listens, mut connects) = pair();
    send_raw(&mut connects, &Message::Proof);
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(
        error
            .to_string()
            .ends_with("out of step: barrier `start` here, proof there"),
        "{error}"
    );

    let (mut listens, connects) = pair();
    rustix::io::write(connects.wire.as_fd(), b"\0\0\0\0garbage").expect("writes");
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(matches!(error.cause, Cause::NotAuthentic), "{error}");
}

#[test]
fn barriers_with_other_names_or_epochs_name_both() {
    let (mut listens, mut connects) = pair();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            connects
                .barrier("end", 0, ample(), &NEVER)
                .expect_err("must fail")
        });
        let error = listens
            .barrier("start", 0, ample(), &NEVER)
            .expect_err("must fail");
        assert!(
            error
                .to_string()
                .ends_with("barrier `start` (epoch 0) here, barrier `end` (epoch 0) there"),
            "{error}"
        );
        let error = other.join().expect("no panic");
        assert!(matches!(error.cause, Cause::OutOfStep { .. }), "{error}");
    });

    let (mut listens, mut connects) = pair();
    send_raw(
        &mut connects,
        &Message::Barrier {
            epoch: 7,
            payload: 0,
            name: "start".to_owned(),
        },
    );
    let error = listens
        .barrier("start", 0, ample(), &NEVER)
        .expect_err("must fail");
    assert!(
        error
            .to_string()
            .ends_with("barrier `start` (epoch 0) here, barrier `start` (epoch 7) there"),
        "{error}"
    );
}

#[test]
fn a_barrier_the_peer_never_reaches_times_out_under_its_name() {
    let (mut listens, _connects) = pair();
    let error = listens
        .barrier("warm-up", 0, short(), &NEVER)
        .expect_err("must fail");
    assert!(
        error
            .to_string()
            .contains("waiting for barrier `warm-up` for "),
        "{error}"
    );
    assert!(matches!(error.cause, Cause::TimedOut { .. }), "{error}");
    let name = "x".repeat(BARRIER_NAME_MAX + 1);
    let error = listens
        .barrier(&name, 0, short(), &NEVER)
        .expect_err("must fail");
    assert!(matches!(error.cause, Cause::TooLarge { .. }), "{error}");
}

#[test]
fn handles_in_another_number_or_direction_are_refused() {
    let (mut listens, mut connects) = pair();
    thread::scope(|scope| {
        scope.spawn(|| listens.exchange_handles(&[[1; 128]; 3], 0, ample(), &NEVER));
        let error = connects
            .exchange_handles(&[], 4, ample(), &NEVER)
            .expect_err("must fail");
        assert!(
            error
                .to_string()
                .ends_with("4 of the peer's connections here, 3 connect handles there"),
            "{error}"
        );
    });

    let (mut listens, mut connects) = pair();
    send_raw(
        &mut listens,
        &Message::Handles {
            flow: Flow::Reverse,
            handles: vec![[1; 128]],
        },
    );
    let error = connects
        .exchange_handles(&[], 1, ample(), &NEVER)
        .expect_err("must fail");
    assert!(matches!(error.cause, Cause::Garbage { .. }), "{error}");
    let error = connects
        .exchange_handles(&vec![[0; 128]; HANDLES_MAX + 1], 0, ample(), &NEVER)
        .expect_err("too many");
    assert!(matches!(error.cause, Cause::TooLarge { .. }), "{error}");
}

#[test]
fn two_full_lists_of_handles_cross_through_buffers_that_hold_neither() {
    let (listens, connects) = pair();
    let mine = vec![[7; 128]; HANDLES_MAX];
    let cross = |mut link: PeerLink| {
        let socket = SockRef::from(&link.wire.as_fd()).set_send_buffer_size(4096);
        socket.expect("a small buffer");
        let theirs = link.exchange_handles(&mine, HANDLES_MAX, ample(), &NEVER);
        assert_eq!(theirs.expect("handles"), mine);
        link.close(ample(), &NEVER).expect("goodbye");
    };
    thread::scope(|scope| {
        scope.spawn(|| cross(listens));
        cross(connects);
    });
}

#[test]
fn every_wait_ends_when_stopped() {
    let stop = AtomicBool::new(false);
    let silent = impostor(std::mem::forget);
    let unused = own_address(4714);
    let (mut listens, _connects) = pair();
    let (secret, config, listener) = (secret(), config(), listener());
    let errors = thread::scope(|scope| {
        let waits = [
            scope.spawn(|| {
                listener
                    .accept(&secret, &config, ample(), &stop)
                    .map(|_| ())
            }),
            scope.spawn(|| {
                connect(silent, &secret, Purpose::Pair, &config, ample(), &stop).map(|_| ())
            }),
            scope.spawn(|| {
                connect(unused, &secret, Purpose::Pair, &config, ample(), &stop).map(|_| ())
            }),
            scope.spawn(|| listens.barrier("start", 0, ample(), &stop).map(|_| ())),
        ];
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        waits.map(|wait| wait.join().expect("no panic").expect_err("must fail"))
    });
    for error in errors {
        assert!(matches!(error.cause, Cause::Stopped), "{error}");
        assert_eq!(error.outcome(), Outcome::Interrupted);
    }
}

#[test]
fn a_port_in_use_is_an_error_at_once() {
    let first = listener();
    let error = Listener::bind(first.local_addr()).expect_err("must fail");
    assert!(
        error
            .to_string()
            .contains("cannot listen: Address already in use"),
        "{error}"
    );
    assert!(error.next_step().expect("one").contains("--bootstrap-port"));
    assert_eq!(error.outcome(), Outcome::NotRun);
}

#[test]
fn rejected_connections_are_counted_by_reason() {
    let mut other_version = encoded(&hello());
    other_version[5] = 1;
    let wrong = encoded(&hello());
    let large = encoded(&handles(63));
    let error = rejected(&[b"GET / HTTP/1.1\r\n\r\n", &wrong, &other_version, &large]);
    let said =
        "; 4 other connections rejected, 1 with a wrong secret, 1 of another tcpxctl version";
    assert!(error.to_string().ends_with(said), "{error}");
}

#[test]
fn many_pending_connections_do_not_keep_the_peer_out() {
    let listener = listener();
    let address = listener.local_addr();
    let half = &encoded(&hello())[..20];
    let crowd: Vec<_> = (0..60)
        .map(|n| client(address, if n % 2 == 0 { b"" } else { half }))
        .collect();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&secret(), &config(), ample(), &NEVER));
        let mut connects = connect(
            address,
            &secret(),
            Purpose::Pair,
            &config(),
            ample(),
            &NEVER,
        )
        .expect("connects");
        let mut listens = accepting.join().expect("no panic").expect("accepts");
        assert!(
            listens.rejections.rejected >= 44,
            "all but sixteen, {:?}",
            listens.rejections
        );
        scope.spawn(move || {
            connects
                .barrier("start", 1, ample(), &NEVER)
                .expect("barrier")
        });
        assert_eq!(
            listens
                .barrier("start", 0, ample(), &NEVER)
                .expect("barrier"),
            1
        );
    });
    drop(crowd);
}

#[test]
fn a_silent_connection_is_dropped_in_time() {
    let limits = PendingLimits {
        time_max: Duration::from_millis(50),
        ..PendingLimits::default()
    };
    let listener = Listener::bind_with(loopback(), limits).expect("a port");
    let mut silent = client(listener.local_addr(), b"");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&secret(), &config(), ample(), &stop));
        silent
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let mut answer = Vec::new();
        silent
            .read_to_end(&mut answer)
            .expect("a refusal and the end");
        assert_eq!(
            answer,
            encoded(&Message::Refusal(super::message::Refusal::Dropped))
        );
        stop.store(true, Ordering::Relaxed);
        accepting.join().expect("no panic").expect_err("stopped");
    });
}

/// The bytes that a client of the test below sends, from one random number.
fn nonsense(number: u64) -> Vec<u8> {
    let noise = |len: u64| {
        (0..len)
            .map(|n| (number.rotate_left((n % 64) as u32) ^ n) as u8)
            .collect::<Vec<u8>>()
    };
    match number % 6 {
        0 => Vec::new(),
        1 => noise(number >> 8 & 0xfff),
        2 => encoded(&hello()),
        3 => encoded(&hello())[..(number >> 8) as usize % 61].to_vec(),
        4 => [encoded(&hello()), noise(76)].concat(),
        _ => {
            let (_, valid) = Handshake::connects(&secret(), Purpose::Pair).expect("keys");
            [encoded(&valid), noise(40)].concat()
        }
    }
}

#[test]
fn many_invalid_connections_do_not_disturb_a_run() {
    let seed = getrandom::u64().expect("randomness");
    eprintln!("seed {seed:#x}");
    let listener = listener();
    let address = listener.local_addr();
    let (over, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    let storm = |mut state: u64| {
        let mut kept = VecDeque::new();
        while !over.load(Ordering::Relaxed) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100))
            else {
                continue;
            };
            let _ = stream.write_all(&nonsense(state >> 16));
            if state >> 60 & 1 == 0 {
                cut(&stream);
            } else {
                kept.push_back(stream);
            }
            if kept.len() > 20 {
                kept.pop_front();
            }
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    let run = |ended: Ended| -> Result<(u64, Rejections), BootstrapError> {
        let mut link = ended?;
        let mut sum = 0;
        for n in 0..20 {
            sum += link.barrier("iteration", n, ample(), &NEVER)?;
        }
        Ok((sum, link.rejections))
    };
    thread::scope(|scope| {
        for n in 0..3 {
            let storm = &storm;
            scope.spawn(move || storm(seed ^ n));
        }
        let accepting = scope.spawn(|| run(listener.accept(&secret(), &config(), ample(), &NEVER)));
        while seen.load(Ordering::Relaxed) < 50 {
            thread::yield_now();
        }
        let connects = run(connect(
            address,
            &secret(),
            Purpose::Pair,
            &config(),
            ample(),
            &NEVER,
        ));
        let listens = accepting.join();
        over.store(true, Ordering::Relaxed);
        let (sum, rejections) = listens.expect("no panic").expect("listens");
        assert_eq!(sum, 190);
        assert_eq!(connects.expect("connects").0, 190);
        assert!(rejections.rejected > 0);
    });
}

/// What `duplex` has received, once it has `len` bytes.
fn heard(duplex: &mut Duplex, len: usize) -> Vec<u8> {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while duplex.received().len() < len && std::time::Instant::now() < until {
        duplex.flush().expect("a peer");
        if !duplex.fill().expect("a peer") {
            thread::yield_now();
        }
    }
    std::mem::take(duplex.received())
}

#[test]
fn both_directions_carry_bytes_for_ends_that_never_wait() {
    let (listener, long) = (listener(), vec![7; 300_000]);
    let address = listener.local_addr();
    thread::scope(|scope| {
        scope.spawn(|| {
            let link = listener.accept(&secret(), &config(), ample(), &NEVER);
            let mut duplex = link.expect("a peer").into_duplex().expect("encrypted");
            duplex.queue(&long).expect("sealed");
            assert_eq!(heard(&mut duplex, 5), b"hello");
            while duplex.queued() > 0 {
                duplex.flush().expect("a peer");
            }
            duplex.queue(b"bye").expect("sealed");
            duplex.flush().expect("a peer");
        });
        let link = connect(
            address,
            &secret(),
            Purpose::Pair,
            &config(),
            ample(),
            &NEVER,
        );
        let mut duplex = link.expect("a peer").into_duplex().expect("encrypted");
        duplex.queue(b"hello").expect("sealed");
        let said = heard(&mut duplex, long.len() + 3);
        assert_eq!(said, [&long[..], b"bye"].concat());
    });
}
