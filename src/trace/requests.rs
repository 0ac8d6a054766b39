//! Turns a channel's events into requests: when each was posted, done, unpacked and
//! consumed, as far as the ring still holds the events.
#![forbid(unsafe_code)]

use super::lanes::Lanes;
use std::collections::HashMap;
use tcpx_recorder::Event;
use tcpx_recorder::format::EventKind;

/// The stages of one request. Times are the recorder's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Lowest 32 bits of its number.
    pub number: u32,
    /// Bytes done, or posted if it is not done.
    pub bytes: u64,
    /// When it was posted; `None` if the event was overwritten.
    pub posted: Option<u64>,
    /// When it was done; `None` before that, or if the event was overwritten.
    pub done: Option<u64>,
    /// When it was unpacked; `None` as for `done`.
    pub unpacked: Option<u64>,
    /// When it was consumed; `None` as for `done`.
    pub consumed: Option<u64>,
    /// Lane in which it overlaps no other request.
    pub lane: usize,
}

impl Request {
    /// Time of its first known stage.
    pub fn begins(&self) -> Option<u64> {
        self.posted
            .or(self.done)
            .or(self.unpacked)
            .or(self.consumed)
    }

    fn stage(&mut self, kind: EventKind) -> Option<&mut Option<u64>> {
        match kind {
            EventKind::Posted => Some(&mut self.posted),
            EventKind::Done => Some(&mut self.done),
            EventKind::Unpacked => Some(&mut self.unpacked),
            EventKind::Consumed => Some(&mut self.consumed),
            _ => None,
        }
    }
}

/// Calls `each` with every request: retired ones in the order in which they retire, then those
/// in flight. A request retires when it is consumed if `until_consumed`, otherwise when it is
/// done.
pub fn each_request(events: &[Event], until_consumed: bool, mut each: impl FnMut(&Request)) {
    let mut open: HashMap<u32, Request> = HashMap::new();
    let mut lanes = Lanes::default();
    let last = if until_consumed {
        EventKind::Consumed
    } else {
        EventKind::Done
    };
    for event in events {
        let mut made = || Request {
            number: event.request,
            lane: lanes.take(),
            ..Request::default()
        };
        let mut none = Request::default();
        if none.stage(event.kind).is_none() {
            continue;
        }
        let request = open.entry(event.request).or_insert_with(&mut made);
        if let Some(at) = request.stage(event.kind) {
            *at = Some(event.at_ns);
        }
        if matches!(event.kind, EventKind::Posted | EventKind::Done) {
            request.bytes = event.value;
        }
        if event.kind == last
            && let Some(request) = open.remove(&event.request)
        {
            lanes.give_back(request.lane);
            each(&request);
        }
    }
    let mut left: Vec<Request> = open.into_values().collect();
    left.sort_by_key(|request| (request.begins(), request.number));
    left.iter().for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_recorder::format::Call;

    fn events(stages: &[(EventKind, u32)]) -> Vec<Event> {
        let event = |(at, (kind, request)): (usize, &(EventKind, u32))| Event {
            number: at as u64,
            at_ns: at as u64 * 10,
            kind: *kind,
            call: Call::Test,
            code: 0,
            request: *request,
            value: 100 + u64::from(*request),
            thread: 0,
        };
        stages.iter().enumerate().map(event).collect()
    }

    fn requests(stages: &[(EventKind, u32)], until_consumed: bool) -> Vec<Request> {
        let mut all = Vec::new();
        each_request(&events(stages), until_consumed, |request| {
            all.push(request.clone())
        });
        all
    }

    #[test]
    fn a_receive_is_followed_to_its_end_and_its_lane_used_again() {
        use EventKind::*;
        let stages = [
            (Posted, 0),
            (Posted, 1),
            (Done, 0),
            (Unpacked, 0),
            (Consumed, 0),
            (Posted, 2),
            (Done, 1),
        ];
        let all = requests(&stages, true);
        let first = Request {
            number: 0,
            bytes: 100,
            posted: Some(0),
            done: Some(20),
            unpacked: Some(30),
            consumed: Some(40),
            lane: 0,
        };
        assert_eq!(all[0], first);
        assert_eq!(
            all[1..]
                .iter()
                .map(|one| (one.number, one.lane, one.done))
                .collect::<Vec<_>>(),
            [(1, 1, Some(60)), (2, 0, None)]
        );
    }

    #[test]
    fn overwritten_stages_are_missing_in_the_request() {
        use EventKind::*;
        let all = requests(
            &[(Done, 7), (Consumed, 6), (Failed, 9), (Consumed, 7)],
            true,
        );
        assert_eq!((all[0].number, all[0].begins()), (6, Some(10)));
        assert_eq!(
            (all[1].number, all[1].posted, all[1].begins()),
            (7, None, Some(0))
        );
        assert_eq!(all.len(), 2);
        assert_eq!(requests(&[(Posted, 0), (Done, 0)], false).len(), 1);
    }
}
