//! A connected pair: both ends of one connection in this process, a registered
//! buffer on each, and the messages in flight between them.
//!
//! Message `k` uses slot `k` modulo the number of slots on both ends and carries
//! pattern `k`. Whatever happens to a row, dropping the pair closes everything,
//! comms before the memory that their requests point to.
#![forbid(unsafe_code)]

use super::subject::{Checked, PATIENCE, Shortfall, Subject, owe, poll};
use crate::gpu::{DeviceMemory, HostMemory, MemoryKind, Region, Scatter, ScatterSource, Span};
use crate::plugin::{Comm, Connecting, ListenComm, MHandle, Net, PluginResult, RecvComm, Request, SendComm};
use crate::transfer::{Pattern, StampId};
use std::collections::VecDeque;
use std::sync::Arc;
use tcpx_abi::unpack::{ENTRIES, LoadMeta};

/// What every byte of a receive buffer is before something arrives.
pub(super) const CANARY: u8 = 0xc5;
/// Bytes after each slot that nobody may write.
const GUARD: usize = 4096;
const SEED: u64 = 0x7c9c_7b01;

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

/// A registered buffer, cut into slots.
struct Buffer {
    region: Arc<Region>,
    mhandle: Option<MHandle>,
    stride: usize,
    slots: usize,
}

impl Buffer {
    fn span(&self, message: usize, len: usize) -> Checked<Span> {
        let span = self.region.span(message % self.slots * self.stride, len);
        span.ok_or_else(|| Shortfall::Broken(format!("a row of the suite wants {len} bytes of a smaller slot")))
    }

    fn mhandle(&self) -> Checked<&MHandle> {
        self.mhandle.as_ref().ok_or_else(|| closed("registration"))
    }

    fn bytes<R>(&self, span: Span, f: impl FnOnce(&mut [u8]) -> R) -> Checked<R> {
        let lent = self.region.with_bytes(span, f);
        lent.ok_or_else(|| Shortfall::Broken("a row of the suite reaches outside its buffer".into()))
    }
}

fn closed(what: &str) -> Shortfall {
    Shortfall::Broken(format!("a row of the suite uses a {what} that it does not have"))
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
    pattern: Pattern,
    posted: [u64; 2],
    /// Posted sends, oldest first.
    pub(super) sends: VecDeque<Posted>,
    /// Posted receives, oldest first.
    pub(super) receives: VecDeque<Posted>,
    /// Receives that are done and not handed back, oldest first.
    pub(super) done: VecDeque<Posted>,
}

impl<'a> Pair<'a> {
    /// A listener and a connector that have not spoken yet.
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
            pattern: Pattern::new(SEED),
            posted: [0; 2],
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            done: VecDeque::new(),
        })
    }

    /// Asks connect and accept once each; whether both have answered.
    pub(super) fn step(&mut self) -> Checked<bool> {
        self.step_connect()?;
        self.step_accept()?;
        Ok(self.send.is_some() && self.recv.is_some())
    }

    /// Asks connect once, unless it has answered.
    pub(super) fn step_connect(&mut self) -> Checked<()> {
        if self.send.is_none() {
            self.send = self.net.connect(self.device, &mut self.connecting)?;
        }
        Ok(())
    }

    /// Asks accept once, unless it has answered; whether it has.
    pub(super) fn step_accept(&mut self) -> Checked<bool> {
        if self.recv.is_none() {
            let listen = self.listen.as_mut().ok_or_else(|| closed("listener"))?;
            self.recv = self.net.accept(listen)?;
        }
        Ok(self.recv.is_some())
    }

    /// Connected, without buffers.
    pub(super) fn connect(subject: &Subject<'a>) -> Checked<Self> {
        let mut pair = Self::start(subject)?;
        pair.finish_connect(subject)?;
        Ok(pair)
    }

    /// Until both ends stand.
    pub(super) fn finish_connect(&mut self, subject: &Subject<'a>) -> Checked<()> {
        poll("connect and accept", subject.connect_patience(), || Ok(self.step()?.then_some(())))
    }

    /// Connected, with `slots` slots of `len` bytes in host memory on each end.
    pub(super) fn on_host(subject: &Subject<'a>, slots: usize, len: usize) -> Checked<Self> {
        let mut pair = Self::connect(subject)?;
        pair.allocate(HostMemory::host(), slots, len)?;
        Ok(pair)
    }

    /// The same in memory that passes for a GPU's.
    pub(super) fn on_stand_in(subject: &Subject<'a>, slots: usize, len: usize) -> Checked<Self> {
        let memory = subject.stand_in()?;
        let mut pair = Self::connect(subject)?;
        pair.allocate(memory, slots, len)?;
        Ok(pair)
    }

    pub(super) fn allocate(&mut self, memory: HostMemory, slots: usize, len: usize) -> Checked<()> {
        let stride = len.next_multiple_of(GUARD) + GUARD;
        let buffer = |comm: Comm<'_>| -> Checked<Buffer> {
            let region = memory.allocate(stride * slots)?;
            let mhandle = self.net.reg_mr(comm, &region, 0, region.len())?;
            Ok(Buffer { region, mhandle: Some(mhandle), stride, slots })
        };
        let from = buffer(Comm::Send(self.sender()?))?;
        let into = buffer(Comm::Recv(self.receiver()?));
        // Kept even when the other side's failed, so that closing ends it.
        self.outgoing = Some(from);
        self.incoming = Some(into?);
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

    fn incoming(&self) -> Checked<&Buffer> {
        self.incoming.as_ref().ok_or_else(|| closed("receive buffer"))
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

    /// Writes message `k` and posts it once.
    pub(super) fn try_send(&mut self, message: usize, len: usize) -> Checked<PluginResult<bool>> {
        let (span, _) = self.source(message, len)?;
        self.outgoing()?.bytes(span, |bytes| self.pattern.fill(id(message), bytes))?;
        let answer = self.net.isend(self.sender()?, span, self.outgoing()?.mhandle()?);
        Ok(answer.map(|request| {
            let nth = self.posted[0];
            self.posted[0] += u64::from(request.is_some());
            self.sends.extend(request.map(|request| Posted { request, message, len, nth }));
            request.is_some()
        }))
    }

    /// Blanks the place of message `k`, its guard included, and posts a receive once.
    pub(super) fn try_receive(&mut self, message: usize, len: usize) -> Checked<PluginResult<bool>> {
        let (span, _) = self.destination(message, len)?;
        let into = self.incoming()?;
        into.bytes(into.span(message, into.stride)?, |bytes| bytes.fill(CANARY))?;
        let answer = self.net.irecv(self.receiver()?, span, into.mhandle()?);
        Ok(answer.map(|request| {
            let nth = self.posted[1];
            self.posted[1] += u64::from(request.is_some());
            self.receives.extend(request.map(|request| Posted { request, message, len, nth }));
            request.is_some()
        }))
    }

    /// Posts message `k`; what is in flight goes on meanwhile.
    pub(super) fn send(&mut self, message: usize, len: usize) -> Checked<()> {
        poll("isend accepts a send", PATIENCE, || {
            let posted = self.try_send(message, len)??;
            if !posted {
                self.drive()?;
            }
            Ok(posted.then_some(()))
        })
    }

    /// Posts a receive for message `k`; what is in flight goes on meanwhile.
    pub(super) fn receive(&mut self, message: usize, len: usize) -> Checked<()> {
        poll("irecv accepts a receive", PATIENCE, || {
            let posted = self.try_receive(message, len)??;
            if !posted {
                self.drive()?;
            }
            Ok(posted.then_some(()))
        })
    }

    /// Tests the oldest send, if any; whether it finished.
    pub(super) fn test_send(&mut self) -> Checked<bool> {
        let Some(oldest) = self.sends.front() else { return Ok(false) };
        let done = self.net.test(oldest.request)?.done;
        if done {
            self.sends.pop_front();
        }
        Ok(done)
    }

    /// Tests the oldest receive, if any; whether it finished.
    pub(super) fn test_receive(&mut self) -> Checked<bool> {
        let Some(oldest) = self.receives.front() else { return Ok(false) };
        let done = self.net.test(oldest.request)?.done;
        if done {
            self.done.extend(self.receives.pop_front());
        }
        Ok(done)
    }

    /// Tests the oldest request of each end; whether any finished.
    pub(super) fn drive(&mut self) -> Checked<bool> {
        let received = self.test_receive()?;
        Ok(self.test_send()? || received)
    }

    /// Until everything that is posted is done.
    pub(super) fn finish(&mut self) -> Checked<()> {
        let (sends, receives) = (self.sends.len(), self.receives.len());
        let what = format!("{sends} sends and {receives} receives become done");
        poll(&what, PATIENCE, || {
            while self.drive()? {}
            Ok((self.sends.is_empty() && self.receives.is_empty()).then_some(()))
        })
    }

    /// Hands the oldest finished receive back, where the plugin wants that.
    pub(super) fn hand_back(&mut self) -> Checked<()> {
        if let Some(oldest) = self.done.pop_front()
            && self.hands_back
        {
            self.net.irecv_consumed(self.receiver()?, oldest.request)?;
        }
        Ok(())
    }

    /// Compares the whole of message `k` with what was sent, and that nothing
    /// lies behind it.
    pub(super) fn verify(&self, message: usize, len: usize) -> Checked<()> {
        let into = self.incoming()?;
        let mismatch = into.bytes(into.span(message, len)?, |bytes| self.pattern.verify(id(message), bytes))?;
        if let Some(found) = mismatch {
            return Err(Shortfall::Broken(format!(
                "message {message} of {len} bytes differs from byte {} on, {} bytes wrong ({:?})",
                found.offset, found.wrong_bytes, found.kind
            )));
        }
        self.blank_from(message, len)
    }

    /// That the place of message `k` is untouched from byte `from` on, its guard included.
    pub(super) fn blank_from(&self, message: usize, from: usize) -> Checked<()> {
        let into = self.incoming()?;
        let whole = into.span(message, into.stride)?;
        let written = into.bytes(whole, |bytes| bytes[from..].iter().position(|byte| *byte != CANARY))?;
        owe(written.is_none(), || {
            format!("byte {} behind message {message} was written", from + written.unwrap_or_default())
        })
    }

    /// Whether receives land in pages and must be unpacked.
    pub(super) fn unpacks(&self) -> bool {
        self.incoming.as_ref().is_some_and(|into| into.region.kind() == MemoryKind::Device)
    }

    /// Where the receiving end publishes its scatter lists.
    pub(super) fn scatter(&self) -> Checked<ScatterSource> {
        let handle = self.receiver()?.device_handle().ok_or_else(|| closed("device handle"))?;
        ScatterSource::from_host_handle(handle).map_err(|error| Shortfall::Broken(error.to_string()))
    }

    /// Copies a finished receive from its pages into place; how many fragments.
    pub(super) fn unpack(&self, posted: Posted) -> Checked<usize> {
        let source = self.scatter()?;
        let mut scratch = scratch();
        let list = read_list(&source, posted, posted.len, &mut scratch)?;
        self.gather(&list, posted)?;
        Ok(list.len())
    }

    /// Copies what a scatter list points to now into the message's place.
    pub(super) fn gather(&self, list: &Scatter<'_>, posted: Posted) -> Checked<()> {
        let into = self.incoming()?;
        into.bytes(into.span(posted.message, posted.len)?, |bytes| list.copy_into(bytes))
    }

    /// Ends the sender's registration and closes it.
    pub(super) fn close_sender(&mut self) -> Checked<()> {
        self.sends.clear();
        let Some(send) = self.send.take() else { return Ok(()) };
        let ended = end(self.net, Comm::Send(&send), self.outgoing.as_mut());
        self.net.close_send(send)?;
        ended
    }

    /// Ends the receiver's registration and closes it.
    pub(super) fn close_receiver(&mut self) -> Checked<()> {
        self.receives.clear();
        self.done.clear();
        let Some(recv) = self.recv.take() else { return Ok(()) };
        let ended = end(self.net, Comm::Recv(&recv), self.incoming.as_mut());
        self.net.close_recv(recv)?;
        ended
    }

    /// Closes the listener; the accepted comm lives on.
    pub(super) fn close_listener(&mut self) -> Checked<()> {
        match self.listen.take() {
            Some(listen) => Ok(self.net.close_listen(listen)?),
            None => Ok(()),
        }
    }

    /// Closes all; the first refusal is broken.
    pub(super) fn close(mut self) -> Checked<()> {
        let ends = [self.close_sender(), self.close_receiver(), self.close_listener()];
        ends.into_iter().collect()
    }
}

fn end(net: &dyn Net, comm: Comm<'_>, buffer: Option<&mut Buffer>) -> Checked<()> {
    match buffer.and_then(|buffer| buffer.mhandle.take()) {
        Some(mhandle) => Ok(net.dereg_mr(comm, mhandle)?),
        None => Ok(()),
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        // A row that got here early has its own story; what closing adds is lost.
        let _ = self.close_sender();
        let _ = self.close_receiver();
        let _ = self.close_listener();
    }
}

/// Room for a scatter list.
pub(super) fn scratch() -> Box<[LoadMeta; ENTRIES]> {
    Box::new([LoadMeta::default(); ENTRIES])
}

/// The scatter list of a finished receive, checked against the `len` bytes sent.
pub(super) fn read_list<'a>(
    source: &'a ScatterSource,
    posted: Posted,
    len: usize,
    scratch: &'a mut [LoadMeta; ENTRIES],
) -> Checked<Scatter<'a>> {
    source.read(posted.nth, len as u64, scratch).map_err(|error| Shortfall::Broken(error.to_string()))
}

fn id(message: usize) -> StampId {
    StampId { iteration: 1, channel: 0, chunk: message as u64 }
}

/// Moves one message per size through windows of `depth`, each compared byte for
/// byte; how many bytes.
pub(super) fn exchange(pair: &mut Pair<'_>, sizes: &[usize], depth: usize) -> Checked<u64> {
    let (mut sent, mut posted, mut received) = (0, 0, 0);
    poll(&format!("{} messages arrive", sizes.len()), 2 * PATIENCE, || {
        loop {
            let before = (sent, posted, received);
            while posted < sizes.len() && posted < received + depth && pair.try_receive(posted, sizes[posted])?? {
                posted += 1;
            }
            while sent < sizes.len() && pair.sends.len() < depth && pair.try_send(sent, sizes[sent])?? {
                sent += 1;
            }
            let moved = pair.drive()?;
            while let Some(oldest) = pair.done.front().copied() {
                if pair.unpacks() && oldest.len > 0 {
                    pair.unpack(oldest)?;
                }
                pair.verify(oldest.message, oldest.len)?;
                pair.hand_back()?;
                received += 1;
            }
            if received == sizes.len() && sent == sizes.len() && pair.sends.is_empty() {
                return Ok(Some(()));
            }
            if !moved && before == (sent, posted, received) {
                return Ok(None);
            }
        }
    })?;
    Ok(sizes.iter().map(|size| *size as u64).sum())
}
