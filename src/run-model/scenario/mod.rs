//! Scenarios: what to run, as written and as meant.
//!
//! A scenario is a TOML file; `scenarios/` holds the shipped ones and
//! `scenarios/schema.json` says what may stand in them. [`resolve()`] lays the
//! defaults, the user's config, the file, the `TCPXCTL_*` variables and the
//! flags over one another, expands sweeps, and checks every value. What comes
//! out is a [`Scenario`] that is shipped whole, so peers cannot disagree.
//! `hosts` reads the lists under `node_ips/`.

mod checked;
mod error;
mod explain;
mod fault;
mod file;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod hosts;
mod identity;
mod resolve;
mod rules;
mod schema;
mod setting;
mod sweep;
mod topology;
mod variables;

#[cfg(test)]
mod tests;

pub use checked::{
    Direction, Expect, GbPerS, Limits, Memory, PluginChoice, PluginLibrary, Progress, Requirement,
    Scenario, Transfer, Unpack,
};
pub use error::{Diagnostic, Place, Refused, ScenarioError};
pub use explain::nearest;
pub use fault::{By, Fault, NetworkFault, ProcessFault, Sides};
pub use file::{FILE_BYTES_MAX, Layer};
pub use resolve::{Inputs, Origin, Resolved, resolve};
pub use schema::json_schema;
pub use topology::{Bindings, CpuSet, Gpus, NicMap, Nics, Processes, Topology};
pub use variables::{Table, Variables};
