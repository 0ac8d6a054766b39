//! Readers of the lines of programs that drive the plugin themselves: which words make a line what.
#![forbid(unsafe_code)]

use super::line::{Event, Failure, HarnessRole, SettingKind, Step};
use super::text::Text;

pub(super) type Reader = fn(Text<'_>) -> Option<Event>;

/// The first of these that reads a line decides what it is. The order is that of frequency: a
/// log of posts has a test and three lines per chunk.
pub(super) const READERS: [Reader; 21] = [
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
    |text| {
        let posted = [" returned, request=", " added to window "];
        text.has_any(&posted).then_some(Event::Returned)
    },
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
        text.after("window FULL")?;
        let window = text.sum_pair("FULL (");
        // `2+14/16`: two kernels run, fourteen receives are not done.
        let kernels = text.number("FULL (").unwrap_or_default();
        let is_done = kernels > 0 && text.has(" kernel to complete");
        Some(if is_done {
            Event::FullOfDone(window)
        } else {
            Event::Full(window)
        })
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
    step_of_gpu,
    benchmark,
    closed_or_failed,
    setup,
    result,
    bare_test,
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

/// `rc=0 done=0`, and nothing that says what was tested.
fn bare_test(text: Text<'_>) -> Option<Event> {
    match test(text)? {
        Event::Test { rc, done, .. } if !text.has("tcpx") => Some(Event::BareTest { rc, done }),
        _ => None,
    }
}

/// `[GPU 4] Accepted 1 connections`, of a program that drives all GPUs.
fn step_of_gpu(text: Text<'_>) -> Option<Event> {
    text.digits("[GPU ")?;
    let steps = [
        ("] Listening on ", Step::Listens),
        ("] Accepted ", Step::Accepted),
    ];
    let step = steps.iter().find(|(words, _)| text.has(words));
    step.map(|(_, step)| Event::StepOfGpu(*step))
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
        ("tcpx_irecv_consumed failed", Failure::Consume),
    ];
    let says_failed = text.has("ailed") || text.has("mismatch") || text.has("Invalid ");
    let failure = failures
        .iter()
        .find(|(words, _)| says_failed && text.has(words));
    let gave_up = [
        "Failed to drain",
        "progress_channel",
        "drain_all failed",
        "Failed to process completed",
        "Failed while waiting for channel",
        "Aborting benchmark",
        "No successful iterations",
    ];
    let other = text.has_any(&gave_up) && (says_failed || text.has("[ERROR]"));
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
        (": Accepting connections", Step::Accepts),
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

pub(super) fn role(text: Text<'_>, event: Event) -> Option<HarnessRole> {
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
