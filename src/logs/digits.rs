//! Texts without the values of their digits.
#![forbid(unsafe_code)]

use regex_syntax::hir::{Class, Hir, HirKind};

/// A text with `0` for every digit.
pub(super) fn form(text: &[u8]) -> Vec<u8> {
    let mut form = Vec::new();
    write_form(text, &mut form);
    form
}

/// As [`form`], in a buffer.
pub(super) fn write_form(text: &[u8], form: &mut Vec<u8>) {
    // Two slices of one size, because the compiler does not vectorize `extend`.
    form.resize(text.len(), 0);
    for (zeroed, byte) in form.iter_mut().zip(text) {
        *zeroed = if byte.is_ascii_digit() { b'0' } else { *byte };
    }
}

/// Whether a regex may treat two texts of one form differently: it has a digit, or a class
/// with some of the digits only.
pub(super) fn tells_apart(regex: &Hir) -> bool {
    let is_digit = |byte: u32| (u32::from(b'0')..=u32::from(b'9')).contains(&byte);
    // All digits or none of them.
    let splits = |start: u32, end: u32| {
        let before = start <= u32::from(b'0') && end >= u32::from(b'9');
        !before && (is_digit(start) || is_digit(end))
    };
    match regex.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.iter().any(u8::is_ascii_digit),
        HirKind::Class(Class::Bytes(class)) => class
            .iter()
            .any(|range| splits(range.start().into(), range.end().into())),
        HirKind::Class(Class::Unicode(class)) => class
            .iter()
            .any(|range| splits(range.start().into(), range.end().into())),
        HirKind::Repetition(repetition) => tells_apart(&repetition.sub),
        HirKind::Capture(capture) => tells_apart(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(tells_apart),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regex_with_a_digit_or_a_part_of_the_digits_tells_them_apart() {
        let parsed = |regex: &str| {
            let mut builder = regex_syntax::ParserBuilder::new();
            let parsed = builder.unicode(false).utf8(false).build().parse(regex);
            parsed.unwrap()
        };
        let check = |regex: &str, expected: bool| {
            assert_eq!(tells_apart(&parsed(regex)), expected, "{regex}")
        };
        check(r"rc=[1-9]", true);
        check(r"v7", true);
        check(r"(?:a|\x31)", true);
        check(r"[^0]", true);
        check(r"x[!-5]+", true);
        check(
            r"(?P<code>\d{3}) \w+ .* [^ ]+ [0-9a-f]+ [A-Z] \bx{1,3}",
            false,
        );
        check(r"(?i)nccl[^\n\d]*$", false);
    }
}
