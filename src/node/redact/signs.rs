//! The signs of layouts at the beginning of a text: quotes, spaces, and what stands between a name and
//! its value, as they are and as HTML, URLs and JSON write them.
#![forbid(unsafe_code)]

/// Most escapes before a quote: JSON in a string of JSON in a string of JSON.
const ESCAPES_MAX: usize = 15;
/// Quotes in HTML, once and twice escaped, and in URLs.
const QUOTES: [&str; 8] = [
    "&quot;",
    "&#34;",
    "&#39;",
    "&apos;",
    "&amp;quot;",
    "&amp;#34;",
    "%22",
    "%27",
];
/// Spaces that are not ASCII, no-break and zero-width ones, and that of URLs.
const SPACES: [&str; 6] = [
    "\u{a0}", "\u{200b}", "\u{feff}", "\u{2060}", "\u{3000}", "%20",
];

/// The length of a text up to a byte that ends it.
pub(super) fn length(text: &str, ends: impl Fn(u8) -> bool) -> usize {
    let end = text.bytes().position(ends);
    end.unwrap_or(text.len())
}

/// The length of the space, or of the colour of a terminal, at the beginning of a text.
pub(super) fn space(text: &str) -> usize {
    if text.starts_with([' ', '\t']) {
        return 1;
    }
    let colour = text.strip_prefix("\u{1b}[").map(|rest| {
        let digits = length(rest, |byte| !(byte.is_ascii_digit() || byte == b';'));
        "\u{1b}[".len() + digits + usize::from(rest[digits..].starts_with('m'))
    });
    let space = SPACES.iter().find(|space| text.starts_with(**space));
    colour.or(space.map(|space| space.len())).unwrap_or(0)
}

/// The quote at the beginning of a text: as it is, three of it, behind the escapes of JSON in a
/// string, or in HTML.
pub(super) fn quote(text: &str) -> Option<&str> {
    let in_html = QUOTES.iter().find(|quote| text.starts_with(**quote));
    if let Some(quote) = in_html {
        return text.get(..quote.len());
    }
    let escapes = length(text, |byte| byte != b'\\');
    let sign = text[escapes..].chars().next()?;
    if !matches!(sign, '"' | '\'' | '`') || escapes > ESCAPES_MAX {
        return None;
    }
    let count = text.chars().take(3).filter(|next| *next == sign).count();
    let signs = if escapes == 0 && count == 3 { 3 } else { 1 };
    text.get(..escapes + signs)
}

/// `=`, `:` or what stands for them, at the beginning of a text.
pub(super) fn separator(text: &str) -> Option<&'static str> {
    const SEPARATORS: [&str; 15] = [
        ":=",
        "=>",
        "==",
        "->",
        "=",
        ":",
        "\u{ff1d}",
        "\u{ff1a}",
        "%3D",
        "%3d",
        "%3A",
        "&#61;",
        "set by environment to",
        "set to",
        "is set to",
    ];
    // A path of Rust or C++.
    if text.starts_with("::") {
        return None;
    }
    let begins = SEPARATORS
        .iter()
        .find(|written| text.starts_with(**written));
    begins.copied()
}
