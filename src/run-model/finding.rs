//! What a rule says of a run.
#![forbid(unsafe_code)]

use crate::ids::{Names, NodeId, PairId, Unit, WorkerId};
use serde::{Deserialize, Serialize};
use tcpx_words::word_set;

word_set! {
    /// How bad it is. The worst comes first.
    pub enum Severity {
        /// It is why the run ended as it did, or stands still.
        Error = "error",
        /// It will hurt, or has.
        Warning = "warning",
        /// Worth knowing, or a consequence of something worse.
        Info = "info",
    }
}

/// Where something is: ids to compare, a name to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The node.
    pub node: NodeId,
    /// The pair whose worker it is, if it is one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairId>,
    /// The process, where no run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// `peer`, `peer gpu 3`, `pid 4242`.
    pub name: String,
}

impl Subject {
    /// One worker.
    pub fn worker(worker: WorkerId, names: &Names) -> Self {
        let (pair, pid) = match worker.unit {
            Unit::Pair(pair) => (Some(pair), None),
            Unit::Process { pid, .. } => (None, Some(pid)),
        };
        Self {
            node: worker.node,
            pair,
            pid,
            name: names.worker(worker),
        }
    }

    /// A node as a whole.
    pub fn node(node: NodeId, names: &Names) -> Self {
        Self {
            node,
            pair: None,
            pid: None,
            name: names.node(node),
        }
    }
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name.
    pub condition: String,
    /// How bad it is.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// Where it is; none where it is of the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Index of the channel within its direction, or none.
    pub channel: Option<usize>,
    /// The deciding facts.
    pub because: Vec<String>,
    /// What would be needed to be sure.
    pub cannot_see: Vec<String>,
    /// What to do.
    pub next_step: Option<String>,
    /// Where to read on.
    pub reference: Option<String>,
}

impl Finding {
    /// The name of where it is, if it is somewhere.
    pub fn place(&self) -> Option<&str> {
        self.subject.as_ref().map(|subject| subject.name.as_str())
    }

    /// The same with every text fit for a terminal.
    pub fn printable(mut self) -> Self {
        let clean = |text: &mut String| *text = tcpx_words::units::printable(text);
        clean(&mut self.condition);
        if let Some(subject) = &mut self.subject {
            clean(&mut subject.name);
        }
        self.because.iter_mut().for_each(clean);
        self.cannot_see.iter_mut().for_each(clean);
        self.next_step.iter_mut().for_each(clean);
        self.reference.iter_mut().for_each(clean);
        self
    }
}
