//! Summarizes log files of runs over TCPX.
//!
//! A [`LogReport`] says which network was used, the settings of each process, which
//! connections were made, what is wrong and what to do. The signatures of lines are data
//! under `probes/logs` ([`Signature`]); users add their own. Each signature has a literal
//! that its lines contain. A stream is searched for all literals at once (`matcher`), in
//! blocks that several threads process (`blocks`, `scan`), and only lines with a hit are
//! parsed (`parser`, `shape`, `fields`), lines that differ in their digits only once. A line without a hit costs a vector search, and memory does
//! not grow with the log.
//!
//! Regular expressions are the `regex` crate's, so every pattern takes linear time. A line
//! longer than a block (256 KiB) is read in pieces.
//!
//! Not here: printing, and why a run stalled, which needs more evidence than lines.
#![forbid(unsafe_code)]

mod anchors;
mod any_of;
mod below;
mod benchmarks;
mod blocks;
mod buckets;
mod by_hand;
mod calls;
mod catalogue;
mod check;
mod claims;
mod compose;
mod counting;
mod digits;
mod ends;
#[cfg(test)]
mod families;
mod fields;
mod filter;
mod first;
mod front;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gaps;
mod got_over;
mod harness;
mod help_text;
mod input;
mod known;
mod lines;
mod loggers;
mod markup;
mod matcher;
mod measured;
mod merge;
mod native_stack;
mod networks;
mod one_node;
mod order;
mod own_events;
mod packed;
mod parser;
mod promises;
mod read;
mod reasons;
mod report;
mod said_stalls;
mod scan;
mod seen;
mod shape;
mod signature;
mod signature_regex;
mod source;
mod stated;
mod tally;
mod telemetry;
mod terminal;
#[cfg(test)]
mod tests;
mod time;
mod torchrun;
mod traceback;
mod traceback_box;
#[cfg(test)]
mod variables;
mod waits_at_end;
mod word;
mod wrapped;

pub use catalogue::{SignatureCatalogue, SignatureCatalogueError};
pub use check::{SignatureMistake, check_folder};
pub use filter::{LogFilter, parse_time};
pub use harness::{
    HarnessChannel, HarnessIterations, HarnessProgram, HarnessReport, HarnessResult, HarnessRole,
    HarnessState, HarnessTests, HarnessVerdict,
};
pub use input::{InputProblem, unpack};
pub use known::KnownLines;
pub use read::{LogReader, follow};
pub use report::{
    BENCHMARK_WITHOUT_ROW, BuildMismatch, CollectiveGap, CollectiveWait, Comm, FirstFailure,
    Inputs, LinePlace, LogEnd, LogReport, PollRate, RankBehind, STATED_ERROR, Setting,
    SignatureFinding, StatedLine, Transport, UNFINISHED_NCCL_INIT, UNKNOWN_WARNING, UnknownWarning,
    WAITS_AT_END,
};
pub use signature::{Fact, Need, OwnSignature, Phase, Role, Severity, Signature};
pub use telemetry::{Telemetry, TelemetryStage};
