//! Whether connections cross a path that loses packets, while they are too young for a rate of loss.
#![forbid(unsafe_code)]

use super::TcpSocket;
use std::collections::HashSet;

/// Segments that were sent again, and their share of all. A sound network also delays a segment, and a listener whose
/// queue is full drops one, but not as many of so few.
const SENT_AGAIN: u32 = 3;
const SENT_AGAIN_SHARE: f64 = 0.05;
/// Segments that one connection that was made sent again: one alone may have been late.
const SENT_AGAIN_OF_ONE: u32 = 2;

/// Connections over which segments were sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentAgain {
    /// Segments that were sent again.
    pub count: u32,
    /// Of all segments, at least this many.
    pub of: u32,
    /// Connections with such segments.
    pub connections: usize,
    /// The connection with most of them, of those that were made.
    pub worst: TcpSocket,
}

impl SentAgain {
    /// What the connections between two machines among these sent again. `None` if that is little.
    ///
    /// A SYN counts only between addresses that have a connection, and only if that lost segments too: a path may be closed
    /// on purpose, or a port on it, and then no SYN is answered.
    pub fn of(sockets: &[TcpSocket]) -> Option<Self> {
        let again = TcpSocket::lost_segments;
        let path = |one: &TcpSocket| (one.local.ip(), one.peer.ip());
        let is_made = |one: &&TcpSocket| one.state != "SYN-SENT";
        let open: HashSet<_> = sockets.iter().filter(is_made).map(path).collect();
        let crosses = |one: &&TcpSocket| one.local.ip() != one.peer.ip();
        let crossing = || {
            let crossing = sockets.iter().filter(crosses);
            crossing.filter(|one| open.contains(&path(one)))
        };
        let sent = |one: &TcpSocket| {
            let data = one.flow.and_then(|flow| flow.data_segments).unwrap_or(0);
            // The SYN, and what was sent again of it.
            data.saturating_add(1).saturating_add(again(one))
        };
        let worst = crossing().filter(is_made).max_by_key(|one| again(one))?;
        let found = Self {
            worst: worst.clone(),
            count: crossing().map(again).fold(0, u32::saturating_add),
            of: crossing().map(sent).fold(0, u32::saturating_add),
            connections: crossing().filter(|one| again(one) > 0).count(),
        };
        let share = f64::from(found.count) / f64::from(found.of);
        let is_much = found.count >= SENT_AGAIN && share >= SENT_AGAIN_SHARE;
        (is_much && again(&found.worst) >= SENT_AGAIN_OF_ONE).then_some(found)
    }
}
