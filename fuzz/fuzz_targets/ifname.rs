//! NCCL's syntax for choosing interfaces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_soft::fuzzing::interfaces(data));
