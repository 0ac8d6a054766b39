//! Receives with the device stand-in: scatter lists, pages, and consuming too early.

use super::pair::*;
use crate::failed::REFUSED;
use crate::pages::POISON;
use tcpx_abi::unpack::{LoadMeta, UnpackHandle};

const STAND_IN: (&str, &str) = ("TCPXSOFT_CUDA", "standin");

/// The scatter list of a finished receive.
fn entries(recv: *mut std::ffi::c_void) -> Vec<LoadMeta> {
    let slot = request(recv).slot;
    // SAFETY: the slot's own count.
    let count = unsafe { *slot.cnt };
    // SAFETY: `count` published entries.
    unsafe { std::slice::from_raw_parts(slot.mem, count as usize) }.to_vec()
}

fn receive(pair: &Pair, source: &Buffer, target: &Buffer, size: usize) -> *mut std::ffi::c_void {
    let recv = pair.irecv_device(target.pointer(), size).unwrap();
    pair.finish(pair.isend(source.pointer(), size).unwrap(), recv);
    recv
}

#[test]
fn slots_are_used_in_turn_and_the_device_handle_points_to_them() {
    let pair = Pair::new(&[STAND_IN]);
    let (source, target) = (Buffer::new(10_000, 1), Buffer::new(10_000, 0));
    // SAFETY: the device handle that accept gave; host memory here.
    let handle = unsafe { &*pair.device.handle.cast::<UnpackHandle>() };
    assert_eq!(handle.head, !0);
    for number in 0..20 {
        let recv = receive(&pair, &source, &target, 10_000);
        let slot = request(recv).slot;
        assert_eq!((slot.active, slot.idx), (1, number % 16));
        // SAFETY: an address in the table, nothing is read.
        let first = unsafe { &raw mut (*handle.meta).mem[(number % 16) as usize][0] };
        assert_eq!(slot.mem, first);
        assert_eq!(
            entries(recv)
                .iter()
                .map(|entry| entry.len)
                .collect::<Vec<_>>(),
            [4096, 4096, 1808]
        );
        consume(recv).unwrap();
        assert_eq!(request(recv).slot.active, 0);
    }
    pair.close();
}

#[test]
fn pages_are_handed_out_shuffled() {
    let pair = Pair::new(&[STAND_IN]);
    let (source, target) = (Buffer::new(1 << 20, 1), Buffer::new(1 << 20, 0));
    let recv = receive(&pair, &source, &target, 1 << 20);
    let list = entries(recv);
    assert_eq!(list.len(), 256);
    let neighbours = list
        .windows(2)
        .filter(|pair| pair[1].src_off == pair[0].src_off + 4096)
        .count();
    assert!(
        neighbours < 32,
        "{neighbours} of 255 pages follow each other"
    );
    pair.close();
}

#[test]
fn with_several_sockets_entries_come_in_the_order_of_completion() {
    let pair = Pair::between(
        plugin(&[
            STAND_IN,
            ("NCCL_NSOCKS_PERTHREAD", "2"),
            ("TCPXSOFT_FAULT", "delay-ctrl:nth=99,ms=1"),
        ]),
        plugin(&[STAND_IN, ("NCCL_NSOCKS_PERTHREAD", "2")]),
    );
    let mut source = Buffer::new(262_144, 0);
    source
        .bytes_mut(262_144)
        .copy_from_slice(&pattern(262_144, 1));
    let target = Buffer::new(262_144, 0);
    let recv = receive(&pair, &source, &target, 262_144);
    let mut offsets: Vec<u64> = entries(recv).iter().map(|entry| entry.dst_off).collect();
    assert_eq!(pair.unpack(recv, target.pointer()), 262_144);
    assert!(target.bytes(262_144) == source.bytes(262_144));
    offsets.sort_unstable();
    assert_eq!(
        offsets,
        (0..64).map(|page| page * 4096).collect::<Vec<u64>>()
    );
    pair.close();
}

#[test]
fn reading_before_done_finds_nothing() {
    let pair = Pair::new(&[STAND_IN]);
    let (source, target) = (Buffer::new(300_000, 1), Buffer::new(300_000, 0));
    let recv = pair.irecv_device(target.pointer(), 300_000).unwrap();
    let send = pair.isend(source.pointer(), 300_000).unwrap();
    until("the first header", || {
        let _ = (test(send).unwrap(), test(recv).unwrap());
        (request(recv).slot.active == 1).then_some(())
    });
    if request(recv).size_pending > 0 {
        assert_eq!(entries(recv), []);
    }
    pair.close();
}

#[test]
fn consuming_before_unpacking_yields_provably_wrong_data() {
    let pair = Pair::new(&[STAND_IN]);
    let (source, target) = (Buffer::new(8192, 1), Buffer::new(8192, 0));
    let recv = receive(&pair, &source, &target, 8192);
    consume(recv).unwrap();
    assert_eq!(pair.unpack(recv, target.pointer()), 8192);
    assert_eq!(target.bytes(8192), [POISON; 8192]);
    pair.close();
}

#[test]
fn a_receive_that_is_consumed_without_its_bytes_is_told_on_demand() {
    let told = |settings: &[(&str, &str)], unpacked: usize| {
        let pair = Pair::new(settings);
        let (source, mut target) = (Buffer::new(9000, 1), Buffer::new(9000, 0));
        let recv = receive(&pair, &source, &target, 9000);
        let sent = source.bytes(unpacked);
        target.bytes_mut(unpacked).copy_from_slice(sent);
        crate::log::take();
        consume(recv).unwrap();
        let lines = crate::log::take();
        pair.close();
        lines
    };
    let check = [STAND_IN, ("TCPXSOFT_CHECK", "unpack")];
    assert_eq!(told(&check, 9000), Vec::<String>::new());
    assert_eq!(told(&[STAND_IN], 0), Vec::<String>::new());
    let half = told(&check, 4500);
    assert!(
        half[0]
            .starts_with("WARN NET/TCPXSoft : irecvConsumed of a receive whose destination differs from its pages: ")
            && half[0].contains(" of 9000 bytes at ")
            && half[0].contains("the first at 4500; receive 1 of this kind"),
        "{half:?}"
    );
}

#[test]
fn a_pool_whose_pages_never_come_back_starves_until_one_is_consumed() {
    let settings = [STAND_IN, ("TCPXSOFT_POOL_BYTES", "16384")];
    let pair = Pair::new(&settings);
    let (source, target) = (Buffer::new(16_384, 1), Buffer::new(32_768, 0));
    let first = receive(&pair, &source, &target, 16_384);
    let recv = pair.irecv_device(target.pointer(), 4096).unwrap();
    let send = pair.isend(source.pointer(), 4096).unwrap();
    for _ in 0..1000 {
        let _ = test(send);
        assert_eq!(test(recv), Ok(false));
    }
    consume(first).unwrap();
    until("the second", || test(recv).unwrap().then_some(()));
    pair.close();
}

#[test]
fn a_closed_comm_gives_its_pages_back() {
    let (sends, receives) = (
        plugin(&[STAND_IN]),
        plugin(&[STAND_IN, ("TCPXSOFT_POOL_BYTES", "1048576")]),
    );
    let (source, target) = (Buffer::new(200_000, 1), Buffer::new(200_000, 0));
    let pair = Pair::between(sends, receives);
    assert_eq!(receives.pool().unwrap().free(), 256);
    receive(&pair, &source, &target, 200_000);
    let half = pair.irecv_device(target.pointer(), 200_000).unwrap();
    pair.isend(source.pointer(), 200_000).unwrap();
    assert!(receives.pool().unwrap().free() < 256);
    let _ = test(half);
    pair.close();
    assert_eq!(receives.pool().unwrap().free(), 256);
}

#[test]
fn more_pages_than_a_slot_has_entries_are_refused() {
    let pair = Pair::new(&[
        STAND_IN,
        ("NCCL_DYNAMIC_CHUNK_SIZE", "512"),
        ("NCCL_NSOCKS_PERTHREAD", "8"),
    ]);
    let size = 2050 * 512;
    let (source, target) = (Buffer::new(size, 1), Buffer::new(size, 0));
    let recv = pair.irecv_device(target.pointer(), size).unwrap();
    let send = pair.isend(source.pointer(), size).unwrap();
    let refused = until("too many pages", || {
        let _ = test(send);
        test(recv).err()
    });
    assert_eq!(refused, REFUSED);
    logged("WARN request too many pages 2049, failstop");
    pair.close();
}

#[test]
fn a_receive_outside_its_registration_is_refused() {
    let pair = Pair::new(&[STAND_IN]);
    let buffer = Buffer::new(8192, 0);
    let mhandle =
        crate::calls::register(pair.receiver, buffer.pointer(), 4096, tcpx_abi::PTR_CUDA).unwrap();
    // SAFETY: our comm and mhandle.
    let posted = unsafe {
        crate::calls::post(
            crate::fault::Side::Recv,
            pair.receiver,
            crate::calls::Given {
                data: buffer.pointer(),
                size: 4097,
                tag: 0,
                mhandle,
            },
        )
    };
    assert_eq!(posted, Err(REFUSED));
    pair.close();
}
