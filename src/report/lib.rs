//! What is told of a run: to a team, to Google, to a machine that gates on it.
//!
//! A [`Story`] is gathered once from a run's files, finished or not, and redacted
//! unless told otherwise; every renderer reads it and nothing else. Charts are SVG
//! made here, so a page needs no network and a print needs no colour.
//!
//! Not here: reading an archive (`record`), redacting text (`redact`), judging a
//! run (`diagnose`).

mod bundle;
mod chart;
pub mod columns;
pub mod compare;
mod csv;
mod gather;
pub mod history;
mod html;
mod json;
mod junit;
mod markdown;
mod prometheus;
mod questions;
mod redacted;
mod short;
mod spread;
mod story;
pub mod suite;
#[cfg(test)]
mod tests;
mod verdict;
mod words;
mod write;

use tcpx_words::plugin_family::PluginFamily;

pub use bundle::{Bundled, BundledFile, Verified, bundle, verify};
pub use csv::csv;
pub use gather::gather;
pub use html::html;
pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
pub use prometheus::prometheus;
pub use redacted::{learn, redacted};
pub use short::short;
pub use story::Story;
pub use words::Language;
pub use write::{WriteError, write_whole};

/// Whether any of a run's plugins is Google's, and not the one that stands in for it.
fn is_of_tcpx(story: &Story) -> bool {
    story
        .plugins()
        .any(|plugin| plugin.family == PluginFamily::Tcpx)
}
