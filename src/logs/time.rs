//! Parses times in logs without allocating.
//!
//! The format is year, month and day with dashes, then a blank, `T` or `_`, then hours,
//! minutes and seconds; a fraction and a zone may follow. A time without a zone is UTC. glog's
//! form, `E1120 08:14:04.531042`, has no year: it is read as the last such day that is not in
//! the future.
#![forbid(unsafe_code)]

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use memchr::memchr_iter;
use std::sync::LazyLock;

/// `2026-11-20T08:14:04`.
const SIZE: usize = 19;
const DAY_SECONDS: i64 = 86_400;
/// Years after which a 29th of February comes again at the latest.
const LEAP_YEARS: i64 = 8;

/// The first time in a text, in microseconds since 1970.
pub(super) fn find(text: &[u8]) -> Option<i64> {
    dashes(text).find_map(|at| parse(&text[at..]))
}

/// The offsets of texts that have the form of a time, whatever its digits are.
pub(super) fn places(text: &[u8]) -> impl Iterator<Item = usize> {
    dashes(text).filter(|at| has_form(&text[*at..]))
}

/// Four bytes before each dash: the dash after a year is rarer than a digit.
fn dashes(text: &[u8]) -> impl Iterator<Item = usize> {
    memchr_iter(b'-', text).filter_map(|dash| dash.checked_sub(4))
}

/// The first time of glog's form, `E1120 08:14:04.531042` or `E724 08:34:00.939894207`, in
/// microseconds since 1970.
pub(super) fn glog(text: &[u8]) -> Option<i64> {
    // The log may be of a zone that is up to a day ahead.
    static LATEST: LazyLock<Latest> =
        LazyLock::new(|| Latest::new(jiff::Timestamp::now().as_second() + DAY_SECONDS));
    glog_before(text, &LATEST)
}

/// A time that lines without a year are not later than.
struct Latest {
    seconds: i64,
    year: i64,
}

impl Latest {
    fn new(seconds: i64) -> Self {
        let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        let year = time.to_zoned(TimeZone::UTC).year().into();
        Self { seconds, year }
    }
}

/// As [`glog`]; the year is the last one in which the time is before `latest`.
fn glog_before(text: &[u8], latest: &Latest) -> Option<i64> {
    glog_places(text).find_map(|at| {
        let (date, clock, rest) = glog_parts(&text[at..])?;
        // PyTorch omits the leading zero of the month.
        let (month, day) = date.split_at(date.len() - 2);
        let of_day = 3600 * digits(&clock[..2]) + 60 * digits(&clock[3..5]) + digits(&clock[6..]);
        let days = last_day(digits(month), digits(day), of_day, latest)?;
        Some(1_000_000 * (days * DAY_SECONDS + of_day) + fraction(rest).0)
    })
}

/// The offsets of texts that have glog's form, whatever its digits are.
pub(super) fn glog_places(text: &[u8]) -> impl Iterator<Item = usize> {
    let level = |blank: usize| {
        text[..blank]
            .iter()
            .rposition(|byte| !byte.is_ascii_digit())
    };
    let places = memchr_iter(b' ', text).filter_map(level);
    places.filter(|at| glog_parts(&text[*at..]).is_some())
}

/// Date and clock at the start of a text of glog's form, and the rest.
fn glog_parts(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (level, rest) = text.split_first()?;
    let size = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (date, rest) = rest.split_at(size);
    let (clock, rest) = rest.strip_prefix(b" ")?.split_at_checked(8)?;
    let is_in_clock = |(at, byte): (usize, &u8)| match at {
        2 | 5 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let has_form = matches!(level, b'I' | b'W' | b'E' | b'F')
        && (3..=4).contains(&size)
        && clock.iter().enumerate().all(is_in_clock);
    has_form.then_some((date, clock, rest))
}

/// The value of a few digits.
fn digits(text: &[u8]) -> i64 {
    let add = |sum, digit: &u8| 10 * sum + i64::from(digit - b'0');
    text.iter().fold(0, add)
}

/// Days since 1970 of the last day of this month and number whose second `of_day` is not
/// after `latest`.
fn last_day(month: i64, day: i64, of_day: i64, latest: &Latest) -> Option<i64> {
    (latest.year - LEAP_YEARS..=latest.year)
        .rev()
        .filter(|year| (1..=12).contains(&month) && (1..=month_days(*year, month)).contains(&day))
        .map(|year| days(year, month, day))
        .find(|days| days * DAY_SECONDS + of_day <= latest.seconds)
}

/// The days of a month.
fn month_days(year: i64, month: i64) -> i64 {
    match month {
        12 => 31,
        _ => days(year, month + 1, 1) - days(year, month, 1),
    }
}

/// Whether a text begins as `2026-11-20T08:14:04` does.
fn has_form(text: &[u8]) -> bool {
    let is_in_form = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        10 => matches!(byte, b' ' | b'T' | b'_'),
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    text.get(..SIZE)
        .is_some_and(|fixed| fixed.iter().enumerate().all(is_in_form))
}

fn parse(text: &[u8]) -> Option<i64> {
    if !has_form(text) {
        return None;
    }
    let field = |at: usize, size: usize| digits(&text[at..at + size]);
    let (year, month, day) = (field(0, 4), field(5, 2), field(8, 2));
    let (hour, minute, second) = (field(11, 2), field(14, 2), field(17, 2));
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let (fraction, rest) = fraction(&text[SIZE..]);
    Some((seconds - zone_seconds(rest)) * 1_000_000 + fraction)
}

/// Days since 1970 of a Gregorian date. Years start in March, so that the leap day is the
/// last day of a year; an era has 400 years.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Parses `.123456` or `,123` as microseconds; returns the rest of the text too.
fn fraction(text: &[u8]) -> (i64, &[u8]) {
    let Some((b'.' | b',', rest)) = text.split_first() else {
        return (0, text);
    };
    let size = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digit = |at: usize| {
        rest[..size]
            .get(at)
            .map_or(0, |byte| i64::from(byte - b'0'))
    };
    (
        (0..6).fold(0, |sum, at| 10 * sum + digit(at)),
        &rest[size..],
    )
}

/// Parses `+02:00` and `-0500`; everything else is UTC.
fn zone_seconds(text: &[u8]) -> i64 {
    let Some((sign @ (b'+' | b'-'), rest)) = text.split_first() else {
        return 0;
    };
    let digits: Vec<i64> = rest
        .iter()
        .take(5)
        .filter(|byte| byte.is_ascii_digit())
        .map(|byte| i64::from(byte - b'0'))
        .collect();
    let &[h1, h0, m1, m0] = digits.as_slice() else {
        return 0;
    };
    let seconds = (10 * h1 + h0) * 3600 + (10 * m1 + m0) * 60;
    if *sign == b'+' { seconds } else { -seconds }
}

/// Parses a typed time: RFC 3339, with a blank for the `T`, without a zone, or only a date.
pub(super) fn typed(text: &str) -> Option<i64> {
    if let Some(time) = parse(text.as_bytes()) {
        return Some(time);
    }
    let date: jiff::civil::Date = text.parse().ok()?;
    Some(
        DateTime::from(date)
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_microsecond(),
    )
}

/// Formats a time as RFC 3339 in UTC.
pub(super) fn shown(time_us: i64) -> Option<String> {
    jiff::Timestamp::from_microsecond(time_us)
        .ok()
        .map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(
            find(text.as_bytes()).and_then(shown).as_deref(),
            expected,
            "{text}"
        );
    }

    #[test]
    fn times_are_found_anywhere_in_the_prefix() {
        check(
            "[2026-11-20 08:14:04] node0:1:2",
            Some("2026-11-20T08:14:04Z"),
        );
        check(
            "[pod/a-b/c-d] 2026-11-20T08:14:04.123456789Z x",
            Some("2026-11-20T08:14:04.123456Z"),
        );
        check("2026-11-20T10:14:04+02:00 x", Some("2026-11-20T08:14:04Z"));
        check(
            "2026-11-20 08:14:04,531 - x",
            Some("2026-11-20T08:14:04.531Z"),
        );
        check("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00Z"));
        check(
            "{\"time\":\"2026-11-20T08:14:04Z\",\"log\":\"x\"}",
            Some("2026-11-20T08:14:04Z"),
        );
    }

    #[test]
    fn text_without_a_time_has_none() {
        for text in [
            "",
            "2026-11-20",
            "2026-13-20 08:14:04",
            "1-2-3-4-5-6-7-8-9-10-11-12",
            "2026/11/20 08:14:04",
            "--------------------",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_typed_time_may_be_a_date() {
        assert_eq!(
            typed("2026-11-20").and_then(shown).as_deref(),
            Some("2026-11-20T00:00:00Z")
        );
        assert_eq!(typed("2026-11-20 08:14:04"), typed("2026-11-20T08:14:04Z"));
        assert_eq!(typed("yesterday"), None);
    }

    proptest! {
        #[test]
        fn a_time_that_was_written_is_read(time in 0_i64..4_000_000_000_000_000) {
            let text = shown(time).expect("in range");
            prop_assert_eq!(find(text.as_bytes()), Some(time), "{}", text);
        }

        #[test]
        fn any_text_has_a_time_or_none(text in "[0-9T:., Z+_-]{0,60}") {
            let _ = find(text.as_bytes());
        }
    }

    #[test]
    fn a_time_of_glog_is_of_the_last_year_in_which_it_is_past() {
        let latest = typed("2026-11-21T12:00:00Z").expect("a time") / 1_000_000;
        let latest = Latest::new(latest);
        let check = |text: &str, expected: Option<&str>| {
            let time = glog_before(text.as_bytes(), &latest).and_then(shown);
            assert_eq!(time.as_deref(), expected, "{text}");
        };
        check(
            "I1120 18:58:30.123456 12345 file.cc:12] x",
            Some("2026-11-20T18:58:30.123456Z"),
        );
        check(
            "[rank2]:[E814 01:57:12.008504165 ProcessGroupNCCL.cpp:542] x",
            Some("2026-08-14T01:57:12.008504Z"),
        );
        check("W1121 11:59:59 1 a.cc:1] x", Some("2026-11-21T11:59:59Z"));
        check("W1121 12:00:01 1 a.cc:1] x", Some("2025-11-21T12:00:01Z"));
        check("F0229 00:00:00 1 a.cc:1] x", Some("2024-02-29T00:00:00Z"));
        check("E0230 00:00:00 1 a.cc:1] x", None);
        check("E x E814 1:2 ERROR 01:57:12", None);
    }
}
