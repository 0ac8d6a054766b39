//! Which end of a pair: its place in the pair's nodes.
#![forbid(unsafe_code)]

/// Which of the two ends of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    /// The pair's first node; with direction `forward` it sends.
    First,
    /// The pair's second node.
    Second,
}

impl End {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}
