//! The last collective that each rank called, with its arguments, as NCCL logs them at INFO with NCCL_DEBUG_SUBSYS=COLL.
//!
//! A collective ends only if all ranks of a communicator call it with the same arguments, and NCCL does not check that
//! before it moves data. So the lines of the ranks beside each other tell why a job hangs that no other line explains.
//!
//! Not here: sends and receives, whose peers differ, and calls of one group of which a log has several.
#![forbid(unsafe_code)]

use super::fields;
use super::seen::Place;
use std::collections::BTreeMap;

/// Most communicators whose last call is kept.
const CALLS_MAX: usize = 16_384;
/// The collectives whose arguments are the same on all ranks.
const OF_ALL: [&str; 5] = [
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
];

/// One call of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    /// The number of the call in its communicator.
    pub number: u64,
    pub name: &'static str,
    /// Elements, data type, operation and root.
    pub arguments: [u64; 4],
    /// How many ranks the communicator has.
    pub ranks: u64,
}

/// The last call of a rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastCall {
    pub place: Place,
    pub call: Call,
    /// Whether it called the same collective under this number with other arguments, as in a group of calls.
    pub is_of_several: bool,
}

/// The last call in each communicator of each process.
#[derive(Debug, Default)]
pub(super) struct Calls(BTreeMap<(u32, u64), LastCall>);

impl Calls {
    /// A line of a call of a process in a communicator, with the number of the call.
    pub(super) fn see(
        &mut self,
        (speaker, comm): (u32, u64),
        place: Place,
        number: u64,
        message: &[u8],
    ) {
        if let Some(call) = of_line(number, message) {
            let last = LastCall {
                place,
                call,
                is_of_several: false,
            };
            self.add(speaker, comm, last);
        }
    }

    fn add(&mut self, speaker: u32, comm: u64, new: LastCall) {
        if let Some(known) = self.0.get_mut(&(speaker, comm)) {
            let is_same = (known.call.name, known.call.number) == (new.call.name, new.call.number);
            let is_of_several =
                new.is_of_several || is_same && (known.is_of_several || known.call != new.call);
            if new.place >= known.place {
                *known = new;
            }
            known.is_of_several = is_of_several;
        } else if self.0.len() < CALLS_MAX {
            self.0.insert((speaker, comm), new);
        }
    }

    /// Adds the calls of another thread or file.
    pub(super) fn merge(&mut self, other: Self, number: impl Fn(u32) -> u32) {
        for ((speaker, comm), last) in other.0 {
            self.add(number(speaker), comm, last);
        }
    }

    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.0.values_mut().map(|one| &mut one.place)
    }

    /// The process, the address of the communicator, and the last call in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64, &LastCall)> {
        self.0
            .iter()
            .map(|((speaker, comm), last)| (*speaker, *comm, last))
    }
}

/// The call of this number, in `AllReduce: opCount 1f2 sendbuff 0x7f3a80000000 recvbuff 0x7f3a90000000
/// count 33554432 datatype 9 op 0 root 0 comm 0x55d1c0ffee00 [nranks=16] stream 0x55d1c0ffef00`.
fn of_line(number: u64, message: &[u8]) -> Option<Call> {
    let front = message.split(|byte| *byte == b':').next()?;
    let name = OF_ALL
        .into_iter()
        .find(|name| front.ends_with(name.as_bytes()))?;
    let [count, datatype, op, root, ranks] = fields::numbers_behind(
        message,
        [" count ", " datatype ", " op ", " root ", "[nranks="],
    )?;
    Some(Call {
        number,
        name,
        arguments: [count, datatype, op, root],
        ranks,
    })
}
