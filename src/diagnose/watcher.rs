//! Findings while something goes on: told when they change.
#![forbid(unsafe_code)]

use super::collect::Collector;
use super::evidence::Evidence;
use super::rank::diagnose;
use crate::coord::event::{Event, What};
use crate::coord::message::{FromAgent, FromWorker};
use tcpx_run_model::record::live::Update;
use tcpx_run_model::record::{Finding, RunRecord};
use tcpx_run_model::scenario::Scenario;
use tcpx_words::error::Outcome;

/// Between two looks at what is told without a cause to look.
const EVERY_MS: f64 = 500.0;

const SEVERITIES: [&str; 3] = ["error", "warning", "info"];

/// Collects, and judges when there is cause to.
#[derive(Default)]
pub struct Watcher {
    collector: Collector,
    told: Vec<Finding>,
    looked_ms: f64,
}

impl Watcher {
    /// Of a run that does what `scenario` says.
    pub fn of_run(scenario: &Scenario) -> Self {
        Self { collector: Collector::of_run(scenario), ..Self::default() }
    }

    /// Passes an event of a run on, and behind it what is found where that is new.
    pub fn pass_on(&mut self, event: &Event, observe: &mut dyn FnMut(&Event)) {
        observe(event);
        if let Some(found) = self.event(event) {
            let what = What::Found(found.to_vec());
            let (at, node) = (event.at.clone(), "coordinator".to_owned());
            observe(&Event { at, ms: event.ms, node, gpu: None, node_us: None, what });
        }
    }

    /// Something happened in a run; what is found, where that is new.
    pub fn event(&mut self, event: &Event) -> Option<&[Finding]> {
        self.collector.event(event);
        let What::Said(said) = &event.what else { return None };
        let is_cause = match &**said {
            FromAgent::Stall(_) | FromAgent::Recovered | FromAgent::Frozen(_) | FromAgent::Exited(_) => true,
            FromAgent::Worker(message) => matches!(message, FromWorker::Failed(_)),
            _ => false,
        };
        if is_cause { self.look() } else { None }
    }

    /// A view was told something; what is found, where that is new.
    pub fn update(&mut self, update: &Update) -> Option<&[Finding]> {
        self.collector.update(update);
        let now_ms = self.collector.evidence().now_ms;
        if now_ms - self.looked_ms < EVERY_MS {
            return None;
        }
        self.looked_ms = now_ms;
        self.look()
    }

    /// Adds to what a view is told what is found, where that is new.
    pub fn add_to(&mut self, updates: &mut Vec<Update>) {
        let mut found = None;
        for update in updates.iter() {
            found = self.update(update).map(<[Finding]>::to_vec).or(found);
        }
        updates.extend(found.map(Update::Findings));
    }

    fn look(&mut self) -> Option<&[Finding]> {
        let found = diagnose(self.collector.evidence());
        let name = |one: &Finding| (one.condition.clone(), one.node.clone(), one.severity.clone());
        let is_new = !found.iter().map(name).eq(self.told.iter().map(name));
        self.told = found;
        is_new.then_some(&self.told)
    }

    /// What is known by now.
    pub fn evidence(&self) -> &Evidence {
        self.collector.evidence()
    }

    /// Puts what is found into the record of a run that is over.
    pub fn conclude(&mut self, run: &mut RunRecord) {
        self.collector.record(run);
        let found = diagnose(self.collector.evidence());
        if let Some((first, reason)) = found.first().zip(run.reason.as_mut())
            && run.outcome == Outcome::Stalled
            && first.severity == "error"
        {
            let node = first.node.as_deref().unwrap_or("both ends");
            let fact = first.because.first().map_or("", String::as_str);
            reason.push_str(&format!("; {} at {node}: {fact}", first.condition));
            run.next_step.clone_from(&first.next_step);
        }
        // What was warned of before the run is said once, and behind what came of it.
        let same = |one: &Finding| found.iter().any(|other| other.condition == one.condition && other.node == one.node);
        run.findings.retain(|one| !same(one));
        run.findings.splice(0..0, found);
        run.findings.sort_by_key(|one| SEVERITIES.iter().position(|name| *name == one.severity));
        for node in &mut run.nodes {
            let of_node = |name: &str| name.split(' ').next() == Some(node.name.as_str());
            let framed = self.collector.framed().filter(|name| of_node(name));
            node.frames = framed.map(frame_file).collect();
        }
    }
}

/// `nodes/peer/frame-gpu3.json` of `peer gpu 3`.
fn frame_file(node: &str) -> String {
    let (end, gpu) = node.split_once(" gpu ").map_or((node, None), |(end, gpu)| (end, gpu.parse().ok()));
    tcpx_run_model::record::frame_path(std::path::Path::new(""), end, gpu).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::record::ChannelNow;

    fn sample(at_ms: u64, quiet_ms: u64, tests: u64) -> Update {
        let one = ChannelNow { side: "recv".into(), posted: 16, quiet_ms, tests, ..ChannelNow::default() };
        Update::Sample { node: "pid 7".into(), at_ns: at_ms * 1_000_000, channels: vec![one] }
    }

    #[test]
    fn a_stall_is_told_once_and_its_end_too() {
        let mut watcher = Watcher::default();
        let mut told = Vec::new();
        for at_ms in (0..6000).step_by(100) {
            let mut updates = vec![sample(at_ms, at_ms.saturating_sub(1000), 9)];
            watcher.add_to(&mut updates);
            told.extend(updates.into_iter().skip(1));
        }
        let [Update::Findings(findings)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(findings[0].condition, "local-loop-starved");
        let mut updates = vec![sample(9000, 0, 5000)];
        watcher.add_to(&mut updates);
        assert_eq!(updates.last(), Some(&Update::Findings(Vec::new())));
    }
}
