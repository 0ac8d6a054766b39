//! The plugin under test, and the helpers with which rows report what they found.
#![forbid(unsafe_code)]

use super::process::Before;
use crate::gpu::{HostMemory, MemoryError};
use crate::plugin::{Device, Net, PluginError, PluginResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tcpx_abi::ResultCode;
use tcpx_words::plugin_family::PluginFamily;

/// Longest time that a row waits for progress.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that a transfer may stand still.
const STILL_MAX: Duration = PATIENCE.saturating_mul(2);
/// Longest time for a transfer that moves.
const MOVING_MAX: Duration = PATIENCE.saturating_mul(5);
/// Shortest time over which a row checks that nothing happens.
pub(super) const WATCH: Duration = Duration::from_millis(30);
/// Fewest tests with which a row checks that nothing happens.
pub(super) const WATCH_TESTS: usize = 500;
/// Polls that only yield; later polls sleep for `REST` first.
const EAGER_POLLS: u32 = 200;
const REST: Duration = Duration::from_micros(20);
/// Longest time that one poll counts for.
const POLL_MAX: Duration = Duration::from_millis(20);

/// Why a row does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shortfall {
    /// The plugin broke the promise; the text is the evidence.
    Broken(String),
    /// The promise does not apply; the text is the reason.
    NotOwed(String),
}

/// The evidence of a pass, or why the row does not pass.
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

/// Fails the row with `otherwise()` unless `kept`.
pub(super) fn owe(kept: bool, otherwise: impl FnOnce() -> String) -> Checked<()> {
    if kept {
        Ok(())
    } else {
        Err(Shortfall::Broken(otherwise()))
    }
}

/// Checks that the plugin refused with `code`, and returns its WARN lines.
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

/// Calls `step` until it returns a value, for at most `limit` as `within` counts it.
pub(super) fn poll<T>(
    what: &str,
    limit: Duration,
    step: impl FnMut() -> Checked<Option<T>>,
) -> Checked<T> {
    within(limit, step)?.ok_or_else(|| {
        Shortfall::Broken(format!("{what}: not within {:.1} s", limit.as_secs_f64()))
    })
}

/// Calls `step` until it returns a value; `None` if it has not for `limit`. The first polls only
/// yield, because most answers arrive within microseconds; later ones sleep in between.
///
/// A poll counts for at most `POLL_MAX`, so that a machine that does not run this process for
/// seconds takes no time from the plugin. A step that does not return is ended with its row.
pub(super) fn within<T>(
    limit: Duration,
    mut step: impl FnMut() -> Checked<Option<T>>,
) -> Checked<Option<T>> {
    let mut looked = Instant::now();
    let mut waited = Duration::ZERO;
    let mut polls = 0u32;
    loop {
        if let Some(answer) = step()? {
            return Ok(Some(answer));
        }
        let now = Instant::now();
        waited += (now - looked).min(POLL_MAX);
        looked = now;
        if waited > limit {
            return Ok(None);
        }
        polls = polls.saturating_add(1);
        if polls < EAGER_POLLS {
            std::thread::yield_now()
        } else {
            std::thread::sleep(REST)
        }
    }
}

/// What a step of `while_moving` did.
pub(super) enum Step {
    Complete,
    Moved,
    Nothing,
}

/// Calls `step` until it is complete. The plugin falls short if nothing moves for `STILL_MAX`; how
/// fast it moves depends on the machine.
pub(super) fn while_moving(what: &str, step: impl FnMut() -> Checked<Step>) -> Checked<()> {
    moving(what, STILL_MAX, MOVING_MAX, step)
}

fn moving(
    what: &str,
    still_max: Duration,
    moving_max: Duration,
    mut step: impl FnMut() -> Checked<Step>,
) -> Checked<()> {
    let started = Instant::now();
    loop {
        let found = within(still_max, || match step()? {
            Step::Nothing => Ok(None),
            found => Ok(Some(found)),
        })?;
        match found {
            Some(Step::Complete) => return Ok(()),
            Some(_) if started.elapsed() < moving_max => {}
            Some(_) => {
                let took = moving_max.as_secs_f64();
                return Err(Shortfall::NotOwed(format!(
                    "{what}: not complete after {took:.0} s, too slow on this machine"
                )));
            }
            None => {
                let still = still_max.as_secs_f64();
                return Err(Shortfall::Broken(format!(
                    "{what}: nothing moved for {still:.1} s"
                )));
            }
        }
    }
}

/// A clock that advances only while this process is given CPU time: a thread that counts the
/// milliseconds that it sleeps. A plugin is not slow because its machine is busy.
pub(super) struct Pace {
    ticks: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Pace {
    pub(super) fn start() -> Self {
        let pace = Self {
            ticks: Arc::default(),
            stop: Arc::default(),
        };
        let (ticks, stop) = (Arc::clone(&pace.ticks), Arc::clone(&pace.stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
        pace
    }

    /// Time on this clock since it was started.
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.ticks.load(Ordering::Relaxed))
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Repeats a step that must change nothing, for `WATCH` and `WATCH_TESTS` at least. Returns
/// how often it was repeated.
pub(super) fn watch(mut step: impl FnMut() -> Checked<()>) -> Checked<usize> {
    let mut steps = 0;
    seek(|| {
        steps += 1;
        step().map(|()| None::<()>)
    })?;
    Ok(steps)
}

/// Repeats a step for as long as `watch` does, until it returns a value.
pub(super) fn seek<T>(mut step: impl FnMut() -> Checked<Option<T>>) -> Checked<Option<T>> {
    let started = Instant::now();
    let mut steps = 0;
    while steps < WATCH_TESTS || started.elapsed() < WATCH {
        if let Some(found) = step()? {
            return Ok(Some(found));
        }
        steps += 1;
        std::thread::yield_now();
    }
    Ok(None)
}

/// An initialised plugin and its devices.
pub(super) struct Subject<'a> {
    pub(super) net: &'a dyn Net,
    pub(super) devices: &'a [Device],
    /// State of the process before the plugin was loaded, if known.
    pub(super) before: Option<&'a Before>,
    /// Takes how far the row has come, for what is said if its time is over before it ends.
    pub(super) note: &'a dyn Fn(String),
}

impl Subject<'_> {
    /// The device that rows use: the plugin's first.
    pub(super) fn device(&self) -> Checked<&Device> {
        self.devices
            .first()
            .ok_or_else(|| Shortfall::Broken("the plugin has no device".into()))
    }

    /// The family of the plugin, by its name.
    pub(super) fn family(&self) -> PluginFamily {
        self.net.about().family()
    }

    /// Whether finished receives must be consumed, decided as NCCL does.
    pub(super) fn hands_back(&self) -> bool {
        self.net.about().consumes && self.device().is_ok_and(Device::is_unpack)
    }

    /// Whether `RECV_SYNC` makes sends wait for their receives.
    pub(super) fn receiver_first(&self) -> bool {
        std::env::var("NCCL_GPUDIRECTTCPX_RECV_SYNC").is_ok_and(|value| value == "1")
    }

    /// Ordinary memory that the plugin accepts as GPU memory.
    pub(super) fn stand_in(&self) -> Checked<HostMemory> {
        if self.family().is_software()
            && std::env::var("TCPXSOFT_CUDA").is_ok_and(|value| value == "standin")
        {
            return Ok(HostMemory::device_stand_in());
        }
        let why = "needs device memory; only the software plugin accepts ordinary memory as such (TCPXSOFT_CUDA=standin)";
        Err(Shortfall::NotOwed(why.into()))
    }

    /// Longest time for connecting: `PATIENCE`, plus for TCPX twice its 100 ms per socket and
    /// its flow-steering wait.
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

/// Number of open descriptors of this process.
pub(super) fn descriptors() -> usize {
    entries("/proc/self/fd")
}

/// Number of threads of this process.
pub(super) fn threads() -> usize {
    entries("/proc/self/task")
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder)
        .map(Iterator::count)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_may_be_slow_but_not_stand_still() {
        let (still_max, moving_max) = (Duration::from_millis(40), Duration::from_millis(400));
        let run = |steps: u32, step: fn() -> Step| {
            let mut left = steps;
            moving("messages arrive", still_max, moving_max, || {
                std::thread::sleep(Duration::from_millis(10));
                left = left.saturating_sub(1);
                Ok(if left == 0 { Step::Complete } else { step() })
            })
        };
        assert_eq!(run(12, || Step::Moved), Ok(()));
        let slow = run(u32::MAX, || Step::Moved);
        assert!(matches!(slow, Err(Shortfall::NotOwed(_))), "{slow:?}");
        let stands = run(u32::MAX, || Step::Nothing);
        assert!(matches!(stands, Err(Shortfall::Broken(_))), "{stands:?}");
    }
}
