//! An event stream with as many of its samples as a reader needs.
//!
//! Nearly all of a long stream is samples. A line is known for one by its first
//! bytes, so what is passed over is never parsed; once there are as many as are
//! kept, every second one goes and only every second new one is taken.
#![forbid(unsafe_code)]

use memchr::memmem::{Finder, find};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Longest line that is read.
const LINE_MAX: u64 = 16 << 20;
/// Samples of one node that are kept.
const KEPT_MAX: usize = 512;
/// Nodes and GPUs that are told apart.
const NODES_MAX: usize = 1024;
/// What says what a line is stands within these first bytes.
const HEAD: usize = 256;

/// The samples of one node, unparsed.
#[derive(Debug)]
pub struct Samples {
    every: usize,
    passed: usize,
    kept: Vec<(u64, Vec<u8>)>,
    newest: (u64, Vec<u8>),
}

impl Default for Samples {
    fn default() -> Self {
        Self { every: 1, passed: 0, kept: Vec::new(), newest: (0, Vec::new()) }
    }
}

impl Samples {
    fn push(&mut self, number: u64, line: &[u8]) {
        self.newest.0 = number;
        self.newest.1.clear();
        self.newest.1.extend_from_slice(line);
        self.passed += 1;
        if self.passed < self.every {
            return;
        }
        self.passed = 0;
        if self.kept.len() == KEPT_MAX {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.kept.push((number, line.to_vec()));
    }

    /// The last line so far.
    pub fn newest(&self) -> &[u8] {
        &self.newest.1
    }

    /// The lines that are kept with their numbers in the stream; the newest is
    /// always one.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let last = self.kept.last().is_none_or(|last| last.0 != self.newest.0).then_some(&self.newest);
        self.kept.iter().chain(last).map(|(number, line)| (*number, line.as_slice()))
    }
}

/// What was read of a stream.
#[derive(Debug, Default)]
pub struct Thinned {
    /// By what tells nodes and GPUs apart, as the lines have it.
    pub samples: BTreeMap<Vec<u8>, Samples>,
    /// Lines in all.
    pub lines: u64,
    /// Samples among them.
    pub sampled: u64,
}

impl Thinned {
    /// Samples that were passed over.
    pub fn passed_over(&self) -> u64 {
        let kept = self.samples.values().map(|samples| samples.lines().count() as u64).sum::<u64>();
        self.sampled.saturating_sub(kept)
    }
}

/// Reads a stream to its end. `other` gets every line that is no sample, with its
/// number and the samples so far.
///
/// # Errors
/// The stream cannot be read on.
pub fn thin(mut reader: impl BufRead, mut other: impl FnMut(u64, &[u8], &Thinned)) -> io::Result<Thinned> {
    let is_sample = Finder::new(br#""said":{"sample":["#);
    let (mut line, mut thinned) = (Vec::new(), Thinned::default());
    loop {
        line.clear();
        if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(thinned);
        }
        thinned.lines += 1;
        let head = &line[..line.len().min(HEAD)];
        if is_sample.find(head).is_none() {
            other(thinned.lines, &line, &thinned);
            continue;
        }
        thinned.sampled += 1;
        let (of, nodes) = (node_of(head), thinned.samples.len());
        match thinned.samples.get_mut(of) {
            Some(samples) => samples.push(thinned.lines, &line),
            None if nodes < NODES_MAX => {
                thinned.samples.entry(of.to_vec()).or_default().push(thinned.lines, &line);
            }
            None => {}
        }
    }
}

/// Where a line says whose it is.
fn node_of(head: &[u8]) -> &[u8] {
    let from = find(head, br#""node":"#).unwrap_or(0);
    let behind = &head[from..];
    let to = find(behind, br#""node_us":"#).or_else(|| find(behind, br#""said":"#)).unwrap_or(behind.len());
    &behind[..to]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_and_their_ends_and_all_else_stay() {
        let line = |n: usize| match n % 100 {
            50 => format!("{{\"n\":{n},\"note\":\"x\"}}\n"),
            _ => format!("{{\"n\":{n},\"node\":\"{}\",\"node_us\":{n},\"said\":{{\"sample\":[]}}}}\n", n % 2),
        };
        let text: String = (0..4000).map(line).collect();
        let mut others = 0;
        let thinned = thin(text.as_bytes(), |_, _, _| others += 1).expect("read");
        assert_eq!((others, thinned.lines, thinned.sampled, thinned.samples.len()), (40, 4000, 3960, 2));
        for samples in thinned.samples.values() {
            let numbers: Vec<u64> = samples.lines().map(|line| line.0).collect();
            assert!((256..=KEPT_MAX + 1).contains(&numbers.len()) && numbers.is_sorted());
            assert!(numbers[0] <= 2 && numbers[numbers.len() - 1] >= 3999);
        }
    }
}
