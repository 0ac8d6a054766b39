//! The sixteen requests of a comm: order, hand-back, and refusals for those.
#![forbid(unsafe_code)]

use super::{Found, Rule, said, with_line};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceChannel, EvidenceNode, Spot};

pub(super) const RULES: &[Rule] = &[
    head_not_tested,
    never_consumed,
    wrong_payload,
    not_unpacked,
    exhausted,
    completions,
    chunk_sizes,
];

/// Requests of one comm.
pub(super) const SLOTS: u64 = 16;
/// `ncclInternalError`: what TCPX returns for misuse.
pub(super) const INTERNAL_ERROR: i32 = 3;
/// What TCPX returns when a connection is lost.
pub(super) const SYSTEM_ERROR: i32 = 2;

/// Refused calls: by the error codes of the recorder, else by the plugin's log, once per
/// node.
fn refused_with(
    evidence: &Evidence,
    condition: Condition,
    is: impl Fn(&Spot<'_>) -> bool,
    signatures: &'static [&'static str],
) -> Vec<Found> {
    let by_code = evidence.spots().filter(|spot| is(spot)).map(|spot| {
        let (call, code) = spot.channel.now.last_error.clone().unwrap_or_default();
        let found = Found::on(condition, spot, 0.7).and(format!("{call} returned {code}"));
        match spot.node.any_line(signatures) {
            Some(line) => Found {
                confidence: 0.97,
                ..found.and(said(line))
            },
            None => found,
        }
    });
    let found: Vec<Found> = by_code.collect();
    let unseen = |node: &EvidenceNode| {
        !found
            .iter()
            .any(|one| one.node.as_ref() == Some(&node.subject))
    };
    let by_line = with_line(evidence, signatures).filter(|(node, _)| unseen(node));
    let by_line: Vec<Found> = by_line
        .map(|(node, line)| Found::at(condition, node, 0.9, said(line)))
        .collect();
    found.into_iter().chain(by_line).collect()
}

const TESTED_OUT_OF_ORDER: &[&str] = &["test-out-of-order"];

fn head_not_tested(evidence: &Evidence) -> Vec<Found> {
    refused_with(
        evidence,
        Condition::HeadNotTested,
        is_misuse_of_test,
        TESTED_OUT_OF_ORDER,
    )
}

/// Whether `test` refused a request that was not the oldest: TCPX's only reason, so also that of a plugin
/// that says none.
pub(super) fn is_misuse_of_test(spot: &Spot<'_>) -> bool {
    spot.channel.failed_with(&["test"], INTERNAL_ERROR)
        && !says_another_reason(spot.node, TESTED_OUT_OF_ORDER)
}

/// Whether `irecvConsumed` refused a receive that was not the oldest, or not unpacked.
pub(super) fn is_misuse_of_consumed(spot: &Spot<'_>) -> bool {
    spot.channel.failed_with(&["irecvConsumed"], INTERNAL_ERROR)
        && !says_another_reason(spot.node, CONSUMED_EARLY)
}

/// Whether the plugin warned of something that no signature knows, and not of this.
fn says_another_reason(node: &EvidenceNode, signatures: &[&str]) -> bool {
    let mut lines = node.lines.iter();
    node.any_line(signatures).is_none()
        && lines.any(|line| line.signature.is_none() && line.severity.is_finding())
}

/// A run that passed went on with a smaller window after a refused post.
fn exhausted(evidence: &Evidence) -> Vec<Found> {
    if !evidence.is_bad() {
        return Vec::new();
    }
    let is = |spot: &Spot<'_>| {
        let is_said = spot.node.any_line(EXHAUSTED).is_some();
        let in_flight = spot.channel.in_flight();
        is_refused_post(spot.channel) && (in_flight >= SLOTS || (is_said && in_flight > 0))
    };
    let mut found = refused_with(evidence, Condition::SlotsExhausted, is, EXHAUSTED);
    for one in &mut found {
        let mut nodes = evidence.nodes.iter();
        let node = nodes.find(|node| one.node.as_ref() == Some(&node.subject));
        one.next_step = node.and_then(|node| fewer_requests(evidence, node));
    }
    found
}

const EXHAUSTED: &[&str] = &["slots-exhausted"];

fn is_refused_post(channel: &EvidenceChannel) -> bool {
    channel.failed_with(&["isend", "irecv"], INTERNAL_ERROR)
}

/// What to do about a plugin that grants fewer requests than TCPX: no more than were in flight when it refused.
fn fewer_requests(evidence: &Evidence, node: &EvidenceNode) -> Option<String> {
    let most = |is: fn(&EvidenceChannel) -> bool| {
        let channels = node.channels.iter().filter(|one| is(one));
        channels.map(EvidenceChannel::in_flight).max()
    };
    let granted = most(is_refused_post).or_else(|| most(|_| true))?;
    if granted >= SLOTS {
        return None;
    }
    if evidence.scenario.is_some() {
        let otherwise = Condition::SlotsExhausted.entry().otherwise;
        return otherwise.map(str::to_owned);
    }
    Some(match granted {
        0 => FEWER.to_owned(),
        granted => format!(
            "keep at most {granted} requests in flight per comm: the plugin refused another one; test and consume \
             before the next post"
        ),
    })
}

const FEWER: &str = "keep fewer requests in flight per comm than when the plugin refused one; test and consume before \
                     the next post";

const CONSUMED_EARLY: &[&str] = &[
    "consumed-too-early",
    "consumed-out-of-order",
    "consumed-queue-broken",
    "consumed-null",
];

fn wrong_payload(evidence: &Evidence) -> Vec<Found> {
    let mut found = refused_with(
        evidence,
        Condition::ConsumedEarly,
        is_misuse_of_consumed,
        CONSUMED_EARLY,
    );
    for node in &evidence.nodes {
        let Some((compared, wrong)) = node.verified.filter(|(_, wrong)| *wrong > 0) else {
            continue;
        };
        let mut because = format!(
            "{}: {wrong} wrong bytes, warm-up included; {compared} bytes were compared after warm-up",
            node.name()
        );
        if let Some(first) = &node.mismatch {
            because.push_str(&format!("; the first: {first}"));
        }
        let early = node
            .channels
            .iter()
            .map(consumed_before_unpacked)
            .fold(0, u64::saturating_add);
        if early > 0 {
            let why = format!("{early} receives were handed back before they were unpacked");
            found.push(Found::at(Condition::ConsumedEarly, node, 0.95, because.clone()).and(why));
        }
        let unseen =
            "whether pages were handed back before they were read: the last calls are not recorded";
        let one = Found::at(Condition::PayloadWrong, node, 0.9, because);
        found.push(if node.channels.is_empty() {
            one.unseen(unseen)
        } else {
            one
        });
    }
    found
}

fn not_unpacked(evidence: &Evidence) -> Vec<Found> {
    // A worker does not write to the destination of a receive.
    let is_worker = evidence.scenario.is_some();
    let found = with_line(evidence, &["consumed-not-unpacked"]).map(|(node, line)| {
        let found = |confidence| Found::at(Condition::NotUnpacked, node, confidence, said(line));
        match is_worker {
            true => found(0.97),
            false => found(0.85).unseen(
                "whether the program wrote to the destination between the unpack and irecvConsumed",
            ),
        }
    });
    found.collect()
}

/// Receives that were handed back before they were unpacked.
fn consumed_before_unpacked(channel: &EvidenceChannel) -> u64 {
    channel
        .now
        .unpacked
        .map_or(0, |unpacked| channel.now.consumed.saturating_sub(unpacked))
}

fn never_consumed(evidence: &Evidence) -> Vec<Found> {
    let is_stuck = |spot: &Spot<'_>| {
        !spot.channel.sends()
            && spot.channel.done_unconsumed() == spot.channel.in_flight()
            && !spot.lacks_cpu()
    };
    let found = evidence.standing().filter(is_stuck).map(|spot| {
        let count = spot.channel.in_flight();
        let full = if count >= SLOTS { 0.97 } else { 0.9 };
        Found::on(Condition::WindowNeverConsumed, spot, full).and(format!(
            "all {count} receives in flight are done, and none is handed back"
        ))
    });
    found.collect()
}

fn completions(evidence: &Evidence) -> Vec<Found> {
    let found = evidence
        .standing()
        .filter(|spot| spot.channel.sends())
        .filter_map(|spot| {
            let line = spot.node.line("tx-completion-timeout");
            let other = spot.other_end();
            let arrived = other.filter(|other| other.channel.now.done >= spot.channel.now.posted);
            let waits = spot.channel.polls_per_s().is_none_or(|rate| rate > 0.0);
            let arrived = arrived.filter(|_| waits && spot.stuck_in().is_none());
            let found = match (arrived, line) {
                (Some(other), _) => {
                    Found::on(Condition::TxCompletionsMissing, spot, 0.9).and(other.counters())
                }
                (None, Some(_)) => Found::on(Condition::TxCompletionsMissing, spot, 0.6),
                (None, None) => return None,
            };
            Some(found.and_line(line))
        });
    found.collect()
}

/// With this many requests, a short last one does not decide the average.
const REQUESTS_MIN: u64 = 4;

fn chunk_sizes(evidence: &Evidence) -> Vec<Found> {
    let each = |spot: Spot<'_>| {
        let one = &spot.channel.now;
        (one.posted >= REQUESTS_MIN && one.bytes_posted > 0)
            .then(|| one.bytes_posted as f64 / one.posted as f64)
    };
    let found = evidence
        .spots()
        .filter(|spot| !spot.channel.sends())
        .filter_map(|spot| {
            let other = spot.other_end()?;
            let (mine, theirs) = (each(spot)?, each(other)?);
            let differ = mine.max(theirs) / mine.min(theirs) >= 1.5;
            differ.then(|| {
                Found::on(Condition::ChunkSizeDisagreement, spot, 0.85).and(format!(
                    "{} posts {theirs:.0} bytes per request, {} posts {mine:.0}",
                    other.name(),
                    spot.name()
                ))
            })
        });
    found.collect()
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_words::error::Outcome;
    use tcpx_words::side::Side;

    pub(crate) const CASES: &[Case] = &[
        (Condition::TxCompletionsMissing, completions_missing),
        (Condition::ChunkSizeDisagreement, chunk_sizes),
        (Condition::NotUnpacked, not_unpacked),
        (Condition::PayloadWrong, wrong_page),
    ];

    #[test]
    fn the_remedy_for_refused_posts_is_what_the_plugin_granted() {
        let refused = |posted| {
            let mut evidence = pair(
                channel(Side::Send, [posted, 12, 12], 4000),
                channel(Side::Recv, [12, 12, 12], 4000),
            );
            let node = &mut evidence.nodes[0];
            node.channels[0].now.last_error = Some(("isend".into(), INTERNAL_ERROR));
            node.lines = vec![line("slots-exhausted", "unable to allocate requests")];
            evidence
        };
        let remedy = |evidence: &Evidence| {
            let found = crate::diagnose(evidence).remove(0);
            assert_eq!(found.condition, "slots-exhausted");
            found.next_step.expect("a remedy")
        };
        let of_eight = remedy(&refused(20));
        assert!(of_eight.contains("at most 8 requests"), "{of_eight}");
        assert_eq!(remedy(&refused(12)), FEWER);
        assert!(remedy(&refused(28)).contains("sixteen receives"));
        let mut run = refused(20);
        run.scenario = Some(tcpx_run_model::scenario::Scenario::default());
        assert!(remedy(&run).starts_with("narrow transfer.recv_window"));
    }

    fn not_unpacked() -> Evidence {
        let mut evidence = stuck();
        evidence.outcome = Some(Outcome::Passed);
        evidence.nodes[1].lines = vec![line(
            "consumed-not-unpacked",
            "irecvConsumed of a receive whose destination differs from its pages: 4096 of 4096 bytes",
        )];
        evidence
    }

    /// A page of a KV cache, which no channel has to itself.
    fn wrong_page() -> Evidence {
        let mut evidence = stuck();
        evidence.outcome = Some(Outcome::Failed);
        evidence.nodes[1].verified = Some((1 << 20, 3));
        evidence.nodes[1].mismatch =
            Some("page 77 of the cache: 3 bytes wrong from byte 5, Stale".to_owned());
        evidence
    }

    fn completions_missing() -> Evidence {
        let mut evidence = pair(
            channel(Side::Send, [40, 28, 28], 4000),
            channel(Side::Recv, [56, 40, 40], 4000),
        );
        evidence.nodes[0].lines = vec![line(
            "tx-completion-timeout",
            "tx comp timeout poll upper 6, lower 0",
        )];
        evidence
    }

    fn chunk_sizes() -> Evidence {
        let mut evidence = stuck();
        evidence.nodes[0].channels[0].now.bytes_posted = 40 << 20;
        evidence.nodes[1].channels[0].now.bytes_posted = 44 << 19;
        evidence
    }
}
