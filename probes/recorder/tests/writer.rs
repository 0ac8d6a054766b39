//! The writer as its users see it, through the reader.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tcpx_recorder::format::{CAPACITY_MAX, Call, Role};
use tcpx_recorder::{CreateError, Key, Liveness, Opening, Options, Reader, Recorder, Snapshot, State};
use tempfile::TempDir;

const OPTIONS: Options<'_> =
    Options { name: "writer", capacity: 2, role: "recv worker", plugin: "", fallback: None, keep: false };

fn recorder() -> (TempDir, Recorder) {
    let parent = tempfile::tempdir().unwrap();
    let recorder = Recorder::create_in(parent.path(), &OPTIONS).unwrap();
    (parent, recorder)
}

fn open(recorder: &Recorder, comm: usize) -> Option<Key> {
    recorder.open(&Opening { role: Role::Recv, device: 3, comm, retires_consumed: false })
}

fn read(recorder: &Recorder) -> Snapshot {
    Reader::open(recorder.path()).unwrap().snapshot().unwrap()
}

#[test]
fn the_header_says_who_writes_and_what_for() {
    let (_parent, recorder) = recorder();
    recorder.set_plugin("GPUDirectTCPX_v7").unwrap();
    recorder.set_phase(7);
    let header = read(&recorder).header;
    assert_eq!((header.role.as_str(), header.plugin.as_str(), header.phase), ("recv worker", "GPUDirectTCPX_v7", 7));
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
}

#[test]
fn the_file_is_private_small_and_gone_when_dropped() {
    let parent = tempfile::tempdir().unwrap();
    let options = Options { capacity: CAPACITY_MAX, ..OPTIONS };
    let recorder = Recorder::create_in(parent.path(), &options).unwrap();
    let meta = std::fs::metadata(recorder.path()).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o600);
    assert!(meta.blocks() * 512 < 64 * 1024, "{} blocks for a header", meta.blocks());
    let path = recorder.path().to_owned();
    drop(recorder);
    assert!(!path.exists());
}

#[test]
fn a_closed_channels_counters_stay_until_its_slot_is_needed() {
    let (_parent, recorder) = recorder();
    let first = open(&recorder, 1).unwrap();
    recorder.slot(first).unwrap().post(10, 5);
    recorder.close(first);
    let second = open(&recorder, 2).unwrap();
    let snapshot = read(&recorder);
    assert_eq!(
        snapshot.channels.iter().map(|c| (c.comm, c.state)).collect::<Vec<_>>(),
        [(1, State::Closed), (2, State::Open)]
    );
    assert_eq!(snapshot.channels[0].posted, 1);
    assert!(snapshot.channels[0].closed_ns.unwrap() >= snapshot.channels[0].opened_ns);

    let third = open(&recorder, 3).unwrap();
    assert_eq!((third.index, third.generation), (first.index, 2));
    let snapshot = read(&recorder);
    assert_eq!((snapshot.channels[0].comm, snapshot.channels[0].posted, snapshot.header.channels_reused), (3, 0, 1));
    assert!(open(&recorder, 4).is_none());
    assert_eq!(read(&recorder).header.channels_refused, 1);
    recorder.close(second);
}

#[test]
fn a_key_of_a_closed_comm_reaches_nothing() {
    let (_parent, recorder) = recorder();
    let old = open(&recorder, 1).unwrap();
    recorder.close(old);
    assert!(recorder.slot(old).is_none());
    open(&recorder, 2).unwrap();
    let new = open(&recorder, 3).unwrap();
    assert_eq!(new.index, old.index);
    recorder.unpacked(old);
    recorder.close(old);
    assert!(recorder.slot(new).is_some());
    assert_eq!(read(&recorder).channels[0].unpacked, None);
}

#[test]
fn a_channel_knows_its_engines_number_and_its_unpacks() {
    let (_parent, recorder) = recorder();
    let key = open(&recorder, 1).unwrap();
    assert_eq!((read(&recorder).channels[0].channel, read(&recorder).channels[0].unpacked), (None, None));
    recorder.set_channel(key, 9);
    let slot = recorder.slot(key).unwrap();
    slot.post(1, recorder.now_ns());
    slot.finish(0, None, recorder.now_ns());
    recorder.unpacked(key);
    let sample = &read(&recorder).channels[0];
    assert_eq!((sample.channel, sample.unpacked, sample.device), (Some(9), Some(1), Some(3)));
}

#[test]
fn the_call_inside_is_seen_from_outside() {
    let (_parent, recorder) = recorder();
    let slot_key = open(&recorder, 1).unwrap();
    let slot = recorder.slot(slot_key).unwrap();
    let token = slot.enter(Call::CloseRecv);
    let inside = read(&recorder).channels[0].in_call.unwrap();
    assert_eq!(inside.call, Call::CloseRecv);
    assert_eq!(read(&recorder).channels[0].in_call, Some(inside));
    slot.leave(token);
    let after = read(&recorder).channels.remove(0);
    assert_eq!((after.in_call, after.last_call), (None, Some(Call::CloseRecv)));
    assert!(after.call_sequence > inside.sequence);

    recorder.enter_setup(Call::Init);
    let header = read(&recorder).header;
    assert_eq!((header.setup_call, header.setup_calls_inside), (Some(Call::Init), 1));
    recorder.leave_setup(Call::Init, 3);
    let header = read(&recorder).header;
    assert_eq!((header.setup_calls_inside, header.setup_last_error), (0, Some((Call::Init, 3))));
}

#[test]
fn errors_are_counted_by_code_and_are_no_state_change() {
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
    assert_eq!((last.call, last.code, last.at_ns), (Call::Test, 99, before + 10));
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
    assert_eq!((sample.last_change_ns, sample.latency.max_ns()), (later, Some(0)));
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
    assert_eq!((sample.done, sample.bytes_done, sample.latency.max_ns()), (2, 22, Some(5000)));
    assert_eq!(sample.not_done_posted_ns, Some(opened + 1000));
}

#[test]
fn a_request_that_never_finishes_blocks_only_its_own_place() {
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
fn names_and_capacities_outside_their_range_are_refused_with_words() {
    let parent = tempfile::tempdir().unwrap();
    let long = "x".repeat(65);
    for name in ["", ".hidden", "a/b", "a b", "é", long.as_str()] {
        let error = Recorder::create_in(parent.path(), &Options { name, ..OPTIONS }).unwrap_err();
        assert!(matches!(error, CreateError::BadName(_)), "{name}");
    }
    for capacity in [0, CAPACITY_MAX + 1] {
        let error = Recorder::create_in(parent.path(), &Options { capacity, ..OPTIONS }).unwrap_err();
        assert!(error.to_string().contains("16384"), "{error}");
    }
}

#[test]
fn no_place_names_each_place_and_its_reason() {
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
    let recorder = Recorder::create_in(parent.path(), &Options { capacity: 8, ..OPTIONS }).unwrap();
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
                    recorder.close(key);
                }
            });
        }
    });
    let snapshot = read(&recorder);
    assert_eq!(snapshot.header.channels_refused, 0);
    assert!(snapshot.channels.iter().all(|sample| sample.posted == 20 && sample.done == 20));
    let lives: u64 = snapshot.channels.iter().map(|sample| u64::from(sample.generation)).sum();
    assert_eq!(lives, 2_000);
}
