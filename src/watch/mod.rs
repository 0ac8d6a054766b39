//! A run, or whatever drives channels now, as a view shows it: live, replayed, or
//! at any moment before.
//!
//! `model.rs` keeps what sources tell; `picture.rs` says what was so at one moment,
//! `health.rs` what that means in one sentence. `source.rs` is where updates come
//! from: recorder files here; `events.rs` makes them of a run's event stream,
//! `live.rs` of this command's own run, `folder.rs` of a run folder; `peer.rs` hears
//! agents.
//!
//! Not here: a screen. `tui` draws pictures and knows no source.
#![forbid(unsafe_code)]

mod events;
mod folder;
mod health;
mod live;
mod model;
mod peer;
mod picture;
mod source;

pub(crate) use folder::Folder;
pub(crate) use health::Level;
pub(crate) use live::{Live, Told};
pub(crate) use model::Model;
pub(crate) use peer::Peer;
pub(crate) use picture::{NodePicture, Picture, Row, State};
pub(crate) use source::{Source, SourceError, open};
