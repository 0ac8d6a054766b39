//! The rule of comparisons, and the results of other tools.

use super::measured::{Better, Measured, Metric};
use super::others::{learn, read, recognised};
use super::statistics::{MetricVerdict, compare, mann_whitney_p, quartiles};
use super::{BaselineError, Baselines, profiles};
use proptest::prelude::*;

fn rates(name: &str, samples: &[f64]) -> Measured {
    let mut measured = Measured {
        name: name.into(),
        ..Measured::default()
    };
    measured.metric("rate", Metric::rate(samples.iter().copied()));
    measured
}

fn verdict(a: &[f64], b: &[f64], tolerance: f64) -> MetricVerdict {
    compare(vec![rates("a", a), rates("b", b)], tolerance).rows[0].verdict
}

#[test]
fn a_difference_must_be_beyond_the_tolerance_and_beyond_chance() {
    let steady = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 10.0];
    let scaled = |factor: f64| steady.map(|rate| rate * factor);
    assert_eq!(verdict(&steady, &scaled(0.8), 0.05), MetricVerdict::Worse);
    assert_eq!(verdict(&steady, &scaled(1.2), 0.05), MetricVerdict::Better);
    assert_eq!(verdict(&steady, &scaled(0.97), 0.05), MetricVerdict::Noise);
    let wild = [4.0, 16.0, 7.0, 13.0, 9.0, 11.0, 5.0, 15.0];
    assert_eq!(
        verdict(&steady, &wild.map(|rate| rate * 0.9), 0.05),
        MetricVerdict::Noise
    );
    // One figure each: the tolerance alone.
    assert_eq!(verdict(&[18.75], &[17.0], 0.05), MetricVerdict::Worse);
    assert_eq!(verdict(&[18.75], &[18.5], 0.05), MetricVerdict::Noise);
}

#[test]
fn a_metric_that_does_not_gate_is_no_regression_and_lower_can_be_better() {
    let result = |us: f64, gates: bool| {
        let mut measured = Measured::default();
        let metric = Metric {
            unit: "µs".into(),
            better: Better::Lower,
            gates,
            samples: vec![us],
        };
        measured.metric("first iteration", metric);
        measured
    };
    let compared = compare(vec![result(10.0, false), result(20.0, false)], 0.05);
    assert_eq!(
        (compared.rows[0].verdict, compared.regressions().count()),
        (MetricVerdict::Worse, 0)
    );
    assert_eq!(
        compare(vec![result(10.0, true), result(20.0, true)], 0.05)
            .regressions()
            .count(),
        1
    );
    assert_eq!(
        compare(vec![result(20.0, true), result(10.0, true)], 0.05).rows[0].verdict,
        MetricVerdict::Better
    );
}

#[test]
fn p_values_agree_with_published_tables() {
    // Exact values of the two-sided test: 2/70 and 2/252.
    let p = mann_whitney_p(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
    assert!((p - 0.0286).abs() < 0.004, "{p}");
    let p = mann_whitney_p(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
    assert!((p - 0.0079).abs() < 0.006, "{p}");
    assert_eq!(mann_whitney_p(&[3.0; 5], &[3.0; 5]), 1.0);
    assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some([3.0, 2.0, 4.0]));
}

const NCCL_TESTS: &str = "\
# nccl-tests version 2.17.6
# Collective test starting: all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1    812.4    1.29    2.42       0    810.0    1.29    2.43       0
  8589934592    2147483648     float     sum      -1   193420   44.41   83.27       0   193400   44.42   83.28       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 42.8453 
";

#[test]
fn results_of_other_tools_are_parsed() {
    let median = |measured: &Measured, name: &str| {
        quartiles(&measured.metrics[name].samples).map(|all| all[0])
    };
    let nccl = recognised("x.log", NCCL_TESTS).expect("nccl-tests");
    assert_eq!(
        (
            median(&nccl, "busbw"),
            median(&nccl, "average busbw"),
            median(&nccl, "busbw at 1MiB")
        ),
        (Some(83.27), Some(42.8453), Some(2.42))
    );
    let gather = recognised(
        "x.log",
        "  1024  16  float  35.1  0.03  0.027  0  35.0  0.03  0.027  0\n",
    )
    .expect("no redop");
    assert_eq!(median(&gather, "busbw"), Some(0.027));
    let json = r#"{"config":{"iterations":20},"results":[{"size":1024,"out_of_place":{"time":1,"alg_bw":2,"bus_bw":3.5,"nwrong":0},"in_place":{"bus_bw":4}}],"average_bus_bandwidth":{"bandwidth":3.5}}"#;
    assert_eq!(
        median(&recognised("x.log", json).expect("JSON"), "busbw at 1KiB"),
        Some(3.5)
    );
    let iperf = r#"{"start":{"test_start":{"num_streams":8}},"intervals":[{"sum":{"bits_per_second":8e9,"omitted":true}},{"sum":{"bits_per_second":16e9,"omitted":false}}],"end":{"sum_received":{"bits_per_second":15e9}}}"#;
    let iperf = recognised("x.log", iperf).expect("iperf3");
    assert_eq!(
        (
            median(&iperf, "rate"),
            iperf.settings["num_streams"].as_str()
        ),
        (Some(2.0), "8")
    );
    let neper = recognised(
        "x.log",
        "num_flows=4\nthroughput=193550.00\nthroughput_units=Mbit/s\n",
    )
    .expect("neper");
    assert!((median(&neper, "rate").unwrap() - 24.19375).abs() < 1e-9);
    assert!(
        recognised("x.log", "nothing of the kind").is_none() && recognised("x.log", "{}").is_none()
    );
}

#[test]
fn logs_of_the_harness_and_of_benchmarks_are_results() {
    let samples = |measured: &Measured, name: &str| measured.metrics[name].samples.clone();
    let iteration = |k: u32, ms: f64| {
        format!(
            "[PERF] Iteration {k}: total bytes=64000000, chunk_bytes=524288\n[PERF] Iter {k} time={ms} ms\n"
        )
    };
    let log = |role: &str, rest: &str| format!("[PERF] Mode: {role}\n[PERF] Iterations: 3\n{rest}");
    let good = [iteration(0, 1000.0), iteration(1, 20.0), iteration(2, 40.0)].concat();
    let server = recognised("x.log", &log("SERVER", &good)).expect("rates");
    assert_eq!(
        (
            server.tool.as_str(),
            samples(&server, "rate"),
            samples(&server, "first iteration")
        ),
        ("harness", vec![3.2, 1.6], vec![1_000_000.0])
    );
    assert!(!server.metrics["first iteration"].gates);
    let refused = "[ERROR] tcpx_irecv failed: rc=3 chunk=16 channel=0\n";
    let false_rate = format!("{refused}{}", iteration(0, 3.0));
    assert!(recognised("x.log", &log("SERVER", &false_rate)).is_none());
    let uccl = "[Client]    256 B :   0.10 Gbps |   0.01 GB/s  | 0.000020 s\n[Client]  64.0 MB :  22.41 Gbps |   2.80 GB/s  | 0.023957 s\n";
    assert_eq!(
        samples(&recognised("x.log", uccl).expect("UCCL"), "rate at 64MiB"),
        [2.8]
    );
    let nixl = "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)  Avg Prep (us)  P99 Prep (us)\n\
        4096                1              0.812          5.0            1.2            2.0\n";
    assert_eq!(
        samples(&recognised("x.log", nixl).expect("nixlbench"), "rate"),
        [0.812]
    );
}

/// The redacted comparison of a file that is named after a machine.
fn shown(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a3-node7-10.0.1.25.txt");
    std::fs::write(&path, text).expect("written");
    let mut redactor = tcpx_node::redact::Redactor::default();
    let measured = read(&path, Some(&mut redactor)).expect("a result");
    let compared = compare(vec![measured, rates("b", &[1.0])], 0.05).redacted(&mut redactor);
    serde_json::to_string(&compared).expect("JSON")
}

#[test]
fn names_in_files_of_other_tools_are_redacted() {
    let iperf = r#"{"start":{"connecting_to":{"host":"10.0.1.25"},"system_info":"Linux a3-node7 6.6","test_start":{"num_streams":8}},"intervals":[],"end":{"sum_received":{"bits_per_second":15e9}}}"#;
    let nccl = r#"{"config":{"nranks":2,"peers":{"hostname":"a3-node7","address":"10.0.1.25"}},"results":[{"size":1024,"out_of_place":{"bus_bw":3.5}}]}"#;
    let table = format!(
        "#  Rank  0 Group  0 Pid   4242 on   a3-node7 device  0 [0x04] NVIDIA H100\n{NCCL_TESTS}"
    );
    let neper = "host=a3-node7\nthroughput=193550.00\nbuffer_size=65536\n";
    for text in [iperf, nccl, &table, neper] {
        let shown = shown(text);
        assert!(
            !shown.contains("a3-node7") && !shown.contains("10.0.1.25"),
            "{shown}"
        );
        assert!(shown.contains("node0-198.18."), "{shown}");
    }
}

#[test]
fn a_secret_that_differs_is_still_listed_after_redaction() {
    let with = |value: &str| {
        let settings = [
            ("API_TOKEN of peer", value),
            ("NCCL_SOCKET_IFNAME of peer", "eth0"),
        ];
        let settings = settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Measured {
            settings,
            ..rates("a", &[1.0])
        }
    };
    let compared = compare(vec![with("hunter2"), with("hunter3")], 0.05);
    let compared = compared.redacted(&mut tcpx_node::redact::Redactor::default());
    let same = Some("SECRET".to_owned());
    assert_eq!(
        compared.settings,
        [("API_TOKEN of peer".to_owned(), vec![same.clone(), same])]
    );
    assert!(
        compared
            .results
            .iter()
            .all(|one| one.settings["NCCL_SOCKET_IFNAME of peer"] == "eth0")
    );
}

#[test]
fn profiles_have_a_source_and_a_date_and_cannot_be_replaced() {
    assert_eq!(profiles().len(), 4);
    for profile in profiles() {
        assert!(
            profile.gb_per_s > 0.0
                && !profile.source.is_empty()
                && profile.date.parse::<jiff::civil::Date>().is_ok(),
            "{profile:?}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let baselines = Baselines::at(folder.path().join("b"));
    assert!(matches!(
        baselines.save("chs-60", &rates("a", &[1.0])),
        Err(BaselineError::Shipped(_))
    ));
    assert!(matches!(
        baselines.save("../x", &rates("a", &[1.0])),
        Err(BaselineError::Name(_))
    ));
    assert!(matches!(
        baselines.load("mine"),
        Err(BaselineError::Nothing { .. })
    ));
    baselines.save("mine", &rates("a", &[1.0])).expect("saved");
    assert_eq!(
        baselines.load("mine").expect("there").metrics["rate"].samples,
        [1.0]
    );
    assert_eq!(baselines.list().len(), 5);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}", table in "[0-9 a-z.#\\n-]{0,200}") {
        let mut redactor = tcpx_node::redact::Redactor::default();
        [&text, &table].into_iter().for_each(|text| learn(text, &mut redactor));
        let _ = (recognised("x.log", &text), recognised("x.log", &table), recognised("x.log", &format!("{{\"results\":[{{\"size\":{}}}]}}", text.len())));
    }

    #[test]
    fn p_is_a_probability(a in prop::collection::vec(0.0f64..10.0, 1..30), b in prop::collection::vec(0.0f64..10.0, 1..30)) {
        let p = mann_whitney_p(&a, &b);
        prop_assert!((0.0..=1.0001).contains(&p), "{p}");
    }
}

#[test]
fn the_hosts_of_an_nccl_test_are_known() {
    let table = format!(
        "#  Rank  0 Group  0 Pid   6899 on a3-0 device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n\
         #  Rank  1 Group  0 Pid   6733 on a3-1 device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n\
         #  Rank  2 Group  0 Pid   6734 on a3-1 device  1 [0000:05:00] NVIDIA H100 80GB HBM3\n{NCCL_TESTS}"
    );
    assert_eq!(
        recognised("x.log", &table).expect("nccl-tests").nodes,
        ["a3-0", "a3-1"]
    );
}

#[test]
fn the_results_and_the_labels_of_the_health_scanner_are_rates_of_nodes() {
    let results = r#"{"id": "x", "healthResults": [{"name": "random_pair", "healthResults": [
        {"id": "a3-0", "status": "PASS", "ncclHealthResult": [{"benchmark": "all_reduce", "averageBandwidthGbps": 61.5}]},
        {"id": "a3-1", "status": "FAIL", "ncclHealthResult": [{"benchmark": "all_reduce", "averageBandwidthGbps": 20.25}]},
        {"id": "a3-2", "status": "SKIP"}]}]}"#;
    let snake = results
        .replace("healthResults", "health_results")
        .replace("ncclHealthResult", "nccl_health_result")
        .replace("averageBandwidthGbps", "average_bandwidth_gbps");
    let labels = r#"{"kind": "List", "items": [
        {"metadata": {"name": "a3-0", "labels": {"aiinfra/nccl-healthcheck-bandwidth": "61.5", "aiinfra/nccl-healthcheck-result": "pass"}}},
        {"metadata": {"name": "a3-1", "labels": {"aiinfra/nccl-healthcheck-bandwidth": "20.25", "aiinfra/nccl-healthcheck-result": "fail"}}},
        {"metadata": {"name": "a3-2", "labels": {"aiinfra/nccl-healthcheck-bandwidth": "None"}}}]}"#;
    for text in [results, &snake, labels] {
        let measured = recognised("x.json", text).expect("cluster-health-scanner");
        assert_eq!(measured.tool, "cluster-health-scanner");
        let rates: Vec<(&str, f64)> = measured
            .by_node
            .iter()
            .map(|(node, rate)| (node.as_str(), *rate))
            .collect();
        assert_eq!(rates, [("a3-0", 61.5), ("a3-1", 20.25)]);
        assert_eq!(measured.settings["failed nodes"], "1");
        assert_eq!(measured.metrics["busbw"].samples, [61.5, 20.25]);
    }
    for none in [
        r#"{"items": []}"#,
        r#"{"items": [{"metadata": 7}]}"#,
        r#"{"healthResults": [7, {"healthResults": [7]}]}"#,
    ] {
        assert!(recognised("x.json", none).is_none(), "{none}");
    }
}
