//! Reads numbers and texts of an untrusted file by offset. Nothing here fails: bytes beyond the
//! end read as 0 or as empty text.
#![forbid(unsafe_code)]

use crate::format::Call;

/// Bytes of the file, read as little-endian numbers by offset. Bytes beyond the end are 0.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    fn bytes(self, at: usize, length: usize) -> &'a [u8] {
        self.0.get(at..at + length).unwrap_or_default()
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        self.bytes(at, 8).try_into().map_or(0, u64::from_le_bytes)
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        self.bytes(at, 2).try_into().map_or(0, u16::from_le_bytes)
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        self.bytes(at, 4).try_into().map_or(0, u32::from_le_bytes)
    }

    pub(crate) fn array<const N: usize>(self, at: usize) -> [u64; N] {
        std::array::from_fn(|place| self.u64(at + place * 8))
    }

    pub(crate) fn text(self, at: usize, length: usize) -> String {
        let bytes = self.bytes(at, length);
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]);
        text.replace(char::is_control, "\u{FFFD}")
    }

    pub(crate) fn failed_call(self, at: usize) -> Option<(Call, i32)> {
        let word = self.u64(at);
        Call::from_raw(word >> 32).map(|call| (call, word as u32 as i32))
    }
}
