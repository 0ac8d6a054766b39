//! Properties that hold for any bytes that reach a worker's bootstrap: a target under `fuzz/`
//! searches for a counterexample, and the tests check its seeds.
//!
//! Not part of a normal build.
#![forbid(unsafe_code)]

use super::config::Config;
use super::handshake::{Handshake, Step};
use super::message::{BODY_MAX, HEADER_LEN, Message};
use super::noise::{Opener, Purpose, RECORD_MAX};
use super::secret::Secret;
use super::wire::UNPROVEN_BODY_MAX;

/// Checks bytes as they arrive on a connection: from an unauthenticated client, then from a peer
/// that has proved itself.
pub fn bytes(data: &[u8]) {
    let secret = Secret::of_test(7);
    let listens = Handshake::listens(&secret, Purpose::Pair);
    let connects = Handshake::connects(&secret, Purpose::Pair).map(|(connects, _)| connects);
    for end in [listens, connects] {
        handshake(end.expect("randomness"), data);
    }
    let mut rest = data;
    while let Some((message, used)) = decoded(rest, BODY_MAX) {
        encodes_again(&message);
        // An incomplete message is neither decoded nor an error.
        for part in [HEADER_LEN - 1, used - 1] {
            assert_eq!(Message::decode(&rest[..part], BODY_MAX), Ok(None));
        }
        rest = &rest[used..];
    }
}

/// No bytes from an unauthenticated client complete the handshake. Those of a seed may be a
/// recorded hello, and are then answered.
fn handshake(mut handshake: Handshake, data: &[u8]) {
    let Some((message, used)) = decoded(data, UNPROVEN_BODY_MAX) else {
        return;
    };
    assert!(used <= HEADER_LEN + UNPROVEN_BODY_MAX);
    match handshake.receive(message) {
        Ok(Step::Encrypt { session, .. }) => records(session.opener, &data[used..]),
        Ok(Step::Proven) => panic!("proven without the secret"),
        Err(cause) => assert!(is_shown(&cause.to_string())),
    }
}

/// No bytes open as a record of a session with fresh keys.
fn records(mut opener: Opener, data: &[u8]) {
    let mut opened = Vec::new();
    let first = opener.open(data, RECORD_MAX, &mut opened);
    assert!(!matches!(first, Ok(Some(_))) && opened.is_empty());
}

fn decoded(data: &[u8], body_max: usize) -> Option<(Message, usize)> {
    match Message::decode(data, body_max) {
        Ok(Some((message, used))) => {
            assert!((HEADER_LEN..=data.len()).contains(&used));
            Some((message, used))
        }
        Ok(None) => None,
        Err(malformed) => {
            assert!(is_shown(&malformed.to_string()));
            None
        }
    }
}

fn encodes_again(message: &Message) {
    let mut again = Vec::new();
    message
        .encode(&mut again)
        .expect("a decoded message fits a frame");
    // Encoding truncates a long reason.
    if !matches!(message, Message::Abort { .. }) {
        assert_eq!(
            Message::decode(&again, BODY_MAX),
            Ok(Some((message.clone(), again.len())))
        );
    }
    if let Message::Config(theirs) = message {
        let shown = Config::default()
            .differences(theirs)
            .map(|differences| differences.to_string());
        assert!(shown.is_none_or(|shown| is_shown(&shown)));
        assert_eq!(theirs.differences(theirs), None);
    }
}

/// Whether the text is short and has no control characters.
fn is_shown(text: &str) -> bool {
    text.len() < 3000 && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::super::message::{Flow, Refusal, Role};
    use super::*;
    use proptest::prelude::*;
    use tcpx_words::error::Outcome;
    use tcpx_words::seeds;

    #[test]
    fn the_seeds_of_the_fuzz_target_hold() {
        seeds::read("bootstrap", "")
            .iter()
            .for_each(|seed| bytes(seed));
    }

    #[test]
    fn a_valid_seed_consists_of_complete_messages() {
        for seed in seeds::read("bootstrap", "valid") {
            let mut rest = &seed[..];
            while let Some((_, used)) = decoded(rest, BODY_MAX) {
                rest = &rest[used..];
            }
            assert!(rest.is_empty());
        }
    }

    /// Run this after a change of the protocol: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let frames = |messages: &[Message]| {
            let mut frames = Vec::new();
            messages
                .iter()
                .for_each(|message| message.encode(&mut frames).expect("fits"));
            frames
        };
        let map = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let config = Config {
            scenario: map("transfer.chunk", "512KiB"),
            settings: map("NCCL_NSOCKS_PERTHREAD", "4"),
            plugin_name: "TCPXSoft_v7".to_owned(),
            ..Config::default()
        };
        let (_, hello) =
            Handshake::connects(&Secret::of_test(7), Purpose::Pair).expect("randomness");
        let answer = Message::Hello {
            role: Role::Listens,
            greeting: [9; 48],
        };
        let barrier = Message::Barrier {
            epoch: 2,
            payload: 7,
            name: "warm-up".to_owned(),
        };
        let abort = Message::Abort {
            outcome: Outcome::PluginDied,
            reason: "exit(1) in test".to_owned(),
        };
        let handles = Message::Handles {
            flow: Flow::Forward,
            handles: vec![[2; 128]; 2],
        };
        let write = |name, messages: &[Message]| seeds::write("bootstrap", name, &frames(messages));
        write("valid-connects", &[hello, Message::Proof]);
        write("valid-listens", &[answer, Message::Proof]);
        write("valid-refusal", &[Message::Refusal(Refusal::WrongSecret)]);
        write("valid-config", &[Message::Config(config), Message::Ready]);
        write("valid-handles", &[handles, barrier]);
        write("valid-end", &[abort, Message::Bye]);
    }

    proptest! {
        #[test]
        fn any_frames_hold(frames in prop::collection::vec((0u16..12, prop::collection::vec(any::<u8>(), 0..80)), 0..4)) {
            let mut data = Vec::new();
            for (kind, body) in frames {
                data.extend_from_slice(b"TCXB\0\x02");
                data.extend_from_slice(&kind.to_be_bytes());
                data.extend_from_slice(&(body.len() as u32).to_be_bytes());
                data.extend_from_slice(&body);
            }
            bytes(&data);
        }
    }
}
