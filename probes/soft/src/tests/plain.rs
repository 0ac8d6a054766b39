//! The plain flavour: tags, and receives with several buffers.

use super::pair::{Buffer, Pair, until};
use crate::block;
use crate::calls::{self, Given};
use crate::fault::Side;
use crate::plugin::Plugin;
use crate::settings::{Flavour, Settings};
use crate::wire::{HEADER_BYTES, encode_tag};
use proptest::prelude::*;
use std::ffi::{c_int, c_void};
use std::io::Write;
use tcpx_abi::PTR_HOST;

fn pair() -> Pair {
    pair_with("off")
}

fn pair_with(cuda: &str) -> Pair {
    let chunk = ("NCCL_DYNAMIC_CHUNK_SIZE", "4096");
    let settings = Settings::from_pairs(&[
        ("TCPXSOFT_SOCKET_IFNAME", "=lo"),
        chunk,
        ("TCPXSOFT_CUDA", cuda),
    ]);
    let plugin = Plugin::start(Settings {
        flavour: Flavour::Plain,
        ..settings
    })
    .unwrap();
    let plugin: &'static Plugin = Box::leak(Box::new(plugin));
    Pair::between(plugin, plugin)
}

fn given(comm: *mut c_void, buffer: &Buffer, size: usize, tag: c_int) -> Given {
    given_as(PTR_HOST, comm, buffer, size, tag)
}

fn given_as(kind: c_int, comm: *mut c_void, buffer: &Buffer, size: usize, tag: c_int) -> Given {
    let mhandle = calls::register(comm, buffer.pointer(), size, kind).unwrap();
    Given {
        data: buffer.pointer(),
        size: size as c_int,
        tag,
        mhandle,
    }
}

fn send(pair: &Pair, buffer: &Buffer, size: usize, tag: c_int) -> *mut c_void {
    // SAFETY: our comm and registration.
    unsafe {
        calls::post(
            Side::Send,
            pair.sender,
            given(pair.sender, buffer, size, tag),
        )
    }
    .unwrap()
}

/// Posts a receive of these buffers.
fn receive(pair: &Pair, buffers: &[(&Buffer, c_int)]) -> *mut c_void {
    let given: Vec<_> = buffers
        .iter()
        .map(|(buffer, tag)| given(pair.receiver, buffer, ROOM, *tag))
        .collect();
    // SAFETY: our comm and registrations.
    unsafe { calls::post_group(pair.receiver, &given) }.unwrap()
}

/// Tests the request. Returns the bytes of each buffer if it is done.
fn sizes(request: *mut c_void) -> Option<Vec<c_int>> {
    let mut told = Vec::new();
    // SAFETY: a request of ours.
    unsafe { calls::test_any(request, |_, size| told.push(size)) }
        .unwrap()
        .then_some(told)
}

const ROOM: usize = 10_000;

fn message(number: usize) -> Buffer {
    Buffer::new(ROOM, number as u8 + 1)
}

/// The bytes of each socket for a message of `size` bytes, by sockets for each of the `threads`.
fn shares(threads: &str, sockets: &str, chunk: Option<&str>, size: usize) -> Vec<u64> {
    let mut settings = vec![
        ("TCPXSOFT_SOCKET_IFNAME", "=lo"),
        ("NCCL_SOCKET_NTHREADS", threads),
        ("NCCL_NSOCKS_PERTHREAD", sockets),
    ];
    settings.extend(chunk.map(|chunk| ("NCCL_DYNAMIC_CHUNK_SIZE", chunk)));
    let lookup = |name: &str| {
        let found = settings.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let plugin = Plugin::start(Settings::read_plain(&lookup).0.unwrap()).unwrap();
    let plugin: &'static Plugin = Box::leak(Box::new(plugin));
    let pair = Pair::between(plugin, plugin);
    let (from, to) = (Buffer::new(size, 7), Buffer::new(size, 0));
    let received = given(pair.receiver, &to, size, 0);
    // SAFETY: our comm and registration.
    let received = unsafe { calls::post_group(pair.receiver, &[received]) }.unwrap();
    let sent = send(&pair, &from, size, 0);
    let (mut is_sent, mut is_received) = (false, false);
    until("the message", || {
        is_sent = is_sent || sizes(sent).is_some();
        is_received = is_received || sizes(received).is_some();
        (is_sent && is_received).then_some(())
    });
    assert!(to.bytes(size) == from.bytes(size));
    // SAFETY: a comm of ours that nothing else uses now.
    let shares = unsafe { block::comm(pair.sender) }.unwrap().sent.clone();
    pair.close();
    shares
}

#[test]
fn sockets_that_share_a_thread_have_even_shares_of_a_message() {
    const MIB: usize = 1 << 20;
    let uneven = 5 * 131_072 + 6;
    assert_eq!(shares("1", "4", None, MIB), [262_144; 4]);
    assert_eq!(
        shares("1", "4", None, uneven),
        [163_842, 163_842, 163_842, 163_840]
    );
    // A thread for each, a chunk that was set, and messages of a few chunks.
    assert_eq!(
        shares("4", "1", None, uneven),
        [262_144, 131_078, 131_072, 131_072]
    );
    assert_eq!(
        shares("2", "2", Some("524288"), MIB),
        [524_288, 524_288, 0, 0]
    );
    assert_eq!(shares("1", "4", None, 131_073), [131_072, 1, 0, 0]);
}

#[test]
fn a_group_takes_a_message_of_each_tag_and_reports_sizes() {
    let pair = pair();
    let places = [0, 1, 2].map(|_| Buffer::new(ROOM, 0));
    let group = receive(&pair, &[(&places[0], 7), (&places[1], 0), (&places[2], -3)]);
    let sent = [(2, -3), (0, 7), (1, 0)].map(|(number, tag)| {
        let buffer = message(number);
        (send(&pair, &buffer, 5000 + number, tag), buffer)
    });
    let told = until("the group", || {
        sent.iter().for_each(|(request, _)| drop(sizes(*request)));
        sizes(group)
    });
    assert_eq!(told, [5000, 5001, 5002]);
    for (number, place) in places.iter().enumerate() {
        assert!(
            place
                .bytes(5000 + number)
                .iter()
                .all(|byte| usize::from(*byte) == number + 1),
            "{number}"
        );
        assert_eq!(
            place.bytes(ROOM)[5000 + number..],
            vec![0; ROOM - 5000 - number]
        );
    }
    assert_eq!(sizes(group), None, "it is done once");
    pair.close();
}

#[test]
fn a_message_waits_for_a_receive_of_its_tag_and_those_behind_it_wait_too() {
    let pair = pair();
    let [early, late] = [0, 1].map(|_| Buffer::new(ROOM, 0));
    let sent = [message(0), message(1)];
    let requests = [send(&pair, &sent[0], 100, 5), send(&pair, &sent[1], 100, 6)];
    let second = receive(&pair, &[(&late, 6)]);
    for _ in 0..1000 {
        requests.iter().for_each(|request| drop(sizes(*request)));
        assert_eq!(sizes(second), None, "the first message has nowhere to go");
    }
    let first = receive(&pair, &[(&early, 5)]);
    let (mut of_first, mut of_second) = (None, None);
    until("both", || {
        requests.iter().for_each(|request| drop(sizes(*request)));
        of_first = of_first.take().or_else(|| sizes(first));
        of_second = of_second.take().or_else(|| sizes(second));
        (of_first.is_some() && of_second.is_some()).then_some(())
    });
    assert_eq!((early.bytes(1)[0], late.bytes(1)[0]), (1, 2));
    pair.close();
}

#[test]
fn a_message_without_a_receive_does_not_hold_back_the_one_before_it() {
    let pair = pair();
    let places = [0, 1].map(|_| Buffer::new(ROOM, 0));
    let sent = [message(0), message(1)];
    let mut sends = vec![send(&pair, &sent[0], 100, 5), send(&pair, &sent[1], 100, 0)];
    until("the sends", || {
        sends.retain(|request| sizes(*request).is_none());
        sends.is_empty().then_some(())
    });
    let first = receive(&pair, &[(&places[0], 5)]);
    // No receive has the second message's tag.
    receive(&pair, &[(&places[1], 6)]);
    assert_eq!(until("the first message", || sizes(first)), [100]);
    assert_eq!(places[0].bytes(100), [1; 100]);
    pair.close();
}

#[test]
fn a_receive_into_device_memory_is_visible_once_flushed() {
    let pair = pair_with("standin");
    let places = [0, 1, 2].map(|_| Buffer::new(ROOM, 0));
    let given: Vec<_> = places
        .iter()
        .map(|place| given_as(tcpx_abi::PTR_CUDA, pair.receiver, place, ROOM, 0))
        .collect();
    // SAFETY: our comm and registrations.
    let group = unsafe { calls::post_group(pair.receiver, &given[..2]) }.unwrap();
    // SAFETY: as above.
    let single = unsafe { calls::post(Side::Recv, pair.receiver, given[2]) }.unwrap();
    let sent = [0, 1, 2].map(|number| {
        let buffer = message(number);
        (send(&pair, &buffer, 9000, 0), buffer)
    });
    let mut waiting = vec![group, single];
    waiting.extend(sent.iter().map(|(request, _)| *request));
    until("all of them", || {
        waiting.retain(|request| sizes(*request).is_none());
        waiting.is_empty().then_some(())
    });
    assert!(
        places.iter().all(|place| place.bytes(1)[0] == 0),
        "not flushed yet"
    );
    let flush = |places: &[&Buffer]| {
        let places: Vec<_> = places.iter().map(|place| place.pointer()).collect();
        // SAFETY: our comm.
        unsafe { calls::flush(pair.receiver, &places) }.unwrap()
    };
    let request = flush(&[&places[2], &places[0]]);
    assert!(
        !request.is_null() && places[0].bytes(1)[0] == 0,
        "the flush has only begun"
    );
    assert_eq!(
        (sizes(request), sizes(request)),
        (Some(vec![]), None),
        "it is done, once"
    );
    assert_eq!(
        [0, 1, 2].map(|place: usize| places[place].bytes(9000)[8999]),
        [1, 0, 3]
    );
    assert!(
        flush(&[&places[0]]).is_null(),
        "there is nothing left to wait for"
    );
    let begun: Vec<_> = (0..40).map(|_| flush(&[&places[1]])).collect();
    assert!(!begun[0].is_null() && begun[1..].iter().all(|request| request.is_null()));
    assert_eq!((sizes(begun[0]), places[1].bytes(1)[0]), (Some(vec![]), 2));
    pair.close();
}

#[test]
fn a_group_is_posted_whole_or_not_at_all() {
    let pair = pair();
    let place = Buffer::new(ROOM, 0);
    let mut groups: Vec<_> = (0..4).map(|_| receive(&pair, &[(&place, 0); 7])).collect();
    assert!(groups.iter().all(|group| !group.is_null()));
    assert!(
        receive(&pair, &[(&place, 0); 5]).is_null(),
        "four slots are left"
    );
    groups.push(receive(&pair, &[(&place, 0); 4]));
    assert!(!groups[4].is_null() && receive(&pair, &[(&place, 0)]).is_null());
    pair.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_message_goes_to_the_oldest_buffer_of_its_tag(
        tags in prop::collection::vec(prop::collection::vec(0 as c_int..4, 1..=8), 1..6),
        order in any::<prop::sample::Index>(),
        rounds in 1usize..3,
    ) {
        let pair = pair();
        let mut tags: Vec<Vec<c_int>> = tags;
        while tags.iter().map(Vec::len).sum::<usize>() > 32 {
            tags.pop();
        }
        let all: Vec<c_int> = tags.concat();
        for round in 0..rounds {
            let places: Vec<Buffer> = all.iter().map(|_| Buffer::new(ROOM, 0)).collect();
            let mut at = 0;
            let mut groups = Vec::new();
            for group in &tags {
                let buffers: Vec<_> = group.iter().zip(&places[at..]).map(|(tag, place)| (place, *tag)).collect();
                groups.push(receive(&pair, &buffers));
                at += group.len();
            }
            // Another order: a walk with a stride that reaches every message once.
            let stride = (1..=all.len()).filter(|stride| gcd(*stride, all.len()) == 1).collect::<Vec<_>>();
            let stride = stride[(order.index(stride.len()) + round) % stride.len()];
            let turns: Vec<usize> = (0..all.len()).map(|turn| turn * stride % all.len()).collect();
            let sent: Vec<_> = turns.iter().enumerate().map(|(number, turn)| {
                let buffer = message(number);
                (send(&pair, &buffer, 1 + 97 * number, all[*turn]), buffer)
            }).collect();
            let (mut waiting, mut open) = (sent.iter().map(|one| one.0).collect::<Vec<_>>(), groups.clone());
            until("all of them", || {
                waiting.retain(|request| sizes(*request).is_none());
                open.retain(|request| sizes(*request).is_none());
                (waiting.is_empty() && open.is_empty()).then_some(())
            });
            for tag in 0..4 {
                let numbers = turns.iter().enumerate().filter(|(_, turn)| all[**turn] == tag).map(|(number, _)| number);
                let of_tag = places.iter().zip(&all).filter(|(_, of)| **of == tag).map(|(place, _)| place);
                for (number, place) in numbers.zip(of_tag) {
                    let len = 1 + 97 * number;
                    prop_assert!(place.bytes(len).iter().all(|byte| usize::from(*byte) == number + 1));
                    prop_assert_eq!(place.bytes(len + 1)[len], 0);
                }
            }
        }
        pair.close();
    }
}

/// An arbitrary message on the control stream.
fn word() -> impl Strategy<Value = [u8; HEADER_BYTES]> {
    let near = || {
        prop_oneof![
            Just(0u32),
            1..300u32,
            Just(ROOM as u32),
            Just(ROOM as u32 + 1),
            any::<u32>()
        ]
    };
    let mostly = move |usual: u32| prop_oneof![4 => Just(usual), 1 => near()];
    let fields = near().prop_flat_map(move |total| {
        (mostly(0), Just(total)).prop_flat_map(move |(offset, total)| {
            (
                mostly(total.wrapping_sub(offset)),
                Just(offset),
                Just(total),
            )
        })
    });
    let few = || prop_oneof![5 => Just(0u16), 1 => 0..3u16];
    let header = (few(), few(), fields).prop_map(|(kind, index, (size, offset, total))| {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&index.to_le_bytes());
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        bytes[8..12].copy_from_slice(&offset.to_le_bytes());
        bytes[12..].copy_from_slice(&total.to_le_bytes());
        bytes
    });
    prop_oneof![4 => header, 3 => (0..4i32).prop_map(encode_tag), 1 => any::<[u8; HEADER_BYTES]>()]
}

proptest! {
    #[test]
    fn whatever_a_peer_announces_stays_inside_the_buffers(words in prop::collection::vec(word(), 1..8)) {
        let pair = pair_with("standin");
        let places = [0, 1, 2, 3].map(|_| Buffer::new(ROOM, 0));
        let group = receive(&pair, &[(&places[0], 0), (&places[1], 1)]);
        let on_device = given_as(tcpx_abi::PTR_CUDA, pair.receiver, &places[2], ROOM, 2);
        // SAFETY: our comm and registration.
        let device = unsafe { calls::post(Side::Recv, pair.receiver, on_device) }.unwrap();
        let last = receive(&pair, &[(&places[3], 0)]);
        // SAFETY: a comm of ours, which nobody else uses now.
        let sender = unsafe { block::comm(pair.sender) }.unwrap();
        for word in &words {
            sender.ctrl.push(word);
        }
        sender.ctrl.flush().unwrap();
        for lane in &sender.lanes.all {
            (&lane.stream).write_all(&[0xab; 4 * ROOM]).unwrap();
        }
        for _ in 0..20 {
            for request in [group, device, last] {
                // SAFETY: a request of ours.
                let _ = unsafe { calls::test_any(request, |_, size| assert!((0..=ROOM as c_int).contains(&size))) };
            }
        }
        for place in &places {
            prop_assert!(place.bytes(ROOM + 4096)[ROOM..].iter().all(|byte| *byte == 0));
        }
        pair.close();
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
