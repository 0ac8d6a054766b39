//! Three nodes in three pairs, through the coordinator, the record, the view, the rules and the
//! report. Each node is a separate agent on this machine.

use crate::tcpxctl::{SMALL, Tool};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tcpx_coord::reach::Transport;
use tcpx_coord::reach::install::Boot;
use tcpx_coord::reach::rsh::Rsh;
use tcpx_coord::{OnFailure, Retest, RunOutcome, RunRequest, Work, conclude, run};
use tcpx_run_model::event::EventKind;
use tcpx_run_model::finding::Severity;
use tcpx_run_model::ids::{Lane, NodeId};
use tcpx_run_model::record::{MeshCell, RunFiles, RunFolder, RunRecord};
use tcpx_run_model::scenario::{Fault, Mesh, Scenario, Sides};
use tcpx_words::error::Outcome;
use tcpx_words::progress::DriverFault;
use tcpx_words::units::TimeSpan;

const NODES: [&str; 3] = ["a3-0", "a3-1", "a3-2"];

/// Runs the scenario between three nodes, every two of them at the same time, and writes a run
/// folder as `tcpxctl run` does.
fn triangle(tool: &Tool, scenario: &Scenario) -> (RunOutcome, RunRecord) {
    let together = [vec![[0, 1], [1, 2], [2, 0]]];
    in_rounds(tool, scenario, &together, OnFailure::StopAll, None)
}

fn in_rounds(
    tool: &Tool,
    scenario: &Scenario,
    rounds: &[Vec<[usize; 2]>],
    on_failure: OnFailure,
    retest: Option<&Retest<'_>>,
) -> (RunOutcome, RunRecord) {
    let program = Boot::at_path(env!("CARGO_BIN_EXE_tcpxctl"));
    // A shell that ignores the node's name and runs the agent's command line on this machine.
    let transport = |node: &&str| -> Box<dyn Transport> {
        Box::new(
            Rsh::new(
                node,
                "sh -c 'shift 2; exec \"$@\"' sh {} --",
                program.clone(),
            )
            .expect("a command"),
        )
    };
    let transports: Vec<Box<dyn Transport>> = NODES.iter().map(transport).collect();
    let mut folder = RunFolder::create(
        &tool.folder().join("reports"),
        "20261122T100000Z",
        "triangle",
    )
    .expect("a folder");
    folder.scenario(&toml::to_string_pretty(scenario).expect("TOML"));
    let id = folder.id.clone();
    let interrupted = Arc::new(AtomicBool::new(false));
    let request = RunRequest {
        scenario,
        work: Work::Transfer,
        run_id: &id,
        interrupted: &interrupted,
        transports: &transports,
        rounds,
        on_failure,
        missing_max: 0,
        retest,
        topology: &BTreeMap::new(),
        bootstrap_port: 0,
        preflight: false,
        focused: None,
    };
    let outcome = run(
        &request,
        &mut |event, state| match (&event.kind, event.worker()) {
            (EventKind::RecorderPiece { offset, bytes }, Some(worker)) => {
                folder.recording(worker, &state.names, *offset, bytes);
            }
            (EventKind::Frame(frame), Some(worker)) => folder.frame(worker, &state.names, frame),
            _ if event.is_written() => folder.event(event),
            _ => {}
        },
    );
    let mut record = conclude(&id, "2026-11-22T10:00:00Z", scenario, &outcome);
    folder.finish(&mut record).expect("a record");
    (outcome, record)
}

fn small() -> Scenario {
    toml::from_str(SMALL).expect("a scenario")
}

/// The output of `tcpxctl ARGUMENTS reports/...` for the run.
fn said(tool: &Tool, arguments: &[&str]) -> String {
    let run = tool.folder().join("reports/20261122T100000Z-triangle");
    Tool::new(arguments)
        .arg(run.to_str().expect("a path"))
        .ended()
        .out
}

#[test]
fn three_nodes_move_verified_bytes_in_three_pairs_and_are_named() {
    let tool = Tool::new(&["--version"]);
    let (outcome, record) = triangle(&tool, &small());
    assert_eq!(record.outcome, Outcome::Passed, "{:?}", record.reason);
    assert_eq!(
        (
            record.nodes.len(),
            record.pairs.len(),
            record.transfers.len()
        ),
        (3, 3, 3)
    );
    assert!(
        record
            .transfers
            .iter()
            .all(|one| one.verified_bytes > 0 && one.wrong_bytes == 0 && one.lane == Lane::Host)
    );
    let directions: Vec<String> = record
        .transfers
        .iter()
        .map(|one| record.direction(one))
        .collect();
    assert_eq!(directions, ["a3-0->a3-1", "a3-1->a3-2", "a3-2->a3-0"]);
    assert_eq!(outcome.state.workers.len(), 6);

    // The record that is read back is equal to the run.
    let files =
        RunFiles::open(&tool.folder().join("reports/20261122T100000Z-triangle")).expect("files");
    let state = files.replay().expect("events").state;
    assert_eq!(state.names, record.names());
    assert_eq!(
        state.workers.keys().collect::<Vec<_>>(),
        outcome.state.workers.keys().collect::<Vec<_>>()
    );
    assert!(
        state
            .workers
            .values()
            .all(|worker| worker.is_finished() && worker.transfer.is_some())
    );
    let findings =
        tcpx_diagnose::diagnose(&tcpx_diagnose::evidence_from_files(&files).expect("evidence"));
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Info),
        "{findings:#?}"
    );

    // Every output names the three nodes.
    let report = said(
        &tool,
        &[
            "report",
            "--no-redact",
            "--format",
            "markdown",
            "--out",
            "-",
        ],
    );
    let view = said(&tool, &["watch", "--once", "--size", "160x50"]);
    for text in [&report, &view] {
        for node in NODES {
            assert!(text.contains(node), "{node} in\n{text}");
        }
        assert!(!text.contains("local") && !text.contains("peer "), "{text}");
    }
}

#[test]
fn the_pair_that_stalls_is_named_and_the_others_end_with_it() {
    let tool = Tool::new(&["--version"]);
    let mut stall = small();
    stall.limits.stall_after = TimeSpan::from_secs(1);
    stall.limits.give_up_after = TimeSpan::from_secs(1);
    // More chunks than the window of the channel that never consumes.
    stall.transfer.total.0 = 8 << 20;
    let (side, kind) = (Sides::Recv, DriverFault::NeverConsumed);
    stall.fault = Some(Fault::Driver {
        side,
        kind,
        channel: 1,
        after_chunk: 4,
    });
    let (outcome, record) = triangle(&tool, &stall);
    assert_eq!(record.outcome, Outcome::Stalled, "{:?}", record.reason);
    let decisive = outcome.decisive();
    let reason = record.reason.clone().unwrap_or_default();
    let named = decisive
        .nodes
        .map(|node: NodeId| record.nodes[node.index()].name.clone());
    assert!(
        named.iter().any(|name| reason.contains(name)),
        "{reason} of {named:?}"
    );
    let history = said(
        &tool,
        &["report", "--no-redact", "--format", "csv", "--out", "-"],
    );
    assert!(NODES.iter().all(|node| history.contains(node)), "{history}");
    let files =
        RunFiles::open(&tool.folder().join("reports/20261122T100000Z-triangle")).expect("files");
    let findings =
        tcpx_diagnose::diagnose(&tcpx_diagnose::evidence_from_files(&files).expect("evidence"));
    let first = &findings[0];
    assert_eq!(first.condition, "window-never-consumed", "{findings:#?}");
    let subject = first.subject.as_ref().expect("a worker");
    assert!(
        subject.name.contains(" with ") && subject.pair.is_some(),
        "{subject:?}"
    );
}

#[test]
fn rounds_run_one_after_the_other_and_suspects_once_more() {
    let tool = Tool::new(&["--version"]);
    let rounds = [vec![[0, 1]], vec![[1, 2]], vec![[2, 0]]];
    let again = |rates: &[MeshCell], _: &[Option<String>]| {
        assert_eq!(rates.len(), 3);
        assert!(rates.iter().all(|one| one.gb_per_s.is_some()), "{rates:?}");
        vec![vec![[1, 2]]]
    };
    let scenario = Scenario {
        mesh: Some(Mesh::default()),
        ..small()
    };
    let (outcome, record) = in_rounds(&tool, &scenario, &rounds, OnFailure::GoOn, Some(&again));
    assert_eq!(record.outcome, Outcome::Passed, "{:?}", record.reason);
    assert_eq!(outcome.state.names, record.names());
    let [rates, retests] = record.rates();
    assert_eq!((rates.len(), retests.len()), (3, 1));
    assert_eq!((retests[0].from, retests[0].to), (NodeId(1), NodeId(2)));
    let measured: Vec<(f64, f64)> = record
        .transfers
        .iter()
        .map(|one| one.measured_ms.expect("a measured interval"))
        .collect();
    assert_eq!(measured.len(), 4);
    assert!(
        measured.windows(2).all(|two| two[0].1 < two[1].0),
        "{measured:?}"
    );
}
