//! One step of a send comm.
//!
//! A step promotes one posted request, divides the oldest active one into task chunks,
//! round-robin over the data sockets and at most one per socket, announces each with a header,
//! and moves bytes.
//!
//! Headers and bytes are held back while the next `test` is certain to add to them: another
//! request is posted, a header and a task still fit, and few bytes are held back. The order on
//! the wire does not change, and sixteen small messages cost two system calls instead of 32.
//!
//! With a task chunk of 0, 3.1.9's default if the variable is unset, or without data sockets, a
//! message with bytes never moves and `test` reports "not done" forever. The real plugin then
//! sends empty headers endlessly; the software plugin does not.
#![expect(unsafe_code, reason = "reads the caller's buffers for inline messages")]

use crate::comm::Comm;
use crate::failed::{Failed, REFUSED};
use crate::fault::Fate;
use crate::lane::{Memory, SMALL_MAX, Task};
use crate::log::warning;
use crate::queue::{State, Step};
use crate::wire::{self, HEADER_BYTES, Header, Route};
use std::ffi::c_int;
use std::slice;
use std::time::Instant;
use tcpx_abi::PTR_HOST;

impl Comm {
    pub(crate) fn progress_send(&mut self) -> Result<(), Failed> {
        if self.queue.oldest(State::Posted).is_some() && self.may_leave_posted()? {
            self.queue.take(Step::Activate);
        }
        if let Some(slot) = self.queue.oldest(State::Active) {
            self.assign(slot)?;
        }
        if !self.next_test_adds() {
            self.flush_headers()?;
            self.move_data();
        }
        self.reap()
    }

    /// With RECV_SYNC, a send waits until the peer has posted as many receives.
    fn may_leave_posted(&mut self) -> Result<bool, Failed> {
        if !self.plugin.settings.recv_sync {
            return Ok(true);
        }
        if self.ctrl.peek::<4>().is_none() {
            self.ctrl.fill()?;
        }
        let Some(peer) = self
            .ctrl
            .peek::<4>()
            .map(|bytes| u32::from_le_bytes(*bytes))
        else {
            return Ok(false);
        };
        self.ctrl.skip(4);
        let index = self.queue.taken(Step::Activate) as u32;
        if peer != index {
            warning!(
                c"softCommProgress",
                "Recv sync mismatch, idx {index}, peer {peer}"
            );
        }
        Ok(true)
    }

    /// Whether the next step certainly queues a header, and its task or payload with it.
    fn next_test_adds(&mut self) -> bool {
        let active = self.queue.oldest(State::Active);
        let Some(next) = active.or(self.queue.oldest(State::Posted)) else {
            return false;
        };
        let settings = &self.plugin.settings;
        if settings.recv_sync
            || self.faults.is_some()
            || self.stage.is_some()
            || self.held_bytes >= SMALL_MAX
        {
            return false;
        }
        // A tag is sent in front of its header.
        let untold = usize::from(self.groups.tag(next) != 0);
        match self.inline_bytes(next) {
            Some(bytes) => self.ctrl.has_room_inline(HEADER_BYTES + bytes) && untold == 0,
            None => {
                self.ctrl.has_room(HEADER_BYTES * (1 + untold))
                    && self.lanes.have_room()
                    && self.plugin.settings.chunk > 0
            }
        }
    }

    /// The size of a message that is sent on the control socket.
    fn inline_bytes(&mut self, slot: usize) -> Option<usize> {
        let threshold = self.plugin.settings.inline_threshold;
        let request = self.request(slot);
        let (bytes, is_host) = (request.size as usize, request.mem_type == PTR_HOST);
        (bytes == 0 || is_host && bytes <= threshold).then_some(bytes)
    }

    fn assign(&mut self, slot: usize) -> Result<(), Failed> {
        if !self.tell_tag(slot) {
            return Ok(());
        }
        if let Some(total) = self.inline_bytes(slot) {
            return self.assign_inline(slot, total);
        }
        let request = *self.request(slot);
        let total = request.size as usize;
        let staged = self.stage.as_mut().filter(|_| request.mem_type != PTR_HOST);
        let start = match staged {
            Some(stage) => {
                if !stage.is_here(slot)? {
                    return Ok(());
                }
                stage.message(slot)
            }
            None => request.data.cast(),
        };
        let chunk = self.chunk_of(total);
        let count = self.lanes.all.len();
        let mut offset = request.offset as usize;
        let first = self.next_lane;
        for index in (0..count).map(|step| (first + step) % count) {
            if chunk == 0 || offset == total || self.stopped() || !self.ctrl.has_room(HEADER_BYTES)
            {
                break;
            }
            if !self.lanes.all[index].has_room() {
                continue;
            }
            let length = chunk.min(total - offset);
            self.assign_chunk(
                slot,
                index,
                Piece {
                    start,
                    offset,
                    length,
                    total,
                },
            )?;
            offset += length;
        }
        if offset == total {
            self.queue.take(Step::Transmit);
        }
        Ok(())
    }

    /// The task chunk of a message: where a thread takes turns between sockets, they share a long message evenly, so that
    /// no socket holds it up.
    fn chunk_of(&self, total: usize) -> usize {
        let chunk = self.plugin.settings.chunk;
        match self.takes_turns && self.plugin.settings.chunk_is_default {
            true => chunk.max(total.div_ceil(self.lanes.all.len())),
            false => chunk,
        }
    }

    /// Plain flavour: sends a tag other than 0 before the message's first header.
    fn tell_tag(&mut self, slot: usize) -> bool {
        let tag = self.groups.tag(slot);
        if tag == 0 {
            return true;
        }
        let told = self.ctrl.has_room(HEADER_BYTES) && self.ctrl.push(&wire::encode_tag(tag));
        if told {
            self.groups.told(slot);
        }
        told
    }

    fn assign_chunk(&mut self, slot: usize, index: usize, piece: Piece) -> Result<(), Failed> {
        let Piece {
            start,
            offset,
            length,
            total,
        } = piece;
        self.chunks += 1;
        self.queue_header(
            slot,
            Header {
                route: Route::Socket(index),
                size: length as u32,
                offset: offset as u32,
                total: total as u32,
            },
        );
        let number = self.chunks;
        self.next_lane = (index + 1) % self.lanes.all.len();
        self.held_bytes += length;
        let next = self.next_lane as c_int;
        let request = self.request(slot);
        request.next_sock_id = next;
        request.next_size = length as c_int;
        request.offset = (offset + length) as c_int;
        // SAFETY: `offset` is inside the message, which this buffer holds.
        let start = unsafe { start.add(offset) };
        self.lanes.all[index].assign(Task {
            memory: Memory::Flat(start),
            length,
            offset,
            total,
            slot,
            number,
        });
        self.alert()
    }

    /// Queues a whole message on the control socket, after its header.
    fn assign_inline(&mut self, slot: usize, total: usize) -> Result<(), Failed> {
        if !self.ctrl.has_room_inline(HEADER_BYTES + total) {
            return Ok(());
        }
        let size = total as u32;
        self.queue_header(
            slot,
            Header {
                route: Route::Inline,
                size,
                offset: 0,
                total: size,
            },
        );
        if total > 0 {
            let data = self.request(slot).data.cast::<u8>();
            // SAFETY: the caller's buffer holds `total` bytes.
            let payload = unsafe { slice::from_raw_parts(data.cast_const(), total) };
            if !self.ctrl.push(payload) {
                return Err(REFUSED);
            }
        }
        let request = self.request(slot);
        request.offset = total as c_int;
        request.size_pending = 0;
        self.queue.take(Step::Transmit);
        Ok(())
    }

    fn queue_header(&mut self, slot: usize, header: Header) {
        self.headers += 1;
        self.last_header[slot] = self.headers;
        let fate = self
            .faults
            .as_ref()
            .map_or(Fate::Sent, |faults| faults.header(self.headers));
        if fate != Fate::Dropped {
            self.ctrl.push(&header.encode());
        }
        if let Fate::Delayed(wait) = fate {
            self.delayed = Some(Instant::now() + wait);
        }
    }

    fn flush_headers(&mut self) -> Result<(), Failed> {
        if self.delayed.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        self.delayed = None;
        self.ctrl.flush()?;
        if self.ctrl.is_flushed() {
            self.flushed = self.headers;
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.faults
            .as_ref()
            .is_some_and(|faults| faults.stopped(self.chunks))
    }

    /// Whether the last header of a slot's send was written to the socket.
    pub(crate) fn is_announced(&self, slot: usize) -> bool {
        self.last_header[slot] <= self.flushed
    }

    /// Finishes the oldest send if the kernel has all its bytes and its last header, because the
    /// caller may make no further call.
    pub(crate) fn finish_send(&mut self, slot: usize) -> bool {
        if !self.is_announced(slot) {
            return false;
        }
        self.queue.take(Step::Finish);
        self.queue.take(Step::Release);
        true
    }
}

/// One chunk of a message.
struct Piece {
    /// Start of the message: the caller's buffer, or its copy from GPU memory.
    start: *mut u8,
    offset: usize,
    length: usize,
    total: usize,
}
