//! Reports of a run: for a team, for Google, and for a CI job that gates on the result.
//!
//! A [`Story`] is gathered once from a run's files, finished or not, and redacted by default.
//! Every renderer reads only the story. Charts are SVG made here, so an HTML report needs no
//! network and stays readable in black and white.
//!
//! Not here: reading an archive (`record`), redacting text (`redact`), finding conditions
//! (`diagnose`).

mod bundle;
mod chart;
pub mod columns;
pub mod compare;
mod csv;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gather;
pub mod history;
mod html;
mod json;
mod junit;
mod markdown;
mod openmetrics;
mod page;
mod prometheus;
mod questions;
mod redacted;
mod render;
mod second_look;
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

pub use bundle::{Bundled, BundledFile, LogLines, Packed, Verified, bundle, verify};
use csv::csv;
pub use gather::{Judge, gather};
use html::html;
pub use html::rates_page;
use json::json;
use junit::junit;
use markdown::markdown;
pub use openmetrics::{MetricsDialect, openmetrics};
use prometheus::prometheus;
pub use redacted::{learn, redacted};
pub use render::{Format, render};
pub use second_look::revealing;
use short::short;
pub use story::Story;
pub use words::Language;
pub use write::{WriteError, check_writable, remove_unfinished, write_whole, write_whole_unless};

/// Whether any worker used Google's TCPX plugin, rather than its software replacement.
fn is_of_tcpx(story: &Story) -> bool {
    story
        .plugins()
        .any(|plugin| plugin.family == PluginFamily::Tcpx)
}
