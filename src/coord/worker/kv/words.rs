//! What an end of KV-cache traffic says when it cannot go on. Each sentence has Chinese in
//! `src/run-model/chinese.toml`; the test here knows them all.
#![forbid(unsafe_code)]

use super::session::Ended;
use std::fmt::Display;
use tcpx_words::units::ByteCount;

pub(super) const LOWER: &str = "lower traffic.cache, concurrency, depth or batch";
pub(super) const ANOTHER_ABI: &str = "choose another version of the plugin with --abi";

pub(super) fn too_large(needed: u64, available: u64) -> String {
    let (needed, available) = (ByteCount(needed), ByteCount(available >> 20 << 20));
    format!("the pages need {needed} of memory, and {available} are available")
}

pub(super) const NO_STAND_IN: &str =
    "KV-cache traffic has no stand-in for GPU memory, and this worker has no GPU";
pub(super) const USE_HOST: &str = "set transfer.memory = \"host\"";

pub(super) fn no_endpoint(plugin: &str, abi: &dyn Display, why: &dyn Display) -> String {
    format!("no endpoint over {plugin} v{abi}: {why}")
}

pub(super) fn secret_refused(why: &dyn Display) -> String {
    format!("the run's secret is refused: {why}")
}

/// A notification that is not expected now.
pub(super) fn unexpected(bytes: &[u8]) -> Ended {
    Ended::Peer(format!(
        "a notification of {} bytes is none that KV-cache traffic has",
        bytes.len()
    ))
}

pub(super) fn no_such_place(batch: u32, request: usize, place: usize) -> Ended {
    Ended::Peer(format!(
        "the peer asks to compare batch {batch} of request {request} at places {place}, which do not exist"
    ))
}

pub(super) fn no_memory() -> Ended {
    Ended::Peer("the peer has advertised no memory".to_owned())
}

/// What `exchange` waits for.
pub(super) const PEER_MEMORY: &str = "the memory that the peer advertises";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tcpx_p2p::Error;
    use tcpx_words::error::NextStep;

    #[test]
    fn every_sentence_has_a_chinese_translation() {
        let late = |what: &str| Error::TimedOut {
            what: what.to_owned(),
            allowed: Duration::from_millis(500),
        };
        let of_peer = [unexpected(b"abc"), no_such_place(1, 2, 3), no_memory()];
        let peer = || "endpoint `kv node0`".to_owned();
        let why = "closed by the peer: this end closed it".to_owned();
        let errors = [
            late(PEER_MEMORY),
            late("a connection of a peer"),
            Error::Connection { peer: peer(), why },
            Error::Connection {
                peer: peer(),
                why: "the peer's process ended or closed it".to_owned(),
            },
            Error::Refused {
                peer: "kv node0".to_owned(),
                why: "registration 1 of the descriptor was removed".to_owned(),
            },
            Error::Closed,
        ];
        let mut all = vec![
            too_large(1 << 40, 5 << 30),
            no_endpoint("TCPXSoft", &7, &"the table in use is version 4"),
            secret_refused(&"it is short"),
            LOWER.to_owned(),
            ANOTHER_ABI.to_owned(),
            NO_STAND_IN.to_owned(),
            USE_HOST.to_owned(),
        ];
        all.extend(of_peer.into_iter().map(|ended| match ended {
            Ended::Peer(what) => what,
            other => panic!("{other:?}"),
        }));
        all.extend(errors.iter().map(ToString::to_string));
        all.extend(errors.iter().filter_map(NextStep::next_step));
        let chinese = tcpx_run_model::chinese::chinese;
        let missing: Vec<_> = all.iter().filter(|text| chinese(text).is_none()).collect();
        assert!(
            missing.is_empty(),
            "src/run-model/chinese.toml lacks {missing:#?}"
        );
        // A sentence of the peer stands in another one.
        let ended = chinese(&errors[2].to_string()).expect("Chinese");
        assert!(!ended.contains("closed"), "{ended}");
    }
}
