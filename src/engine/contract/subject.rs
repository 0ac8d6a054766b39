//! The plugin under test, and how a row says what it found.
#![forbid(unsafe_code)]

use super::process::Before;
use crate::gpu::{HostMemory, MemoryError};
use crate::plugin::{Device, Net, PluginError, PluginResult};
use std::time::{Duration, Instant};
use tcpx_abi::ResultCode;
use tcpx_words::plugin_family::PluginFamily;

/// Longest that a row waits for a transfer to go on.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long "nothing happens" is watched.
pub(super) const WATCH: Duration = Duration::from_millis(30);
/// Tests after which "nothing happens" is believed.
pub(super) const WATCH_TESTS: usize = 500;
/// Polls that only yield before polling rests in between.
const EAGER_POLLS: u32 = 200;
const REST: Duration = Duration::from_micros(20);

/// Why a row is no pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shortfall {
    /// The promise was broken; what was seen.
    Broken(String),
    /// The promise does not apply here; why.
    NotOwed(String),
}

/// The evidence of a pass, or why there is none.
pub(super) type Checked<T = String> = Result<T, Shortfall>;

impl From<PluginError> for Shortfall {
    fn from(error: PluginError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<MemoryError> for Shortfall {
    fn from(error: MemoryError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// A broken promise unless `kept`.
pub(super) fn owe(kept: bool, otherwise: impl FnOnce() -> String) -> Checked<()> {
    if kept {
        Ok(())
    } else {
        Err(Shortfall::Broken(otherwise()))
    }
}

/// The plugin's own words for refusing with `code`; anything else is broken.
pub(super) fn refused<T>(answer: PluginResult<T>, code: ResultCode, what: &str) -> Checked {
    match answer {
        Err(PluginError::Refused {
            code: given, said, ..
        }) if given == code => Ok(said.join(" / ")),
        Err(error) => Err(Shortfall::Broken(format!(
            "{what}: expected rc {code}; {error}"
        ))),
        Ok(_) => Err(Shortfall::Broken(format!(
            "{what}: expected rc {code}, got rc 0"
        ))),
    }
}

/// Asks until there is an answer. Rests between polls, but yields first: most
/// answers are a few microseconds away.
pub(super) fn poll<T>(
    what: &str,
    limit: Duration,
    mut step: impl FnMut() -> Checked<Option<T>>,
) -> Checked<T> {
    let started = Instant::now();
    let mut polls = 0u32;
    loop {
        if let Some(answer) = step()? {
            return Ok(answer);
        }
        let waited = started.elapsed();
        if waited > limit {
            return Err(Shortfall::Broken(format!(
                "{what}: not within {:.1} s",
                limit.as_secs_f64()
            )));
        }
        polls = polls.saturating_add(1);
        if polls < EAGER_POLLS {
            std::thread::yield_now()
        } else {
            std::thread::sleep(REST)
        }
    }
}

/// Repeats a step that must change nothing, long enough to notice if it did;
/// how often it was repeated.
pub(super) fn watch(mut step: impl FnMut() -> Checked<()>) -> Checked<usize> {
    let started = Instant::now();
    let mut steps = 0;
    while steps < WATCH_TESTS || started.elapsed() < WATCH {
        step()?;
        steps += 1;
        std::thread::yield_now();
    }
    Ok(steps)
}

/// An initialised plugin and its devices.
pub(super) struct Subject<'a> {
    pub(super) net: &'a dyn Net,
    pub(super) devices: &'a [Device],
    /// The process without the plugin.
    pub(super) before: Option<&'a Before>,
}

impl Subject<'_> {
    /// The device that rows use: the first one.
    pub(super) fn device(&self) -> Checked<&Device> {
        self.devices
            .first()
            .ok_or_else(|| Shortfall::Broken("the plugin has no device".into()))
    }

    /// Whose plugin it is.
    pub(super) fn family(&self) -> PluginFamily {
        self.net.about().family()
    }

    /// Whether finished receives are handed back, as NCCL decides it.
    pub(super) fn hands_back(&self) -> bool {
        self.net.about().consumes && self.device().is_ok_and(Device::is_unpack)
    }

    /// Whether TCPX was told to send nothing before the receive is posted.
    pub(super) fn receiver_first(&self) -> bool {
        std::env::var("NCCL_GPUDIRECTTCPX_RECV_SYNC").is_ok_and(|value| value == "1")
    }

    /// Memory that passes for a GPU's.
    pub(super) fn stand_in(&self) -> Checked<HostMemory> {
        if self.family().is_software()
            && std::env::var("TCPXSOFT_CUDA").is_ok_and(|value| value == "standin")
        {
            return Ok(HostMemory::device_stand_in());
        }
        let why = "needs device memory, for which only the software plugin takes ordinary memory (TCPXSOFT_CUDA=standin)";
        Err(Shortfall::NotOwed(why.into()))
    }

    /// What connecting may take: the plugin's own fixed waits, twice, and then some.
    pub(super) fn connect_patience(&self) -> Duration {
        if self.family() != PluginFamily::Tcpx {
            return PATIENCE;
        }
        let number = |name: &str, default| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(default)
        };
        let sockets =
            (number("NCCL_NSOCKS_PERTHREAD", 1u64) * number("NCCL_SOCKET_NTHREADS", 1)).min(8) + 1;
        let steering = number(
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            5_000_000,
        )
        .min(10_000_000);
        PATIENCE + Duration::from_millis(200 * sockets) + Duration::from_micros(steering)
    }
}

/// Open descriptors of this process.
pub(super) fn descriptors() -> usize {
    entries("/proc/self/fd")
}

/// Threads of this process.
pub(super) fn threads() -> usize {
    entries("/proc/self/task")
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder)
        .map(Iterator::count)
        .unwrap_or_default()
}
