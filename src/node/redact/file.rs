//! Redaction of a recorded file by its kind: recorder, JSON, JSON lines, compressed or plain
//! text. A file that cannot be searched is refused.
#![forbid(unsafe_code)]

use super::Redactor;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use tcpx_recorder::format::FILE_SUFFIX;

/// Largest text in a compressed file.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Beginnings of formats in which text cannot be searched.
const CLOSED: [(&[u8], &str); 6] = [
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf", "7z"),
    (b"\x7fELF", "an ELF file"),
];

/// Why a file was not redacted, and may not leave.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Its format hides its text.
    #[error("it is {0}, which cannot be searched for secrets")]
    Closed(&'static str),
    /// It could not be decompressed or compressed again.
    #[error("it cannot be unpacked to search it for secrets: {0}")]
    Packed(#[from] io::Error),
}

impl Redactor {
    /// Learns the names and secrets in a file and in its name. A file that cannot be searched
    /// shows none.
    pub fn learn_file(&mut self, name: &str, bytes: &[u8]) {
        self.learn(name);
        if name.ends_with(FILE_SUFFIX) {
            return self.learn_recorder(bytes);
        }
        let Ok(bytes) = unpacked(bytes) else { return };
        let text = text(&bytes);
        // Lines of JSON, or one document on one line or many.
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => self.learn_value(&value),
            Err(_) if name.ends_with(".jsonl") => {
                for line in text.lines() {
                    match serde_json::from_str(line) {
                        Ok(value) => self.learn_value(&value),
                        Err(_) => self.learn(line),
                    }
                }
            }
            Err(_) => self.learn(&text),
        }
    }

    /// The file, redacted. A compressed file is compressed again.
    ///
    /// # Errors
    /// The file cannot be searched.
    pub fn redact_file(&mut self, name: &str, mut bytes: Vec<u8>) -> Result<Vec<u8>, FileError> {
        if name.ends_with(FILE_SUFFIX) {
            self.redact_recorder(&mut bytes);
            return Ok(bytes);
        }
        let inner = unpacked(&bytes)?;
        let is_packed = matches!(inner, Cow::Owned(_));
        let text = text(&inner);
        let redacted = if name.ends_with(".jsonl") {
            let lines = text.split_inclusive('\n');
            lines.map(|line| self.redact_json_line(line)).collect()
        } else {
            match serde_json::from_str::<Value>(&text) {
                Ok(value) if name.ends_with(".json") => {
                    let value = self.redact_value(value);
                    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
                }
                _ => self.redact(&text),
            }
        };
        if !is_packed {
            return Ok(redacted.into_bytes());
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(redacted.as_bytes())?;
        Ok(packed.finish()?)
    }
}

/// The bytes that a file holds.
fn unpacked(bytes: &[u8]) -> Result<Cow<'_, [u8]>, FileError> {
    let closed = CLOSED.iter().find(|(magic, _)| bytes.starts_with(magic));
    if let Some((_, format)) = closed {
        return Err(FileError::Closed(format));
    }
    if !bytes.starts_with(&GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut inner = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(UNPACKED_BYTES_MAX + 1)
        .read_to_end(&mut inner)?;
    if inner.len() as u64 > UNPACKED_BYTES_MAX {
        let message = format!("it holds more than {} MiB", UNPACKED_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message).into());
    }
    // An archive or a second compression hides its text, too.
    match unpacked(&inner)? {
        Cow::Borrowed(_) => Ok(Cow::Owned(inner)),
        Cow::Owned(_) => Err(FileError::Closed("compressed twice")),
    }
}

/// The text of a file, which may be UTF-16.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return String::from_utf8_lossy(bytes),
    };
    let pairs = bytes[2..].chunks_exact(2);
    let units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
    Cow::Owned(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "a line\nexport API_TOKEN=quietly-Burning7candle\n";

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text).expect("packed");
        packed.finish().expect("packed")
    }

    #[test]
    fn a_compressed_log_is_redacted_inside() {
        let redacted = Redactor::default().redact_file("logs/a.log.gz", packed(LOG.as_bytes()));
        let mut text = String::new();
        MultiGzDecoder::new(&redacted.expect("redacted")[..])
            .read_to_string(&mut text)
            .expect("gzip");
        assert_eq!(text, "a line\nexport API_TOKEN=SECRET\n");
    }

    #[test]
    fn a_log_in_utf_16_is_redacted_as_text() {
        let units = LOG.encode_utf16().flat_map(u16::to_le_bytes);
        let log = [0xff, 0xfe].into_iter().chain(units).collect();
        let redacted = Redactor::default().redact_file("logs/a.log", log);
        assert_eq!(
            redacted.expect("redacted"),
            b"a line\nexport API_TOKEN=SECRET\n"
        );
    }

    #[test]
    fn a_file_that_cannot_be_searched_is_refused() {
        let twice = packed(&packed(LOG.as_bytes()));
        for bytes in [b"\x28\xb5\x2f\xfdxx".to_vec(), b"BZh9".to_vec(), twice] {
            let refused = Redactor::default().redact_file("logs/a.log", bytes);
            assert!(matches!(refused, Err(FileError::Closed(_))), "{refused:?}");
        }
        let cut = packed(LOG.as_bytes())[..20].to_vec();
        let refused = Redactor::default().redact_file("logs/a.log", cut);
        assert!(matches!(refused, Err(FileError::Packed(_))), "{refused:?}");
    }
}
