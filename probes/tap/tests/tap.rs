//! Tests the tap over two fake plugins: `echo` returns what the test sets and records its calls;
//! `queue` has comms with sixteen requests.
#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "calls tables of fakes"
)]

mod echo;
mod queue;

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};
use tcpx_abi::v7::{DeviceHandle, Net, Properties};
use tcpx_recorder::format::{Call, EventKind, Role};
use tcpx_recorder::{Address, ChannelSample, Options, Reader, Recorder, Snapshot, State};

use tcpx_tap::{TAPS_MAX, Tap, TooManyTaps, v7, v8};

/// A wrapped fake plugin and its recorder.
#[derive(Clone, Copy)]
struct Tapped {
    net: &'static Net,
    tap: Tap,
}

impl Tapped {
    fn over(inner: &'static Net, name: &str, capacity: u32) -> Self {
        let (net, tap) = v7::wrap(inner, recorder(name, capacity)).unwrap();
        Self { net, tap }
    }

    fn picture(&self) -> Snapshot {
        Reader::open(&self.tap.recorder().path())
            .unwrap()
            .snapshot()
            .unwrap()
    }

    /// The latest slot of a comm.
    fn sample(&self, comm: usize) -> ChannelSample {
        let mine = self
            .picture()
            .channels
            .into_iter()
            .filter(|sample| sample.comm == comm as u64);
        mine.max_by_key(|sample| (sample.opened_ns, sample.generation, sample.slot))
            .unwrap()
    }
}

fn recorder(name: &str, capacity: u32) -> Arc<Recorder> {
    static PARENT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let parent = PARENT.get_or_init(|| tempfile::tempdir().unwrap());
    let options = Options {
        capacity,
        ..Options::new(name)
    };
    Arc::new(Recorder::create_in(parent.path(), &options).unwrap())
}

fn echo() -> Tapped {
    static TAPPED: OnceLock<Tapped> = OnceLock::new();
    *TAPPED.get_or_init(|| Tapped::over(&echo::NET, "echo", 512))
}

/// A tap with few slots, used by one test only for its header counts.
fn small() -> Tapped {
    static TAPPED: OnceLock<Tapped> = OnceLock::new();
    *TAPPED.get_or_init(|| Tapped::over(&echo::NET, "small", 2))
}

fn queued() -> Tapped {
    static TAPPED: OnceLock<Tapped> = OnceLock::new();
    *TAPPED.get_or_init(|| Tapped::over(&queue::NET, "queue", 64))
}

fn at(address: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(address)
}

/// A connect handle as TCPX fills it in: the listener's address, other data, and the ctrl
/// socket's address.
fn handle() -> *mut c_void {
    static HANDLE: [u8; 128] = {
        let mut bytes = [0xee; 128];
        let (data, ctrl) = (
            [2, 0, 0x0f, 0xa0, 10, 0, 0, 226],
            [2, 0, 0x0f, 0xa1, 10, 0, 1, 25],
        );
        let mut at = 0;
        while at < data.len() {
            (bytes[at], bytes[48 + at]) = (data[at], ctrl[at]);
            at += 1;
        }
        bytes
    };
    HANDLE.as_ptr().cast_mut().cast()
}

// The calls of a driver, on a fake that dereferences only what is recorded.

fn connect(tapped: Tapped, dev: c_int, comm: usize) -> c_int {
    echo::will_return(0, comm);
    let mut made = null_mut();
    let code = unsafe { tapped.net.connect.unwrap()(dev, handle(), &mut made, null_mut()) };
    assert_eq!(made.addr(), comm);
    code
}

fn accept(tapped: Tapped, listener: usize, comm: usize, device_type: c_int) {
    echo::will_return(0, comm);
    let mut handle = DeviceHandle {
        net_device_type: device_type,
        net_device_version: 7,
        handle: null_mut(),
        size: 0,
        needs_proxy_progress: 0,
    };
    let (mut made, mut handle) = (null_mut(), &raw mut handle);
    assert_eq!(
        unsafe { tapped.net.accept.unwrap()(at(listener), &mut made, &mut handle) },
        0
    );
    assert_eq!(made.addr(), comm);
}

fn listen(tapped: Tapped, dev: c_int, comm: usize) {
    echo::will_return(0, comm);
    let mut made = null_mut();
    assert_eq!(
        unsafe { tapped.net.listen.unwrap()(dev, handle(), &mut made) },
        0
    );
}

fn isend(tapped: Tapped, comm: usize, size: c_int, code: c_int, request: usize) -> c_int {
    echo::will_return(code, request);
    let mut made = at(0xdead);
    let code = unsafe { tapped.net.isend.unwrap()(at(comm), at(0xb), size, 0, at(0xc), &mut made) };
    assert_eq!(made.addr(), if code == 0 { request } else { 0xdead });
    code
}

fn irecv(tapped: Tapped, comm: usize, sizes: &mut [c_int], request: usize) {
    echo::will_return(0, request);
    let (mut made, n) = (null_mut(), sizes.len() as c_int);
    let call = tapped.net.irecv.unwrap();
    assert_eq!(
        unsafe {
            call(
                at(comm),
                n,
                null_mut(),
                sizes.as_mut_ptr(),
                null_mut(),
                null_mut(),
                &mut made,
            )
        },
        0
    );
}

fn test(tapped: Tapped, request: usize, code: c_int, done: c_int) -> c_int {
    echo::will_return(code, done as usize);
    let mut said = -1;
    assert_eq!(
        unsafe { tapped.net.test.unwrap()(at(request), &mut said, null_mut()) },
        code
    );
    said
}

fn consumed(tapped: Tapped, comm: usize, request: usize) {
    echo::will_return(0, 0);
    assert_eq!(
        unsafe { tapped.net.irecv_consumed.unwrap()(at(comm), 1, at(request)) },
        0
    );
}

fn close(tapped: Tapped, comm: usize) {
    echo::will_return(0, 0);
    assert_eq!(unsafe { tapped.net.close_recv.unwrap()(at(comm)) }, 0);
}

#[test]
fn arguments_codes_and_out_parameters_pass_through() {
    let net = echo().net;
    let (mut number, mut pointer, mut pointers, mut props) = (0, at(1), [at(2)], Properties::ZERO);
    let (mut sizes, mut tags, mut device_handle) = ([5], [6], null_mut());
    let out = &raw mut pointer;
    let (list, sizes, tags) = (pointers.as_mut_ptr(), sizes.as_mut_ptr(), tags.as_mut_ptr());
    let (number, props, device_handle) = (&raw mut number, &raw mut props, &raw mut device_handle);
    let [comm, mhandle, data, request] = [0x11, 0x22, 0x33, 0x55].map(at);
    let handle = handle();
    for code in [0, 1, 2, 3, 7, 8, -5, 77, c_int::MIN] {
        for made in [0x6000, 0] {
            type Call<'a> = (&'static str, &'a dyn Fn() -> c_int, Vec<usize>);
            let calls: [Call<'_>; 17] = unsafe {
                [
                    ("init", &move || net.init.unwrap()(None), vec![0]),
                    (
                        "devices",
                        &move || net.devices.unwrap()(number),
                        vec![number.addr()],
                    ),
                    (
                        "getProperties",
                        &move || net.get_properties.unwrap()(-3, props),
                        vec![-3isize as usize, props.addr()],
                    ),
                    (
                        "listen",
                        &move || net.listen.unwrap()(7, handle, out),
                        vec![7, handle.addr(), out.addr()],
                    ),
                    (
                        "connect",
                        &move || net.connect.unwrap()(7, handle, out, device_handle),
                        vec![7, handle.addr(), out.addr(), device_handle.addr()],
                    ),
                    (
                        "accept",
                        &move || net.accept.unwrap()(comm, out, device_handle),
                        vec![0x11, out.addr(), device_handle.addr()],
                    ),
                    (
                        "regMr",
                        &move || net.reg_mr.unwrap()(comm, data, -1, 2, out),
                        vec![0x11, 0x33, -1isize as usize, 2, out.addr()],
                    ),
                    (
                        "deregMr",
                        &move || net.dereg_mr.unwrap()(comm, mhandle),
                        vec![0x11, 0x22],
                    ),
                    (
                        "isend",
                        &move || net.isend.unwrap()(comm, data, 4096, 9, mhandle, out),
                        vec![0x11, 0x33, 4096, 9, 0x22, out.addr()],
                    ),
                    (
                        "irecv",
                        &move || net.irecv.unwrap()(comm, 1, list, sizes, tags, list, out),
                        vec![
                            0x11,
                            1,
                            list.addr(),
                            sizes.addr(),
                            tags.addr(),
                            list.addr(),
                            out.addr(),
                        ],
                    ),
                    (
                        "iflush",
                        &move || net.iflush.unwrap()(comm, 1, list, sizes, list, out),
                        vec![0x11, 1, list.addr(), sizes.addr(), list.addr(), out.addr()],
                    ),
                    (
                        "test",
                        &move || net.test.unwrap()(request, number, sizes),
                        vec![0x55, number.addr(), sizes.addr()],
                    ),
                    (
                        "closeSend",
                        &move || net.close_send.unwrap()(comm),
                        vec![0x11],
                    ),
                    (
                        "closeRecv",
                        &move || net.close_recv.unwrap()(comm),
                        vec![0x11],
                    ),
                    (
                        "closeListen",
                        &move || net.close_listen.unwrap()(comm),
                        vec![0x11],
                    ),
                    (
                        "getDeviceMr",
                        &move || net.get_device_mr.unwrap()(comm, mhandle, out),
                        vec![0x11, 0x22, out.addr()],
                    ),
                    (
                        "irecvConsumed",
                        &move || net.irecv_consumed.unwrap()(comm, -1, request),
                        vec![0x11, -1isize as usize, 0x55],
                    ),
                ]
            };
            for (name, call, arguments) in calls {
                echo::will_return(code, made);
                unsafe { *out = at(0xdead) };
                assert_eq!(call(), code, "{name}");
                assert_eq!(echo::was_asked(), [(name, arguments)]);
                let delivers = [
                    "listen", "connect", "accept", "regMr", "isend", "irecv", "iflush",
                ]
                .contains(&name);
                let expected = if delivers && code == 0 { made } else { 0xdead };
                assert_eq!(unsafe { *out }.addr(), expected, "{name}");
            }
        }
    }
}

#[test]
fn null_out_parameters_are_not_written() {
    let tapped = echo();
    listen(tapped, 0, 0x1_0100);
    accept(tapped, 0x1_0100, 0x1_0200, 1);
    let (net, comm) = (tapped.net, at(0x1_0200));
    irecv(tapped, 0x1_0200, &mut [1], 0x1_0300);
    echo::will_return(0, 0);
    unsafe {
        assert_eq!(net.listen.unwrap()(0, null_mut(), null_mut()), 0);
        assert_eq!(
            net.connect.unwrap()(0, null_mut(), null_mut(), null_mut()),
            0
        );
        assert_eq!(net.accept.unwrap()(at(0x1_0100), null_mut(), null_mut()), 0);
        assert_eq!(
            net.isend.unwrap()(comm, null_mut(), 1, 0, null_mut(), null_mut()),
            0
        );
        let irecv = net.irecv.unwrap();
        assert_eq!(
            irecv(
                comm,
                1,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut()
            ),
            0
        );
        assert_eq!(
            net.iflush.unwrap()(comm, 1, null_mut(), null_mut(), null_mut(), null_mut()),
            0
        );
        assert_eq!(net.test.unwrap()(at(0x1_0300), null_mut(), null_mut()), 0);
        assert_eq!(net.test.unwrap()(null_mut(), null_mut(), null_mut()), 0);
    }
    let sample = tapped.sample(0x1_0200);
    assert_eq!(
        (sample.posted, sample.null_requests, sample.tests_not_done),
        (1, 2, 1)
    );
}

#[test]
fn the_name_and_null_members_are_kept() {
    let tapped = echo();
    assert_eq!(tapped.net.name, echo::NET.name);
    assert!(tapped.net.reg_mr_dma_buf.is_none() && echo::NET.reg_mr_dma_buf.is_none());
    assert!(tapped.net.irecv_consumed.is_some());

    static BARE: Net = Net {
        irecv_consumed: None,
        get_device_mr: None,
        name: null(),
        ..echo::NET
    };
    // The state is never freed, so this test uses up one of the few tables.
    let (net, _) = v7::wrap(&BARE, recorder("bare", 1)).unwrap();
    assert!(net.irecv_consumed.is_none() && net.get_device_mr.is_none() && net.name.is_null());

    // Wrap tables until none is left; other tests may have wrapped some.
    small();
    queued();
    assert_eq!(
        v7::wrap(&BARE, recorder("more", 1)).map(|_| ()),
        Err(TooManyTaps)
    );
    assert_eq!(
        v7::wrap(&BARE, recorder("most", 1)).map(|_| ()),
        Err(TooManyTaps)
    );
    assert_eq!(TAPS_MAX, 4);
}

#[test]
fn v8_is_recorded_and_keeps_its_size_t_registration() {
    let (net, tap) = v8::wrap(&echo::NET_V8, recorder("v8", 4)).unwrap();
    echo::will_return(0, 0x2_0000);
    let mut made = null_mut();
    let wide = 5 << 30;
    unsafe {
        assert_eq!(
            net.connect.unwrap()(0, null_mut(), &mut made, null_mut()),
            0
        );
        assert_eq!(
            net.reg_mr.unwrap()(at(0x2_0000), null_mut(), wide, 1, &mut made),
            0
        );
    }
    assert_eq!(echo::was_asked()[1].1[2], wide);
    let snapshot = Reader::open(&tap.recorder().path())
        .unwrap()
        .snapshot()
        .unwrap();
    assert_eq!(
        (snapshot.channels[0].comm, snapshot.channels[0].role),
        (0x2_0000, Role::Send)
    );
    assert_eq!(snapshot.channels[0].last_call, Some(Call::RegMr));
}

#[test]
fn a_comm_has_a_slot_until_it_is_closed() {
    let tapped = echo();
    listen(tapped, 3, 0x3_0000);
    // Two calls that return no comm yet.
    for _ in 0..2 {
        let mut made = at(1);
        echo::will_return(0, 0);
        assert_eq!(
            unsafe { tapped.net.accept.unwrap()(at(0x3_0000), &mut made, null_mut()) },
            0
        );
        assert!(made.is_null());
    }
    accept(tapped, 0x3_0000, 0x3_1000, 1);
    assert_eq!(connect(tapped, 5, 0x3_2000), 0);

    let [listener, recv, send] = [0x3_0000, 0x3_1000, 0x3_2000].map(|comm| tapped.sample(comm));
    assert_eq!(
        (
            listener.role,
            listener.device,
            listener.tests,
            listener.tests_not_done
        ),
        (Role::Listen, Some(3), 3, 2)
    );
    assert_eq!(
        (recv.role, recv.device, recv.retires_consumed),
        (Role::Recv, Some(3), true)
    );
    assert_eq!(
        (send.role, send.device, send.retires_consumed),
        (Role::Send, Some(5), false)
    );
    let key = tapped.tap.key(at(0x3_1000)).unwrap();
    assert_eq!(key.index, recv.slot);
    tapped.tap.set_channel(key, 12);
    assert_eq!(tapped.sample(0x3_1000).channel, Some(12));

    close(tapped, 0x3_1000);
    assert_eq!(tapped.tap.key(at(0x3_1000)), None);
    let closed = tapped.sample(0x3_1000);
    assert_eq!(
        (closed.state, closed.last_call),
        (State::Closed, Some(Call::CloseRecv))
    );
}

#[test]
fn a_comm_has_the_addresses_of_its_handle_and_its_events() {
    let tapped = echo();
    listen(tapped, 3, 0xd_0000);
    accept(tapped, 0xd_0000, 0xd_1000, 1);
    connect(tapped, 5, 0xd_2000);
    let text = |address: Option<Address>| {
        address
            .map(|address| address.to_string())
            .unwrap_or_default()
    };
    let [listener, recv, send] =
        [0xd_0000, 0xd_1000, 0xd_2000].map(|comm| tapped.sample(comm).addresses);
    assert_eq!(listener, recv);
    assert_eq!(
        (text(recv.local), text(recv.peer)),
        ("10.0.0.226:4000".into(), String::new())
    );
    assert_eq!(
        (text(send.peer), text(send.ctrl)),
        ("10.0.0.226:4000".into(), "10.0.1.25:4001".into())
    );

    let key = tapped.tap.key(at(0xd_1000)).unwrap();
    irecv(tapped, 0xd_1000, &mut [1000], 0xd_3000);
    irecv(tapped, 0xd_1000, &mut [2000], 0xd_3080);
    test(tapped, 0xd_3000, 0, 0);
    test(tapped, 0xd_3000, 0, 1);
    tapped.tap.unpacked(key);
    consumed(tapped, 0xd_1000, 0xd_3000);
    for _ in 0..3 {
        test(tapped, 0xd_3080, 2, 0);
    }
    close(tapped, 0xd_1000);
    let mut reader = Reader::open(&tapped.tap.recorder().path()).unwrap();
    let events = reader.events(&tapped.sample(0xd_1000), 100).unwrap();
    let told = events.events.iter().map(|event| {
        (
            event.kind,
            event.call,
            event.code,
            event.request,
            event.value,
        )
    });
    let expected = [
        (EventKind::Opened, Call::Accept, 0, 0, 1),
        (EventKind::Posted, Call::Irecv, 0, 0, 1000),
        (EventKind::Posted, Call::Irecv, 0, 1, 2000),
        (EventKind::Done, Call::Test, 0, 0, 1000),
        (EventKind::Unpacked, Call::Test, 0, 0, 0),
        (EventKind::Consumed, Call::IrecvConsumed, 0, 0, 0),
        (EventKind::Failed, Call::Test, 2, 1, 0),
        (EventKind::Closed, Call::CloseRecv, 0, 0, 0),
    ];
    assert!(told.eq(expected), "{events:?}");
}

#[test]
fn a_receive_goes_through_its_stages() {
    let tapped = echo();
    listen(tapped, 0, 0x4_0000);
    accept(tapped, 0x4_0000, 0x4_1000, 1);
    let key = tapped.tap.key(at(0x4_1000)).unwrap();
    for request in [0x4_2000, 0x4_2080, 0x4_2100] {
        irecv(tapped, 0x4_1000, &mut [1000], request);
    }
    assert_eq!(test(tapped, 0x4_2000, 0, 0), 0);
    assert_eq!(test(tapped, 0x4_2000, 0, 1), 1);
    assert_eq!(test(tapped, 0x4_2080, 0, 1), 1);
    tapped.tap.unpacked(key);
    tapped.tap.unpacked(key);
    consumed(tapped, 0x4_1000, 0x4_2000);

    let sample = tapped.sample(0x4_1000);
    assert_eq!(
        (sample.posted, sample.done, sample.unpacked, sample.consumed),
        (3, 2, Some(2), 1)
    );
    assert_eq!((sample.in_flight(), sample.in_flight_high_water), (2, 3));
    assert_eq!((sample.tests, sample.tests_not_done), (3, 1));
    assert_eq!(
        (
            sample.bytes_posted,
            sample.bytes_done,
            sample.latency.count()
        ),
        (3000, 2000, 2)
    );
    assert!(sample.head_posted_ns <= sample.not_done_posted_ns && sample.head_posted_ns.is_some());
    assert_eq!(sample.in_call, None);
}

#[test]
fn a_receive_without_unpack_retires_when_done() {
    let tapped = echo();
    listen(tapped, 0, 0x5_0000);
    accept(tapped, 0x5_0000, 0x5_1000, 0);
    irecv(tapped, 0x5_1000, &mut [10], 0x5_2000);
    test(tapped, 0x5_2000, 0, 1);
    assert_eq!(tapped.sample(0x5_1000).in_flight(), 0);
    // After an unnecessary consume the channel counts as one that must consume.
    irecv(tapped, 0x5_1000, &mut [10], 0x5_2000);
    test(tapped, 0x5_2000, 0, 1);
    consumed(tapped, 0x5_1000, 0x5_2000);
    let sample = tapped.sample(0x5_1000);
    assert!(sample.retires_consumed);
    assert_eq!((sample.consumed, sample.in_flight()), (1, 1));
}

#[test]
fn errors_and_null_requests_are_counted_separately() {
    let tapped = echo();
    connect(tapped, 0, 0x6_0000);
    isend(tapped, 0x6_0000, 100, 0, 0x6_1000);
    for _ in 0..3 {
        isend(tapped, 0x6_0000, 100, 0, 0);
    }
    isend(tapped, 0x6_0000, 100, 3, 0x6_9000);
    test(tapped, 0x6_1000, 2, 0);
    test(tapped, 0x6_1000, 2, 1);
    test(tapped, 0x6_1000, 1234, 0);
    let sample = tapped.sample(0x6_0000);
    assert_eq!(
        (sample.posted, sample.done, sample.null_requests),
        (1, 0, 3)
    );
    assert_eq!((sample.tests, sample.tests_not_done), (3, 0));
    assert_eq!(sample.errors, [0, 0, 2, 1, 0, 0, 0, 0, 0, 1]);
    let last = sample.last_error.unwrap();
    assert_eq!((last.call, last.code), (Call::Test, 1234));
    // A failed test does not change the request.
    test(tapped, 0x6_1000, 0, 1);
    assert_eq!(tapped.sample(0x6_0000).done, 1);
}

#[test]
fn a_request_pointer_may_equal_the_comm_pointer_and_be_reused() {
    let tapped = echo();
    connect(tapped, 0, 0x7_0000);
    for round in 0..1000 {
        isend(tapped, 0x7_0000, round, 0, 0x7_0000);
        test(tapped, 0x7_0000, 0, 0);
        test(tapped, 0x7_0000, 0, 1);
    }
    let sample = tapped.sample(0x7_0000);
    assert_eq!(
        (
            sample.posted,
            sample.done,
            sample.tests,
            sample.tests_not_done
        ),
        (1000, 1000, 2000, 1000)
    );
    assert_eq!(
        (sample.bytes_done, sample.in_flight_high_water),
        (499_500, 1)
    );
}

#[test]
fn a_finished_request_is_unknown() {
    let tapped = echo();
    connect(tapped, 0, 0x8_0000);
    isend(tapped, 0x8_0000, 1, 0, 0x8_1000);
    test(tapped, 0x8_1000, 0, 1);
    test(tapped, 0x8_1000, 0, 1);
    let sample = tapped.sample(0x8_0000);
    assert_eq!((sample.done, sample.tests), (1, 1));
}

#[test]
fn a_flush_is_not_one_of_the_channels_requests() {
    let tapped = echo();
    listen(tapped, 0, 0x9_0000);
    let flush = |comm: usize, request: usize| {
        echo::will_return(0, request);
        let mut made = at(request);
        let call = tapped.net.iflush.unwrap();
        assert_eq!(
            unsafe { call(at(comm), 1, null_mut(), null_mut(), null_mut(), &mut made) },
            0
        );
    };
    // A plugin without unpack returns a request, here in the finished receive's memory.
    accept(tapped, 0x9_0000, 0x9_1000, 0);
    irecv(tapped, 0x9_1000, &mut [10], 0x9_2000);
    test(tapped, 0x9_2000, 0, 1);
    flush(0x9_1000, 0x9_2000);
    test(tapped, 0x9_2000, 0, 0);
    test(tapped, 0x9_2000, 0, 1);
    let sample = tapped.sample(0x9_1000);
    assert_eq!(
        (sample.posted, sample.done, sample.flushes, sample.tests),
        (1, 1, 1, 3)
    );

    // TCPX reads the size of the given receive, so there is no new request to track.
    accept(tapped, 0x9_0000, 0x9_3000, 1);
    irecv(tapped, 0x9_3000, &mut [10], 0x9_4000);
    flush(0x9_3000, 0x9_4000);
    test(tapped, 0x9_4000, 0, 1);
    let sample = tapped.sample(0x9_3000);
    assert_eq!((sample.posted, sample.done, sample.flushes), (1, 1, 0));
}

#[test]
fn sizes_are_used_only_if_they_are_plausible() {
    let tapped = echo();
    listen(tapped, 0, 0xa_0000);
    accept(tapped, 0xa_0000, 0xa_1000, 0);
    let finish = |posted: &mut [c_int], mut written: [c_int; 2]| {
        let before = tapped.sample(0xa_1000).bytes_done;
        irecv(tapped, 0xa_1000, posted, 0xa_2000);
        echo::will_return(0, 1);
        let mut done = 0;
        assert_eq!(
            unsafe { tapped.net.test.unwrap()(at(0xa_2000), &mut done, written.as_mut_ptr()) },
            0
        );
        tapped.sample(0xa_1000).bytes_done - before
    };
    // TCPX writes nothing: the caller's zero stays.
    assert_eq!(finish(&mut [100], [0, 0]), 100);
    assert_eq!(finish(&mut [100], [60, 0]), 60);
    assert_eq!(finish(&mut [100], [60, 999]), 60);
    assert_eq!(finish(&mut [100], [101, 0]), 100);
    assert_eq!(finish(&mut [100], [-5, 0]), 100);
    assert_eq!(finish(&mut [100, 50], [60, 50]), 110);
    assert_eq!(finish(&mut [-7], [0, 0]), 0);
}

#[test]
fn a_reused_comm_or_request_pointer_is_a_new_object() {
    let tapped = echo();
    connect(tapped, 0, 0xb_0000);
    isend(tapped, 0xb_0000, 1, 0, 0xb_1000);
    close(tapped, 0xb_0000);
    let old = tapped.sample(0xb_0000);
    // The same pointer; the request of the closed comm was never finished.
    connect(tapped, 0, 0xb_0000);
    test(tapped, 0xb_1000, 0, 1);
    let new = tapped.sample(0xb_0000);
    assert_ne!((old.slot, old.generation), (new.slot, new.generation));
    assert_eq!((new.posted, new.done, new.tests), (0, 0, 0));

    // The same pointer again without a close: the previous comm no longer exists.
    connect(tapped, 0, 0xb_0000);
    let lives = tapped
        .picture()
        .channels
        .into_iter()
        .filter(|sample| sample.comm == 0xb_0000);
    let open = lives.filter(|sample| sample.state == State::Open).count();
    assert_eq!(open, 1);

    // An unfinished request of another comm, reused by this comm.
    connect(tapped, 0, 0xb_2000);
    isend(tapped, 0xb_2000, 1, 0, 0xb_3000);
    test(tapped, 0xb_3000, 3, 0);
    isend(tapped, 0xb_0000, 1, 0, 0xb_3000);
    test(tapped, 0xb_3000, 0, 1);
    assert_eq!(
        (tapped.sample(0xb_0000).done, tapped.sample(0xb_2000).done),
        (1, 0)
    );
}

#[test]
fn a_comm_without_a_slot_works_and_is_counted_as_refused() {
    let tapped = small();
    connect(tapped, 0, 0xc_0000);
    connect(tapped, 0, 0xc_1000);
    connect(tapped, 0, 0xc_2000);
    assert_eq!(tapped.tap.key(at(0xc_2000)), None);
    // A request pointer that an unknown comm reuses must not count for the known comm.
    isend(tapped, 0xc_0000, 1, 0, 0xc_3000);
    isend(tapped, 0xc_2000, 1, 0, 0xc_3000);
    assert_eq!(test(tapped, 0xc_3000, 0, 1), 1);
    let header = tapped.picture().header;
    assert_eq!(
        (
            header.channels_refused,
            header.requests_untracked,
            header.requests_unknown
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (tapped.sample(0xc_0000).posted, tapped.sample(0xc_0000).done),
        (1, 0)
    );
    let before = header.setup_errors;
    assert_eq!(isend(tapped, 0xc_2000, 1, 3, 0), 3);
    let header = tapped.picture().header;
    assert_eq!(
        (header.setup_errors - before, header.setup_last_error),
        (1, Some((Call::Isend, 3)))
    );
    close(tapped, 0xc_2000);
    assert_eq!(tapped.picture().header.setup_calls_inside, 0);
}

#[test]
fn comms_of_many_threads_are_counted_exactly() {
    let tapped = queued();
    let rounds = 3_000u64;
    // The device identifies them, because the address of a closed comm may be reused.
    let drivers: Vec<_> = (0..8)
        .map(|dev| {
            std::thread::spawn(move || {
                queue::drive(tapped.net, dev, rounds + dev as u64, 1 + dev as usize * 2)
            })
        })
        .chain([std::thread::spawn(move || {
            queue::drive(tapped.net, 8, rounds, 16)
        })])
        .collect();
    let driven: Vec<_> = drivers
        .into_iter()
        .map(|driver| driver.join().unwrap())
        .collect();
    let channels = tapped.picture().channels;
    for driven in driven {
        let sample = channels
            .iter()
            .find(|sample| sample.device == Some(driven.dev))
            .unwrap();
        assert_eq!(sample.state, State::Closed);
        assert_eq!((sample.posted, sample.done), (driven.posted, driven.posted));
        assert_eq!(
            (sample.tests, sample.tests_not_done),
            (driven.tests, driven.tests - driven.posted)
        );
        assert_eq!(
            (sample.bytes_posted, sample.bytes_done),
            (driven.bytes, driven.bytes)
        );
        assert_eq!(sample.in_flight_high_water, driven.depth as u64);
        assert_eq!(sample.latency.count(), driven.posted);
        assert_eq!((sample.rc_errors(), sample.torn), (driven.refused, false));
    }
    let header = tapped.picture().header;
    assert_eq!((header.requests_unknown, header.requests_untracked), (0, 0));
}
