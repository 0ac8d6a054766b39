//! The files of a run, and runs that cannot write them.

use crate::tcpxctl::Tool;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Every key of `run.json`, which scripts rely on. The node's facts and the resolved scenario have
/// separate documents.
const KEYS: &str = "
    command events_until_ms exit_code findings finished id next_step nodes nodes[].address nodes[].clock
    nodes[].clock.offset_us nodes[].clock.round_trip_us nodes[].facts nodes[].host nodes[].name outcome
    pairs pairs[].lanes pairs[].nodes pairs[].outcome pairs[].workers pairs[].workers[].driving
    pairs[].workers[].driving.bytes pairs[].workers[].driving.context_switches
    pairs[].workers[].driving.no_cpu_seconds
    pairs[].workers[].driving.cpu_seconds pairs[].workers[].driving.other_cpu_seconds
    pairs[].workers[].driving.tests_per_chunk pairs[].workers[].driving.verify_seconds
    pairs[].workers[].driving.why pairs[].workers[].env pairs[].workers[].log_lines pairs[].workers[].memory pairs[].workers[].network
    pairs[].workers[].network.drops pairs[].workers[].network.paths pairs[].workers[].network.paths[].connections
    pairs[].workers[].network.paths[].duplicates pairs[].workers[].network.paths[].local
    pairs[].workers[].network.paths[].peer pairs[].workers[].network.paths[].retransmits
    pairs[].workers[].network.paths[].rtt_us pairs[].workers[].network.paths[].segments
    pairs[].workers[].plugin pairs[].workers[].plugin.abi
    pairs[].workers[].plugin.family pairs[].workers[].plugin.name pairs[].workers[].plugin.passed_over
    pairs[].workers[].plugin.path pairs[].workers[].plugin.sha256 pairs[].workers[].plugin.version
    pairs[].workers[].plugin.why pairs[].workers[].registered_bytes pairs[].workers[].resident_bytes
    pairs[].workers[].role pairs[].workers[].warnings reason
    scenario scenario.name scenario.resolved scenario.sha256 schema started sums sums.gb_per_s
    sums.measured_ms sums.nodes sums.nodes[].nics sums.nodes[].nics[].nic sums.nodes[].nics[].rates
    sums.nodes[].nics[].rates.recv_gb_per_s sums.nodes[].nics[].rates.send_gb_per_s sums.nodes[].node
    sums.nodes[].rates sums.nodes[].rates.recv_gb_per_s sums.nodes[].rates.send_gb_per_s sums.transfers
    tcpxctl_version transfers
    transfers[].bytes transfers[].channels transfers[].channels[].bytes transfers[].channels[].consumed
    transfers[].channels[].dev transfers[].channels[].done transfers[].channels[].id
    transfers[].channels[].in_flight_high_water transfers[].channels[].latency_us
    transfers[].channels[].latency_us.max transfers[].channels[].latency_us.p50
    transfers[].channels[].latency_us.p99 transfers[].channels[].latency_us.p999
    transfers[].channels[].null_requests transfers[].channels[].posted transfers[].channels[].rc_errors
    transfers[].channels[].side transfers[].channels[].tests transfers[].channels[].tests_not_done
    transfers[].first_iteration_seconds transfers[].from transfers[].gb_per_s transfers[].iteration_seconds
    transfers[].iterations transfers[].median_gb_per_s transfers[].mismatches transfers[].round_trip_us
    transfers[].lane transfers[].measured_ms transfers[].pair transfers[].seconds
    transfers[].to transfers[].verified_bytes transfers[].wrong_bytes unmet";

fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                into.insert(path.clone());
                // Separate documents, and tables with keys of the user.
                if !["facts", "resolved", "env", "passed_over"].contains(&key.as_str()) {
                    keys(value, &path, into);
                }
            }
        }
        Value::Array(list) => list
            .iter()
            .for_each(|value| keys(value, &format!("{path}[]"), into)),
        _ => {}
    }
}

#[test]
fn a_run_without_recorders_says_so_at_its_end() {
    let tool = Tool::run(&["transfer.total=\"1MiB\""]);
    // A recorder is a larger file than may be written.
    let limited = ["-c", "trap '' XFSZ; ulimit -f 600; exec \"$@\"", "bash"];
    let ended = tool.through("bash", &limited).ends_with(0);
    for node in ["local", "peer"] {
        let said = format!("# not recorded : {node} has no counters: ");
        assert!(ended.err.contains(&said), "{ended}");
    }
}

#[test]
fn run_json_has_its_keys_and_the_event_stream_its_lines() {
    let ended = Tool::run(&[]).ends_with(0);
    let record = ended.recorded("passed");
    let mut found = BTreeSet::new();
    keys(&record, "", &mut found);
    let expected: BTreeSet<String> = KEYS.split_whitespace().map(str::to_owned).collect();
    assert_eq!(found, expected);
    assert_eq!(record["schema"], "tcpxctl.run/2");

    let folder = &ended.run_folders()[0];
    assert_eq!(folder.file_name().unwrap().to_str(), record["id"].as_str());
    assert_eq!(
        std::fs::metadata(folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let lines: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        assert!(
            [None, Some(0), Some(1)].contains(&line["node"].as_u64()),
            "{line}"
        );
        assert!(
            line["at"].as_str().unwrap().ends_with('Z') && line["ms"].is_f64(),
            "{line}"
        );
    }
    assert!(lines.is_sorted_by_key(|line| line["ms"].as_f64()));
    for word in ["iteration", "measuring", "exited", "plugin"] {
        assert!(events.contains(word), "no {word} in the event stream");
    }
}

#[test]
fn the_last_iteration_is_told_and_the_result_has_them_all() {
    let ended = Tool::run(&["transfer.total=64KiB", "transfer.iterations=300"]).ends_with(0);
    let events = std::fs::read_to_string(ended.run_folders()[0].join("events.jsonl")).unwrap();
    let lines = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut last = [0, 0];
    for line in lines.filter(|line| line["iteration"].is_object()) {
        last[line["node"].as_u64().unwrap() as usize] =
            line["iteration"]["index"].as_u64().unwrap();
    }
    assert_eq!(last, [300, 300], "with one of warm-up, counted from 0");
    let record = ended.recorded("passed");
    assert_eq!(record["transfers"][0]["iterations"], 300, "measured ones");
}

#[test]
fn the_counters_of_a_channel_add_up() {
    let record = Tool::run(&["transfer.direction=both"])
        .ends_with(0)
        .recorded("passed");
    for transfer in record["transfers"].as_array().unwrap() {
        let channels = transfer["channels"].as_array().unwrap();
        assert_eq!(channels.len(), 4);
        for channel in channels {
            let number = |key: &str| channel[key].as_u64().unwrap();
            // 16 chunks over two channels, three iterations; bytes count the two measured ones.
            assert_eq!(
                (number("posted"), number("done"), number("consumed")),
                (24, 24, 24),
                "{channel}"
            );
            assert_eq!(number("bytes"), 2 << 19, "{channel}");
            assert!(
                (1..=16).contains(&number("in_flight_high_water")),
                "{channel}"
            );
            assert!(
                number("tests") >= number("tests_not_done") + 24 && number("rc_errors") == 0,
                "{channel}"
            );
            let latency = |key: &str| channel["latency_us"][key].as_f64().unwrap();
            assert!(
                0.0 < latency("p50") && latency("p50") <= latency("max"),
                "{channel}"
            );
        }
    }
}

#[test]
fn an_unusable_reports_folder_is_reported_before_the_run() {
    let file = Tool::run(&[]).arg("--reports").arg("small.toml");
    file.ends_with(3)
        .says(&["small.toml", "--reports DIR", "cannot make a run folder"]);
    let proc = Tool::run(&[])
        .arg("--reports")
        .arg("/proc/reports")
        .ends_with(3);
    proc.says(&["/proc/reports"]);
    let json = Tool::run(&[])
        .arg("--reports")
        .arg("/proc/reports")
        .arg("--json")
        .ends_with(3)
        .json();
    assert_eq!(json["exit_code"], 3);
}

/// Wraps a command so that `reports` is a private file system of this size, whose files are in
/// `kept` afterwards.
const IN_A_SMALL_PLACE: &str = "mkdir reports && mount -t tmpfs -o size=\"$1\",nr_inodes=\"$2\" tmpfs reports && shift 2; \
    code=0; \"$@\" || code=$?; cp -r reports kept; exit $code";

fn in_a_small_place(size: &str, inodes: &str, tool: Tool) -> Option<Tool> {
    let allowed = Command::new("unshare").args(["-m", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user may not make a mount namespace");
        return None;
    }
    let arguments = [
        "-m",
        "--propagation",
        "private",
        "sh",
        "-ec",
        IN_A_SMALL_PLACE,
        "sh",
        size,
        inodes,
    ];
    Some(tool.through("unshare", &arguments))
}

#[test]
fn on_a_full_disk_the_results_are_printed_and_the_run_is_no_success() {
    // No space for the events, for the record, or for the folder itself.
    for (size, inodes) in [("4k", "100"), ("16k", "100"), ("1m", "4"), ("1m", "1")] {
        let Some(tool) = in_a_small_place(size, inodes, Tool::run(&[])) else {
            return;
        };
        let ended = tool.ends_with(3);
        ended.says(&[
            "# Outcome : passed",
            "2097152 bytes verified, 0 wrong",
            "the record is incomplete",
            "No space left on device",
        ]);
        // Without an inode, there is no folder.
        assert_eq!(
            ended.said().contains("# Record : "),
            inodes != "1",
            "{ended}"
        );
        is_not_told_as_killed(ended.folder());
    }
    let dies = Tool::run(&[
        "fault.by=plugin",
        "fault.side=recv",
        "fault.spec=exit:chunk=3",
    ]);
    let Some(tool) = in_a_small_place("4k", "100", dies) else {
        return;
    };
    tool.ends_with(6).says(&[
        "# Outcome : plugin-died",
        "no cmsg",
        "the record is incomplete",
    ]);
}

/// Whatever file system was full, the run was not killed.
fn is_not_told_as_killed(folder: &Path) {
    let kept = folder.join("kept");
    let history = Tool::new(&["history", "--reports", kept.to_str().unwrap()]).ends_with(0);
    assert!(!history.said().contains("killed"), "{history}");
    for run in std::fs::read_dir(&kept).unwrap() {
        let run = run.unwrap().path();
        if !run.is_dir() {
            // The index of `history`.
            continue;
        }
        let told = Tool::new(&["diagnose", run.to_str().unwrap()]).ends_with(3);
        assert!(!told.said().contains("killed"), "{told}");
    }
}

#[test]
fn a_run_whose_disk_became_full_is_told_later_as_what_it_was() {
    // Space for the record and a few events, kept back or made.
    ["280k", "100k"].into_iter().for_each(told_later);
}

fn told_later(size: &str) {
    let Some(tool) = in_a_small_place(size, "100", Tool::run(&["transfer.iterations=300"])) else {
        return;
    };
    let ended = tool.ends_with(3);
    let kept = ended.folder().join("kept");
    let run = std::fs::read_dir(&kept).unwrap().next().unwrap();
    let run = run.unwrap().path();
    let record: Value =
        serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(
        (&record["outcome"], &record["exit_code"]),
        (&"passed".into(), &3.into())
    );
    let unwritten = record["unwritten"].as_str().unwrap();
    assert!(unwritten.contains("No space left on device"), "{unwritten}");
    let told = |arguments: &[&str], code| {
        Tool::new(&[arguments, &[run.to_str().unwrap()]].concat()).ends_with(code)
    };
    told(&["report", "--short"], 0).says(&["PASSED, RECORD INCOMPLETE", "could not write"]);
    told(&["diagnose"], 3).says(&["could not write", unwritten]);
    let view = ["watch", "--once", "--size", "200x30"];
    told(&view, 0).says(&[
        "PASSED",
        "the record is incomplete: the run could not write",
    ]);
    assert!(!run.join(".room").exists());
    Tool::new(&["history", "--reports", kept.to_str().unwrap()])
        .ends_with(0)
        .says(&["passed", "record incomplete"]);
}

#[test]
fn a_disk_that_has_no_room_for_adopted_files_is_not_said_to_lack_the_folder() {
    // No inode for the folder; no space for its files.
    for (size, inodes, expected) in [
        ("1m", "1", "no inodes are left there"),
        ("4k", "100", "free disk space"),
    ] {
        let tool = Tool::new(&["adopt", "x.log"]);
        tool.write("x.log", "a line of a log\n".repeat(4096));
        let Some(tool) = in_a_small_place(size, inodes, tool) else {
            return;
        };
        let ended = tool.ends_with(3);
        ended.says(&["No space left on device", expected]);
        assert!(!ended.err.contains("removed or moved"), "{ended}");
    }
}

#[test]
fn a_run_folder_that_is_removed_during_the_run_is_noticed() {
    let mut run = Tool::run(&["transfer.iterations=400"]).start();
    run.until_event("measuring");
    std::fs::remove_dir_all(run.folder().join("reports")).unwrap();
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(3), "{ended}");
    ended.says(&["# Outcome : passed", "removed or moved during the run"]);
    assert!(!ended.err.contains("free disk space"), "{ended}");
    assert!(!ended.folder().join("reports").exists(), "{ended}");
}

#[test]
fn a_second_run_leaves_the_first_one_s_folder_alone() {
    let first = Tool::run(&[]).ends_with(0);
    let reports = first.folder().join("reports");
    let again = Tool::run(&[])
        .arg("--reports")
        .arg(reports.to_str().unwrap())
        .ends_with(0);
    assert!(again.run_folders().is_empty());
    let folders: Vec<_> = std::fs::read_dir(Path::new(&reports)).unwrap().collect();
    assert_eq!(folders.len(), 2);
}
