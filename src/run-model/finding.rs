//! Findings: what the rules conclude about a run.
#![forbid(unsafe_code)]

use crate::ids::{Names, NodeId, PairId, Unit, WorkerId};
use serde::{Deserialize, Serialize};
use tcpx_words::word_set;

word_set! {
    /// Severity of a finding, the worst first.
    pub enum Severity {
        /// The reason why the run failed or stands still.
        Error = "error",
        /// It harms the run, or will.
        Warning = "warning",
        /// Worth knowing, or a consequence of something worse.
        Info = "info",
    }
}

/// The node, worker or process that a finding is about: ids to compare, a name to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The node.
    pub node: NodeId,
    /// The worker's pair, if the subject is one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairId>,
    /// The process id, if no run started the process.
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

/// One conclusion of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable kebab-case name of the condition.
    pub condition: String,
    /// Severity in this run.
    pub severity: Severity,
    /// From 0 to 1.
    pub confidence: f64,
    /// Where the condition holds; `None` for the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Index of the channel within its direction, if it is about one channel.
    pub channel: Option<usize>,
    /// The facts that the finding rests on.
    pub because: Vec<String>,
    /// Facts that are missing to be sure.
    pub cannot_see: Vec<String>,
    /// What the user should do.
    pub next_step: Option<String>,
    /// Source or documentation to read.
    pub reference: Option<String>,
}

impl Finding {
    /// The name of the subject, if there is one.
    pub fn place(&self) -> Option<&str> {
        self.subject.as_ref().map(|subject| subject.name.as_str())
    }

    /// The same finding without control characters in its texts.
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
