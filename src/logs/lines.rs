//! Walks over the lines around one, which are asked of many lines of a log.
#![forbid(unsafe_code)]

use memchr::memrchr;

/// The lines of a text that ends with one, the last one first.
pub(super) fn above(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text.strip_suffix(b"\n");
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memrchr(b'\n', text);
        rest = end.map(|end| &text[..end]);
        Some(end.map_or(text, |end| &text[end + 1..]))
    })
}
