//! What other tools print: nccl-tests as text and JSON, iperf3's JSON, neper's
//! `key=value` lines. All of it is a claim, and bounded.
#![forbid(unsafe_code)]

use super::measured::{Measured, Metric};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpx_node::redact::Redactor;
use tcpx_words::error::NextStep;

/// Bytes of a result file.
const FILE_MAX: u64 = 64 << 20;

/// Why a file holds no result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{} holds no result of nccl-tests, iperf3 or neper", path.display())]
    Unknown {
        /// Which.
        path: PathBuf,
    },
}

impl NextStep for ReadError {
    fn next_step(&self) -> Option<String> {
        Some(
            "name a run, a baseline, nccl-tests' table or -J file, iperf3 -J, or neper's output"
                .into(),
        )
    }
}

/// Reads a file of another tool; `redactor` learns the names in it, also those of
/// which a comparison shows nothing: the file may be called by them.
///
/// # Errors
/// It cannot be read, or no tool that is known wrote it.
pub fn read(path: &Path, redactor: Option<&mut Redactor>) -> Result<Measured, ReadError> {
    use std::io::Read;
    let failed = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes))
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    if let Some(redactor) = redactor {
        learn(&text, redactor);
    }
    let mut measured = recognised(&text).ok_or_else(|| ReadError::Unknown {
        path: path.to_owned(),
    })?;
    measured.name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    measured.source = path.display().to_string();
    Ok(measured)
}

/// The JSON of a tool that prints some, behind whatever a launcher printed before.
fn document(text: &str) -> Option<Value> {
    text.find('{')
        .and_then(|at| serde_json::from_str(text[at..].trim()).ok())
}

/// Machines are named under `host` and `hostname`, in iperf3's `uname -a`, and behind
/// the process in nccl-tests' lines of ranks.
pub(super) fn learn(text: &str, redactor: &mut Redactor) {
    if let Some(document) = document(text) {
        redactor.learn_value(&document);
        let system = document["start"]["system_info"]
            .as_str()
            .and_then(|uname| uname.split(' ').nth(1));
        system.into_iter().for_each(|name| redactor.host(name));
        return;
    }
    redactor.learn(text);
    for line in text.lines() {
        let of_rank = line
            .contains(" Pid ")
            .then(|| line.split_once(" on "))
            .flatten();
        let of_rank = of_rank.and_then(|(_, behind)| behind.split_whitespace().next());
        let of_key = line
            .split_once('=')
            .filter(|(key, _)| matches!(key.trim(), "host" | "hostname"));
        of_rank
            .into_iter()
            .chain(of_key.map(|(_, name)| name.trim()))
            .for_each(|name| redactor.host(name));
    }
}

pub(super) fn recognised(text: &str) -> Option<Measured> {
    let found = match document(text) {
        Some(document) => iperf3(&document).or_else(|| nccl_tests_json(&document)),
        None => nccl_tests_text(text).or_else(|| neper(text)),
    };
    found.filter(|measured| !measured.metrics.is_empty())
}

fn of(tool: &str) -> Measured {
    Measured {
        tool: tool.to_owned(),
        ..Measured::default()
    }
}

/// The received rate of every interval. Omitted ones do not count.
fn iperf3(document: &Value) -> Option<Measured> {
    let end = document.get("end")?;
    let mut measured = of("iperf3");
    let start = &document["start"]["test_start"];
    let setting = |key: &str| {
        start
            .get(key)
            .filter(|value| !value.is_null())
            .map(|value| (key.to_owned(), value.to_string()))
    };
    measured.settings = ["num_streams", "blksize", "duration", "reverse", "protocol"]
        .iter()
        .filter_map(|key| setting(key))
        .collect();
    let gigabytes = |sum: &Value| Some(sum["bits_per_second"].as_f64()? / 8e9);
    let intervals = document["intervals"].as_array().into_iter().flatten();
    let counted = intervals.filter(|interval| interval["sum"]["omitted"] != Value::Bool(true));
    let samples: Vec<f64> = counted
        .filter_map(|interval| gigabytes(&interval["sum"]))
        .collect();
    let whole = ["sum_received", "sum", "sum_sent"]
        .iter()
        .find_map(|key| gigabytes(&end[*key]));
    measured.metric(
        "rate",
        Metric::rate(if samples.is_empty() {
            whole.into_iter().collect()
        } else {
            samples
        }),
    );
    Some(measured)
}

/// `-J`: one entry per size, in and out of place.
fn nccl_tests_json(document: &Value) -> Option<Measured> {
    let results = document.get("results")?.as_array()?;
    let mut measured = of("nccl-tests");
    for key in ["config", "nccl_version", "version"] {
        if let Some(value) = document.get(key) {
            measured.settings.insert(key.to_owned(), value.to_string());
        }
    }
    let rates = results.iter().filter_map(|result| {
        let rate = |place: &str| result[place]["bus_bw"].as_f64();
        Some((
            result["size"].as_u64()?,
            rate("out_of_place").or_else(|| rate("in_place"))?,
        ))
    });
    sizes(
        &mut measured,
        rates.collect(),
        document["average_bus_bandwidth"]["bandwidth"].as_f64(),
    );
    Some(measured)
}

/// Its table: `size count type redop root time algbw busbw #wrong`, where some
/// collectives have no redop and root, and newer versions no `#`.
fn nccl_tests_text(text: &str) -> Option<Measured> {
    let mut measured = of("nccl-tests");
    let mut average = None;
    let mut rates = Vec::new();
    let mut command = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("# Avg bus bandwidth") {
            average = rest
                .trim_start_matches([' ', ':'])
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok());
        } else if let Some(name) = line.strip_prefix("# Collective test starting:") {
            command = Some(name.trim().to_owned());
        } else if !line.starts_with('#') {
            rates.extend(row(line));
        }
    }
    measured
        .settings
        .extend(command.map(|name| ("test".to_owned(), name)));
    (!rates.is_empty() || average.is_some()).then(|| {
        sizes(&mut measured, rates, average);
        measured
    })
}

/// The out-of-place bus bandwidth of one row: behind the type of the elements come
/// an operation and a root, or neither, then time, algbw and busbw.
fn row(line: &str) -> Option<(u64, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (size, count) = (
        words.first()?.parse::<u64>().ok()?,
        words.get(1)?.parse::<u64>().ok()?,
    );
    if words.len() < 6 || (count > size && size > 0) {
        return None;
    }
    let behind = words.get(3..)?;
    // Names of operations are words, roots are whole numbers (-1 for none).
    let figures = match behind.first()?.parse::<f64>() {
        Ok(_) => behind,
        Err(_) => behind.get(2..)?,
    };
    Some((size, figures.get(2)?.parse().ok()?))
}

fn sizes(measured: &mut Measured, rates: Vec<(u64, f64)>, average: Option<f64>) {
    let best = rates.iter().map(|rate| rate.1).reduce(f64::max);
    measured.metric("busbw", Metric::rate(best));
    measured.metric("average busbw", Metric::rate(average));
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    rates
        .into_iter()
        .for_each(|(size, rate)| by_size.entry(size).or_default().push(rate));
    for (size, rates) in by_size {
        measured.metric(
            format!("busbw at {}", tcpx_words::units::ByteCount(size)),
            Metric::rate(rates),
        );
    }
}

/// `throughput=…` in the units that another line names, or transactions.
fn neper(text: &str) -> Option<Measured> {
    let pairs: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let number = |key: &str| pairs.get(key)?.parse::<f64>().ok();
    if !pairs.contains_key("throughput") && !pairs.contains_key("num_transactions") {
        return None;
    }
    let mut measured = of("neper");
    let factor = match pairs.get("throughput_units").copied().unwrap_or("Mbit/s") {
        "Gbit/s" => 0.125,
        "Kbit/s" => 0.125e-6,
        "bit/s" => 0.125e-9,
        _ => 0.125e-3,
    };
    if let Some(rate) =
        number("throughput").or_else(|| number("local_throughput").map(|bits| bits / 1e6))
    {
        measured.metric("rate", Metric::rate([rate * factor]));
    }
    for (key, name) in [
        ("latency_p50", "round trip p50"),
        ("latency_p99", "round trip p99"),
    ] {
        if let Some(seconds) = number(key) {
            let us = Metric {
                unit: "µs".into(),
                better: super::Better::Lower,
                gates: true,
                samples: vec![seconds * 1e6],
            };
            measured.metric(name, us);
        }
    }
    let settings = [
        "num_flows",
        "num_threads",
        "test_length",
        "buffer_size",
        "request_size",
        "response_size",
    ];
    let setting = |key: &&str| Some(((*key).to_owned(), (*pairs.get(*key)?).to_owned()));
    measured.settings = settings.iter().filter_map(setting).collect();
    Some(measured)
}
