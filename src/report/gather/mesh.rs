//! The rates of a mesh and the parts that they make suspect, as the record has them.
#![forbid(unsafe_code)]

use crate::story::{Story, StoryMesh, StoryMeshFinding, StoryPair};
use serde::Deserialize;
use serde_json::Value;
use tcpx_run_model::ids::{NodeId, PairId};
use tcpx_run_model::record::{
    MeshAttribution, MeshFinding, MeshPair, MeshRecord, Role, cells, rail_names, was_tried,
};
use tcpx_words::error::Outcome;

/// Adds the mesh, if the run was one.
pub(super) fn add_mesh(record: Option<&Value>, story: &mut Story) {
    let Some(value) = record.map(|record| &record["mesh"]) else {
        return;
    };
    if !value.is_object() {
        return;
    }
    let mesh = match MeshRecord::deserialize(value) {
        Ok(mesh) => mesh,
        Err(error) => {
            story.damaged("mesh", format!("mesh of run.json cannot be read: {error}"));
            return;
        }
    };
    let pairs: Vec<MeshPair> = story.pairs.iter().map(pair).collect();
    let transfers = || story.transfers.iter().map(|one| &one.record);
    let first = mesh.first_retest.map_or(pairs.len(), PairId::index);
    let first = first.min(pairs.len());
    let rates = [0..first, first..pairs.len()].map(|which| cells(&pairs, transfers(), which));
    let rails = rail_names(story.pairs.iter().filter_map(|pair| pair.rail.as_ref()));
    let found = mesh.attribution.unwrap_or_else(|| {
        let nodes: Vec<String> = story.nodes.iter().map(|node| node.name.clone()).collect();
        MeshAttribution::of(&rates, &nodes, &rails, &mesh.groups)
    });
    let [cells, retested] = rates;
    story.mesh = Some(StoryMesh {
        rails,
        groups: mesh.groups,
        cells,
        retested,
        scatter: found.scatter,
        findings: found.findings.into_iter().map(Into::into).collect(),
        cleared: found.cleared.into_iter().map(|one| one.words).collect(),
        slowest: found.slowest,
        nodes_at_fault: found.nodes_at_fault,
        differences: mesh.differences,
        launcher_said: mesh.launcher_said,
        left_out: (mesh.rounds_left_out, mesh.pairs_left_out),
        absent: mesh
            .missing
            .into_iter()
            .map(|one| (one.node, one.reason))
            .collect(),
    });
}

fn pair(pair: &StoryPair) -> MeshPair {
    MeshPair {
        nodes: pair.nodes,
        sends: [0, 1].map(|end| pair.workers[end].role != Some(Role::Recv)),
        // A record that has segments has what they say, too.
        segments: [None; 2],
        rail: pair.rail.as_ref().map_or(0, |rail| rail.number),
        round: pair.round,
        passed: pair.outcome == Some(Outcome::Passed),
        was_tried: pair.outcome.is_none_or(was_tried),
    }
}

impl From<MeshFinding> for StoryMeshFinding {
    fn from(one: MeshFinding) -> Self {
        let (nodes, rail) = one.finding.subject.place.nodes_and_rail();
        Self {
            sentence: one.words,
            standing: one.finding.standing.to_string(),
            confidence: one.finding.confidence,
            measurements: one.finding.measurements,
            nodes: nodes.into_iter().map(|node| NodeId(node as u32)).collect(),
            rail: rail.map(|rail| rail as u32),
        }
    }
}
