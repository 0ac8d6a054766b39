//! What holds of any bytes that coordinator, agent or worker hear: a target
//! under `fuzz/` looks for a counterexample, the suite tries its seeds.
//!
//! Absent from a normal build.
#![forbid(unsafe_code)]

use crate::protocol::message::{AddressedOrder, StampedMessage, WorkerMessage, WorkerOrder};
use crate::protocol::wire::{Received, Receiver, Sender, TEXT_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tcpx_words::log::LogLine;

/// A stream of lines, heard as each of those who read one, and a log packet.
pub fn lines(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    for heard in [
        heard::<StampedMessage>,
        heard::<AddressedOrder>,
        heard::<WorkerMessage>,
        heard::<WorkerOrder>,
    ] {
        assert!(heard(data) <= lines);
    }
    if let Ok(line) = serde_json::from_slice::<LogLine>(data) {
        said_again(&line);
    }
}

/// How many lines there were.
fn heard<T: Serialize + DeserializeOwned>(data: &[u8]) -> usize {
    let mut receiver = Receiver::new(data);
    let mut lines = 0;
    while let Some(received) = receiver.next::<T>().expect("memory can be read") {
        lines += 1;
        match received {
            Received::Message(message) => said_again(&message),
            // A byte that is no text takes three.
            Received::Text(text) => {
                assert!(text.len() <= 3 * TEXT_MAX && !text.chars().any(char::is_control));
            }
        }
    }
    lines
}

/// What was heard is passed on as one line, which is heard as the same thing.
fn said_again<T: Serialize + DeserializeOwned>(message: &T) {
    let said = said(message);
    assert_eq!(said.iter().filter(|byte| **byte == b'\n').count(), 1);
    let mut receiver = Receiver::new(&said[..]);
    let Ok(Some(Received::Message(again))) = receiver.next::<T>() else {
        panic!("not heard again")
    };
    assert_eq!(self::said(&again), said);
}

fn said<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = Vec::new();
    Sender::new(&mut line)
        .send(message)
        .expect("memory can be written");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tcpx_node::plugin_files::{ChosenPlugin, PluginSource};
    use tcpx_node::{NodeFacts, Root};
    use tcpx_run_model::counters::{ChannelNow, LatencyUs};
    use tcpx_run_model::ids::Lane;
    use tcpx_run_model::phase::{Exit, Failure, Phase};
    use tcpx_run_model::results::Iteration;
    use tcpx_run_model::scenario::Scenario;
    use tcpx_words::error::Outcome;
    use tcpx_words::log::LogSummary;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        seeds::read("agent_lines", "")
            .iter()
            .for_each(|seed| lines(seed));
    }

    #[test]
    fn a_valid_seed_is_messages_to_its_last_line() {
        fn all<T: DeserializeOwned>(prefix: &str) {
            for seed in seeds::read("agent_lines", prefix) {
                let mut receiver = Receiver::new(&seed[..]);
                while let Some(received) = receiver.next::<T>().expect("memory can be read") {
                    assert!(
                        matches!(received, Received::Message(_)),
                        "{prefix}: {:.300?}",
                        received_text(&received)
                    );
                }
            }
        }
        all::<StampedMessage>("valid-from-agent");
        all::<AddressedOrder>("valid-to-agent");
        all::<WorkerMessage>("valid-from-worker");
        all::<WorkerOrder>("valid-to-worker");
    }

    fn received_text<T>(received: &Received<T>) -> &str {
        match received {
            Received::Text(text) => text,
            Received::Message(_) => "",
        }
    }

    /// After a change of the messages: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let write = |name: &str, messages: &[&dyn Fn() -> Vec<u8>]| {
            let lines: Vec<Vec<u8>> = messages.iter().map(|message| message()).collect();
            seeds::write("agent_lines", name, &lines.concat());
        };
        let empty = tempfile::tempdir().expect("a folder");
        let facts = Box::new(NodeFacts::read(
            &Root::captured(empty.path()).expect("a root"),
        ));
        let hello = AgentMessage::Hello {
            protocol: PROTOCOL,
            version: "0.1.0".to_owned(),
            build: Some("7e6a0bb0".to_owned()),
            pid: 7,
            facts,
            reached_at: None,
        };
        let failure = Failure {
            outcome: Outcome::PluginDied,
            phase: Phase::Connecting,
            message: "exit(1)".to_owned(),
            next_step: None,
            follows: false,
        };
        let latency_us = Some(LatencyUs {
            p50: 1.5,
            p99: 2.0,
            p999: 3.25,
            max: 4.0,
        });
        let now = || ChannelNow {
            side: tcpx_words::side::Side::Send,
            posted: 5,
            latency_us,
            ..ChannelNow::default()
        };
        let line = LogLine {
            level: 2,
            function: "f".to_owned(),
            line: 3,
            text: "closed".to_owned(),
            count: 1,
        };
        let exit = Exit {
            code: Some(1),
            signal: None,
            killed: false,
            phase: Phase::Measuring,
            in_call: Some("test".to_owned()),
            channels: vec![now()],
        };
        let plugin = || ChosenPlugin::new(PluginSource::Builtin, "requested", Vec::new());
        let probe = || Task::Probe { plugin: plugin() };
        let pair = PairTask {
            plugin: plugin(),
            lanes: vec![LaneTask {
                lane: Lane::Gpu(0),
                gpu: Some(0),
                nics: vec!["eth1".to_owned()],
                connections: 4,
            }],
            cpus: None,
            run_id: "20250101-4conn".to_owned(),
            scenario: Scenario::default(),
            sends: true,
            receives: false,
            node: "node0".to_owned(),
            listen: None,
            port: 0,
            secret: "00".repeat(32),
            work: Work::Handshake { repeat: 2 },
            preflight: true,
            together: true,
            workers_here: 2,
            peer_here: false,
        };
        let launch = |task| {
            CoordinatorOrder::Launch(Box::new(Launch {
                env: BTreeMap::new(),
                task,
                stall_after_ms: 3000,
                looks_per_sample: 1,
                fault: None,
                sends_every_recording: true,
            }))
        };
        let address = "10.0.1.25:4000".parse().expect("an address");
        let stamped = |message: AgentMessage| said(&(1_700_000_000_000_000_u64, 0_u32, message));
        write("valid-from-agent-hello", &[&|| stamped(hello.clone())]);
        write(
            "valid-from-agent",
            &[
                &|| stamped(AgentMessage::Heartbeat),
                &|| stamped(AgentMessage::Sample(vec![now()])),
                &|| stamped(AgentMessage::PluginLine(line.clone())),
                &|| stamped(AgentMessage::Exited(exit.clone())),
                &|| stamped(AgentMessage::Worker(WorkerMessage::Failed(failure.clone()))),
            ],
        );
        write(
            "valid-to-agent",
            &[&|| said(&(0, launch(probe()))), &|| {
                said(&(7, CoordinatorOrder::Stop { grace_ms: 500 }))
            }],
        );
        write(
            "valid-to-worker",
            &[&|| {
                said(&WorkerOrder::Start(Box::new(Task::Pair(Box::new(
                    pair.clone(),
                )))))
            }],
        );
        let iteration = Iteration {
            index: 0,
            warmup: true,
            nanoseconds: 9,
            bytes: 64,
            verified_bytes: 0,
            wrong_bytes: 0,
        };
        write(
            "valid-from-worker",
            &[
                &|| said(&WorkerMessage::Phase(Phase::Loading)),
                &|| said(&WorkerMessage::Listening(address)),
                &|| said(&WorkerMessage::Iteration(iteration)),
                &|| said(&WorkerMessage::Finished(LogSummary::default())),
            ],
        );
        seeds::write("agent_lines", "log-packet", said(&line).trim_ascii_end());
        seeds::write(
            "agent_lines",
            "banner",
            b"Welcome to \x1b[1mnode0\x1b[0m\r\n{\"heartbeat\":1}\n\"heartbeat\"\n\xff\xfe",
        );
    }

    proptest! {
        #[test]
        fn any_lines_hold(text in "(\\{\"(heartbeat|worker|phase|stop|sample|broken|exited)\":([0-9]{1,3}|\\[\\]|\"[a-z\\x1b]{0,9}\")\\}|.{0,20})(\n.{0,20}){0,4}") {
            lines(text.as_bytes());
        }
    }
}
