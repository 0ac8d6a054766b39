//! What the plugin refuses, with which code and which words.

use super::pair::*;
use crate::failed::REFUSED;
use crate::log;
use std::ptr;

/// Whether this thread has logged `text` since the last call.
fn logged(text: &str) -> bool {
    log::take().iter().any(|line| line.contains(text))
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
    assert!(logged("WARN NET/TCPXSoft : unable to allocate requests"));
    assert_eq!(pair.irecv(buffer.pointer(), 64), Err(REFUSED));
    pair.close();
}

#[test]
fn a_null_request_is_refused() {
    assert_eq!(test(ptr::null_mut()), Err(REFUSED));
    assert!(logged("NET/TCPXSoft : test called with NULL request"));
    assert_eq!(consume(ptr::null_mut()), Err(REFUSED));
    assert!(logged("NET/TCPXSoft : irecvConsumed with null request"));
}
