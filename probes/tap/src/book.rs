//! Records each kind of call, in the same way for every ABI version.
//!
//! The plugin's call is passed as a closure and made exactly once, even if its comm or request
//! is unknown.
#![expect(unsafe_code, reason = "reads the caller's out-parameters")]

use crate::pointers::{Found, Kind, Meaning, Pointers};
use crate::settings::report;
use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use tcpx_abi::device_handle::DeviceHandle;
use tcpx_abi::foreign::copy_string;
use tcpx_abi::uncaught::ends_here;
use tcpx_abi::{NET_DEVICE_UNPACK, ResultCode};
use tcpx_recorder::format::{Call, EventKind, OperationKind, POSTS, Role};
use tcpx_recorder::{
    Address, Addresses, Device, Key, LogLine, Note, Opening, Recorder, SOCKADDR_BYTES, Settled,
    Slot,
};

/// Access to a tap's recorder, for an engine in the same process.
#[derive(Debug, Clone, Copy)]
pub struct Tap {
    pub(crate) book: &'static Book,
}

impl Tap {
    /// The key of an open comm's slot. `None` if the comm is closed, was not created through
    /// this tap, or got no slot.
    pub fn key(&self, comm: *mut c_void) -> Option<Key> {
        self.book.comm(comm).map(|found| found.meaning.key())
    }

    /// Sets the engine's channel number, which is the same on both sides of a run.
    pub fn set_channel(&self, key: Key, channel: u32) {
        self.book.recorder.set_channel(key, channel);
    }

    /// Sets the connection of an endpoint that the comm is part of, from 1 on.
    pub fn set_connection(&self, key: Key, connection: u64) {
        self.book.recorder.set_connection(key, connection);
    }

    /// Sets the operation whose message is posted next. Call from the thread that drives the comm.
    #[inline]
    pub fn set_operation(&self, key: Key, kind: OperationKind, number: u64) {
        self.book.recorder.set_operation(key, kind, number);
    }

    /// Counts a finished receive that needs no unpacking as unpacked. Call from the thread that
    /// drives the comm.
    #[inline]
    pub fn in_place(&self, key: Key) {
        self.book.recorder.in_place(key);
    }

    /// Records that a finished receive was unpacked or verified. Call from the thread that
    /// drives the comm.
    #[inline]
    pub fn unpacked(&self, key: Key) {
        self.book.recorder.unpacked(key);
    }

    /// The recorder that the tap writes to.
    pub fn recorder(&self) -> &'static Arc<Recorder> {
        &self.book.recorder
    }
}

/// A recorder, and the table from the plugin's pointers to slots.
#[derive(Debug)]
pub(crate) struct Book {
    recorder: Arc<Recorder>,
    comms: Pointers,
    requests: Pointers,
}

/// Request pointers per slot in the table, 2 KiB per slot. A comm keeps at most this many, 16
/// with TCPX, and listen comms have none, so search windows are practically never full.
const REQUESTS_PER_SLOT: usize = POSTS;

impl Book {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        let slots = recorder.capacity() as usize;
        Self {
            comms: Pointers::new(slots, 2),
            requests: Pointers::new(slots, REQUESTS_PER_SLOT),
            recorder,
        }
    }

    #[inline]
    fn comm(&self, comm: *mut c_void) -> Option<Found<'_>> {
        self.comms.find(comm.addr(), &self.recorder)
    }

    /// Records a log line of the plugin.
    pub(crate) fn log(&self, line: &LogLine<'_>) {
        self.recorder.log(line);
    }

    /// Makes and records a call that belongs to no comm.
    pub(crate) fn setup(&self, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        self.settle();
        let token = self.recorder.enter_setup(call);
        let code = ends_here(inner);
        self.recorder.leave_setup(token, code, true);
        code
    }

    /// Makes and records a call on an unknown comm or request. There may be many, so only
    /// failures become events.
    fn unknown(&self, call: Call, inner: impl FnOnce() -> ResultCode) -> ResultCode {
        self.inside_or_unknown(None, call, inner)
    }

    /// In a forked child, drops all pointers, which belong to the parent's file.
    fn settle(&self) {
        if self.recorder.settle() == Settled::Moved {
            self.comms.clear();
            self.requests.clear();
            report(&format!("recording {}", self.recorder.path().display()));
        }
    }

    /// Makes and records a call on a comm that does not change the channel.
    pub(crate) fn on_comm(
        &self,
        comm: *mut c_void,
        call: Call,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(found) = self.comm(comm) else {
            return self.unknown(call, inner);
        };
        let entered_ns = self.recorder.now_ns();
        let code = self.inside(&found, call, || ends_here(inner));
        if code == 0 {
            let now_ns = self.recorder.now_ns();
            self.event(
                &found,
                now_ns,
                &Note::called(call, now_ns.saturating_sub(entered_ns)),
            );
        }
        code
    }

    #[inline]
    fn inside(
        &self,
        found: &Found<'_>,
        call: Call,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        self.inside_or_unknown(Some(found), call, inner)
    }

    /// As `inside` for a known comm or request, otherwise as `unknown`. It calls `inner` in one place: a closure
    /// that is called in two takes its arguments through memory.
    #[inline(always)]
    fn inside_or_unknown(
        &self,
        found: Option<&Found<'_>>,
        call: Call,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let token = match found {
            Some(found) => Ok(found.slot.enter(call)),
            None => Err(self.recorder.enter_setup(call)),
        };
        let code = inner();
        match (token, found) {
            (Ok(token), Some(found)) => {
                found.slot.leave(token);
                if code != 0 {
                    self.failed(found, call, code);
                }
            }
            (Err(token), _) => self.recorder.leave_setup(token, code, false),
            (Ok(_), None) => {}
        }
        code
    }

    #[cold]
    fn failed(&self, found: &Found<'_>, call: Call, code: ResultCode) {
        self.recorder.failed(
            found.meaning.key().index,
            found.slot,
            call,
            code,
            found.meaning.number(),
        );
    }

    #[inline]
    fn event(&self, found: &Found<'_>, at_ns: u64, note: &Note) {
        self.recorder
            .event(found.meaning.key().index, found.slot, at_ns, note);
    }

    /// Records the properties of a device. Their string pointers may be invalid.
    pub(crate) fn device(&self, index: c_int, raw: &RawDevice) {
        let (mut name, mut path) = ([0; 256], [0; 1024]);
        let name = text(raw.name, &mut name);
        let path = text(raw.pci_path, &mut path);
        let device = Device {
            name: &name,
            pci: path.rsplit('/').next().unwrap_or_default(),
            speed_mbit: raw.speed_mbit,
            ptr_support: raw.ptr_support,
            device_type: raw.device_type,
        };
        if let Ok(index) = usize::try_from(index) {
            // If the write fails, the device's properties are missing.
            let _ = self.recorder.set_device(index, &device);
        }
    }

    /// Makes and records `listen` or `connect`, which may write a comm to `*comm`.
    ///
    /// # Safety
    /// `comm` is what the caller of the plugin gave to be written, `handle` the
    /// connect handle: null, or as many bytes as the ABI says.
    pub(crate) unsafe fn appears(
        &self,
        call: Call,
        device: c_int,
        handle: *const c_void,
        comm: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        self.settle();
        let (code, comm) = if call == Call::Connect {
            // SAFETY: as promised to this function; the caller of `connect` has filled the handle.
            let token = self.recorder.enter_connect(unsafe { address(handle, 0) });
            let code = ends_here(inner);
            // SAFETY: as promised to this function.
            let comm = unsafe { delivered(code, comm) };
            self.recorder.leave_connect(token, code, comm.is_some());
            (code, comm)
        } else {
            let token = self.recorder.enter_setup(call);
            let code = ends_here(inner);
            // SAFETY: as promised to this function.
            let comm = unsafe { delivered(code, comm) };
            self.recorder.leave_setup(token, code, comm.is_some());
            (code, comm)
        };
        if let Some(comm) = comm {
            // SAFETY: as promised to this function.
            let listener = unsafe { address(handle, 0) };
            // SAFETY: as promised to this function.
            let ctrl = unsafe { address(handle, CTRL_AT) };
            let (role, addresses) = match call {
                Call::Listen => (
                    Role::Listen,
                    Addresses {
                        local: listener,
                        peer: None,
                        ctrl,
                    },
                ),
                _ => (
                    Role::Send,
                    Addresses {
                        local: None,
                        peer: listener,
                        ctrl,
                    },
                ),
            };
            self.opened(Opening {
                role,
                device,
                comm: comm.addr(),
                retires_consumed: false,
                addresses,
            });
        }
        code
    }

    /// Makes and records `accept`, which may write a receive comm to `*comm`. `unpacks` then
    /// tells whether its receives must be consumed.
    ///
    /// # Safety
    /// `comm` is what the caller of the plugin gave to be written.
    pub(crate) unsafe fn accept(
        &self,
        listener: *mut c_void,
        comm: *mut *mut c_void,
        unpacks: impl FnOnce() -> bool,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let found = self.comm(listener);
        if let Some(found) = &found {
            found.slot.tested();
        }
        let code = self.inside_or_unknown(found.as_ref(), Call::Accept, inner);
        // SAFETY: as promised to this function.
        match (unsafe { delivered(code, comm) }, found) {
            (Some(comm), found) => {
                self.settle();
                self.opened(Opening {
                    role: Role::Recv,
                    device: found.map_or(-1, |found| found.slot.device()),
                    comm: comm.addr(),
                    retires_consumed: unpacks(),
                    addresses: found
                        .map(|found| found.slot.addresses())
                        .unwrap_or_default(),
                });
            }
            (None, Some(found)) if code == 0 => found.slot.not_done(|| self.recorder.now_ns()),
            _ => {}
        }
        code
    }

    fn opened(&self, opening: Opening) {
        if let Some(old) = self.comms.find(opening.comm, &self.recorder) {
            // The plugin reused the pointer, so its previous comm no longer exists.
            self.recorder.close(old.meaning.key(), Call::CloseRecv);
        }
        if let Some(key) = self.recorder.open(&opening) {
            match self.comms.reserve(opening.comm, key, &self.recorder) {
                Some(place) => place.publish(Meaning::of_comm(key, Kind::Comm)),
                None => self.recorder.close(key, Call::CloseRecv),
            }
        }
    }

    /// Makes and records a close. The pointer is forgotten before the plugin can reuse it; the
    /// slot stays marked as inside the call until the call returns.
    pub(crate) fn close(
        &self,
        comm: *mut c_void,
        call: Call,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(found) = self.comm(comm) else {
            return self.unknown(call, inner);
        };
        found.forget();
        let code = self.inside(&found, call, || ends_here(inner));
        self.recorder.close(found.meaning.key(), call);
        code
    }

    /// Makes and records `isend` or `irecv`, which may write a request to `*request`.
    ///
    /// # Safety
    /// `request` is what the caller of the plugin gave to be written.
    #[inline]
    pub(crate) unsafe fn post(
        &self,
        comm: *mut c_void,
        post: Post,
        request: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let found = self.comm(comm);
        let code = self.inside_or_unknown(found.as_ref(), post.call(), inner);
        // SAFETY: as promised to this function.
        match (found, unsafe { delivered(code, request) }) {
            (Some(channel), Some(request)) if self.follow(&channel, post, request) => {}
            (_, Some(request)) => self.untracked(request),
            (Some(Found { slot, .. }), None) if code == 0 => slot.null_request(),
            _ => {}
        }
        code
    }

    #[inline(always)]
    fn follow(&self, found: &Found<'_>, post: Post, request: *mut c_void) -> bool {
        let (key, slot) = (found.meaning.key(), found.slot);
        let Some(number) = slot.next_request() else {
            return false;
        };
        let Some(place) = self.requests.reserve(request.addr(), key, &self.recorder) else {
            return false;
        };
        self.requests.keep(&place, key, number);
        let at_ns = slot.post(post.bytes, self.recorder.now_ns());
        place.publish(Meaning::request(key, post.kind, number, post.grouped));
        self.event(
            found,
            at_ns,
            &Note::request(EventKind::Posted, post.call(), number, post.bytes),
        );
        true
    }

    /// Counts a request that cannot be tracked. Its pointer's previous meaning is dropped.
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

    /// Makes and records `iflush`. If receives must be consumed it returns no new request:
    /// TCPX's `iflush` reads the size of the request it is given.
    ///
    /// # Safety
    /// `request` is what the caller of the plugin gave to be written.
    pub(crate) unsafe fn flush(
        &self,
        comm: *mut c_void,
        request: *mut *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(found) = self.comm(comm) else {
            return self.unknown(Call::Iflush, inner);
        };
        let code = self.inside(&found, Call::Iflush, inner);
        // SAFETY: as promised to this function.
        let delivered = unsafe { delivered(code, request) };
        if let (Some(request), false) = (delivered, found.slot.retires_consumed()) {
            let key = found.meaning.key();
            match self.requests.reserve(request.addr(), key, &self.recorder) {
                Some(place) => {
                    let at_ns = found.slot.flush(self.recorder.now_ns());
                    place.publish(Meaning::of_comm(key, Kind::Flush));
                    self.event(
                        &found,
                        at_ns,
                        &Note::request(EventKind::Flushed, Call::Iflush, 0, 0),
                    );
                }
                None => self.untracked(request),
            }
        }
        code
    }

    /// Makes and records `test`.
    ///
    /// # Safety
    /// `done` and `sizes` are what the caller of the plugin gave to be written.
    #[inline]
    pub(crate) unsafe fn test(
        &self,
        request: *mut c_void,
        done: *mut c_int,
        sizes: *mut c_int,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(found) = self.requests.find(request.addr(), &self.recorder) else {
            self.recorder.unknown_request();
            return inner();
        };
        found.slot.tested();
        let code = self.inside(&found, Call::Test, inner);
        if code == 0 {
            // SAFETY: as promised to this function.
            match unsafe { read(done) } {
                None | Some(0) => found.slot.not_done(|| self.recorder.now_ns()),
                Some(_) if found.meaning.kind() == Kind::Flush => self.forget(request),
                // SAFETY: as promised to this function.
                Some(_) => unsafe { self.finished(found.meaning, found.slot, sizes) },
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
        let (at_ns, bytes) = slot.finish(meaning.number(), received, self.recorder.now_ns());
        let note = Note::request(EventKind::Done, Call::Test, meaning.number(), bytes);
        self.recorder.event(meaning.key().index, slot, at_ns, &note);
    }

    /// Makes and records `irecvConsumed`.
    pub(crate) fn consumed(
        &self,
        comm: *mut c_void,
        inner: impl FnOnce() -> ResultCode,
    ) -> ResultCode {
        let Some(found) = self.comm(comm) else {
            return self.unknown(Call::IrecvConsumed, inner);
        };
        let code = self.inside(&found, Call::IrecvConsumed, inner);
        if code == 0
            && (found.slot.retires_consumed() || found.slot.is_recv())
            && let Some((at_ns, number)) = found.slot.consume(self.recorder.now_ns())
        {
            self.event(
                &found,
                at_ns,
                &Note::request(EventKind::Consumed, Call::IrecvConsumed, number, 0),
            );
        }
        code
    }
}

/// The device properties that every version has.
#[derive(Debug)]
pub(crate) struct RawDevice {
    pub name: *const c_char,
    pub pci_path: *const c_char,
    pub speed_mbit: c_int,
    pub ptr_support: c_int,
    pub device_type: c_int,
}

fn text(string: *const c_char, room: &mut [u8]) -> Cow<'_, str> {
    let length = copy_string(string, room).unwrap_or(0);
    String::from_utf8_lossy(&room[..length])
}

/// Whether `accept` filled in a device handle of type UNPACK.
///
/// # Safety
/// Null, or a pointer to null or to a device handle.
pub(crate) unsafe fn is_unpack(device_handle: *const *mut DeviceHandle) -> bool {
    // SAFETY: as promised to this function.
    let Some(handle) = (unsafe { device_handle.as_ref() }) else {
        return false;
    };
    // SAFETY: as promised to this function.
    let Some(handle) = (unsafe { handle.as_ref() }) else {
        return false;
    };
    handle.net_device_type == NET_DEVICE_UNPACK
}

/// Offset of the ctrl socket's address in TCPX's connect handle.
const CTRL_AT: usize = 48;

/// The socket address at an offset of a connect handle, if there is one.
///
/// # Safety
/// `handle` is null or has that many bytes behind `at`.
unsafe fn address(handle: *const c_void, at: usize) -> Option<Address> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: as promised to this function.
    let place = unsafe { handle.cast::<u8>().add(at) };
    // SAFETY: as above; bytes have no alignment.
    Address::from_sockaddr(unsafe { &*place.cast::<[u8; SOCKADDR_BYTES]>() })
}

/// The arguments of an `isend` or `irecv`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Post {
    kind: Kind,
    bytes: u64,
    grouped: u8,
}

impl Post {
    /// An `isend` of `size` bytes.
    #[inline]
    pub(crate) fn send(size: impl TryInto<u64>) -> Self {
        Self {
            kind: Kind::Send,
            bytes: size.try_into().unwrap_or(0),
            grouped: 1,
        }
    }

    /// An `irecv` into `n` buffers.
    ///
    /// # Safety
    /// `sizes` is null or points to `n` numbers.
    #[inline]
    pub(crate) unsafe fn recv<S: Copy + TryInto<u64>>(n: c_int, sizes: *const S) -> Self {
        let grouped = n.clamp(0, c_int::from(u8::MAX)) as u8;
        let bytes = if sizes.is_null() {
            0
        } else {
            // SAFETY: as promised to this function.
            unsafe { sum(sizes, grouped) }
        };
        Self {
            kind: Kind::Recv,
            bytes,
            grouped,
        }
    }

    #[inline]
    fn call(self) -> Call {
        if self.kind == Kind::Send {
            Call::Isend
        } else {
            Call::Irecv
        }
    }
}

/// # Safety
/// `sizes` points to `count` numbers.
#[inline]
unsafe fn sum<S: Copy + TryInto<u64>>(sizes: *const S, count: u8) -> u64 {
    (0..usize::from(count)).fold(0, |sum, at| {
        // SAFETY: below `count`.
        let place = unsafe { sizes.add(at) };
        // SAFETY: the caller of the plugin owns it, see above.
        let size = unsafe { place.read() };
        sum.saturating_add(size.try_into().unwrap_or(0))
    })
}

/// The comm or request that a call with this `code` wrote, if any.
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

/// The value of an out-parameter; `None` if the caller passed null.
///
/// # Safety
/// The pointer is null or readable.
#[inline]
unsafe fn read<T: Copy>(place: *const T) -> Option<T> {
    // SAFETY: not null, so readable.
    (!place.is_null()).then(|| unsafe { place.read() })
}
