//! Checks the `requires` list of a scenario against the nodes.
#![forbid(unsafe_code)]

use tcpx_node::NodeFacts;
use tcpx_run_model::scenario::Requirement;

/// The first requirement that the nodes do not meet, in one sentence. `nodes` come with their
/// names.
pub(super) fn missing(
    requires: &[Requirement],
    nodes: &[(String, &NodeFacts)],
    is_one_machine: bool,
) -> Option<String> {
    let missing_at = |requirement: &Requirement| match requirement {
        Requirement::Gpu => nodes.iter().find_map(|(name, facts)| {
            let gpus = facts.gpus.devices.known();
            gpus.is_none_or(Vec::is_empty)
                .then(|| format!("{name} has none"))
        }),
        // Only the plugin itself can say what it is.
        Requirement::Tcpx => None,
        Requirement::Peer => is_one_machine.then(|| "both ends are on one machine".to_owned()),
    };
    requires
        .iter()
        .find_map(|requirement| missing_at(requirement).map(|why| skipped(*requirement, &why)))
}

/// Why the plugin that a worker loaded is not the one that is required.
pub(super) fn unwanted(
    requires: &[Requirement],
    worker: &str,
    plugin: &str,
    is_tcpx: bool,
) -> Option<String> {
    let why = || format!("{worker} loaded {plugin}");
    (requires.contains(&Requirement::Tcpx) && !is_tcpx).then(|| skipped(Requirement::Tcpx, &why()))
}

fn skipped(requirement: Requirement, why: &str) -> String {
    format!("skipped: the scenario requires {requirement}, and {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_facts_counts_as_having_no_gpu() {
        let check = |requires: &[Requirement], expected: Option<&str>| {
            let nothing = NodeFacts::read(&tcpx_node::fixture::tree("").root);
            let nodes = [
                ("local".to_owned(), &nothing),
                ("peer".to_owned(), &nothing),
            ];
            assert_eq!(missing(requires, &nodes, true).as_deref(), expected);
        };
        check(&[], None);
        check(&[Requirement::Tcpx], None);
        check(
            &[Requirement::Tcpx, Requirement::Gpu],
            Some("skipped: the scenario requires gpu, and local has none"),
        );
        check(
            &[Requirement::Peer],
            Some("skipped: the scenario requires peer, and both ends are on one machine"),
        );
    }
}
