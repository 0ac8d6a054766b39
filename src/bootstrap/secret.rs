//! The secret that two ends share, and placeholders for values that must not be sent.
//!
//! Relies on the run's secret reaching both workers over the ssh channel or the child's control
//! descriptor, never by a command line, the environment or a shared file. A node without ssh has
//! the secret of `tcpxctl serve` in a file.
#![forbid(unsafe_code)]

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

const HIDDEN_LABEL: &[u8] = b"tcpxctl bootstrap hidden value";

/// A secret that two ends share: the two workers of a pair, or `serve` and its coordinator. Never
/// printed; overwritten when dropped.
#[derive(Clone)]
pub struct Secret([u8; SECRET_LEN]);

const SECRET_LEN: usize = 32;
/// Different bytes of a secret. 32 random bytes have fewer once in 10^15 times; a secret that was
/// typed, or a buffer that was not filled, has fewer.
const DISTINCT_MIN: usize = 12;

/// Why a text or bytes are not accepted as a secret. The error does not quote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// Too short or too long.
    #[error("a secret is 64 hexadecimal digits, and this has {0} characters")]
    Length(usize),
    /// Other characters than hexadecimal digits.
    #[error("a secret is 64 hexadecimal digits, and this has other characters")]
    NotHex,
    /// Too few different bytes, for example all zero.
    #[error(
        "the secret is not random: it has {0} distinct byte values, at least {DISTINCT_MIN} are needed"
    )]
    NotRandom(usize),
}

impl Secret {
    /// A new secret from the system's random number generator.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = [0; SECRET_LEN];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Self::from_bytes(bytes).map_err(std::io::Error::other)
    }

    /// A secret with these bytes.
    pub fn from_bytes(bytes: [u8; SECRET_LEN]) -> Result<Self, BadSecret> {
        let mut sorted = bytes;
        sorted.sort_unstable();
        let distinct = sorted.chunk_by(u8::eq).count();
        sorted.fill(0);
        if distinct < DISTINCT_MIN {
            return Err(BadSecret::NotRandom(distinct));
        }
        Ok(Self(bytes))
    }

    /// A secret for tests; another number is another secret.
    #[cfg(any(test, fuzzing))]
    pub fn of_test(number: u8) -> Self {
        Self(std::array::from_fn(|at| number.wrapping_add(at as u8)))
    }

    /// Parses the text of [`Secret::to_hex`].
    pub fn from_hex(text: &str) -> Result<Self, BadSecret> {
        let mut bytes = [0; SECRET_LEN];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != SECRET_LEN || !rest.is_empty() {
            return Err(BadSecret::Length(text.chars().count()));
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Self::from_bytes(bytes)
    }

    /// Another secret, which follows from this one and `context`: those who have both have it.
    ///
    /// # Errors
    /// The result is not accepted as a secret, once in 10^15 times.
    pub fn derived(&self, label: &[u8], context: &[u8]) -> Result<Self, BadSecret> {
        Self::from_bytes(self.tag(label, context))
    }

    /// A tag of `bytes` that only holders of the secret can make.
    pub fn tag(&self, label: &[u8], bytes: &[u8]) -> [u8; 32] {
        self.mac(&[label, bytes]).finalize().into_bytes().into()
    }

    /// The secret as hexadecimal text, for a channel that only the worker's parent can read.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// The key of the handshake.
    pub fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// A placeholder for a value that must not be sent: equal on both ends if the values are equal,
    /// and useless without the secret.
    pub(super) fn placeholder(&self, key: &str, value: &str) -> String {
        let mac = self.mac(&[HIDDEN_LABEL, key.as_bytes(), value.as_bytes()]);
        hex(&mac.finalize().into_bytes())
    }

    /// HMAC-SHA256 of the parts, each preceded by its length, so that two lists of parts never have
    /// the same input.
    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to the block size, so this is the same key, of a type
        // for which `new` cannot fail.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Keeps the compiler from removing the write.
        std::hint::black_box(&self.0);
    }
}

fn digit(byte: u8) -> Result<u8, BadSecret> {
    let value = char::from(byte).to_digit(16).ok_or(BadSecret::NotHex)?;
    u8::try_from(value).map_err(|_| BadSecret::NotHex)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_hmac_sha256_of_the_length_prefixed_parts() {
        // printf '\0\0\0\0\0\0\0\2ab' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0708...26 (32
        // bytes)
        let mac = Secret::of_test(7).mac(&[b"ab"]);
        assert_eq!(
            hex(&mac.finalize().into_bytes()),
            "db445759ae1b8b83286e50691c2beae6bbc8fb2b46d352036e21dc7f31daf6b8"
        );
    }

    #[test]
    fn a_secret_survives_hexadecimal() {
        let secret = Secret::generate().expect("randomness");
        assert_eq!(
            Secret::from_hex(&secret.to_hex()).map(|back| back.0),
            Ok(secret.0)
        );
        let digits = Secret::of_test(7).to_hex();
        for (bad, why) in [
            ("", BadSecret::Length(0)),
            ("00", BadSecret::Length(2)),
            (&digits[1..], BadSecret::Length(63)),
            (&format!("{digits}0"), BadSecret::Length(65)),
            (&digits.replace("10", "0x"), BadSecret::NotHex),
            (&"é".repeat(32), BadSecret::NotHex),
        ] {
            assert_eq!(Secret::from_hex(bad).map(|_| ()), Err(why), "{bad}");
        }
    }

    #[test]
    fn a_secret_that_is_not_random_is_refused() {
        for (bad, distinct) in [
            ("00".repeat(32), 1),
            ("a7".repeat(32), 1),
            ("0123456789abcdef".repeat(4), 8),
        ] {
            let refused = Secret::from_hex(&bad).map(|_| ());
            assert_eq!(refused, Err(BadSecret::NotRandom(distinct)), "{bad}");
        }
        assert!(Secret::from_bytes([0; 32]).is_err());
        assert!(Secret::from_bytes(Secret::of_test(250).0).is_ok());
    }

    #[test]
    fn two_secrets_differ_and_neither_is_printed() {
        let (one, two) = (
            Secret::generate().expect("randomness"),
            Secret::generate().expect("randomness"),
        );
        assert_ne!(one.0, two.0);
        assert_eq!(format!("{one:?}"), "Secret(..)");
    }
}
