//! What a scenario cannot do without, held against both nodes.
#![forbid(unsafe_code)]

use super::launch::End;
use super::message::Loaded;
use tcpx_node::NodeFacts;
use tcpx_run_model::scenario::Requirement;
use tcpx_words::plugin_family::PluginFamily;

/// What is missing before anything is loaded, in one sentence.
pub(super) fn missing(requires: &[Requirement], facts: [&NodeFacts; 2], is_one_machine: bool) -> Option<String> {
    let missing_at = |requirement: &Requirement| match requirement {
        Requirement::Gpu => End::ALL.into_iter().find_map(|end| {
            let gpus = facts[end as usize].gpus.devices.known();
            gpus.is_none_or(Vec::is_empty).then(|| format!("the {} end has none", end.name()))
        }),
        // Only the plugin itself can say what it is.
        Requirement::Tcpx => None,
        Requirement::Peer => is_one_machine.then(|| "both ends are on one machine".to_owned()),
    };
    requires.iter().find_map(|requirement| missing_at(requirement).map(|why| skipped(*requirement, &why)))
}

/// Whether a loaded plugin is the one that is required.
pub(super) fn unwanted(requires: &[Requirement], end: End, loaded: &Loaded) -> Option<String> {
    let why = || format!("the {} end loaded {}", end.name(), loaded.about.name);
    let is_tcpx = loaded.about.family() == PluginFamily::Tcpx;
    (requires.contains(&Requirement::Tcpx) && !is_tcpx).then(|| skipped(Requirement::Tcpx, &why()))
}

fn skipped(requirement: Requirement, why: &str) -> String {
    format!("skipped: the scenario requires {requirement}, and {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_told_nothing_has_no_gpu() {
        let check = |requires: &[Requirement], expected: Option<&str>| {
            let nothing = NodeFacts::read(&tcpx_node::fixture::tree("").root);
            assert_eq!(missing(requires, [&nothing, &nothing], true).as_deref(), expected);
        };
        check(&[], None);
        check(&[Requirement::Tcpx], None);
        check(
            &[Requirement::Tcpx, Requirement::Gpu],
            Some("skipped: the scenario requires gpu, and the local end has none"),
        );
        check(&[Requirement::Peer], Some("skipped: the scenario requires peer, and both ends are on one machine"));
    }
}
