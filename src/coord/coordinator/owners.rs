//! Decides which node a recorder is shown at that several nodes see, so that it is shown once.
//!
//! Nodes that are containers or network namespaces of one machine may share `/proc` and `/dev/shm`.
//! A recorder is then of the node that the user named its process at; without that, of the one whose
//! network its process uses; and else of the first of the nodes. Which of them tells of it first is
//! chance, and decides only what another node had not told by then. What was decided stays.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::ids::{NodeId, Unit, WorkerId};
use tcpx_run_model::live::{FILES_MAX, FoundRecorder, RecorderId};

/// Recorders and the node of each.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Processes that the user named, with their nodes.
    named: Vec<(NodeId, u32)>,
    /// What the nodes told since the last decision, in order.
    undecided: Vec<FoundRecorder>,
    owned: BTreeMap<RecorderId, WorkerId>,
    /// The same recorders as other nodes see them.
    repeats: BTreeSet<WorkerId>,
}

impl Owners {
    pub(super) fn new(named: Vec<(NodeId, u32)>) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }

    /// Keeps what a node has found until the next decision.
    pub(super) fn note(&mut self, node: NodeId, found: Vec<FoundRecorder>) {
        let of_node = |mut one: FoundRecorder| {
            one.worker.node = node;
            one
        };
        self.undecided
            .extend(found.into_iter().take(FILES_MAX).map(of_node));
    }

    /// Decides about every recorder that was noted.
    pub(super) fn decide(&mut self) {
        let mut undecided = std::mem::take(&mut self.undecided);
        undecided.sort_by_key(|one| {
            let is_named = process(one.worker).is_some_and(|process| self.named.contains(&process));
            (!is_named, !one.is_of_own_network, one.worker.node)
        });
        for one in undecided {
            let owner = *self.owned.entry(one.recorder).or_insert(one.worker);
            if owner != one.worker {
                self.repeats.insert(one.worker);
            }
        }
    }

    /// Whether it is shown at another node.
    pub(super) fn is_repeat(&self, worker: WorkerId) -> bool {
        self.repeats.contains(&worker)
    }

    /// Whether a process of this node is shown at another.
    pub(super) fn is_elsewhere(&self, wanted: (NodeId, u32)) -> bool {
        self.repeats
            .iter()
            .any(|worker| process(*worker) == Some(wanted))
    }
}

fn process(worker: WorkerId) -> Option<(NodeId, u32)> {
    match worker.unit {
        Unit::Process { pid, .. } => Some((worker.node, pid)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);

    fn found(pid: u32, is_of_own_network: bool) -> FoundRecorder {
        FoundRecorder {
            worker: seen(HERE, pid),
            recorder: RecorderId {
                boot: 1,
                pid_namespace: 2,
                pid,
                start_ticks: 3,
                created_ns: 4,
            },
            is_of_own_network,
        }
    }

    fn seen(node: NodeId, pid: u32) -> WorkerId {
        WorkerId {
            node,
            unit: Unit::Process { pid, recorder: 0 },
        }
    }

    /// Where 7 and 8 are shown, which both nodes see.
    fn shown(named: &[(NodeId, u32)], networks: [[bool; 2]; 2]) -> [Vec<u32>; 2] {
        let mut owners = Owners::new(named.to_vec());
        for (node, [seven, eight]) in [HERE, THERE].into_iter().zip(networks) {
            owners.note(node, vec![found(7, seven), found(8, eight)]);
        }
        owners.decide();
        [HERE, THERE].map(|node| {
            let shown = [7, 8].into_iter();
            shown
                .filter(|pid| !owners.is_repeat(seen(node, *pid)))
                .collect()
        })
    }

    #[test]
    fn a_recorder_that_two_nodes_see_is_shown_at_the_one_whose_network_its_process_uses() {
        let networks = [[true, false], [false, true]];
        assert_eq!(shown(&[], networks), [vec![7], vec![8]]);
        let no_network_tells = [[true; 2]; 2];
        assert_eq!(shown(&[], no_network_tells), [vec![7, 8], vec![]]);
    }

    #[test]
    fn a_recorder_that_could_be_of_either_node_is_of_the_first_one() {
        for order in [[HERE, THERE], [THERE, HERE]] {
            let mut owners = Owners::default();
            for node in order {
                owners.note(node, vec![found(7, true)]);
            }
            owners.decide();
            assert!(owners.is_repeat(seen(THERE, 7)) && !owners.is_repeat(seen(HERE, 7)));
        }
    }

    #[test]
    fn a_process_that_the_user_named_at_a_node_is_shown_there() {
        let networks = [[true, false], [false, true]];
        assert_eq!(shown(&[(THERE, 7)], networks), [vec![], vec![7, 8]]);
    }

    #[test]
    fn a_recorder_stays_where_it_was_and_another_with_its_pid_is_another() {
        let mut owners = Owners::default();
        owners.note(THERE, vec![found(7, false)]);
        owners.decide();
        let mut later = found(7, true);
        owners.note(HERE, vec![later]);
        owners.decide();
        assert!(owners.is_repeat(seen(HERE, 7)) && !owners.is_repeat(seen(THERE, 7)));
        assert!(owners.is_elsewhere((HERE, 7)));
        later.recorder.boot = 2;
        later.worker = seen(HERE, 7);
        let mut owners = Owners::default();
        owners.note(HERE, vec![found(7, true)]);
        owners.note(THERE, vec![later]);
        owners.decide();
        assert!(!owners.is_repeat(seen(THERE, 7)));
    }
}
