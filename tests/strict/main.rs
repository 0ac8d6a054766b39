//! The strict C plugin: transfers work, and each hazard behaves as the plugin's header says. Every
//! case runs in a child process of this program, because most hazards end their process.

#[path = "../support/built.rs"]
mod built;
mod driver;
mod roles;
#[path = "../support/strict.rs"]
mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time limit of a child; a child that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(30);

/// The code of the child process, which `play` starts.
#[test]
#[ignore = "a role of the tests beside it"]
fn child() {
    let role = std::env::var("STRICT_ROLE").expect("started by a test");
    let library = std::env::var("STRICT_LIBRARY").expect("started by a test");
    // The default disposition, as in a C program; Rust's runtime ignores this signal.
    restore_sigpipe();
    roles::play(&role, Path::new(&library));
}

#[expect(unsafe_code, reason = "a signal's disposition has no safe face")]
fn restore_sigpipe() {
    // SAFETY: the default disposition runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn start(role: &str, hazards: &str, chunk: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "child",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .env("STRICT_ROLE", role)
        .env("STRICT_LIBRARY", support::library())
        .env("STRICT_HAZARD", hazards);
    command
        .env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=lo")
        .env("NCCL_NSOCKS_PERTHREAD", "2");
    command
        .env_remove("NCCL_SOCKET_NTHREADS")
        .env_remove("NCCL_DYNAMIC_CHUNK_SIZE")
        .envs(chunk.map(|chunk| ("NCCL_DYNAMIC_CHUNK_SIZE", chunk)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Runs a role in a child process; returns its exit status and its output.
fn play(role: &str, hazards: &str) -> (ExitStatus, String) {
    finish(start(role, hazards, Some("65536")))
}

fn finish(mut child: Child) -> (ExitStatus, String) {
    let mut pipe = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, reader.join().unwrap());
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the child hung after: {}", reader.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that the role finishes and prints each of `lines`.
fn check(role: &str, hazards: &str, lines: &[&str]) {
    let (status, text) = play(role, hazards);
    assert!(
        status.success() && text.contains("role finished"),
        "{role} {hazards}: {status}\n{text}"
    );
    check_lines(&text, lines);
}

fn check_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            text.lines().any(|printed| printed == *line),
            "no line `{line}` in:\n{text}"
        );
    }
}

/// Checks that a signal ends the role after it has printed each of `lines`.
fn check_killed(role: &str, hazards: &str, signal: i32, lines: &[&str]) {
    let (status, text) = play(role, hazards);
    assert_eq!(
        status.signal(),
        Some(signal),
        "{role} {hazards}: {status}\n{text}"
    );
    check_lines(&text, lines);
}

/// Checks that the child prints `line` and then hangs.
fn check_hangs(role: &str, hazards: &str, line: &'static str) {
    let mut child = start(role, hazards, Some("65536"));
    let printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let (said, reached) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for next in printed.map_while(Result::ok).filter(|next| next == line) {
            let _ = said.send(next);
        }
    });
    let reached = reached.recv_timeout(LIMIT).is_ok();
    // A child that does not hang ends well within this time.
    std::thread::sleep(Duration::from_millis(300));
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert!(reached && ended.is_none(), "{role} {hazards}: {ended:?}");
}

#[test]
fn a_device_is_an_interface_that_unpacks() {
    // The loopback interface has no speed in sysfs and no PCI path.
    check(
        "properties",
        "",
        &["devices 1", "3 10000 1 1 7", "name true path false"],
    );
}

#[test]
fn bytes_arrive_in_order_whatever_the_hazards() {
    for hazards in ["", "none"] {
        check(
            "transfer",
            hazards,
            &["init 0", "devices 1", "device handle 1 7"],
        );
    }
}

#[test]
fn sixteen_slots_first_in_first_out() {
    check(
        "window",
        "",
        &[
            "17th receive 3",
            "WARN NET/Strict : unable to allocate requests",
            "consume before done 3",
            "done but not consumed, 17th receive 3",
            "consume the second first 3",
            "consume in order 0 0",
            "17th receive now 0",
            "test the second in line 3",
        ],
    );
}

#[test]
fn a_second_accept_aborts() {
    check_killed(
        "second-accept",
        "",
        libc::SIGABRT,
        &["WARN NET/Strict : accept called again on one listener"],
    );
    check("second-accept", "none", &["second accept 3"]);
}

#[test]
fn a_null_device_handle_crashes() {
    check_killed("null-device-handle", "", libc::SIGSEGV, &[]);
    check(
        "null-device-handle",
        "none",
        &["accept without a device handle 3"],
    );
}

#[test]
fn a_reused_handle_buffer_aborts() {
    check_killed("reused-handle", "", libc::SIGABRT, &["private state true"]);
    check(
        "reused-handle",
        "none",
        &["private state true", "connect again 3"],
    );
}

#[test]
fn a_closed_peer_is_one_error_although_all_data_arrived() {
    check(
        "peer-closed",
        "",
        &["refusals 1", "arrived true", "size -7", "after the end 2"],
    );
    check(
        "peer-closed",
        "none",
        &["refusals 0", "arrived true", "size 5000", "after the end 2"],
    );
}

#[test]
fn a_closed_peer_kills_by_sigpipe() {
    check_killed("send-to-closed", "", libc::SIGPIPE, &[]);
    check("send-to-closed", "none", &["send to a closed peer 2"]);
}

#[test]
fn a_failed_cuda_registration_closes_fd_0() {
    let refused = [
        "fd 0 open true",
        "aligned 3",
        "not aligned 3",
        "WARN NET/Strict : gpu_tx_reg_mr failed -5",
    ];
    check(
        "cuda-registration",
        "",
        &[&refused[..], &["fd 0 open now false"]].concat(),
    );
    check(
        "cuda-registration",
        "none",
        &[&refused[..], &["fd 0 open now true"]].concat(),
    );
}

#[test]
fn a_dead_data_socket_is_silent() {
    check("whole-message", "", &["received", "warnings 0"]);
    check(
        "stuck-message",
        "dead-data-socket=1",
        &["received false", "warnings 0"],
    );
}

#[test]
fn an_unset_chunk_size_never_ends() {
    for (role, hazards, expected) in [
        ("stuck-message", "", "received false"),
        ("whole-message", "none", "received"),
    ] {
        let (status, text) = finish(start(role, hazards, None));
        assert!(status.success(), "{status}\n{text}");
        check_lines(&text, &[expected]);
    }
}

#[test]
fn a_helper_may_exit_the_process() {
    let (status, text) = play("whole-message", "no-cmsg-exit=2");
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(
        text.contains("no cmsg") && !text.contains("role finished"),
        "{text}"
    );
}

#[test]
fn a_call_may_crash() {
    check_killed("transfer", "crash-in-test=3", libc::SIGSEGV, &["init 0"]);
}

#[test]
fn a_flood_is_a_million_lines() {
    check("poll", "warn-flood=100000", &["warnings 1000000"]);
}

#[test]
fn a_close_may_block() {
    check_hangs("close", "close-blocks", "closing");
}

#[test]
fn init_may_fail_in_every_way() {
    check_hangs("init", "init-hang", "entering init");
    check_killed("init", "init-abort", libc::SIGABRT, &[]);
    assert_eq!(play("init", "init-exit").0.code(), Some(1));
    for (hazards, line) in [
        ("init-error", "init 3"),
        ("no-devices", "devices 0"),
        (
            "no-such-hazard",
            "WARN NET/Strict : STRICT_HAZARD: unknown hazard no-such-hazard",
        ),
        ("warn-flood=0", "init 3"),
    ] {
        let (status, text) = play("init", hazards);
        assert!(status.success(), "{hazards}: {status}\n{text}");
        check_lines(&text, &[line]);
    }
}

#[test]
fn init_may_print_on_stdout() {
    let (_, text) = play("init", "stdout");
    assert!(
        text.contains("a line that should have gone to the logger"),
        "{text}"
    );
}
