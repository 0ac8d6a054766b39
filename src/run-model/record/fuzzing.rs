//! Properties of every bundle that is read. A target under `fuzz/` searches for
//! counterexamples; the test suite runs its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use super::{Archive, ENTRIES_MAX, is_name, record_value, thin};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Reads the bytes as a bundle, and as the archive that a bundle compresses.
pub fn archive(data: &[u8]) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(data).expect("in memory");
    let packed = packed.finish().expect("in memory");
    for bytes in [data, &packed] {
        let Ok(archive) = Archive::read(bytes) else {
            continue;
        };
        assert!(archive.files.len() <= ENTRIES_MAX);
        for (name, file) in &archive.files {
            let is_below = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
            assert!(is_below && is_name(name), "{name:?}");
            let _ = record_value(file);
            let _ = thin(&file[..], |_, line, _| assert!(!line.is_empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        tcpx_words::seeds::read("bundle", "")
            .iter()
            .for_each(|seed| super::archive(seed));
    }
}
