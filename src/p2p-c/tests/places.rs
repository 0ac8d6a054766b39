//! Results without a place are refused before something is taken out of a queue for them.
#![expect(unsafe_code, reason = "sets a variable before the first endpoint")]

use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};
use tcpxp2p::operations::{tcpxp2p_notification, tcpxp2p_notify, tcpxp2p_wait};
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
