//! What one line of a program says. Texts are those of the programs' sources; values are
//! claims.
//!
//! The words of a line decide how it is read ([`Reading`]), and then its numbers are.
#![forbid(unsafe_code)]

use super::text::Text;
use crate::shape::Span;
use serde::Serialize;

/// The end of the transfer that a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HarnessRole {
    /// Receives: `server`.
    Server,
    /// Sends: `client`.
    Client,
}

impl HarnessRole {
    /// The word in logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// A recognised line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub role: Option<HarnessRole>,
    pub gpu: Option<u32>,
    pub channel: Option<u32>,
    pub event: Event,
}

/// Requests in a window, and its size.
pub(super) type Occupancy = (u32, u32);

/// A setting that a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingKind {
    Gpu,
    Channels,
    Iterations,
    ChunkBytes,
    /// Of each GPU.
    SizeBytes,
    /// Of all GPUs.
    TotalBytes,
}

/// A step before the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    BootstrapListens(Option<u32>),
    BootstrapConnects(Option<u32>),
    HandlesExchanged,
    Listens,
    Accepts,
    Accepted,
    Connects,
    Connected,
    Registers,
    Registered,
    WaitsForPosts,
    /// A benchmark waits for the program at the other end.
    MeetsPeer,
}

/// A failure that a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Bootstrap,
    Accept,
    Connect,
    HandleCount,
    Register,
    Post {
        rc: Option<i64>,
        chunk: Option<u32>,
    },
    Test {
        rc: i64,
        done: bool,
        chunk: Option<u32>,
    },
    /// A benchmark says that it failed.
    Benchmark,
    Other,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event {
    /// The program says which end it is: a run begins.
    Starts,
    Setting(SettingKind, u64),
    Step(Step),
    IterationBegins {
        iteration: u32,
        bytes: Option<u64>,
        chunk_bytes: Option<u64>,
    },
    IterationEnds {
        iteration: u32,
        ms: f64,
    },
    IterationAborted(u32),
    /// The next chunk of a channel, before its post.
    Chunk {
        chunk: u32,
        window: Option<Occupancy>,
    },
    /// `irecv` or `isend` is about to be called.
    Calls {
        chunk: Option<u32>,
    },
    /// `irecv` or `isend` has returned a request.
    Returned,
    /// A window is full; the oldest request is waited for.
    Full(Option<Occupancy>),
    /// A window has room again.
    Room,
    Test {
        rc: i64,
        done: bool,
        chunk: Option<u32>,
    },
    /// A request is done.
    Done,
    /// The wrapper's test of a request that is done, logged beside the program's own line.
    CallDone,
    /// Requests left a window.
    Released {
        count: u32,
        window: Option<Occupancy>,
    },
    /// Tests of the oldest send so far.
    StillWaits(u64),
    /// All chunks of an iteration are posted.
    AllPosted,
    Drains {
        pending: Option<u32>,
    },
    Drained,
    /// The peer closed the connection, before or after the request was done.
    PeerClosed {
        done: bool,
    },
    Fails(Failure),
    /// The program's own mean, in the unit that it prints.
    Mean {
        iterations: Option<u32>,
        ms: f64,
        rate: Option<f64>,
    },
    /// A rate in 10^9 bytes per second, at a message size.
    Rate {
        bytes: u64,
        gb_per_s: f64,
    },
    Ends,
    /// A line of such a program that says nothing about its state.
    Other,
}

/// How a line is read. Its words decide that, and the values of its digits do not, so one
/// reading serves all lines of a form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// Index in `READERS`.
    reader: usize,
    role: Option<HarnessRole>,
    is_recv: Option<Span>,
    gpu: Option<Span>,
    channel: Option<Span>,
}

impl Reading {
    /// `None`: the line belongs to no such program.
    pub(super) fn of(message: &[u8]) -> Option<Self> {
        let text = Text::new(message);
        let read = |(index, reader): (usize, &Reader)| Some((index, reader(text)?));
        let (reader, event) = READERS.iter().enumerate().find_map(read)?;
        let channel = text.digits("hannel ").or_else(|| text.digits("channel="));
        let span = |digits: &[u8]| Span::of(message, digits);
        Some(Self {
            reader,
            role: role(text, event),
            is_recv: text.digits("is_recv=").map(span),
            gpu: text.digits("GPU ").map(span),
            channel: channel.map(span),
        })
    }

    /// The content of a line that is read so.
    pub(super) fn line(&self, message: &[u8]) -> Option<Line> {
        let event = READERS.get(self.reader)?(Text::new(message))?;
        let number = |span: Span| Text::new(span.in_line(message)).number("");
        let is_recv = self.is_recv.and_then(number);
        let role = is_recv.map(|is_recv| match is_recv {
            0 => HarnessRole::Client,
            _ => HarnessRole::Server,
        });
        Some(Line {
            role: role.or(self.role),
            gpu: self.gpu.and_then(number),
            channel: self.channel.and_then(number),
            event,
        })
    }
}

type Reader = fn(Text<'_>) -> Option<Event>;

/// The first of these that reads a line decides what it is. The order is that of frequency: a
/// log of posts has a test and three lines per chunk.
const READERS: [Reader; 19] = [
    |text| {
        // The wrapper's lines and those of a failure are read below.
        let is_other = text.has_any(&["[TCPX] ", "tcpx_test failed"]);
        test(text).filter(|_| text.has("tcpx_test") && !is_other)
    },
    |text| {
        let window = text.after("window size=")?;
        Some(Event::Chunk {
            chunk: chunk(text)?,
            window: window.pair(""),
        })
    },
    |text| text.has(" returned, request=").then_some(Event::Returned),
    |text| {
        let is_call = text.has("alling tcpx_i");
        is_call.then(|| Event::Calls { chunk: chunk(text) })
    },
    |text| text.after("[TCPX] ").and_then(|_| wrapper(text)),
    |text| {
        let window = text.pair(" outstanding=");
        let window = window.or_else(|| text.pair(" pending="));
        let is_post = text.has(" tag=") && text.has_any(&[" outstanding=", " pending="]);
        let chunk = chunk(text).filter(|_| is_post)?;
        Some(Event::Chunk { chunk, window })
    },
    |text| {
        let is_full = text.has("window FULL");
        is_full.then(|| Event::Full(text.sum_pair("FULL (")))
    },
    |text| text.has(" window now has ").then_some(Event::Room),
    |text| {
        let done = [" recv completed", "Oldest send completed"];
        text.has_any(&done).then_some(Event::Done)
    },
    |text| {
        let is_release = text.has_any(&["opportunistically", "request"]);
        text.after("released ").filter(|_| is_release)?;
        Some(Event::Released {
            // `released send request` is one of them.
            count: text.number("released ").unwrap_or(1),
            window: text.pair("outstanding=").or_else(|| text.pair("pending=")),
        })
    },
    |text| {
        text.after("Still waiting for oldest send")?;
        Some(Event::StillWaits(text.long("poll_count=")?))
    },
    |text| {
        let posted = ["starting drain phase", " end: draining "];
        text.has_any(&posted).then_some(Event::AllPosted)
    },
    |text| {
        text.after("Draining ")?;
        let pending = text.number("(").or_else(|| text.number("window: "));
        Some(Event::Drains { pending })
    },
    |text| (text.has("hannel ") && text.has(" drained")).then_some(Event::Drained),
    benchmark,
    closed_or_failed,
    setup,
    result,
    |text| is_tagged(text).then_some(Event::Other),
];

fn is_tagged(text: Text<'_>) -> bool {
    let tags = [
        "[SERVER] ",
        "[CLIENT] ",
        "[PERF] ",
        "[TCPX] ",
        "[Bootstrap] ",
        "[ChannelManager] ",
    ];
    text.has_any(&tags)
}

/// The chunk that a line of the data path names.
fn chunk(text: Text<'_>) -> Option<u32> {
    let keys = ["hunk ", "chunk_idx=", "chunk="];
    keys.iter().find_map(|key| text.number(key))
}

fn test(text: Text<'_>) -> Option<Event> {
    Some(Event::Test {
        rc: text.signed("rc=")?,
        done: text.signed("done=")? != 0,
        chunk: text.number("chunk_idx="),
    })
}

/// A line of the wrapper around the plugin: before a call, or with its result.
fn wrapper(text: Text<'_>) -> Option<Event> {
    if text.has("tcpx_test") {
        return match test(text) {
            Some(Event::Test {
                rc: 0, done: true, ..
            }) => Some(Event::CallDone),
            other => other.or(Some(Event::Other)),
        };
    }
    let is_post = text.has("tcpx_isend") || text.has("tcpx_irecv:");
    match text.signed("rc=") {
        None if is_post => Some(Event::Calls { chunk: None }),
        Some(0) if is_post => Some(Event::Returned),
        Some(rc) if is_post => Some(Event::Fails(Failure::Post {
            rc: Some(rc),
            chunk: None,
        })),
        _ => Some(Event::Other),
    }
}

fn closed_or_failed(text: Text<'_>) -> Option<Event> {
    let chunk = || {
        text.number("chunk ")
            .or_else(|| text.number("chunk=").or_else(|| text.number("chunk_idx=")))
    };
    if text.has("Connection closed by peer ") {
        return Some(Event::PeerClosed {
            done: text.has(" completed"),
        });
    }
    if text.has("tcpx_test failed") {
        let done = text.signed("done=").is_some_and(|done| done != 0);
        return Some(Event::Fails(Failure::Test {
            rc: text.signed("rc=")?,
            done,
            chunk: chunk(),
        }));
    }
    if text.has("tcpx_irecv failed") || text.has("tcpx_isend failed") {
        return Some(Event::Fails(Failure::Post {
            rc: text.signed("rc="),
            chunk: chunk(),
        }));
    }
    let failures = [
        ("[Bootstrap] ", Failure::Bootstrap),
        ("bootstrap_", Failure::Bootstrap),
        ("Failed to accept connection for channel", Failure::Accept),
        ("server_accept_all failed", Failure::Accept),
        ("Handle count mismatch", Failure::HandleCount),
        ("client_connect_all failed", Failure::Connect),
        ("register_memory failed", Failure::Register),
    ];
    let says_failed = text.has("ailed") || text.has("mismatch") || text.has("Invalid ");
    let failure = failures
        .iter()
        .find(|(words, _)| says_failed && text.has(words));
    let other = text.has("Failed to drain") || text.has("progress_channel") && says_failed;
    failure
        .map(|(_, failure)| Event::Fails(*failure))
        .or_else(|| other.then_some(Event::Fails(Failure::Other)))
}

/// Lines before the transfer.
fn setup(text: Text<'_>) -> Option<Event> {
    let setting = |kind, key: &str| Some(Event::Setting(kind, text.long(key)?));
    let steps = [
        (
            "[Bootstrap] Server listening",
            Step::BootstrapListens(text.number("port ")),
        ),
        (
            "[Bootstrap] Connecting to ",
            Step::BootstrapConnects(text.last_number(":")),
        ),
        ("[Bootstrap] Successfully ", Step::HandlesExchanged),
        ("channels listening successfully", Step::Listens),
        ("Accept not ready", Step::Accepts),
        ("Waiting for client connections", Step::Accepts),
        ("channels accepted", Step::Accepted),
        ("Connecting to server", Step::Connects),
        ("channels connected", Step::Connected),
        ("Registering memory", Step::Registers),
        ("channels registered memory", Step::Registered),
        ("Registered recv buffer", Step::Registered),
        ("Registered send buffer", Step::Registered),
        ("seconds for server to post", Step::WaitsForPosts),
    ];
    if let Some((_, step)) = steps.iter().find(|(words, _)| text.has(words)) {
        return Some(Event::Step(*step));
    }
    if text.has("[PERF] Starting ") && text.has(" mode") || text.has("[PERF] Mode: ") {
        return Some(Event::Starts);
    }
    if text.has("[PERF] GPU") {
        return setting(SettingKind::Gpu, "GPU: ")
            .or_else(|| setting(SettingKind::Gpu, "GPU ID: "));
    }
    if text.has("[PERF] Iteration ") && text.has("total bytes=") {
        return begins(text);
    }
    if text.has("[PERF] ") || text.has("[SERVER] ") || text.has("[CLIENT] ") {
        return setting(SettingKind::Iterations, "Iterations: ")
            .or_else(|| {
                setting(SettingKind::ChunkBytes, "Chunk size: ").filter(|_| text.has(" bytes"))
            })
            .or_else(|| setting(SettingKind::SizeBytes, "size per GPU: "))
            .or_else(|| setting(SettingKind::TotalBytes, "Total test size: "))
            .or_else(|| setting(SettingKind::Channels, "Channels: "));
    }
    None
}

/// Iterations and rates.
fn result(text: Text<'_>) -> Option<Event> {
    if text.has("] Iter ") || text.has("]Iter ") {
        let iteration = text.number("Iter ")?;
        if text.has(" aborted after ") {
            return Some(Event::IterationAborted(iteration));
        }
        return Some(Event::IterationEnds {
            iteration,
            ms: text.decimal("time=")?,
        });
    }
    if text.has("Iteration ") {
        let iteration = text.number("Iteration ")?;
        return match text.decimal(" completed in ") {
            Some(ms) => Some(Event::IterationEnds { iteration, ms }),
            None => begins(text).filter(|_| text.has_any(&["=====", " start: "])),
        };
    }
    if text.has("[PERF] Avg") {
        let ms = text.decimal("iter): ").or_else(|| text.decimal("Avg: "))?;
        return Some(Event::Mean {
            iterations: text.number("Avg ("),
            ms,
            rate: text.decimal("BW: "),
        });
    }
    if let Some(ms) = text.decimal("Average time: ") {
        return Some(Event::Mean {
            iterations: None,
            ms,
            rate: None,
        });
    }
    text.has("Test completed successfully")
        .then_some(Event::Ends)
}

fn begins(text: Text<'_>) -> Option<Event> {
    Some(Event::IterationBegins {
        iteration: text.number("Iteration ")?,
        bytes: text.long("total bytes="),
        chunk_bytes: text.long("chunk_bytes="),
    })
}

/// Lines of UCCL's P2P benchmarks and of nixlbench; the rows of its table are read elsewhere.
fn benchmark(text: Text<'_>) -> Option<Event> {
    let is_tagged = text.has("[Server] ") || text.has("[Client] ");
    if is_tagged && text.has(" Gbps | ") {
        return rate(text);
    }
    let failed = [
        "Failed to connect to server",
        " failed",
        " error",
        "Failed to send vector ",
        "Failed to synchronize at ",
        "liveness check failed",
    ];
    // Words that other programs use count only behind the tag.
    let failed = if is_tagged { &failed[..] } else { &failed[3..] };
    if text.has_any(failed) {
        return Some(Event::Fails(Failure::Benchmark));
    }
    let events = [
        ("UCCL P2P Benchmark", Event::Starts),
        ("Benchmark complete", Event::Ends),
        ("Waiting for connection", Event::Step(Step::MeetsPeer)),
        ("Waiting to accept incoming", Event::Step(Step::MeetsPeer)),
        ("Attempting to connect to ", Event::Step(Step::MeetsPeer)),
        (
            "Waiting for all processes to start",
            Event::Step(Step::MeetsPeer),
        ),
        (
            "All processes are ready to proceed",
            Event::Step(Step::Registered),
        ),
    ];
    if let Some((_, event)) = events.iter().find(|(words, _)| text.has(words)) {
        return Some(*event);
    }
    let is_connected = is_tagged && text.has("Connected to ");
    is_connected.then_some(Event::Step(Step::Registered))
}

/// `[Client]  64.0 MB :  22.41 Gbps |   2.80 GB/s  | 0.023957 s`.
fn rate(text: Text<'_>) -> Option<Event> {
    let (size, rest) = text.after("] ")?.split(" : ")?;
    let (number, unit) = size.trim().split(" ")?;
    let units = ["B", "KB", "MB", "GB"];
    let power = units.iter().position(|name| unit.is(name))?;
    let factor = 1024_f64.powi(i32::try_from(power).ok()?);
    let (_, rest) = rest.split("| ")?;
    // The program prints one decimal.
    let bytes = (number.float()? * factor).round() as u64;
    Some(Event::Rate {
        bytes,
        gb_per_s: rest.float()?,
    })
}

fn role(text: Text<'_>, event: Event) -> Option<HarnessRole> {
    let server = [
        "SERVER",
        "[Server]",
        "role: server",
        "irecv",
        "recv buffer",
        "ccept",
        "[Bootstrap] Server",
        "[Bootstrap] Client",
        " to client",
        "Successfully sent",
    ];
    let client = [
        "CLIENT",
        "[Client]",
        "role: client",
        "Attempting to connect",
        "isend",
        "send buffer",
        "oldest send",
        "[Bootstrap] Connect",
        "from server",
        "Successfully received",
    ];
    if text.has_any(&server) {
        return Some(HarnessRole::Server);
    }
    let connects = matches!(event, Event::Step(Step::Connects | Step::Connected));
    (connects || text.has_any(&client)).then_some(HarnessRole::Client)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let full = Event::Full(Some((16, 16)));
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
}
