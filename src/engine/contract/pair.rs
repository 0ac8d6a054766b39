//! A connected pair: both ends of one connection in this process, a registered
//! buffer on each, and the messages in flight between them.
//!
//! Message `k` uses slot `k` modulo the number of slots on both ends and carries
//! pattern `k`.
//!
//! `close` closes everything. A pair that is dropped open stays open, with its memory: a row that
//! returned early has a shortfall to report, and a plugin that broke one promise may hang in the
//! clean-up too. The process of the row ends anyway.
//!
//! A plugin may finish a connection in its first isend and irecv, which both are "not yet" until
//! each end was called, as UCX does. If the first post of a pair is "not yet", `open` moves a
//! message with both ends in turn before the row goes on.
#![forbid(unsafe_code)]

use super::buffer::Buffer;
use super::calls::{Answer, Raw};
use super::exchange::exchange;
use super::subject::{Checked, PATIENCE, Shortfall, Subject, poll, within};
use crate::gpu::{HostMemory, Span};
use crate::plugin::{
    Comm, Connecting, ListenComm, MHandle, Net, PluginResult, RecvComm, Request, SendComm,
};
use std::collections::VecDeque;
use std::time::Duration;

/// How long `connect` of a version whose calls block runs before `accept` is called.
const HEAD_START: Duration = Duration::from_millis(100);
/// How long it may take until it is known to have begun.
const START_MOST: Duration = Duration::from_secs(2);
/// CPU time after which a thread is far beyond the first steps of its `connect`.
const BEGUN_NS: u64 = 5_000_000;

/// Whether a thread of this process that has nothing to do but a call is inside it: it sleeps, by the state behind its
/// name in `stat`, or has run for long, by `schedstat`.
fn has_begun(thread: rustix::thread::Pid) -> bool {
    let of_thread = |file: &str| {
        let path = format!("/proc/self/task/{}/{file}", thread.as_raw_nonzero());
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let (stat, ran) = (of_thread("stat"), of_thread("schedstat"));
    let state = stat.rsplit_once(") ").map(|(_, behind)| behind);
    let ran_ns = ran.split(' ').next().and_then(|text| text.parse().ok());
    state.is_some_and(|state| state.starts_with(['S', 'D']))
        || ran_ns.is_some_and(|ns: u64| ns >= BEGUN_NS)
}

/// One request and the message it carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posted {
    pub(super) request: Request,
    pub(super) message: usize,
    /// Bytes posted.
    pub(super) len: usize,
    /// Requests of this end posted before it.
    pub(super) nth: u64,
}

/// Both ends of one connection.
pub(super) struct Pair<'a> {
    net: &'a dyn Net,
    hands_back: bool,
    listen: Option<ListenComm>,
    connecting: Connecting,
    device: usize,
    send: Option<SendComm>,
    recv: Option<RecvComm>,
    outgoing: Option<Buffer>,
    incoming: Option<Buffer>,
    posted: [u64; 2],
    /// Whether `open` was called.
    opened: bool,
    /// Posted sends, oldest first.
    pub(super) sends: VecDeque<Posted>,
    /// Posted receives, oldest first.
    pub(super) receives: VecDeque<Posted>,
    /// Receives that are done and not yet consumed, oldest first.
    pub(super) done: VecDeque<Posted>,
}

impl<'a> Pair<'a> {
    /// Creates a listener and a connector; neither `connect` nor `accept` has been called.
    pub(super) fn start(subject: &Subject<'a>) -> Checked<Self> {
        let device = subject.device()?.index;
        let (listen, handle) = subject.net.listen(device)?;
        Ok(Self {
            net: subject.net,
            hands_back: subject.hands_back(),
            listen: Some(listen),
            connecting: Connecting::to(handle),
            device,
            send: None,
            recv: None,
            outgoing: None,
            incoming: None,
            posted: [0; 2],
            opened: false,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
        })
    }

    /// Calls `connect` and `accept` once each. Returns whether both have returned a comm.
    pub(super) fn step(&mut self) -> Checked<bool> {
        if !self.net.calls().limits().asks_again {
            return self.meet();
        }
        self.step_connect()?;
        self.step_accept()?;
        Ok(self.send.is_some() && self.recv.is_some())
    }

    /// Runs `connect` and `accept` in two threads, for versions whose calls block. `connect` starts
    /// first: a plugin may hold a lock while `accept` waits, and the lock would keep `connect` out.
    fn meet(&mut self) -> Checked<bool> {
        if self.send.is_some() && self.recv.is_some() {
            return Ok(true);
        }
        let (net, device, connecting) = (self.net, self.device, &mut self.connecting);
        let listen = self.listen.as_mut().ok_or_else(|| closed("listener"))?;
        let (begins, begun) = std::sync::mpsc::channel();
        let (send, recv) = std::thread::scope(|scope| {
            let send = scope.spawn(move || {
                let _ = begins.send(rustix::thread::gettid());
                net.connect(device, connecting)
            });
            let thread = begun.recv_timeout(PATIENCE).ok();
            let returned = within(HEAD_START, || Ok(send.is_finished().then_some(())));
            // On a busy machine it may not have run yet.
            let waits = || {
                let has_begun = thread.is_none_or(has_begun) || send.is_finished();
                Ok(has_begun.then_some(()))
            };
            within(START_MOST, waits)?;
            let join = || {
                let panicked = |_| Shortfall::Broken("connect panicked".into());
                Checked::Ok(send.join().map_err(panicked)??)
            };
            if returned?.is_none() {
                let recv = net.accept(listen);
                return Ok((join()?, recv?));
            }
            let send = join()?;
            Checked::Ok((send, net.accept(listen)?))
        })?;
        (self.send, self.recv) = (send, recv);
        Ok(self.send.is_some() && self.recv.is_some())
    }

    /// Calls `connect` once, unless it has already returned a comm.
    pub(super) fn step_connect(&mut self) -> Checked<()> {
        if self.send.is_none() {
            self.send = self.net.connect(self.device, &mut self.connecting)?;
        }
        Ok(())
    }

    /// Calls `accept` once, unless it has already returned a comm. Returns whether it has.
    pub(super) fn step_accept(&mut self) -> Checked<bool> {
        if self.recv.is_none() {
            let listen = self.listen.as_mut().ok_or_else(|| closed("listener"))?;
            self.recv = self.net.accept(listen)?;
        }
        Ok(self.recv.is_some())
    }

    /// Connects the sending end and accepts the other without a device handle. `calls`
    /// closes the receiving end; the listener cannot be used again.
    pub(super) fn accept_bare(&mut self, calls: Raw<'_>) -> Checked<(Answer, bool)> {
        let listen = self.listen.take().ok_or_else(|| closed("listener"))?;
        let answer = calls.accept_bare(&listen, || self.step_connect());
        self.net.close_listen(listen)?;
        answer
    }

    /// A connected pair without buffers.
    pub(super) fn connect(subject: &Subject<'a>) -> Checked<Self> {
        let mut pair = Self::start(subject)?;
        pair.finish_connect(subject)?;
        Ok(pair)
    }

    /// Waits until both ends are connected.
    pub(super) fn finish_connect(&mut self, subject: &Subject<'a>) -> Checked<()> {
        poll("connect and accept", subject.connect_patience(), || {
            Ok(self.step()?.then_some(()))
        })
    }

    /// A connected pair with `slots` slots of `len` bytes of host memory on each end.
    pub(super) fn on_host(subject: &Subject<'a>, slots: usize, len: usize) -> Checked<Self> {
        let mut pair = Self::connect(subject)?;
        pair.allocate(HostMemory::host(), slots, len)?;
        Ok(pair)
    }

    /// As `on_host`, with ordinary memory that the plugin accepts as GPU memory.
    pub(super) fn on_stand_in(subject: &Subject<'a>, slots: usize, len: usize) -> Checked<Self> {
        let memory = subject.stand_in()?;
        let mut pair = Self::connect(subject)?;
        pair.allocate(memory, slots, len)?;
        Ok(pair)
    }

    /// Registers `slots` slots of `len` bytes on each end.
    pub(super) fn allocate(&mut self, memory: HostMemory, slots: usize, len: usize) -> Checked<()> {
        self.outgoing = Some(Buffer::new(
            self.net,
            Comm::Send(self.sender()?),
            memory,
            slots,
            len,
        )?);
        self.incoming = Some(Buffer::new(
            self.net,
            Comm::Recv(self.receiver()?),
            memory,
            slots,
            len,
        )?);
        Ok(())
    }

    pub(super) fn sender(&self) -> Checked<&SendComm> {
        self.send.as_ref().ok_or_else(|| closed("sending end"))
    }

    pub(super) fn receiver(&self) -> Checked<&RecvComm> {
        self.recv.as_ref().ok_or_else(|| closed("receiving end"))
    }

    pub(super) fn listener(&self) -> Checked<&ListenComm> {
        self.listen.as_ref().ok_or_else(|| closed("listener"))
    }

    fn outgoing(&self) -> Checked<&Buffer> {
        self.outgoing.as_ref().ok_or_else(|| closed("send buffer"))
    }

    pub(super) fn incoming(&self) -> Checked<&Buffer> {
        self.incoming
            .as_ref()
            .ok_or_else(|| closed("receive buffer"))
    }

    /// Span and registration of message `k` on the sending end.
    pub(super) fn source(&self, message: usize, len: usize) -> Checked<(Span, &MHandle)> {
        let from = self.outgoing()?;
        Ok((from.span(message, len)?, from.mhandle()?))
    }

    /// Span and registration of message `k` on the receiving end.
    pub(super) fn destination(&self, message: usize, len: usize) -> Checked<(Span, &MHandle)> {
        let into = self.incoming()?;
        Ok((into.span(message, len)?, into.mhandle()?))
    }

    /// Writes message `k` and blanks its slot on the receiving end.
    pub(super) fn prepare(&self, message: usize, len: usize) -> Checked<()> {
        self.outgoing()?.write(message, len)?;
        self.incoming()?.blank(message)
    }

    /// Moves a message, if this has not been done and the plugin is not of the TCPX family, which
    /// promises that posts are accepted at once.
    pub(super) fn open(&mut self) -> Checked<()> {
        if self.opened || self.net.about().family().has_tcpx_semantics() {
            return Ok(());
        }
        self.opened = true;
        match exchange(self, &[1], 1) {
            Err(Shortfall::Broken(why)) => Err(Shortfall::Broken(format!(
                "a first message, isend and irecv called in turn: {why}"
            ))),
            moved => moved.map(drop),
        }
    }

    /// Whether a post that was "not yet" is to be tried again after `open`.
    fn opens(&mut self) -> Checked<bool> {
        let first = !self.opened && self.posted == [0; 2];
        if first && self.send.is_some() && self.recv.is_some() {
            self.open()?;
            return Ok(self.opened);
        }
        Ok(false)
    }

    /// Writes message `k` and calls `isend` once, and again if the connection was not open.
    pub(super) fn try_send(&mut self, message: usize, len: usize) -> Checked<PluginResult<bool>> {
        let answer = self.post_send(message, len)?;
        match answer {
            Ok(false) if self.opens()? => self.post_send(message, len),
            answer => Ok(answer),
        }
    }

    fn post_send(&mut self, message: usize, len: usize) -> Checked<PluginResult<bool>> {
        self.outgoing()?.write(message, len)?;
        let (span, mhandle) = self.source(message, len)?;
        let answer = self.net.isend(self.sender()?, span, mhandle);
        Ok(answer.map(|request| {
            let nth = self.posted[0];
            self.posted[0] += u64::from(request.is_some());
            self.sends.extend(request.map(|request| Posted {
                request,
                message,
                len,
                nth,
            }));
            request.is_some()
        }))
    }

    /// Blanks the slot of message `k` and its guard, and calls `irecv` once, and again if the
    /// connection was not open.
    pub(super) fn try_receive(
        &mut self,
        message: usize,
        len: usize,
    ) -> Checked<PluginResult<bool>> {
        let answer = self.post_receive(message, len)?;
        match answer {
            Ok(false) if self.opens()? => self.post_receive(message, len),
            answer => Ok(answer),
        }
    }

    fn post_receive(&mut self, message: usize, len: usize) -> Checked<PluginResult<bool>> {
        self.incoming()?.blank(message)?;
        let (span, mhandle) = self.destination(message, len)?;
        let answer = self.net.irecv(self.receiver()?, span, mhandle);
        Ok(answer.map(|request| {
            let nth = self.posted[1];
            self.posted[1] += u64::from(request.is_some());
            self.receives.extend(request.map(|request| Posted {
                request,
                message,
                len,
                nth,
            }));
            request.is_some()
        }))
    }

    /// Posts message `k`, driving the requests in flight while the plugin says "try again".
    pub(super) fn send(&mut self, message: usize, len: usize) -> Checked<()> {
        poll("isend accepts a send", PATIENCE, || {
            let posted = self.try_send(message, len)??;
            if !posted {
                self.drive()?;
            }
            Ok(posted.then_some(()))
        })
    }

    /// Posts a receive for message `k`, likewise.
    pub(super) fn receive(&mut self, message: usize, len: usize) -> Checked<()> {
        poll("irecv accepts a receive", PATIENCE, || {
            let posted = self.try_receive(message, len)??;
            if !posted {
                self.drive()?;
            }
            Ok(posted.then_some(()))
        })
    }

    /// Tests the oldest send, if any. Returns whether it finished.
    pub(super) fn test_send(&mut self) -> Checked<bool> {
        let Some(oldest) = self.sends.front() else {
            return Ok(false);
        };
        let done = self.net.test(oldest.request)?.done;
        if done {
            self.sends.pop_front();
        }
        Ok(done)
    }

    /// Tests the oldest receive, if any. Returns whether it finished.
    pub(super) fn test_receive(&mut self) -> Checked<bool> {
        Ok(self.try_test_receive()?)
    }

    /// As `test_receive`, but keeps the plugin's error.
    pub(super) fn try_test_receive(&mut self) -> PluginResult<bool> {
        let Some(oldest) = self.receives.front() else {
            return Ok(false);
        };
        let done = self.net.test(oldest.request)?.done;
        if done {
            self.done.extend(self.receives.pop_front());
        }
        Ok(done)
    }

    /// Tests the oldest request of each end. Returns whether any finished.
    pub(super) fn drive(&mut self) -> Checked<bool> {
        let received = self.test_receive()?;
        Ok(self.test_send()? || received)
    }

    /// Tests until every posted request is done.
    pub(super) fn finish(&mut self) -> Checked<()> {
        let (sends, receives) = (self.sends.len(), self.receives.len());
        let what = format!("{sends} sends and {receives} receives become done");
        poll(&what, PATIENCE, || {
            while self.drive()? {}
            Ok((self.sends.is_empty() && self.receives.is_empty()).then_some(()))
        })
    }

    /// Takes the oldest finished receive and consumes it, if the plugin wants that.
    pub(super) fn hand_back(&mut self) -> Checked<()> {
        if let Some(oldest) = self.done.pop_front()
            && self.hands_back
        {
            self.net.irecv_consumed(self.receiver()?, oldest.request)?;
        }
        Ok(())
    }

    /// Checks every byte of message `k`, and that nothing was written after it.
    pub(super) fn verify(&self, message: usize, len: usize) -> Checked<()> {
        self.incoming()?.verify(message, len)
    }

    /// Checks that the slot of message `k` and its guard are unwritten from byte `from` on.
    pub(super) fn blank_from(&self, message: usize, from: usize) -> Checked<()> {
        self.incoming()?.blank_from(message, from)
    }

    /// Whether receives land in bounce pages and must be unpacked.
    pub(super) fn unpacks(&self) -> bool {
        self.incoming.as_ref().is_some_and(Buffer::is_device)
    }

    /// Deregisters and closes the sending end.
    pub(super) fn close_sender(&mut self) -> Checked<()> {
        self.sends.clear();
        let Some(send) = self.send.take() else {
            return Ok(());
        };
        let ended = self
            .outgoing
            .as_mut()
            .map_or(Ok(()), |buffer| buffer.end(self.net, Comm::Send(&send)));
        self.net.close_send(send)?;
        ended
    }

    /// Deregisters and closes the receiving end.
    pub(super) fn close_receiver(&mut self) -> Checked<()> {
        self.receives.clear();
        self.done.clear();
        let Some(recv) = self.recv.take() else {
            return Ok(());
        };
        let ended = self
            .incoming
            .as_mut()
            .map_or(Ok(()), |buffer| buffer.end(self.net, Comm::Recv(&recv)));
        self.net.close_recv(recv)?;
        ended
    }

    /// Closes the listener; the accepted comm stays open.
    pub(super) fn close_listener(&mut self) -> Checked<()> {
        match self.listen.take() {
            Some(listen) => Ok(self.net.close_listen(listen)?),
            None => Ok(()),
        }
    }

    /// Closes everything; returns the first error.
    pub(super) fn close(mut self) -> Checked<()> {
        let ends = [
            self.close_sender(),
            self.close_receiver(),
            self.close_listener(),
        ];
        ends.into_iter().collect()
    }
}

fn closed(what: &str) -> Shortfall {
    Shortfall::Broken(format!(
        "selftest bug: the {what} does not exist or is already closed"
    ))
}
