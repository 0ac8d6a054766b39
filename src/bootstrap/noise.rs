//! Two ends with one secret as a Noise session: the handshake `Noise_NNpsk0_25519_ChaChaPoly_SHA256`
//! and the records after it, without a socket.
//!
//! The secret authenticates both ends. The key pairs are made for one connection, so a recording
//! stays unreadable when the secret becomes known later. The first message proves that somebody
//! with the secret wrote it, not that they are there: it may be a recorded one. Only a record that
//! opens proves that.
//!
//! A record is its length, `u16` big endian, and an encrypted part of a stream of bytes. Records
//! are numbered by both ends, so a changed, repeated, omitted or reordered one does not open. The
//! end of the stream is not authenticated; a goodbye inside it is.
#![forbid(unsafe_code)]

use super::crypto::{Primitives, TAG_LEN};
use super::message::{PROTOCOL_VERSION, Role};
use super::secret::Secret;
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};
use std::fmt;
use std::io;
use std::sync::Arc;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// A public key and the tag of an empty payload.
pub(super) const GREETING_LEN: usize = 32 + TAG_LEN;
/// Most bytes of a record.
pub(super) const RECORD_MAX: usize = LENGTH_LEN + u16::MAX as usize;

const LENGTH_LEN: usize = 2;
const RECORD_OVERHEAD: usize = LENGTH_LEN + TAG_LEN;
const PART_MAX: usize = RECORD_MAX - RECORD_OVERHEAD;

/// The first message of either end.
pub(super) type Greeting = [u8; GREETING_LEN];

/// What the two ends meet for. Ends with different purposes have different keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The two workers of a pair.
    Pair,
    /// A coordinator that joins a node where `tcpxctl serve` runs.
    Serve,
    /// An agent that calls its coordinator.
    Call,
    /// Two endpoints of `tcpx-p2p`.
    Endpoint,
}

/// The bytes are not what the other end sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAuthentic;

/// One end before the session.
pub(super) struct Noise(Box<HandshakeState>);

/// Encrypts what this end sends and decrypts what it receives.
pub(super) struct Session {
    pub sealer: Sealer,
    pub opener: Opener,
}

/// Encrypts a stream of bytes.
pub(crate) struct Sealer {
    state: Arc<StatelessTransportState>,
    number: u64,
}

/// Decrypts a stream of bytes.
pub(crate) struct Opener {
    state: Arc<StatelessTransportState>,
    number: u64,
}

impl Noise {
    /// A handshake with fresh keys.
    pub(super) fn new(secret: &Secret, purpose: Purpose, role: Role) -> io::Result<Self> {
        let prologue = prologue(purpose);
        let params: NoiseParams = PATTERN.parse().map_err(failed)?;
        let builder = Builder::with_resolver(params, Box::new(Primitives))
            .prologue(&prologue)
            .and_then(|builder| builder.psk(0, secret.bytes()))
            .map_err(failed)?;
        let built = match role {
            Role::Connects => builder.build_initiator(),
            Role::Listens => builder.build_responder(),
        };
        built.map(|state| Self(Box::new(state))).map_err(failed)
    }

    /// The greeting to send. The end that connects sends first.
    pub(super) fn write(&mut self) -> io::Result<Greeting> {
        let mut greeting = [0; GREETING_LEN];
        self.0.write_message(&[], &mut greeting).map_err(failed)?;
        Ok(greeting)
    }

    /// Takes the greeting of the other end.
    pub(super) fn read(&mut self, greeting: &Greeting) -> Result<(), NotAuthentic> {
        let read = self.0.read_message(greeting, &mut []);
        read.map(drop).map_err(|_| NotAuthentic)
    }

    /// The session, after both greetings.
    pub(super) fn session(self) -> io::Result<Session> {
        let state = Arc::new(self.0.into_stateless_transport_mode().map_err(failed)?);
        Ok(Session {
            sealer: Sealer {
                state: Arc::clone(&state),
                number: 0,
            },
            opener: Opener { state, number: 0 },
        })
    }
}

/// What both ends authenticate without sending it.
fn prologue(purpose: Purpose) -> Vec<u8> {
    let label: &[u8] = match purpose {
        Purpose::Pair => b"tcpxctl pair",
        Purpose::Serve => b"tcpxctl serve",
        Purpose::Call => b"tcpxctl call",
        Purpose::Endpoint => b"tcpxctl endpoint",
    };
    let roles = [Role::Connects.byte(), Role::Listens.byte()];
    [label, &PROTOCOL_VERSION.to_be_bytes(), &roles].concat()
}

/// Bytes of the records of one message of `len` bytes.
pub(super) const fn sealed_len(len: usize) -> usize {
    len + len.div_ceil(PART_MAX) * RECORD_OVERHEAD
}

fn failed(error: snow::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl Sealer {
    /// Appends `bytes` to `out` as records.
    pub(crate) fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for part in bytes.chunks(PART_MAX) {
            let start = out.len();
            let len = part.len() + TAG_LEN;
            let prefix = u16::try_from(len).map_err(io::Error::other)?;
            out.extend_from_slice(&prefix.to_be_bytes());
            out.resize(start + LENGTH_LEN + len, 0);
            let record = &mut out[start + LENGTH_LEN..];
            let sealed = self.state.write_message(self.number, part, record);
            sealed.map_err(failed)?;
            self.number += 1;
        }
        Ok(())
    }
}

impl Opener {
    /// Appends the content of the first record in `received` to `out` and returns the record's
    /// length; `None` if `received` ends before the record. A record has at most `most` bytes.
    pub(super) fn open(
        &mut self,
        received: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, NotAuthentic> {
        let Some((prefix, rest)) = received.split_first_chunk::<LENGTH_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(*prefix));
        if len <= TAG_LEN || LENGTH_LEN + len > most {
            return Err(NotAuthentic);
        }
        let Some(record) = rest.get(..len) else {
            return Ok(None);
        };
        let start = out.len();
        out.resize(start + len - TAG_LEN, 0);
        let opened = self
            .state
            .read_message(self.number, record, &mut out[start..]);
        if opened.is_err() {
            out.truncate(start);
            return Err(NotAuthentic);
        }
        self.number += 1;
        Ok(Some(LENGTH_LEN + len))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(secret: u8, purpose: Purpose, role: Role) -> Noise {
        Noise::new(&Secret::of_test(secret), purpose, role).expect("randomness")
    }

    fn pair() -> (Session, Session) {
        let mut connects = noise(7, Purpose::Pair, Role::Connects);
        let mut listens = noise(7, Purpose::Pair, Role::Listens);
        listens
            .read(&connects.write().expect("randomness"))
            .expect("the secret");
        connects
            .read(&listens.write().expect("randomness"))
            .expect("the secret");
        (
            connects.session().expect("done"),
            listens.session().expect("done"),
        )
    }

    fn sealed(session: &mut Session, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        session.sealer.seal(bytes, &mut out).expect("room");
        out
    }

    /// What opens of `received`, and whether something did not.
    fn opened(session: &mut Session, mut received: &[u8]) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        loop {
            match session.opener.open(received, RECORD_MAX, &mut out) {
                Ok(Some(used)) => received = &received[used..],
                Ok(None) => return (out, false),
                Err(NotAuthentic) => return (out, true),
            }
        }
    }

    #[test]
    fn a_greeting_is_valid_for_one_secret_and_one_purpose() {
        let greeting = |secret, purpose| {
            let mut connects = noise(secret, purpose, Role::Connects);
            let greeting = connects.write().expect("randomness");
            noise(7, Purpose::Pair, Role::Listens).read(&greeting)
        };
        assert_eq!(greeting(7, Purpose::Pair), Ok(()));
        assert_eq!(greeting(8, Purpose::Pair), Err(NotAuthentic));
        assert_eq!(greeting(7, Purpose::Serve), Err(NotAuthentic));
        assert_eq!(greeting(7, Purpose::Call), Err(NotAuthentic));
        assert_eq!(greeting(7, Purpose::Endpoint), Err(NotAuthentic));
    }

    #[test]
    fn an_answer_is_valid_for_one_greeting() {
        let mut connects = noise(7, Purpose::Pair, Role::Connects);
        let own = connects.write().expect("randomness");
        assert_eq!(connects.read(&own), Err(NotAuthentic), "reflected");
        let mut earlier = noise(7, Purpose::Pair, Role::Connects);
        let mut listens = noise(7, Purpose::Pair, Role::Listens);
        listens
            .read(&earlier.write().expect("randomness"))
            .expect("the secret");
        let recorded = listens.write().expect("randomness");
        assert_eq!(connects.read(&recorded), Err(NotAuthentic), "recorded");
    }

    #[test]
    fn a_recorded_greeting_is_answered_and_its_records_do_not_open() {
        let mut connects = noise(7, Purpose::Pair, Role::Connects);
        let recorded = connects.write().expect("randomness");
        let mut first = noise(7, Purpose::Pair, Role::Listens);
        first.read(&recorded).expect("the secret");
        connects
            .read(&first.write().expect("randomness"))
            .expect("the secret");
        let records = sealed(&mut connects.session().expect("done"), b"proof");

        let mut again = noise(7, Purpose::Pair, Role::Listens);
        assert_eq!(again.read(&recorded), Ok(()));
        again.write().expect("randomness");
        let mut session = again.session().expect("done");
        assert_eq!(opened(&mut session, &records), (Vec::new(), true));
    }

    #[test]
    fn records_sent_back_or_twice_do_not_open() {
        let (mut connects, mut listens) = pair();
        let record = sealed(&mut connects, b"one");
        assert_eq!(opened(&mut connects, &record), (Vec::new(), true));
        let twice = [&record[..], &record].concat();
        assert_eq!(opened(&mut listens, &twice), (b"one".to_vec(), true));
    }

    #[test]
    fn a_record_longer_than_the_limit_is_refused_at_its_length() {
        let (mut connects, mut listens) = pair();
        let record = sealed(&mut connects, &[1; 300]);
        let limit = listens.opener.open(&record[..2], 317, &mut Vec::new());
        assert_eq!(limit, Err(NotAuthentic));
        let limit = listens.opener.open(&record[..2], 318, &mut Vec::new());
        assert_eq!(limit, Ok(None));
    }

    #[test]
    fn a_long_message_travels_in_several_records() {
        for len in [0, 1, PART_MAX, PART_MAX + 1, 3 * PART_MAX] {
            let (mut connects, mut listens) = pair();
            let records = sealed(&mut connects, &vec![7; len]);
            assert_eq!(records.len(), sealed_len(len));
            assert_eq!(opened(&mut listens, &records), (vec![7; len], false));
        }
    }

    proptest! {
        #[test]
        fn a_stream_arrives_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6)) {
            let (mut connects, mut listens) = pair();
            let records: Vec<u8> = parts.iter().flat_map(|part| sealed(&mut connects, part)).collect();
            prop_assert_eq!(opened(&mut listens, &records), (parts.concat(), false));
        }

        #[test]
        fn a_changed_stream_opens_up_to_the_change(
            parts in prop::collection::vec("[a-z]{1,40}", 1..5),
            at in any::<prop::sample::Index>(),
            flip in 1u8..,
        ) {
            let (mut connects, mut listens) = pair();
            let mut records: Vec<u8> = parts.iter().flat_map(|part| sealed(&mut connects, part.as_bytes())).collect();
            let at = at.index(records.len());
            records[at] ^= flip;
            let (out, _) = opened(&mut listens, &records);
            prop_assert!(parts.concat().as_bytes().starts_with(&out));
            prop_assert!(out.len() < parts.concat().len());
        }

        #[test]
        fn a_cut_stream_opens_up_to_the_cut(parts in prop::collection::vec("[a-z]{1,40}", 1..5), cut in any::<prop::sample::Index>()) {
            let (mut connects, mut listens) = pair();
            let records: Vec<u8> = parts.iter().flat_map(|part| sealed(&mut connects, part.as_bytes())).collect();
            let (out, broken) = opened(&mut listens, &records[..cut.index(records.len())]);
            prop_assert!(!broken && out.len() < parts.concat().len());
            prop_assert!(parts.concat().as_bytes().starts_with(&out));
        }

        #[test]
        fn reordered_records_do_not_open(parts in prop::collection::vec("[a-z]{1,40}", 2..6), one in any::<prop::sample::Index>(), other in any::<prop::sample::Index>()) {
            let (mut connects, mut listens) = pair();
            let mut records: Vec<Vec<u8>> = parts.iter().map(|part| sealed(&mut connects, part.as_bytes())).collect();
            let (one, other) = (one.index(parts.len()), other.index(parts.len()));
            records.swap(one, other);
            let (out, broken) = opened(&mut listens, &records.concat());
            prop_assert_eq!(broken, one != other);
            prop_assert_eq!(out, if one == other { parts.concat() } else { parts[..one.min(other)].concat() }.into_bytes());
        }

        #[test]
        fn arbitrary_records_do_not_open(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let (_, mut listens) = pair();
            prop_assert_eq!(opened(&mut listens, &bytes).0, Vec::<u8>::new());
        }
    }
}
