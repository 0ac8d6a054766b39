//! What two endpoints tell each other over the encrypted connection, encoded as bytes. The data
//! itself travels through the plugin.
//!
//! The end that receives data decides the order of its messages on the plugin's comms: `Read` and
//! `Pull` both say "send me this now, beginning with this lane", and the other end posts its sends
//! in the order in which these arrive. A plugin matches sends and receives of a comm in order
//! only, so both ends need one order, and the receives are posted before the sends.
//!
//! ```text
//! read    Read ->  <- Sent      data <-     or  <- Refused, empty messages in place of the data
//! write   Write -> <- Pull      data ->     <- Done      or <- Refused
//! send    Offer -> <- Pull      data ->     <- Done      or <- Refused
//! notify  Notify ->             <- Done     or <- Refused
//! ```
//!
//! Pieces of several small reads or writes are one message of the plugin (`together`).
//!
//! A frame is its length after the prefix (u32), a kind (u8) and fields; numbers are little-endian. A
//! piece is a mark, its blob where the mark is 1, offset and length: the pages of a vector are mostly
//! of one range, and a blob is four times as long as the rest.
//!
//! Two endpoints talk only if their metadata have the same version, so whatever changes here changes
//! `METADATA_VERSION` too.
#![forbid(unsafe_code)]

use crate::blob::{BLOB_LEN, Blob};

/// Most bytes of a frame.
pub(crate) const FRAME_MAX: usize = 512 * 1024;
/// Most pieces of one operation.
pub const PIECES_MAX: usize = 4096;
/// Most bytes of a notification.
pub const NOTE_MAX: usize = 64 * 1024;
const TEXT_MAX: usize = 1024;
const PREFIX_LEN: usize = 4;
/// Fewest bytes of a piece: mark, offset and length.
const PIECE_LEN: usize = 17;

/// A part of an advertised range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemotePiece {
    pub(crate) blob: Blob,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// `op` is the number of an operation of the end that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// The sender has all its comms.
    Hello {
        endpoint: u64,
        gpu: Option<u32>,
        name: String,
    },
    /// Send these pieces; `together`: all in one message of the plugin.
    Read {
        op: u64,
        first_lane: u16,
        together: bool,
        pieces: Vec<RemotePiece>,
    },
    /// Data for these pieces is ready; `together`: in one message of the plugin.
    Write {
        op: u64,
        together: bool,
        pieces: Vec<RemotePiece>,
    },
    /// Data for the next receive is ready.
    Offer { op: u64, len: u64 },
    /// Send the data of a write or an offer.
    Pull { op: u64, first_lane: u16 },
    /// The data of a read is on its way.
    Sent { op: u64 },
    /// Everything is in place.
    Done { op: u64 },
    /// Nothing was moved.
    Refused { op: u64, why: String },
    /// Bytes for the other program.
    Notify { op: u64, bytes: Vec<u8> },
    /// The sender closes the connection.
    Bye { why: String },
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent {0}")]
pub(crate) struct Malformed(&'static str);

impl Message {
    /// Appends the frame of the message.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_LEN]);
        out.push(self.kind());
        match self {
            Self::Hello {
                endpoint,
                gpu,
                name,
            } => {
                put(out, *endpoint);
                put(out, gpu.map_or(u64::MAX, u64::from));
                out.extend_from_slice(name.as_bytes());
            }
            Self::Read {
                op,
                first_lane,
                pieces,
                ..
            } => {
                put(out, *op);
                put(out, u64::from(*first_lane));
                put_pieces(out, pieces);
            }
            Self::Write { op, pieces, .. } => {
                put(out, *op);
                put_pieces(out, pieces);
            }
            Self::Offer { op, len } => {
                put(out, *op);
                put(out, *len);
            }
            Self::Pull { op, first_lane } => {
                put(out, *op);
                put(out, u64::from(*first_lane));
            }
            Self::Sent { op } | Self::Done { op } => put(out, *op),
            Self::Refused { op, why } => {
                put(out, *op);
                out.extend(why.bytes().take(TEXT_MAX));
            }
            Self::Notify { op, bytes } => {
                put(out, *op);
                out.extend_from_slice(bytes);
            }
            Self::Bye { why } => out.extend(why.bytes().take(TEXT_MAX)),
        }
        let len = (out.len() - start - PREFIX_LEN) as u32;
        out[start..start + PREFIX_LEN].copy_from_slice(&len.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Read { together, .. } => 11 + 2 * u8::from(*together),
            Self::Write { together, .. } => 12 + 2 * u8::from(*together),
            Self::Offer { .. } => 4,
            Self::Pull { .. } => 5,
            Self::Sent { .. } => 6,
            Self::Done { .. } => 7,
            Self::Refused { .. } => 8,
            Self::Notify { .. } => 9,
            Self::Bye { .. } => 10,
        }
    }

    /// The first message of `bytes` and its length; `None` if it is not complete.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LEN>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*prefix) as usize;
        if len == 0 || len > FRAME_MAX {
            return Err(Malformed("a message of an impossible length"));
        }
        let Some((kind, body)) = rest.get(..len).and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        let mut fields = Fields(body);
        let message = match kind {
            1 => Self::Hello {
                endpoint: fields.number()?,
                gpu: u32::try_from(fields.number()?).ok(),
                name: fields.text()?,
            },
            11 | 13 => Self::Read {
                op: fields.number()?,
                first_lane: fields.lane()?,
                together: *kind == 13,
                pieces: fields.pieces()?,
            },
            12 | 14 => Self::Write {
                op: fields.number()?,
                together: *kind == 14,
                pieces: fields.pieces()?,
            },
            4 => Self::Offer {
                op: fields.number()?,
                len: fields.number()?,
            },
            5 => Self::Pull {
                op: fields.number()?,
                first_lane: fields.lane()?,
            },
            6 => Self::Sent {
                op: fields.number()?,
            },
            7 => Self::Done {
                op: fields.number()?,
            },
            8 => Self::Refused {
                op: fields.number()?,
                why: fields.text()?,
            },
            9 => Self::Notify {
                op: fields.number()?,
                bytes: fields.rest(NOTE_MAX)?.to_vec(),
            },
            10 => Self::Bye {
                why: fields.text()?,
            },
            _ => {
                return Err(Malformed(
                    "a message of an unknown kind, as another build may: use the same tcpxctl on both nodes",
                ));
            }
        };
        match fields.0 {
            [] => Ok(Some((message, PREFIX_LEN + len))),
            _ => Err(Malformed("a message with bytes after its end")),
        }
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_pieces(out: &mut Vec<u8>, pieces: &[RemotePiece]) {
    let mut before = None;
    for piece in pieces {
        let is_other = before != Some(&piece.blob);
        out.push(u8::from(is_other));
        if is_other {
            out.extend_from_slice(&piece.blob);
            before = Some(&piece.blob);
        }
        put(out, piece.offset);
        put(out, piece.len);
    }
}

/// The rest of a message's body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(Malformed("a message that ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    fn lane(&mut self) -> Result<u16, Malformed> {
        u16::try_from(self.number()?).map_err(|_| Malformed("a lane that cannot be"))
    }

    fn rest(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        let rest = std::mem::take(&mut self.0);
        (rest.len() <= most)
            .then_some(rest)
            .ok_or(Malformed("a message that is too long"))
    }

    /// Text without control characters.
    fn text(&mut self) -> Result<String, Malformed> {
        let text = String::from_utf8_lossy(self.rest(TEXT_MAX)?);
        Ok(tcpx_words::units::printable(&text))
    }

    fn pieces(&mut self) -> Result<Vec<RemotePiece>, Malformed> {
        let mut pieces = Vec::with_capacity((self.0.len() / PIECE_LEN).min(PIECES_MAX));
        let mut before = None;
        while !self.0.is_empty() {
            if pieces.len() == PIECES_MAX {
                return Err(Malformed("an operation with too many pieces"));
            }
            let blob = match (self.take()?, before) {
                ([1], _) => self.take::<BLOB_LEN>()?,
                ([0], Some(blob)) => blob,
                _ => return Err(Malformed("a piece without a descriptor")),
            };
            before = Some(blob);
            pieces.push(RemotePiece {
                blob,
                offset: self.number()?,
                len: self.number()?,
            });
        }
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> impl Strategy<Value = Message> {
        let pieces = || {
            let piece = (0..3u8, any::<u64>(), any::<u64>());
            let made = |(byte, offset, len): (u8, u64, u64)| RemotePiece {
                blob: [byte; BLOB_LEN],
                offset,
                len,
            };
            prop::collection::vec(piece.prop_map(made), 0..9)
        };
        let op = any::<u64>;
        prop_oneof![
            (op(), any::<Option<u32>>(), "[a-z]{0,9}").prop_map(|(endpoint, gpu, name)| {
                Message::Hello {
                    endpoint,
                    gpu,
                    name,
                }
            }),
            (op(), any::<u16>(), any::<bool>(), pieces()).prop_map(
                |(op, first_lane, together, pieces)| Message::Read {
                    op,
                    first_lane,
                    together,
                    pieces
                }
            ),
            (op(), any::<bool>(), pieces()).prop_map(|(op, together, pieces)| Message::Write {
                op,
                together,
                pieces
            }),
            (op(), op()).prop_map(|(op, len)| Message::Offer { op, len }),
            (op(), any::<u16>()).prop_map(|(op, first_lane)| Message::Pull { op, first_lane }),
            op().prop_map(|op| Message::Sent { op }),
            op().prop_map(|op| Message::Done { op }),
            (op(), "[a-z]{0,40}").prop_map(|(op, why)| Message::Refused { op, why }),
            (op(), any::<Vec<u8>>()).prop_map(|(op, bytes)| Message::Notify { op, bytes }),
            "[a-z]{0,40}".prop_map(|why| Message::Bye { why }),
        ]
    }

    proptest! {
        #[test]
        fn a_message_survives_a_trip_and_its_parts_are_incomplete(message in messages(), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let len = bytes.len();
            prop_assert_eq!(Message::decode(&bytes[..cut.index(len)]), Ok(None));
            prop_assert_eq!(Message::decode(&bytes), Ok(Some((message, len))));
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = Message::decode(&bytes);
        }
    }

    /// One of each kind, and their bytes. If this fails, change `METADATA_VERSION` with it.
    #[test]
    fn the_bytes_of_messages_belong_to_a_version_of_the_metadata() {
        let (op, first_lane) = (1, 2);
        let piece = |offset| RemotePiece {
            blob: [0xBB; BLOB_LEN],
            offset,
            len: 9,
        };
        let pieces = vec![piece(3), piece(4)];
        let text = || "why".to_owned();
        let all = [
            Message::Hello {
                endpoint: 7,
                gpu: Some(5),
                name: "one".into(),
            },
            Message::Read {
                op,
                first_lane,
                together: false,
                pieces: pieces.clone(),
            },
            Message::Write {
                op,
                together: false,
                pieces: pieces.clone(),
            },
            Message::Read {
                op,
                first_lane,
                together: true,
                pieces: pieces.clone(),
            },
            Message::Write {
                op,
                together: true,
                pieces,
            },
            Message::Offer { op, len: 6 },
            Message::Pull { op, first_lane },
            Message::Sent { op },
            Message::Done { op },
            Message::Refused { op, why: text() },
            Message::Notify {
                op,
                bytes: vec![0xCC],
            },
            Message::Bye { why: text() },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|message| message.encode(&mut bytes));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let short = hex.replace(&"bb".repeat(BLOB_LEN), "B");
        let expected = [
            "1400000001070000000000000005000000000000006f6e65",
            "730000000b0100000000000000020000000000000001B030000000000000009000000000000000004000000000000000900000000000000",
            "6b0000000c010000000000000001B030000000000000009000000000000000004000000000000000900000000000000",
            "730000000d0100000000000000020000000000000001B030000000000000009000000000000000004000000000000000900000000000000",
            "6b0000000e010000000000000001B030000000000000009000000000000000004000000000000000900000000000000",
            "110000000401000000000000000600000000000000",
            "110000000501000000000000000200000000000000",
            "09000000060100000000000000",
            "09000000070100000000000000",
            "0c000000080100000000000000776879",
            "0a000000090100000000000000cc",
            "040000000a776879",
        ];
        assert_eq!((crate::METADATA_VERSION, short), (3, expected.concat()));
    }

    #[test]
    fn pieces_of_one_blob_name_it_once_and_the_first_piece_names_one() {
        let piece = |byte| RemotePiece {
            blob: [byte; BLOB_LEN],
            offset: 1,
            len: 2,
        };
        let pieces = [1, 1, 2, 2, 2, 1].map(piece).to_vec();
        let mut bytes = Vec::new();
        let (op, together) = (7, false);
        Message::Write {
            op,
            together,
            pieces,
        }
        .encode(&mut bytes);
        assert_eq!(
            bytes.len(),
            PREFIX_LEN + 1 + 8 + 6 * PIECE_LEN + 3 * BLOB_LEN
        );
        bytes[PREFIX_LEN + 9] = 0;
        assert_eq!(
            Message::decode(&bytes),
            Err(Malformed("a piece without a descriptor"))
        );
    }

    #[test]
    fn a_frame_has_a_largest_length_and_operations_a_largest_number_of_pieces() {
        let too_long = (FRAME_MAX as u32 + 1).to_le_bytes();
        assert!(Message::decode(&too_long).is_err());
        let piece = RemotePiece {
            blob: [0; BLOB_LEN],
            offset: 0,
            len: 0,
        };
        for (count, fits) in [(PIECES_MAX, true), (PIECES_MAX + 1, false)] {
            let mut bytes = Vec::new();
            Message::Write {
                op: 1,
                together: false,
                pieces: vec![piece.clone(); count],
            }
            .encode(&mut bytes);
            assert_eq!(Message::decode(&bytes).is_ok(), fits);
        }
    }
}
