//! Bytes that a stranger sends to the software plugin's sockets, and foreign connect handles.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_soft::fuzzing::wire(data));
