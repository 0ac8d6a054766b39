//! [`Net`] over the calls of one ABI version. It is generic over that version, so calls into
//! the plugin go through no further dispatch.
//!
//! Every pointer passed in is owned here and valid as long as the call needs it. Every pointer
//! that comes out is null-checked and becomes a token at once. Pointers in a plugin's
//! properties are never dereferenced here.
#![expect(unsafe_code, reason = "makes the calls")]

use super::calls::{Calls, GROUP_MAX, Version};
use crate::gpu::{MemoryKind, Region, Span};
use crate::plugin::error::PluginError;
use crate::plugin::log;
use crate::plugin::net::{
    About, Comm, ConnectHandle, Connecting, Device, DeviceHandle, ListenComm, MHandle, Net,
    PluginResult, RawTable, RecvComm, Request, SendComm, Tested,
};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use tcpx_abi::foreign::{StringEnd, copy_until_end};
use tcpx_abi::{
    HANDLE_MAX, NET_DEVICE_HOST, NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, ResultCode, newest,
    result,
};

pub(super) struct Shim<V> {
    calls: V,
    raw: RawTable,
    /// The context that `init` created; null before v11.
    context: AtomicPtr<c_void>,
    /// Bit n is set if device n reported that its receives need no unpacking; for n below 64.
    hosts: AtomicU64,
}

impl<V: Version> Shim<V> {
    pub(super) fn new(calls: V, raw: RawTable) -> Self {
        Self {
            calls,
            raw,
            context: AtomicPtr::new(null_mut()),
            hosts: AtomicU64::new(0),
        }
    }

    fn context(&self) -> *mut c_void {
        self.context.load(Acquire)
    }

    /// The device handle to pass to `accept`. TCPX crashes in the first receive of a comm
    /// that was accepted without one.
    fn device_handle_of(&self, device: usize) -> DeviceHandle {
        let host = device < 64 && self.hosts.load(Relaxed) >> device & 1 == 1;
        let (net_device_type, net_device_version) = if host {
            (NET_DEVICE_HOST, 0)
        } else {
            (NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION)
        };
        DeviceHandle {
            net_device_type,
            net_device_version,
            handle: null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        }
    }
}

/// Copies a string of the plugin; `None` if it is null or unreadable.
fn text(string: *const c_char) -> Option<String> {
    read_text(string).0
}

/// A string of the plugin as far as it can be read, and why NCCL cannot read it.
fn read_text(string: *const c_char) -> (Option<String>, Option<String>) {
    let mut room = [0; 1024];
    if string.is_null() {
        return (None, Some("NULL".to_owned()));
    }
    // Without a pipe, nothing is known of the string.
    let Some(copied) = copy_until_end(string, &mut room) else {
        return (None, None);
    };
    let read = tcpx_words::units::printable(&String::from_utf8_lossy(&room[..copied.length]));
    match (copied.end, copied.length) {
        (StringEnd::Unreadable, 0) => (None, Some("an address that cannot be read".to_owned())),
        (StringEnd::Unreadable, length) => {
            let why =
                format!("not terminated: after {length} bytes comes memory that cannot be read");
            (Some(read), Some(why))
        }
        (StringEnd::Nul | StringEnd::MoreThanRoom, _) => (Some(read), None),
    }
}

fn check(call: &'static str, answer: Option<ResultCode>) -> PluginResult<()> {
    match answer {
        Some(result::SUCCESS) => Ok(()),
        Some(code) => Err(PluginError::Refused {
            call,
            code,
            said: log::take_said(),
        }),
        None => Err(PluginError::Missing { call }),
    }
}

/// As `check`, for hot-path calls, which do not drop older WARN lines before the call.
#[inline]
fn check_hot(call: &'static str, answer: Option<ResultCode>) -> PluginResult<()> {
    if answer == Some(result::SUCCESS) {
        Ok(())
    } else {
        Err(refused(call, answer))
    }
}

#[cold]
fn refused(call: &'static str, answer: Option<ResultCode>) -> PluginError {
    match answer {
        Some(code) => PluginError::Refused {
            call,
            code,
            said: log::take_last_said(),
        },
        None => PluginError::Missing { call },
    }
}

fn int(call: &'static str, len: usize) -> PluginResult<c_int> {
    c_int::try_from(len).map_err(|_| PluginError::TooLarge { call, len })
}

/// A profiler callback that does nothing, as NCCL passes without a profiler.
unsafe extern "C" fn no_profiler(
    _: *mut *mut c_void,
    _: c_int,
    _: *mut c_void,
    _: i64,
    _: *mut c_void,
) -> ResultCode {
    result::SUCCESS
}

impl<V: Version> Net for Shim<V> {
    fn about(&self) -> About {
        let name = text(self.calls.name()).unwrap_or_default();
        About {
            name,
            abi: V::LIMITS.version,
            consumes: self.calls.consumes(),
        }
    }

    fn table(&self) -> RawTable {
        self.raw
    }

    fn calls(&self) -> &dyn Calls {
        &self.calls
    }

    fn init(&self) -> PluginResult<()> {
        let mut context = null_mut();
        log::forget_said();
        // SAFETY: the logger and the profiler are functions that live as long as the process.
        check("init", unsafe {
            self.calls
                .init(&mut context, log::installed(), Some(no_profiler))
        })?;
        self.context.store(context, Release);
        // A plugin may fill its table as late as in `init`.
        self.calls
            .missing()
            .map_or(Ok(()), |call| Err(PluginError::Missing { call }))
    }

    fn finalize(&self) -> PluginResult<()> {
        if !V::LIMITS.has_context {
            return Ok(());
        }
        log::forget_said();
        // SAFETY: what `init` made, given up here.
        check("finalize", unsafe {
            self.calls.finalize(self.context.swap(null_mut(), AcqRel))
        })
    }

    fn devices(&self) -> PluginResult<usize> {
        let mut count: c_int = 0;
        log::forget_said();
        // SAFETY: `count` is ours to write.
        check("devices", unsafe { self.calls.devices(&mut count) })?;
        usize::try_from(count).map_err(|_| PluginError::BrokenPromise {
            call: "devices",
            what: format!("counted {count} devices"),
        })
    }

    fn properties(&self, device: usize) -> PluginResult<Device> {
        let mut given = newest::Properties::ZERO;
        log::forget_said();
        // SAFETY: the struct is ours to write.
        check("getProperties", unsafe {
            self.calls
                .properties(int("getProperties", device)?, &mut given)
        })?;
        if given.net_device_type == NET_DEVICE_HOST && device < 64 {
            self.hosts.fetch_or(1 << device, Relaxed);
        }
        let (name, unnamed) = read_text(given.name);
        let (path, unpathed) = read_text(given.pci_path);
        Ok(Device {
            index: device,
            unnamed,
            name: name.unwrap_or_else(|| format!("device {device}")),
            pci_path: path.filter(|path| !path.is_empty()),
            // A device without a path is allowed.
            unpathed: unpathed.filter(|_| !given.pci_path.is_null()),
            guid: given.guid,
            ptr_support: given.ptr_support,
            speed_mbps: given.speed,
            port: given.port,
            latency_us: given.latency,
            max_comms: given.max_comms,
            max_recvs: given.max_recvs,
            net_device_type: given.net_device_type,
            net_device_version: given.net_device_version,
            reg_is_global: given.reg_is_global != 0,
            force_flush: given.force_flush != 0,
            max_p2p_bytes: given.max_p2p_bytes as u64,
        })
    }

    fn listen(&self, device: usize) -> PluginResult<(ListenComm, ConnectHandle)> {
        #[repr(align(16))]
        struct Aligned([u8; HANDLE_MAX]);
        let mut handle = Aligned([0; HANDLE_MAX]);
        let mut raw = null_mut();
        let (index, place) = (
            int("listen", device)?,
            handle.0.as_mut_ptr().cast::<c_void>(),
        );
        log::forget_said();
        // SAFETY: the handle has the bytes that the ABI promises, both
        // out-parameters are ours.
        check("listen", unsafe {
            self.calls.listen(self.context(), index, place, &mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or_else(|| PluginError::BrokenPromise {
            call: "listen",
            what: "gave no comm".into(),
        })?;
        let device_handle = Some(Box::new(self.device_handle_of(device)));
        Ok((
            ListenComm {
                raw,
                accepted: false,
                device_handle,
            },
            ConnectHandle(handle.0),
        ))
    }

    fn connect(
        &self,
        device: usize,
        connecting: &mut Connecting,
    ) -> PluginResult<Option<SendComm>> {
        if connecting.finished {
            return Err(PluginError::UsedUp {
                call: "connect",
                what: "handle",
            });
        }
        let mut raw = null_mut();
        let mut device_handle: *mut DeviceHandle = null_mut();
        let (device, buffer) = (int("connect", device)?, connecting.as_ptr());
        log::forget_said();
        // SAFETY: the buffer is private to this connection, stays at its
        // address until the last call, and is not passed again once the
        // plugin has answered; a sender's device handle stays null, as in NCCL.
        let answer = unsafe {
            self.calls
                .connect(self.context(), device, buffer, &mut raw, &mut device_handle)
        };
        connecting.finished = answer != Some(result::SUCCESS) || !raw.is_null();
        check("connect", answer)?;
        Ok(NonNull::new(raw).map(|raw| SendComm { raw }))
    }

    fn accept(&self, listen: &mut ListenComm) -> PluginResult<Option<RecvComm>> {
        if listen.accepted {
            return Err(PluginError::UsedUp {
                call: "accept",
                what: "listener",
            });
        }
        let mut pointer: *mut DeviceHandle = listen
            .device_handle
            .as_deref_mut()
            .map_or(null_mut(), |handle| handle);
        let mut raw = null_mut();
        log::forget_said();
        // SAFETY: the listener is open and has not accepted yet; the device
        // handle outlives the comm, which owns it from then on.
        let answer = unsafe {
            self.calls
                .accept(listen.raw.as_ptr(), &mut raw, &mut pointer)
        };
        listen.accepted = answer != Some(result::SUCCESS) || !raw.is_null();
        check("accept", answer)?;
        let Some(raw) = NonNull::new(raw) else {
            return Ok(None);
        };
        let device_handle = listen.device_handle.take();
        // As in NCCL, receives of a plugin that does not unpack need not be consumed.
        let unpacks = device_handle
            .as_ref()
            .is_some_and(|handle| handle.net_device_type == NET_DEVICE_UNPACK);
        Ok(Some(RecvComm {
            raw,
            device_handle,
            hands_back: unpacks && self.calls.consumes(),
        }))
    }

    fn reg_mr(
        &self,
        comm: Comm<'_>,
        region: &Arc<Region>,
        offset: usize,
        len: usize,
    ) -> PluginResult<MHandle> {
        let span = region
            .span(offset, len)
            .ok_or(PluginError::OutsideRegistration { call: "regMr" })?;
        if len > V::LIMITS.registration_max {
            return Err(PluginError::TooLarge { call: "regMr", len });
        }
        let kind = match region.kind() {
            MemoryKind::Host => tcpx_abi::PTR_HOST,
            MemoryKind::Device => tcpx_abi::PTR_CUDA,
        };
        let (data, mut raw) = (span.as_ptr().cast::<c_void>(), null_mut());
        log::forget_said();
        // SAFETY: the comm is open; the `MHandle` keeps the region alive as
        // long as the registration; `len` is the span's own length.
        check("regMr", unsafe {
            self.calls
                .reg_mr(comm.raw().as_ptr(), data, len, kind, &mut raw)
        })?;
        let start = span.as_ptr().addr();
        Ok(MHandle {
            raw,
            region: Some(Arc::clone(region)),
            start,
            end: start + len,
        })
    }

    fn dereg_mr(&self, comm: Comm<'_>, mut mhandle: MHandle) -> PluginResult<()> {
        log::forget_said();
        // SAFETY: the registration was made on this plugin and is given up here.
        check("deregMr", unsafe {
            self.calls.dereg_mr(comm.raw().as_ptr(), mhandle.raw)
        })?;
        drop(mhandle.region.take());
        Ok(())
    }

    fn isend(
        &self,
        comm: &SendComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>> {
        if !mhandle.covers(data) {
            return Err(PluginError::OutsideRegistration { call: "isend" });
        }
        if data.len() > V::LIMITS.message_max {
            return Err(PluginError::TooLarge {
                call: "isend",
                len: data.len(),
            });
        }
        let (buffer, mut raw) = (data.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: the comm is open, the span lies inside the registration,
        // whose region the `MHandle` keeps alive. One tag for all.
        let answer = unsafe {
            self.calls.isend(
                comm.raw.as_ptr(),
                buffer,
                data.len(),
                0,
                mhandle.raw,
                &mut raw,
            )
        };
        check_hot("isend", answer)?;
        Ok(NonNull::new(raw).map(Request))
    }

    fn irecv(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>> {
        if !mhandle.covers(data) {
            return Err(PluginError::OutsideRegistration { call: "irecv" });
        }
        if data.len() > V::LIMITS.message_max {
            return Err(PluginError::TooLarge {
                call: "irecv",
                len: data.len(),
            });
        }
        let (buffer, mut tag, mut raw) = (data.as_ptr().cast::<c_void>(), 0, null_mut());
        // SAFETY: as for `isend`.
        let answer = unsafe {
            self.calls.irecv(
                comm.raw.as_ptr(),
                buffer,
                data.len(),
                &mut tag,
                mhandle.raw,
                &mut raw,
            )
        };
        check_hot("irecv", answer)?;
        Ok(NonNull::new(raw).map(Request))
    }

    fn iflush(
        &self,
        comm: &RecvComm,
        data: Span,
        mhandle: &MHandle,
    ) -> PluginResult<Option<Request>> {
        let (mut buffers, mut sizes) = ([null_mut(); GROUP_MAX], [0; GROUP_MAX]);
        let (mut mhandles, mut raw) = ([null_mut(); GROUP_MAX], null_mut());
        buffers[0] = data.as_ptr().cast::<c_void>();
        sizes[0] = int("iflush", data.len())?;
        mhandles[0] = mhandle.raw;
        let (data, sizes, mhandles) = (
            buffers.as_mut_ptr(),
            sizes.as_mut_ptr(),
            mhandles.as_mut_ptr(),
        );
        // SAFETY: one buffer, received before; the arrays are ours.
        let answer = unsafe {
            self.calls
                .iflush(comm.raw.as_ptr(), 1, data, sizes, mhandles, &mut raw)
        };
        check_hot("iflush", answer)?;
        Ok(NonNull::new(raw).map(Request))
    }

    fn test(&self, request: Request) -> PluginResult<Tested> {
        let (mut done, mut reported) = (0, Tested::UNREPORTED);
        // SAFETY: the request came from this plugin; we group no receives, so
        // one size is enough.
        check_hot("test", unsafe {
            self.calls.test(request.as_ptr(), &mut done, &mut reported)
        })?;
        Ok(Tested {
            done: done != 0,
            reported,
        })
    }

    fn irecv_consumed(&self, comm: &RecvComm, request: Request) -> PluginResult<()> {
        if !comm.hands_back {
            return Ok(());
        }
        // SAFETY: the comm is open and the request is one of its receives.
        check_hot("irecvConsumed", unsafe {
            self.calls
                .irecv_consumed(comm.raw.as_ptr(), 1, request.as_ptr())
        })
    }

    fn close_send(&self, comm: SendComm) -> PluginResult<()> {
        log::forget_said();
        // SAFETY: taken by value, so nobody uses this comm again.
        check("closeSend", unsafe {
            self.calls.close_send(comm.raw.as_ptr())
        })
    }

    fn close_recv(&self, comm: RecvComm) -> PluginResult<()> {
        log::forget_said();
        // SAFETY: taken by value, so nobody uses this comm again.
        check("closeRecv", unsafe {
            self.calls.close_recv(comm.raw.as_ptr())
        })
    }

    fn close_listen(&self, comm: ListenComm) -> PluginResult<()> {
        log::forget_said();
        // SAFETY: taken by value; an accepted comm does not depend on it.
        check("closeListen", unsafe {
            self.calls.close_listen(comm.raw.as_ptr())
        })
    }
}
