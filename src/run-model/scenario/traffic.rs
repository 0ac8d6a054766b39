//! `[traffic]`: what moves instead of one stream of bytes. The one kind is the KV cache of a
//! language model, in pages.
//!
//! A *page* holds the keys and values of a few tokens in one layer. A *request* moves the pages of
//! one sequence, all its layers; a *batch* is a part of them that one vector read or write moves.
//!
//! Pages of 16 tokens are vLLM's default (`--block-size`).
#![forbid(unsafe_code)]

use super::presets::{ElementType, PRESETS, Preset};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tcpx_words::units::{ByteCount, counted};
use tcpx_words::word_set;

/// Most entries of a mix of lengths.
const MIX_MAX: usize = 16;
/// Longest sequence.
const TOKENS_MAX: u32 = 1 << 22;
const WEIGHT_MAX: u32 = 1000;

/// KV-cache traffic: requests of pages, in batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// What moves. Without `[traffic]`, one stream of bytes.
    pub kind: TrafficKind,
    /// The model whose KV cache moves.
    pub model: String,
    /// Layers, instead of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1024)))]
    pub layers: Option<u32>,
    /// KV heads, instead of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 4096)))]
    pub kv_heads: Option<u32>,
    /// Elements of one head, instead of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 65536)))]
    pub head_size: Option<u32>,
    /// 2 for keys and values, 1 for one latent vector in place of both; instead of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 2)))]
    pub planes: Option<u32>,
    /// Type of an element, instead of the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<ElementType>,
    /// Ranks of tensor parallelism: each end holds the KV heads of one of them.
    #[cfg_attr(test, schemars(range(min = 1, max = 64)))]
    pub tp: u32,
    /// Tokens of a page.
    #[cfg_attr(test, schemars(range(min = 1, max = 65536)))]
    pub page_tokens: u32,
    /// Bytes of a page, instead of what the model gives; a request then has one layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<ByteCount>,
    /// Tokens of a request, or a mix with weights, such as "512x7, 2048x2, 8192".
    #[cfg_attr(test, schemars(with = "IntegerOrText"))]
    pub tokens: TokenMix,
    /// Who starts the operations.
    pub op: KvOperation,
    /// Most pages of one vector read or write.
    #[cfg_attr(test, schemars(range(min = 1, max = 4096)))]
    pub batch: u32,
    /// Most batches of a request in flight.
    #[cfg_attr(test, schemars(range(min = 1, max = 64)))]
    pub depth: u32,
    /// Requests of one iteration.
    #[cfg_attr(test, schemars(range(min = 1, max = 100_000)))]
    pub requests: u32,
    /// Most requests in flight.
    #[cfg_attr(test, schemars(range(min = 1, max = 256)))]
    pub concurrency: u32,
    /// When a request begins.
    pub arrival: Arrival,
    /// Requests per second; only, and always, with arrival = "poisson".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PerSecond>,
    /// Memory that the pages are taken from, at the end that has them.
    pub cache: ByteCount,
    /// Of lengths, pages and arrivals: the same seed gives the same requests.
    pub seed: u32,
}

/// As `tokens` is written.
#[cfg(test)]
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum IntegerOrText {
    Integer(u32),
    Text(String),
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            kind: TrafficKind::Kv,
            model: PRESETS[0].name.to_owned(),
            layers: None,
            kv_heads: None,
            head_size: None,
            planes: None,
            dtype: None,
            tp: 1,
            page_tokens: 16,
            page: None,
            tokens: TokenMix(vec![(1024, 1)]),
            op: KvOperation::Pull,
            batch: 64,
            depth: 2,
            requests: 16,
            concurrency: 4,
            arrival: Arrival::Closed,
            rate: None,
            cache: ByteCount(256 << 20),
            seed: 1,
        }
    }
}

word_set! {
    /// What moves.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum TrafficKind {
        /// Pages of a KV cache.
        Kv = "kv",
    }
}

word_set! {
    /// Who starts the operations. The bytes go in `transfer.direction` in either case.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum KvOperation {
        /// The receiving end reads.
        Pull = "pull",
        /// The sending end writes.
        Push = "push",
    }
}

word_set! {
    /// When a request begins.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum Arrival {
        /// When one before it has ended.
        Closed = "closed",
        /// At random times, whether those before have ended or not; its latency counts from there.
        Poisson = "poisson",
    }
}

/// A number per second, rounded to six decimals, so that it survives JSON exactly.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(from = "f64", into = "f64")]
pub struct PerSecond(f64);

impl PerSecond {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for PerSecond {
    fn from(rate: f64) -> Self {
        Self((rate * 1e6).round() / 1e6)
    }
}

impl From<PerSecond> for f64 {
    fn from(rate: PerSecond) -> Self {
        rate.0
    }
}

/// Lengths of requests with their weights: `1024`, or `512x7, 2048x2, 8192`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TokensAsWritten", into = "String")]
pub struct TokenMix(Vec<(u32, u32)>);

impl TokenMix {
    /// Every request with as many tokens.
    pub fn of(tokens: u32) -> Self {
        Self(vec![(tokens, 1)])
    }

    /// Tokens and weight of each length.
    pub fn lengths(&self) -> &[(u32, u32)] {
        &self.0
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokensAsWritten {
    Number(u32),
    Text(String),
}

impl TryFrom<TokensAsWritten> for TokenMix {
    type Error = String;
    fn try_from(written: TokensAsWritten) -> Result<Self, String> {
        match written {
            TokensAsWritten::Number(tokens) => tokens.to_string().parse(),
            TokensAsWritten::Text(text) => text.parse(),
        }
    }
}

impl FromStr for TokenMix {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').take(MIX_MAX + 1).collect();
        if parts.len() > MIX_MAX {
            return Err(format!("more than {MIX_MAX} lengths"));
        }
        let part = |part: &&str| {
            let (tokens, weight) = part.split_once('x').unwrap_or((part, "1"));
            let number = |text: &str, max: u32| {
                let number = text.trim().parse::<u32>().ok();
                number.filter(|number| (1..=max).contains(number))
            };
            number(tokens, TOKENS_MAX)
                .zip(number(weight, WEIGHT_MAX))
                .ok_or_else(|| format!("`{}` is not TOKENS or TOKENSxWEIGHT", part.trim()))
        };
        parts.iter().map(part).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for TokenMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |(tokens, weight): &(u32, u32)| match weight {
            1 => tokens.to_string(),
            _ => format!("{tokens}x{weight}"),
        };
        f.pad(&self.0.iter().map(part).collect::<Vec<_>>().join(", "))
    }
}

impl From<TokenMix> for String {
    fn from(mix: TokenMix) -> Self {
        mix.to_string()
    }
}

/// What one request consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvShape {
    /// Layers, each with pages of its own.
    pub layers: u32,
    /// Tokens of a page.
    pub page_tokens: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl KvShape {
    /// Pages of a sequence.
    pub fn pages(self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.page_tokens)) * u64::from(self.layers)
    }
}

impl Traffic {
    /// The model's preset with the file's own figures in place of the model's.
    pub(super) fn preset(&self) -> Option<Preset> {
        let known = PRESETS.iter().find(|one| one.name == self.model)?;
        Some(Preset {
            layers: self.layers.unwrap_or(known.layers),
            kv_heads: self.kv_heads.unwrap_or(known.kv_heads),
            head_size: self.head_size.unwrap_or(known.head_size),
            planes: self.planes.unwrap_or(known.planes),
            dtype: self.dtype.unwrap_or(known.dtype),
            ..*known
        })
    }

    /// The pages of a request. A checked scenario has a known model; any other has empty pages.
    pub fn shape(&self) -> KvShape {
        let page_tokens = self.page_tokens.max(1);
        if let Some(page) = self.page {
            return KvShape {
                layers: 1,
                page_tokens,
                page_bytes: page.0,
            };
        }
        let Some(of) = self.preset() else {
            return KvShape {
                layers: 1,
                page_tokens,
                page_bytes: 0,
            };
        };
        let heads = u64::from(of.kv_heads / self.tp.max(1));
        let token = u64::from(of.planes) * heads * u64::from(of.head_size) * of.dtype.bytes();
        KvShape {
            layers: of.layers,
            page_tokens,
            page_bytes: token * u64::from(page_tokens),
        }
    }

    /// `llama-3.1-8b, 32 layers, pages of 16 tokens (64KiB)`, or `pages of 64KiB`.
    pub fn what(&self) -> String {
        let shape = self.shape();
        let bytes = ByteCount(shape.page_bytes);
        if self.page.is_some() {
            return format!("pages of {bytes}");
        }
        let tp = match self.tp {
            1 => String::new(),
            ranks => format!(", a rank of {ranks}"),
        };
        format!(
            "{}{tp}, {} layers, pages of {} tokens ({bytes})",
            self.model, shape.layers, shape.page_tokens
        )
    }

    /// `requests of 512x7, 2048 tokens in batches of 64 pages`, or `requests of 2 pages in batches of 2`.
    pub fn cut(&self) -> String {
        let unit = match (self.page, self.page_tokens) {
            (Some(_), 1) => "pages",
            _ => "tokens",
        };
        let pages = counted(self.batch as usize, "page");
        format!("requests of {} {unit} in batches of {pages}", self.tokens)
    }

    /// `closed loop of 4`, or `20 requests/s at random, at most 4 at once`.
    pub fn arrives(&self) -> String {
        match (self.arrival, self.rate) {
            (Arrival::Poisson, Some(rate)) => format!(
                "{} requests/s at random, at most {} at once",
                rate.get(),
                self.concurrency
            ),
            _ => format!("closed loop of {}", self.concurrency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::MODELS;
    use super::*;

    #[test]
    fn presets_have_the_bytes_per_token_that_the_models_are_known_for() {
        let check = |model: &str, page: u64, token_all_layers: u64| {
            let traffic = Traffic {
                model: model.into(),
                ..Traffic::default()
            };
            let shape = traffic.shape();
            assert_eq!(shape.page_bytes, page, "{model}");
            let token = page / 16 * u64::from(shape.layers);
            assert_eq!(token, token_all_layers, "{model}");
        };
        check("llama-3.1-8b", 64 << 10, 128 << 10);
        check("llama-3.1-70b", 64 << 10, 320 << 10);
        check("llama-2-7b", 256 << 10, 512 << 10);
        check("qwen2.5-7b", 32 << 10, 56 << 10);
        // One latent vector of 512 + 64 elements per token and layer.
        check("deepseek-v3", 16 * 1152, 61 * 1152);
        for one in PRESETS {
            assert!(MODELS.contains(one.name), "{}", one.name);
        }
    }

    #[test]
    fn own_figures_replace_those_of_the_model() {
        let mut traffic = Traffic {
            layers: Some(2),
            dtype: Some(ElementType::Fp8),
            tp: 4,
            page_tokens: 10,
            ..Traffic::default()
        };
        let shape = traffic.shape();
        assert_eq!((shape.layers, shape.page_bytes), (2, 2 * 2 * 128 * 10));
        assert_eq!([1, 10, 11].map(|tokens| shape.pages(tokens)), [2, 2, 4]);
        traffic.page = Some(ByteCount(4096));
        let shape = traffic.shape();
        assert_eq!((shape.layers, shape.page_bytes), (1, 4096));
    }

    #[test]
    fn a_mix_of_lengths_is_read_and_written() {
        let check = |text: &str, expected: &[(u32, u32)]| {
            let mix: TokenMix = text.parse().expect(text);
            assert_eq!(mix.lengths(), expected, "{text}");
            assert_eq!(mix.to_string().parse(), Ok(mix));
        };
        check("1024", &[(1024, 1)]);
        check("512x7,2048 x 2, 8192", &[(512, 7), (2048, 2), (8192, 1)]);
        for bad in [
            "", "0", "x", "512x0", "512x1001", "-1", "5000000", "1,", "1x2x3",
        ] {
            assert!(bad.parse::<TokenMix>().is_err(), "{bad}");
        }
        assert!(vec!["1"; 17].join(",").parse::<TokenMix>().is_err());
    }
}
