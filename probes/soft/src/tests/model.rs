//! Compares random sequences of calls with a model of the order rules: sixteen slots, first in
//! first out, consume in order.

use super::pair::*;
use crate::failed::REFUSED;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ffi::c_void;

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Recv,
    /// Tests the n-th unfinished send.
    TestSend(usize),
    TestRecv(usize),
    /// Consumes the n-th receive that holds a slot.
    Consume(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![1usize..9000, 1usize..100].prop_map(Step::Send),
        3 => Just(Step::Recv),
        4 => (0usize..3).prop_map(Step::TestSend),
        4 => (0usize..3).prop_map(Step::TestRecv),
        3 => (0usize..3).prop_map(Step::Consume),
    ]
}

struct Receive {
    request: *mut c_void,
    target: Buffer,
    number: usize,
}

/// The expected state, independent of network timing.
struct Model {
    pair: Pair,
    sources: Vec<Vec<u8>>,
    sends: VecDeque<*mut c_void>,
    posted: usize,
    unfinished: VecDeque<Receive>,
    finished: VecDeque<Receive>,
    consumed: usize,
}

impl Model {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send(size) => {
                let source = pattern(size, self.sources.len() as u8);
                let posted = self.pair.isend(source.as_ptr().cast_mut().cast(), size);
                assert_eq!(posted.is_err(), self.sends.len() == 16);
                if let Ok(request) = posted {
                    self.sources.push(source);
                    self.sends.push_back(request);
                }
            }
            Step::Recv => {
                let target = Buffer::new(9000, 0);
                let posted = self.pair.irecv(target.pointer(), 9000);
                assert_eq!(
                    posted.is_err(),
                    self.unfinished.len() + self.finished.len() == 16
                );
                if let Ok(request) = posted {
                    self.unfinished.push_back(Receive {
                        request,
                        target,
                        number: self.posted,
                    });
                    self.posted += 1;
                }
            }
            Step::TestSend(nth) => {
                let Some(request) = self.sends.get(nth).copied() else {
                    return;
                };
                let outcome = test(request);
                match nth {
                    0 if outcome.unwrap() => drop(self.sends.pop_front()),
                    0 => {}
                    // Refused, or not yet refused, but never done.
                    _ => assert!(matches!(outcome, Ok(false) | Err(REFUSED))),
                }
            }
            Step::TestRecv(nth) => {
                let Some(receive) = self.unfinished.get(nth) else {
                    return;
                };
                let outcome = test(receive.request);
                match nth {
                    0 if outcome.unwrap() => self.finish(),
                    0 => {}
                    _ => assert!(matches!(outcome, Ok(false) | Err(REFUSED))),
                }
            }
            Step::Consume(nth) => {
                let all = self.finished.iter().chain(&self.unfinished);
                let Some(request) = all.map(|receive| receive.request).nth(nth) else {
                    return;
                };
                let legal = nth == 0 && !self.finished.is_empty();
                assert_eq!(consume(request).is_ok(), legal);
                if legal {
                    self.finished.pop_front();
                    self.consumed += 1;
                }
            }
        }
    }

    fn finish(&mut self) {
        let receive = self.unfinished.pop_front().unwrap();
        let source = &self.sources[receive.number];
        assert_eq!(request(receive.request).size as usize, source.len());
        assert!(
            receive.target.bytes(source.len()) == *source,
            "message {} differs",
            receive.number
        );
        self.finished.push_back(receive);
    }

    /// Completes all transfers and checks that everything sent arrived.
    fn drain(&mut self) {
        until("the drain", || {
            for step in [
                Step::Recv,
                Step::TestSend(0),
                Step::TestRecv(0),
                Step::Consume(0),
            ] {
                self.take(&step);
            }
            (self.consumed == self.sources.len() && self.sends.is_empty()).then_some(())
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_calls_keeps_the_order_of_requests(
        steps in prop::collection::vec(step(), 0..300),
        sockets in 1usize..=8,
        threads in 1usize..=2,
        helper in any::<bool>(),
        inline in prop_oneof![Just("0"), Just("64"), Just("2048")],
    ) {
        let io = if helper { "helper" } else { "inline" };
        let mut model = Model {
            pair: Pair::new(&[
                ("NCCL_NSOCKS_PERTHREAD", &sockets.to_string()),
                ("NCCL_SOCKET_NTHREADS", &threads.to_string()),
                ("TCPXSOFT_IO", io),
                ("NCCL_INLINE_THRESHOLD", inline),
            ]),
            sources: Vec::new(),
            sends: VecDeque::new(),
            posted: 0,
            unfinished: VecDeque::new(),
            finished: VecDeque::new(),
            consumed: 0,
        };
        for step in &steps {
            model.take(step);
        }
        model.drain();
        model.pair.close();
    }
}
