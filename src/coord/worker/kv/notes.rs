//! What two ends of KV-cache traffic tell each other in notifications of their endpoints: the
//! memory that they advertise, which batch to compare, and how many of its bytes are wrong.
//!
//! The peer has proven that it belongs to the run; what it says is checked all the same.
#![forbid(unsafe_code)]

use tcpx_p2p::{BLOB_LEN, Blob};

/// One notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// Memory of the sender, and whether it is its cache or its places.
    Memory { is_cache: bool, blob: Blob },
    /// A batch is in its places: compare it.
    Check(Landed),
    /// The batch at these places was compared.
    Checked { place: u32, wrong: bool },
}

/// A batch that has landed at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Landed {
    pub(super) iteration: u32,
    pub(super) request: u32,
    pub(super) batch: u32,
    /// The places: a number from 0 to concurrency * depth.
    pub(super) place: u32,
}

const CACHE: u8 = 1;
const PLACES: u8 = 2;
const CHECK: u8 = 3;
const CHECKED: u8 = 4;

impl Note {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + BLOB_LEN);
        match self {
            Self::Memory { is_cache, blob } => {
                out.push(if *is_cache { CACHE } else { PLACES });
                out.extend(blob);
            }
            Self::Check(landed) => {
                out.push(CHECK);
                let Landed {
                    iteration,
                    request,
                    batch,
                    place,
                } = *landed;
                for number in [iteration, request, batch, place] {
                    out.extend(number.to_le_bytes());
                }
            }
            Self::Checked { place, wrong } => {
                out.push(CHECKED);
                out.extend(place.to_le_bytes());
                out.push(u8::from(*wrong));
            }
        }
        out
    }

    /// `None` for bytes that are no note.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let number = |at: usize| -> Option<u32> {
            let bytes = rest.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        match *kind {
            CACHE | PLACES => Some(Self::Memory {
                is_cache: *kind == CACHE,
                blob: rest.try_into().ok()?,
            }),
            CHECK if rest.len() == 16 => Some(Self::Check(Landed {
                iteration: number(0)?,
                request: number(1)?,
                batch: number(2)?,
                place: number(3)?,
            })),
            CHECKED if rest.len() == 5 => Some(Self::Checked {
                place: number(0)?,
                wrong: rest[4] != 0,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn notes_survive_a_trip() {
        let landed = Landed {
            iteration: 1,
            request: u32::MAX,
            batch: 3,
            place: 4,
        };
        let blob = std::array::from_fn(|at| at as u8);
        for note in [
            Note::Memory {
                is_cache: true,
                blob,
            },
            Note::Memory {
                is_cache: false,
                blob,
            },
            Note::Check(landed),
            Note::Checked {
                place: 9,
                wrong: true,
            },
        ] {
            assert_eq!(Note::decode(&note.encode()), Some(note));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_note_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(note) = Note::decode(&bytes) {
                let again = Note::decode(&note.encode());
                prop_assert_eq!(again, Some(note));
            }
        }
    }
}
