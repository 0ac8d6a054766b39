//! Fault injection: the grammar of `TCPXSOFT_FAULT`, and the checks with which the plugin asks
//! whether a fault applies.
//!
//! ```text
//! TCPXSOFT_FAULT = item { ";" item }
//! item           = "seed=" NUMBER | kind [ ":" key "=" value { "," key "=" value } ]
//!
//! stop        after=N                  a comm moves N chunks, then nothing more
//! drop-ctrl   nth=N                    the sender's N-th header is never sent
//! delay-ctrl  nth=N ms=T               the N-th header, and all behind it, wait T ms
//! close       after=BYTES [socket=K]   data socket K closes after that many bytes
//! rc          call=NAME value=R [nth=N] [times=N]   that call returns R (times=0: from then on)
//! exit        chunk=N                  a receiver logs "no cmsg" and calls exit(1)
//! spin        call=NAME [nth=N] [ms=T] the N-th such call spins for T ms (60000)
//! hang                                 connect or accept never finishes
//! refuse      [times=N]                the acceptor answers FAILED, as without flow rules; with
//!                                      times, PENDING to that many attempts per data socket
//! corrupt     chunk=N [byte=B]         one byte of a received chunk is flipped
//! starve      socket=K [after=N]       data socket K is not served after N chunks
//! lose        [after=N] [percent=P]    after N chunks a kernel filter drops P percent of the packets
//!                                      to a comm's data sockets (100)
//! ```
//!
//! All kinds except `rc` and `spin` also take `side=send|recv` and `comm=K`, the K-th comm of
//! that side in this process, counted from 0. Without them a fault applies to all comms. `nth`
//! and `chunk` count from 1. Calls have the names of the table: `isend`, `irecvConsumed`. Faults
//! depend on counts only, so the same text and traffic give the same fault. `seed` chooses the
//! byte that `corrupt` flips if none is given.
//!
//! If the variable is unset, each check costs one branch.
#![forbid(unsafe_code)]

mod grammar;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end that connects.
    Send,
    /// The end that accepts.
    Recv,
}

/// The entries of the function table, by the names that C gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Init,
    Devices,
    GetProperties,
    Listen,
    Connect,
    Accept,
    RegMr,
    DeregMr,
    Isend,
    Irecv,
    Iflush,
    Test,
    CloseSend,
    CloseRecv,
    CloseListen,
    GetDeviceMr,
    IrecvConsumed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stop {
        after: u64,
    },
    DropCtrl {
        nth: u64,
    },
    DelayCtrl {
        nth: u64,
        ms: u64,
    },
    Close {
        after: u64,
        socket: u64,
    },
    Rc {
        call: Call,
        value: i32,
        nth: u64,
        times: u64,
    },
    Exit {
        chunk: u64,
    },
    Spin {
        call: Call,
        nth: u64,
        ms: u64,
    },
    Hang,
    Refuse {
        times: u64,
    },
    Corrupt {
        chunk: u64,
        byte: Option<u64>,
    },
    Starve {
        socket: u64,
        after: u64,
    },
    Lose {
        after: u64,
        percent: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    kind: Kind,
    side: Option<Side>,
    comm: Option<u64>,
}

/// All faults of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    seed: u64,
    faults: Vec<Fault>,
}

impl Plan {
    /// Whether the plan has no faults.
    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults of the `comm`-th comm of `side`; `None` if there are none.
    pub(crate) fn of_comm(&self, side: Side, comm: u64) -> Option<Box<CommFaults>> {
        let meant = |fault: &&Fault| {
            fault.side.is_none_or(|wanted| wanted == side)
                && fault.comm.is_none_or(|wanted| wanted == comm)
        };
        let kinds: Vec<Kind> = self
            .faults
            .iter()
            .filter(meant)
            .map(|fault| fault.kind)
            .collect();
        (!kinds.is_empty()).then(|| {
            Box::new(CommFaults {
                kinds,
                seed: self.seed,
            })
        })
    }
}

/// The faults of one comm.
#[derive(Debug)]
pub(crate) struct CommFaults {
    kinds: Vec<Kind>,
    seed: u64,
}

/// The fate of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The header is sent.
    Sent,
    /// The header is dropped.
    Dropped,
    /// The header is delayed.
    Delayed(Duration),
}

impl CommFaults {
    /// Whether the comm stops after `chunks` assigned chunks.
    pub(crate) fn stopped(&self, chunks: u64) -> bool {
        self.kinds
            .iter()
            .any(|kind| matches!(kind, Kind::Stop { after } if chunks >= *after))
    }

    /// Whether connect or accept hangs.
    pub(crate) fn hangs(&self) -> bool {
        self.kinds.contains(&Kind::Hang)
    }

    /// How often the acceptor answers PENDING; 0: it answers FAILED.
    pub(crate) fn refuses(&self) -> Option<u64> {
        self.kinds.iter().find_map(|kind| match kind {
            Kind::Refuse { times } => Some(*times),
            _ => None,
        })
    }

    /// Whether the process exits when this chunk arrives.
    pub(crate) fn exits(&self, chunk: u64) -> bool {
        self.kinds.contains(&Kind::Exit { chunk })
    }

    /// The fate of the `header`-th header.
    pub(crate) fn header(&self, header: u64) -> Fate {
        let fate = |kind: &Kind| match kind {
            Kind::DropCtrl { nth } if *nth == header => Some(Fate::Dropped),
            Kind::DelayCtrl { nth, ms } if *nth == header => {
                Some(Fate::Delayed(Duration::from_millis(*ms)))
            }
            _ => None,
        };
        self.kinds.iter().find_map(fate).unwrap_or(Fate::Sent)
    }

    /// The byte to flip in the `number`-th chunk, of `length` bytes.
    pub(crate) fn corrupts(&self, number: u64, length: usize) -> Option<usize> {
        let length = length as u64;
        let place = |kind: &Kind| match kind {
            Kind::Corrupt { chunk, byte } if *chunk == number => {
                Some(byte.unwrap_or_else(|| scatter(self.seed)))
            }
            _ => None,
        };
        self.kinds
            .iter()
            .find_map(place)
            .filter(|_| length > 0)
            .map(|byte| (byte % length) as usize)
    }

    /// The faults of data socket `index`.
    pub(crate) fn of_socket(&self, index: usize) -> Option<SocketFaults> {
        let index = index as u64;
        let starve_after = self.kinds.iter().find_map(|kind| match kind {
            Kind::Starve { socket, after } if *socket == index => Some(*after),
            _ => None,
        });
        let close_after = self.kinds.iter().find_map(|kind| match kind {
            Kind::Close { socket, after } if *socket == index => Some(*after),
            _ => None,
        });
        let lose_after = self.kinds.iter().find_map(|kind| match kind {
            Kind::Lose { after, percent } => Some((*after, *percent)),
            _ => None,
        });
        let faults = SocketFaults {
            starve_after,
            close_after,
            lose_after,
        };
        (faults != SocketFaults::default()).then_some(faults)
    }
}

/// The faults of one data socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SocketFaults {
    /// Chunks after which the socket is no longer served.
    pub starve_after: Option<u64>,
    /// Bytes after which the socket is closed.
    pub close_after: Option<u64>,
    /// Chunks after which packets are dropped, and the percentage.
    pub lose_after: Option<(u64, u32)>,
}

/// One step of splitmix64.
pub(crate) fn scatter(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Number of table entries that faults can name.
const CALLS: usize = Call::IrecvConsumed as usize + 1;

/// Call counts for `rc` and `spin`; empty unless the plan names a call.
struct CallFaults {
    kinds: Vec<Kind>,
    counts: [AtomicU64; CALLS],
}

static ARMED: OnceLock<CallFaults> = OnceLock::new();

/// Enables the `rc` and `spin` faults of `plan` in this process, once.
pub(crate) fn arm(plan: &Plan) {
    let kinds = plan.faults.iter().map(|fault| fault.kind);
    let kinds: Vec<Kind> = kinds
        .filter(|kind| matches!(kind, Kind::Rc { .. } | Kind::Spin { .. }))
        .collect();
    if !kinds.is_empty() {
        let _ = ARMED.set(CallFaults {
            kinds,
            counts: Default::default(),
        });
    }
}

/// Called at the start of every call: the code to return instead of making the call.
pub(crate) fn on_call(call: Call) -> Option<i32> {
    ARMED.get().and_then(|armed| armed.on_call(call))
}

impl CallFaults {
    fn on_call(&self, call: Call) -> Option<i32> {
        let count = self.counts[call as usize].fetch_add(1, Relaxed) + 1;
        for kind in &self.kinds {
            match *kind {
                Kind::Spin { call: at, nth, ms } if at == call && nth == count => {
                    spin(Duration::from_millis(ms))
                }
                Kind::Rc {
                    call: at,
                    value,
                    nth,
                    times,
                } if at == call && count >= nth && (times == 0 || count - nth < times) => {
                    return Some(value);
                }
                _ => {}
            }
        }
        None
    }
}

/// Spins for `time`.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::parse(text).unwrap()
    }

    #[test]
    fn every_kind_in_the_grammar_parses() {
        let all = "seed=7; stop:after=40,side=recv,comm=1; drop-ctrl:nth=3; delay-ctrl:nth=2,ms=50; close:after=4096; \
                   rc:call=test,value=2,nth=5,times=0; exit:chunk=2; spin:call=isend; hang:side=send; refuse; \
                   corrupt:chunk=9,byte=3; starve:socket=1,after=2; lose:after=4,percent=50";
        assert_eq!(plan(all).faults.len(), 12);
        assert_eq!(plan(all).seed, 7);
        assert!(plan(" ; ").is_empty());
    }

    #[test]
    fn faults_reach_the_comm_and_the_socket_they_name() {
        let plan =
            plan("stop:after=40,side=recv,comm=1; starve:socket=2,after=3; close:socket=2,after=9");
        assert!(plan.of_comm(Side::Recv, 1).unwrap().stopped(40));
        assert!(!plan.of_comm(Side::Recv, 1).unwrap().stopped(39));
        assert!(!plan.of_comm(Side::Recv, 0).unwrap().stopped(40));
        let faults = plan.of_comm(Side::Send, 0).unwrap();
        assert_eq!(
            faults.of_socket(2),
            Some(SocketFaults {
                starve_after: Some(3),
                close_after: Some(9),
                lose_after: None
            })
        );
        assert_eq!(faults.of_socket(1), None);
        assert!(Plan::default().of_comm(Side::Send, 0).is_none());
    }

    #[test]
    fn the_flipped_byte_lies_in_the_chunk_and_follows_the_seed() {
        let byte = |text: &str, length| {
            plan(text)
                .of_comm(Side::Recv, 0)
                .unwrap()
                .corrupts(3, length)
        };
        assert_eq!(byte("corrupt:chunk=3,byte=10", 8), Some(2));
        assert_eq!(byte("corrupt:chunk=3", 4096), byte("corrupt:chunk=3", 4096));
        assert_ne!(
            byte("corrupt:chunk=3", 4096),
            byte("seed=1;corrupt:chunk=3", 4096)
        );
        assert_eq!(byte("corrupt:chunk=3", 0), None);
        assert_eq!(byte("corrupt:chunk=4", 8), None);
    }

    #[test]
    fn headers_are_dropped_and_delayed_by_number() {
        let faults = plan("drop-ctrl:nth=2;delay-ctrl:nth=3,ms=5")
            .of_comm(Side::Send, 0)
            .unwrap();
        let fates: Vec<Fate> = (1..=4).map(|nth| faults.header(nth)).collect();
        assert_eq!(
            fates,
            [
                Fate::Sent,
                Fate::Dropped,
                Fate::Delayed(Duration::from_millis(5)),
                Fate::Sent
            ]
        );
    }

    #[test]
    fn a_result_code_is_returned_from_the_nth_call_as_often_as_asked() {
        let faults = |text: &str| CallFaults {
            kinds: plan(text).faults.iter().map(|fault| fault.kind).collect(),
            counts: Default::default(),
        };
        let once = faults("rc:call=test,value=2,nth=2");
        assert_eq!(once.on_call(Call::Isend), None);
        assert_eq!(
            [(); 4].map(|()| once.on_call(Call::Test)),
            [None, Some(2), None, None]
        );
        let ever = faults("rc:call=test,value=3,times=0");
        assert_eq!([(); 3].map(|()| ever.on_call(Call::Test)), [Some(3); 3]);
    }
}
