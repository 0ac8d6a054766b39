//! As much of a schedule as there is time for.
#![forbid(unsafe_code)]

use crate::schedule::Round;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The rounds that fit into a budget, and what did not.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The rounds that fit, at least one if there are any.
    pub kept: Vec<Round>,
    /// What is not measured.
    pub left_out: LeftOut,
}

/// The rounds and meetings that a budget leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// Rounds left out.
    pub rounds: usize,
    /// Rounds of the whole schedule.
    pub rounds_all: usize,
    /// Meetings left out.
    pub meetings: usize,
    /// Meetings of the whole schedule.
    pub meetings_all: usize,
    /// Nodes that are only in rounds left out.
    pub nodes: usize,
}

impl LeftOut {
    /// Whether the whole schedule fits.
    pub fn is_nothing(&self) -> bool {
        self.rounds == 0
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return write!(f, "all {} rounds fit", self.rounds_all);
        }
        write!(
            f,
            "{} of {} rounds and {} of {} meetings do not fit",
            self.rounds, self.rounds_all, self.meetings, self.meetings_all
        )?;
        match self.nodes {
            0 => Ok(()),
            1 => f.write_str("; 1 node is not measured"),
            nodes => write!(f, "; {nodes} nodes are not measured"),
        }
    }
}

/// Keeps the first rounds, as many as `budget` has time for. The first is kept in any case, because
/// a run without a round answers nothing.
pub fn fit_budget(mut rounds: Vec<Round>, per_round: Duration, budget: Duration) -> Fit {
    let fitting = match per_round.as_nanos() {
        0 => rounds.len(),
        one => usize::try_from(budget.as_nanos() / one).unwrap_or(usize::MAX),
    };
    let rest = rounds.split_off(fitting.max(1).min(rounds.len()));
    let kept = rounds;
    let (measured, not) = (nodes_of(&kept), nodes_of(&rest));
    let left_out = LeftOut {
        rounds: rest.len(),
        rounds_all: kept.len() + rest.len(),
        meetings: meetings_of(&rest),
        meetings_all: meetings_of(&kept) + meetings_of(&rest),
        nodes: not.difference(&measured).count(),
    };
    Fit { kept, left_out }
}

fn nodes_of(rounds: &[Round]) -> BTreeSet<usize> {
    let meetings = rounds.iter().flat_map(|round| &round.meetings);
    meetings
        .flat_map(|meeting| [meeting.from, meeting.to])
        .collect()
}

fn meetings_of(rounds: &[Round]) -> usize {
    rounds.iter().map(|round| round.meetings.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::rounds;
    use tcpx_words::pattern::Pattern;

    fn pairs(nodes: usize) -> Vec<Round> {
        rounds(Pattern::Pairs, nodes, 0, 7)
    }

    #[test]
    fn a_budget_keeps_the_first_rounds_and_says_what_is_left_out() {
        let seconds = Duration::from_secs;
        let check = |nodes, budget, kept, says: &str| {
            let fit = fit_budget(pairs(nodes), seconds(10), seconds(budget));
            assert_eq!(fit.kept, pairs(nodes)[..kept]);
            assert_eq!(fit.left_out.to_string(), says);
        };
        check(16, 150, 15, "all 15 rounds fit");
        check(
            16,
            149,
            14,
            "1 of 15 rounds and 8 of 120 meetings do not fit",
        );
        check(
            16,
            0,
            1,
            "14 of 15 rounds and 112 of 120 meetings do not fit",
        );
        check(
            3,
            10,
            1,
            "2 of 3 rounds and 2 of 3 meetings do not fit; 1 node is not measured",
        );
        check(0, 10, 0, "all 0 rounds fit");
        let free = fit_budget(pairs(16), Duration::ZERO, Duration::ZERO);
        assert!(free.left_out.is_nothing());
    }
}
