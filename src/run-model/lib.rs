//! What a run is: its scenario, its events, its state, and the folder that keeps it.
//!
//! Everything above the engine speaks these types. Nothing here loads a plugin,
//! starts a process or opens a connection.

pub mod record;
pub mod scenario;
