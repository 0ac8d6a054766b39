//! Numbers as the plugin's parser takes them: `strtoll` with base 0. A unit
//! suffix is dropped in silence, garbage is 0, a number out of range restores
//! the default and says so in a line that nobody reads.
#![forbid(unsafe_code)]

use super::table::Table;
use super::{Environment, Findings, Fix, Kind, pair};
use tcpx_soft::strtoll;

pub(super) fn look(table: &Table, environment: &Environment, findings: &mut Findings) {
    for (name, value) in environment {
        let Some(variable) = table.variable(name) else {
            continue;
        };
        let Some((least, most)) = variable.integer else {
            continue;
        };
        // A published value where there is one; else the default is the mend.
        let mend = match &variable.recommended {
            Some(value) => Fix::Set(name.clone(), value.clone()),
            None => Fix::Unset(name.clone()),
        };
        match strtoll(value) {
            _ if !is_whole(value) => {
                let taken =
                    strtoll(value).map_or("the default".to_owned(), |number| number.to_string());
                let meant = with_unit(value).filter(|meant| (least..=most).contains(meant));
                let mend = meant.map_or(mend, |meant| Fix::Set(name.clone(), meant.to_string()));
                findings.add(
                    Kind::NotANumber,
                    format!("{} is read as {taken}", pair(environment, name)),
                    [mend],
                );
            }
            Some(number) if !(least..=most).contains(&number) => {
                let text = format!(
                    "{} is outside {least} to {most}: the default is used instead",
                    pair(environment, name)
                );
                findings.add(Kind::OutOfRange, text, [mend]);
            }
            Some(_) => {}
            None => {
                let text = format!(
                    "{} is no 64-bit number: the default is used instead",
                    pair(environment, name)
                );
                findings.add(Kind::OutOfRange, text, [mend]);
            }
        }
    }
}

/// What the plugin takes a variable for; none where it is unset or too large.
pub(crate) fn integer(environment: &Environment, name: &str) -> Option<i64> {
    environment.get(name).and_then(|value| strtoll(value))
}

/// Whether all of the text is the number.
fn is_whole(text: &str) -> bool {
    let digits = text.trim_start().trim_start_matches(['+', '-']);
    let (digits, is_digit): (&str, fn(&u8) -> bool) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], u8::is_ascii_hexdigit),
        _ if digits.starts_with('0') => (digits, |byte| (b'0'..=b'7').contains(byte)),
        _ => (digits, u8::is_ascii_digit),
    };
    !digits.is_empty() && digits.bytes().all(|byte| is_digit(&byte))
}

/// `512K` as whoever wrote it meant it.
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
    fn a_number_is_whole_or_it_is_not() {
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
