//! Quantities as types, and the one place that prints them.
#![forbid(unsafe_code)]

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes. Written as `4096`, `"512KiB"`, `"64MiB"`, `"1GB"`. `K`, `M`, `G` and
/// suffixes with `i` are powers of 1024, the others powers of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

/// A quantity that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct BadQuantity {
    text: String,
    expected: &'static str,
}

const SIZE: &str = "a size such as 4096, \"512KiB\" or \"64MiB\"";
const SUFFIXES: [(&str, u64); 13] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("B", 1),
];

impl ByteCount {
    /// As an index or length. A size that does not fit becomes `usize::MAX`.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Rounded to one decimal of the largest unit that fits, for display: `79.1 GiB`.
    pub fn about(self) -> String {
        let unit = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
            .into_iter()
            .find(|(_, unit)| self.0 >= *unit);
        match unit {
            Some((suffix, unit)) => format!("{:.1} {suffix}", self.0 as f64 / unit as f64),
            None => format!("{} B", self.0),
        }
    }
}

impl FromStr for ByteCount {
    type Err = BadQuantity;
    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity {
            text: text.chars().take(40).collect(),
            expected: SIZE,
        };
        let trimmed = text.trim();
        let (number, unit) = SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| trimmed.strip_suffix(suffix).map(|number| (number, *unit)))
            .unwrap_or((trimmed, 1));
        let number: u64 = number.trim_end().parse().map_err(|_| bad())?;
        number.checked_mul(unit).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
            .into_iter()
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        match exact {
            Some((suffix, unit)) => f.pad(&format!("{}{suffix}", self.0 / unit)),
            None => f.pad(&format!("{}B", self.0)),
        }
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SIZE)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ByteCount, E> {
                Ok(ByteCount(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ByteCount, E> {
                u64::try_from(value)
                    .map(ByteCount)
                    .map_err(|_| E::custom(format!("`{value}` is not {SIZE}")))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<ByteCount, E> {
                value.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// A length of time with its unit: `"3s"`, `"100ms"`, `"10us"`, `"2m"`. A number without a
/// unit is rejected, because its unit would be a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeSpan(pub Duration);

const TIME: &str = "a time with its unit, such as \"3s\", \"100ms\" or \"10us\"";
// Longest suffix first where one ends in another: `ms` before `s`.
const TIME_SUFFIXES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl TimeSpan {
    /// A time in nanoseconds.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(Duration::from_nanos(nanoseconds))
    }
    /// A time in milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
    /// A time in seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for TimeSpan {
    type Err = BadQuantity;
    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity {
            text: text.chars().take(40).collect(),
            expected: TIME,
        };
        let trimmed = text.trim();
        let (number, unit) = TIME_SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| trimmed.strip_suffix(suffix).map(|number| (number, *unit)))
            .ok_or_else(bad)?;
        let number: u64 = number.trim_end().parse().map_err(|_| bad())?;
        number
            .checked_mul(unit)
            .map(Self::from_nanos)
            .ok_or_else(bad)
    }
}

impl fmt::Display for TimeSpan {
    /// In the largest unit that is exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let exact = TIME_SUFFIXES
            .iter()
            .rev()
            .find(|(_, unit)| nanoseconds.is_multiple_of(u128::from(*unit)));
        match exact {
            Some((suffix, unit)) if nanoseconds > 0 => {
                f.pad(&format!("{}{suffix}", nanoseconds / u128::from(*unit)))
            }
            _ => f.pad("0s"),
        }
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = TimeSpan;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(TIME)
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<TimeSpan, E> {
                value.parse().map_err(E::custom)
            }
        }
        from.deserialize_str(Visitor)
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        span.0
    }
}

/// Bytes over time, kept as both; the rate is derived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Bytes moved.
    pub bytes: u64,
    /// Time that moving them took.
    pub elapsed: Duration,
}

impl Rate {
    /// The rate in 10^9 bytes per second; 0 if `elapsed` is 0, never infinite or NaN.
    pub fn gb_per_s(self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 / seconds / 1e9
        } else {
            0.0
        }
    }
}

/// The current time, for file names: `20261120T101500Z`.
pub fn stamp_utc() -> String {
    jiff::Timestamp::now()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}

/// The current time in RFC 3339, with milliseconds.
pub fn now_utc() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

/// A time in RFC 3339, with milliseconds; `us` is microseconds since 1970.
pub fn utc_of_us(us: u64) -> String {
    let at = i64::try_from(us)
        .ok()
        .and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    at.unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

/// Nanoseconds since 1970 of an RFC 3339 time; `None` if the text is not one, or is before
/// 1970.
pub fn parse_utc_ns(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()
}

/// `1 thread`, `2 threads`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The current time in microseconds since 1970; 0 if the clock is before 1970.
pub fn now_us() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0)
}

/// Untrusted text made safe for a terminal: control characters are removed, line breaks and
/// tabs become single spaces.
pub fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\r' | '\t' if clean.ends_with(' ') => {}
            '\n' | '\r' | '\t' => clean.push(' '),
            c if is_reordering(c) => {}
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Whether a character changes the order in which the text behind it is displayed.
pub fn is_reordering(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text as part of a file name: at most 48 characters, any but letters, digits, `.`, `_` and
/// `-` replaced by `-`.
pub fn file_name(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(48)
        .collect()
}

/// One word of a POSIX shell command, quoted if needed so that the shell takes the text
/// unchanged.
pub fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/_.,:=+-".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Reads `from` to its end. Returns the SHA-256 in lower-case hexadecimal digits, and the
/// number of bytes.
///
/// # Errors
/// `from` cannot be read.
pub fn sha256(from: &mut dyn Read) -> io::Result<(String, u64)> {
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; 256 * 1024]);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok((hex(&hash.finalize()), size)),
            length => {
                hash.update(&piece[..length]);
                size += length as u64;
            }
        }
    }
}

/// The bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_and_without_a_suffix() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("512KiB", 524_288),
            ("64 MiB", 67_108_864),
            ("1GB", 1_000_000_000),
            ("2K", 2048),
            ("7B", 7),
        ] {
            assert_eq!(text.parse::<ByteCount>(), Ok(ByteCount(expected)), "{text}");
        }
        for text in [
            "",
            "-1",
            "1.5MiB",
            "KiB",
            "12 parsecs",
            "99999999999999999999",
            "18446744073709551615KiB",
        ] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_prints_as_it_was_written() {
        for text in ["0B", "1B", "4KiB", "512KiB", "64MiB", "3GiB", "1023B"] {
            assert_eq!(
                text.parse::<ByteCount>().map(|size| size.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn times_parse_with_their_unit() {
        for (text, nanoseconds) in [
            ("0s", 0),
            ("500ns", 500),
            ("10us", 10_000),
            ("100ms", 100_000_000),
            (" 3 s ", 3_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(
                text.parse::<TimeSpan>(),
                Ok(TimeSpan::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "3",
            "-3s",
            "1.5s",
            "3 fortnights",
            "18446744073709551615s",
            "99999999999999999999s",
        ] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_print_in_the_largest_unit_that_is_exact() {
        for (text, printed) in [
            ("0ms", "0s"),
            ("1500ms", "1500ms"),
            ("90s", "90s"),
            ("120s", "2m"),
            ("10000ns", "10us"),
        ] {
            assert_eq!(
                text.parse::<TimeSpan>().map(|time| time.to_string()),
                Ok(printed.to_owned())
            );
        }
    }

    #[test]
    fn a_bare_number_is_not_a_time() {
        let error = serde_json::from_str::<TimeSpan>("3")
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.contains("a time with its unit"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_size_and_any_time_prints_and_parses_again(number: u64) {
            proptest::prop_assert_eq!(ByteCount(number).to_string().parse(), Ok(ByteCount(number)));
            proptest::prop_assert_eq!(TimeSpan::from_nanos(number).to_string().parse(), Ok(TimeSpan::from_nanos(number)));
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text: String) {
            let _ = (text.parse::<ByteCount>(), text.parse::<TimeSpan>());
        }
    }

    #[test]
    fn a_rate_over_no_time_is_zero() {
        assert_eq!(
            Rate {
                bytes: 5,
                elapsed: Duration::ZERO
            }
            .gb_per_s(),
            0.0
        );
    }
}
