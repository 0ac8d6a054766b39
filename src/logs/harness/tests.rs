//! Whole logs of programs with their own window, and the bounds of what is kept of them.

use super::*;
use crate::{LogFilter, LogReader, LogReport, SignatureCatalogue};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static CATALOGUE: LazyLock<SignatureCatalogue> =
    LazyLock::new(|| SignatureCatalogue::embedded().unwrap());

fn read<'a>(logs: impl IntoIterator<Item = (&'a str, &'a str)>) -> LogReport {
    let filter = LogFilter::default();
    let mut reader = LogReader::new(&CATALOGUE, &filter);
    for (name, text) in logs {
        reader.source(name, text.as_bytes(), text.as_bytes());
    }
    reader.report()
}

fn harness(text: &str) -> HarnessReport {
    read([("x.log", text)]).harness.expect("a program")
}

#[derive(serde::Deserialize)]
struct GoldenCases {
    case: Vec<GoldenCase>,
}

#[derive(serde::Deserialize)]
struct GoldenCase {
    name: String,
    condition: String,
    state: String,
    turn: Option<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    omits: Vec<String>,
    /// Why a result is wrong.
    wrong: Option<String>,
    logs: BTreeMap<String, String>,
}

/// `@50 TEXT` as 50 lines.
fn expanded(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((count, text)) => format!("{text}\n").repeat(count.parse().unwrap()),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn verdicts_and_their_next_steps_have_chinese() {
    let cases: GoldenCases = toml::from_str(include_str!("golden.toml")).unwrap();
    let mut missing = std::collections::BTreeSet::new();
    for case in cases.case {
        let logs = case.logs.iter().map(|(name, text)| (name, expanded(text)));
        let logs: Vec<_> = logs.collect();
        let report = read(
            logs.iter()
                .map(|(name, text)| (name.as_str(), text.as_str())),
        );
        for verdict in report.harness.expect("a program").verdicts {
            let said = verdict.next_steps.iter().chain([&verdict.summary]);
            let is_english = |text: &&String| {
                let chinese = tcpx_run_model::chinese::chinese(text);
                // A sentence of several has a translation if one of them has.
                chinese.is_none_or(|chinese| chinese.contains("the "))
            };
            missing.extend(said.filter(is_english).cloned());
        }
    }
    assert!(missing.is_empty(), "add to chinese-logs.toml: {missing:#?}");
}

#[test]
fn each_way_to_be_stuck_has_its_verdict() {
    let cases: GoldenCases = toml::from_str(include_str!("golden.toml")).unwrap();
    for case in cases.case {
        let logs: Vec<(&str, String)> = case
            .logs
            .iter()
            .map(|(name, text)| (name.as_str(), expanded(text)))
            .collect();
        let report = read(logs.iter().map(|(name, text)| (*name, text.as_str())));
        let harness = report
            .harness
            .unwrap_or_else(|| panic!("{}: no program", case.name));
        let verdict = &harness.verdicts[0];
        let of = |verdict: &HarnessVerdict| {
            (
                verdict.condition.to_string(),
                verdict.state.name().to_owned(),
                verdict.turn.map(|role| role.name().to_owned()),
            )
        };
        assert_eq!(
            of(verdict),
            (case.condition, case.state, case.turn),
            "{}: {verdict:#?}",
            case.name
        );
        let parts = [&verdict.because, &verdict.next_steps, &verdict.cannot_tell]
            .map(|part| part.join("\n"));
        let all = format!("{}\n{}", verdict.summary, parts.join("\n"));
        for words in &case.says {
            assert!(all.contains(words), "{}: {words:?} in\n{all}", case.name);
        }
        for words in &case.omits {
            assert!(!all.contains(words), "{}: {words:?} in\n{all}", case.name);
        }
        let wrong = harness.results.iter().find_map(|one| one.wrong.as_deref());
        assert_eq!(wrong, case.wrong.as_deref(), "{}", case.name);
    }
}

#[test]
fn rates_are_computed_from_bytes_and_times_without_the_first_iteration() {
    let text = "[PERF] Mode: SERVER\n[PERF] GPU: 3\n[PERF] Iterations: 3\n\
        [PERF] Iteration 0: total bytes=64000000, chunk_bytes=524288\n[PERF] Iter 0 time=1000.0 ms\n\
        [PERF] Iter 1 time=20.0 ms\n[PERF] Iter 1 time=20.0 ms\n[PERF] Iter 2 time=40.0 ms\n\
        [PERF] Avg (3 iter): 353.3 ms, BW: 0.17 GB/s\n";
    let report = harness(text);
    let result = &report.results[0];
    assert_eq!(
        (result.role, result.gpu, result.bytes),
        (Some(HarnessRole::Server), Some(3), Some(64_000_000))
    );
    assert_eq!(
        (result.iterations, result.wanted, result.first_ms),
        (3, Some(3), Some(1000.0))
    );
    assert_eq!(result.samples_gb_per_s, [0.064, 3.2, 1.6]);
    assert_eq!(
        (
            result.gb_per_s.map(|rate| (rate * 1e6).round()),
            result.printed
        ),
        (Some(2_400_000.0), Some(0.17))
    );
}

#[test]
fn a_healthy_pair_has_no_finding_and_its_times_show_who_is_silent() {
    let text = "2026-11-20T08:14:04Z [SERVER] ===== Iteration 0 =====\n2026-11-20T08:15:04Z [CLIENT] ===== Iteration 0 =====\n";
    let report = read([("x.log", text)]);
    assert!(report.findings.is_empty());
    let silent: Vec<Option<f64>> = report
        .harness
        .unwrap()
        .programs
        .iter()
        .map(|one| one.silent_seconds)
        .collect();
    assert_eq!(silent, [Some(60.0), Some(0.0)]);
}

#[test]
fn tags_of_other_programs_are_no_program_and_a_log_without_one_has_no_harness() {
    assert!(
        read([("x.log", "[SERVER] ready\n[CLIENT] GET /\n[DEBUG] x\n")])
            .harness
            .is_none()
    );
    assert!(read([("x.log", "nothing\n")]).harness.is_none());
    let other = "node-a 4 GPUs, 8 MiB\n✓ Test completed successfully\nPerformance Notes:\n";
    assert!(read([("x.log", other)]).harness.is_none());
}

#[test]
fn joined_logs_of_several_gpus_have_a_program_and_results_for_each() {
    let log = |role: &str, gpu: u32, ms: u32| {
        format!(
            "[PERF] GPU ID: {gpu}\n[PERF] Mode: {role}\n[PERF] GPU: {gpu}\n[PERF] Iterations: 2\n\
             [PERF] Iteration 0: total bytes=64000000, chunk_bytes=524288\n[PERF] Iter 0 time={ms}.0ms\n\
             [PERF] Iter 1 time={ms}.0ms\n[PERF] Avg: {ms}.0 ms, BW: 2.9 GB/s\n"
        )
    };
    let all = |role| (0..8).map(move |gpu| log(role, gpu, 20 + gpu));
    let servers: String = all("SERVER").collect();
    let joined: String = all("SERVER").chain(all("CLIENT")).collect();
    let pairs: Vec<String> = all("SERVER")
        .zip(all("CLIENT"))
        .map(|(a, b)| a + &b)
        .collect();
    for (text, roles) in [(servers, 1), (joined, 2), (pairs.concat(), 2)] {
        let report = harness(&text);
        let rows = report.results.iter();
        let rows: Vec<_> = rows.map(|one| (one.gpu, one.role, one.first_ms)).collect();
        assert_eq!(
            (report.programs.len(), rows.len()),
            (8 * roles, 8 * roles),
            "{rows:?}"
        );
        for (gpu, role, ms) in rows {
            assert_eq!(ms, gpu.map(|gpu| f64::from(20 + gpu)), "{role:?}");
        }
        assert!(
            report
                .verdicts
                .iter()
                .all(|one| one.condition == "finished")
        );
    }
}

#[test]
fn a_program_is_silent_while_other_lines_of_its_file_go_on() {
    let text = "2026-11-20T12:00:00Z [DEBUG][SlidingWindow] tcpx_test: chunk_idx=0 rc=0 done=0 size=0 is_recv=1\n\
        2026-11-20T12:06:41Z node0:71:79 [0] NCCL INFO NET/GPUDirectTCPX : nsocks per thread -2 invalid, restore to default.\n";
    let report = harness(text);
    assert_eq!(report.programs[0].silent_seconds, Some(401.0));
    let because = &report.verdicts[0].because;
    let silence = "server: it says nothing in the last 401 s, and other lines go on";
    assert!(because.iter().any(|fact| fact == silence), "{because:?}");
}

#[test]
fn what_a_verdict_rests_on_is_not_harmless() {
    let text = "[PERF] Mode: SERVER\n[PERF] Iteration 1: total bytes=4194304, chunk_bytes=524288\n\
        [WARN] Connection closed by peer while chunk 7 on channel 0 still in progress (done=0, will retry)\n";
    let report = read([("x.log", text)]);
    assert_eq!(
        report.harness.expect("a program").verdicts[0].condition,
        "peer-closed"
    );
    assert!(report.benign.is_empty());
}

#[test]
fn ends_of_several_gpus_are_paired_by_the_gpu_in_the_file_name() {
    let server = "[PERF] Mode: SERVER\n[Bootstrap] Server listening on port 20000\n";
    let client = "[PERF] Mode: CLIENT\n[Bootstrap] Connecting to 10.0.1.25:20000\n";
    let logs = [
        ("a_gpu0.log", server),
        ("b_gpu0.log", client),
        ("a_gpu1.log", server),
        ("c_gpu2.log", client),
    ];
    let harness = read(logs).harness.unwrap();
    let pairs: Vec<&[usize]> = harness
        .verdicts
        .iter()
        .map(|one| &one.programs[..])
        .collect();
    assert_eq!(pairs, [&[0, 1][..], &[2], &[3]]);
}

#[test]
fn a_log_of_many_blocks_and_threads_is_read_in_order() {
    let mut text = String::from("[SERVER] ===== Iteration 0 =====\n");
    for chunk in 0..40_000 {
        text += &format!(
            "[DEBUG] GPU 0 chunk {chunk} → channel {} (window size={}/16)\n",
            chunk % 4,
            chunk % 16
        );
        text +=
            &format!("[DEBUG] GPU 0 chunk {chunk} calling tcpx_irecv (size=524288, tag=1)...\n");
        text += &format!("[DEBUG] GPU 0 chunk {chunk} tcpx_irecv returned, request=0x1\n");
    }
    text += "[SERVER] All receives posted, starting drain phase\n";
    let report = harness(&text);
    let program = &report.programs[0];
    assert_eq!(
        (program.posted, &*program.phase, program.last.line),
        (40_000, "drain", 120_002)
    );
    let posted: Vec<u64> = program.channels.iter().map(|one| one.posted).collect();
    assert_eq!(posted, [10_000; 4]);
}

fn is_bounded(harness: &Harness) -> bool {
    let of_program = |program: &Program| {
        program.channels.len() <= 128
            && program.results.all.len() <= 64
            && program
                .results
                .all
                .iter()
                .map(|one| one.ms.len())
                .sum::<usize>()
                <= 1024
            && program.last.text.len() <= KEPT_BYTES
    };
    harness.processes.len() <= PROCESSES_MAX
        && harness.programs().all(|(.., program)| of_program(&program))
}

#[test]
fn what_is_kept_does_not_grow_with_the_log() {
    let mut harness = Harness::default();
    for round in 0..2000_u32 {
        let mut block = BlockLines::default();
        let lines = [
            format!(
                "[PERF] Mode: {}",
                if round % 2 == 0 { "SERVER" } else { "CLIENT" }
            ),
            format!(
                "[DEBUG] GPU {} chunk 1 → channel {round} (window size=1/16) {}",
                round % 9,
                "x".repeat(2000)
            ),
            format!("[PERF] Iter {round} time={round}.5 ms"),
            format!("[Client]  {round}.0 MB :  22.41 Gbps |   2.80 GB/s  | 0.02 s"),
        ];
        for (number, line) in lines.iter().enumerate() {
            let reading = HarnessReading::of(line.as_bytes()).expect("a line of a program");
            block.hear(
                number as u32,
                Some(round % 700),
                None,
                reading,
                line.as_bytes(),
            );
        }
        harness.take(round % 3, 0, &block);
    }
    assert!(is_bounded(&harness) && harness.left_out > 0);
}

#[test]
fn ends_beyond_the_limit_are_counted() {
    let log: String = (0..40)
        .map(|gpu| {
            format!(
                "[PERF] GPU ID: {gpu}\n[PERF] Mode: SERVER\n[PERF] Iterations: 1\n[PERF] Iter 0 time=20.0ms\n\
                 [PERF] Avg: 20.0 ms, BW: 2.9 GB/s\n"
            )
        })
        .collect();
    let report = read([("x.log", log.as_str())]);
    let told = report.harness.expect("programs").programs.len();
    let problem = format!(
        "{} runs of more ends of one file than are followed were left out",
        40 - told
    );
    assert!(
        told > 32 && report.problems[0].problem == problem,
        "{:?}",
        report.problems
    );
}

/// Lines of every kind, with any numbers.
fn any_line() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(CATALOGUE.signatures().to_vec());
    let known = (kinds, any::<u16>(), 0..40_usize).prop_map(|(signature, number, cut)| {
        let line: String = signature.example.replace("16", &number.to_string());
        line.chars().skip(cut % 7).collect()
    });
    prop_oneof![9 => known, 1 => "\\PC{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_lines_of_any_programs_have_a_report(lines in prop::collection::vec(any_line(), 0..120)) {
        let text = lines.join("\n");
        let report = read([("a.log", text.as_str()), ("b.log", &text)]);
        for harness in report.harness.iter() {
            prop_assert!(!harness.programs.is_empty());
            for verdict in &harness.verdicts {
                prop_assert!(verdict.programs.iter().all(|index| *index < harness.programs.len()));
                prop_assert!(!verdict.summary.is_empty());
            }
            prop_assert!(harness.results.iter().all(|one| one.program < harness.programs.len()));
            let document = serde_json::to_string(harness).unwrap();
            prop_assert!(!document.contains(char::is_control));
        }
    }
}

#[test]
fn a_table_of_nixlbench_is_read_across_blocks() {
    let head = "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)\n";
    let filler = "node0:71:71 [0] NCCL INFO an ordinary line of a job\n";
    let rows: String = (0..40)
        .map(|power| {
            format!(
                "{}                1              0.5            5.0\n",
                64 + power
            )
        })
        .collect();
    // Whatever the offset, every row counts, wherever the block ends.
    for before in (0..3000).step_by(271) {
        let fill = filler.repeat((crate::blocks::BLOCK - before) / filler.len());
        let report = harness(&format!("{fill}{head}{rows}{filler}"));
        assert_eq!(report.results.len(), 40, "{before}");
        assert_eq!(
            report.programs[0].last.line,
            (fill.lines().count() + 41) as u64
        );
    }
}

#[test]
fn a_benchmark_of_uccl_is_followed_from_its_start_to_its_end() {
    let starts = "UCCL P2P Benchmark - role: client\nAttempting to connect to 10.0.0.226:0\n";
    let rates = "[Client] Connected to 10.0.0.226 conn_id=0\n\
        [Client]    256 B :   0.32 Gbps |   0.04 GB/s\n\
        [Client] 100.0 MB : 392.44 Gbps |  49.06 GB/s | 0.000684 s\n";
    let check = |text: &str, condition: &str, state| {
        let report = harness(text);
        let verdict = &report.verdicts[0];
        assert_eq!(
            (&*verdict.condition, verdict.state),
            (condition, state),
            "{text}"
        );
        report
    };
    check(starts, "peer-not-met", HarnessState::Waits);
    let ended = format!("{starts}{rates}[Client] Benchmark complete\n");
    let report = check(&ended, "finished", HarnessState::Finished);
    assert!(report.verdicts[0].summary.contains("2 rates"));
    // The NIC is not that of TCPX.
    assert!(report.results.iter().all(|result| result.wrong.is_none()));
    check(
        &format!("{starts}{rates}Failed to send vector metadata header. Expected: 72, Sent: -1\n"),
        "benchmark-failed",
        HarnessState::Failed,
    );
    check(
        &format!("{starts}[Client] Failed to connect to server\n"),
        "benchmark-failed",
        HarnessState::Failed,
    );
    check(
        "UCCL P2P Benchmark - role: server\nWaiting for connection\n\
            [Server]    256 B :   0.32 Gbps |   0.04 GB/s\nWaiting to accept incoming connection...\n",
        "rates",
        HarnessState::Finished,
    );
    check(
        "Waiting for all processes to start... (expecting 2 total)\n",
        "peer-not-met",
        HarnessState::Waits,
    );
}

#[test]
fn a_program_that_goes_on_to_the_next_chunk_has_posted_the_last_one() {
    let line = |chunk: u32| {
        let pending = chunk.min(12);
        format!(
            "[DEBUG][CLIENT] chunk={chunk} channel=0 tag={chunk} size=524288 offset=0 pending={pending}/12\n"
        )
    };
    let posted = |text: &str| {
        let program = &harness(text).programs[0];
        (program.posted, program.channels[0].released)
    };
    let head = "[PERF] Mode: CLIENT\n[PERF] Iteration 0: total bytes=4194304, chunk_bytes=524288\n";
    let chunks: String = (0..14).map(line).collect();
    assert_eq!(posted(&format!("{head}{chunks}")), (13, 1));
    let added = |chunk: u32| {
        format!(
            "{}[DEBUG][CLIENT] Chunk {chunk} added to window (counter=1, pending=1)\n",
            line(chunk)
        )
    };
    let chunks: String = (0..12).map(added).collect();
    assert_eq!(posted(&format!("{head}{chunks}")), (12, 0));
    // The same chunk waits for room.
    let again = format!("{head}{}{}", line(0), line(0));
    assert_eq!(posted(&again), (0, 0));
}
