//! Endpoints in processes of their own: this test starts itself again for each.
#![expect(
    unsafe_code,
    reason = "registers buffers that outlive their registration, and sets a variable"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tcpx_p2p::{Endpoint, Error, Local, Metadata, Remote, Rights, Secret, Settings};
use tcpx_recorder::format::{OperationKind, Role};
use tcpx_recorder::{Reader, Snapshot};

const AMPLE: Duration = Duration::from_secs(30);
const LEN: usize = 8 << 20;

/// A process that runs one ignored test of this file; killed when dropped.
struct Process(Child);

impl Process {
    fn run(test: &str) -> Self {
        let this = std::env::current_exe().expect("a path");
        let child = Command::new(this)
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("TCPXSOFT_SOCKET_IFNAME", "lo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.expect("starts"))
    }

    /// The words of its first line that begins with `key`.
    fn said(&mut self, key: &str) -> Vec<String> {
        let stdout = self.0.stdout.as_mut().expect("piped");
        let mut lines = BufReader::new(stdout).lines();
        let found = lines.find_map(|line| {
            let line = line.ok()?;
            let at = line.find(key)?;
            Some(line[at + key.len()..].to_owned())
        });
        let found = found.unwrap_or_else(|| panic!("it ended without {key}"));
        found.split('|').map(str::to_owned).collect()
    }
}

impl Process {
    fn signal(&self, signal: rustix::process::Signal) -> rustix::process::Pid {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("a child");
        pid
    }

    fn stop(&self) {
        let pid = self.signal(rustix::process::Signal::STOP);
        // The signal stops one thread after the other.
        let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
        assert!(stopped.is_ok_and(|state| state.is_some_and(|(_, state)| state.stopped())));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // A killed process leaves its recorder to the next one.
        let _ = tcpx_recorder::sweep(Path::new(tcpx_recorder::SHARED_MEMORY));
    }
}

fn settings(name: &str) -> Settings {
    Settings {
        name: name.into(),
        plugin: "builtin".into(),
        address: Some([127, 0, 0, 1].into()),
        lanes: 2,
        ..Settings::default()
    }
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint::new(&settings(name)).expect("an endpoint")
}

fn register(endpoint: &Endpoint, buffer: &mut [u8]) -> Local {
    let (address, len) = (buffer.as_ptr().addr(), buffer.len());
    // SAFETY: the tests drop their endpoints before their buffers.
    let made = unsafe { endpoint.register(buffer.as_mut_ptr(), len) };
    let registration = made.expect("mapped");
    Local {
        registration,
        address,
        len,
    }
}

fn pattern(at: usize) -> u8 {
    (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ (at >> 16) as u8
}

/// Advertises a buffer and serves it until it is killed.
#[test]
#[ignore = "a process that the tests start"]
fn serves() {
    let mut buffer: Vec<u8> = (0..LEN).map(pattern).collect();
    let endpoint = endpoint("server");
    let local = register(&endpoint, &mut buffer);
    let blob = endpoint.advertise(local, Rights::Both).expect("inside");
    let hex: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
    let metadata = String::from_utf8(endpoint.metadata().to_bytes()).expect("text");
    println!("serving {hex}|{metadata}");
    std::io::stdout().flush().expect("a reader");
    // Until the test closes the pipe or kills this process.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The served buffer: its connection and its blob.
fn reach(endpoint: &Endpoint, server: &mut Process) -> (u64, Vec<u8>) {
    let said = server.said("serving ");
    let metadata = Metadata::parse(said[1].as_bytes()).expect("metadata");
    let (pairs, _) = said[0].as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16);
    let blob = pairs.iter().map(|pair| byte(pair).expect("hex")).collect();
    (endpoint.connect(&metadata).expect("connects"), blob)
}

#[test]
fn a_buffer_of_another_process_is_read_and_the_reader_survives_its_death() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let mut server = Process::run("serves");
    let mut buffer = vec![0xC5; LEN + 8192];
    let endpoint = endpoint("reader");
    let whole = register(&endpoint, &mut buffer);
    let (connection, blob) = reach(&endpoint, &mut server);
    let into = Local {
        address: whole.address + 4096,
        len: LEN,
        ..whole
    };
    let read = || {
        endpoint.read(
            connection,
            &[(
                into,
                Remote {
                    blob: &blob,
                    offset: 0,
                },
            )],
        )
    };
    assert_eq!(read().expect("starts").wait(AMPLE), Ok(LEN as u64));
    let content = std::hint::black_box(&buffer);
    assert!((0..LEN).all(|at| content[4096 + at] == pattern(at)));

    let pending: Vec<_> = (0..64).map(|_| read().expect("starts")).collect();
    pending[0].wait(AMPLE).expect("the first is done");
    drop(server);
    let last = pending[63].wait(AMPLE).expect_err("the peer is dead");
    let said = "connection to endpoint `server`: the peer's process ended or closed it";
    assert_eq!(last.to_string(), said);
    assert!(endpoint.peer(connection).is_none());
    // Nothing holds the memory any more.
    endpoint.deregister(whole.registration).expect("free");
    assert_eq!(endpoint.registrations(), 0);
    let content = std::hint::black_box(&buffer);
    let intact = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xC5);
    assert!(
        intact(&content[..4096]) && intact(&content[4096 + LEN..]),
        "a canary changed"
    );
}

/// The recorder of this process.
fn own_recorder() -> Option<Reader> {
    let files = tcpx_recorder::list(Path::new(tcpx_recorder::SHARED_MEMORY)).ok()?;
    let own = files.iter().find(|file| {
        let header = file.header.as_ref();
        header.is_ok_and(|header| header.writer.pid == std::process::id())
    });
    Reader::open(&own?.path).ok()
}

fn shown() -> Snapshot {
    let mut reader = own_recorder().expect("a recorder");
    reader.snapshot().expect("readable")
}

/// Connection and operation of the first receive that this process's recorder shows in flight, or
/// showed when its connection ended.
fn recorded() -> Option<(u64, OperationKind, u64)> {
    let snapshot = own_recorder()?.snapshot().ok()?;
    let mut recvs = snapshot
        .channels
        .iter()
        .filter(|one| one.role == Role::Recv);
    let (kind, number) = recvs.find_map(|one| one.operation)?;
    let connection = snapshot.channels.iter().find_map(|one| one.connection)?;
    Some((connection, kind, number))
}

/// The warnings in the log of this process's recorder.
fn logged() -> Vec<String> {
    let mut reader = own_recorder().expect("a recorder");
    let lines = reader.log(0, 10_000).expect("readable").lines;
    let warned = lines.into_iter().filter(|line| line.level == 2);
    warned.map(|line| line.text).collect()
}

#[test]
fn a_peer_that_is_stopped_is_given_up() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let mut server = Process::run("serves");
    let mut buffer = vec![0; LEN];
    let endpoint = Endpoint::new(&Settings {
        stall_after: Duration::from_millis(500),
        ..settings("reader")
    });
    let endpoint = endpoint.expect("an endpoint");
    let into = register(&endpoint, &mut buffer);
    let (connection, blob) = reach(&endpoint, &mut server);
    server.stop();
    let remote = Remote {
        blob: &blob,
        offset: 0,
    };
    let read = endpoint
        .read(connection, &[(into, remote)])
        .expect("starts");
    let until = Instant::now() + AMPLE;
    while recorded() != Some((connection, OperationKind::Read, 1)) {
        assert!(Instant::now() < until, "{:?}", recorded());
        std::thread::yield_now();
    }
    let error = read.wait(AMPLE).expect_err("given up").to_string();
    let expected = "connection to endpoint `server`: no progress for 0.5 s: read 1 of 8388608 bytes is not done, 16 messages are in flight; recv 0: 8 posted, none done: the sender's turn";
    assert_eq!(error, expected);
    let said = logged();
    assert!(
        said.iter()
            .any(|line| line.contains("ended: no progress for 0.5 s: read 1 of")),
        "{said:?}"
    );
    endpoint.deregister(into.registration).expect("free");
}

#[test]
fn small_reads_that_wait_for_each_other_are_one_message() {
    const PAGES: usize = 256;
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let mut server = Process::run("serves");
    let mut buffer = vec![0; PAGES * 4096];
    let endpoint = endpoint("reader");
    let whole = register(&endpoint, &mut buffer);
    let (connection, blob) = reach(&endpoint, &mut server);
    server.stop();
    let read = |page: usize| {
        let into = Local {
            address: whole.address + page * 4096,
            len: 4096,
            ..whole
        };
        let remote = Remote {
            blob: &blob,
            offset: (page * 4096) as u64,
        };
        endpoint
            .read(connection, &[(into, remote)])
            .expect("starts")
    };
    let reads: Vec<_> = (0..PAGES).map(read).collect();
    server.signal(rustix::process::Signal::CONT);
    for read in &reads {
        assert_eq!(read.wait(AMPLE), Ok(4096));
    }
    let content = std::hint::black_box(&buffer);
    assert!((0..content.len()).all(|at| content[at] == pattern(at)));
    let channels = shown().channels;
    let receives = channels.iter().filter(|one| one.role == Role::Recv);
    let messages: u64 = receives.map(|one| one.posted).sum();
    // Sixteen fill a message. At most four had none to wait for.
    assert!((16..=20).contains(&messages), "{messages} messages");
}

#[test]
fn endpoints_of_one_process_are_told_apart_in_its_recorder() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let (prefill, decode, store) = (endpoint("prefill"), endpoint("decode"), endpoint("store"));
    assert_eq!(shown().header.role, "endpoints prefill, decode, store");
    for (from, to) in [(&decode, &prefill), (&decode, &store), (&store, &prefill)] {
        from.connect(to.metadata()).expect("connects");
        to.accept(AMPLE).expect("accepts");
    }
    let snapshot = shown();
    let receives = snapshot
        .channels
        .iter()
        .filter(|one| one.role == Role::Recv);
    let (mut channels, mut connections) = (BTreeSet::new(), BTreeSet::new());
    let mut count = 0;
    for one in receives {
        channels.insert(one.channel.expect("a number"));
        connections.insert(one.connection.expect("a number"));
        count += 1;
    }
    assert_eq!(channels.len(), count, "a channel of its own each");
    assert_eq!(connections.len(), 6, "both ends of three connections");
    drop((decode, prefill));
    assert_eq!(shown().header.role, "endpoint store");
}

#[test]
fn what_a_peer_was_refused_is_in_the_log_of_the_end_that_refuses() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let (server, reader) = (endpoint("server"), endpoint("reader"));
    let (mut served, mut buffer) = (vec![0xC5; 4096], vec![0xA6; 4096]);
    let from = register(&server, &mut served);
    let into = register(&reader, &mut buffer);
    let connection = reader.connect(server.metadata()).expect("connects");
    let mut blob = server.advertise(from, Rights::Both).expect("inside");
    blob[0] ^= 1;
    let remote = Remote {
        blob: &blob,
        offset: 0,
    };
    let pieces = [(into, remote)];
    for started in [
        reader.read(connection, &pieces),
        reader.write(connection, &pieces),
    ] {
        let error = started.expect("starts").wait(AMPLE);
        assert!(matches!(error, Err(Error::Refused { .. })), "{error:?}");
    }
    let said = logged();
    for what in ["read 1", "write 2"] {
        let words = format!("{what} of endpoint `reader` refused: the descriptor was changed");
        assert!(
            said.iter().any(|line| line.contains(&words)),
            "no {words}: {said:?}"
        );
    }
    drop((server, reader));
    let both = (std::hint::black_box(&served), std::hint::black_box(&buffer));
    assert!(both.0.iter().all(|byte| *byte == 0xC5) && both.1.iter().all(|byte| *byte == 0xA6));
}

#[test]
fn a_peer_that_cannot_prove_itself_is_told_why_and_so_is_the_log_of_the_other_end() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let secret = || Some(Secret::generate().expect("randomness"));
    let with = |name, secret| {
        let settings = Settings {
            secret,
            connect_within: Duration::from_secs(5),
            ..settings(name)
        };
        Endpoint::new(&settings).expect("an endpoint")
    };
    let (server, reader) = (endpoint("server"), endpoint("reader"));
    let (kept, other) = (with("kept", secret()), with("other", secret()));
    let number = server.metadata().endpoint;
    let mut renamed = server.metadata().clone();
    renamed.endpoint = 7;
    let mut guessed = server.metadata().clone();
    guessed.nonce.reverse();
    let none_here =
        "it has a shared secret, which this endpoint lacks, or the metadata of another endpoint";
    let another = "it has another shared secret, or none, or the metadata of another endpoint";
    let lacks = "endpoint `kept` requires a shared secret, and this endpoint has none";
    let has =
        "this endpoint has a shared secret, and endpoint `server` has none: set the same on both";
    let is_not = "the endpoint there has another secret, or is not the one of this metadata";
    let whose = "the connecting end has the metadata of another endpoint: ";
    let (seven, right) = (
        "`endpoint 0000000000000007`",
        format!("`endpoint {number:016x}`"),
    );
    for (from, to, here, there) in [
        (
            &reader,
            &renamed,
            format!("{whose}{seven} here, {right} there"),
            format!("{whose}{right} here, {seven} there"),
        ),
        (&reader, &guessed, is_not.to_owned(), none_here.to_owned()),
        (
            &reader,
            kept.metadata(),
            lacks.to_owned(),
            another.to_owned(),
        ),
        (
            &kept,
            server.metadata(),
            has.to_owned(),
            none_here.to_owned(),
        ),
        (
            &other,
            kept.metadata(),
            is_not.to_owned(),
            another.to_owned(),
        ),
    ] {
        let before = logged().len();
        let error = from.connect(to).expect_err("refused").to_string();
        let connecting = format!("connection to {}: ", to.address);
        assert_eq!(error.strip_prefix(&connecting).unwrap_or(&error), here);
        let until = Instant::now() + AMPLE;
        while !logged()[before..]
            .iter()
            .any(|line| line.starts_with("a peer at 127.0.0.1:") && line.ends_with(&there))
        {
            assert!(Instant::now() < until, "no {there}: {:?}", logged());
            std::thread::yield_now();
        }
    }
    reader
        .connect(server.metadata())
        .expect("the endpoint still listens");
}

/// Listens, and may then open two more descriptors: the peer's connection takes both, one to read and one to write, and
/// the plugin gets none.
#[test]
#[ignore = "a process that the tests start"]
fn cannot_listen() {
    let endpoint = endpoint("server");
    let metadata = String::from_utf8(endpoint.metadata().to_bytes()).expect("text");
    let most = rustix::process::Rlimit {
        current: Some(1024),
        maximum: Some(1024),
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).expect("fewer");
    // The limit bounds the number and not the count, and inherited descriptors leave gaps.
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - 2);
    println!("serving none|{metadata}");
    std::io::stdout().flush().expect("a reader");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_peer_that_cannot_listen_says_so() {
    // SAFETY: before the first endpoint, and each test of this file sets the same value.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let mut server = Process::run("cannot_listen");
    let said = server.said("serving ");
    let metadata = Metadata::parse(said[1].as_bytes()).expect("metadata");
    let refused = endpoint("reader").connect(&metadata);
    let words = refused.expect_err("no descriptors there").to_string();
    assert!(words.contains("listen returned"), "{words}");
}

/// Counts descriptors, so it needs a process without other endpoints.
#[test]
#[ignore = "a process that the tests start"]
fn connects_often() {
    let (one, other) = (endpoint("one"), endpoint("other"));
    let held = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let mut buffer = vec![0; 100];
    let kept = register(&one, &mut buffer);
    let mut before = 0;
    for round in 0..40 {
        let connection = one.connect(other.metadata()).expect("connects");
        let accepted = other.accept(AMPLE).expect("accepts");
        one.disconnect(connection).expect("there");
        while other.peer(accepted.connection).is_some() {
            std::thread::yield_now();
        }
        let again = register(&one, &mut buffer);
        one.deregister(again.registration).expect("there");
        if round == 3 {
            before = held();
        }
    }
    // The plugin closes sockets in threads of its own, and a thread that introduces a peer ends
    // after the peer is there.
    let until = Instant::now() + AMPLE;
    while held() > before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(held() <= before, "{} descriptors, {before} before", held());
    one.deregister(kept.registration).expect("there");
    println!("left {}", one.registrations());
}

#[test]
fn connections_and_registrations_leave_nothing() {
    assert_eq!(Process::run("connects_often").said("left "), ["0"]);
}
