//! Selects records: `--since`, `--until`, `--rank`, `--node`.
//!
//! `--rank` and `--node` exclude records without a rank or a host. Where no launcher wrote a
//! rank, `--rank` selects by the GPU in NCCL's header. `--since` and `--until` include records
//! without a time, because most lines have none.
#![forbid(unsafe_code)]

use super::shape::Record;
use super::time::{self, Years};

/// Conditions on a record; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Earliest time, microseconds since 1970.
    pub since_us: Option<i64>,
    /// Latest time, microseconds since 1970.
    pub until_us: Option<i64>,
    /// The rank in the launcher's prefix, or the GPU in NCCL's header.
    pub rank: Option<u32>,
    /// The host as NCCL writes it: up to the first dot.
    pub node: Option<String>,
}

impl LogFilter {
    pub(super) fn takes(&self, record: &Record<'_>, years: Years) -> bool {
        let since = |since| record.time_us(years).is_none_or(|time| time >= since);
        let until = |until| record.time_us(years).is_none_or(|time| time <= until);
        let after = self.since_us.is_none_or(since);
        let before = self.until_us.is_none_or(until);
        let rank = self
            .rank
            .is_none_or(|rank| record.rank().or(record.gpu()) == Some(rank));
        let node = self
            .node
            .as_ref()
            .is_none_or(|node| record.host == Some(node.as_bytes()));
        after && before && rank && node
    }
}

/// Parses the time of `--since` and `--until`, RFC 3339 or a date, into microseconds since
/// 1970. A time without a zone is UTC.
pub fn parse_time(text: &str) -> Option<i64> {
    time::typed(text.trim())
}
