//! Recorder files: the labels, devices, log lines and addresses that
//! `tcpx_recorder::format` names, in place, and then any text that stands
//! anywhere else.
#![forbid(unsafe_code)]

use super::Redactor;
use std::net::{Ipv4Addr, Ipv6Addr};
use tcpx_recorder::format::{
    DEVICES, HEADER_BYTES, MAGIC, SLOT_BYTES, channel, device, header, log,
};

/// Shorter stretches of letters hold no name.
const TEXT_MIN: usize = 6;

impl Redactor {
    /// Takes the names that a recorder's texts give away.
    pub fn learn_recorder(&mut self, bytes: &[u8]) {
        texts(bytes, |text, _| self.learn(text));
    }

    /// The same file without what may not leave. What is no recorder is treated as
    /// bytes with text in them.
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
            let told = self.redact(text);
            if told != text {
                found.push((at, text.len(), told));
            }
        });
        for (at, length, told) in found {
            put(&mut bytes[at..at + length], &told);
        }
    }

    /// Text that is padded with zeroes.
    fn field(&mut self, bytes: &mut [u8], at: usize, length: usize) {
        let Some(field) = bytes.get_mut(at..at + length) else {
            return;
        };
        let text =
            String::from_utf8_lossy(field.split(|byte| *byte == 0).next().unwrap_or_default())
                .into_owned();
        put(field, &self.redact(&text));
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

    /// Family, port, scope, then the address itself.
    fn address(&mut self, bytes: &mut [u8]) {
        let (family, address) = (bytes[0], &mut bytes[8..24]);
        let whole: [u8; 16] = std::array::from_fn(|at| address[at]);
        if family == 4 {
            let told = self.v4(Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]));
            if let Ok(told) = told.parse::<Ipv4Addr>() {
                address[..4].copy_from_slice(&told.octets());
            }
        } else if whole != [0; 16]
            && let Ok(told) = self.v6(Ipv6Addr::from(whole)).parse::<Ipv6Addr>()
        {
            address.copy_from_slice(&told.octets());
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
        let told = self.redact(&String::from_utf8_lossy(&words[..text]));
        let length = put(words, &told);
        // The room of a line is shorter than any number of two bytes.
        let length = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
        entry[log::TEXT_BYTES..log::TEXT_BYTES + 2].copy_from_slice(&length);
    }
}

/// As much of a text as fits, zeroes behind it; how many bytes that is.
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

/// Every stretch of printable ASCII, with its place.
fn texts(bytes: &[u8], mut each: impl FnMut(&str, usize)) {
    let is_text = |byte: &u8| (0x20..0x7f).contains(byte);
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_text(byte)).count();
        if length >= TEXT_MIN
            && let Ok(text) = std::str::from_utf8(&bytes[at..at + length])
        {
            each(text, at);
        }
        at += length;
        at += bytes[at..].iter().take_while(|byte| !is_text(byte)).count();
    }
}
