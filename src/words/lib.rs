//! Plain data types that the engine and all crates above it share.
//!
//! `units` has quantities with their unit, `error` the outcomes of a command and next steps,
//! `folders` the folder of a user's own files. `side`, `progress`, `payload` and `log` are
//! types that the engine shares with scenarios and records. `pattern` says which nodes of a
//! mesh exchange data. `plugin_family` tells plugins apart by their names, `abi_version` names
//! the versions of the ncclNet table.
//!
//! `input` opens files that a user names.
//!
//! Not here: anything that touches a plugin.

pub mod abi_version;
pub mod error;
pub mod folders;
pub mod input;
pub mod log;
pub mod output;
pub mod pattern;
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
