//! The files of a run, which are judged and rendered.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_report::fuzzing::run(data, tcpx_diagnose::findings_from_files));
