//! Scatter lists, as a plugin publishes them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_engine::gpu::fuzzing::list(data));
