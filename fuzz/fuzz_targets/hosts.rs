//! Lists of hosts, in the format of `node_ips/`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_run_model::scenario::fuzzing::hosts(data));
