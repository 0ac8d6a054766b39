//! Iteration times and rates of one end of one process, bounded.
#![forbid(unsafe_code)]

/// Most results of a program; a sweep has one for each size.
const RESULTS_MAX: usize = 64;
/// Most iteration times of a program.
const SAMPLES_MAX: usize = 1024;

/// The times of one run of iterations, or one rate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Measurement {
    /// Bytes of an iteration or of a message.
    pub bytes: Option<u64>,
    /// The time of each iteration, in the order of the log.
    pub ms: Vec<f64>,
    /// Iterations beyond the limit.
    pub left_out: u64,
    pub last_iteration: Option<u32>,
    /// Iterations that the program asked for.
    pub wanted: Option<u64>,
    /// The program's own mean: iterations, milliseconds, rate as printed.
    pub mean: Option<(Option<u32>, f64, Option<f64>)>,
    /// The rate of a benchmark that prints no times, in 10^9 bytes per second.
    pub gb_per_s: Option<f64>,
    /// An iteration ended although one of its posts or tests had failed.
    pub is_false: bool,
}

impl Measurement {
    /// Rate of each iteration in 10^9 bytes per second, if the size is known.
    pub(super) fn rates(&self) -> Vec<f64> {
        let Some(bytes) = self.bytes else {
            return Vec::new();
        };
        let rate = |ms: &f64| bytes as f64 / (ms * 1e6);
        self.ms.iter().filter(|ms| **ms > 0.0).map(rate).collect()
    }
}

/// All results of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Results {
    pub all: Vec<Measurement>,
    samples: usize,
    /// Results beyond the limit.
    pub left_out: u64,
    /// The last result belongs to a run that goes on.
    is_open: bool,
}

impl Results {
    pub(super) fn iteration(&mut self, iteration: u32, ms: f64, bytes: Option<u64>) {
        let fits = self.samples < SAMPLES_MAX;
        let Some(open) = self.open() else { return };
        // One program prints each iteration twice.
        if open.last_iteration == Some(iteration) {
            return;
        }
        open.last_iteration = Some(iteration);
        open.bytes = open.bytes.or(bytes);
        if fits {
            open.ms.push(ms);
        } else {
            open.left_out += 1;
        }
        self.samples += usize::from(fits);
    }

    pub(super) fn mean(&mut self, iterations: Option<u32>, ms: f64, rate: Option<f64>) {
        if let Some(open) = self.open() {
            let known = open.mean.take();
            let rate = rate.or(known.and_then(|(.., rate)| rate));
            open.mean = Some((iterations, ms, rate));
        }
    }

    /// A rate that is a result of its own.
    pub(super) fn rate(&mut self, bytes: u64, gb_per_s: f64) {
        self.close();
        if let Some(open) = self.open() {
            (open.bytes, open.gb_per_s) = (Some(bytes), Some(gb_per_s));
        }
        self.close();
    }

    /// Adds the results of a later run, within the limits.
    pub(super) fn append(&mut self, later: Self) {
        self.left_out += later.left_out;
        for mut one in later.all {
            if self.all.len() >= RESULTS_MAX {
                self.left_out += 1;
                continue;
            }
            let room = SAMPLES_MAX.saturating_sub(self.samples);
            one.left_out += one.ms.len().saturating_sub(room) as u64;
            one.ms.truncate(room);
            self.samples += one.ms.len();
            self.all.push(one);
        }
        self.is_open = later.is_open;
    }

    /// The open result, or a new one; `None` beyond the limit.
    pub(super) fn open(&mut self) -> Option<&mut Measurement> {
        if !self.is_open {
            if self.all.len() >= RESULTS_MAX {
                self.left_out += 1;
                return None;
            }
            self.all.push(Measurement::default());
            self.is_open = true;
        }
        self.all.last_mut()
    }

    /// The result of the run that goes on, if it has one.
    pub(super) fn current(&mut self) -> Option<&mut Measurement> {
        self.all.last_mut().filter(|_| self.is_open)
    }

    /// What follows belongs to another result.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }
}
