//! The grammar of `TCPXSOFT_FAULT`, and the answers of its fault plans.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_soft::fuzzing::fault(data));
