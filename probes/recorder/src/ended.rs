//! When and how a writer ended, written into its file by the process that started it: a process
//! that is killed cannot write it.
#![forbid(unsafe_code)]

use crate::clock::monotonic_ns;
use crate::format::header;
use crate::process::Liveness;
use crate::read::{ReadError, read_header};
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

/// Writes into a file that its writer has just ended. Does nothing and returns `false` while the
/// writer runs, and if its end is written already.
///
/// # Errors
/// The file cannot be read or written, or is not a recorder file.
pub fn mark_ended(path: &Path, how: EndedHow) -> Result<bool, ReadError> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotARecorder);
    }
    let header = read_header(&file)?;
    if header.ended.is_some() || header.writer.liveness() != Liveness::Dead {
        return Ok(false);
    }
    file.write_all_at(&how.to_word().to_le_bytes(), header::ENDED_HOW as u64)?;
    // Written last: readers look at it first.
    file.write_all_at(&monotonic_ns().to_le_bytes(), header::ENDED_NS as u64)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::header::PID;
    use crate::{Options, Reader, Recorder};

    #[test]
    fn the_end_of_a_process_is_written_once_and_not_while_it_runs() {
        let parent = tempfile::tempdir().expect("a folder");
        let recorder =
            Recorder::create_in(parent.path(), &Options::new("ended")).expect("a recorder");
        let path = recorder.path();
        assert!(!mark_ended(&path, EndedHow::Unknown).expect("running"));
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let copy = parent.path().join("copy");
        std::fs::copy(&path, &copy).expect("copied");
        let file = OpenOptions::new().write(true).open(&copy).expect("open");
        file.write_all_at(&child.id().to_le_bytes(), PID as u64)
            .expect("written");
        child.wait().expect("ended");
        assert!(mark_ended(&copy, EndedHow::Killed(9)).expect("ended"));
        assert!(!mark_ended(&copy, EndedHow::Exited(0)).expect("told before"));
        let ended = Reader::open(&copy).and_then(|mut reader| reader.header());
        assert_eq!(
            ended.expect("read").ended.map(|ended| ended.how),
            Some(EndedHow::Killed(9))
        );
        assert!(mark_ended(&parent.path().join("none"), EndedHow::Unknown).is_err());
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
