//! Messages per second and GB/s between two processes on loopback, by direct calls of the
//! table. The driver does the minimum, so the result is the cost of the plugin.
//!
//! ```text
//! $ NCCL_DYNAMIC_CHUNK_SIZE=524288 cargo run --release -p tcpx-soft --example throughput -- 4096 1 3
//! 4096 bytes, 1 comms: 812345 messages/s, 3.33 GB/s
//! ```
//!
//! Arguments: message bytes, comms, seconds. `DEPTH=1` sends one message at a time, waits for
//! an echo, and prints the round trip time instead. The program starts a second process of
//! itself as the sender, and passes it the connect handles.
#![expect(unsafe_code, reason = "drives a C function table")]

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{env, ptr};
use tcpx_abi::v7::DeviceHandle;
use tcpx_soft::table;

const SEND_WINDOW: usize = 12;
const RECV_WINDOW: usize = 16;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn check(call: &str, code: c_int) -> Outcome<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{call} returned {code}").into())
    }
}

/// One comm and its window, with requests in posting order.
struct Channel {
    comm: *mut c_void,
    mhandle: *mut c_void,
    buffer: Vec<u8>,
    size: usize,
    flight: std::collections::VecDeque<(usize, *mut c_void)>,
    /// Slots of the buffer that are not in flight; the last used slot is last.
    free: Vec<usize>,
}

impl Channel {
    fn new(comm: *mut c_void, size: usize, window: usize) -> Outcome<Self> {
        let mut buffer = vec![1u8; size.max(1) * window];
        let mut mhandle = ptr::null_mut();
        let register = table().reg_mr.ok_or("no regMr")?;
        // SAFETY: a live comm, and a buffer that outlives the comm.
        let code = unsafe {
            register(
                comm,
                buffer.as_mut_ptr().cast(),
                buffer.len() as c_int,
                1,
                &mut mhandle,
            )
        };
        check("regMr", code)?;
        Ok(Self {
            comm,
            mhandle,
            buffer,
            size,
            flight: Default::default(),
            free: (0..window).collect(),
        })
    }

    fn post(&mut self, send: bool, size: usize) -> Outcome<bool> {
        let Some(slot) = self.free.pop() else {
            return Ok(false);
        };
        let mut data: *mut c_void = self.buffer[slot * self.size..].as_mut_ptr().cast();
        let (mut size, mut mhandle, mut request) = (size as c_int, self.mhandle, ptr::null_mut());
        let code = if send {
            let isend = table().isend.ok_or("no isend")?;
            // SAFETY: our comm, buffer and mhandle.
            unsafe { isend(self.comm, data, size, 0, mhandle, &mut request) }
        } else {
            let irecv = table().irecv.ok_or("no irecv")?;
            // SAFETY: our comm, buffer and mhandle; arrays of one.
            unsafe {
                irecv(
                    self.comm,
                    1,
                    &mut data,
                    &mut size,
                    ptr::null_mut(),
                    &mut mhandle,
                    &mut request,
                )
            }
        };
        check("post", code)?;
        self.flight.push_back((slot, request));
        Ok(true)
    }

    /// The size of the oldest request, once this request is done.
    fn retire(&mut self, send: bool) -> Outcome<Option<usize>> {
        let Some((slot, request)) = self.flight.front().copied() else {
            return Ok(None);
        };
        let mut done = 0;
        // SAFETY: our oldest request.
        check("test", unsafe {
            (table().test.ok_or("no test")?)(request, &mut done, ptr::null_mut())
        })?;
        if done == 0 {
            return Ok(None);
        }
        let mut size = 0;
        if !send {
            let (mut same, flush) = (request, table().iflush.ok_or("no iflush")?);
            // SAFETY: a finished receive that is not consumed.
            check("iflush", unsafe {
                flush(
                    self.comm,
                    1,
                    ptr::null_mut(),
                    &mut size,
                    ptr::null_mut(),
                    &mut same,
                )
            })?;
            let consumed = table().irecv_consumed.ok_or("no irecvConsumed")?;
            // SAFETY: the oldest finished receive.
            check("irecvConsumed", unsafe { consumed(self.comm, 1, request) })?;
        }
        self.flight.pop_front();
        self.free.push(slot);
        Ok(Some(size as usize))
    }

    fn wait(&mut self, send: bool) -> Outcome<usize> {
        loop {
            if let Some(size) = self.retire(send)? {
                return Ok(size);
            }
            pause();
        }
    }
}

/// Waits after a sweep without progress: `IDLE=spin` spins, `IDLE=20` sleeps 20 microseconds,
/// and the default yields.
fn pause() {
    static IDLE: LazyLock<Option<String>> = LazyLock::new(|| env::var("IDLE").ok());
    match IDLE.as_deref() {
        Some("spin") => (0..64).for_each(|_| std::hint::spin_loop()),
        Some(other) => std::thread::sleep(Duration::from_micros(other.parse().unwrap_or(0))),
        None => std::thread::yield_now(),
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (size, comms, seconds) = (number(1, 4096), number(2, 1), number(3, 3));
    let init = table().init.ok_or("no init")?;
    // SAFETY: once, without a logger.
    check("init", unsafe { init(None) })?;
    if arguments.get(4).is_some() {
        return sender(size, comms, Duration::from_secs(seconds as u64));
    }
    receiver(size, comms, &arguments)
}

fn echo() -> bool {
    env::var("DEPTH").is_ok_and(|depth| depth == "1")
}

fn spawn(arguments: &[String]) -> Outcome<Child> {
    let mut all: Vec<String> = arguments[1..].to_vec();
    all.resize(3, "3".into());
    all.push("sender".into());
    Ok(Command::new(env::current_exe()?)
        .args(all)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Creates `count` listen comms, and writes their handles to `out`.
fn listen(count: usize, out: &mut impl Write) -> Outcome<Vec<*mut c_void>> {
    let mut listeners = Vec::new();
    for _ in 0..count {
        let (mut handle, mut comm) = ([0u8; 128], ptr::null_mut());
        let listen = table().listen.ok_or("no listen")?;
        // SAFETY: 128 bytes of ours.
        check("listen", unsafe {
            listen(0, handle.as_mut_ptr().cast(), &mut comm)
        })?;
        let text: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "{text}")?;
        listeners.push(comm);
    }
    out.flush()?;
    Ok(listeners)
}

fn accept(listener: *mut c_void) -> Outcome<*mut c_void> {
    let mut device = DeviceHandle {
        net_device_type: 0,
        net_device_version: 0,
        handle: ptr::null_mut(),
        size: 0,
        needs_proxy_progress: 0,
    };
    let (mut comm, mut handle): (*mut c_void, _) = (ptr::null_mut(), &raw mut device);
    let accept = table().accept.ok_or("no accept")?;
    while comm.is_null() {
        // SAFETY: our listener and our device handle.
        check("accept", unsafe {
            accept(listener, &mut comm, &mut handle)
        })?;
        std::thread::yield_now();
    }
    Ok(comm)
}

fn connect(line: &str) -> Outcome<*mut c_void> {
    let mut handle = [0u8; 128];
    for (at, byte) in handle.iter_mut().enumerate() {
        *byte = u8::from_str_radix(line.get(at * 2..at * 2 + 2).ok_or("short handle")?, 16)?;
    }
    let mut comm: *mut c_void = ptr::null_mut();
    let connect = table().connect.ok_or("no connect")?;
    while comm.is_null() {
        // SAFETY: 128 bytes of ours, the same on each call.
        check("connect", unsafe {
            connect(0, handle.as_mut_ptr().cast(), &mut comm, ptr::null_mut())
        })?;
        std::thread::yield_now();
    }
    Ok(comm)
}

fn receiver(size: usize, comms: usize, arguments: &[String]) -> Outcome<()> {
    let mut child = spawn(arguments)?;
    let mut to = child.stdin.take().ok_or("no stdin")?;
    let listeners = listen(comms, &mut to)?;
    let mut channels = Vec::new();
    for listener in listeners {
        channels.push(Channel::new(accept(listener)?, size, RECV_WINDOW)?);
    }
    if echo() {
        let (_, mut back) = (listen(0, &mut to)?, back_channel(&mut child, size)?);
        loop {
            channels[0].post(false, size)?;
            let got = channels[0].wait(false)?;
            back.post(true, got)?;
            back.wait(true)?;
            if got != size {
                break;
            }
        }
    } else {
        report(size, comms, &mut channels)?;
    }
    drop(to);
    close(&channels)?;
    child.wait()?;
    Ok(())
}

/// Connects the echo's direction: the child listens and prints its handle.
fn back_channel(child: &mut Child, size: usize) -> Outcome<Channel> {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().ok_or("no stdout")?).read_line(&mut line)?;
    Channel::new(connect(line.trim())?, size, SEND_WINDOW)
}

fn report(size: usize, comms: usize, channels: &mut [Channel]) -> Outcome<()> {
    let (mut messages, mut bytes, mut open, mut start) = (0u64, 0u64, comms, None);
    while open > 0 {
        let mut moved = false;
        for channel in channels.iter_mut() {
            while channel.post(false, size)? {}
            while let Some(got) = channel.retire(false)? {
                start.get_or_insert_with(Instant::now);
                moved = true;
                messages += 1;
                bytes += got as u64;
                open -= usize::from(got != size);
            }
        }
        if !moved {
            pause();
        }
    }
    let seconds = start.map_or(1.0, |start| start.elapsed().as_secs_f64());
    let (rate, gigabytes) = (messages as f64 / seconds, bytes as f64 / seconds / 1e9);
    println!("{size} bytes, {comms} comms: {rate:.0} messages/s, {gigabytes:.2} GB/s");
    Ok(())
}

fn sender(size: usize, comms: usize, time: Duration) -> Outcome<()> {
    let mut lines = std::io::stdin().lines();
    let mut channels = Vec::new();
    for _ in 0..comms {
        let line = lines.next().ok_or("no handle")??;
        channels.push(Channel::new(connect(&line)?, size, SEND_WINDOW)?);
    }
    if echo() {
        return round_trips(size, time, &mut channels[0]);
    }
    let end = Instant::now() + time;
    while Instant::now() < end {
        let mut moved = false;
        for channel in &mut channels {
            while channel.post(true, size)? {}
            while channel.retire(true)?.is_some() {
                moved = true;
            }
        }
        if !moved {
            pause();
        }
    }
    for channel in &mut channels {
        while !channel.flight.is_empty() {
            channel.wait(true)?;
        }
        channel.post(true, size - 1)?;
        channel.wait(true)?;
    }
    // The receiver closes the connection once it has every message.
    while lines.next().is_some() {}
    close(&channels)?;
    Ok(())
}

/// Closes every comm by `closeSend`; in this plugin, `closeRecv` is the same function.
fn close(channels: &[Channel]) -> Outcome<()> {
    let close = table().close_send.ok_or("no closeSend")?;
    for channel in channels {
        // SAFETY: our comm, not used again.
        check("close", unsafe { close(channel.comm) })?;
    }
    Ok(())
}

fn round_trips(size: usize, time: Duration, channel: &mut Channel) -> Outcome<()> {
    let listeners = listen(1, &mut std::io::stdout())?;
    let mut back = Channel::new(accept(listeners[0])?, size, RECV_WINDOW)?;
    let (end, mut trips) = (Instant::now() + time, Vec::new());
    loop {
        let (start, last) = (Instant::now(), Instant::now() >= end);
        back.post(false, size)?;
        channel.post(true, if last { size - 1 } else { size })?;
        channel.wait(true)?;
        back.wait(false)?;
        trips.push(start.elapsed().as_nanos());
        if last {
            break;
        }
    }
    trips.sort_unstable();
    let at = |share: f64| trips[(trips.len() as f64 * share) as usize] as f64 / 1e3;
    eprintln!(
        "{size} bytes, round trip p50 {:.1} us, p99 {:.1} us, {} trips",
        at(0.5),
        at(0.99),
        trips.len()
    );
    Ok(())
}
