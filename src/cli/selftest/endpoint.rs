//! `tcpxctl selftest --endpoint MODULE[:CLASS]`: runs the conformance suite of Python endpoints with
//! the calls of `uccl.p2p`. Each row has two new processes, one that serves memory and one that
//! operates on it and judges; this one starts them, passes on what one says to the other, and
//! ends them.
//!
//! ```text
//! $ tcpxctl selftest --endpoint tcpxctl.p2p
//! # Endpoint : tcpxctl.p2p (python 3.11.7)
//! #  verdict        row                 detail
//!    PASS           read-done           17309804 bytes compared at the moment of done
//!    PASS           peer-killed         3 of 24 reads were done, the others failed
//! ```
//!
//! The rows are Python, in `endpoint/ranges.py` and `traffic.py`; `side.py` is what both processes share.
//! They are sent on stdin, so that the other node needs nothing but Python and the endpoint.
#![forbid(unsafe_code)]

mod process;

use super::words;
use super::{Arguments, Common, Ended, Ending, Failure, JunitFile, ListedRow, Row, outcome_of};
use crate::cli::output::{print, print_json};
use crate::cli::signals::interrupted;
use process::{Event, Pair, Side, Start};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use tcpx_engine::contract::ContractVerdict;
use tcpx_words::error::Outcome;

/// Names and requirements of the rows of `ranges.py`, in order.
const RANGES: [(&str, &str); 10] = [
    (
        "connect",
        "metadata leads to a connection, on both ends, and has one length",
    ),
    (
        "read-done",
        "when a read is done, every byte is in the reader's buffer",
    ),
    (
        "write-done",
        "when a write is done, every byte is in the peer's buffer",
    ),
    (
        "unaligned",
        "addresses and sizes may be odd, and no byte beside a range changes",
    ),
    (
        "inside",
        "a range in the middle of a registration is read and written at its own place",
    ),
    (
        "size-zero",
        "an operation of no bytes is refused or done, and changes nothing",
    ),
    (
        "over-4-gb",
        "a range of more than 4 GiB is moved whole or refused",
    ),
    (
        "wrong-address",
        "a blob that was changed or made up is refused, and no byte moves",
    ),
    (
        "past-the-end",
        "one byte more than was advertised is refused, and no byte moves",
    ),
    (
        "dereg-ends",
        "after dereg, the blobs of the registration are refused",
    ),
];
/// Those of `traffic.py`.
const TRAFFIC: [(&str, &str); 10] = [
    (
        "vectors",
        "every piece of a vector is moved to its own place",
    ),
    (
        "many-in-flight",
        "256 operations at once are each done, in whatever order they are polled",
    ),
    (
        "order",
        "a read that starts after a write was done sees its bytes",
    ),
    (
        "two-connections",
        "two connections at once do not mix their bytes",
    ),
    ("send-receive", "sends meet receives in order"),
    (
        "registration-reuse",
        "a range that is registered again, also with other bytes, is used",
    ),
    (
        "removal",
        "dereg during writes waits for them or fails them; then no byte changes any more",
    ),
    (
        "peer-killed",
        "operations fail, and are not done, when the peer's process is killed",
    ),
    ("descriptors", "connections that ended leave no descriptors"),
    ("notifications", "every notification arrives once, in order"),
];

pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    RANGES.into_iter().chain(TRAFFIC)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct EndpointDocument<'a> {
    schema: &'static str,
    /// Module and class.
    endpoint: &'a str,
    /// The interpreter and its version.
    python: &'a str,
    rows: &'a [Row],
}

/// What a process of a row says.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Message {
    /// For the other process.
    peer: Option<serde_json::Value>,
    /// The other process is to be killed.
    kill_peer: bool,
    verdict: Option<Said>,
    detail: String,
    /// Why the endpoint cannot be used at all.
    unusable: Option<String>,
    /// The version of Python, of a process without a row.
    ready: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Said {
    Pass,
    Fail,
    Skip,
}

pub(super) fn listed() -> impl Iterator<Item = ListedRow> {
    rows().map(|(id, promise)| ListedRow {
        id,
        promise,
        tcpx_only: false,
    })
}

pub(super) fn main(common: &Common, arguments: &Arguments, endpoint: &str) -> Ended {
    let is_name = |c: char| c.is_alphanumeric() || "_.:".contains(c);
    if endpoint.is_empty() || !endpoint.chars().all(is_name) {
        let message = format!("--endpoint: `{endpoint}` is no Python module");
        return Err(Failure::new(Outcome::Usage, message).next("give MODULE or MODULE:CLASS"));
    }
    let peer = arguments.nodes.peer_by_command()?;
    let patience = Duration::from_secs(arguments.timeout);
    let start = Start {
        python: &arguments.python,
        peer,
        endpoint,
        patience,
    };
    let flag = interrupted()?;
    let python = look(&start, &flag)?;
    let junit = match &arguments.junit {
        Some(path) => Some(JunitFile::create(path)?),
        None => None,
    };
    let wanted: Vec<_> = rows().filter(|(id, _)| arguments.wants(id)).collect();
    let width = wanted.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    if !common.json {
        print(&words::head_of_endpoint(endpoint, &python, width));
    }
    let mut results: Vec<Row> = Vec::new();
    for (id, promise) in wanted {
        let started = Instant::now();
        let result = run_row(&start, id, &flag)?;
        let row = Row::new(id.into(), promise, result, started.elapsed().as_secs_f64());
        if !common.json {
            print(&words::line(&row, width));
        }
        let is_over = row.verdict == ContractVerdict::Interrupted;
        results.push(row);
        if is_over {
            break;
        }
    }
    if common.json {
        print_json(&EndpointDocument {
            schema: "tcpxctl.selftest-endpoint/1",
            endpoint,
            python: &python,
            rows: &results,
        });
    } else {
        print(&words::sums(&results));
    }
    if let Some(junit) = junit {
        junit.write(&words::junit(endpoint, &results))?;
    }
    Ok(Ending::from(outcome_of(&results)))
}

/// Starts a process that makes an endpoint and says its version of Python.
fn look(start: &Start<'_>, flag: &AtomicBool) -> Result<String, Failure> {
    let mut pair = start.one()?;
    let until = Instant::now() + start.patience;
    loop {
        let words = match next(&pair, until, flag) {
            Next::Event(_, Event::Line(line)) => match serde_json::from_str::<Message>(&line) {
                Ok(Message {
                    ready: Some(version),
                    ..
                }) => return Ok(version),
                Ok(Message {
                    unusable: Some(why),
                    ..
                }) => why,
                _ => continue,
            },
            Next::Event(side, Event::End) => pair.end(side),
            Next::Late => format!("no endpoint was made within {} s", start.patience.as_secs()),
            Next::Interrupted => {
                return Err(Failure::new(
                    Outcome::Interrupted,
                    "interrupted by the user",
                ));
            }
        };
        let message = format!("no endpoint of {} can be made: {words}", start.endpoint);
        return Err(Failure::new(Outcome::NotRun, message).next(format!(
            "try `{} -c 'import {}'`; choose the interpreter with --python",
            start.python,
            start.endpoint.split(':').next().unwrap_or_default()
        )));
    }
}

enum Next {
    Event(Side, Event),
    Late,
    Interrupted,
}

fn next(pair: &Pair, until: Instant, flag: &AtomicBool) -> Next {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    loop {
        if flag.load(Ordering::Relaxed) {
            return Next::Interrupted;
        }
        let left = until.saturating_duration_since(Instant::now());
        match pair.events.recv_timeout(left.min(LOOK_EVERY)) {
            Ok((side, event)) => return Next::Event(side, event),
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => return Next::Late,
        }
    }
}

/// A row with so many bytes has more time.
const SLOW: &str = "over-4-gb";
const SLOW_FACTOR: u32 = 4;

fn run_row(
    start: &Start<'_>,
    id: &str,
    flag: &AtomicBool,
) -> Result<(ContractVerdict, String), Failure> {
    let allowed = start.patience * if id == SLOW { SLOW_FACTOR } else { 1 };
    let mut pair = start.both(id)?;
    let until = Instant::now() + allowed;
    let mut passed: [Option<String>; 2] = [None, None];
    let mut killed = None;
    loop {
        let (side, event) = match next(&pair, until, flag) {
            Next::Event(side, event) => (side, event),
            Next::Interrupted => return Ok(words::interrupted()),
            Next::Late => {
                let words = format!("not over within {} s", allowed.as_secs());
                return Ok((ContractVerdict::Fail, words));
            }
        };
        let line = match event {
            Event::End if killed == Some(side) => continue,
            Event::End => return Ok((ContractVerdict::Crashed, pair.end(side))),
            Event::Line(line) => line,
        };
        // What is no message was printed by the endpoint.
        let Ok(message) = serde_json::from_str::<Message>(&line) else {
            continue;
        };
        if let Some(words) = message.peer {
            pair.tell(side.other(), &words);
        }
        if message.kill_peer {
            pair.kill(side.other());
            killed = Some(side.other());
            passed[side.other() as usize] = Some(String::new());
        }
        if let Some(why) = message.unusable {
            return Ok((ContractVerdict::Fail, why));
        }
        match message.verdict {
            None => continue,
            Some(Said::Fail) => return Ok((ContractVerdict::Fail, message.detail)),
            Some(Said::Skip) => return Ok((ContractVerdict::NotSupported, message.detail)),
            Some(Said::Pass) => passed[side as usize] = Some(message.detail),
        }
        if let [Some(_), Some(detail)] = &passed {
            return Ok((ContractVerdict::Pass, detail.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_function_for_each_process() {
        let python = process::PROGRAM.concat();
        let defined = |name: &str| python.matches(&format!("\ndef {name}(side):")).count();
        for (id, _) in rows() {
            let name = id.replace('-', "_");
            for role in ["serve", "drive"] {
                assert_eq!(defined(&format!("{role}_{name}")), 1, "{role} {id}");
            }
        }
        let all = python.matches("\ndef serve_").count();
        assert_eq!(all, rows().count(), "a function without a row");
        assert!(python.is_ascii(), "its length is sent in characters");
    }
}
