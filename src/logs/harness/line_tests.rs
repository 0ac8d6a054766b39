//! Lines of the programs, and what each of them says.

use super::line::*;
use proptest::prelude::*;

fn read(message: &[u8]) -> Option<Line> {
    Reading::of(message)?.line(message)
}

fn check(
    text: &str,
    role: Option<HarnessRole>,
    gpu: Option<u32>,
    channel: Option<u32>,
    event: Event,
) {
    let expected = Line {
        role,
        gpu,
        channel,
        event,
    };
    assert_eq!(read(text.as_bytes()), Some(expected), "{text}");
}

const SERVER: Option<HarnessRole> = Some(HarnessRole::Server);
const CLIENT: Option<HarnessRole> = Some(HarnessRole::Client);

#[test]
fn lines_of_the_single_process_program_are_read() {
    let chunk = |window| Event::Chunk { chunk: 16, window };
    check(
        "[DEBUG] GPU 0 chunk 16 → channel 3 (window size=16/16)",
        None,
        Some(0),
        Some(3),
        chunk(Some((16, 16))),
    );
    let calls = Event::Calls { chunk: Some(5) };
    check(
        "[DEBUG] GPU 2 chunk 5 calling tcpx_irecv (size=524288, tag=47)...",
        SERVER,
        Some(2),
        None,
        calls,
    );
    check(
        "[DEBUG] GPU 2 chunk 5 tcpx_irecv returned, request=0x7f00",
        SERVER,
        Some(2),
        None,
        Event::Returned,
    );
    check(
        "[DEBUG] GPU 0 channel 1 window FULL, trying to release oldest...",
        None,
        Some(0),
        Some(1),
        Event::Full(None),
    );
    let test = Event::Test {
        rc: 0,
        done: false,
        chunk: Some(7),
    };
    check(
        "[DEBUG][SlidingWindow] tcpx_test: chunk_idx=7 rc=0 done=0 size=0 is_recv=1",
        SERVER,
        None,
        None,
        test,
    );
    let drains = Event::Drains { pending: Some(16) };
    check(
        "[SERVER] Draining GPU 1 channel 0 (16 pending)",
        SERVER,
        Some(1),
        Some(0),
        drains,
    );
    check(
        "[SERVER] All receives posted, starting drain phase",
        SERVER,
        None,
        None,
        Event::AllPosted,
    );
    let ends = Event::IterationEnds {
        iteration: 3,
        ms: 182.5,
    };
    check(
        "[CLIENT] Iteration 3 completed in 182.5 ms, bandwidth: 2.74 GB/s",
        CLIENT,
        None,
        None,
        ends,
    );
    let begins = Event::IterationBegins {
        iteration: 0,
        bytes: None,
        chunk_bytes: None,
    };
    check(
        "[CLIENT] ===== Iteration 0 =====",
        CLIENT,
        None,
        None,
        begins,
    );
    check(
        "[CLIENT] ===== Performance Summary =====",
        CLIENT,
        None,
        None,
        Event::Other,
    );
    check(
        "[CLIENT] Waiting 10 seconds for server to post receives...",
        CLIENT,
        None,
        None,
        Event::Step(Step::WaitsForPosts),
    );
    check(
        "[INFO] Test completed successfully",
        None,
        None,
        None,
        Event::Ends,
    );
}

#[test]
fn lines_of_the_program_per_gpu_are_read() {
    check("[PERF] Mode: SERVER", SERVER, None, None, Event::Starts);
    check(
        "[PERF] GPU ID: 3",
        None,
        None,
        None,
        Event::Setting(SettingKind::Gpu, 3),
    );
    check(
        "[PERF] Iterations: 20",
        None,
        None,
        None,
        Event::Setting(SettingKind::Iterations, 20),
    );
    let begins = Event::IterationBegins {
        iteration: 1,
        bytes: Some(67_108_864),
        chunk_bytes: Some(524_288),
    };
    check(
        "[PERF] Iteration 1: total bytes=67108864, chunk_bytes=524288",
        None,
        None,
        None,
        begins,
    );
    let chunk = Event::Chunk {
        chunk: 9,
        window: Some((2, 16)),
    };
    check(
        "[DEBUG][SERVER] chunk=9 channel=1 tag=108 size=524288 offset=4718592 outstanding=2/16",
        SERVER,
        None,
        Some(1),
        chunk,
    );
    let full = Event::FullOfDone(Some((16, 16)));
    check(
        "[DEBUG] Channel 0 sliding window FULL (4+12/16), waiting for chunk 3 kernel to complete...",
        None,
        None,
        Some(0),
        full,
    );
    check(
        "[DEBUG][CLIENT] Channel 0 send window FULL (12/12), waiting for oldest send",
        CLIENT,
        None,
        Some(0),
        Event::Full(Some((12, 12))),
    );
    check(
        "[DEBUG][CLIENT] Still waiting for oldest send (poll_count=3000)",
        CLIENT,
        None,
        None,
        Event::StillWaits(3000),
    );
    check(
        "[DEBUG][CLIENT] Oldest send completed after 4 polls, sent_size=0",
        CLIENT,
        None,
        None,
        Event::Done,
    );
    let failed = Event::Fails(Failure::Test {
        rc: 2,
        done: false,
        chunk: Some(124),
    });
    check(
        "[ERROR] tcpx_test failed (rc=2, done=0) for channel 0 chunk 124",
        None,
        None,
        Some(0),
        failed,
    );
    let refused = Event::Fails(Failure::Post {
        rc: Some(3),
        chunk: Some(16),
    });
    check(
        "[ERROR] tcpx_irecv failed: rc=3 chunk=16 channel=0",
        SERVER,
        None,
        Some(0),
        refused,
    );
    check(
        "[PERF] Iter 3 time=22.45 ms, kernel_time=1 ms (4%), launches=128, avg_kernel=9 us",
        None,
        None,
        None,
        Event::IterationEnds {
            iteration: 3,
            ms: 22.45,
        },
    );
    check(
        "[PERF] Iter 3 time=22.45ms",
        None,
        None,
        None,
        Event::IterationEnds {
            iteration: 3,
            ms: 22.45,
        },
    );
    check(
        "[ERROR] Iter 19 aborted after 22.2 ms",
        None,
        None,
        None,
        Event::IterationAborted(19),
    );
    let mean = |iterations| Event::Mean {
        iterations,
        ms: 26.096,
        rate: Some(2.4),
    };
    check(
        "[PERF] Avg (19 iter): 26.096 ms, BW: 2.40 GB/s",
        None,
        None,
        None,
        mean(Some(19)),
    );
    check(
        "[PERF] Avg: 26.096 ms, BW: 2.40 GB/s",
        None,
        None,
        None,
        mean(None),
    );
}

#[test]
fn setup_releases_and_rates_are_read() {
    check(
        "[Bootstrap] Server listening on port 20003",
        SERVER,
        None,
        None,
        Event::Step(Step::BootstrapListens(Some(20_003))),
    );
    check(
        "[Bootstrap] Connecting to 10.0.1.25:20003",
        CLIENT,
        None,
        None,
        Event::Step(Step::BootstrapConnects(Some(20_003))),
    );
    check(
        "[Bootstrap] connect() failed: Connection refused",
        None,
        None,
        None,
        Event::Fails(Failure::Bootstrap),
    );
    check(
        "[ChannelManager] Channel 4: Accept not ready (rc=0), retrying...",
        SERVER,
        None,
        Some(4),
        Event::Step(Step::Accepts),
    );
    check(
        "[ChannelManager] Failed to accept connection for channel 4 after 100 retries",
        SERVER,
        None,
        Some(4),
        Event::Fails(Failure::Accept),
    );
    let released = Event::Released {
        count: 2,
        window: Some((9, 16)),
    };
    check(
        "[DEBUG][SERVER] Channel 0 opportunistically released 2 requests, outstanding=9/16",
        SERVER,
        None,
        Some(0),
        released,
    );
    let released = Event::Released {
        count: 1,
        window: Some((11, 12)),
    };
    check(
        "[DEBUG][CLIENT] Channel 0 released send request chunk=3 pending=11/12",
        CLIENT,
        None,
        Some(0),
        released,
    );
    let rate = Event::Rate {
        bytes: 64 << 20,
        gb_per_s: 2.8,
    };
    check(
        "[Client]  64.0 MB :  22.41 Gbps |   2.80 GB/s  | 0.023957 s",
        CLIENT,
        None,
        None,
        rate,
    );
    check(
        "[TCPX] tcpx_isend: rc=0 request=0x55",
        CLIENT,
        None,
        None,
        Event::Returned,
    );
    assert_eq!(read(b"[DEBUG] step 3 of the trainer"), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read(parts in prop::collection::vec(prop_oneof![
        Just(b"[SlidingWindow] tcpx_test: rc=".to_vec()), Just(b"window size=".to_vec()), Just(b"[PERF] Iter ".to_vec()),
        Just(b"[Client] ".to_vec()), Just(b" Gbps | ".to_vec()), Just(b"chunk=".to_vec()), Just(b"FULL (".to_vec()),
        Just(b"99999999999999999999".to_vec()), Just(b"-".to_vec()), Just(b"/".to_vec()), Just(b"+1e999".to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ], 0..12)) {
        read(&parts.concat());
    }
}
