//! Texts and files that are redacted.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_node::redact::fuzzing::bytes(data));
