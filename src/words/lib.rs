//! Words that the engine and everything above it share, as plain data.
//!
//! `units` are quantities with their unit, `error` how a command ends and what to
//! do next, `folders` where a user's own files are. `side`, `progress`, `payload` and
//! `log` name what both the engine and a scenario or a record speak of, so that neither
//! has a copy of its own; `plugin_family` is which plugin it is, by the names that plugins
//! have, and `abi_version` which version of its table.
//!
//! Not here: anything that touches a plugin, a machine or a file.

pub mod abi_version;
pub mod error;
pub mod folders;
pub mod log;
pub mod payload;
pub mod plugin_family;
pub mod progress;
#[cfg(feature = "schema")]
mod schema;
#[cfg(any(test, feature = "seeds"))]
pub mod seeds;
pub mod side;
pub mod units;
mod word_set;
