//! Splits a stream into blocks that end with a line, for several threads.
//!
//! Uses `read` and not a memory map: truncating a mapped file would end the process with
//! SIGBUS, and reading costs a tenth of the time at most.
#![forbid(unsafe_code)]

use super::ends::TAIL;
use super::time::Years;
use memchr::{memchr, memrchr};
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

/// Bytes of a block; a longer line is split.
pub(super) const BLOCK: usize = 256 << 10;

/// Blocks in which a time is looked for that tells the years: the other threads wait meanwhile.
const YEARS_WITHIN: u32 = 4;

/// A block that was read into a buffer.
pub(super) struct Block {
    pub index: u32,
    /// Bytes of the block at the front of the buffer.
    pub size: usize,
    /// What tells the years of its times.
    pub years: Years,
    /// Whether it begins within the last line of the block before it.
    pub is_within_line: bool,
}

/// A stream that several threads take blocks from.
pub(super) struct Blocks<R> {
    state: Mutex<State<R>>,
}

struct State<R> {
    source: R,
    /// The start of a line whose end has not been read yet.
    carry: Vec<u8>,
    /// The last bytes of the blocks that were taken.
    tail: Vec<u8>,
    years: Years,
    index: u32,
    bytes: u64,
    /// Whether the last block that was taken ends within a line.
    is_within_line: bool,
    ended: bool,
    /// Why it ended, until the blocks before are taken.
    failed: Option<io::Error>,
}

impl<R: Read> Blocks<R> {
    /// `is_within_line`: whether the stream begins within a line.
    pub(super) fn new(source: R, years: Years, is_within_line: bool) -> Self {
        let state = State {
            source,
            carry: Vec::new(),
            tail: Vec::new(),
            years,
            index: 0,
            bytes: 0,
            is_within_line,
            ended: false,
            failed: None,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Reads the next block into `buffer`. Returns `None` at the end.
    ///
    /// # Errors
    /// Reading failed, and what was read before is taken; later calls return no block.
    pub(super) fn next(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Block>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.resize(BLOCK, 0);
        let filled = state.fill(buffer);
        if filled == 0 {
            return state.failed.take().map_or(Ok(None), Err);
        }
        let size = if state.ended {
            filled
        } else {
            memrchr(b'\n', &buffer[..filled]).map_or(filled, |at| at + 1)
        };
        state.carry.extend_from_slice(&buffer[size..filled]);
        if state.index < YEARS_WITHIN {
            state.years = state.years.of_log(&buffer[..size]);
        }
        state.keep_tail(&buffer[..size]);
        let index = state.index;
        state.index = index.saturating_add(1);
        let ends_within_line = buffer[..size].last() != Some(&b'\n');
        let is_within_line = std::mem::replace(&mut state.is_within_line, ends_within_line);
        Ok(Some(Block {
            index,
            size,
            years: state.years,
            is_within_line,
        }))
    }

    /// The whole lines in the last bytes of the stream, at most `TAIL` of them, and what tells the years
    /// of its times.
    pub(super) fn into_tail(self) -> (Vec<u8>, Years) {
        let state = self.state.into_inner();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.bytes > state.tail.len() as u64 {
            let line = memchr(b'\n', &state.tail).map_or(state.tail.len(), |end| end + 1);
            state.tail.drain(..line);
        }
        (state.tail, state.years)
    }

    /// Whether what was read ends within a line.
    pub(super) fn is_within_line(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_within_line
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .bytes
    }
}

impl<R: Read> State<R> {
    fn keep_tail(&mut self, block: &[u8]) {
        let kept = self.tail.len().min(TAIL.saturating_sub(block.len()));
        self.tail.drain(..self.tail.len() - kept);
        let new = block.len().saturating_sub(TAIL);
        self.tail.extend_from_slice(&block[new..]);
    }

    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = self.carry.len();
        buffer[..filled].copy_from_slice(&self.carry);
        self.carry.clear();
        while filled < buffer.len() && !self.ended {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) => self.ended = true,
                Ok(size) => {
                    filled += size;
                    self.bytes += size as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (self.ended, self.failed) = (true, Some(error)),
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(buffer.len()).min(self.0.len());
            buffer[..size].copy_from_slice(&self.0[..size]);
            self.0 = &self.0[size..];
            Ok(size)
        }
    }

    fn all(source: impl Read) -> Vec<Vec<u8>> {
        let (blocks, mut buffer, mut all) = (
            Blocks::new(source, Years::default(), false),
            Vec::new(),
            Vec::new(),
        );
        while let Some(block) = blocks.next(&mut buffer).unwrap() {
            assert_eq!(block.index as usize, all.len());
            let before = all.last().and_then(|block: &Vec<u8>| block.last());
            assert_eq!(
                block.is_within_line,
                before.is_some_and(|byte| *byte != b'\n')
            );
            all.push(buffer[..block.size].to_vec());
        }
        all
    }

    #[test]
    fn a_line_without_an_end_comes_in_pieces() {
        let long = vec![b'x'; 2 * BLOCK + 7];
        let sizes: Vec<usize> = all(&long[..]).iter().map(Vec::len).collect();
        assert_eq!(sizes, [BLOCK, BLOCK, 7]);
    }

    /// Fails at its end.
    struct Torn<'a>(&'a [u8]);

    impl Read for Torn<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                size => Ok(size),
            }
        }
    }

    #[test]
    fn what_is_read_before_a_failure_is_a_block() {
        let blocks = Blocks::new(Torn(b"a line\nhalf"), Years::default(), false);
        let mut buffer = Vec::new();
        let block = blocks.next(&mut buffer).unwrap().expect("a block");
        assert_eq!(&buffer[..block.size], b"a line\nhalf");
        assert!(blocks.next(&mut buffer).is_err());
        assert!(matches!(blocks.next(&mut buffer), Ok(None)));
    }

    proptest! {
        #[test]
        fn blocks_are_the_stream_and_end_with_lines(
            lines in prop::collection::vec(0usize..90_000, 0..12),
            step in 1usize..200_000,
        ) {
            let text: Vec<u8> = lines.iter().flat_map(|size| std::iter::repeat_n(b'x', *size).chain([b'\n'])).collect();
            let blocks = all(Slowly(&text, step));
            prop_assert!(blocks.iter().all(|block| block.last() == Some(&b'\n')));
            prop_assert_eq!(blocks.concat(), text);
        }
    }
}
