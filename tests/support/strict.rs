//! The strict C plugin, built once per test program.

use crate::built::built;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Path of the shared object.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let flags = ["-shared", "-fPIC"];
        built("libnccl-net-strict.so", "plugins/strict.c", &flags)
    });
    &LIBRARY
}
