//! The messages between the two ends: encoding and decoding.
//!
//! A frame is `{ magic "TCXB", version u16, kind u16, length u32 }`, big endian, and a body of
//! `length` bytes. The version is in the header, so that it can be read before a body whose format
//! another version may have changed; magic and header never change. After the two hellos, frames
//! travel inside the records of `noise`, which encrypts them with their headers.
//!
//! `Config` and `Abort` have JSON bodies, because their keys follow scenarios and outcomes, and
//! they are sent once. The others are binary: a barrier lies between timed iterations, handles are
//! bytes, and the handshake's decoder, which reads data from unauthenticated clients, should be
//! small.
//!
//! Every length is checked before it is used. Decoding any bytes gives a message, "more bytes
//! needed", or a `Malformed`.
#![forbid(unsafe_code)]

use super::config::Config;
use super::error::printable;
use super::noise::Greeting;
use serde::{Deserialize, Serialize};
use tcpx_words::error::Outcome;

/// The protocol version of this build. There is no compatibility: both ends must have the same.
pub const PROTOCOL_VERSION: u16 = 2;
/// Most bytes of a body.
pub(crate) const BODY_MAX: usize = 256 * 1024;
/// Most connect handles in one exchange.
pub(crate) const HANDLES_MAX: usize = (BODY_MAX - 1) / HANDLE_LEN;
/// Most bytes of a barrier's name.
pub(crate) const BARRIER_NAME_MAX: usize = 64;

pub(super) const HEADER_LEN: usize = 12;
const MAGIC: [u8; 4] = *b"TCXB";
const HANDLE_LEN: usize = 128;
const REASON_CHARS_MAX: usize = 1024;

/// A connect handle, `NCCL_NET_HANDLE_MAXSIZE` bytes as `listen` filled them.
pub type Handle = [u8; HANDLE_LEN];

/// The role of an end of the bootstrap connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The receiver's worker.
    Listens,
    /// The sender's worker.
    Connects,
}

/// The direction of the payload for a set of connect handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// From the end that connects to the end that listens.
    Forward,
    /// From the end that listens to the end that connects, for a run in both directions.
    Reverse,
}

/// Why a listener rejects a connection: the only answer to a client that has not proved itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    WrongSecret,
    OtherVersion,
    Dropped,
    Unexpected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The greeting of an end. Nothing is encrypted before both.
    Hello {
        role: Role,
        greeting: Greeting,
    },
    /// The first encrypted message of an end: that it arrives proves that this end is there.
    Proof,
    Refusal(Refusal),
    Config(Config),
    Ready,
    Handles {
        flow: Flow,
        handles: Vec<Handle>,
    },
    Barrier {
        epoch: u64,
        payload: u64,
        name: String,
    },
    Abort {
        outcome: Outcome,
        reason: String,
    },
    Bye,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the data begins with \"{}\" instead of \"TCXB\"", seen.escape_ascii())]
    WrongMagic { seen: Vec<u8> },
    #[error("the peer speaks protocol version {theirs}")]
    Version { theirs: u16 },
    #[error("unknown message kind {kind}")]
    Kind { kind: u16 },
    #[error("a message of kind {kind} has length {len}, the limit here is {max}")]
    Length { kind: u16, len: usize, max: usize },
    #[error("a message of kind {kind} has an invalid body: {why}")]
    Body { kind: u16, why: String },
}

/// A message of this end does not fit a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooLarge {
    pub what: &'static str,
    pub len: usize,
    pub max: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AbortBody {
    outcome: Outcome,
    reason: String,
}

impl Role {
    /// The role of the other end.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Listens => Self::Connects,
            Self::Connects => Self::Listens,
        }
    }

    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Listens => 1,
            Self::Connects => 2,
        }
    }
}

impl Flow {
    /// The flow whose receiver is the end with this role.
    pub(super) fn towards(role: Role) -> Self {
        match role {
            Role::Listens => Self::Forward,
            Role::Connects => Self::Reverse,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Forward => 1,
            Self::Reverse => 2,
        }
    }
}

impl Refusal {
    fn byte(self) -> u8 {
        match self {
            Self::WrongSecret => 1,
            Self::OtherVersion => 2,
            Self::Dropped => 3,
            Self::Unexpected => 4,
        }
    }
}

impl Message {
    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Proof => 2,
            Self::Refusal(_) => 3,
            Self::Config(_) => 4,
            Self::Ready => 5,
            Self::Handles { .. } => 6,
            Self::Barrier { .. } => 7,
            Self::Abort { .. } => 9,
            Self::Bye => 10,
        }
    }

    /// The message's name in errors.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Proof => "proof",
            Self::Refusal(_) => "refusal",
            Self::Config(_) => "configuration",
            Self::Ready => "ready",
            Self::Handles { .. } => "connect handles",
            Self::Barrier { .. } => "barrier",
            Self::Abort { .. } => "abort",
            Self::Bye => "goodbye",
        }
    }

    /// Appends the frame to `out`; on an error, leaves `out` unchanged.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        out.extend_from_slice(&self.kind().to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        let body = self.encode_body(out).and_then(|()| {
            let len = out.len() - start - HEADER_LEN;
            let fits = u32::try_from(len).ok().filter(|_| len <= BODY_MAX);
            fits.ok_or(TooLarge {
                what: self.name(),
                len,
                max: BODY_MAX,
            })
        });
        match body {
            Ok(len) => {
                out[start + HEADER_LEN - 4..start + HEADER_LEN].copy_from_slice(&len.to_be_bytes())
            }
            Err(_) => out.truncate(start),
        }
        body.map(|_| ())
    }

    fn encode_body(&self, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        match self {
            Self::Hello { role, greeting } => {
                out.push(role.byte());
                out.extend_from_slice(greeting);
            }
            Self::Refusal(refusal) => out.push(refusal.byte()),
            Self::Config(config) => encode_json(config, out),
            Self::Handles { flow, handles } => {
                out.push(flow.byte());
                out.extend_from_slice(handles.as_flattened());
            }
            Self::Barrier {
                epoch,
                payload,
                name,
            } => {
                if name.len() > BARRIER_NAME_MAX {
                    return Err(TooLarge {
                        what: "barrier name",
                        len: name.len(),
                        max: BARRIER_NAME_MAX,
                    });
                }
                out.extend_from_slice(&epoch.to_be_bytes());
                out.extend_from_slice(&payload.to_be_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Self::Abort { outcome, reason } => {
                let reason = reason.chars().take(REASON_CHARS_MAX).collect();
                encode_json(
                    &AbortBody {
                        outcome: *outcome,
                        reason,
                    },
                    out,
                );
            }
            Self::Proof | Self::Ready | Self::Bye => {}
        }
        Ok(())
    }

    /// Decodes the first message in `bytes` and returns it with its length; `None` if `bytes` ends
    /// before the message. Rejects an invalid message, or a body of more than `body_max` bytes, as
    /// early as possible.
    pub(super) fn decode(
        bytes: &[u8],
        body_max: usize,
    ) -> Result<Option<(Self, usize)>, Malformed> {
        let seen = &bytes[..bytes.len().min(MAGIC.len())];
        if seen != &MAGIC[..seen.len()] {
            return Err(Malformed::WrongMagic {
                seen: seen.to_vec(),
            });
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let [_, _, _, _, v0, v1, k0, k1, l0, l1, l2, l3] = *header;
        let (version, kind) = (u16::from_be_bytes([v0, v1]), u16::from_be_bytes([k0, k1]));
        if version != PROTOCOL_VERSION {
            return Err(Malformed::Version { theirs: version });
        }
        let len = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
        if len > body_max {
            return Err(Malformed::Length {
                kind,
                len,
                max: body_max,
            });
        }
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        Self::decode_body(kind, body).map(|message| Some((message, HEADER_LEN + len)))
    }

    fn decode_body(kind: u16, body: &[u8]) -> Result<Self, Malformed> {
        let read = match kind {
            1 => decode_hello(body),
            2 => decode_empty(body, Self::Proof),
            3 => decode_refusal(body),
            4 => decode_json(body).map(Self::Config),
            5 => decode_empty(body, Self::Ready),
            6 => decode_handles(body),
            7 => decode_barrier(body),
            9 => decode_json(body)
                .map(|AbortBody { outcome, reason }| Self::Abort { outcome, reason }),
            10 => decode_empty(body, Self::Bye),
            _ => return Err(Malformed::Kind { kind }),
        };
        read.map_err(|why| Malformed::Body { kind, why })
    }
}

fn encode_json<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Serializing strings, maps of strings and unit variants into memory cannot fail. If it did,
    // the body would be empty, and the peer would reject it.
    if let Ok(json) = serde_json::to_vec(value) {
        out.extend_from_slice(&json);
    }
}

fn decode_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| printable(&error.to_string(), 120))
}

fn decode_empty(body: &[u8], message: Message) -> Result<Message, String> {
    if body.is_empty() {
        Ok(message)
    } else {
        Err(format!("{} bytes instead of none", body.len()))
    }
}

fn decode_hello(body: &[u8]) -> Result<Message, String> {
    let (role, greeting) = body.split_first().ok_or("empty")?;
    let role = match role {
        1 => Role::Listens,
        2 => Role::Connects,
        _ => return Err(format!("unknown role {role}")),
    };
    Ok(Message::Hello {
        role,
        greeting: exactly(greeting)?,
    })
}

fn decode_refusal(body: &[u8]) -> Result<Message, String> {
    let refusal = match body {
        [1] => Refusal::WrongSecret,
        [2] => Refusal::OtherVersion,
        [3] => Refusal::Dropped,
        [4] => Refusal::Unexpected,
        _ => return Err("unknown refusal".to_owned()),
    };
    Ok(Message::Refusal(refusal))
}

fn decode_handles(body: &[u8]) -> Result<Message, String> {
    let (flow, bytes) = body.split_first().ok_or("empty")?;
    let flow = match flow {
        1 => Flow::Forward,
        2 => Flow::Reverse,
        _ => return Err(format!("unknown direction {flow}")),
    };
    let (handles, rest) = bytes.as_chunks::<HANDLE_LEN>();
    if !rest.is_empty() {
        return Err(format!(
            "{} bytes are not a multiple of {HANDLE_LEN}, the size of a handle",
            bytes.len()
        ));
    }
    Ok(Message::Handles {
        flow,
        handles: handles.to_vec(),
    })
}

fn decode_barrier(body: &[u8]) -> Result<Message, String> {
    let (epoch, rest) = body.split_first_chunk().ok_or("too short")?;
    let (payload, name) = rest.split_first_chunk().ok_or("too short")?;
    if name.len() > BARRIER_NAME_MAX {
        return Err(format!(
            "the name has {} bytes, the limit is {BARRIER_NAME_MAX}",
            name.len()
        ));
    }
    let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8")?;
    let (epoch, payload) = (u64::from_be_bytes(*epoch), u64::from_be_bytes(*payload));
    Ok(Message::Barrier {
        epoch,
        payload,
        name: name.to_owned(),
    })
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes
        .try_into()
        .map_err(|_| format!("{} bytes instead of {N}", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("fits");
        bytes
    }

    fn handles(count: usize) -> Message {
        Message::Handles {
            flow: Flow::Forward,
            handles: vec![[0; HANDLE_LEN]; count],
        }
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let flow = prop_oneof![Just(Flow::Forward), Just(Flow::Reverse)];
        let role = prop_oneof![Just(Role::Listens), Just(Role::Connects)];
        let refusal = prop_oneof![
            Just(Refusal::WrongSecret),
            Just(Refusal::OtherVersion),
            Just(Refusal::Dropped),
            Just(Refusal::Unexpected)
        ];
        let handle = any::<u8>().prop_map(|byte| [byte; HANDLE_LEN]);
        let pairs = || proptest::collection::btree_map(".{0,12}", ".{0,12}", 0..6);
        let config =
            (pairs(), pairs(), ".{0,20}").prop_map(|(scenario, settings, plugin_name)| Config {
                scenario,
                settings,
                plugin_name,
                ..Config::default()
            });
        prop_oneof![
            (role, any::<[u8; 16]>()).prop_map(|(role, part)| Message::Hello {
                role,
                greeting: std::array::from_fn(|at| part[at % part.len()]),
            }),
            Just(Message::Proof),
            refusal.prop_map(Message::Refusal),
            config.prop_map(Message::Config),
            Just(Message::Ready),
            (flow, proptest::collection::vec(handle, 0..40))
                .prop_map(|(flow, handles)| Message::Handles { flow, handles }),
            (any::<u64>(), any::<u64>(), "[a-zA-Z0-9é -]{0,32}").prop_map(
                |(epoch, payload, name)| Message::Barrier {
                    epoch,
                    payload,
                    name
                }
            ),
            ".{0,50}".prop_map(|reason| Message::Abort {
                outcome: Outcome::PluginDied,
                reason
            }),
            Just(Message::Bye),
        ]
    }

    proptest! {
        #[test]
        fn an_encoded_message_decodes_to_itself(message in any_message(), tail in any::<[u8; 3]>()) {
            let mut bytes = encoded(&message);
            let len = bytes.len();
            bytes.extend_from_slice(&tail);
            prop_assert_eq!(Message::decode(&bytes, BODY_MAX), Ok(Some((message, len))));
        }

        #[test]
        fn every_prefix_of_a_message_asks_for_more(message in any_message()) {
            let bytes = encoded(&message);
            for cut in 0..bytes.len() {
                prop_assert_eq!(Message::decode(&bytes[..cut], BODY_MAX), Ok(None));
            }
        }

        #[test]
        fn arbitrary_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Message::decode(&bytes, BODY_MAX);
        }

        #[test]
        fn arbitrary_bodies_of_every_kind_are_survived(
            kind in 0u16..12,
            body in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            if let Ok(message) = Message::decode_body(kind, &body) {
                prop_assert_eq!(message.kind(), kind);
            }
        }

        #[test]
        fn a_flipped_byte_is_survived(message in any_message(), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = encoded(&message);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Ok(Some((_, used))) = Message::decode(&bytes, BODY_MAX) {
                prop_assert!(used <= bytes.len());
            }
        }
    }

    #[test]
    fn another_protocol_is_rejected_at_its_first_byte() {
        assert_eq!(
            Message::decode(b"S", BODY_MAX),
            Err(Malformed::WrongMagic {
                seen: b"S".to_vec()
            })
        );
        let text = Message::decode(b"\x16\x03\x01\x02", BODY_MAX)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            r#"the data begins with "\x16\x03\x01\x02" instead of "TCXB""#
        );
    }

    #[test]
    fn another_version_is_read_before_its_body() {
        let mut bytes = encoded(&Message::Ready);
        bytes[5] = 9;
        bytes[8..12].fill(0xff);
        assert_eq!(
            Message::decode(&bytes, BODY_MAX),
            Err(Malformed::Version { theirs: 9 })
        );
    }

    #[test]
    fn a_length_over_the_limit_is_rejected_before_the_body_arrives() {
        let bytes = encoded(&handles(3));
        let refused = Malformed::Length {
            kind: 6,
            len: 385,
            max: 256,
        };
        assert_eq!(Message::decode(&bytes[..HEADER_LEN], 256), Err(refused));
    }

    #[test]
    fn a_message_that_does_not_fit_writes_nothing() {
        let mut out = vec![7];
        let too_large = handles(HANDLES_MAX + 1).encode(&mut out);
        assert_eq!(
            too_large,
            Err(TooLarge {
                what: "connect handles",
                len: 1 + HANDLE_LEN * (HANDLES_MAX + 1),
                max: BODY_MAX
            })
        );
        let name = "x".repeat(BARRIER_NAME_MAX + 1);
        assert!(
            Message::Barrier {
                epoch: 0,
                payload: 0,
                name
            }
            .encode(&mut out)
            .is_err()
        );
        assert_eq!(out, [7]);
    }

    #[test]
    fn the_most_handles_fit_and_one_more_does_not() {
        assert!(handles(HANDLES_MAX).encode(&mut Vec::new()).is_ok());
        assert!(handles(HANDLES_MAX + 1).encode(&mut Vec::new()).is_err());
    }

    #[test]
    fn a_long_reason_is_cut_and_still_sent() {
        let abort = Message::Abort {
            outcome: Outcome::Failed,
            reason: "é".repeat(5000),
        };
        let Ok(Some((Message::Abort { reason, .. }, _))) =
            Message::decode(&encoded(&abort), BODY_MAX)
        else {
            panic!("not an abort")
        };
        assert_eq!(reason.chars().count(), REASON_CHARS_MAX);
    }
}
