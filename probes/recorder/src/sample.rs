//! One channel of a snapshot: the decoded slot, with inconsistent counters clamped.
#![forbid(unsafe_code)]

use crate::address::Address;
use crate::format::{self, BUCKETS, Call, ERROR_KINDS, OperationKind, POSTS, Role, channel, life};
use crate::histogram::Histogram;
use crate::slot::Addresses;
use crate::words::Words;

/// Whether a sample's comm is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The comm is open.
    Open,
    /// The comm was closed; the counters are its last.
    Closed,
}

/// One channel at one moment. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone)]
pub struct ChannelSample {
    /// Index of the slot in the file.
    pub slot: u16,
    /// Number of comms that have had the slot, including this one.
    pub generation: u32,
    /// Open or closed.
    pub state: State,
    /// Listen, send or receive.
    pub role: Role,
    /// Plugin device index; `None` if unknown.
    pub device: Option<i32>,
    /// The plugin's comm pointer.
    pub comm: u64,
    /// The engine's channel number, if it set one.
    pub channel: Option<u32>,
    /// The connection of an endpoint that the comm is part of.
    pub connection: Option<u64>,
    /// The operation whose message was posted last, and its number within the connection.
    pub operation: Option<(OperationKind, u64)>,
    /// When the comm was opened.
    pub opened_ns: u64,
    /// When the comm was closed.
    pub closed_ns: Option<u64>,
    /// Requests posted.
    pub posted: u64,
    /// Requests reported done.
    pub done: u64,
    /// Receives unpacked; `None` if no engine records unpacking.
    pub unpacked: Option<u64>,
    /// Receives consumed with `irecvConsumed`.
    pub consumed: u64,
    /// Whether a request is in flight until consumed instead of until done.
    pub retires_consumed: bool,
    /// Most requests in flight at once.
    pub in_flight_high_water: u64,
    /// When the oldest request in flight was posted; exact for plugins that finish in posting
    /// order, as TCPX does. `None` if no request is in flight, or if so many are done and not
    /// consumed that the time was overwritten.
    pub head_posted_ns: Option<u64>,
    /// When the oldest unfinished request was posted.
    pub not_done_posted_ns: Option<u64>,
    /// Calls of `test`; for a listen comm, of `accept`.
    pub tests: u64,
    /// Of these, calls that reported nothing done.
    pub tests_not_done: u64,
    /// Posts that returned a null request, "call again".
    pub null_requests: u64,
    /// Requests returned by `iflush`.
    pub flushes: u64,
    /// Failed calls by return code: codes 1 to 8 by index, all others in the last entry.
    pub errors: [u64; ERROR_KINDS],
    /// The last call that failed.
    pub last_error: Option<LastError>,
    /// Bytes of all requests posted.
    pub bytes_posted: u64,
    /// Bytes of all finished requests, as posted or, if the plugin reports sizes, as received.
    pub bytes_done: u64,
    /// Time of the last event other than an error or an unfinished `test`.
    pub last_change_ns: u64,
    /// Kernel id of the thread that last polled for long, else of the one that made the first change, in the
    /// writer's pid namespace.
    pub thread: Option<u32>,
    /// The last stretch of polls; `None` before [`format::TESTS_PER_NOTE`] tests that were not
    /// done.
    pub polls: Option<Polls>,
    /// The call that has not returned, if any.
    pub in_call: Option<InCall>,
    /// The last call that was entered, returned or not.
    pub last_call: Option<Call>,
    /// Increases whenever a call is entered or returns. If it is unchanged between two
    /// snapshots, no call was made and none returned.
    pub call_sequence: u64,
    /// Histogram of posted-to-done times.
    pub latency: Histogram,
    /// The requests in flight, oldest first; only the youngest [`POSTS`].
    pub requests: Vec<RequestNow>,
    /// Known addresses of the comm's connections.
    pub addresses: Addresses,
    /// Range of event numbers of this comm in the slot's ring: the first, and the next to be
    /// written. [`crate::Reader::events`] reads them.
    pub events: (u64, u64),
    /// Events of this comm that were overwritten; all of them if there is no ring.
    pub events_overwritten: u64,
    /// Whether inconsistent counters were clamped, because the writer was changing them.
    pub torn: bool,
}

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestNow {
    /// Counted from 0 over the life of the comm.
    pub number: u64,
    /// Stage of the request.
    pub stage: Stage,
    /// Bytes posted.
    pub bytes: u64,
    /// When it was posted, nanoseconds of `CLOCK_MONOTONIC`.
    pub posted_ns: u64,
}

/// The stage of a request in flight. `Unpacked` is exact for engines that unpack in posting
/// order, as TCPX requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Posted and not done.
    Posted,
    /// Done and not known to be unpacked.
    Done,
    /// Unpacked and not consumed.
    Unpacked,
}

impl Stage {
    /// `p`, `d` or `u`, for displaying a window.
    pub fn letter(self) -> char {
        match self {
            Self::Posted => 'p',
            Self::Done => 'd',
            Self::Unpacked => 'u',
        }
    }
}

/// A plugin call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InCall {
    /// The call.
    pub call: Call,
    /// If unchanged between two snapshots, it is the same call.
    pub sequence: u64,
}

/// Calls of `test` between two times, of which none found a request done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polls {
    /// The first noted test of the stretch.
    pub from_ns: u64,
    /// The last noted test.
    pub until_ns: u64,
    /// Tests from the first to the last one.
    pub tests: u64,
    /// Tests after the last one, fewer than [`format::TESTS_PER_NOTE`] that were not done.
    pub tests_after: u64,
}

impl Polls {
    fn decode(slot: &Words<'_>, tests: u64) -> Option<Self> {
        let until_ns = slot.u64(channel::POLLS_UNTIL_NS);
        let until_tests = slot.u64(channel::POLLS_UNTIL_TESTS).min(tests);
        (until_ns > 0).then(|| Self {
            from_ns: slot.u64(channel::POLLS_FROM_NS).min(until_ns),
            until_ns,
            tests: until_tests.saturating_sub(slot.u64(channel::POLLS_FROM_TESTS)),
            tests_after: tests - until_tests,
        })
    }
}

/// A call that did not return 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastError {
    /// The call.
    pub call: Call,
    /// Its return code.
    pub code: i32,
    /// When it returned, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

impl ChannelSample {
    /// Requests that are no longer in flight: consumed or done, see `retires_consumed`.
    pub fn retired(&self) -> u64 {
        if self.retires_consumed {
            self.consumed
        } else {
            self.done
        }
    }

    /// Requests posted and not yet retired.
    pub fn in_flight(&self) -> u64 {
        self.posted.saturating_sub(self.retired())
    }

    /// Age of the oldest request in flight at `now_ns`.
    pub fn head_age_ns(&self, now_ns: u64) -> Option<u64> {
        self.head_posted_ns
            .map(|posted| now_ns.saturating_sub(posted))
    }

    /// Number of calls that did not return 0.
    pub fn rc_errors(&self) -> u64 {
        self.errors
            .iter()
            .fold(0u64, |sum, count| sum.saturating_add(*count))
    }
}

impl ChannelSample {
    /// Decodes a slot of a file with `ring_events` events per ring. `None` if the slot is free or
    /// being reused.
    pub(crate) fn decode(slot: Words<'_>, index: u16, ring_events: u32) -> Option<Self> {
        let life = slot.u64(channel::LIFE);
        let state = match life & life::STATE {
            life::OPEN => State::Open,
            life::CLOSED => State::Closed,
            _ => return None,
        };
        let role = Role::from_raw(slot.u32(channel::ROLE))?;
        let mut torn = false;
        let mut at_most = |value: u64, bound: u64| {
            torn |= value > bound;
            value.min(bound)
        };
        let posted = slot.u64(channel::POSTED);
        let done = at_most(slot.u64(channel::DONE), posted);
        let consumed = at_most(slot.u64(channel::CONSUMED), done);
        let unpacked = at_most(slot.u64(channel::UNPACKED), done);
        let tests = slot.u64(channel::TESTS);
        let tests_not_done = at_most(slot.u64(channel::TESTS_NOT_DONE), tests);
        let call_word = slot.u64(channel::IN_CALL);
        let last_call = Call::from_raw(call_word & 0xff);
        let call_sequence = call_word >> 8;
        torn |= last_call.is_none() && call_word != 0;
        let inside = !call_sequence.is_multiple_of(2);
        let retires_consumed = role == Role::Recv && life & life::RETIRES_CONSUMED != 0;
        let retired = if retires_consumed { consumed } else { done };
        let post_ns = slot.array::<POSTS>(channel::POST_NS);
        let posted_at = |number: u64| {
            let known = number < posted && posted - number <= POSTS as u64;
            known.then(|| post_ns[number as usize % POSTS])
        };
        let pending = slot.u64(channel::PENDING);
        let is_pending = |number: u64| pending >> (number % POSTS as u64) & 1 == 1;
        let oldest_pending =
            (posted.saturating_sub(POSTS as u64)..posted).find(|number| is_pending(*number));
        let post_bytes = slot.array::<POSTS>(channel::POST_BYTES);
        let unpacks = slot.u64(channel::FLAGS) & format::UNPACKED_KNOWN != 0;
        // Receives that are consumed finish in order, so the counters tell more than the bits,
        // which were copied slightly earlier.
        let stage = |number: u64| match number {
            _ if !retires_consumed || number >= done => Stage::Posted,
            _ if unpacks && number < unpacked => Stage::Unpacked,
            _ => Stage::Done,
        };
        let in_flight = |number: &u64| {
            if retires_consumed {
                *number >= consumed
            } else {
                is_pending(*number)
            }
        };
        let requests = (posted.saturating_sub(POSTS as u64)..posted)
            .filter(in_flight)
            .map(|number| RequestNow {
                number,
                stage: stage(number),
                bytes: post_bytes[number as usize % POSTS],
                posted_ns: post_ns[number as usize % POSTS],
            });
        let next_event = slot.u64(channel::EVENTS);
        let first_event = slot.u64(channel::FIRST_EVENT).min(next_event);
        let operation = slot.u64(channel::OPERATION);
        let address = |at: usize| Address::from_words(slot.array(at));
        Some(Self {
            slot: index,
            generation: (life >> life::GENERATION_SHIFT) as u32,
            state,
            role,
            device: Some(slot.u32(channel::DEVICE) as i32).filter(|device| *device >= 0),
            comm: slot.u64(channel::COMM),
            channel: Some(slot.u32(channel::CHANNEL))
                .filter(|channel| *channel != format::NO_CHANNEL),
            connection: Some(slot.u64(channel::CONNECTION)).filter(|number| *number > 0),
            operation: OperationKind::from_raw(operation & 0xff).map(|kind| (kind, operation >> 8)),
            opened_ns: slot.u64(channel::OPENED_NS),
            closed_ns: (state == State::Closed).then(|| slot.u64(channel::CLOSED_NS)),
            posted,
            done,
            unpacked: unpacks.then_some(unpacked),
            consumed,
            retires_consumed,
            in_flight_high_water: slot.u64(channel::IN_FLIGHT_HIGH_WATER),
            head_posted_ns: posted_at(retired),
            not_done_posted_ns: oldest_pending.and_then(posted_at),
            tests,
            tests_not_done,
            null_requests: slot.u64(channel::NULL_REQUESTS),
            flushes: slot.u64(channel::FLUSHES),
            errors: slot.array::<ERROR_KINDS>(channel::ERRORS),
            last_error: slot
                .failed_call(channel::LAST_ERROR)
                .map(|(call, code)| LastError {
                    call,
                    code,
                    at_ns: slot.u64(channel::LAST_ERROR_NS),
                }),
            bytes_posted: slot.u64(channel::BYTES_POSTED),
            bytes_done: slot.u64(channel::BYTES_DONE),
            last_change_ns: slot.u64(channel::LAST_CHANGE_NS),
            thread: Some(slot.u32(channel::THREAD) & ((1 << format::THREAD_ID_BITS) - 1))
                .filter(|id| *id != 0),
            polls: Polls::decode(&slot, tests),
            in_call: last_call.filter(|_| inside).map(|call| InCall {
                call,
                sequence: call_sequence,
            }),
            last_call,
            call_sequence,
            requests: requests.collect(),
            addresses: Addresses {
                local: address(channel::LOCAL),
                peer: address(channel::PEER),
                ctrl: address(channel::CTRL),
            },
            events: (first_event, next_event),
            events_overwritten: oldest_event(next_event, ring_events).max(first_event)
                - first_event,
            latency: Histogram::new(
                slot.array::<BUCKETS>(channel::LATENCY),
                slot.u64(channel::LATENCY_MAX_NS),
            ),
            torn,
        })
    }
}

/// The oldest complete event in a ring whose next event is `next`.
pub(crate) fn oldest_event(next: u64, ring_events: u32) -> u64 {
    match u64::from(ring_events) {
        0 => next,
        // The entry of the next event may be half-written.
        places if next >= places => next - places + 1,
        _ => 0,
    }
}
