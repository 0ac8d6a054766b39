//! One connection as its endpoint's thread drives it: the lanes, and what was started here. What
//! the peer says is in `answers`. Nothing here waits.
#![forbid(unsafe_code)]

use crate::Error;
use crate::blob::{Blob, Claim, Right, Seal};
use crate::hash_table::HashTable;
use crate::lane::{Finished, Part};
use crate::memory::{Held, Memory};
use crate::message::{Message, PIECES_MAX};
use crate::pending::{Operation, Ours, Pull, Starter};
use crate::pieces::{LocalPiece, bytes_of, messages_of, push};
use crate::shared_lane::SharedLane;
use crate::shown::Channels;
use crate::together::{Staging, Waiting};
use crate::transfer::{Completion, Reply};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tcpx_bootstrap::Duplex;
use tcpx_engine::plugin::Net;

/// Most operations of one end that the other one must keep: reads, writes, offers, notifications.
pub(crate) const OPERATIONS_MAX: usize = 4096;
/// Most messages of one operation, which bounds what a refused read costs.
pub(crate) const MESSAGES_MAX: u64 = 1 << 18;
/// Unread notifications of an endpoint.
pub(crate) const NOTES_MAX: usize = 1024;
/// Turns in which the peer is not listened to, after it had nothing to say: while data moves, and
/// while many messages are about to be done. A read of the socket costs as much as a message.
const DEAF_MOVING: u8 = 3;
const DEAF_WAITING: u8 = 1;
/// So many messages in flight that the next one is about to be done.
pub(crate) const MANY: usize = 4;
/// Blobs of a connection that are known to be of this endpoint.
pub(crate) const PROVEN_MAX: usize = PIECES_MAX;
/// How long the peer's end of the connection is waited for after a lane has failed.
const EXPLAINED_WITHIN: Duration = Duration::from_millis(100);
/// Reading stops while as many bytes wait to be sent.
const QUEUED_MAX: usize = 1 << 20;

/// What the driver tells a connection about its endpoint.
pub(crate) struct Home<'a> {
    pub(crate) net: &'a dyn Net,
    pub(crate) seal: &'a Seal,
    pub(crate) memory: &'a Memory,
    /// Writes a warning into the log of this end's flight recorder.
    pub(crate) warn: &'a dyn Fn(&str),
    /// Takes a notification, unless there are too many.
    pub(crate) note: &'a dyn Fn(u64, Vec<u8>) -> bool,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) number: u64,
    /// Its channels, as the flight recorder numbers them.
    pub(crate) channels: Option<Channels>,
    /// Who the peer is; empty until its `Hello`.
    pub(crate) peer: Peer,
    /// Who waits for the peer's `Hello`; none once it has arrived.
    pub(crate) arrival: Option<Arrival>,
    pub(crate) is_greeted: bool,
    pub(crate) duplex: Duplex,
    pub(crate) sends: Vec<SharedLane>,
    pub(crate) recvs: Vec<SharedLane>,
    pub(crate) chunk: usize,
    pub(crate) scratch: Held,
    pub(crate) next_op: u64,
    next_lane: usize,
    pub(crate) ours: HashTable<u64, Ours>,
    /// Operations that wait until the peer has room for them.
    queued: VecDeque<(Operation, Completion)>,
    /// Small operations that were refused together, to be started alone.
    pub(crate) again: VecDeque<(Operation, Completion)>,
    /// Whether small operations may travel together: both ends have host memory.
    pub(crate) gathers: bool,
    pub(crate) waiting: Waiting,
    /// Small requests among `ours`.
    pub(crate) small_in_flight: usize,
    pub(crate) staging: Staging,
    pub(crate) pulls: HashTable<u64, Pull>,
    pub(crate) offers: VecDeque<(u64, u64)>,
    pub(crate) receives: VecDeque<(LocalPiece, Completion)>,
    pub(crate) finished: Vec<Finished>,
    /// What the peer's blobs say, so that each is checked once.
    pub(crate) proven: HashTable<Blob, Claim>,
    /// Turns until the peer is listened to again.
    deaf: u8,
    /// Whether the peer was listened to in this turn, and said anything.
    has_listened: bool,
    has_heard: bool,
    outgoing: Vec<u8>,
    /// Why a lane failed, and when. The end of the peer, or what it said last, explains more, and may
    /// be seen later.
    failed: Option<(Lost, Instant)>,
    /// When something advanced.
    moved_at: Instant,
}

/// The other endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub endpoint: u64,
    /// Its name.
    pub name: String,
    /// Its GPU, if it has one.
    pub gpu: Option<u32>,
}

/// Who learns that a connection is complete.
pub(crate) struct Arrival {
    pub(crate) ip: IpAddr,
    /// The caller of `connect`; none where the peer connected.
    pub(crate) reply: Option<Reply<u64>>,
}

/// Why a connection ended; said to every operation on it.
pub(crate) type Lost = String;

impl Connection {
    pub(crate) fn new(
        number: u64,
        duplex: Duplex,
        sends: Vec<SharedLane>,
        recvs: Vec<SharedLane>,
        chunk: usize,
        scratch: Held,
    ) -> Self {
        Self {
            number,
            channels: None,
            peer: Peer::default(),
            arrival: None,
            is_greeted: false,
            duplex,
            sends,
            recvs,
            chunk,
            scratch,
            next_op: 0,
            next_lane: 0,
            ours: HashTable::default(),
            queued: VecDeque::new(),
            again: VecDeque::new(),
            gathers: false,
            waiting: Waiting::default(),
            small_in_flight: 0,
            staging: Staging::default(),
            pulls: HashTable::default(),
            offers: VecDeque::new(),
            receives: VecDeque::new(),
            finished: Vec::new(),
            proven: HashTable::default(),
            deaf: 0,
            has_listened: false,
            has_heard: false,
            outgoing: Vec::new(),
            failed: None,
            moved_at: Instant::now(),
        }
    }

    /// The encrypted connection, to wait for.
    pub(crate) fn duplex(&self) -> &Duplex {
        &self.duplex
    }

    /// Whether a message is on its way through the plugin, so that the plugin must be driven.
    pub(crate) fn is_busy(&self) -> bool {
        self.lanes().any(|lane| !lane.is_idle())
    }

    /// Messages that are not done.
    pub(crate) fn in_flight(&self) -> usize {
        self.lanes().map(SharedLane::len).sum()
    }

    /// Whether the peer owes something: data, an answer, or both.
    fn is_owed(&self) -> bool {
        self.is_busy()
            || !self.is_greeted
            || !self.pulls.is_empty()
            || !self.waiting.is_empty()
            || self
                .ours
                .values()
                .any(|one| one.what != "send" || one.left > 0)
    }

    /// Why the connection is given up, if it is owed something and nothing advanced for `allowed`.
    pub(crate) fn stalled(&self, now: Instant, allowed: Duration) -> Option<Lost> {
        if !self.is_owed() || now.saturating_duration_since(self.moved_at) < allowed {
            return None;
        }
        let lanes = self.recvs.iter().chain(&self.sends);
        let messages: usize = lanes.map(SharedLane::len).sum();
        let oldest = self.ours.iter().min_by_key(|(op, _)| **op);
        let what = oldest.map_or_else(
            || format!("{} transfers of the peer", self.pulls.len()),
            |(op, one)| one.describe(*op),
        );
        let lanes = self.recvs.iter().chain(&self.sends);
        let waits = lanes.filter_map(SharedLane::waits).next();
        let whose =
            waits.unwrap_or_else(|| format!("endpoint `{}` does not answer", self.peer.name));
        Some(format!(
            "no progress for {} s: {what} is not done, {messages} messages are in flight; {whose}",
            allowed.as_secs_f64()
        ))
    }

    /// Who waits for the peer, once the peer has all its comms too.
    pub(crate) fn arrived(&mut self) -> Option<Arrival> {
        self.is_greeted.then(|| self.arrival.take()).flatten()
    }

    pub(crate) fn hello(&mut self, message: &Message) {
        self.say(message);
    }

    pub(crate) fn say(&mut self, message: &Message) {
        message.encode(&mut self.outgoing);
    }

    /// Starts an operation, or queues it until the peer has room.
    pub(crate) fn start(&mut self, operation: Operation, completion: Completion) {
        if !self.is_owed() {
            self.moved_at = Instant::now();
        }
        match operation {
            Operation::Receive(piece) => self.receives.push_back((piece, completion)),
            operation if self.has_room() && self.queued.is_empty() => {
                self.begin(operation, completion);
            }
            operation => self.queued.push_back((operation, completion)),
        }
        self.match_offers();
    }

    /// Whether the peer has room for one operation more.
    fn has_room(&self) -> bool {
        self.ours.len() < OPERATIONS_MAX && self.has_room_for_small()
    }

    fn begin(&mut self, operation: Operation, completion: Completion) {
        match operation {
            Operation::Read(into, pieces) if self.is_small(&into) => {
                self.collect(Right::Read, (into, pieces), completion);
            }
            Operation::Write(from, pieces) if self.is_small(&from) => {
                self.collect(Right::Write, (from, pieces), completion);
            }
            operation => {
                self.start_waiting();
                self.begin_alone(operation, completion);
            }
        }
    }

    pub(crate) fn begin_alone(&mut self, operation: Operation, completion: Completion) {
        self.next_op += 1;
        let op = self.next_op;
        let mut ours = Ours::new("send", 0, Starter::Alone(completion));
        match operation {
            Operation::Read(into, pieces) => {
                ours.what = "read";
                ours.is_small = self.is_small(&into);
                ours.bytes = bytes_of(&into);
                let first_lane = self.first_lane(messages_of(
                    into.iter().map(|one| one.len as u64),
                    self.chunk,
                ));
                self.say(&Message::Read {
                    op,
                    first_lane,
                    together: false,
                    pieces,
                });
                ours.left = push(
                    &mut self.recvs,
                    first_lane,
                    &into,
                    self.chunk,
                    Part::Read(op),
                );
            }
            Operation::Write(from, pieces) => {
                ours.what = "write";
                ours.is_small = self.is_small(&from);
                ours.bytes = bytes_of(&from);
                ours.data = from;
                self.say(&Message::Write {
                    op,
                    together: false,
                    pieces,
                });
            }
            Operation::Send(piece) => {
                ours.bytes = piece.len as u64;
                self.say(&Message::Offer {
                    op,
                    len: ours.bytes,
                });
                ours.data = vec![piece];
            }
            Operation::Notify(bytes) => {
                ours.what = "notification";
                ours.bytes = bytes.len() as u64;
                self.say(&Message::Notify { op, bytes });
            }
            // `start` keeps receives to itself: the peer learns of one when it pulls.
            Operation::Receive(_) => return,
        }
        self.insert(op, ours);
    }

    pub(crate) fn insert(&mut self, op: u64, ours: Ours) {
        self.small_in_flight += usize::from(ours.is_small);
        self.ours.insert(op, ours);
    }

    pub(crate) fn remove(&mut self, op: u64) -> Option<Ours> {
        let ours = self.ours.remove(&op)?;
        self.small_in_flight -= usize::from(ours.is_small);
        Some(ours)
    }

    /// The lane of the next message that is received, so that lanes take turns.
    pub(crate) fn first_lane(&mut self, messages: u64) -> u16 {
        let first = self.next_lane;
        let lanes = self.recvs.len().max(1);
        self.next_lane = (first + (messages % lanes as u64) as usize) % lanes;
        first as u16
    }

    /// Reads what the peer says and acts on it. Returns whether it said anything.
    pub(crate) fn listen(&mut self, home: &Home<'_>) -> Result<bool, Lost> {
        (self.has_listened, self.has_heard) = (self.deaf == 0, false);
        if !self.has_listened {
            self.deaf -= 1;
        } else if self.duplex.queued() < QUEUED_MAX {
            self.has_heard = self.hear(home)?;
        }
        Ok(self.has_heard)
    }

    /// Does what can be done now: drives the lanes, answers, sends. Returns whether anything advanced.
    pub(crate) fn turn(&mut self, home: &Home<'_>) -> Result<bool, Lost> {
        if let Some((why, at)) = &self.failed {
            return match at.elapsed() < EXPLAINED_WITHIN {
                true => Ok(false),
                false => Err(why.clone()),
            };
        }
        self.start_few();
        let mut moved = self.has_heard;
        match self.drive_lanes(home.net) {
            Ok(driven) => moved |= driven,
            Err(why) => {
                self.failed = Some((why, Instant::now()));
                self.deaf = 0;
                return Ok(true);
            }
        }
        if self.has_listened && !self.has_heard && self.in_flight() > MANY {
            self.deaf = if moved { DEAF_MOVING } else { DEAF_WAITING };
        }
        self.note_finished()?;
        while self.has_room()
            && let Some((operation, completion)) = self.again.pop_front()
        {
            self.begin_alone(operation, completion);
            moved = true;
        }
        while self.has_room()
            && let Some((operation, completion)) = self.queued.pop_front()
        {
            self.begin(operation, completion);
            moved = true;
        }
        if !self.outgoing.is_empty() {
            let sealed = self.duplex.queue(&self.outgoing);
            sealed.map_err(|error| format!("a message cannot be encrypted: {error}"))?;
            self.outgoing.clear();
        }
        if self.duplex.queued() > 0 {
            self.duplex.flush().map_err(|error| lost(&error))?;
        }
        if moved {
            self.moved_at = Instant::now();
        }
        Ok(moved)
    }

    fn drive_lanes(&mut self, net: &dyn Net) -> Result<bool, Lost> {
        let mut moved = false;
        for lane in self.sends.iter_mut().chain(&mut self.recvs) {
            moved |= lane.turn(net, &mut self.finished)?;
        }
        Ok(moved)
    }

    /// Its lanes, in both directions.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &SharedLane> {
        self.sends.iter().chain(&self.recvs)
    }

    /// Ends the plugin's registrations of memory that is going away.
    pub(crate) fn release(&self, net: &dyn Net, registration: u64) {
        for lane in self.lanes() {
            lane.release(net, registration);
        }
    }

    /// Closes the comms and fails every operation with `why`, which the peer is told too.
    pub(crate) fn close(mut self, net: &dyn Net, why: &str, tell: bool) {
        if tell {
            let why = why.to_owned();
            Message::Bye { why }.encode(&mut self.outgoing);
            // One attempt: the peer also sees the connection end.
            let _ = self
                .duplex
                .queue(&self.outgoing)
                .and_then(|()| self.duplex.flush());
        }
        for lane in self.sends.into_iter().chain(self.recvs) {
            lane.close(net);
        }
        self.duplex.shut_down();
        if let Some(Arrival {
            ip,
            reply: Some(reply),
        }) = self.arrival
        {
            let (peer, why) = (ip.to_string(), why.to_owned());
            let _ = reply.send(Err(Error::Connection { peer, why }));
        }
        let ours = self.ours.into_values();
        let ours = ours.flat_map(|one| one.starter.into_completions());
        let queued = self.again.into_iter().chain(self.queued);
        let queued = queued.map(|(_, completion)| completion);
        let waiting = self.waiting.into_completions();
        let receives = self.receives.into_iter().map(|(_, completion)| completion);
        let pulls = self.pulls.into_values().filter_map(|pull| pull.completion);
        let ours = ours.chain(waiting).chain(queued);
        for completion in ours.chain(receives).chain(pulls) {
            let peer = format!("endpoint `{}`", self.peer.name);
            let why = why.to_owned();
            completion.finish(Err(Error::Connection { peer, why }));
        }
    }
}

pub(crate) fn lost(error: &std::io::Error) -> Lost {
    match error.kind() {
        // The kernel of a process that ended resets what it had not read.
        std::io::ErrorKind::UnexpectedEof
        | std::io::ErrorKind::ConnectionReset
        | std::io::ErrorKind::BrokenPipe => "the peer's process ended or closed it".to_owned(),
        _ => format!("lost: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_peer_that_ended_is_said_in_the_same_words_whether_it_had_read_everything_or_not() {
        for kind in [
            ErrorKind::UnexpectedEof,
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
        ] {
            assert_eq!(lost(&kind.into()), "the peer's process ended or closed it");
        }
        assert!(lost(&Error::other("odd")).starts_with("lost: odd"));
    }
}
