//! What a stranger sends to the software plugin's sockets, and a foreign handle.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nccl_net_tcpxsoft::fuzzing::wire(data));
