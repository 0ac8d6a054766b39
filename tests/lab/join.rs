//! Two terminals without ssh: one node serves and the other joins. Clients without the secret are
//! rejected and do not disturb a run.

use crate::lab::Lab;
use crate::tcpxctl::{Ended, Process, Running, SMALL};
use std::io::{Read, Write};
use std::net::TcpStream;

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

fn joins(lab: &Lab) -> Ended {
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
    tool.ended()
}

fn stop(lab: &Lab, serving: Running) {
    let all = lab.ps("node1");
    let server: &Process = all
        .iter()
        .find(|process| process.role == "serve")
        .expect("the server");
    server.signal(rustix::process::Signal::INT);
    serving.ended();
    lab.is_left_clean();
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
