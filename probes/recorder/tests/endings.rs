//! A killed writer leaves a valid file that a sweep finds, and lack of space does not kill a
//! writer.
//!
//! The children are this test program, which an environment variable makes write instead of
//! test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tcpx_recorder::format::{Call, EventKind, Role};
use tcpx_recorder::{
    Addresses, ChannelSample, Events, LogLine, Note, Opening, Options, Reader, Recorder, sweep,
};

const CHILD: &str = "TCPX_RECORDER_TEST_FOLDER";

/// Number of writers to kill, 50 or `TCPX_RECORDER_TEST_KILLS`.
fn rounds() -> u64 {
    std::env::var("TCPX_RECORDER_TEST_KILLS")
        .map_or(50, |kills| kills.parse().expect("a number of kills"))
}

/// Writes as fast as it can until killed, reusing a few slots.
#[test]
fn child_writes_until_killed() {
    let Some(parent) = std::env::var_os(CHILD) else {
        return;
    };
    let options = Options {
        capacity: 4,
        role: "child",
        ring_events: 64,
        ..Options::new("killed")
    };
    let recorder = Recorder::create_in(Path::new(&parent), &options)
        .unwrap_or_else(|error| panic!("ERROR {error}"));
    println!("FILE {}", recorder.path().display());
    let started = Instant::now();
    let mut round = 0;
    // Bounded, in case the parent dies first.
    while started.elapsed() < Duration::from_secs(10) {
        let opening = Opening {
            role: Role::Recv,
            device: 0,
            comm: 0x1000,
            retires_consumed: true,
            addresses: Addresses::default(),
        };
        let key = recorder.open(&opening).unwrap();
        let slot = recorder.slot(key).unwrap();
        let event = |kind, call, at_ns, number| {
            recorder.event(
                key.index,
                slot,
                at_ns,
                &Note::request(kind, call, number, 4096),
            )
        };
        for _ in 0..round % 200 {
            let number = slot.next_request().unwrap();
            let token = slot.enter(Call::Irecv);
            event(
                EventKind::Posted,
                Call::Irecv,
                slot.post(4096, recorder.now_ns()),
                number,
            );
            slot.leave(token);
            let token = slot.enter(Call::Test);
            slot.tested();
            slot.leave(token);
            let (at_ns, _) = slot.finish(number, None, recorder.now_ns());
            event(EventKind::Done, Call::Test, at_ns, number);
            recorder.unpacked(key);
            let (at_ns, _) = slot.consume(recorder.now_ns()).unwrap();
            event(EventKind::Consumed, Call::IrecvConsumed, at_ns, number);
        }
        recorder.log(&LogLine {
            level: 3,
            flags: 0,
            function: b"child",
            line: 1,
            text: b"once more",
        });
        recorder.close(key, Call::CloseRecv);
        round += 1;
    }
}

/// Opens channels until none is left, then closes one and reuses its slot.
#[test]
fn child_opens_until_refused() {
    let Some(parent) = std::env::var_os(CHILD) else {
        return;
    };
    let options = Options {
        capacity: 100,
        role: "child",
        ..Options::new("full")
    };
    let recorder = Recorder::create_in(Path::new(&parent), &options)
        .unwrap_or_else(|error| panic!("ERROR {error}"));
    let open = || {
        recorder.open(&Opening {
            role: Role::Send,
            device: 0,
            comm: 0x1000,
            retires_consumed: false,
            addresses: Addresses::default(),
        })
    };
    let keys: Vec<_> = std::iter::from_fn(open).collect();
    recorder.close(keys[0], Call::CloseRecv);
    assert_eq!(open().unwrap().index, 0);
    assert!(open().is_none());
    let header = Reader::open(&recorder.path()).and_then(|mut reader| reader.header());
    // Both, and the one that got the slot of the first.
    assert_eq!(header.unwrap().rings_refused, 3);
    println!("OPENED {}", keys.len());
}

/// A child that does not outlive its test.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the child and waits for its file.
fn spawn(parent: &Path) -> (Writer, PathBuf) {
    let mut writer = Writer(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_writes_until_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, parent)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
    let path = lines.find_map(|line| {
        line.unwrap()
            .rsplit_once("FILE ")
            .map(|(_, path)| PathBuf::from(path))
    });
    (writer, path.expect("the child ended early"))
}

/// Checks that every event is complete, and that they have the order in which the child wrote
/// them.
fn check_events(sample: &ChannelSample, read: &Events) {
    assert_eq!(read.damaged, 0, "{read:?}");
    assert_eq!(read.overwritten, sample.events_overwritten);
    let next = |kind| match kind {
        EventKind::Opened | EventKind::Consumed => vec![EventKind::Posted, EventKind::Closed],
        EventKind::Posted => vec![EventKind::Done],
        EventKind::Done => vec![EventKind::Unpacked],
        EventKind::Unpacked => vec![EventKind::Consumed],
        _ => vec![],
    };
    for pair in read.events.windows(2) {
        assert!(
            next(pair[0].kind).contains(&pair[1].kind) && pair[0].at_ns <= pair[1].at_ns,
            "{pair:?}"
        );
        let same = !matches!(pair[1].kind, EventKind::Posted | EventKind::Closed);
        assert!(!same || pair[0].request == pair[1].request, "{pair:?}");
    }
    if let Some(event) = read.events.last() {
        assert!(
            u64::from(event.request) < sample.posted.max(1) + 1,
            "{event:?} {sample:?}"
        );
    }
}

fn check(path: &Path) -> u64 {
    let mut reader = Reader::open(path).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.header.role, "child");
    let log = reader.log(0, 10_000).unwrap();
    assert!(
        log.lines.iter().all(|line| line.text == "once more"),
        "{log:?}"
    );
    for sample in &snapshot.channels {
        assert!(
            sample.posted >= sample.done && sample.done >= sample.consumed,
            "{sample:?}"
        );
        assert!(sample.in_flight() <= 1, "{sample:?}");
        assert!(sample.latency.count() <= sample.posted, "{sample:?}");
        assert_eq!(sample.bytes_posted % 4096, 0, "{sample:?}");
        assert!(!sample.torn, "{sample:?}");
        check_events(sample, &reader.events(sample, 1000).unwrap());
    }
    snapshot.channels.iter().map(|sample| sample.posted).sum()
}

#[test]
fn a_killed_writer_leaves_a_readable_file() {
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    println!("seed {seed}");
    let mut random = seed;
    let parent = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for _ in 0..rounds() {
        let (mut writer, path) = spawn(parent.path());
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 15_000));
        // The file of a running writer is as readable as that of a killed one.
        Reader::open(&path).unwrap().snapshot().unwrap();
        writer.0.kill().unwrap();
        writer.0.wait().unwrap();
        seen += check(&path);
        assert_eq!(sweep(parent.path()).unwrap().removed, [path]);
    }
    assert!(seen > 0, "no round got as far as writing");
}

#[test]
fn a_file_size_limit_is_an_error_not_a_signal() {
    let parent = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 8; exec \"$0\" --exact child_writes_until_killed --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, parent.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code().is_some() && said.contains("file size limit"),
        "{:?} {said}",
        output.status
    );
}

#[test]
fn a_full_file_system_refuses_channels_without_a_signal() {
    let parent = tempfile::tempdir().unwrap();
    // Three pages: the header, and two that hold two whole slots.
    let script = "mount -t tmpfs -o size=12k tmpfs \"$1\" || exit 77
                  exec \"$0\" --exact child_opens_until_refused --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(parent.path())
        .env(CHILD, parent.path())
        .output();
    let Ok(output) = output.inspect_err(|error| println!("skipped: no unshare: {error}")) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if matches!(output.status.code(), Some(1 | 77)) {
        println!("skipped: no mount namespace of our own: {said}");
        return;
    }
    assert!(
        output.status.success() && said.contains("OPENED 2"),
        "{:?} {said}",
        output.status
    );
}
