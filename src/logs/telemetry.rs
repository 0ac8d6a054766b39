//! Reads the plugin's telemetry files: events of requests, and how long each stage took.
//!
//! The exporter writes `R POINTER PASSIVE STATE NANOSECONDS`, one file per comm. The state
//! codes are not in the order of a request's life: 3 queued, 4 active, 2 transmitting,
//! 1 finished, 0 freed. Pointers are reused, so a 3 starts a new request. A full queue
//! makes the exporter drop events silently; such requests lack a stage here.
#![forbid(unsafe_code)]

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read};

/// State codes in the order of a request's life.
const STAGES: [u8; 5] = [3, 4, 2, 1, 0];
const NAMES: [&str; 4] = ["queued", "active", "transmitting", "finished"];
/// Most pointers that are tracked. A comm has 16 requests; sampling may show more.
const POINTERS_MAX: usize = 4096;
const LINE_MAX: u64 = 4096;
const FIRST_LINES: usize = 16;

/// The summary of one telemetry file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Telemetry {
    /// Path of the file.
    pub file: String,
    /// Requests that went from queued to freed.
    pub requests: u64,
    /// Requests with a stage missing: events were dropped, sampled or cut off.
    pub incomplete: u64,
    /// Requests that were not freed by the end of the file.
    pub unfinished: u64,
    /// Events of tasks, which have their own pointers.
    pub task_events: u64,
    /// Lines that are not telemetry events.
    pub other_lines: u64,
    /// How long requests were in each stage.
    pub stages: Vec<TelemetryStage>,
}

/// One stage, over all requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TelemetryStage {
    /// `queued`, `active`, `transmitting`, or `finished`: done and not yet freed.
    pub stage: &'static str,
    /// Number of requests.
    pub count: u64,
    /// Median duration, accurate to a factor of two.
    pub us_p50: f64,
    /// Longest duration.
    pub us_max: f64,
}

/// Whether a file with these first bytes is a telemetry file.
pub(super) fn is_events(head: &[u8]) -> bool {
    // The last line may be incomplete.
    let whole = head
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(&head[..0], |at| &head[..at]);
    let lines = || whole.split(|byte| *byte == b'\n').take(FIRST_LINES);
    lines().any(|line| event(line).is_some())
        && lines().all(|line| event(line).is_some() || line.is_empty() || is_clock(line))
}

/// `Fri Nov 20 08:14:04 2026`.
fn is_clock(line: &[u8]) -> bool {
    line.len() == 24 && line[13] == b':' && line[16] == b':'
}

struct TelemetryEvent {
    is_request: bool,
    pointer: u64,
    state: u8,
    nanoseconds: u64,
}

fn event(line: &[u8]) -> Option<TelemetryEvent> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let is_request = match words.next()? {
        "R" => true,
        "T" => false,
        _ => return None,
    };
    let pointer = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let _passive: u8 = words.next()?.parse().ok()?;
    let (state, nanoseconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(TelemetryEvent {
        is_request,
        pointer,
        state,
        nanoseconds,
    })
}

/// Reads a telemetry file to its end.
///
/// # Errors
/// Reading failed.
pub(super) fn read(source: impl Read) -> io::Result<Telemetry> {
    let mut reader = BufReader::with_capacity(1 << 18, source);
    let (mut lives, mut line) = (Lives::default(), Vec::new());
    loop {
        line.clear();
        if reader
            .by_ref()
            .take(LINE_MAX)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(lives.end());
        }
        let text = line.trim_ascii();
        match event(text) {
            Some(event) => lives.take(&event),
            None if text.is_empty() || is_clock(text) => {}
            None => lives.telemetry.other_lines += 1,
        }
    }
}

#[derive(Default)]
struct Lives {
    telemetry: Telemetry,
    /// The current stage of each pointer, and since when.
    now: HashMap<u64, (usize, u64)>,
    stages: [Durations; 4],
}

impl Lives {
    fn take(&mut self, event: &TelemetryEvent) {
        if !event.is_request {
            self.telemetry.task_events += 1;
            return;
        }
        let Some(stage) = STAGES.iter().position(|state| *state == event.state) else {
            self.telemetry.other_lines += 1;
            return;
        };
        match (self.now.remove(&event.pointer), stage) {
            (before, 0) => {
                self.telemetry.incomplete += u64::from(before.is_some());
                if self.now.len() < POINTERS_MAX {
                    self.now.insert(event.pointer, (0, event.nanoseconds));
                }
            }
            (Some((before, since)), stage) if stage == before + 1 => {
                self.stages[before].add(event.nanoseconds.saturating_sub(since));
                if stage == STAGES.len() - 1 {
                    self.telemetry.requests += 1;
                } else {
                    self.now.insert(event.pointer, (stage, event.nanoseconds));
                }
            }
            // A stage is missing, or the request began before the file.
            (Some(_), _) => self.telemetry.incomplete += 1,
            (None, _) => {}
        }
    }

    fn end(mut self) -> Telemetry {
        self.telemetry.unfinished = self.now.len() as u64;
        let stages = NAMES
            .iter()
            .zip(&self.stages)
            .filter(|(_, durations)| durations.count > 0);
        self.telemetry.stages = stages
            .map(|(stage, durations)| durations.stage(stage))
            .collect();
        self.telemetry
    }
}

/// Histogram of durations by powers of two.
#[derive(Default)]
struct Durations {
    count: u64,
    max: u64,
    powers: BTreeMap<u32, u64>,
}

impl Durations {
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.max = self.max.max(nanoseconds);
        *self.powers.entry(nanoseconds.max(1).ilog2()).or_default() += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "durations for people")]
    fn stage(&self, stage: &'static str) -> TelemetryStage {
        let mut sum = 0;
        let half = self.powers.iter().find(|(_, count)| {
            sum += **count;
            2 * sum >= self.count
        });
        let above = half.map_or(u64::MAX, |(power, _)| 2_u64.saturating_pow(power + 1));
        let p50 = above.min(self.max) as f64;
        TelemetryStage {
            stage,
            count: self.count,
            us_p50: p50 / 1e3,
            us_max: self.max as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "Fri Nov 20 08:14:04 2026\n\n";

    fn life(states: &[u8], from: u64) -> String {
        let line = |(index, state): (usize, &u8)| {
            format!(
                "R 0x564020fd8ad0 1 {state} {}\n",
                from + 1000 * index as u64
            )
        };
        states.iter().enumerate().map(line).collect()
    }

    #[test]
    fn the_swapped_codes_are_put_in_order() {
        let text = format!(
            "{HEAD}{}{}",
            life(&[3, 4, 2, 1, 0], 0),
            life(&[3, 4, 2], 9000)
        );
        assert!(is_events(text.as_bytes()));
        let telemetry = read(text.as_bytes()).unwrap();
        assert_eq!(
            (
                telemetry.requests,
                telemetry.incomplete,
                telemetry.unfinished
            ),
            (1, 0, 1)
        );
        assert_eq!(
            telemetry
                .stages
                .iter()
                .map(|stage| (stage.stage, stage.count))
                .collect::<Vec<_>>(),
            [
                ("queued", 2),
                ("active", 2),
                ("transmitting", 1),
                ("finished", 1)
            ]
        );
        assert_eq!(telemetry.stages[0].us_max, 1.0);
    }

    #[test]
    fn requests_with_dropped_events_are_counted_as_incomplete() {
        let telemetry =
            read(format!("{}{}", life(&[3, 2, 1, 0], 0), life(&[3, 3, 4], 9000)).as_bytes())
                .unwrap();
        assert_eq!((telemetry.requests, telemetry.incomplete), (0, 2));
    }

    #[test]
    fn a_log_is_not_telemetry() {
        assert!(!is_events(b"node0:1:2 [0] NCCL INFO x\nR 0x1 0 3 5\n"));
        assert!(!is_events(b""));
    }

    proptest! {
        #[test]
        fn any_events_add_up(lives in prop::collection::vec((0u64..4, 0u8..8), 0..60)) {
            let text: String = lives.iter().map(|(pointer, state)| format!("R 0x{pointer:x} 0 {state} 7\n")).collect();
            let telemetry = read(text.as_bytes()).unwrap();
            let begun = lives.iter().filter(|(_, state)| *state == 3).count() as u64;
            prop_assert_eq!(telemetry.requests + telemetry.incomplete + telemetry.unfinished, begun);
        }
    }
}
