//! Finds a constant word in a line. `memmem::find` makes a search each time, which takes longer than a short line.
#![forbid(unsafe_code)]

/// The offset of a constant word in a text: `find!(line, b" WARN ")`. The search for the word is made once.
macro_rules! find {
    ($text:expr, $word:expr) => {{
        static WORD: std::sync::LazyLock<memchr::memmem::Finder<'static>> =
            std::sync::LazyLock::new(|| memchr::memmem::Finder::new($word));
        WORD.find($text)
    }};
}

/// Whether a constant word is in a text: `has!(line, b"atchdog")`.
macro_rules! has {
    ($text:expr, $word:expr) => {
        $crate::word::find!($text, $word).is_some()
    };
}

/// What follows a constant word in a text, or `None`: `after!(line, b" rank ")`.
macro_rules! after {
    ($text:expr, $word:expr) => {{
        let text = $text;
        $crate::word::find!(text, $word).map(|at| &text[at + $word.len()..])
    }};
}

pub(crate) use {after, find, has};
