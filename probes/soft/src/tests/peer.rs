//! The peer closes at every stage, and what a failing comm logs and returns.

use super::pair::*;
use crate::calls;
use crate::failed::{BROKEN, Failed};
use std::ptr;

#[test]
fn a_receiver_that_waits_for_a_header_gets_code_two_on_every_call() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let recv = pair.irecv(buffer.pointer(), 64).unwrap();
    assert_eq!(test(recv), Ok(false));
    calls::close(pair.sender).unwrap();
    assert_eq!(until("the end", || test(recv).err()), BROKEN);
    logged("WARN Net/TCPXSoft : Connection closed by remote peer, 127.0.0.1<");
    assert_eq!(test(recv), Err(BROKEN));
    assert_eq!(calls::close(pair.receiver), Ok(()));
}

#[test]
fn everything_sent_before_the_close_arrives_after_code_two() {
    let pair = Pair::new(&[]);
    let (source, target) = (Buffer::new(64, 7), Buffer::new(64, 0));
    let send = pair.isend(source.pointer(), 64).unwrap();
    until("the send", || test(send).unwrap().then_some(()));
    calls::close(pair.sender).unwrap();
    let recv = pair.irecv(target.pointer(), 64).unwrap();
    // One call finds both the header and the end of the stream, as in the real plugin.
    let mut failures = 0;
    until("the receive", || match test(recv) {
        Ok(done) => done.then_some(()),
        Err(Failed(2)) => {
            failures += 1;
            None
        }
        Err(other) => panic!("{other:?}"),
    });
    assert_eq!(failures, 1);
    assert_eq!(target.bytes(64), [7; 64]);
    consume(recv).unwrap();
    calls::close(pair.receiver).unwrap();
}

#[test]
fn a_data_socket_that_dies_stalls_silently_and_warns_once() {
    for io in ["inline", "helper"] {
        let pair = Pair::between(
            plugin(&[("TCPXSOFT_FAULT", "close:after=1000")]),
            plugin(&[("TCPXSOFT_IO", io)]),
        );
        let (source, target) = (Buffer::new(5000, 1), Buffer::new(5000, 0));
        let send = pair.isend(source.pointer(), 5000).unwrap();
        let recv = pair.irecv(target.pointer(), 5000).unwrap();
        until("the first bytes", || {
            let _ = (test(send), test(recv).unwrap());
            (target.bytes(1000)[999] == 1).then_some(())
        });
        for _ in 0..1000 {
            assert_eq!(test(recv), Ok(false), "never an error, never done");
            assert_eq!(test(send), Ok(false));
        }
        assert_eq!(target.bytes(1001)[1000], 0);
        let lines = crate::log::take();
        let warned = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!(warned("WARN Call to socket op send(0) 127.0.0.1<"), 1);
        if io == "inline" {
            assert_eq!(
                warned("WARN Net : Connection closed by remote peer 127.0.0.1<"),
                1
            );
        }
        pair.close();
    }
}

#[test]
fn a_sender_whose_peer_is_gone_gets_code_two_and_then_silence() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    calls::close(pair.receiver).unwrap();
    let mut requests = Vec::new();
    let failed = until("the broken pipe", || {
        requests.extend(pair.isend(buffer.pointer(), 64));
        match test(*requests.first()?) {
            Ok(true) => drop(requests.remove(0)),
            Ok(false) => {}
            Err(failed) => return Some(failed),
        }
        None
    });
    assert_eq!(failed, BROKEN);
    logged("WARN Call to send failed, 127.0.0.1<");
    until("silence", || (test(requests[0]) == Ok(false)).then_some(()));
    assert_eq!(test(requests[0]), Ok(false));
    calls::close(pair.sender).unwrap();
}

#[test]
fn close_drops_outstanding_requests_and_logs_unconsumed_ones() {
    let pair = Pair::new(&[("TCPXSOFT_IO", "helper")]);
    let buffer = Buffer::new(1 << 20, 0);
    for _ in 0..16 {
        pair.isend(buffer.pointer(), 1 << 20).unwrap();
        pair.irecv(buffer.pointer(), 1 << 20).unwrap();
    }
    let recv = pair.irecv(buffer.pointer(), 0).unwrap_err();
    assert_eq!(recv.0, 3);
    pair.close();

    let pair = Pair::new(&[]);
    let recv = pair.irecv(buffer.pointer(), 64).unwrap();
    pair.finish(pair.isend(buffer.pointer(), 64).unwrap(), recv);
    calls::close(pair.receiver).unwrap();
    logged("WARN head 0 tail 1 some pages not yet freed?");
    calls::close(pair.sender).unwrap();
    logged("INFO Socket 0 total bytes: 64, passive = 0");
}

#[test]
fn slowness_is_reported_after_the_threshold() {
    let pair = Pair::new(&[("NCCL_GPUDIRECTTCPX_TIMEOUT_THRESHOLD_NS", "1000000")]);
    let buffer = Buffer::new(64, 0);
    let recv = pair.irecv(buffer.pointer(), 64).unwrap();
    until("a slowness line", || {
        assert_eq!(test(recv), Ok(false));
        let lines = crate::log::take();
        lines
            .iter()
            .any(|line| {
                line.contains(&format!(
                    "{recv:p}:{:p}, nic 0, lo, 127.0.0.1<",
                    pair.receiver
                )) && line.contains(" rx rx ctrl timeout cnt ")
            })
            .then_some(())
    });
    pair.close();
}

#[test]
fn a_receiver_that_does_not_poll_is_reported_by_the_sender() {
    let pair = Pair::new(&[
        ("NCCL_GPUDIRECTTCPX_TIMEOUT_THRESHOLD_NS", "1000000"),
        ("NCCL_DYNAMIC_CHUNK_SIZE", "0x2000000"),
    ]);
    let buffer = Buffer::new(32 << 20, 0);
    let send = pair.isend(buffer.pointer(), 32 << 20).unwrap();
    until("a slowness line", || {
        assert_eq!(test(send), Ok(false), "more than any socket buffer holds");
        let lines = crate::log::take();
        let text = " tx send timeout error 11, Resource temporarily unavailable: [";
        lines.iter().any(|line| line.contains(text)).then_some(())
    });
    pair.close();
}

#[test]
fn a_chunk_of_zero_moves_nothing_and_sends_no_headers() {
    let pair = Pair::between(plugin(&[("NCCL_DYNAMIC_CHUNK_SIZE", "0")]), plugin(&[]));
    let buffer = Buffer::new(64, 0);
    let (send, recv) = (
        pair.isend(buffer.pointer(), 64).unwrap(),
        pair.irecv(buffer.pointer(), 64).unwrap(),
    );
    for _ in 0..100 {
        assert_eq!((test(send), test(recv)), (Ok(false), Ok(false)));
    }
    pair.close();
}

#[test]
fn with_recv_sync_nothing_leaves_before_the_receiver_has_posted() {
    let pair = Pair::new(&[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")]);
    let (source, target) = (Buffer::new(64, 1), Buffer::new(64, 0));
    let send = pair.isend(source.pointer(), 64).unwrap();
    for _ in 0..100 {
        assert_eq!(test(send), Ok(false));
    }
    assert_eq!(request(send).offset, 0, "nothing was assigned");
    let recv = pair.irecv(target.pointer(), 64).unwrap();
    pair.finish(send, recv);
    assert_eq!(target.bytes(64), [1; 64]);
    pair.close();
}

#[test]
fn recv_sync_on_the_sender_only_stalls_forever() {
    let pair = Pair::between(
        plugin(&[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")]),
        plugin(&[]),
    );
    let buffer = Buffer::new(64, 0);
    let (send, recv) = (
        pair.isend(buffer.pointer(), 64).unwrap(),
        pair.irecv(buffer.pointer(), 64).unwrap(),
    );
    for _ in 0..100 {
        assert_eq!((test(send), test(recv)), (Ok(false), Ok(false)));
    }
    pair.close();
    assert_eq!(test(ptr::null_mut()), Err(crate::failed::REFUSED));
}

#[test]
fn a_send_is_done_before_the_receiver_has_posted_anything() {
    let pair = Pair::new(&[]);
    let (source, target) = (Buffer::new(64, 3), Buffer::new(64, 0));
    let send = pair.isend(source.pointer(), 64).unwrap();
    until("the send", || test(send).unwrap().then_some(()));
    let recv = pair.irecv(target.pointer(), 64).unwrap();
    until("the receive", || test(recv).unwrap().then_some(()));
    assert_eq!(target.bytes(64), [3; 64]);
    pair.close();
}

#[test]
fn more_headers_than_tasks_on_one_socket_wait_with_a_warning() {
    // The faults keep the sender from holding headers back, so eight headers arrive without
    // any payload.
    let pair = Pair::between(
        plugin(&[("TCPXSOFT_FAULT", "starve:socket=0,side=recv")]),
        plugin(&[("TCPXSOFT_FAULT", "starve:socket=0")]),
    );
    let buffer = Buffer::new(64, 0);
    let recvs: Vec<_> = (0..8)
        .map(|_| pair.irecv(buffer.pointer(), 8).unwrap())
        .collect();
    for _ in 0..8 {
        let send = pair.isend(buffer.pointer(), 8).unwrap();
        until("the send", || test(send).unwrap().then_some(()));
    }
    until("the warning", || {
        assert_eq!(test(recvs[0]), Ok(false));
        crate::log::take()
            .iter()
            .any(|line| line == "WARN No free space for recv task")
            .then_some(())
    });
    for _ in 0..1000 {
        assert_eq!(test(recvs[0]), Ok(false));
    }
    let more = crate::log::take().len();
    assert!(more <= 10, "{more} lines of 1000 polls");
    pair.close();
}
