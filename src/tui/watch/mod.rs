//! A run, or whatever drives channels now, as a view shows it: live, replayed, or
//! at any moment before.
//!
//! `source.rs` is where events come from: recorder files of this machine here,
//! `folder.rs` a run folder or a bundle, `live.rs` a run of this very command;
//! `judged.rs` adds what the rules find. `model.rs` holds the timeline that they
//! make; `picture.rs` says what was so at one moment, `health.rs` what that means
//! in one sentence.
//!
//! Not here: a screen, and folding events: `tcpx-run-model` does.
#![forbid(unsafe_code)]

mod folder;
mod health;
mod judged;
mod live;
mod model;
mod picture;
mod source;

pub use folder::Folder;
pub use judged::Judged;
pub use live::{FocusedChannel, Live, ViewUpdate};
pub use source::{Beginning, Clock, Source, SourceError, open};

pub(crate) use health::{Health, Level};
pub(crate) use model::Model;
pub(crate) use picture::{NodePicture, Picture, Row, State};
