//! Rates of runs and of other tools' results as a page: a matrix per tool, scenario and rail.
//!
//! Rates of different tools are not compared: each counts other bytes. Of a direction that was
//! measured several times, the cell is the median.
#![forbid(unsafe_code)]

use super::mesh;
use crate::history::{RateMesh, RateRow};
use crate::page::{END, HtmlRow, Page, top};
use crate::story::StoryMesh;
use std::collections::BTreeMap;
use tcpx_run_model::ids::{Names, NodeId, NodeIntro};
use tcpx_run_model::record::{MeshCell, median_rate};

/// The rows as a page.
pub fn rates_page(rows: &[RateRow]) -> String {
    let mut page = Page::default();
    page.raw(&top("rates"));
    page.tag("h1", "Rates between nodes");
    let mut parts: BTreeMap<(&str, &str), Vec<&RateRow>> = BTreeMap::new();
    for row in rows {
        let part = parts.entry((&row.tool, &row.scenario));
        part.or_default().push(row);
    }
    for (number, ((tool, scenario), rows)) in parts.into_iter().enumerate() {
        let title = match tool == scenario {
            true => tool.to_owned(),
            false => format!("{tool}: {scenario}"),
        };
        page.section(&format!("part-{number}"), &title);
        part(&mut page, &rows);
    }
    page.raw("<footer>\n");
    page.tag(
        "p",
        "NOT redacted: contains real names and addresses. 1 GB is 10^9 bytes.",
    );
    page.raw(&format!("</footer>\n{END}"));
    page.text
}

/// The rows of one tool and scenario.
fn part(page: &mut Page, rows: &[&RateRow]) {
    let of_pairs = RateMesh::of(rows.iter().copied());
    if !of_pairs.nodes.is_empty() {
        let found = of_pairs.attribution().unwrap_or_default();
        let RateMesh {
            nodes,
            rails,
            cells: [first, again],
        } = of_pairs;
        let shown = StoryMesh {
            rails,
            cells: medians(&first),
            retested: again,
            scatter: found.scatter,
            findings: found.findings.into_iter().map(Into::into).collect(),
            cleared: found.cleared.into_iter().map(|one| one.words).collect(),
            slowest: found.slowest,
            nodes_at_fault: found.nodes_at_fault,
            ..StoryMesh::default()
        };
        let node = |name: String| NodeIntro {
            address: name.clone(),
            name,
        };
        let names = Names {
            nodes: nodes.into_iter().map(node).collect(),
            pairs: Vec::new(),
        };
        mesh::body(page, &shown, &names, &[]);
    }
    let whole = rows.iter().filter(|row| row.to.is_empty());
    let whole: Vec<HtmlRow> = whole
        .map(|row| {
            let rate = row.gb_per_s.map(|rate| format!("{rate:.3}"));
            let rate = rate.unwrap_or_else(|| "-".to_owned());
            [row.started.clone(), row.from.clone(), rate].into()
        })
        .collect();
    if !whole.is_empty() {
        page.table("", &["started", "nodes", "#GB/s"], &whole);
    }
}

/// One cell for each direction and rail.
fn medians(cells: &[MeshCell]) -> Vec<MeshCell> {
    let mut of_way: BTreeMap<(NodeId, NodeId, u32), Vec<&MeshCell>> = BTreeMap::new();
    for cell in cells {
        let way = of_way.entry((cell.from, cell.to, cell.rail));
        way.or_default().push(cell);
    }
    let middle = |((from, to, rail), cells): (_, Vec<&MeshCell>)| MeshCell {
        from,
        to,
        rail,
        gb_per_s: median_rate(cells),
        segments: None,
    };
    of_way.into_iter().map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: &str, from: &str, to: &str, rate: f64) -> RateRow {
        RateRow {
            tool: tool.to_owned(),
            scenario: tool.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            rail: "all".to_owned(),
            gb_per_s: Some(rate),
            ..RateRow::default()
        }
    }

    #[test]
    fn each_tool_has_a_matrix_of_its_own_and_nodes_without_a_partner_a_table() {
        let nodes = ["a3-0", "a3-1", "a3-2", "a3-<3>"];
        let ways = nodes.iter().flat_map(|from| nodes.map(|to| (*from, to)));
        let ways = ways.filter(|(from, to)| from != to);
        let share = |name: &str| -> f64 { if name == "a3-2" { 0.5 } else { 1.0 } };
        let mut rows: Vec<RateRow> = ways
            .map(|(from, to)| row("nccl-tests", from, to, 80.0 * share(from).min(share(to))))
            .collect();
        // Measured twice more: the median counts.
        rows.push(row("nccl-tests", "a3-0", "a3-1", 8.0));
        rows.push(row("nccl-tests", "a3-0", "a3-1", 80.0));
        rows.push(row("nixlbench", "a3-0", "a3-1", 5.0));
        rows.push(row("cluster-health-scanner", "a3-1", "", 62.5));
        let page = rates_page(&rows);
        assert_eq!(page.matches("<svg").count(), 2, "{page}");
        assert!(
            page.contains("node a3-2 runs at 50 % of the others"),
            "{page}"
        );
        assert!(page.contains("a3-&lt;3&gt;") && !page.contains("a3-<3>"));
        assert!(page.contains("62.500"));
        let again: Vec<f64> = [8.0, 80.0, 80.0].to_vec();
        let cells: Vec<MeshCell> = again
            .into_iter()
            .map(|rate| MeshCell {
                from: NodeId(0),
                to: NodeId(1),
                rail: 0,
                gb_per_s: Some(rate),
                segments: None,
            })
            .collect();
        let [one] = &medians(&cells)[..] else {
            panic!("one direction")
        };
        assert_eq!(one.gb_per_s, Some(80.0));
    }
}
