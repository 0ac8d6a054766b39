//! What is written down for each kind of call, the same for every version.
//!
//! The inner call comes as a closure and is made exactly once, whatever is
//! known about the comm or request it is about.
#![expect(unsafe_code, reason = "reads the caller's out-parameters")]

use crate::pointers::{Found, Kind, Meaning, Pointers};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use tcpx_abi::ResultCode;
use tcpx_recorder::format::{Call, POSTS, Role};
use tcpx_recorder::{Key, Opening, Recorder, Slot};

/// The tap's own knowledge, for an engine that lives in the same process.
#[derive(Debug, Clone, Copy)]
pub struct Tap {
    pub(crate) book: &'static Book,
}

impl Tap {
    /// Which slot an open comm has; `None` for a comm that is closed, was not
    /// made through this tap, or found no slot.
    pub fn key(&self, comm: *mut c_void) -> Option<Key> {
        self.book.comm(comm).map(|found| found.meaning.key())
    }

    /// Gives a channel the engine's own number, the same on both sides of a run.
    pub fn set_channel(&self, key: Key, channel: u32) {
        self.book.recorder.set_channel(key, channel);
    }

    /// One finished receive's payload was moved to its place. Called by the
    /// thread that drives the comm.
    #[inline]
    pub fn unpacked(&self, key: Key) {
        self.book.recorder.unpacked(key);
    }

    /// Where everything is written.
    pub fn recorder(&self) -> &'static Arc<Recorder> {
        &self.book.recorder
    }
}

/// A recorder, and which slot each pointer of the plugin belongs to.
#[derive(Debug)]
pub struct Book {
    recorder: Arc<Recorder>,
    comms: Pointers,
    requests: Pointers,
}

/// Request pointers per slot that the table has room for: 2 KiB per slot. A comm
/// keeps at most this many, TCPX's 16, and listen comms have none, so windows
/// are practically never full.
const REQUESTS_PER_SLOT: usize = POSTS;

impl Book {
    pub fn new(recorder: Arc<Recorder>) -> Self {
        let slots = recorder.capacity() as usize;
        Self { comms: Pointers::new(slots, 2), requests: Pointers::new(slots, REQUESTS_PER_SLOT), recorder }
    }

    #[inline]
    fn comm(&self, comm: *mut c_void) -> Option<Found<'_>> {
        self.comms.find(comm.addr(), &self.recorder)
    }

    /// A call that belongs to no comm.
    pub fn setup(&self, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        self.recorder.enter_setup(call);
        let code = inner();
        self.recorder.leave_setup(call, code);
        code
    }

    /// A call on a comm that changes nothing in its channel.
    pub fn on_comm(&self, comm: *mut c_void, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        match self.comm(comm) {
            Some(found) => self.inside(found.slot, call, inner),
            None => self.setup(call, inner),
        }
    }

    #[inline]
    fn inside(&self, slot: &Slot, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        let token = slot.enter(call);
        let code = inner();
        slot.leave(token);
        if code != 0 {
            self.failed(slot, call, code);
        }
        code
    }

    #[cold]
    fn failed(&self, slot: &Slot, call: Call, code: ResultCode) {
        slot.error(call, code, self.recorder.now_ns());
    }

    /// `listen` and `connect`: a comm may appear in `*comm`.
    ///
    /// # Safety
    /// `comm` is what the caller of the plugin gave to be written.
    pub unsafe fn appears(
        &self,
        call: Call,
        role: Role,
        device: c_int,
        comm: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let code = self.setup(call, inner);
        // SAFETY: as promised to this function.
        if let Some(comm) = unsafe { delivered(code, comm) } {
            self.opened(Opening { role, device, comm: comm.addr(), retires_consumed: false });
        }
        code
    }

    /// `accept`: a receive comm may appear in `*comm`. `unpacks` says, once it
    /// has, whether receives must be consumed.
    ///
    /// # Safety
    /// `comm` is what the caller of the plugin gave to be written.
    pub unsafe fn accept(
        &self,
        listener: *mut c_void,
        comm: *mut *mut c_void,
        unpacks: impl FnOnce() -> bool,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(Found { slot, .. }) = self.comm(listener) else {
            // SAFETY: as promised to this function.
            return unsafe { self.appears(Call::Accept, Role::Recv, -1, comm, inner) };
        };
        let device = slot.device();
        slot.tested();
        let code = self.inside(slot, Call::Accept, inner);
        // SAFETY: as promised to this function.
        if let Some(comm) = unsafe { delivered(code, comm) } {
            let retires_consumed = unpacks();
            self.opened(Opening { role: Role::Recv, device, comm: comm.addr(), retires_consumed });
        } else if code == 0 {
            slot.not_done();
        }
        code
    }

    fn opened(&self, opening: Opening) {
        if let Some(old) = self.comms.find(opening.comm, &self.recorder) {
            // The plugin gives the pointer out again, so that comm is gone.
            self.recorder.close(old.meaning.key());
        }
        if let Some(key) = self.recorder.open(&opening) {
            match self.comms.reserve(opening.comm, key, &self.recorder) {
                Some(place) => place.publish(Meaning::of_comm(key, Kind::Comm)),
                None => self.recorder.close(key),
            }
        }
    }

    /// Any of the three closes. The pointer is forgotten before the plugin can
    /// give it out again; the slot stays marked as inside the call until it returns.
    pub fn close(&self, comm: *mut c_void, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        let Some(found) = self.comm(comm) else { return self.setup(call, inner) };
        found.forget();
        let code = self.inside(found.slot, call, inner);
        self.recorder.close(found.meaning.key());
        code
    }

    /// `isend` and `irecv`: a request of `bytes` in `grouped` buffers may appear
    /// in `*request`.
    ///
    /// # Safety
    /// `request` is what the caller of the plugin gave to be written.
    #[inline]
    pub unsafe fn post(
        &self,
        comm: *mut c_void,
        post: Post,
        request: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let found = self.comm(comm);
        let code = match found {
            Some(Found { slot, .. }) => self.inside(slot, post.call(), inner),
            None => self.setup(post.call(), inner),
        };
        // SAFETY: as promised to this function.
        match (found, unsafe { delivered(code, request) }) {
            (Some(channel), Some(request)) if self.follow(channel, post, request) => {}
            (_, Some(request)) => self.untracked(request),
            (Some(Found { slot, .. }), None) if code == 0 => slot.null_request(),
            _ => {}
        }
        code
    }

    #[inline(always)]
    fn follow(&self, Found { meaning: comm, slot, .. }: Found<'_>, post: Post, request: *mut c_void) -> bool {
        let Some(number) = slot.next_request() else { return false };
        let Some(place) = self.requests.reserve(request.addr(), comm.key(), &self.recorder) else { return false };
        self.requests.keep(&place, comm.key(), number);
        slot.post(post.bytes, self.recorder.now_ns());
        place.publish(Meaning::request(comm.key(), post.kind, number, post.grouped));
        true
    }

    /// A request that cannot be followed. What its pointer meant before, it
    /// means no longer.
    #[cold]
    fn untracked(&self, request: *mut c_void) {
        self.forget(request);
        self.recorder.untracked_request();
    }

    #[cold]
    fn forget(&self, request: *mut c_void) {
        if let Some(found) = self.requests.find(request.addr(), &self.recorder) {
            found.forget();
        }
    }

    /// `iflush`. Where receives are consumed it makes no request: TCPX's reads
    /// the size of the one it is given.
    ///
    /// # Safety
    /// `request` is what the caller of the plugin gave to be written.
    pub unsafe fn flush(
        &self,
        comm: *mut c_void,
        request: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(Found { meaning: channel, slot, .. }) = self.comm(comm) else {
            return self.setup(Call::Iflush, inner);
        };
        let code = self.inside(slot, Call::Iflush, inner);
        // SAFETY: as promised to this function.
        if let (Some(request), false) = (unsafe { delivered(code, request) }, slot.retires_consumed()) {
            match self.requests.reserve(request.addr(), channel.key(), &self.recorder) {
                Some(place) => {
                    slot.flush(self.recorder.now_ns());
                    place.publish(Meaning::of_comm(channel.key(), Kind::Flush));
                }
                None => self.untracked(request),
            }
        }
        code
    }

    /// `test`.
    ///
    /// # Safety
    /// `done` and `sizes` are what the caller of the plugin gave to be written.
    #[inline]
    pub unsafe fn test(
        &self,
        request: *mut c_void,
        done: *mut c_int,
        sizes: *mut c_int,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(Found { meaning, slot, .. }) = self.requests.find(request.addr(), &self.recorder) else {
            self.recorder.unknown_request();
            return inner();
        };
        slot.tested();
        let code = self.inside(slot, Call::Test, inner);
        if code == 0 {
            // SAFETY: as promised to this function.
            match unsafe { read(done) } {
                None | Some(0) => slot.not_done(),
                Some(_) if meaning.kind() == Kind::Flush => self.forget(request),
                // SAFETY: as promised to this function.
                Some(_) => unsafe { self.finished(meaning, slot, sizes) },
            }
        }
        code
    }

    /// # Safety
    /// `sizes` is null or holds as many numbers as the request had buffers.
    #[inline(never)]
    unsafe fn finished(&self, meaning: Meaning, slot: &Slot, sizes: *const c_int) {
        let received = match meaning.kind() {
            // SAFETY: as promised to this function.
            Kind::Recv if !sizes.is_null() => Some(unsafe { sum(sizes, meaning.grouped()) }),
            _ => None,
        };
        slot.finish(meaning.number(), received, self.recorder.now_ns());
    }

    /// `irecvConsumed`.
    pub fn consumed(&self, comm: *mut c_void, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        let Some(Found { slot, .. }) = self.comm(comm) else { return self.setup(Call::IrecvConsumed, inner) };
        let code = self.inside(slot, Call::IrecvConsumed, inner);
        if code == 0 && (slot.retires_consumed() || slot.is_recv()) {
            slot.consume(self.recorder.now_ns());
        }
        code
    }
}

/// One `isend` or `irecv`, as asked for.
#[derive(Debug, Clone, Copy)]
pub struct Post {
    kind: Kind,
    bytes: u64,
    grouped: u8,
}

impl Post {
    /// An `isend` of `size` bytes.
    #[inline]
    pub fn send(size: c_int) -> Self {
        Self { kind: Kind::Send, bytes: u64::try_from(size).unwrap_or(0), grouped: 1 }
    }

    /// An `irecv` into `n` buffers.
    ///
    /// # Safety
    /// `sizes` is null or points to `n` numbers.
    #[inline]
    pub unsafe fn recv(n: c_int, sizes: *const c_int) -> Self {
        let grouped = n.clamp(0, c_int::from(u8::MAX)) as u8;
        // SAFETY: as promised to this function.
        let bytes = if sizes.is_null() { 0 } else { unsafe { sum(sizes, grouped) } };
        Self { kind: Kind::Recv, bytes, grouped }
    }

    #[inline]
    fn call(self) -> Call {
        if self.kind == Kind::Send { Call::Isend } else { Call::Irecv }
    }
}

/// # Safety
/// `sizes` points to `count` numbers.
#[inline]
unsafe fn sum(sizes: *const c_int, count: u8) -> u64 {
    (0..usize::from(count)).fold(0, |sum, at| {
        // SAFETY: below `count`.
        let place = unsafe { sizes.add(at) };
        // SAFETY: the caller of the plugin owns it, see above.
        let size = unsafe { place.read() };
        sum + u64::try_from(size).unwrap_or(0)
    })
}

/// The comm or request that a call with this `code` delivered, if it did.
///
/// # Safety
/// `place` is null or, after success, readable.
#[inline]
unsafe fn delivered(code: ResultCode, place: *const *mut c_void) -> Option<*mut c_void> {
    if code != 0 {
        return None;
    }
    // SAFETY: as promised to this function.
    unsafe { read(place) }.filter(|pointer| !pointer.is_null())
}

/// What an out-parameter holds; `None` where the caller gave no place.
///
/// # Safety
/// The pointer is null or readable.
#[inline]
unsafe fn read<T: Copy>(place: *const T) -> Option<T> {
    // SAFETY: not null, so readable.
    (!place.is_null()).then(|| unsafe { place.read() })
}
