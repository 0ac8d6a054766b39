//! Walks the source tree.

use std::fs;
use std::path::{Path, PathBuf};

/// The files below `folder` whose names end in `.extension`, sorted; from build folders and hidden
/// ones none, and from others only where `enters` is true.
pub(super) fn files_below(
    folder: &Path,
    extension: &str,
    enters: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default();
        let is_built = name == "target" || name.as_encoded_bytes().starts_with(b".");
        if path.is_dir() && !path.is_symlink() {
            if !is_built && enters(&path) {
                found.extend(files_below(&path, extension, enters));
            }
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}
