//! Captured machines for tests, each written as one text file, because sysfs is
//! mostly links and git hosts and archives treat those unlike files.
//!
//! `PATH = LINE` appends a line to a file, `PATH -> TARGET` makes a link, `#`
//! starts a comment.
#![forbid(unsafe_code)]

use crate::node::Root;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

/// A tree on disk for as long as this lives.
pub(crate) struct Tree {
    pub(crate) root: Root,
    /// The folder that stands for `/`.
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

/// A GCP A3-high node, as text.
pub(crate) const A3_HIGH: &str = include_str!("fixtures/a3-high.tree");

/// A GCP A3-high node.
pub(crate) fn a3_high() -> Tree {
    tree(A3_HIGH)
}

/// Builds what `text` describes.
pub(crate) fn tree(text: &str) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (path, value, is_link) = match (line.split_once(" = "), line.split_once(" -> ")) {
            (Some((path, content)), _) => (path, content, false),
            (None, Some((path, target))) => (path, target, true),
            (None, None) => panic!("neither a file nor a link: {line}"),
        };
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if is_link {
            symlink(value, path).unwrap();
        } else {
            let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "{value}").unwrap();
        }
    }
    let path = folder.path().to_owned();
    Tree { root: Root::captured(&path).unwrap(), path, _folder: folder }
}
