//! Plain flavour: which request each buffer belongs to, and under which tag.
//!
//! A receive of several buffers takes a slot for each; the caller knows it by the
//! first. Messages fill slots in the order in which they arrive, so a buffer whose
//! message comes early changes places with those before it, one after the other.
//! All go on belonging to the requests that they were posted with.
//!
//! Not here: what is in a slot, or when it is whole.
#![forbid(unsafe_code)]

use crate::queue::SLOTS_MAX;
use std::ffi::c_int;

/// Buffers of one receive: as many as NCCL ever asks for.
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
    /// By the slot that a buffer is in.
    members: [Member; SLOTS_MAX],
    /// By the slot that the caller's pointer means.
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

    /// One more buffer of it; those over [`GROUP_MAX`] are the caller's mistake.
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

    /// Takes the tag away, which was told to the peer.
    pub(crate) fn told(&mut self, slot: usize) {
        self.members[slot].tag = 0;
    }

    /// The buffers in two slots have changed places.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.members.swap(one, other);
        for slot in [one, other] {
            let member = self.members[slot];
            self.groups[usize::from(member.request)].slots[usize::from(member.place)] = slot as u8;
        }
    }

    /// Where the buffers of a request are, in the order in which they were posted.
    #[inline]
    pub(crate) fn slots(&self, request: usize) -> impl Iterator<Item = usize> + use<> {
        let Group { slots, count, .. } = self.groups[request];
        slots.into_iter().take(count.into()).map(usize::from)
    }

    /// Whether the caller still waits for the request that a slot stands for.
    #[inline]
    pub(crate) fn is_open(&self, slot: usize) -> bool {
        self.groups[slot].open
    }

    /// The caller was told that a request is done.
    #[inline]
    pub(crate) fn close(&mut self, request: usize) {
        self.groups[request].open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_change_places_stay_with_their_requests() {
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
    fn a_ninth_buffer_is_not_kept() {
        let mut groups = Groups::default();
        groups.open(0, 0);
        (1..12).for_each(|slot| groups.add(0, slot, 0));
        assert!(groups.slots(0).eq(0..8));
    }
}
