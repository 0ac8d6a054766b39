//! Results of other tools: the text and JSON of nccl-tests, the JSON of iperf3, the `key=value`
//! lines of neper, the results and node labels of cluster-health-scanner, and logs of the programs
//! of `harness`. The files are untrusted, and their size is bounded.
#![forbid(unsafe_code)]

use super::harness;
use super::measured::{Measured, Metric};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpx_node::redact::Redactor;
use tcpx_words::error::NextStep;

/// Maximum size of a result file.
const FILE_MAX: u64 = 64 << 20;

/// Why a file cannot be read as a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not the output of a known tool.
    #[error("{} holds no result of nccl-tests, iperf3, neper, cluster-health-scanner, the P2P harness, UCCL or nixlbench", path.display())]
    Unknown {
        /// Path of the file.
        path: PathBuf,
    },
}

impl NextStep for ReadError {
    fn next_step(&self) -> Option<String> {
        Some(
            "name a run, a baseline, the output of nccl-tests (table or -J), iperf3 -J or neper, the results of cluster-health-scanner or the labels that it sets (`kubectl get nodes -o json`), or a log with rates: \
             `tcpxctl logs FILE` shows which rates it has"
                .into(),
        )
    }
}

/// Reads the result file of another tool. `redactor` learns every name in the file, even if the
/// comparison does not show it, because the file itself may be named after a machine.
///
/// # Errors
/// The file cannot be read, or is not the output of a known tool.
pub fn read(path: &Path, redactor: Option<&mut Redactor>) -> Result<Measured, ReadError> {
    use std::io::Read;
    let failed = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    tcpx_words::input::open(path)
        .and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes))
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    if let Some(redactor) = redactor {
        learn(&text, redactor);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut measured = recognised(&name, &text).ok_or_else(|| ReadError::Unknown {
        path: path.to_owned(),
    })?;
    measured.name = name.into_owned();
    measured.source = path.display().to_string();
    Ok(measured)
}

/// The JSON document in a tool's output, after any lines that a launcher printed.
fn document(text: &str) -> Option<Value> {
    text.find('{')
        .and_then(|at| serde_json::from_str(text[at..].trim()).ok())
}

/// Teaches the redactor the machine names in a file: the values of `host` and `hostname`, the
/// `uname -a` of iperf3, and the rank lines of nccl-tests.
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
        let of_rank = host_of_rank(line);
        let of_key = line
            .split_once('=')
            .filter(|(key, _)| matches!(key.trim(), "host" | "hostname"));
        of_rank
            .into_iter()
            .chain(of_key.map(|(_, name)| name.trim()))
            .for_each(|name| redactor.host(name));
    }
}

/// The host in `#  Rank  0 Group  0 Pid 6899 on a3-0 device  0 [0000:04:00] NVIDIA H100`.
fn host_of_rank(line: &str) -> Option<&str> {
    let (_, behind) = line.contains(" Pid ").then(|| line.split_once(" on "))??;
    behind.split_whitespace().next()
}

/// `name` is the file's.
pub(super) fn recognised(name: &str, text: &str) -> Option<Measured> {
    let has_metrics = |measured: &Measured| !measured.metrics.is_empty();
    let found = match document(text) {
        Some(document) => iperf3(&document)
            .or_else(|| nccl_tests_json(&document))
            .or_else(|| health_scanner(&document))
            .or_else(|| node_labels(&document)),
        // A row of nixlbench looks like a row of nccl-tests.
        None => harness::read(name, text)
            .filter(has_metrics)
            .or_else(|| nccl_tests_text(text))
            .or_else(|| neper(text)),
    };
    found.filter(has_metrics)
}

fn empty_result(tool: &str) -> Measured {
    Measured {
        tool: tool.to_owned(),
        ..Measured::default()
    }
}

/// The received rate of each interval that iperf3 did not mark as omitted.
fn iperf3(document: &Value) -> Option<Measured> {
    let end = document.get("end")?;
    let mut measured = empty_result("iperf3");
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

/// The output of `-J`: one entry for each size, in place and out of place.
fn nccl_tests_json(document: &Value) -> Option<Measured> {
    let results = document.get("results")?.as_array()?;
    let mut measured = empty_result("nccl-tests");
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

/// The table `size count type redop root time algbw busbw #wrong`. Some collectives have no
/// redop and root, and newer versions no `#`.
fn nccl_tests_text(text: &str) -> Option<Measured> {
    let mut measured = empty_result("nccl-tests");
    let mut average = None;
    let mut rates = Vec::new();
    let mut command = None;
    for line in text.lines().map(str::trim) {
        if let Some(host) = host_of_rank(line)
            && !measured.nodes.iter().any(|node| node == host)
        {
            measured.nodes.push(host.to_owned());
        }
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

/// The results that cluster-health-scanner's health runner writes: protocol buffers as JSON, with
/// the names of the fields in either spelling. Each node has the average bandwidth of its test.
fn health_scanner(document: &Value) -> Option<Measured> {
    let get = |value: &Value, snake: &str, camel: &str| {
        let known = value.get(snake).or_else(|| value.get(camel));
        known.cloned().unwrap_or(Value::Null)
    };
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    let results = list(get(document, "health_results", "healthResults"));
    let mut measured = empty_result("cluster-health-scanner");
    let mut failed = 0;
    let objects = results
        .iter()
        .flat_map(|one| list(get(one, "health_results", "healthResults")));
    for object in objects {
        failed += usize::from(matches!(object["status"].as_str(), Some("FAIL")));
        let Some(id) = object["id"].as_str() else {
            continue;
        };
        for nccl in list(get(&object, "nccl_health_result", "ncclHealthResult")) {
            let average = get(&nccl, "average_bandwidth_gbps", "averageBandwidthGbps");
            // Its "Gbps" are 10^9 bytes per second: they are compared with nccl-tests' bus
            // bandwidth.
            if let Some(rate) = average.as_f64().filter(|rate| *rate > 0.0) {
                measured.by_node.insert(id.to_owned(), rate);
            }
        }
    }
    by_node(measured, failed)
}

/// The results that cluster-health-scanner leaves as labels of the nodes, in the output of
/// `kubectl get nodes -o json`.
fn node_labels(document: &Value) -> Option<Measured> {
    let mut measured = empty_result("cluster-health-scanner");
    let mut failed = 0;
    for node in document.get("items")?.as_array()? {
        let meta = &node["metadata"];
        let label = |name: &str| meta["labels"][name].as_str();
        failed += usize::from(label("aiinfra/nccl-healthcheck-result") == Some("fail"));
        let rate = label("aiinfra/nccl-healthcheck-bandwidth");
        let rate = rate.and_then(|text| text.trim_end_matches("GBps").trim().parse::<f64>().ok());
        if let (Some(name), Some(rate)) = (meta["name"].as_str(), rate)
            && rate.is_finite()
            && rate > 0.0
        {
            measured.by_node.insert(name.to_owned(), rate);
        }
    }
    by_node(measured, failed)
}

/// A result of nodes: each is a sample of the bus bandwidth.
fn by_node(mut measured: Measured, failed: usize) -> Option<Measured> {
    if measured.by_node.is_empty() {
        return None;
    }
    let rates: Vec<f64> = measured.by_node.values().copied().collect();
    measured.metric("busbw", Metric::rate(rates));
    measured
        .settings
        .insert("failed nodes".to_owned(), failed.to_string());
    Some(measured)
}

/// Size and out-of-place bus bandwidth of one row. After the element type come the operation and
/// root, or neither, then time, algbw and busbw.
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
    // The operation is a word, so a number here is already the time.
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

/// `throughput=…` in the unit of the line `throughput_units`, or the latency of transactions.
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
    let mut measured = empty_result("neper");
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
