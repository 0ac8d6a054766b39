//! Two endpoints in one process, over the software plugin that is linked in, on the loopback
//! device. Every buffer has canaries on both sides.
#![expect(
    unsafe_code,
    reason = "registers buffers that outlive their registration, and sets variables once"
)]
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Once;
use std::time::Duration;
use tcpx_p2p::{Accepted, Blob, Endpoint, Error, Local, Remote, Rights, Settings, Transfer};

pub(crate) const AMPLE: Duration = Duration::from_secs(30);
pub(crate) const CANARY: usize = 8192;

pub(crate) fn settings(name: &str) -> Settings {
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

pub(crate) fn endpoint(name: &str) -> Endpoint {
    Endpoint::new(&settings(name)).expect("an endpoint")
}

/// A registered buffer between two canaries.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    pub(crate) registration: u64,
}

impl Buffer {
    pub(crate) fn new(endpoint: &Endpoint, len: usize, seed: u8) -> Self {
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

    pub(crate) fn part(&self, offset: usize, len: usize) -> Local {
        let address = self.bytes.as_ptr().addr() + CANARY + offset;
        Local {
            registration: self.registration,
            address,
            len,
        }
    }

    pub(crate) fn all(&self) -> Local {
        self.part(0, self.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - 2 * CANARY
    }

    pub(crate) fn content(&self) -> Vec<u8> {
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
pub(crate) struct Pair {
    pub(crate) one: Endpoint,
    pub(crate) other: Endpoint,
    pub(crate) to_other: u64,
    pub(crate) to_one: u64,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::of(endpoint("one"), endpoint("other"))
    }

    pub(crate) fn of(one: Endpoint, other: Endpoint) -> Self {
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

    pub(crate) fn advertise(&self, range: Local) -> Blob {
        self.other.advertise(range, Rights::Both).expect("inside")
    }
}

pub(crate) fn at(blob: &Blob, offset: u64) -> Remote<'_> {
    Remote { blob, offset }
}

pub(crate) fn done(transfer: Result<Transfer, Error>) -> u64 {
    transfer.expect("starts").wait(AMPLE).expect("done")
}

pub(crate) fn failed(transfer: Result<Transfer, Error>) -> Error {
    transfer
        .and_then(|transfer| transfer.wait(AMPLE))
        .expect_err("fails")
}
