//! Which part of a mesh is slow or dead: node, rail of a node, direction, pair or group.
#![forbid(unsafe_code)]

mod subject;

pub use subject::{Names, Place, Subject, Way};
