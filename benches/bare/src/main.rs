//! The bare driver of `scripts/bench`: drives a plugin with a simple loop over its raw table, to
//! measure the plugin without the engine.
//!
//! ```text
//! bare recv --plugin PATH --port P --chunk BYTES --total BYTES --window N --channels N --idle adaptive
//! bare send   (the same)
//! bare pingpong-recv --plugin PATH --port P --size BYTES --count N --idle adaptive
//! bare pingpong-send   (the same)
//! ```
//!
//! There are two processes, as in `tcpxctl run`; start them in any order. Each prints one line
//! of `key=value` pairs. Memory, slots, windows and idle strategy are the engine's, so that the
//! difference from `tcpxctl run` is the engine and its tap. A round trip is a message and its
//! answer, each over its own connection; a tenth of the count is made first as warm-up.
//!
//! Not here: verification, counters, a recorder, error recovery. Any error ends the program with
//! exit code 1, or 2 for wrong arguments. The plugin is configured through the environment;
//! `NCCL_DYNAMIC_CHUNK_SIZE` must be set.

mod link;
mod pingpong;
mod table;
mod transfer;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tcpx_engine::transfer::{SLOTS_MAX, WallPace};
use tcpx_words::progress::Idle;

/// An error message that ends the program.
type Outcome<T> = Result<T, String>;

/// Longest run.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Parser)]
#[command(about = "Drives a v7 plugin with nothing on top; scripts/bench starts both ends")]
struct Cli {
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Send chunks.
    Send(Transfer),
    /// Receive chunks.
    Recv(Transfer),
    /// Send messages and wait for their answers.
    PingpongSend(Pingpong),
    /// Answer messages.
    PingpongRecv(Pingpong),
}

/// Arguments of all subcommands.
#[derive(Args)]
struct Common {
    /// Plugin library with a v7 table.
    #[arg(long)]
    plugin: PathBuf,
    /// Port on 127.0.0.1 where the two ends meet; the receiver listens.
    #[arg(long)]
    port: u16,
    /// Idle strategy when no request advanced.
    #[arg(long, value_enum, default_value_t = Strategy::Adaptive)]
    idle: Strategy,
}

#[derive(Args)]
struct Transfer {
    #[command(flatten)]
    common: Common,
    /// Bytes per request.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    chunk: u32,
    /// Bytes that are timed; a multiple of chunk x channels. A tenth of it is warm-up.
    #[arg(long)]
    total: u64,
    /// Requests in flight per channel.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=SLOTS_MAX as i64))]
    window: u8,
    /// Number of connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    channels: u16,
}

#[derive(Args)]
struct Pingpong {
    #[command(flatten)]
    common: Common,
    /// Bytes of one message.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    size: u32,
    /// Round trips that are timed.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Strategy {
    Adaptive,
    Spin,
    Yield,
}

impl Common {
    /// The engine's idle strategy, which stops at the time limit.
    fn pace(&self) -> WallPace {
        let strategy = match self.idle {
            Strategy::Adaptive => Idle::Adaptive,
            Strategy::Spin => Idle::Spin,
            Strategy::Yield => Idle::Yield,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let late = Arc::clone(&stop);
        std::thread::spawn(move || {
            std::thread::sleep(LIMIT);
            late.store(true, Ordering::Relaxed);
        });
        WallPace::new(strategy, stop)
    }
}

/// The error of a loop that reached the time limit.
fn too_long() -> String {
    format!("not finished within {} s", LIMIT.as_secs())
}

fn main() -> ExitCode {
    let line = match Cli::parse().work {
        Work::Send(asked) => transfer::run(&asked, true),
        Work::Recv(asked) => transfer::run(&asked, false),
        Work::PingpongSend(asked) => pingpong::run(&asked, true),
        Work::PingpongRecv(asked) => pingpong::run(&asked, false),
    };
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("bare: {reason}");
            ExitCode::FAILURE
        }
    }
}
