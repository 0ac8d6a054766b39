//! What coordinator, agent and worker hear from one another.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_coord::fuzzing::lines(data));
