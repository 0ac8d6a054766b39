//! What counting asks about a signature for each of its lines.
//!
//! A signature takes hundreds of bytes and there are hundreds of them, so reading one for each line would
//! miss the processor's caches. This is small, and a parsed line has a copy.
#![forbid(unsafe_code)]

use super::reasons;
use super::seen::{SAMPLE_BYTES, VALUES_SAMPLE_BYTES};
use super::signature::{Fact, Severity, Signature};

/// How the lines of a signature are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counting {
    pub fact: Option<Fact>,
    /// Whether it is told as a finding.
    pub is_finding: bool,
    /// Whether it only says whose line it is.
    pub is_label: bool,
    /// Whether it explains a warning.
    pub explains: bool,
    /// Whether its words in a line at NCCL's level INFO are no error.
    pub is_foreign: bool,
    /// Whether its lines are of the GPU's driver.
    pub names_gpu: bool,
    /// Whether the lines below complete a line.
    pub has_below: bool,
    /// Whether it is that of any exception, which it quotes.
    pub quotes: bool,
    /// Whether values are read from the sample.
    has_regex: bool,
}

impl Counting {
    pub(super) fn of(signature: &Signature) -> Self {
        let only_network = signature.fallback && signature.network.is_some();
        Self {
            fact: signature.fact,
            is_finding: signature.severity.is_finding(),
            is_label: signature.label,
            explains: !(only_network && signature.severity == Severity::Info),
            is_foreign: signature.is_foreign_error(),
            names_gpu: signature.example.contains("NVRM: Xid"),
            has_below: signature.below.is_some(),
            quotes: reasons::quotes(signature),
            has_regex: signature.regex.is_some(),
        }
    }

    /// Most bytes of a sample.
    pub(super) fn sample_max(self) -> usize {
        match self.has_regex {
            true => VALUES_SAMPLE_BYTES,
            false => SAMPLE_BYTES,
        }
    }
}
