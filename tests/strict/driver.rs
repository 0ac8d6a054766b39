//! The plugin's raw table, with one method per call and no checks: these tests also make calls
//! that the typed layer of the library rules out.
#![expect(
    unsafe_code,
    reason = "calls through the plugin's function table, in wrong order too"
)]

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};
use tcpx_abi::{PTR_HOST, ResultCode, v7};

/// A comm, a registration or a request of the plugin.
pub(crate) type Raw = *mut c_void;
/// The 128 bytes of a connect handle, which are exchanged out of band.
pub(crate) type Handle = [u8; tcpx_abi::HANDLE_MAX];

/// Time limit of every wait in these tests.
const LIMIT: Duration = Duration::from_secs(20);

/// The loaded table.
#[derive(Clone, Copy)]
pub(crate) struct Plugin {
    net: &'static v7::Net,
}

/// Both ends of one connection, in this process.
pub(crate) struct Pair {
    /// The listen comm, still open.
    pub listener: Raw,
    /// The connect handle, used up.
    pub handle: Handle,
    pub sender: Raw,
    pub receiver: Raw,
    pub device: v7::DeviceHandle,
}

macro_rules! call {
    ($net:expr, $function:ident $(, $argument:expr)*) => {{
        let function = $net.$function.unwrap();
        // SAFETY: the plugin is never unloaded; every pointer is null, points to a live buffer,
        // or was returned by the plugin and is still valid. A test that breaks this on purpose
        // makes the call in a child process, which ends in the call.
        unsafe { function($($argument),*) }
    }};
}

impl Plugin {
    pub(crate) fn load(path: &Path) -> Self {
        // SAFETY: the library is ours and has no constructors.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.unwrap();
        // SAFETY: the symbol is a table of this type, as its source says.
        let symbol = unsafe { library.get::<*const v7::Net>(v7::SYMBOL.as_bytes()) }.unwrap();
        // SAFETY: the table is in the library's data, and the library stays.
        let net = unsafe { &**symbol };
        std::mem::forget(library);
        Self { net }
    }

    pub(crate) fn init(self, logger: tcpx_abi::Logger) -> ResultCode {
        call!(self.net, init, Some(logger))
    }

    pub(crate) fn devices(self) -> c_int {
        let mut count = -7;
        assert_eq!(call!(self.net, devices, &raw mut count), 0);
        count
    }

    pub(crate) fn properties(self, dev: c_int) -> v7::Properties {
        let mut properties = v7::Properties::ZERO;
        assert_eq!(call!(self.net, get_properties, dev, &raw mut properties), 0);
        properties
    }

    pub(crate) fn listen(self) -> (Raw, Handle) {
        let (mut listener, mut handle) = (ptr::null_mut(), [0; tcpx_abi::HANDLE_MAX]);
        assert_eq!(
            call!(
                self.net,
                listen,
                0,
                handle.as_mut_ptr().cast(),
                &raw mut listener
            ),
            0
        );
        (listener, handle)
    }

    pub(crate) fn connect(self, handle: &mut Handle) -> (ResultCode, Raw) {
        let (mut comm, mut device) = (ptr::null_mut(), ptr::null_mut());
        let code = call!(
            self.net,
            connect,
            0,
            handle.as_mut_ptr().cast(),
            &raw mut comm,
            &raw mut device
        );
        (code, comm)
    }

    pub(crate) fn accept(self, listener: Raw, device: *mut v7::DeviceHandle) -> (ResultCode, Raw) {
        let (mut comm, mut device) = (ptr::null_mut(), device);
        (
            call!(self.net, accept, listener, &raw mut comm, &raw mut device),
            comm,
        )
    }

    pub(crate) fn register(self, comm: Raw, buffer: &mut [u8], kind: c_int) -> (ResultCode, Raw) {
        let mut mhandle = ptr::null_mut();
        let size = buffer.len() as c_int;
        (
            call!(
                self.net,
                reg_mr,
                comm,
                buffer.as_mut_ptr().cast(),
                size,
                kind,
                &raw mut mhandle
            ),
            mhandle,
        )
    }

    pub(crate) fn deregister(self, comm: Raw, mhandle: Raw) {
        assert_eq!(call!(self.net, dereg_mr, comm, mhandle), 0);
    }

    pub(crate) fn send(self, comm: Raw, data: &mut [u8], mhandle: Raw) -> (ResultCode, Raw) {
        let mut request = ptr::null_mut();
        let size = data.len() as c_int;
        (
            call!(
                self.net,
                isend,
                comm,
                data.as_mut_ptr().cast(),
                size,
                0,
                mhandle,
                &raw mut request
            ),
            request,
        )
    }

    pub(crate) fn receive(self, comm: Raw, data: &mut [u8], mhandle: Raw) -> (ResultCode, Raw) {
        let (mut request, mut size, mut tag) = (ptr::null_mut(), data.len() as c_int, 0);
        let (mut data, mut mhandle): (Raw, Raw) = (data.as_mut_ptr().cast(), mhandle);
        let (data, size, tag) = (&raw mut data, &raw mut size, &raw mut tag);
        (
            call!(
                self.net,
                irecv,
                comm,
                1,
                data,
                size,
                tag,
                &raw mut mhandle,
                &raw mut request
            ),
            request,
        )
    }

    /// The result code, whether the request is done, and the size, which was -7 before the call.
    pub(crate) fn test(self, request: Raw) -> (ResultCode, bool, c_int) {
        let (mut done, mut size) = (-7, -7);
        let code = call!(self.net, test, request, &raw mut done, &raw mut size);
        (code, done == 1, size)
    }

    pub(crate) fn flushed_size(self, comm: Raw, request: Raw) -> c_int {
        let (mut size, mut request) = (-7, request);
        let (none, mhandles) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(
            call!(
                self.net,
                iflush,
                comm,
                1,
                none,
                &raw mut size,
                mhandles,
                &raw mut request
            ),
            0
        );
        size
    }

    pub(crate) fn consume(self, comm: Raw, request: Raw) -> ResultCode {
        call!(self.net, irecv_consumed, comm, 1, request)
    }

    pub(crate) fn close_send(self, comm: Raw) -> ResultCode {
        call!(self.net, close_send, comm)
    }

    pub(crate) fn close_receive(self, comm: Raw) -> ResultCode {
        call!(self.net, close_recv, comm)
    }

    pub(crate) fn close_listen(self, listener: Raw) -> ResultCode {
        call!(self.net, close_listen, listener)
    }

    /// Calls connect and accept in turn until both have returned a comm.
    pub(crate) fn pair(self) -> Pair {
        let (listener, mut handle) = self.listen();
        let mut device = NO_DEVICE_HANDLE;
        let (mut sender, mut receiver): (Raw, Raw) = (ptr::null_mut(), ptr::null_mut());
        poll_until(|| {
            if sender.is_null() {
                let (code, comm) = self.connect(&mut handle);
                assert_eq!(code, 0, "connect");
                sender = comm;
            }
            if receiver.is_null() {
                let (code, comm) = self.accept(listener, &raw mut device);
                assert_eq!(code, 0, "accept");
                receiver = comm;
            }
            !sender.is_null() && !receiver.is_null()
        });
        Pair {
            listener,
            handle,
            sender,
            receiver,
            device,
        }
    }

    /// Tests both heads in turn until both are done.
    pub(crate) fn finish(self, sent: Raw, received: Raw) {
        let (mut send_done, mut receive_done) = (false, false);
        poll_until(|| {
            for (request, done) in [(sent, &mut send_done), (received, &mut receive_done)] {
                if !*done {
                    let (code, now, _) = self.test(request);
                    assert_eq!(code, 0, "test");
                    *done = now;
                }
            }
            send_done && receive_done
        });
    }

    pub(crate) fn close(self, pair: Pair) {
        assert_eq!(self.close_send(pair.sender), 0);
        assert_eq!(self.close_receive(pair.receiver), 0);
        assert_eq!(self.close_listen(pair.listener), 0);
    }

    pub(crate) fn register_host(self, comm: Raw, buffer: &mut [u8]) -> Raw {
        let (code, mhandle) = self.register(comm, buffer, PTR_HOST);
        assert_eq!(code, 0, "regMr");
        mhandle
    }
}

/// The device handle argument of accept.
pub(crate) const NO_DEVICE_HANDLE: v7::DeviceHandle = v7::DeviceHandle {
    net_device_type: 0,
    net_device_version: 0,
    handle: ptr::null_mut(),
    size: 0,
    needs_proxy_progress: 0,
};

/// Polls `step` until it returns true; fails at the limit.
pub(crate) fn poll_until(mut step: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !step() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}");
        std::thread::yield_now();
    }
}
