//! The two sides of a transfer.
#![forbid(unsafe_code)]

use crate::word_set;

word_set! {
    /// One end of a transfer.
    #[derive(Default)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Side {
        /// The sender, which posts isend.
        #[default]
        Send = "send",
        /// The receiver, which listens and posts irecv.
        Recv = "recv",
    }
}

impl Side {
    /// The opposite side.
    pub const fn other(self) -> Self {
        match self {
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
        }
    }
}
