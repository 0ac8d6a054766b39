//! Agents that ended or fell silent while their workers ran.
#![forbid(unsafe_code)]

use super::network::lost_while_connecting;
use super::{Found, Rule};
use crate::catalogue::Condition;
use crate::evidence::{Evidence, EvidenceNode, Said, StoppedAgent};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::ids::NodeId;
use tcpx_words::error::Outcome;

pub(super) const RULES: &[Rule] = &[lost];

/// Most lines of a launcher that are quoted.
const LINES_MAX: usize = 4;
/// Most facts about segments that were sent again.
const LOSSES_MAX: usize = 2;
/// Most nodes that are named.
const NAMES_MAX: usize = 8;
/// How the reason of an agent begins that ended with the `serve` that had started it.
const SERVE: &str = "`tcpxctl serve`";
/// How long before an agent is lost its launcher may say why.
const SAID_BEFORE_MS: f64 = 1500.0;

/// Agents that were ended, in one finding, or the nodes from which nothing came any more.
fn lost(evidence: &Evidence) -> Vec<Found> {
    let silent = silent(evidence);
    let ended: Vec<f64> = evidence
        .agents
        .iter()
        .filter_map(|agent| Some(agent.ended()?.0))
        .collect();
    // A worker that has just started has no counters yet.
    let heard = |node: &&EvidenceNode| node.sampled_ms.unwrap_or(node.phase_ms);
    let heard = silent.iter().map(heard);
    let first_ms = ended
        .iter()
        .copied()
        .chain(heard)
        .fold(f64::INFINITY, f64::min);
    let is_bad = matches!(
        evidence.outcome,
        Some(Outcome::PeerLost | Outcome::Interrupted)
    );
    let said = evidence.launcher_said.iter();
    let mut shapes = BTreeSet::new();
    let said: Vec<&Said> = said
        .filter(|line| line.at_ms >= first_ms - SAID_BEFORE_MS)
        // A launcher says the same of each task.
        .filter(|line| shapes.insert(line.text.replace(|c: char| c.is_ascii_digit(), "")))
        .take(LINES_MAX)
        .collect();
    let some_left = evidence.agents.iter().any(|agent| agent.left.is_some());
    let some_lost = !ended.is_empty() || !silent.is_empty();
    if is_bad && (some_left || some_lost && !said.is_empty()) {
        return vec![agents_ended(evidence, &silent, &said)];
    }
    let mut by_node: BTreeMap<NodeId, Vec<&EvidenceNode>> = BTreeMap::new();
    for worker in silent {
        by_node.entry(worker.subject.node).or_default().push(worker);
    }
    let lost = by_node.into_values();
    lost.map(|workers| control_lost(evidence, &workers))
        .collect()
}

/// What the launcher said, and which agents ended when.
fn agents_ended(evidence: &Evidence, silent: &[&EvidenceNode], said: &[&Said]) -> Found {
    let mut facts: Vec<String> = said
        .iter()
        .map(|line| {
            format!(
                "at {:.1} s the launcher said: {}",
                line.at_ms / 1e3,
                line.text
            )
        })
        .collect();
    let mut by_reason: BTreeMap<&str, Vec<(f64, &str)>> = BTreeMap::new();
    for agent in &evidence.agents {
        if let Some((at_ms, reason)) = agent.ended() {
            let of_it = by_reason.entry(reason).or_default();
            of_it.push((at_ms, &agent.name));
        }
    }
    let of_serve: Vec<&str> = by_reason
        .iter()
        .filter(|(reason, _)| reason.starts_with(SERVE))
        .flat_map(|(_, agents)| agents.iter().map(|(_, name)| *name))
        .collect();
    let is_all_of_serve = !of_serve.is_empty() && said.is_empty() && {
        let ended = by_reason.values().map(Vec::len).sum::<usize>();
        ended == of_serve.len()
    };
    for (reason, agents) in by_reason {
        let times = agents.iter().map(|(at_ms, _)| at_ms / 1e3);
        let (first, last) = (
            times.clone().fold(f64::INFINITY, f64::min),
            times.fold(0.0, f64::max),
        );
        let names: Vec<&str> = agents.iter().map(|(_, name)| *name).collect();
        facts.push(format!(
            "the agent of {} ended at {first:.1} s to {last:.1} s: {reason}",
            listed(&names)
        ));
    }
    let is_silent = |node: &&&EvidenceNode| !evidence.has_ended(node.subject.node);
    let without_word: BTreeMap<NodeId, &str> = silent
        .iter()
        .filter(is_silent)
        .map(|node| (node.subject.node, evidence.agent_name(node)))
        .collect();
    if !without_word.is_empty() {
        let names: Vec<&str> = without_word.into_values().collect();
        facts.push(format!("the agent of {} fell silent", listed(&names)));
    }
    let mut found = Found::of_transfer(Condition::AgentsEnded, 0.95, facts.remove(0));
    found.because.extend(facts);
    if is_all_of_serve {
        found.next_step = Some(format!(
            "start `tcpxctl serve` again on {}, and end it only after the run",
            listed(&of_serve)
        ));
        return found;
    }
    match said.is_empty() {
        true => found.unseen("who ended them: nothing was printed about it"),
        false => found,
    }
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Workers from which nothing came any more, although their agents said nothing of an end.
fn silent(evidence: &Evidence) -> Vec<&EvidenceNode> {
    if evidence.outcome != Some(Outcome::PeerLost)
        || evidence.nodes.iter().any(|node| node.died().is_some())
    {
        return Vec::new();
    }
    // A node that reported a failure of its own was still reachable.
    let own = |node: &EvidenceNode| {
        node.failure
            .as_ref()
            .is_some_and(|failure| !failure.what.follows)
    };
    if evidence.nodes.iter().any(own) {
        return Vec::new();
    }
    evidence
        .nodes
        .iter()
        .filter(|node| node.exit.is_none() && node.failure.is_none())
        // Its agent has said why it ended.
        .filter(|node| !evidence.has_left(node.subject.node))
        // A worker without a phase was never started: its node was not reached.
        .filter(|node| node.phase.is_some() || node.sampled_ms.is_some())
        .collect()
}

/// An agent that is lost with its workers, at least one.
fn control_lost(evidence: &Evidence, workers: &[&EvidenceNode]) -> Found {
    let agent = evidence.agent_name(workers[0]);
    let sampled = workers.iter().filter_map(|worker| worker.sampled_ms);
    let last = sampled
        .reduce(f64::max)
        .map_or("none of its counters arrived".to_owned(), |at_ms| {
            format!("its last counters are of {:.1} s", at_ms / 1e3)
        });
    let why = format!("nothing more arrived from the agent of {agent}; {last}");
    let mut found = Found::at(Condition::ControlLost, workers[0], 0.9, why);
    if let Some(StoppedAgent { at_ms, pid }) = evidence.stopped_agent(workers[0].subject.node) {
        // The node and its network are not at fault.
        found.because.push(format!(
            "its process {pid} was stopped, in state T, at {:.1} s",
            at_ms / 1e3
        ));
        found.next_step = Some(format!(
            "find out who sent it SIGSTOP, or whether a debugger holds it; `kill -CONT {pid}` lets it go on"
        ));
    }
    // What the other ends sent again may have crossed the same network.
    let others = lost_while_connecting(evidence).into_iter();
    found
        .because
        .extend(others.flat_map(|lossy| lossy.because).take(LOSSES_MAX));
    if let (true, Some(subject)) = (workers.len() > 1, &mut found.node) {
        subject.pair = None;
        subject.name = agent.to_owned();
    }
    found.unseen("what its worker did after that")
}

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::evidence::EvidenceAgent;
    use crate::tests::Case;
    use crate::tests::builders::*;
    use tcpx_run_model::phase::Phase;

    pub(crate) const CASES: &[Case] = &[
        (Condition::ControlLost, cut_off),
        (Condition::ControlLost, agent_stopped),
        (Condition::AgentsEnded, time_limit),
        (Condition::AgentsEnded, cancelled_before_counters),
        (Condition::AgentsEnded, cancelled_before_workers),
    ];

    /// One end is cut off, so the other end stalls.
    fn cut_off() -> Evidence {
        let mut evidence = ended(Outcome::PeerLost, sender_silent());
        evidence.nodes[0].exit = exit(None);
        evidence.nodes[0].failure = failure(Phase::Measuring, "stopped while measuring", true);
        evidence
    }

    /// The agent of the second end was stopped, as by SIGSTOP.
    fn agent_stopped() -> Evidence {
        let mut evidence = cut_off();
        evidence.agents = vec![agent(0, None), agent(1, None)];
        evidence.agents[1].stopped = Some(StoppedAgent {
            at_ms: 17_000.0,
            pid: 4242,
        });
        evidence
    }

    const SIGTERM: &str = "it got SIGTERM, as from scancel, a time limit or a launcher that ends";
    const CANCELLED: &str = "slurmstepd-node0: error: *** STEP 7.0 ON node0 CANCELLED AT 2026-11-20T08:14:04 DUE TO TIME LIMIT ***";

    fn agent(node: u32, left_ms: Option<f64>) -> EvidenceAgent {
        EvidenceAgent {
            node: NodeId(node),
            name: format!("node{node}"),
            left: left_ms.map(|at_ms| Said {
                at_ms,
                text: SIGTERM.into(),
            }),
            gone_ms: None,
            stopped: None,
        }
    }

    fn time_limit() -> Evidence {
        let mut evidence = cut_off();
        evidence.agents = vec![agent(0, Some(9100.0)), agent(1, Some(9300.0))];
        evidence.launcher_said = vec![
            Said {
                at_ms: 100.0,
                text: "srun: warning of the start".into(),
            },
            Said {
                at_ms: 9200.0,
                text: CANCELLED.into(),
            },
        ];
        evidence
    }

    /// As a scheduler ends tasks by SIGKILL while their workers start.
    fn cancelled_before_counters() -> Evidence {
        let mut evidence = time_limit();
        evidence.agents = vec![agent(0, None), agent(1, None)];
        for node in &mut evidence.nodes {
            (node.sampled_ms, node.phase_ms) = (None, 8000.0);
        }
        evidence
    }

    /// As above, before a worker has started.
    fn cancelled_before_workers() -> Evidence {
        let mut evidence = time_limit();
        evidence.nodes.clear();
        evidence.agents = [9100.0, 9300.0]
            .into_iter()
            .zip([0, 1])
            .map(|(at_ms, node)| EvidenceAgent {
                gone_ms: Some(at_ms),
                ..agent(node, None)
            })
            .collect();
        evidence
    }

    #[test]
    fn the_end_of_serve_is_named_with_what_to_do() {
        let mut evidence = cut_off();
        evidence.agents = vec![agent(0, None), agent(1, Some(9300.0))];
        if let Some(left) = &mut evidence.agents[1].left {
            left.text = "`tcpxctl serve`, which had started it, was ended".into();
        }
        let [found] = &lost(&evidence)[..] else {
            panic!("one finding")
        };
        assert_eq!(found.condition, Condition::AgentsEnded);
        assert!(found.because[0].contains("`tcpxctl serve`"), "{found:?}");
        assert_eq!(
            found.next_step.as_deref(),
            Some("start `tcpxctl serve` again on node1, and end it only after the run")
        );
        // What else ended agents is not known by that.
        evidence.agents[0].gone_ms = Some(9200.0);
        assert_eq!(lost(&evidence)[0].next_step, None);
    }

    #[test]
    fn of_a_stopped_agent_the_network_is_not_to_be_checked() {
        let [found] = &lost(&agent_stopped())[..] else {
            panic!("one finding")
        };
        assert_eq!(
            found.because[1],
            "its process 4242 was stopped, in state T, at 17.0 s"
        );
        let next_step = found.next_step.as_deref().unwrap_or_default();
        assert!(next_step.contains("kill -CONT 4242"), "{found:?}");
        // That the other agent was stopped says nothing of this one.
        let mut evidence = agent_stopped();
        evidence.agents.reverse();
        evidence.agents[0].node = NodeId(0);
        evidence.agents[1].node = NodeId(1);
        assert_eq!(lost(&evidence)[0].next_step, None);
    }

    #[test]
    fn an_agent_that_is_lost_with_several_workers_is_one_finding() {
        let mut evidence = cut_off();
        let mut other = evidence.nodes[1].clone();
        other.sampled_ms = Some(7000.0);
        evidence.nodes.push(other);
        evidence.agents = vec![agent(0, None), agent(1, None)];
        let [found] = &lost(&evidence)[..] else {
            panic!("one finding")
        };
        assert_eq!(
            found.node.as_ref().map(|node| (node.pair, &*node.name)),
            Some((None, "node1"))
        );
        assert!(
            found.because[0]
                .contains("nothing more arrived from the agent of node1; its last counters are of")
        );
    }

    #[test]
    fn agents_that_were_ended_are_one_finding_with_the_words_of_the_launcher() {
        let [found] = &lost(&time_limit())[..] else {
            panic!("one finding")
        };
        let told = format!("the agent of node0, node1 ended at 9.1 s to 9.3 s: {SIGTERM}");
        let said = format!("at 9.2 s the launcher said: {CANCELLED}");
        assert_eq!(
            (&found.because, found.node.is_none()),
            (&vec![said, told], true)
        );
        // One of them was killed.
        let mut evidence = time_limit();
        evidence.agents = vec![agent(0, None), agent(1, None)];
        let [found] = &lost(&evidence)[..] else {
            panic!("one finding")
        };
        assert!(found.because[1].ends_with("fell silent"), "{found:?}");
    }
}
