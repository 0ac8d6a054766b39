//! A run folder of logs of programs that drive the plugin themselves.

use super::fixture::gather;
use crate::compare::Measured;
use crate::html::html;
use crate::markdown::markdown;
use crate::short::short;
use crate::story::Story;
use crate::words::Language;
use crate::{learn, redacted};
use std::path::Path;
use tcpx_node::redact::Redactor;
use tcpx_run_model::record::{ADOPTED, RunFiles};

/// The log of one end of one GPU, which has ended.
fn ended(role: &str, ms: u32) -> String {
    let begin = format!(
        "[PERF] Mode: {role}\n[PERF] Iterations: 2\n[PERF] Iteration 0: total bytes=67108864, chunk_bytes=524288\n"
    );
    format!(
        "{begin}[PERF] Iter 0 time={}ms\n[PERF] Iteration 1: total bytes=67108864, chunk_bytes=524288\n\
         [PERF] Iter 1 time={ms}ms\n[PERF] Avg: {ms} ms, BW: 3.00 GB/s\n",
        ms * 2
    )
}

const STANDS: &str = "[SERVER] ===== Iteration 0 =====\n\
    [DEBUG] GPU 0 chunk 16 → channel 0 (window size=16/16)\n\
    [DEBUG] GPU 0 channel 0 window FULL, trying to release oldest...\n";

fn adopted(run: &Path, logs: &[(&str, &str)]) -> Story {
    std::fs::create_dir(run.join("logs")).expect("a folder");
    for (name, text) in [(ADOPTED, "{}"), ("events.jsonl", "")] {
        std::fs::write(run.join(name), text).expect("written");
    }
    for (name, text) in logs {
        std::fs::write(run.join("logs").join(name), text).expect("written");
    }
    gather(&RunFiles::open(run).expect("a run"))
}

fn texts(story: &Story, language: Language) -> [String; 3] {
    [
        short(story, language),
        markdown(story, false, language),
        html(story, false, language),
    ]
}

#[test]
fn the_verdict_on_a_program_is_the_headline_and_a_finding() {
    let run = tempfile::tempdir().expect("a folder");
    let story = adopted(run.path(), &[("server_gpu0.log", STANDS)]);
    for text in texts(&story, Language::English) {
        for part in [
            "WAITS",
            "window-full",
            "waits for a free slot",
            "progress_channel",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        for part in ["No findings", "No worker reported its results. "] {
            assert!(!text.contains(part), "{part} is in {text}");
        }
    }
    for text in texts(&story, Language::Chinese) {
        assert!(text.contains("等待（WAITS）"), "{text}");
        assert!(!text.contains("waits for a free slot"), "{text}");
    }
}

#[test]
fn what_is_not_known_of_adopted_logs_is_told_in_chinese() {
    let run = tempfile::tempdir().expect("a folder");
    let log = "node-a:71:88 [0] NCCL INFO Using network IB\nnode-b:71:88 [0] NCCL INFO Using network Socket\n";
    let story = adopted(run.path(), &[("job.log", log)]);
    for text in texts(&story, Language::Chinese) {
        for part in [
            "It is of programs",
            "Settings: ",
            "Not known: ",
            "The command line was not recorded.",
            "The nodes were not checked.",
            " over ",
        ] {
            assert!(!text.contains(part), "{part} is in {text}");
        }
        assert!(text.contains("；socket 在 node-b"), "{text}");
    }
}

#[test]
fn an_error_in_a_log_is_the_headline_and_a_finding() {
    let run = tempfile::tempdir().expect("a folder");
    let log =
        "node0:71:79 [0] misc/socket.cc:502 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n";
    let story = adopted(run.path(), &[("job.log", log)]);
    for text in texts(&story, Language::English) {
        assert!(text.contains("FAILED"), "{text}");
        for part in [
            "No findings",
            "Fingerprint",
            "No worker",
            "ADOPTED",
            "started 20",
        ] {
            assert!(!text.contains(part), "{part} is in {text}");
        }
    }
    let found = &story.findings[0];
    assert_eq!(
        Some(&found.condition),
        story.log.first().map(|line| &line.signature)
    );
    assert_eq!(story.reason.as_ref(), found.because.first());
}

#[test]
fn logs_of_no_known_plugin_are_titled_by_their_network() {
    let run = tempfile::tempdir().expect("a folder");
    let log = "node0:71:79 [3] NCCL INFO Using network IB\n";
    let story = adopted(run.path(), &[("job.log", log)]);
    let text = html(&story, false, Language::English);
    assert!(
        text.contains("adopted logs over InfiniBand or RoCE"),
        "{text}"
    );
    assert!(!text.contains("at an unknown time"), "{text}");
}

#[test]
fn the_plugin_that_a_log_names_is_the_run_s() {
    let run = tempfile::tempdir().expect("a folder");
    let log = "node0:71:79 [3] NCCL INFO NET/GPUDirectTCPX ver. 3.1.6.\n";
    let story = adopted(run.path(), &[("job.log", log)]);
    for text in texts(&story, Language::English) {
        assert!(
            text.contains("TCPX 3.1.6") && !text.contains("an unrecorded plugin"),
            "{text}"
        );
    }
}

#[test]
fn results_of_programs_are_in_reports_comparisons_and_the_history() {
    let all = tempfile::tempdir().expect("a folder");
    let run = all.path().join("20261120T101500Z-adopted");
    std::fs::create_dir(&run).expect("a folder");
    let (server, client) = (ended("SERVER", 20), ended("CLIENT", 40));
    let logs = [("server_gpu3.log", &*server), ("client_gpu3.log", &*client)];
    let story = adopted(&run, &logs);
    for text in texts(&story, Language::English) {
        for part in [
            "FINISHED",
            "2 results in the logs: 1.678 to 3.355 GB/s.",
            "median ms",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("No worker reported"), "{text}");
    }
    let measured = Measured::of_run(&story).expect("a result");
    let of = |name: &str| measured.metrics[name].median();
    assert!(of("rate server gpu 3").is_some_and(|rate| (rate - 3.355).abs() < 0.001));
    let history = crate::history::read(all.path()).expect("a history");
    let rates = |runs: &[crate::history::RunEntry]| -> Vec<String> {
        let rates = runs[0].rates.iter();
        rates
            .map(|one| format!("{} {:.3}", one.direction, one.median_gb_per_s))
            .collect()
    };
    let expected = ["rate client gpu 3 1.678", "rate server gpu 3 3.355"];
    assert_eq!(rates(&history.runs), expected);
    let again = crate::history::read(all.path()).expect("a history");
    assert_eq!(
        (rates(&again.runs), again.read),
        (expected.map(str::to_owned).into(), 0)
    );
}

#[test]
fn hosts_that_only_logs_name_do_not_leave() {
    let line = |host: &str, rest: &str| format!("[1,0]<stdout>:{host}:71:84 [0] {rest}\n");
    let up = "NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x6f - Init COMPLETE";
    let network = |name: &str| format!("NCCL INFO Using network {name}");
    let closed = "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer trainc<40122>";
    let first = line("traina", &network("AWS Libfabric")) + &line("traina", up);
    let second = line("trainb", &network("Socket")) + &line("trainb", up) + &line("trainb", closed);
    let run = tempfile::tempdir().expect("a folder");
    let story = adopted(run.path(), &[("a.log", &first), ("b.log", &second)]);
    assert_eq!(story.logged_hosts, ["traina", "trainb"]);
    let mut redactor = Redactor::default();
    learn(&story, &mut redactor);
    let story = redacted(story, &mut redactor);
    for text in texts(&story, Language::English) {
        for host in ["traina", "trainb", "trainc"] {
            assert!(!text.contains(host), "{host} is in {text}");
        }
    }
}
