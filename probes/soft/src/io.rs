//! Moves the bytes of a lane's tasks, with at most one nonblocking `sendmsg` or `recvmsg` per
//! call for all waiting tasks.
//!
//! One call for all tasks makes small messages cheap. Large messages are not split, because I/O
//! in pieces of 64 to 128 KiB is 20 to 55 % slower on loopback.
//!
//! A failed data socket is logged once and never reported to the caller: like TCPX's helper
//! thread it stops silently, and `test` reports "not done" forever.
#![expect(unsafe_code, reason = "scatter and gather over the caller's memory")]

use crate::fault::Side;
use crate::lane::{Lane, Lanes, Memory, Mover, Task, place};
use crate::log::warning;
use crate::pages::PAGE;
use crate::socket;
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::slice;
use std::time::Instant;

/// The result of serving a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Bytes were moved.
    Some,
    /// No task is waiting, or the lane is dead or starved by a fault.
    Nothing,
    /// The socket would block, or the page pool is empty.
    Blocked,
    /// The socket failed in this call.
    Died,
}

/// Most vectors of one call if every task is one piece.
const FLAT: usize = crate::lane::TASKS_SMALL;
/// Most vectors of one call if tasks are in pages: 1 MiB.
const PAGED: usize = 256;

/// Moves as many bytes as possible on one lane.
///
/// # Safety
/// The calling thread is the lane's only mover, and the memory of its tasks is
/// valid as `isend` and `irecv` require.
pub(crate) unsafe fn pump(lanes: &Lanes, lane: &Lane) -> Moved {
    let (first, last) = lane.unfinished();
    if first == last || lane.is_dead() {
        return Moved::Nothing;
    }
    // SAFETY: the caller is the only mover.
    let mover = unsafe { lane.mover() };
    let most = match &mover.faults {
        None => piece(lanes.side),
        Some(_) => match allowed(lane, mover) {
            Some(most) => most.min(piece(lanes.side)),
            None => return Moved::Nothing,
        },
    };
    if lanes.pool.is_some() {
        pump_with::<PAGED>(lanes, lane, mover, (first, last), most)
    } else {
        pump_with::<FLAT>(lanes, lane, mover, (first, last), most)
    }
}

/// Most bytes of one system call. A receiver reads each message when it is complete; with more
/// bytes per call, later messages would evict the first from the core's cache before that. On 16
/// CPUs a sender's rate was 1.01 to 1.12 of that with its whole window in one call.
fn piece(side: Side) -> usize {
    match side {
        Side::Send => 1 << 20,
        Side::Recv => 512 << 10,
    }
}

/// How many bytes the socket's faults allow to be moved; `None` for none.
fn allowed(lane: &Lane, mover: &mut Mover) -> Option<usize> {
    let faults = mover.faults.as_mut()?;
    if let Some((_, percent)) = faults
        .lose_after
        .take_if(|(chunks, _)| u64::from(lane.unfinished().0) >= *chunks)
    {
        // If the kernel refuses the filter, the fault does not happen.
        if let Err(error) = socket::lose(&lane.stream, percent) {
            warning!(
                c"softTaskProgress",
                "cannot lose packets: {}",
                socket::words(&error)
            );
        }
    }
    if faults
        .starve_after
        .is_some_and(|chunks| u64::from(lane.unfinished().0) >= chunks)
    {
        return None;
    }
    let Some(limit) = faults.close_after else {
        return Some(usize::MAX);
    };
    let left = limit.saturating_sub(mover.bytes);
    if left == 0 {
        // The next system call fails as on a socket that the peer closed.
        let _ = lane.stream.shutdown(Shutdown::Both);
        return Some(usize::MAX);
    }
    Some(left as usize)
}

fn pump_with<const N: usize>(
    lanes: &Lanes,
    lane: &Lane,
    mover: &mut Mover,
    (first, last): (u32, u32),
    most: usize,
) -> Moved {
    let mut vectors = Vectors::<N>::new(most);
    let mut number = first;
    while number != last
        && most - vectors.most < lanes.enough
        && gather(lanes, mover, lane.task(number), number, first, &mut vectors)
    {
        number = number.wrapping_add(1);
    }
    if vectors.count == 0 {
        return blocked(lanes, lane, mover, first, libc::ENOBUFS);
    }
    match vectors.transfer(lane, lanes.side) {
        Ok(0) => died(lanes, lane, None),
        Ok(moved) => {
            mover.stall.moved();
            mover.bytes += moved as u64;
            lane.finish_to(advance(lane, mover, first, moved));
            Moved::Some
        }
        Err(error) => match error.raw_os_error() {
            Some(code @ (libc::EAGAIN | libc::EINTR | libc::ENOBUFS)) => {
                blocked(lanes, lane, mover, first, code)
            }
            _ => died(lanes, lane, Some(error)),
        },
    }
}

/// Adds the remaining bytes of a task. `false` if no more vectors fit or no page is free, so
/// later tasks must wait.
fn gather<const N: usize>(
    lanes: &Lanes,
    mover: &mut Mover,
    task: Task,
    number: u32,
    first: u32,
    vectors: &mut Vectors<N>,
) -> bool {
    let mut at = if number == first { mover.done } else { 0 };
    match task.memory {
        // SAFETY: `at` is less than the task's length, which its buffer has.
        Memory::Flat(base) => vectors.push(unsafe { base.add(at) }, task.length - at),
        Memory::Pages(numbers) => {
            let Some(pool) = lanes.pool else { return false };
            let held = &mut mover.held[place(number)];
            let count = task.length.div_ceil(PAGE);
            // SAFETY: the list has room for every page of the task, which is the mover's.
            let pages = unsafe { slice::from_raw_parts_mut(numbers, count) };
            if *held < count {
                *held += pool.take(&mut pages[*held..]);
            }
            let pages = &pages[..*held];
            while at < task.length {
                let page = pages.get(at / PAGE);
                let Some(start) = page.and_then(|page| pool.at(*page)) else {
                    return false;
                };
                let length = (PAGE - at % PAGE).min(task.length - at);
                // SAFETY: stays inside the page.
                let start = unsafe { start.as_ptr().add(at % PAGE) };
                if !vectors.push(start, length) {
                    return false;
                }
                at += length;
            }
            true
        }
    }
}

/// Records `moved` bytes and returns the number of the first unfinished task.
fn advance(lane: &Lane, mover: &mut Mover, first: u32, mut moved: usize) -> u32 {
    let mut number = first;
    while moved > 0 {
        let left = lane.task(number).length - mover.done;
        if moved < left {
            mover.done += moved;
            break;
        }
        moved -= left;
        mover.done = 0;
        mover.held[place(number)] = 0;
        number = number.wrapping_add(1);
    }
    number
}

/// Handles a blocked socket; logs a slowness line if it has been blocked for long enough.
fn blocked(lanes: &Lanes, lane: &Lane, mover: &mut Mover, first: u32, code: i32) -> Moved {
    let Some(patience) = lanes.patience else {
        return Moved::Blocked;
    };
    let Some(slow) = mover.stall.idle(Instant::now(), patience) else {
        return Moved::Blocked;
    };
    let task = lane.task(first);
    let (word, done) = (word_of(lanes.side), mover.done);
    warning!(
        c"softTaskSlow",
        "{:p}:{:#x}, nic {}, {}, {} {word} timeout error {code}, {}: [{done}/{}]/{} cnt {}, nanos {}",
        lane,
        lanes.comm,
        lanes.device,
        lanes.interface,
        lane.flow,
        socket::words(&io::Error::from_raw_os_error(code)),
        task.length,
        task.total,
        slow.polls,
        slow.elapsed.as_nanos()
    );
    Moved::Blocked
}

fn died(lanes: &Lanes, lane: &Lane, error: Option<io::Error>) -> Moved {
    lane.die();
    match error {
        None => warning!(
            c"softTaskProgress",
            "Net : Connection closed by remote peer {}",
            lane.flow
        ),
        Some(error) => warning!(
            c"softTaskProgress",
            "Call to socket op {}({}) {} flags {:x} failed : {}",
            word_of(lanes.side),
            lanes.side as i32,
            lane.flow,
            flags_of(lanes.side),
            socket::words(&error)
        ),
    }
    Moved::Died
}

fn word_of(side: Side) -> &'static str {
    match side {
        Side::Send => "send",
        Side::Recv => "recv",
    }
}

fn flags_of(side: Side) -> i32 {
    match side {
        Side::Send => libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        Side::Recv => libc::MSG_DONTWAIT,
    }
}

/// The memory pieces of one system call, on the stack.
struct Vectors<const N: usize> {
    pieces: [MaybeUninit<libc::iovec>; N],
    count: usize,
    /// Bytes that can still be added.
    most: usize,
}

impl<const N: usize> Vectors<N> {
    fn new(most: usize) -> Self {
        Self {
            pieces: [const { MaybeUninit::uninit() }; N],
            count: 0,
            most,
        }
    }

    /// Adds a piece. `false` if it did not fit completely.
    fn push(&mut self, start: *mut u8, length: usize) -> bool {
        let taken = length.min(self.most);
        if self.count == N || taken == 0 {
            return false;
        }
        self.pieces[self.count].write(libc::iovec {
            iov_base: start.cast(),
            iov_len: taken,
        });
        self.count += 1;
        self.most -= taken;
        taken == length
    }

    fn transfer(&mut self, lane: &Lane, side: Side) -> io::Result<usize> {
        // SAFETY: all-zero is a valid msghdr without names and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.pieces.as_mut_ptr().cast();
        message.msg_iovlen = self.count;
        let socket = lane.stream.as_raw_fd();
        let moved = match side {
            // SAFETY: `count` pieces are written, each inside memory that its task vouches for.
            Side::Send => unsafe { libc::sendmsg(socket, &message, flags_of(side)) },
            // SAFETY: as above, and the mover owns the tasks it writes to.
            Side::Recv => unsafe { libc::recvmsg(socket, &mut message, flags_of(side)) },
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Lanes;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicBool;

    const LENGTH: usize = 1000;

    /// How many of three tasks of [`LENGTH`] bytes one call moves.
    fn moved_by_a_call(enough: usize) -> u32 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let lanes = Lanes {
            all: vec![Lane::new(stream, String::new(), None)],
            side: Side::Send,
            pool: None,
            comm: 0,
            device: 0,
            interface: String::new(),
            enough,
            patience: None,
            stop: AtomicBool::new(false),
        };
        let lane = &lanes.all[0];
        let bytes = [7_u8; LENGTH];
        for number in 1..=3 {
            assert!(lane.assign(Task {
                memory: Memory::Flat(bytes.as_ptr().cast_mut()),
                length: LENGTH,
                offset: 0,
                total: LENGTH,
                slot: 0,
                number,
            }));
        }
        // SAFETY: this thread is the only mover, and the bytes live longer.
        assert_eq!(unsafe { pump(&lanes, lane) }, Moved::Some);
        lane.unfinished().0
    }

    #[test]
    fn a_call_takes_no_further_task_after_enough_bytes() {
        assert_eq!(moved_by_a_call(usize::MAX), 3);
        assert_eq!(moved_by_a_call(LENGTH), 1);
        assert_eq!(moved_by_a_call(LENGTH + 1), 2);
        assert_eq!(moved_by_a_call(1), 1);
    }
}
