//! What holds of any bytes that claim to be a recorder file: a target under
//! `fuzz/` looks for a counterexample, the suite tries its seeds and random ones.
//!
//! Absent from a normal build.
#![forbid(unsafe_code)]

use crate::format::CAPACITY_MAX;
use crate::read::{Snapshot, picture};
use crate::sample::ChannelSample;

/// Reads a file; its picture, if it is one.
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
        let quantiles = [0.0, 0.5, 0.999, 1.0].map(|share| sample.latency.quantile_ns(share));
        assert!(quantiles.is_sorted() && quantiles[3] <= sample.latency.max_ns());
        let _ = (sample.rc_errors(), sample.head_age_ns(0), sample.head_age_ns(u64::MAX));
    }
    Some(snapshot)
}

fn is_shown(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// What a reader of a sample may rely on, whatever the file said.
pub(crate) fn makes_sense(sample: &ChannelSample) -> bool {
    sample.posted >= sample.done
        && sample.done >= sample.consumed
        && sample.unpacked.is_none_or(|unpacked| sample.done >= unpacked)
        && sample.tests >= sample.tests_not_done
        && sample.in_flight() <= sample.posted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{HEADER_BYTES, Role};
    use crate::{Opening, Options, Recorder};
    use std::path::Path;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold_and_one_has_channels() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/recorder");
        let files = std::fs::read_dir(folder).expect("seeds").map(|file| file.expect("a file").path());
        let pictures = files.filter_map(|path| file(&std::fs::read(path).expect("readable")));
        assert!(pictures.map(|picture| picture.channels.len()).sum::<usize>() > 0);
    }

    /// After a change of the format: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/recorder");
        std::fs::create_dir_all(&folder).expect("a folder");
        let parent = tempfile::tempdir().expect("a folder");
        let (name, role, plugin) = ("seed", "send worker", "TCPXSoft_v7");
        let options = Options { name, capacity: 2, role, plugin, fallback: None, keep: false };
        let recorder = Recorder::create_in(parent.path(), &options).expect("a recorder");
        for role in [Role::Recv, Role::Send] {
            let opening = Opening { role, device: 1, comm: 0x1000, retires_consumed: role == Role::Recv };
            let key = recorder.open(&opening).expect("a slot");
            let slot = recorder.slot(key).expect("the slot");
            (1..=5).for_each(|number| slot.post(100, 1_000 * number));
            slot.finish(0, None, 9_000);
            slot.finish(1, Some(60), 9_500);
            slot.consume(9_600);
        }
        let bytes = std::fs::read(recorder.path()).expect("readable");
        std::fs::write(folder.join("valid"), &bytes).expect("a file");
        std::fs::write(folder.join("header-only"), &bytes[..HEADER_BYTES]).expect("a file");
    }
}
