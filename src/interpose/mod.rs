//! Somebody else's program with the tap between it and its plugin: which plugin
//! it would load, which object of the tap stands for it, what the program must
//! be told so that it loads that one, and the program itself while it runs.
//!
//! Everything goes through the environment and a folder of links; no file of the
//! program or the plugin is touched. What no variable redirects is said.

mod environment;
mod error;
mod exports;
mod library;
mod program;
mod real;

pub(crate) use environment::{Given, PrivateFolder, Recording};
pub use error::InterposeError;
pub use exports::{Exports, exports};
pub use library::{TapLibrary, tap_library};
pub(crate) use program::{Program, ProgramEnding, end_by, fixed_paths};
pub(crate) use real::{RealPlugin, real_plugin};
