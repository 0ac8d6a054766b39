//! What version 1 wrote is read: a run folder and a bundle of one, made by the last
//! program that wrote it. Two GPU pairs between invented hosts; one channel of each
//! stands still.

use super::{RunFiles, RunRecord, WorkerFile};
use crate::ids::{Lane, NodeId, PairId, WorkerId};
use crate::phase::Phase;
use std::path::Path;
use tcpx_words::error::Outcome;

fn v1(name: &str) -> RunFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/fixtures/v1");
    RunFiles::open(&folder.join(name)).expect("a run")
}

const BOTH: [&str; 2] = ["20261120T101500Z-two-gpus", "two-gpus.tar.gz"];

#[test]
fn a_record_of_version_1_has_nodes_pairs_and_what_each_worker_was_given() {
    for name in BOTH {
        let record = v1(name).record().expect("read").expect("there");
        assert_eq!(
            (record.outcome, record.nodes.len(), record.pairs.len()),
            (Outcome::Stalled, 2, 2)
        );
        let names = record.names();
        let workers: Vec<String> = record
            .workers()
            .map(|(pair, node, _)| names.worker(WorkerId::of_pair(node, pair)))
            .collect();
        assert_eq!(
            workers,
            ["local gpu 0", "peer gpu 0", "local gpu 1", "peer gpu 1"]
        );
        let directions: Vec<String> = record
            .transfers
            .iter()
            .map(|one| record.direction(one))
            .collect();
        assert_eq!(directions, ["local->peer@gpu0", "local->peer@gpu1"]);
        assert_eq!(record.pairs[1].lanes, [Lane::Gpu(1)]);
        assert_eq!(
            record.pairs[1].workers[1].frame.as_deref(),
            Some("nodes/peer/frame-gpu1.json")
        );
        assert!(
            record.pairs[0].workers[0]
                .env
                .contains_key("TCPXSOFT_FAULT")
        );
        let places: Vec<Option<&str>> = record.findings.iter().map(|one| one.place()).collect();
        assert_eq!(places, [Some("peer gpu 1"), Some("peer gpu 0")]);
        assert_eq!(
            record.findings[0]
                .subject
                .as_ref()
                .and_then(|subject| subject.pair),
            Some(PairId(1))
        );
        // What was read is a record of this version.
        let again =
            RunRecord::parse(&serde_json::to_vec(&record).expect("JSON")).expect("read again");
        assert_eq!(again.transfers, record.transfers);
    }
}

#[test]
fn events_and_files_of_version_1_are_of_the_same_workers() {
    for name in BOTH {
        let files = v1(name);
        let replayed = files.replay().expect("read");
        assert_eq!(replayed.damaged, [] as [&str; 0]);
        let state = replayed.state;
        assert_eq!(state.workers.len(), 4);
        for (id, worker) in &state.workers {
            assert_eq!(
                (worker.phase, worker.channels.len()),
                (Some(Phase::Finished), 2),
                "{id:?}"
            );
            assert!(
                worker.plugin.is_some() && worker.at_stall.is_some() && worker.was_framed,
                "{id:?}"
            );
            assert!(
                worker.failure.is_some() && worker.exit.is_some() && !worker.lines().is_empty(),
                "{id:?}"
            );
        }
        let stall = state
            .pair(PairId(1))
            .and_then(|pair| pair.stall)
            .expect("declared");
        assert_eq!((stall.by, stall.recovered), (Some(NodeId(1)), false));
        let frames: Vec<String> = files
            .of_workers(WorkerFile::Frame, &state.names)
            .into_iter()
            .map(|(id, _)| state.name(id))
            .collect();
        assert_eq!(
            frames,
            ["local gpu 0", "local gpu 1", "peer gpu 0", "peer gpu 1"]
        );
        let mut skimmed = files.begun();
        let (thinned, unreadable) = files.skim(&mut skimmed).expect("read");
        assert_eq!((thinned.samples.len(), unreadable), (4, 0));
        for (id, worker) in &state.workers {
            assert_eq!(
                (&worker.at_stall, &worker.channels),
                (&skimmed.workers[id].at_stall, &skimmed.workers[id].channels)
            );
        }
    }
}
