//! Captured machines for tests. Each is one text file, because sysfs is mostly links, which
//! not every archive and git host preserves.
//!
//! `PATH = LINE` appends a line to a file, `PATH -> TARGET` makes a link, `#`
//! starts a comment.
#![forbid(unsafe_code)]

#[path = "fixtures/lay.rs"]
mod lay;

use crate::Root;
use std::path::PathBuf;
use tempfile::TempDir;

/// A tree on disk, removed on drop.
pub struct Tree {
    /// The root that facts are read from.
    pub root: Root,
    /// The folder that stands for `/`.
    pub path: PathBuf,
    _folder: TempDir,
}

/// A GCP A3-high node, as text.
pub(crate) const A3_HIGH: &str = include_str!("fixtures/a3-high.tree");

/// A GCP A3-high node.
pub fn a3_high() -> Tree {
    tree(A3_HIGH)
}

/// Builds the tree that `text` describes, in the format of `fixtures/lay.rs`.
pub fn tree(text: &str) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    lay::lay(text, folder.path());
    let path = folder.path().to_owned();
    Tree {
        root: Root::captured(&path).unwrap(),
        path,
        _folder: folder,
    }
}
