//! Checks this node without loading a plugin: `doctor` on another node, and the critical checks
//! before a run.
//!
//! Runs in the worker, because only the worker has the environment that the plugin will see.
#![forbid(unsafe_code)]

use super::{Context, TaskResult};
use crate::protocol::message::{Examine, Examined, PairTask, WorkerMessage};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use tcpx_node::Root;
use tcpx_node::doctor::probe::{rails, try_offer};
use tcpx_node::doctor::{
    Catalogue, CheckRow, CheckVerdict, Depth, DoctorFacts, Scope, Subject, examine, rail_names,
};
use tcpx_node::plugin_files::{PluginSource, inspect};
use tcpx_run_model::results::Preflight;
use tcpx_words::error::Outcome;
use tcpx_words::plugin_family::PluginFamily;

/// Reads all facts, tries the offered rails, and sends the result.
pub(super) fn run(context: &Context, task: &Examine) {
    let facts = read(Depth::All, task.plugin.as_deref());
    let subject = Subject {
        tcpx: task.tcpx,
        chunk: None,
    };
    let tried = task
        .offer
        .as_ref()
        .map(|offer| try_offer(offer, &rails(&facts.node, &rail_names(&facts, subject))));
    context.tell(&WorkerMessage::Examined(Box::new(Examined {
        facts,
        tried,
    })));
}

/// Makes the critical checks: a few milliseconds that avoid a stall with a known cause. With TCPX,
/// a failed check ends the run, because no data would move. Other plugins do not need what is
/// checked, and continue. A check that cannot be made does not end the run.
pub(super) fn preflight(context: &Context, task: &PairTask) -> TaskResult<()> {
    let (true, Ok(catalogue)) = (task.preflight, Catalogue::critical()) else {
        return Ok(());
    };
    let started = Instant::now();
    let subject = Subject {
        tcpx: task.plugin.expected_family() == PluginFamily::Tcpx,
        chunk: Some(task.scenario.transfer.chunk.0),
    };
    let plugin = match &task.plugin.source {
        PluginSource::File(path) => Some(path.as_path()),
        PluginSource::Builtin => None,
    };
    let found = examine(&catalogue, &read(Depth::Critical, plugin), subject);
    let such = |verdict: CheckVerdict| found.rows.iter().filter(move |row| row.verdict == verdict);
    let ids = |verdict: CheckVerdict| such(verdict).map(|row| row.id.clone()).collect();
    context.tell(&WorkerMessage::Preflight(Preflight {
        passed: found.count(CheckVerdict::Pass),
        failed: ids(CheckVerdict::Fail),
        open: ids(CheckVerdict::Unknown),
        ms: started.elapsed().as_secs_f64() * 1e3,
    }));
    let failed: Vec<&CheckRow> = such(CheckVerdict::Fail).collect();
    match failed.as_slice() {
        // A file that is not a plugin is reported better when it is loaded.
        [first, rest @ ..] if subject.tcpx && plugin.is_none_or(|path| inspect(path).is_ok()) => {
            let more: Vec<&str> = rest.iter().map(|row| row.id.as_str()).collect();
            let more = if more.is_empty() {
                String::new()
            } else {
                format!("; also {}", more.join(", "))
            };
            let why = format!(
                "this node cannot run TCPX: {} is {} ({}){more}",
                first.id, first.value, first.why
            );
            let step = first.next_step.as_deref().unwrap_or_default();
            let step = format!(
                "{step}; `tcpxctl doctor` on that node shows all checks, --no-preflight skips them"
            );
            Err(context.failure(Outcome::NotRun, why, Some(step)))
        }
        _ => Ok(()),
    }
}

fn read(depth: Depth, plugin: Option<&Path>) -> DoctorFacts {
    // An empty map adds nothing: the checks use the environment of this process.
    DoctorFacts::read(
        &Root::live(),
        Scope {
            environment: &BTreeMap::new(),
            depth,
            plugin,
        },
    )
}
