//! `tcpxctl export`: metrics of a running transfer over HTTP, read by hand and by a real Prometheus.

use crate::tcpxctl::{Running, Tool};
use crate::terminal::wait_for;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An exporter on a free port, and that port.
fn exporter() -> (Running, u16) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let running = Tool::new(&["export", "--listen", &format!("127.0.0.1:{port}")]).start();
    wait_for("the exporter", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    (running, port)
}

/// What the exporter answers to these bytes.
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn stop(running: Running) {
    running.signal(Signal::INT);
    assert_eq!(running.ended().status.code(), Some(130));
}

#[test]
fn a_running_transfer_is_exported_and_bad_requests_are_refused() {
    let transfer = Tool::run(&["transfer.iterations=100000"]).start();
    let (running, port) = exporter();
    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
    let openmetrics = format!("{get}Accept: application/openmetrics-text;version=1.0.0\r\n\r\n");
    let text = wait_for("bytes that were received", || {
        let text = ask(port, &openmetrics);
        let of_bytes = |line: &&str| {
            line.starts_with("tcpx_bytes_done_total") && line.contains("side=\"recv\"")
        };
        let line = text.lines().find(of_bytes)?;
        let count: f64 = line.rsplit(' ').next()?.parse().ok()?;
        (count > 0.0).then_some(text)
    });
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(
        text.contains("application/openmetrics-text; version=1.0.0"),
        "{text}"
    );
    assert!(
        text.ends_with("# EOF\n") && text.contains("tcpx_processes "),
        "{text}"
    );
    let older = ask(port, &format!("{get}\r\n"));
    assert!(
        older.contains("version=0.0.4") && !older.contains("EOF"),
        "{older}"
    );
    for (request, status) in [
        ("GET /x HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\r\n\r\n", "400"),
        ("\x16\x03\x01\r\n\r\n", "400"),
    ] {
        let answer = ask(port, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:?}: {answer}"
        );
    }
    // A client that says nothing is left after two seconds; the next one is answered.
    let silent = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    assert!(ask(port, &openmetrics).contains("tcpx_processes "));
    drop(silent);
    stop(running);
    transfer.signal(Signal::INT);
    transfer.ended();
}

/// The program from the path, or from `TCPXCTL_PROMETHEUS`, a folder; prints why there is none.
fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TCPXCTL_PROMETHEUS");
    let path = folder.map_or_else(|| name.into(), |folder| Path::new(&folder).join(name));
    let there = Command::new(&path).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: {name} is not installed");
    }
    there.then_some(path)
}

fn fleet() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/fleet")
}

struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_the_exporter() {
    let Some(prometheus) = program("prometheus") else {
        return;
    };
    let transfer = Tool::run(&["transfer.iterations=100000"]).start();
    let (running, port) = exporter();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = free.local_addr().expect("an address").port();
    drop(free);
    let folder = running.folder();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: tcpx\n  static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
    );
    std::fs::write(folder.join("prometheus.yml"), config).expect("written");
    let child = Command::new(prometheus)
        .arg(format!(
            "--config.file={}",
            folder.join("prometheus.yml").display()
        ))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{own}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a prometheus");
    let child = Prometheus(child);
    let query = "GET /api/v1/query?query=sum(tcpx_bytes_done_total)%20by%20(side) HTTP/1.0\r\n\r\n";
    wait_for("bytes in Prometheus", || {
        let mut stream = TcpStream::connect(("127.0.0.1", own)).ok()?;
        stream.write_all(query.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        (answer.contains("\"side\":\"recv\"") && answer.contains("\"value\"")).then_some(())
    });
    drop(child);
    stop(running);
    transfer.signal(Signal::INT);
    transfer.ended();
}

#[test]
fn the_alert_rules_fire_as_their_tests_say() {
    let Some(promtool) = program("promtool") else {
        return;
    };
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts-test.yml"],
    ] {
        let checked = Command::new(&promtool)
            .args(arguments)
            .current_dir(fleet())
            .output()
            .expect("promtool");
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        let errors = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{arguments:?}: {said}{errors}");
    }
}

#[test]
fn dashboard_and_alerts_use_metrics_that_are_exported() {
    let exported = Tool::new(&["export", "--once"]).ends_with(0).out;
    let dashboard = std::fs::read_to_string(fleet().join("dashboard.json")).expect("read");
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(
        parsed["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() >= 6)
    );
    let alerts = std::fs::read_to_string(fleet().join("alerts.yml")).expect("read");
    let mut seen = 0;
    for word in
        (dashboard + &alerts).split(|letter: char| !letter.is_alphanumeric() && letter != '_')
    {
        let Some(name) = word
            .strip_prefix("tcpx_")
            .map(|rest| rest.trim_end_matches("_total"))
        else {
            continue;
        };
        seen += 1;
        assert!(exported.contains(&format!("# TYPE tcpx_{name} ")), "{word}");
    }
    assert!(seen > 10, "{seen}");
}
