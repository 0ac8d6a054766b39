//! One step of a receive comm, and `irecvConsumed`.
//!
//! A step promotes one posted receive, creates tasks from headers for the oldest active one, and
//! moves bytes. The receive's size becomes the sender's total. A total above the posted size is
//! refused, on every call from then on; the real plugin overruns the buffer.
//!
//! Before it moves bytes, a step goes on to the next receive while a header is buffered, its
//! socket has room for a task, and few bytes are assigned: one read of headers and one of bytes
//! serve many small messages. A caller cannot see this, because only the front request is done.
//!
//! The real plugin warns at every poll of a host receive; this one does not, and warns of inline
//! messages at powers of two.
#![expect(unsafe_code, reason = "writes to the caller's buffers")]

use crate::comm::Comm;
use crate::failed::{Failed, REFUSED};
use crate::lane::{Memory, SMALL_MAX, Task};
use crate::log::warning;
use crate::queue::{State, Step};
use crate::settings::PRODUCT;
use crate::wire::{self, HEADER_BYTES, Header, Route};
use std::ffi::{c_int, c_void};
use std::process;
use std::slice;
use std::time::Instant;
use tcpx_abi::PTR_HOST;

impl Comm {
    pub(crate) fn progress_recv(&mut self) -> Result<(), Failed> {
        if let Some(unpack) = &mut self.unpack {
            unpack.reclaim()?;
        }
        loop {
            let before = self.chunks;
            self.activate_recv();
            self.ctrl.flush()?;
            if let Some(slot) = self.queue.oldest(State::Active) {
                self.read_headers(slot)?;
            }
            // Without a new task, the next header waits for a receive of its tag.
            if self.chunks == before || !self.has_next_task() {
                break;
            }
        }
        self.move_data();
        self.reap()
    }

    /// Activates one posted receive; with RECV_SYNC announces it to the peer.
    fn activate_recv(&mut self) {
        if self.queue.oldest(State::Posted).is_none() {
            return;
        }
        if self.plugin.settings.recv_sync {
            let index = self.queue.taken(Step::Activate) as u32;
            if !self.ctrl.push(&index.to_le_bytes()) {
                return;
            }
        }
        self.queue.take(Step::Activate);
    }

    /// Whether a task can be created from the next buffered header for a receive that waits.
    fn has_next_task(&self) -> bool {
        if !self.has_unassigned() || self.inline.is_some() || self.held_bytes >= SMALL_MAX {
            return false;
        }
        let Some(bytes) = self.ctrl.peek::<HEADER_BYTES>() else {
            return false;
        };
        match Header::decode(bytes, self.lanes.all.len()) {
            Ok(Header {
                route: Route::Socket(index),
                ..
            }) => self.lanes.all[index].has_room() && self.faults.is_none(),
            _ => false,
        }
    }

    /// Reads headers until the receive is completely assigned or no more can be read.
    fn read_headers(&mut self, slot: usize) -> Result<(), Failed> {
        if self.inline.is_some() {
            return self.read_inline(slot);
        }
        let mut filled = false;
        loop {
            let Some(bytes) = self.ctrl.peek::<HEADER_BYTES>().copied() else {
                if filled {
                    self.header_missing(slot);
                    return Ok(());
                }
                filled = true;
                self.ctrl.fill()?;
                continue;
            };
            self.stall.moved();
            if self.plugin.settings.is_plain()
                && let Some(tag) = wire::decode_tag(&bytes)
            {
                if self.tag != 0 || tag == 0 {
                    return Err(self.refuse(slot, &"a tag without a message"));
                }
                self.tag = tag;
                self.ctrl.skip(HEADER_BYTES);
                continue;
            }
            if self.plugin.settings.is_plain() && !self.bring_up(slot) {
                return Ok(());
            }
            let header = Header::decode(&bytes, self.lanes.all.len())
                .map_err(|error| self.refuse(slot, &error))?;
            self.check(slot, &header)?;
            match header.route {
                Route::Inline => {
                    self.ctrl.skip(HEADER_BYTES);
                    self.adopt(slot, &header)?;
                    self.inline = Some(0);
                    return self.read_inline(slot);
                }
                Route::Socket(index) if !self.accept_chunk(slot, index, &header)? => return Ok(()),
                Route::Socket(_) => {}
            }
        }
    }

    /// Creates the task of a header. `false` if that is not possible now.
    fn accept_chunk(&mut self, slot: usize, index: usize, header: &Header) -> Result<bool, Failed> {
        if self
            .faults
            .as_ref()
            .is_some_and(|faults| faults.stopped(self.chunks))
        {
            return Ok(false);
        }
        if !self.lanes.all[index].has_room() {
            self.without_room += 1;
            // The real plugin warns at every poll, thousands of times in a run that is well.
            if self.without_room.is_power_of_two() {
                warning!(c"softCommProgress", "No free space for recv task");
            }
            return Ok(false);
        }
        self.adopt(slot, header)?;
        let (length, offset, total) = (
            header.size as usize,
            header.offset as usize,
            header.total as usize,
        );
        let memory = self.destination(slot, offset, length)?;
        self.ctrl.skip(HEADER_BYTES);
        self.chunks += 1;
        self.next_lane = index;
        self.held_bytes += length;
        let number = self.chunks;
        self.exit_on_purpose(index);
        self.lanes.all[index].assign(Task {
            memory,
            length,
            offset,
            total,
            slot,
            number,
        });
        self.alert()?;
        let request = self.request(slot);
        request.next_sock_id = index as c_int;
        request.next_size = length as c_int;
        request.offset = (offset + length) as c_int;
        if offset + length == total {
            self.queue.take(Step::Transmit);
            return Ok(false);
        }
        Ok(true)
    }

    /// Checks that a header belongs to the active receive and fits it.
    fn check(&mut self, slot: usize, header: &Header) -> Result<(), Failed> {
        let request = *self.request(slot);
        let posted = request.size as u32;
        let first = request.size_pending == -1;
        if first && header.total > posted {
            warning!(
                c"softCommProgress",
                "{PRODUCT} : sender has {} bytes for a receive of {posted}, {}",
                header.total,
                self.ctrl.flow
            );
            return Err(REFUSED);
        }
        let continues = header.total == posted && header.route != Route::Inline;
        if header.offset != request.offset as u32 || !(first || continues) {
            let expected = format!("header at {} of {}", header.offset, header.total);
            return Err(self.refuse(slot, &expected));
        }
        if header.total > 0 && header.route == Route::Inline && request.mem_type != PTR_HOST {
            return Err(self.refuse(slot, &"inline payload for a device receive"));
        }
        Ok(())
    }

    /// Plain flavour: moves the oldest buffer of the next message's tag to the front, keeping the
    /// order of the others. `false` if there is no such buffer yet.
    fn bring_up(&mut self, slot: usize) -> bool {
        if self.request(slot).size_pending != -1 {
            return true;
        }
        let Some(place) = self
            .queue
            .waiting()
            .position(|slot| self.groups.tag(slot) == self.tag)
        else {
            return false;
        };
        for behind in (1..=place).rev() {
            let mut pair = self.queue.waiting().skip(behind - 1);
            if let (Some(one), Some(other)) = (pair.next(), pair.next()) {
                self.swap_requests(one, other);
                self.groups.swap(one, other);
            }
        }
        true
    }

    /// Sets size and scatter slot of a receive from its first header.
    fn adopt(&mut self, slot: usize, header: &Header) -> Result<(), Failed> {
        let request = self.request(slot);
        if request.size_pending != -1 {
            return Ok(());
        }
        self.tag = 0;
        let request = self.request(slot);
        request.size = header.total as c_int;
        request.size_pending = header.total as c_int;
        let mut opened = request.slot;
        if let Some(unpack) = &mut self.unpack {
            unpack.open(&mut opened)?;
        }
        self.request(slot).slot = opened;
        Ok(())
    }

    /// The destination of a chunk's bytes: the posted buffer, a host buffer, or pages.
    fn destination(&mut self, slot: usize, offset: usize, length: usize) -> Result<Memory, Failed> {
        let request = *self.request(slot);
        if request.mem_type == PTR_HOST {
            // SAFETY: `check` saw that the chunk ends inside the posted size.
            return Ok(Memory::Flat(unsafe {
                request.data.cast::<u8>().add(offset)
            }));
        }
        if let Some(landing) = &mut self.landing {
            let start = landing.buffer(slot, request.size as usize);
            // SAFETY: as above, of a buffer as long as the message.
            return Ok(Memory::Flat(unsafe { start.add(offset) }));
        }
        let Some(unpack) = &mut self.unpack else {
            return Err(REFUSED);
        };
        unpack
            .reserve(&request.slot, length)
            .map(Memory::Pages)
            .map_err(|pages| {
                warning!(
                    c"softCommProgress",
                    "request too many pages {pages}, failstop"
                );
                REFUSED
            })
    }

    fn read_inline(&mut self, slot: usize) -> Result<(), Failed> {
        let request = *self.request(slot);
        let total = request.size as usize;
        let mut moved = self.inline.unwrap_or(0);
        if moved == 0 && total > 0 {
            self.inline_payloads += 1;
            // The real plugin warns at every poll of every such message.
            if self.inline_payloads.is_power_of_two() {
                warning!(
                    c"softCommProgress",
                    "ar->size through control socket shouldn't happen for {PRODUCT}"
                );
            }
        }
        while moved < total {
            // SAFETY: `check` saw that the message fits the posted buffer.
            let start = unsafe { request.data.cast::<u8>().add(moved) };
            // SAFETY: as above, and the caller leaves it alone until the request is done.
            let rest = unsafe { slice::from_raw_parts_mut(start, total - moved) };
            match self.ctrl.receive(rest)? {
                0 => break,
                count => moved += count,
            }
        }
        self.inline = (moved < total).then_some(moved);
        let request = self.request(slot);
        request.offset = moved as c_int;
        request.size_pending = (total - moved) as c_int;
        if moved == total {
            self.queue.take(Step::Transmit);
        }
        Ok(())
    }

    /// Logs a slowness line if an active receive has waited too long for a header.
    fn header_missing(&mut self, slot: usize) {
        if !self.plugin.settings.report_ctrl {
            return;
        }
        if let Some(slow) = self
            .stall
            .idle(Instant::now(), self.plugin.settings.patience)
        {
            let request: *const _ = self.request(slot);
            warning!(
                c"softCommProgress",
                "{request:p}:{:#x}, nic {}, {}, {} rx ctrl timeout cnt {}, nanos {}",
                self.address,
                self.lanes.device,
                self.lanes.interface,
                self.ctrl.flow,
                slow.polls,
                slow.elapsed.as_nanos()
            );
        }
    }

    fn refuse(&mut self, slot: usize, why: &dyn std::fmt::Display) -> Failed {
        let request: *const _ = self.request(slot);
        warning!(
            c"softCommProgress",
            "{PRODUCT} : bad header for {request:p}, {} : {why}",
            self.ctrl.flow
        );
        REFUSED
    }

    /// Records a finished task of a receive.
    pub(crate) fn received(&mut self, task: &Task) {
        if let Some(byte) = self
            .faults
            .as_ref()
            .and_then(|faults| faults.corrupts(task.number, task.length))
        {
            self.flip(task, byte);
        }
        let mut slot = self.request(task.slot).slot;
        if let Some(unpack) = &mut self.unpack {
            unpack.append(&mut slot, task);
        }
        self.request(task.slot).slot = slot;
    }

    /// Has the GPU fetch what has arrived for the slots of a bit set.
    pub(crate) fn fetch(&mut self, mut slots: u64) -> Result<(), Failed> {
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let pages = self.request(slot).slot;
            if let Some(unpack) = &mut self.unpack {
                unpack.fetch(&pages)?;
            }
        }
        Ok(())
    }

    fn flip(&self, task: &Task, byte: usize) {
        let place = match task.memory {
            // SAFETY: `byte` is less than the task's length.
            Memory::Flat(start) => Some(unsafe { start.add(byte) }),
            Memory::Pages(pages) => self
                .unpack
                .as_ref()
                .and_then(|unpack| unpack.byte_of(pages, byte))
                .map(|place| place.as_ptr()),
        };
        if let Some(place) = place {
            // SAFETY: a received byte of a task that is ours again.
            unsafe { *place ^= 0x01 };
        }
    }

    /// Injected fault: ends the process, as the real plugin does if payload arrives without a
    /// control message.
    fn exit_on_purpose(&self, index: usize) {
        if self
            .faults
            .as_ref()
            .is_some_and(|faults| faults.exits(self.chunks))
        {
            warning!(
                c"softProcessRecvCmsg",
                "fatal, {} no cmsg",
                self.lanes.all[index].flow
            );
            process::exit(1);
        }
    }

    /// Finishes the oldest receive if it has all its bytes, and publishes its scatter list.
    pub(crate) fn finish_recv(&mut self, slot: usize) -> Result<bool, Failed> {
        let request = *self.request(slot);
        if let Some(unpack) = &mut self.unpack {
            if !unpack.is_fetched(&request.slot)? {
                return Ok(false);
            }
            unpack.publish(&request.slot);
        }
        self.queue.take(Step::Finish);
        Ok(true)
    }

    /// `irecvConsumed` for a request of this comm.
    pub(crate) fn consumed(&mut self, slot: usize) -> Result<(), Failed> {
        let function = c"softIrecvConsumed";
        let request = *self.request(slot);
        let pointer: *mut c_void = (self.request(slot) as *mut tcpx_abi::unpack::Request).cast();
        let oldest = self.queue.oldest(State::Inactive);
        // A zero-byte receive is not checked further.
        if request.size != 0 {
            if request.slot.active == 0 {
                let (size, unpack) = (request.size, &raw const self.request(slot).slot);
                warning!(
                    function,
                    "{PRODUCT} : irecvConsumed called with r {pointer:p} ->size {size} inactive unpack slot {unpack:p}"
                );
                return Err(REFUSED);
            }
            if let Some(expected) = oldest.filter(|oldest| *oldest != slot) {
                let expected: *const _ = self.request(expected);
                // The real plugin prints the two pointers in the wrong order.
                warning!(
                    function,
                    "{PRODUCT} : irecvConsumed called with invalid request {expected:p} vs expected {pointer:p}"
                );
                return Err(REFUSED);
            }
        }
        let Some(oldest) = oldest else {
            warning!(
                function,
                "{PRODUCT} : irecvConsumed called with {pointer:p} when no inactive request"
            );
            return Err(REFUSED);
        };
        if self.plugin.settings.check_unpack {
            self.check_unpacked(oldest)?;
        }
        let mut freed = self.request(oldest).slot;
        if let Some(unpack) = &mut self.unpack {
            unpack.close(&mut freed)?;
        }
        self.request(oldest).slot = freed;
        self.queue.take(Step::Release);
        Ok(())
    }

    /// Warns if a device receive's destination does not hold the bytes of its pages, which are
    /// about to be poisoned: the 1st, 2nd, 4th, 8th … time.
    fn check_unpacked(&mut self, slot: usize) -> Result<(), Failed> {
        let request = *self.request(slot);
        let size = request.size as usize;
        let Some(unpack) = self
            .unpack
            .as_mut()
            .filter(|_| request.mem_type != PTR_HOST)
        else {
            return Ok(());
        };
        let Some((wrong, first)) = unpack.differences(&request.slot, request.data, size)? else {
            return Ok(());
        };
        self.not_unpacked += 1;
        if self.not_unpacked.is_power_of_two() {
            warning!(
                c"softIrecvConsumed",
                "{PRODUCT} : irecvConsumed of a receive whose destination differs from its pages: {wrong} of {size} bytes at {:p}, the first at {first}; receive {} of this kind, {}",
                request.data,
                self.not_unpacked,
                self.ctrl.flow
            );
        }
        Ok(())
    }
}
