//! The work of `handshake`: connects every channel, reports the duration of each step, closes the
//! channels and repeats; then counts the descriptors and threads that are still held.
#![forbid(unsafe_code)]

use super::connect::connect_all;
use super::links::PeerLinks;
use super::load::Ready;
use super::{Context, TaskResult};
use crate::protocol::message::{PairTask, WorkerMessage};
use std::time::{Duration, Instant};
use tcpx_bootstrap::Deadline;
use tcpx_run_model::phase::Phase;
use tcpx_run_model::results::Held;

/// Longest wait for a plugin's helper threads to end after the last close.
const SETTLING: Duration = Duration::from_millis(500);

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
    repeat: u32,
) -> TaskResult<()> {
    let before = held();
    let done = (0..repeat.max(1)).try_for_each(|round| one(context, task, ready, link, round));
    context.tell(&WorkerMessage::Held {
        before,
        after: settled(before),
    });
    done
}

fn one(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut PeerLinks,
    round: u32,
) -> TaskResult<()> {
    let connected = connect_all(context, task, ready, link)?;
    context.tell(&WorkerMessage::Handshake(connected.times));
    context.enter(Phase::Closing);
    // Close only after both ends have all their comms.
    let last = Deadline::after(
        "limits.connect",
        Duration::from(task.scenario.limits.connect),
    );
    let met = link.barrier("connected", u64::from(round), last, &context.stop);
    let closed = connected
        .sends
        .into_iter()
        .map(|comm| ready.net.close_send(comm))
        .chain(
            connected
                .recvs
                .into_iter()
                .map(|comm| ready.net.close_recv(comm)),
        )
        .fold(Ok(()), Result::and);
    met.map_err(|error| context.bootstrap_failure(&error))?;
    closed.map_err(|error| context.plugin_failure(&error))
}

fn held() -> Held {
    let count = |folder| std::fs::read_dir(folder).map_or(0, Iterator::count);
    Held {
        descriptors: count("/proc/self/fd"),
        threads: count("/proc/self/task"),
    }
}

/// The count once it is back at `before`, or after `SETTLING`.
fn settled(before: Held) -> Held {
    let until = Instant::now() + SETTLING;
    loop {
        let now = held();
        if now == before || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
