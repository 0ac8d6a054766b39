//! Which records count: `--since`, `--until`, `--rank`, `--node`.
//!
//! A record that does not say what is asked for is not counted with `--rank` and
//! `--node`; without a time it is, since most lines have none.
#![forbid(unsafe_code)]

use super::shape::Record;
use super::time;

/// All of them must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Microseconds since 1970, from which.
    pub since_us: Option<i64>,
    /// Up to which.
    pub until_us: Option<i64>,
    /// Of the launcher.
    pub rank: Option<u32>,
    /// A host as NCCL writes it: up to the first dot.
    pub node: Option<String>,
}

impl Filter {
    pub(super) fn takes(&self, record: &Record<'_>) -> bool {
        let after = self
            .since_us
            .is_none_or(|since| record.time_us.is_none_or(|time| time >= since));
        let before = self
            .until_us
            .is_none_or(|until| record.time_us.is_none_or(|time| time <= until));
        let rank = self.rank.is_none_or(|rank| record.rank == Some(rank));
        let node = self
            .node
            .as_ref()
            .is_none_or(|node| record.host == Some(node.as_bytes()));
        after && before && rank && node
    }
}

/// A time of `--since` and `--until`: RFC 3339, or a date; without a zone it is
/// UTC. In microseconds since 1970.
pub fn parse_time(text: &str) -> Option<i64> {
    time::typed(text.trim())
}
