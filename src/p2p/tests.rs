//! Two endpoints in one process, over the software plugin that is linked in, on the loopback
//! device. Every buffer has canaries on both sides.
#![expect(
    unsafe_code,
    reason = "registers buffers that outlive their registration, and sets variables once"
)]

use crate::{
    Accepted, Blob, Endpoint, Error, Local, Metadata, Remote, Rights, Secret, Settings, Transfer,
};
use std::sync::Once;
use std::time::Duration;

const AMPLE: Duration = Duration::from_secs(30);
const CANARY: usize = 8192;

fn settings(name: &str) -> Settings {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: before the first endpoint of this process, and once.
        unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    });
    Settings {
        name: name.into(),
        plugin: "builtin".into(),
        address: Some([127, 0, 0, 1].into()),
        lanes: 2,
        chunk: 64 * 1024,
        ..Settings::default()
    }
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint::new(&settings(name)).expect("an endpoint")
}

/// A registered buffer between two canaries.
struct Buffer {
    bytes: Vec<u8>,
    registration: u64,
}

impl Buffer {
    fn new(endpoint: &Endpoint, len: usize, seed: u8) -> Self {
        let mut bytes = vec![0xC5; len + 2 * CANARY];
        for (at, byte) in bytes[CANARY..CANARY + len].iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed;
        }
        // SAFETY: the tests drop their endpoints before their buffers.
        let made = unsafe { endpoint.register(bytes.as_mut_ptr(), bytes.len()) };
        let registration = made.expect("mapped");
        Self {
            bytes,
            registration,
        }
    }

    fn part(&self, offset: usize, len: usize) -> Local {
        let address = self.bytes.as_ptr().addr() + CANARY + offset;
        Local {
            registration: self.registration,
            address,
            len,
        }
    }

    fn all(&self) -> Local {
        self.part(0, self.len())
    }

    fn len(&self) -> usize {
        self.bytes.len() - 2 * CANARY
    }

    fn content(&self) -> Vec<u8> {
        let end = self.bytes.len() - CANARY;
        let intact = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xC5);
        assert!(
            intact(&self.bytes[..CANARY]) && intact(&self.bytes[end..]),
            "a canary changed"
        );
        // The plugin writes behind the compiler's back.
        std::hint::black_box(&self.bytes)[CANARY..end].to_vec()
    }
}

/// Two connected endpoints; the first has connected.
struct Pair {
    one: Endpoint,
    other: Endpoint,
    to_other: u64,
    to_one: u64,
}

impl Pair {
    fn new() -> Self {
        let (one, other) = (endpoint("one"), endpoint("other"));
        let to_other = one.connect(other.metadata()).expect("connects");
        let Accepted {
            connection, peer, ..
        } = other.accept(AMPLE).expect("accepts");
        assert_eq!(peer.name, "one");
        assert_eq!(peer.endpoint, one.metadata().endpoint);
        Self {
            one,
            other,
            to_other,
            to_one: connection,
        }
    }

    fn advertise(&self, range: Local) -> Blob {
        self.other.advertise(range, Rights::Both).expect("inside")
    }
}

fn at(blob: &Blob, offset: u64) -> Remote<'_> {
    Remote { blob, offset }
}

fn done(transfer: Result<Transfer, Error>) -> u64 {
    transfer.expect("starts").wait(AMPLE).expect("done")
}

fn failed(transfer: Result<Transfer, Error>) -> Error {
    transfer
        .and_then(|transfer| transfer.wait(AMPLE))
        .expect_err("fails")
}

#[test]
fn a_read_and_a_write_move_every_byte_and_no_other() {
    for len in [0, 1, 4095, 64 * 1024, 64 * 1024 + 1, 1_000_003] {
        let pair = Pair::new();
        let (here, there) = (
            Buffer::new(&pair.one, len, 1),
            Buffer::new(&pair.other, len, 2),
        );
        let blob = pair.advertise(there.all());
        let theirs = there.content();
        let ours = here.content();
        assert_eq!(
            done(pair.one.write(pair.to_other, &[(here.all(), at(&blob, 0))])),
            len as u64
        );
        assert!(there.content() == ours, "{len} bytes written");
        let back = Buffer::new(&pair.one, len, 3);
        assert_eq!(
            done(pair.one.read(pair.to_other, &[(back.all(), at(&blob, 0))])),
            len as u64
        );
        assert!(
            back.content() == ours && (len == 0 || ours != theirs),
            "{len} bytes read"
        );
    }
}

#[test]
fn a_send_meets_a_receive_in_order_whoever_is_first() {
    let pair = Pair::new();
    let from: Vec<Buffer> = (0..4)
        .map(|seed| Buffer::new(&pair.one, 200_000, seed))
        .collect();
    let into: Vec<Buffer> = (0..4)
        .map(|_| Buffer::new(&pair.other, 200_000, 99))
        .collect();
    let mut pending = Vec::new();
    for (index, (from, into)) in from.iter().zip(&into).enumerate() {
        let send = || pair.one.send(pair.to_other, from.all()).expect("starts");
        let receive = || pair.other.receive(pair.to_one, into.all()).expect("starts");
        pending.extend(if index % 2 == 0 {
            [send(), receive()]
        } else {
            [receive(), send()]
        });
    }
    for transfer in pending {
        assert_eq!(transfer.wait(AMPLE), Ok(200_000));
    }
    for (from, into) in from.iter().zip(&into) {
        assert!(from.content() == into.content());
    }
}

#[test]
fn a_send_of_another_length_than_the_receive_fails_on_both_ends() {
    let pair = Pair::new();
    let (from, into) = (
        Buffer::new(&pair.one, 10, 1),
        Buffer::new(&pair.other, 5, 2),
    );
    let sent = pair.one.send(pair.to_other, from.all());
    let received = failed(pair.other.receive(pair.to_one, into.all())).to_string();
    assert_eq!(received, "a send of 10 bytes meets a receive of 5 bytes");
    assert_eq!(
        failed(sent).to_string(),
        format!("endpoint `other` refused: {received}")
    );
    into.content();
}

#[test]
fn vectors_and_many_operations_in_both_directions_keep_their_places() {
    let pair = Pair::new();
    let (here, there) = (
        Buffer::new(&pair.one, 64 * 5000, 1),
        Buffer::new(&pair.other, 64 * 5000, 2),
    );
    let (blob, mine) = (
        pair.advertise(there.all()),
        pair.one.advertise(here.all(), Rights::Both),
    );
    let (mine, before) = (mine.expect("inside"), (here.content(), there.content()));
    // Pages in reverse order, as one vector.
    let into = Buffer::new(&pair.one, 64 * 5000, 3);
    let pages: Vec<_> = (0..64)
        .map(|page| {
            (
                into.part(page * 5000, 5000),
                at(&blob, (63 - page as u64) * 5000),
            )
        })
        .collect();
    assert_eq!(done(pair.one.read(pair.to_other, &pages)), 64 * 5000);
    let reversed: Vec<u8> = before.1.chunks(5000).rev().flatten().copied().collect();
    assert!(into.content() == reversed);
    // Single pages of both ends at once.
    let back = Buffer::new(&pair.other, 64 * 5000, 4);
    let again = Buffer::new(&pair.one, 64 * 5000, 5);
    let mut pending = Vec::new();
    for page in 0..64 {
        let offset = page as u64 * 5000;
        let read = pair.one.read(
            pair.to_other,
            &[(again.part(page * 5000, 5000), at(&blob, offset))],
        );
        pending.push(read.expect("starts"));
        let read = pair.other.read(
            pair.to_one,
            &[(back.part(page * 5000, 5000), at(&mine, offset))],
        );
        pending.push(read.expect("starts"));
    }
    for transfer in pending {
        assert_eq!(transfer.wait(AMPLE), Ok(5000));
    }
    assert!(again.content() == before.1 && back.content() == before.0);
}

#[test]
fn notifications_arrive_in_order() {
    let pair = Pair::new();
    for text in ["one", "two"] {
        done(pair.one.notify(pair.to_other, text.as_bytes()));
    }
    let heard = [(); 2].map(|()| pair.other.notification(AMPLE).expect("one"));
    assert_eq!(
        heard,
        [
            (pair.to_one, b"one".to_vec()),
            (pair.to_one, b"two".to_vec())
        ]
    );
}
