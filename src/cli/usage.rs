//! clap's usage errors, made safe for a terminal.
//!
//! clap repeats arguments as they are, and a name of a file that a shell put in place of `*` may
//! have control characters and line ends. Its own styles are control characters too, so the
//! values that it puts into its text are cleaned, not the text.
#![forbid(unsafe_code)]

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::error::Error as _;
use tcpx_words::units::printable;

/// The same error, without control characters in what it repeats.
pub(super) fn with_printable_arguments(mut error: Error) -> Error {
    let cleaned: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, cleaned(value)?)))
        .collect();
    let is_clean = cleaned.is_empty();
    for (kind, value) in cleaned {
        error.insert(kind, value);
    }
    if !is_clean {
        without_styles(&mut error);
    }
    with_printable_reason(error)
}

/// A value as [`printable`] text; `None` if it is that already, or is clap's own.
fn cleaned(value: &ContextValue) -> Option<ContextValue> {
    match value {
        ContextValue::String(text) => {
            let clean = printable(text);
            (clean != *text).then_some(ContextValue::String(clean))
        }
        ContextValue::Strings(texts) => {
            let clean: Vec<String> = texts.iter().map(|text| printable(text)).collect();
            (clean != *texts).then_some(ContextValue::Strings(clean))
        }
        _ => None,
    }
}

/// Suggestions repeat arguments between clap's styles, which are taken off with what the
/// arguments hold.
fn without_styles(error: &mut Error) {
    let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) else {
        return;
    };
    let plain = |tip: &StyledStr| StyledStr::from(printable(&tip.to_string()));
    let tips = tips.iter().map(plain).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// The reason why a value is refused comes from its parser and may repeat the value. clap lets
/// nobody replace it, so such an error is written anew.
fn with_printable_reason(error: Error) -> Error {
    let reason = match error.source() {
        Some(source) if error.kind() == ErrorKind::ValueValidation => source.to_string(),
        _ => return error,
    };
    let clean = printable(&reason);
    let (Some(argument), Some(value)) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) else {
        return error;
    };
    if clean == reason {
        return error;
    }
    let message = format!("invalid value '{value}' for '{argument}': {clean}\n");
    Error::raw(ErrorKind::ValueValidation, message).with_cmd(&super::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[&str]) -> String {
        let error = super::super::command()
            .try_get_matches_from(words)
            .expect_err("a usage error");
        let error = with_printable_arguments(error);
        error.render().ansi().to_string()
    }

    /// Nothing of the arguments reaches the terminal as a control sequence or a line of its own.
    fn check(words: &[&str], expected: &str) {
        let text = told(words);
        let plain = StyledStr::from(text.clone()).to_string();
        assert!(plain.starts_with(expected), "{text:?}");
        let is_hostile = |line: &str| line.starts_with("forged") || line.ends_with('\r');
        assert!(!text.lines().any(is_hostile), "{text:?}");
        assert!(
            !text.contains("\x1b[2J") && !text.contains('\u{7}'),
            "{text:?}"
        );
    }

    #[test]
    fn an_argument_that_is_repeated_has_no_control_characters() {
        const HOSTILE: &str = "--x\x1b[2J\u{7}\r\nforged: line";
        check(
            &["tcpxctl", "logs", "a.log", HOSTILE],
            "error: unexpected argument '--x[2J forged: line' found\n\n  tip: to pass",
        );
        check(
            &["tcpxctl", "a\x1b[2J\nforged\n\nforged"],
            "error: unrecognized subcommand 'a[2J forged forged'",
        );
        check(
            &["tcpxctl", "topic", "polling", "b\x1b[2J\nforged"],
            "error: unexpected argument 'b[2J forged' found",
        );
        check(
            &["tcpxctl", "topic", "--color", "re\x1b[2J\nforged"],
            "error: invalid value 're[2J forged' for '--color <WHEN>'\n  [possible values: auto",
        );
        // The reason repeats the value, too.
        check(
            &["tcpxctl", "gpu", "--chunk", "1\x1b[2J\nforged"],
            "error: invalid value '1[2J forged' for '--chunk <SIZE>': `1[2J forged` is not a size",
        );
        check(
            &["tcpxctl", "watch", "--size", "1\x1b[2J\nforged"],
            "error: invalid value '1[2J forged' for '--size <COLUMNSxLINES>': expected COLUMNSxLINES",
        );
    }

    #[test]
    fn an_error_with_plain_arguments_stays_as_clap_wrote_it() {
        let words = ["tcpxctl", "logs", "--jsn"];
        let error = super::super::command().try_get_matches_from(words);
        let before = error
            .expect_err("a usage error")
            .render()
            .ansi()
            .to_string();
        assert_eq!(told(&words), before);
        assert!(before.contains('\x1b'), "{before:?}");
    }
}
