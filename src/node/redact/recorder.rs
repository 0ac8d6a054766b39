//! Redaction of recorder files, in place: labels, device names, log lines and addresses at
//! the offsets of `tcpx_recorder::format`, then any other text in the file.
#![forbid(unsafe_code)]

use super::Redactor;
use std::net::{Ipv4Addr, Ipv6Addr};
use tcpx_recorder::format::{
    DEVICES, HEADER_BYTES, MAGIC, SLOT_BYTES, channel, device, header, log,
};

/// Shortest run of printable bytes that is searched for names.
const TEXT_MIN: usize = 6;

impl Redactor {
    /// As [`Redactor::learn`], for every text in a recorder file.
    pub fn learn_recorder(&mut self, bytes: &[u8]) {
        texts(bytes, |text, _| self.learn(text));
    }

    /// Redacts a recorder file in place. A file with another header is searched for text
    /// only.
    pub fn redact_recorder(&mut self, bytes: &mut [u8]) {
        if bytes.len() >= HEADER_BYTES && bytes.starts_with(&MAGIC) {
            self.field(bytes, header::ROLE_LABEL, header::ROLE_LABEL_BYTES);
            self.field(bytes, header::PLUGIN_LABEL, header::PLUGIN_LABEL_BYTES);
            for number in 0..DEVICES {
                self.field(
                    bytes,
                    header::DEVICES + number * device::BYTES + device::NAME,
                    device::NAME_BYTES,
                );
            }
            self.slots(bytes);
            self.lines(bytes);
        }
        let mut found = Vec::new();
        texts(bytes, |text, at| {
            let redacted = self.redact(text);
            if redacted != text {
                found.push((at, text.len(), redacted));
            }
        });
        for (at, length, redacted) in found {
            put(&mut bytes[at..at + length], &redacted);
        }
    }

    /// Redacts a text field that is padded with zeroes.
    fn field(&mut self, bytes: &mut [u8], at: usize, length: usize) {
        let Some(field) = bytes.get_mut(at..at + length) else {
            return;
        };
        let text =
            String::from_utf8_lossy(field.split(|byte| *byte == 0).next().unwrap_or_default())
                .into_owned();
        put(field, &self.redact_foreign(&text));
    }

    fn slots(&mut self, bytes: &mut [u8]) {
        let number = |at: usize, width: usize| read(bytes, at, width);
        let (from, size) = (
            number(header::CHANNELS_OFFSET, 8),
            number(header::CHANNEL_SLOT_BYTES, 4),
        );
        let count =
            number(header::CHANNEL_CAPACITY, 4).min(bytes.len() / SLOT_BYTES.min(size.max(1)));
        for slot in (0..count).filter_map(|slot| from.checked_add(slot.checked_mul(size)?)) {
            for field in [channel::LOCAL, channel::PEER, channel::CTRL] {
                let Some(address) = slot
                    .checked_add(field)
                    .and_then(|at| bytes.get_mut(at..at.checked_add(channel::ADDRESS_BYTES)?))
                else {
                    return;
                };
                self.address(address);
            }
        }
    }

    /// Redacts an address: family, port and scope in 8 bytes, then 16 bytes of address.
    fn address(&mut self, bytes: &mut [u8]) {
        let (family, address) = (bytes[0], &mut bytes[8..24]);
        let whole: [u8; 16] = std::array::from_fn(|at| address[at]);
        if family == 4 {
            let redacted = self.v4(Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]));
            if let Ok(redacted) = redacted.parse::<Ipv4Addr>() {
                address[..4].copy_from_slice(&redacted.octets());
            }
        } else if whole != [0; 16]
            && let Ok(redacted) = self.v6(Ipv6Addr::from(whole)).parse::<Ipv6Addr>()
        {
            address.copy_from_slice(&redacted.octets());
        }
    }

    fn lines(&mut self, bytes: &mut [u8]) {
        let number = |at: usize, width: usize| read(bytes, at, width);
        let (from, size) = (
            number(header::LOG_OFFSET, 8),
            number(header::LOG_ENTRY_BYTES, 4),
        );
        let count = number(header::LOG_ENTRIES, 4);
        if size < log::WORDS {
            return;
        }
        for line in (0..count).filter_map(|line| from.checked_add(line.checked_mul(size)?)) {
            let Some(entry) = line
                .checked_add(size)
                .and_then(|end| bytes.get_mut(line..end))
            else {
                return;
            };
            self.line(entry);
        }
    }

    fn line(&mut self, entry: &mut [u8]) {
        let [function, text] = [log::FUNCTION_BYTES, log::TEXT_BYTES].map(|at| read(entry, at, 2));
        let room = entry.len() - log::WORDS;
        let function = function.min(room);
        let text = text.min(room - function);
        if text == 0 {
            return;
        }
        let words = &mut entry[log::WORDS + function..];
        let redacted = self.redact_foreign(&String::from_utf8_lossy(&words[..text]));
        let length = put(words, &redacted);
        // An entry is far shorter than 64 KiB.
        let length = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
        entry[log::TEXT_BYTES..log::TEXT_BYTES + 2].copy_from_slice(&length);
    }
}

/// Writes as much of `text` as fits, padded with zeroes. Returns the number of bytes of text.
fn put(field: &mut [u8], text: &str) -> usize {
    let mut length = text.len().min(field.len());
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field[length..].fill(0);
    length
}

fn read(bytes: &[u8], at: usize, width: usize) -> usize {
    let Some(bytes) = bytes.get(at..at + width) else {
        return 0;
    };
    let number = bytes
        .iter()
        .rev()
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Calls `each` with every run of printable text and its offset.
fn texts(bytes: &[u8], mut each: impl FnMut(&str, usize)) {
    let is_text = |byte: &u8| *byte >= 0x20 && *byte != 0x7f;
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_text(byte)).count();
        let mut from = at;
        for chunk in bytes[at..at + length].utf8_chunks() {
            if chunk.valid().len() >= TEXT_MIN {
                each(chunk.valid(), from);
            }
            from += chunk.valid().len() + chunk.invalid().len();
        }
        at += length;
        at += bytes[at..].iter().take_while(|byte| !is_text(byte)).count();
    }
}
