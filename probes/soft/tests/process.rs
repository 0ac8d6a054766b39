//! What belongs to a whole process: `init` and its environment, the log, exit
//! and signals, descriptors and threads. Each test starts this program again as
//! a child that plays one role through the table, and reads what it prints.
#![expect(unsafe_code, reason = "drives a C function table")]

use std::ffi::{c_int, c_void};
use std::fs;
use std::process::{Command, Output};
use std::ptr;
use std::time::{Duration, Instant};
use tcpx_abi::v7::DeviceHandle;
use tcpx_abi::{PTR_HOST, logger};
use tcpx_soft::table;

const ROLE: &str = "TCPXSOFT_TEST_ROLE";

/// Runs a role with `pairs` in its environment.
fn play(role: &str, pairs: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "child",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .env(ROLE, role)
        .env("TCPXSOFT_SOCKET_IFNAME", "=lo")
        .env("NCCL_DYNAMIC_CHUNK_SIZE", "4096");
    command.envs(pairs.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

fn expect(text: &str, line: &str) {
    assert!(
        text.lines().any(|found| found.contains(line)),
        "no `{line}` in\n{text}"
    );
}

#[test]
#[ignore = "a role of the other tests, not a test"]
fn child() {
    match std::env::var(ROLE).as_deref() {
        Ok("init") => init_twice(),
        Ok("transfer") => transfer(),
        Ok("broken-pipe") => broken_pipe(),
        Ok("leak") => leak(),
        Ok("stale") => stale(),
        _ => {}
    }
}

fn init() -> c_int {
    let log =
        logger::install(|line| println!("[{}] {}", line.level, String::from_utf8_lossy(line.text)));
    // SAFETY: a logger for the life of the process.
    unsafe { table().init.unwrap()(Some(log)) }
}

fn init_twice() {
    let mut count = 0;
    // SAFETY: an integer of ours.
    unsafe { table().devices.unwrap()(&mut count) };
    println!("devices before init {count}");
    println!("first {} second {}", init(), init());
}

#[test]
fn init_echoes_its_settings_and_works_once() {
    let (output, text) = play(
        "init",
        &[
            ("NCCL_DYNAMIC_CHUNK_SIZE", "0x80000"),
            ("TCPXSOFT_CONGESTION", "reno"),
        ],
    );
    assert!(output.status.success());
    expect(&text, "devices before init -1");
    expect(&text, "[3] NET/TCPXSoft initialization start");
    expect(
        &text,
        "[3] NCCL_DYNAMIC_CHUNK_SIZE set by environment to 524288.",
    );
    expect(&text, "[3] NET/TCPXSoft : dynamic chunk size: 524288");
    expect(&text, "[3] NET/TCPXSoft : congestion control: reno");
    expect(&text, "[3] NET/TCPXSoft : Using [0]lo:127.0.0.1<0>");
    expect(&text, "[3] NET/TCPXSoft plugin initialized");
    expect(
        &text,
        concat!("[3] NET/TCPXSoft ver. ", env!("CARGO_PKG_VERSION"), "."),
    );
    expect(&text, "[2] gpu lib init twice");
    expect(&text, "first 0 second 3");
}

#[test]
fn init_refuses_what_it_cannot_do_and_says_why() {
    let check = |variable: &str, value: &str, line: &str| {
        let (_, text) = play("init", &[(variable, value)]);
        expect(&text, line);
        expect(&text, "first 3");
    };
    check(
        "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE",
        "0",
        "[3] NET/TCPXSoft disabled",
    );
    check(
        "TCPXSOFT_SOCKET_IFNAME",
        "no-such-interface",
        "[2] NET/TCPXSoft : no interface found, wanted no-such-interface",
    );
    check(
        "TCPXSOFT_CTRL_DEV",
        "eth99",
        "[2] NET/TCPXSoft : no ctrl interface found: eth99",
    );
    check(
        "TCPXSOFT_CONGESTION",
        "vegetarian",
        "[2] NET/TCPXSoft : congestion control vegetarian: ",
    );
    check(
        "TCPXSOFT_FAULT",
        "stap",
        "[2] NET/TCPXSoft : TCPXSOFT_FAULT is `stap`, expected unknown kind",
    );
}

/// A connection within this process, through the table.
struct Pair {
    sender: *mut c_void,
    receiver: *mut c_void,
    mhandles: [*mut c_void; 2],
    buffers: Box<[[u8; 4096]; 2]>,
}

impl Pair {
    fn new() -> Self {
        let (mut handle, mut listener) = ([0u8; 128], ptr::null_mut());
        let listen = table().listen.unwrap();
        // SAFETY: 128 bytes of ours.
        let code = unsafe { listen(0, handle.as_mut_ptr().cast(), &mut listener) };
        assert_eq!(code, 0);
        let (mut sender, mut receiver): (*mut c_void, *mut c_void) =
            (ptr::null_mut(), ptr::null_mut());
        let mut device = DeviceHandle {
            net_device_type: 0,
            net_device_version: 0,
            handle: ptr::null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        };
        let mut device: *mut DeviceHandle = &mut device;
        while sender.is_null() || receiver.is_null() {
            if sender.is_null() {
                let connect = table().connect.unwrap();
                let buffer = handle.as_mut_ptr().cast();
                // SAFETY: 128 bytes of ours, the same on each call.
                let code = unsafe { connect(0, buffer, &mut sender, ptr::null_mut()) };
                assert_eq!(code, 0);
            }
            if receiver.is_null() {
                let accept = table().accept.unwrap();
                // SAFETY: our listener and device handle.
                let code = unsafe { accept(listener, &mut receiver, &mut device) };
                assert_eq!(code, 0);
            }
        }
        // SAFETY: our listener.
        assert_eq!(unsafe { table().close_listen.unwrap()(listener) }, 0);
        let mut pair = Self {
            sender,
            receiver,
            mhandles: [ptr::null_mut(); 2],
            buffers: Box::new([[7; 4096], [0; 4096]]),
        };
        for (at, comm) in [sender, receiver].into_iter().enumerate() {
            let data = pair.buffers[at].as_mut_ptr().cast();
            // SAFETY: our comm, and a buffer that outlives it.
            let code = unsafe {
                table().reg_mr.unwrap()(comm, data, 4096, PTR_HOST, &mut pair.mhandles[at])
            };
            assert_eq!(code, 0);
        }
        pair
    }

    fn isend(&mut self, request: &mut *mut c_void) -> c_int {
        let data = self.buffers[0].as_mut_ptr().cast();
        // SAFETY: our comm, buffer and mhandle.
        unsafe { table().isend.unwrap()(self.sender, data, 4096, 0, self.mhandles[0], request) }
    }

    fn irecv(&mut self, request: &mut *mut c_void) -> c_int {
        let (mut data, mut size) = (self.buffers[1].as_mut_ptr().cast(), 4096);
        let irecv = table().irecv.unwrap();
        // SAFETY: our comm, buffer and mhandle; arrays of one.
        unsafe {
            irecv(
                self.receiver,
                1,
                &mut data,
                &mut size,
                ptr::null_mut(),
                &mut self.mhandles[1],
                request,
            )
        }
    }

    /// One message; the first code that is not 0, if any.
    fn message(&mut self) -> Result<(), c_int> {
        let (mut send, mut recv) = (ptr::null_mut(), ptr::null_mut());
        ok(self.isend(&mut send))?;
        ok(self.irecv(&mut recv))?;
        let (mut sent, mut received) = (false, false);
        while !(sent && received) {
            sent = sent || test(send)?;
            received = received || test(recv)?;
        }
        // SAFETY: a finished receive of ours.
        ok(unsafe { table().irecv_consumed.unwrap()(self.receiver, 1, recv) })
    }

    fn close(&mut self) {
        // SAFETY: comms and mhandles of ours, not used again.
        unsafe { table().close_send.unwrap()(self.sender) };
        // SAFETY: as above.
        unsafe { table().close_recv.unwrap()(self.receiver) };
        for mhandle in self.mhandles {
            let dereg_mr = table().dereg_mr.unwrap();
            // SAFETY: as above.
            let code = unsafe { dereg_mr(ptr::null_mut(), mhandle) };
            assert_eq!(code, 0);
        }
    }
}

fn ok(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

fn test(request: *mut c_void) -> Result<bool, c_int> {
    // A canary where sizes would be written.
    let (mut done, mut sizes) = (9, [-77]);
    // SAFETY: a request of ours, or one that was.
    let code = unsafe { table().test.unwrap()(request, &mut done, sizes.as_mut_ptr()) };
    assert!(
        done == 0 || (done == 1 && code == 0),
        "done is written, and 1 only with code 0"
    );
    assert_eq!(sizes, [-77], "sizes are never written");
    ok(code).map(|()| done == 1)
}

fn transfer() {
    assert_eq!(init(), 0);
    let mut pair = Pair::new();
    for number in 1..=5 {
        let start = Instant::now();
        let outcome = pair.message();
        println!(
            "message {number}: {outcome:?} slow {}",
            start.elapsed() >= Duration::from_millis(80)
        );
    }
    pair.close();
    println!("right {}", pair.buffers[1] == [7; 4096]);
}

#[test]
fn a_transfer_through_the_table_works_in_every_mode() {
    for io in ["inline", "helper", "auto"] {
        let (output, text) = play("transfer", &[("TCPXSOFT_IO", io)]);
        assert!(output.status.success());
        assert_eq!(text.contains(" io auto: "), io == "auto");
        expect(&text, "message 5: Ok(()) slow false");
        expect(&text, "right true");
        expect(&text, "[3] NET/TCPXSoft: Connected 1 socks");
        expect(&text, "[3] All bytes: 20480");
    }
}

#[test]
fn a_call_returns_the_code_it_was_told_to() {
    let (_, text) = play(
        "transfer",
        &[("TCPXSOFT_FAULT", "rc:call=irecv,value=5,nth=3")],
    );
    expect(&text, "message 2: Ok(())");
    expect(&text, "message 3: Err(5)");
}

#[test]
fn a_call_spins_for_as_long_as_it_was_told_to() {
    let (_, text) = play(
        "transfer",
        &[("TCPXSOFT_FAULT", "spin:call=isend,nth=2,ms=90")],
    );
    expect(&text, "message 1: Ok(()) slow false");
    expect(&text, "message 2: Ok(()) slow true");
}

#[test]
fn a_chunk_without_control_data_ends_the_process() {
    let (output, text) = play("transfer", &[("TCPXSOFT_FAULT", "exit:chunk=2")]);
    assert_eq!(output.status.code(), Some(1));
    expect(&text, "message 1: Ok(())");
    expect(&text, "[2] fatal, 127.0.0.1<");
    expect(&text, " rx no cmsg");
    assert!(!text.contains("message 2"));
}

fn broken_pipe() {
    assert_eq!(init(), 0);
    let mut pair = Pair::new();
    // SAFETY: the default of a C program, which Rust's runtime has changed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: our comm, not used again.
    unsafe { table().close_recv.unwrap()(pair.receiver) };
    let mut requests = Vec::new();
    let code = loop {
        let mut request = ptr::null_mut();
        if pair.isend(&mut request) == 0 {
            requests.push(request);
        }
        match test(requests[0]) {
            Ok(true) => drop(requests.remove(0)),
            Ok(false) => {}
            Err(code) => break code,
        }
    };
    println!("alive after code {code}");
}

#[test]
fn a_dead_peer_does_not_kill_a_process_that_leaves_sigpipe_alone() {
    let (output, text) = play("broken-pipe", &[]);
    assert!(output.status.success(), "{:?}", output.status);
    expect(&text, "alive after code 2");
}

fn leak() {
    assert_eq!(init(), 0);
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let now = || (count("/proc/self/fd"), count("/proc/self/task"));
    Pair::new().close();
    let before = now();
    let mut pairs: Vec<Pair> = (0..20).map(|_| Pair::new()).collect();
    let mut request = ptr::null_mut();
    for pair in &mut pairs {
        pair.message().unwrap();
        assert_eq!(pair.irecv(&mut request), 0);
    }
    let during = now();
    pairs.iter_mut().for_each(Pair::close);
    println!("descriptors and threads back {}", before == now());
    println!("threads started {}", during.1 - before.1);
}

#[test]
fn descriptors_and_threads_are_back_after_close() {
    for (io, per_comm, threads) in [
        ("inline", "1", 0),
        ("helper", "1", 40),
        ("helper", "3", 120),
    ] {
        let settings = [("TCPXSOFT_IO", io), ("NCCL_SOCKET_NTHREADS", per_comm)];
        let (_, text) = play("leak", &settings);
        expect(&text, "descriptors and threads back true");
        expect(&text, &format!("threads started {threads}"));
    }
}

fn stale() {
    assert_eq!(init(), 0);
    let mut pair = Pair::new();
    let (mut request, mut other) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(pair.irecv(&mut request), 0);
    pair.close();
    println!("test {:?}", test(request));
    // SAFETY: a request that was ours.
    println!("consumed {}", unsafe {
        table().irecv_consumed.unwrap()(pair.receiver, 1, request)
    });
    println!("isend {}", pair.isend(&mut other));
    // SAFETY: a comm that was ours.
    println!("close {}", unsafe {
        table().close_recv.unwrap()(pair.receiver)
    });
    // SAFETY: an mhandle that was ours.
    println!("deregMr {}", unsafe {
        table().dereg_mr.unwrap()(ptr::null_mut(), pair.mhandles[0])
    });
}

#[test]
fn everything_of_a_closed_comm_is_refused() {
    let (output, text) = play("stale", &[]);
    assert!(output.status.success());
    for line in [
        "test Err(3)",
        "consumed 3",
        "isend 3",
        "close 3",
        "deregMr 3",
    ] {
        expect(&text, line);
    }
}
