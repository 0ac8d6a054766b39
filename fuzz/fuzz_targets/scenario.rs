//! A scenario file, `TCPXCTL_SET` and flags, or a scenario shipped as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_run_model::scenario::fuzzing::texts(data));
