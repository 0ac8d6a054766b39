//! Frames that a stranger or an authenticated peer sends to a worker's bootstrap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_bootstrap::fuzzing::bytes(data));
