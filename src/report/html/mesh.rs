//! The mesh: which parts are suspect, the slowest directions, and a matrix of rates per rail.
//!
//! Up to 64 nodes, a cell is a direction. With more, a cell is what one group sends to another,
//! and below it are matrices of the groups that have something to show: each of their nodes with
//! every group. Nodes without known groups are divided into blocks of neighbours.
#![forbid(unsafe_code)]

use crate::chart::{MatrixCell, MatrixLabel, matrix};
use crate::page::{HtmlRow, Page};
use crate::story::{Story, StoryMesh};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::finding::Finding;
use tcpx_run_model::ids::{Names, NodeId};
use tcpx_run_model::record::{MeshCell, median_rate};
use tcpx_words::units::counted;

/// Of more nodes, a cell is a pair of groups.
const NODES_MAX: usize = 64;
/// Blocks that nodes without groups are divided into.
const BLOCKS: usize = 32;
/// Groups that are shown node by node, on each rail.
const ZOOMED_MAX: usize = 6;
/// Findings that are listed.
const FINDINGS_MAX: usize = 100;
/// A cell of groups is marked if a direction in it has a smaller share.
const MARKED: f64 = 0.65;

pub(super) fn mesh(page: &mut Page, story: &Story) {
    let Some(mesh) = &story.mesh else { return };
    page.section("mesh", "Mesh");
    body(page, mesh, &story.names(), &story.findings);
}

/// The section without its heading.
pub(super) fn body(page: &mut Page, mesh: &StoryMesh, names: &Names, of_transfers: &[Finding]) {
    findings(page, mesh, of_transfers);
    slowest(page, mesh, names);
    for rail in 0..mesh.rails.len() as u32 {
        let cells: Vec<&MeshCell> = mesh.cells.iter().filter(|one| one.rail == rail).collect();
        if !cells.is_empty() {
            rail_matrix(page, mesh, names, rail, &cells);
        }
    }
    absent(page, mesh, names);
}

fn findings(page: &mut Page, mesh: &StoryMesh, of_transfers: &[Finding]) {
    if let Some(words) = mesh.nothing_found(of_transfers) {
        page.tag("p", &format!("{words}."));
    }
    let shown = mesh.findings.iter().take(FINDINGS_MAX);
    let rows: Vec<HtmlRow> = shown
        .map(|one| {
            [
                one.standing.clone(),
                one.sentence.clone(),
                format!("{:.1} %", one.confidence * 100.0),
                one.measurements.to_string(),
            ]
            .into()
        })
        .collect();
    if !rows.is_empty() {
        page.table(
            "",
            &["standing", "part", "#confidence", "#measurements"],
            &rows,
        );
        page.tag(
            "p class=\"soft\"",
            "Confirmed: measured again with good partners, and slow or dead again. Suspected: not measured again, or not often enough.",
        );
    }
    let left = mesh.findings.len().saturating_sub(FINDINGS_MAX);
    if left > 0 {
        page.tag("p", &format!("{left} more are in the JSON report."));
    }
    if !mesh.cleared.is_empty() {
        page.tag(
            "p class=\"soft\"",
            &format!(
                "Not confirmed by second measurements: {}.",
                mesh.cleared.join("; ")
            ),
        );
    }
}

fn slowest(page: &mut Page, mesh: &StoryMesh, names: &Names) {
    if mesh.slowest.is_empty() {
        return;
    }
    let rail = |rail: u32| mesh.rails.get(rail as usize).cloned().unwrap_or_default();
    let rows: Vec<HtmlRow> = mesh
        .slowest
        .iter()
        .map(|one| {
            [
                format!("{} → {}", names.node(one.from), names.node(one.to)),
                rail(one.rail),
                format!("{:.3}", one.gb_per_s),
                format!("{:.0} %", one.share * 100.0),
            ]
            .into()
        })
        .collect();
    page.folded("Slowest directions", mesh.findings.is_empty(), |page| {
        page.table("", &["direction", "rail", "#GB/s", "#of the median"], &rows);
    });
}

fn rail_matrix(page: &mut Page, mesh: &StoryMesh, names: &Names, rail: u32, cells: &[&MeshCell]) {
    let name = &mesh.rails[rail as usize];
    let which = if name == "all" {
        "all rails".to_owned()
    } else {
        format!("rail {name}")
    };
    let median = median_rate(cells.iter().copied()).unwrap_or(0.0);
    let failed = cells.iter().filter(|cell| cell.gb_per_s.is_none()).count();
    let about = format!(
        "row sends to column; median {median:.3} GB/s, {} directions, {failed} failed",
        cells.len()
    );
    let view = View {
        mesh,
        names,
        rail,
        median,
        cells,
    };
    let title = format!("Rates over {which}, % of the median");
    let nodes = view.measured_nodes();
    if nodes.len() <= NODES_MAX {
        let svg = view.of_nodes(&title, &nodes);
        return page.figure(&title, &about, &svg);
    }
    let blocks = view.blocks(&nodes);
    page.figure(&title, &about, &view.of_blocks(&title, &blocks));
    for block in view.interesting(&blocks) {
        let group = &blocks[block].name;
        let open = view.is_suspect_block(&blocks[block]);
        page.folded(
            &format!("{group} over {which}, node by node"),
            open,
            |page| {
                for sends in [true, false] {
                    let way = if sends { "sends to" } else { "receives from" };
                    let title = format!("What each node of {group} {way} each group, {which}");
                    let svg = view.of_block(&title, &blocks, block, sends);
                    page.figure(&title, "% of the median", &svg);
                }
            },
        );
    }
}

/// Nodes that are shown as one row.
struct Block {
    name: String,
    nodes: Vec<NodeId>,
}

/// What a matrix of one rail is made of.
struct View<'a> {
    mesh: &'a StoryMesh,
    names: &'a Names,
    rail: u32,
    median: f64,
    cells: &'a [&'a MeshCell],
}

impl View<'_> {
    fn group(&self, node: NodeId) -> Option<&str> {
        self.mesh.groups.get(node.index())?.as_deref()
    }

    /// The nodes that have a cell, those of one group together.
    fn measured_nodes(&self) -> Vec<NodeId> {
        let ends = self.cells.iter().flat_map(|cell| [cell.from, cell.to]);
        let ends: BTreeSet<NodeId> = ends.collect();
        let mut nodes: Vec<NodeId> = ends.into_iter().collect();
        // In the order of their first nodes: rack2 is before rack10.
        let mut first: BTreeMap<Option<&str>, NodeId> = BTreeMap::new();
        for node in &nodes {
            first.entry(self.group(*node)).or_insert(*node);
        }
        nodes.sort_by_key(|node| (first.get(&self.group(*node)).copied(), *node));
        nodes
    }

    fn is_suspect(&self, node: NodeId) -> bool {
        let of_rail = |rail: Option<u32>| rail.is_none_or(|rail| rail == self.rail);
        let mut findings = self.mesh.findings.iter();
        findings.any(|one| of_rail(one.rail) && one.nodes.contains(&node))
    }

    fn is_suspect_block(&self, block: &Block) -> bool {
        block.nodes.iter().any(|node| self.is_suspect(*node))
    }

    fn share(&self, gb_per_s: f64) -> f64 {
        if self.median > 0.0 {
            gb_per_s / self.median
        } else {
            0.0
        }
    }

    fn label(&self, node: NodeId, before: Option<NodeId>) -> MatrixLabel {
        let begins_group = before.is_some_and(|before| self.group(before) != self.group(node));
        MatrixLabel {
            name: self.names.node(node),
            is_suspect: self.is_suspect(node),
            begins_group,
        }
    }

    fn labels(&self, nodes: &[NodeId]) -> Vec<MatrixLabel> {
        let before = std::iter::once(None).chain(nodes.iter().copied().map(Some));
        let pairs = nodes.iter().zip(before);
        pairs
            .map(|(node, before)| self.label(*node, before))
            .collect()
    }

    fn of_nodes(&self, title: &str, nodes: &[NodeId]) -> String {
        let place: BTreeMap<NodeId, usize> = nodes.iter().copied().zip(0..).collect();
        let cell = |cell: &&MeshCell| {
            let (from, to) = (self.names.node(cell.from), self.names.node(cell.to));
            let about = match cell.gb_per_s {
                Some(rate) => format!(
                    "{from} → {to}: {rate:.3} GB/s, {:.0} %",
                    self.share(rate) * 100.0
                ),
                None => format!("{from} → {to}: failed"),
            };
            MatrixCell {
                row: place[&cell.from],
                column: place[&cell.to],
                share: cell.gb_per_s.map(|rate| self.share(rate)),
                is_marked: false,
                about,
            }
        };
        let cells: Vec<MatrixCell> = self.cells.iter().map(cell).collect();
        let labels = self.labels(nodes);
        matrix(title, &labels, &labels, &cells)
    }

    /// The groups, or blocks of neighbours if the groups do not divide the nodes well.
    fn blocks(&self, nodes: &[NodeId]) -> Vec<Block> {
        let mut groups: Vec<Option<&str>> = Vec::new();
        for node in nodes {
            let group = self.group(*node);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        if (2..=NODES_MAX).contains(&groups.len()) {
            let block = |group: Option<&str>| Block {
                name: group.unwrap_or("no group").to_owned(),
                nodes: nodes
                    .iter()
                    .copied()
                    .filter(|node| self.group(*node) == group)
                    .collect(),
            };
            return groups.into_iter().map(block).collect();
        }
        let block = |nodes: &[NodeId]| {
            let ends = [nodes.first(), nodes.last()]
                .map(|end| end.map_or(String::new(), |node| self.names.node(*node)));
            Block {
                name: ends.join(" to "),
                nodes: nodes.to_vec(),
            }
        };
        let size = nodes.len().div_ceil(BLOCKS).max(1);
        nodes.chunks(size).map(block).collect()
    }

    fn of_blocks(&self, title: &str, blocks: &[Block]) -> String {
        let of = block_of(blocks);
        let labels = self.block_labels(blocks);
        let place = |cell: &MeshCell| Some((*of.get(&cell.from)?, *of.get(&cell.to)?));
        let name =
            |row: usize, column: usize| format!("{} → {}", blocks[row].name, blocks[column].name);
        matrix(title, &labels, &labels, &self.merged(place, name))
    }

    /// The nodes of one block as rows, and every block as a column.
    fn of_block(&self, title: &str, blocks: &[Block], block: usize, sends: bool) -> String {
        let of = block_of(blocks);
        let nodes = &blocks[block].nodes;
        let rows: BTreeMap<NodeId, usize> = nodes.iter().copied().zip(0..).collect();
        let place = |cell: &MeshCell| {
            let (own, other) = if sends {
                (cell.from, cell.to)
            } else {
                (cell.to, cell.from)
            };
            Some((*rows.get(&own)?, *of.get(&other)?))
        };
        let name = |row: usize, column: usize| {
            let (node, group) = (self.names.node(nodes[row]), &blocks[column].name);
            if sends {
                format!("{node} → {group}")
            } else {
                format!("{group} → {node}")
            }
        };
        let cells = self.merged(place, name);
        matrix(
            title,
            &self.labels(nodes),
            &self.block_labels(blocks),
            &cells,
        )
    }

    fn block_labels(&self, blocks: &[Block]) -> Vec<MatrixLabel> {
        let label = |block: &Block| MatrixLabel {
            name: block.name.clone(),
            is_suspect: self.is_suspect_block(block),
            begins_group: false,
        };
        blocks.iter().map(label).collect()
    }

    /// Cells that stand for several directions each: their median, and a mark if one is far below.
    fn merged(
        &self,
        place: impl Fn(&MeshCell) -> Option<(usize, usize)>,
        name: impl Fn(usize, usize) -> String,
    ) -> Vec<MatrixCell> {
        let mut merged: BTreeMap<(usize, usize), Vec<&MeshCell>> = BTreeMap::new();
        for cell in self.cells {
            if let Some(place) = place(cell) {
                merged.entry(place).or_default().push(cell);
            }
        }
        let cell = |((row, column), cells): ((usize, usize), Vec<&MeshCell>)| {
            let share = median_rate(cells.iter().copied()).map(|rate| self.share(rate));
            let lowest = cells.iter().filter_map(|cell| cell.gb_per_s);
            let lowest = lowest.reduce(f64::min).map(|rate| self.share(rate));
            let failed = cells.iter().filter(|cell| cell.gb_per_s.is_none()).count();
            let percent = |share: Option<f64>| {
                share.map_or("no rate".to_owned(), |share| {
                    format!("{:.0} %", share * 100.0)
                })
            };
            MatrixCell {
                row,
                column,
                share,
                is_marked: failed > 0 || lowest.is_some_and(|lowest| lowest < MARKED),
                about: format!(
                    "{}: median {}, lowest {}, {} directions, {failed} failed",
                    name(row, column),
                    percent(share),
                    percent(lowest),
                    cells.len()
                ),
            }
        };
        merged.into_iter().map(cell).collect()
    }

    /// The blocks to show node by node: those that findings name, then those of the slowest and
    /// failed directions.
    fn interesting(&self, blocks: &[Block]) -> Vec<usize> {
        let of = block_of(blocks);
        let suspects = (0..blocks.len()).filter(|at| self.is_suspect_block(&blocks[*at]));
        let mut interesting: Vec<usize> = suspects.collect();
        let mut worst: Vec<&&MeshCell> = self.cells.iter().collect();
        let share = |cell: &MeshCell| cell.gb_per_s.map_or(0.0, |rate| self.share(rate));
        worst.retain(|cell| share(cell) < MARKED);
        worst.sort_by(|one, other| share(one).total_cmp(&share(other)));
        for cell in worst {
            for node in [cell.from, cell.to] {
                interesting.extend(of.get(&node).filter(|at| !interesting.contains(at)));
            }
            if interesting.len() >= ZOOMED_MAX {
                break;
            }
        }
        interesting.truncate(ZOOMED_MAX);
        interesting
    }
}

fn block_of(blocks: &[Block]) -> BTreeMap<NodeId, usize> {
    let blocks = blocks.iter().enumerate();
    blocks
        .flat_map(|(at, block)| block.nodes.iter().map(move |node| (*node, at)))
        .collect()
}

fn absent(page: &mut Page, mesh: &StoryMesh, names: &Names) {
    for (node, reason) in &mesh.absent {
        page.tag("p", &format!("Missing: {}: {reason}", names.node(*node)));
    }
    for difference in &mesh.differences {
        page.tag("p", &format!("Differs: {difference}."));
    }
    for line in &mesh.launcher_said {
        page.tag("p", &format!("Launcher: {line}"));
    }
    let (rounds, pairs) = mesh.left_out;
    if rounds > 0 {
        page.tag(
            "p",
            &format!(
                "Left out: {} with {}, because the budget was used up or the run interrupted.",
                counted(rounds, "round"),
                counted(pairs, "pair")
            ),
        );
    }
}
