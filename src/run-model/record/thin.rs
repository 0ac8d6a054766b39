//! Reads an event stream and keeps a bounded number of its samples.
//!
//! Samples are nearly all of a long stream. The first bytes of a line tell whether it is a sample,
//! so skipped samples are never parsed. When the limit is reached, every second kept sample is
//! dropped, and from then on only every second new one is kept.
#![forbid(unsafe_code)]

use crate::event::{SampleLine, is_sample};
use crate::ids::WorkerId;
use memchr::memmem::find;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Longest line.
const LINE_MAX: u64 = 16 << 20;
/// Samples kept per worker.
const KEPT_MAX: usize = 512;
/// Bytes of all kept samples; beyond this, every worker's samples are halved.
const BYTES_MAX: usize = 128 << 20;
/// Workers whose samples are kept.
const WORKERS_MAX: usize = 4096;
/// The first bytes of a line, which hold the worker's ids.
const HEAD: usize = 256;

/// The sample lines of one worker, unparsed.
#[derive(Debug)]
pub struct Samples {
    /// The worker; `None` if the first line cannot be parsed.
    pub worker: Option<WorkerId>,
    every: usize,
    passed: usize,
    kept: Vec<(u64, Vec<u8>)>,
    newest: (u64, Vec<u8>),
}

impl Samples {
    fn new(first: &[u8]) -> Self {
        let worker = SampleLine::<IgnoredAny>::parse(first).map(|sample| sample.worker);
        Self {
            worker,
            every: 1,
            passed: 0,
            kept: Vec::new(),
            newest: (0, Vec::new()),
        }
    }

    fn push(&mut self, number: u64, line: &[u8]) -> usize {
        self.newest.0 = number;
        self.newest.1.clear();
        self.newest.1.extend_from_slice(line);
        self.passed += 1;
        if self.passed < self.every {
            return 0;
        }
        self.passed = 0;
        if self.kept.len() == KEPT_MAX {
            self.halve();
        }
        self.kept.push((number, line.to_vec()));
        line.len()
    }

    /// Drops every second sample, and halves the rate at which new ones are kept.
    fn halve(&mut self) {
        let mut place = 0;
        self.kept.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.every *= 2;
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|(_, line)| line.len()).sum()
    }

    /// Number of the newest line in the stream, from 1.
    pub(crate) fn newest_number(&self) -> u64 {
        self.newest.0
    }

    /// The newest line.
    pub fn newest(&self) -> &[u8] {
        &self.newest.1
    }

    /// The kept lines with their numbers in the stream; always includes the newest.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let last = self
            .kept
            .last()
            .is_none_or(|last| last.0 != self.newest.0)
            .then_some(&self.newest);
        self.kept
            .iter()
            .chain(last)
            .map(|(number, line)| (*number, line.as_slice()))
    }
}

/// The samples kept from a stream.
#[derive(Debug, Default)]
pub struct Thinned {
    /// Samples by worker; the key is the part of the line that holds the worker's ids.
    pub samples: BTreeMap<Vec<u8>, Samples>,
    /// Lines of the stream.
    pub lines: u64,
    /// Samples among them.
    pub sampled: u64,
    /// Bytes that were kept since they were counted last; more than there are.
    bytes: usize,
    bytes_max: usize,
}

impl Thinned {
    /// Samples that were passed over.
    pub fn passed_over(&self) -> u64 {
        let kept = self
            .samples
            .values()
            .map(|samples| samples.lines().count() as u64)
            .sum::<u64>();
        self.sampled.saturating_sub(kept)
    }

    fn take(&mut self, line: &[u8]) {
        self.sampled += 1;
        let head = &line[..line.len().min(HEAD)];
        let (of, workers) = (worker_of(head), self.samples.len());
        match self.samples.get_mut(of) {
            Some(samples) => self.bytes += samples.push(self.lines, line),
            None if workers < WORKERS_MAX => {
                let samples = self
                    .samples
                    .entry(of.to_vec())
                    .or_insert_with(|| Samples::new(line));
                self.bytes += samples.push(self.lines, line);
            }
            None => {}
        }
        if self.bytes > self.bytes_max {
            self.bytes = self.samples.values().map(Samples::bytes).sum();
        }
        if self.bytes > self.bytes_max {
            self.samples.values_mut().for_each(Samples::halve);
            self.bytes = self.samples.values().map(Samples::bytes).sum();
        }
    }
}

/// Reads a stream to its end. `other` is called for every line that is not a sample, with the
/// line's number and the samples so far.
///
/// # Errors
/// Reading the stream fails.
pub fn thin(reader: impl BufRead, other: impl FnMut(u64, &[u8], &Thinned)) -> io::Result<Thinned> {
    thin_within(BYTES_MAX, reader, other)
}

fn thin_within(
    bytes_max: usize,
    mut reader: impl BufRead,
    mut other: impl FnMut(u64, &[u8], &Thinned),
) -> io::Result<Thinned> {
    let (mut line, mut thinned) = (
        Vec::new(),
        Thinned {
            bytes_max,
            ..Thinned::default()
        },
    );
    loop {
        line.clear();
        if reader
            .by_ref()
            .take(LINE_MAX)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(thinned);
        }
        thinned.lines += 1;
        if is_sample(&line) {
            thinned.take(&line);
        } else {
            other(thinned.lines, &line, &thinned);
        }
    }
}

/// The part of a line that holds the worker's ids.
fn worker_of(head: &[u8]) -> &[u8] {
    let from = find(head, br#""node":"#).unwrap_or(0);
    let behind = &head[from..];
    let ends: [&[u8]; 3] = [br#""node_us":"#, br#""said":"#, br#""sample":"#];
    let to = ends
        .iter()
        .find_map(|end| find(behind, end))
        .unwrap_or(behind.len());
    &behind[..to]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_and_first_newest_and_other_lines_stay() {
        let line = |n: usize| match n % 100 {
            50 => format!("{{\"n\":{n},\"note\":\"x\"}}\n"),
            _ => format!(
                "{{\"n\":{n},\"node\":\"{}\",\"node_us\":{n},\"said\":{{\"sample\":[]}}}}\n",
                n % 2
            ),
        };
        let text: String = (0..4000).map(line).collect();
        let mut others = 0;
        let thinned = thin(text.as_bytes(), |_, _, _| others += 1).expect("read");
        assert_eq!(
            (
                others,
                thinned.lines,
                thinned.sampled,
                thinned.samples.len()
            ),
            (40, 4000, 3960, 2)
        );
        for samples in thinned.samples.values() {
            let numbers: Vec<u64> = samples.lines().map(|line| line.0).collect();
            assert!((256..=KEPT_MAX + 1).contains(&numbers.len()) && numbers.is_sorted());
            assert!(numbers[0] <= 2 && numbers[numbers.len() - 1] >= 3999);
        }
    }

    #[test]
    fn many_workers_with_many_channels_keep_fewer_samples_each() {
        let line = |n: usize| {
            format!(
                "{{\"at\":\"x\",\"ms\":{n},\"node\":{},\"pair\":0,\"sample\":[{{\"posted\":1}}]}}\n",
                n % 32
            )
        };
        let text: String = (0..32 * 256).map(line).collect();
        let thinned = thin_within(100_000, text.as_bytes(), |_, _, _| {}).expect("read");
        let kept: usize = thinned.samples.values().map(Samples::bytes).sum();
        assert!((25_000..=100_000).contains(&kept), "{kept}");
        assert!(
            thinned
                .samples
                .values()
                .all(|samples| samples.kept.len() >= 16)
        );
    }
}
