//! `tcpxctl export`: serves the counters of every recorder of this node to Prometheus.
//!
//! ```console
//! $ tcpxctl export --listen 127.0.0.1:9469
//! # Serving http://127.0.0.1:9469/metrics
//! ```
//!
//! Nothing is kept between two requests: each reads the recorders of the processes that run then.
//! A request has two seconds to arrive and to be taken; requests are answered one after the other.
//! scripts/fleet has a dashboard for Grafana and alert rules for Prometheus.
#![forbid(unsafe_code)]

use super::Common;
use super::failure::{Ended, Ending, Failure};
use super::output::{print, say};
use super::signals::interrupted;
use anyhow::Context;
use clap::Args;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tcpx_report::{MetricsDialect, openmetrics};
use tcpx_run_model::live::{RecorderFilter, Recorders};
use tcpx_run_model::state::RunState;
use tcpx_words::error::Outcome;
use tcpx_words::units::now_us;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9469")]
    listen: SocketAddr,
    /// Print the metrics once, and serve nothing.
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

/// For a request to arrive, and for an answer to be taken.
const REQUEST_MAX: Duration = Duration::from_secs(2);
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time between two looks at whether to stop.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn main(common: &Common, arguments: &Arguments) -> Ended {
    if arguments.once {
        print(&metrics(MetricsDialect::OpenMetrics));
        return Ok(Ending::PASSED);
    }
    let listener = TcpListener::bind(arguments.listen)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .with_context(|| format!("cannot listen on {}", arguments.listen))
        .map_err(|error| Failure::from(error).next("give another --listen ADDRESS:PORT"))?;
    let stop = interrupted()?;
    // Under --json, stdout is for an error alone.
    let tell = if common.json { say } else { print };
    let address = listener.local_addr().unwrap_or(arguments.listen);
    tell(&format!("# Serving http://{address}/metrics\n"));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that goes away has what it wanted, or asks again.
            Ok((stream, _)) => drop(answer(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(TICK),
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                let message = format!("cannot go on waiting on {address}: {error}");
                return Err(Failure::new(Outcome::NotRun, message));
            }
        }
    }
    Ok(Ending::from(Outcome::Interrupted))
}

/// Whether an error of `accept` is about one connection only.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Reads one request and answers it.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(REQUEST_MAX))?;
    let head = request(&mut stream)?;
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = path.split('?').next().unwrap_or_default();
    let is_known = words
        .next()
        .is_some_and(|version| version.starts_with("HTTP/1."));
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        _ if !is_known => ("400 Bad Request", plain, "not HTTP/1\n".to_owned()),
        ("GET" | "HEAD", "/metrics") => {
            let wants = |line: &str| {
                let line = line.to_ascii_lowercase();
                line.starts_with("accept:") && line.contains("application/openmetrics-text")
            };
            let dialect = match head.lines().any(wants) {
                true => MetricsDialect::OpenMetrics,
                false => MetricsDialect::Text,
            };
            ("200 OK", dialect.content_type(), metrics(dialect))
        }
        ("GET" | "HEAD", "/") => ("200 OK", plain, "see /metrics\n".to_owned()),
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "see /metrics\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            plain,
            "only GET and HEAD\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// The head of a request, up to its empty line, by the deadline.
fn request(stream: &mut TcpStream) -> io::Result<String> {
    let until = Instant::now() + REQUEST_MAX;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// What the recorders of this node show now.
fn metrics(dialect: MetricsDialect) -> String {
    let mut recorders = Recorders::new(RecorderFilter::All);
    let mut events = Vec::new();
    let unreadable = usize::from(recorders.look(now_us() * 1000, &mut events).is_err());
    let mut state = RunState::default();
    state.names.nodes = recorders.nodes();
    events.iter().for_each(|event| state.apply(event));
    openmetrics(&state, unreadable, dialect)
}
