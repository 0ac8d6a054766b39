//! Plain flavour: the request and tag of each buffer.
//!
//! A receive of several buffers takes one slot for each; the caller's request is the first slot.
//! Messages fill slots in the order of arrival, so a buffer whose message arrives early is
//! swapped forward past the buffers before it. Every buffer still belongs to the request with
//! which it was posted.
//!
//! Not here: the content of slots, and when a slot is complete.
#![forbid(unsafe_code)]

use crate::queue::SLOTS_MAX;
use std::ffi::c_int;

/// Most buffers of one receive, as in NCCL.
pub(crate) const GROUP_MAX: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Member {
    tag: c_int,
    request: u8,
    place: u8,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    slots: [u8; GROUP_MAX],
    count: u8,
    open: bool,
}

/// Requests and buffers of one comm.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The buffer in each slot.
    members: [Member; SLOTS_MAX],
    /// The request whose first slot this was when it was posted.
    groups: [Group; SLOTS_MAX],
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            members: [Member::default(); SLOTS_MAX],
            groups: [Group::default(); SLOTS_MAX],
        }
    }
}

impl Groups {
    /// A new request, whose first buffer is in `slot`.
    pub(crate) fn open(&mut self, slot: usize, tag: c_int) {
        self.groups[slot] = Group {
            count: 0,
            open: true,
            ..Group::default()
        };
        self.add(slot, slot, tag);
    }

    /// Adds a buffer to a request. More than [`GROUP_MAX`] are ignored.
    pub(crate) fn add(&mut self, request: usize, slot: usize, tag: c_int) {
        let group = &mut self.groups[request];
        if let Some(place) = group.slots.get_mut(usize::from(group.count)) {
            *place = slot as u8;
            self.members[slot] = Member {
                tag,
                request: request as u8,
                place: group.count,
            };
            group.count += 1;
        }
    }

    /// The tag of the buffer in `slot`.
    pub(crate) fn tag(&self, slot: usize) -> c_int {
        self.members[slot].tag
    }

    /// Clears the tag after it was sent to the peer.
    pub(crate) fn told(&mut self, slot: usize) {
        self.members[slot].tag = 0;
    }

    /// Swaps the buffers of two slots.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.members.swap(one, other);
        for slot in [one, other] {
            let member = self.members[slot];
            self.groups[usize::from(member.request)].slots[usize::from(member.place)] = slot as u8;
        }
    }

    /// The slots of a request's buffers, in posting order.
    #[inline]
    pub(crate) fn slots(&self, request: usize) -> impl Iterator<Item = usize> + use<> {
        let Group { slots, count, .. } = self.groups[request];
        slots.into_iter().take(count.into()).map(usize::from)
    }

    /// Whether the caller still waits for the request of a slot.
    #[inline]
    pub(crate) fn is_open(&self, slot: usize) -> bool {
        self.groups[slot].open
    }

    /// Marks a request that was reported done.
    #[inline]
    pub(crate) fn close(&mut self, request: usize) {
        self.groups[request].open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_buffers_stay_with_their_requests() {
        let mut groups = Groups::default();
        let slots = |groups: &Groups, request| groups.slots(request).collect::<Vec<_>>();
        groups.open(0, 5);
        groups.add(0, 1, 6);
        groups.open(2, 7);
        groups.add(2, 3, 5);
        groups.swap(0, 3);
        assert_eq!(
            (slots(&groups, 0), slots(&groups, 2)),
            (vec![3, 1], vec![2, 0])
        );
        groups.swap(1, 2);
        assert_eq!(
            (slots(&groups, 0), slots(&groups, 2)),
            (vec![3, 2], vec![1, 0])
        );
        assert_eq!([0, 1, 2, 3].map(|slot| groups.tag(slot)), [5, 7, 6, 5]);
        groups.swap(1, 1);
        assert_eq!(slots(&groups, 2), [1, 0]);
        groups.close(0);
        assert_eq!(
            [0, 1, 2].map(|slot| groups.is_open(slot)),
            [false, false, true]
        );
    }

    #[test]
    fn a_ninth_buffer_is_ignored() {
        let mut groups = Groups::default();
        groups.open(0, 0);
        (1..12).for_each(|slot| groups.add(0, slot, 0));
        assert!(groups.slots(0).eq(0..8));
    }
}
