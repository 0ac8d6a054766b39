//! Measures the cost of the shim: a send and its finished test on a plugin that does nothing,
//! called through its table and through `Net`, interleaved, for every ABI version. Prints
//! medians over many rounds.
//!
//! ```text
//! cargo run --release -p tcpx-bare --example shim_cost
//! ```
#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls the table of a fake"
)]

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tcpx_abi::ResultCode;
use tcpx_engine::gpu::{DeviceMemory, HostMemory, Region};
use tcpx_engine::plugin::{
    Comm, ConnectHandle, Connecting, MHandle, Net, RawTable, SendComm, wrap,
};

const ROUNDS: usize = 201;
const REQUESTS: usize = 50_000;
const CHUNK: usize = 4096;

type Out = *mut *mut c_void;

/// A dummy pointer that is not null.
unsafe fn give(place: Out) -> ResultCode {
    unsafe { place.write(std::ptr::without_provenance_mut(4096)) };
    0
}

unsafe extern "C" fn test(_: *mut c_void, done: *mut c_int, _: *mut c_int) -> ResultCode {
    unsafe { done.write(1) };
    0
}

unsafe extern "C" fn end(_: *mut c_void, _: *mut c_void) -> ResultCode {
    0
}

/// The measurements of one version.
struct Version {
    number: u32,
    table: RawTable,
    /// Nanoseconds per request through the table's functions.
    bare: fn() -> f64,
}

macro_rules! null_plugin {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     members(($($dma:ident)?) ($($device_mr:ident)?) ($($consumed:ident)?) ($($merge:ident)?)
     ($($finalize:ident)?) ($($attributes:ident)?))) => {
        mod $v {
            use super::{Out, REQUESTS, RawTable, ResultCode, Version, end, give, test};
            use std::ffi::{c_int, c_void};
            use std::hint::black_box;
            use std::ptr::null_mut;
            use std::time::Instant;
            use tcpx_abi::$v as abi;

            static TABLE: abi::Net = abi::Net {
                name: c"Null".as_ptr(),
                init: None,
                devices: None,
                get_properties: None,
                listen: None,
                connect: Some(connect),
                accept: None,
                reg_mr: Some(reg_mr),
                $($dma: None,)?
                dereg_mr: Some(end),
                isend: Some(isend),
                irecv: None,
                iflush: None,
                test: Some(test),
                close_send: None,
                close_recv: None,
                close_listen: None,
                $($device_mr: None,)?
                $($consumed: None,)?
                $($merge: None,)?
                $($finalize: None,)?
                $($attributes: None,)?
            };

            pub(super) fn version() -> Version {
                Version { number: $number, table: RawTable::$variant(&TABLE), bare }
            }

            fn bare() -> f64 {
                let table = black_box(&TABLE);
                let (isend, test) = (table.isend.expect("isend"), table.test.expect("test"));
                let (comm, data): (*mut c_void, *mut c_void) = black_box((null_mut(), null_mut()));
                let started = Instant::now();
                for _ in 0..REQUESTS {
                    let (mut request, mut done, mut size) = (null_mut(), 0, 0);
                    $(let $tag = 0;)?
                    $(let $phandle = null_mut();)?
                    unsafe { isend(comm, data, super::CHUNK as $size, $($tag,)? comm, $($phandle,)? &mut request) };
                    unsafe { test(request, &mut done, &mut size) };
                    black_box(done);
                }
                started.elapsed().as_nanos() as f64 / REQUESTS as f64
            }

            unsafe extern "C" fn connect(
                $($context: *mut c_void,)?
                _: c_int,
                $($config: *mut abi::CommConfig,)?
                _: *mut c_void,
                comm: Out,
                $($device: *mut *mut abi::DeviceHandle,)?
            ) -> ResultCode {
                $(let _ = $context;)?
                $(let _ = $config;)?
                $(let _ = $device;)?
                unsafe { give(comm) }
            }

            unsafe extern "C" fn reg_mr(_: *mut c_void, _: *mut c_void, _: $reg, _: c_int, mhandle: Out) -> ResultCode {
                unsafe { give(mhandle) }
            }

            unsafe extern "C" fn isend(
                _: *mut c_void,
                _: *mut c_void,
                _: $size,
                $($tag: c_int,)?
                _: *mut c_void,
                $($phandle: *mut c_void,)?
                request: Out,
            ) -> ResultCode {
                $(let _ = $tag;)?
                $(let _ = $phandle;)?
                unsafe { give(request) }
            }
        }
    };
}

tcpx_abi::for_each_version!(null_plugin);

/// A comm and a registration as the engine holds them.
struct Driver {
    net: Arc<dyn Net>,
    comm: SendComm,
    mhandle: MHandle,
    region: Arc<Region>,
}

impl Driver {
    fn new(table: RawTable) -> Result<Self, Box<dyn Error>> {
        let net = wrap(table);
        let mut connecting = Connecting::to(ConnectHandle([0; 128]));
        let comm = net.connect(0, &mut connecting)?.ok_or("no comm")?;
        let region = HostMemory::host().allocate(CHUNK)?;
        let mhandle = net.reg_mr(Comm::Send(&comm), &region, 0, CHUNK)?;
        Ok(Self {
            net,
            comm,
            mhandle,
            region,
        })
    }

    /// Nanoseconds per request through `Net`.
    fn request(&self) -> Result<f64, Box<dyn Error>> {
        let (net, span) = (
            black_box(&*self.net),
            self.region.span(0, CHUNK).ok_or("no span")?,
        );
        let started = Instant::now();
        for _ in 0..REQUESTS {
            let request = net
                .isend(&self.comm, span, &self.mhandle)?
                .ok_or("no request")?;
            black_box(net.test(request)?.done);
        }
        Ok(started.elapsed().as_nanos() as f64 / REQUESTS as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    macro_rules! all {
        ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
            [$($v::version()),+]
        };
    }
    // Oldest first.
    let versions = tcpx_abi::with_versions!(all).into_iter().rev();
    println!(
        "# ns per request (isend, test), {ROUNDS} interleaved rounds of {REQUESTS}: medians, and the least of each"
    );
    println!(
        "# {:>8} {:>8} {:>8} {:>8} {:>12}",
        "version", "table", "net", "added", "least added"
    );
    for Version {
        number,
        table,
        bare,
    } in versions
    {
        let driver = Driver::new(table)?;
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rounds.push((bare(), driver.request()?));
        }
        let sorted = |pick: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (without, with, added) = (
            sorted(|one| one.0),
            sorted(|one| one.1),
            sorted(|one| one.1 - one.0),
        );
        let (middle, least) = (ROUNDS / 2, with[0] - without[0]);
        println!(
            "  {number:>8} {:>8.2} {:>8.2} {:>8.2} {least:>12.2}",
            without[middle], with[middle], added[middle]
        );
        driver
            .net
            .dereg_mr(Comm::Send(&driver.comm), driver.mhandle)?;
    }
    Ok(())
}
