//! NCCL's syntax for choosing interfaces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nccl_net_tcpxsoft::fuzzing::interfaces(data));
