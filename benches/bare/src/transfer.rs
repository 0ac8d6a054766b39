//! Moves chunks over channels: fills each window, tests the oldest request, consumes it.
#![forbid(unsafe_code)]

use crate::link::Link;
use crate::table::{Raw, Table};
use crate::{Outcome, Transfer, too_long};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;
use tcpx_engine::gpu::{DeviceMemory, HostMemory, Region};
use tcpx_engine::transfer::{Pace, WallPace};

/// Bytes between two slots, where the engine has its canary.
const GUARD: usize = 4096;

/// One comm with its memory, slots and requests.
struct Channel {
    comm: Raw,
    mhandle: Raw,
    region: Arc<Region>,
    stride: usize,
    size: c_int,
    sends: bool,
    /// The most recently freed slot is used next.
    free: Vec<u8>,
    in_flight: VecDeque<(Raw, u8)>,
    left: u64,
}

pub(crate) fn run(asked: &Transfer, sends: bool) -> Outcome<String> {
    let (chunk, channels) = (u64::from(asked.chunk), u64::from(asked.channels));
    if asked.total == 0 || !asked.total.is_multiple_of(chunk * channels) {
        return Err(format!(
            "--total {}: expected a multiple of chunk x channels, {}",
            asked.total,
            chunk * channels
        ));
    }
    let table = Table::load(&asked.common.plugin)?;
    let mut link = Link::meet(asked.common.port, sends)?;
    let comms = connect(table, &mut link, usize::from(asked.channels), sends)?;
    let channels: Outcome<Vec<Channel>> = comms
        .into_iter()
        .map(|comm| Channel::new(table, comm, asked, sends))
        .collect();
    let (mut channels, mut pace) = (channels?, asked.common.pace());
    let each = asked.total / chunk / channels.len() as u64;
    timed(
        table,
        &mut channels,
        each.div_ceil(10),
        &mut pace,
        &mut link,
    )?;
    let nanoseconds = timed(table, &mut channels, each, &mut pace, &mut link)?;
    for channel in channels {
        channel.close(table)?;
    }
    Ok(line(asked, sends, nanoseconds))
}

/// The comms of this end, all in one direction.
fn connect(table: Table, link: &mut Link, count: usize, sends: bool) -> Outcome<Vec<Raw>> {
    if sends {
        let handles = link.exchange_handles(&vec![[0; tcpx_abi::HANDLE_MAX]; count])?;
        return Ok(table.connect_all(handles, &[])?.0);
    }
    let listening: Outcome<Vec<_>> = (0..count).map(|_| table.listen()).collect();
    let (listeners, handles): (Vec<Raw>, Vec<_>) = listening?.into_iter().unzip();
    link.exchange_handles(&handles)?;
    let (_, receives) = table.connect_all(Vec::new(), &listeners)?;
    for listener in listeners {
        table.close_listen(listener)?;
    }
    Ok(receives)
}

/// Nanoseconds between two barriers while `each` chunks are moved per channel.
fn timed(
    table: Table,
    channels: &mut [Channel],
    each: u64,
    pace: &mut WallPace,
    link: &mut Link,
) -> Outcome<u128> {
    channels.iter_mut().for_each(|channel| channel.left = each);
    link.barrier()?;
    let started = Instant::now();
    move_all(table, channels, pace)?;
    link.barrier()?;
    Ok(started.elapsed().as_nanos())
}

fn move_all(table: Table, channels: &mut [Channel], pace: &mut WallPace) -> Outcome<()> {
    let mut empty_sweeps = 0;
    loop {
        let (mut moved, mut finished) = (false, true);
        for channel in channels.iter_mut() {
            moved |= channel.turn(table)?;
            finished &= channel.left == 0 && channel.in_flight.is_empty();
        }
        if finished {
            return Ok(());
        }
        empty_sweeps = if moved { 0 } else { empty_sweeps + 1 };
        if empty_sweeps > 0 {
            if pace.stopped() {
                return Err(too_long());
            }
            pace.idle(empty_sweeps);
        }
    }
}

impl Channel {
    fn new(table: Table, comm: Raw, asked: &Transfer, sends: bool) -> Outcome<Self> {
        let stride = (asked.chunk as usize).next_multiple_of(GUARD) + GUARD;
        let region = HostMemory::host()
            .allocate(stride * usize::from(asked.window))
            .map_err(|why| why.to_string())?;
        // As the engine does: pages never written are all one page of zeroes.
        region
            .span(0, region.len())
            .and_then(|whole| region.with_bytes(whole, |bytes| bytes.fill(0x5a)));
        Ok(Self {
            comm,
            mhandle: table.register(comm, &region)?,
            region,
            stride,
            size: asked.chunk as c_int,
            sends,
            free: (0..asked.window).rev().collect(),
            in_flight: VecDeque::with_capacity(usize::from(asked.window)),
            left: 0,
        })
    }

    /// Fills the window and drains it. Returns whether a request was posted or finished.
    fn turn(&mut self, table: Table) -> Outcome<bool> {
        let mut moved = false;
        while self.post(table)? {
            moved = true;
        }
        while let Some((request, slot)) = self.in_flight.front().copied()
            && table.test(request)?
        {
            if !self.sends {
                table.consume(self.comm, request)?;
            }
            self.in_flight.pop_front();
            self.free.push(slot);
            moved = true;
        }
        Ok(moved)
    }

    fn post(&mut self, table: Table) -> Outcome<bool> {
        let (Some(slot), true) = (self.free.last().copied(), self.left > 0) else {
            return Ok(false);
        };
        let data = self
            .region
            .as_ptr()
            .wrapping_add(usize::from(slot) * self.stride)
            .cast();
        let posting = if self.sends {
            Table::isend
        } else {
            Table::irecv
        };
        let request = posting(table, self.comm, data, self.size, self.mhandle)?;
        if request.is_null() {
            return Ok(false);
        }
        self.free.pop();
        self.in_flight.push_back((request, slot));
        self.left -= 1;
        Ok(true)
    }

    fn close(self, table: Table) -> Outcome<()> {
        table.deregister(self.comm, self.mhandle)?;
        if self.sends {
            table.close_send(self.comm)
        } else {
            table.close_receive(self.comm)
        }
    }
}

fn line(asked: &Transfer, sends: bool, nanoseconds: u128) -> String {
    let (role, requests) = (
        if sends { "send" } else { "recv" },
        asked.total / u64::from(asked.chunk),
    );
    let (taken, count) = (nanoseconds.max(1) as f64, requests as f64);
    format!(
        "role={role} channels={} chunk_bytes={} total_bytes={} window={} requests={requests} nanoseconds={nanoseconds} \
         gb_per_s={:.3} messages_per_s={:.0} ns_per_request={:.1}",
        asked.channels,
        asked.chunk,
        asked.total,
        asked.window,
        asked.total as f64 / taken,
        count * 1e9 / taken,
        taken / count,
    )
}
