//! A text without its escapes and line ends, and where each of its bytes came from: what a
//! secret looks like before a program wrapped it or escaped it for a URL, HTML or JSON.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::ops::Range;

/// Longest entity: `&#x10FFFF;`.
const ENTITY_BYTES_MAX: usize = 10;
const ENTITIES: [(&str, char); 5] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
];
/// Places in HTML where a line may break.
const BREAKS: [&[u8]; 5] = [b"<br>", b"<br/>", b"<br />", b"<wbr>", b"&shy;"];

/// A text, decoded or not.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    /// Begin and end of each byte in the text; `None` if the view is the text.
    places: Option<Vec<(u32, u32)>>,
}

impl<'a> View<'a> {
    /// The text as it is. It is shorter than 4 GiB.
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            bytes: Cow::Borrowed(text.as_bytes()),
            places: None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The place in the text of a range of bytes, which is not empty.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        match &self.places {
            None => range,
            Some(places) => places[range.start].0 as usize..places[range.end - 1].1 as usize,
        }
    }

    /// Whether nothing was removed before the byte at `at`, which is not the first.
    pub(super) fn is_joined(&self, at: usize) -> bool {
        let places = self.places.as_ref();
        places.is_none_or(|places| places[at - 1].1 == places[at].0)
    }

    /// The view with one level of escapes removed; `None` if it has none.
    pub(super) fn decoded(&self) -> Option<View<'static>> {
        let has_escape = |byte: &u8| b"%&\\\n\r\0<".contains(byte);
        let first = self.bytes.iter().position(has_escape)?;
        let mut bytes = self.bytes[..first].to_vec();
        let mut places: Vec<(u32, u32)> = (0..first).map(|at| self.ends(at..at + 1)).collect();
        let mut at = first;
        while at < self.bytes.len() {
            let (length, decoded) = step(&self.bytes[at..]);
            let place = self.ends(at..at + length);
            bytes.extend_from_slice(&decoded.bytes[..decoded.length]);
            places.extend(std::iter::repeat_n(place, decoded.length));
            at += length;
        }
        (bytes.len() < self.bytes.len()).then_some(View {
            bytes: Cow::Owned(bytes),
            places: Some(places),
        })
    }

    fn ends(&self, range: Range<usize>) -> (u32, u32) {
        let place = self.place(range);
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        (short(place.start), short(place.end))
    }
}

/// The bytes of at most one letter.
#[derive(Default)]
struct Decoded {
    bytes: [u8; 4],
    length: usize,
}

impl From<u8> for Decoded {
    fn from(byte: u8) -> Self {
        Self {
            bytes: [byte, 0, 0, 0],
            length: 1,
        }
    }
}

impl From<char> for Decoded {
    fn from(letter: char) -> Self {
        let mut bytes = [0; 4];
        let length = letter.encode_utf8(&mut bytes).len();
        Self { bytes, length }
    }
}

/// The number of bytes that the first letter takes, and the letter.
fn step(bytes: &[u8]) -> (usize, Decoded) {
    let escaped = match bytes[0] {
        b'%' => number(bytes, 1, 2).and_then(|code| Some((3, u8::try_from(code).ok()?.into()))),
        b'&' => entity(bytes),
        b'\\' => backslash(bytes),
        b'\n' | b'\r' => Some((line_end(bytes, 1), Decoded::default())),
        0 => Some((1, Decoded::default())),
        _ => None,
    };
    let is_break = |tag: &&&[u8]| bytes.starts_with(tag);
    let html_break = || {
        BREAKS
            .iter()
            .find(is_break)
            .map(|tag| (tag.len(), Decoded::default()))
    };
    escaped.or_else(html_break).unwrap_or((1, bytes[0].into()))
}

/// The length of a line end, with the white space of the next line; `from` bytes are known.
fn line_end(bytes: &[u8], from: usize) -> usize {
    let is_white = |byte: &&u8| byte.is_ascii_whitespace();
    from + bytes[from..].iter().take_while(is_white).count()
}

fn number(bytes: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = bytes.get(from..from + digits)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
}

fn entity(bytes: &[u8]) -> Option<(usize, Decoded)> {
    let most = &bytes[..bytes.len().min(ENTITY_BYTES_MAX)];
    let end = memchr::memchr(b';', most)?;
    let name = std::str::from_utf8(&bytes[1..end]).ok()?;
    let letter = match name.strip_prefix('#') {
        Some(code) => {
            let code = match code.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => code.parse(),
            };
            char::from_u32(code.ok()?)?
        }
        None => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((end + 1, letter.into()))
}

fn backslash(bytes: &[u8]) -> Option<(usize, Decoded)> {
    match *bytes.get(1)? {
        b'u' => {
            let code = number(bytes, 2, 4)?;
            Some((6, char::from_u32(code)?.into()))
        }
        b'x' => Some((4, u8::try_from(number(bytes, 2, 2)?).ok()?.into())),
        b't' => Some((2, b'\t'.into())),
        // A line end in a string, or at the end of a line that goes on.
        b'n' | b'r' => Some((2, Decoded::default())),
        b'\n' => Some((line_end(bytes, 2), Decoded::default())),
        letter if letter.is_ascii_punctuation() => Some((2, letter.into())),
        _ => None,
    }
}
