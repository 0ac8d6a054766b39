//! Which nodes share a part of the network: a rack, a block, a host of virtual machines.
//!
//! ```text
//! # node or range of nodes, and its group
//! a3-[0-15]   rack1
//! a3-16       rack2   # a comment
//! ```
#![forbid(unsafe_code)]

use crate::node_list::{self, BadList};
use std::collections::BTreeMap;
use tcpx_words::error::NextStep;

/// The group of each node of a run. The default has no groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Groups {
    names: Vec<String>,
    /// By node; shorter than the list of nodes if the last ones are in no group.
    of_node: Vec<Option<usize>>,
}

impl Groups {
    /// The groups of `nodes`, named by `group_of`.
    pub fn of<Name: AsRef<str>>(
        nodes: &[Name],
        mut group_of: impl FnMut(&str) -> Option<String>,
    ) -> Self {
        let named: Vec<Option<String>> = nodes.iter().map(|node| group_of(node.as_ref())).collect();
        let mut names: Vec<String> = named.iter().flatten().cloned().collect();
        names.sort();
        names.dedup();
        let index = |name: &String| names.binary_search(name).ok();
        let of_node = named.iter().map(|name| name.as_ref().and_then(index));
        Self {
            of_node: of_node.collect(),
            names,
        }
    }

    /// The groups of nodes whose groups are known one by one.
    pub fn by_node(groups: &[Option<String>]) -> Self {
        let mut of_node = groups.iter();
        Self::of(&vec![""; groups.len()], |_| of_node.next()?.clone())
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name of a group.
    pub fn name(&self, group: usize) -> &str {
        self.names.get(group).map_or("?", String::as_str)
    }

    /// The group of a node, if it is in one.
    pub fn of_node(&self, node: usize) -> Option<usize> {
        self.of_node.get(node).copied().flatten()
    }
}

/// Why a topology file cannot be used. Every variant names the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTopology {
    /// A line that is not two words.
    #[error("line {line}: {text:?} is not a node and its group")]
    Words {
        /// Counted from 1.
        line: usize,
        /// The line without its comment.
        text: String,
    },
    /// A node that cannot be a name or a range of names.
    #[error("line {line}: {source}")]
    Node {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: BadList,
    },
    /// A node that an earlier line has.
    #[error("line {line}: {node} is in line {first} already")]
    Twice {
        /// Counted from 1.
        line: usize,
        /// The earlier line.
        first: usize,
        /// The node's name.
        node: String,
    },
}

impl NextStep for BadTopology {
    fn next_step(&self) -> Option<String> {
        match self {
            Self::Words { .. } => {
                Some("write one node and one group per line, as in `a3-7 rack1`".to_owned())
            }
            Self::Node { source, .. } => source.next_step(),
            Self::Twice { .. } => Some("keep one of the two lines".to_owned()),
        }
    }
}

/// Reads a topology file: the group of each node by the node's name.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, BadTopology> {
    let mut groups: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        let mut words = text.split_whitespace();
        let (node, group) = match (words.next(), words.next(), words.next()) {
            (None, ..) => continue,
            (Some(node), Some(group), None) => (node, group),
            _ => {
                let text = text.to_owned();
                return Err(BadTopology::Words { line, text });
            }
        };
        let nodes = node_list::parse(node).map_err(|source| BadTopology::Node { line, source })?;
        for node in nodes {
            if let Some((first, _)) = groups.get(&node) {
                let first = *first;
                return Err(BadTopology::Twice { line, first, node });
            }
            groups.insert(node, (line, group.to_owned()));
        }
    }
    let groups = groups.into_iter().map(|(node, (_, group))| (node, group));
    Ok(groups.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(groups) => {
                let groups = groups.iter().map(|(node, group)| format!("{node}={group}"));
                groups.collect::<Vec<String>>().join(" ")
            }
            Err(bad) => bad.to_string(),
        }
    }

    #[test]
    fn a_topology_file_is_read_or_refused_with_its_line() {
        let check = |text: &str, says: &str| assert_eq!(shown(text), says, "{text:?}");
        check("", "");
        check(
            "\u{feff}# racks\r\n\r\na3-0 rack1\r\na3-1\track2 # moved\r\n",
            "a3-0=rack1 a3-1=rack2",
        );
        check("a3-[0-2] r", "a3-0=r a3-1=r a3-2=r");
        check("a r\na s\n", "line 2: a is in line 1 already");
        check("\na-[0-3] r\n\na-3 r\n", "line 4: a-3 is in line 2 already");
        check("a\n", "line 1: \"a\" is not a node and its group");
        check(
            "a r s # x\n",
            "line 1: \"a r s\" is not a node and its group",
        );
        check(
            "a r\nb[ r\n",
            "line 2: the brackets of \"b[\" are not in pairs",
        );
    }

    #[test]
    fn nodes_are_numbered_by_the_names_of_their_groups() {
        let file = parse("n0 rack2\nn2 rack1\nn9 rack9\n").unwrap();
        let groups = Groups::of(&["n0", "n1", "n2"], |node| file.get(node).cloned());
        assert_eq!(groups.count(), 2);
        let named = (0..4).map(|node| groups.of_node(node).map(|group| groups.name(group)));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [Some("rack2"), None, Some("rack1"), None]
        );
        assert_eq!(Groups::default().of_node(0), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in prop_oneof!["(?s).{0,80}", "[ab0-9 #\r\n,\\[\\]-]{0,60}"]) {
            let _ = parse(&text);
        }
    }
}
