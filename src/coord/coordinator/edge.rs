//! Converts messages of agents and workers to events of the run model.
#![forbid(unsafe_code)]

use crate::protocol::message::{AgentMessage, Loaded, WorkerMessage};
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use tcpx_run_model::event::{Event, EventKind, PluginDevice, PluginReady};
use tcpx_run_model::ids::NodeId;
use tcpx_run_model::results::PluginRecord;
use tcpx_words::units::printable;

/// Most channels of one sample of another node.
const CHANNELS_MAX: usize = 65_536;

/// Converts a message to an event; `None` for messages that only the protocol needs.
pub(super) fn event_of(message: AgentMessage) -> Option<EventKind> {
    Some(match message {
        AgentMessage::Worker(message) => return event_of_worker(message),
        AgentMessage::Sample(channels) => EventKind::Sample(channels),
        AgentMessage::Stall(channels) => EventKind::Stall(channels),
        AgentMessage::Recovered => EventKind::Recovered,
        AgentMessage::Frozen(frame) => EventKind::Frame(frame),
        AgentMessage::PluginLine(line) => EventKind::PluginLine(line),
        AgentMessage::Output { stream, text } => EventKind::Output { stream, text },
        // Ignore chunks that are not valid base64.
        AgentMessage::Recording { offset, base64 } => EventKind::RecorderPiece {
            offset,
            bytes: BASE64.decode(base64).ok()?,
        },
        AgentMessage::Exited(exit) => EventKind::Exited(exit),
        AgentMessage::Broken(why) => EventKind::AgentBroken(why),
        AgentMessage::Hello { .. }
        | AgentMessage::Chosen(_)
        | AgentMessage::Calls { .. }
        | AgentMessage::Echo { .. }
        | AgentMessage::Found(_)
        | AgentMessage::Watched(_)
        | AgentMessage::Leaving(_)
        | AgentMessage::NoCpu { .. }
        | AgentMessage::Heartbeat => return None,
    })
}

fn event_of_worker(message: WorkerMessage) -> Option<EventKind> {
    Some(match message {
        WorkerMessage::Phase(phase) => EventKind::Phase(phase),
        WorkerMessage::Recorder(path) => EventKind::Recorder(path),
        WorkerMessage::Loaded(loaded) => EventKind::Plugin(Box::new(plugin_ready(&loaded))),
        WorkerMessage::Preflight(found) => EventKind::Preflight(found),
        WorkerMessage::Iteration(iteration) => EventKind::Iteration(iteration),
        WorkerMessage::Handshake(times) => EventKind::Handshake(times),
        WorkerMessage::Held { before, after } => EventKind::Held { before, after },
        WorkerMessage::Mr(rows) => EventKind::Registrations(rows),
        WorkerMessage::Transfer(result) => EventKind::Transfer(result),
        WorkerMessage::Failed(failure) => EventKind::Failed(failure),
        WorkerMessage::Finished(log) => EventKind::Finished(log),
        WorkerMessage::Listening(address) => EventKind::Listening(address),
        WorkerMessage::Gpus(_)
        | WorkerMessage::Examined(_)
        | WorkerMessage::RowSoFar(_)
        | WorkerMessage::Contract(_) => {
            return None;
        }
    })
}

/// A loaded plugin as a run records it.
pub(crate) fn plugin_ready(loaded: &Loaded) -> PluginReady {
    let file = loaded.file.as_ref();
    let device = |(index, name): (usize, &str)| PluginDevice {
        index,
        name: printable(name),
    };
    PluginReady {
        plugin: PluginRecord {
            path: file.map_or("builtin".into(), |file| file.realpath.display().to_string()),
            sha256: file.map_or("builtin".into(), |file| file.sha256.clone()),
            abi: loaded.about.abi,
            name: loaded.about.name.clone(),
            family: loaded.about.family(),
            version: loaded.version.clone(),
            why: loaded.choice.why.clone(),
            passed_over: loaded.choice.passed_over.clone(),
        },
        devices: loaded
            .devices
            .iter()
            .map(|one| device((one.index, &one.name)))
            .collect(),
        load_ms: loaded.load_ms,
        init_ms: loaded.init_ms,
    }
}

/// Converts an event that an agent read from a recorder: sets its node to `node` and its time to
/// `ms`, and removes control characters. `None` for kinds that do not come from recorders.
pub(super) fn seen_from_here(mut theirs: Event, node: NodeId, ms: f64) -> Option<Event> {
    theirs.node = Some(node);
    theirs.ms = ms;
    match &mut theirs.kind {
        EventKind::Sample(channels) => channels.truncate(CHANNELS_MAX),
        EventKind::Process(facts) => *facts = std::mem::take(facts).printable(),
        EventKind::PluginLine(line) => {
            line.text = printable(&line.text);
            line.function = printable(&line.function);
        }
        EventKind::Detail(detail) => detail.channel.worker.node = node,
        EventKind::Frame(_) => {}
        _ => return None,
    }
    Some(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_run_model::counters::{Frame, ProcessFacts};
    use tcpx_run_model::ids::{Unit, Who, WorkerId};
    use tcpx_words::log::LogLine;

    const THERE: WorkerId = WorkerId {
        node: NodeId(0),
        unit: Unit::Process {
            pid: 7,
            recorder: 0,
        },
    };

    fn seen(kind: EventKind) -> Option<Event> {
        seen_from_here(Event::new(5.0, Who::Worker(THERE), kind), NodeId(1), 3.0)
    }

    #[test]
    fn events_of_recorders_on_another_node_get_its_id_and_safe_texts() {
        let line = LogLine {
            level: 3,
            function: "f".into(),
            line: 1,
            text: "a\x1b[2Jb".into(),
            count: 1,
        };
        let event = seen(EventKind::PluginLine(line)).expect("a line");
        assert_eq!(
            (event.node, event.pid, event.ms),
            (Some(NodeId(1)), Some(7), 3.0)
        );
        assert!(matches!(event.kind, EventKind::PluginLine(line) if line.text == "a[2Jb"));
        let facts = ProcessFacts {
            plugin: "x\x07".into(),
            ..ProcessFacts::default()
        };
        let event = seen(EventKind::Process(facts)).expect("facts");
        assert!(matches!(event.kind, EventKind::Process(facts) if facts.plugin == "x"));
        let frame = Frame::take(std::process::id(), &[], Vec::new(), None);
        let event = seen(EventKind::Frame(Box::new(frame))).expect("its freeze-frame");
        assert_eq!(event.node, Some(NodeId(1)));
        assert_eq!(seen(EventKind::Note("I am the coordinator".into())), None);
    }

    #[test]
    fn a_piece_of_a_recorder_that_is_not_base64_is_ignored() {
        let piece = |base64: &str| {
            event_of(AgentMessage::Recording {
                offset: 64,
                base64: base64.into(),
            })
        };
        assert_eq!(
            piece("AQI="),
            Some(EventKind::RecorderPiece {
                offset: 64,
                bytes: vec![1, 2]
            })
        );
        assert_eq!(piece("?"), None);
        assert_eq!(event_of(AgentMessage::Heartbeat), None);
    }
}
