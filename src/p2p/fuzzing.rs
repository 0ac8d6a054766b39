//! Properties of what another endpoint may send or hand over: its metadata, its blobs and its
//! messages. A target under `fuzz/` searches for counterexamples; the tests run its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use crate::blob::{BLOB_LEN, Claim, Right, Seal};
use crate::message::{FRAME_MAX, Message, PIECES_MAX, RemotePiece};
use crate::metadata::Metadata;

/// Checks bytes as metadata, as a blob, and as messages that arrive one after the other.
pub fn control(data: &[u8]) {
    metadata(data);
    let seal = Seal::new(7).expect("randomness");
    blob(&seal, data);
    let mut rest = data;
    loop {
        match Message::decode(rest) {
            Ok(Some((message, used))) => {
                encodes_again(&message, used);
                pieces_of(&message)
                    .iter()
                    .for_each(|piece| blob(&seal, &piece.blob));
                // An incomplete message is neither decoded nor an error.
                assert_eq!(Message::decode(&rest[..used - 1]), Ok(None));
                rest = &rest[used..];
            }
            Ok(None) => return,
            Err(malformed) => return is_shown(&malformed.to_string()),
        }
    }
}

/// What is accepted as metadata is the same after writing and reading.
fn metadata(data: &[u8]) {
    match Metadata::parse(data) {
        Ok(metadata) => {
            let again = Metadata::parse(&metadata.to_bytes());
            // A value that JSON escapes may take more bytes than a line may have.
            if let Ok(again) = again {
                assert_eq!(again, metadata);
            }
            let _ = metadata.key(None);
        }
        Err(error) => is_shown(&error.to_string()),
    }
}

/// A blob that this endpoint did not make is refused, and the claim of one covers no byte outside
/// its range.
fn blob(seal: &Seal, data: &[u8]) {
    assert!(seal.open(data).is_err());
    let Some(claim) = data
        .get(..BLOB_LEN)
        .and_then(|bytes| Claim::parse(bytes).ok())
    else {
        return;
    };
    let endpoint = claim.endpoint;
    for right in [Right::Read, Right::Write] {
        let may = claim.rights.allow(right);
        assert_eq!(claim.covers(endpoint, right, 0, claim.len).is_ok(), may);
        for (offset, wanted) in [(claim.len, 1), (1, claim.len), (u64::MAX, u64::MAX)] {
            assert!(claim.covers(endpoint, right, offset, wanted).is_err());
        }
    }
    assert_eq!(seal.open(&seal.advertise(&claim)).is_ok(), endpoint == 7);
}

fn encodes_again(message: &Message, used: usize) {
    assert!(used <= FRAME_MAX + 4);
    assert!(pieces_of(message).len() <= PIECES_MAX);
    if let Message::Refused { why: text, .. }
    | Message::Bye { why: text }
    | Message::Hello { name: text, .. } = message
    {
        assert!(!text.chars().any(char::is_control));
    }
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    match Message::decode(&bytes) {
        Ok(again) => assert_eq!(again.map(|(_, len)| len), Some(bytes.len())),
        // Bytes that are not UTF-8 were replaced by longer ones.
        Err(_) => assert!(matches!(message, Message::Hello { .. })),
    }
}

fn pieces_of(message: &Message) -> &[RemotePiece] {
    match message {
        Message::Read { pieces, .. } | Message::Write { pieces, .. } => pieces,
        _ => &[],
    }
}

/// The text is short and has no control characters.
fn is_shown(text: &str) {
    assert!(
        text.len() < 2000 && !text.chars().any(char::is_control),
        "{text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        seeds::read("endpoint", "")
            .iter()
            .for_each(|seed| control(seed));
    }

    /// Run this after a change of the protocol: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let claim = Claim {
            address: 4096,
            len: 1 << 20,
            registration: 3,
            rights: crate::Rights::Both,
            endpoint: 7,
        };
        let blob = Seal::new(7).expect("randomness").advertise(&claim);
        let piece = RemotePiece {
            blob,
            offset: 8,
            len: 512,
        };
        let write = |name, messages: &[Message]| {
            let mut bytes = Vec::new();
            messages
                .iter()
                .for_each(|message| message.encode(&mut bytes));
            seeds::write("endpoint", name, &bytes);
        };
        let (op, first_lane) = (1, 2);
        let (pieces, why) = (vec![piece; 2], "no such range".to_owned());
        let greeting = Message::Hello {
            endpoint: 7,
            gpu: Some(1),
            name: "prefill-0".into(),
        };
        let read = |together| Message::Read {
            op,
            first_lane,
            together,
            pieces: pieces.clone(),
        };
        let written = |together| Message::Write {
            op,
            together,
            pieces: pieces.clone(),
        };
        let notify = Message::Notify {
            op,
            bytes: b"ready".to_vec(),
        };
        let sent = Message::Sent { op };
        write("valid-read", &[greeting, read(false), read(true), sent]);
        let done = Message::Done { op };
        write("valid-write", &[written(false), written(true), done]);
        let (offer, pull) = (
            Message::Offer { op, len: 99 },
            Message::Pull { op, first_lane },
        );
        write("valid-send", &[offer, pull, notify]);
        let refused = Message::Refused {
            op,
            why: why.clone(),
        };
        write("valid-end", &[refused, Message::Bye { why }]);
        seeds::write("endpoint", "blob", &blob);
        let metadata = Metadata {
            endpoint: 7,
            name: "prefill-0".into(),
            address: "10.0.1.25:40000".parse().expect("an address"),
            gpu: Some(0),
            bdf: "0000:04:00.0".into(),
            needs_secret: false,
            nonce: std::array::from_fn(|at| at as u8),
        };
        seeds::write("endpoint", "metadata", &metadata.to_bytes());
    }

    proptest! {
        #[test]
        fn any_frames_hold(frames in prop::collection::vec((0u8..16, prop::collection::vec(any::<u8>(), 0..200)), 0..4)) {
            let mut data = Vec::new();
            for (kind, body) in frames {
                data.extend_from_slice(&(body.len() as u32 + 1).to_le_bytes());
                data.push(kind);
                data.extend_from_slice(&body);
            }
            control(&data);
        }
    }
}
