//! What a run is: its scenario, its events, and the folder that keeps it.
//!
//! `ids` say who takes part and how they are named, `event` what happens, `phase`
//! where a worker is and how it ended, `results` what it reports, `finding` what a
//! rule says. `state` is everything that is known of a run by now,
//! `timeline` the same with what is needed to go back. `scenario` is what was asked for, `record` the files of a run.
//!
//! Everything above the engine speaks these types. Nothing here loads a plugin,
//! starts a process or opens a connection.

pub mod event;
pub mod finding;
pub mod ids;
pub mod phase;
pub mod record;
pub mod results;
pub mod scenario;
pub mod state;
pub mod timeline;
