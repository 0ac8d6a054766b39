//! Two connected comms for tests, driven as a program drives them.

use crate::calls;
use crate::failed::Failed;
use crate::fault::Side;
use crate::log;
use crate::plugin::Plugin;
use crate::settings::Settings;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};
use tcpx_abi::unpack::{Request, UnpackHandle};
use tcpx_abi::v7::DeviceHandle;
use tcpx_abi::{HANDLE_MAX, PTR_CUDA, PTR_HOST};

/// Longest wait in a test.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A plugin on loopback with `pairs` in its environment and a task chunk above 0.
pub(super) fn plugin(pairs: &[(&str, &str)]) -> &'static Plugin {
    let mut all = pairs.to_vec();
    // The first entry of a name is used, so `pairs` overrides the defaults.
    all.extend([
        ("TCPXSOFT_SOCKET_IFNAME", "=lo"),
        ("NCCL_DYNAMIC_CHUNK_SIZE", "131072"),
    ]);
    Box::leak(Box::new(Plugin::start(Settings::from_pairs(&all)).unwrap()))
}

/// Page-aligned memory with room around it to detect overruns.
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new(bytes: usize, fill: u8) -> Self {
        Self(vec![fill; bytes + 8192])
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(4096)
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.0[self.start()..].as_ptr().cast_mut().cast()
    }

    pub(super) fn bytes(&self, length: usize) -> &[u8] {
        &self.0[self.start()..][..length]
    }

    pub(super) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        let start = self.start();
        &mut self.0[start..][..length]
    }
}

/// A request pointer, or the error.
pub(super) type Posted = Result<*mut c_void, Failed>;

/// A connection within this process.
pub(super) struct Pair {
    pub sender: *mut c_void,
    pub receiver: *mut c_void,
    pub device: DeviceHandle,
}

/// An empty device handle.
pub(super) fn no_device() -> DeviceHandle {
    DeviceHandle {
        net_device_type: 0,
        net_device_version: 0,
        handle: ptr::null_mut(),
        size: 0,
        needs_proxy_progress: 0,
    }
}

pub(super) fn listen(plugin: &'static Plugin) -> (*mut c_void, [u8; HANDLE_MAX]) {
    let mut handle = [0xee; HANDLE_MAX];
    // SAFETY: 128 bytes of ours.
    let listener = unsafe { calls::listen_on(plugin, 0, handle.as_mut_ptr().cast()) }.unwrap();
    (listener, handle)
}

pub(super) fn connect(plugin: &'static Plugin, handle: &mut [u8; HANDLE_MAX]) -> Posted {
    // SAFETY: 128 bytes of ours.
    unsafe { calls::connect_from(plugin, 0, handle.as_mut_ptr().cast()) }
}

pub(super) fn accept(listener: *mut c_void, device: &mut DeviceHandle) -> Posted {
    let mut device: *mut DeviceHandle = device;
    // SAFETY: a device handle of ours.
    unsafe { calls::accept_on(listener, &mut device) }
}

/// Calls connect and `accept` until both have a comm.
pub(super) fn meet(
    sends: &'static Plugin,
    handle: &mut [u8; HANDLE_MAX],
    mut accept: impl FnMut() -> Posted,
) -> (*mut c_void, *mut c_void) {
    let (mut sender, mut receiver): (*mut c_void, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
    until("the connection", || {
        if sender.is_null() {
            sender = connect(sends, handle).unwrap();
        }
        if receiver.is_null() {
            receiver = accept().unwrap();
        }
        (!sender.is_null() && !receiver.is_null()).then_some((sender, receiver))
    })
}

impl Pair {
    pub(super) fn new(pairs: &[(&str, &str)]) -> Self {
        Self::between(plugin(pairs), plugin(pairs))
    }

    /// Connects a sender of one plugin to a receiver of another.
    pub(super) fn between(sends: &'static Plugin, receives: &'static Plugin) -> Self {
        let (listener, mut handle) = listen(receives);
        let mut device = no_device();
        let (sender, receiver) = meet(sends, &mut handle, || accept(listener, &mut device));
        calls::unlisten(listener).unwrap();
        Self {
            sender,
            receiver,
            device,
        }
    }

    pub(super) fn isend(&self, data: *mut c_void, size: usize) -> Posted {
        let mhandle = calls::register(self.sender, data, size, PTR_HOST).unwrap();
        // SAFETY: our comm, our mhandle.
        unsafe {
            calls::post(
                Side::Send,
                self.sender,
                calls::Given {
                    data,
                    size: size as c_int,
                    tag: 0,
                    mhandle,
                },
            )
        }
    }

    pub(super) fn irecv(&self, data: *mut c_void, size: usize) -> Posted {
        self.irecv_as(data, size, PTR_HOST)
    }

    /// Posts a receive to device memory; the registered size is rounded up to a page.
    pub(super) fn irecv_device(&self, data: *mut c_void, size: usize) -> Posted {
        self.irecv_as(data, size, PTR_CUDA)
    }

    fn irecv_as(&self, data: *mut c_void, size: usize, kind: c_int) -> Posted {
        let mhandle = calls::register(self.receiver, data, size.max(1), kind)?;
        // SAFETY: our comm, our mhandle.
        unsafe {
            calls::post(
                Side::Recv,
                self.receiver,
                calls::Given {
                    data,
                    size: size as c_int,
                    tag: 0,
                    mhandle,
                },
            )
        }
    }

    /// Tests both until both are done.
    pub(super) fn finish(&self, send: *mut c_void, recv: *mut c_void) {
        let (mut sent, mut received) = (false, false);
        let deadline = Instant::now() + PATIENCE;
        while !(sent && received) {
            sent = sent || test(send).unwrap();
            received = received || test(recv).unwrap();
            assert!(
                Instant::now() < deadline,
                "sent {sent}, received {received}"
            );
        }
    }

    /// Unpacks a finished device receive, as the unpack kernel does.
    pub(super) fn unpack(&self, recv: *mut c_void, data: *mut c_void) -> usize {
        // SAFETY: the device handle that accept gave; host memory here.
        let handle = unsafe { &*self.device.handle.cast::<UnpackHandle>() };
        let slot = request(recv).slot;
        // SAFETY: the slot's own count and list.
        let count = unsafe { *slot.cnt };
        let mut total = 0;
        for entry in 0..count as usize {
            // SAFETY: published entries of the slot's list.
            let entry = unsafe { slot.mem.add(entry) };
            // SAFETY: as above.
            let entry = unsafe { *entry };
            // SAFETY: inside the pool.
            let source = unsafe { handle.bounce_buf.cast::<u8>().add(entry.src_off as usize) };
            // SAFETY: inside the posted buffer.
            let target = unsafe { data.cast::<u8>().add(entry.dst_off as usize) };
            // SAFETY: a page and the caller's buffer.
            unsafe { source.copy_to_nonoverlapping(target, entry.len as usize) };
            total += entry.len as usize;
        }
        total
    }

    pub(super) fn close(self) {
        calls::close(self.sender).unwrap();
        calls::close(self.receiver).unwrap();
    }
}

pub(super) fn test(request: *mut c_void) -> Result<bool, Failed> {
    // SAFETY: null or a request of ours.
    unsafe { calls::test(request) }
}

pub(super) fn consume(request: *mut c_void) -> Result<(), Failed> {
    // SAFETY: null or a request of ours.
    unsafe { calls::consumed(1, request) }
}

/// A copy of a request, as test harnesses read it.
pub(super) fn request(pointer: *mut c_void) -> Request {
    // SAFETY: a request of ours; its block is never freed.
    unsafe { *pointer.cast::<Request>() }
}

/// Calls `step` until it returns a value.
pub(super) fn until<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = step() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} never happens");
    }
}

/// Checks that this thread has logged `text` since the last check.
pub(super) fn logged(text: &str) {
    let lines = log::take();
    assert!(
        lines.iter().any(|line| line.contains(text)),
        "no line with `{text}` in {lines:#?}"
    );
}

/// Bytes that depend on position and seed.
pub(super) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}
