//! Streams of compressed files and of UTF-16 text as plain bytes, without unpacking to memory.
#![forbid(unsafe_code)]

use flate2::read::MultiGzDecoder;
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use std::io::{self, BufRead, BufReader, Read};

/// Largest dictionary of a compressed file, which is memory: that of `xz -9`. `zstd` needs a
/// larger one only with `--long` or `--ultra`.
const DICTIONARY_MAX: u64 = 64 << 20;
/// What `xz` needs beside its dictionary, in KiB.
const XZ_REST_KIB: u32 = 1 << 10;
/// Magic numbers of compressed files that are not read here, with a program that is.
const FOREIGN: [(&[u8], &str); 2] = [(b"BZh", "bzcat"), (b"PK\x03\x04", "unzip -p")];
/// Bytes without a byte order mark that show whether a text is UTF-16.
const SHOWN: std::ops::RangeInclusive<usize> = 16..=4096;

/// How the bytes of a file become text.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Xz,
    /// UTF-16, whose unit is read from two bytes.
    Utf16(fn([u8; 2]) -> u16),
}

impl Packing {
    /// The packing of a file that begins so; `None` for bytes that are read as they are.
    ///
    /// # Errors
    /// Files of this kind are not read.
    pub(super) fn of(head: &[u8]) -> io::Result<Option<Self>> {
        let has = |magic: &[u8]| head.starts_with(magic);
        if let Some((_, reader)) = FOREIGN.iter().find(|(magic, _)| has(magic)) {
            let advice = format!("unsupported compression; run `{reader} FILE | tcpxctl logs -`");
            return Err(io::Error::new(io::ErrorKind::Unsupported, advice));
        }
        Ok(match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0xff, 0xfe, ..] => Some(Self::Utf16(u16::from_le_bytes)),
            [0xfe, 0xff, ..] => Some(Self::Utf16(u16::from_be_bytes)),
            _ => utf16_without_mark(head).map(Self::Utf16),
        })
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Utf16(_))
    }

    pub(super) fn unpack(self, source: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let source = BufReader::new(source);
        match self {
            Self::Gzip => Box::new(Compressed(MultiGzDecoder::new(source))),
            Self::Zstd => Box::new(Compressed(Zstd::new(source))),
            Self::Xz => Box::new(Compressed(Xz::new(source))),
            Self::Utf16(unit) => Box::new(Utf16 {
                source,
                unit,
                text: Vec::new(),
                taken: 0,
                high: None,
            }),
        }
    }
}

/// The byte order of a text of which nearly every other byte is zero, as in UTF-16 for English.
fn utf16_without_mark(head: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    let zeros = |from: usize| {
        let bytes = head.iter().skip(from).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let (many, few) = (head.len() / 2 * 9 / 10, head.len() / 2 / 20);
    match (zeros(0), zeros(1)) {
        _ if !SHOWN.contains(&head.len()) => None,
        (even, odd) if even <= few && odd >= many => Some(u16::from_le_bytes),
        (even, odd) if odd <= few && even >= many => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// What is said of a compressed file that is not whole.
const CUT_OFF: &str =
    "the file ends within its compressed text: it was cut off, or is still being written";

/// A compressed file, whose end before its time is told in one way for all decoders.
struct Compressed<R>(R);

impl<R: Read> Read for Compressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(io::ErrorKind::UnexpectedEof, CUT_OFF),
            _ => error,
        })
    }
}

/// The streams of an xz file. Of one that was cut off, all text is returned that is before the cut.
struct Xz<R> {
    source: R,
    stream: XzStream,
}

impl<R> Xz<R> {
    fn new(source: R) -> Self {
        // At most 2^16 + 2^10.
        let limit = (DICTIONARY_MAX >> 10) as u32 + XZ_REST_KIB;
        let stream = XzStream::new_mem_limit(true, limit);
        Self { source, stream }
    }
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let input = self.source.fill_buf()?;
            let (is_end, action) = match input {
                [] => (true, Action::Finish),
                _ => (false, Action::Run),
            };
            let done = self.stream.process(input, buffer, action)?;
            self.source.consume(done.bytes_consumed);
            if done.bytes_produced > 0 || done.status == Status::StreamEnd {
                return Ok(done.bytes_produced);
            }
            if is_end || done.bytes_consumed == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// The frames of a zstd file, one after another. The decoder keeps back what later blocks may
/// repeat, so of a damaged frame that is read before the damage is told.
struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    damage: Option<io::Error>,
}

/// The last block of a frame, with no bytes, and a checksum, which is not compared.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(DICTIONARY_MAX);
        Self {
            source,
            frame,
            damage: None,
        }
    }

    /// Begins the next frame. Returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(self.damage(error)),
            }
        }
        Ok(false)
    }

    fn damage(&mut self, error: FrameDecoderError) -> io::Error {
        match self.source.fill_buf() {
            Ok([]) => io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => io::Error::new(io::ErrorKind::InvalidData, error),
            Err(error) => error,
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        while self.frame.can_collect() == 0 {
            if let Some(damage) = self.damage.take() {
                return Err(damage);
            }
            if self.frame.is_finished() {
                if !self.next_frame()? {
                    return Ok(0);
                }
            } else if let Err(error) = self.frame.decode_blocks(&mut self.source, UptoBlocks(1)) {
                let damage = self.damage(error);
                self.damage = Some(damage);
                let end = self.frame.decode_blocks(&LAST_BLOCK[..], UptoBlocks(1));
                end.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
        }
        self.frame.read(buffer)
    }
}

/// UTF-16 as UTF-8. A unit that is no character becomes U+FFFD.
struct Utf16<R> {
    source: R,
    unit: fn([u8; 2]) -> u16,
    /// Text of the last bytes that were read, and how much of it was returned.
    text: Vec<u8>,
    taken: usize,
    /// The first half of a character.
    high: Option<u16>,
}

impl<R: BufRead> Utf16<R> {
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.taken = 0;
        let mut bytes = Vec::with_capacity(4096);
        self.source.by_ref().take(4096).read_to_end(&mut bytes)?;
        // An odd last byte is of a file that was cut off.
        let pairs = bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        let mut units: Vec<u16> = self
            .high
            .take()
            .into_iter()
            .chain(pairs.map(self.unit))
            .collect();
        let is_half = units
            .last()
            .is_some_and(|unit| (0xd800..0xdc00).contains(unit));
        if is_half && bytes.len() == 4096 {
            self.high = units.pop();
        }
        let letters = char::decode_utf16(units).map(|letter| letter.unwrap_or('\u{fffd}'));
        let letters = letters.filter(|letter| *letter != '\u{feff}');
        self.text.extend(letters.collect::<String>().bytes());
        Ok(())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() && !self.source.fill_buf()?.is_empty() {
            self.fill()?;
        }
        let rest = &self.text[self.taken..];
        let size = rest.len().min(buffer.len());
        buffer[..size].copy_from_slice(&rest[..size]);
        self.taken += size;
        Ok(size)
    }
}
