//! Text for the values of many nodes or workers: one value where all agree, otherwise each
//! value with the names that have it.
#![forbid(unsafe_code)]

use crate::story::{Story, StoryWorker};
use std::collections::{BTreeMap, BTreeSet};
use tcpx_run_model::ids::NodeId;

/// Names that are listed; the others are counted.
const NAMES_MAX: usize = 6;
/// With more nodes than this, all of them share one column.
const COLUMNS_MAX: usize = 8;

/// The value, if all of `everyone` have the same; otherwise `names: value` for each value.
pub(super) fn together<'a, 'b>(
    values: impl IntoIterator<Item = (&'a str, &'b str)>,
    everyone: usize,
) -> String {
    let mut places: BTreeMap<&'b str, usize> = BTreeMap::new();
    let mut groups: Vec<(&'b str, Vec<&'a str>)> = Vec::new();
    for (name, value) in values {
        let place = *places.entry(value).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, names)) => names.push(name),
            None => groups.push((value, vec![name])),
        }
    }
    match groups.as_slice() {
        [] => "-".to_owned(),
        [(value, names)] if names.len() >= everyone => (*value).to_owned(),
        groups => {
            let parts: Vec<String> = groups
                .iter()
                .map(|(value, names)| format!("{}: {value}", few(names)))
                .collect();
            parts.join("; ")
        }
    }
}

/// `a, b and 30 others`.
fn few(names: &[&str]) -> String {
    match names.len() {
        count if count > NAMES_MAX => format!(
            "{} and {} others",
            names[..NAMES_MAX].join(", "),
            count - NAMES_MAX
        ),
        _ => names.join(", "),
    }
}

/// The workers of each node.
pub(super) struct ByNode<'a> {
    /// For each node, its workers with a name that is unique on the node, such as `gpu 3`.
    workers: Vec<Vec<(String, &'a StoryWorker)>>,
    story: &'a Story,
}

impl<'a> ByNode<'a> {
    pub(super) fn new(story: &'a Story) -> Self {
        let (names, mut workers) = (story.names(), vec![Vec::new(); story.nodes.len()]);
        for (id, worker) in story.workers() {
            if let Some(of_node) = workers.get_mut(id.node.index()) {
                of_node.push((names.unit(id), worker));
            }
        }
        Self { story, workers }
    }

    fn workers_of(&self, node: NodeId) -> &[(String, &'a StoryWorker)] {
        self.workers
            .get(node.index())
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// One text for a value of all workers of a node.
    pub(super) fn together(
        &self,
        node: NodeId,
        pick: impl Fn(&StoryWorker) -> Option<String>,
    ) -> String {
        let workers = self.workers_of(node);
        let values: Vec<(&str, String)> = workers
            .iter()
            .filter_map(|(unit, worker)| Some((unit.as_str(), pick(worker)?)))
            .collect();
        together(
            values.iter().map(|(unit, value)| (*unit, value.as_str())),
            workers.len(),
        )
    }

    /// The last words of a node and of its workers.
    pub(super) fn last_words(&self, node: NodeId) -> Vec<String> {
        let mut words = self
            .story
            .nodes
            .get(node.index())
            .map(|node| node.last_words.clone())
            .unwrap_or_default();
        for (unit, worker) in self.workers_of(node) {
            for line in &worker.last_words {
                words.push(match unit.is_empty() {
                    true => line.clone(),
                    false => format!("{unit}: {line}"),
                });
            }
        }
        words
    }
}

/// A table with a column for each node, or one column for all nodes if there are many.
pub(super) struct NodeTable {
    /// The first head is for the names of the rows.
    pub(crate) heads: Vec<String>,
    /// One cell for each head in each row.
    pub(crate) rows: Vec<Vec<String>>,
    names: Vec<String>,
}

impl NodeTable {
    pub(super) fn new(story: &Story, what: &str) -> Self {
        let names: Vec<String> = story.nodes.iter().map(|node| node.name.clone()).collect();
        let mut heads = vec![what.to_owned()];
        match names.len() > COLUMNS_MAX {
            true => heads.push(format!("{} nodes", names.len())),
            false => heads.extend(names.iter().cloned()),
        }
        Self {
            heads,
            rows: Vec::new(),
            names,
        }
    }

    /// Adds a row with one value for each node.
    pub(super) fn row<'a>(&mut self, what: &str, values: impl Iterator<Item = &'a str>) {
        let mut row = vec![what.to_owned()];
        if self.names.len() > COLUMNS_MAX {
            row.push(together(
                self.names.iter().map(String::as_str).zip(values),
                self.names.len(),
            ));
        } else {
            row.extend(values.map(str::to_owned));
        }
        self.rows.push(row);
    }
}

/// The name of every fact of a node or worker, once each, in the order of first use.
pub(super) fn fact_names(story: &Story) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let of_nodes = story.nodes.iter().flat_map(|node| &node.facts);
    let all = of_nodes.chain(story.workers().flat_map(|(_, worker)| &worker.facts));
    all.map(|fact| fact.0.as_str())
        .filter(|name| seen.insert(*name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_value_is_shown_once_and_others_with_their_names() {
        let check = |values: &[(&str, &str)], everyone: usize, expected: &str| {
            assert_eq!(together(values.iter().copied(), everyone), expected);
        };
        check(&[], 2, "-");
        check(&[("local", "1"), ("peer", "1")], 2, "1");
        check(&[("local", "1")], 2, "local: 1");
        check(&[("local", "1"), ("peer", "2")], 2, "local: 1; peer: 2");
        check(&[("a", "1"), ("b", "2"), ("c", "1")], 3, "a, c: 1; b: 2");
        let names: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        check(&many, 10, "n0, n1, n2, n3, n4, n5 and 3 others: 1");
    }
}
