//! The two ends of a connection.
#![forbid(unsafe_code)]

use crate::word_set;

word_set! {
    /// One end of a transfer.
    #[derive(Default)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Side {
        /// The end that sends: posts isend.
        #[default]
        Send = "send",
        /// The end that receives, and listens: posts irecv.
        Recv = "recv",
    }
}

impl Side {
    /// The end that it is connected to.
    pub const fn other(self) -> Self {
        match self {
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
        }
    }
}
