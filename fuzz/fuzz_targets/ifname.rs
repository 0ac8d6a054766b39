//! Lists of interfaces in NCCL's syntax.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_soft::fuzzing::interfaces(data));
