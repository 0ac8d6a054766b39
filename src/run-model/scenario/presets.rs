//! The KV caches of known models: what one token needs in each layer.
//!
//! The shapes are those of the `config.json` that the models' authors publish: `num_hidden_layers`,
//! `num_key_value_heads`, `head_dim` (or `hidden_size` divided by `num_attention_heads`) and
//! `torch_dtype`; for DeepSeek's latent vectors `kv_lora_rank` plus `qk_rope_head_dim`.
#![forbid(unsafe_code)]

#[cfg(test)]
use schemars::JsonSchema;
use tcpx_words::word_set;

/// A model's cache: the figures of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name in `traffic.model`.
    pub name: &'static str,
    /// Layers that have a cache of their own.
    pub layers: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Elements of one head.
    pub head_size: u32,
    /// 2 for keys and values, 1 for a latent vector in place of both.
    pub planes: u32,
    /// Type of an element.
    pub dtype: ElementType,
}

const fn preset(name: &'static str, layers: u32, kv_heads: u32, head_size: u32) -> Preset {
    Preset {
        name,
        layers,
        kv_heads,
        head_size,
        planes: 2,
        dtype: ElementType::Bf16,
    }
}

/// The known models; the first one is the default.
pub const PRESETS: &[Preset] = &[
    preset("llama-3.1-8b", 32, 8, 128),
    preset("llama-3.1-70b", 80, 8, 128),
    preset("llama-3.1-405b", 126, 8, 128),
    Preset {
        dtype: ElementType::Fp16,
        ..preset("llama-2-7b", 32, 32, 128)
    },
    preset("mistral-7b", 32, 8, 128),
    preset("mixtral-8x7b", 32, 8, 128),
    preset("qwen2.5-7b", 28, 4, 128),
    preset("qwen2.5-72b", 80, 8, 128),
    preset("qwen3-8b", 36, 8, 128),
    preset("qwen3-32b", 64, 8, 128),
    preset("gpt-oss-120b", 36, 8, 64),
    Preset {
        planes: 1,
        ..preset("deepseek-v3", 61, 1, 576)
    },
];

/// The names in [`PRESETS`], for messages.
pub(super) const MODELS: &str = "one of llama-3.1-8b, llama-3.1-70b, llama-3.1-405b, llama-2-7b, mistral-7b, mixtral-8x7b, qwen2.5-7b, qwen2.5-72b, qwen3-8b, qwen3-32b, gpt-oss-120b, deepseek-v3; another model by traffic.layers, kv_heads, head_size and dtype";

word_set! {
    /// Type of an element of the cache.
    #[cfg_attr(test, derive(JsonSchema))]
    pub enum ElementType {
        /// 2 bytes.
        Bf16 = "bf16",
        /// 2 bytes.
        Fp16 = "fp16",
        /// 1 byte.
        Fp8 = "fp8",
        /// 1 byte.
        Int8 = "int8",
        /// 4 bytes.
        Fp32 = "fp32",
    }
}

impl ElementType {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Fp8 | Self::Int8 => 1,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp32 => 4,
        }
    }
}
