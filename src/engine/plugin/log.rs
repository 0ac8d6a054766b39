//! Receives a plugin's log lines: counts all of them, and passes a bounded sample on.
//!
//! The callback may run on any thread, a million times a second. Lines are counted per
//! source location (function and line number). The first 20 lines of each location are
//! passed on, then only those at which the count reaches a power of two, so a flood of lines
//! costs little more than their formatting, and the counts stay exact.
//!
//! The last WARN lines of the calling thread are kept, because they explain the error that
//! the plugin returns next.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tcpx_abi::{LoggerArg, level, logger};
use tcpx_words::log::{LogLine, LogSummary};

/// Lines of one location that are passed on before sampling starts.
const FIRST: u64 = 20;
/// Locations with a count of their own; all others share one.
const PLACES_MAX: usize = 512;
/// Bytes kept of a line or function name.
const TEXT_MAX: usize = 4096;
/// WARN lines kept per thread.
const SAID_MAX: usize = 3;

#[derive(Default)]
struct Counts {
    places: HashMap<(u64, i32), u64>,
    summary: LogSummary,
}

static COUNTS: Mutex<Option<Counts>> = Mutex::new(None);

thread_local! {
    static SAID: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// The level up to which NCCL prints lines in this process.
static PRINTED_LEVEL: LazyLock<i32> =
    LazyLock::new(|| printed_level(std::env::var("NCCL_DEBUG").ok().as_deref()));

/// The level of a value of `NCCL_DEBUG`, as NCCL reads it.
fn printed_level(nccl_debug: Option<&str>) -> i32 {
    match nccl_debug.unwrap_or_default().to_ascii_uppercase().as_str() {
        "VERSION" => level::VERSION,
        "WARN" => level::WARN,
        "INFO" => level::INFO,
        "ABORT" => level::ABORT,
        "TRACE" => level::TRACE,
        _ => level::NONE,
    }
}

fn counts() -> MutexGuard<'static, Option<Counts>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many lines were logged, were warnings, and were passed on so far.
pub fn summary() -> LogSummary {
    counts()
        .as_ref()
        .map(|counts| counts.summary)
        .unwrap_or_default()
}

/// Returns the logger callback for `init`. Sampled lines go to `pass_on`, which must neither
/// block nor call the plugin. The first `pass_on` of a process stays in effect.
pub fn capture(pass_on: impl Fn(&LogLine) + Send + Sync + 'static) -> LoggerArg {
    Some(logger::install(move |raw| {
        let Some(count) = admit(&raw) else {
            if raw.level == level::WARN {
                remember(clean(raw.text));
            }
            return;
        };
        let line = LogLine {
            level: raw.level,
            function: clean(raw.file),
            line: raw.line,
            text: clean(raw.text),
            count,
        };
        if raw.level == level::WARN {
            remember(line.text.clone());
        }
        pass_on(&line);
    }))
}

/// The installed logger; installs one that drops every line if there is none.
pub(super) fn installed() -> LoggerArg {
    capture(|_| {})
}

/// Counts a line. Returns the location's count if the line must be passed on.
fn admit(raw: &logger::Line<'_>) -> Option<u64> {
    let mut guard = counts();
    let counts = guard.get_or_insert_default();
    counts.summary.lines += 1;
    counts.summary.warnings += u64::from(raw.level == level::WARN);
    let is_printed = raw.level <= *PRINTED_LEVEL;
    counts.summary.unprinted += u64::from(raw.level > level::WARN && !is_printed);
    let mut place = (hash(raw.file), raw.line);
    if counts.places.len() >= PLACES_MAX && !counts.places.contains_key(&place) {
        place = (0, 0);
    }
    let count = counts.places.entry(place).or_insert(0);
    *count += 1;
    let admitted = (*count <= FIRST || count.is_power_of_two()).then_some(*count);
    counts.summary.passed_on += u64::from(admitted.is_some());
    admitted
}

/// FNV-1a, for telling function names apart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn clean(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(TEXT_MAX)];
    tcpx_words::units::printable(&String::from_utf8_lossy(cut))
}

fn remember(text: String) {
    // The thread-local is gone while the thread exits; the line is not needed then.
    let _ = SAID.try_with(|said| {
        let mut said = said.borrow_mut();
        if said.len() == SAID_MAX {
            said.pop_front();
        }
        said.push_back(text);
    });
}

/// Drops the kept WARN lines of this thread.
pub(crate) fn forget_said() {
    let _ = SAID.try_with(|said| said.borrow_mut().clear());
}

/// The WARN lines of this thread since `forget_said`, oldest first.
pub(crate) fn take_said() -> Vec<String> {
    SAID.try_with(|said| said.borrow_mut().drain(..).collect())
        .unwrap_or_default()
}

/// The newest WARN line of this thread only, because hot-path calls do not drop older ones.
pub(super) fn take_last_said() -> Vec<String> {
    let mut all = take_said();
    all.drain(..all.len().saturating_sub(1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_from_one_location_is_counted_and_sampled() {
        let raw = logger::Line {
            level: level::WARN,
            flags: 0,
            file: b"flood",
            line: 7,
            text: b"again",
        };
        let admitted = (0..100_000).filter_map(|_| admit(&raw)).collect::<Vec<_>>();
        assert_eq!(admitted[..3], [1, 2, 3]);
        assert!(admitted.len() < 40, "{} lines passed on", admitted.len());
        assert_eq!(admitted.last(), Some(&65_536));
    }

    #[test]
    fn trace_lines_are_printed_only_if_nccl_debug_says_so() {
        for (value, printed) in [
            (None, false),
            (Some("WARN"), false),
            (Some("info"), false),
            (Some("Trace"), true),
            (Some("verbose"), false),
        ] {
            assert_eq!(printed_level(value) >= level::TRACE, printed, "{value:?}");
        }
        assert!(printed_level(Some("INFO")) >= level::INFO);
    }

    #[test]
    fn lines_are_cut_and_control_characters_removed() {
        assert_eq!(clean(b"a\x1b[31mred\n\tend\xff"), "a[31mred end\u{fffd}");
        assert_eq!(clean(&vec![b'x'; 100_000]).len(), TEXT_MAX);
    }
}
