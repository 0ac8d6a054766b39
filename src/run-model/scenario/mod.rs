//! Scenarios: the input of a run.
//!
//! A scenario is a TOML file; `scenarios/` holds the shipped ones and their schema,
//! `schema.json`. [`resolve()`] merges the defaults, the user's config, the file, the `TCPXCTL_*`
//! variables and the flags, expands sweeps, and checks every value. The resulting [`Scenario`] is
//! sent whole to both ends, so they cannot disagree. `hosts` reads the lists under `node_ips/`.

mod checked;
mod error;
mod explain;
mod fault;
mod file;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod hosts;
mod identity;
mod imported;
mod keys;
mod mesh;
mod presets;
mod resolve;
mod rules;
#[cfg(test)]
mod schema;
mod setting;
mod shell;
mod shipped;
mod sweep;
mod topology;
mod traffic;
mod traffic_rules;
mod variables;

#[cfg(test)]
mod tests;

pub use checked::{
    Direction, Expect, GbPerS, Limits, Memory, PluginChoice, PluginLibrary, Progress, Requirement,
    Scenario, Transfer, Unpack,
};
pub use error::{Diagnostic, InvalidValue, Place, ScenarioError};
pub use explain::nearest;
pub use fault::{Fault, FaultBy, NetworkFault, ProcessFault, Sides};
pub use file::{FILE_BYTES_MAX, Layer};
pub use imported::Imported;
pub use mesh::{Mesh, Rails, Rounds};
pub use presets::{ElementType, PRESETS, Preset};
pub use resolve::{Inputs, Origin, Resolved, resolve};
pub use shipped::is_shipped;
pub use topology::{
    Bindings, CpuSet, GpuLanes, Gpus, MappedNics, NicMap, Nics, PeerGpus, Processes, Topology,
};
pub use traffic::{Arrival, KvOperation, KvShape, PerSecond, TokenMix, Traffic, TrafficKind};
pub use variables::{EnvTable, Variables};
