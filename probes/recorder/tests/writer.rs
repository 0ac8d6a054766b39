//! Tests the writer through the reader.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tcpx_recorder::format::{CAPACITY_MAX, Call, EventKind, Role, TESTS_PER_NOTE};
use tcpx_recorder::{
    Address, Addresses, CreateError, Device, Events, Key, Liveness, LogLine, LogLines, Note,
    Opening, Options, Reader, Recorder, Snapshot, State, list,
};
use tempfile::TempDir;

const OPTIONS: Options<'_> = Options {
    capacity: 2,
    role: "recv worker",
    ..Options::new("writer")
};

fn recorder() -> (TempDir, Recorder) {
    let parent = tempfile::tempdir().unwrap();
    let recorder = Recorder::create_in(parent.path(), &OPTIONS).unwrap();
    (parent, recorder)
}

fn open(recorder: &Recorder, comm: usize) -> Option<Key> {
    recorder.open(&Opening {
        role: Role::Recv,
        device: 3,
        comm,
        retires_consumed: false,
        addresses: Addresses::default(),
    })
}

fn read(recorder: &Recorder) -> Snapshot {
    Reader::open(&recorder.path()).unwrap().snapshot().unwrap()
}

#[test]
fn the_header_has_the_writer_and_its_labels() {
    let (_parent, recorder) = recorder();
    recorder.set_plugin("GPUDirectTCPX_v7").unwrap();
    let header = read(&recorder).header;
    assert_eq!(
        (header.role.as_str(), header.plugin.as_str()),
        ("recv worker", "GPUDirectTCPX_v7")
    );
    assert_eq!(header.writer.pid, std::process::id());
    assert_eq!(header.writer.liveness(), Liveness::Alive);
    assert_eq!((header.channel_count, header.capacity), (0, 2));
}

#[test]
fn a_label_is_cut_between_characters() {
    let (_parent, recorder) = recorder();
    recorder.set_plugin(&"é".repeat(200)).unwrap();
    assert_eq!(read(&recorder).header.plugin, "é".repeat(128));
    recorder.set_plugin("short").unwrap();
    assert_eq!(read(&recorder).header.plugin, "short");
    recorder.set_role(&"é".repeat(33)).unwrap();
    assert_eq!(read(&recorder).header.role, "é".repeat(32));
}

#[test]
fn the_file_is_private_small_and_gone_when_dropped() {
    let parent = tempfile::tempdir().unwrap();
    let options = Options {
        capacity: CAPACITY_MAX,
        ..OPTIONS
    };
    let recorder = Recorder::create_in(parent.path(), &options).unwrap();
    let meta = std::fs::metadata(recorder.path()).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o600);
    assert!(
        meta.blocks() * 512 < 64 * 1024,
        "{} blocks for a header",
        meta.blocks()
    );
    let path = recorder.path();
    drop(recorder);
    assert!(!path.exists());
}

#[test]
fn a_closed_channels_counters_stay_until_its_slot_is_reused() {
    let (_parent, recorder) = recorder();
    let first = open(&recorder, 1).unwrap();
    recorder.slot(first).unwrap().post(10, 5);
    recorder.close(first, Call::CloseRecv);
    let second = open(&recorder, 2).unwrap();
    let snapshot = read(&recorder);
    assert_eq!(
        snapshot
            .channels
            .iter()
            .map(|c| (c.comm, c.state))
            .collect::<Vec<_>>(),
        [(1, State::Closed), (2, State::Open)]
    );
    assert_eq!(snapshot.channels[0].posted, 1);
    assert!(snapshot.channels[0].closed_ns.unwrap() >= snapshot.channels[0].opened_ns);

    let third = open(&recorder, 3).unwrap();
    assert_eq!((third.index, third.generation), (first.index, 2));
    let snapshot = read(&recorder);
    assert_eq!(
        (
            snapshot.channels[0].comm,
            snapshot.channels[0].posted,
            snapshot.header.channels_reused
        ),
        (3, 0, 1)
    );
    assert!(open(&recorder, 4).is_none());
    assert_eq!(read(&recorder).header.channels_refused, 1);
    recorder.close(second, Call::CloseRecv);
}

#[test]
fn a_key_of_a_closed_comm_is_invalid() {
    let (_parent, recorder) = recorder();
    let old = open(&recorder, 1).unwrap();
    recorder.close(old, Call::CloseRecv);
    assert!(recorder.slot(old).is_none());
    open(&recorder, 2).unwrap();
    let new = open(&recorder, 3).unwrap();
    assert_eq!(new.index, old.index);
    recorder.unpacked(old);
    recorder.close(old, Call::CloseRecv);
    assert!(recorder.slot(new).is_some());
    assert_eq!(read(&recorder).channels[0].unpacked, None);
}

#[test]
fn a_channel_has_the_engines_number_and_counts_unpacks() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    assert_eq!(
        (
            read(&recorder).channels[0].channel,
            read(&recorder).channels[0].unpacked
        ),
        (None, None)
    );
    recorder.set_channel(key, 9);
    let slot = recorder.slot(key).unwrap();
    slot.post(1, recorder.now_ns());
    slot.finish(0, None, recorder.now_ns());
    recorder.unpacked(key);
    let sample = &read(&recorder).channels[0];
    assert_eq!(
        (sample.channel, sample.unpacked, sample.device),
        (Some(9), Some(1), Some(3))
    );
}

#[test]
fn the_thread_that_drove_a_comm_last_is_visible_to_readers() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    let thread = || read(&recorder).channels[0].thread.unwrap();
    let task = |id: u32| Path::new("/proc/self/task").join(id.to_string());
    slot.post(1, recorder.now_ns());
    let here = thread();
    assert!(task(here).exists());
    std::thread::scope(|scope| {
        let polls = scope.spawn(|| {
            (0..TESTS_PER_NOTE).for_each(|_| slot.not_done(|| recorder.now_ns()));
            assert!(thread() != here && task(thread()).exists());
        });
        polls.join().unwrap();
    });
    slot.finish(0, None, recorder.now_ns());
    assert_ne!(thread(), here, "a change alone does not ask the kernel");
    (0..TESTS_PER_NOTE).for_each(|_| slot.not_done(|| recorder.now_ns()));
    assert_eq!(thread(), here);
}

#[test]
fn the_call_in_progress_is_visible_to_readers() {
    let (_parent, recorder) = recorder();
    let slot_key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(slot_key).unwrap();
    let token = slot.enter(Call::CloseRecv);
    let inside = read(&recorder).channels[0].in_call.unwrap();
    assert_eq!(inside.call, Call::CloseRecv);
    assert_eq!(read(&recorder).channels[0].in_call, Some(inside));
    slot.leave(token);
    let after = read(&recorder).channels.remove(0);
    assert_eq!(
        (after.in_call, after.last_call),
        (None, Some(Call::CloseRecv))
    );
    assert!(after.call_sequence > inside.sequence);

    let init = recorder.enter_setup(Call::Init);
    let header = read(&recorder).header;
    assert_eq!(
        (header.setup_call, header.setup_calls_inside),
        (Some(Call::Init), 1)
    );
    let entered = header.setup_at_ns;
    assert!(entered >= Some(header.created_ns));
    recorder.leave_setup(init, 3, true);
    let header = read(&recorder).header;
    assert_eq!(
        (header.setup_calls_inside, header.setup_last_error),
        (0, Some((Call::Init, 3)))
    );
    assert!(header.setup_at_ns >= entered);
}

#[test]
fn errors_are_counted_by_code_and_are_not_state_changes() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    let before = read(&recorder).channels[0].last_change_ns;
    for code in [2, 2, 3, -7, 99] {
        slot.error(Call::Test, code, before + 10);
    }
    let sample = &read(&recorder).channels[0];
    assert_eq!(sample.errors, [0, 0, 2, 1, 0, 0, 0, 0, 0, 2]);
    assert_eq!(sample.rc_errors(), 5);
    let last = sample.last_error.unwrap();
    assert_eq!(
        (last.call, last.code, last.at_ns),
        (Call::Test, 99, before + 10)
    );
    assert_eq!(sample.last_change_ns, before);
}

#[test]
fn time_never_goes_back_within_a_channel() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    let later = recorder.now_ns() + 1_000_000;
    slot.post(1, later);
    slot.post(1, later - 500);
    slot.finish(0, None, later - 100);
    let sample = &read(&recorder).channels[0];
    assert_eq!(
        (sample.last_change_ns, sample.latency.max_ns()),
        (later, Some(0))
    );
    assert_eq!(sample.not_done_posted_ns, Some(later));
}

#[test]
fn requests_that_finish_out_of_order_keep_their_own_times() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    let opened = recorder.now_ns();
    for number in 0..3 {
        assert_eq!(slot.next_request(), Some(number));
        slot.post(10 + number, opened + number * 1000);
    }
    assert!(slot.is_pending(2, 24) && !slot.is_pending(3, 24) && !slot.is_pending(2 + 64, 24));
    slot.finish(2, None, opened + 2500);
    slot.finish(0, None, opened + 5000);
    assert!(!slot.is_pending(2, 24) && slot.is_pending(1, 24));
    let sample = &read(&recorder).channels[0];
    assert_eq!(
        (sample.done, sample.bytes_done, sample.latency.max_ns()),
        (2, 22, Some(5000))
    );
    assert_eq!(sample.not_done_posted_ns, Some(opened + 1000));
}

#[test]
fn a_request_that_never_finishes_blocks_only_its_own_entry() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    slot.post(1, 0);
    for number in 1..64 {
        assert_eq!(slot.next_request(), Some(number));
        slot.post(1, 0);
        slot.finish(number, None, 0);
    }
    assert_eq!(slot.next_request(), None);
    slot.finish(0, None, 0);
    assert_eq!(slot.next_request(), Some(64));
}

#[test]
fn invalid_names_and_capacities_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let long = "x".repeat(65);
    for name in ["", ".hidden", "a/b", "a b", "é", long.as_str()] {
        let error = Recorder::create_in(parent.path(), &Options { name, ..OPTIONS }).unwrap_err();
        assert!(matches!(error, CreateError::BadName(_)), "{name}");
    }
    for capacity in [0, CAPACITY_MAX + 1] {
        let error = Recorder::create_in(
            parent.path(),
            &Options {
                capacity,
                ..OPTIONS
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("16384"), "{error}");
    }
}

#[test]
fn the_error_names_each_place_and_its_reason() {
    let error = Recorder::create_in(Path::new("/proc"), &OPTIONS).unwrap_err();
    assert!(error.to_string().contains("below /proc: "), "{error}");
    let (parent, recorder) = recorder();
    let error = Recorder::create_in(parent.path(), &OPTIONS).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    drop(recorder);
}

#[test]
fn many_threads_open_and_close_and_every_slot_has_one_owner() {
    let parent = tempfile::tempdir().unwrap();
    let recorder = Recorder::create_in(
        parent.path(),
        &Options {
            capacity: 8,
            ..OPTIONS
        },
    )
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let recorder = &recorder;
            scope.spawn(move || {
                for round in 0..500usize {
                    let key = open(recorder, thread << 32 | round).unwrap();
                    let slot = recorder.slot(key).unwrap();
                    for number in 0..20 {
                        slot.post(1, 1);
                        slot.finish(number, None, 1);
                    }
                    assert_eq!(slot.next_request(), Some(20));
                    recorder.close(key, Call::CloseRecv);
                }
            });
        }
    });
    let snapshot = read(&recorder);
    assert_eq!(snapshot.header.channels_refused, 0);
    assert!(
        snapshot
            .channels
            .iter()
            .all(|sample| sample.posted == 20 && sample.done == 20)
    );
    let lives: u64 = snapshot
        .channels
        .iter()
        .map(|sample| u64::from(sample.generation))
        .sum();
    assert_eq!(lives, 2_000);
}

fn small_rings(parent: &Path) -> Recorder {
    let options = Options {
        ring_events: 4,
        log_entries: 6,
        ..OPTIONS
    };
    Recorder::create_in(parent, &options).unwrap()
}

fn events(recorder: &Recorder, max: usize) -> Events {
    let mut reader = Reader::open(&recorder.path()).unwrap();
    let sample = reader.snapshot().unwrap().channels.remove(0);
    reader.events(&sample, max).unwrap()
}

#[test]
fn a_channels_events_are_in_order() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    let at_ns = slot.post(4096, recorder.now_ns());
    recorder.event(
        key.index,
        slot,
        at_ns,
        &Note::request(EventKind::Posted, Call::Irecv, 0, 4096),
    );
    let (at_ns, bytes) = slot.finish(0, Some(100), recorder.now_ns());
    recorder.event(
        key.index,
        slot,
        at_ns,
        &Note::request(EventKind::Done, Call::Test, 0, bytes),
    );
    recorder.unpacked(key);
    let (at_ns, number) = slot.consume(recorder.now_ns()).unwrap();
    recorder.event(
        key.index,
        slot,
        at_ns,
        &Note::request(EventKind::Consumed, Call::IrecvConsumed, number, 0),
    );
    recorder.close(key, Call::CloseRecv);

    let read = events(&recorder, 100);
    assert_eq!((read.overwritten, read.damaged), (0, 0));
    let told: Vec<_> = read
        .events
        .iter()
        .map(|event| (event.kind, event.request, event.value))
        .collect();
    let expected = [
        (EventKind::Opened, 0, 1),
        (EventKind::Posted, 0, 4096),
        (EventKind::Done, 0, 100),
        (EventKind::Unpacked, 0, 0),
        (EventKind::Consumed, 0, 0),
        (EventKind::Closed, 0, 0),
    ];
    assert_eq!(told, expected);
    assert!(read.events.is_sorted_by_key(|event| event.at_ns));
    assert!(
        read.events
            .iter()
            .all(|event| event.thread == read.events[0].thread)
    );
    assert_eq!(events(&recorder, 2).events, read.events[4..]);
}

#[test]
fn a_ring_overwrites_its_oldest_events_and_counts_them() {
    let parent = tempfile::tempdir().unwrap();
    let recorder = small_rings(parent.path());
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    for number in 0..10 {
        recorder.event(
            key.index,
            slot,
            number,
            &Note::request(EventKind::Posted, Call::Irecv, number, 0),
        );
    }
    let read = events(&recorder, 100);
    // Eleven events with the opening; of the four entries one may be half-written.
    assert_eq!((read.overwritten, read.damaged), (8, 0));
    assert_eq!(
        read.events
            .iter()
            .map(|event| event.request)
            .collect::<Vec<_>>(),
        [7, 8, 9]
    );

    // Another comm in the same slot does not see the events of the first one.
    recorder.close(key, Call::CloseRecv);
    open(&recorder, 2).unwrap();
    open(&recorder, 3).unwrap();
    let read = events(&recorder, 100);
    assert_eq!(
        read.events
            .iter()
            .map(|event| (event.kind, event.value))
            .collect::<Vec<_>>(),
        [(EventKind::Opened, 2)]
    );
    assert_eq!(read.overwritten, 0);
}

#[test]
fn a_repeated_failure_is_one_event_and_counted_every_time() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    for code in [2, 2, 2, 3, 3, 2] {
        recorder.failed(key.index, slot, Call::Test, code, 7);
    }
    let failures: Vec<_> = events(&recorder, 100).events[1..]
        .iter()
        .map(|event| (event.code, event.request))
        .collect();
    assert_eq!(failures, [(2, 7), (3, 7), (2, 7)]);
    assert_eq!(read(&recorder).channels[0].rc_errors(), 6);
}

#[test]
fn a_listener_and_a_file_without_rings_have_counters_only() {
    let (_parent, recorder) = recorder();
    let listen = Opening {
        role: Role::Listen,
        device: 0,
        comm: 9,
        retires_consumed: false,
        addresses: Addresses::default(),
    };
    recorder.open(&listen).unwrap();
    assert_eq!(events(&recorder, 100), Events::default());

    let parent = tempfile::tempdir().unwrap();
    let recorder = Recorder::create_in(
        parent.path(),
        &Options {
            ring_events: 0,
            log_entries: 0,
            ..OPTIONS
        },
    )
    .unwrap();
    let key = open(&recorder, 1).unwrap();
    recorder.failed(key.index, recorder.slot(key).unwrap(), Call::Test, 2, 0);
    recorder.log(&LogLine {
        level: 2,
        flags: 0,
        function: b"",
        line: 0,
        text: b"",
    });
    let call = recorder.enter_setup(Call::Init);
    recorder.leave_setup(call, 0, true);
    assert_eq!(events(&recorder, 100), Events::default());
    let mut reader = Reader::open(&recorder.path()).unwrap();
    assert_eq!(reader.setup_events(100).unwrap(), Events::default());
    assert_eq!(reader.log(0, 100).unwrap().missing, 1);
    assert_eq!(read(&recorder).channels[0].rc_errors(), 1);
}

#[test]
fn setup_calls_become_events_if_they_are_worth_it() {
    let parent = tempfile::tempdir().unwrap();
    let recorder = small_rings(parent.path());
    for (call, code, worth) in [
        (Call::Init, 0, true),
        (Call::Connect, 0, false),
        (Call::Connect, 2, false),
        (Call::Connect, 2, true),
    ] {
        let token = recorder.enter_setup(call);
        recorder.leave_setup(token, code, worth);
    }
    let mut reader = Reader::open(&recorder.path()).unwrap();
    let told: Vec<_> = reader
        .setup_events(9)
        .unwrap()
        .events
        .iter()
        .map(|e| (e.kind, e.call, e.code))
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::Called, Call::Init, 0),
            (EventKind::Failed, Call::Connect, 2)
        ]
    );
    assert_eq!(reader.snapshot().unwrap().header.setup_errors, 2);
}

#[test]
fn the_first_and_the_last_log_lines_are_kept() {
    let parent = tempfile::tempdir().unwrap();
    let recorder = small_rings(parent.path());
    let long = "x".repeat(1000);
    for number in 0..10 {
        let text = format!("\u{1b}[1mline {number} {long}");
        recorder.log(&LogLine {
            level: 3,
            flags: 0x10,
            function: b"tcpxInit",
            line: 7,
            text: text.as_bytes(),
        });
    }
    let mut reader = Reader::open(&recorder.path()).unwrap();
    let page = reader.log(0, 100).unwrap();
    // Six entries, of which three are never overwritten.
    assert_eq!(
        page.lines
            .iter()
            .map(|line| line.number)
            .collect::<Vec<_>>(),
        [0, 1, 2, 7, 8, 9]
    );
    assert_eq!((page.missing, page.next), (4, 10));
    let line = &page.lines[3];
    assert_eq!(
        (line.level, line.line, line.function.as_str()),
        (3, 7, "tcpxInit")
    );
    assert!(
        line.text.starts_with("\u{fffd}[1mline 7 xxx") && line.text_bytes == 1011,
        "{line:?}"
    );
    assert_eq!(reader.log(8, 1).unwrap().lines[0].number, 8);
    assert_eq!(
        reader.log(99, 9).unwrap(),
        LogLines {
            next: 10,
            ..LogLines::default()
        }
    );
}

#[test]
fn devices_and_addresses_are_read_as_written() {
    let (_parent, recorder) = recorder();
    let said = Device {
        name: "eth1",
        pci: "0000:06:00.0",
        speed_mbit: 100_000,
        ptr_support: 3,
        device_type: 1,
    };
    recorder.set_device(2, &said).unwrap();
    recorder.set_device(999, &said).unwrap();
    let devices = read(&recorder).header.devices;
    assert_eq!(devices.len(), 3);
    let eth1 = devices[2].as_ref().unwrap();
    assert_eq!(
        (eth1.name.as_str(), eth1.pci.as_str(), eth1.speed_mbit),
        ("eth1", "0000:06:00.0", 100_000)
    );
    assert_eq!(devices[0], None);

    let at = |port| {
        Some(Address {
            ip: [10, 0, 0, 226].into(),
            port,
            scope: 0,
        })
    };
    let addresses = Addresses {
        local: None,
        peer: at(4000),
        ctrl: at(4001),
    };
    recorder
        .open(&Opening {
            role: Role::Send,
            device: 2,
            comm: 1,
            retires_consumed: false,
            addresses,
        })
        .unwrap();
    assert_eq!(read(&recorder).channels[0].addresses, addresses);
}

#[test]
fn requests_in_flight_are_listed() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(key).unwrap();
    (0..6)
        .map(|number| slot.post(10 + number, 0))
        .for_each(|_| ());
    (0..4)
        .map(|number| slot.finish(number, None, 0))
        .for_each(|_| ());
    (0..2).map(|_| slot.unpack(0)).for_each(|_| ());
    slot.consume(0);
    let requests = read(&recorder).channels.remove(0).requests;
    assert_eq!(
        requests
            .iter()
            .map(|one| one.stage.letter())
            .collect::<String>(),
        "uddpp"
    );
    assert_eq!((requests[0].number, requests[0].bytes), (1, 11));
}

#[test]
fn files_are_found_with_their_writers() {
    let parent = tempfile::tempdir().unwrap();
    assert!(list(parent.path()).unwrap().is_empty());
    let one = Recorder::create_in(parent.path(), &OPTIONS).unwrap();
    std::fs::write(one.path().with_file_name("broken.tcpxrec"), "x").unwrap();
    let found = list(parent.path()).unwrap();
    assert_eq!(found.len(), 2);
    assert!(found[0].header.is_err() && found[0].writer == Liveness::Unknown);
    assert_eq!(
        (&found[1].path, found[1].writer),
        (&one.path(), Liveness::Alive)
    );
}
