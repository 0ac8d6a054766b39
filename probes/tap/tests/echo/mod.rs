//! A fake plugin that dereferences only its out-parameters. It returns what the test sets, and
//! records its calls per thread.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use tcpx_abi::{LoggerArg, v7, v8};

type Asked = Vec<(&'static str, Vec<usize>)>;

thread_local! {
    static CODE: Cell<c_int> = const { Cell::new(0) };
    static MADE: Cell<usize> = const { Cell::new(0) };
    static ASKED: RefCell<Asked> = const { RefCell::new(Vec::new()) };
}

/// Sets what every call of this thread returns from now on, and what it writes: a comm, a
/// request, an mhandle, or the `done` of `test`.
pub(crate) fn will_return(code: c_int, made: usize) {
    CODE.set(code);
    MADE.set(made);
    ASKED.take();
}

/// Takes the calls since then, with their arguments.
pub(crate) fn was_asked() -> Asked {
    ASKED.take()
}

fn answer(name: &'static str, arguments: &[usize]) -> c_int {
    ASKED.with_borrow_mut(|asked| asked.push((name, arguments.to_vec())));
    CODE.get()
}

/// Writes the out-parameter on success only, as TCPX does.
fn deliver(code: c_int, place: *mut *mut c_void) -> c_int {
    if code == 0 && !place.is_null() {
        unsafe { *place = ptr::without_provenance_mut(MADE.get()) };
    }
    code
}

fn signed(number: c_int) -> usize {
    number as isize as usize
}

unsafe extern "C" fn init(logger: LoggerArg) -> c_int {
    answer(
        "init",
        &[logger.map_or(0, |logger| logger as *const () as usize)],
    )
}

unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    answer("devices", &[count.addr()])
}

unsafe extern "C" fn get_properties<P>(dev: c_int, props: *mut P) -> c_int {
    answer("getProperties", &[signed(dev), props.addr()])
}

unsafe extern "C" fn listen(dev: c_int, handle: *mut c_void, comm: *mut *mut c_void) -> c_int {
    deliver(
        answer("listen", &[signed(dev), handle.addr(), comm.addr()]),
        comm,
    )
}

unsafe extern "C" fn connect<D>(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_handle: *mut *mut D,
) -> c_int {
    deliver(
        answer(
            "connect",
            &[
                signed(dev),
                handle.addr(),
                comm.addr(),
                device_handle.addr(),
            ],
        ),
        comm,
    )
}

unsafe extern "C" fn accept<D>(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    device_handle: *mut *mut D,
) -> c_int {
    deliver(
        answer(
            "accept",
            &[listener.addr(), comm.addr(), device_handle.addr()],
        ),
        comm,
    )
}

unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> c_int {
    deliver(
        answer(
            "regMr",
            &[
                comm.addr(),
                data.addr(),
                signed(size),
                signed(kind),
                mhandle.addr(),
            ],
        ),
        mhandle,
    )
}

unsafe extern "C" fn reg_mr_wide(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> c_int {
    deliver(
        answer(
            "regMr",
            &[comm.addr(), data.addr(), size, signed(kind), mhandle.addr()],
        ),
        mhandle,
    )
}

unsafe extern "C" fn dereg_mr(comm: *mut c_void, mhandle: *mut c_void) -> c_int {
    answer("deregMr", &[comm.addr(), mhandle.addr()])
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = [
        comm.addr(),
        data.addr(),
        signed(size),
        signed(tag),
        mhandle.addr(),
        request.addr(),
    ];
    deliver(answer("isend", &arguments), request)
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = [
        comm.addr(),
        signed(n),
        data.addr(),
        sizes.addr(),
        tags.addr(),
        mhandles.addr(),
        request.addr(),
    ];
    deliver(answer("irecv", &arguments), request)
}

unsafe extern "C" fn iflush(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = [
        comm.addr(),
        signed(n),
        data.addr(),
        sizes.addr(),
        mhandles.addr(),
        request.addr(),
    ];
    deliver(answer("iflush", &arguments), request)
}

unsafe extern "C" fn test(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> c_int {
    if !done.is_null() {
        unsafe { *done = MADE.get() as c_int };
    }
    answer("test", &[request.addr(), done.addr(), sizes.addr()])
}

unsafe extern "C" fn close_send(comm: *mut c_void) -> c_int {
    answer("closeSend", &[comm.addr()])
}

unsafe extern "C" fn close_recv(comm: *mut c_void) -> c_int {
    answer("closeRecv", &[comm.addr()])
}

unsafe extern "C" fn close_listen(comm: *mut c_void) -> c_int {
    answer("closeListen", &[comm.addr()])
}

unsafe extern "C" fn get_device_mr(
    comm: *mut c_void,
    mhandle: *mut c_void,
    device: *mut *mut c_void,
) -> c_int {
    answer("getDeviceMr", &[comm.addr(), mhandle.addr(), device.addr()])
}

unsafe extern "C" fn irecv_consumed(comm: *mut c_void, n: c_int, request: *mut c_void) -> c_int {
    answer("irecvConsumed", &[comm.addr(), signed(n), request.addr()])
}

macro_rules! net {
    ($abi:ident, $reg_mr:ident) => {
        $abi::Net {
            name: c"Echo".as_ptr(),
            init: Some(init),
            devices: Some(devices),
            get_properties: Some(get_properties::<$abi::Properties>),
            listen: Some(listen),
            connect: Some(connect::<$abi::DeviceHandle>),
            accept: Some(accept::<$abi::DeviceHandle>),
            reg_mr: Some($reg_mr),
            reg_mr_dma_buf: None,
            dereg_mr: Some(dereg_mr),
            isend: Some(isend),
            irecv: Some(irecv),
            iflush: Some(iflush),
            test: Some(test),
            close_send: Some(close_send),
            close_recv: Some(close_recv),
            close_listen: Some(close_listen),
            get_device_mr: Some(get_device_mr),
            irecv_consumed: Some(irecv_consumed),
        }
    };
}

pub(crate) static NET: v7::Net = net!(v7, reg_mr);
pub(crate) static NET_V8: v8::Net = net!(v8, reg_mr_wide);
