//! One comm of a connection, the messages that wait for it and those that it carries.
//!
//! Messages leave in the order in which they were pushed. The other end pushes the matching ones
//! in the same order, because one of the two ends decides it (`message`).
#![forbid(unsafe_code)]

use crate::memory::Held;
use std::collections::{HashMap, VecDeque};
use tcpx_engine::plugin::{Comm, MHandle, Net, PluginError, RecvComm, Request, SendComm};
use tcpx_engine::transfer::{InFlight, Step, Window, slots_of};
use tcpx_recorder::Key;
use tcpx_recorder::format::OperationKind;
use tcpx_tap::Tap;

/// Bytes of memory that one mhandle covers, plus one chunk: a version of the ABI takes a C int.
const STRIDE: usize = 1 << 30;

/// What a message is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A receive of a read that was started here.
    Read(u64),
    /// A send of a write or an offer that was started here.
    Data(u64),
    /// A send for a read of the peer.
    Served(u64),
    /// A receive for a write or an offer of the peer.
    Pulled(u64),
}

impl Part {
    /// The operation, for the flight recorder.
    fn operation(self) -> (OperationKind, u64) {
        match self {
            Self::Read(op) => (OperationKind::Read, op),
            Self::Data(op) => (OperationKind::Sent, op),
            Self::Served(op) => (OperationKind::PeerRead, op),
            Self::Pulled(op) => (OperationKind::PeerSent, op),
        }
    }
}

/// One message: a part of a registration.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) part: Part,
    pub(crate) held: Held,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// A message that is done, with its bytes in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) part: Part,
    /// Whether the plugin reported another size than that of the receive.
    pub(crate) differs: bool,
}

enum End {
    Send(SendComm),
    Recv(RecvComm),
}

impl End {
    fn comm(&self) -> Comm<'_> {
        match self {
            Self::Send(comm) => Comm::Send(comm),
            Self::Recv(comm) => Comm::Recv(comm),
        }
    }
}

/// One comm and its messages.
pub(crate) struct Lane {
    end: End,
    window: Window,
    waiting: VecDeque<Job>,
    /// Those in the window, oldest first.
    posted: VecDeque<Job>,
    mhandles: HashMap<(u64, usize), MHandle>,
    chunk: usize,
    turn: u64,
    /// As the flight recorder and the tools that read it name it.
    number: u32,
    recorded: Option<(Tap, Key)>,
}

impl Lane {
    pub(crate) fn sender(net: &dyn Net, comm: SendComm, chunk: usize) -> Self {
        Self::new(End::Send(comm), slots_of(net.about().abi), chunk)
    }

    pub(crate) fn receiver(net: &dyn Net, comm: RecvComm, chunk: usize) -> Self {
        Self::new(End::Recv(comm), slots_of(net.about().abi), chunk)
    }

    fn new(end: End, depth: usize, chunk: usize) -> Self {
        Self {
            end,
            window: Window::new(depth),
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            mhandles: HashMap::new(),
            chunk,
            turn: 0,
            number: 0,
            recorded: None,
        }
    }

    /// Gives the comm a number, also in the flight recorder.
    pub(crate) fn name(&mut self, number: u32, connection: u64, tap: Option<Tap>) {
        self.number = number;
        let comm = self.end.comm().as_ptr();
        self.recorded = tap.and_then(|tap| Some((tap, tap.key(comm)?)));
        if let Some((tap, key)) = self.recorded {
            tap.set_channel(key, number);
            tap.set_connection(key, connection);
        }
    }

    /// What the comm waits for, in words; `None` if it has no messages.
    pub(crate) fn waits(&self) -> Option<String> {
        let (name, turn) = match self.end {
            End::Send(_) => ("send", "receiver"),
            End::Recv(_) => ("recv", "sender"),
        };
        let (number, posted) = (self.number, self.posted.len());
        match posted {
            0 if self.waiting.is_empty() => None,
            0 => Some(format!("{name} {number}: the plugin takes no message")),
            _ => Some(format!(
                "{name} {number}: {posted} posted, none done: the {turn}'s turn"
            )),
        }
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Whether it has no messages.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.posted.is_empty()
    }

    /// Messages that the plugin carries.
    pub(crate) fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Messages that are not done.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.posted.len()
    }

    /// Posts what the window takes and appends what is done to `finished`. Returns whether a
    /// message advanced.
    pub(crate) fn turn(
        &mut self,
        net: &dyn Net,
        finished: &mut Vec<Finished>,
    ) -> Result<bool, PluginError> {
        let mut moved = false;
        while self.window.has_room() && self.post(net)? {
            moved = true;
        }
        while let Some(head) = self.window.to_test() {
            let tested = net.test(head.request)?;
            if !tested.done {
                break;
            }
            self.retire(net, head, tested.reported, finished)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Posts the oldest waiting message. False: there is none, or the plugin said "try again".
    fn post(&mut self, net: &dyn Net) -> Result<bool, PluginError> {
        let Some(job) = self.waiting.front() else {
            return Ok(false);
        };
        let outside = PluginError::OutsideRegistration { call: "regMr" };
        let span = job.held.region.span(job.offset, job.len).ok_or(outside)?;
        let key = (job.held.number, job.offset / STRIDE);
        if !self.mhandles.contains_key(&key) {
            let start = key.1 * STRIDE;
            let len = (job.held.len - start).min(STRIDE + self.chunk);
            let made = net.reg_mr(self.end.comm(), &job.held.region, start, len)?;
            self.mhandles.insert(key, made);
        }
        let Some(mhandle) = self.mhandles.get(&key) else {
            return Ok(false);
        };
        if let Some((tap, key)) = self.recorded {
            let (kind, number) = job.part.operation();
            tap.set_operation(key, kind, number);
        }
        let posted: Option<Request> = match &self.end {
            End::Send(comm) => net.isend(comm, span, mhandle)?,
            End::Recv(comm) => net.irecv(comm, span, mhandle)?,
        };
        let (Some(request), Some(job)) = (posted, self.waiting.pop_front()) else {
            return Ok(false);
        };
        let (turn, slot, len) = (self.turn, 0, job.len as u32);
        let taken = self.window.post(InFlight {
            request,
            turn,
            slot,
            len,
        });
        debug_assert!(taken.is_ok(), "room was checked");
        self.turn += 1;
        self.posted.push_back(job);
        Ok(true)
    }

    fn retire(
        &mut self,
        net: &dyn Net,
        head: InFlight,
        reported: i32,
        finished: &mut Vec<Finished>,
    ) -> Result<(), PluginError> {
        let Some(job) = self.posted.pop_front() else {
            return Ok(());
        };
        let mut differs = false;
        if let End::Recv(comm) = &self.end {
            // Plugins that unpack report no size, which is -1.
            differs = reported >= 0 && reported as usize != job.len;
            net.irecv_consumed(comm, head.request)?;
            if let Some((tap, key)) = self.recorded {
                tap.in_place(key);
            }
        }
        for step in [Step::Finish, Step::Unpack, Step::Consume] {
            let stepped = self.window.step(step);
            debug_assert!(stepped.is_ok(), "each step of the oldest request, in order");
        }
        finished.push(Finished {
            part: job.part,
            differs,
        });
        Ok(())
    }

    /// Ends every registration of `number` with this comm. Nothing holds it any more.
    pub(crate) fn release(&mut self, net: &dyn Net, number: u64) {
        let ended = self.mhandles.extract_if(|(of, _), _| *of == number);
        for (_, mhandle) in ended.collect::<Vec<_>>() {
            // A refused end leaks the plugin's handle; the memory is not used.
            let _ = net.dereg_mr(self.end.comm(), mhandle);
        }
    }

    /// Closes the comm: afterwards the plugin touches no memory of it.
    pub(crate) fn close(mut self, net: &dyn Net) {
        for (_, mhandle) in self.mhandles.drain() {
            let _ = net.dereg_mr(self.end.comm(), mhandle);
        }
        let _ = match self.end {
            End::Send(comm) => net.close_send(comm),
            End::Recv(comm) => net.close_recv(comm),
        };
    }
}
