//! Captured machines for tests, each written as one text file, because sysfs is
//! mostly links and git hosts and archives treat those unlike files.
//!
//! `PATH = LINE` appends a line to a file, `PATH -> TARGET` makes a link, `#`
//! starts a comment.
#![forbid(unsafe_code)]

#[path = "fixtures/lay.rs"]
mod lay;

use crate::Root;
use std::path::PathBuf;
use tempfile::TempDir;

/// A tree on disk for as long as this lives.
pub struct Tree {
    /// The same, as the readers of facts take it.
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

/// Builds what `text` describes, in the format of `fixtures/lay.rs`.
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
