//! Measures the cost of the tap: the same calls on a plugin that does nothing, without and with
//! the tap, interleaved. Prints medians over many rounds.
//!
//! ```text
//! cargo run --release -p tcpx-tap --example tap_cost
//! ```
#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls the table of a fake"
)]

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, Release},
};
use std::time::Instant;
use tcpx_abi::v7::{DeviceHandle, Net};
use tcpx_recorder::{Options, Recorder};
use tcpx_tap::v7;

const ROUNDS: usize = 201;
const CALLS: usize = 50_000;
const WINDOW: usize = 16;
/// Distance between TCPX's requests in memory.
const REQUEST_BYTES: usize = 128;
const COMM_BYTES: usize = 1 << 16;

static NEXT_COMM: AtomicUsize = AtomicUsize::new(1);

unsafe extern "C" fn connect(
    _: c_int,
    _: *mut c_void,
    comm: *mut *mut c_void,
    _: *mut *mut DeviceHandle,
) -> c_int {
    unsafe {
        *comm = std::ptr::without_provenance_mut(NEXT_COMM.fetch_add(1, Relaxed) * COMM_BYTES)
    };
    0
}

/// The tag selects the request of the comm.
unsafe extern "C" fn isend(
    comm: *mut c_void,
    _: *mut c_void,
    _: c_int,
    tag: c_int,
    _: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    unsafe { *request = comm.wrapping_byte_add(tag as usize * REQUEST_BYTES) };
    0
}

/// Leaves `done` as the caller set it.
unsafe extern "C" fn test(_: *mut c_void, done: *mut c_int, _: *mut c_int) -> c_int {
    black_box(done);
    0
}

static NULL_PLUGIN: Net = Net {
    name: c"Null".as_ptr(),
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
    close_send: None,
    close_recv: None,
    close_listen: None,
    get_device_mr: None,
    irecv_consumed: None,
};

/// A table and its comms, each with a full window posted.
struct Driver {
    net: &'static Net,
    comms: Vec<*mut c_void>,
    heads: Vec<*mut c_void>,
}

impl Driver {
    fn new(net: &'static Net, channels: usize) -> Self {
        let connect = net.connect.expect("connect");
        let comms: Vec<_> = (0..channels)
            .map(|_| {
                let mut comm = null_mut();
                unsafe { connect(0, null_mut(), &mut comm, null_mut()) };
                comm
            })
            .collect();
        let mut driver = Self {
            net,
            heads: comms.clone(),
            comms,
        };
        for tag in (0..WINDOW).rev() {
            for channel in 0..channels {
                driver.heads[channel] = driver.post(channel, tag);
            }
        }
        driver
    }

    fn post(&self, channel: usize, tag: usize) -> *mut c_void {
        let mut request = null_mut();
        let isend = self.net.isend.expect("isend");
        unsafe {
            isend(
                self.comms[channel],
                null_mut(),
                4096,
                tag as c_int,
                null_mut(),
                &mut request,
            )
        };
        request
    }

    fn test(&self, request: *mut c_void, mut done: c_int) {
        let test = self.net.test.expect("test");
        unsafe { test(request, &mut done, null_mut()) };
    }

    /// Nanoseconds per unfinished test.
    fn not_done(&self) -> f64 {
        let started = Instant::now();
        let mut channel = 0;
        for _ in 0..CALLS {
            self.test(self.heads[channel], 0);
            channel = if channel + 1 == self.heads.len() {
                0
            } else {
                channel + 1
            };
        }
        started.elapsed().as_nanos() as f64 / CALLS as f64
    }

    /// Nanoseconds per finished test and the following post.
    fn pair(&self, recorded: impl Fn(usize, usize)) -> f64 {
        let started = Instant::now();
        let (mut channel, mut tag) = (0, 0);
        for _ in 0..CALLS {
            self.test(
                self.comms[channel].wrapping_byte_add(tag * REQUEST_BYTES),
                1,
            );
            recorded(channel, 1);
            black_box(self.post(channel, tag));
            recorded(channel, 0);
            channel += 1;
            if channel == self.comms.len() {
                (channel, tag) = (0, (tag + 1) % WINDOW);
            }
        }
        started.elapsed().as_nanos() as f64 / CALLS as f64
    }
}

/// The control: the counters and the event of a state change, of a caller who knows the channel, so
/// without the tap's tables, its marks around each call and its checks.
struct Stores {
    recorder: Arc<Recorder>,
    channels: Vec<[AtomicU64; 512]>,
}

impl Stores {
    fn new(recorder: &Arc<Recorder>, channels: usize) -> Self {
        let channel = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            recorder: recorder.clone(),
            channels: (0..channels).map(|_| channel()).collect(),
        }
    }

    fn change(&self, channel: usize, kind: usize, bytes: u64) {
        let words = &self.channels[channel];
        let add = |at: usize, n: u64| words[at].store(words[at].load(Relaxed) + n, Relaxed);
        let now_ns = self.recorder.now_ns();
        let number = words[0].load(Relaxed);
        words[1].store(now_ns, Relaxed);
        add(2 + kind, 1);
        add(4 + kind, bytes);
        let place = 8 + number as usize % WINDOW;
        if kind == 0 {
            words[place].store(now_ns, Relaxed);
        } else {
            let took = now_ns - words[place].load(Relaxed);
            add(32 + took.leading_zeros() as usize, 1);
        }
        let event = 128 + number as usize % 64 * 4;
        for (at, word) in [number + 1, now_ns, number, bytes].into_iter().enumerate() {
            words[event + at].store(word, Relaxed);
        }
        words[0].store(number + 1, Release);
    }
}

/// Prints the cost of one kind of call without and with the tap, and the difference.
fn compare(channels: usize, call: &str, bare: impl Fn() -> f64, tapped: impl Fn() -> f64) {
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values
    };
    let pairs: Vec<_> = (0..ROUNDS).map(|_| (bare(), tapped())).collect();
    let column = |pick: fn(&(f64, f64)) -> f64| sorted(pairs.iter().map(pick).collect());
    let (without, with, added) = (column(|p| p.0), column(|p| p.1), column(|p| p.1 - p.0));
    let middle = ROUNDS / 2;
    println!(
        "  {channels:>8} {call:>14} {:>8.2} {:>8.2} {:>8.2} {:>12.2}",
        without[middle],
        with[middle],
        added[middle],
        with[0] - without[0]
    );
}

/// Nanoseconds per reading of the recorder's clock, in the fastest round.
fn clock_cost(recorder: &Recorder) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        for _ in 0..CALLS {
            black_box(recorder.now_ns());
        }
        started.elapsed().as_nanos() as f64 / CALLS as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fallback = std::env::temp_dir();
    let options = Options {
        capacity: 512,
        role: "benchmark",
        fallback: Some(&fallback),
        ..Options::new("tap-cost")
    };
    let recorder = Arc::new(Recorder::create(&options)?);
    let (net, _) = v7::wrap(&NULL_PLUGIN, recorder.clone())?;
    println!(
        "# ns per call, {ROUNDS} interleaved rounds of {CALLS} calls: medians, and the minimum"
    );
    println!(
        "# {:>8} {:>14} {:>8} {:>8} {:>8} {:>12}",
        "channels", "call", "bare", "tapped", "added", "least added"
    );
    for channels in [1, 4, 256] {
        let (bare, tapped) = (
            Driver::new(black_box(&NULL_PLUGIN), channels),
            Driver::new(net, channels),
        );
        let stores = Stores::new(&recorder, channels);
        compare(
            channels,
            "not-done test",
            || bare.not_done(),
            || tapped.not_done(),
        );
        compare(
            channels,
            "done and post",
            || bare.pair(|_, _| ()),
            || tapped.pair(|_, _| ()),
        );
        compare(
            channels,
            "stores alone",
            || bare.pair(|_, _| ()),
            || bare.pair(|channel, kind| stores.change(channel, kind, 4096)),
        );
    }
    println!(
        "# of which one read of the clock takes {:.2}; a finished test and a post read it once each",
        clock_cost(&recorder)
    );
    recorder.remove()?;
    Ok(())
}
