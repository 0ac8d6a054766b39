//! Runs the conformance suite through `tcpxctl selftest`, which runs each row in a separate
//! process, on every plugin of the project: the software plugin built in, loaded, with helper
//! threads and with RECV_SYNC, and the strict C plugin, under its own name and under Google's.
//! A plugin with a deliberate defect must fail exactly the rows that check for the defect.

#[path = "support/built.rs"]
mod built;
#[path = "support/junit.rs"]
mod junit;
#[path = "support/strict.rs"]
mod support;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tcpx_recorder::{Listed, SHARED_MEMORY, list};

/// Exit code, and verdict and detail of every row.
struct Report {
    code: Option<i32>,
    rows: BTreeMap<String, (String, String)>,
}

impl Report {
    fn of<'a>(&'a self, verdict: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let wanted = self
            .rows
            .iter()
            .filter(move |(_, (given, _))| given == verdict);
        wanted.map(|(id, (_, detail))| (id.as_str(), detail.as_str()))
    }

    /// Every row passes, except rows about features that TCPX lacks.
    fn assert_all_pass(&self) {
        let unexpected = |(_, (verdict, detail)): &(&String, &(String, String))| {
            verdict != "PASS" && !is_beyond_tcpx(detail)
        };
        let others: Vec<_> = self.rows.iter().filter(unexpected).collect();
        assert!(
            others.is_empty() && self.rows.len() > 50,
            "{} rows; {others:#?}",
            self.rows.len()
        );
        assert_eq!(self.code, Some(0));
    }

    /// No row fails or crashes, and at least `least` rows pass.
    fn assert_conforms(&self, least: usize) {
        let broken: Vec<_> = self.of("FAIL").chain(self.of("CRASHED")).collect();
        assert!(
            broken.is_empty() && self.of("PASS").count() >= least,
            "{} rows; {broken:#?}",
            self.rows.len()
        );
        assert_eq!(self.code, Some(0));
    }

    fn detail<'a>(&'a self, id: &str, verdict: &str) -> &'a str {
        let (given, detail) = self.rows.get(id).unwrap_or_else(|| panic!("no row {id}"));
        assert_eq!(given, verdict, "{id}: {detail}");
        detail
    }
}

/// Whether a row was skipped because it is about features that TCPX lacks.
fn is_beyond_tcpx(why: &str) -> bool {
    [
        "maxRecvs is 1",
        "there are no contexts",
        "receives are unpacked",
    ]
    .iter()
    .any(|start| why.starts_with(start))
}

fn command(plugin: &str, env: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpxctl"));
    command
        .args(["selftest", "--plugin", plugin])
        .args(arguments);
    command.env("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=lo");
    for variable in [
        "TCPXSOFT_FAULT",
        "TCPXSOFT_IO",
        "TCPXSOFT_CUDA",
        "STRICT_HAZARD",
        "NCCL_DYNAMIC_CHUNK_SIZE",
    ] {
        command.env_remove(variable);
    }
    command.envs(env.iter().copied());
    command
}

/// Events of a ring of a recorder, the same number in no other test: it tells whose file it is.
const RING_EVENTS: u32 = 32;

/// Where the header of a recorder has the start of its writer.
const START_TICKS: u64 = 24;

/// The recorder files of workers that were started with `RING_EVENTS`.
fn recorders() -> Vec<PathBuf> {
    let of_test = |one: &Listed| {
        let header = one.header.as_ref();
        header.is_ok_and(|header| header.ring_events == RING_EVENTS)
    };
    [PathBuf::from(SHARED_MEMORY), std::env::temp_dir()]
        .iter()
        .flat_map(|parent| list(parent).unwrap_or_default())
        .filter(of_test)
        .map(|one| one.path)
        .collect()
}

/// Runs the rows whose name contains `only`.
fn selftest(plugin: &str, env: &[(&str, &str)], only: &str) -> Report {
    report(command(plugin, env, &["--json", only]))
}

fn report(mut command: Command) -> Report {
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(document["schema"], "tcpxctl.selftest/1");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = document["rows"].as_array().unwrap();
    let rows = rows
        .iter()
        .map(|row| (text(row, "id"), (text(row, "verdict"), text(row, "detail"))))
        .collect();
    Report {
        code: output.status.code(),
        rows,
    }
}

#[test]
fn the_built_in_software_plugin_passes_every_row() {
    selftest("builtin", &[], "").assert_all_pass();
}

#[test]
fn the_loaded_software_plugin_passes_every_row() {
    selftest("soft", &[("NCCL_NSOCKS_PERTHREAD", "4")], "").assert_all_pass();
}

#[test]
fn the_software_plugin_with_helper_threads_passes_every_row() {
    let env = [
        ("TCPXSOFT_IO", "helper"),
        ("NCCL_NSOCKS_PERTHREAD", "2"),
        ("NCCL_DYNAMIC_CHUNK_SIZE", "65536"),
    ];
    selftest("soft", &env, "").assert_all_pass();
}

#[test]
fn with_recv_sync_only_rows_with_unmatched_sends_are_skipped() {
    for family in ["order-", "progress-", "slots-"] {
        let report = selftest("builtin", &[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")], family);
        for (id, (verdict, detail)) in &report.rows {
            let lone = id == "order-send-alone";
            assert_eq!(
                verdict,
                if lone { "NOT SUPPORTED" } else { "PASS" },
                "{id}: {detail}"
            );
        }
    }
}

/// Every version has its own code in the shim, the tap and the plugin.
#[test]
fn the_plain_plugin_conforms_in_every_version() {
    let whole = selftest("plainsoft", &[("NCCL_NSOCKS_PERTHREAD", "2")], "");
    whole.assert_conforms(40);
    for version in &tcpx_abi::VERSIONS[1..] {
        let abi = [("TCPXCTL_SET", format!("plugin.abi=v{version}"))];
        let abi = abi.each_ref().map(|(name, value)| (*name, value.as_str()));
        for (family, most) in [
            ("connect-", 2),
            ("payload-", 9),
            ("slots-", 3),
            ("close-seen", 2),
        ] {
            selftest("plainsoft", &abi, family).assert_conforms(most);
        }
    }
}

#[test]
fn the_strict_plugin_conforms() {
    let report = selftest(support::library().to_str().unwrap(), &[], "");
    assert_eq!(
        report.code,
        Some(0),
        "{:#?}",
        report
            .of("FAIL")
            .chain(report.of("CRASHED"))
            .collect::<Vec<_>>()
    );
    assert!(report.of("PASS").count() > 30);
    for (id, why) in report.of("NOT SUPPORTED") {
        assert!(
            why.contains("Strict_v7 is neither") || is_beyond_tcpx(why),
            "{id}: {why}"
        );
    }
}

/// The strict plugin with its hazards, after some replacements in its source.
fn strict_but(folder: &Path, replacements: &[(&str, &str)]) -> PathBuf {
    let mut source = include_str!("plugins/strict.c").to_owned();
    for (old, new) in replacements {
        assert!(source.contains(old), "strict.c has no {old}");
        source = source.replace(old, new);
    }
    let (written, built) = (
        folder.join("strict.c"),
        folder.join("libnccl-net-strict.so"),
    );
    std::fs::write(&written, source).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-pthread"])
        .arg(&written)
        .arg("-o")
        .arg(&built)
        .status()
        .expect("a C compiler named cc");
    assert!(status.success(), "cc: {status}");
    built
}

/// The shim has separate code for v7 and v8 even in calls that both versions share.
#[test]
fn a_v8_plugin_runs_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = strict_but(
        folder.path(),
        &[
            ("ncclNetPlugin_v7", "ncclNetPlugin_v8"),
            ("\"Strict_v7\"", "\"GPUDirectTCPX_v8\""),
            (
                "int (*reg_mr)(void *, void *, int, int, void **)",
                "int (*reg_mr)(void *, void *, size_t, int, void **)",
            ),
            (
                "strict_reg_mr(void *comm, void *data, int size,",
                "strict_reg_mr(void *comm, void *data, size_t size,",
            ),
            ("type != PTR_HOST || size < 0", "type != PTR_HOST"),
            (
                "    int ptr_support;\n",
                "    int ptr_support;\n    int reg_is_global;\n",
            ),
            (
                "sizeof(struct properties) == 56",
                "sizeof(struct properties) == 64",
            ),
        ],
    );
    for family in [
        "properties-",
        "connect-",
        "payload-",
        "register-",
        "consume-",
        "raw-",
    ] {
        let report = selftest(plugin.to_str().unwrap(), &[], family);
        assert_eq!(
            report.code,
            Some(0),
            "{:#?}",
            report
                .of("FAIL")
                .chain(report.of("CRASHED"))
                .collect::<Vec<_>>()
        );
        assert!(report.of("PASS").count() > 0, "{family}");
    }
}

/// The rows for TCPX only, on code that shares nothing with the software plugin: a row that fails
/// here depends on the behaviour of one plugin.
#[test]
fn a_plugin_with_googles_name_runs_every_row_that_does_not_kill_it() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = strict_but(folder.path(), &[("\"Strict_v7\"", "\"GPUDirectTCPX_v7\"")]);
    let report = selftest(plugin.to_str().unwrap(), &[], "");
    assert_eq!(
        report.code,
        Some(0),
        "{:#?}",
        report
            .of("FAIL")
            .chain(report.of("CRASHED"))
            .collect::<Vec<_>>()
    );
    let (spared, others): (Vec<_>, Vec<_>) = report
        .of("NOT SUPPORTED")
        .partition(|(_, why)| why.starts_with("not tried: GPUDirectTCPX_v7 "));
    assert!(
        spared.iter().any(|(id, _)| *id == "raw-accept-again") && spared.len() > 5,
        "{spared:#?}"
    );
    for (id, why) in others {
        assert!(
            why.contains("needs device memory") || is_beyond_tcpx(why),
            "{id}: {why}"
        );
    }
}

/// A plugin of `tests/plugins/bad`.
fn bad(folder: &Path, name: &str) -> PathBuf {
    bad_as(folder, name, "-DBAD")
}

/// The same, built with this definition.
fn bad_as(folder: &Path, name: &str, definition: &str) -> PathBuf {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins/bad"))
        .join(format!("{name}.c"));
    let built = folder.join(format!("libnccl-net-{name}.so"));
    let flags = ["-shared", "-fPIC", "-O1", "-pthread", "-fvisibility=hidden"];
    let status = Command::new("cc")
        .args(flags)
        .arg(definition)
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .status()
        .expect("a C compiler named cc");
    assert!(status.success(), "cc {}: {status}", source.display());
    built
}

#[test]
fn a_speed_that_is_unknown_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = bad(folder.path(), "speedless");
    let report = selftest(plugin.to_str().unwrap(), &[], "properties-");
    assert_eq!(report.code, Some(0));
    let all: Vec<_> = report.of("PASS").collect();
    let is_told = |(id, why): &(&str, &str)| *id == "properties-sane" && why.contains("-1 Mbit/s");
    assert!(all.iter().any(is_told), "{all:#?}");
}

#[test]
fn a_defect_fails_its_own_row_and_the_other_rows_still_run() {
    let folder = tempfile::tempdir().unwrap();
    for (name, row, verdict, words) in [
        ("null_table", "table-v7", "FAIL", "null init"),
        ("function", "table-v9", "FAIL", "is a function, not a table"),
        ("counts", "table-v7", "FAIL", "counted -5 devices"),
        (
            "lies",
            "table-v11",
            "FAIL",
            "has 152 bytes; a table of this version has 176",
        ),
        (
            "disagree",
            "versions-agree",
            "FAIL",
            "speed is 400000 by v8 and 10000 by v7",
        ),
        ("forks", "process-children", "FAIL", "left process "),
        (
            "signals",
            "process-signals",
            "FAIL",
            "signal 12 was default and is now caught",
        ),
        (
            "fd0",
            "process-standard",
            "FAIL",
            "descriptor 0 was /dev/null and is now closed",
        ),
        ("exits", "order-both-ways", "CRASHED", "exit(7)"),
        (
            "binary",
            "process-quiet",
            "FAIL",
            "33 bytes, binary, on standard output",
        ),
        ("codes", "order-fifo", "FAIL", "test returned 77 (unknown)"),
    ] {
        let plugin = bad(folder.path(), name);
        let report = selftest(plugin.to_str().unwrap(), &[], row);
        assert!(
            report.detail(row, verdict).contains(words),
            "{name}: {}",
            report.detail(row, verdict)
        );
        assert_eq!(report.code, Some(1), "{name}");
        if !["null_table", "counts", "exits", "codes"].contains(&name) {
            selftest(plugin.to_str().unwrap(), &[], "order-fifo").detail("order-fifo", "PASS");
        }
    }
}

#[test]
fn a_plugin_that_hangs_or_fails_once_init_is_called_gives_a_row() {
    let folder = tempfile::tempdir().unwrap();
    for (name, variable, words) in [
        (
            "hangs",
            ("BAD_HANGS", "init"),
            "initialising the plugin, inside init",
        ),
        (
            "hangs",
            ("BAD_HANGS", "devices"),
            "initialising the plugin, inside devices",
        ),
        ("deviceless", ("BAD_DEVICES", "3"), "devices returned 3"),
        ("deviceless", ("BAD_INIT", "2"), "init returned 2"),
    ] {
        let plugin = bad(folder.path(), name);
        let plugin = plugin.to_str().unwrap();
        let arguments = ["--json", "--timeout", "2", "order-fifo"];
        let report = report(command(plugin, &[variable], &arguments));
        let detail = report.detail("table-v7", "FAIL");
        assert!(detail.contains(words), "{detail}");
        report.detail("order-fifo", "NOT SUPPORTED");
        assert_eq!(report.code, Some(1), "{detail}");
    }
    // So it does if its table is asked for by name.
    for (name, variable, words) in [
        ("hangs", ("BAD_HANGS", "init"), "inside init"),
        ("deviceless", ("BAD_DEVICES", "3"), "devices returned 3"),
        ("deviceless", ("BAD_INIT", "2"), "init returned 2"),
    ] {
        let plugin = bad(folder.path(), name);
        let arguments = ["--json", "--timeout", "2", "--abi", "v7", "order-fifo"];
        let report = report(command(plugin.to_str().unwrap(), &[variable], &arguments));
        let detail = report.detail("table-v7", "FAIL");
        assert!(detail.contains(words), "{detail}");
        report.detail("order-fifo", "NOT SUPPORTED");
        assert_eq!(report.code, Some(1), "{detail}");
    }
    // Where the plugin finds nothing to work with, it cannot be tried.
    let plugin = bad(folder.path(), "deviceless");
    let output = command(plugin.to_str().unwrap(), &[], &["order-fifo"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn a_library_that_hangs_while_it_is_loaded_is_loaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = bad(folder.path(), "hangs");
    let starts = folder.path().join("starts");
    let env = [
        ("BAD_HANGS", "constructor"),
        ("BAD_STARTS", starts.to_str().unwrap()),
    ];
    let arguments = ["--timeout", "1", "order-fifo"];
    let output = command(plugin.to_str().unwrap(), &env, &arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hangs while loading the plugin"), "{said}");
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "started\n");
}

#[test]
fn a_receive_that_is_done_too_early_fails_the_row_that_waits_for_the_close() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = bad(folder.path(), "early");
    let row = "close-seen-by-receiver";
    let report = selftest(plugin.to_str().unwrap(), &[("BAD_EARLY", "recv")], row);
    let detail = report.detail(row, "FAIL");
    assert_eq!(detail, "the receive was done although nothing was sent");
}

#[test]
fn junit_of_passed_failed_crashed_and_skipped_rows_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = bad(folder.path(), "exits");
    let file = folder.path().join("rows <&\"'>.xml");
    for row in ["order-both-ways", "table-v", "group-", "properties-"] {
        let arguments = ["--junit", file.to_str().unwrap(), row];
        command(plugin.to_str().unwrap(), &[], &arguments)
            .output()
            .unwrap();
        junit::is_valid(&file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("classname=\"tcpxctl.selftest\""), "{text}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn liberties_that_the_contract_allows_fail_no_row() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows) in [
        ("late", &["properties-sane", "payload-4095"][..]),
        (
            "again",
            &[
                "connect-sixteen",
                "payload-4095",
                "order-both-ways",
                "slots-every-depth",
            ],
        ),
    ] {
        let plugin = bad(folder.path(), name);
        for row in rows {
            selftest(plugin.to_str().unwrap(), &[], row).detail(row, "PASS");
        }
    }
}

/// Checks that every row whose name contains `only` fails on a plugin with this fault, with
/// `words` in its detail.
fn check_fault(fault: &str, only: &str, words: &str) {
    let report = selftest("builtin", &[("TCPXSOFT_FAULT", fault)], only);
    assert!(!report.rows.is_empty(), "no row {only}");
    for (id, (verdict, detail)) in &report.rows {
        assert!(
            verdict == "FAIL" && detail.contains(words),
            "{fault}: {id} {verdict}: {detail}"
        );
    }
    assert_eq!(report.code, Some(1));
}

#[test]
fn a_wrong_byte_fails_every_row_that_compares_bytes() {
    let fault = "corrupt:chunk=1";
    check_fault(fault, "payload-1", "differs from byte 0 on, 1 bytes wrong");
    for row in [
        "payload-4",
        "payload-odd",
        "payload-any",
        "payload-device",
        "order-fifo",
        "order-both",
    ] {
        check_fault(fault, row, "1 bytes wrong");
    }
    check_fault(fault, "scatter-covers", "1 bytes wrong");
    selftest("builtin", &[("TCPXSOFT_FAULT", fault)], "properties")
        .detail("properties-sane", "PASS");
}

#[test]
fn a_refused_call_fails_the_row_that_makes_it() {
    for (fault, row, words) in [
        (
            "rc:call=devices,value=2,nth=2",
            "devices-stable",
            "devices returned 2",
        ),
        (
            "rc:call=listen,value=3",
            "handles-differ",
            "listen returned 3",
        ),
        (
            "rc:call=isend,value=3,nth=9",
            "slots-every-depth",
            "isend returned 3",
        ),
        (
            "rc:call=test,value=2,nth=40",
            "payload-any-size",
            "test returned 2",
        ),
        (
            "rc:call=regMr,value=3,nth=50",
            "register-storm",
            "regMr returned 3",
        ),
        (
            "rc:call=deregMr,value=3,nth=50",
            "register-many",
            "deregMr returned 3",
        ),
        (
            "rc:call=closeSend,value=2",
            "close-outstanding",
            "closeSend returned 2",
        ),
        (
            "rc:call=closeRecv,value=2",
            "payload-1",
            "closeRecv returned 2",
        ),
        (
            "rc:call=closeListen,value=2",
            "listener-unused",
            "closeListen returned 2",
        ),
    ] {
        check_fault(fault, row, words);
    }
}

#[test]
fn a_call_that_succeeds_instead_of_being_refused_fails_its_row() {
    for (fault, row, words) in [
        (
            "rc:call=irecvConsumed,value=0,times=0",
            "consume-in-order",
            "expected rc 3, got rc 0",
        ),
        (
            "rc:call=irecvConsumed,value=0,times=0",
            "consume-null",
            "(0, 0)",
        ),
        (
            "rc:call=irecvConsumed,value=0,times=0",
            "order-thousands",
            "unable to allocate requests",
        ),
        ("rc:call=iflush,value=0,times=0", "flush-tells-size", "rc 0"),
        (
            "rc:call=regMr,value=0,times=0",
            "register-alignment",
            "expected rc 3, got rc 0",
        ),
        ("rc:call=test,value=0,times=0", "raw-test-null", "rc 0"),
        (
            "rc:call=test,value=0,times=0",
            "raw-test-writes",
            "done: -24301",
        ),
        (
            "rc:call=irecv,value=0,times=0",
            "slots-17th-receive",
            "irecv accepts a receive",
        ),
    ] {
        check_fault(fault, row, words);
    }
}

#[test]
fn a_wait_that_never_ends_fails_at_its_deadline_and_names_the_condition() {
    std::thread::scope(|scope| {
        for (fault, row, words) in [
            (
                "hang:side=send",
                "connect-in-turns",
                "connect and accept: not within",
            ),
            (
                "drop-ctrl:nth=1",
                "payload-4095",
                "6 messages arrive: nothing moved for",
            ),
            (
                "stop:after=5,side=recv",
                "order-fifo",
                "become done: not within",
            ),
        ] {
            scope.spawn(move || check_fault(fault, row, words));
        }
    });
}

#[test]
fn a_plugin_that_exits_fails_one_row() {
    let report = selftest("builtin", &[("TCPXSOFT_FAULT", "exit:chunk=3")], "order-");
    assert!(report.detail("order-fifo", "CRASHED").contains("exit(1)"));
    assert!(report.detail("order-fifo", "CRASHED").contains("no cmsg"));
    report.detail("order-send-alone", "PASS");
    assert_eq!(report.code, Some(1));
}

#[test]
fn a_hanging_call_is_killed_and_fails_one_row() {
    let fault = [("TCPXSOFT_FAULT", "spin:call=closeRecv")];
    let output = command("builtin", &fault, &["--timeout", "2", "payload-zero"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("FAIL") && text.contains("hangs") && text.contains("0 passed, 1 failed"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn rows_with_the_same_failure_share_one_cause_and_keep_their_requirements() {
    let output = command(
        "builtin",
        &[("TCPXSOFT_FAULT", "exit:chunk=1")],
        &["payload-4"],
    )
    .output()
    .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let same = "# Same : 3 rows, payload-4095 first: the plugin called exit(1) while trying this row, inside test";
    assert!(
        text.contains(same)
            && text.contains("a message of 4096 bytes, one page, arrives byte for byte"),
        "{text}"
    );
}

#[test]
fn rows_for_tcpx_only_are_one_line_for_another_plugin() {
    let output = command("plainsoft", &[], &["payload-"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !text.contains("payload-device")
            && text.contains("# TCPX : rows for TCPX only, not shown: 1 ("),
        "{text}"
    );
    assert!(
        text.contains("# 9 passed, 0 failed, 0 crashed, 0 not supported"),
        "{text}"
    );
}

#[test]
fn an_exception_that_leaves_a_plugin_is_told_with_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = bad(folder.path(), "throws");
    let report = selftest(plugin.to_str().unwrap(), &[], "table-v7");
    let why = report.detail("table-v7", "CRASHED");
    let told = "inside devices; its last line on stderr: terminate called after throwing an instance of \
                'std::runtime_error' what():  no NIC named eth9";
    assert!(why.ends_with(told), "{why}");
}

#[test]
fn a_string_that_nccl_cannot_read_fails_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let told = |definition: &str, words: &str| {
        let plugin = bad_as(folder.path(), "strings", definition);
        let report = selftest(plugin.to_str().unwrap(), &[], "properties-sane");
        let why = report.detail("properties-sane", "FAIL");
        assert!(why.contains(words), "{why}");
        selftest(plugin.to_str().unwrap(), &[], "payload-4095").detail("payload-4095", "PASS");
    };
    told(
        "-DNAME",
        "the name of device 0 is not terminated: after 6 bytes comes memory that",
    );
    told(
        "-DPATH",
        "the pciPath of device 0 is an address that cannot be read: NCCL reads it",
    );
}

#[test]
fn a_property_that_json_cannot_express_fails_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = strict_but(
        folder.path(),
        &[(
            ".max_comms = 65536,",
            ".max_comms = 65536, .latency = 0.0f / 0.0f,",
        )],
    );
    let report = selftest(plugin.to_str().unwrap(), &[], "properties-sane");
    assert!(
        report
            .detail("properties-sane", "FAIL")
            .contains("latency is NaN")
    );
}

#[test]
fn an_unwritable_junit_file_is_reported_before_any_row_runs() {
    let output = command("builtin", &[], &["--junit", "/nowhere/rows.xml"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(3), 0),
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cannot write /nowhere/rows.xml"),
        "{output:?}"
    );
}

#[test]
fn the_list_shows_the_scope_of_each_row_and_runs_none() {
    let output = command("/nonexistent.so", &[], &["--list"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for expected in ["payload-512k", "all", "tcpx", "the 17th is rc 3"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn a_plugin_that_does_not_load_is_one_error_and_no_table() {
    for (plugin, row, code, words) in [
        ("/etc/passwd", "payload", 3, "is a text file"),
        ("builtin", "no-such-row", 2, "no row has `no-such-row`"),
    ] {
        let output = command(plugin, &[], &[row]).output().unwrap();
        let (out, said) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words) && out.is_empty(), "{said}{out}");
    }
}

#[test]
fn a_version_from_the_environment_is_checked() {
    let output = command("plainsoft", &[("TCPXCTL_ABI", "garbage")], &["payload-1"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("TCPXCTL_ABI is `garbage`"),
        "{output:?}"
    );
    let output = command("plainsoft", &[("TCPXCTL_ABI", "v8")], &["payload-1"])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("from ncclNetPlugin_v8 ("),
        "{output:?}"
    );
}

#[test]
fn listing_no_row_is_an_error_like_running_none() {
    let output = command("plainsoft", &[], &["--list", "no-such-row"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "{output:?}"
    );
}

/// Runs the `order-` rows of a plugin that hangs in the second row, and interrupts the selftest
/// there.
fn interrupted_in_the_second_row(
    folder: &Path,
    signal: Signal,
    env: &[(&str, &str)],
    arguments: &[&str],
) -> (String, String) {
    let (plugin, first, next) = (
        bad(folder, "waits"),
        folder.join("first"),
        folder.join("first.now"),
    );
    let env = [env, &[("BAD_WAITS", first.to_str().unwrap())]].concat();
    let mut command = command(
        plugin.to_str().unwrap(),
        &env,
        &[&["order-"], arguments].concat(),
    );
    // Its own process group, as from a shell: a terminal sends Ctrl-C to the whole group.
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !next.exists() {
        assert!(
            since.elapsed() < Duration::from_secs(40),
            "no row began to wait"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = Pid::from_child(&child);
    kill_process_group(group, signal).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    while test_kill_process_group(group).is_ok() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "something of it is left"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir(first)
        .and_then(|()| std::fs::remove_dir(next))
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(ended.stdout), text(ended.stderr))
}

#[test]
fn a_selftest_leaves_no_recorder() {
    let ring_events = RING_EVENTS.to_string();
    let env = [("TCPXTAP_RING_EVENTS", ring_events.as_str())];
    selftest("builtin", &env, "payload-").assert_conforms(4);
    assert_eq!(recorders(), Vec::<PathBuf>::new());

    let hangs = [env[0], ("TCPXSOFT_FAULT", "spin:call=closeRecv")];
    let output = command("builtin", &hangs, &["--timeout", "2", "payload-zero"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(recorders(), Vec::<PathBuf>::new());

    let folder = tempfile::tempdir().unwrap();
    interrupted_in_the_second_row(folder.path(), Signal::TERM, &env, &[]);
    assert_eq!(recorders(), Vec::<PathBuf>::new());
}

#[test]
fn a_command_removes_the_recorders_of_workers_that_were_killed_with_it() {
    use std::os::unix::fs::FileExt;
    let options = tcpx_recorder::Options {
        capacity: 4,
        ring_events: RING_EVENTS * 2,
        ..tcpx_recorder::Options::new("worker-probe")
    };
    let plant = || {
        let recorder = tcpx_recorder::Recorder::create(&options).unwrap();
        let path = recorder.path();
        // A process that had started with the machine has ended.
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&1u64.to_le_bytes(), START_TICKS).unwrap();
        path
    };
    for arguments in [
        &["discover", "--plugin", "builtin"][..],
        &["selftest", "--plugin", "builtin", "payload-zero"],
    ] {
        let left = plant();
        let ended = Command::new(env!("CARGO_BIN_EXE_tcpxctl"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(!left.exists(), "{ended:?}");
    }
}

#[test]
fn an_interrupted_selftest_prints_its_rows_so_far_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("rows.xml");
    let (out, err) = interrupted_in_the_second_row(
        folder.path(),
        Signal::INT,
        &[],
        &["--junit", junit.to_str().unwrap()],
    );
    for words in [
        "PASS           order-fifo",
        "INTERRUPTED    order-not-early",
        "1 passed, 0 failed",
    ] {
        assert!(out.contains(words), "`{words}` is not in\n{out}");
    }
    assert!(
        out.trim_end()
            .ends_with("; interrupted in order-not-early, later rows were not run"),
        "{out}"
    );
    assert!(
        err.is_empty() && !out.contains("order-sends-first"),
        "{out}\n{err}"
    );
    // JUnit reports the interrupted row as not passed.
    junit::is_valid(&junit);
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains("tests=\"2\" failures=\"0\" errors=\"1\""),
        "{junit}"
    );

    let (out, _) = interrupted_in_the_second_row(folder.path(), Signal::TERM, &[], &["--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    let verdicts = [0, 1, 2].map(|row| document["rows"][row]["verdict"].as_str());
    assert_eq!(verdicts, [Some("PASS"), Some("INTERRUPTED"), None]);
}
