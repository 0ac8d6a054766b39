//! Two terminals without ssh: one node serves and the other joins. Clients without the secret are
//! rejected and do not disturb a run.

use crate::lab::Lab;
use crate::tcpxctl::{Ended, Process, Running, SMALL, Tool};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 226], 18500);
const SECRET: &str = "/root/secret";

/// Starts `tcpxctl serve` on node1, with a secret that both nodes have.
fn serves(lab: &Lab, more: &[&str]) -> Running {
    let make = format!(
        "umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' >{SECRET}; cat {SECRET}"
    );
    let secret = lab.exec("node1", &["sh", "-c", &make]);
    lab.exec(
        "node0",
        &[
            "sh",
            "-c",
            &format!("umask 077; printf %s {secret} >{SECRET}"),
        ],
    );
    let mut serving = lab
        .tool(
            "node1",
            &[&["serve", "--secret-file", SECRET], more].concat(),
        )
        .start();
    serving.until("a listener", |_| connects(lab));
    serving
}

fn connects(lab: &Lab) -> bool {
    lab.inside("stranger", || {
        TcpStream::connect(std::net::SocketAddr::from(ADDRESS)).is_ok()
    })
}

fn joining(lab: &Lab) -> Tool {
    let arguments = [
        "run",
        "small.toml",
        "--join",
        "10.0.0.226:18500",
        "--secret-file",
        SECRET,
    ];
    let tool = lab.tool("node0", &arguments);
    tool.write("small.toml", SMALL);
    tool
}

fn joins(lab: &Lab) -> Ended {
    joining(lab).ended()
}

/// A run that lasts until it is stopped.
fn long_run(lab: &Lab) -> Running {
    let mut run = joining(lab).set(&["transfer.iterations=1000000"]).start();
    run.until_event("measuring");
    run
}

fn interrupt(lab: &Lab, node: &str, role: &str) {
    let all = lab.ps(node);
    let found: Option<&Process> = all.iter().find(|process| process.role == role);
    found.expect("its process").signal(Signal::INT);
}

fn stop(lab: &Lab, serving: Running) -> Ended {
    interrupt(lab, "node1", "serve");
    let ended = serving.ended();
    lab.is_left_clean();
    ended
}

#[test]
fn a_serving_node_replaces_ssh_for_many_runs() {
    let Some(lab) = Lab::up() else { return };
    let serving = serves(&lab, &[]);
    for _ in 0..3 {
        let ended = joins(&lab);
        assert_eq!(ended.status.code(), Some(0), "{ended}");
        assert_eq!(ended.recorded("passed")["transfers"][0]["wrong_bytes"], 0);
    }
    stop(&lab, serving);
}

#[test]
fn a_wrong_secret_a_stranger_and_a_silent_client_are_rejected() {
    let Some(lab) = Lab::up() else { return };
    let serving = serves(&lab, &[]);
    let connect = || {
        lab.inside("stranger", || {
            TcpStream::connect(std::net::SocketAddr::from(ADDRESS)).unwrap()
        })
    };
    let silent: Vec<TcpStream> = (0..5).map(|_| connect()).collect();
    for words in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 5000],
        b"{\"start\":1}\n",
    ] {
        let mut stream = connect();
        stream
            .set_read_timeout(Some(crate::sockets::PATIENCE))
            .unwrap();
        // A client that is disconnected while it writes was rejected too.
        let _ = stream.write_all(words);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.len() < 200, "{} bytes to a stranger", said.len());
    }
    lab.exec(
        "node0",
        &[
            "sh",
            "-c",
            &format!("cp -p {SECRET} {SECRET}.right; tr 0-9 1-90 <{SECRET}.right >{SECRET}"),
        ],
    );
    let ended = joins(&lab);
    assert!(matches!(ended.status.code(), Some(3 | 5)), "{ended}");
    ended.says(&["10.0.0.226"]);
    lab.exec("node0", &["mv", &format!("{SECRET}.right"), SECRET]);
    let ended = joins(&lab);
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    drop(silent);
    stop(&lab, serving);
}

#[test]
fn a_second_coordinator_is_told_whom_the_node_serves() {
    let Some(lab) = Lab::up() else { return };
    let serving = serves(&lab, &[]);
    let first = long_run(&lab);
    let second = joins(&lab);
    assert_eq!(second.status.code(), Some(3), "{second}");
    second.says(&["it serves 10.0.1.25:", "at the moment"]);
    interrupt(&lab, "node0", "run");
    assert_eq!(first.ended().status.code(), Some(130));
    let third = joins(&lab);
    assert_eq!(third.status.code(), Some(0), "{third}");
    stop(&lab, serving).says(&["was turned away"]);
}

#[test]
fn an_interrupted_server_leaves_no_process_and_the_run_says_so() {
    let Some(lab) = Lab::up() else { return };
    let serving = serves(&lab, &[]);
    let run = long_run(&lab);
    let ended = stop(&lab, serving);
    assert_eq!(ended.status.code(), Some(130), "{ended}");
    let run = run.ended();
    assert_eq!(run.status.code(), Some(5), "{run}");
    lab.is_left_clean();
}

/// What a connection without the secret does.
#[derive(Clone, Copy)]
enum Stranger {
    Silent,
    /// Sends a byte of a valid frame now and then.
    Dripping,
}

/// Ten connections in a second until `over`; each stays open until the node closes it.
fn strangers(kind: Stranger, over: &AtomicBool, made: &AtomicUsize) {
    // The header of a hello, and a body that takes six seconds.
    let mut hello =
        *b"TCXB\0\x02\0\x01\0\0\0\x31\x02................................................";
    hello[13..].fill(7);
    let mut open: Vec<(TcpStream, std::slice::Iter<'_, u8>)> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let stream = TcpStream::connect(std::net::SocketAddr::from(ADDRESS)).unwrap();
        stream.set_nonblocking(true).unwrap();
        open.push((stream, hello.iter()));
        made.fetch_add(1, Ordering::Relaxed);
        open.retain_mut(|(stream, rest)| {
            let byte = match kind {
                Stranger::Silent => None,
                Stranger::Dripping => rest.next(),
            };
            let sent = byte.is_none_or(|byte| stream.write_all(&[*byte]).is_ok());
            let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            sent && stream.peek(&mut [0]).is_err_and(waits)
        });
        thread::sleep(Duration::from_millis(100));
    }
}

/// Appends the seconds of each run with a joined node until `time` is over.
fn timed(lab: &Lab, time: Duration, seconds: &mut Vec<f64>) {
    let start = Instant::now();
    while start.elapsed() < time {
        let begin = Instant::now();
        let ended = joins(lab);
        assert_eq!(ended.status.code(), Some(0), "{ended}");
        seconds.push(begin.elapsed().as_secs_f64());
    }
}

fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// `cargo test --test lab strangers_measured -- --ignored --nocapture`
#[test]
#[ignore = "prints figures, for four minutes"]
fn strangers_measured() {
    let Some(lab) = Lab::up() else { return };
    // A minute of each, in turns, because other work on the machine comes and goes.
    let (turns, turn) = (6, Duration::from_secs(10));
    for (name, kind) in [
        ("silent", Stranger::Silent),
        ("dripping", Stranger::Dripping),
    ] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let made = AtomicUsize::new(0);
        for _ in 0..turns {
            let serving = serves(&lab, &[]);
            timed(&lab, turn, &mut without);
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| lab.inside("stranger", || strangers(kind, &over, &made)));
                timed(&lab, turn, &mut with);
                over.store(true, Ordering::Relaxed);
            });
            stop(&lab, serving);
        }
        let medians = [&mut without, &mut with].map(|seconds| median(seconds));
        println!(
            "{} {name} strangers: median {:.3} s of {} runs, without {:.3} s of {}: {:.2} times",
            made.load(Ordering::Relaxed),
            medians[1],
            with.len(),
            medians[0],
            without.len(),
            medians[1] / medians[0],
        );
    }
}
