//! Measures round trips: a message over one connection, its answer over another.
#![forbid(unsafe_code)]

use crate::link::Link;
use crate::table::{Raw, Table};
use crate::{Outcome, Pingpong, too_long};
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;
use tcpx_engine::gpu::{DeviceMemory, HostMemory, Region};
use tcpx_engine::transfer::{Pace, WallPace};

/// One direction: a comm, its memory and its registration.
struct Way {
    comm: Raw,
    mhandle: Raw,
    region: Arc<Region>,
}

struct Ends {
    table: Table,
    there: Way,
    back: Way,
    size: c_int,
    pace: WallPace,
}

pub(crate) fn run(asked: &Pingpong, sends: bool) -> Outcome<String> {
    let table = Table::load(&asked.common.plugin)?;
    let mut link = Link::meet(asked.common.port, sends)?;
    let (listener, handle) = table.listen()?;
    let theirs = link.exchange(handle)?;
    let (there, back) = table.connect_all(vec![theirs], &[listener])?;
    table.close_listen(listener)?;
    let way = |comm: Raw| {
        let region = HostMemory::host()
            .allocate(asked.size as usize)
            .map_err(|why| why.to_string())?;
        region
            .span(0, region.len())
            .and_then(|whole| region.with_bytes(whole, |bytes| bytes.fill(0x5a)));
        Outcome::Ok(Way {
            comm,
            mhandle: table.register(comm, &region)?,
            region,
        })
    };
    let (there, back) = (way(there[0])?, way(back[0])?);
    let mut ends = Ends {
        table,
        there,
        back,
        size: asked.size as c_int,
        pace: asked.common.pace(),
    };
    link.barrier()?;
    let taken = ends.round_trips(asked.count as usize, sends)?;
    link.barrier()?;
    ends.close()?;
    let role = if sends { "send" } else { "recv" };
    let quantile = |permille: usize| taken[(taken.len() * permille).div_ceil(1000).max(1) - 1];
    let [p50, p99, max] = [500, 990, 1000].map(quantile);
    Ok(format!(
        "role={role} size_bytes={} count={} p50_ns={p50} p99_ns={p99} max_ns={max}",
        asked.size, asked.count
    ))
}

impl Ends {
    /// Every counted round trip's nanoseconds, ascending. The receiver begins
    /// with a message, so one of its trips is its answer and the next message.
    fn round_trips(&mut self, count: usize, sends: bool) -> Outcome<Vec<u128>> {
        let (warmup, mut taken) = (count / 10, Vec::with_capacity(count));
        let trips = warmup + count;
        let mut receiving = self.post_receive()?;
        for trip in 0..trips {
            let started = Instant::now();
            if sends {
                self.send()?;
            }
            self.receive(receiving)?;
            if trip + 1 < trips {
                receiving = self.post_receive()?;
            }
            if !sends {
                self.send()?;
            }
            if trip >= warmup {
                taken.push(started.elapsed().as_nanos());
            }
        }
        taken.sort_unstable();
        Ok(taken)
    }

    fn post_receive(&mut self) -> Outcome<Raw> {
        let (table, back, size) = (self.table, &self.back, self.size);
        let data = back.region.as_ptr().cast();
        until(&mut self.pace, || {
            table.irecv(back.comm, data, size, back.mhandle).map(some)
        })
    }

    fn receive(&mut self, request: Raw) -> Outcome<()> {
        self.finish(request)?;
        self.table.consume(self.back.comm, request)
    }

    fn send(&mut self) -> Outcome<()> {
        let (table, there, size) = (self.table, &self.there, self.size);
        let data = there.region.as_ptr().cast();
        let request = until(&mut self.pace, || {
            table.isend(there.comm, data, size, there.mhandle).map(some)
        })?;
        self.finish(request)
    }

    fn finish(&mut self, request: Raw) -> Outcome<()> {
        let table = self.table;
        until(&mut self.pace, || Ok(table.test(request)?.then_some(())))
    }

    fn close(self) -> Outcome<()> {
        let Self {
            table, there, back, ..
        } = self;
        table.deregister(there.comm, there.mhandle)?;
        table.close_send(there.comm)?;
        table.deregister(back.comm, back.mhandle)?;
        table.close_receive(back.comm)
    }
}

fn some(request: Raw) -> Option<Raw> {
    (!request.is_null()).then_some(request)
}

/// Repeats a call until it returns a value.
fn until<T>(pace: &mut WallPace, mut ask: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let mut empty = 0;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        empty += 1;
        if pace.stopped() {
            return Err(too_long());
        }
        pace.idle(empty);
    }
}
