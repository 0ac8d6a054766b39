//! Every fault does what the grammar documents, and nothing else.

use super::pair::*;
use crate::calls;
use crate::failed::REFUSED;
use std::ptr;
use std::time::{Duration, Instant};

fn pair(fault: &str) -> Pair {
    let small = [
        ("TCPXSOFT_FAULT", fault),
        ("NCCL_DYNAMIC_CHUNK_SIZE", "4096"),
        ("NCCL_NSOCKS_PERTHREAD", "2"),
    ];
    Pair::new(&small)
}

/// Sends `count` messages of one chunk and returns how many arrive.
fn arrived(pair: &Pair, count: usize) -> usize {
    let (source, target) = (Buffer::new(4096, 1), Buffer::new(4096, 0));
    let sends: Vec<_> = (0..count)
        .map(|_| pair.isend(source.pointer(), 4096).unwrap())
        .collect();
    let recvs: Vec<_> = (0..count)
        .map(|_| pair.irecv(target.pointer(), 4096).unwrap())
        .collect();
    let (mut sent, mut received) = (0, 0);
    for _ in 0..2000 {
        sent += usize::from(sent < count && test(sends[sent]).unwrap());
        received += usize::from(received < count && test(recvs[received]).unwrap());
    }
    received
}

#[test]
fn stop_lets_exactly_that_many_chunks_pass() {
    for side in ["send", "recv"] {
        let pair = pair(&format!("stop:after=5,side={side}"));
        assert_eq!(arrived(&pair, 10), 5);
        pair.close();
    }
}

#[test]
fn starve_stops_one_socket_and_so_the_comm() {
    let pair = pair("starve:socket=1,after=2,side=send");
    assert_eq!(
        arrived(&pair, 10),
        5,
        "sockets take turns: the sixth chunk is the third of socket 1"
    );
    pair.close();
}

#[test]
fn a_dropped_header_leaves_its_message_behind() {
    let pair = pair("drop-ctrl:nth=3,side=send");
    // The third message's bytes are mistaken for the fifth's, which uses the same socket.
    assert_eq!(arrived(&pair, 6), 5);
    pair.close();
}

#[test]
fn a_delayed_header_holds_everything_behind_it() {
    let pair = pair("delay-ctrl:nth=2,ms=60,side=send");
    let (source, target) = (Buffer::new(64, 1), Buffer::new(64, 0));
    let start = Instant::now();
    for _ in 0..2 {
        pair.finish(
            pair.isend(source.pointer(), 64).unwrap(),
            pair.irecv(target.pointer(), 64).unwrap(),
        );
    }
    assert!(start.elapsed() >= Duration::from_millis(60));
    pair.close();
}

#[test]
fn corrupt_flips_one_byte_of_one_chunk() {
    let pair = pair("corrupt:chunk=2,byte=100");
    let (source, target) = (Buffer::new(12_288, 0x10), Buffer::new(12_288, 0));
    pair.finish(
        pair.isend(source.pointer(), 12_288).unwrap(),
        pair.irecv(target.pointer(), 12_288).unwrap(),
    );
    let wrong: Vec<usize> = (0..12_288)
        .filter(|at| target.bytes(12_288)[*at] != 0x10)
        .collect();
    assert_eq!(wrong, [4196]);
    assert_eq!(source.bytes(12_288), [0x10; 12_288]);
    pair.close();
}

#[test]
fn hang_never_finishes_and_can_be_closed() {
    let plugin = plugin(&[("TCPXSOFT_FAULT", "hang:side=recv")]);
    let (listener, mut handle) = listen(plugin);
    for _ in 0..200 {
        assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
        assert_eq!(accept(listener, &mut no_device()), Ok(ptr::null_mut()));
    }
    calls::unlisten(listener).unwrap();
}

#[test]
fn a_refusing_acceptor_fails_both_sides() {
    let plugin = plugin(&[("TCPXSOFT_FAULT", "refuse")]);
    let (listener, mut handle) = listen(plugin);
    let mut outcome = [None, None];
    until("both failures", || {
        let step = [
            outcome[0]
                .is_none()
                .then(|| accept(listener, &mut no_device()).err()),
            outcome[1]
                .is_none()
                .then(|| connect(plugin, &mut handle).err()),
        ];
        for (outcome, step) in outcome.iter_mut().zip(step) {
            *outcome = outcome.or(step.flatten());
        }
        (outcome == [Some(REFUSED), Some(REFUSED)]).then_some(())
    });
    let lines = crate::log::take();
    assert!(lines.contains(&"WARN NET/TCPXSoft failed accept socket".to_owned()));
    assert!(lines.contains(&"WARN NET/TCPXSoft failed to connect socket".to_owned()));
    calls::unlisten(listener).unwrap();
}

#[test]
fn an_acceptor_that_answers_pending_is_retried() {
    let plugin = plugin(&[
        ("TCPXSOFT_FAULT", "refuse:times=2"),
        ("NCCL_NSOCKS_PERTHREAD", "2"),
    ]);
    Pair::between(plugin, plugin).close();
    let often = super::pair::plugin(&[("TCPXSOFT_FAULT", "refuse:times=3")]);
    let (listener, mut handle) = listen(often);
    until("the last attempt", || {
        let _ = accept(listener, &mut no_device());
        connect(often, &mut handle).err()
    });
    calls::unlisten(listener).unwrap();
}
