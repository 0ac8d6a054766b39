//! Which nodes of a mesh exchange data with which.
#![forbid(unsafe_code)]

use crate::word_set;

word_set! {
    /// Which nodes of a mesh exchange data with which, and how many at once.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Pattern {
        /// Every node with every other: rounds of disjoint pairs, each pair in one of them.
        Pairs = "pairs",
        /// Every node with the next one of the list, and the last with the first.
        Ring = "ring",
        /// One node sends to all others at once.
        OneToMany = "one-to-many",
        /// All nodes send to one at once.
        ManyToOne = "many-to-one",
        /// Every node sends to every other, all at once.
        AllToAll = "all-to-all",
        /// One half of the nodes with the other half, for two ways to halve the list.
        Bisection = "bisection",
        /// A few rounds of disjoint pairs, log2 of the number of nodes.
        Sampled = "sampled",
    }
}

impl Pattern {
    /// Whether a meeting is one direction. In other patterns it is a pair, whose two directions
    /// are measured one after the other or at once.
    pub fn is_one_way(self) -> bool {
        matches!(self, Self::OneToMany | Self::ManyToOne | Self::AllToAll)
    }
}
