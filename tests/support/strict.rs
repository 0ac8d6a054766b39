//! The strict C plugin, built once per test program with the machine's `cc`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Path of the shared object, under cargo's scratch folder. A rename puts it in place, so test
/// programs that run at the same time never see a partial file.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = TempDir::new_in(scratch).unwrap();
        let built = folder.path().join("strict.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins/strict.c");
        let status = Command::new("cc")
            .args([
                "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", source, "-o",
            ])
            .arg(&built)
            .status()
            .expect("a C compiler named cc");
        assert!(status.success(), "cc {source}: {status}");
        let library = scratch.join("libnccl-net-strict.so");
        std::fs::rename(&built, &library).unwrap();
        library
    });
    &LIBRARY
}
