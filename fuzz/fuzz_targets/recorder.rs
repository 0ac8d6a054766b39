//! Recorder files, and the views of their contents.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(snapshot) = tcpx_recorder::fuzzing::file(data) {
        let shown = tcpx_run_model::counters::sample::channels(&snapshot, u64::MAX);
        assert!(shown.len() <= snapshot.channels.len());
    }
});
