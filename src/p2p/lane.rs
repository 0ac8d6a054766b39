//! One comm of a connection, the messages that wait for it and those that it carries.
//!
//! Messages leave in the order in which they were pushed. The other end pushes the matching ones
//! in the same order, because one of the two ends decides it (`message`).
//!
//! A receive into GPU memory is unpacked by the GPU, or flushed where the plugin does not need
//! that, before it is consumed; one into host memory is in place once it has arrived.
#![forbid(unsafe_code)]

use crate::hash_table::HashTable;
use crate::memory::Held;
use std::collections::VecDeque;
use std::sync::Arc;
use tcpx_engine::gpu::{CudaMemory, MemoryKind, UnpackError, Unpacker};
use tcpx_engine::plugin::{Comm, MHandle, Net, PluginError, RecvComm, Request, SendComm, Tested};
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

impl Job {
    fn is_on_a_gpu(&self) -> bool {
        self.held.region.kind() == MemoryKind::Device
    }
}

/// Plugins that unpack report no size, which is -1.
fn is_other_size(reported: i32, len: usize) -> bool {
    reported >= 0 && reported as usize != len
}

/// A message that is done, with its bytes in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) part: Part,
    pub(crate) len: usize,
    /// Whether the plugin reported another size than that of the receive.
    pub(crate) differs: bool,
}

/// Why a comm cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error("the plugin failed: {0}")]
    Plugin(#[from] PluginError),
    #[error("the GPU failed: {0}")]
    Unpack(#[from] UnpackError),
}

/// Where the bytes of a posted message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// On their way.
    InFlight,
    /// The GPU copies them.
    Unpacking,
    InPlace,
}

/// A message in the window.
#[derive(Debug)]
struct Posted {
    job: Job,
    arrival: Arrival,
    differs: bool,
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
    posted: VecDeque<Posted>,
    /// Bytes of all of these.
    left_bytes: usize,
    /// How many of `posted` are done, and how many receives were done in all.
    done: usize,
    received: u64,
    /// The flush of the oldest receive, which has arrived.
    flushing: Option<Request>,
    gpu: Option<Arc<CudaMemory>>,
    /// Made at the first receive into GPU memory.
    unpacker: Option<Unpacker>,
    mhandles: HashTable<(u64, usize), MHandle>,
    chunk: usize,
    turn: u64,
    /// As the flight recorder and the tools that read it name it.
    number: u32,
    recorded: Option<(Tap, Key)>,
}

impl Lane {
    pub(crate) fn sender(net: &dyn Net, comm: SendComm, chunk: usize) -> Self {
        Self::new(End::Send(comm), slots_of(net.about().abi), chunk, None)
    }

    /// `gpu` is the one into whose memory it receives.
    pub(crate) fn receiver(
        net: &dyn Net,
        comm: RecvComm,
        chunk: usize,
        gpu: Option<Arc<CudaMemory>>,
    ) -> Self {
        Self::new(End::Recv(comm), slots_of(net.about().abi), chunk, gpu)
    }

    fn new(end: End, depth: usize, chunk: usize, gpu: Option<Arc<CudaMemory>>) -> Self {
        Self {
            end,
            window: Window::new(depth),
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            left_bytes: 0,
            done: 0,
            received: 0,
            flushing: None,
            gpu,
            unpacker: None,
            mhandles: HashTable::default(),
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
        self.left_bytes += job.len;
        self.waiting.push_back(job);
    }

    /// Bytes of its messages that are not done.
    pub(crate) fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Whether it has no messages.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.posted.is_empty()
    }

    /// Posts what the window takes and appends what is done to `finished`; ends once `most` bytes are
    /// done. Returns whether a message advanced.
    pub(crate) fn turn(
        &mut self,
        net: &dyn Net,
        most: usize,
        finished: &mut Vec<Finished>,
    ) -> Result<bool, LaneError> {
        let mut moved = self.retire(net, finished)?;
        while self.window.has_room() && self.post(net)? {
            moved = true;
        }
        let mut bytes = 0;
        while bytes < most
            && let Some(head) = self.window.to_test()
            && let Some(reported) = self.arrived(net, head)?
        {
            bytes += head.len as usize;
            self.finish(reported)?;
            self.retire(net, finished)?;
            moved = true;
        }
        if let Some(unpacker) = &mut self.unpacker {
            unpacker.launch()?;
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
            let len = (job.held.region.len() - start).min(STRIDE + self.chunk);
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
        // "Try again" leaves the message where it is.
        let Some(request) = posted else {
            return Ok(false);
        };
        let Some(job) = self.waiting.pop_front() else {
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
        self.posted.push_back(Posted {
            job,
            arrival: Arrival::InFlight,
            differs: false,
        });
        Ok(true)
    }

    /// Whether the plugin's part of the oldest unfinished message is over, and the size that it
    /// reported. A receive into GPU memory that is not unpacked is over after its flush.
    fn arrived(&mut self, net: &dyn Net, head: InFlight) -> Result<Option<i32>, PluginError> {
        if let Some(flush) = self.flushing {
            if !net.test(flush)?.done {
                return Ok(None);
            }
            self.flushing = None;
            return Ok(Some(Tested::UNREPORTED));
        }
        let tested = net.test(head.request)?;
        if !tested.done {
            return Ok(None);
        }
        let (End::Recv(comm), Some(posted)) = (&self.end, self.posted.get(self.done)) else {
            return Ok(Some(tested.reported));
        };
        let job = &posted.job;
        if !job.is_on_a_gpu() || comm.hands_back() {
            return Ok(Some(tested.reported));
        }
        // Of another size, the message is not the one of this receive, and is not looked at.
        if is_other_size(tested.reported, job.len) {
            return Ok(Some(tested.reported));
        }
        let key = (job.held.number, job.offset / STRIDE);
        let span = job.held.region.span(job.offset, job.len);
        if let (Some(span), Some(mhandle)) = (span, self.mhandles.get(&key)) {
            self.flushing = net.iflush(comm, span, mhandle)?;
        }
        Ok(match self.flushing {
            Some(_) => None,
            None => Some(tested.reported),
        })
    }

    /// Notes that the oldest unfinished message has arrived, and lets the GPU unpack it.
    fn finish(&mut self, reported: i32) -> Result<(), LaneError> {
        let stepped = self.window.step(Step::Finish);
        debug_assert!(stepped.is_ok(), "it was the one to test");
        let Some(posted) = self.posted.get_mut(self.done) else {
            return Ok(());
        };
        self.done += 1;
        posted.arrival = Arrival::InPlace;
        let End::Recv(comm) = &self.end else {
            return Ok(());
        };
        let number = self.received;
        self.received += 1;
        posted.differs = is_other_size(reported, posted.job.len);
        if !posted.job.is_on_a_gpu() || !comm.hands_back() {
            return Ok(());
        }
        if self.unpacker.is_none()
            && let (Some(gpu), Some(handle)) = (&self.gpu, comm.device_handle())
        {
            let jobs = self.window.depth();
            self.unpacker = Unpacker::new(&**gpu, handle, jobs, self.chunk)?;
        }
        let job = &posted.job;
        let span = job.held.region.span(job.offset, job.len);
        let queued = match (&mut self.unpacker, span) {
            (Some(unpacker), Some(span)) => unpacker.queue(number, span),
            // Without a queue to unpack by, no byte is in place.
            _ => {
                posted.differs = true;
                return Ok(());
            }
        };
        match queued {
            Ok(()) => posted.arrival = Arrival::Unpacking,
            // The peer sent less, as it does for a read that it refuses.
            Err(UnpackError::Scatter(_)) => posted.differs = true,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Consumes, in order, the messages whose bytes are in place. Returns whether there was one.
    fn retire(&mut self, net: &dyn Net, finished: &mut Vec<Finished>) -> Result<bool, LaneError> {
        let mut moved = false;
        while let Some(head) = self.window.to_unpack()
            && let Some(Posted { arrival, .. }) = self.posted.front()
        {
            let is_unpacked = *arrival == Arrival::Unpacking;
            if is_unpacked
                && let Some(unpacker) = &mut self.unpacker
                && !unpacker.passed()?
            {
                break;
            }
            if let End::Recv(comm) = &self.end {
                match self.recorded {
                    Some((tap, key)) if is_unpacked => tap.unpacked(key),
                    Some((tap, key)) => tap.in_place(key),
                    None => {}
                }
                net.irecv_consumed(comm, head.request)?;
            }
            for step in [Step::Unpack, Step::Consume] {
                let stepped = self.window.step(step);
                debug_assert!(stepped.is_ok(), "each step of the oldest request, in order");
            }
            self.done -= 1;
            if let Some(Posted { job, differs, .. }) = self.posted.pop_front() {
                self.left_bytes -= job.len;
                finished.push(Finished {
                    part: job.part,
                    len: job.len,
                    differs,
                });
            }
            moved = true;
        }
        Ok(moved)
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
        // Waits for the GPU's work on the comm's pages.
        self.unpacker = None;
        for (_, mhandle) in self.mhandles.drain() {
            let _ = net.dereg_mr(self.end.comm(), mhandle);
        }
        let _ = match self.end {
            End::Send(comm) => net.close_send(comm),
            End::Recv(comm) => net.close_recv(comm),
        };
    }
}
