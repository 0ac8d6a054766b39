//! Counters of a process that is gone, at an earlier moment: what its file tells of the time in
//! which nothing moved any more.
//!
//! A file holds the last counters only. While a channel stands still nothing of it changes but
//! the number of tests, and of these the recorder notes one of 256 with its time. So the
//! counters at the last change of any standing channel can be told, except that the number of
//! tests is then a lower bound: a rate computed from it is never too low.
#![forbid(unsafe_code)]

use crate::counters::ChannelNow;
use crate::counters::sample::channels;
use tcpx_recorder::format::Call;
pub use tcpx_recorder::format::TESTS_PER_NOTE;
use tcpx_recorder::{ChannelSample, Polls, Snapshot, State};

/// Shortest time without a change that is told apart, nanoseconds.
const STANDING_NS: u64 = 1_000_000_000;

const MILLISECOND_NS: u64 = 1_000_000;

/// The moment since which every standing channel stood still, and the counters at it. `None` if
/// no channel stood still at `end_ns`, or if the file is of a version that noted no tests.
pub(super) fn before_the_end(snapshot: &Snapshot, end_ns: u64) -> Option<(u64, Vec<ChannelNow>)> {
    let stands = |channel: &&ChannelSample| {
        channel.state == State::Open
            && channel.in_flight() > 0
            && end_ns.saturating_sub(channel.last_change_ns) >= STANDING_NS
    };
    let standing = snapshot.channels.iter().filter(stands);
    // Ages are told in whole milliseconds, so the moment must be as much later than the change.
    let at_ns = standing.map(|channel| channel.last_change_ns).max()? + MILLISECOND_NS;
    let mut then = snapshot.clone();
    for channel in then.channels.iter_mut().filter(|one| stands(&&**one)) {
        let was_inside = inside_since_the_change(channel);
        if !was_inside {
            let tests = tests_at(channel, at_ns)?;
            // None of the later ones was done, or the channel would have changed.
            let later = channel.tests.saturating_sub(tests);
            let not_done = later.saturating_sub(failed_tests(channel));
            channel.tests_not_done = channel.tests_not_done.saturating_sub(not_done);
            channel.tests = tests;
            channel.in_call = None;
        }
    }
    Some((at_ns, channels(&then, at_ns)))
}

/// Whether the call that has not returned was entered before anything else could be recorded:
/// every post that returned made a request, failed or was counted as null.
fn inside_since_the_change(channel: &ChannelSample) -> bool {
    let failed_later = channel
        .last_error
        .is_some_and(|error| error.at_ns > channel.last_change_ns);
    let tested_later = channel
        .polls
        .is_some_and(|polls| polls.until_ns > channel.last_change_ns);
    channel
        .in_call
        .is_some_and(|inside| inside.call != Call::Test)
        && channel.null_requests == 0
        && !failed_later
        && !tested_later
}

/// The least number of tests that had returned at `at_ns`; `None` if tests were not noted.
fn tests_at(channel: &ChannelSample, at_ns: u64) -> Option<u64> {
    // Tests that were done are of the last change or before, and tests that fail are not noted either.
    let unnoted = channel.tests_not_done % TESTS_PER_NOTE;
    let later = unnoted.saturating_add(failed_tests(channel));
    let before_the_unnoted = channel.tests.saturating_sub(later);
    let Some(polls) = channel.polls else {
        let is_noted = channel.tests_not_done < TESTS_PER_NOTE;
        return is_noted.then_some(before_the_unnoted);
    };
    let Polls {
        from_ns,
        until_ns,
        tests,
        tests_after,
    } = polls;
    let until_tests = channel.tests.saturating_sub(tests_after);
    let from_tests = until_tests.saturating_sub(tests);
    Some(if until_ns <= at_ns {
        until_tests.max(before_the_unnoted)
    } else if from_ns >= at_ns {
        from_tests.saturating_sub(TESTS_PER_NOTE)
    } else {
        let share = (at_ns - from_ns) as f64 / (until_ns - from_ns) as f64;
        from_tests.saturating_add((tests as f64 * share) as u64)
    })
}

/// The most tests that may have failed.
fn failed_tests(channel: &ChannelSample) -> u64 {
    let failed = channel.last_error.filter(|error| error.call == Call::Test);
    failed.map_or(0, |_| channel.rc_errors())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_recorder::format::Role;
    use tcpx_recorder::{Addresses, Opening, Options, Reader, Recorder};

    const SECOND: u64 = 1_000_000_000;
    const RECV: Opening = Opening {
        role: Role::Recv,
        device: 0,
        comm: 1,
        retires_consumed: true,
        addresses: Addresses {
            local: None,
            peer: None,
            ctrl: None,
        },
    };

    fn snapshot(recorder: &Recorder) -> Snapshot {
        Reader::open(&recorder.path())
            .and_then(|mut reader| reader.snapshot())
            .expect("read")
    }

    /// Receive channels with one receive posted at `posted_s` each, tested every `test_ns` until
    /// the tenth second; the process ends at the twelfth.
    fn tested(channels: &[(u64, Option<u64>)]) -> Option<(u64, Vec<ChannelNow>)> {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder =
            Recorder::create_in(parent.path(), &Options::new("past")).expect("a recorder");
        let began = recorder.now_ns();
        for (posted_s, test_ns) in channels {
            let key = recorder.open(&RECV).expect("a slot");
            let slot = recorder.slot(key).expect("a slot");
            let mut at_ns = began + posted_s * SECOND;
            slot.post(64, at_ns);
            while let Some(test_ns) = test_ns
                && at_ns < began + 10 * SECOND
            {
                at_ns += test_ns;
                slot.tested();
                slot.not_done(|| at_ns);
            }
        }
        let snapshot = snapshot(&recorder);
        before_the_end(&snapshot, began + 12 * SECOND)
            .map(|(at_ns, channels)| (at_ns - began, channels))
    }

    #[test]
    fn tests_are_counted_back_to_the_last_change() {
        for test_ns in [Some(SECOND / 1000), Some(SECOND / 20), None] {
            let (at_ns, channels) = tested(&[(1, test_ns)]).expect("it stands");
            assert_eq!(at_ns, SECOND + MILLISECOND_NS);
            assert_eq!(
                (
                    channels[0].posted,
                    channels[0].tests,
                    channels[0].tests_not_done
                ),
                (1, 0, 0),
                "{test_ns:?}"
            );
        }
        assert_eq!(tested(&[(12, None)]), None);
    }

    #[test]
    fn tests_that_fail_are_not_taken_to_be_earlier() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder =
            Recorder::create_in(parent.path(), &Options::new("past")).expect("a recorder");
        let key = recorder.open(&RECV).expect("a slot");
        let slot = recorder.slot(key).expect("a slot");
        let began = recorder.now_ns();
        slot.post(64, began);
        for _ in 0..100_000 {
            slot.tested();
            slot.error(Call::Test, 2, began + SECOND);
        }
        let snapshot = snapshot(&recorder);
        let (_, channels) = before_the_end(&snapshot, began + 12 * SECOND).expect("it stands");
        assert_eq!(channels[0].tests, 0);
    }

    #[test]
    fn tests_of_a_channel_that_stood_earlier_are_counted_up_to_the_last_change_of_all() {
        let every_ms = Some(MILLISECOND_NS);
        let (at_ns, channels) = tested(&[(1, every_ms), (5, None)]).expect("they stand");
        assert_eq!(at_ns, 5 * SECOND + MILLISECOND_NS);
        assert!((3900..=4001).contains(&channels[0].tests), "{channels:?}");
        // Of tests that are not noted in time, none is taken to be earlier.
        let (_, channels) = tested(&[(1, Some(SECOND / 20)), (5, None)]).expect("they stand");
        assert_eq!(channels[0].tests, 0);
    }
}
