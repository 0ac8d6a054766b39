//! Numbers as the plugin parses them: `strtoll` with base 0. A unit suffix is silently
//! dropped, other text is 0, and a number out of range is replaced with the default, which
//! one INFO line reports.
#![forbid(unsafe_code)]

use super::table::VariableTable;
use super::{Environment, Findings, Fix, LintKind, pair};
use tcpx_soft::strtoll;

pub(super) fn check(table: &VariableTable, environment: &Environment, findings: &mut Findings) {
    for (name, value) in environment {
        let Some(variable) = table.variable(name) else {
            continue;
        };
        let Some((least, most)) = variable.integer else {
            continue;
        };
        // The fix is the published value if there is one, else the default.
        let fix = match &variable.recommended {
            Some(value) => Fix::Set(name.clone(), value.clone()),
            None => Fix::Unset(name.clone()),
        };
        match strtoll(value) {
            _ if !is_whole(value) => {
                let taken =
                    strtoll(value).map_or("the default".to_owned(), |number| number.to_string());
                let meant = with_unit(value).filter(|meant| (least..=most).contains(meant));
                let fix = meant.map_or(fix, |meant| Fix::Set(name.clone(), meant.to_string()));
                findings.add(
                    LintKind::NotANumber,
                    format!("{} is read as {taken}", pair(environment, name)),
                    [fix],
                );
            }
            Some(number) if !(least..=most).contains(&number) => {
                let text = format!(
                    "{} is outside {least} to {most}; the plugin uses its default",
                    pair(environment, name)
                );
                findings.add(LintKind::OutOfRange, text, [fix]);
            }
            Some(_) => {}
            None => {
                let text = format!(
                    "{} is not a 64-bit number; the plugin uses its default",
                    pair(environment, name)
                );
                findings.add(LintKind::OutOfRange, text, [fix]);
            }
        }
    }
}

/// The number that the plugin reads from a variable; `None` if it is unset or too large.
pub(crate) fn integer(environment: &Environment, name: &str) -> Option<i64> {
    environment.get(name).and_then(|value| strtoll(value))
}

/// Whether the whole text is one number.
fn is_whole(text: &str) -> bool {
    let digits = text.trim_start().trim_start_matches(['+', '-']);
    let (digits, is_digit): (&str, fn(&u8) -> bool) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], u8::is_ascii_hexdigit),
        _ if digits.starts_with('0') => (digits, |byte| (b'0'..=b'7').contains(byte)),
        _ => (digits, u8::is_ascii_digit),
    };
    !digits.is_empty() && digits.bytes().all(|byte| is_digit(&byte))
}

/// The number that was meant by `512K`: 524288.
fn with_unit(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let factor = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_that_is_all_number_is_whole() {
        for (text, expected) in [
            ("524288", true),
            ("0x80000", true),
            ("-1", true),
            (" 8", true),
            ("0", true),
            ("017", true),
            ("512K", false),
            ("08", false),
            ("", false),
            ("-", false),
            ("0x", false),
            ("yes", false),
            ("1 ", false),
        ] {
            assert_eq!(is_whole(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_unit_is_understood_by_us_if_not_by_the_plugin() {
        assert_eq!(with_unit("512K"), Some(524_288));
        assert_eq!(with_unit("4MiB"), Some(4 << 20));
        assert_eq!(with_unit("9223372036854775807G"), None);
        assert_eq!(with_unit("5 apples"), None);
        assert_eq!(with_unit("é"), None);
    }
}
