//! What another endpoint sends or hands over: metadata, blobs and messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_p2p::fuzzing::control(data));
