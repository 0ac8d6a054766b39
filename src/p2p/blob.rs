//! An advertised range of memory as 64 bytes, in the layout of the field: address, size, key,
//! number of messages, id, index, engine offset and 28 bytes that are free.
//!
//! ```text
//!  0 u64 address          24 u64 endpoint          44 [u8; 20] MAC of everything before
//!  8 u32 size, low        32 u32 size, high
//! 12 u32 rights           36 u32 registration, high
//! 16 u32 messages, 1      40 [u8; 4] `TXP1`
//! 20 u32 registration, low
//! ```
//!
//! The endpoint keeps no list of its blobs: the MAC proves that it made this one for this range
//! and these rights, so a changed or invented blob is refused before any memory is touched. It
//! ends with its registration, whose number is never used again.
#![forbid(unsafe_code)]

use tcpx_bootstrap::Secret;

/// Bytes of a blob.
pub const BLOB_LEN: usize = 64;
/// An advertised range as bytes.
pub type Blob = [u8; BLOB_LEN];

const MAC_AT: usize = 44;
const MAGIC: [u8; 4] = *b"TXP1";

/// What a peer wants to do with a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Copy it to the peer.
    Read,
    /// Overwrite it.
    Write,
}

/// What a peer may do with an advertised range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Only read.
    Read,
    /// Only write.
    Write,
    /// Read and write.
    Both,
}

impl Rights {
    /// Whether `right` is among them.
    pub fn allow(self, right: Right) -> bool {
        match self {
            Self::Read => right == Right::Read,
            Self::Write => right == Right::Write,
            Self::Both => true,
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Both => 3,
        }
    }

    fn of_number(number: u32) -> Option<Self> {
        [Self::Read, Self::Write, Self::Both]
            .into_iter()
            .find(|rights| rights.number() == number)
    }
}

/// What a blob says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// First byte, as its endpoint's program sees it.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Number of the registration that holds the range.
    pub registration: u64,
    /// What the holder may do.
    pub rights: Rights,
    /// Number of the endpoint.
    pub endpoint: u64,
}

/// Why a blob is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBlob {
    /// Not 64 bytes.
    #[error("a descriptor has {BLOB_LEN} bytes, and this has {0}")]
    Length(usize),
    /// Not made by an endpoint of this kind.
    #[error("these bytes are no descriptor of an advertised range")]
    NotABlob,
    /// Of another endpoint.
    #[error("the descriptor is of endpoint {there:016x}, and this connection leads to {here:016x}")]
    OtherEndpoint {
        /// The endpoint that is meant.
        here: u64,
        /// The endpoint that made the blob.
        there: u64,
    },
    /// The endpoint did not make it.
    #[error("the descriptor was changed, or was not made by endpoint {0:016x}")]
    Forged(u64),
    /// The request exceeds the range.
    #[error("bytes {offset}..{end} are outside the advertised range of {len} bytes", end = u128::from(*offset) + u128::from(*wanted))]
    Outside {
        /// First byte of the request, from the start of the range.
        offset: u64,
        /// Bytes of the request.
        wanted: u64,
        /// Bytes of the range.
        len: u64,
    },
    /// The range was not advertised for this.
    #[error("the range was not advertised for a {}", match .0 { Right::Read => "read", Right::Write => "write" })]
    NotAllowed(Right),
}

impl Claim {
    /// What a blob says, without a check of who made it.
    ///
    /// # Errors
    /// The bytes are no blob.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadBlob> {
        let blob: &Blob = bytes.try_into().map_err(|_| BadBlob::Length(bytes.len()))?;
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| blob[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| blob[at + i]));
        let wide = |low: usize, high: usize| u64::from(u32_at(high)) << 32 | u64::from(u32_at(low));
        if blob[40..MAC_AT] != MAGIC || u32_at(16) != 1 {
            return Err(BadBlob::NotABlob);
        }
        Ok(Self {
            address: u64_at(0),
            len: wide(8, 32),
            registration: wide(20, 36),
            rights: Rights::of_number(u32_at(12)).ok_or(BadBlob::NotABlob)?,
            endpoint: u64_at(24),
        })
    }

    /// Checks that the claim is of `endpoint` and covers a request.
    ///
    /// # Errors
    /// What does not fit.
    pub fn covers(
        &self,
        endpoint: u64,
        right: Right,
        offset: u64,
        wanted: u64,
    ) -> Result<(), BadBlob> {
        let (here, there, len) = (endpoint, self.endpoint, self.len);
        if here != there {
            return Err(BadBlob::OtherEndpoint { here, there });
        }
        if !self.rights.allow(right) {
            return Err(BadBlob::NotAllowed(right));
        }
        match offset.checked_add(wanted) {
            Some(end) if end <= len => Ok(()),
            _ => Err(BadBlob::Outside {
                offset,
                wanted,
                len,
            }),
        }
    }

    fn unsealed(&self) -> Blob {
        let mut blob = [0; BLOB_LEN];
        let mut put = |at: usize, bytes: &[u8]| blob[at..at + bytes.len()].copy_from_slice(bytes);
        let half = |number: u64, high: bool| {
            (if high { number >> 32 } else { number } as u32).to_le_bytes()
        };
        put(0, &self.address.to_le_bytes());
        put(8, &half(self.len, false));
        put(12, &self.rights.number().to_le_bytes());
        put(16, &1u32.to_le_bytes());
        put(20, &half(self.registration, false));
        put(24, &self.endpoint.to_le_bytes());
        put(32, &half(self.len, true));
        put(36, &half(self.registration, true));
        put(40, &MAGIC);
        blob
    }
}

/// The key with which an endpoint makes its blobs and recognises them.
pub(crate) struct Seal {
    key: Secret,
    endpoint: u64,
}

impl Seal {
    /// A new key, for the endpoint of this number.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(endpoint: u64) -> std::io::Result<Self> {
        Ok(Self {
            key: Secret::generate()?,
            endpoint,
        })
    }

    /// The blob of a range.
    pub(crate) fn advertise(&self, claim: &Claim) -> Blob {
        let mut blob = claim.unsealed();
        let mac = self.mac(&blob);
        blob[MAC_AT..].copy_from_slice(&mac);
        blob
    }

    /// What a blob of a peer says, if this endpoint made it.
    ///
    /// # Errors
    /// The blob is of another endpoint, or this endpoint did not make it.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Claim, BadBlob> {
        let claim = Claim::parse(bytes)?;
        let (here, there) = (self.endpoint, claim.endpoint);
        if here != there {
            return Err(BadBlob::OtherEndpoint { here, there });
        }
        let made = self.mac(bytes);
        let differs = made.iter().zip(&bytes[MAC_AT..]);
        // All bytes are compared, so that the time does not tell how many agree.
        match differs.fold(0, |sum, (one, other)| sum | (one ^ other)) {
            0 => Ok(claim),
            _ => Err(BadBlob::Forged(here)),
        }
    }

    fn mac(&self, blob: &[u8]) -> [u8; BLOB_LEN - MAC_AT] {
        let whole = self.key.tag(b"tcpxctl endpoint blob", &blob[..MAC_AT]);
        std::array::from_fn(|at| whole[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(address: u64, len: u64, registration: u64) -> Claim {
        let (rights, endpoint) = (Rights::Read, 7);
        Claim {
            address,
            len,
            registration,
            rights,
            endpoint,
        }
    }

    #[test]
    fn a_request_stays_inside_what_was_advertised() {
        let claim = claim(4096, 100, 1);
        assert_eq!(claim.covers(7, Right::Read, 0, 100), Ok(()));
        assert_eq!(claim.covers(7, Right::Read, 100, 0), Ok(()));
        for (offset, wanted) in [(0, 101), (1, 100), (101, 0), (u64::MAX, 2), (2, u64::MAX)] {
            let refused = claim.covers(7, Right::Read, offset, wanted);
            assert!(
                matches!(refused, Err(BadBlob::Outside { .. })),
                "{offset} {wanted}"
            );
        }
        assert_eq!(
            claim.covers(7, Right::Write, 0, 1),
            Err(BadBlob::NotAllowed(Right::Write))
        );
        assert!(matches!(
            claim.covers(8, Right::Read, 0, 1),
            Err(BadBlob::OtherEndpoint { .. })
        ));
    }

    #[test]
    fn a_blob_of_63_bytes_says_so() {
        assert_eq!(
            Claim::parse(&[0; 63]).map_err(|error| error.to_string()),
            Err("a descriptor has 64 bytes, and this has 63".to_owned())
        );
        assert_eq!(Claim::parse(&[0; 64]), Err(BadBlob::NotABlob));
    }

    proptest! {
        #[test]
        fn a_blob_says_what_was_advertised(address: u64, len: u64, registration: u64) {
            let seal = Seal::new(7).expect("randomness");
            let claim = claim(address, len, registration);
            prop_assert_eq!(seal.open(&seal.advertise(&claim)), Ok(claim));
        }

        #[test]
        fn a_changed_blob_is_refused(address: u64, len: u64, at in 0..BLOB_LEN, flip in 1u8..) {
            let seal = Seal::new(7).expect("randomness");
            let mut blob = seal.advertise(&claim(address, len, 1));
            blob[at] ^= flip;
            prop_assert!(seal.open(&blob).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_no_blob(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let seal = Seal::new(7).expect("randomness");
            prop_assert!(seal.open(&bytes).is_err());
        }
    }
}
