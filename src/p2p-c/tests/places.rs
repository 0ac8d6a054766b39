//! Results without a place are refused before something is taken out of a queue for them, and lengths that
//! cannot be before anything is read.
#![expect(
    unsafe_code,
    reason = "sets a variable before the first endpoint, and forks"
)]

use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};
use tcpxp2p::operations::{
    Piece, tcpxp2p_deregister, tcpxp2p_notification, tcpxp2p_notify, tcpxp2p_read,
    tcpxp2p_register, tcpxp2p_wait,
};
use tcpxp2p::result::{TCPXP2P_DONE, TCPXP2P_USAGE, tcpxp2p_last_error};
use tcpxp2p::{
    Handle, Options, tcpxp2p_accept, tcpxp2p_connect, tcpxp2p_create, tcpxp2p_destroy,
    tcpxp2p_metadata,
};

const AMPLE_MS: u64 = 30_000;

fn endpoint() -> *mut Handle {
    let options = Options {
        size: size_of::<Options>(),
        name: null(),
        plugin: c"builtin".as_ptr(),
        address: c"127.0.0.1".as_ptr(),
        secret_file: null(),
        chunk: 0,
        lanes: 1,
        port: 0,
        gpu: null(),
    };
    let mut made = null_mut();
    done(tcpxp2p_create(&options, &mut made));
    made
}

fn words() -> String {
    // SAFETY: valid until the thread's next failure.
    let words = unsafe { CStr::from_ptr(tcpxp2p_last_error()) };
    words.to_string_lossy().into_owned()
}

#[track_caller]
fn done(result: c_int) {
    assert_eq!(result, TCPXP2P_DONE, "{}", words());
}

#[track_caller]
fn null_pointer(result: c_int, name: &str) {
    assert_eq!(result, TCPXP2P_USAGE);
    assert_eq!(words(), format!("{name} is a null pointer"));
}

#[test]
fn a_missing_place_loses_no_connection_and_no_notification() {
    // SAFETY: before the first endpoint of this process, which has no other thread that looks.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    let (one, other) = (endpoint(), endpoint());
    let (mut metadata, mut len) = ([0; 4096], 0);
    done(tcpxp2p_metadata(
        other,
        metadata.as_mut_ptr(),
        metadata.len(),
        &mut len,
    ));
    let (mut there, mut here, mut transfer) = (0, 0, 0);
    let connect = |place| tcpxp2p_connect(one, metadata.as_ptr(), len, place);
    null_pointer(connect(null_mut()), "connection");
    done(connect(&mut there));
    null_pointer(tcpxp2p_accept(other, AMPLE_MS, null_mut()), "connection");
    done(tcpxp2p_accept(other, AMPLE_MS, &mut here));
    done(tcpxp2p_notify(
        one,
        there,
        b"ready".as_ptr(),
        5,
        &mut transfer,
    ));
    done(tcpxp2p_wait(one, transfer, AMPLE_MS));
    let mut buffer = vec![0; 65536];
    let bytes = buffer.as_mut_ptr();
    let (mut from, mut len) = (0, 0);
    let heard = |from, bytes, len| tcpxp2p_notification(other, AMPLE_MS, from, bytes, 65536, len);
    null_pointer(heard(null_mut(), bytes, &mut len), "connection");
    null_pointer(heard(&mut from, null_mut(), &mut len), "buffer");
    null_pointer(heard(&mut from, bytes, null_mut()), "len");
    done(heard(&mut from, bytes, &mut len));
    assert_eq!((from, &buffer[..len]), (here, &b"ready"[..]));
    for endpoint in [one, other] {
        done(tcpxp2p_destroy(endpoint));
    }
}

fn alone() -> *mut Handle {
    // SAFETY: before the first endpoint of this process, which has no other thread that looks.
    unsafe { std::env::set_var("TCPXSOFT_SOCKET_IFNAME", "lo") };
    endpoint()
}

#[track_caller]
fn usage(result: c_int, said: &str) {
    assert_eq!(result, TCPXP2P_USAGE, "{}", words());
    assert!(words().contains(said), "{}", words());
}

#[test]
fn lengths_that_cannot_be_are_refused_before_anything_is_read() {
    let one = alone();
    let mut transfer = 0;
    let byte = [0u8; 1];
    for len in [usize::MAX, isize::MAX as usize + 1] {
        let result = tcpxp2p_notify(one, 1, byte.as_ptr(), len, &mut transfer);
        usage(result, "more than memory holds");
        let result = tcpxp2p_connect(one, byte.as_ptr(), len, &mut transfer);
        usage(result, "more than memory holds");
    }
    let pieces = byte.as_ptr().cast::<Piece>();
    for count in [usize::MAX, 1 << 60, 4097] {
        let result = tcpxp2p_read(one, 1, pieces, count, &mut transfer);
        usage(result, "pieces: 1 to 4096 are possible");
    }
    let odd = std::ptr::without_provenance(17);
    usage(
        tcpxp2p_read(one, 1, odd, 1, &mut transfer),
        "pieces is not pointer-aligned",
    );
    let everything = usize::MAX;
    let buffer = byte.as_ptr().cast_mut().cast();
    let result = tcpxp2p_register(one, buffer, everything, &mut transfer);
    assert_eq!(result, TCPXP2P_USAGE, "{}", words());
    done(tcpxp2p_destroy(one));
}

/// What the parent's threads do for an endpoint, nothing does in a fork.
#[test]
fn a_fork_is_told_that_the_endpoint_is_its_parents_and_may_destroy_its_copy() {
    let one = alone();
    let mut memory = [0u8; 64];
    let mut number = 0;
    done(tcpxp2p_register(
        one,
        memory.as_mut_ptr().cast(),
        64,
        &mut number,
    ));
    // SAFETY: the child calls this library and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut transfer = 0;
        let told = [
            tcpxp2p_deregister(one, number),
            tcpxp2p_notify(one, 1, b"x".as_ptr(), 1, &mut transfer),
            tcpxp2p_accept(one, AMPLE_MS, &mut transfer),
        ];
        let is_told = told.iter().all(|result| *result == TCPXP2P_USAGE);
        let has_words = words().contains("fork");
        let is_over = tcpxp2p_destroy(one) == TCPXP2P_DONE;
        let code = c_int::from(!(is_told && has_words && is_over));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: `status` is ours to write.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((ended, status), (child, 0));
    // The parent's endpoint is as before.
    done(tcpxp2p_deregister(one, number));
    done(tcpxp2p_destroy(one));
}
