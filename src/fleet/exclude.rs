//! Nodes to leave out, as a scheduler takes them.
#![forbid(unsafe_code)]

use crate::node_list;
use tcpx_words::word_set;

word_set! {
    /// How nodes to leave out are printed.
    pub enum ExcludeFormat {
        /// One folded list, for `--exclude` and `scontrol update nodename=`.
        Slurm = "slurm",
        /// One `kubectl cordon` per node.
        Kubectl = "kubectl",
        /// One name per line, as in a list of hosts.
        Hosts = "hosts",
    }
}

impl ExcludeFormat {
    /// The lines for these nodes, each ended; nothing for no node.
    pub fn render<Name: AsRef<str>>(self, nodes: &[Name]) -> String {
        let line = |start: &str, name: &str| format!("{start}{name}\n");
        let lines = |start: &str| {
            nodes
                .iter()
                .map(|name| line(start, name.as_ref()))
                .collect()
        };
        match self {
            Self::Slurm if nodes.is_empty() => String::new(),
            Self::Slurm => line("", &node_list::fold(nodes)),
            Self::Kubectl => lines("kubectl cordon "),
            Self::Hosts => lines(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_printed_for_each_scheduler() {
        let nodes = ["a3-7", "a3-0", "a3-1"];
        assert_eq!(ExcludeFormat::Slurm.render(&nodes), "a3-[0-1,7]\n");
        assert_eq!(
            ExcludeFormat::Kubectl.render(&nodes),
            "kubectl cordon a3-7\nkubectl cordon a3-0\nkubectl cordon a3-1\n"
        );
        assert_eq!(ExcludeFormat::Hosts.render(&nodes), "a3-7\na3-0\na3-1\n");
    }

    #[test]
    fn without_nodes_nothing_is_printed() {
        for format in ExcludeFormat::ALL {
            assert_eq!(format.render::<&str>(&[]), "", "{format}");
        }
    }
}
