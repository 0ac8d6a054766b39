//! The catalogue against its own examples, and whole logs against their reports.

use super::below::{BelowText, SAID};
use super::catalogue::files;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

fn read(text: &[u8]) -> LogReport {
    read_with(text, &LogFilter::default())
}

fn read_with(text: &[u8], filter: &LogFilter) -> LogReport {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let mut reader = LogReader::new(&catalogue, filter);
    reader.source("x.log", text, text);
    reader.report()
}

/// The report on files with these names and texts.
pub(super) fn report_of(files: &[(&str, &str)]) -> LogReport {
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    for (name, text) in files {
        reader.source(name, text.as_bytes(), text.as_bytes());
    }
    reader.report()
}

fn names(findings: &[SignatureFinding]) -> Vec<&str> {
    findings
        .iter()
        .map(|finding| finding.signature.as_str())
        .collect()
}

fn example(name: &str) -> String {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    catalogue
        .signatures()
        .iter()
        .find(|signature| signature.name == name)
        .expect("a signature")
        .example
        .clone()
}

#[test]
fn three_vector_searches_suffice_for_the_literals() {
    let searches = SignatureCatalogue::embedded().unwrap().vector_searches();
    assert!(searches.is_some_and(|count| count <= 3), "{searches:?}");
}

#[test]
fn each_signature_matches_its_example_and_no_other() {
    let (signatures, mistakes) = check::check(&files(), &[]);
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(signatures.len() >= 150, "{}", signatures.len());
}

#[test]
fn what_a_finding_means_and_what_to_do_have_chinese() {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let mut missing = BTreeSet::new();
    for (index, signature) in catalogue.signatures().iter().enumerate() {
        // A harmless line is a finding in bad company.
        if !signature.severity.is_finding() && signature.unless.is_empty() {
            continue;
        }
        let values = catalogue.values(index, signature.example.as_bytes());
        let texts = signature.causes.iter().chain(&signature.next);
        let texts = texts.chain(&signature.blames);
        let texts = texts.chain([&signature.meaning]);
        let filled = texts.map(|text| values.fill(text));
        let of_table = signature.table.values().cloned();
        let below = signature.below.iter().flat_map(|below| {
            let of_below = BelowText::of_example(below).values(below).unwrap();
            let meaning = below
                .meaning
                .replace(SAID, &values.fill(&signature.meaning));
            [of_below.fill(&meaning), of_below.fill(&below.next)]
        });
        for text in filled.chain(of_table).chain(below) {
            if tcpx_run_model::chinese::chinese(&text).is_none() {
                missing.insert(format!("{}: {text}", signature.name));
            }
        }
    }
    assert!(missing.is_empty(), "add to chinese-logs.toml: {missing:#?}");
}

#[test]
fn each_example_is_found_in_a_log_with_every_prefix() {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    for prefix in [
        "",
        "[1,3]<stderr>:",
        "[rank3]:",
        "3: ",
        "[pod/a/b] 2026-11-20T08:14:04.1Z ",
        "[2026-11-20 08:14:04] ",
        "\x1b[31m",
    ] {
        let text: String = catalogue
            .signatures()
            .iter()
            .map(|signature| format!("{prefix}{}\r\n", signature.example))
            .collect();
        let report = read(text.as_bytes());
        let all: BTreeSet<&str> = [&report.findings, &report.benign, &report.seen]
            .into_iter()
            .flat_map(|part| names(part))
            .collect();
        for signature in catalogue.signatures() {
            assert!(
                all.contains(signature.name.as_str()),
                "{prefix:?} {}",
                signature.name
            );
        }
        assert_eq!(
            report.inputs.matched_lines,
            catalogue.signatures().len() as u64
        );
        assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    }
}

#[test]
fn lines_that_state_an_error_are_told_if_no_finding_names_a_cause() {
    let lines = |text: &str| {
        let report = read(text.as_bytes());
        let stated: Vec<u64> = report.stated.iter().map(|one| one.place.line).collect();
        let first = report.findings.first().map(|one| one.sample.clone());
        (stated, first.unwrap_or_default())
    };
    // Healthy jobs write such lines too and go on, so alone they are no finding.
    let alone = "started\nthe device failed to answer\nits link has lost its peer\n";
    let goes_on = "a step took 3 s\n".repeat(12);
    assert_eq!(
        lines(&format!("{alone}{goes_on}")),
        (vec![2, 3], String::new())
    );
    // What a log ends with was not got over.
    assert_eq!(
        lines(alone),
        (vec![3], "the device failed to answer".to_owned())
    );
    // What followed a failure leaves no doubt that there was one.
    let end = example("mpi-primary-job");
    let (stated, first) = lines(&format!("{alone}{end}\n"));
    assert_eq!(
        (stated, first.as_str()),
        (vec![3], "the device failed to answer")
    );
    // Lines behind a failure do not explain it.
    let (stated, first) = lines(&format!("{}\n{alone}", example("python-exception")));
    assert!(stated.is_empty() && first.contains("Error"), "{first}");
    let cause = example("ctrl-timeout");
    assert!(lines(&format!("{alone}{cause}\n")).0.is_empty());
}

#[test]
fn a_header_behind_what_is_left_of_another_one_names_no_other_host() {
    let log = "\
        node-a:71:79 [1] NCCL INFO Using network Socket\n\
        node-a:71:79 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n\
        node-a:71:79 [1] NCCL INFO 2 coll channnode-a:7node-a:71:79 [1] NCCL INFO comm 0x9497920 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 commId 0x245d75cdaf12704b - Init COMPLETE\n\
        node-a:70:78 [0] NCCL INFO comm 0x8fe0500 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 2000 commId 0x245d75cdaf12704b - Init COMPLETE\n";
    let report = read(log.as_bytes());
    assert_eq!(report.transport.verdict, "within-node");
}

#[test]
fn ordinary_lines_have_no_signature() {
    let report = read(include_bytes!("../../probes/logs/ordinary.txt"));
    assert_eq!(
        (report.inputs.matched_lines, report.transport.verdict),
        (0, "within-node")
    );
}

#[test]
fn a_stall_has_its_flow_its_rate_and_its_times() {
    let line = |second: u32, cnt: u64| {
        format!(
            "[2026-11-20 08:14:{second:02}] {}\n",
            example("ctrl-timeout").replace("6120433", &cnt.to_string())
        )
    };
    let report = read(
        format!(
            "{}\n{}{}",
            example("tcpx-accept-complete"),
            line(4, 90_000),
            line(34, 10_000)
        )
        .as_bytes(),
    );
    let finding = &report.findings[0];
    assert_eq!(
        (finding.signature.as_str(), finding.count, finding.phase),
        ("ctrl-timeout", 2, Some(Phase::Transfer))
    );
    assert_eq!(
        finding.polls.map(|polls| polls.per_second_min.round()),
        Some(1000.0)
    );
    assert_eq!(
        (finding.first.line, finding.first.at.as_deref()),
        (2, Some("2026-11-20T08:14:04Z"))
    );
    assert_eq!(
        (finding.last.line, finding.last.at.as_deref()),
        (3, Some("2026-11-20T08:14:34Z"))
    );
    let comm = &report.comms[0];
    assert_eq!(
        (
            comm.from.as_str(),
            comm.to_nic.as_deref(),
            comm.slow_at_receiver
        ),
        ("10.0.1.25:60459", Some("eth3"), 2)
    );
}

#[test]
fn a_line_that_is_harmless_in_its_phase_is_not_a_finding() {
    let (closed, volume) = (
        example("ctrl-socket-closed"),
        example("comm-volume").replace("node0", "node1"),
    );
    let report = read(format!("{volume}\n{closed}\n").as_bytes());
    assert_eq!(
        (names(&report.findings), names(&report.benign)),
        (vec![], vec!["ctrl-socket-closed"])
    );
    let report = read(format!("{closed}\n{volume}\n").as_bytes());
    assert_eq!(names(&report.findings), ["ctrl-socket-closed"]);
    let (waits, accepted) = (example("ctrl-timeout"), example("tcpx-accept-complete"));
    assert!(
        read(format!("{waits}\n{accepted}\n").as_bytes())
            .findings
            .is_empty()
    );
}

#[test]
fn both_ends_of_a_connection_are_one_row() {
    let text = "node0:1:1 [0] NCCL INFO NET/GPUDirectTCPX : Using [0]eth1:10.0.1.25<0>\n\
        node0:1:1 [0] NCCL INFO NET/GPUDirectTCPX: connected  (0) [7:10.0.1.25<36323>->10.0.0.226<42665> tx] through cuda (no flow steering), fd 7 cpu 1 napi_id 0\n\
        node1:2:2 [0] NCCL INFO NET/GPUDirectTCPX: accepted  (0) [9:10.0.0.226<42665><-10.0.1.25<36323> rx] through cuda, fd 5 cpu 1 napi_id 0\n";
    let report = read(text.as_bytes());
    assert_eq!(report.comms.len(), 1);
    let comm = &report.comms[0];
    assert_eq!(
        (comm.sender.as_deref(), comm.receiver.as_deref()),
        (Some("node0:1"), Some("node1:2"))
    );
    assert_eq!(
        (comm.from_nic.as_deref(), comm.kind),
        (Some("eth1"), "data")
    );
    assert_eq!(report.transport.verdict, "tcpx");
}

#[test]
fn a_fallback_and_mixed_networks_are_reported() {
    let used = |host: &str, name: &str| format!("{host}:1:1 [0] NCCL INFO Using network {name}\n");
    assert_eq!(
        read(used("a", "Socket").as_bytes()).transport.verdict,
        "socket"
    );
    assert_eq!(
        read(format!("{}{}", used("a", "Socket"), used("b", "GPUDirectTCPX_v7")).as_bytes())
            .transport
            .verdict,
        "mixed"
    );
}

#[test]
fn networks_that_differ_between_hosts_are_a_finding() {
    let used = |host: &str, name: &str| format!("{host}:1:1 [0] NCCL INFO Using network {name}\n");
    let text = [used("node-a", "GPUDirectTCPX_v7"), used("node-b", "Socket")].concat();
    let report = read(text.as_bytes());
    assert_eq!(names(&report.findings), ["networks-mixed"]);
    assert!(report.findings[0].meaning.contains("socket on node-b"));
    let same = [used("node-a", "Socket"), used("node-a", "GPUDirectTCPX_v7")].concat();
    assert!(read(same.as_bytes()).findings.is_empty());
}

#[test]
fn a_channel_says_more_than_a_plugin_that_is_up() {
    let text = "node-a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.1.25<0>\n\
        node-a:1:1 [0] NCCL INFO TUNER/Plugin: Using tuner plugin NCCLNET-TUNER\n\
        node-a:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA\n";
    let transport = read(text.as_bytes()).transport;
    assert_eq!(transport.verdict, "ofi");
    assert_eq!(
        transport.named.keys().collect::<Vec<_>>(),
        ["AWS Libfabric"]
    );
    let first = text.lines().next().unwrap();
    assert_eq!(read(first.as_bytes()).transport.verdict, "ib");
}

#[test]
fn a_network_without_tcpx_is_no_alarm_unless_tcpx_is_expected() {
    let socket = "node-a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.25<0>\n";
    assert!(read(socket.as_bytes()).findings.is_empty());
    let set = "node-a:1:1 [0] NCCL INFO NCCL_NET set by environment to GPUDirectTCPX_v7\n";
    let report = read([set, socket].concat().as_bytes());
    assert_eq!(names(&report.findings), ["nccl-socket-fallback"]);
}

#[test]
fn a_warning_that_init_survived_is_not_a_finding() {
    let odd = "node-a:1:1 [0] init.cc:9 NCCL WARN odd probe\n";
    let done = "node-a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n";
    let survived = read([odd, done].concat().as_bytes());
    assert!(survived.findings.is_empty() && survived.unknown[0].survived);
    let report = read([done, odd].concat().as_bytes());
    assert_eq!(names(&report.findings), [UNKNOWN_WARNING]);
}

#[test]
fn the_rank_that_failed_first_and_the_gap_are_named() {
    let line = |rank: u32, second: u32, sequence: u32| {
        format!(
            "[rank{rank}]:[E1120 08:14:{second:02}.5 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1) ran for 600012 milliseconds\n"
        )
    };
    let text = [line(3, 9, 80), line(1, 4, 78), line(0, 8, 80)].concat();
    let report = read(text.as_bytes());
    assert!(
        report.findings[0].sample.contains("[Rank 1]"),
        "{:?}",
        report.findings[0]
    );
    assert!(report.findings[0].meaning.contains("ALLREDUCE number 78"));
    let waits: Vec<_> = report
        .waits
        .iter()
        .map(|one| (one.sequence, one.ranks.clone()))
        .collect();
    assert_eq!(waits, [(78, vec![1]), (80, vec![0, 3])]);
    assert_eq!(report.not_waiting, [2]);
    // One file of one rank tells nothing about the others.
    let own = format!("[rank3]: step 80\n{}", line(3, 9, 80));
    assert!(read(own.as_bytes()).not_waiting.is_empty());
    // Nor do the files of two ranks, except about those.
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let filter = LogFilter::default();
    let mut reader = LogReader::new(&catalogue, &filter);
    let other = "[rank1]: ValueError: a batch is missing\n";
    reader.source("3.log", own.as_bytes(), own.as_bytes());
    reader.source("1.log", other.as_bytes(), other.as_bytes());
    assert_eq!(reader.report().not_waiting, [1]);
}

#[test]
fn two_call_sites_of_one_file_are_not_two_builds() {
    let line = "node-a:1:1 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node-c<4>\n";
    let other = line.replace("node-a", "node-b").replace(":50", ":51");
    assert!(read([line, &other].concat().as_bytes()).builds.is_empty());
}

#[test]
fn retries_before_a_failure_are_not_called_harmless() {
    let retry = "node-a:1:1 [0] NCCL INFO Call to connect returned Connection refused, retrying\n\
                 node-a:1:1 [0] NCCL INFO Connected all rings\n";
    assert_eq!(
        names(&read(retry.as_bytes()).benign),
        ["tcpx-connect-retrying"]
    );
    let failed = format!("{}\n", example("tcpx-connect-gave-up"));
    assert!(read([retry, &failed].concat().as_bytes()).benign.is_empty());
}

#[test]
fn a_sample_of_a_long_line_shows_what_was_found() {
    let long = format!(
        "{} mhandle is null {}",
        "x ".repeat(2000),
        "y ".repeat(2000)
    );
    assert!(
        read(long.as_bytes()).findings[0]
            .sample
            .contains("mhandle is null")
    );
}

#[test]
fn settings_that_differ_name_their_processes() {
    let set = |host: &str, value: u32| {
        format!("{host}:1:1 [0] NCCL INFO NET/GPUDirectTCPX : receiver sync: {value}\n")
    };
    let report = read(format!("{}{}", set("a", 0), set("b", 0)).as_bytes());
    assert_eq!(
        report.settings,
        [Setting {
            key: "receiver sync".into(),
            value: "0".into(),
            processes: vec![]
        }]
    );
    let report = read(format!("{}{}", set("a", 0), set("b", 1)).as_bytes());
    assert_eq!(
        report
            .settings
            .iter()
            .map(|row| row.processes.join(","))
            .collect::<Vec<_>>(),
        ["a:1", "b:1"]
    );
}

#[test]
fn builds_that_differ_between_hosts_are_reported() {
    let line = example("ctrl-timeout");
    let other = line.replace("node1", "node9").replace(":1238", ":1126");
    let report = read(format!("{line}\n{line}\n{other}\n").as_bytes());
    assert_eq!(report.builds.len(), 1);
    assert_eq!(
        report.builds[0]
            .lines
            .values()
            .flatten()
            .copied()
            .collect::<Vec<_>>(),
        [1238, 1126]
    );
    assert!(
        read(format!("{line}\n{}\n", line.replace("node1", "node9")).as_bytes())
            .builds
            .is_empty()
    );
}

#[test]
fn a_warning_is_not_hidden_by_the_name_of_its_source_file() {
    let text = "node-a:1:1 [0] transport/net_ib.cc:77 NCCL WARN strange\n";
    assert_eq!(names(&read(text.as_bytes()).findings), [UNKNOWN_WARNING]);
    let cut = "[0] transport/net_ib.cc:77 NCCL WARN strange\n";
    assert_eq!(names(&read(cut.as_bytes()).findings), [UNKNOWN_WARNING]);
}

#[test]
fn errors_of_pytorch_without_a_signature_are_findings() {
    let line = |rank: u32, level: char| {
        format!(
            "[rank{rank}]:[{level}1120 08:14:04.5 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] strange state {rank}\n"
        )
    };
    let report = read([line(0, 'E'), line(1, 'E')].concat().as_bytes());
    assert_eq!(names(&report.findings), [UNKNOWN_WARNING]);
    assert_eq!(
        (report.unknown[0].shape.as_str(), report.unknown[0].count),
        ("strange state #", 2)
    );
    assert!(read(line(0, 'W').as_bytes()).findings.is_empty());
    let python =
        "E1120 08:14:04.531000 70 torch/distributed/elastic/agent/server/api.py:874] strange\n";
    assert_eq!(names(&read(python.as_bytes()).findings), [UNKNOWN_WARNING]);
}

#[test]
fn a_warning_of_pytorch_s_c_is_told_and_is_no_finding() {
    let line = "[rank1]:[W1120 08:14:04.5 ProcessGroupNCCL.cpp:1662] [Rank 1] strange state\n";
    let report = read([line, line].concat().as_bytes());
    assert!(report.findings.is_empty());
    let [one] = report.unknown.as_slice() else {
        panic!("{:?}", report.unknown)
    };
    assert!(one.notice && one.count == 2 && one.sample.contains("strange state"));
    // The same words as an error are one.
    let error = line.replace("[W", "[E");
    let report = read([line, &error].concat().as_bytes());
    assert_eq!(names(&report.findings), [UNKNOWN_WARNING]);
}

#[test]
fn lines_whose_clocks_are_a_day_apart_are_in_the_order_of_the_file() {
    let first = "E0328 18:23:00.161756 81384 core_worker.cc:382] it ended first\n";
    let second = "2020-03-28 18:23:00,230 ERROR runner.py:521 -- it ended then\n";
    let report = read([first, second].concat().as_bytes());
    assert!(report.findings[0].sample.contains("first"), "{report:?}");
    // Ranks write late, so a few seconds do order them.
    let line = |second: u32, word: &str| {
        format!("[2026-11-20 08:14:{second:02}] node-a:71:80 [0] f:1 NCCL WARN {word}\n")
    };
    let report = read([line(9, "late"), line(4, "early")].concat().as_bytes());
    assert!(report.findings[0].sample.contains("early"), "{report:?}");
}

#[test]
fn errors_of_daemons_without_a_signature_are_findings() {
    let line = |level: char| {
        format!("{level}1122 18:58:30.123456 12345 rule_server.cc:88] no queue for 10.0.1.25\n")
    };
    let report = read(line('E').as_bytes());
    assert_eq!(names(&report.findings), [UNKNOWN_WARNING]);
    assert_eq!(report.unknown[0].shape, "no queue for #");
    assert_eq!(
        names(&read(line('F').as_bytes()).findings),
        [UNKNOWN_WARNING]
    );
    for level in ['I', 'W'] {
        assert!(read(line(level).as_bytes()).findings.is_empty(), "{level}");
    }
    let behind = format!("[pod/rxdm-x/rxdm] 2026-11-22T18:58:30Z {}", line('E'));
    assert_eq!(names(&read(behind.as_bytes()).findings), [UNKNOWN_WARNING]);
}

#[test]
fn unknown_warnings_are_grouped_by_shape() {
    let text = "n:1:1 [0] f:1 NCCL WARN strange 17 of 0xab\nn:1:1 [0] f:1 NCCL WARN strange 4 of 0x1\nn:1:1 [0] f:1 NCCL WARN odd\n";
    let report = read(text.as_bytes());
    assert_eq!(
        report
            .unknown
            .iter()
            .map(|one| (one.shape.as_str(), one.count))
            .collect::<Vec<_>>(),
        [("strange # of #", 2), ("odd", 1)]
    );
}

#[test]
fn filters_take_a_rank_a_node_and_a_time() {
    let line = |prefix: &str, host: &str| {
        format!("{prefix}{host}:1:1 [0] f:1 NCCL WARN NET/GPUDirectTCPX : mhandle is null\n")
    };
    let text = format!(
        "{}{}",
        line("[rank0]:[2026-11-20 08:00:00] ", "a"),
        line("[rank1]:[2026-11-20 09:00:00] ", "b")
    );
    let count = |filter: LogFilter| {
        read_with(text.as_bytes(), &filter)
            .findings
            .iter()
            .map(|finding| finding.count)
            .sum::<u64>()
    };
    assert_eq!(count(LogFilter::default()), 2);
    assert_eq!(
        count(LogFilter {
            rank: Some(1),
            ..LogFilter::default()
        }),
        1
    );
    assert_eq!(
        count(LogFilter {
            node: Some("a".into()),
            ..LogFilter::default()
        }),
        1
    );
    assert_eq!(
        count(LogFilter {
            since_us: parse_time("2026-11-20T08:30:00Z"),
            ..LogFilter::default()
        }),
        1
    );
    assert_eq!(
        count(LogFilter {
            until_us: parse_time("2026-11-20 07:00:00"),
            ..LogFilter::default()
        }),
        0
    );
}

#[test]
fn without_a_launcher_s_prefix_a_rank_is_the_gpu_in_nccl_s_header() {
    let line = "b:1:1 [3] f:1 NCCL WARN NET/GPUDirectTCPX : mhandle is null\n";
    let text = format!("{line}[rank11]: {line}");
    let count = |rank: u32| {
        let filter = LogFilter {
            rank: Some(rank),
            ..LogFilter::default()
        };
        let report = read_with(text.as_bytes(), &filter);
        report.findings.iter().map(|one| one.count).sum::<u64>()
    };
    assert_eq!([count(3), count(11), count(0)], [1, 1, 0]);
}

#[test]
fn filters_do_not_make_a_job_one_of_one_node() {
    let line = |rank: u32, text: &str| {
        format!("{rank}: node-{rank}:7{rank}:7{rank} [0] NCCL INFO {text}\n")
    };
    let verdict = |nodes: u32, rank: u32| {
        let comm =
            format!("comm 0x5 rank 0 nRanks 2 nNodes {nodes} localRanks 1 localRank 0 MNNVL 0");
        let log = [
            line(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
            line(0, &comm),
            line(1, "Channel 00/0 : 1[1] -> 0[0] [send] via NET/IB/0"),
        ];
        let log = &log[..if nodes > 1 { 3 } else { 2 }];
        let filter = LogFilter {
            rank: Some(rank),
            ..LogFilter::default()
        };
        read_with(log.concat().as_bytes(), &filter).transport
    };
    for rank in [0, 5] {
        let transport = verdict(2, rank);
        assert_eq!(transport.verdict, "unknown");
        assert!(transport.because.contains("the filters leave lines out"));
        assert_eq!(verdict(1, rank).verdict, "within-node");
    }
    assert_eq!(verdict(2, 1).verdict, "ib");
}

#[test]
fn a_line_of_another_rank_is_no_cause() {
    let (refused, failed) = (
        "f:1 NCCL WARN socketStartConnect: Connect to 10.0.0.226<34000> failed : Connection refused",
        "NCCL WARN ncclNet setup with 10.0.0.226<34000> failed",
    );
    let causes = |one: &str, other: &str| {
        let text = format!("{one}{refused}\n{other}{failed}\n");
        let filter = LogFilter {
            rank: Some(3),
            ..LogFilter::default()
        };
        let report = read_with(text.as_bytes(), &filter);
        let [found] = &report.findings[..] else {
            panic!("{:?}", report.findings);
        };
        found.meaning.contains("beside it")
    };
    assert!(!causes("1: a:71:79 [0] ", "3: b:71:79 [0] "));
    assert!(!causes("a:71:79 [1] ", "a:73:79 [3] "));
}

#[test]
fn a_finding_of_glog_s_lines_has_a_time() {
    let text = "E0814 01:57:12.984417 71 daemon.cc:12] CUDA error: out of memory\n";
    let report = read(text.as_bytes());
    let at = report.findings[0].first.at.as_deref();
    assert_eq!(at, Some("08-14T01:57:12.984417Z"));
}

#[test]
fn a_line_number_is_right_in_a_log_of_many_blocks() {
    let ordinary = "node0:1:1 [0] NCCL INFO Connected all rings and nothing else happened here\n";
    let text = format!(
        "{}{}\n{}",
        ordinary.repeat(20_000),
        example("null-mhandle"),
        ordinary.repeat(20_000)
    );
    let report = read(text.as_bytes());
    assert_eq!(
        (report.findings[0].first.line, report.inputs.lines),
        (20_001, 40_001)
    );
}

/// A line of several blocks between short ones, then a warning.
fn log_with_a_long_line() -> (String, String) {
    let long = format!("{{\"msg\":\"{}\"}}\n", "x".repeat(600_000));
    let text = format!("starts\n{long}{}\n", example("null-mhandle"));
    (long, text)
}

#[test]
fn a_line_that_is_longer_than_a_block_counts_once() {
    let (long, text) = log_with_a_long_line();
    for times in [1, 2] {
        let report = read(format!("{}{text}", long.repeat(times - 1)).as_bytes());
        let lines = times as u64 + 2;
        assert_eq!(report.findings[0].first.line, lines);
        assert_eq!(report.inputs.lines, lines);
    }
    for size in [1, 2, 3] {
        let report = read(&vec![b'x'; size * super::blocks::BLOCK]);
        assert_eq!(report.inputs.lines, 1);
    }
}

#[test]
fn a_long_line_of_a_growing_file_counts_once() {
    let (_, text) = log_with_a_long_line();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    std::fs::write(&path, &text[..300_000]).unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let (mut reader, mut looks) = (LogReader::new(&catalogue, &filter), 0);
    follow(&mut reader, std::slice::from_ref(&path), |_| {
        looks += 1;
        match looks {
            1 => std::fs::write(&path, &text[..590_000]).unwrap(),
            2 => std::fs::write(&path, &text).unwrap(),
            _ => return false,
        }
        true
    });
    let report = reader.report();
    assert_eq!((report.findings[0].first.line, report.inputs.lines), (3, 3));
}

#[test]
fn compressed_damaged_and_nested_files_are_read_as_far_as_possible() {
    let folder = tempfile::tempdir().unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed
        .write_all(example("null-mhandle").as_bytes())
        .unwrap();
    std::fs::write(folder.path().join("a.log.gz"), packed.finish().unwrap()).unwrap();
    std::fs::write(folder.path().join("b.bin"), b"\0\0mhandle is null").unwrap();
    std::fs::write(folder.path().join("c.zst"), b"\x28\xb5\x2f\xfd....").unwrap();
    std::fs::write(
        folder.path().join("exporter_7_0x1.log"),
        "R 0x1 0 3 5\nR 0x1 0 4 6\n",
    )
    .unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[folder.path().to_owned(), folder.path().join("absent")]);
    let report = reader.report();
    assert_eq!(
        (names(&report.findings), report.findings[0].count),
        (vec!["null-mhandle"], 1)
    );
    assert_eq!((report.telemetry.len(), report.problems.len()), (1, 2));
    assert!(report.problems[0].path.ends_with("c.zst"));
}

#[test]
fn what_is_passed_over_in_a_folder_is_told_and_a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    pipe("a");
    pipe("b");
    std::os::unix::fs::symlink("a", folder.path().join("latest")).unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[folder.path().to_owned()]);
    let problems: Vec<String> = reader
        .report()
        .problems
        .into_iter()
        .map(|one| one.problem)
        .collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("is a pipe") && problems[0].contains("1 more"));
    assert!(problems[1].starts_with("is a link"), "{problems:?}");
}

#[test]
fn of_a_run_folder_only_what_the_plugin_and_programs_said_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let event = |rest: &str| {
        format!(
            "{{\"at\":\"2026-11-20T14:07:30.522Z\",\"ms\":19.1,\"node\":0,\"pair\":0,{rest}}}\n"
        )
    };
    let events = [
        event(r#""preflight":{"passed":7,"failed":[],"open":[],"ms":5.5}"#),
        event(
            r#""plugin-line":{"level":2,"function":"f","line":4,"text":"mhandle is null","count":1}"#,
        ),
        event(r#""exited":{"code":0,"note":"a call failed: mhandle is null"}"#),
    ];
    std::fs::write(at("events.jsonl"), events.concat()).unwrap();
    let own = "mhandle is null\nssh: connect to host b port 22: Connection refused\n";
    for name in ["run.json", "scenario.toml", "report.html", "report.md"] {
        std::fs::write(at(name), own).unwrap();
    }
    std::fs::create_dir_all(at("nodes/local")).unwrap();
    std::fs::write(at("nodes/local/frame.json"), own).unwrap();
    std::fs::create_dir(at("logs")).unwrap();
    std::fs::write(at("logs/a.log"), "mhandle is null\n").unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[folder.path().to_owned()]);
    let report = reader.report();
    assert_eq!(names(&report.findings), ["null-mhandle"]);
    assert_eq!(report.findings[0].count, 2);
    assert_eq!((report.inputs.files, report.inputs.lines), (2, 2));
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    // Events without a line of the plugin or of a program are no log.
    std::fs::write(at("events.jsonl"), event(r#""exited":{"code":0}"#)).unwrap();
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[folder.path().to_owned()]);
    let inputs = reader.report().inputs;
    assert_eq!((inputs.files, inputs.lines), (1, 1));
}

/// A run folder `run` with one line of the plugin, and `name`, its bundle.
fn run_with_bundle(folder: &Path, name: &str) {
    let at = |name: &str| folder.join(name);
    let first = "{\"at\":\"2026-11-20T14:07:30.522Z\",\"ms\":0.1,\"nodes\":[]}";
    let line = "{\"at\":\"2026-11-20T14:07:31.522Z\",\"ms\":1000.1,\"node\":0,\"pair\":0,\"plugin-line\":\
        {\"level\":2,\"function\":\"f\",\"line\":4,\"text\":\"mhandle is null\",\"count\":1}}";
    std::fs::create_dir_all(at("run/logs")).unwrap();
    std::fs::write(at("run/events.jsonl"), format!("{first}\n{line}\n")).unwrap();
    std::fs::write(at("run/run.json"), "{}").unwrap();
    let packed = std::process::Command::new("tar")
        .args(["-C", &folder.to_string_lossy(), "-czf"])
        .arg(at(name))
        // Not the folder: the bundle may be in it, and grows while it is read.
        .args(["run/events.jsonl", "run/run.json"])
        .status();
    assert!(packed.unwrap().success());
}

#[test]
fn a_bundle_that_is_too_large_is_not_read_as_text() {
    let folder = tempfile::tempdir().unwrap();
    run_with_bundle(folder.path(), "a.tar.gz");
    let zeroes = std::fs::File::create(folder.path().join("run/x.log")).unwrap();
    zeroes.set_len(257 << 20).unwrap();
    let packed = std::process::Command::new("tar")
        .args(["-C", &folder.path().to_string_lossy(), "-czf"])
        .arg(folder.path().join("b.tar.gz"))
        .args(["run/events.jsonl", "run/run.json", "run/x.log"])
        .status();
    assert!(packed.unwrap().success());
    let report = read_paths(&[folder.path().join("b.tar.gz")]);
    let problem = &report.problems[0].problem;
    assert!(problem.contains("more than 256 MiB"), "{problem}");
    assert_eq!(report.inputs.lines, 0);
}

fn read_paths(paths: &[PathBuf]) -> LogReport {
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(paths);
    reader.report()
}

#[test]
fn a_run_and_its_bundles_in_a_folder_count_once() {
    let folder = tempfile::tempdir().unwrap();
    run_with_bundle(folder.path(), "a.tar.gz");
    run_with_bundle(folder.path(), "run/z.tar.gz");
    let report = read_paths(&[folder.path().to_owned()]);
    assert_eq!(report.findings[0].count, 1, "{:?}", report.problems);
    let told = |report: &LogReport| {
        let problems = report.problems.iter();
        let told = problems.filter(|one| one.problem.contains("is read from"));
        told.map(|one| one.path.rsplit_once('/').unwrap().1.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&report), ["a.tar.gz", "z.tar.gz"]);
    // Two bundles of one run.
    let bundles = [
        folder.path().join("a.tar.gz"),
        folder.path().join("run/z.tar.gz"),
    ];
    let report = read_paths(&bundles);
    assert_eq!((report.findings[0].count, told(&report).len()), (1, 1));
    // The bundle of another run whose folder has the same name.
    let events = folder.path().join("run/events.jsonl");
    let text = std::fs::read_to_string(&events).unwrap();
    std::fs::write(&events, text.replace("T14:", "T15:")).unwrap();
    let report = read_paths(&[folder.path().to_owned()]);
    assert_eq!((report.findings[0].count, told(&report).len()), (2, 1));
}

#[test]
fn a_file_that_is_given_twice_and_a_trace_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("x.log"), "mhandle is null\n").unwrap();
    std::fs::hard_link(at("x.log"), at("y.log")).unwrap();
    let trace = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"schema\":\"tcpxctl.trace/1\",\
        \"overwritten\":0},\"traceEvents\":[\n{\"name\":\"mhandle is null\"}]}\n";
    std::fs::write(at("t.json"), trace).unwrap();
    let report = read_paths(&[folder.path().to_owned(), at("x.log")]);
    assert_eq!((report.findings[0].count, report.inputs.files), (1, 1));
    let problems: Vec<_> = report.problems.iter().map(|one| &one.problem[..]).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
    let twice = problems
        .iter()
        .filter(|one| one.contains("is the same file"));
    assert_eq!(twice.count(), 2, "{problems:?}");
}

/// `head -c 2M` of one line repeated, by `xz` and by two calls of `zstd`, so that the second
/// file has two frames.
#[test]
fn xz_and_zstd_of_several_frames_are_read() {
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let read = |name: &str, bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.paths(&[path]);
        reader.report()
    };
    for (name, bytes) in [
        (
            "x.log.zst",
            &include_bytes!("fixtures/two-frames.log.zst")[..],
        ),
        ("x.log.xz", include_bytes!("fixtures/one.log.xz")),
    ] {
        let whole = read(name, bytes);
        assert_eq!(names(&whole.findings), ["null-mhandle"], "{name}");
        let (count, found) = (whole.inputs.lines, whole.findings[0].count);
        assert_eq!((count, found), (20_000, 20_000), "{name}");
        assert!(whole.problems.is_empty());
        for size in (1..bytes.len()).step_by(41) {
            let torn = read(name, &bytes[..size]);
            assert!(torn.inputs.lines <= 20_000);
            assert!(
                size < 6 || !torn.problems.is_empty() || torn.inputs.lines > 0,
                "{name} {size}"
            );
        }
    }
}

#[test]
fn half_a_zstd_file_is_read_up_to_where_it_ends() {
    let bytes = include_bytes!("fixtures/two-frames.log.zst");
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log.zst");
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 5]).unwrap();
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[path]);
    let report = reader.report();
    assert!(report.inputs.lines > 0);
    let problem = &report.problems[0].problem;
    assert!(
        problem.ends_with(": it was cut off, or is still being written"),
        "{problem}"
    );
}

#[test]
fn of_a_compressed_file_that_is_cut_off_all_lines_before_the_cut_are_read() {
    let line = "node-a:71:79 [3] NCCL INFO a line\n";
    let text: String = (0..200).map(|number| format!("{number} {line}")).collect();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gz, text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let xz = include_bytes!("fixtures/one.log.xz");
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let folder = tempfile::tempdir().unwrap();
    let lines_of = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.paths(&[path]);
        let report = reader.report();
        let problem = report.problems[0].problem.clone();
        assert!(problem.contains("it was cut off"), "{name}: {problem}");
        report.inputs.lines
    };
    assert!(lines_of("x.log.gz", &gz[..gz.len() * 3 / 4]) > 20);
    assert!(lines_of("x.log.xz", &xz[..xz.len() / 2]) > 20);
}

#[test]
fn dumps_of_a_flight_recorder_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let pickle = b"\x80\x02}(X\x0c\0\0\0nccl_versionX\x06\0\0\x002.21.5X\x09\0\0\0pg_config}X\x07";
    std::fs::write(folder.path().join("nccl_trace_rank_0"), pickle).unwrap();
    let json = br#"{"version": "2.5", "nccl_version": "2.21.5", "pg_config": {}, "entries": []}"#;
    std::fs::write(folder.path().join("nccl_trace_rank_1.json"), json).unwrap();
    std::fs::write(folder.path().join("core"), b"\0\0").unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[folder.path().to_owned()]);
    let problems = reader.report().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems
            .iter()
            .all(|one| one.problem.contains("torchfrtrace"))
    );
}

#[test]
fn a_recording_is_told_to_be_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a3-0.tcpxrec");
    std::fs::write(&path, b"TCPXREC\0\x06\0\0\0 mhandle is null").unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.paths(&[path]);
    // In a folder of logs it is passed over, as other files that are no text.
    reader.paths(&[folder.path().to_owned()]);
    let report = reader.report();
    assert!(report.findings.is_empty());
    let [problem] = report.problems.as_slice() else {
        panic!("{:?}", report.problems)
    };
    assert!(problem.problem.contains("tcpxctl diagnose"), "{problem:?}");
}

#[test]
fn utf_16_is_told_and_read() {
    let text = format!("a\u{1f600}b\n{}\nend\n", example("null-mhandle"));
    let text = text.repeat(400);
    let bytes = |unit: fn(u16) -> [u8; 2], mark: &str| -> Vec<u8> {
        format!("{mark}{text}")
            .encode_utf16()
            .flat_map(unit)
            .collect()
    };
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    for bytes in [
        bytes(u16::to_le_bytes, "\u{feff}"),
        bytes(u16::to_be_bytes, "\u{feff}"),
        bytes(u16::to_le_bytes, ""),
        bytes(u16::to_be_bytes, ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.log");
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.paths(&[path]);
        let report = reader.report();
        assert_eq!((report.inputs.lines, report.findings[0].count), (1200, 400));
        assert_eq!(report.findings[0].first.line, 2);
        assert!(report.problems[0].problem.contains("UTF-16"));
    }
}

#[test]
fn a_growing_file_is_followed_and_a_truncated_one_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    let line = format!("{}\n", example("null-mhandle"));
    std::fs::write(&path, &line[..20]).unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let (mut reader, mut looks, mut counts) = (LogReader::new(&catalogue, &filter), 0, Vec::new());
    follow(&mut reader, std::slice::from_ref(&path), |report| {
        counts.extend(report.map(|report| {
            let found = &report.findings[0];
            (found.count, found.last.line)
        }));
        looks += 1;
        match looks {
            1 => std::fs::write(&path, line.repeat(2)).unwrap(),
            2 => std::fs::write(&path, line.repeat(4)).unwrap(),
            3 => std::fs::write(&path, &line).unwrap(),
            _ => return false,
        }
        true
    });
    assert_eq!(counts, [(2, 2), (4, 4), (5, 4)]);
}

#[test]
fn a_pipe_is_followed_while_it_is_written_and_to_its_end() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (source, mut writer) = std::io::pipe().unwrap();
    let path = std::path::PathBuf::from(format!("/proc/self/fd/{}", source.as_raw_fd()));
    let line = format!("{}\n", example("null-mhandle"));
    writer.write_all(line.as_bytes()).unwrap();
    let mut writer = Some(writer);
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let (mut reader, mut counts) = (LogReader::new(&catalogue, &filter), Vec::new());
    follow(&mut reader, &[path], |report| {
        let Some(report) = report else {
            return true;
        };
        counts.push((report.findings[0].count, report.inputs.lines));
        match (counts.len(), &mut writer) {
            (1, Some(writer)) => {
                let text = format!("{}the end", line.repeat(2));
                writer.write_all(text.as_bytes()).unwrap();
            }
            _ => drop(writer.take()),
        }
        true
    });
    assert_eq!(counts, [(1, 1), (3, 3), (3, 4)]);
    assert_eq!(reader.report().problems, []);
}

#[test]
fn a_user_can_add_and_replace_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[signature]]\nname = 'null-mhandle'\nliteral = 'widget lost'\nseverity = 'warning'\nmeaning = 'm'\ncauses = ['c']\nnext = 'n'\nversions = 'v'\nexample = 'a widget lost here'\n";
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let (own, mistakes) = check_folder(folder.path()).unwrap();
    assert_eq!(
        (own[0].replaces.as_deref(), mistakes.len()),
        (Some("tcpxctl"), 0)
    );
    let catalogue = SignatureCatalogue::with(&[folder.path().to_owned()]).unwrap();
    assert_eq!(catalogue.matches(b"a widget lost").len(), 1);
    assert!(catalogue.matches(b"mhandle is null").is_empty());
    let again = vec![folder.path().to_owned(); 2];
    let report = LogReader::new(
        &SignatureCatalogue::with(&again).unwrap(),
        &LogFilter::default(),
    )
    .report();
    let file = folder.path().join("mine.toml").display().to_string();
    let replaced: Vec<_> = report
        .own_signatures
        .iter()
        .map(|one| one.replaces.as_deref())
        .collect();
    assert_eq!(replaced, [Some("tcpxctl"), Some(file.as_str())]);
}

#[test]
fn values_of_a_users_signature_are_read_from_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let text = r"[[signature]]
name = 'mine'
literal = 'widget lost'
regex = '^widget lost on (?P<where>\w+)'
severity = 'warning'
meaning = 'lost on {where}'
causes = ['{where} is full']
next = 'empty {where}'
versions = 'v'
example = 'widget lost on tray7'
";
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let catalogue = SignatureCatalogue::with(&[folder.path().to_owned()]).unwrap();
    let filter = LogFilter::default();
    let mut reader = LogReader::new(&catalogue, &filter);
    let log = b"node0:71:79 [0] f:1 NCCL WARN widget lost on tray3\n".as_slice();
    reader.source("x.log", log, log);
    let finding = &reader.report().findings[0];
    assert_eq!(finding.meaning, "lost on tray3");
    assert_eq!(finding.causes, ["tray3 is full"]);
    assert_eq!(finding.next_step.as_deref(), Some("empty tray3"));
}

/// A short log with what its report must say.
#[derive(serde::Deserialize)]
struct GoldenCase {
    name: String,
    transport: String,
    first: Option<String>,
    /// That of the first finding.
    severity: Option<Severity>,
    /// A part of why the transport is named, or is not.
    #[serde(default)]
    because: String,
    #[serde(default)]
    sample: String,
    #[serde(default)]
    meaning: String,
    /// What the meaning must not say.
    lacks: Option<String>,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    next: String,
    #[serde(default)]
    followed: Vec<String>,
    /// Signatures of findings that follow no other.
    #[serde(default)]
    own: Vec<String>,
    /// The number of findings.
    findings: Option<usize>,
    /// The number of causes of the first one.
    causes: Option<usize>,
    log: String,
}

#[test]
fn the_number_of_a_test_is_no_rank() {
    let line = "5: Abort(273299215) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Other MPI error, error stack:\n";
    let process = |log: &str| {
        let report = report_of(&[("x.log", log)]);
        report.findings[0].processes.clone()
    };
    assert_eq!(process(line), ["x.log rank 5"]);
    let end = "5/9 Test #5: test-sendrecv ....................***Failed    0.51 sec\n";
    assert_eq!(process(&format!("{line}{end}")), ["x.log"]);
}

#[derive(serde::Deserialize)]
struct GoldenCases {
    case: Vec<GoldenCase>,
}

#[test]
fn logs_of_many_jobs_name_their_cause_first() {
    let cases: GoldenCases = toml::from_str(include_str!("golden.toml")).unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    for case in cases.case {
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.source("x.log", case.log.as_bytes(), case.log.as_bytes());
        let report = reader.report();
        let (name, found) = (&case.name, names(&report.findings));
        assert_eq!(report.transport.verdict, case.transport, "{name}");
        let because = &report.transport.because;
        assert!(because.contains(&case.because), "{name}: {because}");
        assert_eq!(
            found.first().copied(),
            case.first.as_deref(),
            "{name}: {found:?}"
        );
        if let Some(findings) = case.findings {
            assert_eq!(found.len(), findings, "{name}: {found:?}");
        }
        let Some(first) = report.findings.first() else {
            continue;
        };
        assert!(
            first.sample.contains(&case.sample),
            "{name}: {}",
            first.sample
        );
        assert!(
            first.meaning.contains(&case.meaning),
            "{name}: {}",
            first.meaning
        );
        let lacks = |words: &str| !first.meaning.contains(words);
        assert!(
            case.lacks.as_deref().is_none_or(lacks),
            "{name}: {}",
            first.meaning
        );
        let severity = case.severity.unwrap_or(first.severity);
        assert_eq!(first.severity, severity, "{name}");
        let cause = first.causes.first().map(String::as_str);
        let cause = cause.unwrap_or_default();
        assert!(cause.contains(&case.cause), "{name}: {cause}");
        if let Some(causes) = case.causes {
            assert_eq!(first.causes.len(), causes, "{name}: {:?}", first.causes);
        }
        let next = first.next_step.as_deref().unwrap_or_default();
        assert!(next.contains(&case.next), "{name}: {next}");
        let follows = |signature: &String| {
            let mut findings = report.findings.iter();
            let finding = findings.find(|one| one.signature == *signature);
            finding.map(|finding| finding.role == Role::Consequence)
        };
        for followed in &case.followed {
            assert_eq!(
                follows(followed),
                Some(true),
                "{name}: {followed} in {found:?}"
            );
        }
        for own in &case.own {
            assert_eq!(follows(own), Some(false), "{name}: {own} in {found:?}");
        }
    }
}

#[test]
fn the_known_lines_of_a_log_come_to_the_same_findings() {
    let cases: GoldenCases = toml::from_str(include_str!("golden.toml")).unwrap();
    let (catalogue, filter) = (
        SignatureCatalogue::embedded().unwrap(),
        LogFilter::default(),
    );
    let read = |log: &[u8]| {
        let mut reader = LogReader::new(&catalogue, &filter);
        reader.source("x.log", log, log);
        let report = reader.report();
        let findings: Vec<_> = report
            .findings
            .iter()
            .map(|one| {
                format!(
                    "{} {:?} {} {} {:?}",
                    one.signature, one.first, one.sample, one.meaning, one.causes
                )
            })
            .collect();
        (report.transport.verdict, findings)
    };
    let differs = |case: &&GoldenCase| {
        let known = KnownLines::of(&catalogue, case.log.as_bytes());
        read(case.log.as_bytes()) != read(&known.text)
    };
    let names: Vec<&str> = cases
        .case
        .iter()
        .filter(differs)
        .map(|case| &*case.name)
        .collect();
    assert_eq!(names, [""; 0]);
}

#[test]
fn a_job_that_goes_on_behind_a_warning_of_nccl_is_told() {
    let warning = "node-a:41:305 [0] include/alloc.h:48 NCCL WARN Cuda failure 'out of memory'\n";
    let says = |text: &str| {
        let meaning = &read(text.as_bytes()).findings[0].meaning;
        meaning.contains("the job went on behind it: its last line is line 2: epoch is: 1")
    };
    assert!(says(&format!(
        "{warning}epoch is: 1 and train loss is 0.04\n"
    )));
    assert!(!says(warning));
    assert!(!says(&format!("{warning}epoch is: 1, error: failed\n")));
}

#[test]
fn the_seeds_of_the_fuzz_target_hold() {
    tcpx_words::seeds::read("logs", "")
        .iter()
        .for_each(|seed| fuzzing::bytes(seed));
}

/// After a change of the catalogue: `cargo test write_the_seeds -- --ignored`.
#[test]
#[ignore = "writes into fuzz/corpus-seed"]
fn write_the_seeds() {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let examples: Vec<String> = catalogue
        .signatures()
        .iter()
        .map(|signature| format!("{}\n", signature.example))
        .collect();
    tcpx_words::seeds::write("logs", "examples", examples.concat().as_bytes());
    tcpx_words::seeds::write(
        "logs",
        "ordinary",
        include_bytes!("../../probes/logs/ordinary.txt"),
    );
    tcpx_words::seeds::write(
        "logs",
        "telemetry",
        b"Fri Nov 20 08:14:04 2026\n\nR 0x1 1 3 5\nR 0x1 1 4 6\nT 0x2 1 3 6\nR 0x1 1 2 7\nR 0x1 1 1 8\nR 0x1 1 0 9\n",
    );
    tcpx_words::seeds::write("logs", "signatures", files()[7].1.as_bytes());
    tcpx_words::seeds::write("logs", "torn", b"node0:1:2 [0] f:1 NCCL WARN mhandle is nullnode1:1:2 [0] g:2 NCCL WARN \x1b[31mctrl timeout cnt 1, nanos\xff\xfe\r\nAll bytes: ");
}

proptest! {
    #[test]
    fn any_bytes_hold(parts in prop::collection::vec(prop_oneof![
        Just(b"NCCL WARN ".to_vec()), Just(b"\n".to_vec()), Just(b"node0:1:2 [0] ".to_vec()), Just(b" ctrl timeout cnt ".to_vec()),
        Just(b"10.0.1.25<1><-10.0.0.226<2> rx".to_vec()), Just(b"\x1b[31m".to_vec()), Just(b"All bytes: ".to_vec()),
        Just(b"NET/GPUDirectTCPX : ".to_vec()), prop::collection::vec(any::<u8>(), 0..12),
    ], 0..40)) {
        fuzzing::bytes(&parts.concat());
    }
}

#[test]
fn a_command_beside_the_line_gives_the_value_of_a_variable() {
    let report = read(
        b"$ NCCL_SOCKET_IFNAME=eth9 NCCL_DEBUG=INFO python train.py --rank 1\n\
          node-a:71:71 [0] bootstrap.cc:37 NCCL WARN Bootstrap : no socket interface found\n",
    );
    let meaning = &report.findings[0].meaning;
    assert!(meaning.ends_with("NCCL_SOCKET_IFNAME=eth9"), "{meaning}");
}

#[test]
fn a_line_of_nccl_behind_the_header_of_glog_is_timed_filtered_and_told_once() {
    let text = b"E1008 12:00:00.123456 4242 a.cc:1] node0:71:79 [0] NCCL WARN Connect to 10.0.1.25<4444> failed : Connection refused\n\
        E1008 12:00:01.000000 4242 a.cc:1] node0:71:79 [0] NCCL WARN no such thing\n";
    let report = read(text);
    let findings = &report.findings;
    assert_eq!(names(findings), ["socket-connect-failed", UNKNOWN_WARNING]);
    assert!(findings.iter().all(|one| one.count == 1));
    let time = findings[0].first.at.as_deref().expect("a time");
    assert_eq!(time, "10-08T12:00:00.123456Z");
    let dated = [&b"run of 2025/10/08\n"[..], text].concat();
    let time = read(&dated).findings[0].first.at.clone();
    assert_eq!(time.as_deref(), Some("2025-10-08T12:00:00.123456Z"));
    let text = &dated[..];
    let filter = LogFilter {
        since_us: parse_time("2025-10-08T12:00:00.5Z"),
        ..LogFilter::default()
    };
    assert_eq!(names(&read_with(text, &filter).findings), [UNKNOWN_WARNING]);
}

/// The first finding on a log.
fn first_of(text: &str) -> SignatureFinding {
    let catalogue = SignatureCatalogue::embedded().unwrap();
    let filter = LogFilter::default();
    let mut reader = LogReader::new(&catalogue, &filter);
    reader.source("x.log", text.as_bytes(), text.as_bytes());
    let first = reader.report().findings.into_iter().next();
    first.expect("a finding")
}

#[test]
fn an_exception_of_a_worker_of_ray_is_not_of_the_driver_that_waits() {
    let first = first_of(
        "ModuleNotFoundError: No module named 'game'\n\
         Traceback (most recent call last):\n\
         File \"/app/eval.py\", line 43, in eval\n\
         results = ray.get(\n\
         File \"/opt/lib/python3.8/site-packages/ray/_private/worker.py\", line 864, in get_objects\n\
         raise value.as_instanceof_cause()\n\
         ray.exceptions.RayTaskError(RayActorError): ray::Manager.eval() (pid=60, ip=10.0.1.25, actor_id=5b)\n\
         ray.exceptions.RayActorError: The actor died, ray::Worker.__init__() (pid=71, ip=10.0.0.226, actor_id=4f)\n\
         ray.exceptions.RaySystemError: System error: No module named 'game'\n",
    );
    for part in [
        "it is of Worker.__init__ pid 71 on 10.0.0.226",
        "the driver waited for it at /app/eval.py:43(eval) by `results = ray.get(`",
    ] {
        assert!(first.meaning.contains(part), "{part}: {}", first.meaning);
    }
    assert!(!first.meaning.contains("raised at"), "{}", first.meaning);
    assert!(!first.next_step.unwrap().contains("innermost"));
}

#[test]
fn the_frames_of_a_launcher_are_not_of_the_rank_that_it_reports() {
    let first = first_of(
        "[2026-11-20 09:58:00,044] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 1 (pid: 71) of binary: /usr/bin/python\n\
         Traceback (most recent call last):\n  File \"/usr/lib/python3/site-packages/torch/distributed/launcher/api.py\", line 264, in launch_agent\n    raise ChildFailedError(\n",
    );
    assert!(first.meaning.contains("SIGKILL"), "{}", first.meaning);
    assert!(!first.meaning.contains("raised at"), "{}", first.meaning);
}

#[test]
fn a_library_that_refuses_is_told_with_its_caller() {
    let first = first_of(
        "Traceback (most recent call last):\n  File \"/app/train.py\", line 5, in main\n    model(x)\n  \
         File \"/usr/lib/python3/site-packages/torch/fsdp.py\", line 136, in gather\n    with torch.cuda.stream(s):\n  \
         File \"/usr/lib/python3/site-packages/torch/cuda/__init__.py\", line 310, in _lazy_init\n    raise AssertionError(\"x\")\n\
         AssertionError: Torch not compiled with CUDA enabled\n",
    );
    let part = "; that was called at torch/fsdp.py:136(gather) by `with torch.cuda.stream(s):`";
    assert!(first.meaning.contains(part), "{}", first.meaning);
}

#[test]
fn a_path_that_was_there_before_is_told() {
    let first = first_of(
        "08:28:40 - INFO - util -   Model saved to /data/run/tmp-500/model.bin\n\
         Traceback (most recent call last):\n  File \"/app/train.py\", line 5, in save\n    torch.save(x)\n\
         RuntimeError: Parent directory /data/run/tmp-500 does not exist.\n",
    );
    let part = "before it the log says `Model saved to tmp-500/model.bin`";
    assert!(first.meaning.contains(part), "{}", first.meaning);
    assert!(first.causes[0].starts_with("it was there before"));
}

#[test]
fn one_process_with_all_gpus_sees_them_in_one_container() {
    let line = |gpu: u32| {
        format!(
            "node-a:71:9{gpu} [{gpu}] src/transport/p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n"
        )
    };
    let has_containers = |text: &str| {
        let causes = first_of(text).causes;
        causes.iter().any(|cause| cause.contains("containers"))
    };
    let other = line(1).replace(":71:", ":72:");
    assert!(has_containers(&format!("{}{other}", line(0))));
    assert!(!has_containers(&format!("{}{}", line(0), line(1))));
}

#[test]
fn the_number_of_an_error_in_the_exception_above_the_line_of_the_library_is_told() {
    let front = "(Worker rank=1 pid=97) ERROR 04-01 08:04:31 [executor.py:383] ";
    let first = first_of(&format!(
        "{front}RuntimeError: HCCL function error: hcclCommInitRootInfoConfig(numRanks), error code is 15\n\
         {front}EE9999: [PID: 97] get error: phyid:5 realDeviceId:5 is err:0x7010003\n\
         {front}       rtGetDeviceIndexByPhyId execute failed, reason=[device id error][LINE:53]\n"
    ));
    assert_eq!(first.signature, "cann-call-failed");
    for part in ["error code is 15", "phyid:5"] {
        assert!(first.meaning.contains(part), "{part}: {}", first.meaning);
    }
}

#[test]
fn the_json_names_the_networks_of_libraries_as_the_summary_does() {
    let line = "[rank1]: EI0006: [PID: 71] 2026-11-20-08:14:04.444.436 Getting socket times out.\n";
    let transport = report_of(&[("x.log", line)]).transport;
    assert_eq!(transport.headline(), "Ascend HCCL");
    let json = serde_json::to_value(&transport).unwrap();
    assert_eq!(json["verdict"], "unknown");
    assert_eq!(json["libraries"], serde_json::json!(["Ascend HCCL"]));
}

#[test]
fn the_network_below_the_verbs_is_part_of_the_verdict() {
    let check = |log: &str, headline: &str| {
        let transport = report_of(&[("x.log", log)]).transport;
        assert_eq!(transport.headline(), headline, "{}", transport.because);
    };
    let list =
        "node-a:71:88 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.1.25<0>\n";
    let channel = "node-a:71:88 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n";
    check(&format!("{list}{channel}"), "ib over RoCE");
    check(channel, "ib");
    let socket = "node-a:71:88 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n";
    check(&format!("{list}{socket}"), "socket");
}

#[test]
fn a_library_and_what_is_asked_for_are_named_where_no_line_tells_of_a_network() {
    let transport = |log: &str| report_of(&[("x.log", log)]).transport;
    let ucx = "[1795162444.385141] [node-a:71:0]          select.c:630  UCX  ERROR   no active messages transport to <no debug data>: self/memory - Destination is unreachable\n";
    let of_ucx = transport(&format!("$ export UCX_TLS=tcp\n{ucx}"));
    assert_eq!(
        of_ucx.headline(),
        "UCX over a network that no line names; asked for: UCX over tcp (UCX_TLS)"
    );
    let command = "mpirun -x NCCL_NET_PLUGIN=spcx -x UCX_TLS=ib ./all_reduce_perf\n";
    let plugin = "the plugin spcx (NCCL_NET_PLUGIN)";
    let of_command = transport(command);
    assert_eq!(of_command.verdict, "asked-for");
    assert_eq!(of_command.headline(), format!("asked for: {plugin}"));
    let json = serde_json::to_value(&of_command).unwrap();
    assert_eq!(json["asked"], serde_json::json!([plugin]));
    let network = "node-a:71:88 [0] NCCL INFO Using network Socket\n";
    let seen = transport(&format!("{command}{network}"));
    assert_eq!((seen.verdict, seen.asked.len()), ("socket", 0));
    let no_nccl = transport("step 1 loss 2.0\n");
    assert_eq!(no_nccl.because, "no line names a network");
}
