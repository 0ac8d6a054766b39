//! The checked-in seeds of the fuzz targets, which the tests run, too.
#![forbid(unsafe_code)]

use std::path::Path;

/// Reads the files of `fuzz/corpus-seed/TARGET` whose names begin with `prefix`.
pub fn read(target: &str, prefix: &str) -> Vec<Vec<u8>> {
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

/// Writes the seed `name`, for seeds that an encoder makes.
pub fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus-seed")
        .join(target);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), bytes).expect("a file");
}
