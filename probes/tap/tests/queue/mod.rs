//! A fake plugin whose send comms contain their sixteen requests, the first at the comm's own
//! address, and finish each request at its second test.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use tcpx_abi::v7::{DeviceHandle, Net};

const SLOTS: usize = 16;

#[repr(C)]
struct Request {
    in_use: bool,
    tested: bool,
    padding: [u8; 126],
}

#[repr(C)]
struct Comm {
    requests: [Request; SLOTS],
    next: usize,
}

unsafe extern "C" fn connect(
    _dev: c_int,
    _handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: *mut *mut DeviceHandle,
) -> c_int {
    let requests = [const {
        Request {
            in_use: false,
            tested: false,
            padding: [0; 126],
        }
    }; SLOTS];
    unsafe { *comm = Box::into_raw(Box::new(Comm { requests, next: 0 })).cast() };
    0
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    _data: *mut c_void,
    _size: c_int,
    _tag: c_int,
    _mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let comm = unsafe { &mut *comm.cast::<Comm>() };
    let slot = &mut comm.requests[comm.next % SLOTS];
    if slot.in_use {
        return 3;
    }
    (slot.in_use, slot.tested) = (true, false);
    comm.next += 1;
    unsafe { *request = (&raw mut *slot).cast() };
    0
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, _sizes: *mut c_int) -> c_int {
    let request = unsafe { &mut *request.cast::<Request>() };
    assert!(request.in_use && request.padding == [0; 126]);
    unsafe { *done = c_int::from(request.tested) };
    request.in_use = !request.tested;
    request.tested = true;
    0
}

unsafe extern "C" fn close(comm: *mut c_void) -> c_int {
    drop(unsafe { Box::from_raw(comm.cast::<Comm>()) });
    0
}

pub(crate) static NET: Net = Net {
    name: c"Queue".as_ptr(),
    init: None,
    devices: None,
    get_properties: None,
    listen: None,
    connect: Some(connect),
    accept: None,
    reg_mr: None,
    reg_mr_dma_buf: None,
    dereg_mr: None,
    isend: Some(isend),
    irecv: None,
    iflush: None,
    test: Some(test),
    close_send: Some(close),
    close_recv: Some(close),
    close_listen: None,
    get_device_mr: None,
    irecv_consumed: None,
};

/// The calls made on one comm, which is closed.
pub(crate) struct Driven {
    pub dev: c_int,
    pub posted: u64,
    pub tests: u64,
    pub bytes: u64,
    pub refused: u64,
    pub depth: usize,
}

/// Sends `count` messages with at most `depth` in flight. With a depth of sixteen also tries one
/// more, which is refused.
pub(crate) fn drive(net: &Net, dev: c_int, count: u64, depth: usize) -> Driven {
    let mut comm = null_mut();
    assert_eq!(
        unsafe { net.connect.unwrap()(dev, null_mut(), &mut comm, null_mut()) },
        0
    );
    let mut driven = Driven {
        dev,
        posted: 0,
        tests: 0,
        bytes: 0,
        refused: 0,
        depth,
    };
    let mut window = VecDeque::new();
    let isend = net.isend.unwrap();
    while driven.posted < count || !window.is_empty() {
        while driven.posted < count && window.len() < depth {
            let (mut request, size) = (null_mut(), driven.posted as c_int % 1000);
            assert_eq!(
                unsafe { isend(comm, null_mut(), size, 0, null_mut(), &mut request) },
                0
            );
            window.push_back(request);
            driven.posted += 1;
            driven.bytes += size as u64;
        }
        if window.len() == SLOTS {
            let mut request = null_mut();
            assert_eq!(
                unsafe { isend(comm, null_mut(), 1, 0, null_mut(), &mut request) },
                3
            );
            driven.refused += 1;
        }
        let mut done = 0;
        assert_eq!(
            unsafe { net.test.unwrap()(window[0], &mut done, null_mut()) },
            0
        );
        driven.tests += 1;
        if done != 0 {
            window.pop_front();
        }
    }
    assert_eq!(unsafe { net.close_send.unwrap()(comm) }, 0);
    driven
}
