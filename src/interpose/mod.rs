//! Runs a user's program with the tap between it and its plugin: finds the plugin that the
//! program would load and the tap's object, sets the environment so that the program loads the
//! tap, and waits for the program.
//!
//! Only the environment and a folder of links redirect the program; its files and the plugin's
//! are not changed. Fixed paths, which no variable redirects, are reported.

mod abandoned;
mod environment;
mod error;
mod exports;
mod library;
mod program;
mod real;

pub(crate) use environment::{PrivateFolder, ProgramEnvironment, Recording};
pub use error::InterposeError;
pub use exports::{Exports, exports};
pub use library::{TapLibrary, tap_library};
pub(crate) use program::{Program, ProgramEnding, end_by, fixed_paths};
pub(crate) use real::{RealPlugin, real_plugin};
