//! Bundles of unknown origin.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_run_model::record::fuzzing::archive(data));
