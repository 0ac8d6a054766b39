//! Messages arrive complete in every mode.

use super::pair::*;
use crate::block;
use crate::plugin::Plugin;

const SIZES: [usize; 8] = [0, 1, 4095, 4096, 4097, 131_073, 512 << 10, (1 << 20) + 1];

/// Moves one message of every size, one at a time.
fn transfer(pair: &Pair, device: bool) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let mut source = Buffer::new(size, 0);
        source
            .bytes_mut(size)
            .copy_from_slice(&pattern(size, seed as u8));
        let target = Buffer::new(size, 0x55);
        let send = pair.isend(source.pointer(), size).unwrap();
        let recv = if device && size > 0 {
            pair.irecv_device(target.pointer(), size).unwrap()
        } else {
            pair.irecv(target.pointer(), size).unwrap()
        };
        pair.finish(send, recv);
        if device && size > 0 {
            assert_eq!(
                target.bytes(size),
                vec![0x55; size],
                "nothing arrives before it is unpacked"
            );
            assert_eq!(pair.unpack(recv, target.pointer()), size);
        }
        assert_eq!(request(recv).size as usize, size);
        consume(recv).unwrap();
        assert!(
            target.bytes(size) == source.bytes(size),
            "{size} bytes differ"
        );
        assert_eq!(
            target.bytes(size + 16)[size..],
            [0x55; 16],
            "written behind {size} bytes"
        );
    }
}

#[test]
fn every_size_over_every_number_of_sockets_arrives_in_place() {
    for sockets in 1..=8 {
        let pair = Pair::new(&[("NCCL_NSOCKS_PERTHREAD", &sockets.to_string())]);
        transfer(&pair, false);
        pair.close();
    }
}

#[test]
fn helper_threads_move_the_same_bytes() {
    for (threads, sockets) in [
        ("1", "1"),
        ("1", "3"),
        ("1", "8"),
        ("3", "2"),
        ("4", "1"),
        ("2", "4"),
    ] {
        let pair = Pair::new(&[
            ("NCCL_SOCKET_NTHREADS", threads),
            ("NCCL_NSOCKS_PERTHREAD", sockets),
            ("TCPXSOFT_IO", "helper"),
        ]);
        transfer(&pair, false);
        pair.close();
    }
}

#[test]
fn device_receives_unpack_to_the_same_bytes() {
    for io in ["inline", "helper"] {
        for sockets in ["1", "4"] {
            let pair = Pair::new(&[
                ("NCCL_NSOCKS_PERTHREAD", sockets),
                ("TCPXSOFT_CUDA", "standin"),
                ("TCPXSOFT_IO", io),
            ]);
            transfer(&pair, true);
            pair.close();
        }
    }
}

/// A window of messages of mixed sizes, posted as fast as the slots allow.
fn window(sends: &'static Plugin, receives: &'static Plugin, count: usize) {
    let pair = Pair::between(sends, receives);
    let size = |message: usize| (message * 7919) % 9000;
    let sources: Vec<Vec<u8>> = (0..count)
        .map(|message| pattern(size(message), message as u8))
        .collect();
    let targets: Vec<Buffer> = (0..count).map(|_| Buffer::new(9000, 0)).collect();
    let (mut posted, mut sends, mut recvs) = ((0, 0), Vec::new(), Vec::new());
    let (mut sent, mut received) = (0, 0);
    until("the window", || {
        while posted.0 < count && posted.0 - sent < 16 {
            sends.push(
                pair.isend(sources[posted.0].as_ptr().cast_mut().cast(), size(posted.0))
                    .unwrap(),
            );
            posted.0 += 1;
        }
        while posted.1 < count && posted.1 - received < 16 {
            recvs.push(pair.irecv(targets[posted.1].pointer(), 9000).unwrap());
            posted.1 += 1;
        }
        if sent < count && test(sends[sent]).unwrap() {
            sent += 1;
        }
        if received < count && test(recvs[received]).unwrap() {
            assert_eq!(request(recvs[received]).size as usize, size(received));
            consume(recvs[received]).unwrap();
            received += 1;
        }
        (received == count).then_some(())
    });
    for message in 0..count {
        assert!(
            targets[message].bytes(size(message)) == sources[message],
            "message {message} differs"
        );
    }
    pair.close();
}

#[test]
fn a_full_window_of_mixed_messages_stays_in_order() {
    for settings in [
        &[][..],
        &[("NCCL_NSOCKS_PERTHREAD", "4")],
        &[("TCPXSOFT_IO", "helper")],
        &[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")],
        &[("NCCL_INLINE_THRESHOLD", "2048")],
    ] {
        window(plugin(settings), plugin(settings), 400);
    }
}

#[test]
fn a_window_of_small_messages_leaves_together() {
    for inline in ["0", "64"] {
        let pair = Pair::new(&[("NCCL_INLINE_THRESHOLD", inline)]);
        let source = Buffer::new(64, 7);
        let sends: Vec<_> = (0..16)
            .map(|_| pair.isend(source.pointer(), 64).unwrap())
            .collect();
        // Each test promotes one request, and the last one sends all.
        let first: Vec<_> = (0..16).map(|_| test(sends[0]).unwrap()).collect();
        assert_eq!(first, [[false; 15].as_slice(), &[true]].concat());
        for send in &sends[1..] {
            assert_eq!(test(*send), Ok(true));
        }
        let targets: Vec<_> = (0..16).map(|_| Buffer::new(64, 0)).collect();
        let recvs: Vec<_> = targets
            .iter()
            .map(|target| pair.irecv(target.pointer(), 64).unwrap())
            .collect();
        for (recv, target) in recvs.iter().zip(&targets) {
            until("the receive", || test(*recv).unwrap().then_some(()));
            assert_eq!(target.bytes(64), [7; 64]);
            consume(*recv).unwrap();
        }
        pair.close();
    }
}

#[test]
fn a_large_message_is_not_held_back_for_the_small_one_behind_it() {
    for inline in ["0", "64"] {
        let pair = Pair::new(&[
            ("NCCL_INLINE_THRESHOLD", inline),
            ("NCCL_DYNAMIC_CHUNK_SIZE", "524288"),
        ]);
        let source = Buffer::new(512 << 10, 7);
        let large = pair.isend(source.pointer(), 512 << 10).unwrap();
        pair.isend(source.pointer(), 64).unwrap();
        test(large).unwrap();
        // SAFETY: a comm of ours, which no other thread uses.
        let sender = unsafe { block::comm(pair.sender) }.unwrap();
        assert_eq!((sender.held_bytes, sender.flushed), (0, 1));
        pair.close();
    }
}

#[test]
fn messages_of_64_kib_leave_eight_at_a_time() {
    let pair = Pair::new(&[("NCCL_DYNAMIC_CHUNK_SIZE", "524288")]);
    let source = Buffer::new(64 << 10, 7);
    let sends: Vec<_> = (0..16)
        .map(|_| pair.isend(source.pointer(), 64 << 10).unwrap())
        .collect();
    let held = || {
        // SAFETY: a comm of ours, which no other thread uses.
        let sender = unsafe { block::comm(pair.sender) }.unwrap();
        (sender.held_bytes >> 10, sender.flushed)
    };
    for number in 1..8 {
        assert_eq!(test(sends[0]), Ok(false));
        assert_eq!(held(), (64 * number, 0));
    }
    test(sends[0]).unwrap();
    assert_eq!(held(), (0, 8));
    pair.close();
}
