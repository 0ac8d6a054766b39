//! For how long a process has been inside one plugin call.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use tcpx_recorder::{ChannelSample, Snapshot, State};

/// Watches the calls on the comms of one process. A recorder does not hold when a call on a comm was entered,
/// but numbers the calls, so that two looks tell whether they saw the same one.
#[derive(Default)]
pub(crate) struct CallWatch {
    inside: HashMap<(u16, u32), Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    sequence: u64,
    since_ns: u64,
}

impl CallWatch {
    /// Notes the calls that a snapshot of `now_ns` is inside of.
    pub(crate) fn note(&mut self, snapshot: &Snapshot, now_ns: u64) {
        let before = std::mem::take(&mut self.inside);
        let open = snapshot
            .channels
            .iter()
            .filter(|one| one.state == State::Open);
        let inside = open.filter_map(|one| {
            let (place, sequence) = (place(one), one.in_call?.sequence);
            let known = before
                .get(&place)
                .filter(|known| known.sequence == sequence);
            let since_ns = known.map_or(now_ns, |known| known.since_ns);
            Some((place, Seen { sequence, since_ns }))
        });
        self.inside = inside.collect();
    }

    /// When the call that a comm is inside of was seen first.
    pub(crate) fn since_ns(&self, one: &ChannelSample) -> Option<u64> {
        self.inside.get(&place(one)).map(|seen| seen.since_ns)
    }
}

fn place(one: &ChannelSample) -> (u16, u32) {
    (one.slot, one.generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_recorder::format::{Call, Role};
    use tcpx_recorder::{Addresses, Opening, Options, Reader, Recorder};

    #[test]
    fn a_call_counts_from_when_it_was_seen_first_and_the_next_one_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::create_in(folder.path(), &Options::new("calls")).expect("made");
        let opening = Opening {
            role: Role::Listen,
            device: 0,
            comm: 1,
            retires_consumed: false,
            addresses: Addresses::default(),
        };
        let slot = recorder
            .open(&opening)
            .and_then(|key| recorder.slot(key))
            .expect("a slot");
        let mut sampler = crate::counters::sample::Sampler::new(recorder.path());
        let mut so_far = || sampler.calls_so_far().expect("a recorder");
        let none = so_far();
        let first = slot.enter(Call::Accept);
        let inside = so_far();
        assert_eq!(so_far(), inside);
        slot.leave(first);
        let left = so_far();
        assert!(none != inside && inside != left);
        let mut reader = Reader::open(&recorder.path()).expect("a recorder");
        let mut watch = CallWatch::default();
        let mut since_ns = |now_ns| {
            let snapshot = reader.snapshot().expect("a snapshot");
            watch.note(&snapshot, now_ns);
            watch.since_ns(&snapshot.channels[0])
        };
        assert_eq!(since_ns(10), None);
        let call = slot.enter(Call::Accept);
        assert_eq!([20, 30].map(&mut since_ns), [Some(20), Some(20)]);
        slot.leave(call);
        let again = slot.enter(Call::Accept);
        assert_eq!(since_ns(40), Some(40));
        slot.leave(again);
        assert_eq!(since_ns(50), None);
    }
}
