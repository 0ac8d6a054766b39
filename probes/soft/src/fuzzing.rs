//! Properties that hold for any bytes that reach the plugin from outside. The targets under
//! `fuzz/` search for counterexamples; the tests try their seeds and random bytes.
//!
//! Compiled for tests and fuzzing only.
#![forbid(unsafe_code)]

use crate::device::{self, DEVICES_MAX, Interface};
use crate::fault::{Plan, Side};
use crate::wire::{
    HANDLE_BYTES, HEADER_BYTES, HELLO_BYTES, Handle, Header, Hello, Route, SOCKETS_MAX, THREADS_MAX,
};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

/// Decodes a message. The first byte selects the decoder and the number of data sockets; the
/// rest is cut or zero-padded to the length of the message.
pub fn wire(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    match choice % 3 {
        0 => handle(&filled(rest)),
        1 => hello(&filled(rest)),
        _ => header(&filled(rest), usize::from(choice / 3) % (SOCKETS_MAX + 1)),
    }
}

fn filled<const N: usize>(data: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| data.get(at).copied().unwrap_or(0))
}

fn handle(bytes: &[u8; HANDLE_BYTES]) {
    match Handle::decode(bytes) {
        Ok(handle) => {
            assert!(handle.sockets <= SOCKETS_MAX && (1..=THREADS_MAX).contains(&handle.threads));
            assert!(handle.data.port() != 0 && handle.ctrl.port() != 0);
            assert_eq!(Handle::decode(&handle.encode()), Ok(handle));
        }
        Err(malformed) => assert!(!malformed.to_string().is_empty()),
    }
}

fn hello(bytes: &[u8; HELLO_BYTES]) {
    let nonce = *b"0123456789abcdef";
    match Hello::decode(bytes, &nonce) {
        Ok(hello) => {
            assert!(hello.index <= SOCKETS_MAX && bytes[16..32] == nonce);
            assert_eq!(Hello::decode(&hello.encode(), &nonce), Ok(hello));
        }
        Err(malformed) => assert!(!malformed.to_string().is_empty()),
    }
}

fn header(bytes: &[u8; HEADER_BYTES], sockets: usize) {
    match Header::decode(bytes, sockets) {
        Ok(header) => {
            assert!(u64::from(header.offset) + u64::from(header.size) <= u64::from(header.total));
            assert!(i32::try_from(header.total).is_ok());
            assert!(!matches!(header.route, Route::Socket(index) if index >= sockets));
            assert_eq!(Header::decode(&header.encode(), sockets), Ok(header));
        }
        Err(malformed) => assert!(!malformed.to_string().is_empty()),
    }
}

/// Parses a text as `TCPXSOFT_FAULT`.
pub fn fault(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let plan = match Plan::parse(&text) {
        Ok(plan) => plan,
        Err(bad) => return assert!(text.contains(&bad.item) && !bad.why.is_empty()),
    };
    let comms = [Side::Send, Side::Recv]
        .into_iter()
        .flat_map(|side| (0..3).map(move |comm| (side, comm)));
    for faults in comms.filter_map(|(side, comm)| plan.of_comm(side, comm)) {
        assert!(!plan.is_empty());
        let _ = (faults.hangs(), faults.refuses());
        for number in [1, 2, 40, u64::MAX] {
            let _ = (
                faults.stopped(number),
                faults.exits(number),
                faults.header(number),
            );
            assert_eq!(faults.corrupts(number, 0), None);
            assert!(faults.corrupts(number, 4096).is_none_or(|byte| byte < 4096));
        }
        let _ = [0, 1, SOCKETS_MAX].map(|socket| faults.of_socket(socket));
    }
}

/// Applies the first line as an interface list to the interfaces of the following lines.
pub fn interfaces(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (wanted, names) = text
        .split_once('\n')
        .unwrap_or((&text, "lo\neth0\neth1\neth10\ndocker0"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let names: BTreeSet<&str> = names.lines().take(DEVICES_MAX).collect();
    let all: Vec<Interface> = names
        .iter()
        .map(|name| Interface {
            name: (*name).to_owned(),
            address,
        })
        .collect();
    let chosen = |wanted| {
        let chosen = device::choose(&all, wanted);
        let names: Vec<String> = chosen.into_iter().map(|interface| interface.name).collect();
        assert!(names.is_sorted() && names.len() <= DEVICES_MAX);
        BTreeSet::from_iter(names)
    };
    // The same list with a leading `^` selects the other interfaces.
    let wanted = wanted.trim_start_matches('^');
    let excluded = format!("^{wanted}");
    let (these, others) = (chosen(Some(wanted)), chosen(Some(&excluded)));
    assert!(these.is_disjoint(&others));
    assert_eq!(these.len() + others.len(), all.len());
    assert_eq!(chosen(None).is_empty(), all.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Purpose;
    use proptest::prelude::*;
    use std::path::Path;

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus-seed")
            .join(target);
        let files = std::fs::read_dir(folder).expect("seeds");
        files
            .map(|file| std::fs::read(file.expect("a file").path()).expect("readable"))
            .collect()
    }

    #[test]
    fn the_seeds_of_the_fuzz_targets_hold() {
        seeds("soft_wire").iter().for_each(|seed| wire(seed));
        seeds("fault").iter().for_each(|seed| fault(seed));
        seeds("ifname").iter().for_each(|seed| interfaces(seed));
    }

    #[test]
    fn one_seed_of_each_message_is_valid() {
        let seeds = seeds("soft_wire");
        let believed = |choice: u8, is: fn(&[u8]) -> bool| {
            let ours = seeds.iter().filter(|seed| seed[0] % 3 == choice);
            assert!(
                ours.filter(|seed| is(&seed[1..])).count() > 0,
                "none of kind {choice}"
            );
        };
        believed(0, |seed| Handle::decode(&filled(seed)).is_ok());
        believed(1, |seed| {
            Hello::decode(&filled(seed), b"0123456789abcdef").is_ok()
        });
        believed(2, |seed| Header::decode(&filled(seed), SOCKETS_MAX).is_ok());
    }

    /// After a change of the protocol: `cargo test write_the_seeds -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus-seed"]
    fn write_the_seeds() {
        let write = |name: &str, choice: u8, bytes: &[u8]| {
            let folder =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/soft_wire");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(name), [&[choice], bytes].concat()).expect("a file");
        };
        let nonce = *b"0123456789abcdef";
        let at = |address: &str| address.parse().expect("an address");
        let handle = |data, ctrl| Handle {
            data: at(data),
            ctrl: at(ctrl),
            sockets: 4,
            threads: 1,
            redirect_ctrl: false,
            nonce,
        };
        let hello = |purpose, index| Hello {
            purpose,
            index,
            nonce,
            session: [7; 8],
        };
        let header = |route, size, offset, total| {
            Header {
                route,
                size,
                offset,
                total,
            }
            .encode()
        };
        write(
            "valid-handle-v4",
            0,
            &handle("10.0.1.25:4000", "10.0.1.25:4001").encode(),
        );
        write(
            "valid-handle-v6",
            0,
            &handle("[fe80::1]:4000", "[fe80::1]:4001").encode(),
        );
        write("valid-hello-ctrl", 1, &hello(Purpose::Ctrl, 4).encode());
        write("valid-hello-data", 1, &hello(Purpose::Data, 2).encode());
        // Eight sockets: 2 + 3 * 8.
        write(
            "valid-header",
            26,
            &header(Route::Socket(3), 4096, 8192, 12_288),
        );
        write("valid-header-inline", 26, &header(Route::Inline, 64, 0, 64));
    }

    proptest! {
        #[test]
        fn any_bytes_from_the_wire_hold(data in prop::collection::vec(any::<u8>(), 0..120)) {
            wire(&data);
        }

        #[test]
        fn any_header_holds(kind in 0u16..3, index in 0u16..10, sizes in prop::array::uniform3(0u32..4), sockets in 0usize..9) {
            let mut bytes = [kind.to_le_bytes(), index.to_le_bytes()].concat();
            bytes.extend(sizes.into_iter().flat_map(u32::to_le_bytes));
            header(&filled(&bytes), sockets);
        }

        #[test]
        fn any_fault_text_holds(text in "([a-z-]{2,10}(:(after|nth|ms|chunk|socket|call|side|comm)=[a-z0-9]{0,4},?){0,3};?){0,3}") {
            fault(text.as_bytes());
        }

        #[test]
        fn any_list_of_interfaces_holds(wanted in "\\^?=?([a-z0-9:]{0,5},?){0,4}", names in "([a-z]{2,3}[0-9]{0,2}\n){0,18}") {
            interfaces(format!("{wanted}\n{names}").as_bytes());
        }

        #[test]
        fn any_text_for_a_list_of_interfaces_holds(text in "(?s).{0,40}") {
            interfaces(text.as_bytes());
        }
    }
}
