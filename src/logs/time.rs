//! Parses times in logs without allocating.
//!
//! The format is year, month and day with dashes, then a blank, `T`, `_` or, as HCCL writes it, a dash, then hours,
//! minutes and seconds; a fraction and a zone may follow. A time without a zone is UTC. The times
//! of glog before 0.6, `E1120 08:14:04.531042`, and of vLLM have no year: it is that of the first time
//! that has one, near the beginning of the log, or of any date of the same day there. Without one, the first time is
//! of the last such day that is neither in the future nor after the file was written, and all others are near it, also
//! over the end of a year; reports then show no year.
#![forbid(unsafe_code)]

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use memchr::memchr_iter;

/// Digits of a date with its year, as glog writes it.
const YEAR_DIGITS: usize = 8;
/// `2026-11-20T08:14:04`.
const SIZE: usize = 19;
const DAY_SECONDS: i64 = 86_400;
/// Years after which a 29th of February comes again at the latest.
const LEAP_YEARS: i64 = 8;
/// A file that is said to be older has a wrong date: 2015, the year of the first NCCL.
const FILES_SINCE: i64 = 1_420_070_400;
/// Bytes of a line that its time is in.
const FRONT: usize = 128;

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

/// The first time in a text that is `E20261120 08:14:04.531042` or `E1120 08:14:04.531042` of glog, `E724 08:34:00.939894207` of PyTorch or `11-20 08:14:04` of vLLM, in microseconds since 1970.
pub(super) fn yearless(text: &[u8], years: Years) -> Option<i64> {
    yearless_places(text).find_map(|at| {
        let GlogTime {
            year,
            month,
            day,
            clock,
            rest,
        } = glog_time(&text[at..])?;
        let of_day = 3600 * digits(&clock[..2]) + 60 * digits(&clock[3..5]) + digits(&clock[6..]);
        let (month, day) = (digits(month), digits(day));
        let days = match year {
            Some(year) => Some(digits(year))
                .filter(|year| is_day(*year, month, day))
                .map(|year| days(year, month, day)),
            None => years.day(month, day, of_day),
        }?;
        Some(1_000_000 * (days * DAY_SECONDS + of_day) + fraction(rest).0)
    })
}

/// The offsets of texts that have the form of a time without a year, whatever its digits are.
pub(super) fn yearless_places(text: &[u8]) -> impl Iterator<Item = usize> {
    let start = |blank: usize| {
        let is_inside = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
        let before = text[..blank].iter().rposition(|byte| !is_inside(byte));
        // The level of glog is a part of it; what is before a month is not.
        let after = before.map_or(0, |at| at + 1);
        match before {
            Some(at) if blank - after < 5 || blank - after == YEAR_DIGITS => at,
            _ => after,
        }
    };
    // The first colon of a clock is rarer than a blank.
    let blank = |colon: usize| {
        let blank = colon.checked_sub(3)?;
        (text[blank] == b' ' && text.get(colon + 3) == Some(&b':')).then_some(blank)
    };
    let places = memchr_iter(b':', text).filter_map(blank).map(start);
    places.filter(|at| glog_time(&text[*at..]).is_some())
}

/// The parts of a time that begins a text, and the rest.
struct GlogTime<'a> {
    year: Option<&'a [u8]>,
    month: &'a [u8],
    day: &'a [u8],
    clock: &'a [u8],
    rest: &'a [u8],
}

fn glog_time(text: &[u8]) -> Option<GlogTime<'_>> {
    let blank = text.iter().take(10).position(|byte| *byte == b' ')?;
    let (date, rest) = text.split_at(blank);
    let (year, month, day) = match date {
        // glog writes the year since 0.6.
        [b'I' | b'W' | b'E' | b'F', date @ ..] if date.len() == YEAR_DIGITS => {
            (Some(&date[..4]), &date[4..6], &date[6..])
        }
        [b'I' | b'W' | b'E' | b'F', date @ ..] => {
            let (month, day) = date.split_at_checked(date.len().wrapping_sub(2))?;
            (None, month, day)
        }
        [_, _, b'-', _, _] => (None, &date[..2], &date[3..]),
        _ => return None,
    };
    let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_date = |part: &[u8]| (1..=2).contains(&part.len()) && is_number(part);
    let (clock, rest) = rest[1..].split_at_checked(8)?;
    let is_in_clock = |(at, byte): (usize, &u8)| match at {
        2 | 5 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let has_form = is_date(month)
        && is_date(day)
        && year.is_none_or(is_number)
        && clock.iter().enumerate().all(is_in_clock);
    has_form.then_some(GlogTime {
        year,
        month,
        day,
        clock,
        rest,
    })
}

/// What tells the year of times that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Years {
    /// A second since 1970, and its year.
    seconds: i64,
    pub(super) year: i64,
    /// Whether times are near it, as a log does not last half a year; or else not after it.
    is_near: bool,
    /// Whether no time of the log has a year, so that the date of its file gives it.
    pub(super) is_assumed: bool,
}

impl Default for Years {
    fn default() -> Self {
        Self::until(None)
    }
}

impl Years {
    /// For lines that were written before now, and before their file was last written, in seconds.
    pub(super) fn until(written: Option<i64>) -> Self {
        let now = jiff::Timestamp::now().as_second();
        let written = written.filter(|written| *written >= FILES_SINCE);
        // The log may be of a zone that is up to a day ahead.
        Self::new(now.min(written.unwrap_or(now)) + DAY_SECONDS, false)
    }

    fn new(seconds: i64, is_near: bool) -> Self {
        let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        let year = time.to_zoned(TimeZone::UTC).year().into();
        Self {
            seconds,
            year,
            is_near,
            is_assumed: false,
        }
    }

    /// For a log with this text: its first time with a year is near all others, and else its first
    /// time without one.
    pub(super) fn of_log(self, text: &[u8]) -> Self {
        if self.is_near {
            return self;
        }
        let fronts = || {
            let lines = text.split(|byte| *byte == b'\n');
            lines.map(|line| &line[..line.len().min(FRONT)])
        };
        let near = |time: i64, is_assumed| Self {
            is_assumed,
            ..Self::new(time.div_euclid(1_000_000), true)
        };
        let known = fronts().find_map(find).map(|time| near(time, false));
        let assumed = || {
            let time = fronts().find_map(|front| yearless(front, self))?;
            let year = dated(text, time);
            let of_year = year.and_then(|year| in_year(time, year));
            Some(near(of_year.unwrap_or(time), of_year.is_none()))
        };
        known.or_else(assumed).unwrap_or(self)
    }

    /// Days since 1970 of the day with this month and number in the year that is meant; `of_day`
    /// is its second.
    fn day(self, month: i64, day: i64, of_day: i64) -> Option<i64> {
        let last = self.year + i64::from(self.is_near);
        let is_day = |year: &i64| is_day(*year, month, day);
        let days = (last - LEAP_YEARS..=last)
            .rev()
            .filter(is_day)
            .map(|year| days(year, month, day));
        let after = |days: &i64| days * DAY_SECONDS + of_day - self.seconds;
        if self.is_near {
            return days.min_by_key(|days| after(days).abs());
        }
        days.into_iter().find(|days| after(days) <= 0)
    }
}

/// The year in any date of the day of a time: `2025:08:14`, `2025/08/14`, `20250814_0914` or `Aug 14 09:14:04 2025`.
fn dated(text: &[u8], time: i64) -> Option<i16> {
    let day = jiff::Timestamp::from_microsecond(time).ok()?;
    let day = day.to_zoned(TimeZone::UTC);
    let numbers = day.strftime("%m[-:/._]?%d").to_string();
    let names = day.strftime("%b +%-d").to_string();
    let words = format!(
        r"(?:^|[^\d.])(?P<year>20\d\d)[-:/._]?{numbers}(?:\D|$)|\b{names},? [\d:.]* ?(?:[A-Z]{{3,4}} )?(?P<year2>20\d\d)\b"
    );
    let found = regex::bytes::Regex::new(&words).ok()?;
    let found = found.captures(text)?;
    let year = found.name("year").or(found.name("year2"))?;
    i16::try_from(digits(year.as_bytes())).ok()
}

/// The same day and clock in another year.
fn in_year(time: i64, year: i16) -> Option<i64> {
    let time = jiff::Timestamp::from_microsecond(time).ok()?;
    let time = time.to_zoned(TimeZone::UTC).with().year(year).build();
    Some(time.ok()?.timestamp().as_microsecond())
}

/// A time as [`shown`] writes it, without its year.
pub(super) fn without_year(shown: &str) -> Option<&str> {
    Some(shown.split_once('-')?.1)
}

/// The value of a few digits.
fn digits(text: &[u8]) -> i64 {
    let add = |sum, digit: &u8| 10 * sum + i64::from(digit - b'0');
    text.iter().fold(0, add)
}

/// Whether a month of a year has a day.
fn is_day(year: i64, month: i64, day: i64) -> bool {
    (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day)
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
        10 => matches!(byte, b' ' | b'T' | b'_' | b'-'),
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

    fn seconds(text: &str) -> i64 {
        typed(text).expect("a time") / 1_000_000
    }

    #[test]
    fn a_log_without_a_year_says_that_it_is_assumed() {
        let years = Years::new(seconds("2026-11-21T12:00:00Z"), false);
        let check = |text: &str, expected: bool| {
            let years = years.of_log(text.as_bytes());
            assert_eq!(years.is_assumed, expected, "{text}");
        };
        check("E1120 08:14:04.531042 71 a.cc:7] it failed\n", true);
        check("E1120 08:14:04.531042 a\n2026-11-20 08:14:05 b\n", false);
        check("no time\n", false);
    }

    #[test]
    fn a_time_without_a_year_is_of_the_last_one_in_which_it_is_past() {
        let years = Years::new(seconds("2026-11-21T12:00:00Z"), false);
        let check = |text: &str, expected: Option<&str>| {
            let time = yearless(text.as_bytes(), years).and_then(shown);
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
        check(
            "(Worker pid=7) ERROR 11-20 08:14:04 [core.py:9] x",
            Some("2026-11-20T08:14:04Z"),
        );
        check("W1121 11:59:59 1 a.cc:1] x", Some("2026-11-21T11:59:59Z"));
        check("W1121 12:00:01 1 a.cc:1] x", Some("2025-11-21T12:00:01Z"));
        check("F0229 00:00:00 1 a.cc:1] x", Some("2024-02-29T00:00:00Z"));
        check("E0230 00:00:00 1 a.cc:1] x", None);
        check("E x E814 1:2 ERROR 01:57:12", None);
        check("2-11-20 08:14:04 E 08:14:04 -- 08:14:04", None);
    }

    #[test]
    fn a_time_of_glog_with_a_year_is_of_that_year() {
        let years = Years::new(seconds("2026-11-21T12:00:00Z"), false);
        let check = |text: &str, expected: Option<&str>| {
            let time = yearless(text.as_bytes(), years).and_then(shown);
            assert_eq!(time.as_deref(), expected, "{text}");
            assert!(!years.of_log(text.as_bytes()).is_assumed, "{text}");
        };
        check(
            "[0] E20250321 23:59:59.500000 12345 file.cc:12] x",
            Some("2025-03-21T23:59:59.5Z"),
        );
        check(
            "I20271231 00:00:00.000001 7 a.cc:1] x",
            Some("2027-12-31T00:00:00.000001Z"),
        );
        check("E20250230 00:00:00 1 a.cc:1] x", None);
        check("E2025032a 00:00:00 1 a.cc:1] x", None);
    }

    #[test]
    fn a_log_over_the_end_of_a_year_goes_on() {
        let years = Years::new(seconds("2026-11-21T12:00:00Z"), false);
        let check = |begin: &str, text: &str, expected: &str| {
            let years = years.of_log(begin.as_bytes());
            let time = yearless(text.as_bytes(), years).and_then(shown);
            assert_eq!(time.as_deref(), Some(expected), "{begin} {text}");
        };
        let december = "begin\nI1231 23:59:59 7 a.cc:1] x\n";
        check(
            december,
            "I0101 00:00:01 7 a.cc:1] x",
            "2026-01-01T00:00:01Z",
        );
        // The first line would be past this year too, the last one would not.
        let dated = "2024-11-20 08:14:04 begin\n";
        check(dated, "I1123 08:14:04 7 a.cc:1] x", "2024-11-23T08:14:04Z");
        check(dated, "I0102 08:14:04 7 a.cc:1] x", "2025-01-02T08:14:04Z");
        let november = "I1120 08:14:04 7 a.cc:1] x\n";
        check(
            november,
            "I1123 08:14:04 7 a.cc:1] x",
            "2026-11-23T08:14:04Z",
        );
    }

    #[test]
    fn a_file_that_was_written_long_ago_has_the_years_of_then() {
        let written = Years::until(Some(seconds("2021-03-04T00:00:00Z")));
        let time = yearless(b"E1120 08:14:04 7 a.cc:1] x", written).and_then(shown);
        assert_eq!(time.as_deref(), Some("2020-11-20T08:14:04Z"));
        // A date of 1980 is that of an archive without dates.
        assert_eq!(
            Years::until(Some(seconds("1980-01-01T00:00:00Z"))),
            Years::until(None)
        );
    }
}
