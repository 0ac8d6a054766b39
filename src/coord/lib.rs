//! Runs as processes: a coordinator, an agent per node, a worker per plugin.
//!
//! One folder per role: `coordinator`, `agent`, `worker`. They share the messages in `protocol`
//! and nothing else. `process` starts and ends a worker process, `reach` starts an agent on a
//! node, `dial` calls a coordinator that waits for it. The two workers of a pair meet through `tcpx-bootstrap`.

pub mod agent;
mod coordinator;
mod dial;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod process;
mod protocol;
pub mod reach;
mod stream;
pub mod worker;

pub use coordinator::ask::{Calls, TaskError, TaskNode};
pub use coordinator::assign::{WARNED_OF, environment};
pub use coordinator::conclude::conclude;
pub use coordinator::drive::{
    FocusedChannel, LeftOut, Retest, RunOutcome, RunRequest, one_pair, run,
};
pub use coordinator::launch::LaunchError;
pub use coordinator::pair::PairOutcome;
pub use coordinator::run::OnFailure;
pub use coordinator::watching::Watching;
pub use protocol::message::{Examine, Loaded, NoPlugin, Task, WORKERS_MAX, Work, WorkerMessage};
pub use protocol::variables::choose;
