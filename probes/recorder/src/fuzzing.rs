//! Properties that hold for any bytes read as a recorder file. A target under `fuzz/` searches
//! for counterexamples; the tests try its seeds and random bytes.
//!
//! Compiled for tests and fuzzing only.
#![forbid(unsafe_code)]

use crate::events::{Events, read_events, read_setup_events};
use crate::format::{CAPACITY_MAX, EVENT_BYTES, POSTS};
use crate::log::read_log;
use crate::read::{Header, Snapshot, picture};
use crate::sample::ChannelSample;

/// Most events read of a ring, and lines of a log.
const MAX: usize = 100;
/// Most rings read.
const RINGS_MAX: usize = 50;

/// Reads a file, its rings and its log. Returns the snapshot if it is a recorder file.
pub fn file(bytes: &[u8]) -> Option<Snapshot> {
    let snapshot = match picture(bytes) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            assert!(is_shown(&error.to_string()));
            return None;
        }
    };
    let header = &snapshot.header;
    assert!(header.channel_count <= header.capacity && header.capacity <= CAPACITY_MAX);
    assert!(is_shown(&header.role) && is_shown(&header.plugin));
    assert!(snapshot.channels.len() <= header.channel_count as usize);
    assert!(snapshot.channels.is_sorted_by_key(|sample| sample.slot));
    for sample in &snapshot.channels {
        assert!(makes_sense(sample), "{sample:?}");
        let quantiles = sample.latency.quantiles_ns([0.0, 0.5, 0.999, 1.0]);
        assert!(quantiles.is_none_or(|quantiles| quantiles.is_sorted()));
        assert!(quantiles.map(|quantiles| quantiles[3]) <= sample.latency.max_ns());
        let _ = (
            sample.rc_errors(),
            sample.head_age_ns(0),
            sample.head_age_ns(u64::MAX),
        );
    }
    let mut buffer = Vec::new();
    for sample in snapshot.channels.iter().take(RINGS_MAX) {
        let events =
            read_events(&bytes, header, sample, MAX, &mut buffer).expect("memory can be read");
        check_events(&events, header);
    }
    check_events(
        &read_setup_events(&bytes, header, MAX, &mut buffer).expect("memory can be read"),
        header,
    );
    assert!(buffer.capacity() <= RINGS_MAX * MAX * EVENT_BYTES);
    for from in [0, 3, header.log_lines.saturating_sub(5), u64::MAX] {
        let page = read_log(&bytes, header, from, MAX).expect("memory can be read");
        assert!(page.lines.len() <= MAX && page.next <= header.log_lines);
        assert!(page.lines.is_sorted_by_key(|line| line.number));
        assert!(
            page.lines
                .iter()
                .all(|line| is_shown(&line.text) && is_shown(&line.function))
        );
    }
    assert!(
        header
            .devices
            .iter()
            .flatten()
            .all(|device| is_shown(&device.name) && is_shown(&device.pci))
    );
    Some(snapshot)
}

fn check_events(read: &Events, header: &Header) {
    assert!(read.events.len() <= MAX.min(header.ring_events as usize));
    assert!(read.events.is_sorted_by_key(|event| event.number));
}

fn is_shown(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Checks the invariants of a sample, which hold for any file content.
pub(crate) fn makes_sense(sample: &ChannelSample) -> bool {
    sample.posted >= sample.done
        && sample.done >= sample.consumed
        && sample
            .unpacked
            .is_none_or(|unpacked| sample.done >= unpacked)
        && sample.tests >= sample.tests_not_done
        && sample.in_flight() <= sample.posted
        && sample.requests.len() <= POSTS
        && sample.requests.is_sorted_by_key(|request| request.number)
        && sample.events.0 <= sample.events.1
        && sample.events_overwritten <= sample.events.1 - sample.events.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Call, EventKind, HEADER_BYTES, Role};
    use crate::{Addresses, Device, LogLine, Note, Opening, Options, Recorder};
    use std::path::Path;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold_and_one_has_channels() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/recorder");
        let files = std::fs::read_dir(folder)
            .expect("seeds")
            .map(|file| file.expect("a file").path());
        let pictures = files.filter_map(|path| file(&std::fs::read(path).expect("readable")));
        assert!(
            pictures
                .map(|picture| picture.channels.len())
                .sum::<usize>()
                > 0
        );
    }

    /// After a change of the format: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/recorder");
        std::fs::create_dir_all(&folder).expect("a folder");
        let parent = tempfile::tempdir().expect("a folder");
        let (name, role, plugin) = ("seed", "send worker", "TCPXSoft_v7");
        let options = Options {
            capacity: 2,
            role,
            plugin,
            ring_events: 4,
            log_entries: 4,
            ..Options::new(name)
        };
        let recorder = Recorder::create_in(parent.path(), &options).expect("a recorder");
        for role in [Role::Recv, Role::Send] {
            let addresses = Addresses::default();
            let opening = Opening {
                role,
                device: 1,
                comm: 0x1000,
                retires_consumed: role == Role::Recv,
                addresses,
            };
            let key = recorder.open(&opening).expect("a slot");
            let slot = recorder.slot(key).expect("the slot");
            for number in 1..=5 {
                let at_ns = slot.post(100, 1_000 * number);
                recorder.event(
                    key.index,
                    slot,
                    at_ns,
                    &Note::request(EventKind::Posted, Call::Isend, number - 1, 100),
                );
            }
            slot.finish(0, None, 9_000);
            slot.finish(1, Some(60), 9_500);
            slot.consume(9_600);
            recorder.failed(key.index, slot, Call::Test, 2, 2);
        }
        let init = recorder.enter_setup(Call::Init);
        recorder.leave_setup(init, 0, true);
        let device = Device {
            name: "eth1",
            pci: "0000:06:00.0",
            speed_mbit: 100_000,
            ptr_support: 3,
            device_type: 1,
        };
        recorder.set_device(0, &device).expect("written");
        for text in ["plugin initialized", "second", "third", "fourth", "fifth"] {
            let line = LogLine {
                level: 3,
                flags: 0x10,
                function: b"tcpxInit",
                line: 7,
                text: text.as_bytes(),
            };
            recorder.log(&line);
        }
        let bytes = std::fs::read(recorder.path()).expect("readable");
        std::fs::write(folder.join("valid"), &bytes).expect("a file");
        std::fs::write(folder.join("header-only"), &bytes[..HEADER_BYTES]).expect("a file");
    }
}
