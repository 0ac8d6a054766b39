//! The requests of KV-cache traffic: their lengths, pages and arrivals, from the scenario's seed.
//!
//! Both ends compute the same plan, so that only names of pages travel and not their contents. The
//! lengths are the same in every iteration, so that iterations can be compared; pages and arrivals
//! differ.
#![forbid(unsafe_code)]

use crate::scenario::{Arrival, KvShape, Traffic};
use fastrand::Rng;
use std::time::Duration;

/// Pages that a stamp in the payload tells apart.
const PAGES_MAX: u64 = 1 << 22;

/// Every request of an iteration.
#[derive(Debug, Clone)]
pub struct KvPlan {
    shape: KvShape,
    /// Pages by request.
    pages: Vec<u64>,
    batch: u64,
    cache_pages: u64,
    seed: u64,
    rate: Option<f64>,
}

impl KvPlan {
    /// The plan of a checked scenario.
    pub fn new(traffic: &Traffic) -> Self {
        let shape = traffic.shape();
        let mut lengths = Rng::with_seed(u64::from(traffic.seed));
        let pages = (0..traffic.requests).map(|_| shape.pages(drawn(traffic, &mut lengths)));
        let cache_pages = traffic.cache.0 / shape.page_bytes.max(1);
        Self {
            pages: pages.collect(),
            shape,
            batch: u64::from(traffic.batch.max(1)),
            cache_pages: cache_pages.clamp(1, PAGES_MAX),
            seed: u64::from(traffic.seed),
            rate: (traffic.arrival == Arrival::Poisson)
                .then(|| traffic.rate.map(f64::from))
                .flatten(),
        }
    }

    /// Requests of an iteration.
    pub fn requests(&self) -> usize {
        self.pages.len()
    }

    /// Bytes of a request.
    pub fn bytes_of(&self, request: usize) -> u64 {
        self.pages.get(request).copied().unwrap_or(0) * self.shape.page_bytes
    }

    /// Bytes of an iteration and direction.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().sum::<u64>() * self.shape.page_bytes
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.shape.page_bytes
    }

    /// Pages of the cache that requests name.
    pub fn cache_pages(&self) -> u64 {
        self.cache_pages
    }

    /// Batches of a request.
    pub fn batches(&self, request: usize) -> u64 {
        let pages = self.pages.get(request).copied().unwrap_or(0);
        pages.div_ceil(self.batch)
    }

    /// The pages of the cache that a batch moves, drawn at random as a paged allocator scatters
    /// them.
    pub fn pages(&self, iteration: u32, request: usize, batch: u64) -> impl Iterator<Item = u64> {
        let all = self.pages.get(request).copied().unwrap_or(0);
        let count = self.batch.min(all.saturating_sub(batch * self.batch));
        let place = (request as u64) << 32 | batch;
        let mut drawn = Rng::with_seed(mixed(&[self.seed, u64::from(iteration), place]));
        let cache_pages = self.cache_pages;
        (0..count).map(move |_| drawn.u64(0..cache_pages))
    }

    /// When each request arrives, from the start of the iteration; `None` in a closed loop.
    pub fn arrivals(&self, iteration: u32) -> Option<Vec<Duration>> {
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        let mut random = Rng::with_seed(mixed(&[self.seed, u64::from(iteration), u64::MAX]));
        let mut at = 0.0;
        let next = |_: &u64| {
            // 1 - x is never 0, so the logarithm is finite.
            at -= (1.0 - random.f64()).ln() / rate;
            Duration::try_from_secs_f64(at).unwrap_or(Duration::MAX)
        };
        Some(self.pages.iter().map(next).collect())
    }
}

/// Tokens of one request.
fn drawn(traffic: &Traffic, random: &mut Rng) -> u32 {
    let lengths = traffic.tokens.lengths();
    let all: u32 = lengths.iter().map(|(_, weight)| weight).sum();
    let mut at = random.u32(0..all.max(1));
    for (tokens, weight) in lengths {
        if at < *weight {
            return *tokens;
        }
        at -= weight;
    }
    1
}

/// One seed of several numbers.
fn mixed(parts: &[u64]) -> u64 {
    let mix = |hash: u64, part: &u64| Rng::with_seed(hash ^ part).u64(..);
    parts.iter().fold(0x6b76, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_words::units::ByteCount;

    fn traffic() -> Traffic {
        Traffic {
            page: Some(ByteCount(4096)),
            page_tokens: 1,
            tokens: "10x9, 100".parse().expect("a mix"),
            batch: 8,
            requests: 1000,
            cache: ByteCount(100 * 4096),
            ..Traffic::default()
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_gives_others() {
        let (one, same) = (KvPlan::new(&traffic()), KvPlan::new(&traffic()));
        let other = KvPlan::new(&Traffic {
            seed: 2,
            ..traffic()
        });
        assert_eq!(one.pages, same.pages);
        assert_ne!(one.pages, other.pages);
        let pages = |plan: &KvPlan, iteration| plan.pages(iteration, 3, 0).collect::<Vec<_>>();
        assert_eq!(pages(&one, 1), pages(&same, 1));
        assert_ne!(pages(&one, 1), pages(&one, 2));
        assert_ne!(pages(&one, 1), pages(&other, 1));
    }

    #[test]
    fn lengths_come_in_proportion_to_their_weights() {
        let plan = KvPlan::new(&traffic());
        let long = plan.pages.iter().filter(|pages| **pages == 100).count();
        assert!((60..140).contains(&long), "{long} of 1000");
        let all: u64 = (0..1000).map(|at| plan.bytes_of(at)).sum();
        assert_eq!(plan.bytes(), all);
    }

    #[test]
    fn the_batches_of_a_request_have_all_its_pages_and_stay_in_the_cache() {
        let plan = KvPlan::new(&traffic());
        for request in 0..plan.requests() {
            let batches = 0..plan.batches(request);
            let pages: Vec<u64> = batches.flat_map(|at| plan.pages(0, request, at)).collect();
            assert_eq!(pages.len() as u64 * 4096, plan.bytes_of(request));
            assert!(pages.iter().all(|page| *page < 100));
        }
        assert_eq!(plan.pages(0, 0, 1 << 20).count(), 0);
        assert_eq!(plan.pages(0, 1 << 20, 0).count(), 0);
    }

    #[test]
    fn arrivals_are_a_poisson_process_of_the_rate() {
        assert_eq!(KvPlan::new(&traffic()).arrivals(0), None);
        let plan = KvPlan::new(&Traffic {
            arrival: Arrival::Poisson,
            rate: Some(50.0.into()),
            requests: 20_000,
            ..traffic()
        });
        let at = plan.arrivals(0).expect("arrivals");
        assert!(at.is_sorted());
        let gaps: Vec<f64> = at
            .windows(2)
            .map(|two| (two[1] - two[0]).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let deviation = (square / gaps.len() as f64).sqrt();
        // Of an exponential distribution, mean and standard deviation are the same.
        assert!((mean - 0.02).abs() < 0.001, "{mean}");
        assert!((deviation - 0.02).abs() < 0.001, "{deviation}");
        assert_ne!(plan.arrivals(1), plan.arrivals(0));
    }
}
