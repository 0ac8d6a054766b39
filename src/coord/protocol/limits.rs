//! Timeouts that both ends of a stream keep.
#![forbid(unsafe_code)]

use std::time::Duration;
use tcpx_run_model::scenario::Limits;

/// An agent exits after this long without a message of the coordinator; the coordinator counts an
/// agent as lost after this long without a message.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(8);
/// Time between two heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Longest call of a plugin that does not hang, where a task is out of its time.
pub(crate) const RETURNS_MAX: Duration = Duration::from_secs(2);
/// A turn of a loop that took longer shows that its process was stopped or starved of CPU, so
/// that missing messages and progress in that time prove nothing.
pub(crate) const OVERSLEPT: Duration = Duration::from_secs(2);

/// An agent of a run with this many agents sends one sample per this many looks at a worker's counters, so that
/// hundreds of agents send their coordinator about as many samples per second as a hundred.
pub(crate) fn looks_per_sample(agents: usize) -> usize {
    agents.div_ceil(100).clamp(1, 5)
}

/// Time in which connect and accept may return success without a comm: the scenario's limit, or
/// twice the plugin's own fixed waits if those are longer. TCPX sleeps 100 ms per socket on both
/// ends, then waits for flow steering (5 s by default). `variable` reads the worker's environment.
pub(crate) fn connecting(limits: &Limits, variable: impl Fn(&str) -> Option<String>) -> Duration {
    let number = |name: &str, default: u64| {
        variable(name)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(default)
    };
    let sockets = number("NCCL_NSOCKS_PERTHREAD", 1)
        .saturating_mul(number("NCCL_SOCKET_NTHREADS", 1))
        .min(8)
        + 1;
    let steering = number(
        "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
        5_000_000,
    )
    .min(60_000_000);
    let own = Duration::from_millis(200 * sockets) + Duration::from_micros(steering);
    Duration::from(limits.connect).max(2 * own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_words::units::TimeSpan;

    #[test]
    fn each_of_many_agents_sends_fewer_samples() {
        assert_eq!([2, 100, 256, 1024].map(looks_per_sample), [1, 1, 3, 5]);
    }

    #[test]
    fn the_limit_covers_the_fixed_waits_of_the_plugin() {
        let limits = Limits {
            connect: TimeSpan::from_secs(1),
            ..Limits::default()
        };
        let check = |variables: &[(&str, &str)], expected: u64| {
            let variable = |name: &str| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                connecting(&limits, variable),
                Duration::from_millis(expected),
                "{variables:?}"
            );
        };
        check(&[], 10_800);
        check(
            &[
                ("NCCL_NSOCKS_PERTHREAD", "4"),
                ("NCCL_SOCKET_NTHREADS", "2"),
            ],
            13_600,
        );
        check(
            &[("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "0")],
            1_000,
        );
        check(&[("NCCL_NSOCKS_PERTHREAD", "99999999999999999999")], 10_800);
        assert_eq!(
            connecting(&Limits::default(), |_| None),
            Duration::from_secs(30)
        );
    }
}
