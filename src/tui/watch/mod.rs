//! The data behind the view: a run or other processes, live, replayed, or at an earlier moment.
//!
//! `source.rs` has the trait of event sources, and the source that reads recorder files of this
//! machine. `folder.rs` reads a run folder or a bundle, `live.rs` follows the run of this
//! command, `judged.rs` adds findings. `model.rs` holds the timeline of the events, `picture.rs`
//! the state at one moment, `health.rs` the sentence for that state.
//!
//! Not here: drawing, and folding events, which `tcpx-run-model` does.
#![forbid(unsafe_code)]

mod folder;
mod health;
mod judged;
mod live;
mod mesh;
mod model;
mod picture;
mod source;

pub use folder::FolderSource;
pub use judged::JudgedSource;
pub use live::{FocusedChannel, LiveSource, ViewUpdate};
pub use source::{Beginning, Clock, Source, SourceError, open};

pub(crate) use health::{Health, HealthLevel};
pub(crate) use mesh::{DirectionNow, MeshNow};
pub(crate) use model::Model;
pub(crate) use picture::{ChannelPicture, ChannelState, Picture, WorkerPicture};
