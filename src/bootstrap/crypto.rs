//! The primitives of the Noise handshake: X25519, ChaCha20-Poly1305, SHA-256 and the system's
//! random numbers, each from a crate of its own.
//!
//! `snow` can bring primitives itself, of older versions of the same crates, so that the program
//! would have two versions of each. A test compares a whole conversation with a published one.
#![forbid(unsafe_code)]

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use curve25519_dalek::MontgomeryPoint;
use sha2::{Digest, Sha256};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

/// Bytes that authenticate an encrypted message.
pub(super) const TAG_LEN: usize = 16;

pub(super) struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(System))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519>::default() as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::<HashSha256>::default() as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let unset = || Box::new(ChaChaPoly(ChaCha20Poly1305::new(&[0; 32].into()))) as _;
        matches!(choice, CipherChoice::ChaChaPoly).then(unset)
    }
}

struct System;

impl Random for System {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        getrandom::fill(bytes).map_err(|_| Error::Rng)
    }
}

#[derive(Default)]
struct X25519 {
    private: [u8; 32],
    public: [u8; 32],
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        self.public.len()
    }

    fn priv_len(&self) -> usize {
        self.private.len()
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        self.public = MontgomeryPoint::mul_base_clamped(self.private).to_bytes();
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = [0; 32];
        random.try_fill_bytes(&mut private)?;
        self.set(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = public.first_chunk().ok_or(Error::Dh)?;
        let shared = MontgomeryPoint(*public).mul_clamped(self.private);
        out.first_chunk_mut()
            .ok_or(Error::Dh)
            .map(|out| *out = shared.to_bytes())
    }
}

struct ChaChaPoly(ChaCha20Poly1305);

/// Noise counts messages in the last eight bytes of a nonce.
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = ChaCha20Poly1305::new(&(*key).into());
    }

    fn encrypt(&self, number: u64, also: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out[..plain.len() + TAG_LEN].split_at_mut(plain.len());
        text.copy_from_slice(plain);
        let made = self
            .0
            .encrypt_inout_detached(&nonce(number).into(), also, text.into())
            .expect("a Noise message is shorter than the cipher's limit of 256 GiB");
        tag.copy_from_slice(&made);
        plain.len() + TAG_LEN
    }

    fn decrypt(
        &self,
        number: u64,
        also: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (text, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..text.len()).ok_or(Error::Decrypt)?;
        out.copy_from_slice(text);
        self.0
            .decrypt_inout_detached(&nonce(number).into(), also, out.into(), &(*tag).into())
            .map_err(|_| Error::Decrypt)?;
        Ok(text.len())
    }
}

#[derive(Default)]
struct HashSha256(Sha256);

impl Hash for HashSha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&self.0.finalize_reset());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snow::Builder;

    fn bytes(hex: &str) -> Vec<u8> {
        let (pairs, _) = hex.as_bytes().as_chunks::<2>();
        let byte = |pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        };
        pairs
            .iter()
            .map(|pair| byte(pair).expect("hexadecimal"))
            .collect()
    }

    /// Noise_NNpsk0_25519_ChaChaPoly_SHA256 of the cacophony test vectors.
    #[test]
    fn a_published_conversation_is_repeated_byte_by_byte() {
        let prologue = bytes("4a6f686e2047616c74");
        let psk: [u8; 32] = *b"This is my Austrian perspective!";
        let build = |private: &[u8], is_first| {
            let params = "Noise_NNpsk0_25519_ChaChaPoly_SHA256"
                .parse()
                .expect("a name");
            let builder = Builder::with_resolver(params, Box::new(Primitives))
                .prologue(&prologue)
                .and_then(|builder| builder.psk(0, &psk))
                .expect("given once")
                .fixed_ephemeral_key_for_testing_only(private);
            let built = if is_first {
                builder.build_initiator()
            } else {
                builder.build_responder()
            };
            built.expect("complete")
        };
        let mut first = build(
            &bytes("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"),
            true,
        );
        let mut second = build(
            &bytes("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"),
            false,
        );
        let (mut out, mut back) = ([0; 200], [0; 200]);
        let len = first
            .write_message(b"Ludwig von Mises", &mut out)
            .expect("written");
        assert_eq!(
            out[..len],
            bytes(
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
                 79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54"
            )
        );
        let len = second.read_message(&out[..len], &mut back).expect("read");
        assert_eq!(&back[..len], b"Ludwig von Mises");
        let len = second
            .write_message(b"Murray Rothbard", &mut out)
            .expect("written");
        assert_eq!(
            out[..len],
            bytes(
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
                 d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3"
            )
        );
        first.read_message(&out[..len], &mut back).expect("read");
        let first = first.into_stateless_transport_mode().expect("done");
        let len = first
            .write_message(0, b"F. A. Hayek", &mut out)
            .expect("written");
        assert_eq!(
            out[..len],
            bytes("e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f")
        );
        let second = second.into_stateless_transport_mode().expect("done");
        let len = second
            .read_message(0, &out[..len], &mut back)
            .expect("read");
        assert_eq!(&back[..len], b"F. A. Hayek");
    }
}
