//! Log files, compressed ones, the plugin's telemetry, and files of signatures.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_logs::fuzzing::bytes(data));
