//! Deadlines of a worker's phases, which the coordinator checks.
//!
//! A worker checks its own deadlines, but not while a plugin call does not return. These deadlines
//! are for that case. While bytes move, the stall watch of the agent is used instead.
#![forbid(unsafe_code)]

use crate::protocol::limits::connecting;
use crate::protocol::message::Work;
use std::time::Duration;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::scenario::Limits;
use tcpx_words::error::Outcome;

/// Added so that the worker's own deadline of the same length passes first.
const SLACK: Duration = Duration::from_millis(1500);

/// The longest that `phase` may last, with the name of the limit and the outcome if it lasts
/// longer; `None` for phases that are watched elsewhere.
pub(super) fn of_phase(
    phase: Phase,
    limits: &Limits,
    work: &Work,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(Duration, &'static str, Outcome)> {
    let connect = Duration::from(limits.connect);
    match phase {
        Phase::Starting | Phase::Loading | Phase::Initialising => {
            Some((connect, "limits.connect", Outcome::NotRun))
        }
        Phase::Connecting => Some((
            connecting(limits, variable) + SLACK,
            "limits.connect",
            Outcome::Stalled,
        )),
        // The sweep of `mr` is long by nature.
        Phase::Registering if *work == Work::Transfer => {
            Some((connect, "limits.connect", Outcome::Stalled))
        }
        Phase::Closing => {
            let patience =
                Duration::from(limits.stall_after) + Duration::from(limits.give_up_after);
            Some((
                patience,
                "limits.stall_after and give_up_after",
                Outcome::Stalled,
            ))
        }
        Phase::Bootstrapping
        | Phase::Registering
        | Phase::Checking
        | Phase::WarmUp
        | Phase::Gathering
        | Phase::Measuring
        | Phase::Finished => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_that_is_not_watched_elsewhere_has_a_limit() {
        let of = |phase, work: &Work| {
            of_phase(phase, &Limits::default(), work, |_| None).map(|(_, _, whose)| whose)
        };
        let repeat = Work::Handshake { repeat: 1 };
        assert_eq!(of(Phase::Initialising, &repeat), Some(Outcome::NotRun));
        assert_eq!(of(Phase::Connecting, &repeat), Some(Outcome::Stalled));
        assert_eq!(of(Phase::Closing, &Work::Mr), Some(Outcome::Stalled));
        assert_eq!(
            (
                of(Phase::Registering, &Work::Mr),
                of(Phase::Measuring, &Work::Transfer)
            ),
            (None, None)
        );
        assert_eq!(
            of(Phase::Registering, &Work::Transfer),
            Some(Outcome::Stalled)
        );
    }
}
