//! The range of every value of `[traffic]`: one rule per key, as in `rules`.
//!
//! The bounds of an endpoint are those of `tcpx-p2p`: pieces of a vector, operations in flight,
//! unread notifications, messages at once, lanes.
#![forbid(unsafe_code)]

use super::checked::{Direction, Memory, Progress, Scenario};
use super::fault::Fault;
use super::presets::MODELS;
use super::rules::{Rule, TOTAL_MAX, rule, together};
use super::topology::Gpus;
use super::traffic::{Arrival, Traffic};
use std::ops::RangeInclusive;

const PAGE_MAX: u64 = 1 << 30;
/// Most memory of one end.
const MEMORY_MAX: u64 = 64 << 30;
/// Messages of an endpoint at once, at one end.
const MESSAGES_MAX: u64 = 1 << 18;
const ENDPOINT_CONNECTIONS_MAX: u32 = 256;
const ENDPOINT_CHUNKS: RangeInclusive<u64> = 4096..=64 << 20;

fn of(scenario: &Scenario, holds: impl FnOnce(&Traffic) -> bool) -> bool {
    scenario.traffic.as_ref().is_none_or(holds)
}

/// Messages that all batches in flight consist of.
fn messages(scenario: &Scenario, kv: &Traffic) -> u64 {
    let each = kv
        .shape()
        .page_bytes
        .div_ceil(scenario.transfer.chunk.0.max(1));
    let pages = u64::from(kv.concurrency * kv.depth) * u64::from(kv.batch);
    pages.saturating_mul(each)
}

pub(super) const TRAFFIC_RULES: &[Rule] = &[
    rule("traffic.model", MODELS, |s| {
        of(s, |kv| kv.preset().is_some())
    }),
    rule("traffic.layers", "a whole number from 1 to 1024", |s| {
        of(s, |kv| {
            kv.layers.is_none_or(|layers| (1..=1024).contains(&layers))
        })
    }),
    rule("traffic.kv_heads", "a whole number from 1 to 4096", |s| {
        of(s, |kv| {
            kv.kv_heads.is_none_or(|heads| (1..=4096).contains(&heads))
        })
    }),
    rule("traffic.head_size", "a whole number from 1 to 65536", |s| {
        of(s, |kv| {
            kv.head_size.is_none_or(|size| (1..=65536).contains(&size))
        })
    }),
    rule(
        "traffic.planes",
        "2 for keys and values, or 1 for a latent vector in place of both",
        |s| {
            of(s, |kv| {
                kv.planes.is_none_or(|planes| (1..=2).contains(&planes))
            })
        },
    ),
    rule("traffic.tp", "a whole number from 1 to 64", |s| {
        of(s, |kv| (1..=64).contains(&kv.tp))
    }),
    together(
        "traffic.tp",
        "a divisor of the KV heads: a rank holds whole heads",
        |s| {
            of(s, |kv| {
                kv.page.is_some() || kv.preset().is_some_and(|of| of.kv_heads % kv.tp == 0)
            })
        },
    ),
    rule(
        "traffic.page_tokens",
        "a whole number from 1 to 65536: the tokens of one page",
        |s| of(s, |kv| (1..=65536).contains(&kv.page_tokens)),
    ),
    rule(
        "traffic.page",
        "a size from 1 byte to 1GiB, such as \"64KiB\"",
        |s| {
            of(s, |kv| {
                kv.page.is_none_or(|page| (1..=PAGE_MAX).contains(&page.0))
            })
        },
    ),
    together(
        "traffic.page",
        "no layers, kv_heads, head_size, planes, dtype or tp beside it: they give the size of a page too",
        |s| {
            of(s, |kv| {
                let own = kv.layers.is_some()
                    || kv.kv_heads.is_some()
                    || kv.head_size.is_some()
                    || kv.planes.is_some()
                    || kv.dtype.is_some()
                    || kv.tp != 1;
                kv.page.is_none() || !own
            })
        },
    ),
    together(
        "traffic.page_tokens",
        "fewer tokens: a page of these heads is larger than 1GiB",
        |s| of(s, |kv| (1..=PAGE_MAX).contains(&kv.shape().page_bytes)),
    ),
    rule(
        "traffic.tokens",
        "1 to 4194304 tokens, or a mix with weights, such as \"512x7, 2048x2, 8192\"",
        |_| true,
    ),
    rule(
        "traffic.batch",
        "a whole number from 1 to 4096: the pages of one vector",
        |s| of(s, |kv| (1..=4096).contains(&kv.batch)),
    ),
    rule("traffic.depth", "a whole number from 1 to 64", |s| {
        of(s, |kv| (1..=64).contains(&kv.depth))
    }),
    rule("traffic.requests", "a whole number from 1 to 100000", |s| {
        of(s, |kv| (1..=100_000).contains(&kv.requests))
    }),
    together(
        "traffic.requests",
        "fewer requests: an iteration of these lengths may be larger than 1TiB",
        |s| {
            of(s, |kv| {
                let longest = kv.tokens.lengths().iter().map(|(tokens, _)| *tokens).max();
                let pages = kv.shape().pages(longest.unwrap_or(1));
                let bytes = pages.saturating_mul(kv.shape().page_bytes);
                bytes.saturating_mul(kv.requests.into()) <= TOTAL_MAX
            })
        },
    ),
    rule("traffic.concurrency", "a whole number from 1 to 256", |s| {
        of(s, |kv| (1..=256).contains(&kv.concurrency))
    }),
    together(
        "traffic.concurrency",
        "at most 1024 divided by traffic.depth: an endpoint keeps 1024 answers of its peer",
        |s| of(s, |kv| kv.concurrency * kv.depth <= 1024),
    ),
    together(
        "traffic.batch",
        "fewer pages: concurrency * depth * batch of them would need more than 64GiB at the receiving end",
        |s| {
            of(s, |kv| {
                let pages = u64::from(kv.concurrency * kv.depth) * u64::from(kv.batch);
                pages.saturating_mul(kv.shape().page_bytes) <= MEMORY_MAX
            })
        },
    ),
    rule("traffic.arrival", "closed or poisson", |_| true),
    rule(
        "traffic.rate",
        "a number above zero and up to 1000000: requests per second",
        |s| {
            of(s, |kv| {
                kv.rate
                    .is_none_or(|rate| rate.get() > 0.0 && rate.get() <= 1e6)
            })
        },
    ),
    together(
        "traffic.rate",
        "requests per second with arrival = \"poisson\", and none in a closed loop",
        |s| {
            of(s, |kv| {
                kv.rate.is_some() == (kv.arrival == Arrival::Poisson)
            })
        },
    ),
    rule(
        "traffic.cache",
        "a size of one page to 64GiB, such as \"256MiB\"",
        |s| {
            of(s, |kv| {
                (1..=MEMORY_MAX).contains(&kv.cache.0) && kv.cache.0 >= kv.shape().page_bytes
            })
        },
    ),
    rule(
        "traffic.seed",
        "a whole number from 0 to 4294967295",
        |_| true,
    ),
    together(
        "transfer.direction",
        "forward, reverse or both: KV-cache traffic has no ping-pong",
        |s| s.traffic.is_none() || s.transfer.direction != Direction::PingPong,
    ),
    together(
        "traffic.page",
        "a multiple of 16 bytes: a GPU compares no other pages in its memory; with transfer.verify = false, any size",
        |s| {
            of(s, |kv| {
                let is_compared = s.transfer.verify && s.transfer.memory == Memory::Device;
                !is_compared || kv.shape().page_bytes.is_multiple_of(16)
            })
        },
    ),
    together(
        "transfer.connections",
        "1 to 256 connections of an endpoint",
        |s| s.traffic.is_none() || s.transfer.connections <= ENDPOINT_CONNECTIONS_MAX,
    ),
    together(
        "transfer.chunk",
        "a size from 4KiB to 64MiB: what one message of an endpoint carries",
        |s| s.traffic.is_none() || ENDPOINT_CHUNKS.contains(&s.transfer.chunk.0),
    ),
    together(
        "topology.gpus",
        "\"auto\" or a list of one GPU: an endpoint moves the memory of one",
        |s| {
            s.traffic.is_none()
                || match &s.topology.gpus {
                    Gpus::Auto => true,
                    Gpus::List(list) => list.len() == 1,
                    Gpus::OrStandIns(_) | Gpus::StandIns(_) => false,
                }
        },
    ),
    together(
        "progress.policy",
        "\"opportunistic\": an endpoint drives its connections with threads of its own",
        |s| s.traffic.is_none() || s.progress == Progress::default(),
    ),
    together(
        "fault.by",
        "plugin, network, process or evidence: an endpoint has a driver of its own",
        |s| s.traffic.is_none() || !matches!(s.fault, Some(Fault::Driver { .. })),
    ),
    together(
        "traffic.batch",
        "fewer pages, or a larger transfer.chunk: concurrency * depth * batch of them would be more than 262144 messages at once",
        |s| of(s, |kv| messages(s, kv) <= MESSAGES_MAX),
    ),
];
