//! The rules: what is found in evidence, by families.
//!
//! A rule reads evidence and returns what it found. It prints nothing and touches
//! no machine, so whatever was recorded can try it. Where a channel stands still
//! is a rule's first question, so that nothing is found where all is well.
#![forbid(unsafe_code)]

mod connection;
mod endings;
mod measurement;
mod network;
mod progress;
mod slots;
mod topology;

use super::evidence::{Evidence, Node, Spot};
use tcpx_run_model::finding::Subject;

/// What a rule says; its condition's texts are the catalogue's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Its condition.
    pub condition: &'static str,
    /// The node whose part was not done, or where it shows.
    pub node: Option<Subject>,
    /// The channel, where it is one.
    pub channel: Option<usize>,
    /// 0 to 1.
    pub confidence: f64,
    /// The deciding facts.
    pub because: Vec<String>,
    /// What would be needed to be sure.
    pub cannot_see: Vec<String>,
    /// What to do here, where that is not what the catalogue has for its condition.
    pub next_step: Option<String>,
}

impl Found {
    /// On a node.
    fn at(
        condition: &'static str,
        node: &Node,
        confidence: f64,
        because: impl Into<String>,
    ) -> Self {
        Self {
            node: Some(node.subject.clone()),
            ..Self::of_all(condition, confidence, because)
        }
    }

    /// On a channel, with its counters.
    fn on(condition: &'static str, spot: Spot<'_>, confidence: f64) -> Self {
        let found = Self::at(condition, spot.node, confidence, spot.counters());
        Self {
            channel: Some(spot.channel.now.index),
            ..found
        }
    }

    /// Of the transfer as a whole.
    fn of_all(condition: &'static str, confidence: f64, because: impl Into<String>) -> Self {
        let because = vec![because.into()];
        Self {
            condition,
            node: None,
            channel: None,
            confidence,
            because,
            cannot_see: Vec::new(),
            next_step: None,
        }
    }

    fn and(mut self, fact: impl Into<String>) -> Self {
        self.because.push(fact.into());
        self
    }

    fn unseen(mut self, what: impl Into<String>) -> Self {
        self.cannot_see.push(what.into());
        self
    }
}

/// What one rule is.
pub(super) type Rule = fn(&Evidence) -> Vec<Found>;

/// Every rule but the last resort, which is asked when none of them found an error.
pub(super) const RULES: &[Rule] = &[
    progress::stopped,
    progress::hangs,
    progress::starved,
    progress::silent,
    progress::between,
    progress::recovered,
    slots::head_not_tested,
    slots::never_consumed,
    slots::wrong_payload,
    slots::exhausted,
    slots::completions,
    slots::chunk_sizes,
    slots::refused,
    connection::never_completes,
    connection::receive_path,
    connection::settings,
    connection::chunk_size_zero,
    connection::wrong_gpu,
    endings::died,
    endings::peer_first,
    endings::closed,
    endings::control_lost,
    network::sockets,
    network::link_down,
    network::rail,
    topology::far_nic,
    topology::same_host,
    measurement::first_iteration,
    measurement::above_line_rate,
    measurement::logging,
];

/// What is said where a stall was declared and no rule can tell why.
pub(super) const LAST_RESORT: Rule = progress::unexplained;
