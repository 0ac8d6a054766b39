//! `tcpxctl tap` around an ordinary program: the same results as without the tap, a recording of
//! its calls, and the same exit code or signal.

use crate::built::built;
use crate::strict;
use crate::tcpxctl::{Ended, Tool};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tcpx_recorder::format::{Call, EventKind, Role};
use tcpx_recorder::{Liveness, Reader, Snapshot, list};
use tcpx_words::units::now_utc;
use tempfile::TempDir;

fn exchange() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> =
        LazyLock::new(|| built("exchange", "programs/exchange.c", &[]));
    &PROGRAM
}

fn soft() -> PathBuf {
    ::tcpx_node::plugin_files::soft_library(&std::env::current_exe().unwrap()).unwrap()
}

/// The strict plugin as version 8 only, and as 7 and 8.
fn versions() -> [PathBuf; 2] {
    let flags = ["-shared", "-fPIC"];
    [
        built("libversions-8.so", "plugins/versions.c", &flags),
        built(
            "libversions-7-8.so",
            "plugins/versions.c",
            &[&flags[..], &["-DBOTH"]].concat(),
        ),
    ]
}

const SETTINGS: [(&str, &str); 2] = [
    ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=lo"),
    ("NCCL_DYNAMIC_CHUNK_SIZE", "65536"),
];

fn bare(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(exchange());
    command
        .args(arguments)
        .env_clear()
        .envs(SETTINGS)
        .envs(variables.iter().copied());
    command.output().unwrap()
}

/// The same command under the tap; the recorder files are in the folder `rec`.
fn tool(options: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Tool {
    let program = exchange().to_str().unwrap();
    let command = [
        &["tap", "--folder", "rec"][..],
        options,
        &["--", program],
        arguments,
    ]
    .concat();
    let tool = Tool::new(&command);
    std::fs::create_dir(tool.folder().join("rec")).unwrap();
    SETTINGS
        .iter()
        .chain(variables)
        .fold(tool, |tool, (name, value)| tool.env(name, value))
}

/// Every recorder file, by name.
fn recordings(ended: &Ended) -> Vec<Reader> {
    let found = list(&ended.folder().join("rec")).unwrap();
    found
        .iter()
        .map(|one| Reader::open(&one.path).unwrap())
        .collect()
}

fn recording(ended: &Ended) -> (Reader, Snapshot) {
    let mut readers = recordings(ended);
    assert_eq!(readers.len(), 1, "{ended}");
    let mut reader = readers.remove(0);
    let snapshot = reader.snapshot().unwrap();
    (reader, snapshot)
}

/// Checks that the program prints the same with and without the tap.
fn check(options: &[&str], variables: &[(&str, &str)], first: &str) -> Ended {
    let arguments = ["50", "20000", "3"];
    let expected = bare(&arguments, variables);
    assert!(expected.status.success(), "{expected:?}");
    let ended = tool(options, &arguments, variables).ends_with(0);
    assert_eq!(
        ended.out,
        String::from_utf8(expected.stdout).unwrap(),
        "{ended}"
    );
    assert!(ended.out.starts_with(first), "{ended}");
    ended
}

#[test]
fn a_program_gets_the_same_results_however_it_finds_its_plugin() {
    let folder = TempDir::new().unwrap();
    let inside = folder.path().to_str().unwrap();
    let link = |plugin: &Path, name: &str| {
        std::os::unix::fs::symlink(plugin, folder.path().join(name)).unwrap()
    };
    link(&soft(), "libnccl-net-tcpx.so");
    link(strict::library(), "libnccl-net.so");
    let (soft, strict) = (soft(), strict::library());
    let by_name = [("NCCL_NET_PLUGIN", "tcpx"), ("LD_LIBRARY_PATH", inside)];
    check(&[], &by_name, "version 7 name TCPXSoft_v7");
    check(
        &[],
        &[("LD_LIBRARY_PATH", inside)],
        "version 7 name Strict_v7",
    );
    check(
        &[],
        &[("UCCL_TCPX_PLUGIN_PATH", strict.to_str().unwrap())],
        "version 7 name Strict_v7",
    );
    check(
        &[],
        &[("NCCL_GPUDIRECTTCPX_PLUGIN_PATH", soft.to_str().unwrap())],
        "version 7 name TCPXSoft_v7",
    );
}

#[test]
fn the_tap_exports_exactly_the_plugins_versions() {
    let [eight, both] = versions();
    // The program looks for v8 first, which the tap must not export over a plugin with v7 only.
    for (plugin, first) in [
        (
            strict::library(),
            "version 7 name Strict_v7 regMrDmaBuf 0 getDeviceMr 1",
        ),
        (
            &eight,
            "version 8 name Strict_v8 regMrDmaBuf 0 getDeviceMr 0",
        ),
        (
            &both,
            "version 8 name Strict_v8 regMrDmaBuf 0 getDeviceMr 0",
        ),
    ] {
        check(
            &[],
            &[("UCCL_TCPX_PLUGIN_PATH", plugin.to_str().unwrap())],
            first,
        );
    }
    // The tap chooses its exports while it is loaded, so one file serves every plugin.
    let exe = std::env::current_exe().unwrap();
    for (plugin, versions) in [
        (strict::library(), "(exports ncclNetPlugin_v7)"),
        (&eight, "(exports ncclNetPlugin_v8)"),
        (&both, "(exports ncclNetPlugin_v8 ncclNetPlugin_v7)"),
    ] {
        let exports = ::tcpxctl::interpose::exports(plugin).unwrap();
        let tap = ::tcpxctl::interpose::tap_library(plugin, &exports, &exe).unwrap();
        let discover = Tool::new(&["discover", "--plugin", tap.path.to_str().unwrap()]);
        let folder = discover.folder().display().to_string();
        let discover = discover
            .env("TCPXTAP_PLUGIN", plugin.to_str().unwrap())
            .env("TCPXTAP_FOLDER", &folder);
        discover.ends_with(0).says(&[versions]);
    }
    let file = ::tcpx_node::plugin_files::dynamic_of(
        &::tcpxctl::interpose::tap_library(
            strict::library(),
            &::tcpxctl::interpose::exports(strict::library()).unwrap(),
            &exe,
        )
        .unwrap()
        .path,
    )
    .unwrap();
    assert_eq!(
        file.names(tcpx_abi::SYMBOL_PREFIX).len(),
        tcpx_abi::VERSIONS.len()
    );
}

#[test]
fn functions_are_found_by_their_c_plus_plus_names_where_the_plugin_has_them() {
    for (plugin, first) in [
        (soft().as_path(), "C++ names 1 1"),
        (strict::library(), "C++ names 0 0"),
    ] {
        let settings = [
            ("EXCHANGE_MANGLED", "1"),
            ("UCCL_TCPX_PLUGIN_PATH", plugin.to_str().unwrap()),
        ];
        let ended = check(&[], &settings, first);
        let calls = recording(&ended).1.channels.len();
        assert!(calls >= 6, "{calls} channels recorded\n{ended}");
    }
}

#[test]
fn every_call_of_the_program_is_recorded() {
    let soft = soft();
    let ended = tool(
        &["--plugin", soft.to_str().unwrap()],
        &["50", "20000", "2"],
        &[],
    )
    .ends_with(0);
    let (mut reader, snapshot) = recording(&ended);
    let header = &snapshot.header;
    assert!(
        header.keep
            && header.plugin.starts_with("TCPXSoft_v7 ")
            && header.role.contains("exchange"),
        "{header:?}"
    );
    assert_eq!(
        header.devices[0]
            .as_ref()
            .map(|device| device.name.as_str()),
        Some("lo")
    );
    assert_eq!(
        (
            header.requests_unknown,
            header.requests_untracked,
            header.setup_errors
        ),
        (0, 0, 0)
    );
    ended.says(&["# recording : pid"]);

    let by_role = |role| {
        snapshot
            .channels
            .iter()
            .filter(move |sample| sample.role == role)
    };
    assert_eq!(
        [Role::Listen, Role::Send, Role::Recv].map(|role| by_role(role).count()),
        [2, 2, 2]
    );
    for (send, recv) in by_role(Role::Send).zip(by_role(Role::Recv)) {
        assert_eq!(
            (send.posted, send.done, send.bytes_done),
            (50, 50, 1_000_000)
        );
        assert_eq!(
            (
                recv.posted,
                recv.done,
                recv.consumed,
                recv.in_flight_high_water
            ),
            (50, 50, 50, 16)
        );
        assert!(recv.retires_consumed && recv.requests.is_empty() && recv.rc_errors() == 0);
        // The listener's address identifies the two comms of a connection.
        assert_eq!(send.addresses.peer, recv.addresses.local);
        assert!(send.addresses.peer.unwrap().ip.is_loopback());
        let kinds = |reader: &mut Reader, sample| {
            let events = reader.events(sample, 1000).unwrap();
            assert_eq!((events.overwritten, events.damaged), (0, 0));
            let count = |kind| {
                events
                    .events
                    .iter()
                    .filter(|event| event.kind == kind)
                    .count()
            };
            [
                EventKind::Opened,
                EventKind::Posted,
                EventKind::Done,
                EventKind::Consumed,
                EventKind::Closed,
            ]
            .map(count)
        };
        assert_eq!(kinds(&mut reader, send), [1, 50, 50, 0, 1]);
        assert_eq!(kinds(&mut reader, recv), [1, 50, 50, 50, 1]);
    }
    let calls = reader.setup_events(1000).unwrap();
    let called = |call| {
        calls
            .events
            .iter()
            .filter(|event| event.call == call)
            .count()
    };
    assert_eq!(
        [Call::Init, Call::Devices, Call::Listen, Call::Connect].map(called),
        [1, 1, 2, 2]
    );
    let log = reader.log(0, 1000).unwrap();
    assert!(
        log.lines.iter().any(|line| line.text.contains(" ver. ")),
        "{log:?}"
    );
}

#[test]
fn a_logger_gets_the_same_lines_as_without_the_tap() {
    let variables = [
        ("UCCL_TCPX_PLUGIN_PATH", strict::library().to_str().unwrap()),
        ("EXCHANGE_LOG", "1"),
    ];
    // Pointers, ports and times differ from run to run.
    let lines = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| line.starts_with("log "));
        lines
            .map(|line| line.chars().filter(|c| !c.is_ascii_hexdigit()).collect())
            .collect()
    };
    let expected = lines(&String::from_utf8(bare(&["5", "100", "1"], &variables).stderr).unwrap());
    let ended = tool(&[], &["5", "100", "1"], &variables).ends_with(0);
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(lines(&ended.err), expected, "{ended}");
    let null = [variables[0], ("EXCHANGE_LOG", "null")];
    let ended = tool(&[], &["5", "100", "1"], &null).ends_with(0);
    let (_, snapshot) = recording(&ended);
    assert_eq!((snapshot.header.log_lines, lines(&ended.err).len()), (0, 0));
}

#[test]
fn tap_ends_with_the_programs_exit_code_or_signal() {
    let soft = soft();
    let plugin = ["--plugin", soft.to_str().unwrap()];
    let ended = tool(&plugin, &["5", "100", "1"], &[("EXCHANGE_END", "exit")]).ends_with(77);
    // No comm was closed, and the recorder file shows this.
    let (_, snapshot) = recording(&ended);
    assert!(
        snapshot
            .channels
            .iter()
            .any(|sample| sample.posted == 5 && sample.closed_ns.is_none())
    );

    let aborted = tool(&plugin, &["5", "100", "1"], &[("EXCHANGE_END", "abort")]).ended();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&aborted.status),
        Some(6),
        "{aborted}"
    );
    assert_eq!(recording(&aborted).1.channels.len(), 2 + 1);

    let document = tool(&["--json", plugin[0], plugin[1]], &["5", "100", "1"], &[])
        .ends_with(0)
        .json();
    assert_eq!(
        (&document["schema"], &document["exit_code"]),
        (&"tcpxctl.tap/1".into(), &0.into())
    );
    assert!(
        document["recordings"][0]["what"]
            .as_str()
            .unwrap()
            .ends_with(".tcpxrec"),
        "{document}"
    );
}

#[test]
fn a_signal_is_passed_on_and_nothing_is_left() {
    let tool = Tool::new(&[
        "tap",
        "--plugin",
        "soft",
        "--folder",
        "rec",
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 30",
    ]);
    std::fs::create_dir(tool.folder().join("rec")).unwrap();
    let mut running = tool.start();
    running.until("the program", |run| {
        run.processes().len() >= 2 && run.processes().iter().any(|one| one.role == "30")
    });
    running.signal(rustix::process::Signal::TERM);
    let ended = running.ended();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended.status),
        Some(15),
        "{ended}"
    );
}

#[test]
fn a_forked_child_has_a_file_of_its_own() {
    let soft = soft();
    let variables = [
        ("UCCL_TCPX_PLUGIN_PATH", soft.to_str().unwrap()),
        ("EXCHANGE_FORK", "1"),
    ];
    let expected = bare(&["50", "20000", "1"], &variables);
    let ended = tool(&[], &["50", "20000", "1"], &variables).ends_with(0);
    assert_eq!(ended.out, String::from_utf8(expected.stdout).unwrap());
    let mut sends: Vec<Vec<u64>> = recordings(&ended)
        .iter_mut()
        .map(|reader| {
            let channels = reader.snapshot().unwrap().channels;
            channels
                .iter()
                .filter(|sample| sample.role == Role::Send)
                .map(|sample| sample.posted)
                .collect()
        })
        .collect();
    sends.sort();
    assert_eq!(sends, [vec![50], vec![50, 50]], "{ended}");
    assert_eq!(ended.err.matches("# recording : pid").count(), 2, "{ended}");
}

#[test]
fn a_program_runs_even_if_it_cannot_be_recorded() {
    let program = exchange().to_str().unwrap();
    let soft = soft();
    let expected = bare(
        &["50", "20000", "2"],
        &[("UCCL_TCPX_PLUGIN_PATH", soft.to_str().unwrap())],
    );
    let arguments = ["tap", "--plugin", "soft", "--", program, "50", "20000", "2"];
    let tool = SETTINGS
        .iter()
        .chain(&[("TCPXTAP_FOLDER", "/proc")])
        .fold(Tool::new(&arguments), |tool, (name, value)| {
            tool.env(name, value)
        });
    let ended = tool.ends_with(0);
    assert_eq!(ended.out, String::from_utf8(expected.stdout).unwrap());
    ended.says(&["# not recorded : pid", "below /proc"]);
}

/// Room for the recorder's header and not for its comms; the files are in `kept` afterwards.
const WITHOUT_MEMORY: &str = "mount -t tmpfs -o size=4k tmpfs rec; code=0; \"$@\" || code=$?; \
    cp -r --sparse=always rec kept; exit $code";

#[test]
fn comms_that_the_recorder_has_no_place_for_are_told() {
    let arguments = ["50", "20000", "3"];
    let told = |tool: Tool, kept: &str, why: &str| {
        let ended = tool.ends_with(0);
        ended.says(&["# not recorded : some comms of pid", why]);
        let recording = list(&ended.folder().join(kept)).unwrap().remove(0).path;
        let told = Tool::new(&["diagnose", recording.to_str().unwrap()]).ends_with(3);
        told.says(&[
            "had no slot or no memory for",
            "# nothing found in what could be read",
        ]);
        let recording = recording.to_str().unwrap();
        Tool::new(&["watch", recording, "--once", "--size", "200x30"])
            .ends_with(0)
            .says(&[" not recorded"]);
        Tool::new(&["report", recording, "--format", "markdown"])
            .ends_with(0)
            .says(&[
                "channels of pid",
                "its recorder had no slot or no memory for",
            ]);
        told.said()
    };
    let full = tool(&["--plugin", "soft", "--channels", "2"], &arguments, &[]);
    told(full, "rec", "all 2 slots are open");
    if may_have_containers() {
        let empty = tool(&["--plugin", "soft"], &arguments, &[]);
        let mount = [
            "-m",
            "--propagation",
            "private",
            "sh",
            "-ec",
            WITHOUT_MEMORY,
            "sh",
        ];
        let said = told(
            empty.through("unshare", &mount),
            "kept",
            "no memory is left",
        );
        assert!(said.contains("no comm of it is recorded"), "{said}");
    }
}

#[test]
fn a_folder_for_recordings_is_made_or_refused_before_the_program_starts() {
    let tool = Tool::new(&["tap", "--folder", "a/b", "--plugin", "soft", "--", "true"]);
    assert!(tool.ends_with(0).folder().join("a/b").is_dir());
    let refused = [
        "tap", "--folder", "/proc", "--plugin", "soft", "--", "sh", "-c", "echo ran",
    ];
    let ended = Tool::new(&refused).ends_with(3);
    ended.says(&["cannot write recorder files to /proc", "--folder DIR"]);
    assert!(!ended.out.contains("ran"), "{ended}");
}

/// The first condition that diagnose finds, and all it said.
fn diagnosed(what: &str) -> (Option<String>, Ended) {
    let ended = Tool::new(&["diagnose", what, "--json"]).ended();
    let first = ended.json()["findings"][0]["condition"]
        .as_str()
        .map(str::to_owned);
    (first, ended)
}

#[test]
fn a_recording_of_a_killed_program_is_judged_as_the_program_was() {
    for (hang, condition) in [
        ("consume", "window-never-consumed"),
        ("test", "polls-others-only"),
    ] {
        let tool = tool(
            &["--plugin", "soft", "--reports", "reports"],
            &["200", "4096", "2"],
            &[("EXCHANGE_HANG", hang)],
        );
        let recordings = tool.folder().join("rec");
        let mut running = tool.start();
        let mut found = None;
        running.until(condition, |_| {
            found = list(&recordings).unwrap().into_iter().next();
            let pid = found
                .as_ref()
                .and_then(|one| Some(one.header.as_ref().ok()?.writer.pid));
            // A process is found by its id also in a folder of its own.
            pid.is_some_and(|pid| diagnosed(&pid.to_string()).0.as_deref() == Some(condition))
        });
        let own = format!(
            "pid {}",
            found.as_ref().unwrap().header.as_ref().unwrap().writer.pid
        );
        let all = Tool::new(&["diagnose"]).ended();
        assert!(all.out.contains(&own), "without an argument, too: {all}");
        let one = found.unwrap();
        let pid = one.header.unwrap().writer.pid.cast_signed();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let tapped = running.ended();
        let file = one.path.to_str().unwrap();
        let (after, ended) = diagnosed(file);
        assert_eq!(after.as_deref(), Some(condition), "{ended}");
        let text = Tool::new(&["diagnose", file]).ends_with(4);
        assert!(
            !text.out.contains(", tested 0 times/s"),
            "only a bound is known: {text}"
        );
        let seen = Tool::new(&["watch", file, "--once", "--size", "150x30"]).ends_with(0);
        seen.says(&["STALLED", "was killed by signal 9", " over"]);
        let run = &tapped.run_folders()[0];
        check_adopted(run, condition);
    }
}

#[test]
fn a_loop_that_sleeps_beside_busy_threads_is_told_as_that() {
    let variables = [("EXCHANGE_HANG", "sleep"), ("EXCHANGE_BUSY", "6")];
    let tool = tool(&["--plugin", "soft"], &["200", "4096", "2"], &variables);
    let recordings = tool.folder().join("rec");
    let mut running = tool.start();
    let mut found = None;
    running.until("a verdict", |_| {
        let one = list(&recordings).unwrap().into_iter().next();
        let pid = one.and_then(|one| Some(one.header.as_ref().ok()?.writer.pid));
        found = pid.map(|pid| diagnosed(&pid.to_string()));
        let first = found.as_ref().and_then(|(first, _)| first.as_deref());
        first.is_some_and(|first| first != "stalled")
    });
    let (first, ended) = found.unwrap();
    assert_eq!(first.as_deref(), Some("local-loop-starved"), "{ended}");
}

#[test]
fn a_recording_of_a_program_that_was_killed_while_it_moved_bytes_says_so() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, condition) in [
        (Signal::TERM, "process-killed"),
        (Signal::KILL, "process-killed"),
        (Signal::ABORT, "plugin-crash"),
    ] {
        let tool = tool(&["--plugin", "soft"], &["2000000", "4096", "2"], &[]);
        let recordings = tool.folder().join("rec");
        let mut running = tool.start();
        let mut found = None;
        running.until("movement", |_| {
            found = list(&recordings).unwrap().into_iter().next();
            let snapshot = found.as_ref().map(|one| Reader::open(&one.path));
            let snapshot = snapshot.and_then(|reader| reader.ok()?.snapshot().ok());
            snapshot.is_some_and(|now| now.channels.iter().any(|channel| channel.consumed > 100))
        });
        let one = found.unwrap();
        let pid = one.header.unwrap().writer.pid.cast_signed();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        let tapped = running.ended();
        let (first, ended) = diagnosed(one.path.to_str().unwrap());
        assert_eq!(first.as_deref(), Some(condition), "{ended}{tapped}");
        ended.says(&[
            &format!("was killed by signal {}", signal.as_raw()),
            "requests in flight",
        ]);
        // Times in an adopted run are those of the program, not of its adoption.
        let before = now_utc();
        let adopted = Tool::new(&["adopt", one.path.to_str().unwrap()]).ends_with(0);
        let events = adopted.run_folders()[0].join("events.jsonl");
        for line in std::fs::read_to_string(events).unwrap().lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(event["at"].as_str().unwrap() < &*before, "{event} {before}");
        }
    }
}

/// Whether this user may make pid namespaces, as containers have them.
fn may_have_containers() -> bool {
    let tried = Command::new("unshare")
        .args(IN_CONTAINER)
        .arg("true")
        .output();
    let may = tried.is_ok_and(|ended| ended.status.success());
    if !may {
        assert_ne!(std::env::var("TCPXCTL_LAB").as_deref(), Ok("require"));
        println!("no test with another pid namespace: unshare does not work here");
    }
    may
}

const IN_CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

#[test]
fn a_process_of_another_pid_namespace_is_not_taken_for_one_with_its_number_here() {
    if !may_have_containers() {
        return;
    }
    let folder = [
        "tap", "--folder", "rec", "--plugin", "soft", "--", "unshare",
    ];
    let program = [exchange().to_str().unwrap(), "200", "4096", "2"];
    let tool = Tool::new(&[&folder[..], &IN_CONTAINER, &program].concat());
    let tool = tool.env("EXCHANGE_HANG", "consume");
    let tool = SETTINGS
        .iter()
        .fold(tool, |tool, (name, value)| tool.env(name, value));
    let recordings = tool.folder().join("rec");
    std::fs::create_dir(&recordings).unwrap();
    let mut running = tool.start();
    let mut file = String::new();
    running.until("the stall", |_| {
        let one = list(&recordings).unwrap().into_iter().next();
        file = one.map_or_else(String::new, |one| one.path.to_str().unwrap().to_owned());
        !file.is_empty() && diagnosed(&file).0.as_deref() == Some("window-never-consumed")
    });
    let header = Reader::open(Path::new(&file)).unwrap().header().unwrap();
    let here = header.writer.pid_here().unwrap();
    assert_ne!(here, header.writer.pid);
    assert_eq!(
        std::fs::read_link(format!("/proc/{here}/exe")).unwrap(),
        exchange()
    );
    let by_id = Tool::new(&["diagnose", &here.to_string()]).ends_with(4);
    by_id.says(&["window-never-consumed"]);
    let pid = rustix::process::Pid::from_raw(here.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let tapped = running.ended();
    let (after, ended) = diagnosed(&file);
    assert_eq!(
        after.as_deref(),
        Some("window-never-consumed"),
        "{ended}{tapped}"
    );
    // Only the first pid namespace sees that it is in none.
    if header.writer.liveness() == Liveness::Dead {
        let seen = Tool::new(&["watch", &file, "--once", "--size", "150x30"]).ends_with(0);
        seen.says(&[" over"]);
    }
}

#[test]
fn a_stopped_process_is_named_also_where_it_has_nothing_in_flight() {
    use rustix::process::{Pid, Signal, kill_process};
    let pause = [("EXCHANGE_PAUSE", "60")];
    let tool = tool(&["--plugin", "soft"], &["1", "4096", "1"], &pause);
    let recordings = tool.folder().join("rec");
    let mut running = tool.start();
    let mut number = 0;
    running.until("the end of the transfer", |_| {
        let one = list(&recordings).unwrap().into_iter().next();
        let header = one.and_then(|one| one.header.ok());
        number = header.as_ref().map_or(0, |header| header.writer.pid);
        header.is_some_and(|header| header.channel_count > 0)
    });
    let (pid, named) = (number.to_string(), Pid::from_raw(number.cast_signed()));
    let named = named.unwrap();
    kill_process(named, Signal::STOP).unwrap();
    let (first, ended) = diagnosed(&pid);
    assert_eq!(first.as_deref(), Some("process-stopped"), "{ended}");
    let seen = Tool::new(&["watch", &pid, "--once", "--size", "150x30"]).ends_with(0);
    seen.says(&["STOPPED", "are stopped (state T)"]);
    kill_process(named, Signal::CONT).unwrap();
    let (first, ended) = diagnosed(&pid);
    assert_ne!(first.as_deref(), Some("process-stopped"), "{ended}");
    kill_process(named, Signal::KILL).unwrap();
    running.ended();
}

#[test]
fn a_process_without_a_recorder_is_told_from_one_that_is_not_seen() {
    let own = std::process::id().to_string();
    for command in ["diagnose", "watch", "adopt"] {
        let told = |pid: &str| Tool::new(&[command, pid]).ends_with(2);
        told(&own).says(&[&format!("process {own} writes no recorder"), "tcpxctl tap"]);
        told("4194304").says(&["no process 4194304 is seen here"]);
    }
}

/// The files and folders in `reports`, and those one level below.
fn reported(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let runs = below(&folder.join("reports"));
    let files: Vec<PathBuf> = runs.iter().flat_map(|run| below(run)).collect();
    [runs, files].concat()
}

#[test]
fn a_stall_is_reported_while_the_program_stands() {
    for (what, suffix) in [("report", "/report.html"), ("bundle", ".tar.gz")] {
        let tool = tool(
            &["--plugin", "soft", "--on-stall", what, "--json"],
            &["200", "4096", "2"],
            &[("EXCHANGE_HANG", "consume")],
        );
        let folder = tool.folder().to_owned();
        let mut running = tool.start();
        let mut made = Vec::new();
        running.until("a report of the stall", |_| {
            made = reported(&folder);
            made.iter()
                .any(|path| path.to_str().unwrap().ends_with(suffix))
        });
        let one = list(&folder.join("rec")).unwrap().remove(0);
        let pid = one.header.unwrap().writer.pid.cast_signed();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let ended = running.ended();
        ended.says(&["# stall : window-never-consumed at pid", suffix]);
        let document = ended.json();
        let stalls = document["stalls"].as_array().unwrap();
        assert_eq!(stalls.len(), 1, "{document}");
        assert_eq!(stalls[0]["condition"], "window-never-consumed");
        let file = folder.join(stalls[0]["file"].as_str().unwrap());
        assert!(
            file.to_str().unwrap().ends_with(suffix),
            "{}",
            file.display()
        );
        let run = match what {
            "report" => file.parent().unwrap(),
            _ => &file,
        };
        Tool::new(&["diagnose", run.to_str().unwrap()])
            .ends_with(4)
            .says(&["error window-never-consumed"]);
    }
    // A program that ends is not reported.
    let options = ["--plugin", "soft", "--on-stall", "report"];
    let ended = tool(&options, &["5", "100", "1"], &[("EXCHANGE_PAUSE", "3")]).ends_with(0);
    assert_eq!(reported(ended.folder()), Vec::<PathBuf>::new());
    let mut options = options.to_vec();
    options.extend(["--reports", "/proc/x"]);
    let refused = tool(&options, &["5", "100", "1"], &[]).ends_with(3);
    refused.says(&["cannot make /proc/x"]);
    assert!(recordings(&refused).is_empty(), "{refused}");
}

#[test]
fn a_program_that_calls_connect_once_is_told_from_its_recording() {
    let once = [("EXCHANGE_CONNECT_ONCE", "1")];
    let ended = tool(&["--plugin", "soft"], &["5", "100", "1"], &once).ends_with(4);
    let recording = list(&ended.folder().join("rec")).unwrap().remove(0).path;
    let (first, told) = diagnosed(recording.to_str().unwrap());
    assert_eq!(first.as_deref(), Some("connect-called-once"), "{told}");
    told.says(&["called exit(4)"]);
    // A program that made its connections is not blamed, also if nothing is in flight.
    let ended = tool(&["--plugin", "soft"], &["5", "100", "1"], &[]).ends_with(0);
    let recording = list(&ended.folder().join("rec")).unwrap().remove(0).path;
    assert_eq!(diagnosed(recording.to_str().unwrap()).0, None);
}

#[test]
fn a_peer_that_never_accepts_is_told_while_the_program_waits_and_afterwards() {
    // Inside one call, and in many.
    for (how, words) in [
        ("blocking", "has not returned for"),
        ("stepwise", "has given no comm for"),
    ] {
        let never = [("EXCHANGE_NO_ACCEPT", "1"), ("TCPXSOFT_CONNECT", how)];
        let tool = tool(&["--plugin", "soft"], &["5", "100", "1"], &never);
        let recordings = tool.folder().join("rec");
        let mut running = tool.start();
        let (mut found, mut told) = (None, None);
        running.until("connect-never-completes", |_| {
            found = list(&recordings).unwrap().into_iter().next();
            let header = found.as_ref().and_then(|one| one.header.as_ref().ok());
            let pid = header.filter(|header| header.setup_call.is_some());
            let pid = pid.map(|header| header.writer.pid.to_string());
            let (first, ended) = pid.map(|pid| diagnosed(&pid)).unzip();
            told = ended;
            first.flatten().as_deref() == Some("connect-never-completes")
        });
        let words = ["connect to the listener 127.0.0.1:", words];
        told.unwrap().says(&words);
        let one = found.unwrap();
        let pid = one.header.unwrap().writer.pid.cast_signed();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let tapped = running.ended();
        let (first, ended) = diagnosed(one.path.to_str().unwrap());
        let first = first.as_deref();
        assert_eq!(first, Some("connect-never-completes"), "{ended}{tapped}");
        ended.says(&words);
    }
}

#[test]
fn a_program_that_calls_connect_once_and_goes_on_is_told_while_it_runs() {
    let tool = tool(
        &["--plugin", "soft"],
        &["5", "100", "1"],
        &[("EXCHANGE_CONNECT_ONCE", "wait")],
    );
    let recordings = tool.folder().join("rec");
    let mut running = tool.start();
    let mut told = None;
    running.until("connect-called-once", |_| {
        let pid = list(&recordings).unwrap().first().and_then(|one| {
            let header = one.header.as_ref().ok()?;
            header.setup_call.map(|_| header.writer.pid)
        });
        let (first, ended) = pid.map(|pid| diagnosed(&pid.to_string())).unzip();
        told = ended;
        first.flatten().as_deref() == Some("connect-called-once")
    });
    told.unwrap().says(&["it has made none for"]);
    // The program that waits is stopped with it.
    running.signal(rustix::process::Signal::TERM);
    running.ended();
}

/// Checks the run folder of a recording, and its bundle.
fn check_adopted(run: &Path, condition: &str) {
    let place = run.to_str().unwrap();
    let finding = format!("error {condition}");
    let note = "recordings and logs of programs that no run started";
    Tool::new(&["diagnose", place])
        .ends_with(4)
        .says(&[&finding, note]);
    let report = Tool::new(&["report", place, "--format", "markdown"]).ends_with(0);
    report.says(&["STALLED", condition, "TCPXSoft_v7"]);
    let bundled = Tool::new(&["bundle", place, "--out", "run.tar.gz"]).ends_with(0);
    let bundle = bundled.folder().join("run.tar.gz");
    let bundle = bundle.to_str().unwrap();
    Tool::new(&["bundle", "--verify", bundle]).ends_with(0);
    Tool::new(&["diagnose", bundle])
        .ends_with(4)
        .says(&[&finding, note]);
}

#[test]
fn recordings_and_logs_of_other_programs_are_reported_like_a_run() {
    let ended = tool(&["--plugin", "soft"], &["50", "4096", "2"], &[]).ends_with(0);
    let recording = list(&ended.folder().join("rec")).unwrap().remove(0).path;
    let logs = TempDir::new().unwrap();
    let line =
        "a3-0:4242:4250 [0] transport/net.cc:12 NCCL WARN NET/GPUDirectTCPX : something new\n";
    std::fs::write(logs.path().join("rank0.log"), line).unwrap();
    std::fs::write(logs.path().join(".hidden"), "x").unwrap();
    let (recording, logs) = (recording.to_str().unwrap(), logs.path().to_str().unwrap());
    let adopted = Tool::new(&["adopt", recording, logs, "--name", "their job", "--json"]);
    let adopted = adopted.ends_with(0);
    let document = adopted.json();
    assert_eq!(document["files"].as_array().unwrap().len(), 2, "{adopted}");
    let run = adopted.run_folders().remove(0);
    assert!(run.to_str().unwrap().ends_with("-their-job"));
    let place = run.to_str().unwrap();
    let report = Tool::new(&["report", place, "--format", "markdown"]).ends_with(0);
    report.says(&["ADOPTED", "something new", "rank0.log:1", "called exit(0)"]);
    Tool::new(&["diagnose", place])
        .ends_with(0)
        .says(&["nothing found"]);
    Tool::new(&["watch", place, "--once"])
        .ends_with(0)
        .says(&["ENDED", "called exit(0)"]);
    Tool::new(&["trace", place, "--format", "csv"]).ends_with(0);
    Tool::new(&[
        "history",
        "--reports",
        run.parent().unwrap().to_str().unwrap(),
    ])
    .ends_with(0)
    .says(&["adopted", "their-job"]);
    Tool::new(&["adopt", logs, "--reports", "/proc/x"])
        .ends_with(3)
        .says(&["/proc/x"]);
    let many = TempDir::new().unwrap();
    for number in 0..70 {
        // Not copies of one recording, which are read once.
        let bytes = [&std::fs::read(recording).unwrap()[..], &vec![0; number]].concat();
        std::fs::write(many.path().join(format!("{number}.tcpxrec")), bytes).unwrap();
    }
    Tool::new(&["adopt", many.path().to_str().unwrap()])
        .ends_with(0)
        .says(&["64 recordings and 0 logs", "6 recordings are left out"]);
    let noise = adopted.folder().join("noise.tcpxrec");
    std::fs::write(&noise, "nonsense").unwrap();
    Tool::new(&["adopt", noise.to_str().unwrap()])
        .ends_with(3)
        .says(&["cannot read the recording", "noise.tcpxrec"]);
}

#[test]
fn a_recording_that_was_copied_in_part_is_told() {
    let ended = tool(&["--plugin", "soft"], &["50", "4096", "2"], &[]).ends_with(0);
    let recording = list(&ended.folder().join("rec")).unwrap().remove(0).path;
    let bytes = std::fs::read(recording).unwrap();
    let copies = TempDir::new().unwrap();
    let copy = |bytes: &[u8]| {
        let path = copies.path().join("copy.tcpxrec");
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = Tool::new(&["diagnose", &copy(&bytes)]).ends_with(0);
    assert!(!whole.out.contains("torn"), "{whole}");
    for size in [4096, 6000, bytes.len() / 20] {
        let torn = copy(&bytes[..size]);
        let judged = Tool::new(&["diagnose", &torn]).ends_with(3);
        judged.says(&[
            "copy.tcpxrec is torn",
            "nothing found in what could be read",
        ]);
        let adopted = Tool::new(&["adopt", &torn]).ends_with(0);
        adopted.says(&["copy.tcpxrec is torn", "copy the recording again"]);
        let run = adopted.run_folders().remove(0);
        let run = run.to_str().unwrap();
        Tool::new(&["diagnose", run])
            .ends_with(3)
            .says(&["is torn"]);
        Tool::new(&["report", run, "--format", "markdown"])
            .ends_with(0)
            .says(&["is torn"]);
    }
    for (size, said) in [(0, "no complete header"), (100, "no complete header")] {
        let half = copy(&bytes[..size]);
        Tool::new(&["diagnose", &half]).ends_with(3).says(&[said]);
        Tool::new(&["watch", &half, "--once"])
            .ends_with(3)
            .says(&[said]);
    }
    let mut other = bytes.clone();
    other[8] = 99;
    let other = copy(&other);
    for command in ["diagnose", "adopt", "report", "trace"] {
        Tool::new(&[command, &other])
            .ends_with(3)
            .says(&["format version 99"]);
    }
}

#[test]
fn recordings_and_logs_are_reported_and_bundled_without_a_step_between() {
    let ended = tool(&["--plugin", "soft"], &["50", "4096", "2"], &[]).ends_with(0);
    let recording = list(&ended.folder().join("rec")).unwrap().remove(0).path;
    let recording = recording.to_str().unwrap();
    let logs = TempDir::new().unwrap();
    let line =
        "a3-0.corp.example:4242:4250 [0] f:12 NCCL WARN NET/GPUDirectTCPX : lost 10.20.30.40\n";
    std::fs::write(logs.path().join("rank0.log"), line).unwrap();
    let folder = logs.path().to_str().unwrap();
    let log = format!("{folder}/rank0.log");

    let report = Tool::new(&["report", recording, folder, "--format", "markdown"]).ends_with(0);
    report.says(&[
        "# adopt : 1 recording and 1 log in reports/",
        "called exit(0)",
        "rank0.log:1",
    ]);
    assert!(!report.out.contains("10.20.30.40"), "{report}");
    assert_eq!(report.run_folders().len(), 1);

    let judged = Tool::new(&["diagnose", recording, folder]).ends_with(0);
    judged.says(&[
        "4 channels of pid",
        "nothing found in the recordings",
        "rank0.log:1",
    ]);
    let run = report.run_folders().remove(0);
    Tool::new(&["diagnose", run.to_str().unwrap()])
        .ends_with(0)
        .says(&["rank0.log:1"]);
    let null = "a3-0:4242:4250 [0] f:12 NCCL WARN NET/GPUDirectTCPX : mhandle is null\n";
    let broken = Tool::new(&["diagnose", "x.log", "--json"]);
    broken.write("x.log", null);
    let document = broken.ends_with(1).json();
    assert_eq!(document["logs"]["findings"][0]["signature"], "null-mhandle");

    let bundle = Tool::new(&["bundle", &log, recording, "--out", "x.tar.gz"]).ends_with(0);
    let packed = bundle.folder().join("x.tar.gz");
    let packed = packed.to_str().unwrap();
    Tool::new(&["bundle", "--verify", packed])
        .ends_with(0)
        .says(&["redacted, and no name or secret found"]);
    let two = ["report", packed, packed, "--format", "json"];
    Tool::new(&two).ends_with(0);

    Tool::new(&["report", packed, &log])
        .ends_with(2)
        .says(&["rank0.log is a recording or a log", "name runs only"]);
    Tool::new(&["bundle", packed, packed])
        .ends_with(2)
        .says(&["2 runs are named"]);
    let many = report.folder().join("reports");
    Tool::new(&["report", many.to_str().unwrap()])
        .ends_with(2)
        .says(&["is not a run folder"]);
}

#[test]
fn a_plugin_opened_by_a_fixed_path_is_reported() {
    let soft = soft();
    let fixed = [("EXCHANGE_FIXED", soft.to_str().unwrap())];
    let ended = tool(&["--plugin", "soft"], &["5", "100", "1"], &fixed).ends_with(0);
    ended.says(&["has not loaded the tap"]);
    assert!(recordings(&ended).is_empty());
    // A longer program gets the message while it runs.
    let slow = [fixed[0], ("EXCHANGE_PAUSE", "4")];
    tool(&["--plugin", "soft"], &["5", "100", "1"], &slow)
        .ends_with(0)
        .says(&[
            "# not recorded : pid",
            "by a fixed path, which no variable redirects",
        ]);
}

#[test]
fn a_missing_plugin_or_tap_lists_every_searched_path() {
    let folder = TempDir::new().unwrap();
    let alone = folder.path().join("tcpxctl");
    std::fs::copy(env!("CARGO_BIN_EXE_tcpxctl"), &alone).unwrap();
    let soft = soft();
    let output = Command::new(&alone)
        .args(["tap", "--plugin", soft.to_str().unwrap(), "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    for word in [
        "libnccl_net_tcpxtap.so",
        "/deps/",
        "/../lib/tcpxctl/",
        "scripts/install",
    ] {
        assert!(said.contains(word), "{word} in {said}");
    }
    Tool::new(&["tap", "--plugin", "/no/such.so", "--", "true"])
        .ends_with(3)
        .says(&["/no/such.so"]);
    Tool::new(&["tap", "--plugin", "builtin", "--", "true"])
        .ends_with(2)
        .says(&["is not a file"]);
    Tool::new(&["tap", "--plugin", "soft", "--", "/no/such/program"])
        .ends_with(3)
        .says(&["/no/such/program"]);
    Tool::new(&["tap", "--plugin", "soft"]).ends_with(2);
}

#[test]
fn a_misspelt_flag_before_the_program_is_an_error() {
    let ended = Tool::new(&["tap", "--plugn", "soft", "--", "true"]).ends_with(2);
    ended.says(&["unexpected argument '--plugn'", "--plugin"]);
    let flags = Tool::new(&["tap", "--plugin", "soft", "sh", "-c", "exit 7", "--json"]);
    flags.ends_with(7).says(&["# tap : v7 of"]);
}
