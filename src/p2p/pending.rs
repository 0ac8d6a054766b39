//! Operations that are not over, as a connection keeps them.
#![forbid(unsafe_code)]

use crate::message::RemotePiece;
use crate::pieces::LocalPiece;
use crate::together::Together;
use crate::transfer::Completion;

/// An operation that the program starts.
#[derive(Debug)]
pub(crate) enum Operation {
    Read(Vec<LocalPiece>, Vec<RemotePiece>),
    Write(Vec<LocalPiece>, Vec<RemotePiece>),
    Send(LocalPiece),
    Receive(LocalPiece),
    Notify(Vec<u8>),
}

/// An operation that was started here and that the peer knows.
pub(crate) struct Ours {
    pub(crate) what: &'static str,
    /// What to send once the peer pulls; the lengths add up to `bytes`.
    pub(crate) data: Vec<LocalPiece>,
    pub(crate) bytes: u64,
    /// Messages that are not done.
    pub(crate) left: usize,
    /// Whether the plugin reported another size for one of them.
    pub(crate) differs: bool,
    /// Whether it counts as a small request.
    pub(crate) is_small: bool,
    /// The peer's answer.
    pub(crate) answer: Option<Result<(), String>>,
    pub(crate) starter: Starter,
}

/// Who learns that an operation is over.
pub(crate) enum Starter {
    Alone(Completion),
    Together(Together),
}

impl Starter {
    pub(crate) fn into_completions(self) -> impl Iterator<Item = Completion> {
        let (alone, together) = match self {
            Self::Alone(completion) => (Some(completion), None),
            Self::Together(together) => (None, Some(together.into_completions())),
        };
        alone.into_iter().chain(together.into_iter().flatten())
    }
}

impl Ours {
    pub(crate) fn new(what: &'static str, bytes: u64, starter: Starter) -> Self {
        Self {
            what,
            data: Vec::new(),
            bytes,
            left: 0,
            differs: false,
            is_small: matches!(starter, Starter::Together(_)),
            answer: None,
            starter,
        }
    }

    /// The operation, for people.
    pub(crate) fn describe(&self, op: u64) -> String {
        let (what, bytes) = (self.what, self.bytes);
        match &self.starter {
            Starter::Alone(_) => format!("{what} {op} of {bytes} bytes"),
            Starter::Together(all) => {
                format!("{what} {op} of {} pieces, {bytes} bytes", all.len())
            }
        }
    }
}

/// Data of the peer that is on its way into memory here.
#[derive(Default)]
pub(crate) struct Pull {
    pub(crate) left: usize,
    pub(crate) bytes: u64,
    pub(crate) differs: bool,
    /// Of the receive that it fills; a write has none.
    pub(crate) completion: Option<Completion>,
    /// The buffer in which small writes arrive together, and where they belong.
    pub(crate) staged: Option<(LocalPiece, Vec<LocalPiece>)>,
}
