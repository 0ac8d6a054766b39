//! What a plugin prints through its logger: bounded, sampled and counted.
//!
//! The callback may run on any thread, a million times a second. Lines are
//! counted per place (function and line number); the first few of each place
//! are passed on, then only every doubling of the count, so a flood costs its
//! formatting and little more, and the counts stay exact.
//!
//! The last WARN lines of the calling thread are kept aside, because they are
//! the plugin's explanation of the error it returns next.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tcpx_abi::{LoggerArg, level, logger};
use tcpx_words::log::{LogLine, LogSummary};

/// Lines of one place that are passed on before sampling starts.
const FIRST: u64 = 20;
/// Places that are told apart; beyond it all share one count.
const PLACES_MAX: usize = 512;
/// Bytes of one line that are kept.
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

fn counts() -> MutexGuard<'static, Option<Counts>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Totals so far.
pub fn summary() -> LogSummary {
    counts()
        .as_ref()
        .map(|counts| counts.summary)
        .unwrap_or_default()
}

/// The callback to hand to `init`; sampled lines go to `pass_on`, which must
/// neither block nor call the plugin. The first caller's `pass_on` stays.
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

/// A logger for loading a plugin where nobody listens.
pub(super) fn installed() -> LoggerArg {
    capture(|_| {})
}

/// Counts a line; its number when it is to be passed on.
fn admit(raw: &logger::Line<'_>) -> Option<u64> {
    let mut guard = counts();
    let counts = guard.get_or_insert_default();
    counts.summary.lines += 1;
    counts.summary.warnings += u64::from(raw.level == level::WARN);
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

/// FNV-1a: stable, and good enough to tell function names apart.
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
    // A thread that is going away has nobody to explain to.
    let _ = SAID.try_with(|said| {
        let mut said = said.borrow_mut();
        if said.len() == SAID_MAX {
            said.pop_front();
        }
        said.push_back(text);
    });
}

/// Forgets what this thread's plugin calls said so far.
pub(crate) fn forget_said() {
    let _ = SAID.try_with(|said| said.borrow_mut().clear());
}

/// The WARN lines of this thread since `forget_said`, oldest first.
pub(crate) fn take_said() -> Vec<String> {
    SAID.try_with(|said| said.borrow_mut().drain(..).collect())
        .unwrap_or_default()
}

/// The newest WARN line only: on the hot path nobody forgets in between.
pub(super) fn take_last_said() -> Vec<String> {
    let mut all = take_said();
    all.drain(..all.len().saturating_sub(1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_from_one_place_is_counted_and_thinned() {
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
    fn lines_lose_their_control_characters_and_their_length() {
        assert_eq!(clean(b"a\x1b[31mred\n\tend\xff"), "a[31mred end\u{fffd}");
        assert_eq!(clean(&vec![b'x'; 100_000]).len(), TEXT_MAX);
    }
}
