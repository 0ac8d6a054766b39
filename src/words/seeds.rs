//! The checked-in seeds of the fuzz targets, for the suite to try.
#![forbid(unsafe_code)]

use std::path::Path;

/// The files of `fuzz/corpus-seed/TARGET` whose names begin with `prefix`.
pub fn of(target: &str, prefix: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus-seed")
        .join(target);
    let files = std::fs::read_dir(folder)
        .expect("seeds")
        .map(|file| file.expect("a file"));
    let named = files.filter(|file| file.file_name().to_string_lossy().starts_with(prefix));
    let seeds: Vec<_> = named
        .map(|file| std::fs::read(file.path()).expect("readable"))
        .collect();
    assert!(!seeds.is_empty(), "no seed of {target} is named {prefix}");
    seeds
}

/// Writes one of them, where an encoder makes it.
pub fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus-seed")
        .join(target);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), bytes).expect("a file");
}
