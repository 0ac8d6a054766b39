//! When and how a writer ended, written into its file by the process that started it: a process
//! that is killed cannot write it. While the writer runs, that process notes that it does, so that
//! its file tells for how long channels stood still also if both are killed.
#![forbid(unsafe_code)]

use crate::clock::monotonic_ns;
use crate::format::header;
use crate::process::Liveness;
use crate::read::{Header, ReadError, read_header};
use crate::words::Words;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const EXITED: u64 = 1;
const KILLED: u64 = 2;
const HOW_SHIFT: u32 = 32;

/// The end of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// When it was seen, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// How.
    pub how: EndedHow,
}

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedHow {
    /// It was not a child of the process that noticed.
    Unknown,
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl EndedHow {
    fn to_word(self) -> u64 {
        let (how, value) = match self {
            Self::Unknown => (0, 0),
            Self::Exited(code) => (EXITED, code),
            Self::Killed(signal) => (KILLED, signal),
        };
        how << HOW_SHIFT | u64::from(value.cast_unsigned())
    }

    fn from_word(word: u64) -> Self {
        let value = (word as u32).cast_signed();
        match word >> HOW_SHIFT {
            EXITED => Self::Exited(value),
            KILLED => Self::Killed(value),
            _ => Self::Unknown,
        }
    }
}

impl Ended {
    pub(crate) fn decode(page: &Words<'_>) -> Option<Self> {
        let at_ns = page.u64(header::ENDED_NS);
        (at_ns > 0).then(|| Self {
            at_ns,
            how: EndedHow::from_word(page.u64(header::ENDED_HOW)),
        })
    }
}

/// Time between two notes that a writer runs.
const SEEN_EVERY_NS: u64 = 1_000_000_000;

/// Writes into a file that its writer runs, at most once a second, or that it has ended, once.
/// Returns the file's header with what was written. The end of a writer that is not seen from here
/// is not written.
///
/// # Errors
/// The file cannot be read or written, or is not a recorder file.
pub fn note_life(path: &Path, how: EndedHow) -> Result<Header, ReadError> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotARecorder);
    }
    let mut header = read_header(&file)?;
    if header.ended.is_some() {
        return Ok(header);
    }
    // Before the look: what runs then has run until now.
    let at_ns = monotonic_ns();
    match header.writer.liveness() {
        Liveness::Alive if at_ns.saturating_sub(header.seen_ns.unwrap_or(0)) >= SEEN_EVERY_NS => {
            file.write_all_at(&at_ns.to_le_bytes(), header::SEEN_NS as u64)?;
            header.seen_ns = Some(at_ns);
        }
        Liveness::Dead => {
            file.write_all_at(&how.to_word().to_le_bytes(), header::ENDED_HOW as u64)?;
            // Written last: readers look at it first.
            file.write_all_at(&at_ns.to_le_bytes(), header::ENDED_NS as u64)?;
            header.ended = Some(Ended { at_ns, how });
        }
        Liveness::Alive | Liveness::Unknown => {}
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::header::PID;
    use crate::{Options, Reader, Recorder};

    #[test]
    fn the_end_of_a_process_is_written_once_and_while_it_runs_that_it_does() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder =
            Recorder::create_in(parent.path(), &Options::new("ended")).expect("a recorder");
        let path = recorder.path();
        let running = note_life(&path, EndedHow::Unknown).expect("running");
        assert_eq!(running.ended, None);
        assert!(running.seen_ns.is_some_and(|ns| ns >= running.created_ns));
        let again = note_life(&path, EndedHow::Unknown).expect("running");
        assert_eq!(again.seen_ns, running.seen_ns, "once a second");
        let snapshot = Reader::open(&path).and_then(|mut reader| reader.snapshot());
        assert_eq!(
            Some(snapshot.expect("read").last_sign_ns()),
            running.seen_ns
        );
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let copy = parent.path().join("copy");
        std::fs::copy(&path, &copy).expect("copied");
        let file = OpenOptions::new().write(true).open(&copy).expect("open");
        file.write_all_at(&child.id().to_le_bytes(), PID as u64)
            .expect("written");
        child.wait().expect("ended");
        let killed = note_life(&copy, EndedHow::Killed(9)).expect("ended").ended;
        assert!(killed.is_some());
        let later = note_life(&copy, EndedHow::Exited(0)).expect("told before");
        assert_eq!(later.ended, killed);
        let ended = Reader::open(&copy).and_then(|mut reader| reader.header());
        assert_eq!(ended.expect("read").ended, killed);
        assert_eq!(killed.map(|ended| ended.how), Some(EndedHow::Killed(9)));
        assert!(note_life(&parent.path().join("none"), EndedHow::Unknown).is_err());
    }

    #[test]
    fn every_way_to_end_is_read_as_it_was_written() {
        for how in [
            EndedHow::Unknown,
            EndedHow::Exited(-1),
            EndedHow::Exited(7),
            EndedHow::Killed(15),
        ] {
            assert_eq!(EndedHow::from_word(how.to_word()), how);
        }
    }
}
