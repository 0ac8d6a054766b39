//! What one endpoint must know to connect to another: a line of text, so that it can be pasted.
//!
//! The nonce is a capability: without a shared secret, it is the key of every connection to the
//! endpoint. It is as confidential as the memory that the endpoint advertises.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tcpx_bootstrap::Secret;
use tcpx_words::units::printable;

/// Version of the metadata and of the protocol between two endpoints (`message`).
pub const METADATA_VERSION: u32 = 3;
const PREFIX: &str = "tcpx-p2p/";
const BYTES_MAX: usize = 16 * 1024;
/// Most bytes of bad metadata that an error quotes.
const QUOTED_BYTES_MAX: usize = 200;

/// Where an endpoint is and what a connection to it needs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Number of the endpoint, random.
    pub endpoint: u64,
    /// Its name, for people.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its GPU; `None` for host memory.
    pub gpu: Option<u32>,
    /// PCI address of the GPU; empty for host memory.
    pub bdf: String,
    /// Whether a connection needs a shared secret besides the metadata.
    pub needs_secret: bool,
    /// Random bytes that a connection proves to know.
    pub nonce: [u8; 32],
}

/// Why bytes are not accepted as metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMetadata {
    /// Something else.
    #[error("these {0} bytes are not the metadata of an endpoint")]
    NotMetadata(usize),
    /// A newer or older version.
    #[error(
        "the metadata has version {0}, and this build knows version {METADATA_VERSION}: use the same tcpxctl on both nodes"
    )]
    Version(u32),
    /// Right version, wrong content.
    #[error("the metadata is damaged: {0}")]
    Damaged(String),
    /// The endpoint has a shared secret, and this one has none.
    #[error("endpoint `{0}` requires a shared secret, and this endpoint has none")]
    SecretMissingHere(String),
    /// This endpoint has a shared secret, and the other one has none.
    #[error("this endpoint has a shared secret, and endpoint `{0}` has none: set the same on both")]
    SecretMissingThere(String),
}

impl Metadata {
    /// The bytes to give to the other program.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = serde_json::to_string(self).unwrap_or_default();
        format!("{PREFIX}{METADATA_VERSION} {fields}").into_bytes()
    }

    /// Reads what [`Metadata::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are not metadata, or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadMetadata> {
        let other = || BadMetadata::NotMetadata(bytes.len());
        if bytes.len() > BYTES_MAX {
            return Err(other());
        }
        let text = std::str::from_utf8(bytes).map_err(|_| other())?;
        let (version, fields) = text
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once(' '))
            .ok_or_else(other)?;
        match version.parse().map_err(|_| other())? {
            METADATA_VERSION => {}
            version => return Err(BadMetadata::Version(version)),
        }
        serde_json::from_str(fields.trim_end())
            .map_err(|error| BadMetadata::Damaged(excerpt(&error.to_string())))
    }
}

/// The beginning of a text that quotes what a stranger wrote.
fn excerpt(text: &str) -> String {
    let text = printable(text);
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    if end < text.len() {
        format!("{} ...", &text[..end])
    } else {
        text
    }
}

impl Metadata {
    /// The key of a connection to the endpoint: the nonce, and the shared secret if there is one.
    ///
    /// # Errors
    /// One of the two endpoints has a shared secret and the other has none.
    pub fn key(&self, shared: Option<&Secret>) -> Result<Secret, BadMetadata> {
        match (self.needs_secret, shared) {
            (true, None) => Err(BadMetadata::SecretMissingHere(self.name.clone())),
            (false, Some(_)) => Err(BadMetadata::SecretMissingThere(self.name.clone())),
            _ => self.key_with(shared),
        }
    }

    /// The key of an end with this shared secret, whether or not the other end has one.
    pub(crate) fn key_with(&self, shared: Option<&Secret>) -> Result<Secret, BadMetadata> {
        let key = match shared {
            Some(shared) => shared.derived(b"tcpxctl endpoint nonce", &self.nonce),
            None => Secret::from_bytes(self.nonce),
        };
        key.map_err(|error| BadMetadata::Damaged(format!("its nonce: {error}")))
    }
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metadata({} at {})", self.name, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metadata() -> Metadata {
        Metadata {
            endpoint: u64::MAX,
            name: "prefill-0".into(),
            address: "10.0.1.25:40000".parse().expect("an address"),
            gpu: None,
            bdf: String::new(),
            needs_secret: true,
            nonce: std::array::from_fn(|at| at as u8),
        }
    }

    #[test]
    fn metadata_survives_a_trip() {
        assert_eq!(Metadata::parse(&metadata().to_bytes()), Ok(metadata()));
    }

    #[test]
    fn a_newer_version_is_named() {
        let newer = String::from_utf8(metadata().to_bytes())
            .expect("text")
            .replace("p2p/3 ", "p2p/4 ");
        let error = Metadata::parse(newer.as_bytes()).expect_err("newer");
        assert!(
            error.to_string().starts_with("the metadata has version 4"),
            "{error}"
        );
    }

    #[test]
    fn a_secret_on_one_side_only_is_named() {
        let (secret, other) = (Secret::generate(), Secret::generate());
        let (secret, other) = (secret.expect("randomness"), other.expect("randomness"));
        let (with, without) = (
            metadata(),
            Metadata {
                needs_secret: false,
                ..metadata()
            },
        );
        let name = "prefill-0".to_owned();
        let said = |key: Result<Secret, BadMetadata>| key.map(|key| *key.bytes());
        assert_eq!(
            said(with.key(None)),
            Err(BadMetadata::SecretMissingHere(name.clone()))
        );
        assert_eq!(
            said(without.key(Some(&secret))),
            Err(BadMetadata::SecretMissingThere(name))
        );
        assert_eq!(said(with.key(Some(&secret))), said(with.key(Some(&secret))));
        assert_ne!(said(with.key(Some(&secret))), said(with.key(Some(&other))));
        assert_ne!(said(with.key(Some(&secret))), said(without.key(None)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..60), prefixed: bool) {
            if prefixed {
                bytes.splice(0..0, format!("{PREFIX}{METADATA_VERSION} ").into_bytes());
            }
            prop_assert!(Metadata::parse(&bytes).is_err());
        }
    }
}
