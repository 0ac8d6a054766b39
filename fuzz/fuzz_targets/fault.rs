//! The grammar of `TCPXSOFT_FAULT`, and what its plans answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_soft::fuzzing::fault(data));
