//! Refused calls: their codes and log lines.

use super::pair::*;
use crate::calls;
use crate::failed::REFUSED;
use crate::fault::Side;
use std::ffi::c_void;
use std::ptr;
use tcpx_abi::{PTR_CUDA, PTR_DMABUF, PTR_HOST};

fn post(
    side: Side,
    comm: *mut c_void,
    data: *mut c_void,
    size: i32,
    mhandle: *mut c_void,
) -> Posted {
    // SAFETY: comms and mhandles of this test, or null, or memory of ours.
    unsafe {
        calls::post(
            side,
            comm,
            calls::Given {
                data,
                size,
                tag: 0,
                mhandle,
            },
        )
    }
}

#[test]
fn the_seventeenth_request_is_refused_on_both_sides() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    for _ in 0..16 {
        pair.isend(buffer.pointer(), 64).unwrap();
        pair.irecv(buffer.pointer(), 64).unwrap();
    }
    assert_eq!(pair.isend(buffer.pointer(), 64), Err(REFUSED));
    logged("WARN NET/TCPXSoft : unable to allocate requests");
    assert_eq!(pair.irecv(buffer.pointer(), 64), Err(REFUSED));
    pair.close();
}

#[test]
fn sixteen_finished_receives_that_are_not_consumed_fill_the_queue() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let requests: Vec<_> = (0..16)
        .map(|_| {
            let recv = pair.irecv(buffer.pointer(), 64).unwrap();
            pair.finish(pair.isend(buffer.pointer(), 64).unwrap(), recv);
            recv
        })
        .collect();
    assert_eq!(pair.irecv(buffer.pointer(), 64), Err(REFUSED));
    consume(requests[0]).unwrap();
    assert_eq!(
        pair.irecv(buffer.pointer(), 64),
        Ok(requests[0]),
        "pointers repeat every sixteen"
    );
    pair.close();
}

#[test]
fn null_pointers_are_refused() {
    let null = ptr::null_mut();
    assert_eq!(test(null), Err(REFUSED));
    logged("NET/TCPXSoft : test called with NULL request");
    assert_eq!(consume(null), Err(REFUSED));
    logged("NET/TCPXSoft : irecvConsumed with null request");
    assert_eq!(calls::register(null, null, 1, PTR_HOST), Err(REFUSED));
    logged("NET/TCPXSoft: regMr called with NULL communicator.");
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    assert_eq!(
        post(Side::Send, null, buffer.pointer(), 8, null),
        Err(REFUSED)
    );
    assert_eq!(
        post(Side::Send, pair.sender, buffer.pointer(), 0, null),
        Err(REFUSED),
        "also for no bytes"
    );
    logged("NET/TCPXSoft : mhandle is null");
    assert_eq!(pair.isend(null, 8), Err(REFUSED));
    assert_eq!(calls::close(null), Ok(()));
    assert_eq!(calls::unlisten(null), Ok(()));
    pair.close();
}

#[test]
fn unknown_pointers_are_refused() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(8192, 0);
    let mhandle = calls::register(pair.sender, buffer.pointer(), 64, PTR_HOST).unwrap();
    assert_eq!(
        post(Side::Send, buffer.pointer(), buffer.pointer(), 8, mhandle),
        Err(REFUSED)
    );
    assert_eq!(
        post(
            Side::Send,
            pair.sender,
            buffer.pointer(),
            8,
            buffer.pointer()
        ),
        Err(REFUSED)
    );
    assert_eq!(test(buffer.pointer()), Err(REFUSED));
    assert_eq!(consume(buffer.pointer()), Err(REFUSED));
    assert_eq!(calls::close(buffer.pointer()), Err(REFUSED));
    assert_eq!(calls::unlisten(pair.sender), Err(REFUSED));
    assert_eq!(
        calls::register(buffer.pointer(), buffer.pointer(), 8, PTR_HOST),
        Err(REFUSED)
    );
    pair.close();
}

#[test]
fn a_request_for_the_other_side_of_a_comm_is_refused() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let mhandle = calls::register(pair.sender, buffer.pointer(), 64, PTR_HOST).unwrap();
    assert_eq!(
        post(Side::Recv, pair.sender, buffer.pointer(), 8, mhandle),
        Err(REFUSED)
    );
    assert_eq!(
        post(Side::Send, pair.receiver, buffer.pointer(), 8, mhandle),
        Err(REFUSED)
    );
    assert_eq!(
        post(Side::Send, pair.sender, buffer.pointer(), -1, mhandle),
        Err(REFUSED)
    );
    pair.close();
}

#[test]
fn the_wrong_request_is_refused_only_once_an_older_one_transmits() {
    let pair = Pair::new(&[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")]);
    let buffer = Buffer::new(64, 0);
    let first = pair.isend(buffer.pointer(), 64).unwrap();
    let second = pair.isend(buffer.pointer(), 64).unwrap();
    // The receiver has posted nothing, so neither send leaves POSTED.
    assert_eq!(test(second), Ok(false));
    let recv = pair.irecv(buffer.pointer(), 64).unwrap();
    let refused = until("the first transmits", || {
        let _ = test(recv);
        test(second).err()
    });
    assert_eq!(refused, REFUSED);
    logged(&format!(
        "WARN NET/TCPXSoft : test called with invalid request, send 1, r {second:p}, ni {first:p}"
    ));
    pair.finish(first, recv);
    pair.close();
}

#[test]
fn testing_a_finished_receive_again_says_not_done() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let recv = pair.irecv(buffer.pointer(), 64).unwrap();
    pair.finish(pair.isend(buffer.pointer(), 64).unwrap(), recv);
    assert_eq!(test(recv), Ok(false));
    pair.close();
}

#[test]
fn every_wrong_consume_is_refused_with_its_own_log_line() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let send = pair.isend(buffer.pointer(), 64).unwrap();
    let [first, second, third] = [(); 3].map(|()| pair.irecv(buffer.pointer(), 64).unwrap());

    assert_eq!(consume(send), Ok(()), "a send is left alone");
    logged(&format!("irecvConsumed called for send request {send:p}"));

    assert_eq!(consume(first), Err(REFUSED));
    logged(&format!(
        "irecvConsumed called with r {first:p} ->size 64 inactive unpack slot"
    ));

    until("the first header", || {
        let _ = (test(send), test(third));
        (request(first).slot.active == 1).then_some(())
    });
    assert_eq!(consume(first), Err(REFUSED));
    logged(&format!(
        "irecvConsumed called with {first:p} when no inactive request"
    ));

    until("the first arrives", || test(first).unwrap().then_some(()));
    pair.finish(pair.isend(buffer.pointer(), 64).unwrap(), second);
    assert_eq!(consume(second), Err(REFUSED));
    // As in TCPX, the two requests are printed in the wrong order.
    logged(&format!(
        "irecvConsumed called with invalid request {first:p} vs expected {second:p}"
    ));

    consume(first).unwrap();
    consume(second).unwrap();
    assert_eq!(consume(second), Err(REFUSED));
    // SAFETY: a request of ours.
    assert_eq!(unsafe { calls::consumed(2, third) }, Err(REFUSED));
    pair.close();
}

#[test]
fn consuming_a_zero_byte_receive_consumes_the_oldest_unchecked() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(64, 0);
    let recvs = [64, 0].map(|size| {
        let recv = pair.irecv(buffer.pointer(), size).unwrap();
        pair.finish(pair.isend(buffer.pointer(), size).unwrap(), recv);
        recv
    });
    assert_eq!(consume(recvs[1]), Ok(()));
    assert_eq!(consume(recvs[0]), Err(REFUSED), "it was the one that went");
    pair.close();
}

#[test]
fn a_sender_longer_than_the_receive_is_refused_without_a_byte_written() {
    let pair = Pair::new(&[]);
    let (source, target) = (Buffer::new(128, 1), Buffer::new(128, 2));
    let send = pair.isend(source.pointer(), 101).unwrap();
    let recv = pair.irecv(target.pointer(), 100).unwrap();
    for _ in 0..2 {
        let refused = until("the header", || {
            let _ = test(send);
            test(recv).err()
        });
        assert_eq!(refused, REFUSED);
        logged("NET/TCPXSoft : sender has 101 bytes for a receive of 100");
    }
    assert_eq!(target.bytes(128), [2; 128]);
    pair.close();
}

#[test]
fn a_shorter_message_shrinks_the_receive() {
    let pair = Pair::new(&[]);
    let (source, target) = (Buffer::new(64, 1), Buffer::new(128, 2));
    let recv = pair.irecv(target.pointer(), 128).unwrap();
    assert_eq!((request(recv).size, request(recv).size_pending), (128, -1));
    pair.finish(pair.isend(source.pointer(), 40).unwrap(), recv);
    assert_eq!((request(recv).size, request(recv).size_pending), (40, 0));
    assert_eq!(target.bytes(41)[39..], [1, 2]);
    pair.close();
}

#[test]
fn registration_accepts_two_kinds_and_checks_alignment() {
    let pair = Pair::new(&[("TCPXSOFT_CUDA", "standin")]);
    let buffer = Buffer::new(8192, 0);
    let odd = buffer.pointer().wrapping_byte_add(8);
    assert!(calls::register(pair.sender, odd, 0, PTR_HOST).is_ok());
    assert!(calls::register(pair.sender, buffer.pointer(), 4096, PTR_CUDA).is_ok());
    assert_eq!(
        calls::register(pair.sender, odd, 4096, PTR_CUDA),
        Err(REFUSED)
    );
    logged(&format!("data not aligned: {odd:p} vs 0x000000004096"));
    assert_eq!(
        calls::register(pair.sender, odd, 64, PTR_DMABUF),
        Err(REFUSED)
    );
    logged("unknown mem type 4");
    pair.close();
}

#[test]
fn device_memory_without_the_stand_in_is_refused() {
    let pair = Pair::new(&[]);
    let buffer = Buffer::new(8192, 0);
    assert_eq!(
        calls::register(pair.sender, buffer.pointer(), 4096, PTR_CUDA),
        Err(REFUSED)
    );
    logged("gpu_tx_reg_mr failed -5");
    assert_eq!(pair_properties(&[]).ptr_support, PTR_HOST);
    assert_eq!(
        pair_properties(&[("TCPXSOFT_CUDA", "standin")]).ptr_support,
        PTR_HOST | PTR_CUDA
    );
    pair.close();
}

fn pair_properties(pairs: &[(&str, &str)]) -> tcpx_abi::v7::Properties {
    plugin(pairs).properties(0).unwrap()
}

#[test]
fn a_device_index_is_checked() {
    let plugin = plugin(&[]);
    for device in [-1, 1, i32::MAX] {
        assert!(plugin.properties(device).is_err());
        let mut handle = [0u8; 128];
        // SAFETY: 128 bytes of ours.
        let listened = unsafe { calls::listen_on(plugin, device, handle.as_mut_ptr().cast()) };
        assert_eq!(listened, Err(REFUSED));
    }
    let properties = plugin.properties(0).unwrap();
    assert_eq!(
        (
            properties.max_recvs,
            properties.speed,
            properties.net_device_version
        ),
        (1, 10_000, 7)
    );
    assert!(properties.pci_path.is_null(), "loopback has no hardware");
    logged("Could not get speed from /sys/class/net/lo/speed. Defaulting to 10 Gbps.");
}
