//! C sources of the tests, compiled with the machine's `cc`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Compiles `source`, a path below `tests/`, into a file `name` and returns its path.
///
/// Its folder, under cargo's scratch folder, is named by the file's content, and a file is never
/// replaced: another test program may have it loaded, and one that is replaced is "(deleted)"
/// among the mappings of that program.
pub(crate) fn built(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = TempDir::new_in(scratch).unwrap();
    let made = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(source);
    let mut command = Command::new("cc");
    command
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&made);
    assert!(
        command.status().expect("a C compiler named cc").success(),
        "{command:?}"
    );
    // Two names may have the same bytes.
    let mut content = DefaultHasher::new();
    name.hash(&mut content);
    std::fs::read(&made).unwrap().hash(&mut content);
    let place = scratch.join(format!("{:016x}", content.finish()));
    // Of two that build at a time, the second finds the folder there and uses it.
    let moved = std::fs::rename(folder.path(), &place);
    let file = place.join(name);
    assert!(file.exists(), "{}: {moved:?}", file.display());
    file
}
