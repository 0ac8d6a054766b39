//! The work of `handshake`: connect every channel, say what each step took,
//! close, and do it again.
#![forbid(unsafe_code)]

use super::super::message::{FromWorker, PairTask, Phase};
use super::connect::connect_all;
use super::load::Ready;
use super::{Context, TaskResult};
use crate::bootstrap::{Deadline, Link};
use std::time::Duration;

pub(super) fn run(
    context: &mut Context,
    task: &PairTask,
    ready: &Ready,
    link: &mut Link,
    repeat: u32,
) -> TaskResult<()> {
    for round in 0..repeat.max(1) {
        let connected = connect_all(context, task, ready, link)?;
        context.tell(&FromWorker::Handshake(connected.times));
        context.enter(Phase::Closing);
        // Both have seen their comms before either closes one.
        let last = Deadline::after("limits.connect", Duration::from(task.scenario.limits.connect));
        let met = link.barrier("connected", u64::from(round), last, &context.stop);
        let closed = connected
            .sends
            .into_iter()
            .map(|comm| ready.net.close_send(comm))
            .chain(connected.recvs.into_iter().map(|comm| ready.net.close_recv(comm)))
            .fold(Ok(()), Result::and);
        met.map_err(|error| context.bootstrap_failure(&error))?;
        closed.map_err(|error| context.plugin_failure(&error))?;
    }
    Ok(())
}
