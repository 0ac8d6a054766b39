//! Which part makes no progress: the process, its loop, the other end, or the path
//! between the two ends.
#![forbid(unsafe_code)]

use super::endings::{has_lost, is_lost_later};
use super::refusals::shows_no_cause;
use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceChannel, EvidenceNode, Spot, Starved};
use std::time::Duration;
use tcpx_run_model::finding::Severity;
use tcpx_words::error::Outcome;
use tcpx_words::progress::{Idle, Policy};
use tcpx_words::units::printable;

pub(super) const RULES: &[Rule] = &[
    stopped,
    no_cpu,
    out_of_time,
    hangs,
    cycle,
    starved,
    silent,
    behind,
    between,
    recovered,
];

/// A channel that is tested less often per second is starved. A healthy loop makes a
/// million tests per second; a loop that sleeps 1 ms between rounds over many channels
/// makes tens.
const POLLED_PER_S: f64 = 20.0;

fn stopped(evidence: &Evidence) -> Vec<Found> {
    // A process of a run that passed goes on, whatever its last frame shows.
    let nodes = evidence.nodes.iter().filter(|_| evidence.is_bad());
    let stopped = nodes.filter_map(|node| {
        let frame = node
            .frame
            .as_deref()
            .filter(|frame| frame.is_stopped() == Some(true))?;
        let count = frame.threads.known().map_or(0, Vec::len);
        let why = format!(
            "{}: all {count} threads of process {} are stopped (state T)",
            node.name(),
            frame.pid
        );
        Some(Found::at(Condition::ProcessStopped, node, 0.99, why))
    });
    stopped.collect()
}

/// Processes whose channels stand still, or are waited for by standing ones, because another
/// process has their CPUs. Where a channel was tested all the same, that explains nothing.
fn no_cpu(evidence: &Evidence) -> Vec<Found> {
    let ends = evidence
        .standing()
        .flat_map(|spot| {
            let other = spot.other_end().filter(|other| !is_through(*other, spot));
            [Some(spot), other]
        })
        .flatten()
        .filter(|spot| spot.node.died().is_none());
    let found = ends.filter_map(|spot| {
        if spot.is_driven_without_cpu() {
            let found = Found::on(Condition::WaitsForCpu, spot, 0.95).and(spot.no_cpu_words());
            return Some(Found {
                severity: Some(Severity::Warning),
                ..found.and("it called its plugin in several turns meanwhile, so the channel stands still for another reason")
            });
        }
        spot.lacks_cpu().then(|| {
            let found = Found::on(Condition::WaitsForCpu, spot, 0.8).and(spot.no_cpu_words());
            found.unseen(match spot.channel.in_flight() {
                0 => "whether its program would post if it had a CPU",
                _ => "whether its loop would test the channel if it had a CPU: it made too few calls to tell",
            })
        })
    });
    found.collect()
}

/// Processes of a run that was not finished in time, although nothing failed, if a thread waited for a CPU for most of its
/// life.
fn out_of_time(evidence: &Evidence) -> Vec<Found> {
    let failed = evidence.nodes.iter().any(|node| !shows_no_cause(node));
    if evidence.outcome != Some(Outcome::Failed) || failed {
        return Vec::new();
    }
    let found = evidence.nodes.iter().filter_map(|node| {
        // It moves on, so the frame is of a moment before its last counters.
        let threads = node.frames().next()?.threads.known()?.iter();
        let waits = threads.filter_map(|thread| Some((thread, thread.without_cpu?)));
        let (thread, wait) = waits.max_by_key(|(_, wait)| wait.waited_ms)?;
        let fact = format!(
            "{}: its thread {} waited for a CPU for {:.1} s of the {:.1} s since it began",
            node.name(),
            printable(&thread.name),
            wait.waited_ms as f64 / 1e3,
            wait.of_ms as f64 / 1e3
        );
        let is_most = wait.waited_ms > wait.of_ms / 2;
        is_most.then(|| Found::at(Condition::WaitsForCpu, node, 0.8, fact))
    });
    let found: Vec<Found> = found.collect();
    // An agent without a CPU takes no frame in time.
    let stall = evidence.stall.as_ref().filter(|_| found.is_empty());
    let starved = stall.and_then(|stall| stall.starved.as_ref());
    let by_stall = starved.map(|starved| {
        Found::of_transfer(Condition::WaitsForCpu, 0.7, starved_words(starved))
            .unseen("whether it waited for as long before that stall")
    });
    found.into_iter().chain(by_stall).collect()
}

/// Whether the counters of both ends of a channel show what their programs and plugins do.
fn had_cpu(spot: Spot<'_>) -> bool {
    let lacks = |other: Spot<'_>| other.lacks_cpu() && !is_through(other, spot);
    !spot.lacks_cpu() && !spot.other_end().is_some_and(lacks)
}

fn hangs(evidence: &Evidence) -> Vec<Found> {
    // A process that died inside a call does not hang in it.
    let alive = evidence
        .spots()
        .filter(|spot| spot.hangs() && spot.node.died().is_none() && !spot.lacks_cpu());
    let on_channels = alive.filter_map(|spot| {
        let call = spot.stuck_in()?;
        if let Some(ended) = spot.ended_inside_test() {
            let why = format!(
                "the process ended inside {call}; tests in the {:.1} s before: at most {}",
                ended.ms / 1e3,
                ended.tests
            );
            let found = Found::on(Condition::HangInsideCall, spot, 0.9).and(why);
            let found = found
                .unseen("when that call was entered: one of 256 tests is recorded with its time")
                .unseen(format!(
                    "whether {} was stopped by a signal in it",
                    spot.node.name()
                ));
            return Some(with_threads(found, spot.node));
        }
        let so_long = spot.channel.inside_ms() / 1e3;
        let at_least = format!("{call} has not returned for at least {so_long:.1} s");
        // A recorder has no time of the entry, but the call was entered after what it has last.
        let most = spot.channel.now.quiet_ms as f64 / 1e3;
        let why = match most - so_long >= BOUNDS_APART_S {
            true => format!("{at_least}, and for at most {most:.1} s"),
            false => at_least,
        };
        Some(with_threads(
            Found::on(Condition::HangInsideCall, spot, 0.9).and(why),
            spot.node,
        ))
    });
    // A connect that does not return is `connect-never-completes`.
    let in_setup = evidence.nodes.iter().filter_map(|node| {
        let call = node.inside.as_deref().filter(|call| *call != "connect")?;
        let inside_ms = evidence.now_ms - node.inside_since_ms?;
        let is_left = node.gone.is_some() || node.exit.is_some() || node.failure.is_some();
        let is_long = inside_ms >= evidence.stands_after_ms() as f64;
        let so_long = inside_ms / 1e3;
        let why = format!(
            "{}: {call} has not returned for at least {so_long:.1} s",
            node.name()
        );
        (is_long && !is_left && evidence.is_bad())
            .then(|| with_threads(Found::at(Condition::HangInsideCall, node, 0.9, why), node))
    });
    let killed = evidence.nodes.iter().filter_map(|node| {
        let (exit, call) = (node.exit.as_ref()?, node.inside.as_ref()?);
        let why = format!(
            "{}: its worker was inside {call} while {} and had to be killed",
            node.name(),
            exit.what.phase
        );
        // Its agent also kills a worker that does not return in the short time after the other
        // end has died: that proves no hang.
        let is_cut_short = evidence
            .opposite(node)
            .is_some_and(|other| other.died().is_some());
        (exit.what.killed && !is_cut_short)
            .then(|| Found::at(Condition::HangInsideCall, node, 0.9, why))
    });
    on_channels.chain(in_setup).chain(killed).collect()
}

/// Bounds of a time that are nearer to each other are told as one.
const BOUNDS_APART_S: f64 = 1.0;

/// Adds the thread states of the freeze-frame.
fn with_threads(found: Found, node: &EvidenceNode) -> Found {
    let Some(frame) = node.frame.as_deref() else {
        let found = Found {
            confidence: 0.7,
            ..found
        };
        return unless_stopped(found, node).unseen("thread states: no freeze-frame was taken");
    };
    match frame.threads.known() {
        Some(threads) => {
            let busy = threads.iter().filter(|thread| thread.state == 'R').count();
            if busy == threads.len() {
                return found.and(format!("all of its {busy} threads run"));
            }
            let waits: Vec<&str> = threads
                .iter()
                .filter(|thread| thread.state != 'R')
                .filter_map(|thread| thread.waits_in.known())
                .map(String::as_str)
                .collect();
            found.and(format!(
                "{busy} of its {} threads run; the others wait in {}",
                threads.len(),
                listed(&waits)
            ))
        }
        None => found.unseen(format!(
            "thread states: {}",
            frame.threads.why().unwrap_or_default()
        )),
    }
}

fn listed(words: &[&str]) -> String {
    let mut words: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        "an unknown kernel function".to_owned()
    } else {
        words.join(", ")
    }
}

/// Channels that stand still although no call on them failed or hangs, and both ends had a CPU. A
/// connection that is lost while the run is given up, or when its other end is ended, has not failed before.
fn idle_standing(evidence: &Evidence) -> impl Iterator<Item = Spot<'_>> {
    let is_given_up = evidence.given_up_ms().is_some();
    let is_idle = move |spot: &Spot<'_>| {
        let has_failed = spot.channel.now.last_error.is_some();
        let is_sound = !has_failed || (has_lost(*spot) && (is_given_up || is_lost_later(*spot)));
        spot.stuck_in().is_none() && is_sound && had_cpu(*spot)
    };
    evidence.standing().filter(is_idle)
}

fn starved(evidence: &Evidence) -> Vec<Found> {
    idle_standing(evidence)
        .filter_map(|spot| starved_channel(evidence, spot))
        .collect()
}

/// Whether the process tests a channel that stands still and thereby waits for the other end.
fn is_waited_for(evidence: &Evidence, spot: Spot<'_>) -> bool {
    let rate = spot.channel.polls_per_s();
    spot.stands() && rate.is_some_and(|rate| rate >= least_polls(evidence))
}

/// Whether the process does nothing on a channel whose other end waits for it: requests stand
/// still and are not tested, or there are none.
fn is_left_alone(evidence: &Evidence, spot: Spot<'_>) -> bool {
    let is_idle = spot.channel.in_flight() == 0 && !spot.channel.now.closed;
    is_idle || (spot.stands() && !is_polled(evidence, spot))
}

/// Each end tests a channel that the other end has left alone: both wait for each other.
fn cycle(evidence: &Evidence) -> Vec<Found> {
    let mut found = Vec::new();
    for here in idle_standing(evidence).filter(|spot| is_waited_for(evidence, *spot)) {
        let Some(left_there) = here.other_end() else {
            continue;
        };
        if !is_left_alone(evidence, left_there) {
            continue;
        }
        let back = idle_standing(evidence).find_map(|there| {
            let left_here = there.other_end()?;
            let is_cycle = there.node.subject == left_there.node.subject
                && left_here.node.subject == here.node.subject
                && is_waited_for(evidence, there)
                && is_left_alone(evidence, left_here);
            is_cycle.then_some((there, left_here))
        });
        // Each half is seen from both ends, and told from the first.
        if let Some((there, left_here)) = back
            && here.node.subject.name < there.node.subject.name
        {
            let half = |waits: Spot<'_>, left: Spot<'_>| {
                format!(
                    "{} waits for {} {} and leaves {} {} alone ({}; {})",
                    waits.node.name(),
                    waits.channel.now.side,
                    waits.channel.now.index,
                    left.channel.now.side,
                    left.channel.now.index,
                    waits.counters(),
                    left.counters()
                )
            };
            let first = half(here, left_here);
            let one = Found::of_transfer(Condition::WaitCycle, 0.92, first);
            found.push(one.and(half(there, left_there)));
            break;
        }
    }
    found
}

fn starved_channel(evidence: &Evidence, spot: Spot<'_>) -> Option<Found> {
    let least = least_polls(evidence);
    let rate = spot.channel.polls_per_s().filter(|rate| *rate < least)?;
    if all_done(spot) {
        // Every receive is done, so there is nothing to test.
        return None;
    }
    if waits_for_silent_end(spot) {
        return None;
    }
    let is_sure = spot.channel.most_polls_per_s() == Some(0.0);
    let confidence = if is_sure { 0.95 } else { 0.7 };
    let scenario = evidence.scenario.as_ref();
    if scenario.is_some_and(|scenario| scenario.progress.policy == Policy::WindowFullOnly) {
        let found = Found::on(Condition::WindowFullOnlyProgress, spot, 0.9);
        return Some(found.and(
            "the progress policy is window-full-only: a channel is tested only when its window is full",
        ));
    }
    // A process that waits for another channel, or whose calls on it fail, has a reason not to
    // test this one: the cause is there, unless that channel waits for this one.
    let is_other_end = |sibling: &EvidenceChannel| {
        let end = spot.with_channel(sibling).other_end();
        end.is_some_and(|end| std::ptr::eq(end.channel, spot.channel))
    };
    let waits = |sibling: &&EvidenceChannel| {
        let stands = spot.with_channel(sibling).stands() && !is_other_end(sibling);
        stands || sibling.now.last_error.is_some()
    };
    let is_busy =
        |sibling: &EvidenceChannel| sibling.polls_per_s().is_some_and(|rate| rate >= least);
    if spot
        .siblings()
        .any(|sibling| waits(&sibling) && is_busy(sibling))
    {
        return None;
    }
    let busiest = spot
        .siblings()
        .filter(|sibling| !waits(sibling))
        .filter_map(|sibling| Some((sibling, sibling.polls_per_s()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((sibling, most)) = busiest
        && most > 10.0 * rate.max(least)
    {
        let found = Found::on(Condition::PollsOthersOnly, spot, confidence);
        return Some(found.and(format!(
            "{} {} of the same process is tested {:.0} times/s",
            sibling.now.side,
            sibling.now.index,
            sibling.tests_per_s().unwrap_or(most)
        )));
    }
    if let Some(ahead) = spot.siblings().find(|sibling| spot.is_behind(sibling)) {
        let found = Found::on(Condition::PollsOthersOnly, spot, confidence);
        return Some(found.and(format!(
            "{} {} of the same process has completed {} requests",
            ahead.now.side, ahead.now.index, ahead.now.done
        )));
    }
    // Of a process that is gone, the most that it may have been.
    let most = spot
        .siblings()
        .chain([spot.channel])
        .filter_map(EvidenceChannel::tests_per_s)
        .fold(0.0, f64::max);
    let why = match most >= 0.5 {
        true => format!(
            "no channel of this process is tested more than {:.0} times/s",
            most.ceil()
        ),
        false => "no channel of this process is tested: its progress loop is blocked or has ended"
            .to_owned(),
    };
    let found = Found::on(Condition::LocalLoopStarved, spot, confidence).and(why);
    Some(unless_stopped(found, spot.node))
}

/// Most confidence in a cause that a stopped process explains as well.
const MAYBE_STOPPED: f64 = 0.5;

/// Of a process that is gone, the recording does not tell whether a signal had stopped it, or whether it
/// waited for a CPU. Less sure of a cause that lies in it, unless it tested some channel meanwhile.
fn unless_stopped(found: Found, node: &EvidenceNode) -> Found {
    let rates = node
        .channels
        .iter()
        .filter_map(EvidenceChannel::polls_per_s);
    let has_run = rates.fold(0.0, f64::max) >= POLLED_PER_S;
    if node.gone.is_none() || node.frame.is_some() || has_run {
        return found;
    }
    found.at_most(MAYBE_STOPPED).unseen(format!(
        "whether {} was stopped or waited for a CPU: its recording does not tell",
        node.name()
    ))
}

/// Whether testing the channel more often would change nothing, because it is the other end's turn to post: what it has
/// posted is received, or the channel is tested, however rarely.
fn waits_for_silent_end(spot: Spot<'_>) -> bool {
    let Some(other) = spot.other_end().filter(|other| is_silent(*other, spot)) else {
        return false;
    };
    let is_tested = spot.channel.polls_per_s().is_some_and(|rate| rate > 0.0);
    let has_all = !spot.channel.sends() && spot.channel.now.done >= other.channel.now.posted;
    is_tested || has_all
}

/// Whether the channel receives and every receive in flight is done.
fn all_done(spot: Spot<'_>) -> bool {
    !spot.channel.sends() && spot.channel.done_unconsumed() == spot.channel.in_flight()
}

fn least_polls(evidence: &Evidence) -> f64 {
    match evidence
        .scenario
        .as_ref()
        .map(|scenario| scenario.progress.idle)
    {
        // The loop sleeps for this long between two rounds on purpose.
        Some(Idle::Sleep(time)) => {
            POLLED_PER_S.min(0.2 / Duration::from(time).as_secs_f64().max(1e-6))
        }
        _ => POLLED_PER_S,
    }
}

/// Whether the channel is tested often enough; true if its test rate is unknown.
pub(super) fn is_polled(evidence: &Evidence, spot: Spot<'_>) -> bool {
    spot.channel
        .polls_per_s()
        .is_none_or(|rate| rate >= least_polls(evidence))
}

fn silent(evidence: &Evidence) -> Vec<Found> {
    idle_standing(evidence)
        .filter(|spot| is_polled(evidence, *spot) || waits_for_silent_end(*spot))
        .filter(|spot| !all_done(*spot))
        .filter_map(other_end_is_silent)
        .collect()
}

/// Nothing is in flight at either end, and one has posted less than the other has completed: small
/// requests fit into the sockets' buffers, so its turn shows in the totals only.
fn behind(evidence: &Evidence) -> Vec<Found> {
    if !is_stalled(evidence) {
        return Vec::new();
    }
    let waits = |spot: &Spot<'_>| {
        let now = &spot.channel.now;
        spot.channel.in_flight() == 0 && !now.closed && now.quiet_ms >= evidence.stands_after_ms()
    };
    let found = evidence.spots().filter(waits).filter_map(|spot| {
        let ahead = spot.other_end().filter(waits)?;
        if ahead.channel.now.done <= spot.channel.now.posted || !had_cpu(spot) {
            return None;
        }
        let condition = if spot.channel.sends() {
            Condition::SenderSilent
        } else {
            Condition::ReceiverSilent
        };
        Some(Found::on(condition, spot, 0.8).and(ahead.counters()))
    });
    found.collect()
}

/// Whether the run stands still, or was given up.
fn is_stalled(evidence: &Evidence) -> bool {
    evidence.outcome == Some(Outcome::Stalled)
        || (evidence.outcome.is_none()
            && evidence
                .stall
                .as_ref()
                .is_some_and(|stall| !stall.recovered))
}

/// The other end of a standing channel has nothing in flight and has not completed everything.
fn other_end_is_silent(spot: Spot<'_>) -> Option<Found> {
    let other = spot.other_end().filter(|other| is_silent(*other, spot))?;
    let (condition, fact) = if spot.channel.sends() {
        (
            Condition::ReceiverSilent,
            "no receives posted: the receiver's turn",
        )
    } else {
        (
            Condition::SenderSilent,
            "no sends in flight: the sender's turn",
        )
    };
    let found = unless_stopped(Found::on(condition, other, 0.85), other.node)
        .if_tested(spot)
        .and(spot.counters())
        .and(format!("{} has {fact}", other.name()));
    Some(if other.channel.is_put_off() {
        put_off(found, other)
    } else {
        found
    })
}

/// Whether one end has nothing in flight although the other waits for it.
fn is_silent(one: Spot<'_>, other: Spot<'_>) -> bool {
    one.channel.in_flight() == 0 && !is_through(one, other)
}

/// The program posts and its plugin returns no request, so no thread is blocked.
fn put_off(found: Found, spot: Spot<'_>) -> Found {
    let (node, times) = (&spot.node.name(), spot.channel.now.null_requests);
    let call = if spot.channel.sends() {
        "isend"
    } else {
        "irecv"
    };
    let why = format!(
        "its plugin answers \"try again\": {call} returned 0 and no request {times} times so far, and nothing is in flight"
    );
    let next_step = format!(
        "look at the plugin on {node}, not at its program: {call} keeps returning success without a request although \
         nothing is in flight; read the plugin's log of that time at INFO, and run `tcpxctl selftest` on the plugin"
    );
    Found {
        next_step: Some(next_step),
        ..found.and(why)
    }
}

/// Whether one end has completed everything that the other end has posted.
fn is_through(one: Spot<'_>, other: Spot<'_>) -> bool {
    one.channel.in_flight() == 0
        && one.channel.now.done > 0
        && one.channel.now.done >= other.channel.now.posted
}

/// Both ends post and test, and nothing completes.
fn between(evidence: &Evidence) -> Vec<Found> {
    idle_standing(evidence)
        .filter(|spot| !spot.channel.sends() && !all_done(*spot) && is_polled(evidence, *spot))
        .filter_map(|spot| nothing_arrives(evidence, spot))
        .collect()
}

/// A receiver that waits although its sender has posted, and tests, or has completed everything.
fn nothing_arrives(evidence: &Evidence, spot: Spot<'_>) -> Option<Found> {
    let other = spot.other_end()?;
    let waits = other.stands()
        && is_polled(evidence, other)
        && spot.channel.now.done < other.channel.now.posted;
    if !waits && !is_through(other, spot) {
        return None;
    }
    let ahead = spot
        .siblings()
        .find(|one| spot.is_behind(one) && one.nic == spot.channel.nic);
    let condition = if ahead.is_some() {
        Condition::OneChannelStarved
    } else {
        Condition::NothingArrives
    };
    let found = Found::on(condition, spot, 0.6).if_tested(spot);
    let mut found = found.if_tested(other).and(other.counters());
    if let Some(ahead) = ahead {
        let (side, index, done) = (&ahead.now.side, ahead.now.index, ahead.now.done);
        found = found.and(format!(
            "{side} {index} over the same interface has completed {done} requests"
        ));
    }
    if let Some(fact) = super::network::unread(spot.node) {
        found = found.and(fact);
    }
    if spot.node.frame.is_none() || other.node.frame.is_none() {
        found = found.unseen("the sockets of both ends at that moment");
    }
    Some(found)
}

fn recovered(evidence: &Evidence) -> Vec<Found> {
    let stall = evidence
        .stall
        .as_ref()
        .filter(|stall| stall.recovered || evidence.outcome == Some(Outcome::Passed));
    let over = stall.filter(|_| evidence.outcome != Some(Outcome::Stalled));
    let found = over.map(|stall| {
        let at = format!(
            "at {:.1} s no request had changed state for {} ms; then requests completed again",
            stall.at_ms / 1e3,
            evidence.stall_after_ms
        );
        let found = Found::of_transfer(Condition::StalledAndRecovered, 1.0, at);
        match (&stall.starved, super::network::lost_meanwhile(evidence)) {
            (Some(starved), _) => without_cpu(found, starved),
            (None, Some(node)) => by_loss(found, node),
            (None, None) => found,
        }
    });
    found.into_iter().collect()
}

/// A stall that lost segments explain is told beside the loss.
fn by_loss(found: Found, node: &EvidenceNode) -> Found {
    Found {
        severity: Some(Severity::Info),
        next_step: Some(Condition::SegmentsRetransmitted.entry().fix.to_owned()),
        ..found.and(format!("{} sent segments again meanwhile", node.name()))
    }
}

/// A stall that the machine's load explains is no fault of the transfer.
fn without_cpu(found: Found, starved: &Starved) -> Found {
    Found {
        severity: Some(Severity::Info),
        next_step: Some(Condition::WaitsForCpu.entry().fix.to_owned()),
        ..found.and(starved_words(starved))
    }
}

fn starved_words(starved: &Starved) -> String {
    format!(
        "{}: of {:.1} s in which its channels stood still, a thread of its process waited for a CPU for {:.1} s",
        starved.name,
        starved.quiet_ms as f64 / 1e3,
        starved.no_cpu_ms as f64 / 1e3
    )
}

pub(super) fn unexplained(evidence: &Evidence) -> Vec<Found> {
    let declared = is_stalled(evidence);
    let mut waiting: Vec<Spot<'_>> = evidence.standing().collect();
    let stands = !waiting.is_empty();
    if !declared && !stands {
        return Vec::new();
    }
    if !stands {
        let in_flight = |spot: &Spot<'_>| !spot.channel.now.closed && spot.channel.in_flight() > 0;
        waiting = evidence.spots().filter(in_flight).collect();
    }
    waiting.sort_by_key(|spot| std::cmp::Reverse(spot.channel.now.quiet_ms));
    let mut found = match waiting.first() {
        Some(spot) => Found::on(Condition::Stalled, *spot, 0.5),
        None => Found::of_transfer(
            Condition::Stalled,
            0.5,
            "a stall was declared, and no channel has a request in flight",
        ),
    };
    if !stands && !waiting.is_empty() {
        found = found.and(format!(
            "a stall was declared, but these counters show no channel that was quiet for {:.1} s",
            evidence.stall_after_ms as f64 / 1e3
        ));
    }
    found
        .because
        .extend(waiting.iter().skip(1).map(Spot::counters));
    found.cannot_see = evidence.missing();
    vec![found]
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::evidence::{EvidenceStall, Gone, Watched};
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_node::{Fact, Thread, WithoutCpu};
    use tcpx_run_model::counters::Frame;
    use tcpx_run_model::phase::Phase;
    use tcpx_run_model::scenario::Scenario;
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::SenderSilent, sender_silent),
        (Condition::ReceiverSilent, receiver_silent),
        (Condition::ReceiverSilent, all_sent_into_buffers),
        (Condition::WindowFullOnlyProgress, window_full_only),
        (Condition::WaitCycle, drained_in_different_order),
        (
            Condition::WindowFullOnlyProgress,
            cycle_of_partly_full_windows,
        ),
        (Condition::WaitsForCpu, receiver_without_a_cpu),
        (Condition::WaitsForCpu, not_finished_under_a_quota),
        (Condition::WaitsForCpu, receiver_under_a_quota),
        (Condition::WaitsForCpu, sender_without_a_cpu),
        (Condition::ReceiverSilent, receiver_with_half_a_cpu),
        (Condition::NothingArrives, stuck_on_a_busy_machine),
        (Condition::WaitsForCpu, tested_in_one_turn),
        (Condition::LocalLoopStarved, computes_on_a_busy_machine),
        (Condition::Stalled, nothing_to_see),
    ];

    /// Local drains channel 0 first, peer channel 1; neither comes to the other one.
    pub(crate) fn drained_in_different_order() -> Evidence {
        let mut evidence = stuck();
        for (end, node) in evidence.nodes.iter_mut().enumerate() {
            let mut second = node.channels[0].clone();
            second.now.index = 1;
            node.channels.push(second);
            let left_alone = &mut node.channels[1 - end];
            left_alone.watched = Some(Watched {
                ms: 3000.0,
                ..Watched::default()
            });
        }
        evidence
    }

    fn cycle_of_partly_full_windows() -> Evidence {
        let mut scenario = Scenario::default();
        scenario.progress.policy = Policy::WindowFullOnly;
        Evidence {
            scenario: Some(scenario),
            ..drained_in_different_order()
        }
    }

    fn receiver_silent() -> Evidence {
        pair(
            channel(Side::Send, [40, 28, 28], 4000),
            channel(Side::Recv, [28, 28, 28], 9000),
        )
    }

    /// The receiver has nothing posted, and of 9 s its threads ran for so long.
    fn receiver_that_ran(ran_ms: u64) -> Evidence {
        let mut evidence = receiver_silent();
        evidence.nodes[1].channels[0].now.no_cpu_ms = 9000 - ran_ms;
        evidence
    }

    fn receiver_without_a_cpu() -> Evidence {
        receiver_that_ran(300)
    }

    /// A run that moved until limits.total, whose receiver waited for a CPU for most of the time.
    fn not_finished_under_a_quota() -> Evidence {
        let mut evidence = ended(
            Outcome::Failed,
            pair(
                channel(Side::Send, [40, 28, 28], 200),
                channel(Side::Recv, [44, 28, 28], 200),
            ),
        );
        let thread = |name: &str, waited_ms| Thread {
            tid: 7,
            name: name.into(),
            state: 'R',
            ticks: (0, 0),
            processor: None,
            without_cpu: Some(WithoutCpu {
                waited_ms,
                of_ms: 60_000,
            }),
            waits_in: Fact::unknown("not kept"),
            stack: Fact::unknown("not kept"),
        };
        for (node, waited_ms) in evidence.nodes.iter_mut().zip([20_000, 54_000]) {
            let threads = vec![thread("main", 10), thread("drive", waited_ms)];
            let taken = frame(Vec::new(), "up").map(|frame| Frame {
                threads: Fact::Known(threads),
                ..*frame
            });
            node.earlier_frames.extend(taken);
        }
        evidence
    }

    #[test]
    fn of_a_run_that_was_too_slow_the_end_without_a_cpu_is_named() {
        let evidence = not_finished_under_a_quota();
        let found = out_of_time(&evidence);
        assert_eq!(found.len(), 1);
        let fact =
            "peer: its thread drive waited for a CPU for 54.0 s of the 60.0 s since it began";
        assert_eq!(found[0].because, [fact]);
        let mut without_frames = evidence.clone();
        for node in &mut without_frames.nodes {
            node.earlier_frames.clear();
        }
        assert_eq!(out_of_time(&without_frames), []);
        without_frames.stall = Some(EvidenceStall {
            at_ms: 4000.0,
            recovered: true,
            starved: Some(Starved {
                name: "peer".into(),
                quiet_ms: 3500,
                no_cpu_ms: 3200,
            }),
        });
        let first = crate::diagnose(&without_frames).remove(0);
        assert_eq!(first.condition, "waits-for-cpu");
        let mut failed = evidence;
        failed.nodes[0].failure = failure(Phase::Measuring, "3 wrong bytes", false);
        assert_eq!(out_of_time(&failed), []);
    }

    /// Under a quota of 3 %, its process makes calls on another channel in each period.
    fn receiver_under_a_quota() -> Evidence {
        // It is looked at late, so of most waits nothing is known.
        let mut evidence = receiver_that_ran(8500);
        let channel = &mut evidence.nodes[1].channels[0];
        channel.now.throttled_ms = 8730;
        channel.watched = Some(Watched {
            ms: 3000.0,
            process_turns: 30,
            no_cpu_ms: 500,
            ..Watched::default()
        });
        evidence
    }

    #[test]
    fn calls_show_what_a_program_does_that_no_quota_holds_back() {
        let mut evidence = receiver_under_a_quota();
        let told = crate::diagnose(&evidence)[0].because.join("; ");
        let why = "of these 9.0 s, a CPU quota held this process back for about 8.7 s";
        assert!(told.contains(why), "{told}");
        // Half a CPU is enough for what a stall lasts, and so is 3 % in minutes.
        for (quiet_ms, throttled_ms) in [(9000, 4500), (300_000, 291_000)] {
            let now = &mut evidence.nodes[1].channels[0].now;
            (now.quiet_ms, now.throttled_ms) = (quiet_ms, throttled_ms);
            assert_eq!(crate::diagnose(&evidence)[0].condition, "receiver-silent");
        }
    }

    fn receiver_with_half_a_cpu() -> Evidence {
        receiver_that_ran(4500)
    }

    /// The sender does not test, because its thread does not run.
    fn sender_without_a_cpu() -> Evidence {
        let mut evidence = stuck();
        let channel = &mut evidence.nodes[0].channels[0];
        channel.now.no_cpu_ms = channel.now.quiet_ms;
        channel.watched = Some(Watched {
            ms: 3000.0,
            ..Watched::default()
        });
        evidence
    }

    /// Both ends wait for a CPU nearly all the time, and test once in each turn on one.
    fn stuck_without_cpu(turns: u64) -> Evidence {
        let mut evidence = stuck();
        for node in &mut evidence.nodes {
            let channel = &mut node.channels[0];
            channel.now.no_cpu_ms = channel.now.quiet_ms - 60;
            channel.watched = Some(Watched {
                ms: 3000.0,
                tests: 30,
                turns,
                no_cpu_ms: 2940,
                ..Watched::default()
            });
        }
        evidence
    }

    fn stuck_on_a_busy_machine() -> Evidence {
        stuck_without_cpu(10)
    }

    fn tested_in_one_turn() -> Evidence {
        stuck_without_cpu(1)
    }

    /// The receiver's thread waited for a CPU nearly all the time, ran for so long, and tested nothing.
    fn receiver_whose_thread_ran(ran_ms: u64) -> Evidence {
        let mut evidence = stuck();
        let channel = &mut evidence.nodes[1].channels[0];
        channel.now.no_cpu_ms = channel.now.quiet_ms - ran_ms;
        channel.watched = Some(Watched {
            ms: channel.now.quiet_ms as f64,
            no_cpu_ms: channel.now.no_cpu_ms,
            is_of_its_thread: true,
            ..Watched::default()
        });
        evidence
    }

    fn computes_on_a_busy_machine() -> Evidence {
        receiver_whose_thread_ran(180)
    }

    #[test]
    fn a_call_of_a_process_that_was_watched_late_does_not_hang_without_a_cpu() {
        let first = |no_cpu_ms| {
            let mut evidence = stuck();
            let channel = &mut evidence.nodes[1].channels[0];
            (channel.now.quiet_ms, channel.now.no_cpu_ms) = (22_000, no_cpu_ms);
            channel.now.in_call = Some("test".into());
            channel.watched = Some(Watched {
                ms: 7000.0,
                no_cpu_ms,
                in_one_call: true,
                ..Watched::default()
            });
            crate::diagnose(&evidence)[0].condition.clone()
        };
        assert_eq!(first(6900), "waits-for-cpu");
        assert_eq!(first(100), "hang-inside-call");
    }

    #[test]
    fn a_thread_that_had_a_cpu_for_a_moment_only_is_not_judged() {
        let first = |evidence| crate::diagnose(&evidence)[0].condition.clone();
        assert_eq!(first(receiver_whose_thread_ran(40)), "waits-for-cpu");
        // Unless its loop came to an end of its rounds again and again.
        let in_turns = |turns, evidence: Evidence| {
            let mut evidence = evidence;
            let watched = &mut evidence.nodes[1].channels[0].watched;
            watched.as_mut().expect("just set").thread_turns = turns;
            first(evidence)
        };
        for (turns, told) in [(4, "waits-for-cpu"), (5, "local-loop-starved")] {
            assert_eq!(in_turns(turns, receiver_whose_thread_ran(2)), told);
        }
        let mut kept = receiver_whose_thread_ran(2);
        let now = &mut kept.nodes[1].channels[0].now;
        now.done = now.posted;
        assert_eq!(in_turns(4, kept.clone()), "waits-for-cpu");
        assert_eq!(in_turns(5, kept), "window-never-consumed");
        let mut of_any_thread = receiver_whose_thread_ran(180);
        let watched = &mut of_any_thread.nodes[1].channels[0].watched;
        watched.as_mut().expect("just set").is_of_its_thread = false;
        assert_eq!(first(of_any_thread), "waits-for-cpu");
    }

    #[test]
    fn a_wait_for_a_cpu_that_explains_nothing_is_told_beside_the_cause() {
        let findings = crate::diagnose(&stuck_on_a_busy_machine());
        let told = |severity| {
            let of_it = findings.iter().filter(move |one| one.severity == severity);
            of_it.map(|one| one.condition.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(told(Severity::Error), ["nothing-arrives"]);
        assert_eq!(told(Severity::Warning), ["waits-for-cpu"; 2]);
        let because = findings[1].because.join("; ");
        assert!(because.contains("tested 10 times/s"), "{because}");
        let waited = "of these 4.0 s, a thread of this process waited for a CPU for 3.9 s";
        assert!(because.contains(waited), "{because}");
    }

    #[test]
    fn a_loop_that_leaves_a_channel_alone_is_named_on_a_busy_machine_too() {
        // Its thread sleeps, had a CPU for long enough, or came back to other channels.
        for (quiet_ms, no_cpu_ms, process_turns) in [
            (4000, 0, 0),
            (4000, 2500, 0),
            (9000, 7900, 0),
            (4000, 3900, 9),
        ] {
            let mut evidence = stuck();
            let channel = &mut evidence.nodes[0].channels[0];
            (channel.now.quiet_ms, channel.now.no_cpu_ms) = (quiet_ms, no_cpu_ms);
            channel.watched = Some(Watched {
                ms: 3000.0,
                no_cpu_ms: no_cpu_ms * 3000 / quiet_ms,
                process_turns,
                ..Watched::default()
            });
            let first = crate::diagnose(&evidence).remove(0);
            assert_eq!(first.condition, "local-loop-starved", "{no_cpu_ms}");
        }
    }

    fn all_sent_into_buffers() -> Evidence {
        let idle = pair(
            channel(Side::Send, [48, 48, 48], 4000),
            channel(Side::Recv, [38, 38, 38], 4000),
        );
        ended(Outcome::Stalled, idle)
    }

    #[test]
    fn a_process_that_is_gone_may_have_been_stopped() {
        let untested = |node: usize| {
            let mut evidence = stuck();
            evidence.nodes[node].channels[0].watched = Some(Watched {
                ms: 3000.0,
                ..Watched::default()
            });
            evidence
        };
        for (mut evidence, name, node) in [
            (untested(1), "local-loop-starved", 1),
            (receiver_silent(), "receiver-silent", 1),
        ] {
            let live = crate::diagnose(&evidence).remove(0);
            assert!(live.confidence >= 0.85, "{live:?}");
            if evidence.nodes[node].channels[0].in_flight() == 0 {
                evidence.nodes[node].channels[0].watched = None;
            }
            evidence.nodes[node].gone = Some(Gone {
                how: Some("was ended by SIGKILL".into()),
                signal: Some(libc::SIGKILL),
            });
            // A signal that ended a program with nothing in flight is a finding of its own.
            let all = crate::diagnose(&evidence);
            let found = all.iter().find(|one| one.condition == name);
            let found = found.expect("it stood still before");
            assert_eq!(found.confidence, 0.5);
            let unseen = found.cannot_see.join("; ");
            assert!(unseen.contains("whether peer was stopped"), "{unseen}");
        }
    }

    fn window_full_only() -> Evidence {
        let mut scenario = Scenario::default();
        scenario.progress.policy = Policy::WindowFullOnly;
        let mut recv = channel(Side::Recv, [36, 28, 28], 4000);
        recv.watched = Some(Watched {
            ms: 3000.0,
            tests: 0,
            in_one_call: false,
            ..Watched::default()
        });
        Evidence {
            scenario: Some(scenario),
            ..pair(channel(Side::Send, [40, 28, 28], 4000), recv)
        }
    }

    fn nothing_to_see() -> Evidence {
        let idle = pair(
            channel(Side::Send, [28, 28, 28], 4000),
            channel(Side::Recv, [28, 28, 28], 4000),
        );
        ended(Outcome::Stalled, idle)
    }
}
