//! Shrinks a scenario to the smallest one that still shows a finding.
//!
//! Each quantity in turn is bisected between the smallest value that shows the finding and
//! the largest that does not; then each setting is reset to its default if the finding
//! stays. This repeats, because one reduction may enable another. Every attempt is one run,
//! and the number of runs is bounded.
//!
//! Not here: running scenarios. The caller passes a function that does.
#![forbid(unsafe_code)]

use tcpx_run_model::scenario::{Fault, Scenario, Transfer};
use tcpx_words::units::ByteCount;

/// The result of [`shrink`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shrunk {
    /// The smallest scenario found that shows the finding.
    pub(crate) scenario: Scenario,
    /// Number of runs that were made.
    pub(crate) runs: u32,
    /// No smaller scenario was left to try; false if the search ended early.
    pub(crate) is_smallest: bool,
}

/// Shrinks a scenario that shows the finding. `shows` runs a scenario and says whether the
/// finding appears; `None` ends the search.
pub(crate) fn shrink(
    scenario: &Scenario,
    runs_max: u32,
    shows: &mut dyn FnMut(&Scenario) -> Option<bool>,
) -> Shrunk {
    let mut search = Search {
        best: scenario.clone(),
        runs: 0,
        runs_max,
        is_over: false,
        shows,
    };
    for _ in 0..ROUNDS_MAX {
        let before = search.best.clone();
        QUANTITIES
            .iter()
            .for_each(|quantity| search.bisect(quantity));
        SIMPLER.iter().for_each(|simpler| search.simplify(*simpler));
        if search.is_over || search.best == before {
            break;
        }
    }
    Shrunk {
        scenario: search.best,
        runs: search.runs,
        is_smallest: !search.is_over,
    }
}

const ROUNDS_MAX: usize = 3;

/// A quantity of a scenario that can be reduced.
struct Quantity {
    least: fn(&Scenario) -> u64,
    get: fn(&Scenario) -> u64,
    set: fn(&mut Scenario, u64),
}

const QUANTITIES: &[Quantity] = &[
    // Iterations first, because fewer make every later run quicker.
    Quantity {
        least: |_| 1,
        get: |s| s.transfer.iterations.into(),
        set: |s, to| s.transfer.iterations = to as u32,
    },
    Quantity {
        least: |_| 0,
        get: |s| s.transfer.warmup.into(),
        set: |s, to| s.transfer.warmup = to as u32,
    },
    Quantity {
        least: connections_min,
        get: |s| s.transfer.connections.into(),
        set: set_connections,
    },
    Quantity {
        least: |_| 1,
        get: chunks,
        set: set_chunks,
    },
    Quantity {
        least: |_| 1,
        get: |s| s.transfer.recv_window.into(),
        set: |s, to| s.transfer.recv_window = to as u32,
    },
    Quantity {
        least: |_| 1,
        get: |s| s.transfer.send_window.into(),
        set: |s, to| s.transfer.send_window = to as u32,
    },
    Quantity {
        least: |_| 1,
        get: chunk_pages,
        set: set_chunk_pages,
    },
    Quantity {
        least: |_| 0,
        get: after_chunk,
        set: set_after_chunk,
    },
];

/// Number of chunks of one iteration.
fn chunks(scenario: &Scenario) -> u64 {
    scenario
        .transfer
        .total
        .0
        .div_ceil(scenario.transfer.chunk.0.max(1))
}

fn set_chunks(scenario: &mut Scenario, to: u64) {
    let total = scenario.transfer.chunk.0.saturating_mul(to);
    scenario.transfer.total = ByteCount(total.min(scenario.transfer.total.0));
}

/// Chunk sizes are reduced by whole pages.
const PAGE: u64 = 4096;

fn connections_min(scenario: &Scenario) -> u64 {
    match &scenario.fault {
        Some(
            Fault::Driver { channel, .. }
            | Fault::Network {
                channel: Some(channel),
                ..
            },
        ) => u64::from(*channel) + 1,
        _ => 1,
    }
}

fn set_connections(scenario: &mut Scenario, to: u64) {
    scenario.transfer.connections = to as u32;
}

fn chunk_pages(scenario: &Scenario) -> u64 {
    scenario.transfer.chunk.0.div_ceil(PAGE)
}

/// Makes chunks smaller and keeps their number.
fn set_chunk_pages(scenario: &mut Scenario, pages: u64) {
    let chunks = chunks(scenario);
    scenario.transfer.chunk = ByteCount(pages.saturating_mul(PAGE));
    set_chunks(scenario, chunks);
}

fn after_chunk(scenario: &Scenario) -> u64 {
    match &scenario.fault {
        Some(
            Fault::Driver { after_chunk, .. }
            | Fault::Network { after_chunk, .. }
            | Fault::Process { after_chunk, .. },
        ) => *after_chunk,
        _ => 0,
    }
}

fn set_after_chunk(scenario: &mut Scenario, to: u64) {
    if let Some(
        Fault::Driver { after_chunk, .. }
        | Fault::Network { after_chunk, .. }
        | Fault::Process { after_chunk, .. },
    ) = &mut scenario.fault
    {
        *after_chunk = to;
    }
}

/// Settings that are reset to their defaults.
const SIMPLER: &[fn(&mut Scenario)] = &[
    |s| s.progress = Scenario::default().progress,
    |s| s.transfer.direction = Transfer::default().direction,
    |s| s.transfer.memory = Transfer::default().memory,
    |s| s.transfer.unpack = Transfer::default().unpack,
    |s| s.topology = Scenario::default().topology,
    |s| s.bindings = Scenario::default().bindings,
    |s| s.env = Scenario::default().env,
];

struct Search<'a> {
    best: Scenario,
    runs: u32,
    runs_max: u32,
    is_over: bool,
    shows: &'a mut dyn FnMut(&Scenario) -> Option<bool>,
}

impl Search<'_> {
    fn bisect(&mut self, quantity: &Quantity) {
        let (mut least, mut enough) = ((quantity.least)(&self.best), (quantity.get)(&self.best));
        // Try the minimum first: it is enough for most bugs.
        let mut tried = least;
        while least < enough && !self.is_over {
            let mut smaller = self.best.clone();
            (quantity.set)(&mut smaller, tried);
            if self.try_scenario(smaller) {
                enough = tried;
            } else {
                least = tried + 1;
            }
            tried = least + (enough - least) / 2;
        }
    }

    fn simplify(&mut self, simpler: fn(&mut Scenario)) {
        let mut simple = self.best.clone();
        simpler(&mut simple);
        if simple != self.best && !self.is_over {
            self.try_scenario(simple);
        }
    }

    /// Runs a scenario and keeps it if it shows the finding.
    fn try_scenario(&mut self, scenario: Scenario) -> bool {
        if scenario.check().is_err() {
            return false;
        }
        self.is_over = self.runs >= self.runs_max;
        if self.is_over {
            return false;
        }
        self.runs += 1;
        let Some(shows) = (self.shows)(&scenario) else {
            self.is_over = true;
            return false;
        };
        if shows {
            self.best = scenario;
        }
        shows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpx_run_model::scenario::Sides;
    use tcpx_words::progress::DriverFault;
    use tcpx_words::progress::Policy;

    fn large() -> Scenario {
        let mut scenario = Scenario::default();
        scenario.transfer.connections = 64;
        scenario.progress.policy = Policy::DedicatedThread;
        let (side, kind) = (Sides::Recv, DriverFault::NeverConsumed);
        scenario.fault = Some(Fault::Driver {
            side,
            kind,
            channel: 2,
            after_chunk: 40,
        });
        scenario
    }

    #[test]
    fn what_the_finding_needs_stays_and_the_rest_is_reduced() {
        let needs = |s: &Scenario| {
            s.transfer.connections >= 5
                && s.transfer.recv_window >= 3
                && s.transfer.total.0 >= 3 * s.transfer.chunk.0
        };
        let shrunk = shrink(&large(), 500, &mut |scenario| Some(needs(scenario)));
        let transfer = &shrunk.scenario.transfer;
        assert!(shrunk.is_smallest && needs(&shrunk.scenario));
        assert_eq!(
            (
                transfer.connections,
                transfer.recv_window,
                transfer.send_window
            ),
            (5, 3, 1)
        );
        assert_eq!(
            (transfer.iterations, transfer.warmup, transfer.chunk.0),
            (1, 0, 4096)
        );
        assert_eq!(
            (after_chunk(&shrunk.scenario), shrunk.scenario.progress),
            (0, Scenario::default().progress)
        );
        assert!(transfer.total.0 <= 3 * 4096, "{}", transfer.total);
    }

    #[test]
    fn the_channel_of_a_fault_stays_in_the_transfer() {
        let shrunk = shrink(&large(), 500, &mut |_| Some(true));
        assert_eq!(shrunk.scenario.transfer.connections, 3);
        assert!(shrunk.scenario.check().is_ok());
    }

    #[test]
    fn runs_are_bounded_and_the_caller_can_end_the_search() {
        let shrunk = shrink(&large(), 7, &mut |_| Some(true));
        assert_eq!((shrunk.runs, shrunk.is_smallest), (7, false));
        let mut left = 3;
        let shrunk = shrink(&large(), 100, &mut |_| {
            left -= 1;
            (left > 0).then_some(true)
        });
        assert_eq!((shrunk.runs, shrunk.is_smallest), (3, false));
    }

    proptest! {
        #[test]
        fn the_result_always_shows_the_finding(connections in 1u32..64, window in 1u32..16, total in 1u64..128) {
            let needs = |s: &Scenario| s.transfer.connections >= connections.max(3)
                && s.transfer.recv_window >= window && chunks(s) >= total;
            let shrunk = shrink(&large(), 400, &mut |scenario| Some(needs(scenario)));
            prop_assert!(needs(&shrunk.scenario) && shrunk.runs <= 400);
            prop_assert_eq!(shrunk.scenario.transfer.connections, connections.max(3));
            prop_assert_eq!(shrunk.scenario.transfer.recv_window, window);
        }
    }
}
