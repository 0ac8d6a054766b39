//! How long each phase of a worker may take, seen from outside it.
//!
//! The worker keeps its own deadlines; these are for the plugin call that does
//! not return and so keeps the worker from looking at the clock. While bytes
//! move, the stall watch of the agent takes this place.
#![forbid(unsafe_code)]

use super::message::{Phase, Work};
use std::time::Duration;
use tcpx_run_model::scenario::Limits;
use tcpx_words::error::Outcome;

/// What the worker's own deadline of the same length is given to come first.
const SLACK: Duration = Duration::from_millis(1500);

/// The longest that `phase` may last, with the limit's name and whose problem it
/// is when it lasts longer; `None` where somebody else watches.
pub(super) fn of_phase(
    phase: Phase,
    limits: &Limits,
    work: &Work,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(Duration, &'static str, Outcome)> {
    let connect = Duration::from(limits.connect);
    match phase {
        Phase::Starting | Phase::Loading | Phase::Initialising => Some((connect, "limits.connect", Outcome::NotRun)),
        Phase::Connecting => Some((connecting(limits, variable) + SLACK, "limits.connect", Outcome::Stalled)),
        // The sweep of `mr` is long by nature.
        Phase::Registering if *work == Work::Transfer => Some((connect, "limits.connect", Outcome::Stalled)),
        Phase::Closing => {
            let patience = Duration::from(limits.stall_after) + Duration::from(limits.give_up_after);
            Some((patience, "limits.stall_after and give_up_after", Outcome::Stalled))
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

/// How long connects and accepts may answer "not yet": the scenario's limit, or
/// what the plugin's own fixed waits need. It sleeps 100 ms per socket on both
/// ends, then waits for flow steering (5 s by default). `variable` reads the
/// worker's environment.
pub(super) fn connecting(limits: &Limits, variable: impl Fn(&str) -> Option<String>) -> Duration {
    let number = |name: &str, default: u64| variable(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default);
    let sockets = number("NCCL_NSOCKS_PERTHREAD", 1).saturating_mul(number("NCCL_SOCKET_NTHREADS", 1)).min(8) + 1;
    let steering = number("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", 5_000_000).min(60_000_000);
    let own = Duration::from_millis(200 * sockets) + Duration::from_micros(steering);
    Duration::from(limits.connect).max(2 * own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_words::units::TimeSpan;

    #[test]
    fn the_plugin_s_own_waits_are_waited_for() {
        let limits = Limits { connect: TimeSpan::from_secs(1), ..Limits::default() };
        let check = |variables: &[(&str, &str)], expected: u64| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(connecting(&limits, variable), Duration::from_millis(expected), "{variables:?}");
        };
        check(&[], 10_800);
        check(&[("NCCL_NSOCKS_PERTHREAD", "4"), ("NCCL_SOCKET_NTHREADS", "2")], 13_600);
        check(&[("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "0")], 1_000);
        check(&[("NCCL_NSOCKS_PERTHREAD", "99999999999999999999")], 10_800);
        assert_eq!(connecting(&Limits::default(), |_| None), Duration::from_secs(30));
    }

    #[test]
    fn every_phase_that_nobody_else_watches_has_a_limit() {
        let of = |phase, work: &Work| of_phase(phase, &Limits::default(), work, |_| None).map(|(_, _, whose)| whose);
        let repeat = Work::Handshake { repeat: 1 };
        assert_eq!(of(Phase::Initialising, &repeat), Some(Outcome::NotRun));
        assert_eq!(of(Phase::Connecting, &repeat), Some(Outcome::Stalled));
        assert_eq!(of(Phase::Closing, &Work::Mr), Some(Outcome::Stalled));
        assert_eq!((of(Phase::Registering, &Work::Mr), of(Phase::Measuring, &Work::Transfer)), (None, None));
        assert_eq!(of(Phase::Registering, &Work::Transfer), Some(Outcome::Stalled));
    }
}
