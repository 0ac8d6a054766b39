//! Whether connections cross a path that loses packets, while they are too young for a rate of loss.
#![forbid(unsafe_code)]

use super::TcpSocket;

/// Segments that were sent again, and their share of all: a segment that is late or that a full queue of a listener
/// dropped is sent again too, but no such part of a handshake.
const SENT_AGAIN: u32 = 3;
const SENT_AGAIN_SHARE: f64 = 0.05;

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
    /// What the connections between two machines among these sent again. `None` if that is little, or if none was made: where
    /// nobody answers, every SYN is sent again, and the path may be closed on purpose.
    pub fn of(sockets: &[TcpSocket]) -> Option<Self> {
        let again = |socket: &TcpSocket| socket.retransmits.unwrap_or(0);
        let crosses = |one: &&TcpSocket| one.local.ip() != one.peer.ip();
        let crossing = || sockets.iter().filter(crosses);
        let sent = |one: &TcpSocket| {
            let data = one.flow.and_then(|flow| flow.data_segments).unwrap_or(0);
            // The SYN, and what was sent again of it.
            data.saturating_add(1).saturating_add(again(one))
        };
        let made = crossing().filter(|one| one.state != "SYN-SENT");
        let found = Self {
            worst: made.max_by_key(|one| again(one))?.clone(),
            count: crossing().map(again).fold(0, u32::saturating_add),
            of: crossing().map(sent).fold(0, u32::saturating_add),
            connections: crossing().filter(|one| again(one) > 0).count(),
        };
        let share = f64::from(found.count) / f64::from(found.of);
        let is_much = found.count >= SENT_AGAIN && share >= SENT_AGAIN_SHARE;
        (is_much && again(&found.worst) > 0).then_some(found)
    }
}
