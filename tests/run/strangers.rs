//! Connections of strangers to the port where one worker waits for the other.

use crate::tcpxctl::Tool;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The address on which a worker listens, from the events.
fn listening(events: &str) -> SocketAddr {
    let after = events.split("\"listening\":\"").nth(1).unwrap();
    after.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn silence_garbage_and_storms_do_not_disturb_the_run() {
    // The connecting end is delayed, so that strangers have time to connect.
    let late = [
        "fault.by=plugin",
        "fault.side=send",
        "fault.spec=spin:call=init,ms=1500",
    ];
    let mut run = Tool::run(&late).start();
    run.until_event("\"listening\":\"");
    let address = listening(&run.events());
    let connect = || TcpStream::connect(address).unwrap();
    let mut silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    for words in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"TCXB",
        &[0xff; 5000],
        b"SSH-2.0-x\r\n",
        &[0; 64],
    ] {
        // A client that is disconnected while it writes was rejected too.
        let _ = connect().write_all(words);
    }
    for _ in 0..100 {
        drop(connect());
    }
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(0), "{ended}");
    ended.recorded("passed");
    // The answer has nothing that helps to guess the secret.
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.len() < 200, "{} bytes to a stranger", said.len());
    }
}

#[test]
fn the_secret_is_on_no_command_line_and_in_no_file() {
    let mut run = Tool::run(&["transfer.iterations=1000000", "limits.total=50s"]).start();
    run.until_event("measuring");
    for process in run.processes() {
        let cmdline = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(cmdline.len() < 2000, "{process:?}");
    }
    run.signal(rustix::process::Signal::INT);
    let ended = run.ended();
    let mut folders = vec![ended.run_folders()[0].clone()];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !bytes.windows(8).any(|window| window == b"\"secret\""),
                "{}",
                path.display()
            );
        }
    }
}
