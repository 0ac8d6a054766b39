//! `tcpxctl logs` as a user types it: sources of lines, output, and errors for unreadable input.

use crate::tcpxctl::Tool;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

const NULL: &str = "node1:71:79 [0] tcpxResult_t tcpxIsend(void*):9 NCCL WARN NET/GPUDirectTCPX : mhandle is null\n";
const USED: &str = "node1:71:79 [0] NCCL INFO Using network GPUDirectTCPX_v7\n";
const ODD: &str = "node1:71:79 [0] f():9 NCCL WARN something odd 17\n";
const SYNC: &str = "node1:71:79 [0] NCCL INFO NET/GPUDirectTCPX : receiver sync: 0\n";
const MADE: &str = "node1:71:79 [0] NCCL INFO NET/GPUDirectTCPX: accepted  (0) [9:10.0.0.226<42665><-10.0.1.25<36323> rx] through cuda, fd 5 cpu 1 napi_id 0\n";

fn logs(arguments: &[&str], text: &str) -> Tool {
    let tool = Tool::new(&[&["logs"], arguments].concat());
    tool.write("x.log", text);
    tool
}

#[test]
fn a_file_yields_findings_transport_and_unknown_lines() {
    let ended = logs(&["x.log"], &[USED, NULL, ODD].concat()).ends_with(0);
    ended.says(&[
        "# logs : 1 file, 3 lines",
        "# transport : tcpx",
        "null-mhandle",
        "something odd #",
        "x.log:3: node1:71:79 [0] f():9 NCCL WARN something odd 17",
    ]);
    assert_eq!(ended.err, "");
    logs(&["x.log"], "nothing of ours\n")
        .ends_with(0)
        .says(&["# no findings"]);
}

#[test]
fn a_device_without_an_end_is_refused() {
    for more in [&[][..], &["--follow"]] {
        let tool = Tool::new(&[&["logs", "/dev/zero"], more].concat());
        tool.ends_with(3).says(&["/dev/zero", "may have no end"]);
    }
}

#[test]
fn json_has_the_keys_that_scripts_rely_on() {
    let document = logs(
        &["x.log", "--json"],
        &[USED, SYNC, MADE, NULL, ODD].concat(),
    )
    .ends_with(0)
    .json();
    assert_eq!(document["transport"]["verdict"], "tcpx");
    assert_eq!(
        (
            &document["settings"][0]["key"],
            &document["settings"][0]["value"]
        ),
        (&"receiver sync".into(), &"0".into())
    );
    assert_eq!(document["comms"][0]["from"], "10.0.1.25:36323");
    let finding = &document["findings"][0];
    assert_eq!(
        (&finding["signature"], &finding["count"]),
        (&"null-mhandle".into(), &1.into())
    );
    assert_eq!(document["unknown"][0]["shape"], "something odd #");
    assert!(
        document["schema"]
            .as_str()
            .unwrap()
            .starts_with("tcpxctl.logs/")
    );
}

#[test]
fn stdin_folders_and_compressed_files_are_read_too() {
    let tool = logs(&["-", "--json"], NULL);
    let piped = tool.stdin_of("x.log").ends_with(0).json();
    assert_eq!(
        (
            &piped["findings"][0]["count"],
            &piped["findings"][0]["first"]["file"]
        ),
        (&1.into(), &"-".into())
    );
    let tool = logs(&["in", "--json"], "");
    std::fs::create_dir_all(tool.folder().join("in/node1")).unwrap();
    tool.write("in/node1/a.log", NULL);
    tool.write("in/b.log", NULL);
    let status = Command::new("gzip")
        .arg("in/b.log")
        .current_dir(tool.folder())
        .status();
    assert!(status.expect("gzip").success());
    let document = tool.ends_with(0).json();
    assert_eq!(
        (
            &document["inputs"]["files"],
            &document["findings"][0]["count"]
        ),
        (&2.into(), &2.into())
    );
}

#[test]
fn a_file_is_followed_until_the_user_ends_it() {
    let tool = logs(&["--follow", "--json", "x.log"], NULL);
    let (log, out) = (tool.folder().join("x.log"), tool.folder().join("out"));
    let printed = || std::fs::read_to_string(&out).unwrap_or_default();
    let mut run = tool
        .through("sh", &["-c", "exec \"$@\" >out", "sh"])
        .start();
    run.until("the first finding", |_| printed().contains("null-mhandle"));
    let mut file = OpenOptions::new().append(true).open(log).unwrap();
    file.write_all(NULL.repeat(3).as_bytes()).unwrap();
    run.until("four of them", |_| printed().contains("\"count\":4"));
    run.signal(Signal::INT);
    // It keeps the folder.
    let ended = run.ended();
    assert_eq!(ended.status.code(), Some(130));
    assert!(
        printed()
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{}",
        printed()
    );
    let summary: serde_json::Value =
        serde_json::from_str(printed().lines().last().unwrap()).unwrap();
    assert_eq!(summary["schema"], "tcpxctl.logs/1");
    assert_eq!(summary["findings"][0]["last"]["line"], 4);
}

#[test]
fn a_log_that_no_signature_knows_shows_what_it_states() {
    let text = format!(
        "started\nthe device failed to answer\n{}",
        "it goes on\n".repeat(12)
    );
    let ended = logs(&["x.log", "--fail-on", "warning"], &text).ends_with(0);
    ended.says(&[
        "# no findings",
        "may be harmless",
        "x.log:2: the device failed",
    ]);
    let text = format!("{text}command terminated with exit code 1\n");
    let ended = logs(&["x.log", "--fail-on", "warning"], &text).ends_with(1);
    ended.says(&[
        "ERROR stated-error",
        "x.log:2: the device failed",
        "# what followed",
    ]);
    let text = "the device failed to answer\nException: it ended\n";
    let ended = logs(&["x.log"], text).ends_with(0);
    ended.says(&[
        "# other lines that state an error",
        "x.log:1: the device failed",
    ]);
}

#[test]
fn signatures_of_a_user_are_checked_by_line_and_used() {
    let good = "[[signature]]\nname = 'mine'\nliteral = 'widget lost'\nseverity = 'warning'\nmeaning = 'm'\ncauses = ['c']\nnext = 'n'\nversions = 'v'\nexample = 'a widget lost here'\n";
    let tool = logs(
        &["x.log", "--signatures", "mine.toml", "--json"],
        "a widget lost here\n",
    );
    tool.write("mine.toml", good);
    assert_eq!(tool.ends_with(0).json()["findings"][0]["signature"], "mine");
    let tool = Tool::new(&["logs", "x.log", "--signatures", "mine.toml"]);
    tool.write("mine.toml", good.replace("'mine'", "'null-mhandle'"));
    tool.write("x.log", NULL);
    tool.ends_with(0)
        .says(&["# signature : null-mhandle of mine.toml replaces the one of tcpxctl"]);
    let bad = good
        .replace("'warning'", "'awful'")
        .replace("example = 'a widget lost here'", "example = 'gone'");
    let tool = Tool::new(&["logs", "--check", "mine.toml"]);
    tool.write("mine.toml", &bad);
    tool.ends_with(2).says(&["mine.toml:4: ", "awful"]);
    let tool = Tool::new(&["logs", "--check", "mine.toml", "--json"]);
    tool.write("mine.toml", good.replace("a widget lost here", "gone"));
    let document = tool.ends_with(2).json();
    assert_eq!(document["mistakes"][0]["line"], 9, "{document}");
    let tool = Tool::new(&["logs", "x.log", "--signatures", "mine.toml"]);
    tool.write("mine.toml", bad);
    tool.write("x.log", NULL);
    tool.ends_with(2).says(&["mine.toml:4: "]);
}

const PAGE: &str = include_str!("../../docs/topics/own-signatures.md");

/// The blocks of a language in the page on signatures.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let blocks = PAGE.split(&fence).skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .collect()
}

#[test]
fn the_example_of_the_page_on_signatures_does_what_the_page_says() {
    let (files, logs) = (blocks("toml"), blocks("text"));
    let [check, summary] = blocks("console").try_into().expect("two commands");
    for said in [check, summary] {
        let (command, output) = said.split_once('\n').expect("a command and its output");
        let words: Vec<&str> = command.split_whitespace().skip(2).collect();
        let tool = Tool::new(&words);
        tool.write("mine.toml", files[0]);
        tool.write("train.log", logs[0]);
        let ended = tool.ends_with(0);
        assert_eq!(format!("{}{}", ended.out, ended.err), output);
    }
}

#[test]
fn the_page_on_signatures_has_every_key() {
    let tool = Tool::new(&["logs", "--check", "mine.toml"]);
    tool.write("mine.toml", "[[signature]]\nno-such-key = 1\n");
    let ended = tool.ends_with(2);
    let (_, keys) = ended.out.split_once("expected one of ").expect("the keys");
    let quoted = keys.lines().next().unwrap_or_default().split('`');
    let keys: BTreeSet<&str> = quoted.skip(1).step_by(2).collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let described: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(keys, described);
}

#[test]
fn a_finding_of_the_given_severity_or_worse_is_exit_code_1() {
    let ends = |limit: &str, text: &str, code: i32| {
        let ended = logs(&["x.log", "--fail-on", limit], text).ends_with(code);
        assert_eq!(ended.err.contains("--fail-on"), code == 1, "{ended}");
    };
    ends("error", NULL, 1);
    ends("warning", NULL, 1);
    ends("fatal", NULL, 0);
    ends("warning", ODD, 1);
    ends("stall", ODD, 0);
    ends("stall", &TESTED.repeat(2000), 1);
    ends("error", &TESTED.repeat(2000), 0);
    ends("warning", USED, 0);
    logs(&["absent.log", "--fail-on", "warning"], "").ends_with(3);
    logs(&["x.log", "--follow", "--fail-on", "error"], NULL).ends_with(2);
    logs(&["x.log", "--fail-on", "info"], NULL)
        .ends_with(2)
        .says(&["fatal, error, stall, warning"]);
    let document = logs(&["x.log", "--fail-on", "error", "--json"], NULL);
    let finding = &document.ends_with(1).json()["findings"][0];
    assert_eq!(finding["signature"], "null-mhandle");
}

#[test]
fn pages_are_listed_and_printed() {
    let title = PAGE.lines().next().expect("a title");
    Tool::new(&["topic"])
        .ends_with(0)
        .says(&["own-signatures", &title[2..]]);
    let printed = Tool::new(&["topic", "own-signatures"]).ends_with(0);
    assert_eq!(printed.out, PAGE);
    let document = Tool::new(&["topic", "own-signatures", "--json"])
        .ends_with(0)
        .json();
    assert_eq!(document["topics"][0]["page"], PAGE);
}

#[test]
fn unreadable_input_is_reported() {
    Tool::new(&["logs"]).ends_with(2);
    Tool::new(&["logs", "absent.log"])
        .ends_with(3)
        .says(&["absent.log"]);
    assert_eq!(
        Tool::new(&["logs", "absent.log", "--json"])
            .ends_with(3)
            .json()["problems"][0]["path"],
        "absent.log"
    );
    Tool::new(&["logs", "--check", "absent"])
        .ends_with(3)
        .says(&["absent"]);
    logs(&["x.log", "--since", "yesterday"], NULL)
        .ends_with(2)
        .says(&["2026-11-20T08:14:04Z"]);
    // One of two files is read, and the other is reported.
    logs(&["x.log", "absent.log"], NULL)
        .ends_with(0)
        .says(&["null-mhandle", "absent.log"]);
}

#[test]
fn binary_bytes_and_endless_lines_are_accepted() {
    let tool = Tool::new(&["logs", "x.log", "--json"]);
    let long = [
        b"\xff\xfe\x1b[31m".repeat(100_000),
        NULL.as_bytes().to_vec(),
    ]
    .concat();
    tool.write("x.log", long);
    let ended = tool.ends_with(0);
    assert!(!ended.out.contains('\u{1b}'), "{ended}");
    ended.json();
}

const TESTED: &str = "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=0 rc=0 done=0 size=0 is_recv=1\n";
const SENT: &str = "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=0 rc=0 done=1 size=0 is_recv=0\n";

#[test]
fn tests_that_are_never_done_are_a_verdict_on_one_end_and_on_both() {
    let tool = logs(&["x.log"], &TESTED.repeat(2000));
    let ended = tool.ends_with(0);
    ended.says(&[
        "WAITS tests-never-done : x.log server",
        "the last 2000 logged tests",
        "cannot tell : what the client did",
    ]);
    assert!(!ended.out.contains("no findings"), "{}", ended.out);
    let tool = logs(&["x.log", "y.log", "--json"], &TESTED.repeat(2000));
    tool.write("y.log", SENT);
    let verdict = &tool.ends_with(0).json()["harness"]["verdicts"][0];
    assert_eq!(
        (&verdict["condition"], &verdict["turn"]),
        (&"receiver-does-not-progress".into(), &"server".into())
    );
}

#[test]
fn results_of_the_harness_are_a_table_by_role_and_gpu() {
    let text = "[PERF] Mode: SERVER\n[PERF] GPU: 3\n[PERF] Iterations: 2\n\
        [PERF] Iteration 0: total bytes=67108864, chunk_bytes=524288\n[PERF] Iter 0 time=1160.0 ms\n\
        [PERF] Iter 1 time=24.0 ms\n[PERF] Avg (2 iter): 592.0 ms, BW: 0.11 GB/s\n";
    let ended = logs(&["x.log"], text).ends_with(0);
    ended.says(&[
        "# finished : the program ended; 2 iterations",
        "server    3  64MiB  2 of 2",
    ]);
    ended.says(&["2.796", "# no findings"]);
}
