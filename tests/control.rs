//! The benchmark's C control: both ends on the loopback interface, with few bytes. The tests check
//! its exit codes and its output, not its speed.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn built() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("control");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/control.c");
    let status = Command::new("cc")
        .args([
            "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o",
        ])
        .arg(&program)
        .status();
    assert!(status.expect("a C compiler named cc").success());
    (folder, program)
}

/// The command of one end, from the words of its command line.
fn end(program: &Path, words: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Both ends of one run; `{}` in the words is a role.
fn both(program: &Path, words: &str, others: &str) -> [Output; 2] {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let with_port = |words: &str, role: &str| {
        format!(
            "{} --addr 127.0.0.1 --port {port}",
            words.replace("{}", role)
        )
    };
    // The sender retries until the receiver listens, so it may start first.
    let sender = end(program, &with_port(words, "send")).spawn().unwrap();
    let receiver = end(program, &with_port(others, "recv")).spawn().unwrap();
    [sender, receiver].map(|end| end.wait_with_output().unwrap())
}

/// The values in the line that a successful end prints.
fn values(output: &Output) -> HashMap<String, String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let pairs = text
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn a_transfer_ends_on_both_ends_and_prints_its_numbers() {
    let (_folder, program) = built();
    for streams in [1, 3] {
        let words = format!(
            "{{}} --streams {streams} --chunk 65536 --total 1000001 --buffers 2 --congestion reno"
        );
        for output in both(&program, &words, &words) {
            let values = values(&output);
            assert_eq!(values["streams"], streams.to_string());
            assert_eq!(
                (
                    values["total_bytes"].as_str(),
                    values["congestion"].as_str()
                ),
                ("1000001", "reno")
            );
            assert!(values["nanoseconds"].parse::<u64>().unwrap() > 0);
        }
    }
}

#[test]
fn messages_are_counted_on_both_ends() {
    let (_folder, program) = built();
    for size in [1, 64, 100_000] {
        let words = format!("messages {{}} --size {size} --count 50 --congestion cubic");
        for output in both(&program, &words, &words) {
            let values = values(&output);
            assert_eq!(values["chunk_bytes"], size.to_string());
            assert_eq!(values["total_bytes"], (50 * size).to_string());
            assert!(values["messages_per_s"].parse::<u64>().unwrap() > 0);
        }
    }
}

#[test]
fn round_trips_are_sorted_before_they_are_reported() {
    let (_folder, program) = built();
    let words = "pingpong {} --size 64 --count 200";
    for output in both(&program, words, words) {
        let values = values(&output);
        let number = |key: &str| values[key].parse::<u64>().unwrap();
        assert!(
            0 < number("p50_ns") && number("p50_ns") <= number("p99_ns"),
            "{values:?}"
        );
        assert!(number("p99_ns") <= number("max_ns"), "{values:?}");
    }
}

#[test]
fn ends_with_different_numbers_fail() {
    let (_folder, program) = built();
    let [sender, receiver] = both(
        &program,
        "{} --chunk 4096 --total 8192",
        "{} --chunk 4096 --total 8193",
    );
    assert_eq!(
        (sender.status.code(), receiver.status.code()),
        (Some(1), Some(1))
    );
    assert!(String::from_utf8_lossy(&receiver.stderr).contains("different numbers"));
}

#[test]
fn a_wrong_argument_is_named() {
    let (_folder, program) = built();
    for (words, named) in [
        ("", "send|recv"),
        ("send --chunk", "--chunk"),
        ("send --chunk 0", "--chunk 0"),
        ("send --chunk 4KiB", "--chunk 4KiB"),
        ("send --addr ::1", "--addr ::1"),
        ("send --speed 1", "--speed"),
        ("recv --addr 127.0.0.1 --port 1", "--chunk and --total"),
        (
            "recv --addr 127.0.0.1 --port 1 --chunk 1 --total 1 --congestion none",
            "--congestion none",
        ),
    ] {
        let output = end(&program, words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && text.contains(named),
            "{words}: {output:?}"
        );
    }
}
