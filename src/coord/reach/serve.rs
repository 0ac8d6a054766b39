//! `tcpxctl serve`: one coordinator at a time gets an agent on this node.
//!
//! One thread greets everything that connects (`bootstrap::Strangers`), so that a connection
//! without the secret delays none that has it, also while a coordinator is served. Two threads
//! carry the agent's stdin and stdout over the encrypted connection. A further coordinator waits
//! some seconds for the seat, because the one before it may be leaving.
#![forbid(unsafe_code)]

use super::child::started_as;
use super::{AgentLink, Half, Until};
use crate::process::spawn::ourselves;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tcpx_bootstrap::{Cause, PendingLimits, Proven, Purpose, Secret, Strangers, Writer};

/// Connections that have not proved the secret.
const STRANGERS: PendingLimits = PendingLimits {
    at_once_max: 64,
    time_max: Duration::from_secs(3),
};
/// Longest time between two looks at the stop flag.
const SLICE: Duration = Duration::from_millis(100);
/// How long a coordinator waits for the seat.
const SEAT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Coordinators that wait for the seat.
const WAITING_MAX: usize = 8;
/// How long an agent may take to end once its stdin is closed.
const AGENT_ENDS_MAX: Duration = Duration::from_secs(10);
/// How long a coordinator may keep the connection once its agent has ended.
const LEAVES_MAX: Duration = Duration::from_secs(2);
/// A line about refused connections is due once in this time...
const TELL_EVERY: Duration = Duration::from_secs(10);
/// ...and this many may come at once after a quiet time.
const TELL_AT_ONCE: u32 = 5;

/// An event that `tcpxctl serve` reports.
pub enum Serving {
    /// A coordinator joined and its agent starts.
    Joined(SocketAddr),
    /// The coordinator's agent has ended. An error if the connection did not end as it should.
    Left(SocketAddr, io::Result<()>),
    /// The coordinator has not left, but serving ends. Whether its agent said so to it.
    Ended(SocketAddr, bool),
    /// A coordinator was told that the second one is served at the moment.
    TurnedAway(SocketAddr, SocketAddr),
    /// A coordinator got no agent, for this reason.
    Failed(SocketAddr, String),
    /// Connections without the secret were refused.
    Refused {
        /// How many since the last such event.
        count: u32,
        /// The last of them.
        last: SocketAddr,
        /// Why the last one was refused.
        why: String,
    },
}

/// Coordinators that wait for the seat, with the time of their proof; the oldest first.
type Waiting = VecDeque<(Proven, Instant)>;

/// Serves coordinators, one at a time, until `stop` returns true or, with `once`, until the first
/// has left.
///
/// # Errors
/// The socket fails.
pub fn serve(
    listener: &TcpListener,
    secret: &Secret,
    once: bool,
    stop: impl Fn() -> bool,
    mut report: impl FnMut(Serving),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut strangers = Strangers::new(listener, STRANGERS, secret, Purpose::Serve);
    let mut waiting = Waiting::new();
    let mut telling = Telling::new(Instant::now());
    let mut seat: Option<Seat> = None;
    while !stop() {
        let ended = seat.as_ref().map(|seat| seat.ended.as_fd());
        let proven = strangers.serve(ended, SLICE).map_err(io::Error::other)?;
        waiting.extend(proven.map(|proven| (proven, Instant::now())));
        if let Some(Seat { from, thread, .. }) = seat.take_if(|seat| seat.thread.is_finished()) {
            report(Serving::Left(from, result(thread)));
            if once {
                break;
            }
        }
        waiting.retain_mut(|(proven, _)| !proven.has_left());
        if seat.is_none()
            && let Some((proven, _)) = waiting.pop_front()
        {
            let from = proven.from;
            match Seat::give(proven) {
                Ok(given) => {
                    report(Serving::Joined(from));
                    seat = Some(given);
                }
                Err(why) => report(Serving::Failed(from, why)),
            }
        }
        if let Some(seat) = &seat {
            turn_away(&mut waiting, seat.from, &mut report);
        }
        let count = telling.due(strangers.rejections.rejected, Instant::now());
        tell(&mut report, &strangers, count);
    }
    if let Some(seat) = seat {
        let was_told = seat
            .agent
            .says_that_serve_ends(|| seat.thread.is_finished());
        // Closes the agent's stdin, which ends an agent that has not ended.
        let _ = seat.connection.shutdown(Shutdown::Both);
        let _ = seat.thread.join();
        report(Serving::Ended(seat.from, was_told));
    }
    let count = telling.rest(strangers.rejections.rejected);
    tell(&mut report, &strangers, count);
    Ok(())
}

/// Turns away coordinators that have waited too long, and the oldest of too many.
fn turn_away(waiting: &mut Waiting, holder: SocketAddr, report: &mut impl FnMut(Serving)) {
    let is_late = |(_, since): &(Proven, Instant)| since.elapsed() >= SEAT_WAIT_MAX;
    while waiting.len() > WAITING_MAX || waiting.front().is_some_and(is_late) {
        let Some((proven, _)) = waiting.pop_front() else {
            return;
        };
        report(Serving::TurnedAway(proven.from, holder));
        proven.turn_away(format!("serves {holder} at the moment"));
    }
}

fn tell(report: &mut impl FnMut(Serving), strangers: &Strangers<'_>, count: u32) {
    if let Some((last, cause)) = &strangers.last_rejected
        && count > 0
    {
        let (last, why) = (*last, reason(cause));
        report(Serving::Refused { count, last, why });
    }
}

/// Why a connection was refused, in the words of the end that refuses.
fn reason(cause: &Cause) -> String {
    match cause {
        Cause::WrongSecret => "it has another secret".into(),
        Cause::Dropped => "it did not prove the secret in time, or too many others came".into(),
        Cause::Reset | Cause::ClosedEarly { .. } => {
            "it closed the connection before it proved the secret".into()
        }
        Cause::NotAuthentic => "it repeats or changes messages of another connection".into(),
        Cause::Garbage { what } => format!("it does not speak tcpxctl's protocol: {what}"),
        other => other.to_string(),
    }
}

/// When refused connections are told: the first at once, then a count at a bounded rate.
struct Telling {
    told: u32,
    /// Grows with time; a line costs [`TELL_EVERY`].
    credit: Duration,
    since: Instant,
}

impl Telling {
    fn new(now: Instant) -> Self {
        Self {
            told: 0,
            credit: TELL_EVERY * TELL_AT_ONCE,
            since: now,
        }
    }

    /// How many of `rejected` are to be told now.
    fn due(&mut self, rejected: u32, now: Instant) -> u32 {
        let grown = self.credit + now.saturating_duration_since(self.since);
        self.credit = grown.min(TELL_EVERY * TELL_AT_ONCE);
        self.since = now;
        if rejected == self.told || self.credit < TELL_EVERY {
            return 0;
        }
        self.credit -= TELL_EVERY;
        self.rest(rejected)
    }

    /// How many of `rejected` have not been told.
    fn rest(&mut self, rejected: u32) -> u32 {
        let new = rejected.saturating_sub(self.told);
        self.told = rejected;
        new
    }
}

/// The coordinator that is served.
struct Seat {
    from: SocketAddr,
    connection: TcpStream,
    agent: ServedAgent,
    /// Readable once the thread has ended.
    ended: UnixStream,
    thread: JoinHandle<io::Result<()>>,
}

impl Seat {
    /// Starts an agent for the coordinator.
    fn give(proven: Proven) -> Result<Self, String> {
        let from = proven.from;
        let (ended, ends) = UnixStream::pair().map_err(|error| error.to_string())?;
        let mut command = Command::new(ourselves());
        command.arg("agent").stderr(Stdio::inherit());
        let (agent, signals) = match ServedAgent::start(command) {
            Ok(started) => started,
            Err(error) => {
                let why = format!("cannot start an agent: {error}");
                proven.turn_away(why.clone());
                return Err(why);
            }
        };
        let (reader, writer) = proven.welcome().map_err(|cause| cause.to_string())?;
        let connection = writer.connection().map_err(|error| error.to_string())?;
        let thread = thread::spawn(move || {
            let attended = attend(agent, reader, writer);
            drop(ends);
            attended
        });
        Ok(Self {
            from,
            connection,
            agent: signals,
            ended,
            thread,
        })
    }
}

/// An agent of a coordinator elsewhere, as far as the end of serving concerns it.
pub(super) struct ServedAgent(Option<OwnedFd>);

impl ServedAgent {
    /// Starts an agent.
    pub(super) fn start(command: Command) -> io::Result<(AgentLink, Self)> {
        let (link, pid) = started_as(command)?;
        // Linux before 5.3 has no such descriptors: its coordinator sees a connection that is lost.
        let fd = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok((link, Self(fd)))
    }

    /// Has the agent tell its coordinator that serving ends, and end itself. Whether it did in
    /// time, by `is_over`.
    pub(super) fn says_that_serve_ends(&self, is_over: impl Fn() -> bool) -> bool {
        let Some(agent) = &self.0 else {
            return false;
        };
        // An error means that it has ended.
        let is_told = pidfd_send_signal(agent, Signal::INT).is_ok();
        let until = Until::after(AGENT_ENDS_MAX);
        while !is_over() && !until.is_past() {
            thread::sleep(Duration::from_millis(5));
        }
        is_told && is_over()
    }
}

/// Carries the agent's stdin and stdout until both and the agent have ended.
pub(super) fn attend(
    agent: AgentLink,
    mut reader: impl Read + Send + 'static,
    writer: Writer,
) -> io::Result<()> {
    let AgentLink {
        mut to_agent,
        mut from_agent,
        mut hold,
        ..
    } = agent;
    let connection = writer.connection()?;
    let inbound = thread::spawn(move || {
        let copied = io::copy(&mut reader, &mut to_agent);
        drop(to_agent);
        hold.finish(AGENT_ENDS_MAX);
        copied.map(drop)
    });
    let mut to_coordinator = Half(writer);
    let outbound = io::copy(&mut from_agent, &mut to_coordinator).map(drop);
    // An agent whose coordinator is gone must not wait for it, and a coordinator must see that its
    // agent has ended.
    drop((from_agent, to_coordinator));
    let leaves = Until::after(LEAVES_MAX);
    while !inbound.is_finished() && !leaves.is_past() {
        thread::sleep(Duration::from_millis(5));
    }
    let _ = connection.shutdown(Shutdown::Both);
    for copied in [result(inbound), outbound] {
        match copied {
            // An agent that has ended reads no more, and neither does a coordinator that has left.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    Ok(())
}

fn result(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let panicked = |_| Err(io::Error::other("a thread of `serve` panicked"));
    thread.join().unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusals_are_told_at_once_and_later_ones_as_a_count() {
        let start = Instant::now();
        let mut telling = Telling::new(start);
        let at = |tenths: u32| start + Duration::from_millis(100) * tenths;
        // Ten in a second, for a minute.
        let told: Vec<u32> = (1..=600)
            .map(|n| telling.due(n, at(n)))
            .filter(|count| *count > 0)
            .collect();
        assert_eq!(told[..5], [1; 5]);
        assert!(told.len() <= 11, "{told:?}");
        assert_eq!(telling.due(600, at(6000)), 600 - told.iter().sum::<u32>());
        assert_eq!(telling.due(600, at(6001)), 0);
        // After a quiet time, each is told again.
        assert_eq!(telling.due(601, at(6002)), 1);
        assert_eq!(telling.due(602, at(6003)), 1);
    }
}
