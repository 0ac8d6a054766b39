//! Lines that coordinator, agent and worker receive from each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_coord::fuzzing::lines(data));
